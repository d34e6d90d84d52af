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

/// Descriptions as no kernel has them.
#[cfg(test)]
pub(super) mod made_up {
    use super::*;

    /// Types and names, before they are put together.
    #[derive(Default)]
    pub(in crate::device) struct Blob {
        types: Vec<u32>,
        count: u32,
        names: Vec<u8>,
    }

    impl Blob {
        /// With the empty name, which is the first.
        pub(in crate::device) fn new() -> Self {
            Self {
                names: vec![0],
                ..Self::default()
            }
        }

        pub(super) fn name(&mut self, name: &str) -> u32 {
            let at = self.names.len() as u32;
            self.names.extend(name.as_bytes());
            self.names.push(0);
            at
        }

        /// A type of `kind` with so many members, and the words of them; its number.
        pub(super) fn add(&mut self, name: u32, info: u32, third: u32, more: &[u32]) -> u32 {
            self.types.extend([name, info, third]);
            self.types.extend(more);
            self.count += 1;
            self.count
        }

        /// A structure with members of these names, numbers of types, and places in bits.
        pub(in crate::device) fn structure(&mut self, name: &str, of: &[(&str, u32, u32)]) -> u32 {
            let name = self.name(name);
            let mut more = Vec::new();
            for &(member, kind, bits) in of {
                let member = match member {
                    "" => 0,
                    member => self.name(member),
                };
                more.extend([member, kind, bits]);
            }
            self.add(name, KIND_STRUCT << 24 | of.len() as u32, 0, &more)
        }

        pub(in crate::device) fn function(&mut self, name: &str) -> u32 {
            let name = self.name(name);
            self.add(name, KIND_FUNCTION << 24, 0, &[])
        }

        pub(in crate::device) fn parsed(&self) -> Option<Btf> {
            Btf::parse(self.bytes(0))
        }

        /// A header, `gap` bytes that its length counts, types, names.
        pub(super) fn bytes(&self, gap: u32) -> Vec<u8> {
            let len = 4 * self.types.len() as u32;
            let head = [24 + gap, 0, len, len, self.names.len() as u32];
            let mut bytes = start(&head);
            bytes.extend(vec![0xee; gap as usize]);
            bytes.extend(self.types.iter().flat_map(|w| w.to_ne_bytes()));
            bytes.extend(&self.names);
            bytes
        }

        /// The same with the names before the types.
        pub(super) fn names_first(&self) -> Vec<u8> {
            let names = self.names.len() as u32;
            let mut bytes = start(&[24, names, 4 * self.types.len() as u32, 0, names]);
            bytes.extend(&self.names);
            bytes.extend(self.types.iter().flat_map(|w| w.to_ne_bytes()));
            bytes
        }

        /// Where the types end.
        pub(super) fn types_end(&self) -> usize {
            24 + 4 * self.types.len()
        }
    }

    fn start(head: &[u32; 5]) -> Vec<u8> {
        let mut bytes = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
        bytes.extend(head.iter().flat_map(|w| w.to_ne_bytes()));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::Blob;
    use super::*;

    /// `struct outer { int a; struct { int b; int c:3; union { int d; }; }; }` and a function `f`.
    fn example() -> Blob {
        let mut made = Blob::new();
        let (structure, fields) = (KIND_STRUCT << 24, 1 << 31);
        let [b, c, d] = ["b", "c", "d"].map(|name| made.name(name));
        let int = made.name("int");
        let int = made.add(int, 1 << 24, 4, &[32]);
        let union = made.add(0, KIND_UNION << 24 | 1, 4, &[d, int, 0]);
        // With a bit field.
        let members = [b, int, 0, c, int, 3 << 24 | 32, 0, union, 64];
        let inner = made.add(0, structure | fields | 3, 12, &members);
        made.structure("outer", &[("a", int, 0), ("", inner, 32)]);
        made.add(0, 13 << 24, 0, &[]);
        made.function("f");
        made
    }

    fn assert_is_the_example(btf: &Btf) {
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
        assert_eq!(btf.offset("f", "a"), None);
    }

    #[test]
    fn members_are_found_in_structs_of_no_name_too() {
        assert_is_the_example(&example().parsed().unwrap());
    }

    #[test]
    fn parts_are_where_the_header_says() {
        assert_is_the_example(&Btf::parse(example().bytes(8)).unwrap());
        assert_is_the_example(&Btf::parse(example().names_first()).unwrap());
    }

    #[test]
    fn what_is_cut_off_is_refused_or_has_less() {
        let whole = example().bytes(0);
        let types_end = example().types_end();
        for len in 0..whole.len() {
            let parsed = Btf::parse(whole[..len].to_vec());
            assert_eq!(parsed.is_some(), len >= types_end, "{len}");
            if let Some(btf) = parsed {
                let _ = (btf.offset("outer", "d"), btf.function("f"));
            }
        }
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for at in 0..2 {
            let mut other = example().bytes(0);
            other[at] ^= 1;
            assert!(Btf::parse(other).is_none());
        }
        // A kind from after this was written: nobody knows how long it is.
        let mut made = Blob::new();
        made.add(0, 20 << 24, 0, &[]);
        assert!(made.parsed().is_none());
    }

    /// Documentation/bpf/btf.rst of the kernel.
    #[test]
    fn each_kind_has_its_length() {
        let with_members = [(4, 3), (5, 3), (6, 2), (13, 2), (15, 3), (19, 3)];
        let without = [
            (1, 1),
            (2, 0),
            (3, 3),
            (7, 0),
            (8, 0),
            (9, 0),
            (10, 0),
            (11, 0),
            (12, 0),
            (14, 1),
            (16, 0),
            (17, 1),
            (18, 0),
        ];
        let each = with_members.iter().flat_map(|&(kind, words)| {
            [0, 1, 300].map(|members| (kind << 24 | members, words * members as usize))
        });
        let each = each.chain(without.iter().map(|&(kind, words)| (kind << 24, words)));
        for (info, words) in each {
            let mut made = Blob::new();
            made.add(0, info, 0, &vec![u32::MAX; words]);
            made.structure("outer", &[("a", 1, 64)]);
            made.function("f");
            let btf = made.parsed().unwrap();
            let found = (btf.offset("outer", "a"), btf.function("f"));
            assert_eq!(found, (Some(8), Some(3)), "{info:x}");
        }
    }

    #[test]
    fn only_what_has_no_name_is_looked_into() {
        let mut made = Blob::new();
        let [e, nothing] = ["e", ""].map(|name| made.name(name));
        // What follows its name and value is no place of a member.
        let choice = made.add(0, 6 << 24 | 2, 4, &[e, 0, 0, 0]);
        let inner = made.structure("inner", &[("b", choice, 0)]);
        made.structure("named", &[("inner", inner, 0)]);
        made.structure("choice", &[("", choice, 0)]);
        made.add(e, KIND_STRUCT << 24 | 1, 4, &[nothing, inner, 32]);
        let far = (1 << 24) + 8;
        made.structure("far", &[("f", choice, far)]);
        // Within itself, for ever.
        made.structure("round", &[("", 7, 0)]);
        let btf = made.parsed().unwrap();
        assert_eq!(btf.offset("inner", "b"), Some(0));
        assert_eq!(btf.offset("named", "b"), None);
        assert_eq!(btf.offset("choice", "e"), None);
        assert_eq!(btf.offset("e", "b"), Some(4), "an empty name is none");
        assert_eq!(btf.offset("far", "f"), Some(far / 8));
        assert_eq!(btf.offset("round", "x"), None);
    }
}
