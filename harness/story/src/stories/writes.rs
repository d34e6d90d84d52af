//! `writes`: a proxy's small writes wait for an acknowledgement, with Nagle's algorithm off.

#[cfg(target_os = "linux")]
mod live;

use crate::grid::{Column, Grid};
use crate::judge::Finding;
use crate::played::{Answer, NoAnswer, Played, Scenery, Waited, column, missing};
use crate::scene::{Keys, Scene};
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows_experiment::model::expect::number_in_base_unit;
use narrows_experiment::probe::Series as Seen;
use narrows_report::chart::{Axis, Chart, Rule, RuleAt, Scale, Series};

/// The story.
pub const STORY: Story = Story {
    name: "writes",
    about: "Four one-byte writes wait 40 ms for an ACK, though Nagle's algorithm is off.",
    scenes: &[
        Scene::new("eight", "packet-window").keeping_outcomes(),
        Scene::new("pauses", "packet-window")
            .sharing(&[STALLS])
            .with(&[(
                "sweep.pause",
                "1ms,20ms,50ms,100ms,150ms,200ms,210ms,220ms,230ms,240ms,250ms,300ms,500ms,1s",
            )]),
        Scene::new("stacks", "packet-window")
            .sharing(&[PROXY, PACKETS])
            .with(&[
                ("sweep.idle-restart", "rfc5681,rfc2861,rfc7661,keep"),
                ("sweep.iw", "3,10"),
            ]),
        Scene::new("nagle", "small-writes")
            .sharing(&[PROXY])
            .with(&[("sweep.nodelay", "off,on")]),
        // Longer than the floor of the RTO, and shorter than most.
        Scene::new("soon", "packet-window")
            .sharing(&[PROXY, PACKETS])
            .with(&[
                ("sweep.idle-restart", "rfc5681,rfc2861,rfc7661"),
                ("pause", SOON),
            ])
            .keeping_outcomes(),
        // What the peer admits: more than all of a result, or less.
        Scene::new("admitted", "packet-window")
            .sharing(&[PROXY])
            .with(&[
                ("sweep.window", "packets,bytes"),
                ("idle-restart", "rfc5681"),
                ("sweep.host.tcp.receive_window", "4400B,64KiB"),
                ("sweep.traffic.query.reply", "400B,20kB"),
                ("calls", "10"),
            ]),
        Scene::new("packets", "packet-window")
            .sharing(&[PROXY])
            .with(&[
                ("probe.ledger.kind", "ledger"),
                ("sweep.window", "packets,bytes"),
                ("idle-restart", "rfc5681"),
                ("calls", "4"),
            ])
            .keeping_outcomes(),
    ],
    tables: &[
        Table::points(
            "All combinations: how the result is written, delayed ACK, what the window counts, idle restart",
            "eight",
            &[
                Column::new("median", "latency.p50"),
                Column::new("longest", "latency.max"),
                Column::new("segments", "segments"),
            ],
        ),
        Table::own(
            "The packets of a result after a pause, window of packets",
            packet_list,
        ),
        Table::points(
            "Initial window and idle restart",
            "stacks",
            &[Column::new("median", "latency.p50")],
        ),
    ],
    phenomenon,
    rows: &[
        Row::new("S1", the_proxy_costs),
        Row::new("S2", nagle_holds_the_second),
        Row::new("S3", nodelay_does_not_cure),
        Row::new("S4", five_packets),
        Row::new("S5", a_buffered_write_cures),
        Row::new("S6", three_bytes_then_the_rest),
        Row::new("S7", one_of_eight_stalls),
        Row::new("S8", the_peers_window_is_no_limit),
        Row::new("S9", three_packets_after_a_pause),
        Row::new("S12", writes_stand_beside_packets),
        Row::new("S10", validation_aggravates),
        Row::new("S11", only_after_an_rto),
        Row::new("S13", the_stack_matters),
    ],
    figures: &[Figure::first(figure)],
    next: &[
        Next::new(
            "narrows run packet-window",
            "the experiment, with all combinations",
        ),
        Next::new(
            "narrows run packet-window --set writes=1+1+1+1+n --set window=packets --set delayed-ack=2/40ms --set idle-restart=rfc5681 -r 1 --pcap writes.pcapng --pcap-at h0",
            "a capture of the wait",
        ),
        Next::new(
            "narrows explain writes.pcapng",
            "what the capture says of it",
        ),
    ],
    #[cfg(target_os = "linux")]
    live: Live::Twin(live::TWIN),
    #[cfg(not(target_os = "linux"))]
    live: Live::Cannot("it takes Linux's network namespaces"),
};

