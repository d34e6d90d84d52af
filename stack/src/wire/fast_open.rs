//! The Fast Open option (RFC 7413 section 4.1.1), which only SYNs carry: it stands among
//! [`TcpOptions::unknown`], so that no other segment pays for it.

use super::options::TcpOptions;
use core::fmt;

/// Kind of the option.
const FAST_OPEN: u8 = 34;
/// Kind of experiments that tell themselves apart by a magic number (RFC 6994), and that of Fast
/// Open before it had a kind of its own.
const EXPERIMENT: u8 = 254;
const MAGIC: [u8; 2] = [0xf9, 0x89];

/// A cookie: 4 to 16 bytes, an even number of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpenCookie {
    len: u8,
    bytes: [u8; 16],
}

impl FastOpenCookie {
    /// Of these bytes; `None` if no cookie has that length.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if !(4..=16).contains(&bytes.len()) || !bytes.len().is_multiple_of(2) {
            return None;
        }
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        Some(Self {
            len: bytes.len() as u8,
            bytes: all,
        })
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for FastOpenCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FastOpenCookie(")?;
        for byte in self.as_slice() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// By which kind the option goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastOpenForm {
    /// Kind 34.
    #[default]
    Standard,
    /// Kind 254 with the magic number F989: what was used before.
    Experimental,
}

/// The option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenOption {
    /// Its kind.
    pub form: FastOpenForm,
    /// The cookie; `None` asks for one.
    pub cookie: Option<FastOpenCookie>,
}

impl FastOpenOption {
    /// `option` with kind and length. One of a length that no cookie has is none.
    fn parse(option: &[u8]) -> Option<Self> {
        let (form, cookie) = match option {
            [FAST_OPEN, _, cookie @ ..] => (FastOpenForm::Standard, cookie),
            [EXPERIMENT, _, a, b, cookie @ ..] if [*a, *b] == MAGIC => {
                (FastOpenForm::Experimental, cookie)
            }
            _ => return None,
        };
        let cookie = match cookie {
            [] => None,
            bytes => Some(FastOpenCookie::new(bytes)?),
        };
        Some(Self { form, cookie })
    }

    fn bytes(&self) -> Box<[u8]> {
        let cookie = self.cookie.as_ref().map_or(&[][..], |c| c.as_slice());
        let head: &[u8] = match self.form {
            FastOpenForm::Standard => &[FAST_OPEN, 2],
            FastOpenForm::Experimental => &[EXPERIMENT, 4, MAGIC[0], MAGIC[1]],
        };
        let mut out = [head, cookie].concat();
        out[1] = out.len() as u8;
        out.into_boxed_slice()
    }
}

impl TcpOptions {
    /// The Fast Open option, the last if there are several.
    pub fn fast_open(&self) -> Option<FastOpenOption> {
        let mut rest = self.unknown.as_deref()?;
        let mut found = None;
        while let Some(len) = rest.get(1).filter(|n| **n >= 2) {
            let (option, after) = rest.split_at_checked(usize::from(*len))?;
            found = FastOpenOption::parse(option).or(found);
            rest = after;
        }
        found
    }

    /// Carry this one in place of [`unknown`](Self::unknown) options.
    pub fn set_fast_open(&mut self, option: FastOpenOption) {
        self.unknown = Some(option.bytes());
    }

    /// What fills up the space behind [`unknown`](Self::unknown) options: NOPs behind a Fast Open
    /// option, as the common stacks have it.
    pub(super) fn padding(&self) -> u8 {
        u8::from(self.fast_open().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::OptionPolicy;

    fn parsed(bytes: &[u8]) -> Option<FastOpenOption> {
        let options = TcpOptions::parse(bytes, OptionPolicy::KeepValid).unwrap();
        options.fast_open()
    }

    fn round_trip(option: FastOpenOption) -> Vec<u8> {
        let mut options = TcpOptions {
            mss: Some(1_460),
            ..TcpOptions::default()
        };
        options.set_fast_open(option);
        let mut buf = [0xaa; 40];
        let n = options.emit(&mut buf).unwrap();
        assert_eq!(n, options.wire_len());
        assert_eq!(parsed(&buf[..n]), Some(option));
        buf[4..n].to_vec()
    }

    #[test]
    fn rfc7413_4_1_1_layouts() {
        let cookie = FastOpenCookie::new(&[1, 2, 3, 4, 5, 6]);
        let with = |form, cookie| round_trip(FastOpenOption { form, cookie });
        assert_eq!(with(FastOpenForm::Standard, None), [34, 2, 1, 1]);
        let standard = with(FastOpenForm::Standard, cookie);
        assert_eq!(standard, [34, 8, 1, 2, 3, 4, 5, 6]);
        let experimental = with(FastOpenForm::Experimental, None);
        assert_eq!(experimental, [254, 4, 0xf9, 0x89]);
        let longest = FastOpenCookie::new(&[7; 16]);
        assert_eq!(with(FastOpenForm::Standard, longest).len(), 20);
    }

    #[test]
    fn rfc7413_4_1_1_invalid_lengths_are_ignored() {
        for len in [1usize, 2, 3, 5, 7, 15, 17, 18] {
            let mut bytes = vec![34, 2 + len as u8];
            bytes.resize(2 + len, 9);
            assert_eq!(parsed(&bytes), None, "{len}");
        }
        // Another experiment, and options that end early.
        for bytes in [&[254, 4, 0, 1][..], &[254, 2], &[254, 3, 0xf9], &[34]] {
            assert_eq!(parsed(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn of_several_the_last_counts() {
        let two = [99, 3, 0, 34, 6, 1, 1, 1, 1, 34, 6, 2, 2, 2, 2, 34, 3, 0];
        let cookie = parsed(&two).and_then(|o| o.cookie);
        assert_eq!(cookie, FastOpenCookie::new(&[2; 4]));
    }
}
