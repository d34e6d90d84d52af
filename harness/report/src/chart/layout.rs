//! The whole picture: axes around, series and rules inside, the key below.

use super::area::{Area, FONT, SMALL, WIDTH};
use super::data::{Axis, Chart, Draw, Key, Role, RuleAt, Scale, Series};
use super::ink::{FONTS, Inks, Theme, escape, text_width};
use super::key;
use super::lines::{Frame, Look};
use super::rows::{self, Rows};
use super::rules::{self, Ground, ROW};
use super::scale::{Label, Place, Tick, Wish, prefixed};
use std::fmt::Write;

/// Height of the part with the data.
const HEIGHT: f64 = 250.0;

impl Chart {
    /// The chart as an SVG document ([`Theme::Paper`]) or as an element of a page
    /// ([`Theme::Page`]).
    ///
    /// Values that a scale cannot show (not finite, or not above zero on a logarithmic one) leave
    /// a gap. Of a long line every column of pixels keeps its extremes.
    pub fn svg(&self, theme: Theme) -> String {
        svg(self, theme)
    }
}

fn svg(chart: &Chart, theme: Theme) -> String {
    let inks = Inks::of(theme);
    let (x, y) = places(chart);
    let (x_factor, x_label) = prefixed(&chart.x, x.ends().1.abs().max(x.ends().0.abs()));
    let (y_factor, y_label) = prefixed(&chart.y, y.ends().1.abs().max(y.ends().0.abs()));
    let x_ticks = match words(&chart.x) {
        words if words.is_empty() => x.ticks(
            if chart.x.scale == Scale::Log10 { 8 } else { 6 },
            &occurring(chart),
            x_factor,
        ),
        words => words,
    };
    let y_ticks = match words(&chart.y) {
        words if words.is_empty() => y.ticks(6, &[], y_factor),
        words => words,
    };

    let widest = y_ticks
        .iter()
        .filter_map(|t| t.label.as_ref())
        .map(width)
        .fold(0.0, f64::max);
    let name = if y_label.is_empty() { 4.0 } else { 26.0 };
    let left = name + widest + 12.0;
    let slant = Slant::of(&x_ticks, chart.x.words.len(), WIDTH - left - 6.0);
    let left = left.max(slant.left);
    let last = x_ticks.iter().rev().find_map(|t| t.label.as_ref());
    let right = 6.0 + last.map_or(0.0, |l| width(l) / 2.0);
    let looks: Vec<Look> = (0..chart.series.len())
        .map(|i| Look::of(&chart.series, i, inks))
        .collect();
    let lay = |right: f64| {
        let mut area = Area {
            left,
            top: 9.0,
            width: WIDTH - left - right,
            height: HEIGHT,
        };
        let x = x.clone().between(area.left, area.right());
        let above = rules::above(chart, &x, area);
        let rows = above.iter().map(|(_, row, _)| row + 1).max().unwrap_or(0);
        area.top += rows as f64 * ROW;
        let y = y.clone().between(area.bottom(), area.top);
        let ground = covered(chart, &looks, &x, &y, area, inks);
        let beside = rules::beside(chart, &y, ground);
        (area, x, y, above, beside)
    };
    let mut laid = lay(right);
    let margin = rules::margin(&laid.4);
    if margin > right {
        // Names have no place inside: the chart makes room, and those that then fit do not need it.
        laid = lay(margin);
    }
    let (area, x, y, above, beside) = laid;

    let mut body = String::new();
    let b = &mut body;
    rules::bands(b, chart, &x, area, inks);
    grid(b, &y_ticks, &y, area, inks);
    rules::lines(b, chart, &x, &y, area, inks);
    series(b, chart, &looks, &x, &y, area, inks);
    axes(b, (&x_ticks, &x, slant), (&y_ticks, &y), area, inks);
    names(b, (&x_label, &y_label), area, slant.height, inks);
    for (middle, row, label) in above {
        let _ = writeln!(
            b,
            r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle" font-size="{SMALL}" fill="{}">{}</text>"#,
            area.top - 7.0 - row as f64 * ROW,
            inks.faint,
            escape(&label)
        );
    }
    rules::draw(b, &beside, area, inks);
    if chart.series.iter().all(|s| s.points.is_empty()) {
        let _ = writeln!(
            b,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="{}">no data</text>"#,
            area.left + area.width / 2.0,
            area.top + area.height / 2.0,
            inks.faint
        );
    }
    let foot = area.bottom() + slant.height + if x_label.is_empty() { 30.0 } else { 52.0 };
    let end = foot
        + match &chart.key {
            Key::Names => key::draw(b, &chart.series, &looks, (area.left, foot), inks),
            Key::Rows(rows) => Rows {
                rows,
                series: &chart.series,
                inks,
            }
            .draw(b, (area.left, foot)),
        };
    // Names stand closer than rows do.
    let end = match &chart.key {
        Key::Names if !chart.notes.is_empty() => end + 8.0,
        _ => end,
    };
    let height = end + rows::notes(b, &chart.notes, end, inks);

    let mut out = String::new();
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" font-family="{FONTS}" font-size="{FONT}" role="img"><title>{}</title>"#,
        escape(&chart.title)
    );
    if theme == Theme::Paper {
        let _ = write!(
            out,
            r#"<rect width="100%" height="100%" fill="{}"/>"#,
            inks.paper
        );
    }
    let _ = write!(out, "\n{body}</svg>\n");
    out
}