/// A pause longer than the floor of the RTO, and shorter than most RTOs.
const SOON: &str = "210ms";
/// How the proxy writes a result: a byte at a time, then the rest.
const WRITTEN: &str = "1+1+1+1+n";
/// When its peer acknowledges.
const DELAYED: &str = "2/40ms";
const PROXY: Keys = &[("writes", WRITTEN), ("delayed-ack", DELAYED)];
/// What the window counts in the text.
const PACKETS: Keys = &[("window", "packets")];
/// The three that stall together, with how the proxy writes.
const STALLS: Keys = &[PROXY[0], PROXY[1], PACKETS[0], IDLE_RESTART];
const IDLE_RESTART: (&str, &str) = ("idle-restart", "rfc5681");

fn but(key: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
    let with = |&(k, v)| (k, if k == key { value } else { v });
    STALLS.iter().map(with).collect()
}

/// The median of a point, in milliseconds.
fn median(eight: &Scenery, at: &[(&str, &str)]) -> Answer<f64> {
    Ok(eight.value(at, "latency.p50")? / 1e6)
}

fn phenomenon(played: &Played) -> Answer<String> {
    let eight = played.scene("eight")?;
    let stalled = median(eight, STALLS)?;
    let mut others = Vec::new();
    for (key, value) in [
        ("delayed-ack", "off"),
        ("window", "bytes"),
        ("idle-restart", "keep"),
    ] {
        others.push(median(eight, &but(key, value))?);
    }
    let most = others.iter().fold(0.0, |a: f64, b| a.max(*b));
    let kept = eight.value(&but("idle-restart", "keep"), "latency.max")? / 1e6;
    Ok(format!(
        "A result of five writes takes {stalled:.1} ms after a pause; without delayed ACKs, with a \
         window of bytes, or with the window kept, {most:.2} ms at most in the median. A connection's first \
         result, for which there is an initial window of three packets and nothing to keep, takes {kept:.1} ms."
    ))
}

fn the_proxy_costs(played: &Played) -> Answer<Finding> {
    let eight = played.scene("eight")?;
    let (proxy, direct) = (median(eight, STALLS)?, median(eight, &but("writes", "n"))?);
    Ok(Finding::is(
        format!(
            "median {direct:.2} ms written at once, as the database does; {proxy:.1} ms as the proxy writes it"
        ),
        proxy > 10.0 * direct,
    ))
}

fn nagle_holds_the_second(played: &Played) -> Answer<Finding> {
    let held = played
        .scene("nagle")?
        .value(&[("nodelay", "off")], "latency.p50")?;
    Ok(Finding::between(
        "median with Nagle",
        held / 1e6,
        (39.0, 41.0),
        "ms",
    ))
}

fn nodelay_does_not_cure(played: &Played) -> Answer<Finding> {
    let steady = played
        .scene("nagle")?
        .value(&[("nodelay", "on")], "latency.p50")?;
    let after_a_pause = median(played.scene("eight")?, STALLS)?;
    Ok(Finding::all([
        Finding::at_most("with TCP_NODELAY and no pause", steady / 1e6, 1.0, "ms"),
        Finding::between("after a pause still", after_a_pause, (40.0, 41.0), "ms"),
    ]))
}

/// The probe that sees what h0 sends.
const ANSWERS: &str = "answers";

/// Payload segments that h0 sent as answer to the last call, with the time since the first, in ms.
fn packets_of(played: &Played, window: &str) -> Answer<Vec<(f64, f64)>> {
    let (scene, at) = (played.scene("packets")?, [("window", window)]);
    let seen = sent(scene.series(&at, ANSWERS)?)?;
    let call = scene.run(&at)?.transfers.last();
    let call = call.ok_or_else(|| missing("call"))?;
    let began = call.began.as_nanos() as f64;
    let sent = seen.into_iter().filter(|(at, _)| *at >= began);
    let sent: Vec<(f64, f64)> = sent.collect();
    let first = sent.first().ok_or_else(|| missing("segment"))?.0;
    Ok(sent
        .into_iter()
        .map(|(at, bytes)| ((at - first) / 1e6, bytes))
        .collect())
}

