//! Two captures of the same connections, explained together and held against the simulator's truth.
#![cfg(feature = "simulate")]

use narrows::Duration;
use narrows_experiment::file::Loaded;
use narrows_experiment::registry::Registry;
use narrows_explain::score::{Score, Told};
use narrows_explain::simulated::{Ends, Skew, grid, held_out, observe_ends};
use narrows_explain::truth::Threshold;
use narrows_explain::{Cause, Confidence, Vantage};

fn ends(case: &narrows_explain::simulated::Case, skew: Skew) -> Ends {
    let registry = Registry::default();
    let loaded = Loaded::parse(&case.name, &case.text, &registry).expect("it is an experiment");
    let threshold = Threshold {
        floor: case.rtt,
        share_percent: 0,
    };
    observe_ends(&loaded.experiment, &registry, threshold, skew).expect("it runs")
}

#[test]
fn offset_and_drift_are_found_within_the_stated_bound() {
    let mut aligned = 0;
    for skew in [
        Skew::default(),
        Skew {
            offset: 3_700_000_000,
            drift: 0,
        },
        Skew {
            offset: -41_000_000,
            drift: 20_000,
        },
        Skew {
            offset: 5_000_000,
            drift: -25_000,
        },
    ] {
        for case in grid(Some(18)) {
            let ends = ends(&case, skew);
            for ([a, b], clock) in &ends.clocks {
                let Ok(clock) = clock else {
                    panic!("{} {skew:?}: {clock:?}", case.name);
                };
                aligned += 1;
                assert!(clock.delay <= clock.bound, "{clock:?}");
                let [from, to] = clock.span.map(|at| skew.truly(*a, at));
                for at in [from, from + to.since(from) / 2, to] {
                    let here = skew.shown(*a, at);
                    let there = skew.shown(*b, at).as_nanos() as i64;
                    let off = there - here.as_nanos() as i64 - clock.ahead(here);
                    let bound = clock.bound.as_nanos() as i64 + 2_000;
                    assert!(
                        off.abs() <= bound,
                        "{} {skew:?} {a} {b}: off {off}, {clock:?}",
                        case.name
                    );
                }
            }
        }
    }
    assert!(aligned >= 100, "{aligned}");
}

#[test]
fn both_ends_together_tell_more_than_either() {
    let skew = Skew {
        offset: 21_000_000,
        drift: 20_000,
    };
    let (mut both, mut alone) = (Score::default(), Score::default());
    let cases: Vec<_> = grid(Some(120))
        .into_iter()
        .chain(held_out(Some(60)))
        .collect();
    for case in &cases {
        let ends = ends(case, skew);
        let counted = case.rtt * 5 / 2 + Duration::from_micros(200);
        let told = Told {
            gaps: &ends.truth,
            questions: &[],
        };
        both.add(Vantage::Sender, told, &ends.both, case.rtt / 2, counted);
        for place in [Vantage::Sender, Vantage::Receiver] {
            alone.add(place, told, &ends.alone, case.rtt / 2, counted);
        }
    }
    let of = |score: &Score, place, cause| {
        let per_mille = |share: narrows_explain::score::Share| share.per_mille().unwrap_or(1_000);
        (
            per_mille(score.recall(place, cause)),
            per_mille(score.precision(place, cause)),
        )
    };
    let mut better = 0;
    for cause in [
        Cause::TimeoutWholeWindow,
        Cause::TimeoutTail,
        Cause::TimeoutRetransmissionLost,
        Cause::TimeoutSpurious,
        Cause::SynRetried,
        Cause::DelayedAck,
        Cause::NagleDelayedAck,
    ] {
        let (recall, precision) = of(&both, Vantage::Sender, cause);
        println!("{cause}: recall {recall}, precision {precision}");
        if both.recall(Vantage::Sender, cause).all >= 10 {
            assert!(recall >= 950, "{cause}: recall {recall}");
            assert!(
                precision >= 950,
                "{cause}: precision {precision}, {:?}",
                both.found.get(&(Vantage::Sender, cause))
            );
        }
        for place in [Vantage::Sender, Vantage::Receiver] {
            let alone = of(&alone, place, cause);
            let worse = recall < alone.0 || precision < alone.1;
            better += usize::from(!worse && (recall, precision) != alone);
        }
    }
    assert!(better >= 9, "of 14: {better}");
    let sure = |score: &Score| {
        score
            .confidence
            .get(&(Vantage::Sender, Confidence::Certain))
            .copied()
            .unwrap_or_default()
    };
    let (all, right) = sure(&both);
    let told: u64 = both.confidence.iter().map(|(_, (all, _))| all).sum();
    println!("certain: {all} of {told}, alone {:?}", sure(&alone));
    assert_eq!(all, right, "certain is certain");
    assert!(
        all >= 10 * sure(&alone).0.max(1),
        "{all} against {:?}",
        sure(&alone)
    );
}
