//! `narrows explain --live`: an interface instead of a capture, and gaps as they are found.

#![allow(clippy::disallowed_methods, reason = "live, time passes by itself")]

use super::super::{Console, Stop, output};
use narrows::device::packet_socket::Head;
use narrows::{ByteCount, Duration};
use narrows_explain::capture::{Contents, End, Frame};
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
        let (mut second, mut told, mut untold) = (0, 0, 0_u64);
        let (mut number, mut bytes) = (0, 0);
        let mut ended = End::Complete;
        while started.elapsed() < span && !console.cancel.load(Ordering::Relaxed) {
            let polled = listener.poll(LOOK, |heard| {
                number += 1;
                bytes += heard.bytes.len() as u64;
                analyzer.handle_packet(&Frame {
                    number,
                    at: heard.at,
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
            if started.elapsed().as_secs() != second {
                second = started.elapsed().as_secs();
                told = 0;
                if untold > 0 {
                    let text = format!("{untold} more gaps in that second.\n");
                    output::print(console.stderr, &text)?;
                    untold = 0;
                }
            }
            analyzer.catch_up();
            while let Some(finding) = analyzer.poll_finding() {
                if let Finding::Gap(gap) = &finding
                    && gap.cause.is_lost_time()
                    && !self.quiet
                {
                    if told < TOLD {
                        let ends = analyzer.ends(gap.connection);
                        let line = explain::line(gap, ends);
                        output::print(console.stderr, &line)?;
                    } else {
                        untold += 1;
                    }
                    told += 1;
                }
                explanation.add(finding);
            }
        }
        let drops = listener.drops().map_err(|e| failed(&e))?;
        analyzer.finish();
        explanation.take(&mut analyzer);
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
                end: ended,
            },
        });
        Ok(explanation)
    }
}
