//! The series: lines, steps, markers, dots, and their spread.

use super::data::{Draw, Role, Series, Style};
use super::ink::{DASHES, Inks, PALETTE, Shape, dash, escape, filled, hollow, paint};
use super::scale::Place;
use crate::points::number;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The line of a reference that nothing lies on.
pub(super) const DASHED: &str = r#" stroke-width="1.6" stroke-dasharray="5.5 3.5""#;

/// A bar, which leaves room between the words of an axis that has a dozen.
const BAR: &str = r#" stroke-width="8""#;

/// How one series looks.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) colour: String,
    pub(super) shape: Shape,
    pub(super) role: Role,
    /// The attributes of its line: dash and width.
    pub(super) stroke: String,
    /// Dash and marker by number, where it is a variant.
    pub(super) line: Option<usize>,
    /// How far to the side it is drawn.
    pub(super) dodge: f64,
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

impl Look {
    /// Series number `index` of `all`. Colour and marker come from its group, and where colours
    /// come again other dashes do; the second name of ours in a group has another marker and a line
    /// of dashes and dots.
    pub(super) fn of(all: &[Series], index: usize, inks: Inks) -> Self {
        let me = &all[index];
        if let Style::Variant { colour, line } = me.style {
            return Self::of_variant((colour, line), dodge(all, colour), inks);
        }
        let twin = |s: &&Series| (s.group, s.role) == (me.group, me.role);
        let mut names: Vec<&str> = Vec::new();
        for s in all[..=index].iter().filter(twin) {
            if !names.contains(&s.name.as_str()) {
                names.push(&s.name);
            }
        }
        let nth = names.iter().position(|n| *n == me.name).unwrap_or(0);
        let bare = |s: &Series| matches!(s.draw, Draw::Line | Draw::Steps);
        let stroke = match me.role {
            _ if me.draw == Draw::Bars => BAR.to_owned(),
            Role::Ours => format!(
                r#" stroke-width="2"{}"#,
                dash(if nth == 0 { 0 } else { 2 + nth } + me.group / PALETTE.len())
            ),
            // Ours may cover it: broad and pale it shows on both sides.
            Role::Reference if bare(me) && all.iter().any(|s| s.role == Role::Ours && bare(s)) => {
                r#" stroke-width="5.5" stroke-opacity="0.45" stroke-dasharray="8 4.5""#.to_owned()
            }
            Role::Reference if bare(me) => interleaved(all, index),
            Role::Reference => DASHED.to_owned(),
        };
        Self {
            colour: paint(me.group, inks.theme),
            shape: Shape::ALL[(me.group + nth) % Shape::ALL.len()],
            role: me.role,
            stroke,
            line: None,
            dodge: 0.0,
        }
    }

