//! `narrows explain` on the kernel: causes are injected one at a time between two hosts of the
//! kernel's, and what was captured at either, and at both, names the cause.
//!
//! Where the machine cannot, a test is skipped with a message; with `CI=true` it fails.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub)] // Modules of one test.
#![allow(clippy::disallowed_methods)] // Live, time passes by itself.

mod path;
mod peers;
mod scenes;
#[path = "../skip/mod.rs"]
mod skip;

use narrows_explain::two::{Log, Path as Aligned};
use narrows_explain::{Analyzer, Cause, Confidence, Config, Explanation, Gap};
use path::{Captured, frames};
use std::time::Duration;

/// What is found in a capture.
fn explained(all: &[Captured]) -> Explanation {
    let mut analyzer = Analyzer::new(Config::default());
    let mut explanation = Explanation::new(10_000, 1_000);
    for frame in frames(all) {
        analyzer.handle_packet(&frame);
    }
    analyzer.finish();
    explanation.take(&mut analyzer);
    explanation.finish();
    explanation
}

/// The longest of the gaps with one of these causes. Others may be there: a loud machine makes packets
/// late.
fn longest(explanation: &Explanation, causes: &[Cause]) -> Option<Gap> {
    let gaps = explanation.ledger.gaps();
    let named = gaps.into_iter().filter(|gap| causes.contains(&gap.cause));
    named.max_by_key(Gap::length)
}

#[test]
fn causes_injected_one_at_a_time_are_named() {
    let Some(path) = path::Path::new() else {
        return;
    };
    let mut wrong = Vec::new();
    for scene in scenes::all() {
        // A machine busy with something else cuts silences short, or makes others that are longer.
        for left in (0..TRIES).rev() {
            let found = match play(&scene, &path) {
                Ok(found) => found,
                Err(why) => {
                    skip::skip(&format!("{}: {why}", scene.name));
                    break;
                }
            };
            if found.is_empty() {
                break;
            }
            println!("{}: {found:#?}, {left} tries left", scene.name);
            if left == 0 {
                wrong.extend(found);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// How often a scene is played at most until its cause is named.
const TRIES: usize = 3;

/// Plays a scene: what of it is not named as it should be.
///
/// # Errors
/// Why it cannot be played here.
fn play(scene: &scenes::Scene, path: &path::Path) -> Result<Vec<String>, String> {
    let captured = scene.play(path)?;
    let mut wrong = Vec::new();
    let [sender, receiver] = [explained(&captured[0]), explained(&captured[1])];
    let mut logs = [Log::new(100_000), Log::new(100_000)];
    for (log, all) in logs.iter_mut().zip(&captured) {
        frames(all).for_each(|frame| log.handle_packet(&frame));
    }
    let aligned = Aligned::between(&logs[0], &logs[1]).unwrap();
    // Both hosts have one clock.
    let (ahead, bound) = (aligned.clock.offset, aligned.clock.bound.as_nanos() as i64);
    if ahead.abs() > bound {
        wrong.push(format!(
            "{}: one clock is {ahead} ns ahead, bound {bound}",
            scene.name
        ));
    }
    let both = aligned.explain(&sender, &receiver);
    for (place, told) in [("sender", &sender), ("both", &both)] {
        let found = longest(told, scene.causes);
        let says = found.map(|gap| {
            format!(
                "{} {} ({}): {}",
                gap.length(),
                gap.cause,
                gap.confidence,
                gap.because()
            )
        });
        println!(
            "{}, {place}: {}",
            scene.name,
            says.clone().unwrap_or_default()
        );
        let right = found.is_some_and(|gap| gap.length() >= scene.least);
        let sure = found.is_some_and(|gap| gap.confidence == Confidence::Certain);
        if !right || (place == "both" && scene.certain && !sure) {
            wrong.push(format!("{}, {place}: {says:?}", scene.name));
        }
    }
    Ok(wrong)
}

/// For as long.
fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
