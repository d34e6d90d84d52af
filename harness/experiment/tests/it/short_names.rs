//! Short names of what ships: each can be set to something else.

use crate::drawn::values;
use narrows_experiment::file::Loaded;
use narrows_experiment::knob::Kind;
use narrows_experiment::model::Experiment;
use narrows_experiment::plan::Plan;
use narrows_experiment::registry::Registry;
use narrows_experiment::shipped;

/// What goes only together with another short name: packets are marked at random, or each n-th; queues
/// take turns where there are several.
const TOGETHER: [(&str, &str, (&str, &str)); 2] = [
    ("gro-marks", "each", ("marked", "0%")),
    ("split-output", "turns", ("split", "2")),
];

/// Words that a short name cannot be alone: the experiment, the name, the word, and a part of why.
const REFUSED: [(&str, &str, &str, &str); 6] = [
    // Its hosts have no SACK, as in the paper.
    ("fast08", "loss", "sack", "sack on"),
    // One of its congestion controls is DCTCP.
    ("incast", "ecn", "classic", "congestion without dctcp"),
    ("incast", "ecn", "off", "congestion without dctcp"),
    // It detects losses by SACK.
    ("incast", "sack", "off", "choose loss_detection newreno"),
    // Their ports have too little memory for what comes after a pause of one class.
    (
        "microbursts-trunk",
        "pause",
        "pfc",
        "give the queue a limit",
    ),
    ("pause", "pause", "pfc", "give the queue a limit"),
];

/// What a short name stands for. Sizes of groups and topologies have no knob.
fn kind_of(registry: &Registry, experiment: &Experiment, key: &str) -> Kind {
    match registry.about(experiment, key) {
        Some(about) => about.kind,
        None if key.starts_with("group.") && key.ends_with(".hosts") => Kind::Hosts,
        None => Kind::Whole { least: 1, most: 64 },
    }
}

/// Whether a value is one of a few words, each with a meaning of its own.
fn is_word(kind: &Kind, value: &str) -> bool {
    match kind {
        Kind::Or(word, kind) => value == *word || is_word(kind, value),
        Kind::List(kind) => is_word(kind, value),
        Kind::Switch | Kind::Choice(_) | Kind::Name(_) => true,
        _ => false,
    }
}

/// The upper end of whole numbers.
fn most(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Whole { most, .. } => Some(most.to_string()),
        Kind::Or(_, kind) => most(kind),
        _ => None,
    }
}

/// Why an experiment cannot be run with a short name set, as `--set` sets it.
fn try_set(registry: &Registry, base: &Experiment, values: &[(&str, &str)]) -> Result<(), String> {
    let mut other = base.clone();
    for (name, value) in values {
        let axis = base.axis_name(name);
        other.settle(registry, &axis, value);
        let set = other.set(registry, name, value);
        set.map_err(|e| e.to_string())?;
    }
    other.leave_idle_out(base, values.iter().map(|(name, _)| *name));
    let checked = Plan::new(&other, registry).and_then(|plan| plan.check(registry));
    checked.map_err(|e| e.to_string())
}

/// Of words each is possible, of numbers, hosts, ports and texts one that the file does not say.
#[test]
fn no_short_name_is_dead() {
    let registry = Registry::default();
    let (mut dead, mut refused) = (Vec::new(), Vec::new());
    for shipped in shipped::ALL {
        let loaded = Loaded::parse(shipped.name, shipped.text, &registry);
        let base = loaded.unwrap_or_else(|e| panic!("{e}")).experiment;
        for (name, key) in base.short.iter() {
            let own = base.get(key);
            let is_own = |value: &String| {
                let own = own.as_ref();
                own.is_some_and(|own| registry.same_value(&base, key, own, value))
            };
            let with = TOGETHER
                .iter()
                .filter(|(of, known, _)| (*of, *known) == (shipped.name, name));
            let with: Vec<(&str, &str)> = with.map(|(_, _, with)| *with).collect();
            let try_value = |value: &str| {
                let values: Vec<_> = with.iter().copied().chain([(name, value)]).collect();
                try_set(&registry, &base, &values)
            };
            let kind = kind_of(&registry, &base, key);
            let all = values(&kind, &registry, ["s0->h0", "h1->s0"]);
            let all = all.into_iter().filter(|value| !is_own(value));
            let (words, others): (Vec<_>, Vec<_>) = all.partition(|value| is_word(&kind, value));
            for word in &words {
                if let Err(why) = try_value(word) {
                    refused.push((shipped.name, name.to_owned(), word.clone(), why));
                }
            }
            let others: Vec<String> = others.into_iter().chain(most(&kind)).collect();
            let mut why = Vec::new();
            let possible = others.iter().any(|value| {
                let tried = try_value(value);
                why.extend(tried.as_ref().err().map(|e| format!("{value}: {e}")));
                tried.is_ok()
            });
            if !possible && (words.is_empty() || !others.is_empty()) {
                dead.push((shipped.name, name.to_owned(), why));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    let expected = |(of, name, word, why): &(&str, String, String, String)| {
        let known = REFUSED
            .iter()
            .find(|r| (r.0, r.1, r.2) == (*of, name, word));
        known.is_some_and(|(.., part)| why.contains(part))
    };
    let unexpected: Vec<_> = refused.iter().filter(|r| !expected(r)).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    assert_eq!(refused.len(), REFUSED.len(), "some are possible");
}
