//! `ledger`: what the connections of an experiment waited for, from the truth.

use crate::ledger::{LEDGER, Sum};
use crate::truth::{EndId, Passing, Threshold, Truth};
use narrows::congestion::order::OrderedMap;
use narrows::endpoint::Tracer;
use narrows::wire::Flags;
use narrows::{Duration, Instant};
use narrows_experiment::host::SimPacket;
use narrows_experiment::knob;
use narrows_experiment::knob::{Kind, Knob, Knobs};
use narrows_experiment::model::{Invalid, NamedProbe};
use narrows_experiment::net::packet::Packet;
use narrows_experiment::net::stats::DropReason;
use narrows_experiment::probe::{
    Hears, Instrument, Listener, PacketListener, Probe, ProbeKind, Reading, Site, Table, View,
};
use narrows_experiment::sim::tap::{PauseEvent, TapEvent};
use narrows_experiment::sim::time::SimTime;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kind of probe, to be registered.
pub fn kind() -> ProbeKind {
    ProbeKind::new::<LedgerProbe>(
        LEDGER,
        "what connections waited for, by cause, as they know it themselves",
    )
}

/// What all connections waited for, as they know it themselves: by cause the number of gaps, the
/// time in them, its share, and the longest. Gaps that began in the warm-up are left out.
///
/// What packets waited for on their way is told by the network: a pause, a network card that
/// interrupts once for many, or anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerProbe {
    /// The shortest gap.
    pub floor: Duration,
    /// The shortest gap in percent of the least smoothed RTT of its connection.
    pub share_percent: u32,
    /// Whether every repetition is watched, or the first only.
    pub each_run: bool,
}

impl Default for LedgerProbe {
    fn default() -> Self {
        Self {
            floor: Duration::from_micros(100),
            share_percent: 200,
            each_run: true,
        }
    }
}

impl Knobs for LedgerProbe {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { floor: "floor", "shortest gap", Kind::TIME, "What is not longer than this is no gap." },
        knob! { share_percent: "share", "shortest gap by RTT", Kind::Whole { least: 0, most: 100_000 },
        "What is not longer than so many percent of the connection's least smoothed RTT is no gap." },
        knob! { each_run: "each_run", "each repetition", Kind::Switch,
        "Whether every repetition is watched, or the first of each point only, which costs less: a run that is watched takes some 1.4 times as long." },
    ];
}

impl Probe for LedgerProbe {
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, site: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let truth = Truth::new(Threshold {
            floor: self.floor,
            share_percent: self.share_percent,
        });
        Ok(vec![Box::new(Watch::new(truth, site))])
    }

    fn repeats(&self) -> bool {
        self.each_run
    }
}

/// The truth of a run, for whoever wants to know it afterwards.
#[derive(Clone, Debug)]
pub(super) struct SharedTruth {
    threshold: Threshold,
    questions: Questions,
    last: Arc<Mutex<Option<Truth>>>,
}

/// Whether the questions that waited are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Questions {
    Kept,
    Left,
}

impl SharedTruth {
    pub(super) fn new(threshold: Threshold, questions: Questions) -> Self {
        Self {
            threshold,
            questions,
            last: Arc::default(),
        }
    }

    /// That of the last run that came to its end; a blank one before any has.
    pub(super) fn take(&self) -> Truth {
        let last = self.last().take();
        last.unwrap_or_else(|| Truth::new(self.threshold))
    }

    fn last(&self) -> MutexGuard<'_, Option<Truth>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A probe that listens to a run.
    pub(super) fn probe(&self) -> NamedProbe {
        NamedProbe {
            name: "told".to_owned(),
            kind: "told".to_owned(),
            spec: Box::new(self.clone()),
        }
    }

    fn watch(&self, site: &Site<'_>) -> Watch {
        let mut truth = Truth::new(self.threshold);
        if self.questions == Questions::Kept {
            truth.keep_questions();
        }
        Watch {
            wanted: Some(self.clone()),
            ..Watch::new(truth, site)
        }
    }
}

impl Knobs for SharedTruth {
    const TABLE: &'static [Knob<Self>] = &[];
}

impl Probe for SharedTruth {
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, site: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        Ok(vec![Box::new(self.watch(site))])
    }
}

/// A packet as the truth wants it.
#[inline]
fn passing(packet: &SimPacket) -> Passing {
    let tcp = packet.header();
    let sacked = packet.sack().as_slice().first();
    let scale = || packet.window_scale();
    let syn = tcp.flags.contains(Flags::SYN);
    Passing {
        seq: tcp.seq.0,
        len: packet.payload().len,
        ack: tcp.ack.0,
        window: tcp.window,
        scale: syn.then(|| scale().unwrap_or(0)),
        sacked: sacked.map(|block| (block.start.0, block.end.0)),
    }
}

