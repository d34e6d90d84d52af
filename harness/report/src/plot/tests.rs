//! Whether variants can be told apart, and their key can be read.

use super::*;
use crate::chart::ink::text_width;
use crate::chart::layout::{FONT, WIDTH};
use crate::chart::{Style, Theme};
use crate::testing::well_formed;
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::scenario::spec::{BlockSize, DelayedAck, QueueLimit};
use narrows_experiment::scenario::{self, IncastRun, IncastSpec, Setting};
use std::collections::BTreeSet;

fn sweep(axes: Vec<Vec<Setting>>) -> SweepSpec {
    SweepSpec {
        base: IncastSpec::default(),
        servers: vec![1, 8],
        axes: axes.into_iter().map(scenario::Axis::new).collect(),
        repetitions: 1,
    }
}

fn drawn(sweep: &SweepSpec) -> (Chart, String) {
    let run = IncastRun {
        goodput: Rate::from_mbps(900),
        ..IncastRun::default()
    };
    let runs = vec![Some(run); sweep.expand().unwrap().len()];
    let summary = Summary::of(sweep, &runs);
    let chart = chart(sweep, &summary, Quantity::Goodput);
    well_formed(&chart.svg(Theme::Page));
    let svg = chart.svg(Theme::Paper);
    well_formed(&svg);
    (chart, svg)
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

/// How a series of this style is drawn, by itself.
fn look(style: Style) -> String {
    let chart = Chart {
        series: vec![Series {
            style,
            points: vec![(1.0, 1.0), (2.0, 1.0)],
            ..Series::default()
        }],
        ..Chart::default()
    };
    chart.svg(Theme::Paper)
}

#[test]
fn no_two_variants_look_the_same() {
    for sweep in sweeps() {
        let (chart, svg) = drawn(&sweep);
        let looks: BTreeSet<String> = chart.series.iter().map(|s| look(s.style)).collect();
        assert_eq!(looks.len(), chart.series.len());
        assert!(!svg.contains("can be drawn differently"));
    }
}

/// Beyond what can be told apart the picture says that it cannot.
#[test]
fn a_picture_of_too_many_lines_says_so() {
    let (chart, svg) = drawn(&sweep(vec![buffers(50), buffers(10)]));
    assert_eq!(chart.series.len(), 500);
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
            if y > 320.0 {
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
