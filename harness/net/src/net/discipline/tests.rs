//! Ports with each discipline, against what must hold for all: packets, bytes, order, time.
//!
//! The oracle is the log of a tap: it knows when each packet came to a port and when it reached the
//! far end of the link, and nothing of disciplines.

use std::sync::Arc;

use narrows_congestion::{ByteCount, Rate};
use proptest::prelude::*;

use super::classify::{CLASSES, DscpMap};
use super::codel::CodelSpec;
use super::drr::DrrSpec;
use super::fq_codel::FqCodelSpec;
use super::split::{SplitSpec, Turns};
use super::strict_priority::{AtLimit, StrictPrioritySpec};
use super::trimming::{Control, TrimmingSpec};
use super::*;
use crate::net::port::PoolId;
use crate::net::stats::{PortStats, QueueArea};
use crate::net::{
    Attachment, HostId, InService, LinkSpec, Network, NicSpec, Packet as _, PoolSpec, PortId,
    PortSpec, Star, TieOrder,
};
use crate::sim::Stream;
use crate::sim::blaster::BlastPacket;
use crate::sim::rng::Probability;
use crate::sim::{Tap, TapEvent};

/// Picoseconds of a byte at the ports' rate.
const BYTE: u64 = 8_000;
const DELAY: SimTime = SimTime::from_micros(3);
/// Who receives; the others send.
const RECEIVERS: u32 = 2;
const HOSTS: u32 = 8;

/// A packet that a host sends.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// After the one before.
    gap: SimTime,
    from: u32,
    to: u32,
    len: u32,
    ecn_capable: bool,
}

#[derive(Clone, Default)]
struct Log(Vec<(SimTime, TapEvent, BlastPacket)>);

impl Tap<BlastPacket> for Log {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &BlastPacket) {
        self.0.push((at, event, *packet));
    }
}

/// What a run gives.
struct Run {
    log: Vec<(SimTime, TapEvent, BlastPacket)>,
    /// Of the receivers' ports.
    stats: Vec<PortStats>,
    areas: Vec<QueueArea>,
    traces: Vec<Vec<(SimTime, Depth)>>,
    /// Events handled, stale ones included.
    events: u64,
}

fn port_of(host: u32) -> PortId {
    PortId(HOSTS + host)
}

fn star(port: PortSpec, pool: Option<PoolSpec>) -> Star {
    let fast = LinkSpec::new(Rate::from_gbps(100), SimTime::ZERO);
    let attachment = Attachment {
        nic: NicSpec::new(Capacity::Unlimited),
        up: fast,
        port,
        down: LinkSpec::new(Rate::from_gbps(1), DELAY),
    };
    let mut spec = Star::uniform(HOSTS as usize, &attachment);
    spec.pools = pool.into_iter().collect();
    spec
}

/// Runs it; with `looks` somebody asks for everything at these times too.
fn run(spec: &Star, sent: &[Sent], looks: &[SimTime]) -> Run {
    let mut network: Network<BlastPacket> =
        spec.graph().unwrap().build(1, TieOrder::ByLink).unwrap();
    let mut log = Log::default();
    for host in 0..RECEIVERS {
        network.measure_queue(port_of(host));
        network.trace_queue(port_of(host));
    }
    let mut events = 0;
    let mut handle = |network: &mut Network<BlastPacket>, log: &mut Log, until| {
        while let Some(event) = network.events.pop_until(until) {
            events += 1;
            if let Some((_, slot)) = network.handle(event, log) {
                network.release(slot);
            }
            let t = network.totals();
            assert_eq!(t.sent, t.delivered + t.dropped + t.in_network);
        }
    };
    let mut looks = looks.iter().peekable();
    let mut now = SimTime::ZERO;
    for (number, s) in (0..).zip(sent) {
        now += s.gap;
        while let Some(&at) = looks.next_if(|&&at| at < now) {
            handle(&mut network, &mut log, at);
            look(&mut network, at, !spec.pools.is_empty());
        }
        handle(&mut network, &mut log, now);
        let packet = BlastPacket {
            ecn_capable: s.ecn_capable,
            dscp: (s.from as u8) << 3,
            ..BlastPacket::new(HostId(s.from), HostId(s.to), s.len, number)
        };
        network.send(now, HostId(s.from), packet, &mut log).unwrap();
    }
    let end = now + SimTime::from_secs(10);
    handle(&mut network, &mut log, end);
    let ports = || (0..RECEIVERS).map(port_of);
    let areas = ports()
        .map(|p| network.queue_area(end, p).unwrap())
        .collect();
    let traces = ports()
        .map(|p| network.take_queue_trace(end, p).unwrap().samples().to_vec())
        .collect();
    let stats = ports().map(|p| network.stats(p)).collect();
    assert_eq!(network.totals().in_network, 0);
    look(&mut network, end, !spec.pools.is_empty());
    Run {
        log: log.0,
        stats,
        areas,
        traces,
        events,
    }
}

