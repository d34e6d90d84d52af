//! Experiments drawn from every knob there is: each is refused, or runs to its end, twice alike, and
//! its applications have read no more than what a tap saw arrive, which is no more than what left.
//!
//! A new knob of a section is drawn without a word here, in each [place](places) that may have the
//! section. Left out: whole numbers above [`MANY`] where there are so many (connections, calls), other
//! networks than [`SHAPES`] and more than [`RUN`] of simulated time, for what they take; texts with a syntax
//! of their own, but for their examples; parameters of algorithms; and the sections `run`, `show` and
//! `expect`.

use narrows::wire::Flags;
use narrows_experiment::file::Loaded;
use narrows_experiment::host::SimPacket;
use narrows_experiment::knob::Kind;
use narrows_experiment::model::Experiment;
use narrows_experiment::model::queue::Discipline;
use narrows_experiment::net::packet::HostId;
use narrows_experiment::registry::{Listed, Registry};
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::{Outcome, RunContext};
use narrows_experiment::sim::tap::{Tap, TapEvent};
use narrows_experiment::sim::time::SimTime;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Networks, and a port and a trunk or another port in each.
const SHAPES: [(&str, [&str; 2]); 5] = [
    ("topology = 'star'\nhosts = 5", ["s0->h0", "h1->s0"]),
    (
        "topology = 'dumbbell'\nleft = 3\nright = 2",
        ["left->right", "right->left"],
    ),
    (
        "topology = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts = 3",
        ["leaf0->spine0", "spine0->leaf1"],
    ),
    ("topology = 'parking-lot'", ["s0->s1", "s1->s0"]),
    ("topology = 'fat-tree'\nk = 4", ["edge->host", "core->agg"]),
];
type Change = (
    &'static str,
    &'static str,
    Option<(&'static str, &'static str)>,
);
/// Changes: what, on what, and what is set by those that set something.
const CHANGES: [Change; 7] = [
    ("link-down", "PORT", None),
    ("withdraw", "PORT", None),
    ("pause", "h1", None),
    ("ring-loss", "h0", None),
    ("toggle", "h0", None),
    ("set", "h0", Some(("nic.gro", "32KiB"))),
    ("set", "PORT", Some(("link.rate", "20Mb/s"))),
];
const MANY: u64 = 32;
const RUN: &str = "6ms";

/// What is drawn: a section, a knob of it, one of its values, and of the places that have such a section
/// which.
type Draw = (Index, Index, Index, Index);

#[derive(Debug, Clone)]
struct Drawn {
    shape: usize,
    traffic: Vec<Index>,
    probes: Vec<Index>,
    changes: Vec<Index>,
    discipline: Index,
    draws: Vec<Draw>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let index = any::<Index>;
    let many = |n| proptest::collection::vec(index(), n);
    let draws = proptest::collection::vec((index(), index(), index(), index()), 0..16);
    let ones = (0..SHAPES.len(), index());
    (ones, many(1..3), many(0..2), many(0..3), draws).prop_map(
        |((shape, discipline), traffic, probes, changes, draws)| Drawn {
            shape,
            traffic,
            probes,
            changes,
            discipline,
            draws,
        },
    )
}

/// Where a section is, as [`Registry::sections`] lists it, that an experiment may have in several places.
fn places(at: &str, ports: [&str; 2]) -> Vec<String> {
    let here = || vec![at.to_owned()];
    let of = |more: &[String]| [here(), more.to_vec()].concat();
    let two = |at: &str| ["0", "1"].map(|n| at.replace('N', n)).to_vec();
    match at.rsplit_once('.') {
        Some(("network", part @ ("link" | "queue"))) => of(&[
            format!("network.port.\"{}\".{part}", ports[0]),
            format!("network.port.\"{}\".{part}", ports[1]),
            format!("network.trunk.{part}"),
            format!("change.0.{part}"),
            format!("change.1.{part}"),
        ]),
        Some(("host", part @ "tcp")) => {
            of(&[format!("group.h1.{part}"), format!("traffic.first.{part}")])
        }
        Some(("host", part)) => of(&[
            format!("group.h1.{part}"),
            format!("group.h0.{part}"),
            format!("change.0.{part}"),
        ]),
        Some(("traffic", _)) => ["first", "t0", "t1"]
            .map(|n| format!("traffic.{n}"))
            .to_vec(),
        Some(("probe", _)) => vec!["probe.p0".to_owned()],
        Some(("change", _)) => two("change.N"),
        _ => here(),
    }
}

