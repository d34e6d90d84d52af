//! `incast`: servers that answer at once overfill one port, and the block waits for a timeout.

mod cures;
mod shown;

use crate::grid::Column;
use crate::judge::{Finding, slope};
use crate::played::{Answer, Played, Scenery, missing};
use crate::scene::{Keys, Scene};
use crate::stories::pause;
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows_report::points::number;

/// The story.
pub const STORY: Story = Story {
    name: "incast",
    about: "Servers that answer at once overfill one port, and the block waits for a timeout.",
    scenes: SCENES,
    tables: &[
        Table::own(
            "Goodput by servers and timeout policy, in Mb/s",
            shown::goodput_table,
        ),
        Table::own(
            "The price of buffers: servers that they carry with nine tenths of the line; a packet (p) is 1,000 bytes \
             here, as in FAST 2008",
            shown::price_table,
        ),
        Table::points(
            "What does not help, at 16 servers: loss recovery",
            "recovery",
            REMEDY,
        ),
        Table::points("... the first window", "first-window", REMEDY),
        Table::points("... slow start", "slow-start", REMEDY),
        Table::points(
            "... queue management with ECN, in the set-up of FAST 2008",
            "queues",
            REMEDY,
        ),
        Table::points(
            "... and what the text does not name: CoDel there with a target of 50 us, by its interval",
            "codel",
            REMEDY,
        ),
        Table::points(
            "The tick of timers: 47 servers at 10 Gb/s, blocks of 1 MB",
            "tick at 10 Gb/s",
            REMEDY,
        ),
        Table::points(
            "Application: at most so many servers at once",
            "batch",
            REMEDY,
        ),
        Table::points("... a larger unit of each server", "unit", REMEDY),
        Table::points("... servers asked one after the other", "stagger", REMEDY),
        Table::points(
            "Flow control on one switch (pause frames)",
            "one switch",
            &[
                Column::new("goodput", "goodput"),
                Column::new("p99 block", "latency.p99"),
                Column::new("timeouts", "timeouts"),
                Column::new("drops", "drops"),
                Column::new("pause frames", "pauses"),
            ],
        ),
        Table::points(
            "... and across trunks of 40 Gb/s, where a flow to a host that nobody else sends to is the victim of \
             a crowd in its rack",
            "across",
            pause::ACROSS,
        ),
    ],
    phenomenon,
    rows: ROWS,
    figures: &[
        Figure::first(shown::figure),
        Figure::named("idle", shown::timeline),
        Figure::named("price", shown::price),
    ],
    next: &[
        Next::new("narrows incast", "the whole sweep, with a report"),
        Next::new(
            "narrows story pause",
            "flow control, on one switch and across trunks",
        ),
        Next::new(
            "narrows validate --only incast",
            "held against FAST 2008, ns-2 and ns-3",
        ),
        Next::new(
            "narrows live incast",
            "the same on wires of this machine's kernel",
        ),
    ],
    live: Live::Elsewhere("`narrows live incast` has kernels and ours beside the simulation"),
};

const REMEDY: &[Column] = &[
    Column::new("goodput", "goodput"),
    Column::new("p99 block", "latency.p99"),
    Column::new("timeouts", "timeouts"),
    Column::new("drops", "drops"),
];

/// The line.
const LINE: f64 = 1e9;
/// Payload that it carries, in frames of 1538 bytes with timestamps.
const PAYLOAD: f64 = LINE * 1_448.0 / 1_538.0;
/// The buffers of the price, in the order of their size.
const BUFFERS: &str = "32p,64p,128p,256p,512p,1024p";
/// The policies of the figure.
const RTOS: &str = "linux,1ms,fine";
/// What most scenes have, at 1 Gb/s through a port of 64 KiB.
const RENO: Keys = &[("cc", "reno"), ("rto", "linux")];
/// Blocks of the scene that looks at each, and what a server sends of one.
const BLOCKS: u64 = 40;
const UNIT: u64 = 256 << 10;
const SIXTEEN: Keys = &[("servers", "16")];

