//! What stands between a link and a TCP: rings, interrupts, offloads, buffers, a shaper, a processor;
//! each held against what its own arithmetic says.

use super::capture::{Seen, read};
use narrows::recovery::SenderStats;
use narrows_experiment::file::Loaded;
use narrows_experiment::host::capture::Side;
use narrows_experiment::net::packet::HostId;
use narrows_experiment::net::stats::DropReason;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::RunContext;

/// Two hosts and what `more` says. Without timestamps, which are in microseconds: segments with
/// different ones are not merged.
fn run(rate: &str, more: &str) -> RunOutcome {
    run_in("", "", rate, more)
}

/// The same with keys of the network and of the hosts' TCP.
fn run_in(network: &str, tcp: &str, rate: &str, more: &str) -> RunOutcome {
    let text = format!(
        r#"
[network]
{network}
topology = "star"
hosts = 2
link = {{ rate = "{rate}", delay = "10us", framing = "ethernet" }}
queue = {{ limit = "4MiB" }}
[host.tcp]
timestamps = false
{tcp}
[run]
duration = "200ms"
warm_up = "50ms"
{more}
"#
    );
    let registry = Registry::default();
    let loaded = Loaded::parse("x.toml", &text, &registry).unwrap_or_else(|e| panic!("{e}"));
    let outcome = loaded.experiment.run(&registry, RunContext::default());
    outcome.unwrap_or_else(|e| panic!("{e}"))
}

const COPY: &str = r#"
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1"
to = "h0"
"#;

fn metric(run: &RunOutcome, name: &str) -> Option<f64> {
    let all = Registry::default().metrics.of_run(run);
    all.into_iter()
        .find(|m| m.name == name)
        .map(|m| m.value.value())
}

fn near(is: f64, expected: f64, part: f64) {
    assert!((is / expected - 1.0).abs() < part, "{is} is not {expected}");
}

#[test]
fn what_is_off_has_no_numbers_and_what_is_on_gives_the_same_each_time() {
    let plain = run("10Gb/s", COPY);
    for name in [
        "interrupts",
        "aggregates",
        "cpu",
        "drops.ring",
        "refused.buffers",
    ] {
        assert_eq!(metric(&plain, name), None, "{name}");
    }
    let all = format!(
        "{COPY}\n[host.nic]\ntso = \"64KiB\"\ngro = \"64KB\"\nrx_usecs = \"50us\"\nrx_frames = 32\n\
         rx_queues = 2\nrefuse = \"0.1%\"\nshaper_rate = \"8Gb/s\"\nshaper_burst = \"200kB\"\n\
         [host.cpu]\ncounts = true\ncores = 2\n"
    );
    let once = run("10Gb/s", &all);
    assert_eq!(once, run("10Gb/s", &all));
    assert!(metric(&once, "cpu").unwrap() > 0.0 && metric(&once, "refused.buffers").unwrap() > 0.0);
    // Whether packets go through bytes on the way changes nothing.
    let wire = all.replacen("[[traffic]]", "wire = true\n[[traffic]]", 1);
    assert_eq!(once, run("10Gb/s", &wire));
}

/// A frame waits for the timer at each end: a call takes the two ages, and what it takes without.
#[test]
fn coalescing_adds_its_age_to_each_way_of_a_lonely_call() {
    let call = "[[traffic]]\nname = \"ping\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\n\
                request = \"100B\"\nreply = \"100B\"\ncalls = \"off\"\n[host.nic]\noverhead = \"0s\"\n";
    let p50 = |more: &str| {
        let outcome = run("10Gb/s", &format!("{call}{more}"));
        metric(&outcome, "latency.p50").unwrap_or_else(|| panic!("no call: {more}"))
    };
    let direct = p50("");
    for us in [50.0, 1_000.0] {
        let held = p50(&format!("rx_usecs = \"{us}us\"\nrx_frames = 64\n"));
        near(held - direct, 2.0 * us * 1e3, 0.001);
    }
    // At the first frame it is as if there were none.
    near(p50("rx_usecs = \"1ms\"\nrx_frames = 1\n"), direct, 1e-9);
}

