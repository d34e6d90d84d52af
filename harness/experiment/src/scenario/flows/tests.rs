use super::*;
use crate::scenario::spec::{Aqm, Codel, QueueLimit, SharedBuffer};
use narrows::{ByteCount, Duration, Instant};

fn go(spec: &FlowsSpec) -> FlowsRun {
    Flows::default()
        .run(spec, RunContext::default())
        .expect("the spec can be run")
}

fn long(senders: u32) -> FlowsSpec {
    let mut spec = FlowsSpec::long_lived(senders, Rate::from_gbps(1), Duration::from_micros(100));
    spec.duration = Duration::from_millis(60);
    spec.warm_up = Duration::from_millis(20);
    spec
}

fn asked(size: u64, times: u32, group: u32) -> Load {
    Load::Asked(Asked {
        size: ByteCount::new(size),
        request: ByteCount::new(64),
        times,
        group,
    })
}

/// Everything that a spec can ask for, in one run.
fn everything() -> FlowsSpec {
    let mut spec = long(3);
    spec.flows[1].congestion = Some("dctcp".to_owned());
    spec.flows[2].start = Duration::from_millis(9);
    spec.flows[2].load = Load::Bytes(ByteCount::new(300_000));
    let mut back = FlowSpec::unlimited(1, 3);
    back.load = asked(20_000, 5, 1);
    spec.flows.push(back);
    spec.net.aqm = Aqm::EcnStep(QueueLimit::Packets(20));
    spec.net.buffer = PortBuffer::Shared(SharedBuffer {
        size: ByteCount::new(200_000),
        alpha: (1, 2),
    });
    spec.net.loss = Loss::Random(1_000_000);
    spec.tcp.rto = "1ms".to_owned();
    spec.jitter = Duration::from_micros(10);
    spec.record = Record {
        samples: Some(Duration::from_micros(100)),
        queue: true,
    };
    spec
}