/// A pool holds what its ports hold, and no more than it has.
fn look(network: &mut Network<BlastPacket>, at: SimTime, pool: bool) {
    let ports = (0..HOSTS).map(port_of);
    let held: u64 = ports.map(|p| network.queued(at, p).bytes).sum();
    for host in 0..RECEIVERS {
        network.queue_area(at, port_of(host));
    }
    if pool {
        let (used, most) = network.pool_used(at, PoolId(0));
        assert!(used == held && most <= 30_000, "{used} {held} {most}");
    }
}

/// A packet at one port: when it came, and when its last bit left and how long it was then.
#[derive(Clone, Copy, Debug)]
struct Visit {
    came: SimTime,
    left: Option<(SimTime, u32)>,
    /// Where it was dropped: when that was told.
    dropped: Option<(SimTime, DropReason)>,
    packet: BlastPacket,
}

/// The visits to the port of `host` of packets that it took, in the order of arrival; and how many
/// it refused.
fn visits(run: &Run, host: u32) -> (Vec<Visit>, u64) {
    let port = port_of(host);
    let mut visits: Vec<Visit> = Vec::new();
    let mut refused = 0;
    for &(at, event, packet) in run.log.iter().filter(|l| l.2.to.0 == host) {
        let taken = visits.iter_mut().find(|v| v.packet.number == packet.number);
        match (event, taken) {
            (TapEvent::PortQueued { port: p, .. }, None) if p == port => visits.push(Visit {
                came: at,
                left: None,
                dropped: None,
                packet,
            }),
            (TapEvent::Received { .. }, Some(v)) => v.left = Some((at - DELAY, packet.wire_len())),
            (TapEvent::Dropped { reason, .. }, Some(v)) => v.dropped = Some((at, reason)),
            (TapEvent::Dropped { .. }, None) => refused += 1,
            (TapEvent::Trimmed { .. } | TapEvent::Marked { .. }, Some(_))
            | (TapEvent::NicSent { .. }, None) => {}
            other => panic!("{other:?} of {packet:?}"),
        }
    }
    (visits, refused)
}

/// Each packet that came was counted once: sent, dropped, or refused.
fn packets_are_conserved(visits: &[Visit], refused: u64, stats: &PortStats) {
    let left = visits.iter().filter(|v| v.left.is_some()).count() as u64;
    let dropped = visits.iter().filter(|v| v.dropped.is_some()).count() as u64;
    assert_eq!(visits.len() as u64, left + dropped);
    assert_eq!(stats.packets, left);
    assert_eq!(stats.dropped_total(), dropped + refused);
    let bytes = visits.iter().filter_map(|v| Some(u64::from(v.left?.1)));
    assert_eq!(stats.bytes, bytes.sum::<u64>());
    let trimmed = visits.iter().filter_map(|v| Some((v.left?.1, v.packet)));
    let trimmed = trimmed.filter(|&(len, p)| len < p.len).count() as u64;
    assert_eq!(stats.trimmed, trimmed);
}

/// One packet at a time, each for as long as its bits take, and no pause while one waits.
fn the_transmitter_conserves_work(visits: &[Visit]) {
    let mut left: Vec<_> = visits.iter().filter_map(|v| Some((v.left?, v))).collect();
    left.sort_by_key(|(left, _)| *left);
    let mut free = SimTime::ZERO;
    for &((at, len), visit) in &left {
        let began = at - SimTime::from_picos(u64::from(len) * BYTE);
        assert!(
            began >= free && began >= visit.came,
            "two at a time: {visit:?}"
        );
        if began > free {
            assert_eq!(began, visit.came, "an idle port lets {visit:?} wait");
            let waits = |v: &&Visit| v.came < began && v.left.is_some_and(|(l, _)| l > free);
            assert_eq!(
                visits.iter().find(waits).map(|v| v.packet),
                None,
                "idle until {began:?}"
            );
        }
        free = at;
    }
}