/// Full frames at 10 Gb/s are 1230.4 ns apart, so 32 of them are there before 50 us have passed: an
/// interrupt for each 32, and each poll is one aggregate.
#[test]
fn a_busy_link_interrupts_by_frames_and_offload_makes_one_packet_of_them() {
    let more = "[host.nic]\nrx_usecs = \"50us\"\nrx_frames = 32\n";
    let apart = run("10Gb/s", &format!("{COPY}{more}"));
    let receiver = apart.hosts[0].work.unwrap();
    near(
        receiver.data_frames as f64 / receiver.interrupts as f64,
        32.0,
        0.02,
    );
    assert_eq!(metric(&apart, "frames_per_aggregate"), Some(1.0));
    let merged = run("10Gb/s", &format!("{COPY}{more}gro = \"64KB\"\n"));
    let frames = metric(&merged, "frames_per_aggregate").unwrap();
    assert!(frames > 28.0, "{frames}");
    // The TCP acknowledges aggregates: as many ACKs reach the sender.
    let (acks, before) = (
        merged.hosts[1].work.unwrap().acks,
        apart.hosts[1].work.unwrap().acks,
    );
    let aggregates = merged.hosts[0].work.unwrap().aggregates;
    near(acks as f64, aggregates as f64, 0.02);
    assert!(acks * 10 < before, "{acks} {before}");
    for run in [&apart, &merged] {
        near(metric(run, "goodput").unwrap(), 9.4e9, 0.02);
    }
}

/// A core that takes 5 us for each frame handles 200,000 a second and no more, however fast the link:
/// the ring overflows, TCP finds the rate, and the core is busy all the time.
#[test]
fn a_slow_core_is_the_bottleneck_and_its_ring_the_queue() {
    let cpu = "[host.nic]\nrx_ring = 256\n[host.cpu]\ncounts = true\ninterrupt = \"0s\"\n\
               packet = \"5us\"\nkilobyte = \"0s\"\nack = \"0s\"\ncall = \"0s\"\n";
    let one_way = cpu.replace("[host.cpu]", "[group.h0.cpu]");
    let slow = run("10Gb/s", &format!("{COPY}{one_way}"));
    near(
        metric(&slow, "goodput").unwrap(),
        1_460.0 * 8.0 / 5e-6,
        0.05,
    );
    assert!(metric(&slow, "cpu").unwrap() > 0.95);
    assert!(metric(&slow, "drops.ring").unwrap() > 0.0);
    assert_eq!(metric(&slow, "drops"), Some(0.0), "the switch drops none");
    // With offload the same core keeps up: an aggregate costs what a frame did.
    let more = "[group.h0.nic]\ngro = \"64KB\"\nrx_usecs = \"50us\"\nrx_frames = 32\n";
    let offload = run("10Gb/s", &format!("{COPY}{one_way}{more}"));
    near(metric(&offload, "goodput").unwrap(), 9.4e9, 0.02);
    assert!(metric(&offload, "cpu").unwrap() < 0.2);
}

/// The same core, whose NIC pauses its switch before the ring overflows: whatever the link and the
/// packets, no frame is lost at the host, the core is busy all the time, and the switch's port is
/// paused for the rest of what the link could carry.
#[test]
fn a_host_that_pauses_its_switch_loses_no_frame() {
    for (gbps, mtu, ring) in [
        (5.0, 1_500, 512),
        (10.0, 1_500, 512),
        (10.0, 1_500, 400),
        (10.0, 576, 512),
        (40.0, 9_000, 1_700),
    ] {
        let cpu = format!(
            "[group.h0.nic]\nrx_ring = {ring}\nrx_pause = true\n[group.h0.cpu]\ncounts = true\n\
             interrupt = \"0s\"\npacket = \"5us\"\nkilobyte = \"0s\"\nack = \"0s\"\ncall = \"0s\"\n"
        );
        let (network, tcp) = (format!("mtu = {mtu}"), "receive_window = \"3500kB\"");
        let ran = run_in(
            &network,
            tcp,
            &format!("{gbps}Gb/s"),
            &format!("{COPY}{cpu}"),
        );
        let of = |name: &str| metric(&ran, name).unwrap();
        assert_eq!((of("drops.ring"), of("drops")), (0.0, 0.0), "{gbps} {mtu}");
        let payload = f64::from(mtu) - 40.0;
        near(of("goodput"), payload * 8.0 / 5e-6, 0.01);
        assert!(of("cpu") > 0.99);
        let carried = of("goodput") * (f64::from(mtu) + 38.0) / payload / (gbps * 1e9);
        assert!(
            (of("paused") - (1.0 - carried)).abs() < 0.02,
            "{gbps} {mtu}"
        );
    }
}

