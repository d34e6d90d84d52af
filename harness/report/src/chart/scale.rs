//! From values to places on the page, and where the ticks stand.

use super::data::{Axis, Scale};

/// An axis laid over a stretch of the page.
#[derive(Clone, Debug)]
pub(super) struct Place {
    scale: Scale,
    low: f64,
    high: f64,
    /// Where `low` and `high` are, in pixels.
    start: f64,
    end: f64,
}

/// A tick and its label; minor ones have none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: Option<Label>,
}

/// The number at a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Text(String),
    /// A power of ten.
    Power(i32),
}

/// What the data asks of an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Start at zero if the least value is at most this share of the greatest.
    pub(super) zero: f64,
    /// Air at the ends, as a share of the range.
    pub(super) air: (f64, f64),
}

impl Place {
    /// The axis over `values` from pixel `start` to `end`; those that cannot be shown are passed
    /// over.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        wish: Wish,
        (start, end): (f64, f64),
    ) -> Self {
        let scale = axis.scale;
        let shown = values.filter(|v| showable(scale, *v));
        let (mut low, mut high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
            (a.min(v), b.max(v))
        });
        let empty = low > high;
        if empty {
            (low, high) = match scale {
                Scale::Linear => (0.0, 1.0),
                Scale::Log2 | Scale::Log10 => (1.0, 10.0),
            };
        }
        let asked = axis.range.map(|(a, b)| (a.min(b), a.max(b)));
        let asked = asked.filter(|(a, b)| showable(scale, *a) && showable(scale, *b) && a < b);
        if let Some((a, b)) = asked {
            (low, high) = (a, b);
        } else {
            (low, high) = with_air(scale, low, high, wish);
        }
        Self {
            scale,
            low,
            high,
            start,
            end,
        }
    }

    /// The same with other ends on the page.
    pub(super) fn between(self, start: f64, end: f64) -> Self {
        Self { start, end, ..self }
    }

    pub(super) const fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Where `value` is; `None` if it has no place on this scale at all. May lie outside.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        if !showable(self.scale, value) {
            return None;
        }
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log2 | Scale::Log10 => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        // Far outside is as good as further, and coordinates stay short.
        let share = share.clamp(-9.0, 10.0);
        Some(self.start + (self.end - self.start) * share)
    }

    /// Whether `value` lies between the ends, with a hair's breadth.
    pub(super) fn inside(&self, value: f64) -> bool {
        let (a, b) = (self.start.min(self.end), self.start.max(self.end));
        self.at(value)
            .is_some_and(|at| at >= a - 0.05 && at <= b + 0.05)
    }

    /// Ticks for an axis on which about `room` labels fit; `occurring` are the values of the data,
    /// ascending, each once.
    pub(super) fn ticks(&self, room: usize, occurring: &[f64], factor: f64) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => self.linear_ticks(room, factor),
            Scale::Log2 => self.doubling_ticks(occurring),
            Scale::Log10 => self.decade_ticks(room),
        }
    }

    fn linear_ticks(&self, room: usize, factor: f64) -> Vec<Tick> {
        let span = self.high - self.low;
        let raw = span / room.max(2) as f64;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|f| f * power)
            .into_iter()
            .find(|s| *s >= raw * 0.9)
            .unwrap_or(raw);
        let first = (self.low / step - 1e-6).ceil() as i64;
        let last = (self.high / step + 1e-6).floor() as i64;
        let most = (self.low.abs().max(self.high.abs())) / factor;
        (first..=last.min(first.saturating_add(100)))
            .map(|i| {
                let value = i as f64 * step;
                Tick {
                    value,
                    label: Some(Label::Text(number(value / factor, most))),
                }
            })
            .collect()
    }

    /// A tick at each value that occurs, or at each power of two if there are too many.
    fn doubling_ticks(&self, occurring: &[f64]) -> Vec<Tick> {
        let mut values: Vec<f64> = occurring
            .iter()
            .copied()
            .filter(|v| self.inside(*v))
            .collect();
        if values.is_empty() || values.len() > 40 {
            let (a, b) = (
                self.low.log2().ceil() as i32,
                self.high.log2().floor() as i32,
            );
            values = (a..=b).map(|e| 2_f64.powi(e)).collect();
        }
        values
            .into_iter()
            .map(|value| Tick {
                value,
                label: Some(Label::Text(number(value, value))),
            })
            .collect()
    }

    fn decade_ticks(&self, room: usize) -> Vec<Tick> {
        let (low, high) = (self.low.log10(), self.high.log10());
        let span = high - low;
        // Numbers that are read at once, powers of ten beyond them.
        let powers = low < -3.01 || high > 6.01 || span > 5.0;
        let multiples: &[f64] = match span {
            s if powers && s > 1.0 => &[1.0],
            s if s < 0.5 => return self.linear_ticks(room, 1.0),
            s if s <= 1.6 => &[1.0, 2.0, 5.0],
            s if s <= 2.8 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = ((span / room.max(2) as f64).ceil() as i32).max(1);
        let mut ticks = Vec::new();
        for decade in (low.floor() as i32)..=(high.ceil() as i32) {
            for multiple in 1..10 {
                let value = f64::from(multiple) * 10_f64.powi(decade);
                if !self.inside(value) || (multiple > 1 && span > 6.0) {
                    continue;
                }
                let named = multiples.contains(&f64::from(multiple))
                    && (multiple > 1 || decade.rem_euclid(every) == 0);
                let label = named.then(|| {
                    if powers && multiple == 1 {
                        Label::Power(decade)
                    } else {
                        Label::Text(number(value, value))
                    }
                });
                ticks.push(Tick { value, label });
            }
        }
        ticks
    }
}

