//! The metrics that narrows brings along.

use super::entry::{Better, Metric, Scope};
use super::measured::Measured;
use super::table::Metrics;
use crate::net::nic::HostStats;
use crate::net::stats::DropReason;
use crate::outcome::{FlowOutcome, PortOutcome};
use crate::stats::nearest_rank;
use crate::traffic::{AppSpan, Gauge, Process, SpanKind};
use Better::{Higher, Lower, Neither};

fn sum(scope: &Scope<'_>, of: impl Fn(&FlowOutcome) -> u64) -> Option<Measured> {
    Some(Measured::Count(scope.flows().map(of).sum()))
}

/// A sum over ports.
fn ports(scope: &Scope<'_>, of: impl Fn(&PortOutcome) -> u64) -> Option<Measured> {
    Some(Measured::Count(scope.run.ports.iter().map(of).sum()))
}

fn switch_ports(scope: &Scope<'_>, of: impl Fn(&PortOutcome) -> u64) -> Option<Measured> {
    ports(scope, |p| if p.nic { 0 } else { of(p) })
}

/// SYNs and SYN-ACKs without an answer: of a run those of connections that came to nothing, too.
fn handshakes(scope: &Scope<'_>) -> u64 {
    match scope.traffic {
        Some(_) => scope.flows().map(|f| f.handshake_timeouts).sum(),
        None => scope.run.hosts.iter().map(|h| h.handshake_timeouts).sum(),
    }
}

fn seconds(scope: &Scope<'_>) -> Option<f64> {
    let ns = scope.run.measured.as_nanos();
    (ns > 0).then_some(ns as f64 / 1e9)
}

/// What receive sides did, of hosts that have one; `None` if none has.
fn work(scope: &Scope<'_>, of: impl Fn(&HostStats) -> u64) -> Option<u64> {
    let all = scope.run.hosts.iter().filter_map(|host| host.work.as_ref());
    all.map(of).reduce(|a, b| a + b)
}

/// A quantile of the latencies by nearest rank, in parts per 1000.
fn percentile(scope: &Scope<'_>, permille: usize) -> Option<Measured> {
    let mut all: Vec<u64> = scope.transfers().map(|t| t.took.as_nanos()).collect();
    let at = nearest_rank(all.len(), permille)?;
    let (_, value, _) = all.select_nth_unstable(at);
    Some(Measured::Count(*value))
}

fn mean_latency(scope: &Scope<'_>) -> Option<Measured> {
    let (mut n, mut sum) = (0_u64, 0_u128);
    for t in scope.transfers() {
        n += 1;
        sum += u128::from(t.took.as_nanos());
    }
    (n > 0).then(|| Measured::Ratio(sum as f64 / n as f64))
}

/// Jain's index of what the flows received: (sum x)^2 / (n sum x^2). Those that carry requests only
/// are none of them; one that carries payload and got nothing is.
fn fairness(scope: &Scope<'_>) -> Option<Measured> {
    let payload = scope.flows().filter(|f| !f.control);
    let received: Vec<f64> = payload.map(|f| f.received.get() as f64).collect();
    let n = received.len();
    let (sum, squares) = (
        received.iter().sum::<f64>(),
        received.iter().map(|x| x * x).sum::<f64>(),
    );
    (n > 1 && squares > 0.0).then(|| Measured::Ratio(sum * sum / (n as f64 * squares)))
}

/// What the nodes of a node-mesh held; `None` if there is none.
fn nodes<'a>(scope: &Scope<'a>) -> Option<Vec<&'a Gauge>> {
    let of = |gauge: &&Gauge| scope.traffic.is_none_or(|n| n == gauge.traffic);
    let gauges: Vec<&Gauge> = scope.run.gauges.iter().filter(of).collect();
    (!gauges.is_empty()).then_some(gauges)
}

/// How many of such a kind began after the warm-up.
fn spans(scope: &Scope<'_>, of: impl Fn(SpanKind) -> bool) -> Option<Measured> {
    nodes(scope)?;
    let count = scope.spans().filter(|span| of(span.kind)).count();
    Some(Measured::Count(count as u64))
}

impl Default for Metrics {
    #[inline]
    fn default() -> Self {
        Self::standard()
    }
}

impl Metrics {
    /// What narrows brings along.
    // Compiled where it is called, as what it says of each runs once.
    #[inline]
    pub fn standard() -> Self {
        Self(all())
    }
}