/// Whose packet it is.
#[inline]
fn sender(truth: &mut Truth, packet: &SimPacket) -> EndId {
    match packet.ends_v4() {
        Some(ends) => truth.end_v4(ends),
        None => {
            let ends = packet.for_sender();
            truth.end([ends.local, ends.remote])
        }
    }
}

/// What happens to few packets of the end `from`.
#[cold]
fn tell_rarer(truth: &mut Truth, at: Instant, from: EndId, event: TapEvent, packet: &SimPacket) {
    match event {
        TapEvent::Reached { .. } => truth.reached(at, from.peer(), &passing(packet)),
        // Garbled, or its text cut off.
        TapEvent::Received { .. } => truth.dropped(from, &passing(packet), false),
        TapEvent::NicRefused { .. } => truth.refused(at, from, &passing(packet)),
        TapEvent::Dropped { reason, .. } => {
            let too_long = reason == DropReason::TooLong;
            truth.dropped(from, &passing(packet), too_long);
        }
        _ => {}
    }
}

/// A packet left the port `port`, by the frame as its NIC cuts it, so that what becomes of each can be told.
fn sent(truth: &mut Truth, at: Instant, from: EndId, port: u32, packet: &SimPacket) {
    if packet.frames() == 1 {
        return truth.sent(at, from, port, &passing(packet));
    }
    let mut rest = packet.clone();
    while let Some(front) = rest.split() {
        truth.sent(at, from, port, &passing(&front));
    }
    truth.sent(at, from, port, &passing(&rest));
}

/// Tells the truth of packets.
#[derive(Debug)]
struct Network {
    truth: Truth,
    hears: Hears,
}

impl PacketListener for Network {
    fn hears(&self) -> Hears {
        self.hears
    }

    fn packet(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        let (at, truth) = (at.to_instant(), &mut self.truth);
        truth.hear();
        let from = sender(truth, packet);
        match event {
            TapEvent::NicSent { host, .. } => sent(truth, at, from, host.0, packet),
            TapEvent::Received { .. } if packet.is_intact() => {
                truth.arrived(at, from.peer(), &passing(packet));
            }
            TapEvent::PortQueued { port, .. } => truth.queued(from, port.0),
            _ => tell_rarer(truth, at, from, event, packet),
        }
    }

    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        if let PauseEvent::Obeyed { port, span, .. } = event {
            self.truth.hear();
            self.truth
                .paused(at.to_instant(), port.0, span.to_duration());
        }
    }
}

#[derive(Debug)]
struct Watch {
    of: Rc<RefCell<Network>>,
    began: Instant,
    /// Who wants to know the truth afterwards.
    wanted: Option<SharedTruth>,
}

impl Watch {
    fn new(truth: Truth, site: &Site<'_>) -> Self {
        // Which ports a packet passes matters to those that may stand still.
        let hears = match site.graph.may_pause() {
            true => Hears::All,
            false => Hears::AllButQueued,
        };
        Self {
            of: Rc::new(RefCell::new(Network { truth, hears })),
            began: Instant::ZERO,
            wanted: None,
        }
    }
}

impl Instrument for Watch {
    fn listener(&self) -> Option<Listener> {
        Some(self.of.clone())
    }

    fn tracer(&self) -> Option<Tracer> {
        Some(self.of.borrow().truth.tracer())
    }

    fn begin(&mut self, view: &mut View<'_>) {
        self.began = view.now.to_instant();
    }

    fn next(&self) -> Option<SimTime> {
        None
    }

    fn look(&mut self, _: &mut View<'_>) {}

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        let mut network = self.of.borrow_mut();
        let truth = &mut network.truth;
        truth.hear();
        let reading = reading(truth, self.began);
        if let Some(wanted) = &self.wanted {
            let blank = Truth::new(wanted.threshold);
            *wanted.last() = Some(std::mem::replace(truth, blank));
        }
        reading
    }
}