const SCENES: &[Scene] = &[
    Scene::new("collapse", "incast")
        .with(&[
            ("cc", "reno"),
            ("sweep.rto", RTOS),
            ("sweep.servers", "1,2,4,6,8,12,16,24,32,47,64,128,256"),
        ])
        .usually(&[("blocks", "10")]),
    Scene::new("small blocks", "incast")
        .sharing(&[RENO])
        .with(&[
            ("block", "1MB"),
            ("sweep.servers", "12,16,24,32,47,64,128,256"),
            ("blocks", "20"),
            ("run.repetitions", "1"),
        ]),
    Scene::new("blocks", "incast")
        .sharing(&[RENO, SIXTEEN])
        .with(&[
            ("blocks", "40"),
            ("probe.link.kind", "rate"),
            ("probe.link.on", "s0->h0"),
            ("probe.link.every", "1ms"),
        ])
        .keeping_outcomes(),
    // Segments of 1000 bytes, as the study has them: a packet of buffer is a kilobyte.
    Scene::new("buffers", "fast08")
        .with(&[
            ("sweep.buffer", BUFFERS),
            ("sweep.servers", "2,3,4,6,8,11,16,23,32,45,54,64,91"),
        ])
        .usually(&[("run.duration", "1s")]),
    Scene::new("recovery", "incast")
        .sharing(&[RENO, SIXTEEN])
        .with(&[
            ("sweep.loss", "newreno,sack,rack"),
            ("sweep.host.tcp.limited_transmit", "off,on"),
        ]),
    Scene::new("first-window", "incast")
        .sharing(&[RENO, SIXTEEN])
        .with(&[("sweep.initial-window", "1,2,3,10")]),
    Scene::new("slow-start", "incast")
        .sharing(&[SIXTEEN])
        .with(&[
            ("rto", "linux"),
            (
                "sweep.cc",
                "reno,reno:slow-start=hystart,reno:slow-start=hybrid",
            ),
        ]),
    Scene::new("queues", "fast08").with(&[
        ("servers", "16"),
        ("host.tcp.ecn", "classic"),
        (
            "sweep.network.port.\"s0->h0\".queue.discipline",
            "drop-tail,red,codel,ecn-step",
        ),
    ]),
    // RED that drops; among the disciplines above it marks.
    Scene::new("red", "fast08").with(&[("servers", "16"), (cures::DISCIPLINE, "red")]),
    Scene::new("codel", "fast08").with(&[
        ("servers", "16"),
        ("host.tcp.ecn", "classic"),
        (cures::DISCIPLINE, "codel"),
        ("network.port.\"s0->h0\".queue.target", "50us"),
        (
            "sweep.network.port.\"s0->h0\".queue.interval",
            "100us,1ms,10ms,100ms",
        ),
    ]),
    Scene::new("batch", "incast").sharing(&[RENO]).with(&[
        ("servers", "64"),
        ("blocks", "5"),
        ("sweep.traffic.read.batch", "1,2,4,8,16,off"),
    ]),
    Scene::new("unit", "incast")
        .sharing(&[RENO, SIXTEEN])
        .with(&[("sweep.sru", "10kB,256KiB,1MiB,8MiB"), ("blocks", "10")]),
    Scene::new("stagger", "incast")
        .sharing(&[RENO, SIXTEEN])
        .with(&[("sweep.traffic.read.stagger", "0us,10us,100us,1ms,2500us")]),
    Scene::new("tick", "incast").with(&[
        ("cc", "reno"),
        ("rto", "fine"),
        ("servers", "47"),
        ("block", "1MB"),
        ("blocks", "100"),
        ("sweep.tick", "0ns,100us,1ms,10ms"),
    ]),
    Scene::new("tick at 10 Gb/s", "incast").with(&[
        ("cc", "reno"),
        ("rto", "fine"),
        ("rate", "10Gb/s"),
        ("servers", "47"),
        ("block", "1MB"),
        ("blocks", "50"),
        ("sweep.tick", "0ns,10us,100us,1ms,10ms"),
    ]),
    Scene::new("one switch", "pause").with(&[("sweep.servers", "16,48"), ("blocks", "5")]),
    Scene::new("across", "pause-victim").with(&[("cc", "cubic"), ("racks", "three")]),
    // The 48 hosts of SIGCOMM 2009: Linux 2.6.28, whose control is CUBIC with a first window of 3, at
    // a Force10 S50. Of its pool a port gets 2,036 cells of 128 bytes at most (FTOS configuration
    // guide, buffer tuning).
    Scene::new("rack-of-48", "incast")
        .with(&[
            ("cc", "cubic"),
            ("rto", "fine"),
            ("servers", "47"),
            ("buffer", "260kB"),
            ("initial-window", "3"),
            ("block", "1MB"),
            ("blocks", "100"),
            ("run.repetitions", "5"),
        ])
        .usually(&[("run.repetitions", "3")]),
    Scene::new("thousands", "incast")
        .with(&[
            ("cc", "reno"),
            ("rate", "10Gb/s"),
            ("sru", "80kB"),
            ("sweep.rto", "fine,fine-randomized"),
            ("sweep.servers", "512,1024,2048"),
            ("blocks", "5"),
        ])
        .usually(&[("sweep.servers", "1024"), ("blocks", "3")]),
];

