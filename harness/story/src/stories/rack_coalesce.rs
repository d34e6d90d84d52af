//! `rack coalesce`: interrupts that wait for company make two round-trip times of one.

#[cfg(target_os = "linux")]
mod live;

use crate::grid::{Column, Grid};
use crate::judge::{Finding, median};
use crate::played::{Answer, NoAnswer, Played, Scenery, missing, series_of};
use crate::scene::Scene;
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows::{ByteCount, Instant};
use narrows_experiment::probe::Series as Rows;
use narrows_explain::rounds::{Departure, Round, RoundMeter};
use narrows_report::chart::{Axis, Chart, Draw, Scale, Series};
use narrows_report::points::number;

/// The story.
pub const STORY: Story = Story {
    name: "rack coalesce",
    about: "Interrupts that wait for company make two round-trip times of one.",
    scenes: &[
        Scene::new("timers", "rack-coalesce")
            .usually(&[
                ("run.repetitions", "1"),
                ("run.duration", "300ms"),
                ("run.warm_up", "100ms"),
            ])
            .keeping_outcomes(),
        // Both flows from one host, whose link is as fast as the receiver's, or faster.
        Scene::new("one sender", "rack-coalesce").with(&[
            ("traffic.second.from", "h1"),
            ("sweep.network.port.\"h1->s0\".link.rate", "25Gb/s,100Gb/s"),
            ("sweep.usecs", "1us,1ms"),
            ("run.warm_up", "100ms"),
            ("run.duration", "300ms"),
            ("run.repetitions", "1"),
        ]),
        Scene::new("packets", "rack-coalesce")
            .with(&[
                ("usecs", "1ms"),
                ("probe.packets.kind", "time-sequence"),
                ("probe.packets.on", "h1..h2"),
                ("probe.packets.from", "100ms"),
                ("run.warm_up", "100ms"),
                ("run.duration", "140ms"),
                ("run.repetitions", "1"),
            ])
            .keeping_outcomes(),
        // Ten flows, each with a queue of its own, whose windows are about as large as what an interrupt
        // waits for.
        Scene::new("ten flows", "rack-coalesce")
            .with(&[
                ("usecs", "1ms"),
                ("frames", "16"),
                ("queues", "64"),
                ("traffic.first.connections", "8"),
                ("traffic.second.connections", "2"),
                ("probe.packets.kind", "time-sequence"),
                ("probe.packets.on", "h1..h2"),
                ("probe.packets.most", "8"),
                ("probe.packets.from", "100ms"),
                ("run.warm_up", "100ms"),
                ("run.duration", "200ms"),
                ("run.repetitions", "1"),
            ])
            .keeping_outcomes(),
    ],
    tables: &[
        Table::points(
            "Two flows by the timer of the receiver's interrupts",
            "timers",
            &[
                Column::new("first", "first.goodput"),
                Column::new("second", "second.goodput"),
                Column::new("RTT p50", "rtt.h1.p50"),
                Column::new("second's", "rtt.h2.p50"),
                Column::new("p90", "rtt.h2.p90"),
                Column::new("fairness", "fairness"),
            ],
        ),
        Table::own(
            "Rounds of the slower flow, as `narrows explain --rounds` has them of a capture",
            rounds_table,
        ),
        Table::own(
            "Rounds of one of ten flows, with interrupts after 16 frames or a millisecond, where they are as the text's excerpt",
            excerpt_table,
        ),
    ],
    phenomenon,
    rows: &[
        Row::new("D10", one_gets_nearly_all),
        Row::new("D11", round_trips_have_two_modes),
        Row::new("D12", rounds_add_up),
        Row::new("D13", the_mode_moves_with_the_timer),
    ],
    figures: &[Figure::first(figure)],
    next: &[
        Next::new(
            "narrows run rack-coalesce --sweep frames=8,16,32,64",
            "how many frames an interrupt waits for",
        ),
        Next::new(
            "narrows run rack-coalesce --set usecs=1ms --set frames=16 --set queues=64 --set traffic.first.connections=8 --set traffic.second.connections=2",
            "ten flows whose windows are about as large as that",
        ),
        Next::new("narrows keys rx_", "what a NIC's receive side can be"),
    ],
    #[cfg(target_os = "linux")]
    live: Live::Twin(live::TWIN),
    #[cfg(not(target_os = "linux"))]
    live: Live::Cannot("it takes Linux's network namespaces"),
};

