//! Live and simulated runs of one incast, side by side.

use super::chart::ink::escape;
use super::chart::{Axis, Chart, Draw, Role, Rule, RuleAt, Scale, Series, Theme};
use super::records::SweepRecord;
use super::story::Story;
use super::summary::{Point, Summary, VariantSummary};
use super::table::{count, mbps, time};
use super::{html, records};
use narrows_experiment::scenario::SweepSpec;
use serde::Serialize;
use std::fmt::Write;

/// A sweep as it went live, or in the simulator.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its points.
    pub summary: Summary,
    /// What they say.
    pub story: Story,
}

impl Side {
    /// The side of `summary`.
    pub fn new(sweep: &SweepSpec, summary: Summary) -> Self {
        let story = Story::of(sweep, &summary);
        Self { summary, story }
    }
}

/// Both sides.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// On wires of the kernel.
    pub live: Side,
    /// In the simulator; `None`: it was not asked.
    pub simulated: Option<Side>,
}

/// Both sides as JSON; each is laid out as `narrows incast` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct LiveRecord {
    /// Always `narrows-live-incast`.
    pub format: &'static str,
    /// [`records::FORMAT_VERSION`].
    pub format_version: u32,
    /// Version of narrows that ran it.
    pub narrows_version: String,
    /// The commit that it was built from, see [`COMMIT`](narrows_experiment::version::COMMIT).
    pub narrows_commit: Option<&'static str>,
    /// The command line.
    pub command: String,
    /// Live.
    pub live: SweepRecord,
    /// Simulated.
    pub simulated: Option<SweepRecord>,
}

impl LiveRecord {
    /// Of two sweeps by one command.
    pub fn new(live: SweepRecord, simulated: Option<SweepRecord>) -> Self {
        Self {
            format: "narrows-live-incast",
            format_version: records::FORMAT_VERSION,
            narrows_version: live.narrows_version.clone(),
            narrows_commit: live.narrows_commit,
            command: live.command.clone(),
            live,
            simulated,
        }
    }
}

/// How much of an axis there is beyond the greatest value.
const ROOM: f64 = 1.05;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Goodput.
    Goodput,
    /// Timeouts for each block.
    Timeouts,
}

impl Comparison {
    /// Its sides by name.
    pub fn sides(&self) -> impl Iterator<Item = (&'static str, &Side)> {
        let simulated = self.simulated.iter().map(|side| ("simulated", side));
        std::iter::once(("live", &self.live)).chain(simulated)
    }

    /// Both as one, for the table: each variant live, then simulated.
    pub fn merged(&self) -> Side {
        let mut all = self.live.clone();
        let (mut variants, mut onset) = (Vec::new(), Vec::new());
        for index in 0..self.live.summary.variants.len() {
            for (name, side) in self.sides() {
                let Some(variant) = side.summary.variants.get(index) else {
                    continue;
                };
                let mut variant = variant.clone();
                variant.variant.label = format!("{name}: {}", variant.variant.label);
                variants.push(variant);
                onset.push(side.story.onset.get(index).copied().flatten());
            }
        }
        all.summary.variants = variants;
        all.story.onset = onset;
        all.story.sentences = self.sentences();
        all
    }

    /// What happened, live and simulated.
    pub fn sentences(&self) -> Vec<String> {
        let told = |(name, side): (&str, &Side)| -> Vec<String> {
            let mut chars = name.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            let name: String = first.into_iter().chain(chars).collect();
            let sentences = side.story.sentences.iter();
            sentences.map(|s| format!("{name}: {s}")).collect()
        };
        self.sides().flat_map(told).collect()
    }

    /// `quantity` against the number of servers.
    pub fn chart(&self, quantity: Quantity) -> Chart {
        let mut series = Vec::new();
        let variants = self.live.summary.variants.len();
        for group in 0..variants {
            for (name, side) in self.sides() {
                let Some(variant) = side.summary.variants.get(group) else {
                    continue;
                };
                series.push(line(name, variant, group, quantity));
            }
        }
        let first = self.live.summary.variants.first();
        let link = first.map(|v| v.link_rate.bits_per_sec() as f64);
        let most = series.iter().flat_map(|s| &s.points).map(|p| p.1);
        let most = most.fold(0.0, f64::max);
        Chart {
            title: match quantity {
                Quantity::Goodput => "Goodput against number of servers, live and simulated",
                Quantity::Timeouts => "Timeouts of a block, live and simulated",
            }
            .to_owned(),
            x: Axis {
                label: "Number of servers".to_owned(),
                scale: Scale::Log2,
                ..Axis::default()
            },
            y: Axis {
                label: match quantity {
                    Quantity::Goodput => "Goodput (b/s)",
                    Quantity::Timeouts => "Timeouts of a block",
                }
                .to_owned(),
                scale: Scale::Linear,
                range: match (quantity, link) {
                    (Quantity::Goodput, Some(link)) => Some((0.0, link * ROOM)),
                    _ => Some((0.0, (most * ROOM).max(1.0))),
                },
                ..Axis::default()
            },
            series,
            rules: match (quantity, link) {
                (Quantity::Goodput, Some(link)) => vec![Rule {
                    at: RuleAt::Y(link),
                    label: "link rate".to_owned(),
                }],
                _ => Vec::new(),
            },
            ..Chart::default()
        }
    }
}