const ROWS: &[Row] = &[
    Row::new("I1", |played| {
        let outcomes = played.scene("blocks")?.outcomes(&[])?;
        let transfers = outcomes.iter().flat_map(|o| o.transfers.windows(2));
        let pairs: Vec<bool> = transfers
            .map(|w| w[1].began >= w[0].began + w[0].took)
            .collect();
        let in_order = pairs.iter().filter(|after| **after).count();
        // What each server of a run sent: its unit of each block.
        let flows = outcomes.iter().flat_map(|o| &o.flows);
        let sent: Vec<u64> = flows.filter(|f| f.to == 0).map(|f| f.received.get()).collect();
        let shares = sent.iter().filter(|bytes| **bytes == BLOCKS * UNIT).count();
        let slowest = outcomes.iter().map(|o| {
            let took = o.transfers.iter().map(|t| t.took.as_nanos());
            took.sum::<u64>() as f64 / o.measured.as_nanos() as f64
        });
        let busy = slowest.fold(f64::INFINITY, f64::min);
        Ok(Finding::all([
            Finding::is(
                format!(
                    "by construction of the traffic (`synchronised-read`) {in_order} of {} blocks began when the \
                     one before was complete",
                    pairs.len()
                ),
                !pairs.is_empty() && in_order == pairs.len(),
            ),
            Finding::is(
                format!(
                    "of {} servers of all runs {shares} have sent 256 KiB of each of {BLOCKS} blocks, no more and \
                     no less",
                    sent.len()
                ),
                sent.len() == 16 * outcomes.len() && shares == sent.len(),
            ),
            Finding::at_least("share of a run in which a block is under way", busy, 0.99, ""),
        ]))
    }),
    Row::new("I2", |played| {
        let goodput = goodput(played, "linux")?;
        let (best, worst) = extremes(&goodput);
        let measured = format!(
            "{} at {} servers, {} at {}",
            number(best.1, "bit/s"),
            best.0,
            number(worst.1, "bit/s"),
            worst.0
        );
        Ok(Finding::is(
            measured,
            worst.1 <= best.1 / 2.0 && worst.0 > best.0,
        ))
    }),
    Row::new("I3", |played| {
        let outcomes = played.scene("blocks")?.outcomes(&[])?;
        let all = outcomes.iter().flat_map(|o| o.transfers.iter());
        let ms: Vec<f64> = all.map(|t| t.took.as_nanos() as f64 / 1e6).collect();
        // 16 shares of 256 KiB take 34 ms on the line, and the rest is waiting.
        let stalled: Vec<f64> = ms.iter().copied().filter(|took| *took >= 200.0).collect();
        let in_class = stalled.iter().filter(|took| **took % 200.0 <= 50.0).count();
        let measured = format!(
            "{} of {} blocks took 200 ms or more; {in_class} of them k x 200 ms and at most 50 ms, \
             of which the line needs 34",
            stalled.len(),
            ms.len()
        );
        let so = !stalled.is_empty() && in_class as f64 >= 0.9 * stalled.len() as f64;
        Ok(Finding::is(measured, so))
    }),
    Row::new("I4", |played| {
        let idle = played.scene("blocks")?.value(&[], "link.s0->h0.idle.1ms")?;
        Ok(Finding::at_least(
            "share of milliseconds in which the client's port is idle",
            idle,
            0.5,
            "",
        ))
    }),
    Row::new("I5", goodput_falls_to_a_tenth).because(
        "a timeout of 200 ms is not all that a block takes: 16 shares of 256 KiB keep the line for 34 ms, and one \
         timeout beside them leaves 34 of 234, more than the text's tenth. Smaller blocks come there, and with 1 MB \
         from many servers go below: of each there are few packets, whose loss nothing but a timeout tells, and it \
         doubles",
    ),
    Row::new("I6", cures::none_is_one),
    Row::new("I7", |played| {
        let points = BUFFERS
            .split(',')
            .map(|b| Ok((kilobytes(b).ln(), carried(played, b)?.ln())));
        let points: Vec<(f64, f64)> = points.collect::<Answer<_>>()?;
        let slope = slope(&points).ok_or_else(|| missing("slope"))?;
        Ok(Finding::near(
            "slope of servers against buffer",
            slope,
            1.0,
            0.25,
            "",
        ))
    }),
    Row::new("I8", a_megabyte_carries_a_rack),
    Row::new("I11", |played| {
        let scene = played.scene("collapse")?;
        let of = |rto: &str| onset(scene, &[("rto", rto)], 0.5);
        let (coarse, fine) = (of("linux")?, of("1ms")?);
        let measured = format!(
            "goodput stays above half of the line up to {} with a floor of 200 ms, and up to {} with 1 ms, as \
             servers are added",
            servers(coarse),
            servers(fine)
        );
        Ok(Finding::is(measured, fine >= 4.0 * coarse))
    }),
    Row::new("I12", |played| {
        let rack = played.scene("rack-of-48")?.value(&[], "goodput")?;
        let small = played.scene("tick")?.value(&[("tick", "0ns")], "goodput")?;
        let finding = Finding::at_least(
            "of the 941 Mb/s of payload that the line carries, 47 servers through the 260 kB that a port \
             of a Force10 S50 has",
            rack / PAYLOAD,
            0.9,
            "",
        );
        Ok(finding.and_words(format_args!(
            ", which is {} of its bits; through 64 KiB, Reno, {}",
            number(rack / LINE, ""),
            number(small / PAYLOAD, "")
        )))
    }),
    Row::new("I13", randomised_is_as_good),
    Row::new("I14", |played| {
        let goodput = |scene: &str, key: &str, value: &str| {
            played.scene(scene)?.value(&[(key, value)], "goodput")
        };
        let batch = |n: &str| goodput("batch", "traffic.read.batch", n);
        let unit = |size: &str| goodput("unit", "sru", size);
        let stagger = |time: &str| goodput("stagger", "traffic.read.stagger", time);
        let times =
            |what: &str, with: f64, without: f64| Finding::at_least(what, with / without, 2.0, "");
        Ok(Finding::all([
            times(
                "goodput with two of 64 servers at once, times",
                batch("2")?,
                batch("off")?,
            ),
            times("with units of 8 MiB", unit("8MiB")?, unit("256KiB")?),
            times(
                "with requests 2.5 ms apart",
                stagger("2500us")?,
                stagger("0us")?,
            ),
        ]))
    }),
    Row::new("I15", ticks_cost),
];

