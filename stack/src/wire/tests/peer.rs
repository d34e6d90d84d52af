//! smoltcp's wire module reads what we write, and we read what it writes.

use super::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket,
    TcpRepr, TcpSeqNumber, TcpTimestampRepr,
};

fn theirs(addr: IpAddr) -> IpAddress {
    match addr {
        IpAddr::V4(a) => IpAddress::Ipv4(a),
        IpAddr::V6(a) => IpAddress::Ipv6(a),
    }
}

/// A SACK block as smoltcp has it.
fn range(block: &SackBlock) -> (u32, u32) {
    (block.start.0, block.end.0)
}

fn first_three(sack: &SackBlocks) -> [Option<(u32, u32)>; 3] {
    let mut out = [None; 3];
    for (slot, block) in out.iter_mut().zip(sack.as_slice()) {
        *slot = Some(range(block));
    }
    out
}

fn control(flags: Flags) -> Option<TcpControl> {
    let has = |f| flags.contains(f);
    match (
        has(Flags::SYN),
        has(Flags::FIN),
        has(Flags::RST),
        has(Flags::PSH),
    ) {
        (false, false, false, false) => Some(TcpControl::None),
        (false, false, false, true) => Some(TcpControl::Psh),
        (true, false, false, _) => Some(TcpControl::Syn),
        (false, true, false, _) => Some(TcpControl::Fin),
        (false, false, true, _) => Some(TcpControl::Rst),
        _ => None,
    }
}

/// Sets of options that smoltcp can represent and that fit together without alignment.
fn peer_options() -> impl Strategy<Value = TcpOptions> {
    let syn = (option::of(any::<u16>()), option::of(0u8..15), any::<bool>()).prop_map(
        |(mss, window_scale, sack_permitted)| TcpOptions {
            mss,
            window_scale,
            sack_permitted,
            ..TcpOptions::default()
        },
    );
    let other = sack_blocks(3).prop_map(|sack| TcpOptions {
        sack,
        ..TcpOptions::default()
    });
    (prop_oneof![syn, other], option::of(timestamps())).prop_map(|(options, timestamps)| {
        TcpOptions {
            timestamps,
            ..options
        }
    })
}

