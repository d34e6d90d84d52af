//! Runs checks on several threads.

use super::{Bench, Check, Figure, Row, explained};
use narrows_experiment::scenario::ScenarioError;
use narrows_experiment::scenario::parallel::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a check found.
#[derive(Debug)]
pub struct CheckReport {
    /// Which check.
    pub check: Check,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Its pictures.
    pub figures: Vec<Figure>,
    /// Why it ended early. The rows made until then are there.
    pub failure: Option<ScenarioError>,
    /// How long it took.
    pub took: Duration,
}

/// Run `checks` on `threads` threads, the longest first; reports in the order of `checks`.
/// Checks that were not reached when `cancel` was set have no report.
///
/// `clock` says how much time has passed since some beginning. `on_done` is called from the
/// workers.
pub fn run_checks(
    checks: &[Check],
    threads: usize,
    cancel: &AtomicBool,
    clock: &(dyn Fn() -> Duration + Sync),
    on_done: &(dyn Fn(&CheckReport) + Sync),
) -> Vec<CheckReport> {
    let mut order: Vec<usize> = (0..checks.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(checks[i].seconds));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let worker = || {
        while !cancel.load(Ordering::Relaxed) {
            let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let report = run_one(checks[index], cancel, clock);
            on_done(&report);
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, report));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(checks.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, report)| report).collect()
}

fn run_one(check: Check, cancel: &AtomicBool, clock: &dyn Fn() -> Duration) -> CheckReport {
    let began = clock();
    let last = std::cell::Cell::new(began);
    let stamp = |row: &mut Row| {
        let now = clock();
        row.millis = now.saturating_sub(last.replace(now)).as_millis() as u64;
    };
    let mut bench = Bench::new(cancel, &stamp);
    let result = catch_unwind(AssertUnwindSafe(|| (check.run)(&mut bench)))
        .unwrap_or_else(|panic| Err(ScenarioError::Internal(panic_text(panic.as_ref()))));
    let (mut rows, figures) = bench.into_findings();
    let ours = super::checks()
        .into_iter()
        .chain(super::full_checks())
        .chain(super::local_checks());
    if ours.map(|c| c.name).any(|name| name == check.name) {
        explained::hold_to_the_list(check.name, &mut rows);
    }
    CheckReport {
        check,
        rows,
        figures,
        failure: result.err(),
        took: clock().saturating_sub(began),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Expected, Measured, Tolerance, Verdict};
    use super::*;

    fn check(name: &'static str, run: fn(&mut Bench<'_>) -> Result<(), ScenarioError>) -> Check {
        Check {
            name,
            what: "",
            seconds: name.len() as u32,
            run,
        }
    }

    fn fine(b: &mut Bench<'_>) -> Result<(), ScenarioError> {
        b.checkpoint()?;
        let (one, ours) = (Expected::Value(1.0), Measured::Value(1.0));
        b.row(Row::new(
            "one",
            "arithmetic",
            one,
            ours,
            "",
            Tolerance::Exact,
        ));
        Ok(())
    }

    fn run(checks: &[Check], threads: usize, cancel: bool) -> Vec<CheckReport> {
        let clock = || Duration::ZERO;
        run_checks(checks, threads, &AtomicBool::new(cancel), &clock, &|_| {})
    }

    #[test]
    fn reports_keep_their_order_and_a_panic_spoils_only_its_own() {
        let checks = [
            check("a", fine),
            check("panics", |b| {
                fine(b)?;
                panic!("by design")
            }),
            check("longest", fine),
        ];
        for threads in [1, 2, 9] {
            let reports = run(&checks, threads, false);
            let names: Vec<_> = reports.iter().map(|r| r.check.name).collect();
            assert_eq!(names, ["a", "panics", "longest"]);
            assert!(reports.iter().all(|r| r.rows.len() == 1));
            assert_eq!(reports[0].rows[0].verdict(), Verdict::Agrees);
            let failure = reports[1].failure.as_ref().unwrap().to_string();
            assert!(failure.contains("by design"), "{failure}");
            assert!(reports[2].failure.is_none());
        }
    }

    #[test]
    fn nothing_starts_after_a_cancellation() {
        assert!(run(&[check("a", fine)], 1, true).is_empty());
    }
}
