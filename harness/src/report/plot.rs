//! The plot: a quantity against the number of servers, a line a variant, as SVG.
//!
//! Own code rather than a library: it must read in a paper column, be told apart without
//! colour, follow the page's light or dark theme, and cost the build nothing.

use super::chart::ink::{DASHES, FONTS, Inks, Shape, dash, filled, hollow};
use super::legend::Legend;
use super::summary::{Point, Summary};
use super::table::mbps;
use crate::scenario::SweepSpec;
use std::fmt::Write;

pub use super::chart::{PALETTE, Theme};

pub(super) const WIDTH: f64 = 570.0;
pub(super) const LEFT: f64 = 78.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const PLOT_HEIGHT: f64 = 300.0;
pub(super) const FONT: f64 = 14.0;

/// What is plotted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Goodput, on a linear scale from zero.
    Goodput,
    /// Median block time, on a logarithmic scale.
    BlockTime,
}

impl Quantity {
    fn value(self, p: &Point) -> Option<(f64, Option<f64>)> {
        match self {
            Self::Goodput => Some((p.goodput.mean, p.goodput.ci95)),
            Self::BlockTime => p.block_median.map(|d| (d.as_nanos() as f64, None)),
        }
    }
}

/// Draw `quantity` of every variant of `summary`.
pub fn svg(sweep: &SweepSpec, summary: &Summary, quantity: Quantity, theme: Theme) -> String {
    let scales = Scales::of(summary, quantity);
    let legend = Legend::of(sweep, summary);
    let inks = Inks::of(theme);
    let paper = inks.paper;
    let mut body = String::new();
    let b = &mut body;
    axes(b, &scales, quantity, inks);
    for (index, v) in summary.variants.iter().enumerate() {
        let style = legend.style(index, theme);
        let _ = writeln!(b, r#"<g class="series" data-variant="{index}">"#);
        let points: Vec<(f64, f64, Option<f64>)> = v
            .points
            .iter()
            .filter_map(|p| {
                quantity
                    .value(p)
                    .map(|(y, ci)| (f64::from(p.servers), y, ci))
            })
            .collect();
        series(b, &scales, &points, &style, legend.dodge(index), paper);
        let _ = writeln!(b, "</g>");
    }
    let bottom = TOP + PLOT_HEIGHT + 52.0;
    let height = bottom + legend.draw(b, bottom, inks) + 6.0;
    let mut out = String::new();
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" font-family="{FONTS}" font-size="{FONT}" role="img" data-plot="{LEFT} {TOP} {w} {PLOT_HEIGHT}"><title>{title} against number of servers</title>"#,
        w = WIDTH - LEFT - RIGHT,
        title = match quantity {
            Quantity::Goodput => "Goodput",
            Quantity::BlockTime => "Median block time",
        },
    );
    if theme == Theme::Paper {
        let _ = write!(out, r#"<rect width="100%" height="100%" fill="{paper}"/>"#);
    }
    let _ = write!(out, "\n{body}</svg>\n");
    out
}

/// Where values go on the page.
struct Scales {
    servers: Vec<f64>,
    y: YScale,
    link: Option<f64>,
}

#[derive(Clone, Copy)]
enum YScale {
    Linear { top: f64, step: f64 },
    Log { low: f64, high: f64 },
}

impl Scales {
    fn of(summary: &Summary, quantity: Quantity) -> Self {
        let points = || summary.variants.iter().flat_map(|v| &v.points);
        let mut servers: Vec<u32> = points().map(|p| p.servers).collect();
        servers.sort_unstable();
        servers.dedup();
        let values: Vec<f64> = points()
            .filter_map(|p| quantity.value(p))
            .map(|(y, ci)| y + ci.unwrap_or(0.0))
            .filter(|y| *y > 0.0)
            .collect();
        let most = values.iter().copied().reduce(f64::max).unwrap_or(1.0);
        let (y, link) = match quantity {
            Quantity::Goodput => {
                let rates: Vec<f64> = summary
                    .variants
                    .iter()
                    .map(|v| v.link_rate.bits_per_sec() as f64)
                    .collect();
                let link = rates.iter().copied().reduce(f64::max).unwrap_or(1.0);
                let same = rates.iter().all(|r| *r == link);
                // An interval may reach beyond the link; the axis need not follow it far.
                let top = if same { link } else { most.min(link) };
                (linear(top), same.then_some(link))
            }
            Quantity::BlockTime => {
                let least = values.iter().copied().reduce(f64::min).unwrap_or(1.0);
                (log(least, most), None)
            }
        };
        Self {
            servers: servers.into_iter().map(f64::from).collect(),
            y,
            link,
        }
    }

    fn x(&self, servers: f64) -> f64 {
        let (first, last) = match (self.servers.first(), self.servers.last()) {
            (Some(a), Some(b)) if b > a => (a.log2(), b.log2()),
            _ => return LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
        };
        let room = WIDTH - LEFT - RIGHT - 28.0;
        LEFT + 14.0 + room * (servers.log2() - first) / (last - first)
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.y {
            YScale::Linear { top, .. } => value / top,
            YScale::Log { low, high } => (value / low).log10() / (high / low).log10(),
        };
        TOP + PLOT_HEIGHT * (1.0 - share.clamp(0.0, 1.0))
    }
}

/// Zero to a little above `most`, in steps of 1, 2 or 5.
fn linear(most: f64) -> YScale {
    let raw = most.max(1.0) / 5.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|f| f * power)
        .into_iter()
        .find(|s| *s >= raw * 0.999);
    YScale::Linear {
        top: most.max(1.0) * 1.06,
        step: step.unwrap_or(raw),
    }
}