#[test]
fn one_flow_fills_the_link_and_the_numbers_fit_together() {
    let mut spec = long(1);
    spec.record.queue = true;
    spec.record.samples = Some(Duration::from_millis(1));
    let run = go(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    assert_eq!(run.measured, Duration::from_millis(40));
    assert!(
        (999_600..=1_000_400).contains(&run.bottleneck.utilisation_ppm),
        "{:?}",
        run.bottleneck.utilisation_ppm
    );
    // 1448 bytes in 1538 on the wire.
    let goodput = run.goodput().bits_per_sec();
    assert!((940_000_000..=941_500_000).contains(&goodput), "{goodput}");
    let flow = &run.flows[0];
    assert_eq!(flow.samples.len(), 61, "from 0 to 60 ms");
    assert_eq!(flow.samples[60].delivered, flow.delivered);
    // The mean of the trace, weighted by time, is the port's own integral.
    let queue = &run.bottleneck.queue;
    let area: u128 = queue
        .windows(2)
        .map(|w| u128::from(w[0].packets) * u128::from(w[1].at_picos - w[0].at_picos))
        .sum();
    let span = queue[queue.len() - 1].at_picos - queue[0].at_picos;
    let mean = (area * 1_000 / u128::from(span)) as u64;
    assert!(
        mean.abs_diff(run.bottleneck.mean_queue_millipackets) <= mean / 100,
        "{mean} {}",
        run.bottleneck.mean_queue_millipackets
    );
}

#[test]
fn a_transfer_alone_takes_the_time_that_can_be_computed() {
    let mut spec = long(1);
    spec.net.nic_overhead = Duration::ZERO;
    spec.warm_up = Duration::ZERO;
    spec.flows[0].load = Load::Bytes(ByteCount::new(1_448));
    let run = go(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    // Handshake: SYN and SYN-ACK over two links each, 100 us and 4 frames of 74 + 18 + 20 and
    // 78 + 20 bytes; then a frame of 1538 over two links in 50 us.
    let frame = |bytes: u64| Duration::from_nanos(bytes * 8);
    let transfer = run.flows[0].transfers[0];
    let data = Duration::from_micros(50) + frame(1_538) * 2;
    assert!(
        transfer.took > Duration::from_micros(100) + data,
        "{transfer:?}"
    );
    assert!(
        transfer.took < Duration::from_micros(100) + data + frame(100) * 4,
        "{transfer:?}"
    );
    assert_eq!(transfer.began, Instant::ZERO);
    assert_eq!(transfer.timeouts, 0);
}

#[test]
fn groups_are_asked_together_and_in_turn() {
    let mut spec = long(4);
    spec.warm_up = Duration::ZERO;
    for flow in &mut spec.flows {
        flow.load = asked(50_000, 3, 7);
    }
    let run = go(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    for k in 0..3 {
        let began: Vec<_> = run.flows.iter().map(|f| f.transfers[k].began).collect();
        assert!(began.iter().all(|b| *b == began[0]), "{began:?}");
        if k > 0 {
            let last = run.flows.iter().map(|f| f.transfers[k - 1]);
            let last = last.map(|t| t.began + t.took).max().unwrap();
            assert_eq!(began[0], last, "asked when the last one is complete");
        }
    }
    assert!(run.flows.iter().all(|f| f.transfers.len() == 3));
}

#[test]
fn timeouts_are_counted_with_their_transfer() {
    let mut spec = long(30);
    spec.warm_up = Duration::ZERO;
    spec.duration = Duration::from_secs(5);
    spec.net.buffer = PortBuffer::Own(QueueLimit::Packets(20));
    for flow in &mut spec.flows {
        flow.load = asked(50_000, 3, 0);
    }
    let run = go(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    let by_transfer: u64 = run
        .flows
        .iter()
        .flat_map(|f| &f.transfers)
        .map(|t| t.timeouts)
        .sum();
    assert!(run.timeouts() > 10, "{}", run.timeouts());
    let handshakes: u64 = run.flows.iter().map(|f| f.handshake_timeouts).sum();
    assert_eq!(by_transfer + handshakes, run.timeouts());
    let late = Duration::from_millis(100);
    assert!(
        run.flows
            .iter()
            .flat_map(|f| &f.transfers)
            .all(|t| t.timeouts == 0 || t.took > late)
    );
}

#[test]
fn two_algorithms_share_a_link_and_show_their_variables() {
    let run = go(&everything());
    let last = |flow: usize| run.flows[flow].samples.last().unwrap();
    assert!(last(0).fraction("alpha").is_none());
    let alpha = last(1).fraction("alpha").unwrap();
    assert!((0.0..1.0).contains(&alpha), "{alpha}");
    assert!(last(0).variables.iter().any(|(name, _)| *name == "w_max"));
    assert_eq!(run.flows[2].transfers.len(), 1);
    assert_eq!(run.flows[3].transfers.len(), 5);
    assert!(run.bottleneck.lost > 0 && run.bottleneck.marks > 0);
}

#[test]
fn each_nth_packet_is_lost() {
    let mut spec = long(1);
    spec.warm_up = Duration::ZERO;
    spec.net.loss = Loss::EachNth(100);
    let b = go(&spec).bottleneck;
    // Those still on the link have not been judged.
    assert!((b.packets / 100).abs_diff(b.lost) <= 1, "{b:?}");
}

#[test]
fn a_seed_gives_one_result_also_through_bytes_and_with_a_capture() {
    let spec = everything();
    let run = go(&spec);
    assert_eq!(run, go(&spec));
    let mut wire = spec.clone();
    wire.wire = true;
    assert_eq!(run, go(&wire));
    let mut file = Vec::new();
    let ctx = RunContext {
        capture: Some(&mut file),
        ..RunContext::default()
    };
    assert_eq!(run, Flows::default().run(&spec, ctx).unwrap());
    assert!(!file.is_empty());
    let mut quiet = spec.clone();
    quiet.record = Record::default();
    let unwatched = go(&quiet);
    assert_eq!(run.flows[0].delivered, unwatched.flows[0].delivered);
    assert_eq!(run.events, unwatched.events);
    let mut other = spec;
    other.seed = 2;
    assert_ne!(run, go(&other));
}

#[test]
fn a_run_can_be_interrupted_and_names_what_it_does_not_know() {
    let flag = std::sync::atomic::AtomicBool::new(true);
    let ctx = RunContext {
        cancel: Some(&flag),
        ..RunContext::default()
    };
    let run = Flows::default().run(&long(1), ctx);
    assert!(matches!(run, Err(ScenarioError::Cancelled)), "{run:?}");
    let mut spec = long(1);
    spec.flows[0].congestion = Some("nobody".to_owned());
    let run = Flows::default().run(&spec, RunContext::default());
    assert!(
        matches!(run, Err(ScenarioError::UnknownName { option: "cc", .. })),
        "{run:?}"
    );
}

/// CoDel drops one packet after the other, each in a window of its own: all of these are losses, and
/// the ACK of a hole that one recovery leaves to the next takes back none of them.
#[test]
fn drops_that_follow_each_other_are_no_mistakes() {
    let mut spec = FlowsSpec::long_lived(1, Rate::from_mbps(50), Duration::from_millis(50));
    spec.hosts[1].rate = Rate::from_gbps(1);
    spec.tcp.congestion = "cubic:slow-start=standard".to_owned();
    spec.net.aqm = Aqm::Codel(Codel::default());
    spec.duration = Duration::from_secs(3);
    for detector in ["sack", "rack"] {
        spec.tcp.loss_detector = detector.to_owned();
        let run = Flows::default().run(&spec, RunContext::default()).unwrap();
        let sender = &run.flows[0].at_end;
        assert!(run.bottleneck.early > 10 && run.bottleneck.full == 0);
        assert_eq!(
            (sender.undone, sender.timeouts, sender.retransmits),
            (0, 0, run.bottleneck.early),
            "{detector}"
        );
    }
}

/// The line is 10 Gb/s: what was received before the warm-up ended and read after it is not of the
/// time after.
#[test]
fn no_flow_receives_more_than_the_line_carries() {
    let mut spec = FlowsSpec::long_lived(3, Rate::from_gbps(10), Duration::from_micros(60));
    for host in &mut spec.hosts[1..] {
        host.rate = Rate::from_gbps(100);
    }
    spec.net.buffer = PortBuffer::Own(QueueLimit::Bytes(ByteCount::new(512 << 10)));
    // Its first slow start makes holes.
    spec.tcp.congestion = "cubic:slow-start=hystart".to_owned();
    spec.duration = Duration::from_millis(300);
    spec.record.samples = Some(Duration::from_millis(1));
    let mut late = 0;
    for warm_up in [40, 100] {
        spec.warm_up = Duration::from_millis(warm_up);
        let run = go(&spec);
        let line = spec.hosts[0].rate.bits_per_sec();
        assert!(run.goodput().bits_per_sec() < line, "{}", run.goodput());
        let received: ByteCount = run.flows.iter().map(|f| f.received).sum();
        assert!(received <= spec.hosts[0].rate.bytes_in(run.measured));
        for flow in &run.flows {
            for pair in flow.samples.windows(2) {
                let bytes = pair[1].received - pair[0].received;
                let most = spec.hosts[0].rate.bytes_in(pair[1].at.since(pair[0].at));
                assert!(bytes <= most + ByteCount::new(1_538), "{bytes} of {most}");
                late += u32::from(pair[1].delivered - pair[0].delivered > most);
            }
        }
    }
    assert!(
        late > 0,
        "a hole delays what is delivered, or this tests nothing"
    );
}

/// A transfer's goodput is over its own time, and a run ends with the last transfer.
#[test]
fn idle_time_is_not_divided_by() {
    let mut spec = long(2);
    spec.duration = Duration::from_secs(1);
    spec.warm_up = Duration::ZERO;
    spec.flows[1].start = Duration::from_millis(50);
    for flow in &mut spec.flows {
        flow.load = Load::Bytes(ByteCount::new(2_000_000));
    }
    spec.record.samples = Some(Duration::from_millis(1));
    let run = go(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    for flow in &run.flows {
        let took = flow.transfers[0].took;
        assert_eq!(flow.active, took);
        let goodput = Rate::of(ByteCount::new(2_000_000), took).unwrap();
        assert_eq!(flow.goodput, goodput);
        assert!(goodput.bits_per_sec() > 850_000_000, "{goodput}");
        let last = flow.samples.last().unwrap();
        assert_eq!(last.received, ByteCount::new(2_000_000), "the last look");
    }
    let end = run.flows[1].transfers[0].took + Duration::from_millis(50);
    assert_eq!((run.simulated, run.measured), (end, end));
    let both = Rate::of(ByteCount::new(4_000_000), end).unwrap();
    assert_eq!(run.goodput(), both);

    // A flow that begins after the warm-up is not charged for the time before.
    let mut spec = long(2);
    spec.flows[1].start = Duration::from_millis(40);
    let run = go(&spec);
    let active: Vec<_> = run.flows.iter().map(|f| f.active).collect();
    assert_eq!(active, [40, 20].map(Duration::from_millis));
}

#[test]
fn the_longest_queue_is_that_after_the_warm_up() {
    let mut spec = long(20);
    spec.tcp.congestion = "dctcp".to_owned();
    spec.net.aqm = Aqm::EcnStep(QueueLimit::Packets(20));
    spec.record.queue = true;
    spec.warm_up = Duration::ZERO;
    let whole = go(&spec).bottleneck;
    spec.warm_up = Duration::from_millis(20);
    let warm = go(&spec).bottleneck;
    // All initial windows at once; DCTCP stays near its threshold then.
    assert!(warm.max_queue_packets < whole.max_queue_packets);
    let traced = |b: &PortOutcome| b.queue.iter().map(|q| q.packets).max().unwrap();
    assert_eq!(warm.max_queue_packets, traced(&warm));
    assert_eq!(whole.max_queue_packets, traced(&whole));
}

#[test]
fn handshake_timeouts_count() {
    let mut spec = long(20);
    spec.warm_up = Duration::ZERO;
    spec.duration = Duration::from_secs(20);
    spec.net.loss = Loss::Random(200_000_000);
    for flow in &mut spec.flows {
        flow.load = Load::Bytes(ByteCount::new(1_000));
    }
    let run = go(&spec);
    let handshakes: u64 = run.flows.iter().map(|f| f.handshake_timeouts).sum();
    assert!(handshakes > 1, "{run:?}");
    let data: u64 = run.flows.iter().map(|f| f.at_end.timeouts).sum();
    assert_eq!(run.timeouts(), data + handshakes);
    for flow in &run.flows {
        let transfer = flow.transfers[0];
        // The receiver's SYN-ACKs are no timeouts of the sender.
        let sender = flow.at_end.timeouts..=flow.timeouts();
        assert!(
            sender.contains(&transfer.timeouts),
            "{transfer:?} {sender:?}"
        );
        let late = Duration::from_secs(1);
        assert!(flow.handshake_timeouts == 0 || transfer.took > late);
    }
}
