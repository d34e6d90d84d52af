//! The guide: its files are experiments that run, and what they expect comes out.

use narrows_experiment::file::Loaded;
use narrows_experiment::plan::Plan;
use narrows_experiment::registry::Registry;
use narrows_experiment::shipped::Shipped;
use narrows_experiment::study::Study;
use narrows_experiment::summary::Holds;
use std::collections::BTreeSet;
use std::thread::available_parallelism;

const GUIDE: &str = include_str!("../../../../docs/EXPERIMENTS.md");

/// The blocks of a language, each with its line.
fn blocks(language: &str) -> Vec<(usize, String)> {
    let fence = format!("```{language}");
    let mut found = Vec::new();
    let mut lines = GUIDE.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if line == fence {
            let block = lines.by_ref().map(|(line, _)| line);
            let block: Vec<&str> = block.take_while(|line| *line != "```").collect();
            found.push((number, block.join("\n")));
        }
    }
    found
}

/// The files of the guide: what has no title of its own is added to the first one.
fn files() -> Vec<(usize, String)> {
    let all = blocks("toml");
    let first = all[0].1.clone();
    let file = |(line, block): (usize, String)| {
        let whole = block.starts_with("title");
        let text = if whole {
            block
        } else {
            format!("{first}\n{block}")
        };
        (line, text)
    };
    all.into_iter().map(file).collect()
}

#[test]
fn every_file_runs_and_gives_what_it_shows_and_expects() {
    let registry = Registry::default();
    let files = files();
    assert!(files.len() >= 8, "{} files", files.len());
    for (line, text) in files {
        let name = format!("EXPERIMENTS.md, line {line}");
        let loaded = Loaded::parse(&name, &text, &registry);
        let experiment = loaded.unwrap_or_else(|e| panic!("{name}: {e}")).experiment;
        let threads = available_parallelism().map_or(1, usize::from);
        let study = Study::run(&experiment, &registry, threads);
        let study = study.unwrap_or_else(|e| panic!("{name}: {e}"));
        for run in study.records() {
            assert_eq!(run.outcome, "completed", "{name}, seed {}", run.seed);
        }
        for point in study.points() {
            for metric in &experiment.show.y {
                let shown = point.metric(metric);
                shown.unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
        let verdicts = study.summary().verdicts(&registry.metrics);
        for verdict in verdicts.unwrap_or_else(|e| panic!("{name}: {e}")) {
            assert_eq!(verdict.holds, Holds::Yes, "{name}: {verdict:?}");
        }
    }
}

/// The keys that stand in its commands are keys.
#[test]
fn every_key_of_its_commands_can_be_set() {
    let registry = Registry::default();
    let (_, text) = files().remove(0);
    let loaded = Loaded::parse("reads.toml", &text, &registry).unwrap();
    let mut found = 0;
    for (line, block) in blocks("sh") {
        let block = block.replace('"', "");
        let words: Vec<&str> = block.split_whitespace().collect();
        for pair in words.windows(2) {
            let Some((key, value)) = pair[1].split_once('=') else {
                continue;
            };
            let mut experiment = loaded.experiment.clone();
            let set = match pair[0] {
                "--set" => experiment.set(&registry, key, value),
                "--sweep" => experiment.set(&registry, &format!("sweep.\"{key}\""), value),
                _ => continue,
            };
            found += 1;
            set.unwrap_or_else(|e| panic!("line {line}: {key}: {e}"));
        }
    }
    assert!(found >= 5, "{found} keys");
}

/// The table of components says what `narrows keys` says, and what is to be tried can run.
#[test]
fn every_component_leaves_out_what_its_knob_says_and_its_example_can_run() {
    let registry = Registry::default();
    let sections = registry.sections();
    let mut left_out = BTreeSet::new();
    for section in &sections {
        for (about, _) in &section.knobs {
            if let Some((_, what)) = about.meaning.split_once("Left out: ") {
                let what = what.split_once(". ").map_or(what, |(what, _)| what);
                left_out.insert((
                    format!("{}.{}", section.at, about.key),
                    what.trim_end_matches('.'),
                ));
            }
        }
    }
    let (_, reads) = files().remove(0);
    let mut told = BTreeSet::new();
    for row in GUIDE
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("`narrows "))
    {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, knob, _, what, held_against, example, _] = cells[..] else {
            panic!("{row}");
        };
        assert!(
            held_against.contains("](") || held_against.contains("the text alone"),
            "{row}"
        );
        told.insert((knob.trim_matches('`').to_owned(), what));
        let words: Vec<&str> = example.trim_matches('`').split(' ').collect();
        let ["narrows", "run", name, set @ ..] = &words[..] else {
            panic!("{row}");
        };
        let text = match *name {
            "reads.toml" => &reads,
            name => {
                Shipped::get(name)
                    .unwrap_or_else(|e| panic!("{name}: {e:?}"))
                    .text
            }
        };
        let mut experiment = Loaded::parse(name, text, &registry).unwrap().experiment;
        for pair in set.chunks(2) {
            let (key, value) = pair[1].split_once('=').unwrap();
            experiment
                .set(&registry, key, value)
                .unwrap_or_else(|e| panic!("{row}: {e}"));
        }
        let plan = Plan::new(&experiment, &registry).unwrap();
        plan.check(&registry)
            .unwrap_or_else(|e| panic!("{row}: {e}"));
    }
    assert_eq!(told, left_out);
}