/// What a flow sends arrives in that order, but for what has lost its payload or has none.
fn flows_stay_in_order(visits: &[Visit]) {
    let mut left: Vec<_> = visits.iter().filter_map(|v| Some((v.left?, v))).collect();
    left.sort_by_key(|(left, _)| *left);
    for from in 0..HOSTS {
        let whole = |&&((_, len), v): &&((SimTime, u32), &Visit)| {
            v.packet.from.0 == from && len == v.packet.len && len > BlastPacket::HEADER
        };
        let numbers: Vec<_> = left
            .iter()
            .filter(whole)
            .map(|(_, v)| v.packet.number)
            .collect();
        assert!(numbers.is_sorted(), "flow from {from}: {numbers:?}");
    }
}

/// The area is what the trace encloses; and, where no drop was told late, the sum of all sojourns.
fn the_area_is_the_sum_of_sojourns(
    visits: &[Visit],
    area: QueueArea,
    trace: &[(SimTime, Depth)],
    in_service: InService,
) {
    assert!(trace.is_sorted_by_key(|t| t.0));
    let span = |a: SimTime, b: SimTime| u128::from((b - a).as_picos());
    let counted = in_service == InService::Counted;
    if counted {
        let spans = trace.windows(2).map(|w| {
            let (span, depth) = (span(w[0].0, w[1].0), w[0].1);
            [depth.packets.into(), depth.bytes].map(|n: u64| span * u128::from(n))
        });
        let sums = spans.fold([0, 0], |a, s| [a[0] + s[0], a[1] + s[1]]);
        assert_eq!([area.packets, area.bytes], sums);
    }
    let late = |v: &Visit| matches!(v.dropped, Some((_, DropReason::Early)));
    if visits.iter().any(late) {
        return;
    }
    let sojourn = |v: &Visit| match (v.left, v.dropped) {
        (Some((left, _)), _) if counted => span(v.came, left),
        (Some((left, len)), _) => {
            let began = left - SimTime::from_picos(u64::from(len) * BYTE);
            span(v.came, began)
        }
        (None, Some((dropped, _))) => span(v.came, dropped),
        (None, None) => panic!("{v:?}"),
    };
    assert_eq!(area.packets, visits.iter().map(sojourn).sum::<u128>());
}

fn codel() -> CodelSpec {
    CodelSpec {
        target: SimTime::from_micros(50),
        interval: SimTime::from_micros(200),
        max_packet: 1_500,
        ce_threshold: None,
    }
}

/// Last in, first out: what a user of this crate may write.
#[derive(Debug, Default)]
struct Lifo(PacketQueue);

impl Discipline for Lifo {
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict {
        match room.check(packet.len, Depth::default()) {
            Ok(()) => {
                if self.depth().packets > 3 {
                    effects.mark(packet);
                }
                self.0.push(packet);
                Verdict::Queue
            }
            Err(reason) => Verdict::Drop(reason),
        }
    }
    fn dequeue(&mut self, _: SimTime, _: &mut Effects) -> Option<Queued> {
        self.0.pop_tail()
    }
    fn depth(&self) -> Depth {
        self.0.depth()
    }
}

fn own() -> DisciplineSpec {
    DisciplineSpec::Own(OwnDiscipline::new(
        "lifo",
        Arc::new(|_: Stream| Lifo::default()),
    ))
}