fn goodput(played: &Played, rto: &str) -> Answer<Vec<(f64, f64)>> {
    played
        .scene("collapse")?
        .along("servers", &[("rto", rto)], "goodput")
}

/// The points with the most and the least goodput; with the least after the most.
fn extremes(goodput: &[(f64, f64)]) -> ((f64, f64), (f64, f64)) {
    let best = goodput
        .iter()
        .copied()
        .reduce(|a, b| if b.1 > a.1 { b } else { a });
    let best = best.unwrap_or_default();
    let later = goodput.iter().copied().filter(|p| p.0 >= best.0);
    let worst = later.reduce(|a, b| if b.1 < a.1 { b } else { a });
    (best, worst.unwrap_or_default())
}

/// To how many servers goodput stays above a share of the line; of those that were tried.
fn onset(scene: &Scenery, at: &[(&str, &str)], share: f64) -> Answer<f64> {
    let goodput = scene.along("servers", at, "goodput")?;
    let before = goodput.iter().take_while(|p| p.1 >= LINE * share).last();
    before
        .map(|p| p.0)
        .ok_or_else(|| missing("number of servers that fills so much of the line"))
}

fn servers(n: f64) -> String {
    let s = if n == 1.0 { "" } else { "s" };
    format!("{} server{s}", number(n, ""))
}

/// How many servers a buffer carries. Of blocks that grow with the servers a timeout of 200 ms does not
/// take half in the end, so that goodput alone that is nearly the line's is no collapse.
fn carried(played: &Played, buffer: &str) -> Answer<f64> {
    onset(played.scene("buffers")?, &[("buffer", buffer)], 0.9)
}

/// Numbers of servers beyond the collapse.
const BEYOND: f64 = 12.0;

