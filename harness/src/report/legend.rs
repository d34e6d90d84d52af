//! The key below a plot, and which colour, dash and marker each variant has.

use super::chart::ink::{DASHES, Inks, dash, escape, paint, text_width};
use super::chart::{PALETTE, Theme};
use super::plot::{FONT, LEFT, LINES, Style, WIDTH, line_look, marker};
use super::summary::Summary;
use crate::scenario::{Axis, SweepSpec};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Rows of keys: colours for the first axis, dashes and markers for all others together; with
/// one axis, or more values than there are colours or lines, both for the same.
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
    /// Of the variant with this number.
    Both(usize),
}

/// Where labels begin that stand beside the title of their row.
const INDENT: f64 = 160.0;
/// Where they begin that stand below it, or have none.
const MARGIN: f64 = 12.0;
/// From the end of a key's piece of line to its label.
const GAP: f64 = 8.0;
const TITLE_FONT: f64 = 13.0;
/// No text goes beyond this.
const EDGE: f64 = WIDTH - 4.0;

impl Legend {
    pub(super) fn of(sweep: &SweepSpec, summary: &Summary) -> Self {
        if sweep.axes.len() < 2 {
            let title = sweep.axes.first().map_or("", |a| a.title);
            return Self::of_variants(title, summary, |i| (i, i));
        }
        let mut lines: Vec<(&[usize], String)> = Vec::new();
        let mut styles = Vec::new();
        for v in summary.variants.iter().map(|v| &v.variant) {
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
        let titles = |axes: &[Axis]| {
            let titles: Vec<&str> = axes.iter().map(|a| a.title).collect();
            titles.join(", ")
        };
        if sweep.axes[0].values.len() > PALETTE.len() || lines.len() > LINES {
            let all = titles(&sweep.axes);
            // Colours first: they are told apart best.
            return Self::of_variants(&all, summary, |i| (i % PALETTE.len(), i / PALETTE.len()));
        }
        let colours = sweep.axes[0].values.iter().enumerate();
        let rows = vec![
            LegendRow {
                title: sweep.axes[0].title.to_owned(),
                keys: colours.map(|(i, v)| (v.label(), Key::Colour(i))).collect(),
            },
            LegendRow {
                title: titles(&sweep.axes[1..]),
                keys: lines
                    .into_iter()
                    .enumerate()
                    .map(|(i, (_, label))| (label, Key::Line(i)))
                    .collect(),
            },
        ];
        Self { rows, styles }
    }

    /// A key for each variant.
    fn of_variants(
        title: &str,
        summary: &Summary,
        style: impl Fn(usize) -> (usize, usize),
    ) -> Self {
        let keys = summary.variants.iter().enumerate();
        let keys = keys.map(|(i, v)| (v.variant.label.clone(), Key::Both(i)));
        Self {
            rows: vec![LegendRow {
                title: title.to_owned(),
                keys: keys.collect(),
            }],
            styles: (0..summary.variants.len()).map(style).collect(),
        }
    }

    /// How long the piece of line in a key is: where markers come with several dashes, the dash has
    /// to show on both sides of the marker.
    fn sample(&self) -> f64 {
        if self.styles.iter().all(|(_, line)| *line < DASHES.len()) {
            30.0
        } else {
            46.0
        }
    }

    /// What is to be said where variants look the same after all.
    fn caveat(&self) -> Option<String> {
        let look = |(colour, line): &(usize, usize)| (colour % PALETTE.len(), line_look(*line));
        let looks: BTreeSet<_> = self.styles.iter().map(look).collect();
        let (all, looks) = (self.styles.len(), looks.len());
        (looks < all).then(|| {
            format!(
                "{all} variants, of which only {looks} can be drawn differently: \
                 sweep fewer values at once to tell them apart."
            )
        })
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
        let Inks { ink, faint, .. } = inks;
        let sample = self.sample();
        let natural = |label: &str| sample + GAP + label.chars().count() as f64 * 7.4 + 16.0;
        let mut y = top + 16.0;
        for row in &self.rows {
            let indent = match row.layout(sample + GAP) {
                Layout::Bare => LEFT,
                Layout::Beside => {
                    let _ = writeln!(
                        b,
                        r#"<text x="{x}" y="{ty}" text-anchor="end" font-size="{TITLE_FONT}" fill="{faint}">{}</text>"#,
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
                            r#"<text x="{MARGIN}" y="{ty}" font-size="{TITLE_FONT}" fill="{faint}">{}</text>"#,
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
                let widest = self
                    .rows
                    .iter()
                    .filter_map(|r| r.keys.get(column).map(|k| natural(&k.0)))
                    .fold(0.0, f64::max);
                let fits = indent + widest * row.keys.len() as f64 <= WIDTH;
                let width = match () {
                    () if fits => widest,
                    () if row.keys.len() > DASHES.len() => most,
                    () => natural(label),
                };
                let drawn = sample + GAP + text_width(label, FONT);
                if x > indent && x + drawn.max(width - 16.0) > EDGE {
                    x = indent;
                    y += 22.0;
                }
                let _ = write!(
                    b,
                    r#"<g class="key" data-variants="{}">"#,
                    self.members(*key)
                );
                self.key(b, *key, x, y, inks);
                let lines = wrapped(label, " / ", EDGE - x - sample - GAP, FONT);
                for (i, line) in lines.iter().enumerate() {
                    y += if i == 0 { 0.0 } else { 18.0 };
                    let _ = write!(
                        b,
                        r#"<text x="{tx:.1}" y="{ty:.1}" fill="{ink}">{}</text>"#,
                        escape(line),
                        tx = x + sample + GAP,
                        ty = y + 5.0,
                    );
                }
                b.push_str("</g>\n");
                // Nothing stands beside what takes several lines.
                x = if lines.len() > 1 { WIDTH } else { x + width };
            }
            y += 25.0;
        }
        if let Some(caveat) = self.caveat() {
            for line in wrapped(&caveat, " ", EDGE - MARGIN, TITLE_FONT) {
                let _ = writeln!(
                    b,
                    r#"<text x="{MARGIN}" y="{ty}" font-size="{TITLE_FONT}" fill="{ink}">{}</text>"#,
                    escape(&line),
                    ty = y + 4.5,
                );
                y += 20.0;
            }
        }
        y - top
    }

    /// The variants that a key stands for, for the page's script.
    fn members(&self, key: Key) -> String {
        let hits = self
            .styles
            .iter()
            .enumerate()
            .filter(|(number, (colour, line))| match key {
                Key::Colour(i) => *colour == i,
                Key::Line(i) => *line == i,
                Key::Both(i) => *number == i,
            });
        hits.map(|(v, _)| v.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn key(&self, b: &mut String, key: Key, x: f64, y: f64, inks: Inks) {
        let sample = self.sample();
        let (colour, line) = match key {
            Key::Colour(i) => {
                let colour = paint(i, inks.theme);
                let _ = write!(
                    b,
                    r#"<rect x="{x:.1}" y="{ry:.1}" width="{sample}" height="8" rx="2" fill="{colour}"/>"#,
                    ry = y - 4.0
                );
                return;
            }
            Key::Line(i) => (inks.ink.to_owned(), i),
            Key::Both(i) => {
                let (colour, line) = self.styles.get(i).copied().unwrap_or((0, 0));
                (paint(colour, inks.theme), line)
            }
        };
        let _ = write!(
            b,
            r#"<path d="M{x:.1} {y:.1}h{sample}" stroke="{colour}" stroke-width="2" fill="none"{}/>"#,
            dash(line_look(line).0)
        );
        marker(b, line, x + sample / 2.0, y, &colour, inks.paper);
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

impl LegendRow {
    /// `before`: what stands before a label.
    fn layout(&self, before: f64) -> Layout {
        let widest = |room: f64| {
            let mut labels = self.keys.iter().map(|(label, _)| text_width(label, FONT));
            labels.all(|width| width <= room)
        };
        if self.title.is_empty() && widest(EDGE - LEFT - before) {
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
    use crate::report::chart::tests::well_formed;
    use crate::report::plot::{Quantity, svg};
    use crate::scenario::spec::{BlockSize, DelayedAck, QueueLimit};
    use crate::scenario::{IncastRun, IncastSpec, Setting};
    use narrows::{ByteCount, Duration, Rate};

    fn sweep(axes: Vec<Vec<Setting>>) -> SweepSpec {
        SweepSpec {
            base: IncastSpec::default(),
            servers: vec![1, 8],
            axes: axes.into_iter().map(Axis::new).collect(),
            repetitions: 1,
        }
    }

    fn drawn(sweep: &SweepSpec) -> (Legend, String) {
        let run = IncastRun {
            goodput: Rate::from_mbps(900),
            ..IncastRun::default()
        };
        let runs = vec![Some(run); sweep.expand().unwrap().len()];
        let summary = Summary::of(sweep, &runs);
        let svg = svg(sweep, &summary, Quantity::Goodput, Theme::Paper);
        well_formed(&svg);
        (Legend::of(sweep, &summary), svg)
    }

    fn names(make: fn(String) -> Setting, names: &[&str]) -> Vec<Setting> {
        names.iter().map(|n| make((*n).to_owned())).collect()
    }

    fn buffers(n: u32) -> Vec<Setting> {
        let packets = (0..n).map(|i| QueueLimit::Packets(32 + i));
        packets.map(Setting::PortBuffer).collect()
    }

    /// Sweeps of all kinds: the default's, more lines, longer labels, many values, one axis.
    fn sweeps() -> Vec<SweepSpec> {
        let cc = || names(Setting::Congestion, &["reno", "cubic", "dctcp"]);
        let rto = || names(Setting::Rto, &["linux", "1ms", "fine"]);
        let size = |kib: u64| ByteCount::new(kib << 10);
        let late = DelayedAck::On {
            segments: 2,
            timeout: Duration::from_millis(40),
        };
        let few: Vec<Vec<Setting>> = vec![
            names(Setting::Congestion, &["reno"]),
            names(Setting::Rto, &["linux", "1ms"]),
            buffers(2),
            vec![
                Setting::Block(BlockSize::Sru(size(64))),
                Setting::Block(BlockSize::Sru(size(256))),
            ],
            vec![
                Setting::DelayedAck(DelayedAck::Off),
                Setting::DelayedAck(late),
            ],
            vec![Setting::InitialWindow(2), Setting::InitialWindow(10)],
        ];
        let mut seven = few.clone();
        seven[0] = names(Setting::Congestion, &["reno", "cubic:beta=717/1024"]);
        seven.push(vec![Setting::Prr(true), Setting::Prr(false)]);
        let long = "x".repeat(150);
        vec![
            sweep(vec![cc(), rto()]),
            sweep(vec![cc(), rto(), buffers(3)]),
            sweep(few),
            sweep(seven),
            sweep(vec![names(
                Setting::Rto,
                &["linux", "1ms", "fine", "bsd", "5ms", "rfc6298", "200us"],
            )]),
            sweep(vec![buffers(9), rto()]),
            sweep(vec![buffers(40)]),
            sweep(vec![cc(), buffers(70)]),
            sweep(vec![cc(), buffers(100)]),
            sweep(vec![names(Setting::Congestion, &[&long, "reno"]), rto()]),
            sweep(vec![rto(), names(Setting::LossDetector, &[&long, "sack"])]),
        ]
    }

    /// A value of an element's attribute.
    fn attribute(element: &str, name: &str) -> Option<f64> {
        let (_, rest) = element.split_once(&format!(r#" {name}=""#))?;
        rest.split_once('"')?.0.parse().ok()
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

    #[test]
    fn no_two_variants_look_the_same() {
        for sweep in sweeps() {
            let (legend, svg) = drawn(&sweep);
            let look = |(colour, line): &(usize, usize)| {
                let mut drawn = dash(line_look(*line).0);
                let colour = paint(*colour, Theme::Paper);
                marker(&mut drawn, *line, 0.0, 0.0, &colour, "white");
                drawn
            };
            let looks: BTreeSet<String> = legend.styles.iter().map(look).collect();
            assert_eq!(looks.len(), legend.styles.len());
            assert!(!svg.contains("can be drawn differently"));
        }
    }

    /// Beyond what can be told apart the picture says that it cannot.
    #[test]
    fn a_picture_of_too_many_lines_says_so() {
        let (legend, svg) = drawn(&sweep(vec![buffers(50), buffers(10)]));
        assert_eq!(legend.styles.len(), 500);
        assert!(svg.contains("500 variants, of which only 490 can be drawn differently"));
    }

    #[test]
    fn no_text_leaves_the_picture_or_lies_on_another() {
        for sweep in sweeps() {
            let (_, svg) = drawn(&sweep);
            let height = attribute(&svg, "height").unwrap();
            // Where the texts of the key are: from, to, baseline.
            let mut texts: Vec<(f64, f64, f64)> = Vec::new();
            for element in svg.split("<text ").skip(1) {
                let (tag, rest) = element.split_once('>').unwrap();
                let text = rest.split_once('<').unwrap().0;
                let tag = format!(" {tag}");
                let (Some(x), Some(y)) = (attribute(&tag, "x"), attribute(&tag, "y")) else {
                    continue;
                };
                let size = attribute(&tag, "font-size").unwrap_or(FONT);
                let width = text_width(text, size);
                let from = match () {
                    () if tag.contains(r#"anchor="end""#) => x - width,
                    () if tag.contains(r#"anchor="middle""#) => x - width / 2.0,
                    () => x,
                };
                assert!(from >= 0.0 && from + width <= WIDTH, "{text}");
                assert!(y <= height - 3.0, "{text}: {y} of {height}");
                if y > 370.0 {
                    texts.push((from, from + width, y));
                }
            }
            assert!(texts.len() >= 4);
            for (i, a) in texts.iter().enumerate() {
                for b in &texts[..i] {
                    let clear = (a.2 - b.2).abs() >= 14.0 || a.0 >= b.1 + 2.0 || b.0 >= a.1 + 2.0;
                    assert!(clear, "{a:?} {b:?}\n{svg}");
                }
            }
        }
    }

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
