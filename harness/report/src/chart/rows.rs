//! The key below a chart of variants: rows of what colours, dashes and markers stand for.

use super::area::{KEY_FONT, WIDTH};
use super::data::{Draw, KeyRow, Series, Stands, Style};
use super::ink::{DASHES, Inks, escape, paint, text_width};
use super::key::group;
use super::lines::Look;
use std::fmt::Write;

/// Where labels begin that stand beside the title of their row.
const INDENT: f64 = 150.0;
/// Where they begin that stand below it, or have none.
const MARGIN: f64 = 8.0;
/// From the end of a key's piece of line to its label.
const GAP: f64 = 7.0;
const TITLE_FONT: f64 = 13.0;
/// No text goes beyond this.
const EDGE: f64 = WIDTH - 4.0;

/// A key to draw.
pub(super) struct Rows<'a> {
    pub(super) rows: &'a [KeyRow],
    pub(super) series: &'a [Series],
    pub(super) inks: Inks,
}

impl Rows<'_> {
    /// Draw below `top`; the height taken. Keys flow into as many lines as they need.
    pub(super) fn draw(&self, b: &mut String, (left, top): (f64, f64)) -> f64 {
        let Inks { ink, faint, .. } = self.inks;
        let sample = self.sample();
        let natural = |label: &str| sample + GAP + text_width(label, KEY_FONT) + 16.0;
        let mut y = top + 12.0;
        for row in self.rows {
            let indent = match row.layout(sample + GAP, left) {
                Layout::Bare => left,
                Layout::Beside => {
                    let _ = writeln!(
                        b,
                        r#"<text x="{x}" y="{ty:.1}" text-anchor="end" font-size="{TITLE_FONT}" fill="{faint}">{}</text>"#,
                        escape(&row.title),
                        x = INDENT - 14.0,
                        ty = y + 4.5,
                    );
                    INDENT
                }
                Layout::Below => {
                    for line in wrapped(&row.title, ", ", EDGE - MARGIN, TITLE_FONT) {
                        let _ = writeln!(
                            b,
                            r#"<text x="{MARGIN}" y="{ty:.1}" font-size="{TITLE_FONT}" fill="{faint}">{}</text>"#,
                            escape(&line),
                            ty = y + 4.5,
                        );
                        y += 20.0;
                    }
                    MARGIN
                }
            };
            let mut x = indent;
            // Many keys stand in columns.
            let most = row.keys.iter().map(|(label, _)| natural(label));
            let most = most.fold(0.0, f64::max);
            for (column, (label, key)) in row.keys.iter().enumerate() {
                // Keys of the rows stand below each other where the widest still fits.
                let below = self.rows.iter().filter_map(|r| r.keys.get(column));
                let widest = below.map(|(label, _)| natural(label)).fold(0.0, f64::max);
                let fits = indent + widest * row.keys.len() as f64 <= WIDTH;
                let width = match () {
                    () if fits => widest,
                    () if row.keys.len() > DASHES.len() => most,
                    () => natural(label),
                };
                let drawn = sample + GAP + text_width(label, KEY_FONT);
                if x > indent && x + drawn.max(width - 16.0) > EDGE {
                    x = indent;
                    y += 22.0;
                }
                let (begin, end) = group(&self.members(*key), self.inks);
                b.push_str(&begin);
                self.key(b, *key, x, y);
                let lines = wrapped(label, " / ", EDGE - x - sample - GAP, KEY_FONT);
                for (i, line) in lines.iter().enumerate() {
                    y += if i == 0 { 0.0 } else { 18.0 };
                    let _ = write!(
                        b,
                        r#"<text x="{tx:.1}" y="{ty:.1}" font-size="{KEY_FONT}" fill="{ink}">{}</text>"#,
                        escape(line),
                        tx = x + sample + GAP,
                        ty = y + 5.0,
                    );
                }
                b.push_str(end);
                b.push('\n');
                // Nothing stands beside what takes several lines.
                x = if lines.len() > 1 { WIDTH } else { x + width };
            }
            y += 24.0;
        }
        y - top
    }

    /// The looks of the series, by number: colour and line.
    fn looks(&self) -> impl Iterator<Item = (usize, usize)> {
        self.series.iter().map(|s| match s.style {
            Style::Variant { colour, line } => (colour, line),
            Style::Group => (s.group, 0),
        })
    }

    /// How long the piece of line in a key is: where markers come with several dashes, the dash has
    /// to show on both sides of the marker.
    fn sample(&self) -> f64 {
        if self.looks().all(|(_, line)| line < DASHES.len()) {
            30.0
        } else {
            46.0
        }
    }

    /// The names of the series that a key stands for.
    fn members(&self, key: Stands) -> Vec<&str> {
        let looks = self.series.iter().zip(self.looks()).enumerate();
        let hits = looks.filter(|(number, (_, (colour, line)))| match key {
            Stands::Colour(i) => *colour == i,
            Stands::Line(i) => *line == i,
            Stands::Series(i) => *number == i,
        });
        hits.map(|(_, (series, _))| series.name.as_str()).collect()
    }

    fn key(&self, b: &mut String, key: Stands, x: f64, y: f64) {
        let sample = self.sample();
        let look = match key {
            Stands::Colour(i) => {
                let colour = paint(i, self.inks.theme);
                let _ = write!(
                    b,
                    r#"<rect x="{x:.1}" y="{ry:.1}" width="{sample}" height="8" rx="2" fill="{colour}"/>"#,
                    ry = y - 4.0
                );
                return;
            }
            Stands::Line(i) => Look {
                colour: self.inks.ink.to_owned(),
                ..Look::of_variant((0, i), 0.0, self.inks)
            },
            Stands::Series(i) => {
                let look = self.looks().nth(i).unwrap_or((0, 0));
                Look::of_variant(look, 0.0, self.inks)
            }
        };
        let _ = write!(
            b,
            r#"<path d="M{x:.1} {y:.1}h{sample}" stroke="{}"{} fill="none"/>"#,
            look.colour, look.stroke
        );
        let marked = |s: &Series| matches!(s.draw, Draw::LineMarkers | Draw::Markers);
        let marked = match key {
            Stands::Series(i) => self.series.get(i).is_some_and(marked),
            Stands::Colour(_) | Stands::Line(_) => self.series.iter().any(marked),
        };
        if marked {
            look.marker(b, x + sample / 2.0, y, self.inks);
        }
    }
}