/// Ticks at the words of an axis; none if it has numbers.
fn words(axis: &Axis) -> Vec<Tick> {
    let shown = |word: &String| match word.chars().count() {
        n if n > LONGEST_WORD => word.chars().take(LONGEST_WORD - 1).chain(['…']).collect(),
        _ => word.clone(),
    };
    let ticks = axis.words.iter().enumerate().map(|(n, word)| Tick {
        value: n as f64,
        label: Some(Label::Text(shown(word))),
    });
    ticks.collect()
}

/// Longer words at an axis are cut.
const LONGEST_WORD: usize = 24;

/// How the words of the horizontal axis stand: level if they fit, slanted otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Slant {
    on: bool,
    /// How much more room they take below the axis, and at least left of it.
    height: f64,
    left: f64,
}

impl Slant {
    /// Of 30 degrees.
    const SINE: f64 = 0.5;
    const COSINE: f64 = 0.866;

    fn of(ticks: &[Tick], words: usize, room: f64) -> Self {
        let widths: Vec<f64> = ticks
            .iter()
            .filter_map(|t| t.label.as_ref())
            .map(width)
            .collect();
        let widest = widths.iter().copied().fold(0.0, f64::max);
        if words == 0 || widest + 8.0 <= room / words as f64 {
            return Self::default();
        }
        let first = widths.first().copied().unwrap_or(0.0);
        Self {
            on: true,
            height: (widest * Self::SINE - 6.0).max(0.0),
            left: first * Self::COSINE - room / words as f64 / 2.0 + 8.0,
        }
    }
}

/// Both axes over the data and the rules.
fn places(chart: &Chart) -> (Place, Place) {
    let series = || chart.series.iter();
    let markers = series().any(|s| matches!(s.draw, Draw::LineMarkers | Draw::Markers));
    let xs = series().flat_map(|s| s.points.iter().map(|p| p.0));
    let xs = xs.chain(chart.rules.iter().filter_map(|r| match r.at {
        RuleAt::X(v) => Some(v),
        RuleAt::Y(_) => None,
    }));
    let ys = series().flat_map(|s| {
        let spread = s.spread.iter().flat_map(|(a, b)| [*a, *b]);
        s.points.iter().map(|p| p.1).chain(spread)
    });
    let ys = ys.chain(chart.rules.iter().filter_map(|r| match r.at {
        RuleAt::Y(v) => Some(v),
        RuleAt::X(_) => None,
    }));
    let side = if markers { 0.035 } else { 0.0 };
    let wish = |air, zero| Wish { zero, air };
    let x = Place::new(
        &over_words(&chart.x),
        xs,
        wish((side, side), 0.1),
        (0.0, WIDTH),
    );
    let y = Place::new(
        &over_words(&chart.y),
        ys,
        wish((0.05, 0.06), 0.6),
        (0.0, HEIGHT),
    );
    (x, y)
}