/// The faster flow's goodput over the slower one's.
fn ratio(played: &Played, usecs: &str) -> Answer<f64> {
    ratio_at(played.scene("timers")?, &[("usecs", usecs)])
}

fn ratio_at(scene: &Scenery, at: &[(&str, &str)]) -> Answer<f64> {
    let of = |metric| scene.value(at, metric);
    let (first, second) = (of("first.goodput")?, of("second.goodput")?);
    Ok(first.max(second) / first.min(second).max(1.0))
}

/// The same with both flows from one host whose link has this rate.
fn of_one_sender(played: &Played, rate: &str, usecs: &str) -> Answer<f64> {
    let at = [
        ("network.port.\"h1->s0\".link.rate", rate),
        ("usecs", usecs),
    ];
    ratio_at(played.scene("one sender")?, &at)
}

fn phenomenon(played: &Played) -> Answer<String> {
    let scene = played.scene("timers")?;
    let of = |metric| scene.value(&[("usecs", "1ms")], metric);
    let (first, second) = (of("first.goodput")? / 1e9, of("second.goodput")? / 1e9);
    Ok(format!(
        "With interrupts after 64 frames or a millisecond one flow gets {:.1} Gb/s and the other \
         {:.2}; with a timer of a microsecond the ratio is {:.2}.",
        first.max(second),
        first.min(second),
        ratio(played, "1us")?
    ))
}

fn one_gets_nearly_all(played: &Played) -> Answer<Finding> {
    let scene = played.scene("timers")?;
    let of = |metric| Ok::<_, NoAnswer>(scene.value(&[("usecs", "1ms")], metric)? / 1e9);
    let (first, second) = (of("first.goodput")?, of("second.goodput")?);
    let rounds = slower(played)?;
    let window = rounds.iter().map(|r| r.out).max().unwrap_or(0);
    let fast = rounds.iter().filter(|r| is_fast(r)).count();
    let finding = Finding::all([
        Finding::at_least("ratio at 1 ms", ratio(played, "1ms")?, 10.0, ""),
        Finding::at_most("without", ratio(played, "1us")?, 1.5, ""),
        Finding::at_least(
            "of two flows of one sender, whose link has 100 Gb/s",
            of_one_sender(played, "100Gb/s", "1ms")?,
            10.0,
            "",
        ),
        Finding::at_most("without", of_one_sender(played, "100Gb/s", "1us")?, 1.5, ""),
        Finding::at_most(
            "of one whose link has the 25 Gb/s of the receiver's, so that what waits waits there and is not \
             marked,",
            of_one_sender(played, "25Gb/s", "1ms")?,
            1.5,
            "",
        ),
    ]);
    Ok(finding.and_words(format_args!(
        ". In Gb/s {:.1} and {:.2}, where the text has 23 and .5: judged is the ratio, that one flow gets nearly \
         all. The slower one's rate is its window over its round trip, and both are the set-up's: {window} packets \
         at the most, and {fast} of {} rounds without the timer (D12)",
        first.max(second),
        first.min(second),
        rounds.len(),
    )))
}

/// The round-trip times of both flows, in microseconds.
fn round_trips(played: &Played, usecs: &str) -> Answer<Vec<f64>> {
    let mut all = Vec::new();
    for outcome in played.scene("timers")?.outcomes(&[("usecs", usecs)])? {
        let rows = series_of(outcome, "rtt").flat_map(|s| &s.rows);
        all.extend(rows.filter_map(|row| Some(row.get(1).copied()?? / 1e3)));
    }
    all.sort_by(f64::total_cmp);
    match all.is_empty() {
        true => Err(missing("round-trip time")),
        false => Ok(all),
    }
}