/// Time in ns and payload of each segment that was sent.
fn sent(series: &Seen) -> Answer<Vec<(f64, f64)>> {
    let (time, end) = (column(series, "time_ns")?, column(series, "sent_bytes")?);
    let mut before = 0.0;
    let rows = series.rows.iter().filter_map(|row| {
        let (at, end) = (row[time]?, row[end]?);
        Some((at, end - std::mem::replace(&mut before, end)))
    });
    Ok(rows.collect())
}

/// The writes of a result, in bytes, and the ms from one to the next, as the experiment has them.
fn writes_of(scene: &Scenery) -> Answer<(Vec<f64>, f64)> {
    let of = |key: &str| {
        let value = scene.experiment().get(&format!("traffic.query.{key}"));
        value.ok_or_else(|| missing(key))
    };
    let number = |text: &str| number_in_base_unit(text).ok_or_else(|| missing("number"));
    let whole = number(&of("reply")?)?;
    let pattern = of("reply_writes")?;
    let mut writes = Vec::new();
    for write in pattern.split('+') {
        let rest = whole - writes.iter().sum::<f64>();
        writes.push(if write == "n" { rest } else { number(write)? });
    }
    Ok((writes, number(&of("write_gap")?)? / 1e6))
}

/// The writes of a result beside the packets that carry them.
fn packet_list(played: &Played) -> Answer<Grid> {
    let (writes, gap) = writes_of(played.scene("packets")?)?;
    let packets = packets_of(played, "packets")?;
    let mut rows = Vec::new();
    for place in 0..writes.len().max(packets.len()) {
        let (at, write) = match writes.get(place) {
            Some(bytes) => (
                format!("{:.3} ms", place as f64 * gap),
                format!("{bytes:.0} B"),
            ),
            None => (String::new(), String::new()),
        };
        let (left, packet) = match packets.get(place) {
            Some((at, bytes)) => (format!("{at:.3} ms"), format!("{bytes:.0} B")),
            None => (String::new(), String::new()),
        };
        rows.push(vec![at, write, left, packet]);
    }
    let head = ["written at", "write", "left at", "packet"];
    Ok(Grid {
        head: head.map(str::to_owned).to_vec(),
        words: 0,
        rows,
    })
}

fn five_packets(played: &Played) -> Answer<Finding> {
    let packets = packets_of(played, "bytes")?;
    let sizes: Vec<String> = packets
        .iter()
        .map(|(_, bytes)| format!("{bytes:.0}"))
        .collect();
    let sizes = sizes.join("+");
    let so = sizes == "1+1+1+1+396";
    Ok(Finding::is(
        format!("packets of {sizes} bytes where nothing holds them"),
        so,
    ))
}

fn a_buffered_write_cures(played: &Played) -> Answer<Finding> {
    let whole = median(played.scene("eight")?, &but("writes", "n"))?;
    Ok(Finding::at_most("median of one write", whole, 1.0, "ms"))
}

fn three_bytes_then_the_rest(played: &Played) -> Answer<Finding> {
    let packets = packets_of(played, "packets")?;
    let [_, _, (third, _), (rest, bytes)] = packets[..] else {
        let count = packets.len();
        return Ok(Finding::is(format!("{count} packets, not 3 and 1"), false));
    };
    Ok(Finding::all([
        Finding::is(
            format!("3 packets of a byte, then one of {bytes:.0}"),
            bytes == 397.0,
        ),
        Finding::between("between them", rest - third, (39.0, 41.0), "ms"),
    ]))
}

/// Just more than three segments of 1460 bytes, the text's 4,380, and as much as never matters.
const ADMITTED: [&str; 2] = ["4400B", "64KiB"];
/// A result as the text's, and one that does not fit into the smaller window.
const RESULTS: [&str; 2] = ["400B", "20kB"];

fn the_peers_window_is_no_limit(played: &Played) -> Answer<Finding> {
    let scene = played.scene("admitted")?;
    // Through the narrow window, and through the wide one.
    let both = |reply: &str, window: &str| -> Answer<[f64; 2]> {
        let took = |admitted| {
            let at = [
                ("host.tcp.receive_window", admitted),
                ("traffic.query.reply", reply),
                ("window", window),
            ];
            Ok::<_, NoAnswer>(scene.value(&at, "latency.p50")? / 1e6)
        };
        Ok([took(ADMITTED[0])?, took(ADMITTED[1])?])
    };
    let same = |what: &str, [narrow, wide]: [f64; 2]| Finding::near(what, narrow, wide, 0.01, "ms");
    let [narrow, wide] = both(RESULTS[1], "bytes")?;
    Ok(Finding::all([
        same(
            "median where the peer admits 4,400 bytes, window of packets, against 64 KiB",
            both(RESULTS[0], "packets")?,
        ),
        same("window of bytes", both(RESULTS[0], "bytes")?),
        Finding::at_least(
            "of a result of 20 kB, for which the one is a limit, over the other",
            narrow / wide,
            1.5,
            "",
        ),
    ]))
}

