//! What a machine did while something ran on it: how late its threads woke, and who had its
//! processors. What is measured live has that in it.

#![allow(
    clippy::disallowed_methods,
    reason = "how late a sleep ends is what is measured"
)]

use narrows::driver::Clock;
use narrows_experiment::stats::quantile;
use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the thread sleeps that is watched.
const NAP: Duration = Duration::from_millis(1);

/// What was seen of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// How much later than after a millisecond a thread woke that slept one: in one of a hundred
    /// cases, and at the most.
    pub late: Option<(Duration, Duration)>,
    /// Share of the processors' time that they worked, for this program or for others, the kernel's
    /// work included; and that a hypervisor gave to others.
    pub shares: Option<Shares>,
}

/// Shares of the time of all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// They worked.
    pub busy: f64,
    /// ... for this program.
    pub own: f64,
    /// A hypervisor gave them to others.
    pub stolen: f64,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |t: Duration| t.as_nanos() as f64 / 1e6;
        let mut said = Vec::new();
        if let Some((often, latest)) = self.late {
            said.push(format!(
                "a thread that slept a millisecond woke {:.2} ms late in one of a hundred cases, and \
                 {:.1} ms at the most",
                ms(often),
                ms(latest)
            ));
        }
        if let Some(Shares { busy, own, stolen }) = self.shares {
            said.push(format!(
                "processors were busy for {:.0} % of the time, for this program {:.0} %, and {:.1} % \
                 was given to other machines",
                busy * 100.0,
                own * 100.0,
                stolen * 100.0
            ));
        }
        match said.is_empty() {
            true => f.write_str("what the machine did is not known"),
            false => f.write_str(&said.join("; ")),
        }
    }
}

/// Clock ticks: of all processors busy, idle and stolen, and of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    idle: u64,
    stolen: u64,
    own: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        let of_all = fs::read_to_string("/proc/stat").ok()?;
        let of_own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&of_all, &of_own)
    }

    /// proc_stat(5) and proc_pid_stat(5).
    fn parse(of_all: &str, of_own: &str) -> Option<Self> {
        let line = of_all.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal
        let [user, nice, system, idle, wait, irq, soft, stolen, ..] = ticks[..] else {
            return None;
        };
        // The program's name, in parentheses, may have blanks.
        let (_, fields) = of_own.rsplit_once(") ")?;
        let mut times = fields
            .split(' ')
            .skip(11)
            .map_while(|n| n.parse::<u64>().ok());
        Some(Self {
            busy: user + nice + system + irq + soft,
            idle: idle + wait,
            stolen,
            own: times.next()? + times.next()?,
        })
    }

    fn since(self, before: Self) -> Option<Shares> {
        let of = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let (busy, idle) = (of(self.busy, before.busy), of(self.idle, before.idle));
        let stolen = of(self.stolen, before.stolen);
        let all = busy + idle + stolen;
        (all > 0.0).then(|| Shares {
            busy: busy / all,
            own: of(self.own, before.own) / all,
            stolen: stolen / all,
        })
    }
}

/// Watches this machine.
#[derive(Debug)]
pub struct Watch {
    ended: Arc<AtomicBool>,
    naps: Option<JoinHandle<Vec<u64>>>,
    before: Option<Ticks>,
}

impl Watch {
    /// From now on.
    pub fn begin() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let naps = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                let mut late = Vec::new();
                while !seen.load(Ordering::Relaxed) {
                    let begin = Clock.now();
                    thread::sleep(NAP);
                    let took = Clock.now().since(begin).as_nanos();
                    late.push(took.saturating_sub(NAP.as_nanos() as u64));
                }
                late
            });
        Self {
            ended,
            naps: naps.ok(),
            before: Ticks::now(),
        }
    }

    /// What was seen.
    pub fn end(self) -> Machine {
        self.ended.store(true, Ordering::Relaxed);
        let mut late = self
            .naps
            .and_then(|naps| naps.join().ok())
            .unwrap_or_default();
        late.sort_unstable();
        let at = |permille| quantile(&late, permille).map(Duration::from_nanos);
        let shares = Ticks::now().zip(self.before);
        Machine {
            late: at(990).zip(at(1_000)),
            shares: shares.and_then(|(now, before)| now.since(before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_of_all_processors() {
        let own = |user: u32, system: u32| {
            format!("7 (a (b) c) R 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 1")
        };
        let before = Ticks::parse("cpu  10 0 10 100 0 0 0 0 0 0\ncpu0 1", &own(5, 5)).unwrap();
        let now = Ticks::parse("cpu  50 10 20 130 0 5 5 10 0 0\n", &own(25, 10)).unwrap();
        let shares = now.since(before).unwrap();
        assert_eq!(
            (shares.busy, shares.own, shares.stolen),
            (70.0 / 110.0, 25.0 / 110.0, 10.0 / 110.0)
        );
        assert_eq!(now.since(now), None);
        assert_eq!(Ticks::parse("intr 5", &own(1, 1)), None);
    }

    #[test]
    fn a_thread_that_sleeps_is_watched_and_what_was_seen_is_told() {
        let watch = Watch::begin();
        thread::sleep(Duration::from_millis(30));
        let machine = watch.end();
        let (often, latest) = machine.late.unwrap();
        assert!(often <= latest, "{machine:?}");
        let said = machine.to_string();
        assert!(said.contains("ms late in one of a hundred"), "{said}");
        assert!(!Machine::default().to_string().is_empty());
    }
}