/// Whole decades around the values, or half ones where those leave less air.
fn log(least: f64, most: f64) -> YScale {
    let half = |x: f64| {
        if x.rem_euclid(1.0) > 0.5 {
            x.floor() + 0.5
        } else {
            x.floor()
        }
    };
    let low = half(least.log10() - 0.05);
    let high = -half(-(most.log10() + 0.05));
    YScale::Log {
        low: 10_f64.powf(low),
        high: 10_f64.powf(high.max(low + 0.5)),
    }
}

fn axes(b: &mut String, s: &Scales, quantity: Quantity, inks: Inks) {
    let Inks {
        ink, faint, grid, ..
    } = inks;
    let (right, bottom) = (WIDTH - RIGHT, TOP + PLOT_HEIGHT);
    for (value, label) in y_ticks(s.y, quantity, s.link) {
        let y = s.y(value);
        let _ = writeln!(
            b,
            r#"<path d="M{LEFT} {y:.1}H{right}" stroke="{grid}" fill="none"/><text x="{tx}" y="{ty:.1}" text-anchor="end" fill="{ink}">{label}</text>"#,
            tx = LEFT - 8.0,
            ty = y + 5.0,
        );
    }
    if let Some(link) = s.link {
        let y = s.y(link);
        let _ = writeln!(
            b,
            r#"<path d="M{LEFT} {y:.1}H{right}" stroke="{faint}" stroke-dasharray="3 3" fill="none"/><text x="{right}" y="{ty:.1}" text-anchor="end" font-size="11.5" fill="{faint}">link rate</text>"#,
            ty = y - 4.0,
        );
    }
    let mut last = f64::NEG_INFINITY;
    for n in &s.servers {
        let x = s.x(*n);
        let label = n.to_string();
        let half = label.len() as f64 * FONT * 0.28;
        let roomy = x - half > last + 5.0;
        let length = if roomy { 6.0 } else { 3.5 };
        let _ = write!(
            b,
            r#"<path d="M{x:.1} {bottom}v{length}" stroke="{ink}" fill="none"/>"#
        );
        if roomy {
            last = x + half;
            let _ = write!(
                b,
                r#"<text x="{x:.1}" y="{y}" text-anchor="middle" fill="{ink}">{label}</text>"#,
                y = bottom + 21.0
            );
        }
        b.push('\n');
    }
    let (middle, label) = (
        TOP + PLOT_HEIGHT / 2.0,
        match quantity {
            Quantity::Goodput if s.link.unwrap_or(0.0) >= 9.9e9 => "Goodput (Gb/s)",
            Quantity::Goodput => "Goodput (Mb/s)",
            Quantity::BlockTime => "Median block time",
        },
    );
    let _ = writeln!(
        b,
        r#"<path d="M{LEFT} {TOP}V{bottom}H{right}" stroke="{ink}" fill="none"/><text x="{cx}" y="{xy}" text-anchor="middle" fill="{ink}">Number of servers</text><text transform="translate({lx} {middle}) rotate(-90)" text-anchor="middle" fill="{ink}">{label}</text>"#,
        lx = if quantity == Quantity::Goodput {
            27
        } else {
            15
        },
        cx = (LEFT + right) / 2.0,
        xy = bottom + 42.0,
    );
}