/// Values of a kind: both ends of its range, and some between.
pub(super) fn values(kind: &Kind, registry: &Registry, ports: [&str; 2]) -> Vec<String> {
    let within = |least: u64, most: u64, some: &[u64], unit: &str| {
        let ends = [least, least.saturating_add(1), most];
        let all = ends
            .iter()
            .chain(some)
            .filter(|n| (least..=most).contains(n));
        all.map(|n| format!("{n}{unit}")).collect()
    };
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    match kind {
        Kind::Size { least, most } => {
            within(*least, *most, &[100, 1_500, 10_000, 65_536, 1_000_000], "B")
        }
        Kind::Time { least, most } => {
            let some = [1_000, 50_000, 700_000, 10_000_000];
            within(*least, *most, &some, "ns")
        }
        Kind::Rate => words(&["1kb/s", "10Mb/s", "1Gb/s", "10Gb/s", "1Tb/s"]),
        Kind::Queue { least } => {
            let mut all: Vec<String> = within(*least, 1 << 40, &[3_000, 65_536], "B");
            all.extend(words(&["1p", "7p", "100p"]));
            all
        }
        Kind::Whole { least, most } => {
            let most = (*most).min((*least).max(MANY));
            within(*least, most, &[2, 3, 8], "")
        }
        Kind::Share => words(&["0%", "1%", "30%", "100%"]),
        Kind::Switch => words(&["on", "off"]),
        Kind::Choice(choices) => words(choices),
        Kind::Name("congestion control") => named(registry.congestion.entries().map(|e| e.name())),
        Kind::Name("local-drop policy") => named(registry.local_drop.entries().map(|e| e.name())),
        Kind::Name("RTO policy") => {
            let names = registry.rto.entries().map(|e| e.name());
            // Some need a time.
            let mut all = named(names.filter(|name| registry.rto.get(name).is_ok()));
            all.extend(words(&["300us", "20ms"]));
            all
        }
        Kind::Name("loss detector") => named(registry.detectors.entries().map(|e| e.name())),
        Kind::Name("queue discipline") => {
            named(Discipline::STANDARD.iter().map(|(_, name, _)| *name))
        }
        // That of the shape.
        Kind::Name("topology") => Vec::new(),
        Kind::Name(other) => panic!("how is a {other} drawn?"),
        Kind::Hosts => words(&["h0", "h1", "h1..h2", "*"]),
        Kind::Ports => words(&ports),
        Kind::Text(examples) => {
            let each = examples
                .split(", ")
                .flat_map(|part| part.split(" or "))
                .flat_map(|one| one.split(" (").next());
            each.map(str::to_owned).collect()
        }
        Kind::List(kind) => values(kind, registry, ports),
        Kind::Or(word, kind) => {
            let mut all = values(kind, registry, ports);
            all.push((*word).to_owned());
            all
        }
    }
}

fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}

/// An experiment, and what was set of it.
struct Made {
    experiment: Experiment,
    set: Vec<String>,
}

impl Made {
    /// Sets keys together where that is possible, and leaves them alone where it is not.
    fn try_set(&mut self, registry: &Registry, keys: &[(String, &str)]) {
        let mut other = self.experiment.clone();
        let set = keys
            .iter()
            .try_for_each(|(key, value)| other.set(registry, key, value));
        if set.is_ok() && other.check(registry).is_ok() {
            self.experiment = other;
            self.set
                .extend(keys.iter().map(|(key, value)| format!("{key}={value}")));
        }
    }
}