fn round_trips_have_two_modes(played: &Played) -> Answer<Finding> {
    let all = round_trips(played, "1ms")?;
    let share = |from: f64, to: f64| {
        let within = all.iter().filter(|rtt| (from..to).contains(*rtt));
        within.count() as f64 / all.len() as f64 * 100.0
    };
    Ok(Finding::all([
        Finding::at_least(
            "of the round trips of both flows, percent of 40 to 150 us",
            share(40.0, 150.0),
            5.0,
            "",
        ),
        Finding::at_least("of 0.9 to 1.4 ms", share(900.0, 1_400.0), 5.0, ""),
        Finding::at_most("between", share(150.0, 900.0), 1.0, ""),
        flows_have_both(played)?,
    ]))
}

/// The text's excerpt of one flow: slow rounds, fast rounds, and its rate in bit/s.
const EXCERPT: (usize, usize, f64) = (7, 5, 269e6);

/// A stretch of a flow as long as the text's excerpt, with as many slow and fast rounds.
fn is_like_the_excerpt(rounds: &[Round]) -> bool {
    let count = |of: fn(&Round) -> bool| rounds.iter().filter(|r| of(r)).count();
    (count(is_slow), count(is_fast)) == (EXCERPT.0, EXCERPT.1)
}

/// What one of ten flows did.
struct Modes {
    rounds: Vec<Round>,
    /// Where stretches begin that are like the excerpt.
    alike: Vec<usize>,
    /// How many stretches of that length there are.
    stretches: usize,
}

impl Modes {
    fn of(rounds: Vec<Round>) -> Self {
        let stretches = rounds.windows(EXCERPT.0 + EXCERPT.1);
        let alike = stretches.clone().enumerate();
        let alike = alike.filter(|(_, stretch)| is_like_the_excerpt(stretch));
        Self {
            alike: alike.map(|(at, _)| at).collect(),
            stretches: stretches.len(),
            rounds,
        }
    }

    /// The stretches that are like the excerpt.
    fn excerpts(&self) -> impl Iterator<Item = &[Round]> {
        let length = EXCERPT.0 + EXCERPT.1;
        self.alike
            .iter()
            .map(move |at| &self.rounds[*at..at + length])
    }

    /// Percent of the rounds.
    fn share(&self, of: fn(&Round) -> bool) -> f64 {
        let count = self.rounds.iter().filter(|round| of(round)).count();
        count as f64 / self.rounds.len() as f64 * 100.0
    }
}

/// The text's flows have fewer packets out.
const MOST_OUT: u32 = 20;

/// What each of ten flows did.
fn ten_flows(played: &Played) -> Answer<Vec<Modes>> {
    let flows = rounds_of_each(played, "ten flows")?;
    match flows.iter().any(Vec::is_empty) || flows.len() != 10 {
        true => Err(missing("round of each of ten flows")),
        false => Ok(flows.into_iter().map(Modes::of).collect()),
    }
}

/// Those that have fewer than 20 packets under way at all times, as the text's.
fn few_packets_out(played: &Played) -> Answer<Vec<Modes>> {
    let few = |flow: &Modes| flow.rounds.iter().all(|r| r.out < MOST_OUT);
    let flows: Vec<Modes> = ten_flows(played)?.into_iter().filter(few).collect();
    match flows.is_empty() {
        true => Err(missing("flow of fewer than 20 packets")),
        false => Ok(flows),
    }
}

