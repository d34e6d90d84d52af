//! A small soak in virtual time; `cargo run --release -p narrows-tests --example soak` is the long
//! one.
#![allow(missing_docs)]

use narrows::Duration;
use narrows_tests::soak::{Soak, run};

#[test]
fn an_hour_of_a_hundred_users_leaves_nothing_behind() {
    let soak = Soak {
        time: Duration::from_secs(3_600),
        users: 100,
        pause: Duration::from_secs(40),
        most: 100_000,
        bulk: 5 << 30,
        mss: 32_000,
        loss: 100,
        seed: 1,
    };
    let out = run(soak);
    assert!(out.opened > 8_000 && out.finished > 7_000, "{out:?}");
    assert!(out.aborted > 500, "{out:?}");
    assert_eq!(out.sequence_wraps, 1);
    assert!(out.beats >= 355, "{out:?}");
    assert_eq!(run(soak), out, "the same again");
}
