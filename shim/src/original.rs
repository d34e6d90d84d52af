//! Rewrites our scripts into what the original packetdrill can read and check.
//!
//! What a script checks stays what it was. Changed is only how it is said:
//!
//! - set-up lines name settings that no `sysctl` program knows: they go into `--so_flags`;
//! - a segment that the script expects in one piece, and that leaves in several, is written as
//!   several of the MSS: the original compares each packet;
//! - `ect0` and `ect1` are written as `tos 0x02` and `tos 0x01`, since versions of the program have
//!   the two codepoints the wrong way round;
//! - names that it does not know are written as their numbers;
//! - each look at the clock takes a microsecond here, so an RTT in an assertion may be off by
//!   [`LOOKS`].

use crate::{flags, numbers};
use narrows::Duration;
use narrows::wire::Flags;
use narrows_script::ast::{Action, Body, Direction, Options as TcpOptions};
use narrows_script::ast::{Segment, Span, TcpOption, When};
use narrows_script::sockets::{Config, Stuck};
use narrows_script::stack::Wanted;
use narrows_script::{Options, parse, run_on};

/// Microseconds that looks at the clock may add to an RTT.
pub const LOOKS: u32 = 20;

/// Values of `TCP_INFO` that looks at the clock add to.
const RTTS: &[&str] = &["tcpi_rtt", "tcpi_rttvar", "tcpi_min_rtt"];

/// Requests whose names the original does not know.
const REQUESTS: &[&str] = &["SIOCOUTQ", "SIOCOUTQNSD"];

/// Constants of assertions that it does not know.
const CONSTANTS: &[(&str, &str)] = &[("TCPI_OPT_SACK", "2")];

/// No segment of ours carries less, whatever the peer's MSS.
const LEAST_MSS: usize = 64;

/// Options of a script that are for our runner only. The original always takes segments strictly.
const OURS: &[&str] = &["strict_segments"];

/// A script for the original program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Its text; each step stands on the line where it stood.
    pub script: String,
    /// What `--so_flags` must say for it.
    pub so_flags: String,
    /// Whether it has assertions, for which the object goes into `LD_PRELOAD`.
    pub asserts: bool,
}

/// Rewrite the script `source`; `name` is its name in errors.
///
/// # Errors
/// What our own runner would say of it; a step that cannot be written for the original.
pub fn rewrite(name: &str, source: &str, options: &Options) -> Result<Rewritten, String> {
    let mut wanted = None;
    // Nothing is played: what matters is the stack that it asks for.
    let report = run_on(name, source, options, &mut |w: &Wanted| {
        wanted = Some(w.clone());
        Err(Stuck::Refused("not to be played here".to_owned()))
    });
    let wanted = wanted.ok_or_else(|| report.text())?;
    let mut names = options.defines.clone();
    for name in [
        "NARROWS".to_owned(),
        wanted.profile.to_string().to_uppercase(),
    ] {
        names.entry(name).or_default();
    }
    let script = parse(source, &names).map_err(|d| d.render(name, source, &[]))?;
    let own = usize::from(Config::from(&wanted).mss());
    let unless_said = if wanted.local.is_ipv6() { 1_220 } else { 536 };
    let mut peer_mss = unless_said;
    let mut asserts = false;
    let mut out = Output::of(source);
    for option in &script.options {
        if !OURS.contains(&option.name.as_str()) {
            out.put(option.span, |text| text.to_owned());
        }
    }
    for event in &script.events {
        match &event.action {
            Action::Command(line) if event.at != When::Relative(Duration::ZERO) => {
                return Err(format!("{name}: `{line}`: set-up comes before all steps"));
            }
            Action::Command(_) => {}
            Action::Code(_) => {
                asserts = true;
                out.put(event.span, assertion);
            }
            Action::Call(_) => out.put(event.span, call),
            Action::Packet(packet) => {
                let segment = match &packet.body {
                    Body::Tcp(segment) => segment,
                    Body::Icmp(_) => {
                        out.put(event.span, |text| text.to_owned());
                        continue;
                    }
                };
                if packet.direction == Direction::In && segment.flags.contains(Flags::SYN) {
                    peer_mss = offered(segment).unwrap_or(unless_said);
                }
                let mss = own.min(peer_mss).max(LEAST_MSS);
                let after_time = packet.span.start - event.span.start;
                out.put(event.span, |text| {
                    let (time, packet_text) = text.split_at(after_time);
                    self::packet(time, packet_text, packet.direction, segment, mss)
                });
            }
        }
    }
    Ok(Rewritten {
        script: out.end(),
        so_flags: flags::wanted(&wanted),
        asserts,
    })
}