/// An axis that has room for each of its words, if it has any.
fn over_words(axis: &Axis) -> Axis {
    match axis.words.len() {
        0 => axis.clone(),
        n => Axis {
            range: Some((-0.5, n as f64 - 0.5)),
            scale: Scale::Linear,
            ..axis.clone()
        },
    }
}

/// The x values of the data, ascending, each once.
fn occurring(chart: &Chart) -> Vec<f64> {
    let points = chart.series.iter().flat_map(|s| &s.points);
    let mut xs: Vec<f64> = points.map(|p| p.0).filter(|x| x.is_finite()).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs
}

/// What ground the series cover.
fn covered(chart: &Chart, looks: &[Look], x: &Place, y: &Place, area: Area, inks: Inks) -> Ground {
    let frame = Frame {
        x,
        y,
        words: &chart.x.words,
        inks,
        tips: false,
    };
    let mut ground = Ground::new(area);
    for (s, look) in chart.series.iter().zip(looks) {
        for piece in frame.pieces(s, look) {
            match s.draw {
                Draw::Dots | Draw::Markers => piece.iter().for_each(|p| ground.add(&[*p])),
                _ => ground.add(&piece),
            }
        }
    }
    ground
}

/// All series, the reference's below ours.
fn series(
    b: &mut String,
    chart: &Chart,
    looks: &[Look],
    x: &Place,
    y: &Place,
    area: Area,
    inks: Inks,
) {
    let frame = Frame {
        x,
        y,
        words: &chart.x.words,
        inks,
        tips: inks.theme == Theme::Page,
    };
    let by_role = |role| {
        let pairs = chart.series.iter().zip(looks);
        pairs.filter(move |(s, _)| s.role == role)
    };
    let all = || by_role(Role::Reference).chain(by_role(Role::Ours));
    // A picture in the picture, because it clips what lies outside without needing a name.
    let (l, t, w, h) = (
        area.left - 1.0,
        area.top - 1.0,
        area.width + 2.0,
        area.height + 2.0,
    );
    let _ = writeln!(
        b,
        r#"<svg x="{l:.1}" y="{t:.1}" width="{w:.1}" height="{h:.1}" viewBox="{l:.1} {t:.1} {w:.1} {h:.1}">"#
    );
    for (s, look) in all() {
        let (begin, end) = group(s, inks);
        b.push_str(&begin);
        frame.line(b, s, look);
        b.push_str(end);
    }
    b.push_str("</svg>\n");
    let drawn: Vec<_> = all().collect();
    for (i, (s, look)) in drawn.iter().enumerate() {
        let over: Vec<_> = drawn[i + 1..].iter().map(|(s, _)| *s).collect();
        let (begin, end) = group(s, inks);
        b.push_str(&begin);
        frame.markers(b, s, look, &over);
        b.push_str(end);
    }
}