fn line(name: &str, variant: &VariantSummary, group: usize, quantity: Quantity) -> Series {
    let value = |p: &Point| match quantity {
        Quantity::Goodput => Some(p.goodput.mean.round()),
        Quantity::Timeouts => p.timeouts_per_block,
    };
    let shown = || variant.points.iter().filter(|p| value(p).is_some());
    // An interval may reach beyond the link; the axis need not follow it.
    let most = variant.link_rate.bits_per_sec() as f64 * ROOM;
    let spread = |p: &Point| {
        let ci = p.goodput.ci95.unwrap_or(0.0);
        let (low, high) = (p.goodput.mean - ci, p.goodput.mean + ci);
        (low.max(0.0).round(), high.min(most).round())
    };
    let spreads = quantity == Quantity::Goodput && shown().any(|p| p.goodput.ci95.is_some());
    Series {
        name: format!("{}, {name}", variant.variant.label),
        draw: Draw::LineMarkers,
        role: match name {
            "live" => Role::Ours,
            _ => Role::Reference,
        },
        group,
        points: shown()
            .map(|p| (f64::from(p.servers), value(p).unwrap_or(0.0)))
            .collect(),
        spread: shown().map(spread).filter(|_| spreads).collect(),
        ..Series::default()
    }
}

/// The page: plots and numbers of both sides, and the settings they share.
pub fn page(sweep: &SweepSpec, both: &Comparison, record: &LiveRecord) -> String {
    let mut out = String::new();
    let o = &mut out;
    let lead = format!(
        "A client reads blocks striped over many servers, all at once, through one port of a \
         switch: a bridge of the kernel's, whose port to the client has a rate of {} and a buffer \
         of {}. Beside it, the same in the simulator.",
        html::each(sweep, |spec| spec.net.link_rate.to_string()),
        html::each(sweep, |spec| spec.net.port_buffer.to_string()),
    );
    html::begin(o, "TCP incast, live", &lead, &both.sentences());
    let note = match both.simulated {
        Some(_) => "Live: filled markers, full lines. Simulated: hollow, broken.",
        None => "Live.",
    };
    let _ = writeln!(o, "<h2>Goodput</h2>");
    figure(o, both, Quantity::Goodput, note);
    let _ = writeln!(o, "<h2>Timeouts</h2>");
    figure(o, both, Quantity::Timeouts, "For each completed block.");
    let _ = writeln!(o, "<h2>Numbers</h2>");
    numbers(o, both);
    for (heading, rows) in [
        ("Settings", &record.live.settings),
        ("Names", &record.live.names),
    ] {
        let _ = write!(o, "<h2>{heading}</h2>\n<table class=\"settings\">\n");
        for (name, value) in rows {
            let (name, value) = (escape(name), escape(value));
            let _ = writeln!(o, "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>");
        }
        let _ = writeln!(o, "</table>");
    }
    html::again(o, &record.command);
    let _ = writeln!(
        o,
        "<p>Live results depend on the machine and on what else it does; simulated ones depend on \
         the settings alone.</p>"
    );
    html::end(o, html::Plots::Hide);
    out
}

fn figure(o: &mut String, both: &Comparison, quantity: Quantity, note: &str) {
    let svg = both.chart(quantity).svg(Theme::Page);
    let _ = write!(
        o,
        "<figure class=\"paper\">\n{svg}<figcaption>{note}</figcaption>\n</figure>\n"
    );
}