/// What is put in place of a source, line by line; the rest of it is left out.
struct Output<'s> {
    source: &'s str,
    at: usize,
    text: String,
}

impl<'s> Output<'s> {
    fn of(source: &'s str) -> Self {
        let text = String::with_capacity(source.len());
        Self {
            source,
            at: 0,
            text,
        }
    }

    /// The lines up to `to` without what is in them.
    fn skip(&mut self, to: usize) {
        let between = self.source.get(self.at..to).unwrap_or_default();
        self.text.extend(between.matches('\n'));
        self.at = self.at.max(to);
    }

    /// `new` makes what is said instead of this part.
    fn put(&mut self, span: Span, new: impl FnOnce(&str) -> String) {
        self.skip(span.start);
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        let old = self.source.get(span.start..span.end).unwrap_or_default();
        self.text.push_str(&new(old));
        self.at = span.end;
    }

    fn end(mut self) -> String {
        self.skip(self.source.len());
        self.text
    }
}

/// A packet line. `text` is all of it but its time.
fn packet(time: &str, text: &str, way: Direction, segment: &Segment, mss: usize) -> String {
    let Some((head, numbers, rest)) = parts(text) else {
        return format!("{time}{text}");
    };
    // What stands before the flags: ports, and the fields of the IP header.
    let head = replace_word(&replace_word(head, "ect0", "tos 0x02"), "ect1", "tos 0x01");
    let in_options = match &segment.options {
        TcpOptions::List(list) => list.iter().map(length).sum(),
        TcpOptions::Any => 0,
    };
    let mss = mss - in_options.min(mss - 1);
    if way == Direction::In || segment.len <= mss || segment.flags.contains(Flags::SYN) {
        return format!("{time}{head}{numbers}{rest}");
    }
    // ` P. 1:2001(2000)`: the flags are the word before the numbers.
    let head = head.trim_end();
    let flags_at = head.rfind([' ', '\t', ']', ')']).map_or(0, |n| n + 1);
    let (head, flags) = head.split_at(flags_at);
    let mut pieces = Vec::new();
    let mut taken = 0;
    while taken < segment.len {
        let len = mss.min(segment.len - taken);
        let last = taken + len == segment.len;
        let kept = |c: &char| match c {
            'P' | 'F' => last,
            // A reduction is told once.
            'W' => taken == 0,
            _ => true,
        };
        let flags: String = flags.chars().filter(kept).collect();
        let time = if taken == 0 { time } else { "+0 " };
        let from = segment.seq.wrapping_add(taken as u32);
        let to = from.wrapping_add(len as u32);
        pieces.push(format!("{time}{head}{flags} {from}:{to}({len}){rest}"));
        taken += len;
    }
    pieces.join(" ")
}

/// `> P. 1:11(10) ack 1`, cut before and after `1:11(10)`.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let is_numbers = |word: &str| {
        let inner = word.strip_suffix(')').and_then(|w| w.split_once('('));
        let edges = inner.and_then(|(edges, len)| Some((edges.split_once(':')?, len)));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        edges.is_some_and(|((from, to), len)| digits(from) && digits(to) && digits(len))
    };
    let word = text.split_whitespace().find(|word| is_numbers(word))?;
    let at = word.as_ptr().addr() - text.as_ptr().addr();
    Some((&text[..at], word, &text[at + word.len()..]))
}

