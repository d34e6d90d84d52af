//! The key below a plot, and which colour, dash and marker each variant has.

use super::chart::Theme;
use super::chart::ink::{Inks, dash, escape, paint};
use super::plot::{LEFT, Style, WIDTH, marker};
use super::summary::Summary;
use crate::scenario::SweepSpec;
use std::fmt::Write;

/// Rows of keys: colours for the first axis, dashes and markers for all others together; with
/// one axis, both for the same.
pub(super) struct Legend {
    rows: Vec<LegendRow>,
    /// For each variant its colour and its line style.
    styles: Vec<(usize, usize)>,
}

struct LegendRow {
    title: String,
    keys: Vec<(String, Key)>,
}

#[derive(Clone, Copy)]
enum Key {
    Colour(usize),
    Line(usize),
    Both(usize),
}

impl Legend {
    pub(super) fn of(sweep: &SweepSpec, summary: &Summary) -> Self {
        let variants = || summary.variants.iter().map(|v| &v.variant);
        if sweep.axes.len() < 2 {
            let title = sweep.axes.first().map_or("", |a| a.title).to_owned();
            let keys = variants()
                .enumerate()
                .map(|(i, v)| (v.label.clone(), Key::Both(i)))
                .collect();
            let styles = variants().enumerate().map(|(i, _)| (i, i)).collect();
            return Self {
                rows: vec![LegendRow { title, keys }],
                styles,
            };
        }
        let mut lines: Vec<(&[usize], String)> = Vec::new();
        let mut styles = Vec::new();
        for v in variants() {
            let rest = &v.picks[1..];
            let line = lines
                .iter()
                .position(|(picks, _)| *picks == rest)
                .unwrap_or_else(|| {
                    let labels: Vec<String> = rest
                        .iter()
                        .zip(&sweep.axes[1..])
                        .map(|(&i, a)| a.values[i].label())
                        .collect();
                    lines.push((rest, labels.join(" / ")));
                    lines.len() - 1
                });
            styles.push((v.picks[0], line));
        }
        let titles: Vec<&str> = sweep.axes[1..].iter().map(|a| a.title).collect();
        let colours = sweep.axes[0].values.iter().enumerate();
        let rows = vec![
            LegendRow {
                title: sweep.axes[0].title.to_owned(),
                keys: colours.map(|(i, v)| (v.label(), Key::Colour(i))).collect(),
            },
            LegendRow {
                title: titles.join(", "),
                keys: lines
                    .into_iter()
                    .enumerate()
                    .map(|(i, (_, label))| (label, Key::Line(i)))
                    .collect(),
            },
        ];
        Self { rows, styles }
    }

    pub(super) fn style(&self, variant: usize, theme: Theme) -> Style {
        let (colour, line) = self.styles.get(variant).copied().unwrap_or((0, 0));
        Style {
            colour: paint(colour, theme),
            line,
        }
    }

    /// How far to the side a variant is drawn, so that colours with the same values all show.
    pub(super) fn dodge(&self, variant: usize) -> f64 {
        let colours = self
            .styles
            .iter()
            .map(|(c, _)| c + 1)
            .max()
            .unwrap_or(1)
            .min(7) as f64;
        let (colour, _) = self.styles.get(variant).copied().unwrap_or((0, 0));
        ((colour % 7) as f64 - (colours - 1.0) / 2.0) * (9.0 / colours).min(3.0)
    }

    /// Draw below `top`; the height taken. Keys flow into as many lines as they need.
    pub(super) fn draw(&self, b: &mut String, top: f64, inks: Inks) -> f64 {
        const INDENT: f64 = 160.0;
        let Inks { ink, faint, .. } = inks;
        let mut y = top + 16.0;
        for row in &self.rows {
            let indent = if row.title.is_empty() { LEFT } else { INDENT };
            if !row.title.is_empty() {
                let _ = writeln!(
                    b,
                    r#"<text x="{x}" y="{ty}" text-anchor="end" font-size="13" fill="{faint}">{}</text>"#,
                    escape(&row.title),
                    x = INDENT - 14.0,
                    ty = y + 4.5,
                );
            }
            let mut x = indent;
            let natural = |label: &str| 38.0 + label.chars().count() as f64 * 7.4 + 16.0;
            for (column, (label, key)) in row.keys.iter().enumerate() {
                // Keys of the rows stand below each other where the widest still fits.
                let widest = self
                    .rows
                    .iter()
                    .filter_map(|r| r.keys.get(column).map(|k| natural(&k.0)))
                    .fold(0.0, f64::max);
                let fits = indent + widest * row.keys.len() as f64 <= WIDTH;
                let width = if fits { widest } else { natural(label) };
                if x > indent && x + width - 16.0 > WIDTH - 4.0 {
                    x = indent;
                    y += 22.0;
                }
                let _ = write!(
                    b,
                    r#"<g class="key" data-variants="{}">"#,
                    self.members(*key)
                );
                self.key(b, *key, x, y, inks);
                let _ = writeln!(
                    b,
                    r#"<text x="{tx:.1}" y="{ty:.1}" fill="{ink}">{}</text></g>"#,
                    escape(label),
                    tx = x + 38.0,
                    ty = y + 5.0,
                );
                x += width;
            }
            y += 25.0;
        }
        y - top
    }

    /// The variants that a key stands for, for the page's script.
    fn members(&self, key: Key) -> String {
        let hits = self
            .styles
            .iter()
            .enumerate()
            .filter(|(_, (colour, line))| match key {
                Key::Colour(i) => *colour == i,
                Key::Line(i) | Key::Both(i) => *line == i,
            });
        hits.map(|(v, _)| v.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn key(&self, b: &mut String, key: Key, x: f64, y: f64, inks: Inks) {
        let (colour, line) = match key {
            Key::Colour(i) => {
                let colour = paint(i, inks.theme);
                let _ = write!(
                    b,
                    r#"<rect x="{x:.1}" y="{ry:.1}" width="30" height="8" rx="2" fill="{colour}"/>"#,
                    ry = y - 4.0
                );
                return;
            }
            Key::Line(i) => (inks.ink.to_owned(), i),
            Key::Both(i) => (paint(i, inks.theme), i),
        };
        let _ = write!(
            b,
            r#"<path d="M{x:.1} {y:.1}h30" stroke="{colour}" stroke-width="2" fill="none"{}/>"#,
            dash(line)
        );
        marker(b, line, x + 15.0, y, &colour, inks.paper);
    }
}