fn y_ticks(scale: YScale, quantity: Quantity, link: Option<f64>) -> Vec<(f64, String)> {
    match scale {
        YScale::Linear { top, step } => {
            let unit = if link.unwrap_or(0.0) >= 9.9e9 {
                1e9
            } else {
                1e6
            };
            let count = (top / step).floor() as u32;
            (0..=count)
                .map(|i| {
                    let v = f64::from(i) * step;
                    (v, trimmed(v / unit))
                })
                .collect()
        }
        YScale::Log { low, high } => {
            let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
            let steps: &[f64] = if high / low <= 100.0 {
                &[1.0, 2.0, 5.0]
            } else {
                &[1.0, 3.0]
            };
            decades
                .flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)))
                .filter(|v| *v >= low * 0.999 && *v <= high * 1.001)
                .map(|v| {
                    (
                        v,
                        if quantity == Quantity::BlockTime {
                            nanos(v)
                        } else {
                            mbps(v)
                        },
                    )
                })
                .collect()
        }
    }
}

fn trimmed(v: f64) -> String {
    let text = format!("{v:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn nanos(ns: f64) -> String {
    match ns {
        n if n >= 0.999e9 => format!("{} s", trimmed(n / 1e9)),
        n if n >= 0.999e6 => format!("{} ms", trimmed(n / 1e6)),
        n if n >= 0.999e3 => format!("{} µs", trimmed(n / 1e3)),
        n => format!("{} ns", trimmed(n)),
    }
}

/// How a line looks: colour, dash and marker.
pub(super) struct Style {
    pub(super) colour: String,
    pub(super) line: usize,
}

fn series(
    b: &mut String,
    s: &Scales,
    points: &[(f64, f64, Option<f64>)],
    st: &Style,
    dodge: f64,
    paper: &str,
) {
    let colour = &st.colour;
    if points.len() > 1 {
        let mut d = String::new();
        for (i, (n, y, _)) in points.iter().enumerate() {
            let _ = write!(
                d,
                "{}{:.1} {:.1}",
                if i == 0 { 'M' } else { 'L' },
                s.x(*n) + dodge,
                s.y(*y)
            );
        }
        let _ = writeln!(
            b,
            r#"<path d="{d}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"{}/>"#,
            dash(line_look(st.line).0)
        );
    }
    for (n, y, ci) in points {
        let (x, cy) = (s.x(*n) + dodge, s.y(*y));
        if let Some(ci) = ci.filter(|c| *c > 0.0) {
            let (lo, hi) = (s.y((y - ci).max(0.0)), s.y(y + ci));
            let (l, r) = (x - 3.5, x + 3.5);
            let _ = writeln!(
                b,
                r#"<path class="ci" d="M{l:.1} {lo:.1}H{r:.1}M{x:.1} {lo:.1}V{hi:.1}M{l:.1} {hi:.1}H{r:.1}" stroke="{colour}" stroke-width="1.2" fill="none"/>"#
            );
        }
        marker(b, st.line, x, cy, colour, paper);
        b.push('\n');
    }
}

/// How many lines of one colour look different: each dash with each marker.
pub(super) const LINES: usize = DASHES.len() * MARKERS.len();

/// Shapes alternate filled and hollow, so that neighbours differ even where they touch.
const MARKERS: [(Shape, bool, f64); 10] = [
    (Shape::Circle, true, 1.0),
    (Shape::Square, false, 1.0),
    (Shape::Up, true, 1.0),
    (Shape::Diamond, false, 1.0),
    (Shape::Down, true, 1.0),
    (Shape::Circle, false, 0.93),
    (Shape::Square, true, 1.0),
    (Shape::Up, false, 1.0),
    (Shape::Diamond, true, 1.0),
    (Shape::Down, false, 1.0),
];

/// Dash and marker of line number `line`. Both change from one line to the next, and since their
/// numbers have no common divisor, each comes with each.
pub(super) const fn line_look(line: usize) -> (usize, usize) {
    (line % DASHES.len(), line % MARKERS.len())
}

pub(super) fn marker(b: &mut String, line: usize, x: f64, y: f64, colour: &str, paper: &str) {
    let (shape, full, size) = MARKERS[line_look(line).1];
    let paint = if full {
        filled(colour, paper)
    } else {
        hollow(colour, paper)
    };
    shape.draw(b, x, y, size, &paint);
}
