//! Packet lines: `< S 0:0(0) win 1000 <mss 1460>`.

use super::Defines;
use crate::ast::{Body, Direction, EcnField, Icmp, IpFields, Options, Packet, Segment, TcpOption};
use crate::cursor::{Cursor, Read};
use crate::diagnostic::Diagnostic;
use narrows::ByteCount;
use narrows::wire::{Ecn, Flags};

/// The most text a packet has: what an IPv4 packet holds beside its headers.
const MAX_TEXT: usize = 65_535;

pub(super) fn packet(c: &mut Cursor<'_>, defines: &Defines) -> Read<Packet> {
    let start = c.here();
    let direction = match c.take("<") {
        true => Direction::In,
        false => {
            c.expect(">")?;
            Direction::Out
        }
    };
    for encapsulation in ["ipv4", "ipv6", "gre", "GREv0", "mpls", "udp"] {
        if c.peek_word() == Some(encapsulation) {
            let at = c.here();
            let word = c.word("a word")?;
            return Err(Diagnostic::unsupported(
                c.since(at),
                format!("`{word}` packets: this runner has TCP and ICMP, without tunnels"),
            ));
        }
    }
    let ip = ip_fields(c, direction)?;
    if c.take_word("icmp") {
        let icmp = icmp(c, defines)?;
        return Ok(Packet {
            direction,
            ip,
            ports: None,
            body: Body::Icmp(icmp),
            span: c.since(start),
        });
    }
    let ports = ports(c)?;
    let segment = segment(c, direction, defines)?;
    Ok(Packet {
        direction,
        ip,
        ports,
        body: Body::Tcp(segment),
        span: c.since(start),
    })
}

fn ip_fields(c: &mut Cursor<'_>, direction: Direction) -> Read<IpFields> {
    let mut fields = IpFields::default();
    let close = if c.take("[") {
        "]"
    } else if c.take("(") {
        ")"
    } else {
        return Ok(fields);
    };
    loop {
        let start = c.here();
        let word = c.word("an IP field: ect0, ect1, ce, noecn, ect01, tos, ttl")?;
        fields.ecn = Some(EcnField::Is(match word {
            "noecn" => Ecn::NotEct,
            "ect0" => Ecn::Ect0,
            "ect1" => Ecn::Ect1,
            "ce" => Ecn::Ce,
            "ect01" if direction == Direction::Out => {
                fields.ecn = Some(EcnField::Ect01);
                if !c.take(",") {
                    break;
                }
                continue;
            }
            "ect01" => {
                return Err(Diagnostic::syntax(
                    c.since(start),
                    "[ect01] is for packets that leave: a packet that arrives has one codepoint",
                ));
            }
            "tos" => {
                fields.tos = Some(c.number("a traffic class", 255)? as u8);
                if !c.take(",") {
                    break;
                }
                continue;
            }
            "ttl" => {
                fields.ttl = Some(c.number("a time to live", 255)? as u8);
                if !c.take(",") {
                    break;
                }
                continue;
            }
            "flowlabel" => {
                return Err(Diagnostic::unsupported(
                    c.since(start),
                    "flow labels are not looked at: this TCP leaves them zero",
                ));
            }
            _ => {
                return Err(Diagnostic::syntax(
                    c.since(start),
                    format!(
                        "no IP field `{word}`; there are ect0, ect1, ce, noecn, ect01, tos, ttl"
                    ),
                ));
            }
        }));
        if !c.take(",") {
            break;
        }
    }
    c.expect(close)?;
    Ok(fields)
}

