//! The key below a chart.

use super::area::{KEY_FONT, WIDTH};
use super::data::{Draw, Role, Series};
use super::ink::{Inks, Shape, Theme, escape, text_width};
use super::lines::{DASHED, Look};
use std::fmt::Write;

/// Length of the piece of line in a key.
const SAMPLE: f64 = 30.0;
const GAP: f64 = 7.0;
const BETWEEN: f64 = 20.0;
const LINE: f64 = 22.0;

struct Entry {
    name: String,
    draw: Draw,
    look: Look,
    band: bool,
}

/// The entries: one for each series that has a name. Where ours and the reference of a group have
/// the same name, they share one, and two more say which is which.
fn entries(series: &[Series], looks: &[Look], inks: Inks) -> Vec<Entry> {
    let ours = |s: &Series| {
        let same = |o: &&Series| o.role == Role::Ours && o.group == s.group && o.name == s.name;
        series.iter().find(same)
    };
    let mut entries: Vec<Entry> = Vec::new();
    let mut shared: Option<(Entry, Draw)> = None;
    for (s, look) in series.iter().zip(looks) {
        let same = |e: &Entry| e.name == s.name && e.look.colour == look.colour;
        let there = entries.iter().any(|e| same(e) && e.look.role == s.role);
        if s.name.is_empty() || there {
            continue;
        }
        let entry = Entry {
            name: s.name.clone(),
            draw: s.draw,
            look: look.clone(),
            band: !s.spread.is_empty() && matches!(s.draw, Draw::Line | Draw::Steps),
        };
        match ours(s).filter(|_| s.role == Role::Reference) {
            Some(ours) => shared = Some((entry, ours.draw)),
            None => entries.push(entry),
        }
    }
    if let Some((mut reference, draw)) = shared {
        reference.name = "reference".to_owned();
        reference.look.colour = inks.faint.to_owned();
        reference.look.shape = Shape::Circle;
        if !matches!(draw, Draw::Line | Draw::Steps) {
            reference.look.stroke = DASHED.to_owned();
        }
        reference.band = false;
        entries.push(Entry {
            name: "narrows".to_owned(),
            draw,
            look: Look {
                role: Role::Ours,
                stroke: r#" stroke-width="2""#.to_owned(),
                ..reference.look.clone()
            },
            band: false,
        });
        entries.push(reference);
    }
    entries
}

/// Draw the key below `top`, from `left` on; the height taken.
pub(super) fn draw(
    b: &mut String,
    series: &[Series],
    looks: &[Look],
    (left, top): (f64, f64),
    inks: Inks,
) -> f64 {
    let entries = entries(series, looks, inks);
    if entries.is_empty() {
        return 0.0;
    }
    let room = WIDTH - 4.0;
    let wide = |e: &Entry| SAMPLE + GAP + text_width(&e.name, KEY_FONT);
    let widest = entries.iter().map(wide).fold(0.0, f64::max);
    // From the left edge of the picture if the columns need it.
    let columns_from = |left: f64| ((room - left + BETWEEN) / (widest + BETWEEN)) as usize;
    let left = if columns_from(left) >= entries.len().min(2) {
        left
    } else {
        8.0
    };
    let columns = columns_from(left).clamp(1, entries.len());
    // Rows of about equal length.
    let rows = entries.len().div_ceil(columns);
    for (i, e) in entries.iter().enumerate() {
        // Down the columns, so that neighbours of the list are neighbours here.
        let (column, row) = (i / rows, i % rows);
        let x = left + column as f64 * (widest + BETWEEN);
        let y = top + 12.0 + row as f64 * LINE;
        let (begin, end) = group(&[e.name.as_str()], inks);
        b.push_str(&begin);
        sample(b, e, x, y, inks);
        let tx = x + SAMPLE + GAP;
        let squeeze = if tx + text_width(&e.name, KEY_FONT) > WIDTH {
            format!(
                r#" textLength="{:.0}" lengthAdjust="spacingAndGlyphs""#,
                room - tx
            )
        } else {
            String::new()
        };
        let _ = writeln!(
            b,
            r#"<text x="{tx:.1}" y="{:.1}" font-size="{KEY_FONT}" fill="{}"{squeeze}>{}</text>{end}"#,
            y + 4.8,
            inks.ink,
            escape(&e.name)
        );
    }
    rows as f64 * LINE + 4.0
}

/// Around a key of the series with these names, for the script of a page: what begins it, and what
/// ends it.
pub(super) fn group(names: &[&str], inks: Inks) -> (String, &'static str) {
    if inks.theme == Theme::Paper {
        return (String::new(), "");
    }
    let names = serde_json::json!(names).to_string();
    let begin = format!(r#"<g class="key" data-names="{}">"#, escape(&names));
    (begin, "</g>")
}

fn sample(b: &mut String, e: &Entry, x: f64, y: f64, inks: Inks) {
    let Look { colour, stroke, .. } = &e.look;
    if e.band {
        let _ = write!(
            b,
            r#"<rect x="{x:.1}" y="{:.1}" width="{SAMPLE}" height="11" fill="{colour}" fill-opacity="0.18"/>"#,
            y - 5.5
        );
    }
    if !matches!(e.draw, Draw::Markers | Draw::Dots) {
        let _ = write!(
            b,
            r#"<path d="M{x:.1} {y:.1}h{SAMPLE}" stroke="{colour}"{stroke} fill="none"/>"#
        );
    }
    match e.draw {
        Draw::LineMarkers | Draw::Markers => e.look.marker(b, x + SAMPLE / 2.0, y, inks),
        Draw::Dots if e.look.role == Role::Ours => {
            let _ = write!(
                b,
                r#"<path d="M{:.1} {y:.1}h0m6 0h0m6 0h0" stroke="{colour}" stroke-width="3.4" stroke-linecap="round" fill="none"/>"#,
                x + SAMPLE / 2.0 - 6.0
            );
        }
        Draw::Dots => {
            let _ = write!(
                b,
                r#"<path d="M{:.1} {:.1}l4 4m0 -4l-4 4m8 -4l4 4m0 -4l-4 4" stroke="{colour}" stroke-width="1.3" fill="none"/>"#,
                x + SAMPLE / 2.0 - 6.0,
                y - 2.0
            );
        }
        Draw::Line | Draw::Steps | Draw::Bars => {}
    }
}
