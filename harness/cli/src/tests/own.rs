//! A knob and a metric of one's own are an entry each, and are wherever ours are.

use super::*;
use crate::catalog::Catalog;
use narrows_experiment::knob;
use narrows_experiment::knob::{Kind, Knob, Knobs};
use narrows_experiment::metric::{Better, Measured, Metric};
use narrows_experiment::model::Invalid;
use narrows_experiment::probe::{Instrument, Probe, ProbeKind, Reading, Site, View};
use narrows_experiment::sim::time::SimTime;

/// A probe that reads what it was set to.
#[derive(Clone, Debug)]
struct Scales {
    weight: u32,
}

impl Default for Scales {
    fn default() -> Self {
        Self { weight: 1 }
    }
}

impl Knobs for Scales {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { weight: "weight", "weight of a reading", Kind::Whole { least: 1, most: 9 },
        "What is read.", "the bureau of standards" },
    ];
}

impl Probe for Scales {
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, _: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        Ok(vec![Box::new(Scale(self.weight))])
    }
}

#[derive(Debug)]
struct Scale(u32);

impl Instrument for Scale {
    fn begin(&mut self, _: &mut View<'_>) {}

    fn next(&self) -> Option<SimTime> {
        None
    }

    fn look(&mut self, _: &mut View<'_>) {}

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        let weight = Measured::Count(self.0.into());
        Reading {
            of: "all".to_owned(),
            values: vec![("weight".to_owned(), "", weight)],
            ..Reading::default()
        }
    }
}

fn with_own() -> App {
    let mut catalog = Catalog::default();
    let registry = &mut catalog.registry;
    let kind = ProbeKind::new::<Scales>("scales", "reads what it was set to");
    registry.probes.register(kind);
    registry.metrics.register(Metric::new(
        ("doubled", "twice the transfers", ""),
        Better::Higher,
        "Each transfer counts as two.",
        |scope| Some(Measured::Count(2 * scope.transfers().count() as u64)),
    ));
    App::new(catalog)
}

const FILE: &str = r#"
[network]
hosts = 2
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1"
to = "h0"
size = "20kB"
[[probe]]
name = "scale"
kind = "scales"
[show]
y = ["doubled", "scale.all.weight"]
[[expect]]
that = "doubled"
is = "= 2"
[[expect]]
that = "scale.all.weight"
is = "= 3"
where = { "probe.scale.weight" = 3 }
"#;

#[test]
fn a_knob_and_a_metric_of_ones_own_are_wherever_ours_are() {
    let folder = folder("own");
    let file = folder.join("x.toml");
    fs::write(&file, FILE).unwrap();
    let app = with_own();
    let ran = |line: &str| narrows_with(&app, line, &AtomicBool::new(false));
    let run = |rest: &str| ran(&format!("run {} {rest}", file.display()));

    // What can be set, in which range, from where; what is measured.
    let keys = ran("keys scales").out;
    for part in [
        "probe.NAME.weight (scales)",
        "weight of a reading",
        "1 to 9",
        "the bureau of standards",
    ] {
        assert!(keys.contains(part), "{part}: {keys}");
    }
    let list = ran("list").out;
    for part in ["reads what it was set to", "doubled", "twice the transfers"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let schema: serde_json::Value = serde_json::from_str(&ran("generate schema").out).unwrap();
    assert!(schema.to_string().contains("What is read."));

    // Errors.
    for (options, why) in [
        ("--set probe.scale.weight=12", "allowed is 1 to 9"),
        ("--set probe.scale.wieght=2", "did you mean 'weight'?"),
        ("--sweep probe.scale.weight=2,12", "allowed is 1 to 9"),
        ("--set show.y=dubled", "did you mean 'doubled'?"),
    ] {
        let wrong = run(options);
        assert_eq!(wrong.code, EXIT_USAGE, "{options}: {}", wrong.err);
        assert!(wrong.err.contains(why), "{options}: {}", wrong.err);
    }

    // An axis, columns, figures, what is expected, what the report says.
    let out = folder.join("out");
    let options = format!(
        "--sweep probe.scale.weight=2,3 --check --out {}",
        out.display()
    );
    let done = run(&options);
    assert_eq!(done.code, EXIT_OK, "{}{}", done.out, done.err);
    for part in ["holds: doubled = 2", "holds: scale.all.weight = 3"] {
        assert!(done.out.contains(part), "{part}: {}", done.out);
    }
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let runs = read("runs.csv");
    let mut lines = runs.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let rows: Vec<_> = lines.collect();
    let column = |name: &str| -> Vec<&str> {
        let at = head.iter().position(|c| *c == name).expect(name);
        rows.iter().map(|row| row[at]).collect()
    };
    assert_eq!(column("probe.scale.weight"), ["2", "3"]);
    assert_eq!(column("scale.all.weight"), ["2", "3"]);
    assert_eq!(column("doubled"), ["2", "2"]);
    assert!(read("figure-doubled.csv").lines().count() > 1);
    assert!(read("figure-doubled.svg").contains("<svg"));
    let report = read("report.html");
    for part in [
        "Twice the transfers",
        "Each transfer counts as two.",
        "weight of a reading",
        "probe.scale.weight",
    ] {
        assert!(report.contains(part), "{part}");
    }
    let kept = format!("run {0}/experiment.toml --out {0}", out.display());
    let again = ran(&kept);
    assert_eq!(again.code, EXIT_OK, "{}", again.err);
    let side_by_side = ran(&format!("diff {0} {0}", out.display()));
    assert_eq!(side_by_side.code, EXIT_OK, "{}", side_by_side.out);
    fs::remove_dir_all(&folder).unwrap();
}