/// A switch that pauses as well passes the pause on: nothing is lost anywhere, whatever the windows.
#[test]
fn a_pause_of_a_host_reaches_the_sender_through_a_switch_that_pauses() {
    let cpu = "[group.h0.nic]\nrx_ring = 512\nrx_pause = true\n[group.h0.cpu]\ncounts = true\n\
               interrupt = \"0s\"\npacket = \"5us\"\nkilobyte = \"0s\"\nack = \"0s\"\n\
               call = \"0s\"\n[network.pause]\nmode = \"802.3x\"\n";
    let ran = run("10Gb/s", &format!("{COPY}{cpu}"));
    let dropped = ["drops.ring", "drops"].map(|name| metric(&ran, name));
    assert_eq!(dropped, [Some(0.0); 2]);
    near(metric(&ran, "goodput").unwrap(), 1_460.0 * 8.0 / 5e-6, 0.01);
}

/// A ring that is too short for what still comes is refused, with what it needs.
#[test]
fn a_ring_without_headroom_is_refused() {
    let text = "[network]\ntopology = \"star\"\nhosts = 2\n\
                link = { rate = \"10Gb/s\", delay = \"10us\" }\n\
                [host.nic]\nrx_ring = 64\nrx_pause = true\nrx_usecs = \"50us\"\n\
                [[traffic]]\nname = \"copy\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\n\
                [run]\nduration = \"1ms\"\n";
    let registry = Registry::default();
    let loaded = Loaded::parse("x.toml", text, &registry);
    let said = match loaded {
        Err(e) => e.to_string(),
        Ok(loaded) => match loaded.experiment.run(&registry, RunContext::default()) {
            Err(e) => e.to_string(),
            Ok(_) => panic!("it ran"),
        },
    };
    assert!(said.contains("give it a longer ring"), "{said}");
}

/// What a ring loses while it pauses does not stop the switch for longer than until the pause is to
/// be renewed.
#[test]
fn a_ring_that_is_lost_ends_the_pause() {
    let cpu = "[group.h0.nic]\nrx_ring = 512\nrx_pause = true\n[group.h0.cpu]\ncounts = true\n\
               interrupt = \"0s\"\npacket = \"5us\"\nkilobyte = \"0s\"\nack = \"0s\"\n\
               call = \"0s\"\n";
    let lost = "[[change]]\nwhat = \"ring-loss\"\non = \"h0\"\nat = \"20ms\"\nfor = \"1ms\"\n";
    let ran = run("10Gb/s", &format!("{COPY}{cpu}{lost}"));
    near(metric(&ran, "goodput").unwrap(), 1_460.0 * 8.0 / 5e-6, 0.2);
}

