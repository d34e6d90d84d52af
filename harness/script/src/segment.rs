//! Segments between the script's words, the stack's headers, bytes and text for people.

use super::ast::{Body, Direction, EcnField, Icmp, Options, Packet, Segment, TcpOption};
use narrows::wire::checksum::Sum;
use narrows::wire::{Ecn, EmitError, Flags, IpHeader, TcpHeader, TcpOptions};
use std::fmt::Write;

/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;

/// A packet with its checksums. `tcp` has no options: they are the bytes in `options`, whatever
/// these are, padded to whole words.
///
/// # Errors
/// When the options or the text are too long.
pub(super) fn packet_bytes(
    ip: &IpHeader,
    tcp: &TcpHeader,
    options: &[u8],
    text: &[u8],
) -> Result<Vec<u8>, EmitError> {
    let padded = options.len().next_multiple_of(4);
    if padded > 40 {
        return Err(EmitError::OptionsTooLong(padded));
    }
    let header_len = TCP_HEADER + padded;
    let segment_len = header_len + text.len();
    let mut out = vec![0; ip.wire_len() + segment_len];
    let at = ip.emit(segment_len, &mut out)?;
    let segment = &mut out[at..];
    tcp.emit(segment)?;
    segment[12] = ((header_len / 4) as u8) << 4 | (segment[12] & 0xf);
    segment[TCP_HEADER..TCP_HEADER + options.len()].copy_from_slice(options);
    segment[header_len..].copy_from_slice(text);
    let sum = Sum::pseudo_header(ip.src, ip.dst, segment_len) + Sum::of(segment);
    segment[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    Ok(out)
}

/// The options of a header as bytes.
pub(super) fn encoded_options(options: &TcpOptions) -> Vec<u8> {
    let mut bytes = [0; 64];
    let len = options.emit(&mut bytes).unwrap_or(0);
    bytes.get(..len).unwrap_or_default().to_vec()
}

/// An option as it stands in a header.
pub(super) fn encoded(option: &TcpOption) -> Vec<u8> {
    let with_length = |kind: u8, data: &[u8]| {
        let mut out = vec![kind, (data.len() + 2).min(255) as u8];
        out.extend_from_slice(data);
        out
    };
    match option {
        TcpOption::Nop => vec![1],
        TcpOption::Eol => vec![0],
        TcpOption::Mss(mss) => with_length(2, &mss.to_be_bytes()),
        TcpOption::WindowScale(shift) => with_length(3, &[*shift]),
        TcpOption::SackPermitted => with_length(4, &[]),
        TcpOption::Sack(blocks) => {
            let edges = blocks.iter().flat_map(|(from, to)| [*from, *to]);
            let data: Vec<u8> = edges.flat_map(u32::to_be_bytes).collect();
            with_length(5, &data)
        }
        TcpOption::Timestamps { val, ecr } => {
            let data: Vec<u8> = [*val, *ecr]
                .into_iter()
                .flat_map(u32::to_be_bytes)
                .collect();
            with_length(8, &data)
        }
        TcpOption::Other { kind, data } => with_length(*kind, data),
    }
}

/// The options in the bytes of a header that our own stack wrote, padding and all.
pub(super) fn decoded(mut bytes: &[u8]) -> Vec<TcpOption> {
    let mut out = Vec::new();
    while let [kind, tail @ ..] = bytes {
        let simple = match kind {
            0 => Some(TcpOption::Eol),
            1 => Some(TcpOption::Nop),
            _ => None,
        };
        if let Some(option) = simple {
            out.push(option);
            bytes = tail;
            continue;
        }
        let len = tail.first().copied().map_or(0, usize::from);
        if len < 2 || len > bytes.len() {
            break;
        }
        let (option, rest) = bytes.split_at(len);
        bytes = rest;
        out.push(one(*kind, &option[2..]));
    }
    out
}

fn one(kind: u8, data: &[u8]) -> TcpOption {
    let words: Vec<u32> = data
        .chunks_exact(4)
        .map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]]))
        .collect();
    match (kind, data, words.as_slice()) {
        (2, &[a, b], _) => TcpOption::Mss(u16::from_be_bytes([a, b])),
        (3, &[shift], _) => TcpOption::WindowScale(shift),
        (4, &[], _) => TcpOption::SackPermitted,
        (5, _, edges) if data.len().is_multiple_of(8) && !edges.is_empty() => {
            TcpOption::Sack(edges.chunks_exact(2).map(|c| (c[0], c[1])).collect())
        }
        (8, _, &[val, ecr]) if data.len() == 8 => TcpOption::Timestamps { val, ecr },
        _ => TcpOption::Other {
            kind,
            data: data.to_vec(),
        },
    }
}