fn made(drawn: &Drawn, registry: &Registry) -> Made {
    let (shape, ports) = SHAPES[drawn.shape];
    let file = format!(
        "[network]\n{shape}\nlink = {{ rate = '1Gb/s', delay = '5us' }}\nqueue = {{ limit = '30kB' }}\n\
         [host.tcp]\nrto = '1ms'\n[[traffic]]\nname = 'first'\nkind = 'bulk'\nfrom = 'h1..h2'\n\
         to = 'h0'\nsize = '50kB'\n[run]\nduration = '{RUN}'"
    );
    let loaded = Loaded::parse("drawn.toml", &file, registry);
    let mut made = Made {
        experiment: loaded.unwrap_or_else(|e| panic!("{e}")).experiment,
        set: vec![shape.to_owned()],
    };
    let kinds: Vec<&str> = registry.traffic.entries().map(|kind| kind.name()).collect();
    for (n, index) in drawn.traffic.iter().enumerate() {
        let kind = kinds[index.index(kinds.len())];
        made.try_set(registry, &[(format!("traffic.t{n}.kind"), kind)]);
    }
    let kinds: Vec<&str> = registry.probes.entries().map(|kind| kind.name()).collect();
    for (n, index) in drawn.probes.iter().enumerate() {
        let kind = kinds[index.index(kinds.len())];
        made.try_set(registry, &[(format!("probe.p{n}.kind"), kind)]);
    }
    for (n, index) in drawn.changes.iter().enumerate() {
        let (what, on, more) = CHANGES[index.index(CHANGES.len())];
        let on = if on == "PORT" { ports[0] } else { on };
        let keys = [("what", what), ("on", on), ("at", "1ms"), ("for", "500us")];
        let keys = keys.iter().copied().chain(more).collect::<Vec<_>>();
        let keys = keys
            .into_iter()
            .map(|(key, value)| (format!("change.{n}.{key}"), value));
        made.try_set(registry, &keys.collect::<Vec<_>>());
    }
    // Few others of so many knobs would be drawn for one of a discipline to mean something.
    let (_, discipline, _) =
        &Discipline::STANDARD[drawn.discipline.index(Discipline::STANDARD.len())];
    let key = "network.queue.discipline".to_owned();
    made.try_set(registry, &[(key, discipline)]);
    let experiment = &made.experiment;
    let traffics = experiment.traffic.iter().map(|t| t.kind.as_str());
    let probes = experiment.probes.iter().map(|p| p.kind.as_str());
    let kinds: Vec<String> = named(traffics.chain(probes));
    let drawn_from = |section: &Listed| {
        let is_there = section
            .of
            .is_none_or(|kind| kinds.iter().any(|k| k == kind));
        !["run", "show", "expect.N"].contains(&section.at.as_str())
            && !section.knobs.is_empty()
            && is_there
    };
    let sections: Vec<Listed> = registry.sections().into_iter().filter(drawn_from).collect();
    for (section, knob, value, place) in &drawn.draws {
        let section = &sections[section.index(sections.len())];
        let (about, _) = &section.knobs[knob.index(section.knobs.len())];
        let all = values(&about.kind, registry, ports);
        if all.is_empty() {
            continue;
        }
        let value = &all[value.index(all.len())];
        let places = places(&section.at, ports);
        let at = &places[place.index(places.len())];
        made.try_set(registry, &[(format!("{at}.{}", about.key), value)]);
    }
    made
}

/// What left and what arrived, by sender and receiver: first and last byte of each segment, counted
/// from the first segment that was seen of its connection.
#[derive(Default)]
struct Ledger {
    from: BTreeMap<(SocketAddr, SocketAddr), u32>,
    left: BTreeMap<(SocketAddr, SocketAddr), Vec<(i64, i64)>>,
    arrived: BTreeMap<(SocketAddr, SocketAddr), Vec<(i64, i64)>>,
}

