//! Marked values: a threshold across the chart, an instant up it, each with its name.
//!
//! Names of vertical lines stand above the chart, as many rows of them as they need. Names of
//! horizontal lines stand beside the line where nothing is drawn, or to the right of the chart if
//! there is no such place.

use super::area::{Area, SMALL};
use super::data::{Chart, RuleAt};
use super::ink::{Inks, escape, paint, text_width};
use super::scale::Place;
use std::fmt::Write;

/// Height of a row of names.
pub(super) const ROW: f64 = 16.0;

/// The lines, to be drawn before the series.
pub(super) fn lines(b: &mut String, chart: &Chart, x: &Place, y: &Place, area: Area, inks: Inks) {
    for rule in &chart.rules {
        let d = match rule.at {
            RuleAt::X(v) if x.inside(v) => x
                .at(v)
                .map(|at| format!("M{at:.1} {:.1}V{:.1}", area.top - 3.0, area.bottom())),
            RuleAt::Y(v) if y.inside(v) => y
                .at(v)
                .map(|at| format!("M{:.1} {at:.1}H{:.1}", area.left, area.right())),
            _ => None,
        };
        if let Some(d) = d {
            let _ = writeln!(
                b,
                r#"<path d="{d}" stroke="{}" stroke-width="1.2" stroke-dasharray="3 3" fill="none"/>"#,
                inks.faint
            );
        }
    }
}

/// The shaded stretches, to be drawn before all else.
pub(super) fn bands(b: &mut String, chart: &Chart, x: &Place, area: Area, inks: Inks) {
    let inner = |at: f64| x.at(at).map(|at| at.clamp(area.left, area.right()));
    for band in &chart.bands {
        let (Some(from), Some(to)) = (inner(band.from), inner(band.to)) else {
            continue;
        };
        let _ = writeln!(
            b,
            r#"<rect x="{from:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{}" fill-opacity="0.18"/>"#,
            area.top,
            (to - from).max(0.6),
            area.height,
            paint(band.group, inks.theme)
        );
    }
}

/// Names of the vertical lines and the bands with their place: middle of the text, and row from below.
pub(super) fn above(chart: &Chart, x: &Place, area: Area) -> Vec<(f64, usize, String)> {
    let mut found: Vec<(f64, &str)> = chart
        .rules
        .iter()
        .filter_map(|r| match r.at {
            RuleAt::X(v) if x.inside(v) && !r.label.is_empty() => Some((x.at(v)?, &*r.label)),
            _ => None,
        })
        .collect();
    for band in chart.bands.iter().filter(|band| !band.label.is_empty()) {
        found.extend(
            x.at((band.from + band.to) / 2.0)
                .map(|at| (at, &*band.label)),
        );
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ends: Vec<f64> = Vec::new();
    found
        .into_iter()
        .map(|(at, label)| {
            let half = text_width(label, SMALL) / 2.0;
            let middle = at.min(area.right() - half).max(area.left + half);
            let row = ends
                .iter()
                .position(|end| middle - half > end + 6.0)
                .unwrap_or(ends.len());
            if row == ends.len() {
                ends.push(0.0);
            }
            ends[row] = middle + half;
            (middle, row, label.to_owned())
        })
        .collect()
}

/// What is drawn where, in coarse cells.
#[derive(Clone)]
pub(super) struct Ground {
    cells: Vec<bool>,
    columns: usize,
    area: Area,
}

const CELL: f64 = 4.0;

impl Ground {
    pub(super) fn new(area: Area) -> Self {
        let columns = (area.width / CELL) as usize + 1;
        let rows = (area.height / CELL) as usize + 1;
        Self {
            cells: vec![false; columns * rows],
            columns,
            area,
        }
    }

    /// A line is drawn through these points.
    pub(super) fn add(&mut self, piece: &[(f64, f64)]) {
        let mut last = piece.first().copied();
        for &(x, y) in piece {
            let (fx, fy) = last.unwrap_or((x, y));
            let steps = (((x - fx).abs() + (y - fy).abs()) / CELL).min(1_000.0) as u32 + 1;
            for i in 0..=steps {
                let share = f64::from(i) / f64::from(steps);
                self.mark(fx + (x - fx) * share, fy + (y - fy) * share);
            }
            last = Some((x, y));
        }
    }

    fn index(&self, x: f64, y: f64) -> Option<usize> {
        let (column, row) = ((x - self.area.left) / CELL, (y - self.area.top) / CELL);
        if column < 0.0 || row < 0.0 || column as usize >= self.columns {
            return None;
        }
        let index = row as usize * self.columns + column as usize;
        (index < self.cells.len()).then_some(index)
    }

    fn mark(&mut self, x: f64, y: f64) {
        if let Some(i) = self.index(x, y) {
            self.cells[i] = true;
        }
    }

    /// How many cells of the box are taken; outside the chart all are.
    fn taken(&self, left: f64, top: f64, width: f64, height: f64) -> usize {
        let (columns, rows) = ((width / CELL) as u32 + 1, (height / CELL) as u32 + 1);
        let cells = (0..rows).flat_map(|r| (0..columns).map(move |c| (c, r)));
        cells
            .filter(|(c, r)| {
                let at = (left + f64::from(*c) * CELL, top + f64::from(*r) * CELL);
                self.index(at.0, at.1).is_none_or(|i| self.cells[i])
            })
            .count()
    }

    fn fill(&mut self, left: f64, top: f64, width: f64, height: f64) {
        let mut y = top;
        while y <= top + height {
            self.add(&[(left, y), (left + width, y)]);
            y += CELL;
        }
    }
}

/// Where the name of a horizontal line stands: its left end and its middle.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spot {
    /// In the chart.
    Inside { left: f64, top: f64 },
    /// Right of it, in several rows; the first one's base line.
    Outside { top: f64 },
}