fn goodput_falls_to_a_tenth(played: &Played) -> Answer<Finding> {
    let percent = |goodput: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        let beyond = goodput.into_iter().filter(|point| point.0 >= BEYOND);
        beyond.map(|(n, rate)| (n, rate / LINE * 100.0)).collect()
    };
    let units = percent(goodput(played, "linux")?);
    let blocks = percent(
        played
            .scene("small blocks")?
            .along("servers", &[], "goodput")?,
    );
    let list = |points: &[(f64, f64)]| {
        let words = points
            .iter()
            .map(|(n, share)| format!("{n}: {}", number(*share, "")));
        words.collect::<Vec<_>>().join(", ")
    };
    let all_in = |points: &[(f64, f64)]| points.iter().all(|p| (1.0..=10.0).contains(&p.1));
    Ok(Finding::all([
        Finding::is(
            format!(
                "percent of the line by servers, 256 KiB of each, from {BEYOND} on {} (wanted 1 to 10)",
                list(&units)
            ),
            all_in(&units),
        ),
        Finding::is(
            format!("in blocks of 1 MB {} (wanted 1 to 10)", list(&blocks)),
            all_in(&blocks),
        ),
    ]))
}

/// Servers of a rack of 48 hosts.
const RACK: f64 = 47.0;

fn a_megabyte_carries_a_rack(played: &Played) -> Answer<Finding> {
    let (half, large) = (carried(played, "512p")?, carried(played, DEAREST)?);
    let finding = Finding::all([
        Finding::at_least(
            "servers that a megabyte a port carries, in a switch of up to $500,000, of the 47 of a rack",
            large,
            RACK,
            "",
        ),
        Finding::is(
            format!("half of it {half} (wanted fewer than those)"),
            half < RACK,
        ),
    ]);
    Ok(finding.and_words(
        "; a rack is our measure, for the text names neither servers nor another price, so that there is one on the \
         axis",
    ))
}

/// At each number of servers that ran.
fn randomised_is_as_good(played: &Played) -> Answer<Finding> {
    let scene = played.scene("thousands")?;
    let of = |rto: &str| scene.along("servers", &[("rto", rto)], "goodput");
    let pairs = of("fine")?.into_iter().zip(of("fine-randomized")?);
    Ok(Finding::all(pairs.map(
        |((servers, plain), (_, random))| {
            let measured = format!(
                "{servers} servers at 10 Gb/s: {} plain, {} randomised",
                number(plain, "bit/s"),
                number(random, "bit/s")
            );
            Finding::is(measured, random >= 0.98 * plain)
        },
    )))
}

/// Of goodput with exact timers a tick of 100 us leaves nearly all at 10 Gb/s, and one of 1 ms does not. At
/// 1 Gb/s a block takes ten times as long, and so may a tick.
fn ticks_cost(played: &Played) -> Answer<Finding> {
    let shares = |scene: &str| -> Answer<[f64; 3]> {
        let of = |tick| played.scene(scene)?.value(&[("tick", tick)], "goodput");
        let exact = of("0ns")?;
        Ok([
            of("100us")? / exact,
            of("1ms")? / exact,
            of("10ms")? / exact,
        ])
    };
    let [short, middle, long] = shares("tick at 10 Gb/s")?;
    let slower = shares("tick")?.map(|share| number(share, ""));
    let finding = Finding::all([
        Finding::at_least(
            "of goodput with exact timers at 10 Gb/s, a tick of 100 us",
            short,
            0.9,
            "",
        ),
        Finding::at_most("of 1 ms", middle, 0.8, ""),
        Finding::at_most("of 10 ms", long, 0.25, ""),
    ]);
    Ok(finding.and_words(format_args!(
        "; at 1 Gb/s, where blocks take ten times as long, {}, {} and {}, so that a millisecond does there",
        slower[0], slower[1], slower[2]
    )))
}

fn phenomenon(played: &Played) -> Answer<String> {
    let (best, worst) = extremes(&goodput(played, "linux")?);
    let fine = played.scene("tick")?.value(&[("tick", "0ns")], "goodput")?;
    let idle = played.scene("blocks")?.value(&[], "link.s0->h0.idle.1ms")?;
    Ok(format!(
        "{} the line with {}, {} servers get {} through the same port: blocks wait for timeouts of \
         200 ms, and with 16 servers the client's port is idle in {} % of the \
         milliseconds. With timeouts of microseconds 47 servers get {} in blocks of 1 MB.",
        match best.0 {
            1.0 => "One server fills".to_owned(),
            n => format!("{n} servers fill"),
        },
        number(best.1, "bit/s"),
        worst.0,
        number(worst.1, "bit/s"),
        number((idle * 100.0).round(), ""),
        number(fine, "bit/s"),
    ))
}

/// The buffer of which the text knows what a switch costs: up to $500,000.
const DEAREST: &str = "1024p";

/// A buffer in kilobytes: a packet of the scene has a kilobyte of payload.
fn kilobytes(buffer: &str) -> f64 {
    buffer.trim_end_matches('p').parse().unwrap_or(0.0)
}
