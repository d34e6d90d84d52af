//! Which colour, dash and marker each variant of a sweep has, and the key that says so.

use super::data::{Key, KeyRow, Stands, Style};
use super::ink::PALETTE;
use super::lines::{LINES, line_look};
use std::collections::BTreeSet;

/// The variants of a sweep: colours for the first axis, dashes and markers for all others together;
/// with one axis, or more values than there are colours or lines, both for the same.
#[derive(Clone, Debug)]
pub struct Variants {
    rows: Vec<KeyRow>,
    /// For each variant its colour and its line.
    looks: Vec<(usize, usize)>,
}

/// What is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Varied {
    /// What it is: `congestion control`.
    pub title: String,
    /// The names of its values.
    pub values: Vec<String>,
}

impl Variants {
    /// Those with these `names`; `picks` says which value of each axis a variant has, by number.
    ///
    /// One without a name has no key.
    pub fn of(axes: &[Varied], picks: &[&[usize]], names: &[String]) -> Self {
        let titles = |axes: &[Varied]| {
            let titles: Vec<&str> = axes.iter().map(|a| a.title.as_str()).collect();
            titles.join(", ")
        };
        let [first, others @ ..] = axes else {
            return Self::each("", names, |i| (i, i));
        };
        if others.is_empty() {
            return Self::each(&first.title, names, |i| (i, i));
        }
        let mut lines: Vec<&[usize]> = Vec::new();
        let mut looks = Vec::new();
        for picks in picks {
            let rest = &picks[1..];
            let known = lines.iter().position(|line| *line == rest);
            let line = known.unwrap_or_else(|| {
                lines.push(rest);
                lines.len() - 1
            });
            looks.push((picks[0], line));
        }
        if first.values.len() > PALETTE.len() || lines.len() > LINES {
            // Colours first: they are told apart best.
            let look = |i| (i % PALETTE.len(), i / PALETTE.len());
            return Self::each(&titles(axes), names, look);
        }
        let colours = first.values.iter().enumerate();
        let label = |line: &[usize]| {
            let values = line.iter().zip(others).map(|(&i, a)| a.values[i].as_str());
            values.collect::<Vec<_>>().join(" / ")
        };
        let lines = lines.iter().enumerate();
        let rows = vec![
            KeyRow {
                title: first.title.clone(),
                keys: colours
                    .map(|(i, v)| (v.clone(), Stands::Colour(i)))
                    .collect(),
            },
            KeyRow {
                title: titles(others),
                keys: lines
                    .map(|(i, line)| (label(line), Stands::Line(i)))
                    .collect(),
            },
        ];
        Self { rows, looks }
    }

    /// Those of a chart of bare lines, which markers do not tell apart.
    pub fn unmarked(names: &[String]) -> Self {
        Self::each("", names, |i| (i % PALETTE.len(), i / PALETTE.len()))
    }

    /// A key for each variant.
    fn each(title: &str, names: &[String], look: impl Fn(usize) -> (usize, usize)) -> Self {
        let keys = names.iter().enumerate();
        let keys = keys.filter(|(_, name)| !name.is_empty());
        let keys: Vec<_> = keys
            .map(|(i, name)| (name.clone(), Stands::Series(i)))
            .collect();
        let row = KeyRow {
            title: title.to_owned(),
            keys,
        };
        Self {
            rows: Some(row)
                .filter(|row| !row.keys.is_empty())
                .into_iter()
                .collect(),
            looks: (0..names.len()).map(look).collect(),
        }
    }

    /// The look of a variant; series of a chart with [`Self::key`] stand in the order of variants.
    pub fn style(&self, variant: usize) -> Style {
        let (colour, line) = self.looks.get(variant).copied().unwrap_or((0, 0));
        Style::Variant { colour, line }
    }

    /// The key.
    pub fn key(&self) -> Key {
        Key::Rows(self.rows.clone())
    }

    /// What is to be said where variants look the same after all.
    pub fn caveat(&self) -> Option<String> {
        let look = |(colour, line): &(usize, usize)| (colour % PALETTE.len(), line_look(*line));
        let looks: BTreeSet<_> = self.looks.iter().map(look).collect();
        let (all, looks) = (self.looks.len(), looks.len());
        (looks < all).then(|| {
            format!(
                "{all} variants, of which only {looks} can be drawn differently: \
                 sweep fewer values at once to tell them apart."
            )
        })
    }
}