fn discipline() -> impl Strategy<Value = DisciplineSpec> {
    let quantum = 256u32..4_000;
    let quanta = proptest::collection::vec(256u32..4_000, CLASSES);
    let headers = prop_oneof![
        Just(Capacity::Unlimited),
        (0u32..20).prop_map(Capacity::Packets),
    ];
    let control = prop_oneof![Just(Control::Headers), Just(Control::Data)];
    prop_oneof![
        Just(DisciplineSpec::DropTail),
        Just(own()),
        Just(DisciplineSpec::Codel(codel())),
        (quantum.clone(), 1u32..9, 1u32..9).prop_map(|(quantum, queues, drop_batch)| {
            DisciplineSpec::FqCodel(FqCodelSpec {
                codel: codel(),
                quantum,
                queues,
                drop_batch,
            })
        }),
        (1u32..9, quantum)
            .prop_map(|(queues, quantum)| DrrSpec::Flows { queues, quantum })
            .prop_map(DisciplineSpec::Drr),
        quanta.prop_map(|quanta| {
            let mut of = [0; CLASSES];
            of.copy_from_slice(&quanta);
            let map = DscpMap::default();
            DisciplineSpec::Drr(DrrSpec::Classes { map, quanta: of })
        }),
        any::<bool>().prop_map(|push| {
            let at_limit = if push {
                AtLimit::PushOut
            } else {
                AtLimit::DropArriving
            };
            let map = DscpMap::default();
            DisciplineSpec::StrictPriority(StrictPrioritySpec { map, at_limit })
        }),
        (1u32..4, proptest::option::of(256u32..4_000)).prop_map(|(queues, quantum)| {
            let turns = quantum.map_or(Turns::Packet, |quantum| Turns::Byte { quantum });
            DisciplineSpec::Split(SplitSpec {
                turns,
                ..SplitSpec::new(queues)
            })
        }),
        (headers, 1u32..12, 0u64..5, control).prop_map(|(headers, header_weight, p, control)| {
            DisciplineSpec::Trimming(TrimmingSpec {
                headers,
                header_weight,
                trim_tail: Probability::ratio(p, 4),
                control,
            })
        }),
    ]
}

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let gap = prop_oneof![2 => Just(0u64), 3 => 0u64..12_000, 1 => 0u64..100_000];
    let len = prop_oneof![Just(1_500u32), Just(41), 20u32..=1_500];
    let one = (gap, RECEIVERS..HOSTS, 0u32..20, len, any::<bool>());
    let one = one.prop_map(|(gap, from, to, len, ecn_capable)| Sent {
        gap: SimTime::from_nanos(gap),
        from,
        to: u32::from(to == 0),
        len,
        ecn_capable,
    });
    proptest::collection::vec(one, 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    /// For every discipline, limit, way to count and pool. Whoever looks in between changes nothing,
    /// and a hop is one event.
    #[test]
    fn a_port_keeps_its_promises_with_every_discipline(
        discipline in discipline(),
        sent in sent(),
        limit in prop_oneof![
            Just(Capacity::Unlimited),
            (1u32..30).prop_map(Capacity::Packets),
            (1_500u64..30_000).prop_map(|n| Capacity::Bytes(ByteCount::new(n))),
        ],
        counted in any::<bool>(),
        pool in proptest::option::of((1_500u64..30_000, 1u32..5)),
        looks in proptest::collection::vec(0u64..3_000_000, 0..40),
    ) {
        let in_service = if counted { InService::Counted } else { InService::NotCounted };
        let port = PortSpec {
            capacity: limit,
            in_service,
            pool: pool.map(|_| PoolId(0)),
            discipline: discipline.clone(),
        };
        let pool = pool.map(|(size, alpha_num)| PoolSpec {
            size: ByteCount::new(size), reserve: ByteCount::ZERO,
            alpha_num,
            alpha_den: 2,
        });
        let spec = star(port, pool);
        let first = run(&spec, &sent, &[]);
        let own = matches!(discipline, DisciplineSpec::Own(_));
        for host in 0..RECEIVERS {
            let (visits, refused) = visits(&first, host);
            let stats = &first.stats[host as usize];
            packets_are_conserved(&visits, refused, stats);
            the_transmitter_conserves_work(&visits);
            if !own {
                flows_stay_in_order(&visits);
            }
            let at = host as usize;
            the_area_is_the_sum_of_sojourns(&visits, first.areas[at], &first.traces[at], in_service);
            match limit {
                _ if matches!(discipline, DisciplineSpec::Trimming(_)) => {}
                Capacity::Packets(n) => prop_assert!(stats.max_packets <= n),
                Capacity::Bytes(n) => prop_assert!(stats.max_bytes <= n.get()),
                Capacity::Unlimited => {}
            }
        }
        let arrivals = |e: &TapEvent| matches!(e, TapEvent::Received { .. });
        let delivered = first.log.iter().filter(|l| arrivals(&l.1)).count();
        prop_assert_eq!(first.events, (sent.len() + delivered) as u64);

        let mut looks: Vec<_> = looks.into_iter().map(SimTime::from_nanos).collect();
        looks.sort_unstable();
        let second = run(&spec, &sent, &looks);
        prop_assert_eq!(&first.log, &second.log);
        prop_assert_eq!(&first.stats, &second.stats);
        prop_assert_eq!(&first.areas, &second.areas);
        prop_assert_eq!(&first.traces, &second.traces);
        prop_assert_eq!(first.events, second.events);
    }
}