/// Four frames an interrupt: with receive offload the host is given an aggregate of four, without it four
/// packets. Offload that is set loses nothing; where it is toggled each time costs the ring.
#[test]
fn receive_offload_is_turned_off_and_on_in_a_run() {
    let nic = |gro: &str| {
        format!("[group.h0.nic]\ngro = \"{gro}\"\nrx_frames = 4\nrx_usecs = \"30us\"\n")
    };
    let change = |more: &str| format!("[[change]]\non = \"h0\"\nat = \"125ms\"\n{more}\n");
    let merged = |gro: &str, more: &str| {
        let ran = run("10Gb/s", &format!("{COPY}{}{more}", nic(gro)));
        let resent = metric(&ran, "retransmits").unwrap();
        (metric(&ran, "frames_per_aggregate").unwrap(), resent)
    };
    let (always, never) = (merged("64KiB", "").0, merged("off", "").0);
    assert!(always > 3.9 && never == 1.0, "{always} {never}");
    // Half of the time measured: of n frames n/2/4 + n/2 packets.
    let half = 2.0 / (1.0 / always + 1.0);
    for (gro, to) in [("64KiB", "off"), ("off", "64KiB")] {
        let (set, resent) = merged(gro, &change(&format!("nic.gro = \"{to}\"")));
        near(set, half, 0.02);
        assert_eq!(resent, 0.0, "nothing is lost");
        // As it was, after half of the rest.
        let (back, _) = merged(
            gro,
            &change(&format!("nic.gro = \"{to}\"\nfor = \"37500us\"")),
        );
        let share = if to == "off" { 0.25 } else { 0.75 };
        near(back, 1.0 / (share + (1.0 - share) / always), 0.02);
        // Toggled, with and without its other value said; the ring is lost.
        let toggle = "what = \"toggle\"\nfor = \"20us\"";
        let (toggled, lost) = merged(gro, &change(toggle));
        let said = merged(gro, &change(&format!("{toggle}\nnic.gro = \"{to}\"")));
        assert_eq!((toggled, lost), said);
        assert!(
            lost > 0.0 && toggled > 1.1 && toggled < 0.9 * always,
            "{toggled} {lost}"
        );
        // Each second time it is what it was: half of all that is measured.
        let from_the_start = change(&format!("{toggle}\nevery = \"1ms\"")).replace("125", "50");
        let twice = run("10Gb/s", &format!("{COPY}{}{from_the_start}", nic(gro)));
        assert!(metric(&twice, "retransmits").unwrap() > lost);
        near(metric(&twice, "frames_per_aggregate").unwrap(), half, 0.05);
        let is = |gro: &str| match gro {
            "off" => "receive offload is off at h0",
            _ => "receive offload is 65535 bytes at h0",
        };
        let made: Vec<(u64, &str)> = twice.changes[..4]
            .iter()
            .map(|(at, what)| (at.as_nanos() / 1_000, what.as_str()))
            .collect();
        let lost = "end of ring loss at h0";
        let expected = [
            (50_000, is(to)),
            (50_020, lost),
            (51_000, is(gro)),
            (51_020, lost),
        ];
        assert_eq!(made, expected);
    }
}

/// The bits of whole frames are what a token bucket counts.
#[test]
fn a_shaper_gives_its_rate_in_frames() {
    let more = "[host.nic]\nshaper_rate = \"800Mb/s\"\nshaper_burst = \"30kB\"\n";
    let shaped = run("10Gb/s", &format!("{COPY}{more}"));
    near(
        metric(&shaped, "goodput").unwrap(),
        800e6 * 1_460.0 / 1_518.0,
        0.002,
    );
    // At ticks of 10 ms a bucket of 100 kB gives 100 kB a tick: 80 Mb/s.
    let tick = more.replace("30kB", "100kB") + "shaper_tick = \"10ms\"\n";
    let ticks = run("10Gb/s", &format!("{COPY}{tick}"));
    near(
        metric(&ticks, "goodput").unwrap(),
        80e6 * 1_460.0 / 1_518.0,
        0.08,
    );
}

/// The same bytes leave as the same frames, handed over 44 at a time.
#[test]
fn segmentation_offload_changes_what_the_host_hands_over_and_not_what_leaves() {
    // A core that keeps up with single segments, so that the link is the limit of both.
    let cpu = "[host.cpu]\ncounts = true\ninterrupt = \"0s\"\ncall = \"0s\"\npacket = \"400ns\"\nack = \"100ns\"\n";
    let single = run("10Gb/s", &format!("{COPY}{cpu}"));
    let bursts = run(
        "10Gb/s",
        &format!("{COPY}{cpu}[host.nic]\ntso = \"64KiB\"\n"),
    );
    for run in [&single, &bursts] {
        let mut nics = run.ports.iter().filter(|p| p.nic);
        let frames = nics.find(|p| p.name.starts_with("h1")).unwrap().packets;
        near(frames as f64, 812_744.0 * 0.15, 0.001);
    }
    let sender = |run: &RunOutcome| run.hosts[1].work.unwrap().busy.as_nanos() as f64;
    assert!(
        sender(&bursts) < 0.5 * sender(&single),
        "{} {}",
        sender(&bursts),
        sender(&single)
    );
}

