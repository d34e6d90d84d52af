//! JSON and CSV, with a stable layout.
//!
//! All values are in base units that the field's name ends in: `_bps` bits per second, `_ns`
//! nanoseconds, `_bytes`, `_packets`. Adding a field keeps [`FORMAT_VERSION`]; removing one or
//! changing its meaning raises it.

use super::story::Story;
use super::summary::Summary;
use narrows::recovery::detector::DetectorRegistry;
use narrows_experiment::scenario::spec::{Aqm, BlockSize, Length, QueueLimit, idle_restart_name};
use narrows_experiment::scenario::{IncastRun, PlannedRun, SweepSpec};
use serde::Serialize;
use std::io::{self, Write};

/// Version of the JSON and CSV layout.
pub const FORMAT_VERSION: u32 = 2;

/// One run, flat: a row of the CSV, an element of `runs` in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRecord {
    /// The variant's label.
    pub variant: String,
    /// Congestion control.
    pub congestion: String,
    /// RTO policy.
    pub rto: String,
    /// Loss detector.
    pub loss_detector: String,
    /// Number of servers.
    pub servers: u32,
    /// Repetition, from 0.
    pub repetition: u32,
    /// The run's own seed: `--seed` with it and `--repetitions 1` gives this run again.
    pub seed: u64,
    /// `completed`, `time-limit`, `stalled`, `connection-lost` or `corrupt-data`.
    pub outcome: &'static str,
    /// Payload delivered to the client's application per simulated second.
    pub goodput_bps: u64,
    /// Rate of a link.
    pub link_rate_bps: u64,
    /// Payload delivered to the client's application.
    pub payload_bytes: u64,
    /// Simulated time.
    pub simulated_ns: u64,
    /// Blocks completed.
    pub blocks: u64,
    /// Median block time (nearest rank); empty without a block.
    pub block_median_ns: Option<u64>,
    /// 99th percentile of the block times (nearest rank); empty without a block.
    pub block_p99_ns: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Of those, after the loss of a whole window.
    pub timeouts_full_window: u64,
    /// Of those, after the loss of the last packets.
    pub timeouts_tail: u64,
    /// Of those, after the loss of a retransmission.
    pub timeouts_retransmission_lost: u64,
    /// Of those, others.
    pub timeouts_other: u64,
    /// Fast-recovery episodes.
    pub fast_retransmits: u64,
    /// Packets dropped, in all.
    pub drops: u64,
    /// Of those, at the full port to the client.
    pub drops_port_full: u64,
    /// Of those, early by queue management.
    pub drops_port_early: u64,
    /// Of those, at a full port to a server.
    pub drops_port_server: u64,
    /// Of those, at a host's device (live only).
    pub drops_device: u64,
    /// Of those, by an impairment.
    pub drops_impaired: u64,
    /// Packets that a server's NIC queue refused; they were sent later and are no drops.
    pub refused_server_nic: u64,
    /// Packets that the client's NIC queue refused.
    pub refused_client_nic: u64,
    /// CE marks.
    pub marks: u64,
    /// Data packets sent, retransmissions included.
    pub data_packets: u64,
    /// Of those, retransmissions.
    pub retransmitted_packets: u64,
    /// Longest queue at the port to the client.
    pub max_queue_packets: u64,
    /// The same in bytes.
    pub max_queue_bytes: u64,
    /// Simulator events.
    pub events: u64,
}

