//! The charts of an incast: a quantity against the number of servers, a line a variant.

use super::chart::{Axis, Chart, Rule, RuleAt, Scale, Series, Variants, Varied};
use super::summary::{Point, Summary};
use narrows_experiment::scenario::SweepSpec;

/// What is plotted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Goodput, on a linear scale from zero.
    Goodput,
    /// Median block time, on a logarithmic scale.
    BlockTime,
}

impl Quantity {
    /// The value, and from where to where it may be.
    fn value(self, p: &Point) -> Option<(f64, (f64, f64))> {
        let (value, ci) = match self {
            Self::Goodput => (p.goodput.mean, p.goodput.ci95.unwrap_or(0.0)),
            Self::BlockTime => (p.block_median?.as_nanos() as f64 / 1e6, 0.0),
        };
        Some((value, ((value - ci).max(0.0), value + ci)))
    }

    fn title(self) -> &'static str {
        match self {
            Self::Goodput => "Goodput against number of servers",
            Self::BlockTime => "Median block time against number of servers",
        }
    }
}

/// `quantity` of every variant of `summary`.
pub fn chart(sweep: &SweepSpec, summary: &Summary, quantity: Quantity) -> Chart {
    let axes: Vec<Varied> = sweep
        .axes
        .iter()
        .map(|a| Varied {
            title: a.title.to_owned(),
            values: a.values.iter().map(|v| v.label()).collect(),
        })
        .collect();
    let variants = || summary.variants.iter().map(|v| &v.variant);
    let picks: Vec<&[usize]> = variants().map(|v| v.picks.as_slice()).collect();
    let names: Vec<String> = variants().map(|v| v.label.clone()).collect();
    let looks = Variants::of(&axes, &picks, &names);
    let series = summary.variants.iter().enumerate().map(|(index, v)| {
        let values = v.points.iter().filter_map(|p| {
            let (y, spread) = quantity.value(p)?;
            Some(((f64::from(p.servers), y), spread))
        });
        let (points, spread) = values.unzip();
        Series {
            name: v.variant.label.clone(),
            style: looks.style(index),
            points,
            spread,
            ..Series::default()
        }
    });
    let (y, link) = match quantity {
        Quantity::Goodput => goodput_axis(summary),
        Quantity::BlockTime => {
            let axis = Axis {
                label: "Median block time (ms)".to_owned(),
                scale: Scale::Log10,
                range: None,
                ..Axis::default()
            };
            (axis, None)
        }
    };
    Chart {
        title: quantity.title().to_owned(),
        x: Axis {
            label: "Number of servers".to_owned(),
            scale: Scale::Log2,
            range: None,
            ..Axis::default()
        },
        y,
        series: series.collect(),
        bands: Vec::new(),
        rules: link
            .map(|rate| Rule {
                at: RuleAt::Y(rate),
                label: "link rate".to_owned(),
            })
            .into_iter()
            .collect(),
        key: looks.key(),
    }
}

/// From zero to the link's rate, which is marked, if all have one; else to the best.
fn goodput_axis(summary: &Summary) -> (Axis, Option<f64>) {
    let rates: Vec<f64> = summary
        .variants
        .iter()
        .map(|v| v.link_rate.bits_per_sec() as f64)
        .collect();
    let link = rates.iter().copied().fold(1.0, f64::max);
    let same = rates.iter().all(|r| *r == link);
    let values = summary.variants.iter().flat_map(|v| &v.points);
    let values = values.filter_map(|p| Quantity::Goodput.value(p));
    let most = values.map(|(_, (_, high))| high).fold(1.0, f64::max);
    // An interval may reach beyond the link; the axis need not follow it far.
    let top = if same { link } else { most.min(link) };
    let axis = Axis {
        label: "Goodput (b/s)".to_owned(),
        scale: Scale::Linear,
        range: Some((0.0, top * 1.06)),
        ..Axis::default()
    };
    (axis, same.then_some(link))
}

#[cfg(test)]
mod tests;