/// A pool of 10,000 bytes, all taken, of which the port holds 9000: what is pushed out here is free
/// for the packet that arrives, whether the pool was exhausted or the port over its share.
#[test]
fn what_is_pushed_out_goes_back_to_the_pool() {
    // Over its share while held - freed >= free + freed: 9000 and 1000 at first.
    for (size, alpha_num, refused, needed) in [
        (10_000, 100, DropReason::PoolExhausted, 1_000),
        (11_000, 1, DropReason::OverThreshold, 4_001),
    ] {
        let mut pool = Pool::new(
            PoolSpec {
                size: ByteCount::new(size),
                reserve: ByteCount::ZERO,
                alpha_num,
                alpha_den: 1,
            },
            1,
        );
        pool.take(0, 10_000);
        let bytes = |bytes| Depth { packets: 1, bytes };
        let room = Room {
            limit: Limit::new(Capacity::Unlimited),
            depth: bytes(9_000),
            passes: false,
            held: 9_000,
            pool: Some(&pool),
        };
        assert_eq!(room.check(1_000, bytes(0)), Err(refused));
        assert_eq!(room.check(1_000, bytes(needed - 1)), Err(refused));
        assert_eq!(room.check(1_000, bytes(needed)), Ok(()));
    }
}

/// One sender's share of what the first `millis` of a congested port have sent, in bytes.
fn bytes_by_sender(run: &Run, millis: u64) -> [u64; HOSTS as usize] {
    let mut bytes = [0; HOSTS as usize];
    for v in visits(run, 0).0 {
        if let Some((at, len)) = v.left
            && at <= SimTime::from_millis(millis)
        {
            bytes[v.packet.from.0 as usize] += u64::from(len);
        }
    }
    bytes
}

/// What hosts send to host 0, each a packet of its length every so many nanoseconds.
fn streams(of: &[(u32, u32, u64)], millis: u64) -> Vec<Sent> {
    let mut all: Vec<(u64, u32, u32)> = Vec::new();
    for &(from, len, every) in of {
        let times = (0..millis * 1_000_000).step_by(every as usize);
        all.extend(times.map(|at| (at, from, len)));
    }
    all.sort_unstable();
    let mut before = 0;
    let packet = |(at, from, len)| {
        let gap = SimTime::from_nanos(at - std::mem::replace(&mut before, at));
        Sent {
            gap,
            from,
            to: 0,
            len,
            ecn_capable: false,
        }
    };
    all.into_iter().map(packet).collect()
}

fn port(discipline: DisciplineSpec, capacity: Capacity) -> PortSpec {
    PortSpec {
        discipline,
        ..PortSpec::new(capacity)
    }
}

/// A flow of tiny packets, at ten times the packets of another one and at twice the port's rate, has
/// no more than its half of the bytes, also where the limit is in packets. Drop-tail is the control.
#[test]
fn a_flow_of_tiny_packets_gets_no_more_than_its_share() {
    let sent = streams(&[(2, 1_500, 12_000), (3, 150, 600)], 20);
    let share = |discipline| {
        let run = run(
            &star(port(discipline, Capacity::Packets(100)), None),
            &sent,
            &[],
        );
        let bytes = bytes_by_sender(&run, 20);
        bytes[2] * 100 / (bytes[2] + bytes[3])
    };
    let queues = DrrSpec::Flows {
        queues: 1_024,
        quantum: 1_500,
    };
    let tail = share(DisciplineSpec::DropTail);
    let fq = share(DisciplineSpec::FqCodel(FqCodelSpec::new(codel())));
    let drr = share(DisciplineSpec::Drr(queues));
    assert!(tail < 40, "drop-tail: {tail} %");
    assert!(
        (40..=60).contains(&fq) && (45..=55).contains(&drr),
        "FQ-CoDel {fq} %, DRR {drr} %"
    );
}