impl RunRecord {
    /// Flatten one run.
    pub fn of(variant: &str, planned: &PlannedRun, run: &IncastRun) -> Self {
        let spec = &planned.spec;
        let mut times = run.block_times.clone();
        times.sort_unstable();
        let q =
            |percent| narrows_experiment::stats::quantile(&times, percent).map(|d| d.as_nanos());
        Self {
            variant: variant.to_owned(),
            congestion: spec.tcp.congestion.clone(),
            rto: spec.tcp.rto.clone(),
            loss_detector: spec.tcp.loss_detector.clone(),
            servers: spec.servers,
            repetition: spec.repetition,
            seed: spec.seed,
            outcome: run.outcome.name(),
            goodput_bps: run.goodput.bits_per_sec(),
            link_rate_bps: spec.net.link_rate.bits_per_sec(),
            payload_bytes: run.payload.get(),
            simulated_ns: run.simulated.as_nanos(),
            blocks: run.block_times.len() as u64,
            block_median_ns: q(50),
            block_p99_ns: q(99),
            timeouts: run.timeouts.total(),
            timeouts_full_window: run.timeouts.full_window,
            timeouts_tail: run.timeouts.tail,
            timeouts_retransmission_lost: run.timeouts.retransmission_lost,
            timeouts_other: run.timeouts.handshake + run.timeouts.other,
            fast_retransmits: run.fast_retransmits,
            drops: run.drops.total(),
            drops_port_full: run.drops.port_full,
            drops_port_early: run.drops.port_early,
            drops_port_server: run.drops.port_server,
            drops_device: run.drops.device,
            drops_impaired: run.drops.impaired,
            refused_server_nic: run.refused.server,
            refused_client_nic: run.refused.client,
            marks: run.marks,
            data_packets: run.data_packets,
            retransmitted_packets: run.retransmitted_packets,
            max_queue_packets: run.max_queue.packets,
            max_queue_bytes: run.max_queue.bytes.get(),
            events: run.events,
        }
    }

    /// All finished runs of a sweep, in its order.
    pub fn all(
        sweep: &SweepSpec,
        planned: &[PlannedRun],
        results: &[Option<IncastRun>],
    ) -> Vec<Self> {
        let variants = sweep.variants();
        planned
            .iter()
            .zip(results)
            .filter_map(|(p, r)| Some(Self::of(&variants[p.variant].label, p, r.as_ref()?)))
            .collect()
    }
}

/// Write the runs as CSV (RFC 4180 with `\n` line ends): a header, then a line a run.
///
/// # Errors
/// What the writer gives.
pub fn write_csv(records: &[RunRecord], out: &mut dyn Write) -> io::Result<()> {
    let mut header_done = false;
    for record in records {
        let value = serde_json::to_value(record).map_err(io::Error::other)?;
        let Some(fields) = value.as_object() else {
            continue;
        };
        if !header_done {
            writeln!(out, "{}", HEADER.join(","))?;
            header_done = true;
        }
        let cells: Vec<String> = HEADER
            .iter()
            .map(|name| fields.get(*name).map_or_else(String::new, cell))
            .collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    if !header_done {
        writeln!(out, "{}", HEADER.join(","))?;
    }
    Ok(())
}

fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(s) => narrows_experiment::results::cell(s),
        other => other.to_string(),
    }
}

/// The columns of the CSV.
pub const HEADER: [&str; 35] = [
    "variant",
    "congestion",
    "rto",
    "loss_detector",
    "servers",
    "repetition",
    "seed",
    "outcome",
    "goodput_bps",
    "link_rate_bps",
    "payload_bytes",
    "simulated_ns",
    "blocks",
    "block_median_ns",
    "block_p99_ns",
    "timeouts",
    "timeouts_full_window",
    "timeouts_tail",
    "timeouts_retransmission_lost",
    "timeouts_other",
    "fast_retransmits",
    "drops",
    "drops_port_full",
    "drops_port_early",
    "drops_port_server",
    "drops_device",
    "drops_impaired",
    "refused_server_nic",
    "refused_client_nic",
    "marks",
    "data_packets",
    "retransmitted_packets",
    "max_queue_packets",
    "max_queue_bytes",
    "events",
];

/// The whole of a sweep as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRecord {
    /// Always `narrows-incast`.
    pub format: &'static str,
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Version of narrows that ran it.
    pub narrows_version: String,
    /// The commit that it was built from, see [`COMMIT`](narrows_experiment::version::COMMIT).
    pub narrows_commit: Option<&'static str>,
    /// The command line.
    pub command: String,
    /// Name and value of each setting, as people read them.
    pub settings: Vec<(String, String)>,
    /// Name and description of each algorithm in the sweep.
    pub names: Vec<(String, String)>,
    /// What happened, in sentences.
    pub summary: Vec<String>,
    /// Runs planned.
    pub planned: usize,
    /// Means over the repetitions.
    pub points: Vec<PointRecord>,
    /// Every finished run.
    pub runs: Vec<RunRecord>,
}