    /// A variant with a colour, and a dash and marker.
    pub(super) fn of_variant((colour, line): (usize, usize), dodge: f64, inks: Inks) -> Self {
        Self {
            colour: paint(colour, inks.theme),
            shape: MARKERS[line_look(line).1].0,
            role: Role::Ours,
            stroke: format!(r#" stroke-width="2"{}"#, dash(line_look(line).0)),
            line: Some(line),
            dodge,
        }
    }

    /// A marker: full for ours, an outline that leaves room for ours in it for the reference.
    pub(super) fn marker(&self, b: &mut String, x: f64, y: f64, inks: Inks) {
        self.marker_below(b, x, y, inks, 0);
    }

    /// The same below so many others of ours, which it looks out from.
    fn marker_below(&self, b: &mut String, x: f64, y: f64, inks: Inks, others: usize) {
        if let Some(line) = self.line {
            let (shape, full, size) = MARKERS[line_look(line).1];
            let paint = if full { filled } else { hollow };
            return shape.draw(b, x, y, size, &paint(&self.colour, inks.paper));
        }
        match self.role {
            Role::Ours => {
                let paint = filled(&self.colour, inks.paper);
                let size = 0.82 + 0.38 * others.min(3) as f64;
                self.shape.draw(b, x, y, size, &paint);
            }
            Role::Reference => {
                let paint = format!(
                    r#"fill="{}" stroke="{}" stroke-width="1.5""#,
                    inks.paper, self.colour
                );
                self.shape.draw(b, x, y, 1.16, &paint);
            }
        }
    }
}

/// How far to the side variants of a colour are drawn, so that colours with the same values all show.
fn dodge(all: &[Series], colour: usize) -> f64 {
    let colours = all.iter().filter_map(|s| match s.style {
        Style::Variant { colour, .. } => Some(colour + 1),
        Style::Group => None,
    });
    let colours = colours.max().unwrap_or(1).min(PALETTE.len()) as f64;
    ((colour % PALETTE.len()) as f64 - (colours - 1.0) / 2.0) * (9.0 / colours).min(3.0)
}

/// Dashes for a bare line of the reference's. Where several lie on each other, each fills the gaps
/// of the others.
fn interleaved(all: &[Series], index: usize) -> String {
    let alike =
        |s: &Series| s.role == Role::Reference && matches!(s.draw, Draw::Line | Draw::Steps);
    let count = all.iter().filter(|s| alike(s)).count().clamp(1, 4);
    let nth = all[..index].iter().filter(|s| alike(s)).count() % count;
    if count == 1 {
        return DASHED.to_owned();
    }
    let (on, gap) = (6, 6 * (count - 1));
    let offset = -(on as i64) * nth as i64;
    format!(r#" stroke-width="1.8" stroke-dasharray="{on} {gap}" stroke-dashoffset="{offset}""#)
}

/// Where the series may be.
pub(super) struct Frame<'a> {
    pub(super) x: &'a Place,
    pub(super) y: &'a Place,
    /// What stands for 0, 1 and so on at the x axis, if it has words.
    pub(super) words: &'a [String],
    pub(super) inks: Inks,
    /// Markers carry their values, for who points at them.
    pub(super) tips: bool,
}

type Point = (f64, f64);

impl Frame<'_> {
    /// A place on the x axis, for who points at it.
    fn x_name(&self, x: f64) -> String {
        let word = self.words.get(x.round().max(0.0) as usize);
        word.cloned().unwrap_or_else(|| number(x, ""))
    }

    fn at(&self, (x, y): Point) -> Option<Point> {
        Some((self.x.at(x)?, self.y.at(y)?))
    }

    fn inside(&self, (x, y): Point) -> bool {
        self.x.inside(x) && self.y.inside(y)
    }

    /// The unbroken pieces of a series on the page, thinned to what can be seen.
    pub(super) fn pieces(&self, series: &Series, look: &Look) -> Vec<Vec<Point>> {
        let mut pieces = vec![Vec::new()];
        for p in &series.points {
            let at = self.at(*p).map(|(x, y)| (x + look.dodge, y));
            match (at, pieces.last_mut()) {
                (Some(at), Some(piece)) => piece.push(at),
                (None, Some(piece)) if piece.is_empty() => {}
                _ => pieces.push(Vec::new()),
            }
        }
        pieces
            .into_iter()
            .filter(|p| !p.is_empty())
            .map(thinned)
            .map(|p| match series.draw {
                Draw::Steps => stepped(&p),
                _ => p,
            })
            .collect()
    }

    /// What belongs under the markers: spread and lines. To be clipped to the frame.
    pub(super) fn line(&self, b: &mut String, series: &Series, look: &Look) {
        let band = matches!(series.draw, Draw::Line | Draw::Steps);
        if band {
            self.band(b, series, look);
        }
        if series.draw == Draw::Dots {
            self.dots(b, series, look);
            return;
        }
        if series.draw != Draw::Markers {
            for piece in self.pieces(series, look).iter().filter(|p| p.len() > 1) {
                let _ = writeln!(
                    b,
                    r#"<path d="{}" fill="none" stroke="{}"{} stroke-linejoin="round"/>"#,
                    path(piece),
                    look.colour,
                    look.stroke
                );
            }
        }
        if !band {
            self.whiskers(b, series, look);
        }
    }

