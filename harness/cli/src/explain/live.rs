//! `narrows explain --live`: an interface instead of a capture, and gaps as they are found.

#![allow(clippy::disallowed_methods, reason = "live, time passes by itself")]

use super::super::{Console, Stop, output};
use narrows::device::packet_socket::Head;
use narrows::{ByteCount, Duration};
use narrows_explain::capture::{Contents, End, Frame, Steady};
use narrows_explain::link::Link;
use narrows_explain::{Analyzer, Config, Explanation, Finding, Input};
use narrows_lab::listen;
use narrows_report::explain;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes kept of each frame: headers with all options.
const SNAP: usize = 192;
/// Frames are looked for at least so often, to hear of Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// For how long, if that is not said.
pub(super) const SPAN: Duration = Duration::from_secs(30);
/// Gaps that are told in a second.
const TOLD: usize = 20;

/// What is listened to.
pub(super) struct Live<'a> {
    /// As [`listen::listen`] takes it.
    pub(super) interface: &'a str,
    pub(super) span: Duration,
    pub(super) quiet: bool,
}

impl Live<'_> {
    /// Listens until the time is over or Ctrl-C was pressed, tells of gaps on standard error, and gives
    /// everything that was found.
    pub(super) fn explain(
        &self,
        config: &Config,
        gaps: usize,
        connections: usize,
        console: &mut Console<'_>,
    ) -> Result<Explanation, Stop> {
        let failed = |e: &dyn std::fmt::Display| Stop::Failed(e.to_string());
        let mut listener = listen::listen(self.interface, SNAP).map_err(|e| failed(&e))?;
        let link = match listener.head() {
            Head::Ethernet => Link::Ethernet,
            Head::Ip => Link::Raw,
        };
        let mut analyzer = Analyzer::new(config.clone());
        let mut explanation = Explanation::new(gaps, connections);
        if !self.quiet {
            let text = format!("Listening to {} for {}.\n", self.interface, self.span);
            output::print(console.stderr, &text)?;
        }
        let span = std::time::Duration::from_nanos(self.span.as_nanos());
        let started = Instant::now();
        let mut teller = Teller::default();
        let (mut number, mut bytes) = (0, 0);
        let mut ended = End::Complete;
        let mut clock = Steady::default();
        while started.elapsed() < span && !console.cancel.load(Ordering::Relaxed) {
            let polled = listener.poll(LOOK, |heard| {
                number += 1;
                bytes += heard.bytes.len() as u64;
                analyzer.handle_packet(&Frame {
                    number,
                    at: clock.steady(heard.at),
                    interface: 0,
                    link,
                    bytes: heard.bytes,
                    original: ByteCount::new(heard.original as u64),
                });
            });
            if let Err(error) = polled {
                ended = End::Failed {
                    why: error.to_string(),
                };
                break;
            }
            analyzer.catch_up();
            let text = teller.tell(&mut analyzer, &mut explanation, started.elapsed().as_secs());
            if !self.quiet {
                output::print(console.stderr, &text)?;
            }
        }
        let drops = listener.drops().map_err(|e| failed(&e))?;
        let text = teller.last(&mut analyzer, &mut explanation);
        if !self.quiet {
            output::print(console.stderr, &text)?;
        }
        explanation.seen = *analyzer.seen();
        explanation.finish();
        let mut name = format!("{}, live", self.interface);
        if drops > 0 {
            name += &format!(" ({drops} packets were dropped before they could be read)");
        }
        explanation.inputs.push(Input {
            name,
            contents: Contents {
                packets: number,
                bytes,
                interfaces: 1,
                set_back: clock.set_back(),
                end: ended,
            },
        });
        Ok(explanation)
    }
}

/// Tells gaps as they are found, so many a second.
#[derive(Debug, Default)]
struct Teller {
    second: u64,
    told: usize,
    untold: u64,
}

impl Teller {
    /// What is to be told of what was found by the second `now`, which goes into `explanation`.
    fn tell(&mut self, analyzer: &mut Analyzer, explanation: &mut Explanation, now: u64) -> String {
        let mut text = String::new();
        if now != self.second {
            text = self.rest();
            self.second = now;
        }
        let findings: Vec<Finding> = std::iter::from_fn(|| analyzer.poll_finding()).collect();
        let over = |id: u64| {
            let mut over = findings.iter();
            over.find_map(|finding| match finding {
                Finding::Connection(c) if c.id == id => Some(c.ends),
                _ => None,
            })
        };
        for finding in &findings {
            let Finding::Gap(gap) = finding else {
                continue;
            };
            if !gap.cause.is_lost_time() {
                continue;
            }
            if self.told < TOLD {
                let ends = analyzer.ends(gap.connection);
                text.push_str(&explain::line(gap, ends.or_else(|| over(gap.connection))));
            } else {
                self.untold += 1;
            }
            self.told += 1;
        }
        findings
            .into_iter()
            .for_each(|finding| explanation.add(finding));
        text
    }

    /// How many were too many to be told.
    fn rest(&mut self) -> String {
        self.told = 0;
        match std::mem::take(&mut self.untold) {
            0 => String::new(),
            untold => format!("{untold} more gaps in that second.\n"),
        }
    }

    /// The same of what is found when it is over.
    fn last(&mut self, analyzer: &mut Analyzer, explanation: &mut Explanation) -> String {
        let mut text = self.rest();
        analyzer.finish();
        text.push_str(&self.tell(analyzer, explanation, self.second));
        text.push_str(&self.rest());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::wire::{Flags, Seq};
    use narrows_explain::Sighting;
    use narrows_explain::segment::Segment;

    /// A segment of a connection is lost and sent again, and then the time is over: whether that was a
    /// timeout no packet has told yet.
    fn interrupted(analyzer: &mut Analyzer, port: u16) {
        let mut out = |at_us: u64, seq: u32, flags: Flags, len: u32| {
            let segment = Segment {
                seq: Seq(seq),
                ack: Seq(1),
                flags,
                window: 60_000,
                len,
                ..Segment::between(([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into())
            };
            let at = narrows::Instant::ZERO + Duration::from_micros(at_us);
            analyzer.handle_segment(Sighting { at, packet: at_us }, 0, &segment);
        };
        out(1, 99, Flags::SYN, 0);
        out(2_000, 100, Flags::ACK, 1_000);
        out(300_000, 100, Flags::ACK, 1_000);
    }

    #[test]
    fn what_was_not_told_yet_is_told_when_it_is_over() {
        let mut analyzer = Analyzer::new(Config::default());
        let mut explanation = Explanation::new(100, 100);
        let mut teller = Teller::default();
        for port in 1..=23 {
            interrupted(&mut analyzer, port);
        }
        assert_eq!(teller.tell(&mut analyzer, &mut explanation, 0), "");
        let text = teller.last(&mut analyzer, &mut explanation);
        assert_eq!(text.lines().count(), TOLD + 1, "{text}");
        assert!(text.contains("10.0.0.1:7 > 10.0.0.2:80: timeout"), "{text}");
        assert!(text.ends_with("3 more gaps in that second.\n"), "{text}");
        assert_eq!(explanation.ledger.lost().count, 23);
        assert_eq!(explanation.connections.len(), 23);
    }
}