/// Packets with data in a capture, the longest, and their bytes, each once that came through.
fn data_in(capture: &[u8], from: [u8; 4]) -> (u64, usize, u64) {
    let (mut count, mut longest, mut bytes) = (0, 0, 0);
    for Seen { bytes: packet, .. } in read(capture).packets {
        let headers = 20 + usize::from(packet[32] >> 4) * 4;
        assert_eq!(
            usize::from(u16::from_be_bytes([packet[2], packet[3]])),
            packet.len()
        );
        if packet[12..16] == from && packet.len() > headers {
            count += 1;
            longest = longest.max(packet.len());
            bytes += (packet.len() - headers) as u64;
        }
    }
    (count, longest, bytes)
}

/// What a host's own counters and tcpdump have is what it hands over: as many bytes as cross the wire,
/// in as few packets as segmentation offload makes of them; without it both ends of the link see the same.
#[test]
fn captures_and_counters_at_the_host_are_above_segmentation() {
    let registry = Registry::default();
    let probe = "[[probe]]\nname = \"at\"\nkind = \"counters\"\n";
    let copy = COPY.replace("[[traffic]]", "[[traffic]]\nsize = \"3MB\"");
    let with = |nic: &str, side: Side, host: u32| {
        let text = format!(
            "[network]\ntopology = \"star\"\nhosts = 2\n{copy}{nic}{probe}[run]\nduration = \"1s\"\n"
        );
        let loaded = Loaded::parse("x.toml", &text, &registry).unwrap_or_else(|e| panic!("{e}"));
        let mut file = Vec::new();
        let ctx = RunContext {
            capture: Some(&mut file),
            capture_at: HostId(host),
            capture_side: side,
            ..RunContext::default()
        };
        let ran = loaded.experiment.run(&registry, ctx).unwrap();
        let found = data_in(&file, [10, 0, 0, 2]);
        let nic = ran.ports.iter().find(|p| p.name == "h1->s0").unwrap();
        let counted = |name: &str| metric(&ran, &format!("at.h1.{name}")).unwrap() as u64;
        assert_eq!(counted("data_bytes"), 3_000_000 + counted("again_bytes"));
        (found, counted("data"), counted("out"), nic.packets)
    };
    let segments = 3_000_000_u64.div_ceil(1_448);
    let (above, data, out, frames) = with("[host.nic]\ntso = \"64KiB\"\n", Side::Host, 1);
    let (wire, ..) = with("[host.nic]\ntso = \"64KiB\"\n", Side::Switch, 1);
    assert_eq!((wire.0, wire.1), (segments, 1_500));
    assert_eq!((above.0, above.2), (data, wire.2));
    // At most 44 segments of 1448 bytes, and 52 bytes of headers.
    let most = 44 * 1_448 + 52;
    assert!((most / 2..=most).contains(&above.1), "{above:?}");
    assert!(
        above.0 * 2 <= segments,
        "an ACK of two lets two out: {above:?}"
    );
    assert_eq!(frames - segments, out - data, "what has no data is not cut");
    // The receiver's capture has aggregates in the same way.
    let gro = "[host.nic]\ngro = \"64KiB\"\nrx_frames = 16\nrx_usecs = \"100us\"\n[host.tcp]\ntimestamps = false\n";
    let (merged, ..) = with(gro, Side::Host, 0);
    assert!(merged.1 > 8 * 1_448 && merged.2 == 3_000_000, "{merged:?}");
    // Without offload the host's packets are the wire's.
    let (plain, data, ..) = with("", Side::Host, 1);
    let (wire, ..) = with("", Side::Switch, 1);
    assert_eq!((plain, data), (wire, segments));
}