/// Where the title of a row and its keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// There is no title.
    Bare,
    /// The keys beside the title.
    Beside,
    /// The keys below the title, for one of both is long.
    Below,
}

impl KeyRow {
    /// `before`: what stands before a label.
    fn layout(&self, before: f64, left: f64) -> Layout {
        let widest = |room: f64| {
            let mut labels = self
                .keys
                .iter()
                .map(|(label, _)| text_width(label, KEY_FONT));
            labels.all(|width| width <= room)
        };
        if self.title.is_empty() && widest(EDGE - left - before) {
            Layout::Bare
        } else if text_width(&self.title, TITLE_FONT) <= INDENT - 14.0
            && widest(EDGE - INDENT - before)
        {
            Layout::Beside
        } else {
            Layout::Below
        }
    }
}

/// Draw what is to be said below a key that ends at `top`; the height taken.
pub(super) fn notes(b: &mut String, notes: &[String], top: f64, inks: Inks) -> f64 {
    let mut y = top;
    for line in wrapped(&notes.join(" "), " ", EDGE - MARGIN, TITLE_FONT) {
        let _ = writeln!(
            b,
            r#"<text x="{MARGIN}" y="{ty:.1}" font-size="{TITLE_FONT}" fill="{}">{}</text>"#,
            inks.ink,
            escape(&line),
            ty = y + 4.5,
        );
        y += 20.0;
    }
    y - top
}

/// The lines of `text` in `room`: broken after `between` where that is enough, and anywhere
/// where it is not.
fn wrapped(text: &str, between: &str, room: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for part in text.split_inclusive(between) {
        let fits = |text: &str| text_width(text.trim_end(), size) <= room;
        if !line.is_empty() && !fits(&format!("{line}{part}")) {
            lines.push(std::mem::take(&mut line));
        }
        for c in part.chars() {
            line.push(c);
            if !fits(&line) && line.chars().count() > 1 {
                line.pop();
                lines.push(std::mem::replace(&mut line, c.to_string()));
            }
        }
    }
    lines.push(line);
    lines.retain(|l| !l.trim().is_empty());
    lines.iter().map(|l| l.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_break_between_values_and_in_them_only_if_they_must() {
        assert_eq!(
            wrapped("linux / buffer 32p / off", " / ", 120.0, 14.0),
            ["linux / buffer 32p /", "off"]
        );
        assert_eq!(wrapped("abc", " / ", 1.0, 14.0), ["a", "b", "c"]);
        assert_eq!(wrapped("", " / ", 100.0, 14.0), [""; 0]);
    }
}
