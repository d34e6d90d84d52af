//! Reads captures, shows how far it is, and has them explained.

#![allow(clippy::disallowed_methods, reason = "progress tells how fast it is")]

use super::super::{Console, Stop};
use super::ends;
use super::pipe::Piped;
use narrows::Duration;
use narrows_explain::capture::{self, CaptureError, Contents, Frame};
use narrows_explain::two::Log;
use narrows_explain::{Analyzer, Config, Explanation, Input};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Captures to be read.
pub(super) struct Captures<'a> {
    pub(super) paths: &'a [PathBuf],
    pub(super) quiet: bool,
}

/// A capture that begins so much before the end of the one before it was taken elsewhere.
const OVERLAP: Duration = Duration::from_secs(1);
/// Packets between two looks at the clock.
const LOOK: u64 = 1 << 16;

impl Captures<'_> {
    /// Explains all captures: those that follow each other as one, others each by itself.
    pub(super) fn explain(
        &self,
        config: &Config,
        gaps: usize,
        connections: usize,
        console: &mut Console<'_>,
    ) -> Result<Vec<Explanation>, Stop> {
        let mut places: Vec<Explanation> = Vec::new();
        // Two captures may be of the same packets: then both are followed.
        let follows = self.paths.len() > 1;
        let mut logs: Vec<Log> = Vec::new();
        let mut log = Log::new(ends::FOLLOWED);
        let mut analyzer = Analyzer::new(config.clone());
        let mut explanation = Explanation::new(gaps, connections);
        for path in self.paths {
            let mut first = true;
            let mut before: Option<(Analyzer, Explanation)> = None;
            let elsewhere = self.paths.len() == 2
                && analyzer.seen().packets > 0
                && !is_pipe(path)
                && ends::is_elsewhere(path, &log);
            let contents = self.read(path, console, |frame| {
                if std::mem::take(&mut first) {
                    let last = analyzer.seen().last;
                    if analyzer.seen().packets > 0 && (elsewhere || frame.at + OVERLAP < last) {
                        logs.push(std::mem::replace(&mut log, Log::new(ends::FOLLOWED)));
                        let fresh = (
                            Analyzer::new(config.clone()),
                            Explanation::new(gaps, connections),
                        );
                        let (old, found) = (&mut analyzer, &mut explanation);
                        before = Some((
                            std::mem::replace(old, fresh.0),
                            std::mem::replace(found, fresh.1),
                        ));
                    }
                }
                if follows {
                    let content = frame.content();
                    if let Some(content) = &content {
                        log.handle_content(frame, content);
                    }
                    analyzer.handle_content(frame, content);
                } else {
                    analyzer.handle_packet(frame);
                }
                explanation.take(&mut analyzer);
            })?;
            if let Some((mut analyzer, mut explanation)) = before {
                end(&mut analyzer, &mut explanation);
                places.push(explanation);
            }
            explanation.inputs.push(Input {
                name: path.display().to_string(),
                contents,
            });
            if console.cancel.load(Ordering::Relaxed) {
                break;
            }
        }
        end(&mut analyzer, &mut explanation);
        places.push(explanation);
        logs.push(log);
        ends::joined(places, &logs, console)
    }

    /// Reads the captures once more, for the points and rounds of the connections that are wanted of
    /// each place.
    pub(super) fn draw(
        &self,
        config: &Config,
        wanted: &[Vec<u64>],
        points: usize,
        places: &mut [Explanation],
        console: &mut Console<'_>,
    ) -> Result<(), Stop> {
        if self.paths.iter().any(|path| is_pipe(path)) {
            return Err(Stop::Failed(
                "a pipe can be read once only, and drawing wants to read twice: write the capture to a file first".to_owned(),
            ));
        }
        let mut inputs = self.paths.iter();
        for (place, wanted) in places.iter_mut().zip(wanted) {
            let config = Config {
                rounds: true,
                points,
                draw: wanted.clone(),
                ..config.clone()
            };
            let mut analyzer = Analyzer::new(config);
            let mut found = Explanation::new(2, usize::MAX / 4);
            // Of two that were aligned the first is drawn: its numbers and times are those of both.
            let drawn = place
                .path
                .as_ref()
                .map_or(place.inputs.len(), |path| path.first_inputs);
            for path in inputs.by_ref().take(place.inputs.len()).take(drawn) {
                self.read(path, console, |frame| {
                    analyzer.handle_packet(frame);
                    found.take(&mut analyzer);
                    found.connections.retain(|c| wanted.contains(&c.id));
                })?;
            }
            end(&mut analyzer, &mut found);
            for connection in found.connections {
                if let Some(place) = place.connections.iter_mut().find(|c| c.id == connection.id) {
                    *place = connection;
                }
            }
        }
        Ok(())
    }

    fn read(
        &self,
        path: &Path,
        console: &mut Console<'_>,
        mut packet: impl FnMut(&Frame<'_>),
    ) -> Result<Contents, Stop> {
        let failed = |error: CaptureError| Stop::Failed(format!("{}: {error}", path.display()));
        let (source, size): (Box<dyn Read + Send>, u64) = if path == Path::new("-") {
            (Box::new(io::stdin()), 0)
        } else {
            let file = File::open(path).map_err(|e| failed(e.into()))?;
            let about = file.metadata().map_err(|e| failed(e.into()))?;
            if about.is_dir() {
                return Err(Stop::Failed(format!(
                    "{}: this is a folder, not a capture",
                    path.display()
                )));
            }
            (
                Box::new(file),
                if about.is_file() { about.len() } else { 0 },
            )
        };
        let cancel = console.cancel;
        let source: Box<dyn Read + '_> = match is_pipe(path) {
            true => Box::new(Piped::new(source, cancel)),
            false => Box::new(Cancelled { source, cancel }),
        };
        let shows = console.stderr_terminal && !self.quiet;
        let started = Instant::now();
        let stderr = &mut *console.stderr;
        let mut drawn = started;
        let contents = capture::read(source, |frame, bytes| {
            packet(frame);
            if shows && frame.number.is_multiple_of(LOOK) && drawn.elapsed().as_millis() > 500 {
                drawn = Instant::now();
                let rate = frame.number as f64 / started.elapsed().as_secs_f64();
                let left = match size.checked_sub(bytes) {
                    Some(left) if bytes > 0 => {
                        let left = started.elapsed().as_secs_f64() * left as f64 / bytes as f64;
                        format!(", {left:.0} s left")
                    }
                    _ => String::new(),
                };
                let _ = write!(
                    stderr,
                    "\r{}: {} packets, {:.1} M/s{left}  ",
                    path.display(),
                    frame.number,
                    rate / 1e6
                );
                let _ = stderr.flush();
            }
        });
        if shows && drawn != started {
            let _ = write!(console.stderr, "\r\x1b[K");
        }
        contents.map_err(failed)
    }
}

fn end(analyzer: &mut Analyzer, explanation: &mut Explanation) {
    analyzer.finish();
    explanation.take(analyzer);
    explanation.finish();
}

/// Whether something can be read only once.
fn is_pipe(path: &Path) -> bool {
    path == Path::new("-") || std::fs::metadata(path).is_ok_and(|about| !about.is_file())
}

/// Ends where Ctrl-C was pressed: what was read until then is explained.
struct Cancelled<'a> {
    source: Box<dyn Read + Send>,
    cancel: &'a std::sync::atomic::AtomicBool,
}

impl Read for Cancelled<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.cancel.load(Ordering::Relaxed) {
            return Ok(0);
        }
        self.source.read(out)
    }
}