/// One point of the plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointRecord {
    /// The variant's label.
    pub variant: String,
    /// Number of servers.
    pub servers: u32,
    /// Runs that the means are over.
    pub repetitions: usize,
    /// Mean goodput.
    pub goodput_bps: f64,
    /// Half-width of its 95 % confidence interval; `null` from one run.
    pub goodput_ci95_bps: Option<f64>,
    /// Mean goodput over link rate.
    pub link_share: f64,
    /// Mean timeouts of a run.
    pub timeouts: f64,
    /// Mean drops of a run.
    pub drops: f64,
    /// Mean marks of a run.
    pub marks: f64,
    /// Median time of a block.
    pub block_median_ns: Option<u64>,
    /// 99th percentile of the time of a block.
    pub block_p99_ns: Option<u64>,
    /// Here this variant collapses first.
    pub collapse_onset: bool,
}

impl PointRecord {
    /// All points of a summary, in its order.
    pub fn all(summary: &Summary, story: &Story) -> Vec<Self> {
        let mut out = Vec::new();
        for (v, onset) in summary.variants.iter().zip(&story.onset) {
            for (i, p) in v.points.iter().enumerate() {
                out.push(Self {
                    variant: v.variant.label.clone(),
                    servers: p.servers,
                    repetitions: p.goodput.samples,
                    goodput_bps: p.goodput.mean,
                    goodput_ci95_bps: p.goodput.ci95,
                    link_share: p.share,
                    timeouts: p.timeouts,
                    drops: p.drops,
                    marks: p.marks,
                    block_median_ns: p.block_median.map(|d| d.as_nanos()),
                    block_p99_ns: p.block_p99.map(|d| d.as_nanos()),
                    collapse_onset: *onset == Some(i),
                });
            }
        }
        out
    }
}