/// Numbers that no measurement gives are not shown: their labels would be longer than the axis.
fn showable(scale: Scale, value: f64) -> bool {
    value.abs() <= 1e18 && (scale == Scale::Linear || value >= 1e-18)
}

fn with_air(scale: Scale, low: f64, high: f64, wish: Wish) -> (f64, f64) {
    let (below, above) = wish.air;
    if scale != Scale::Linear {
        let (low, high) = if high / low < 1.0001 {
            (low / 2.0, high * 2.0)
        } else {
            (low, high)
        };
        let span = (high / low).ln();
        return (low * (-span * below).exp(), high * (span * above).exp());
    }
    if high - low <= high.abs().max(low.abs()) * 1e-9 {
        // One value: zero below it if it is positive, else a little around it.
        return match low {
            0.0 => (0.0, 1.0),
            v if v > 0.0 && wish.zero > 0.5 => (0.0, v * (1.0 + above)),
            v => (v - v.abs() / 2.0, v + v.abs() / 2.0),
        };
    }
    let zero = low >= 0.0 && low <= wish.zero * high;
    let base = if zero { 0.0 } else { low };
    let span = high - base;
    let keeps_sign = base >= 0.0;
    let bottom = if zero { 0.0 } else { base - span * below };
    let bottom = if keeps_sign { bottom.max(0.0) } else { bottom };
    (bottom, high + span * above)
}