/// A packet in the language of scripts.
pub(super) fn describe(packet: &Packet) -> String {
    let mut out = String::from(match packet.direction {
        Direction::In => "<",
        Direction::Out => ">",
    });
    let codepoint = match packet.ip.ecn {
        Some(EcnField::Ect01) => Some("ect01"),
        Some(EcnField::Is(Ecn::Ect0)) => Some("ect0"),
        Some(EcnField::Is(Ecn::Ect1)) => Some("ect1"),
        Some(EcnField::Is(Ecn::Ce)) => Some("ce"),
        Some(EcnField::Is(Ecn::NotEct)) => Some("noecn"),
        None => None,
    };
    if let Some(word) = codepoint {
        let _ = write!(out, " [{word}]");
    }
    if let Some((from, to)) = packet.ports {
        let _ = write!(out, " {from} > {to}");
    }
    match &packet.body {
        Body::Tcp(segment) => describe_segment(segment, &mut out),
        Body::Icmp(icmp) => describe_icmp(icmp, &mut out),
    }
    out
}

fn describe_segment(s: &Segment, out: &mut String) {
    let end = s.seq.wrapping_add(s.len as u32);
    let _ = write!(out, " {} {}:{end}({})", flag_letters(s.flags), s.seq, s.len);
    if let Some(ack) = s.ack {
        let _ = write!(out, " ack {ack}");
    }
    if let Some(window) = s.window {
        let _ = write!(out, " win {window}");
    }
    if let Some(urgent) = s.urgent {
        let _ = write!(out, " urg {urgent}");
    }
    match &s.options {
        Options::Any => out.push_str(" <...>"),
        Options::List(list) if list.is_empty() => {}
        Options::List(list) => {
            let words: Vec<String> = list.iter().map(describe_option).collect();
            let _ = write!(out, " <{}>", words.join(","));
        }
    }
}

fn describe_icmp(icmp: &Icmp, out: &mut String) {
    let _ = write!(out, " icmp {}", icmp.kind);
    if let Some(code) = &icmp.code {
        let _ = write!(out, " {code}");
    }
    if let Some(mtu) = icmp.mtu {
        let _ = write!(out, " mtu {}", mtu.get());
    }
    if let Some((seq, len)) = icmp.quoted {
        let _ = write!(out, " [{seq}:{}({len})]", seq.wrapping_add(len as u32));
    }
}

fn describe_option(option: &TcpOption) -> String {
    match option {
        TcpOption::Nop => "nop".to_owned(),
        TcpOption::Eol => "eol".to_owned(),
        TcpOption::Mss(mss) => format!("mss {mss}"),
        TcpOption::WindowScale(shift) => format!("wscale {shift}"),
        TcpOption::SackPermitted => "sackOK".to_owned(),
        TcpOption::Sack(blocks) => {
            let mut out = "sack".to_owned();
            for (from, to) in blocks {
                let _ = write!(out, " {from}:{to}");
            }
            out
        }
        TcpOption::Timestamps { val, ecr } => format!("TS val {val} ecr {ecr}"),
        TcpOption::Other { kind, data } => {
            let mut out = format!("unknown {kind}");
            if !data.is_empty() {
                out.push_str(" 0x");
            }
            for byte in data {
                let _ = write!(out, "{byte:02x}");
            }
            out
        }
    }
}

/// The letters of the script language, in its order.
fn flag_letters(flags: Flags) -> String {
    let letters: String = [
        (Flags::FIN, 'F'),
        (Flags::SYN, 'S'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::URG, 'U'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
        (Flags::AE, 'A'),
        (Flags::ACK, '.'),
    ]
    .into_iter()
    .filter(|(bit, _)| flags.contains(*bit))
    .map(|(_, letter)| letter)
    .collect();
    if letters.is_empty() {
        "-".to_owned()
    } else {
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_wire() {
        let list = vec![
            TcpOption::Mss(1460),
            TcpOption::Nop,
            TcpOption::WindowScale(7),
            TcpOption::SackPermitted,
            TcpOption::Sack(vec![(1, 2), (3, 4)]),
            TcpOption::Timestamps { val: 5, ecr: 6 },
            TcpOption::Other {
                kind: 253,
                data: vec![1, 2],
            },
            TcpOption::Eol,
        ];
        let bytes: Vec<u8> = list.iter().flat_map(encoded).collect();
        assert_eq!(decoded(&bytes), list);
        assert_eq!(decoded(&[8, 0]), vec![]);
        assert_eq!(decoded(&[8, 99, 1]), vec![]);
    }

    #[test]
    fn no_flags_are_a_dash() {
        assert_eq!(flag_letters(Flags::NONE), "-");
        assert_eq!(flag_letters(Flags::SYN | Flags::ACK | Flags::ECE), "SE.");
    }
}