/// All of them.
#[inline]
fn all() -> Vec<Metric> {
    vec![
        Metric::new(
            ("goodput", "goodput", "bit/s"),
            Higher,
            "Payload that applications have read after the warm-up, requests and the like left out, over that time.",
            |s| {
                let bits = s.delivered().get() * 8;
                Some(Measured::Ratio(bits as f64 / seconds(s)?))
            },
        ),
        Metric::new(
            ("received", "payload received", "bytes"),
            Neither,
            "Payload that applications have read after the warm-up, requests and the like left out.",
            |s| Some(Measured::Count(s.delivered().get())),
        ),
        Metric::new(
            ("transfers", "transfers", ""),
            Neither,
            "Transfers that began after the warm-up and were completed: blocks, replies, queries, chunks.",
            |s| Some(Measured::Count(s.transfers().count() as u64)),
        ),
        Metric::new(
            ("transfers_per_s", "transfers a second", "1/s"),
            Higher,
            "Completed transfers over the time after the warm-up.",
            |s| Some(Measured::Ratio(s.transfers().count() as f64 / seconds(s)?)),
        ),
        Metric::new(
            ("failed", "failed transfers", ""),
            Lower,
            "Transfers that their application gave up on after the warm-up: calls that timed out.",
            |s| {
                let failed = s.run.failed.iter().zip(0_u16..);
                let of = failed.filter(|(_, n)| s.traffic.is_none_or(|wanted| wanted == *n));
                Some(Measured::Count(of.map(|(failed, _)| *failed).sum()))
            },
        ),
        Metric::new(
            ("busy_port", "busy ports", ""),
            Lower,
            "Times that the port of a node of a node-mesh became busy after the warm-up.",
            |s| spans(s, |kind| kind == SpanKind::BusyPort),
        ),
        Metric::new(
            ("busy_dist_port", "suspended processes", ""),
            Lower,
            "Times that a process of a node-mesh was suspended by a busy port after the warm-up.",
            |s| spans(s, |kind| matches!(kind, SpanKind::BusyDistPort(_))),
        ),
        Metric::new(
            ("suspended.max", "longest suspension", "ns"),
            Lower,
            "The longest time for which the server process of a node was suspended after the warm-up.",
            |s| {
                nodes(s)?;
                let end = s.run.measured_from + s.run.measured;
                let server = |span: &&AppSpan| span.kind == SpanKind::BusyDistPort(Process::Server);
                let spans = s.spans().filter(server);
                let took = spans.map(|span| span.until(end).since(span.began).as_nanos());
                Some(Measured::Count(took.max().unwrap_or(0)))
            },
        ),
        Metric::new(
            ("memory.peak", "most memory", "bytes"),
            Lower,
            "The most that a node of a node-mesh held after the warm-up: its queues, suspended processes and mailboxes, and what it holds beside.",
            |s| {
                let held = |gauge: &Gauge| {
                    let later = gauge.course.iter().filter(|(at, _)| *at >= s.run.measured_from);
                    later.map(|(_, bytes)| bytes.get()).max()
                };
                let most = nodes(s)?.iter().filter_map(|g| held(g)).max();
                most.map(Measured::Count)
            },
        ),
        Metric::new(
            ("memory.end", "memory at the end", "bytes"),
            Lower,
            "What of that the node with most held when the run ended.",
            |s| {
                let held = nodes(s)?.iter().map(|gauge| gauge.now.get()).max();
                held.map(Measured::Count)
            },
        ),
        Metric::new(
            ("latency.mean", "mean latency", "ns"),
            Lower,
            "Mean time of a transfer, from when it was asked for to its last byte.",
            mean_latency,
        ),
        Metric::new(
            ("latency.p50", "median latency", "ns"),
            Lower,
            "Half of the transfers took no longer.",
            |s| percentile(s, 500),
        ),
        Metric::new(
            ("latency.p95", "p95 latency", "ns"),
            Lower,
            "95 % of the transfers took no longer.",
            |s| percentile(s, 950),
        ),
        Metric::new(
            ("latency.p99", "p99 latency", "ns"),
            Lower,
            "99 % of the transfers took no longer.",
            |s| percentile(s, 990),
        ),
        Metric::new(
            ("latency.p999", "p99.9 latency", "ns"),
            Lower,
            "99.9 % of the transfers took no longer.",
            |s| percentile(s, 999),
        ),
        Metric::new(
            ("latency.max", "longest latency", "ns"),
            Lower,
            "The longest time of a transfer.",
            |s| percentile(s, 1_000),
        ),
        Metric::new(
            ("fairness", "Jain's index", ""),
            Higher,
            "Jain's index of what the flows received: 1 is equal, 1/n is all to one.",
            fairness,
        ),
        Metric::new(
            ("drops", "drops", ""),
            Lower,
            "Packets that queues of switch ports dropped after the warm-up, for want of room or early.",
            |s| switch_ports(s, PortOutcome::dropped_by_queue),
        )
        .of_run(),
        Metric::new(
            ("drops_per_s", "drops a second", "1/s"),
            Lower,
            "The same over the time after the warm-up.",
            |s| {
                let drops = switch_ports(s, PortOutcome::dropped_by_queue)?;
                Some(Measured::Ratio(drops.value() / seconds(s)?))
            },
        )
        .of_run(),
        Metric::new(
            ("drops.early", "early drops", ""),
            Lower,
            "Of those, packets that queue management dropped early.",
            |s| switch_ports(s, |p| p.dropped(DropReason::Early)),
        )
        .of_run(),
        Metric::new(
            ("drops.link", "lost on links", ""),
            Lower,
            "Packets that links lost, those that were down included, and that they damaged, which checksums dropped.",
            |s| {
                let lost = ports(s, |p| {
                    p.dropped(DropReason::Lost) + p.dropped(DropReason::LinkDown)
                })?;
                let damaged = s.run.hosts.iter().map(|h| h.damaged as f64).sum::<f64>();
                Some(Measured::Count((lost.value() + damaged) as u64))
            },
        )
        .of_run(),
        Metric::new(
            ("trimmed", "trimmed", ""),
            Lower,
            "Packets whose payload a switch cut.",
            |s| ports(s, |p| p.trimmed),
        )
        .of_run(),
        Metric::new(
            ("refused", "refused by NICs", ""),
            Lower,
            "Packets that NICs refused, whose queue was full or which had no buffer.",
            |s| {
                ports(s, |p| {
                    if p.nic {
                        p.dropped(DropReason::Full)
                    } else {
                        0
                    }
                })
            },
        )
        .of_run(),
        Metric::new(
            ("refused.buffers", "refused without a buffer", ""),
            Lower,
            "Of those, packets for which there was no buffer, where NICs may have none (tx_buffers, refuse).",
            |s| {
                let all = s.run.hosts.iter().filter_map(|host| host.without_buffer);
                let all = all.map(|refused| refused.sends);
                all.reduce(|a, b| a + b).map(Measured::Count)
            },
        )
        .of_run(),
        Metric::new(
            ("refused.in_a_row", "refused in a row", ""),
            Lower,
            "Of those, packets that were offered next after another one that was refused: whether to try again helps.",
            |s| {
                let all = s.run.hosts.iter().filter_map(|host| host.without_buffer);
                let all = all.map(|refused| refused.in_a_row);
                all.reduce(|a, b| a + b).map(Measured::Count)
            },
        )
        .of_run(),
        Metric::new(
            ("interrupts", "interrupts", ""),
            Neither,
            "Interrupts of receive queues, where hosts have rings (rx_frames, rx_usecs, gro, cpu).",
            |s| work(s, |w| w.interrupts).map(Measured::Count),
        )
        .of_run(),
        Metric::new(
            ("aggregates", "aggregates", ""),
            Neither,
            "Packets with data that receive sides gave to TCPs there: one each that receive offload merged.",
            |s| work(s, |w| w.aggregates).map(Measured::Count),
        )
        .of_run(),
        Metric::new(
            ("frames_per_aggregate", "frames an aggregate", ""),
            Neither,
            "Frames with data for each of those: 1 where nothing is merged.",
            |s| {
                let aggregates = work(s, |w| w.aggregates)?;
                let frames = work(s, |w| w.data_frames)?;
                (aggregates > 0).then(|| Measured::Ratio(frames as f64 / aggregates as f64))
            },
        )
        .of_run(),
        Metric::new(
            ("drops.ring", "dropped by rings", ""),
            Lower,
            "Packets that found a full receive ring there.",
            |s| {
                work(s, |_| 0)?;
                ports(s, |p| p.dropped(DropReason::RingFull))
            },
        )
        .of_run(),
        Metric::new(
            ("cpu", "highest processor load", ""),
            Neither,
            "Share of the time after the warm-up in which the cores of the busiest host worked, where packets cost time (host.cpu.counts).",
            |s| {
                let measured = s.run.measured.as_nanos();
                let all = s.run.hosts.iter().filter_map(|host| host.work.as_ref());
                let load = all.map(|w| w.busy.as_nanos() as f64 / f64::from(w.cores));
                let most = load.reduce(f64::max).filter(|most| *most > 0.0)?;
                (measured > 0).then(|| Measured::Ratio(most / measured as f64))
            },
        )
        .of_run(),
        Metric::new(
            ("marks", "CE marks", ""),
            Neither,
            "Packets that got a CE mark.",
            |s| ports(s, |p| p.marks),
        )
        .of_run(),
        Metric::new(
            ("pauses", "pause frames", ""),
            Lower,
            "Pause frames that switches sent to say that their memory fills up, those that renew a pause included.",
            |s| ports(s, |p| p.pause.xoff_sent),
        )
        .of_run(),
        Metric::new(
            ("paused", "longest pause", ""),
            Lower,
            "Share of the time after the warm-up in which the port that was paused longest could not begin a frame.",
            |s| {
                let ports = s.run.ports.iter();
                let longest = ports.map(|p| p.pause.paused.as_nanos()).max()?;
                Some(Measured::Ratio(longest as f64 / 1e9 / seconds(s)?))
            },
        )
        .of_run(),
        Metric::new(
            ("max_queue", "longest queue", "bytes"),
            Neither,
            "The longest queue of any switch port after the warm-up, as the port counts.",
            |s| {
                let queues = s.run.ports.iter().filter(|p| !p.nic);
                let most = queues.map(|p| p.max_bytes).max()?;
                Some(Measured::Count(most))
            },
        )
        .of_run(),
        Metric::new(
            ("utilisation", "highest utilisation", ""),
            Neither,
            "Share of the time after the warm-up in which the busiest link carried a frame.",
            |s| {
                // Where no port counted a packet nothing is known.
                let ports = s.run.ports.iter().filter(|p| p.packets > 0);
                let busiest = ports.map(|p| p.utilisation_ppm).max()?;
                let share = busiest as f64 / 1e6;
                Some(Measured::Ratio(share))
            },
        )
        .of_run(),
        Metric::new(
            ("segments", "data segments", ""),
            Neither,
            "Segments with data that were sent, retransmissions included. What a NIC refused was not sent, except where host.tcp.local_drop has it count as sent.",
            |s| sum(s, |f| f.sender.segments),
        ),
        Metric::new(
            ("retransmits", "retransmissions", ""),
            Lower,
            "Of those, retransmissions.",
            |s| sum(s, |f| f.sender.retransmits),
        ),
        Metric::new(
            ("retransmit_share", "retransmitted share", ""),
            Lower,
            "Retransmissions over data segments.",
            |s| {
                let all = sum(s, |f| f.sender.segments)?.value();
                let again = sum(s, |f| f.sender.retransmits)?.value();
                (all > 0.0).then(|| Measured::Ratio(again / all))
            },
        ),
        Metric::new(
            ("fast_recoveries", "fast recoveries", ""),
            Neither,
            "Fast-recovery episodes entered.",
            |s| sum(s, |f| f.sender.fast_recoveries),
        ),
        Metric::new(
            ("timeouts", "timeouts", ""),
            Lower,
            "Retransmission timeouts, handshakes included.",
            |s| {
                let sent = s.flows().map(|f| f.sender.timeouts).sum::<u64>();
                Some(Measured::Count(sent + handshakes(s)))
            },
        ),
        Metric::new(
            ("timeouts.full_window", "whole-window timeouts", ""),
            Lower,
            "Timeouts because the whole window was lost: no ACK could come back (FAST 2008).",
            |s| sum(s, |f| f.sender.timeouts_full_window),
        ),
        Metric::new(
            ("timeouts.tail", "tail timeouts", ""),
            Lower,
            "Timeouts because the tail of a window was lost: too few duplicate ACKs.",
            |s| sum(s, |f| f.sender.timeouts_tail),
        ),
        Metric::new(
            (
                "timeouts.retransmission",
                "lost-retransmission timeouts",
                "",
            ),
            Lower,
            "Timeouts because a retransmission was lost.",
            |s| sum(s, |f| f.sender.timeouts_retransmission),
        ),
        Metric::new(
            ("timeouts.handshake", "handshake timeouts", ""),
            Lower,
            "SYNs and SYN-ACKs that were not answered in time.",
            |s| Some(Measured::Count(handshakes(s))),
        ),
        Metric::new(
            ("opening", "connections still opening", ""),
            Lower,
            "Connections whose handshake was not complete when the run ended.",
            |s| Some(Measured::Count(s.opening().map(|o| o.at_end).sum())),
        ),
        Metric::new(
            ("opening.begin", "connections opening as it began", ""),
            Lower,
            "Connections whose handshake was not complete when the warm-up ended.",
            |s| s.opening().map(|o| o.at_begin).sum::<Option<u64>>().map(Measured::Count),
        ),
        Metric::new(
            ("ecn_reductions", "ECN reductions", ""),
            Neither,
            "Reductions of a window because of ECN.",
            |s| sum(s, |f| f.sender.ecn_reductions),
        ),
        Metric::new(
            ("simulated", "simulated time", "ns"),
            Neither,
            "Simulated time of the run.",
            |s| {
                let ns = s.run.simulated.as_nanos();
                Some(Measured::Count(ns))
            },
        )
        .of_run(),
        Metric::new(
            ("measured", "measured time", "ns"),
            Neither,
            "Simulated time that is measured: after the warm-up, and from when the clock of the run counts.",
            |s| Some(Measured::Count(s.run.measured.as_nanos())),
        )
        .of_run(),
        Metric::new(
            ("events", "events", ""),
            Neither,
            "Simulator events: a measure of work, not of the network.",
            |s| Some(Measured::Count(s.run.events)),
        )
        .of_run(),
    ]
}
