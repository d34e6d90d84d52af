//! Writes what happens in a run, as JSON lines: what connections decide, and what whoever has
//! [`Lines`] tells beside.
//!
//! The first line names format and version. Each other line is one event, in the order of time; of
//! a connection:
//!
//! ```text
//! {"ns":115840,"host":3,"conn":0,"event":"window","cwnd":14480,"ssthresh":null,...}
//! ```
//!
//! `ns` is the time since the start of the run, `host` the number of the host (0 is the client
//! of an incast), `conn` the connection's number on that host. Byte counts are whole numbers of
//! bytes, times end in `_ns`; `null` is a value that there is not (yet).
//!
//! | `event` | fields |
//! |---|---|
//! | `open` | `local`, `remote`: the connection begins |
//! | `state` | `from`, `to`: the state of RFC 9293; `why` with `closed` |
//! | `window` | `cwnd`, `ssthresh`, `in_flight`, `snd_wnd`, `srtt_ns`, `rto_ns`: after an ACK |
//! | `recovery` | `from`, `to`: `open`, `disorder`, `cwr`, `recovery`, `loss` |
//! | `congestion` | `sign`: `loss`, `ecn-echo`, `local-drop` |
//! | `lost` | `bytes` newly marked lost |
//! | `local-drop` | `bytes`: the host's own NIC queue refused a segment; a `window` follows if it answers for that |
//! | `retransmit` | `offset` in the stream, `bytes` |
//! | `timeout` | `cause`, `rto_ns`, `consecutive`, `flight_size` |
//! | `tail-loss-probe` | |
//! | `undo` | `spurious`: `timeout`, `fast-retransmit` |
//! | `held` | `by`: why nothing leaves, when that is another reason than before: `idle`, `sent`, `congestion-window`, `receive-window`, `nagle` |
//! | `delayed-ack` | the timer of a delayed acknowledgement fired |

use crate::net::packet::HostId;
use narrows::congestion::{CaState, CongestionEvent, Spurious};
use narrows::conn::state::State;
use narrows::endpoint::demux::FourTuple;
use narrows::endpoint::{ConnId, Tracer};
use narrows::trace::{Held, TimeoutCause, TraceEvent, TraceSink};
use narrows::{ByteCount, Instant};
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of the format.
pub const FORMAT_VERSION: u32 = 2;

/// A trace that is being written.
pub struct TraceLog<'a> {
    out: &'a mut (dyn Write + Send),
    lines: Lines,
    /// The first error; nothing is written after it.
    result: io::Result<()>,
}

impl fmt::Debug for TraceLog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceLog").finish_non_exhaustive()
    }
}

impl<'a> TraceLog<'a> {
    /// Begin with the line that names the format, and the program that writes it: its version, and
    /// the commit that it was made from, if it knows.
    pub fn new(out: &'a mut (dyn Write + Send), version: &str, commit: Option<&str>) -> Self {
        let head = format!(
            "{{\"format\":\"narrows-trace\",\"format_version\":{FORMAT_VERSION},\"narrows_version\":\"{version}\",\"narrows_commit\":{}}}\n",
            commit.map_or("null".to_owned(), |c| format!("\"{c}\""))
        );
        Self {
            out,
            lines: Lines(Arc::new(Mutex::new(head))),
            result: Ok(()),
        }
    }

    /// For those who tell of other things than connections.
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// What listens to every connection that a host will have.
    pub fn tracer(&self, id: HostId) -> Tracer {
        let lines = self.lines.clone();
        Box::new(move |now: Instant, conn: ConnId, tuple: &FourTuple| {
            let sink = Sink {
                lines: lines.clone(),
                host: id.0,
                conn: conn.index(),
                held: None,
            };
            let (local, remote) = (tuple.local, tuple.remote);
            sink.line(now, "open", |line| {
                let _ = write!(line, ",\"local\":\"{local}\",\"remote\":\"{remote}\"");
            });
            Some(Box::new(sink) as Box<dyn TraceSink>)
        })
    }

    /// Hand what has gathered to the file; to be called now and then.
    pub fn drain(&mut self) {
        let mut lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        if self.result.is_ok() {
            self.result = self.out.write_all(lines.as_bytes());
        }
        lines.clear();
    }

    /// Write the rest.
    ///
    /// # Errors
    /// The first error of all that was written.
    pub fn finish(mut self) -> io::Result<()> {
        self.drain();
        self.result?;
        self.out.flush()
    }
}

/// The lines of a trace that have not been written.
#[derive(Clone, Debug)]
pub struct Lines(Arc<Mutex<String>>);

impl Lines {
    /// Adds a line: an event at `now`, with `fields`, each as `,"name":value`.
    pub fn add(&self, now: Instant, event: &str, fields: fmt::Arguments<'_>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string does not fail.
        let _ = writeln!(
            lines,
            "{{\"ns\":{},\"event\":\"{event}\"{fields}}}",
            now.as_nanos()
        );
    }
}

/// One connection's.
struct Sink {
    lines: Lines,
    host: u32,
    conn: usize,
    /// Why nothing left when that was told last.
    held: Option<Held>,
}

impl Sink {
    fn line(&self, now: Instant, event: &str, fields: impl FnOnce(&mut String)) {
        let mut lines = self.begin(now, event);
        fields(&mut lines);
        lines.push_str("}\n");
    }