fn three_packets_after_a_pause(played: &Played) -> Answer<Finding> {
    let packets = packets_of(played, "packets")?;
    let at_once = packets.iter().filter(|(at, _)| *at < 1.0).count();
    Ok(Finding::is(
        format!("{at_once} packets leave at once after a pause of 500 ms"),
        at_once == 3,
    ))
}

fn writes_stand_beside_packets(played: &Played) -> Answer<Finding> {
    let scene = played.scene("packets")?;
    let (writes, _) = writes_of(scene)?;
    let whole: f64 = writes.iter().sum();
    let (held, free) = (packets_of(played, "packets")?, packets_of(played, "bytes")?);
    let bytes = |packets: &[(f64, f64)]| packets.iter().map(|(_, b)| b).sum::<f64>();
    // Calls begin when the application writes: of the rest nobody waits for TCP.
    let waits = |window| {
        let ledger = scene.ledger(&[("window", window)])?;
        let tcp = ledger.into_iter().filter(|waited| waited.cause != IDLE);
        Ok::<Vec<Waited>, NoAnswer>(tcp.collect())
    };
    let (waited, free_waited) = (waits("packets")?, waits("bytes")?);
    let cause = narrows_explain::Cause::PacketWindow.name();
    let words = waited
        .iter()
        .map(|w| format!("{} of {:.0} ms together for {}", w.gaps, w.ms, w.cause));
    Ok(Finding::all([
        Finding::is(
            format!(
                "{} writes of {whole:.0} bytes beside {} packets where the window holds them, {} where it does not",
                writes.len(),
                held.len(),
                free.len()
            ),
            bytes(&held) == whole && bytes(&free) == whole && held.len() < free.len(),
        ),
        Finding::is(
            format!(
                "the ledger of the run names what was waited for: {}; with a window of bytes {} gaps",
                words.collect::<Vec<_>>().join(", "),
                free_waited.len()
            ),
            waited.iter().any(|w| w.cause == cause) && free_waited.is_empty(),
        ),
    ]))
}

/// The cause of the ledger that no TCP can shorten.
const IDLE: &str = narrows_explain::Cause::AppWroteNothing.name();

/// Least and greatest time of the results where keys have these values, in ms, after the first of each
/// connection, which no pause comes before.
fn range_after_pauses(eight: &Scenery, at: &[(&str, &str)]) -> Answer<(f64, f64)> {
    let runs = eight.outcomes(at)?;
    let after_pauses = runs.iter().flat_map(|run| run.transfers.iter().skip(1));
    let ms = after_pauses.map(|t| t.took.as_nanos() as f64 / 1e6);
    let (least, most) = ms.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), ms| {
        (a.min(ms), b.max(ms))
    });
    match least <= most {
        true => Ok((least, most)),
        false => Err(missing("result after a pause")),
    }
}

/// Of the eight combinations the one that has all three, and the other seven.
fn one_of_eight_stalls(played: &Played) -> Answer<Finding> {
    let eight = played.scene("eight")?;
    let bytes = median(eight, &but("window", "bytes"))?;
    let (quickest, slowest) = range_after_pauses(eight, STALLS)?;
    let mut others = Vec::new();
    for delayed in [DELAYED, "off"] {
        for window in [PACKETS[0].1, "bytes"] {
            for idle in [IDLE_RESTART.1, "keep"] {
                let at = [
                    PROXY[0],
                    ("delayed-ack", delayed),
                    ("window", window),
                    (IDLE_RESTART.0, idle),
                ];
                if at != STALLS[..] {
                    others.push(range_after_pauses(eight, &at)?.1);
                }
            }
        }
    }
    let most = others.iter().copied().fold(0.0, f64::max);
    let count = others.len();
    let finding = Finding::all([
        Finding::at_most("median with a window of bytes, ms,", bytes, 1.0, ""),
        Finding::is(
            format!(
                "of eight combinations the one with all three takes {quickest:.1} to {slowest:.1} ms for each \
                 result after a pause (wanted 39 to 41)"
            ),
            quickest >= 39.0 && slowest <= 41.0,
        ),
        Finding::is(
            format!(
                "the slowest result after a pause of the other {count} {most:.2} ms (wanted below 1)"
            ),
            count == 7 && most < 1.0,
        ),
    ]);
    let kept = eight.value(&but(IDLE_RESTART.0, "keep"), "latency.max")? / 1e6;
    Ok(finding.and_words(format_args!(
        "; a connection's first result comes after no pause, and takes {kept:.1} ms with the window kept, too, for the \
                 initial one is three packets"
    )))
}