/// `8080 > 1234`: digits, which no flags are.
fn ports(c: &mut Cursor<'_>) -> Read<Option<(u16, u16)>> {
    if !c.peek().is_some_and(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    let from = c.number("a port", 65_535)? as u16;
    c.expect(">")?;
    let to = c.number("a port", 65_535)? as u16;
    Ok(Some((from, to)))
}

fn segment(c: &mut Cursor<'_>, direction: Direction, defines: &Defines) -> Read<Segment> {
    let flags = flags(c)?;
    let start = c.here();
    let (seq, len) = sequence(c)?;
    if len > MAX_TEXT && direction == Direction::In {
        return Err(Diagnostic::syntax(
            c.since(start),
            "more text than a packet holds: 65535 bytes",
        ));
    }
    let mut ack = None;
    let mut window = None;
    let mut urgent = None;
    if c.take_word("ack") {
        ack = Some(c.number("an acknowledgement number", u64::from(u32::MAX))? as u32);
    }
    if c.take_word("win") {
        window = Some(c.number("a window", 65_535)? as u16);
    }
    if c.take_word("urg") {
        urgent = Some(c.number("an urgent pointer", 65_535)? as u16);
    }
    let options = options(c, direction, defines)?;
    Ok(Segment {
        flags,
        seq,
        len,
        ack,
        window,
        urgent,
        options,
    })
}

/// `S`, `S.`, `SEW`, `.`, `-`, `P.5` (with the three bits of accurate ECN as a number).
fn flags(c: &mut Cursor<'_>) -> Read<Flags> {
    let start = c.here();
    if c.take("-") {
        return Ok(Flags::NONE);
    }
    let text = c.raw_while(|b| b.is_ascii_alphanumeric() || b == b'.');
    let mut flags = Flags::NONE;
    for letter in text.chars() {
        flags |= match letter {
            'F' => Flags::FIN,
            'S' => Flags::SYN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            '.' => Flags::ACK,
            'U' => Flags::URG,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            'A' => Flags::AE,
            '0'..='7' if text.contains('.') => {
                let ace = letter as u16 - u16::from(b'0');
                Flags::from_bits(ace << 6)
            }
            _ => {
                return Err(Diagnostic::syntax(
                    c.since(start),
                    format!("no flag `{letter}`; there are F S R P . U E W A, or `-` for none"),
                ));
            }
        };
    }
    if text.is_empty() {
        return Err(c.unexpected("flags: F S R P . U E W A, or `-` for none"));
    }
    Ok(flags)
}

fn sequence(c: &mut Cursor<'_>) -> Read<(u32, usize)> {
    let start = c.here();
    let max = u64::from(u32::MAX);
    let from = c.number("a sequence number", max)?;
    c.expect(":")?;
    let to = c.number("a sequence number", max)?;
    c.expect("(")?;
    let len = c.number("a length", 1 << 20)?;
    c.expect(")")?;
    let end = (from as u32).wrapping_add(len as u32);
    if end != to as u32 {
        return Err(Diagnostic::syntax(
            c.since(start),
            format!("{from} and {len} bytes end at {end}, not at {to}"),
        ));
    }
    Ok((from as u32, len as usize))
}

fn options(c: &mut Cursor<'_>, direction: Direction, defines: &Defines) -> Read<Options> {
    let start = c.here();
    if !c.sees("<") {
        return Ok(Options::List(Vec::new()));
    }
    // The next line may begin with `<` only after its time, so this is the options.
    c.expect("<")?;
    if c.take("...") {
        c.expect(">")?;
        if direction == Direction::In {
            return Err(Diagnostic::syntax(
                c.since(start),
                "<...> is for packets that leave: one that arrives has to have its options",
            ));
        }
        return Ok(Options::Any);
    }
    let mut list = Vec::new();
    loop {
        list.push(option(c, defines)?);
        if !c.take(",") {
            break;
        }
    }
    c.expect(">")?;
    if direction == Direction::In && wire_len(&list) > 40 {
        return Err(Diagnostic::syntax(
            c.since(start),
            format!(
                "{} bytes of options; a header has room for 40",
                wire_len(&list)
            ),
        ));
    }
    Ok(Options::List(list))
}

fn wire_len(list: &[TcpOption]) -> usize {
    list.iter()
        .map(|o| super::super::segment::encoded(o).len())
        .sum()
}

fn option(c: &mut Cursor<'_>, defines: &Defines) -> Read<TcpOption> {
    let start = c.here();
    let max = u64::from(u32::MAX);
    Ok(
        match c.word("an option: mss, wscale, sackOK, sack, TS, FO, nop, eol, unknown")? {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::Eol,
            "mss" => TcpOption::Mss(c.number("an MSS", 65_535)? as u16),
            "wscale" => TcpOption::WindowScale(c.number("a shift", 255)? as u8),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => {
                let mut blocks = Vec::new();
                while c.peek().is_some_and(|b| b.is_ascii_digit()) {
                    let from = c.number("a left edge", max)? as u32;
                    c.expect(":")?;
                    blocks.push((from, c.number("a right edge", max)? as u32));
                }
                if blocks.is_empty() || blocks.len() > 4 {
                    return Err(Diagnostic::syntax(
                        c.since(start),
                        "one to four SACK blocks",
                    ));
                }
                TcpOption::Sack(blocks)
            }
            "TS" => {
                if !c.take_word("val") {
                    return Err(c.unexpected("`val`"));
                }
                let val = c.number("TSval", max)? as u32;
                if !c.take_word("ecr") {
                    return Err(c.unexpected("`ecr`"));
                }
                let ecr = c.number("TSecr", max)? as u32;
                TcpOption::Timestamps { val, ecr }
            }
            "FO" => TcpOption::Other {
                kind: 34,
                data: blob(c, defines)?,
            },
            "FOEXP" => {
                let mut data = vec![0xf9, 0x89];
                data.extend(blob(c, defines)?);
                TcpOption::Other { kind: 254, data }
            }
            "md5" => TcpOption::Other {
                kind: 19,
                data: blob(c, defines)?,
            },
            "unknown" => {
                let kind = c.number("an option's kind", 255)? as u8;
                TcpOption::Other {
                    kind,
                    data: blob(c, defines)?,
                }
            }
            other => {
                let message = match other {
                    "ECN" => "the option of accurate ECN is not known to this TCP",
                    "mp_capable" | "add_address" | "dss" | "mp_join_syn" => {
                        "multipath TCP is not known to this TCP"
                    }
                    _ => {
                        return Err(Diagnostic::syntax(
                            c.since(start),
                            format!(
                                "no option `{other}`; there are mss, wscale, sackOK, sack, TS, FO, \
                             FOEXP, md5, nop, eol, unknown"
                            ),
                        ));
                    }
                };
                return Err(Diagnostic::unsupported(c.since(start), message));
            }
        },
    )
}

/// Hex digits, perhaps none, with or without `0x`.
fn blob(c: &mut Cursor<'_>, defines: &Defines) -> Read<Vec<u8>> {
    let start = c.here();
    let Some(word) = c.peek_word() else {
        return Ok(Vec::new());
    };
    c.word("hex digits")?;
    let word = defines.get(word).map_or(word, String::as_str);
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair).ok().filter(|t| t.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    });
    match pairs.collect::<Option<Vec<u8>>>() {
        Some(bytes) if bytes.len() <= 38 => Ok(bytes),
        _ => Err(Diagnostic::syntax(
            c.since(start),
            "an option's data is an even number of hex digits, 38 bytes at most, or a name that \
             -D or --define gives",
        )),
    }
}

fn icmp(c: &mut Cursor<'_>, defines: &Defines) -> Read<Icmp> {
    let kind = c
        .word("an ICMP type: unreachable, packet_too_big, ...")?
        .to_owned();
    let mut icmp = Icmp {
        kind,
        code: None,
        mtu: None,
        quoted: None,
    };
    if c.peek_word()
        .is_some_and(|w| w != "mtu" && !w.as_bytes()[0].is_ascii_digit())
    {
        let code = c.word("a code")?;
        icmp.code = Some(defines.get(code).map_or(code, String::as_str).to_owned());
    }
    if c.take_word("mtu") {
        icmp.mtu = Some(ByteCount::new(c.number("an MTU", 65_535)?));
    }
    if c.take("[") {
        icmp.quoted = Some(sequence(c)?);
        c.expect("]")?;
    }
    Ok(icmp)
}