    /// Of a line what all have; apart, for it is compiled once.
    fn begin(&self, now: Instant, event: &str) -> MutexGuard<'_, String> {
        let mut lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (host, conn) = (self.host, self.conn);
        let _ = write!(
            lines,
            "{{\"ns\":{},\"host\":{host},\"conn\":{conn},\"event\":\"{event}\"",
            now.as_nanos()
        );
        lines
    }
}

impl TraceSink for Sink {
    fn wants_held(&self) -> bool {
        true
    }

    fn event(&mut self, now: Instant, event: &TraceEvent) {
        // Writing to a string does not fail.
        match event {
            TraceEvent::State { from, to } => self.line(now, "state", |l| {
                let _ = write!(
                    l,
                    ",\"from\":\"{}\",\"to\":\"{}\"",
                    state(*from),
                    state(*to)
                );
                if let State::Closed(why) = to {
                    let _ = write!(l, ",\"why\":\"{why}\"");
                }
            }),
            TraceEvent::Window {
                cwnd,
                ssthresh,
                in_flight,
                snd_wnd,
                srtt,
                rto,
            } => self.line(now, "window", |l| {
                let _ = write!(l, ",\"cwnd\":{}", cwnd.get());
                let known = Some(ssthresh.get()).filter(|_| *ssthresh < ByteCount::MAX);
                number(l, "ssthresh", known);
                let _ = write!(
                    l,
                    ",\"in_flight\":{},\"snd_wnd\":{}",
                    in_flight.get(),
                    snd_wnd.get()
                );
                number(l, "srtt_ns", srtt.map(|d| d.as_nanos()));
                number(l, "rto_ns", Some(rto.as_nanos()));
            }),
            TraceEvent::CaState { from, to } => self.line(now, "recovery", |l| {
                let _ = write!(
                    l,
                    ",\"from\":\"{}\",\"to\":\"{}\"",
                    phase(*from),
                    phase(*to)
                );
            }),
            TraceEvent::Congestion(sign) => self.line(now, "congestion", |l| {
                let sign = match sign {
                    CongestionEvent::Loss => "loss",
                    CongestionEvent::EcnEcho => "ecn-echo",
                    CongestionEvent::LocalDrop => "local-drop",
                    _ => "other",
                };
                let _ = write!(l, ",\"sign\":\"{sign}\"");
            }),
            TraceEvent::Lost { bytes } => {
                self.line(now, "lost", |l| number(l, "bytes", Some(bytes.get())));
            }
            TraceEvent::LocalDrop { bytes } => {
                self.line(now, "local-drop", |l| number(l, "bytes", Some(bytes.get())));
            }
            TraceEvent::Retransmit { offset, bytes } => self.line(now, "retransmit", |l| {
                number(l, "offset", Some(*offset));
                number(l, "bytes", Some(bytes.get()));
            }),
            TraceEvent::Timeout {
                cause,
                rto,
                consecutive,
                flight_size,
            } => self.line(now, "timeout", |l| {
                let cause = match cause {
                    TimeoutCause::Handshake => "handshake",
                    TimeoutCause::FullWindow => "full-window",
                    TimeoutCause::Tail => "tail",
                    TimeoutCause::RetransmissionLost => "retransmission-lost",
                    TimeoutCause::ZeroWindow => "zero-window",
                };
                let _ = write!(l, ",\"cause\":\"{cause}\"");
                number(l, "rto_ns", Some(rto.as_nanos()));
                number(l, "consecutive", Some(u64::from(*consecutive)));
                number(l, "flight_size", Some(flight_size.get()));
            }),
            TraceEvent::TailLossProbe => self.line(now, "tail-loss-probe", |_| {}),
            TraceEvent::Undo(spurious) => self.line(now, "undo", |l| {
                let spurious = match spurious {
                    Spurious::Timeout => "timeout",
                    Spurious::FastRetransmit => "fast-retransmit",
                    _ => "other",
                };
                let _ = write!(l, ",\"spurious\":\"{spurious}\"");
            }),
            TraceEvent::Held(held) if self.held.replace(*held) == Some(*held) => {}
            TraceEvent::Held(held) => self.line(now, "held", |l| {
                let by = match held {
                    Held::Idle => "idle",
                    Held::Sent => "sent",
                    Held::CongestionWindow => "congestion-window",
                    Held::PacketWindow => "packet-window",
                    Held::ReceiveWindow => "receive-window",
                    Held::Nagle => "nagle",
                };
                let _ = write!(l, ",\"by\":\"{by}\"");
            }),
            TraceEvent::DelayedAck => self.line(now, "delayed-ack", |_| {}),
            _ => self.line(now, "other", |_| {}),
        }
    }
}

fn number(line: &mut String, name: &str, value: Option<u64>) {
    let _ = match value {
        Some(v) => write!(line, ",\"{name}\":{v}"),
        None => write!(line, ",\"{name}\":null"),
    };
}

const fn state(state: State) -> &'static str {
    match state {
        State::SynSent => "syn-sent",
        State::SynReceived(_) => "syn-received",
        State::Established => "established",
        State::FinWait1 => "fin-wait-1",
        State::FinWait2 => "fin-wait-2",
        State::CloseWait => "close-wait",
        State::Closing => "closing",
        State::LastAck => "last-ack",
        State::TimeWait => "time-wait",
        State::Closed(_) => "closed",
    }
}

const fn phase(phase: CaState) -> &'static str {
    match phase {
        CaState::Open => "open",
        CaState::Disorder => "disorder",
        CaState::Cwr => "cwr",
        CaState::Recovery => "recovery",
        CaState::Loss => "loss",
    }
}
