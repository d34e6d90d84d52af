//! Marked values: a threshold across the chart, an instant up it, each with its name.
//!
//! Names of vertical lines stand above the chart, as many rows of them as they need. Names of
//! horizontal lines stand at the line where the least is drawn.

use super::ink::{Inks, escape, text_width};
use super::layout::{Area, SMALL};
use super::scale::Place;
use super::{Chart, RuleAt};
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

/// Names of the vertical lines with their place: middle of the text, and row from below.
pub(super) fn above(chart: &Chart, x: &Place, area: Area) -> Vec<(f64, usize, String)> {
    let mut found: Vec<(f64, &str)> = chart
        .rules
        .iter()
        .filter_map(|r| match r.at {
            RuleAt::X(v) if x.inside(v) && !r.label.is_empty() => Some((x.at(v)?, &*r.label)),
            _ => None,
        })
        .collect();
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

/// The names of the horizontal lines, to be drawn last.
pub(super) fn beside(b: &mut String, chart: &Chart, y: &Place, mut ground: Ground, inks: Inks) {
    let area = ground.area;
    let rules: Vec<(f64, &str)> = chart
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
    for (at, label) in rules {
        let (width, height) = (text_width(label, SMALL), SMALL - 2.0);
        let lefts = [
            area.right() - width - 4.0,
            area.left + 6.0,
            area.left + (area.width - width) / 2.0,
            area.left + (area.width - width) * 0.75,
            area.left + (area.width - width) * 0.25,
        ];
        let tops = [at - height - 4.5, at + 4.5];
        let places = lefts.iter().flat_map(|l| tops.map(|t| (*l, t)));
        let best = places.min_by_key(|(l, t)| ground.taken(*l, *t, width, height));
        let (left, top) = best.unwrap_or((lefts[0], tops[0]));
        ground.fill(left - 2.0, top, width + 4.0, height);
        let _ = writeln!(
            b,
            r#"<text x="{left:.1}" y="{:.1}" font-size="{SMALL}" fill="{}" stroke="{}" stroke-width="3" stroke-linejoin="round" paint-order="stroke">{}</text>"#,
            top + height - 0.5,
            inks.faint,
            inks.paper,
            escape(label),
        );
    }
}