/// Percent of results that wait for a delayed ACK after pauses of [`SOON`].
fn stalled(played: &Played, rule: &str) -> Answer<f64> {
    let runs = played.scene("soon")?.outcomes(&[("idle-restart", rule)])?;
    let all = runs.iter().flat_map(|run| &run.transfers);
    let ms: Vec<f64> = all.map(|t| t.took.as_nanos() as f64 / 1e6).collect();
    let late = ms.iter().filter(|ms| **ms >= 39.0).count();
    Ok(late as f64 / ms.len().max(1) as f64 * 100.0)
}

fn validation_aggravates(played: &Played) -> Answer<Finding> {
    let at = [("iw", "3"), ("idle-restart", "rfc2861")];
    let decayed = played.scene("stacks")?.value(&at, "latency.p50")? / 1e6;
    let (rfc2861, rfc5681) = (stalled(played, "rfc2861")?, stalled(played, "rfc5681")?);
    let rfc7661 = stalled(played, "rfc7661")?;
    Ok(Finding::all([
        Finding::between("median with RFC 2861", decayed, (40.0, 41.0), "ms"),
        Finding::is(
            format!(
                "after pauses of {SOON}, shorter than most RTOs (S11), {rfc2861:.0} % of results wait 40 ms with \
                 RFC 2861, {rfc5681:.0} % with the restart of RFC 5681 alone, and {rfc7661:.0} % with RFC 7661, \
                 which replaced it"
            ),
            rfc2861 >= 2.0 * rfc5681 && rfc2861 >= 50.0,
        ),
    ]))
}

fn only_after_an_rto(played: &Played) -> Answer<Finding> {
    let along = played.scene("pauses")?.along("pause", &[], "latency.p50")?;
    let stalled = |ms: f64| ms > 30.0;
    let of = |slow: bool| {
        let points = along.iter().filter(move |(_, y)| stalled(y / 1e6) == slow);
        points.map(|(x, _)| x / 1e6)
    };
    let (longest_quick, shortest_slow) = (
        of(false).fold(0.0, f64::max),
        of(true).fold(f64::INFINITY, f64::min),
    );
    Ok(Finding::is(
        format!(
            "quick up to pauses of {longest_quick:.0} ms, 40 ms from {shortest_slow:.0} ms on: the RTO is 200 ms \
             and the smoothed round trip, in which are delayed ACKs of up to 40 (wanted slow from more than 200 \
             on, and from 240 at the latest)"
        ),
        longest_quick < shortest_slow && shortest_slow > 200.0 && shortest_slow <= 240.0,
    ))
}

fn the_stack_matters(played: &Played) -> Answer<Finding> {
    let stacks = played.scene("stacks")?;
    let at = |iw, rule| -> Answer<f64> {
        Ok(stacks.value(&[("iw", iw), ("idle-restart", rule)], "latency.p50")? / 1e6)
    };
    let (three, ten, kept) = (at("3", "rfc5681")?, at("10", "rfc5681")?, at("3", "keep")?);
    Ok(Finding::is(
        format!("initial window 3 {three:.1} ms, 10 {ten:.2} ms, 3 and kept {kept:.2} ms"),
        three > 39.0 && ten < 1.0 && kept < 1.0,
    ))
}

fn figure(played: &Played) -> Answer<Chart> {
    let along = played.scene("pauses")?.along("pause", &[], "latency.p50")?;
    let points = along.into_iter().map(|(x, y)| (x / 1e6, y / 1e6)).collect();
    Ok(Chart {
        title: "Time of a result of five writes against the pause before it".to_owned(),
        x: Axis {
            label: "Pause before the call (ms)".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        y: Axis {
            label: "Median time of a result (ms)".to_owned(),
            range: Some((0.0, 45.0)),
            ..Axis::default()
        },
        series: vec![Series {
            name: "1+1+1+1+n, window of packets".to_owned(),
            points,
            ..Series::default()
        }],
        rules: vec![Rule {
            at: RuleAt::X(200.0),
            label: "least RTO".to_owned(),
        }],
        ..Chart::default()
    })
}