/// A high class and a low one, each at twice the port's rate. With push-out the low one sends nothing
/// but what came first, and no high packet is dropped for it; where both share the buffer as they
/// come, the low one fills it.
#[test]
fn a_high_class_that_never_pauses_starves_a_lower_one() {
    // Host 7 is class 7, host 2 class 2.
    let sent = streams(&[(2, 1_500, 6_000), (7, 1_500, 6_000)], 10);
    for at_limit in [AtLimit::DropArriving, AtLimit::PushOut] {
        let spec = DisciplineSpec::StrictPriority(StrictPrioritySpec {
            at_limit,
            ..StrictPrioritySpec::default()
        });
        let run = run(&star(port(spec, Capacity::Packets(50)), None), &sent, &[]);
        let bytes = bytes_by_sender(&run, 10);
        let (visits, refused) = visits(&run, 0);
        packets_are_conserved(&visits, refused, &run.stats[0]);
        let high = |v: &Visit| v.packet.from.0 == 7;
        assert!(visits.iter().all(|v| !high(v) || v.dropped.is_none()));
        match at_limit {
            AtLimit::PushOut => assert!(bytes[2] <= 2 * 1_500, "{bytes:?}"),
            AtLimit::DropArriving => assert!(bytes[2] > bytes[7], "{bytes:?}"),
        }
    }
}

/// Senders of one packet size that fill a split port of two queues: the one that has a queue to
/// itself gets half of the rate, and the two of the other queue what is left, however they share
/// that. With a queue each they get a third each.
#[test]
fn a_split_port_gives_each_queue_its_part() {
    let sent = streams(
        &[(2, 1_500, 9_000), (3, 1_500, 9_100), (4, 1_500, 9_200)],
        40,
    );
    let shares = |queues| {
        let split = DisciplineSpec::Split(SplitSpec::new(queues));
        let port = port(split, Capacity::Packets(100));
        let bytes = bytes_by_sender(&run(&star(port, None), &sent, &[]), 40);
        let all: u64 = bytes.iter().sum();
        [2, 3, 4].map(|from: usize| bytes[from] * 1_000 / all)
    };
    let (two, three) = (shares(2), shares(3));
    assert!(two[1].abs_diff(500) <= 5, "{two:?}");
    assert!(three.iter().all(|s| s.abs_diff(333) <= 5), "{three:?}");
}

/// With one queue a split port does what a first-in, first-out one does, at the same times.
#[test]
fn a_split_port_of_one_queue_is_first_in_first_out() {
    let sent = streams(&[(2, 1_500, 9_000), (3, 700, 5_000), (4, 41, 3_000)], 5);
    for in_service in [InService::Counted, InService::NotCounted] {
        for capacity in [Capacity::Packets(9), Capacity::Bytes(ByteCount::new(9_000))] {
            let of = |discipline| {
                let port = PortSpec {
                    in_service,
                    ..port(discipline, capacity)
                };
                let run = run(&star(port, None), &sent, &[]);
                (run.stats, run.areas, run.traces)
            };
            let split = DisciplineSpec::Split(SplitSpec::new(1));
            assert!(of(split) == of(DisciplineSpec::DropTail));
        }
    }
}

/// Eight senders at once at a port of NDP's: everyone hears of every packet, none is dropped.
#[test]
fn ndp_an_incast_loses_payloads_and_no_packet() {
    let all: Vec<_> = (RECEIVERS..HOSTS).map(|h| (h, 1_500, 12_000)).collect();
    let sent = streams(&all, 2);
    let spec = TrimmingSpec::new(Capacity::Bytes(ByteCount::new(200_000)));
    let port = port(DisciplineSpec::Trimming(spec), Capacity::Packets(8));
    let run = run(&star(port, None), &sent, &[]);
    let (visits, refused) = visits(&run, 0);
    packets_are_conserved(&visits, refused, &run.stats[0]);
    assert_eq!(
        (visits.len(), run.stats[0].dropped_total()),
        (sent.len(), 0)
    );
    // Six times the rate: five of six packets are cut, and the headers take their time too.
    let trimmed = run.stats[0].trimmed * 100 / sent.len() as u64;
    assert!((80..=90).contains(&trimmed), "{trimmed} %");
}