    /// The markers; those outside the frame are left out, and those that the series in `over` cover
    /// are larger, so that all are seen.
    pub(super) fn markers(&self, b: &mut String, series: &Series, look: &Look, over: &[&Series]) {
        if !matches!(series.draw, Draw::LineMarkers | Draw::Markers) {
            return;
        }
        let mut any = false;
        for (i, p) in series.points.iter().enumerate() {
            let Some((x, y)) = self.at(*p).filter(|_| self.inside(*p)) else {
                continue;
            };
            any = true;
            let covering = over
                .iter()
                .filter(|o| o.role == series.role && self.covers(o, (x, y)));
            let others = covering.count();
            let x = x + look.dodge;
            if self.tips {
                let spread = series
                    .spread
                    .get(i)
                    .filter(|(least, most)| least < most)
                    .map_or(String::new(), |(a, b)| {
                        format!(" ({} to {})", number(*a, ""), number(*b, ""))
                    });
                let name = match series.name.as_str() {
                    "" => String::new(),
                    name => format!("{name}: "),
                };
                let (at, value) = (self.x_name(p.0), number(p.1, ""));
                let tip = format!("{name}{at}, {value}{spread}");
                let _ = write!(b, "<g><title>{}</title>", escape(&tip));
                look.marker_below(b, x, y, self.inks, others);
                b.push_str("</g>");
            } else {
                look.marker_below(b, x, y, self.inks, others);
            }
        }
        if any {
            b.push('\n');
        }
    }

    /// Whether a marker of `series` lies on this place.
    fn covers(&self, series: &Series, (x, y): Point) -> bool {
        if !matches!(series.draw, Draw::LineMarkers | Draw::Markers) {
            return false;
        }
        let mut at = series.points.iter().filter_map(|p| self.at(*p));
        at.any(|(ox, oy)| (ox - x).abs() < 2.0 && (oy - y).abs() < 2.0)
    }

    fn whiskers(&self, b: &mut String, series: &Series, look: &Look) {
        let mut d = String::new();
        for (p, (low, high)) in series.points.iter().zip(&series.spread) {
            let ends = (self.at((p.0, *low)), self.at((p.0, *high)));
            let (Some((x, a)), Some((_, z))) = ends else {
                continue;
            };
            if (a - z).abs() >= 0.5 {
                let x = x + look.dodge;
                let (l, r) = (x - 3.2, x + 3.2);
                let _ = write!(
                    d,
                    "M{l:.1} {a:.1}H{r:.1}M{x:.1} {a:.1}V{z:.1}M{l:.1} {z:.1}H{r:.1}"
                );
            }
        }
        if !d.is_empty() {
            let _ = writeln!(
                b,
                r#"<path d="{d}" fill="none" stroke="{}" stroke-width="1.2"/>"#,
                look.colour
            );
        }
    }

    fn band(&self, b: &mut String, series: &Series, look: &Look) {
        let edge = |pick: fn(&Point) -> f64| -> Vec<Point> {
            let zipped = series.points.iter().zip(&series.spread);
            let points = zipped.filter_map(|(p, s)| {
                // Both ends or neither, so that the edges belong together.
                self.at((p.0, s.0))?;
                self.at((p.0, s.1))?;
                self.at((p.0, pick(s)))
            });
            let piece = thinned(points.collect());
            match series.draw {
                Draw::Steps => stepped(&piece),
                _ => piece,
            }
        };
        let (low, mut high) = (edge(|s| s.0), edge(|s| s.1));
        if low.len() < 2 {
            return;
        }
        high.reverse();
        let _ = writeln!(
            b,
            r#"<path d="{}{}z" fill="{}" fill-opacity="0.18"/>"#,
            path(&low),
            path(&high).replacen('M', "L", 1),
            look.colour
        );
    }