/// What is lost is sent again, and counted: as the ledgers of connections and ports have it, after the
/// warm-up only.
#[test]
fn counters_have_what_is_sent_again_after_the_warm_up() {
    let names = [
        "out",
        "data",
        "data_bytes",
        "again",
        "again_bytes",
        "again_flows",
        "in",
    ];
    let counted = |traffic: &str, measured: &str| {
        let text = format!(
            "[network]\ntopology = \"star\"\nhosts = 2\nlink = {{ rate = \"1Gb/s\" }}\n{COPY}{traffic}\
             [network.port.\"h1->s0\"]\nlink = {{ loss = \"0.5%\" }}\n\
             [[probe]]\nname = \"at\"\nkind = \"counters\"\n[run]\n{measured}\n"
        );
        let registry = Registry::default();
        let loaded = Loaded::parse("x.toml", &text, &registry).unwrap_or_else(|e| panic!("{e}"));
        let ran = loaded.experiment.run(&registry, RunContext::default());
        let ran = ran.unwrap();
        let counts = names.map(|name| metric(&ran, &format!("at.h1.{name}")).unwrap() as u64);
        (counts, ran)
    };
    let three_flows = "connections = 3\nsize = \"1MB\"\n";
    let ([out, data, bytes, again, again_bytes, flows, came], ran) =
        counted(three_flows, "duration = \"3s\"");
    let port = |name: &str| ran.ports.iter().find(|p| p.name == name).unwrap();
    let resent = |of: fn(&SenderStats) -> u64| ran.flows.iter().map(|f| of(&f.sender)).sum::<u64>();
    assert_eq!(again, port("h1->s0").dropped(DropReason::Lost));
    assert_eq!(again, resent(|sender| sender.retransmits));
    assert_eq!(again_bytes, resent(|sender| sender.retransmitted_bytes));
    assert_eq!((out, flows), (port("h1->s0").packets, 3));
    assert_eq!(bytes, 3_000_000 + again_bytes);
    assert_eq!(data, 3 * 1_000_000_u64.div_ceil(1_448) + again);
    // But those under way when the last byte is there.
    let sent_to_it = port("s0->h1").packets;
    assert!(
        (sent_to_it - 3..=sent_to_it).contains(&came),
        "{came} of {sent_to_it}"
    );
    // A fourth that has no end: what was counted before the warm-up's end and what is counted after it
    // are all.
    let four_flows = format!("{three_flows}{}", COPY.replace("copy", "more"));
    let (all, _) = counted(&four_flows, "duration = \"400ms\"");
    let (before, _) = counted(&four_flows, "duration = \"200ms\"");
    let (after, _) = counted(&four_flows, "duration = \"400ms\"\nwarm_up = \"200ms\"");
    for (nth, name) in names.into_iter().enumerate() {
        let (all, before, after) = (all[nth], before[nth], after[nth]);
        match name {
            "again_flows" => assert_eq!((all, before, after), (4, 4, 1)),
            _ => assert_eq!((after > 0, before + after), (true, all), "{name}"),
        }
    }
}

/// Ten buffers that come back 10,000 a second let 10,000 frames a second out.
#[test]
fn buffers_at_a_rate_are_a_limit_of_the_rate() {
    let more = "[group.h1.nic]\ntx_buffers = 10\ntx_refill = 10000\n";
    let few = run("10Gb/s", &format!("{COPY}{more}"));
    near(
        metric(&few, "goodput").unwrap(),
        10_000.0 * 1_460.0 * 8.0,
        0.01,
    );
    assert!(metric(&few, "refused.buffers").unwrap() > 0.0);
    assert_eq!(
        metric(&few, "retransmits"),
        Some(0.0),
        "what is refused leaves later"
    );
}

/// Moments without a buffer have one end, and whole microseconds.
#[test]
fn moments_that_cannot_be_are_refused() {
    let said = |more: &str| {
        let text = format!(
            "[network]\ntopology = \"star\"\nhosts = 2\n{COPY}\n[run]\nduration = \"1ms\"\n\
             [host.nic]\n{more}"
        );
        let registry = Registry::default();
        let ran = Loaded::parse("x.toml", &text, &registry).map(|loaded| {
            let ran = loaded.experiment.run(&registry, RunContext::default());
            ran.map(|_| ()).map_err(|e| e.to_string())
        });
        ran.map_err(|e| e.to_string()).and_then(|ran| ran)
    };
    let moments = "refuse = \"1%\"\nrefuse_for = \"10us\"\n";
    assert_eq!(said(moments), Ok(()));
    for (more, why) in [
        (format!("{moments}refuse_run = 4\n"), "set one of the two"),
        (moments.replace("10us", "2500ns"), "whole microseconds"),
    ] {
        let said = said(&more).unwrap_err();
        assert!(said.contains("refuse_for") && said.contains(why), "{said}");
    }
}
