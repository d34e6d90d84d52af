//! Families of generic netlink, whose numbers the kernel gives by their names.

use super::{Netlink, Request, malformed};
use nix::libc;
use std::io;

/// `GENL_ID_CTRL`: the family that knows the others.
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Bytes of `struct genlmsghdr`.
pub(super) const GENLMSG: usize = 4;

impl Netlink {
    /// The number of a family, in a socket of [`open_generic`](Self::open_generic).
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: the kernel has no such family.
    pub(super) fn family(&mut self, name: &str) -> io::Result<u16> {
        let answers = self.ask(&family(name))?;
        for answer in answers.iter().filter(|a| a.kind == CONTROL) {
            let (_, attributes) = answer.parts::<GENLMSG>()?;
            for attribute in attributes {
                let attribute = attribute?;
                if attribute.kind == CTRL_ATTR_FAMILY_ID
                    && let Some(id) = attribute.value.first_chunk()
                {
                    return Ok(u16::from_ne_bytes(*id));
                }
            }
        }
        Err(malformed("a family without a number"))
    }
}

/// `struct genlmsghdr`: command, version, two bytes of nothing.
pub(super) fn genlmsg(command: u8) -> [u8; GENLMSG] {
    [command, 1, 0, 0]
}

fn family(name: &str) -> Request {
    Request::new(CONTROL, libc::NLM_F_ACK, |out| {
        out.fixed(&genlmsg(CTRL_CMD_GETFAMILY));
        out.string(CTRL_ATTR_FAMILY_NAME, name);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_asked_for_by_name() {
        family("ethtool").assert_words(
            "20000000 10000500 07000000 00000000
             03010000
             0c000200 65746874 6f6f6c00",
        );
    }
}