/// The factor that makes values up to `most` readable, and the axis label with its prefix: times
/// in seconds may be shown in milliseconds. Units that have a prefix already keep it.
pub(super) fn prefixed(axis: &Axis, most: f64) -> (f64, String) {
    let keep = (1.0, axis.label.clone());
    if axis.scale != Scale::Linear || most.is_nan() || most <= 0.0 {
        return keep;
    }
    let Some((text, unit)) = axis
        .label
        .strip_suffix(')')
        .and_then(|l| l.rsplit_once('('))
    else {
        return keep;
    };
    let rate_or_time = match unit {
        "s" => &[(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")][..],
        "b/s" | "bit/s" | "B" | "bytes" | "B/s" | "Hz" => {
            &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")][..]
        }
        _ => return keep,
    };
    let (factor, prefix) = rate_or_time
        .iter()
        .find(|(f, _)| most >= *f * 0.999)
        .or(rate_or_time.last())
        .copied()
        .unwrap_or((1.0, ""));
    let unit = if unit == "bytes" && !prefix.is_empty() {
        "B"
    } else {
        unit
    };
    (factor, format!("{text}({prefix}{unit})"))
}

/// As short as it is exact to six digits; `most` is the largest on the axis, so that all its
/// labels have one prefix.
fn number(value: f64, most: f64) -> String {
    let (factor, prefix) = match most.abs() {
        m if m >= 1e9 => (1e9, "G"),
        m if m >= 1e6 => (1e6, "M"),
        m if m >= 1e4 => (1e3, "k"),
        m if m < 1e-6 && m > 0.0 => (1e-9, "n"),
        m if m < 1e-3 && m > 0.0 => (1e-6, "µ"),
        _ => (1.0, ""),
    };
    let scaled = value / factor;
    let digits = if scaled == 0.0 {
        0
    } else {
        (5 - scaled.abs().log10().floor() as i32).clamp(0, 9) as usize
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    match text {
        "0" | "-0" => "0".to_owned(),
        text => format!("{}{prefix}", text.replace('-', "−")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish {
        zero: 0.6,
        air: (0.05, 0.05),
    };

    fn place(scale: Scale, values: &[f64]) -> Place {
        let axis = Axis {
            scale,
            ..Axis::default()
        };
        Place::new(&axis, values.iter().copied(), WISH, (0.0, 100.0))
    }

    fn labels(p: &Place, room: usize, occurring: &[f64]) -> String {
        let ticks = p.ticks(room, occurring, 1.0);
        let texts = ticks.iter().filter_map(|t| match t.label.as_ref()? {
            Label::Text(t) => Some(t.clone()),
            Label::Power(e) => Some(format!("10^{e}")),
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn linear_ticks_are_round() {
        for (values, expected) in [
            (&[0.0, 948.0][..], "0 200 400 600 800"),
            (&[3.0, 7.0], "0 2 4 6"),
            (&[990.0, 1_000.0], "990 992 994 996 998 1000"),
            (&[-5.0, 5.0], "−4 −2 0 2 4"),
            (&[0.0, 48_000.0], "0 10k 20k 30k 40k 50k"),
            (&[0.0, 0.000_4], "0 100µ 200µ 300µ 400µ"),
            (&[0.0, 0.83], "0 0.2 0.4 0.6 0.8"),
            (&[], "0 0.2 0.4 0.6 0.8 1"),
            (&[f64::NAN, f64::INFINITY], "0 0.2 0.4 0.6 0.8 1"),
            (&[0.0], "0 0.2 0.4 0.6 0.8 1"),
        ] {
            let p = place(Scale::Linear, values);
            assert_eq!(labels(&p, 5, &[]), expected, "{values:?}");
        }
    }

    #[test]
    fn logarithmic_ticks() {
        let servers = [1.0, 2.0, 3.0, 48.0];
        assert_eq!(
            labels(&place(Scale::Log2, &servers), 9, &servers),
            "1 2 3 48"
        );
        assert_eq!(labels(&place(Scale::Log2, &[1.0, 9.0]), 9, &[]), "1 2 4 8");
        for (values, expected) in [
            (&[1e-7, 1e-2][..], "10^-7 10^-6 10^-5 10^-4 10^-3 10^-2"),
            (&[1e-8, 1e2], "10^-8 10^-6 10^-4 10^-2 10^0 10^2"),
            (&[0.2, 200.0], "1 10 100"),
            (&[1.0, 20.0], "1 2 5 10 20"),
            (&[1.0, 300.0], "1 3 10 30 100 300"),
            (&[0.0, -1.0, 10.0], "5 10 20"),
        ] {
            let p = place(Scale::Log10, values);
            assert_eq!(labels(&p, 6, &[]), expected, "{values:?}");
        }
    }

    #[test]
    fn a_range_is_kept_and_an_impossible_one_is_not() {
        let of = |scale, range| {
            let axis = Axis {
                scale,
                range: Some(range),
                ..Axis::default()
            };
            Place::new(&axis, [2.0, 4.0].into_iter(), WISH, (0.0, 100.0)).ends()
        };
        assert_eq!(of(Scale::Linear, (1.0, 5.0)), (1.0, 5.0));
        assert_eq!(of(Scale::Linear, (5.0, 1.0)), (1.0, 5.0));
        assert_eq!(of(Scale::Linear, (1.0, 1.0)), (0.0, 4.2));
        assert_eq!(of(Scale::Linear, (f64::NAN, 1.0)), (0.0, 4.2));
        let (low, high) = of(Scale::Log10, (0.0, 5.0));
        assert!(low > 1.5 && high < 4.5, "{low} {high}");
    }

    #[test]
    fn places() {
        let p = place(Scale::Linear, &[0.0, 100.0]).between(200.0, 0.0);
        assert_eq!(p.at(0.0), Some(200.0));
        assert_eq!(p.at(f64::NAN), None);
        assert!(p.inside(105.0) && !p.inside(106.0) && !p.inside(-1.0));
        assert!(p.at(1e17).unwrap().is_finite());
        let log = place(Scale::Log10, &[1.0, 100.0]);
        assert_eq!(log.at(0.0), None);
        assert!((log.at(10.0).unwrap() - 50.0).abs() < 1e-9);
    }

    #[test]
    fn units_take_a_prefix() {
        let of = |label: &str, most| {
            let axis = Axis {
                label: label.to_owned(),
                ..Axis::default()
            };
            prefixed(&axis, most)
        };
        assert_eq!(of("Time (s)", 0.02), (1e-3, "Time (ms)".to_owned()));
        assert_eq!(of("Time (s)", 20.0), (1.0, "Time (s)".to_owned()));
        assert_eq!(of("Queue (bytes)", 64e3), (1e3, "Queue (kB)".to_owned()));
        assert_eq!(of("Goodput (Mb/s)", 1e5).0, 1.0);
        assert_eq!(of("Alpha", 1e5).0, 1.0);
    }
}
