//! The settings of an experiment, in full.

use crate::chart::ink::escape;
use narrows_experiment::model::{Entry, Experiment, quoted};
use narrows_experiment::registry::Registry;
use std::fmt::Write;

/// Every key with its value; those that are not as they are without being set stand out.
pub(super) fn section(out: &mut String, base: &Experiment, registry: &Registry) {
    let usual = usual(base, registry);
    let _ = write!(
        out,
        "<h2>Settings</h2>\n<p class=\"note\">Values in grey are defaults.</p>\n\
         <div class=\"scroll\"><table class=\"settings\">\n"
    );
    for Entry { key, value } in base.entries() {
        let value = value.to_string();
        let varied = base.sweep.iter().any(|axis| axis.key == key);
        let kind = key.ends_with(".kind");
        let class = if !kind && usual.get(&key).as_deref() == Some(&value) && !varied {
            " class=\"usual\""
        } else {
            ""
        };
        let value = if varied {
            "varied, see sweep".to_owned()
        } else {
            value
        };
        let about = registry.about(base, &key);
        let title = about.map_or(String::new(), |about| about.title.to_owned());
        let _ = writeln!(
            out,
            "<tr{class}><th scope=\"row\">{}</th><td>{}</td><td class=\"about\">{}</td></tr>",
            escape(&key),
            escape(&value),
            escape(&title)
        );
    }
    let _ = writeln!(out, "</table></div>");
}

/// An experiment with traffics and probes of the same kinds, in which nothing else is set.
fn usual(base: &Experiment, registry: &Registry) -> Experiment {
    let mut usual = Experiment::default();
    let traffic = base.traffic.iter().map(|t| ("traffic", &t.name, &t.kind));
    let probes = base.probes.iter().map(|p| ("probe", &p.name, &p.kind));
    for (part, name, kind) in traffic.chain(probes) {
        // The kinds are known: the experiment has them.
        let _ = usual.set(registry, &format!("{part}.{}.kind", quoted(name)), kind);
    }
    usual
}
