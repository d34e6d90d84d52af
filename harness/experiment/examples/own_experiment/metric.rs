//! `latency.stretch`: how much longer the slowest transfer takes than the median one.

use narrows_experiment::metric::{Better, Measured, Metric};

pub(crate) fn stretch() -> Metric {
    Metric::new(
        ("latency.stretch", "slowest over median latency", ""),
        Better::Lower,
        "The longest time of a transfer over the median.",
        |scope| {
            let mut took: Vec<u64> = scope.transfers().map(|t| t.took.as_nanos()).collect();
            took.sort_unstable();
            let median = *took.get(took.len() / 2)?;
            Some(Measured::Ratio(*took.last()? as f64 / median as f64))
        },
    )
}
