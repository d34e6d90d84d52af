//! Offloads of an interface, through the generic netlink family `ethtool` (what `ethtool -K` does).

use super::generic::genlmsg;
use super::{Netlink, Request};
use nix::libc;
use std::io;

const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;
/// Such families want it said of attributes in attributes.
const NESTED: u16 = 1 << 15;

/// What the kernel calls the merging of what was received.
pub(crate) const GRO: &str = "rx-gro";

/// ... and the sending of super-frames. A veth hands packets to a poll of the receiver, which alone
/// merges, only where its sender has none of them.
pub(crate) const TSO: [&str; 4] = [
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
];

/// Switches the offload `name` of the interface `index` in the namespace of the calling thread.
///
/// # Errors
/// If the kernel has no such family, or the interface no such offload that can be switched.
pub(crate) fn switch(index: u32, name: &str, on: bool) -> io::Result<()> {
    let mut netlink = Netlink::open_generic()?;
    let id = netlink.family("ethtool")?;
    netlink.tell(&switched(id, index, name, on))
}

fn switched(family: u16, index: u32, name: &str, on: bool) -> Request {
    Request::new(family, libc::NLM_F_ACK, |out| {
        out.fixed(&genlmsg(ETHTOOL_MSG_FEATURES_SET));
        out.nested(ETHTOOL_A_FEATURES_HEADER | NESTED, |out| {
            out.u32(ETHTOOL_A_HEADER_DEV_INDEX, index);
        });
        out.nested(ETHTOOL_A_FEATURES_WANTED | NESTED, |out| {
            out.nested(ETHTOOL_A_BITSET_BITS | NESTED, |out| {
                out.nested(ETHTOOL_A_BITSET_BITS_BIT | NESTED, |out| {
                    out.string(ETHTOOL_A_BITSET_BIT_NAME, name);
                    if on {
                        out.bytes(ETHTOOL_A_BITSET_BIT_VALUE, &[]);
                    }
                });
            });
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offload_is_a_bit_with_a_name() {
        switched(21, 3, GRO, true).assert_words(
            "3c000000 15000500 07000000 00000000
             0c010000
             0c000180 08000100 03000000
             1c000380
               18000380
                 14000180
                   0b000200 72782d67 726f0000
                   04000300",
        );
    }
}
