//! Offloads of an interface, through the generic netlink family `ethtool` (what `ethtool -K` does).
//!
//! These messages are our own: `netlink-bindings` (0.3.5) sends the number of another request, and
//! `ethtool` reads offloads only.

use super::Netlink;
use netlink_bindings::builtin::BuiltinNfgenmsg;
use netlink_bindings::traits::{NetlinkRequest, Protocol};
use netlink_bindings::utils::{finalize_nested_header, push_header, push_nested_header};
use std::io;

const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;

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
    Netlink::open_generic()?.tell(&Switched::new(index, name, on))
}

struct Switched(Vec<u8>);

impl Switched {
    fn new(index: u32, name: &str, on: bool) -> Self {
        let header = BuiltinNfgenmsg {
            cmd: ETHTOOL_MSG_FEATURES_SET,
            version: 1,
            reserved: 0,
        };
        let mut out = header.as_slice().to_vec();
        nested(&mut out, &[ETHTOOL_A_FEATURES_HEADER], |out| {
            bytes(out, ETHTOOL_A_HEADER_DEV_INDEX, &index.to_ne_bytes());
        });
        let bit = [
            ETHTOOL_A_FEATURES_WANTED,
            ETHTOOL_A_BITSET_BITS,
            ETHTOOL_A_BITSET_BITS_BIT,
        ];
        nested(&mut out, &bit, |out| {
            bytes(
                out,
                ETHTOOL_A_BITSET_BIT_NAME,
                &[name.as_bytes(), &[0]].concat(),
            );
            if on {
                bytes(out, ETHTOOL_A_BITSET_BIT_VALUE, &[]);
            }
        });
        Self(out)
    }
}

impl NetlinkRequest for Switched {
    fn protocol(&self) -> Protocol {
        Protocol::Generic(b"ethtool")
    }

    fn flags(&self) -> u16 {
        0
    }

    fn payload(&self) -> &[u8] {
        &self.0
    }

    type ReplyType<'a> = ();

    fn decode_reply(_: &[u8]) {}
}

fn bytes(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    push_header(out, kind, value.len() as u16);
    out.extend(value);
}

fn nested(out: &mut Vec<u8>, kinds: &[u16], fill: impl FnOnce(&mut Vec<u8>)) {
    let starts: Vec<usize> = kinds
        .iter()
        .map(|kind| push_nested_header(out, *kind))
        .collect();
    fill(out);
    starts
        .into_iter()
        .for_each(|at| finalize_nested_header(out, at));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offload_is_a_bit_with_a_name() {
        crate::netlink::assert_words(
            &Switched::new(3, GRO, true),
            "0c010000
             0c000180 08000100 03000000
             1c000380
               18000380
                 14000180
                   0b000200 72782d67 726f0000
                   04000300",
        );
    }
}
