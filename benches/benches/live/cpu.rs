//! What threads have taken of the processor.

use std::fs;

/// Nanoseconds that a thread has run, and how much of it outside the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// All.
    pub(crate) nanos: u64,
    /// Clock ticks outside and inside the kernel.
    ticks: [u64; 2],
}

impl Cpu {
    /// Of the threads of this process that are called `name`, together.
    pub(crate) fn of(name: &str) -> Self {
        let mut sum = Self::default();
        let Ok(threads) = fs::read_dir("/proc/self/task") else {
            return sum;
        };
        for thread in threads.flatten() {
            let read = |file: &str| fs::read_to_string(thread.path().join(file)).ok();
            if read("comm").is_none_or(|n| n.trim_end() != name) {
                continue;
            }
            let word = |text: Option<String>, n: usize| -> u64 {
                let word = text.as_deref().and_then(|t| t.split_whitespace().nth(n));
                word.and_then(|w| w.parse().ok()).unwrap_or(0)
            };
            sum.nanos += word(read("schedstat"), 0);
            // Behind the name, which may hold spaces, the fields 14 and 15 of proc_pid_stat(5).
            let rest = || read("stat").and_then(|t| Some(t.rsplit_once(')')?.1.to_owned()));
            sum.ticks[0] += word(rest(), 11);
            sum.ticks[1] += word(rest(), 12);
        }
        sum
    }

    /// Since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(before.nanos),
            ticks: [0, 1].map(|i| self.ticks[i].saturating_sub(before.ticks[i])),
        }
    }

    /// The part outside the kernel, of 1.
    pub(crate) fn user_part(self) -> f64 {
        let [user, kernel] = self.ticks.map(|t| t as f64);
        user / (user + kernel).max(1.0)
    }
}
