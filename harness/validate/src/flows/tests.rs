use super::*;
use crate::set_up::{fast_edges, long_lived, put};
use narrows::{ByteCount, Instant};

fn go(flows: &Flows) -> FlowsRun {
    let run = flows.run(&Registry::default(), RunContext::default());
    run.expect("the flows can be run")
}

fn star(senders: u32) -> Experiment {
    long_lived(senders, Rate::from_gbps(1), Duration::from_micros(100))
}

fn long(senders: u32) -> Flows {
    let mut flows = star(senders);
    flows.run.duration = Duration::from_millis(60);
    flows.run.warm_up = Duration::from_millis(20);
    Flows::new(flows)
}

/// 50 kB from each sender, three times, asked for together.
fn asked(senders: u32) -> Flows {
    let mut hosts = star(0);
    hosts.run.duration = Duration::from_millis(60);
    put(&mut hosts, "network.hosts", senders + 1);
    let query = |from| Query {
        from,
        to: 0,
        start: Duration::ZERO,
        asked: Asked {
            size: ByteCount::new(50_000),
            request: ByteCount::new(64),
            times: 3,
            group: 7,
        },
    };
    Flows {
        queries: (1..=senders).map(query).collect(),
        ..Flows::new(hosts)
    }
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
    spec.experiment.run.warm_up = Duration::ZERO;
    put(&mut spec.experiment, "host.nic.overhead", "0ns");
    put(&mut spec.experiment, "traffic.flow-1.size", "1448B");
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
    let spec = asked(4);
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
    let mut spec = asked(30);
    spec.experiment.run.duration = Duration::from_secs(5);
    put(&mut spec.experiment, "network.queue.limit", "20p");
    let run = go(&spec);
    assert_eq!(run.outcome, Outcome::Completed);
    let of = |f: &FlowOutcome| f.at_end.timeouts - f.at_warm_up.timeouts + f.handshake_timeouts;
    let all: u64 = run.flows.iter().map(of).sum();
    let by_transfer: u64 = run
        .flows
        .iter()
        .flat_map(|f| &f.transfers)
        .map(|t| t.timeouts)
        .sum();
    assert!(all > 10, "{}", all);
    let handshakes: u64 = run.flows.iter().map(|f| f.handshake_timeouts).sum();
    assert_eq!(by_transfer + handshakes, all);
    let late = Duration::from_millis(100);
    assert!(
        run.flows
            .iter()
            .flat_map(|f| &f.transfers)
            .all(|t| t.timeouts == 0 || t.took > late)
    );
}

#[test]
fn no_flow_receives_more_than_the_line_carries() {
    let rate = Rate::from_gbps(10);
    let mut flows = long_lived(3, rate, Duration::from_micros(60));
    fast_edges(&mut flows, rate);
    put(&mut flows, "network.queue.limit", "512KiB");
    // Its first slow start makes holes.
    put(
        &mut flows,
        "host.tcp.congestion",
        "cubic:slow-start=hystart",
    );
    flows.run.duration = Duration::from_millis(300);
    let mut spec = Flows::new(flows);
    spec.record.samples = Some(Duration::from_millis(1));
    let mut late = 0;
    for warm_up in [40, 100] {
        spec.experiment.run.warm_up = Duration::from_millis(warm_up);
        let run = go(&spec);
        let line = rate.bits_per_sec();
        assert!(run.goodput().bits_per_sec() < line, "{}", run.goodput());
        let received: ByteCount = run.flows.iter().map(|f| f.received).sum();
        assert!(received <= rate.bytes_in(run.measured));
        for flow in &run.flows {
            for pair in flow.samples.windows(2) {
                let bytes = pair[1].received - pair[0].received;
                let most = rate.bytes_in(pair[1].at.since(pair[0].at));
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
