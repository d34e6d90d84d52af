//! Link layers: from the first byte of a captured packet to its IP header.

/// What a captured packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// LINKTYPE_NULL, LINKTYPE_LOOP: four bytes of address family (BSD loopback).
    Loopback,
    /// LINKTYPE_ETHERNET, with any number of VLAN tags.
    Ethernet,
    /// LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6: the IP header.
    Raw,
    /// LINKTYPE_LINUX_SLL: Linux's `any` interface.
    Cooked,
    /// LINKTYPE_LINUX_SLL2: the same, with the number of the interface.
    Cooked2,
    /// Anything else: its packets are counted and not looked at.
    Other(u32),
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the one that was used before it.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags beyond this are no packet of anybody's.
const MOST_TAGS: usize = 8;

impl Link {
    /// By its number (<https://www.tcpdump.org/linktypes.html>).
    pub const fn of(number: u32) -> Self {
        match number {
            0 | 108 => Self::Loopback,
            1 => Self::Ethernet,
            // Systems' own numbers for raw IP are in old files.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            other => Self::Other(other),
        }
    }

    /// The IP packet in `frame`, and how many bytes stand before it; `None` if it is none.
    pub fn network(self, frame: &[u8]) -> Option<(&[u8], usize)> {
        let be16 = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let (kind, mut at) = match self {
            Self::Raw => return Some((frame, 0)),
            Self::Loopback => {
                let version = frame.get(4)? >> 4;
                return matches!(version, 4 | 6).then_some((&frame[4..], 4));
            }
            Self::Ethernet => (be16(12)?, 14),
            Self::Cooked => (be16(14)?, 16),
            Self::Cooked2 => (be16(0)?, 20),
            Self::Other(_) => return None,
        };
        let mut kind = kind;
        for _ in 0..MOST_TAGS {
            if !TAGS.contains(&kind) {
                break;
            }
            kind = be16(at + 2)?;
            at += 4;
        }
        if kind != ETHERTYPE_IPV4 && kind != ETHERTYPE_IPV6 {
            return None;
        }
        Some((frame.get(at..)?, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_layer_leads_to_the_same_packet() {
        let ip = [0x45, 0, 0, 20];
        let with = |head: &[u8]| [head, &ip].concat();
        let mut ethernet = vec![0; 12];
        ethernet.extend([8, 0]);
        let mut tagged = vec![0; 12];
        tagged.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0]);
        let mut cooked = vec![0; 14];
        cooked.extend([8, 0]);
        let mut cooked2 = vec![8, 0];
        cooked2.extend([0; 18]);
        for (link, head) in [
            (Link::Raw, &[][..]),
            (Link::Loopback, &[2, 0, 0, 0]),
            (Link::Ethernet, &ethernet),
            (Link::Ethernet, &tagged),
            (Link::Cooked, &cooked),
            (Link::Cooked2, &cooked2),
        ] {
            let frame = with(head);
            assert_eq!(
                link.network(&frame),
                Some((&ip[..], head.len())),
                "{link:?}"
            );
            for cut in 0..head.len() {
                assert_eq!(link.network(&frame[..cut]), None, "{link:?} {cut}");
            }
        }
        let arp = [&[0; 12][..], &[8, 6], &ip].concat();
        assert_eq!(Link::Ethernet.network(&arp), None);
        assert_eq!(Link::of(147).network(&ip), None);
    }
}
