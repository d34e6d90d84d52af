//! What all pictures share: theme, colours, dashes, markers, and text in SVG.

use std::fmt::Write;

/// Who draws the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Fixed colours on white: a file of its own.
    Paper,
    /// CSS variables of the page around it: `--ink`, `--faint`, `--grid`, `--paper`, `--s0`...
    Page,
}

/// The palette of Okabe and Ito (2008), told apart with any colour vision; yellow left out, for
/// it vanishes on white.
pub const PALETTE: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
];

/// Of every text.
pub(crate) const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', sans-serif";

/// Dashes and gaps; the first line is unbroken.
pub(crate) const DASHES: [&str; 7] = ["", "7 4", "2 3.5", "10 3 2 3", "1 5", "12 4", "9 3 2 3 2 3"];

/// The colours of everything but the lines.
#[derive(Clone, Copy)]
pub(crate) struct Inks {
    pub(crate) theme: Theme,
    pub(crate) ink: &'static str,
    pub(crate) faint: &'static str,
    pub(crate) grid: &'static str,
    pub(crate) paper: &'static str,
}

impl Inks {
    pub(crate) const fn of(theme: Theme) -> Self {
        let (ink, faint, grid, paper) = match theme {
            Theme::Paper => ("#1a1a1a", "#5f6368", "#e3e5e8", "#ffffff"),
            Theme::Page => ("var(--ink)", "var(--faint)", "var(--grid)", "var(--paper)"),
        };
        Self {
            theme,
            ink,
            faint,
            grid,
            paper,
        }
    }
}

/// The colour of number `index`.
pub(crate) fn paint(index: usize, theme: Theme) -> String {
    let i = index % PALETTE.len();
    match theme {
        Theme::Paper => PALETTE[i].to_owned(),
        Theme::Page => format!("var(--s{i})"),
    }
}

/// The attribute of dash number `line`; the first is an unbroken line.
pub(crate) fn dash(line: usize) -> String {
    match DASHES[line % DASHES.len()] {
        "" => String::new(),
        d => format!(r#" stroke-dasharray="{d}""#),
    }
}

/// The outline of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
}

impl Shape {
    pub(crate) const ALL: [Self; 5] = [
        Self::Circle,
        Self::Square,
        Self::Up,
        Self::Diamond,
        Self::Down,
    ];

    /// At `x`, `y`, in `size` times its usual size; with the attributes `paint`.
    pub(crate) fn draw(self, b: &mut String, x: f64, y: f64, size: f64, paint: &str) {
        let n = |v: f64| Short(v * size);
        let _ = match self {
            Self::Circle => {
                write!(
                    b,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="{}" {paint}/>"#,
                    n(4.3)
                )
            }
            Self::Square => {
                let (l, t, w) = (x - 3.7 * size, y - 3.7 * size, n(7.4));
                write!(
                    b,
                    r#"<rect x="{l:.1}" y="{t:.1}" width="{w}" height="{w}" {paint}/>"#
                )
            }
            Self::Up => {
                let (t, w, h, back) = (y - 5.0 * size, n(5.0), n(8.6), n(10.0));
                write!(b, r#"<path d="M{x:.1} {t:.1}l{w} {h}h-{back}z" {paint}/>"#)
            }
            Self::Diamond => {
                let (t, w) = (y - 5.2 * size, n(5.2));
                write!(
                    b,
                    r#"<path d="M{x:.1} {t:.1}l{w} {w}l-{w} {w}l-{w} -{w}z" {paint}/>"#
                )
            }
            Self::Down => {
                let (t, w, h, back) = (y + 5.0 * size, n(5.0), n(8.6), n(10.0));
                write!(b, r#"<path d="M{x:.1} {t:.1}l{w} -{h}h-{back}z" {paint}/>"#)
            }
        };
    }
}

/// At most one digit after the point, none if it is zero.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rounded = (self.0 * 10.0).round() / 10.0;
        write!(f, "{rounded}")
    }
}

/// Attributes of a marker that is full of `colour`, with a thin edge so that neighbours part.
pub(crate) fn filled(colour: &str, paper: &str) -> String {
    format!(r#"fill="{colour}" stroke="{paper}" stroke-width="0.8""#)
}

/// Attributes of a marker that is an outline.
pub(crate) fn hollow(colour: &str, paper: &str) -> String {
    format!(r#"fill="{paper}" stroke="{colour}" stroke-width="1.7""#)
}

/// For text and attribute values in SVG and HTML. What XML cannot hold becomes a space.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// About how wide a text is, in the metrics of Helvetica.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.26,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '[' | ']' | '/' | '-' => 0.32,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.86,
        '0'..='9' | 'a'..='z' => 0.55,
        '=' | '+' | '<' | '>' | '×' | '±' | '−' => 0.6,
        c if c as u32 > 0x2e80 => 1.0,
        _ => 0.69,
    };
    text.chars().map(em).sum::<f64>() * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(
            escape("a<b> & \"c\" 'd'\u{1}"),
            "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39; "
        );
    }

    #[test]
    fn widths_are_those_of_helvetica_within_a_tenth() {
        // From the font's table of widths, in thousandths of its size.
        for (text, units) in [
            ("Goodput (Mb/s)", 6_947.0),
            ("Number of servers", 8_224.0),
            ("1000", 2_224.0),
        ] {
            let width = text_width(text, 1_000.0);
            assert!((width / units - 1.0).abs() < 0.1, "{text}: {width}");
        }
    }

    #[test]
    fn markers_have_no_long_numbers() {
        for shape in Shape::ALL {
            let mut b = String::new();
            shape.draw(&mut b, 1.0 / 3.0, 2.0 / 3.0, 1.1, "fill=\"red\"");
            assert!(b.len() < 90, "{b}");
        }
    }
}
