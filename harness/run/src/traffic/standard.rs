//! The kinds of traffic that narrows brings along.

use super::all_to_all::AllToAll;
use super::bulk::Bulk;
use super::fan_out::FanOut;
use super::kind::{TrafficKind, TrafficKinds};
use super::node_mesh::NodeMesh;
use super::on_off::OnOff;
use super::ring::Ring;
use super::rpc::Rpc;
use super::synchronised_read::SynchronisedRead;

impl Default for TrafficKinds {
    #[inline]
    fn default() -> Self {
        Self::standard()
    }
}

impl TrafficKinds {
    /// What narrows brings along.
    // What each kind says of its knobs is needed here first, and that runs once: compiled where it is called, by a
    // crate that is not optimised.
    #[inline]
    pub fn standard() -> Self {
        Self(vec![
            TrafficKind::new::<Bulk>(
                "bulk",
                "transfers of a size, or without end, from some hosts to others",
            ),
            TrafficKind::new::<SynchronisedRead>(
                "synchronised-read",
                "a client reads blocks that are striped over servers: incast",
            ),
            TrafficKind::new::<Rpc>("rpc", "calls and replies, one at a time on each connection"),
            TrafficKind::new::<FanOut>(
                "fan-out",
                "queries that arrive by themselves, each put to several hosts",
            ),
            TrafficKind::new::<AllToAll>("all-to-all", "each host sends to each other: a shuffle"),
            TrafficKind::new::<Ring>(
                "ring",
                "all-reduce or all-gather: hosts pass chunks to the next one, step by step",
            ),
            TrafficKind::new::<NodeMesh>(
                "node-mesh",
                "nodes of the Erlang kind: a connection a pair, busy ports, suspended processes",
            ),
            TrafficKind::new::<OnOff>("on-off", "bursts with idle periods between them"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::Rig;
    use super::*;
    use crate::knob::{About, Kind};
    use narrows::Duration;

    /// Values that a knob of any kind may have.
    fn values(kind: &Kind) -> Vec<String> {
        let text = |n: u64, unit: &str| format!("{n}{unit}");
        match *kind {
            Kind::Size { least, most } => vec![text(least, "B"), text(most, "B")],
            Kind::Time { least, most } => vec![text(least, "ns"), text(most, "ns")],
            Kind::Whole { least, most } => vec![least.to_string(), most.to_string()],
            Kind::Rate => vec!["1kb/s".to_owned(), "1Tb/s".to_owned()],
            Kind::Switch => vec!["on".to_owned(), "off".to_owned()],
            Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Kind::Hosts => vec!["h0..h3".to_owned(), "*".to_owned()],
            Kind::Or(word, kind) => {
                let mut values = values(kind);
                values.push(word.to_owned());
                values
            }
            _ => Vec::new(),
        }
    }

    /// Each value at the ends of each range is taken, and what is shown reads back as the same.
    #[test]
    fn every_knob_of_every_kind_is_set_and_shown() {
        for kind in TrafficKinds::standard().entries() {
            for About {
                key,
                kind: of,
                meaning,
                ..
            } in kind.make().knobs()
            {
                assert!(meaning.ends_with('.'), "{} {key}: {meaning}", kind.name());
                for value in values(&of) {
                    let mut traffic = kind.make();
                    let set = traffic.set(key, &value);
                    set.unwrap_or_else(|e| panic!("{} {key} = {value}: {e}", kind.name()));
                    if let Some(shown) = traffic.get(key) {
                        let mut again = kind.make();
                        again.set(key, &shown).unwrap();
                        assert_eq!(again.get(key), Some(shown), "{} {key}", kind.name());
                    }
                }
                let nonsense = kind.make().set(key, "no such thing");
                assert!(nonsense.is_err() || matches!(of, Kind::Hosts | Kind::Or(_, Kind::Hosts)));
            }
        }
    }

    /// With its default knobs each kind runs on a star and on a leaf-spine, beside all others.
    #[test]
    fn every_kind_runs_beside_all_others() {
        let mut star = Rig::star(5);
        let mut fabric = Rig::leaf_spine(2, 2).ipv6();
        for (kind, n) in TrafficKinds::standard().entries().zip(0..) {
            let start = Duration::from_millis(n);
            let mut traffic = kind.make();
            if kind.name() == "bulk" {
                traffic.set("size", "1MB").unwrap();
            }
            star = star.boxed(start, traffic.clone());
            fabric = fabric.boxed(start, traffic);
        }
        for rig in [star, fabric] {
            let ran = rig.run(Duration::from_millis(2_000));
            for (kind, number) in TrafficKinds::standard().entries().zip(0..) {
                let any = ran.transfers().iter().any(|t| t.traffic == number);
                assert!(any, "{}", kind.name());
            }
            assert_eq!(rig.run(Duration::from_millis(2_000)).bits(), ran.bits());
        }
    }

    #[test]
    fn kinds_have_names_and_near_matches() {
        let mut kinds = TrafficKinds::standard();
        let names: Vec<&str> = kinds.entries().map(TrafficKind::name).collect();
        let all = [
            "bulk",
            "synchronised-read",
            "rpc",
            "fan-out",
            "all-to-all",
            "ring",
            "node-mesh",
            "on-off",
        ];
        assert_eq!(names, all);
        let why = kinds.get("fanout").unwrap_err();
        assert!(why.contains("did you mean 'fan-out'"), "{why}");
        kinds.register(TrafficKind::new::<Bulk>("rpc", "something else"));
        assert_eq!(kinds.entries().len(), all.len());
        assert_eq!(kinds.get("rpc").unwrap().about(), "something else");
    }
}
