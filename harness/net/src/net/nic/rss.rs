//! Receive-side scaling: the hash of Toeplitz over a flow's addresses and ports, and the table that makes a
//! queue of it.
//!
//! "RSS Hashing Functions" of Microsoft's driver documentation, whose input is source address, destination
//! address, source port, destination port in network order; the key is the one of its verification suite,
//! which is that of many drivers. The table has 128 entries, which name the queues in turn, as `ethtool
//! --set-rxfh-indir` deals them out with `equal`.
//!
//! Left out: other keys and tables, hashes of addresses alone, and what has neither (it is of one queue).

use std::net::IpAddr;

/// The secret key: 320 bits.
pub const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Entries of the table.
const TABLE: u32 = 128;

/// The hash of a flow from and to these addresses and ports. Addresses of both families at once are taken for
/// IPv6.
pub fn toeplitz((src, src_port): (IpAddr, u16), (dst, dst_port): (IpAddr, u16)) -> u32 {
    let mut hash = Toeplitz { hash: 0, at: 0 };
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            hash.add(&src.octets());
            hash.add(&dst.octets());
        }
        (src, dst) => {
            for address in [src, dst] {
                let address = match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                hash.add(&address.octets());
            }
        }
    }
    hash.add(&src_port.to_be_bytes());
    hash.add(&dst_port.to_be_bytes());
    hash.hash
}

/// The queue of `n` that a hash has.
pub(crate) fn queue(hash: u32, n: usize) -> usize {
    (hash % TABLE) as usize % n.max(1)
}

/// Of each bit of the input that is set the hash has the 32 bits of the key that begin there.
struct Toeplitz {
    hash: u32,
    /// Bytes of the input so far.
    at: usize,
}

impl Toeplitz {
    fn add(&mut self, input: &[u8]) {
        for byte in input {
            let window = (0..5).fold(0_u64, |window, n| {
                window << 8 | u64::from(KEY[(self.at + n) % KEY.len()])
            });
            for bit in 0..8 {
                if byte & 0x80 >> bit != 0 {
                    self.hash ^= (window >> (8 - bit)) as u32;
                }
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Verifying the RSS Hash Calculation", IPv4 and IPv6 with TCP: destination, source, hash.
    #[test]
    fn the_verification_suite() {
        for (dst, dst_port, src, src_port, expected) in [
            ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x51cc_c178),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xc626_b0ea),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0x5c2b_394a),
            ("209.142.163.6", 2217, "38.27.205.30", 48228, 0xafc7_327f),
            ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x10e8_28a2),
            (
                "3ffe:2501:200:3::1",
                1766,
                "3ffe:2501:200:1fff::7",
                2794,
                0x4020_7d3d,
            ),
            (
                "ff02::1",
                4739,
                "3ffe:501:8::260:97ff:fe40:efab",
                14230,
                0xdde5_1bbf,
            ),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x02d1_feef,
            ),
        ] {
            let address = |text: &str| text.parse().unwrap();
            let (src, dst) = ((address(src), src_port), (address(dst), dst_port));
            assert_eq!(toeplitz(src, dst), expected, "{src:?} to {dst:?}");
        }
    }

    #[test]
    fn a_table_deals_its_entries_out_in_turn() {
        assert_eq!(
            [0, 1, 2, 3, 127, 128].map(|hash| queue(hash, 3)),
            [0, 1, 2, 0, 1, 0]
        );
    }
}
