//! Made-up checks, for tests of what is said of any.

use crate::{Bench, Check, Expected, Figure, Measured, Row, Tolerance};
use narrows_experiment::scenario::ScenarioError;
use narrows_report::chart::{Chart, Role, Series};

/// A row with a tolerance of 1 %.
pub fn row(what: &str, reference: f64, ours: f64) -> Row {
    let (reference, ours) = (Expected::Value(reference), Measured::Value(ours));
    let source = "RFC 9438, section 5.1, tables 1 and 2";
    Row::new(
        what,
        source,
        reference,
        ours,
        "Mb/s",
        Tolerance::Relative(0.01),
    )
}

fn first(b: &mut Bench<'_>) -> Result<(), ScenarioError> {
    b.row(row("N = 1, goodput", 908.2, 909.0));
    b.row(
        row("N = 16 | <b>", 152.0, 170.0)
            .explained("why-16")
            .note("a_b"),
    );
    let spread = Measured::spread(&[1.0, 2.0, 3.0]);
    b.row(Row::new(
        "spread",
        "sqrt(3 / 2p), Mathis et al., CCR 1997",
        Expected::AtLeast(1.0),
        spread,
        "",
        Tolerance::Exact,
    ));
    let points = vec![(1.0, 2.0), (2.0, 3.0)];
    let series = |role| Series {
        name: "x".to_owned(),
        role,
        points: points.clone(),
        ..Series::default()
    };
    b.figure(Figure {
        name: "made-up",
        caption: "Two lines.".to_owned(),
        chart: Chart {
            series: vec![series(Role::Ours), series(Role::Reference)],
            ..Chart::default()
        },
    });
    Ok(())
}

fn second(b: &mut Bench<'_>) -> Result<(), ScenarioError> {
    b.row(row("wrong", 1.0, 2.0));
    let list = (1..60).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    let text = Measured::Text(list.clone());
    b.row(Row::new(
        "a list",
        "RFC 9937, figure 1",
        Expected::Exactly(list),
        text,
        "",
        Tolerance::Exact,
    ));
    let missing = Measured::Missing("ns-3 is not installed".to_owned());
    b.row(Row::new(
        "ns-3",
        "ns-3",
        Expected::Nothing,
        missing,
        "",
        Tolerance::Shown,
    ));
    Err(ScenarioError::Internal("on purpose".to_owned()))
}

fn third(b: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let v = Measured::Value(3.5);
    b.row(Row::new(
        "alone",
        "nobody",
        Expected::Nothing,
        v,
        "s",
        Tolerance::Shown,
    ));
    Ok(())
}

/// Three checks: rows of every verdict, a figure, a failure.
pub const CHECKS: [Check; 3] = [
    Check {
        name: "a/first",
        what: "Rows that agree and one that is explained",
        seconds: 1,
        run: first,
    },
    Check {
        name: "a/second",
        what: "Rows that do not",
        seconds: 2,
        run: second,
    },
    Check {
        name: "b",
        what: "A value without a reference",
        seconds: 3,
        run: third,
    },
];