proptest! {
    #[test]
    fn smoltcp_reads_what_we_write(packet in packet()) {
        let mut bytes = emitted(&packet);
        let (src, dst) = (theirs(packet.ip.src), theirs(packet.ip.dst));
        match (packet.ip.src, packet.ip.dst) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let ip = Ipv4Packet::new_checked(&bytes[..]).unwrap();
                prop_assert!(ip.verify_checksum());
                prop_assert_eq!((ip.version(), ip.header_len()), (4, 20));
                prop_assert_eq!((ip.src_addr(), ip.dst_addr()), (from, to));
                prop_assert_eq!((ip.ecn(), ip.dscp()), (packet.ip.ecn.bits(), packet.ip.dscp));
                prop_assert_eq!(ip.hop_limit(), packet.ip.hop_limit);
                prop_assert_eq!(ip.next_header(), IpProtocol::Tcp);
                prop_assert_eq!(usize::from(ip.total_len()), bytes.len());
                prop_assert!(ip.dont_frag() && !ip.more_frags() && ip.frag_offset() == 0);
                bytes.drain(..20);
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let ip = Ipv6Packet::new_checked(&bytes[..]).unwrap();
                prop_assert_eq!((ip.version(), ip.flow_label()), (6, 0));
                prop_assert_eq!((ip.src_addr(), ip.dst_addr()), (from, to));
                prop_assert_eq!(ip.traffic_class(), packet.ip.dscp << 2 | packet.ip.ecn.bits());
                prop_assert_eq!(ip.hop_limit(), packet.ip.hop_limit);
                prop_assert_eq!(ip.next_header(), IpProtocol::Tcp);
                prop_assert_eq!(ip.total_len(), bytes.len());
                bytes.drain(..40);
            }
            _ => unreachable!("the generator keeps to one family"),
        }
        let view = TcpPacket::new_checked(&bytes[..]).unwrap();
        prop_assert!(view.verify_checksum(&src, &dst));
        let tcp = &packet.tcp;
        prop_assert_eq!((view.src_port(), view.dst_port()), (tcp.src_port, tcp.dst_port));
        prop_assert_eq!(view.seq_number().0 as u32, tcp.seq.0);
        prop_assert_eq!(view.ack_number().0 as u32, tcp.ack.0);
        prop_assert_eq!((view.window_len(), view.urgent_at()), (tcp.window, tcp.urgent));
        prop_assert_eq!(usize::from(view.header_len()), tcp.wire_len());
        prop_assert_eq!(view.payload(), &packet.payload[..]);
        for (ours, theirs) in [
            (Flags::FIN, view.fin()),
            (Flags::SYN, view.syn()),
            (Flags::RST, view.rst()),
            (Flags::PSH, view.psh()),
            (Flags::ACK, view.ack()),
            (Flags::URG, view.urg()),
            (Flags::ECE, view.ece()),
            (Flags::CWR, view.cwr()),
            (Flags::AE, view.ns()),
        ] {
            prop_assert_eq!(tcp.flags.contains(ours), theirs, "{}", ours);
        }
        let repr = TcpRepr::parse(&view, &src, &dst, &ChecksumCapabilities::default());
        let Some(control) = control(tcp.flags) else {
            prop_assert!(repr.is_err());
            return Ok(());
        };
        let repr = repr.unwrap();
        prop_assert_eq!(repr.control, control);
        prop_assert_eq!(repr.max_seg_size, tcp.options.mss);
        prop_assert_eq!(repr.window_scale, tcp.options.window_scale.map(|s| s.min(14)));
        prop_assert_eq!(repr.sack_permitted, tcp.options.sack_permitted);
        let timestamps = tcp.options.timestamps.map(|t| (t.val, t.ecr));
        prop_assert_eq!(repr.timestamp.map(|t| (t.tsval, t.tsecr)), timestamps);
        prop_assert_eq!(repr.sack_ranges, first_three(&as_sent(&tcp.options).sack));
        prop_assert_eq!(repr.payload, &packet.payload[..]);
    }

    #[test]
    fn we_read_what_smoltcp_writes(
        ip in ip_header(),
        tcp in tcp_header(peer_options()),
        data in payload(),
    ) {
        // What smoltcp's representations can say: no ECN, no urgent pointer, a SACK option only
        // with an acknowledgement.
        let ip = IpHeader { ecn: Ecn::NotEct, dscp: 0, ..ip };
        let flags = tcp.flags.without(Flags::URG | Flags::ECE | Flags::CWR | Flags::AE);
        let Some(control) = control(flags) else { return Ok(()) };
        let flags = match control {
            TcpControl::Psh => flags,
            _ => flags.without(Flags::PSH),
        };
        prop_assume!(tcp.options.sack.is_empty() || flags.contains(Flags::ACK));
        let ack = if flags.contains(Flags::ACK) { tcp.ack } else { Seq(0) };
        let tcp = TcpHeader { flags, ack, urgent: 0, ..tcp };

        let repr = TcpRepr {
            src_port: tcp.src_port,
            dst_port: tcp.dst_port,
            control,
            seq_number: TcpSeqNumber(tcp.seq.0 as i32),
            ack_number: flags.contains(Flags::ACK).then_some(TcpSeqNumber(ack.0 as i32)),
            window_len: tcp.window,
            window_scale: tcp.options.window_scale,
            max_seg_size: tcp.options.mss,
            sack_permitted: tcp.options.sack_permitted,
            sack_ranges: first_three(&tcp.options.sack),
            timestamp: tcp
                .options
                .timestamps
                .map(|t| TcpTimestampRepr { tsval: t.val, tsecr: t.ecr }),
            payload: &data,
        };
        let caps = ChecksumCapabilities::default();
        let (src, dst) = (theirs(ip.src), theirs(ip.dst));
        let segment_len = repr.buffer_len();
        let mut bytes = vec![0; ip.wire_len() + segment_len];
        match (ip.src, ip.dst) {
            (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => Ipv4Repr {
                src_addr,
                dst_addr,
                next_header: IpProtocol::Tcp,
                payload_len: segment_len,
                hop_limit: ip.hop_limit,
            }
            .emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &caps),
            (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => Ipv6Repr {
                src_addr,
                dst_addr,
                next_header: IpProtocol::Tcp,
                payload_len: segment_len,
                hop_limit: ip.hop_limit,
            }
            .emit(&mut Ipv6Packet::new_unchecked(&mut bytes[..])),
            _ => unreachable!("the generator keeps to one family"),
        }
        let mut view = TcpPacket::new_unchecked(&mut bytes[ip.wire_len()..]);
        repr.emit(&mut view, &src, &dst, &caps);
        let parsed = Packet::parse_with(&bytes, ChecksumPolicy::Verify, OptionPolicy::Reject);
        prop_assert_eq!(parsed, Ok(Packet { ip, tcp, payload: &data[..] }));
    }
}
