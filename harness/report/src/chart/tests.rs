//! Charts of all kinds are sound documents.

use super::*;
use crate::testing::well_formed;
use proptest::prelude::*;

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
        ..Axis::default()
    }
}

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    Series {
        name: name.to_owned(),
        points: points.to_vec(),
        ..Series::default()
    }
}

fn sound(chart: &Chart) -> String {
    let svg = chart.svg(Theme::Paper);
    for theme in [svg.clone(), chart.svg(Theme::Page)] {
        well_formed(&theme);
        let bad = ["NaN", "inf"].map(|word| theme.find(word));
        let around = |at: usize| theme.get(at.saturating_sub(60)..at + 20).map(str::to_owned);
        assert_eq!(bad.map(|at| at.and_then(around)), [None, None]);
        assert!(theme.len() < 4_000_000);
    }
    assert!(!svg.contains("var("), "colours of its own");
    svg
}

#[test]
fn nothing_and_next_to_nothing() {
    for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
        for points in [
            &[][..],
            &[(f64::NAN, 1.0), (1.0, f64::INFINITY)],
            &[(0.0, 0.0)],
            &[(-1.0, -1.0), (1e300, -1e300)],
            &[(3.0, 7.0)],
            &[(1e-18, 1e-18), (1e18, 1e18)],
        ] {
            let chart = Chart {
                x: axis("x (s)", scale),
                y: axis("y (bytes)", scale),
                series: vec![series("s", points)],
                ..Chart::default()
            };
            let svg = sound(&chart);
            assert_eq!(points.is_empty(), svg.contains("no data"));
        }
    }
    sound(&Chart::default());
}

#[test]
fn text_is_escaped() {
    let chart = Chart {
        title: "<script>".to_owned(),
        x: axis("a < b & c", Scale::Linear),
        y: axis("\"y\"", Scale::Linear),
        series: vec![series("</svg>", &[(1.0, 1.0), (2.0, 2.0)])],
        rules: vec![
            Rule {
                at: RuleAt::Y(1.5),
                label: "<Y>".to_owned(),
            },
            Rule {
                at: RuleAt::X(1.5),
                label: "<X>".to_owned(),
            },
        ],
        ..Chart::default()
    };
    let svg = sound(&chart);
    for text in ["&lt;script&gt;", "&lt;Y&gt;", "&lt;X&gt;", "&lt;/svg&gt;"] {
        assert!(svg.contains(text), "{text}");
    }
}

