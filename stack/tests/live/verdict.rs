//! Tries of what happens in real time: a machine that is busy with something else spoils some of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// So many tries that fail, and none that holds before, make a test fail: what is wrong is wrong in each.
const FAILURES: usize = 3;
/// Of all tries, with those that say nothing.
const TRIES: usize = 9;

/// What a try says.
pub(crate) enum Verdict {
    Holds,
    /// It does not, and how.
    Fails(String),
    /// Nothing: what disturbed it.
    Disturbed(String),
}

impl Verdict {
    /// Of a judge that panics where something does not hold.
    pub(crate) fn of(judge: impl FnOnce()) -> Self {
        match catch_unwind(AssertUnwindSafe(judge)) {
            Ok(()) => Self::Holds,
            Err(said) => Self::Fails(message(&*said).to_owned()),
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text")
}

/// Until a try holds.
///
/// # Panics
/// With what was wrong in the tries that failed.
pub(crate) fn judged(mut one: impl FnMut() -> Verdict) {
    let mut failed = Vec::new();
    for _ in 0..TRIES {
        match one() {
            Verdict::Holds => return,
            Verdict::Fails(how) => {
                eprintln!("once more: {how}");
                failed.push(how);
            }
            Verdict::Disturbed(by) => eprintln!("once more: {by}"),
        }
        assert!(failed.len() < FAILURES, "{failed:#?}");
    }
    eprintln!("NOT JUDGED: {TRIES} tries, of which these failed: {failed:#?}");
}

#[test]
fn what_fails_each_time_fails() {
    let tried = |verdicts: &[fn() -> Verdict]| {
        let mut all = verdicts.iter().cycle();
        catch_unwind(AssertUnwindSafe(|| judged(|| all.next().unwrap()()))).map_err(drop)
    };
    let fails = || Verdict::of(|| panic!("wrong"));
    let disturbed = || Verdict::Disturbed("a noise".to_owned());
    assert!(matches!(fails(), Verdict::Fails(how) if how == "wrong"));
    assert_eq!(tried(&[fails]), Err(()));
    assert_eq!(tried(&[fails, disturbed]), Err(()));
    assert_eq!(tried(&[fails, fails, || Verdict::of(|| ())]), Ok(()));
    assert_eq!(tried(&[disturbed]), Ok(()));
}