/// All rounds of ten flows, and those of the ones whose windows are as the text's.
fn flows_have_both(played: &Played) -> Answer<Finding> {
    let all = ten_flows(played)?;
    let flows = few_packets_out(played)?;
    let each: Vec<String> = all
        .iter()
        .map(|flow| {
            let most = flow.rounds.iter().map(|r| r.out).max().unwrap_or(0);
            let [slow, fast] = [is_slow, is_fast].map(|of| flow.share(of));
            format!(
                "{slow:.0}/{:.0}/{fast:.0} ({most})",
                (100.0 - slow - fast).max(0.0)
            )
        })
        .collect();
    let rounds = all.iter().flat_map(|flow| &flow.rounds);
    let small: Vec<&Round> = rounds.filter(|round| round.out < MOST_OUT).collect();
    let between = small.iter().filter(|r| !is_slow(r) && !is_fast(r)).count();
    let between = between as f64 / small.len().max(1) as f64 * 100.0;
    let mut findings = vec![
        Finding::at_most(
            &format!(
                "of the {} rounds of fewer than {MOST_OUT} packets, of ten flows, with interrupts after 16 frames or a \
                 millisecond, percent between",
                small.len()
            ),
            between,
            1.0,
            "",
        )
        .and_words(format_args!(
            " (percent of all rounds slow, between and fast, and the most packets out, of each flow: {}); {} never \
             have {MOST_OUT} packets out",
            each.join(", "),
            flows.len()
        )),
    ];
    for (n, flow) in flows.iter().enumerate() {
        let (slow, fast) = (flow.share(is_slow), flow.share(is_fast));
        let between = flow.share(|round| !is_slow(round) && !is_fast(round));
        let what = format!(
            "slow rounds of the {}, percent of its {},",
            ["first", "second"].get(n).unwrap_or(&"next"),
            flow.rounds.len()
        );
        findings.push(Finding::at_least(&what, slow, 5.0, ""));
        findings.push(Finding::at_least("fast ones", fast, 5.0, ""));
        findings.push(Finding::at_most("between", between, 0.0, ""));
    }
    let stretches: usize = flows.iter().map(|flow| flow.stretches).sum();
    let rates: Vec<f64> = flows
        .iter()
        .flat_map(Modes::excerpts)
        .map(rate_of)
        .collect();
    findings.push(Finding::is(
        format!(
            "{} of their {stretches} stretches of {} rounds have {} slow and {} fast ones, as the text's excerpt \
             (not judged: it is not said which of how many that is)",
            rates.len(),
            EXCERPT.0 + EXCERPT.1,
            EXCERPT.0,
            EXCERPT.1
        ),
        true,
    ));
    if let Some(rate) = median(&rates) {
        let what = "the rate of such a stretch, the median,";
        findings.push(Finding::near(what, rate, EXCERPT.2, 0.2, "bit/s"));
    }
    Ok(Finding::all(findings))
}

/// The rounds of a flow whose packets and acknowledgements were seen at its sender.
fn rounds(rows: &Rows) -> Answer<Vec<Round>> {
    let column = |name: &str| rows.column(name).ok_or_else(|| missing(name));
    let (time, sent, again, acked) = (
        column("time_ns")?,
        column("sent_bytes")?,
        column("again_bytes")?,
        column("acked_bytes")?,
    );
    let mut meter = RoundMeter::default();
    let (mut una, mut all) = (None, Vec::new());
    for row in &rows.rows {
        let value = |at: usize| row.get(at).copied().flatten();
        let at = Instant::from_nanos(value(time).unwrap_or(0.0) as u64);
        if let Some(una_now) = value(acked) {
            let offset = una_now as u64;
            if una.replace(offset).is_none() {
                meter.begin(offset);
            }
            all.extend(meter.acked(at, offset));
        }
        let left = value(sent).map(|end| (end, false));
        if let Some((end, resent)) = left.or(value(again).map(|end| (end, true))) {
            // Before the first acknowledgement nobody knows what is outstanding.
            let Some(una) = una else { continue };
            let end = end as u64;
            meter.sent(
                at,
                Departure {
                    end,
                    packets: 1,
                    resent,
                    flight: ByteCount::new(end.saturating_sub(una)),
                },
            );
        }
    }
    Ok(all)
}

/// The rounds of each flow that a scene looks at.
fn rounds_of_each(played: &Played, scene: &str) -> Answer<Vec<Vec<Round>>> {
    let run = played.scene(scene)?.run(&[])?;
    series_of(run, "packets").map(rounds).collect()
}

/// The rounds of each sender.
fn rounds_of_both(played: &Played) -> Answer<Vec<Vec<Round>>> {
    let all = rounds_of_each(played, "packets")?;
    match all.iter().all(|rounds| rounds.len() > 1) && all.len() == 2 {
        true => Ok(all),
        false => Err(missing("round of each sender")),
    }
}

/// Bits a second that rounds say.
fn rate_of(rounds: &[Round]) -> f64 {
    let bytes: f64 = rounds.iter().map(|r| r.acked.get() as f64).sum();
    let ends = rounds.first().zip(rounds.last());
    let ns = ends.map_or(0, |(a, b)| (b.start + b.rtt).since(a.start).as_nanos());
    bytes * 8e9 / ns as f64
}