/// Bytes of an option in a header.
fn length(option: &TcpOption) -> usize {
    match option {
        TcpOption::Nop | TcpOption::Eol => 1,
        TcpOption::Mss(_) => 4,
        TcpOption::WindowScale(_) => 3,
        TcpOption::SackPermitted => 2,
        TcpOption::Sack(blocks) => 2 + 8 * blocks.len(),
        TcpOption::Timestamps { .. } => 10,
        TcpOption::Other { data, .. } => 2 + data.len(),
    }
}

fn call(text: &str) -> String {
    REQUESTS.iter().fold(text.to_owned(), |text, name| {
        let number = numbers::request_number(name).unwrap_or_default();
        replace_word(&text, name, &format!("{number:#x}"))
    })
}

fn assertion(text: &str) -> String {
    let text = CONSTANTS
        .iter()
        .fold(text.to_owned(), |text, (name, value)| {
            replace_word(&text, name, value)
        });
    RTTS.iter().fold(text, |text, name| nearly(&text, name))
}

/// `NAME == N` becomes `abs(NAME - N) <= LOOKS`.
fn nearly(text: &str, name: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let equals = format!("{name} == ");
    while let Some(at) = rest.find(&equals) {
        let (before, found) = rest.split_at(at);
        let number = &found[equals.len()..];
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = number.split_at(digits);
        out.push_str(before);
        match digits {
            0 => out.push_str(&equals),
            _ => out.push_str(&format!("abs({name} - {number}) <= {LOOKS}")),
        }
        rest = after;
    }
    out + rest
}

/// Each `word` that is not part of a longer one.
fn replace_word(text: &str, word: &str, new: &str) -> String {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, found) = rest.split_at(at);
        let after = &found[word.len()..];
        let before_it = before
            .chars()
            .next_back()
            .or_else(|| out.chars().next_back());
        let longer = part(before_it) || part(after.chars().next());
        out.push_str(before);
        out.push_str(if longer { word } else { new });
        rest = after;
    }
    out + rest
}

