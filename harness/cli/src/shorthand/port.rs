//! Options about the port that is studied, the one to the first host, and the link behind it.

use super::super::values;
use super::{Composite, Pairs};
use narrows_experiment::knob::Quantity;
use narrows_experiment::model::Experiment;
use narrows_experiment::model::link::Hold;
use narrows_experiment::scenario::spec::{ImpairedWay, Share};

const LIMIT: &str = r#"network.port."s0->h0".queue.limit"#;
const DISCIPLINE: &str = r#"network.port."s0->h0".queue.discipline"#;
const THRESHOLD: &str = r#"network.port."s0->h0".queue.threshold"#;
/// Ethernet's header and check sequence, which buffers hold, too.
const ETHERNET: u64 = 18;
const NEVER: &str = "1073741824p";

/// Memory of the whole switch.
pub(crate) const SHARED_BUFFER: Composite = Composite {
    name: "shared-buffer",
    value: "SIZE[:ALPHA]",
    help: "Memory that all ports of the switch share, each up to ALPHA times what is free, in place of --buffer; with both, both hold [default: none; ALPHA: 1].",
    heading: "Network",
    missing: None,
    conflicts: &[],
    pairs: |text, experiment| {
        let shared = values::shared_buffer(text)?;
        let least = u64::from(experiment.network.common.mtu) + ETHERNET;
        if shared.size.get() < least {
            return Err(format!("it holds no packet: allowed is {least}B and more"));
        }
        let size = shared.size.show().unwrap_or_default();
        // The pool is the limit, unless --buffer gives a narrower one.
        Ok(vec![
            ("network.shared_buffer", text.to_owned()),
            (LIMIT, size),
        ])
    },
};

/// What goes wrong on the link behind the port.
pub(crate) const IMPAIR: Composite = Composite {
    name: "impair",
    value: "KIND=SHARE,...",
    help: "Let the client's link lose, corrupt, duplicate or reorder packets at random: loss=0.1%,reorder=1%,hold=20us-80us,on=data. on is data, acks or both.",
    heading: "Network",
    missing: None,
    conflicts: &[],
    pairs: impairments,
};

/// Marking from a queue on.
pub(crate) const ECN_THRESHOLD: Composite = Composite {
    name: "ecn-threshold",
    value: "QUEUE LIST",
    help: "Mark ECN-capable packets from this queue on, or off [default: 30kB].",
    heading: "Network",
    missing: None,
    conflicts: &["red", "codel"],
    pairs: |text, _| {
        if text == "off" {
            return Ok(vec![
                (DISCIPLINE, "drop-tail".to_owned()),
                (THRESHOLD, "off".to_owned()),
            ]);
        }
        let mut list = Vec::new();
        for value in text.split(',') {
            list.push(match values::ecn_threshold(value.trim())? {
                // More than any queue holds.
                None => NEVER.to_owned(),
                Some(_) => value.trim().to_owned(),
            });
        }
        Ok(vec![
            (DISCIPLINE, "ecn-step".to_owned()),
            (THRESHOLD, list.join(",")),
        ])
    },
};

/// Random early detection.
pub(crate) const RED: Composite = Composite {
    name: "red",
    value: "MIN:MAX:PERCENT",
    help: "Random early detection, in place of the ECN threshold.",
    heading: "Network",
    missing: None,
    conflicts: &["codel"],
    pairs: |text, _| {
        let red = values::red(text)?;
        let probability = Share(red.max_permille * (Share::ALL.0 / 1_000));
        Ok(vec![
            (THRESHOLD, "off".to_owned()),
            (DISCIPLINE, "red".to_owned()),
            (r#"network.port."s0->h0".queue.min"#, shown(red.min)),
            (r#"network.port."s0->h0".queue.max"#, shown(red.max)),
            (
                r#"network.port."s0->h0".queue.probability"#,
                shown(probability),
            ),
        ])
    },
};

/// Controlled delay.
pub(crate) const CODEL: Composite = Composite {
    name: "codel",
    value: "TARGET:INTERVAL[:CE]",
    help: "Controlled delay (RFC 8289), in place of the ECN threshold: marks or drops at the head of the queue; with CE, marks what waited longer than that [without a value: 5ms:100ms].",
    heading: "Network",
    missing: Some("5ms:100ms"),
    conflicts: &[],
    pairs: |text, _| {
        let range = "allowed is 100ns to 100s, the target below the interval";
        let codel = values::codel(text).map_err(|why| format!("{why}; {range}"))?;
        if codel.target >= codel.interval {
            return Err(range.to_owned());
        }
        let mut pairs = vec![
            (THRESHOLD, "off".to_owned()),
            (DISCIPLINE, "codel".to_owned()),
            (r#"network.port."s0->h0".queue.target"#, shown(codel.target)),
            (
                r#"network.port."s0->h0".queue.interval"#,
                shown(codel.interval),
            ),
        ];
        let key = r#"network.port."s0->h0".queue.ce_threshold"#;
        pairs.extend(codel.ce_threshold.map(|ce| (key, shown(ce))));
        Ok(pairs)
    },
};

/// A value as a key has it.
fn shown(value: impl Quantity) -> String {
    value.show().unwrap_or_default()
}

/// What goes wrong on the client's link, by direction.
fn impairments(text: &str, _: &Experiment) -> Result<Pairs, String> {
    let read = values::allowed("shares of 0 to 100%, hold=0s to 10s", values::impair);
    let impair = read(text)?;
    let hold = Hold {
        least: impair.hold.0,
        most: impair.hold.1,
    };
    let mut pairs = Vec::new();
    let ways: [(ImpairedWay, [&'static str; 5]); 2] = [
        (
            ImpairedWay::Acks,
            [
                r#"network.port."s0->h0".link.loss"#,
                r#"network.port."s0->h0".link.corrupt"#,
                r#"network.port."s0->h0".link.duplicate"#,
                r#"network.port."s0->h0".link.reorder"#,
                r#"network.port."s0->h0".link.hold"#,
            ],
        ),
        (
            ImpairedWay::Data,
            [
                r#"network.port."h0->s0".link.loss"#,
                r#"network.port."h0->s0".link.corrupt"#,
                r#"network.port."h0->s0".link.duplicate"#,
                r#"network.port."h0->s0".link.reorder"#,
                r#"network.port."h0->s0".link.hold"#,
            ],
        ),
    ];
    for (other_way, keys) in ways {
        if impair.on == other_way {
            continue;
        }
        let values = [
            impair.loss.show(),
            impair.corrupt.show(),
            impair.duplicate.show(),
            impair.reorder.show(),
            hold.show(),
        ];
        let set = keys.into_iter().zip(values);
        pairs.extend(set.filter_map(|(key, value)| Some((key, value?))));
    }
    Ok(pairs)
}