/// A gap in the data is a gap in the line, and zero has no place on a logarithmic axis.
#[test]
fn what_cannot_be_shown_breaks_the_line() {
    let mut chart = Chart {
        series: vec![Series {
            draw: Draw::Line,
            ..series(
                "",
                &[(1.0, 1.0), (2.0, 2.0), (3.0, 0.0), (4.0, 4.0), (5.0, 5.0)],
            )
        }],
        ..Chart::default()
    };
    let lines = |chart: &Chart| sound(chart).matches(r#"stroke-width="2""#).count();
    assert_eq!(lines(&chart), 1);
    chart.y.scale = Scale::Log10;
    assert_eq!(lines(&chart), 2);
}

/// Rows of bars: each bar is broad and stands alone, at the height of its word.
#[test]
fn bars_stand_in_the_rows_of_words() {
    let chart = Chart {
        y: Axis {
            words: ["h2", "h1"].map(str::to_owned).to_vec(),
            ..Axis::default()
        },
        series: vec![Series {
            draw: Draw::Bars,
            ..series(
                "waits",
                &[
                    (1.0, 0.0),
                    (2.0, 0.0),
                    (f64::NAN, 0.0),
                    (2.0, 1.0),
                    (3.0, 1.0),
                ],
            )
        }],
        ..Chart::default()
    };
    let svg = sound(&chart);
    // Two, and the one of the key.
    let bars: Vec<&str> = svg
        .lines()
        .filter(|l| l.contains(r#"stroke-width="8""#))
        .collect();
    assert_eq!(bars.len(), 3, "{bars:?}");
    let height = |text: &str, before: &str| -> f64 {
        let (_, rest) = text.split_once(before).unwrap();
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().unwrap()
    };
    for (bar, word) in bars.iter().zip(["h2", "h1"]) {
        let label = svg
            .split("<text")
            .find(|t| t.contains(&format!(">{word}<")));
        let at = height(bar.split_once("d=\"M").unwrap().1, " ");
        let word = height(label.unwrap(), "y=\"");
        assert!((at - word).abs() < 6.0, "{bar} at {word}");
    }
    assert!(!svg.contains(">0<"), "no numbers beside the words");
}

#[test]
fn reference_and_ours_differ_without_colour() {
    let mut reference = series("64 packets", &[(1.0, 900.0), (2.0, 940.0)]);
    reference.role = Role::Reference;
    let chart = Chart {
        x: axis("Servers", Scale::Log2),
        series: vec![
            series("64 packets", &[(1.0, 908.0), (2.0, 934.0)]),
            reference,
        ],
        ..Chart::default()
    };
    let svg = sound(&chart);
    assert_eq!(svg.matches("64 packets").count(), 1, "one key for both");
    assert!(svg.contains(">narrows<") && svg.contains(">reference<"));
    assert!(svg.contains(r##"stroke="#0072B2" stroke-width="1.6" stroke-dasharray"##));
    let (below, above) = (
        svg.find(r##"fill="#ffffff" stroke="#0072B2""##).unwrap(),
        svg.find(r##"fill="#0072B2""##).unwrap(),
    );
    assert!(below < above, "ours is on top");
}

#[test]
fn names_of_rules_stand_apart() {
    let rule = |at, label: &str| Rule {
        at,
        label: label.to_owned(),
    };
    let chart = Chart {
        series: vec![Series {
            draw: Draw::Line,
            ..series("", &[(0.0, 0.0), (10.0, 10.0)])
        }],
        rules: vec![
            rule(RuleAt::X(5.0), "one name"),
            rule(RuleAt::X(5.1), "another name"),
            rule(RuleAt::Y(5.0), "model, at most"),
            rule(RuleAt::Y(5.2), "measured, at most"),
            rule(RuleAt::Y(5.1), "K = 5"),
        ],
        ..Chart::default()
    };
    let svg = sound(&chart);
    let place = |label: &str| {
        let (before, _) = svg.split_once(&format!(">{label}<")).unwrap();
        let tag = before.rsplit_once("<text ").unwrap().1;
        let value = |name: &str| -> f64 {
            let (_, rest) = tag.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        (value("x"), value("y"), ink::text_width(label, 13.0))
    };
    assert!((place("one name").1 - place("another name").1).abs() > 12.0);
    let beside = ["model, at most", "measured, at most", "K = 5"].map(place);
    for (i, a) in beside.iter().enumerate() {
        for b in &beside[..i] {
            let clear = (a.1 - b.1).abs() >= 11.0 || a.0 > b.0 + b.2 || b.0 > a.0 + a.2;
            assert!(clear, "{a:?} {b:?}");
        }
    }
}

/// A name that would lie on a line goes out of the chart, which makes room for it.
#[test]
fn names_move_out_where_nothing_is_free() {
    let wave = |swing: f64| -> Vec<(f64, f64)> {
        (0..400)
            .map(|i| (f64::from(i), 50.0 + swing * f64::from(i % 2 * 2 - 1)))
            .collect()
    };
    let chart = |points: &[(f64, f64)]| Chart {
        y: Axis {
            range: Some((0.0, 100.0)),
            ..Axis::default()
        },
        series: vec![Series {
            draw: Draw::Line,
            ..series("", points)
        }],
        rules: vec![Rule {
            at: RuleAt::Y(50.0),
            label: "the middle of all".to_owned(),
        }],
        ..Chart::default()
    };
    let quiet = sound(&chart(&[(0.0, 10.0), (400.0, 10.0)]));
    assert!(quiet.contains(">the middle of all<"));
    let busy = sound(&chart(&wave(45.0)));
    assert!(busy.contains(">the middle<") && busy.contains(">of all<"));
}

#[test]
fn what_lies_on_each_other_is_seen() {
    let line = |group, role, draw| Series {
        draw,
        role,
        group,
        ..series(["a", "b"][group], &[(1.0, 1.0), (2.0, 2.0)])
    };
    let chart = Chart {
        series: vec![
            line(0, Role::Reference, Draw::Line),
            line(1, Role::Reference, Draw::Line),
            line(0, Role::Ours, Draw::Markers),
            line(1, Role::Ours, Draw::Markers),
        ],
        ..Chart::default()
    };
    let svg = sound(&chart);
    for part in [
        r#"stroke-dasharray="6 6" stroke-dashoffset="0""#,
        r#"stroke-dasharray="6 6" stroke-dashoffset="-6""#,
        r#"r="5.2""#,
    ] {
        assert!(svg.contains(part), "{part}");
    }
}

/// As those of `narrows flows` with many flows.
#[test]
fn lines_differ_where_colours_come_again() {
    let flow = |group| Series {
        draw: Draw::Line,
        group,
        ..series("", &[(0.0, 0.0), (1.0, group as f64)])
    };
    let svg = sound(&Chart {
        series: (0..20).map(flow).collect(),
        ..Chart::default()
    });
    let looks: std::collections::BTreeSet<&str> = svg
        .split("stroke=")
        .filter(|s| s.contains(r#"stroke-width="2""#))
        .map(|s| s.split("/>").next().unwrap())
        .collect();
    assert_eq!(looks.len(), 20, "{looks:?}");
}

#[test]
fn a_million_points_make_a_small_file() {
    let points: Vec<(f64, f64)> = (0..1_000_000)
        .map(|i| (f64::from(i), f64::from(i % 1_000)))
        .collect();
    for draw in [Draw::Line, Draw::Steps, Draw::Dots] {
        let chart = Chart {
            series: vec![Series {
                draw,
                ..series("", &points)
            }],
            ..Chart::default()
        };
        let size = sound(&chart).len();
        assert!(draw == Draw::Dots || size < 60_000, "{draw:?}: {size}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_numbers_in_any_form(
        points in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..40),
        spread in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..40),
        range in proptest::option::of((any::<f64>(), any::<f64>())),
        rule in any::<f64>(),
        which in 0usize..54,
    ) {
        let scales = [Scale::Linear, Scale::Log2, Scale::Log10];
        let draws = [Draw::LineMarkers, Draw::Line, Draw::Markers, Draw::Dots, Draw::Steps, Draw::Bars];
        let chart = Chart {
            x: axis("x", scales[which % 3]),
            y: Axis { range, ..axis("y (s)", scales[which / 3 % 3]) },
            series: vec![Series {
                draw: draws[which / 9],
                spread,
                ..series("s", &points)
            }],
            rules: vec![
                Rule { at: RuleAt::X(rule), label: "x".to_owned() },
                Rule { at: RuleAt::Y(rule), label: "y".to_owned() },
            ],
            ..Chart::default()
        };
        sound(&chart);
    }
}