/// The MSS option of a SYN.
fn offered(syn: &Segment) -> Option<usize> {
    let TcpOptions::List(list) = &syn.options else {
        return None;
    };
    list.iter().find_map(|o| match o {
        TcpOption::Mss(mss) => Some(usize::from(*mss)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_script::Profile;

    fn rewritten(source: &str) -> Rewritten {
        rewrite("a.pkt", source, &Options::default()).unwrap()
    }
    fn line(line: &str) -> String {
        let source = format!("0 < S 0:0(0) win 9 <mss 1000>\n{line}");
        rewritten(&source).script.lines().nth(1).unwrap().to_owned()
    }

    #[test]
    fn set_up_goes_into_the_flags_and_each_step_keeps_its_line() {
        let r = rewritten(
            "// A comment.\n--mtu=1400\n--strict_segments\n`sysctl -q narrows.sack=0`\n\n\
             0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3 // another\n+0 close(3) = 0",
        );
        assert_eq!(
            r.script,
            "\n--mtu=1400\n\n\n\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 close(3) = 0"
        );
        assert!(r.so_flags.contains("mtu=1400"), "{}", r.so_flags);
        assert!(r.so_flags.ends_with("; sysctl -q narrows.sack=0"));
        assert!(!r.asserts);
    }

    #[test]
    fn what_is_for_another_profile_is_left_out() {
        let source = "#ifdef LINUX\n0 > S 0:0(0)\n#else\n0 > S 1:1(0)\n#endif\n";
        let mut options = Options::default();
        assert_eq!(rewritten(source).script, "\n\n\n0 > S 1:1(0)\n\n");
        options.profile = Profile::Linux;
        let linux = rewrite("a.pkt", source, &options).unwrap();
        assert_eq!(linux.script, "\n0 > S 0:0(0)\n\n\n\n");
        assert!(linux.so_flags.starts_with("profile=linux"));
    }

    #[test]
    fn segments_are_cut_as_the_mss_demands() {
        assert_eq!(
            line("+.1 > P. 1:2501(2500) ack 1 win 7"),
            "+.1 > . 1:1001(1000) ack 1 win 7 +0 > . 1001:2001(1000) ack 1 win 7 \
             +0 > P. 2001:2501(500) ack 1 win 7"
        );
        assert_eq!(line("* > . 1:1001(1000) ack 1"), "* > . 1:1001(1000) ack 1");
        assert_eq!(
            line("+0 < P. 1:1101(1100) ack 1"),
            "+0 < P. 1:1101(1100) ack 1"
        );
        // The options take room, the reduction is told once, FIN and PSH come last.
        assert_eq!(
            line("+0 > (noecn) 80 > 9 FPW. 1:1101(1100) ack 1 <nop,nop,TS val 1 ecr 2>"),
            "+0 > (noecn) 80 > 9 W. 1:989(988) ack 1 <nop,nop,TS val 1 ecr 2> \
             +0 > (noecn) 80 > 9 FP. 989:1101(112) ack 1 <nop,nop,TS val 1 ecr 2>"
        );
        let tiny = rewritten("0 < S 0:0(0) win 9 <mss 1>\n+0 > . 1:129(128) ack 1");
        assert!(tiny.script.contains("> . 1:65(64) ack 1 +0 > . 65:129(64)"));
        let v6 = "--ip_version=ipv6\n0 < S 0:0(0) win 9\n+0 > . 1:1221(1220) ack 1";
        assert!(
            rewritten(v6)
                .script
                .ends_with("\n+0 > . 1:1221(1220) ack 1")
        );
    }

    #[test]
    fn words_that_the_original_lacks_are_numbers() {
        assert_eq!(
            line("+0 > [ect0] . 1:2(1) ack 1"),
            "+0 > [tos 0x02] . 1:2(1) ack 1"
        );
        assert_eq!(
            line("+0 < [ect1] . 1:2(1) ack 1"),
            "+0 < [tos 0x01] . 1:2(1) ack 1"
        );
        assert_eq!(
            line("+0 > [ect01] . 1:2(1) ack 1"),
            "+0 > [ect01] . 1:2(1) ack 1"
        );
        assert_eq!(
            line("+0 ioctl(4, SIOCOUTQ, [3]) = 0"),
            "+0 ioctl(4, 0x5411, [3]) = 0"
        );
        assert_eq!(
            line("+0 ioctl(4, SIOCOUTQNSD, [3]) = 0"),
            "+0 ioctl(4, 0x894b, [3]) = 0"
        );
        assert_eq!(
            line("+0 %{ assert tcpi_options == TCPI_OPT_SACK | NOT_TCPI_OPT_SACK }%"),
            "+0 %{ assert tcpi_options == 2 | NOT_TCPI_OPT_SACK }%"
        );
        assert_eq!(
            line("+0 %{ assert tcpi_rtt == 100 and tcpi_rttvar == 50, tcpi_rtt }%"),
            "+0 %{ assert abs(tcpi_rtt - 100) <= 20 and abs(tcpi_rttvar - 50) <= 20, tcpi_rtt }%"
        );
        let two = "+0 %{ assert tcpi_rtt == x\nassert tcpi_rto == 5 }%";
        assert!(
            rewritten(&format!("0 close(3) = 0\n{two}"))
                .script
                .ends_with(two)
        );
    }

    #[test]
    fn what_cannot_be_rewritten_is_an_error_with_its_place() {
        let error = |source: &str| rewrite("a.pkt", source, &Options::default()).unwrap_err();
        assert!(error("0 frobnicate(3) = 0\n+0 nonsense").contains("a.pkt:"));
        assert!(error("--colour=blue\n0 close(3) = 0").contains("option `--colour`"));
        assert!(error("0 close(3) = 0\n+1 `sysctl narrows.sack=0`").contains("before all steps"));
    }
}