/// The ledger of the gaps that began at `began` or later.
fn reading(truth: &Truth, began: Instant) -> Reading {
    let mut sums: OrderedMap<_, Sum> = OrderedMap::new();
    for gap in truth.gaps().iter().filter(|gap| gap.start >= began) {
        sums.get_or_default(gap.cause).add(gap.length());
    }
    let all: u64 = sums.iter().map(|(_, sum)| sum.time.as_nanos()).sum();
    let row = |(cause, sum): (crate::Cause, Sum)| {
        let time = sum.time.as_nanos();
        let share = time as f64 / all.max(1) as f64;
        vec![
            cause.name().to_owned(),
            sum.count.to_string(),
            time.to_string(),
            format!("{share:.6}"),
            sum.longest.as_nanos().to_string(),
        ]
    };
    Reading {
        of: "all".to_owned(),
        values: Vec::new(),
        series: None,
        table: Some(Table {
            columns: vec!["cause", "gaps", "time_ns", "share", "longest_ns"],
            rows: sums.into_iter().map(row).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::grid;
    use narrows::buffer::Synthetic;
    use narrows::trace::TimeoutCause;
    use narrows::wire::{Ecn, IpHeader, Seq, TcpHeader};
    use narrows_experiment::file::Loaded;
    use narrows_experiment::net::packet::{HostId, PortId};
    use narrows_experiment::registry::Registry;
    use narrows_experiment::scenario::RunContext;
    use std::net::{IpAddr, SocketAddr};

    #[test]
    fn a_ledger_changes_nothing_and_has_the_timeouts_that_senders_count() {
        let registry = Registry::default();
        let cases = grid(None);
        let case = cases
            .iter()
            .find(|case| case.name.starts_with("incast 6 linux reno 32p 256kB"));
        let case = case.expect("the grid has it");
        let loaded = Loaded::parse(&case.name, &case.text, &registry).expect("it is a file");
        let mut experiment = loaded.experiment;
        let without = experiment
            .run(&registry, RunContext::default())
            .expect("it runs");
        experiment.probes.push(NamedProbe {
            name: LEDGER.to_owned(),
            kind: LEDGER.to_owned(),
            spec: Box::new(LedgerProbe::default()),
        });
        let with = experiment
            .run(&registry, RunContext::default())
            .expect("it runs");
        assert_eq!(format!("{:?}", with.flows), format!("{:?}", without.flows));
        assert_eq!(with.events, without.events);
        let (_, reading) = &with.readings[0];
        let table = reading.table.as_ref().expect("a ledger has a table");
        let timeouts: u64 = table
            .rows
            .iter()
            .filter(|row| row[0].starts_with("timeout"))
            .map(|row| row[1].parse::<u64>().expect("a number"))
            .sum();
        let counted: u64 = without.flows.iter().map(|flow| flow.sender.timeouts).sum();
        assert!(counted > 0);
        assert_eq!(timeouts, counted, "each lasts 200 ms");
    }

    /// Hears of ports, whether they may pause or not.
    #[derive(Clone, Debug)]
    struct HearsAll(SharedTruth);

    impl Knobs for HearsAll {
        const TABLE: &'static [Knob<Self>] = &[];
    }

    impl Probe for HearsAll {
        fn clone_box(&self) -> Box<dyn Probe> {
            Box::new(self.clone())
        }

        fn install(&self, site: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
            let watch = self.0.watch(site);
            let before = std::mem::replace(&mut watch.of.borrow_mut().hears, Hears::All);
            assert_eq!(before, Hears::AllButQueued, "nothing pauses here");
            Ok(vec![Box::new(watch)])
        }
    }

    #[test]
    fn who_need_not_hear_of_ports_knows_the_same_gaps() {
        let registry = Registry::default();
        let case = grid(None)
            .into_iter()
            .find(|case| case.name.starts_with("incast 6 linux reno 32p 256kB"))
            .expect("the grid has it");
        let loaded = Loaded::parse(&case.name, &case.text, &registry).expect("it is a file");
        let mut experiment = loaded.experiment;
        let threshold = Threshold {
            floor: Duration::from_micros(50),
            share_percent: 0,
        };
        let [some, all] = [(); 2].map(|()| SharedTruth::new(threshold, Questions::Left));
        experiment.probes.push(some.probe());
        experiment.probes.push(NamedProbe {
            name: "all".to_owned(),
            kind: "all".to_owned(),
            spec: Box::new(HearsAll(all.clone())),
        });
        experiment
            .run(&registry, RunContext::default())
            .expect("it runs");
        let [some, all] = [some, all].map(|told| told.take());
        assert!(some.gaps().len() > 3);
        assert_eq!(some.gaps(), all.gaps());
    }

    /// What a NIC cuts is told by frame: acknowledgements are not lost here, so no timeout is spurious.
    #[test]
    fn what_segmentation_offload_hands_over_as_one_is_lost_by_the_frame() {
        let registry = Registry::default();
        let text = "title = \"Cut\"\n[network]\ntopology = \"star\"\nhosts = 2\nlink = { rate = \"1Gb/s\", delay = \"50us\" }\n\
            [network.port.\"s0->h1\"]\nlink = { loss = \"20%\" }\n[host.tcp]\nloss_detection = \"newreno\"\nsack = \"off\"\n\
            [host.nic]\ntso = \"60kB\"\n[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\n\
            calls = 30\nrequest = \"100B\"\nreply = \"5kB\"\n[run]\nduration = \"20s\"\n";
        let loaded = Loaded::parse("cut", text, &registry).expect("it is a file");
        let threshold = Threshold {
            floor: Duration::from_millis(1),
            share_percent: 0,
        };
        let observed = crate::simulated::observe(&loaded.experiment, &registry, threshold, None);
        let truth = observed.expect("it runs").truth;
        let timeouts = truth.iter().filter(|gap| gap.cause.is_timeout());
        let (spurious, lost): (Vec<&crate::truth::TrueGap>, Vec<_>) =
            timeouts.partition(|gap| gap.cause == crate::Cause::TimeoutSpurious);
        assert!(lost.len() > 3, "{truth:?}");
        assert!(spurious.is_empty(), "{spurious:?}");
    }

    /// What comes without its text is lost once, whatever switches told of it: of two copies one is left.
    #[test]
    fn a_packet_that_was_trimmed_is_lost_once() {
        let (server, client) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let packet = |trimmed: bool| {
            let ip = IpHeader {
                src: server,
                dst: client,
                dscp: 0,
                ecn: Ecn::NotEct,
                hop_limit: 64,
            };
            let tcp = TcpHeader {
                src_port: 80,
                dst_port: 5_000,
                seq: Seq(100),
                flags: Flags::ACK,
                ..TcpHeader::default()
            };
            let text = Synthetic {
                offset: 0,
                len: 100,
            };
            let mut packet = SimPacket::new(&ip, &tcp, text);
            if trimmed {
                packet.trim();
            }
            packet
        };
        for (copies, lost, cause) in [
            (1, 1, crate::Cause::TimeoutTail),
            (2, 1, crate::Cause::TimeoutSpurious),
            (2, 2, crate::Cause::TimeoutTail),
        ] {
            let mut network = Network {
                truth: Truth::new(Threshold {
                    floor: Duration::from_micros(50),
                    share_percent: 0,
                }),
                hears: Hears::All,
            };
            let at = SimTime::from_duration(Duration::from_micros(1));
            let (port, host) = (PortId(3), HostId(1));
            for _ in 0..copies {
                let departs = at;
                let event = TapEvent::NicSent {
                    host: HostId(0),
                    departs,
                };
                network.packet(at, event, &packet(false));
            }
            for _ in 0..lost {
                let queued = TapEvent::PortQueued {
                    port,
                    marked: false,
                    trimmed: true,
                    departs: at,
                };
                let received = TapEvent::Received { host };
                for event in [queued, TapEvent::Trimmed { port }, received] {
                    network.packet(at, event, &packet(true));
                }
            }
            let ends = [SocketAddr::new(server, 80), SocketAddr::new(client, 5_000)];
            let (left, rto) = (at.to_instant(), Duration::from_millis(10));
            let truth = &mut network.truth;
            let end = truth.end(ends);
            truth.timeout(left + rto, end, TimeoutCause::Tail, rto, left);
            let gaps = truth.gaps();
            assert_eq!(gaps.len(), 1);
            assert_eq!(gaps[0].cause, cause, "{copies} {lost}");
        }
    }

    /// A window of a segment whose acknowledgement is put off, after idle times: what is waited for is that
    /// the window is the initial one again only if it had been larger.
    #[test]
    fn a_restart_after_idle_is_one_where_the_window_fell() {
        let registry = Registry::default();
        let case = grid(None)
            .into_iter()
            .find(|case| case.name == "small window 2/40ms rfc5681 300ms 20kB 4 25 1")
            .expect("the grid has it");
        let restarts = |congestion: &str| {
            let tcp = format!("[host.tcp]\ncongestion = \"{congestion}\"\n");
            let text = case.text.replace("[host.tcp]\n", &tcp);
            let loaded = Loaded::parse(&case.name, &text, &registry).expect("it is a file");
            let mut experiment = loaded.experiment;
            experiment.probes.push(NamedProbe {
                name: LEDGER.to_owned(),
                kind: LEDGER.to_owned(),
                spec: Box::new(LedgerProbe::default()),
            });
            let run = experiment.run(&registry, RunContext::default());
            let run = run.expect("it runs");
            let table = run.readings[0].1.table.as_ref().expect("a table");
            let restart = |row: &&Vec<String>| row[0] == crate::Cause::IdleRestart.name();
            let row = table.rows.iter().find(restart);
            row.map_or(0, |row| row[1].parse::<u64>().expect("a number"))
        };
        assert!(restarts("reno") > 0);
        assert_eq!(restarts("fixed:2"), 0, "its window never changes");
    }
}