/// The slower of both.
fn slower(played: &Played) -> Answer<Vec<Round>> {
    let all = rounds_of_both(played)?;
    let slow = all
        .into_iter()
        .min_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
    slow.ok_or_else(|| missing("flow"))
}

/// A round that waited for the timer.
fn is_slow(round: &Round) -> bool {
    round.rtt.as_nanos() >= 900_000
}

/// A round that did not.
fn is_fast(round: &Round) -> bool {
    round.rtt.as_nanos() <= 150_000
}

fn rounds_add_up(played: &Played) -> Answer<Finding> {
    let scene = played.scene("packets")?;
    let mut rates: Vec<f64> = rounds_of_both(played)?.iter().map(|r| rate_of(r)).collect();
    let mut counted = [
        scene.value(&[], "first.goodput")?,
        scene.value(&[], "second.goodput")?,
    ];
    rates.sort_by(f64::total_cmp);
    counted.sort_by(f64::total_cmp);
    let slow = slower(played)?;
    let late = slow.iter().filter(|r| is_slow(r)).count();
    let window = slow.iter().map(|r| r.out).max().unwrap_or(0);
    Ok(Finding::all([
        Finding::is(
            format!(
                "the slower flow has {late} slow and {} fast rounds, of {window} packets at the most",
                slow.len() - late
            ),
            late > 0,
        ),
        Finding::near("its rate by rounds", rates[0], counted[0], 0.1, "bit/s"),
        Finding::near("the faster one's", rates[1], counted[1], 0.1, "bit/s"),
    ]))
}

fn rounds_table(played: &Played) -> Answer<Grid> {
    Ok(grid_of(slower(played)?.iter().take(12)))
}

/// The first stretch that is like the text's excerpt; empty without one.
fn excerpt_table(played: &Played) -> Answer<Grid> {
    let flows = few_packets_out(played)?;
    let first = flows.iter().flat_map(Modes::excerpts).next();
    Ok(grid_of(first.unwrap_or_default().iter()))
}

fn grid_of<'r>(rounds: impl Iterator<Item = &'r Round>) -> Grid {
    let row = |round: &Round| {
        let rate = round.rate().map_or(0.0, |r| r.bits_per_sec() as f64);
        vec![
            round.number.to_string(),
            round.out.to_string(),
            number(round.rtt.as_nanos() as f64, "ns"),
            number(rate, "bit/s"),
        ]
    };
    Grid {
        rows: rounds.map(row).collect(),
        ..Grid::new(["round", "packets out", "round trip", "rate"], 1)
    }
}

fn the_mode_moves_with_the_timer(played: &Played) -> Answer<Finding> {
    let slow = |usecs| {
        let all = round_trips(played, usecs)?;
        Ok::<_, NoAnswer>(all[all.len() - 1 - all.len() / 50])
    };
    let (short, long) = (slow("100us")?, slow("1ms")?);
    Ok(Finding::near(
        "slow round trips at 1 ms less those at 100 us, in us",
        long - short,
        900.0,
        0.2,
        "",
    ))
}

fn figure(played: &Played) -> Answer<Chart> {
    let mut series = Vec::new();
    for (group, usecs) in ["1us", "100us", "1ms"].into_iter().enumerate() {
        let all = round_trips(played, usecs)?;
        let last = all.len().max(2) - 1;
        let points = all.iter().enumerate();
        series.push(Series {
            name: format!("rx_usecs {usecs}"),
            group,
            draw: Draw::Steps,
            points: points
                .step_by((all.len() / 400).max(1))
                .map(|(n, rtt)| (*rtt, n as f64 / last as f64))
                .collect(),
            ..Series::default()
        });
    }
    Ok(Chart {
        title: "Round-trip times by the timer of interrupts".to_owned(),
        x: Axis {
            label: "Round-trip time (us)".to_owned(),
            scale: Scale::Log2,
            ..Axis::default()
        },
        y: Axis {
            label: "Share that took no longer".to_owned(),
            range: Some((0.0, 1.0)),
            ..Axis::default()
        },
        series,
        ..Chart::default()
    })
}