impl Tap<SimPacket> for Ledger {
    fn event(&mut self, _: SimTime, event: TapEvent, packet: &SimPacket) {
        let (ip, tcp, payload) = packet.parts();
        let ends = (
            SocketAddr::new(ip.src, tcp.src_port),
            SocketAddr::new(ip.dst, tcp.dst_port),
        );
        let from = *self.from.entry(ends).or_insert(tcp.seq.0);
        let begin = i64::from(tcp.seq.0.wrapping_sub(from) as i32)
            + i64::from(tcp.flags.contains(Flags::SYN));
        let range = (begin, begin + i64::from(payload.len));
        match event {
            TapEvent::NicSent { .. } => self.left.entry(ends).or_default().push(range),
            TapEvent::Received { .. } if packet.is_intact() => {
                self.arrived.entry(ends).or_default().push(range);
            }
            _ => {}
        }
    }
}

/// Ranges in order, those that touch as one.
fn joined(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.retain(|(begin, end)| begin < end);
    ranges.sort_unstable();
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (begin, end) in ranges {
        match all.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => all.push((begin, end)),
        }
    }
    all
}

/// What arrived without having left, or was read without having arrived.
fn disagreement(
    ledger: Ledger,
    run: &RunOutcome,
    address: impl Fn(u32) -> IpAddr,
) -> Option<String> {
    let mut arrived_of: BTreeMap<(IpAddr, IpAddr), u64> = BTreeMap::new();
    let left: BTreeMap<_, _> = ledger
        .left
        .into_iter()
        .map(|(k, v)| (k, joined(v)))
        .collect();
    for (ends, ranges) in ledger.arrived {
        let ranges = joined(ranges);
        let none = Vec::new();
        let left = left.get(&ends).unwrap_or(&none);
        for (begin, end) in &ranges {
            let whole = left.iter().any(|(from, to)| from <= begin && end <= to);
            if !whole {
                return Some(format!(
                    "{begin}..{end} of {ends:?} arrived, and left as {left:?}"
                ));
            }
        }
        let bytes: i64 = ranges.iter().map(|(begin, end)| end - begin).sum();
        *arrived_of.entry((ends.0.ip(), ends.1.ip())).or_default() += bytes as u64;
    }
    let mut read_of: BTreeMap<(IpAddr, IpAddr), u64> = BTreeMap::new();
    for flow in &run.flows {
        let ends = (address(flow.from), address(flow.to));
        *read_of.entry(ends).or_default() += flow.read.get();
    }
    for (ends, read) in read_of {
        let arrived = arrived_of.get(&ends).copied().unwrap_or(0);
        if read > arrived {
            return Some(format!("{ends:?}: {read} bytes read, {arrived} arrived"));
        }
    }
    None
}

/// Found by the property below: a queue that takes no packet stalls its host for good.
#[test]
fn a_queue_of_a_nic_that_would_take_no_packet_is_refused() {
    let registry = Registry::default();
    for (at, mtu, least) in [("host", "1500", "1518B"), ("group.h1", "9000", "9018B")] {
        let mut experiment = Experiment::shipped(&registry, "incast").build().unwrap();
        experiment.set(&registry, "network.mtu", mtu).unwrap();
        let mut with = |queue| {
            let key = format!("{at}.nic.tx_queue");
            experiment.set(&registry, &key, queue).unwrap();
            experiment.check(&registry)
        };
        let refused = with("1500B").unwrap_err();
        assert!(refused.key.ends_with("nic.tx_queue") && refused.why.contains("would take none"));
        assert!(with(least).is_ok() && with("1p").is_ok());
    }
}

proptest! {
    #[test]
    fn whatever_a_file_asks_for_is_refused_or_runs(drawn in drawn()) {
        let registry = Registry::default();
        let Made { experiment, set } = made(&drawn, &registry);
        let run = || experiment.watch(&registry, RunContext::default(), Ledger::default());
        let (outcome, ledger) = run().unwrap_or_else(|e| panic!("{e}: {set:?}"));
        let ended = matches!(outcome.outcome, Outcome::Completed | Outcome::TimeLimit);
        prop_assert!(ended, "{:?}: {set:?}", outcome.outcome);
        let address = |host| experiment.network.common.ip.address_of(HostId(host));
        prop_assert_eq!(disagreement(ledger, &outcome, address), None, "{:?}", set);
        let (again, _) = run().unwrap_or_else(|e| panic!("{e}: {set:?}"));
        prop_assert!(outcome == again, "twice, and not alike: {set:?}");
    }
}