/// Around what is drawn of a series, for the script of a page: what begins it, and what ends it.
fn group(series: &Series, inks: Inks) -> (String, &'static str) {
    if inks.theme == Theme::Paper {
        return (String::new(), "");
    }
    let name = escape(&series.name);
    (
        format!(r#"<g class="series" data-name="{name}">"#),
        "</g>\n",
    )
}

fn grid(b: &mut String, ticks: &[Tick], y: &Place, area: Area, inks: Inks) {
    let mut d = String::new();
    for t in ticks.iter().filter(|t| t.label.is_some()) {
        if let Some(at) = y.at(t.value).filter(|at| *at < area.bottom() - 0.5) {
            let _ = write!(d, "M{:.1} {at:.1}H{:.1}", area.left, area.right());
        }
    }
    if !d.is_empty() {
        let _ = writeln!(b, r#"<path d="{d}" stroke="{}" fill="none"/>"#, inks.grid);
    }
}

fn axes(
    b: &mut String,
    (x_ticks, x, slant): (&[Tick], &Place, Slant),
    (y_ticks, y): (&[Tick], &Place),
    area: Area,
    inks: Inks,
) {
    let (left, bottom) = (area.left, area.bottom());
    let mut d = format!("M{left:.1} {:.1}V{bottom:.1}H{:.1}", area.top, area.right());
    let mut labels = String::new();
    let mut last = f64::NEG_INFINITY;
    for t in x_ticks {
        let Some(at) = x.at(t.value) else { continue };
        let label = t
            .label
            .as_ref()
            .filter(|l| slant.on || at - width(l) / 2.0 > last + 5.0);
        let length = if label.is_some() { 6.0 } else { 3.5 };
        let _ = write!(d, "M{at:.1} {bottom:.1}v{length}");
        if let Some(label) = label {
            last = at + width(label) / 2.0;
            if slant.on {
                slanted(&mut labels, label, (at + 4.0, bottom + 18.0), inks);
            } else {
                text(&mut labels, label, (at, bottom + 21.0), "middle", inks);
            }
        }
    }
    let mut last = f64::INFINITY;
    for t in y_ticks {
        let Some(at) = y.at(t.value) else { continue };
        let label = t.label.as_ref().filter(|_| at + FONT < last);
        let length = if label.is_some() { 6.0 } else { 3.5 };
        let _ = write!(d, "M{left:.1} {at:.1}h-{length}");
        if let Some(label) = label {
            last = at;
            text(&mut labels, label, (left - 9.0, at + 5.2), "end", inks);
        }
    }
    let _ = writeln!(
        b,
        r#"<path d="{d}" stroke="{}" fill="none"/>{labels}"#,
        inks.ink
    );
}

/// A word that ends at a place, from below.
fn slanted(b: &mut String, label: &Label, (x, y): (f64, f64), inks: Inks) {
    let Label::Text(word) = label else { return };
    let _ = write!(
        b,
        r#"<text transform="translate({x:.1} {y:.1}) rotate(-30)" text-anchor="end" fill="{}">{}</text>"#,
        inks.ink,
        escape(word)
    );
}

fn text(b: &mut String, label: &Label, (x, y): (f64, f64), anchor: &str, inks: Inks) {
    let inner = match label {
        Label::Text(t) => escape(t),
        Label::Power(e) => format!(
            r#"10<tspan dy="-5.5" font-size="11">{}</tspan>"#,
            e.to_string().replace('-', "−")
        ),
    };
    let _ = write!(
        b,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{}">{inner}</text>"#,
        inks.ink
    );
}

fn names(b: &mut String, (x, y): (&str, &str), area: Area, lower: f64, inks: Inks) {
    let middle = area.top + area.height / 2.0;
    if !x.is_empty() {
        let _ = writeln!(
            b,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="{}">{}</text>"#,
            area.left + area.width / 2.0,
            area.bottom() + 41.0 + lower,
            inks.ink,
            escape(x)
        );
    }
    if !y.is_empty() {
        let _ = writeln!(
            b,
            r#"<text transform="translate(17 {middle:.1}) rotate(-90)" text-anchor="middle" fill="{}">{}</text>"#,
            inks.ink,
            escape(y)
        );
    }
}

fn width(label: &Label) -> f64 {
    match label {
        Label::Text(t) => text_width(t, FONT),
        Label::Power(e) => text_width("10", FONT) + text_width(&e.to_string(), 11.0),
    }
}