fn numbers(o: &mut String, both: &Comparison) {
    let _ = write!(
        o,
        "<div class=\"scroll\"><table class=\"numbers\">\n<thead><tr><th>servers</th><th></th>\
         <th>goodput, Mb/s</th><th>of link</th><th>timeouts</th><th>drops</th><th>resent</th>\
         <th>longest queue</th><th>median</th><th>p99</th></tr></thead>\n"
    );
    for (index, variant) in both.live.summary.variants.iter().enumerate() {
        let label = escape(&variant.variant.label);
        let _ = write!(
            o,
            "<tbody>\n<tr class=\"variant\"><th colspan=\"10\" scope=\"rowgroup\">{label}</th></tr>\n"
        );
        let mut servers: Vec<u32> = both
            .sides()
            .filter_map(|(_, side)| side.summary.variants.get(index))
            .flat_map(|v| v.points.iter().map(|p| p.servers))
            .collect();
        servers.sort_unstable();
        servers.dedup();
        for n in servers {
            for (name, side) in both.sides() {
                let Some(v) = side.summary.variants.get(index) else {
                    continue;
                };
                let Some(at) = v.points.iter().position(|p| p.servers == n) else {
                    continue;
                };
                let onset = side.story.onset.get(index).copied().flatten();
                row(o, name, &v.points[at], onset == Some(at));
            }
        }
        let _ = writeln!(o, "</tbody>");
    }
    let _ = writeln!(o, "</table></div>");
}

fn row(o: &mut String, name: &str, p: &Point, onset: bool) {
    let class = match onset {
        true => " class=\"onset\" title=\"collapse\"",
        false => "",
    };
    let ci = p.goodput.ci95;
    let ci = ci.map_or(String::new(), |c| format!(" ± {}", mbps(c)));
    let _ = writeln!(
        o,
        "<tr{class}><td>{}</td><td>{name}</td><td>{}{ci}</td><td>{:.0} %</td><td>{}</td>\
         <td>{}</td><td>{:.1} %</td><td>{} p</td><td>{}</td><td>{}</td></tr>",
        p.servers,
        mbps(p.goodput.mean),
        p.share * 100.0,
        count(p.timeouts),
        count(p.drops),
        p.retransmitted * 100.0,
        p.max_queue,
        time(p.block_median),
        time(p.block_p99),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::{Duration, Rate};
    use narrows_experiment::scenario::{
        Axis as SweepAxis, IncastRun, IncastSpec, Setting, TimeoutCounts,
    };

    fn sweep() -> SweepSpec {
        let rto = |name: &str| Setting::Rto(name.to_owned());
        SweepSpec {
            base: IncastSpec::default(),
            servers: vec![1, 8],
            axes: vec![SweepAxis::new(vec![rto("linux"), rto("fine")])],
            repetitions: 1,
        }
    }

    fn side(goodput: [u64; 4]) -> Side {
        let run = |mbps| {
            Some(IncastRun {
                goodput: Rate::from_mbps(mbps),
                block_times: vec![Duration::from_millis(2); 4],
                timeouts: TimeoutCounts {
                    other: if mbps < 900 { 8 } else { 0 },
                    ..TimeoutCounts::default()
                },
                ..IncastRun::default()
            })
        };
        let runs = goodput.map(run);
        Side::new(&sweep(), Summary::of(&sweep(), &runs))
    }

    fn both() -> Comparison {
        Comparison {
            live: side([950, 50, 950, 940]),
            simulated: Some(side([960, 950, 960, 930])),
        }
    }

    #[test]
    fn the_table_has_each_variant_live_and_simulated() {
        let all = both().merged();
        let labels = all
            .summary
            .variants
            .iter()
            .map(|v| v.variant.label.as_str());
        let labels: Vec<&str> = labels.collect();
        assert_eq!(
            labels,
            [
                "live: reno / linux",
                "simulated: reno / linux",
                "live: reno / fine",
                "simulated: reno / fine"
            ]
        );
        assert_eq!(all.story.onset, [Some(1), None, None, None]);
        assert!(all.story.sentences[0].starts_with("Live: Incast collapse sets in at 8"));
        let last = all.story.sentences.last().unwrap();
        assert!(last.starts_with("Simulated: No collapse"), "{last}");
    }

    #[test]
    fn a_side_that_is_not_there_leaves_nothing() {
        let live = Comparison {
            simulated: None,
            ..both()
        };
        assert_eq!(live.merged().summary.variants.len(), 2);
        assert_eq!(live.chart(Quantity::Goodput).series.len(), 2);
    }

    #[test]
    fn the_chart_has_live_over_simulated_in_one_colour() {
        let chart = both().chart(Quantity::Timeouts);
        let looks: Vec<(Role, usize)> = chart.series.iter().map(|s| (s.role, s.group)).collect();
        let (ours, reference) = (Role::Ours, Role::Reference);
        assert_eq!(
            looks,
            [(ours, 0), (reference, 0), (ours, 1), (reference, 1)]
        );
        assert_eq!(chart.series[0].points, [(1.0, 0.0), (8.0, 2.0)]);
    }
}
