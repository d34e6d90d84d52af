//! The kernel's own description of its types and functions (BTF), as far as a program that reads a
//! struct of the kernel's needs it.

use std::fs;
use std::io;

/// Where the kernel shows it.
const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_FUNCTION: u32 = 12;
/// Structs of no name within one another, at most.
const DEPTH: u32 = 8;

/// One type.
#[derive(Clone, Copy, Debug)]
struct Type {
    name: u32,
    info: u32,
    /// Where the list of its members begins.
    more: usize,
}

impl Type {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }
    /// How many members there are.
    fn count(self) -> usize {
        (self.info & 0xffff) as usize
    }
    /// Bytes of what follows it, `None` for a kind that came after this was written.
    fn more_len(self) -> Option<usize> {
        let each = match self.kind() {
            2 | 7..=12 | 16 | 18 => return Some(0),
            1 | 14 | 17 => return Some(4),
            3 => return Some(12),
            KIND_STRUCT | KIND_UNION | 15 | 19 => 12,
            6 | 13 => 8,
            _ => return None,
        };
        Some(self.count() * each)
    }
}

/// The description.
#[derive(Debug)]
pub(super) struct Btf {
    bytes: Vec<u8>,
    strings: usize,
    /// The first has the number 1.
    types: Vec<Type>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

impl Btf {
    /// That of the running kernel.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: the kernel was built without.
    pub(super) fn of_kernel() -> io::Result<Self> {
        let odd = || io::Error::new(io::ErrorKind::InvalidData, format!("{PATH} is malformed"));
        Self::parse(fs::read(PATH)?).ok_or_else(odd)
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let magic = bytes.get(..2)?.try_into().ok()?;
        if u16::from_ne_bytes(magic) != MAGIC {
            return None;
        }
        let field = |n: usize| Some(word(&bytes, 4 * n)? as usize);
        let head = field(1)?;
        let mut at = head.checked_add(field(2)?)?;
        let end = at.checked_add(field(3)?)?;
        let strings = head.checked_add(field(4)?)?;
        let mut types = Vec::new();
        while at < end {
            let found = Type {
                name: word(&bytes, at)?,
                info: word(&bytes, at + 4)?,
                more: at + 12,
            };
            at = found.more.checked_add(found.more_len()?)?;
            types.push(found);
        }
        (end <= bytes.len()).then_some(Self {
            bytes,
            strings,
            types,
        })
    }

    fn is_named(&self, name: u32, wanted: &str) -> bool {
        let at = self.strings.saturating_add(name as usize);
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.strip_prefix(wanted.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    fn find(&self, kind: u32, name: &str) -> Option<usize> {
        let is = |t: &Type| t.kind() == kind && self.is_named(t.name, name);
        self.types.iter().position(is)
    }

    /// The number of a function.
    pub(super) fn function(&self, name: &str) -> Option<u32> {
        let place = self.find(KIND_FUNCTION, name)?;
        u32::try_from(place).ok()?.checked_add(1)
    }

    /// How many bytes into the struct `of` its member `name` is.
    pub(super) fn offset(&self, of: &str, name: &str) -> Option<u32> {
        let place = self.find(KIND_STRUCT, of)?;
        self.within(*self.types.get(place)?, name, DEPTH)
    }

    fn within(&self, of: Type, name: &str, depth: u32) -> Option<u32> {
        if !matches!(of.kind(), KIND_STRUCT | KIND_UNION) {
            return None;
        }
        (0..of.count()).find_map(|n| {
            let at = of.more + 12 * n;
            // With the highest bit of the info, the offset's upper byte is a bit field's size.
            let bits = match (word(&self.bytes, at + 8)?, of.info >> 31) {
                (offset, 0) => offset,
                (offset, _) if offset >> 24 == 0 => offset,
                _ => return None,
            };
            if self.is_named(word(&self.bytes, at)?, name) {
                return Some(bits / 8);
            }
            let anonymous =
                word(&self.bytes, at)? == 0 || self.is_named(word(&self.bytes, at)?, "");
            let inner = word(&self.bytes, at + 4)?.checked_sub(1)? as usize;
            let inner = *self.types.get(inner).filter(|_| anonymous && depth > 0)?;
            bits.checked_div(8)?
                .checked_add(self.within(inner, name, depth - 1)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct outer { int a; struct { int b; int c:3; union { int d; }; }; }` and a function `f`.
    fn example() -> Vec<u8> {
        let strings = b"\0outer\0a\0b\0c\0d\0f\0int\0";
        let name = |wanted: &[u8]| {
            let with = [b"\0", wanted, b"\0"].concat();
            let at = strings.windows(with.len()).position(|w| w == with);
            at.unwrap() as u32 + 1
        };
        let (structure, fields) = (KIND_STRUCT << 24, 1 << 31);
        let words = [
            // 1: int
            vec![name(b"int"), 1 << 24, 4, 32],
            // 2: the union
            vec![0, KIND_UNION << 24 | 1, 4, name(b"d"), 1, 0],
            // 3: the inner one, with a bit field
            vec![0, structure | fields | 3, 12],
            vec![name(b"b"), 1, 0, name(b"c"), 1, 3 << 24 | 32, 0, 2, 64],
            // 4: the outer
            vec![name(b"outer"), structure | 2, 16],
            vec![name(b"a"), 1, 0, 0, 3, 32],
            // 5, 6: a function and its type
            vec![0, 13 << 24, 0],
            vec![name(b"f"), KIND_FUNCTION << 24, 5],
        ]
        .concat();
        let len = 4 * words.len() as u32;
        let head = [24, 0, len, len, strings.len() as u32];
        let mut bytes = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
        bytes.extend(head.iter().chain(&words).flat_map(|w| w.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_in_structs_of_no_name_too() {
        let btf = Btf::parse(example()).unwrap();
        let offset = |name| btf.offset("outer", name);
        assert_eq!(offset("a"), Some(0));
        assert_eq!(offset("b"), Some(4));
        assert_eq!(offset("d"), Some(12));
        // A bit field has no address.
        assert_eq!(offset("c"), None);
        assert_eq!(offset("nothing"), None);
        assert_eq!(btf.offset("out", "a"), None);
        assert_eq!(btf.function("f"), Some(6));
        assert_eq!(btf.function("outer"), None);
    }

    #[test]
    fn what_is_cut_off_is_refused_or_has_less() {
        let whole = example();
        for len in 0..whole.len() {
            if let Some(btf) = Btf::parse(whole[..len].to_vec()) {
                let _ = (btf.offset("outer", "d"), btf.function("f"));
            }
        }
        assert!(Btf::parse(whole[..100].to_vec()).is_none());
    }
}
