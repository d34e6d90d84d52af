//! Outputs that are split by input.

use super::super::{Bench, Expected, Measured, Row, Tolerance};
use super::{goodput, parsed, run, with};
use narrows_experiment::scenario::ScenarioError;

const SOURCE: &str =
    "an output split by input: 1/q of the line for each queue, evenly for its flows";

/// What the talk reports of its rack.
pub(super) fn rack(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for cc in ["reno", "cubic", "dctcp"] {
        let values = [("split", "2"), ("cc", cc), ("run.duration", "400ms")];
        let ran = run(bench, &with("split-output", &values)?)?;
        let each = ["first", "alone", "third"].map(|name| goodput(&ran, name));
        let all: f64 = each.iter().sum();
        for (sender, share, wanted) in [("first", 0, 25.0), ("second", 1, 50.0), ("third", 2, 25.0)]
        {
            bench.row(Row::new(
                format!("{cc}, share of the {sender} sender"),
                "Brakmo et al., LPC 2018: 25, 50 and 25 %",
                Expected::Value(wanted),
                Measured::Value(each[share] / all * 100.0),
                "%",
                Tolerance::Absolute(2.0),
            ));
        }
    }
    Ok(())
}

/// n flows of one of q queues, and a flow each of the others: a queue sends 1/q of the time, however
/// many flows it has, so each of the n has 1/(q n). Host i comes in by port i, whose queue is i modulo q.
/// The flow of one's share that is farthest from it stands for all.
pub(super) fn shares(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for (queues, sharing) in [(2, vec![1, 3, 5]), (2, vec![1, 3, 5, 7]), (4, vec![1, 5])] {
        let alone: Vec<u32> = (2..=queues).collect();
        let hosts = sharing.iter().max().map_or(0, |most| most + 1);
        let traffic = sharing.iter().chain(&alone).map(|host| {
            format!("[[traffic]]\nname = \"of-{host}\"\nkind = \"bulk\"\nfrom = \"h{host}\"\nto = \"h0\"\n")
        });
        let file = format!(
            "title = \"Many flows of a queue\"\n\
             [network]\ntopology = \"star\"\nhosts = {hosts}\n\
             link = {{ rate = \"10Gb/s\", delay = \"10us\" }}\n\
             queue = {{ limit = \"800kB\", discipline = \"ecn-step\", threshold = \"30p\", \
             split = {queues} }}\n\
             [host.tcp]\ncongestion = \"dctcp\"\nrto = \"10ms\"\ndelayed_ack = \"off\"\n\
             receive_window = \"2MB\"\n\
             {}\
             [run]\nduration = \"100ms\"\nwarm_up = \"20ms\"\n",
            traffic.collect::<String>()
        );
        let ran = run(bench, &parsed("split", &file)?)?;
        let of = |hosts: &[u32]| -> Vec<f64> {
            let names = hosts.iter().map(|host| format!("of-{host}"));
            names.map(|name| goodput(&ran, &name)).collect()
        };
        let (together, apart) = (of(&sharing), of(&alone));
        let all: f64 = together.iter().chain(&apart).sum();
        let n = sharing.len() as f64;
        let (q, flows) = (f64::from(queues), sharing.len());
        let kinds = [
            (
                format!("each of {flows} flows of a queue"),
                together,
                100.0 / (q * n),
            ),
            (
                "a flow that has a queue to itself".to_owned(),
                apart,
                100.0 / q,
            ),
        ];
        for (what, shares, wanted) in kinds {
            let shares = shares.iter().map(|share| share / all * 100.0);
            let off = |share: f64| (share - wanted).abs();
            let farthest = shares.max_by(|a, b| off(*a).total_cmp(&off(*b)));
            bench.row(Row::new(
                format!("{queues} queues, {flows} flows share one: {what}, the farthest off"),
                SOURCE,
                Expected::Value(wanted),
                Measured::Value(farthest.unwrap_or(f64::NAN)),
                "%",
                Tolerance::Absolute(2.0),
            ));
        }
    }
    Ok(())
}
