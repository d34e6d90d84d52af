//! Charts for papers: lines, markers and steps over linear and logarithmic axes, as SVG.
//!
//! A [`Chart`] is data; [`Chart::svg`] draws it. It is made for a column of 8.5 cm: few grid
//! lines, text that stays legible, the key below the data. Colours are told apart with any
//! colour vision, and ours from the reference's without colour: filled markers and full lines
//! against hollow ones and dashes.

mod area;
mod data;
pub(crate) mod ink;
mod key;
mod layout;
mod lines;
mod rows;
mod rules;
mod scale;
#[cfg(test)]
mod tests;
mod variants;

pub use data::{
    Axis, Band, Chart, Draw, Key, KeyRow, Role, Rule, RuleAt, Scale, Series, Stands, Style,
};
pub use ink::{PALETTE, Theme, escape};
pub(crate) use lines::extremes;
pub use variants::{Variants, Varied};