/// The settings that all runs of a sweep share, and the lists of those that vary.
///
/// What `detectors` knows to work without SACK negotiates none, whatever the spec says.
pub fn settings(sweep: &SweepSpec, detectors: &DetectorRegistry) -> Vec<(String, String)> {
    let (base, net, tcp) = (&sweep.base, &sweep.base.net, &sweep.base.tcp);
    let onoff = |on: bool| if on { "on" } else { "off" }.to_owned();
    let size = |b| narrows_experiment::scenario::spec::Size(b).to_string();
    let join = |items: Vec<String>| items.join(", ");
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.push((
        "servers",
        join(sweep.servers.iter().map(ToString::to_string).collect()),
    ));
    match base.block {
        BlockSize::Sru(s) => rows.push(("SRU", size(s))),
        BlockSize::Fixed(s) => rows.push(("block", size(s))),
    }
    match base.length {
        Length::Blocks { blocks, time_limit } => {
            rows.push(("blocks", blocks.to_string()));
            rows.push(("time limit", time_limit.to_string()));
        }
        Length::Time(t) => rows.push(("simulated time", t.to_string())),
    }
    rows.push(("link rate", net.link_rate.to_string()));
    rows.push(("link delay", net.link_delay.to_string()));
    rows.push(("framing", net.framing.name().to_owned()));
    rows.push(("MTU", net.mtu.to_string()));
    rows.push(("MSS", tcp.effective_mss(net.mtu).to_string()));
    rows.push(("port buffer", net.port_buffer.to_string()));
    rows.push((
        "shared buffer",
        net.shared_buffer
            .map_or("none".to_owned(), |shared| shared.to_string()),
    ));
    rows.push(("impairments", net.impair.to_string()));
    rows.push(("queue counting", net.queue_counting.name().to_owned()));
    rows.push((
        "queue management",
        match net.aqm {
            Aqm::EcnStep(QueueLimit::Bytes(_) | QueueLimit::Packets(_)) => {
                format!("{} (step)", net.aqm)
            }
            _ => net.aqm.to_string(),
        },
    ));
    rows.push(("server NIC queue", net.server_nic.to_string()));
    rows.push(("client NIC queue", net.client_nic.to_string()));
    rows.push(("NIC overhead", format!("up to {}", net.nic_overhead)));
    rows.push(("ties", net.ties.name().to_owned()));
    rows.push(("congestion control", tcp.congestion.clone()));
    rows.push(("RTO policy", tcp.rto.clone()));
    rows.push((
        "window after idle",
        idle_restart_name(tcp.idle_restart).to_owned(),
    ));
    rows.push((
        "undo of spurious reductions",
        if tcp.undo_spurious { "on" } else { "off" }.to_owned(),
    ));
    rows.push((
        "timer tick",
        if tcp.timer_tick.is_zero() {
            "exact".to_owned()
        } else {
            tcp.timer_tick.to_string()
        },
    ));
    rows.push(("loss detector", tcp.loss_detector.clone()));
    rows.push(("SACK", sack(sweep, detectors)));
    rows.push(("PRR", onoff(tcp.prr)));
    rows.push(("limited transmit", onoff(tcp.limited_transmit)));
    rows.push(("timestamps", onoff(tcp.timestamps)));
    rows.push(("ECN", tcp.ecn.name().to_owned()));
    rows.push(("delayed ACK", tcp.delayed_ack.to_string()));
    rows.push(("initial window", format!("{} segments", tcp.initial_window)));
    rows.push((
        "receive window",
        tcp.receive_window.map_or("free".to_owned(), size),
    ));
    rows.push(("request", size(base.request.size)));
    rows.push(("start jitter", base.start_jitter.to_string()));
    rows.push(("repetitions", sweep.repetitions.to_string()));
    rows.push(("seed", base.seed.to_string()));
    for axis in &sweep.axes {
        let values = join(
            axis.values
                .iter()
                .map(narrows_experiment::scenario::Setting::label)
                .collect(),
        );
        match rows.iter_mut().find(|(name, _)| *name == axis.title) {
            Some(_) if axis.title == "SACK" => {}
            Some(row) => row.1 = values,
            None => rows.push((axis.title, values)),
        }
    }
    rows.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Whether SACK is negotiated, by loss detector where that differs.
fn sack(sweep: &SweepSpec, detectors: &DetectorRegistry) -> String {
    let mut with: Vec<String> = Vec::new();
    let mut without: Vec<String> = Vec::new();
    let (mut on, mut off) = (false, false);
    for variant in sweep.variants() {
        let tcp = sweep.variant_spec(&variant).tcp;
        let detector = detectors.get(&tcp.loss_detector);
        let uses = detector.is_ok_and(|d| d.build().uses_sack());
        let list = if uses { &mut with } else { &mut without };
        if !list.contains(&tcp.loss_detector) {
            list.push(tcp.loss_detector);
        }
        on |= uses && tcp.sack;
        off |= !tcp.sack;
    }
    let given = match (on, off) {
        (true, true) => "on, off",
        (true, false) => "on",
        (false, _) => return "off".to_owned(),
    };
    if without.is_empty() {
        given.to_owned()
    } else {
        format!(
            "{given} with {}, off with {}",
            with.join(", "),
            without.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::recovery::detector;
    use narrows_experiment::scenario::{Axis, IncastSpec, Setting};

    #[test]
    fn the_settings_say_what_is_negotiated() {
        let said = |loss: &[&str], sack: &[bool]| {
            let loss = loss.iter().map(|l| Setting::LossDetector((*l).to_owned()));
            let mut axes = vec![Axis::new(loss.collect())];
            if !sack.is_empty() {
                axes.push(Axis::new(
                    sack.iter().map(|on| Setting::Sack(*on)).collect(),
                ));
            }
            let sweep = SweepSpec {
                base: IncastSpec::default(),
                servers: vec![1],
                axes,
                repetitions: 1,
            };
            let rows = settings(&sweep, &detector::standard());
            let rows: Vec<_> = rows
                .into_iter()
                .filter(|(name, _)| name == "SACK")
                .collect();
            assert_eq!(rows.len(), 1);
            rows[0].1.clone()
        };
        assert_eq!(said(&["sack"], &[]), "on");
        assert_eq!(said(&["newreno"], &[]), "off");
        assert_eq!(said(&["reno", "newreno"], &[]), "off");
        let both = "on with sack, rack, off with newreno";
        assert_eq!(said(&["sack", "newreno", "rack"], &[]), both);
        assert_eq!(said(&["rack"], &[true, false]), "on, off");
        assert_eq!(said(&["rack"], &[false]), "off");
    }
}