/// A name of a horizontal line, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Name {
    label: String,
    spot: Spot,
}

const HEIGHT: f64 = SMALL - 2.0;
/// How far a name may be from its line.
const FAR: [f64; 3] = [4.5, 10.0, 16.0];

/// Places for the names of the horizontal lines.
pub(super) fn beside(chart: &Chart, y: &Place, mut ground: Ground) -> Vec<Name> {
    let area = ground.area;
    let mut rules: Vec<(f64, &str)> = chart
        .rules
        .iter()
        .filter_map(|r| match r.at {
            RuleAt::Y(v) if y.inside(v) && !r.label.is_empty() => Some((y.at(v)?, &*r.label)),
            _ => None,
        })
        .collect();
    for (at, _) in &rules {
        ground.add(&[(area.left, *at), (area.right(), *at)]);
    }
    rules.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut outside = f64::NEG_INFINITY;
    let mut names = Vec::new();
    for (at, label) in rules {
        let width = text_width(label, SMALL);
        let last = area.right() - width - 4.0;
        let columns = ((last - area.left - 6.0) / CELL).max(0.0) as u32;
        let lefts = (0..=columns).map(|c| last - f64::from(c) * CELL);
        // The nearest to the line that is free, of those the rightmost.
        let tops = FAR.iter().flat_map(|far| [at - HEIGHT - far, at + far]);
        let places = tops.flat_map(|top| lefts.clone().map(move |left| (left, top)));
        let free = places
            .filter(|(left, _)| *left >= area.left)
            .find(|(l, t)| ground.taken(l - 2.0, t - 1.0, width + 4.0, HEIGHT + 2.0) == 0);
        let spot = if let Some((left, top)) = free {
            ground.fill(left - 2.0, top, width + 4.0, HEIGHT);
            Spot::Inside { left, top }
        } else {
            let rows = wrapped(label).len() as f64;
            let top = (at - rows * ROW / 2.0).max(outside).max(area.top - 8.0);
            outside = top + rows * ROW + 2.0;
            Spot::Outside { top }
        };
        let label = label.to_owned();
        names.push(Name { label, spot });
    }
    names
}

/// How much room the names need right of the chart.
pub(super) fn margin(names: &[Name]) -> f64 {
    let outside = names
        .iter()
        .filter(|n| matches!(n.spot, Spot::Outside { .. }));
    let rows = outside.flat_map(|n| wrapped(&n.label));
    let widest = rows.map(|row| text_width(&row, SMALL)).fold(0.0, f64::max);
    if widest > 0.0 { widest + 10.0 } else { 0.0 }
}

/// In rows of about a dozen letters.
fn wrapped(label: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in label.split(' ') {
        match rows.last_mut() {
            Some(row) if row.len() + word.len() < 12 => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}

/// The names of the horizontal lines, to be drawn last.
pub(super) fn draw(b: &mut String, names: &[Name], area: Area, inks: Inks) {
    let mut text = |left: f64, base: f64, row: &str| {
        let _ = writeln!(
            b,
            r#"<text x="{left:.1}" y="{base:.1}" font-size="{SMALL}" fill="{}" stroke="{}" stroke-width="3" stroke-linejoin="round" paint-order="stroke">{}</text>"#,
            inks.faint,
            inks.paper,
            escape(row),
        );
    };
    for name in names {
        match name.spot {
            Spot::Inside { left, top } => text(left, top + HEIGHT - 0.5, &name.label),
            Spot::Outside { top } => {
                for (i, row) in wrapped(&name.label).iter().enumerate() {
                    text(area.right() + 7.0, top + (i as f64 + 0.75) * ROW, row);
                }
            }
        }
    }
}