    fn dots(&self, b: &mut String, series: &Series, look: &Look) {
        let shown = series.points.iter().filter(|p| self.inside(**p));
        // Dots in one pixel are one dot.
        let mut places = BTreeSet::new();
        let mut d = String::new();
        for (x, y) in shown.filter_map(|p| self.at(*p)) {
            if !places.insert((x.floor() as i64, y.floor() as i64)) {
                continue;
            }
            let _ = match look.role {
                Role::Ours => write!(d, "M{x:.1} {y:.1}h0"),
                Role::Reference => write!(d, "M{:.1} {:.1}l4 4m0 -4l-4 4", x - 2.0, y - 2.0),
            };
        }
        if d.is_empty() {
            return;
        }
        let (width, cap) = match look.role {
            Role::Ours => ("3", r#" stroke-linecap="round""#),
            Role::Reference => ("1.2", ""),
        };
        let _ = writeln!(
            b,
            r#"<path d="{d}" fill="none" stroke="{}" stroke-width="{width}"{cap}/>"#,
            look.colour
        );
    }
}

/// At most four points for a column of pixels.
fn thinned(points: Vec<Point>) -> Vec<Point> {
    if points.len() < 1_500 {
        return points;
    }
    let columns = points.chunk_by(|a, b| a.0.floor() == b.0.floor());
    columns.flat_map(extremes).collect()
}

/// The first of some points, the last, and the least and greatest between; none twice.
pub(crate) fn extremes(here: &[Point]) -> impl Iterator<Item = Point> {
    let by = |f: fn(f64, f64) -> bool| {
        let better = |best: usize, i: usize| if f(here[i].1, here[best].1) { i } else { best };
        (0..here.len()).fold(0, better)
    };
    let last = here.len().saturating_sub(1);
    let mut keep = vec![0, by(|a, b| a < b), by(|a, b| a > b), last];
    keep.sort_unstable();
    keep.dedup();
    keep.into_iter().filter_map(|i| here.get(i).copied())
}

/// Each value holds until the next point.
fn stepped(points: &[Point]) -> Vec<Point> {
    let mut out = Vec::with_capacity(points.len() * 2);
    for (i, (x, y)) in points.iter().enumerate() {
        if i > 0 {
            out.push((*x, points[i - 1].1));
        }
        out.push((*x, *y));
    }
    out
}

fn path(points: &[Point]) -> String {
    let mut d = String::with_capacity(points.len() * 12);
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_every_peak() {
        let wave = |i: u32| if i == 70_001 { 99.0 } else { f64::from(i % 7) };
        let points: Vec<Point> = (0..100_000)
            .map(|i| (f64::from(i) / 250.0, wave(i)))
            .collect();
        let thin = thinned(points.clone());
        assert!(thin.len() <= 4 * 401 && thin.len() > 400, "{}", thin.len());
        assert!(thin.contains(&points[70_001]));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[99_999]));
        assert!(thin.windows(2).all(|w| w[0].0 <= w[1].0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points: Vec<Point> = (0..1_000).map(|i| (0.0, f64::from(i))).collect();
        assert_eq!(thinned(points.clone()), points);
    }

    #[test]
    fn steps_hold_their_value() {
        assert_eq!(
            stepped(&[(0.0, 5.0), (2.0, 7.0)]),
            [(0.0, 5.0), (2.0, 5.0), (2.0, 7.0)]
        );
    }

    #[test]
    fn each_dash_comes_with_each_marker() {
        let looks: BTreeSet<_> = (0..LINES).map(line_look).collect();
        assert_eq!((looks.len(), LINES), (70, 70));
        for (line, next) in (0..LINES).zip(1..LINES) {
            let (a, b) = (line_look(line), line_look(next));
            assert!(a.0 != b.0 && a.1 != b.1, "{line}: {a:?} {b:?}");
        }
        assert_eq!([0, 1, 5].map(line_look), [(0, 0), (1, 1), (5, 5)]);
    }
}
