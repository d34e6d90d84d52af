//! The JSON schema of experiment files, for editors: made of the tables of knobs.

use narrows_experiment::knob::{About, Kind, Knobs, Quantity};
use narrows_experiment::model::network::{Common, GRAPH};
use narrows_experiment::model::queue::Discipline;
use narrows_experiment::model::{
    Cpu, Expect, Experiment, Link, Nic, Pause, Queue, Run, Show, change,
};
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::spec::TcpSpec;
use serde_json::{Map, Value, json};

/// The schema (JSON Schema 2020-12) of what `registry` can name.
pub(super) fn schema(registry: &Registry) -> Value {
    let usual = Experiment::default();
    let link = || object(of::<Link>(&|key| get(&usual.network.link, key)));
    let disciplines = disciplines(registry);
    let queue = || {
        let mut queue = of::<Queue>(&|key| get(&usual.network.queue, key));
        queue["discipline"]["anyOf"] = disciplines.clone();
        object(queue)
    };
    let nic = || object(of::<Nic>(&|key| get(&usual.host.nic, key)));
    let cpu = || object(of::<Cpu>(&|key| get(&usual.host.cpu, key)));
    let tcp = || object(of::<TcpSpec>(&|key| get(&usual.host.tcp, key)));
    let port = || object(table([("link", link()), ("queue", queue())]));
    let mut network = of::<Common>(&|key| get(&usual.network.common, key));
    let shapes = registry.topologies.entries().map(|t| t.name());
    let shapes: Vec<&str> = shapes.chain([GRAPH]).collect();
    network["topology"]["enum"] = json!(shapes);
    for shape in registry.topologies.entries() {
        for size in shape.parameters() {
            let (least, most) = (size.range.start(), size.range.end());
            network.insert(
                size.name.to_owned(),
                json!({
                    "type": "integer", "minimum": least, "maximum": most,
                    "description": format!("Of {}: {}.", shape.name(), size.about),
                    "default": size.default,
                }),
            );
        }
    }
    network.extend(table([
        ("link", link()),
        ("queue", queue()),
        (
            "pause",
            object(of::<Pause>(&|key| get(&usual.network.pause, key))),
        ),
        ("trunk", port()),
        (
            "port",
            each(port(), "Ports by name or pattern: \"s0->h0\"."),
        ),
    ]));
    let group = object(table([
        ("hosts", text("Its hosts: h0..h7, or several patterns.")),
        (
            "size",
            json!({ "type": "integer", "minimum": 1, "description": "How many hosts it has." }),
        ),
        ("nic", nic()),
        ("cpu", cpu()),
        ("tcp", tcp()),
    ]));
    let mut changes = of::<change::When>(&|_| None);
    let mut offload = of::<Nic>(&|_| None);
    offload.retain(|key, _| key == "gro");
    changes.extend(table([
        ("link", link()),
        ("queue", queue()),
        ("nic", object(offload)),
    ]));
    let mut expect = of::<Expect>(&|_| None);
    expect.insert("where".to_owned(), json!({ "type": "object" }));
    let traffic = registry.traffic.entries().map(|kind| {
        let traffic = kind.make();
        let mut knobs = properties(&traffic.knobs(), &|key| traffic.get(key));
        knobs.extend(table([("start", text("When it begins.")), ("tcp", tcp())]));
        named(kind.name(), kind.about(), knobs)
    });
    let probes = registry.probes.entries().map(|kind| {
        let probe = kind.make();
        let knobs = properties(&probe.knobs(), &|key| probe.get(key));
        named(kind.name(), kind.about(), knobs)
    });
    let values = json!({ "type": ["array", "string"], "items": { "type": ["string", "number", "boolean"] } });
    let mut whole = object(table([
        ("title", text("What it is, in a line.")),
        ("about", text("What it shows.")),
        ("network", object(network)),
        (
            "host",
            object(table([("nic", nic()), ("cpu", cpu()), ("tcp", tcp())])),
        ),
        ("group", each(group, "Hosts that have a name together.")),
        ("traffic", list(traffic.collect())),
        ("probe", list(probes.collect())),
        ("change", list(vec![object(changes)])),
        ("run", object(of::<Run>(&|key| get(&usual.run, key)))),
        ("sweep", each(values, "Keys with their values.")),
        ("show", object(of::<Show>(&|_| None))),
        ("expect", list(vec![object(expect)])),
        ("short", each(text("A key."), "Short names of keys.")),
    ]));
    whole["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    whole["title"] = json!("An experiment of narrows");
    whole
}

/// The names of queue disciplines, with parameters or without.
fn disciplines(registry: &Registry) -> Value {
    let standard = Discipline::STANDARD.into_iter();
    let standard = standard.map(|(_, name, about)| (name, about));
    let own = registry.disciplines.entries();
    let own = own.map(|own| (own.name(), own.about()));
    // Editors offer constants; parameters follow a colon.
    let all = standard.chain(own).flat_map(|(name, about)| {
        let pattern = format!("^{name}:.+$");
        [
            json!({ "const": name, "description": about }),
            json!({ "pattern": pattern, "description": about }),
        ]
    });
    all.collect()
}

fn get(section: &dyn narrows_experiment::knob::Section, key: &str) -> Option<String> {
    section.get(key)
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn object(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Names of the user's own, each with such a value.
fn each(value: Value, about: &str) -> Value {
    json!({ "type": "object", "description": about, "additionalProperties": value })
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

/// A list of such things, or a table of them by name or number.
fn list(kinds: Vec<Value>) -> Value {
    let one = match kinds.len() {
        1 => kinds.into_iter().next().unwrap_or_default(),
        _ => json!({ "oneOf": kinds }),
    };
    json!({ "anyOf": [
        { "type": "array", "items": one },
        { "type": "object", "additionalProperties": one },
    ] })
}

/// Traffic or a probe of one kind.
fn named(kind: &str, about: &str, mut knobs: Map<String, Value>) -> Value {
    knobs.insert("name".to_owned(), text("Its name in keys and columns."));
    knobs.insert(
        "kind".to_owned(),
        json!({ "const": kind, "description": about }),
    );
    let mut value = object(knobs);
    value["required"] = json!(["kind"]);
    value
}

fn of<S: Knobs>(usual: &dyn Fn(&str) -> Option<String>) -> Map<String, Value> {
    let knobs: Vec<About> = S::TABLE.iter().map(|knob| knob.about).collect();
    properties(&knobs, usual)
}

fn properties(knobs: &[About], usual: &dyn Fn(&str) -> Option<String>) -> Map<String, Value> {
    let one = |about: &About| {
        let mut value = value_of(&about.kind);
        let mut text = format!("{}: {}", about.title, about.meaning);
        if let Some(range) = about.kind.range() {
            text += &format!(" Allowed: {range}.");
        }
        if !about.source.is_empty() {
            text += &format!(" From {}.", about.source);
        }
        value["description"] = json!(text);
        if let Some(usual) = usual(about.key) {
            value["default"] = match u64::read(&usual) {
                Ok(n) => json!(n),
                Err(_) => json!(usual),
            };
        }
        (about.key.to_owned(), value)
    };
    knobs.iter().map(one).collect()
}

fn value_of(kind: &Kind) -> Value {
    match kind {
        Kind::Whole { least, most } => {
            json!({ "type": ["integer", "string"], "minimum": least, "maximum": most })
        }
        Kind::Size { .. } => json!({ "type": ["string", "integer"] }),
        Kind::Switch => json!({ "enum": [true, false, "on", "off"] }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Or(word, kind) => json!({ "anyOf": [{ "const": word }, value_of(kind)] }),
        Kind::List(kind) => {
            json!({ "anyOf": [value_of(kind), { "type": "array", "items": value_of(kind) }] })
        }
        Kind::Share => json!({ "type": ["string", "number"] }),
        Kind::Time { .. }
        | Kind::Rate
        | Kind::Queue { .. }
        | Kind::Name(_)
        | Kind::Hosts
        | Kind::Ports
        | Kind::Text(_) => json!({ "type": "string" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each key that `narrows keys` lists is a property, with its meaning.
    #[test]
    fn every_knob_is_in_the_schema() {
        let registry = Registry::default();
        let schema = schema(&registry).to_string();
        for section in registry.sections() {
            for (about, _) in section.knobs {
                let meaning = json!(about.meaning).to_string();
                let meaning = meaning.trim_matches('"');
                assert!(schema.contains(meaning), "{}.{}", section.at, about.key);
            }
        }
    }

    /// A size of a shape and a knob of every network cannot have one name.
    #[test]
    fn sizes_and_knobs_of_networks_have_names_of_their_own() {
        for shape in Registry::default().topologies.entries() {
            for size in shape.parameters() {
                let taken = Common::TABLE.iter().any(|k| k.about.key == size.name);
                assert!(!taken, "{}", size.name);
            }
        }
    }

    #[test]
    fn the_schema_names_kinds_and_shapes() {
        let schema = schema(&Registry::default());
        let network = &schema["properties"]["network"]["properties"];
        assert_eq!(network["topology"]["enum"][0], "star");
        assert_eq!(network["link"]["properties"]["rate"]["default"], "1Gb/s");
        assert_eq!(network["leaves"]["minimum"], 1);
        let traffic = &schema["properties"]["traffic"]["anyOf"][0]["items"]["oneOf"];
        assert_eq!(traffic[0]["properties"]["kind"]["const"], "bulk");
        assert_eq!(traffic[0]["additionalProperties"], false);
        assert_eq!(schema["additionalProperties"], false);
    }
}
