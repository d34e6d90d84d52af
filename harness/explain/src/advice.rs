//! What would help, as far as gaps tell: for each cause that costs time a change of settings, as keys
//! of an experiment, so that it can be tried.

use crate::gap::Cause;
use crate::ledger::Ledger;
use narrows::Duration;

/// A change that the evidence asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The cause that it is for.
    pub cause: Cause,
    /// What to do, and why, in a sentence.
    pub what: String,
    /// The same as keys of an experiment and their values.
    pub set: Vec<(&'static str, &'static str)>,
}

/// Causes that cost less than this share of the lost time, in percent, ask for nothing.
const LEAST_PERCENT: u64 = 5;
/// A floor of a timeout that is worth lowering.
const HIGH_FLOOR: Duration = Duration::from_millis(10);

/// What the gaps of `ledger` ask for, what costs most first; nothing twice.
#[inline] // Called once, or by nobody here: compiled where it is.
pub fn advice(ledger: &Ledger) -> Vec<Advice> {
    let lost = ledger.lost().time;
    let mut all: Vec<Advice> = Vec::new();
    for (cause, sum) in ledger.by_time() {
        if !cause.is_lost_time() || sum.time < lost.mul_ratio(LEAST_PERCENT, 100) {
            continue;
        }
        let floors = ledger.floors.iter().filter(|((c, _), _)| *c == cause);
        let floor = floors.max_by_key(|(_, sum)| sum.time).map(|((_, f), _)| *f);
        for (what, set) in remedies(cause, floor) {
            if all.iter().all(|one| one.set != set) {
                all.push(Advice {
                    cause,
                    what,
                    set: set.to_vec(),
                });
            }
        }
    }
    all
}

type Settings = &'static [(&'static str, &'static str)];
type Remedy = (String, Settings);

fn plain(text: &str, set: Settings) -> Remedy {
    (text.to_owned(), set)
}

const AT_ONCE: &str =
    "acknowledge at once: the sender waits for an acknowledgement that is put off";

/// What helps against a cause, whose timeouts mostly last as long as `floor`.
fn remedies(cause: Cause, floor: Option<Duration>) -> Vec<Remedy> {
    let mut all: Vec<Remedy> = Vec::new();
    if cause.is_timeout()
        && cause != Cause::TimeoutSpurious
        && let Some(floor) = floor.filter(|floor| *floor >= HIGH_FLOOR)
    {
        let what = format!(
            "lower the floor of the retransmission timeout, which is {floor}, to 1 ms: these gaps last as long as it"
        );
        all.push((what, &[("host.tcp.rto", "1ms")]));
    }
    match cause {
        Cause::TimeoutTail | Cause::TimeoutRetransmissionLost => all.push(plain(
            "use SACK with RACK and tail loss probes: they find lost ends and lost retransmissions after two round trips",
            &[("host.tcp.sack", "on"), ("host.tcp.loss_detection", "rack")],
        )),
        Cause::TimeoutWholeWindow => {
            all.push(plain(
                "use DCTCP with marks from 30 kB on: windows shrink before the buffer is full",
                &[
                    ("host.tcp.congestion", "dctcp"),
                    ("network.queue.discipline", "ecn-step"),
                    ("network.queue.threshold", "30kB"),
                ],
            ));
            all.push(plain(
                "give the port more buffer: whole windows do not fit into it",
                &[("network.queue.limit", "1MiB")],
            ));
        }
        Cause::TimeoutSpurious => all.push(plain(
            "raise the floor of the retransmission timeout: nothing was lost, only late",
            &[("host.tcp.rto", "linux")],
        )),
        Cause::DelayedAck => all.push(plain(AT_ONCE, &[("host.tcp.delayed_ack", "off")])),
        Cause::IdleRestart => {
            all.push(plain(AT_ONCE, &[("host.tcp.delayed_ack", "off")]));
            all.push(plain(
                "keep the window over idle times (tcp_slow_start_after_idle=0)",
                &[("host.tcp.idle_restart", "keep")],
            ));
        }
        Cause::NagleDelayedAck => {
            all.push(plain(
                "set TCP_NODELAY, or write what belongs together at once: Nagle's algorithm waits for a delayed acknowledgement",
                &[("host.tcp.nagle", "off")],
            ));
            all.push(plain(
                "acknowledge at once (TCP_QUICKACK)",
                &[("host.tcp.delayed_ack", "off")],
            ));
        }
        Cause::PacketWindow => all.push(plain(
            "count the window in bytes, or write more at once: small segments fill a window in packets",
            &[("host.tcp.window_count", "bytes")],
        )),
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap::{Confidence, Evidence, Gap, Side};
    use crate::half::Sighting;
    use narrows::Instant;

    fn ledger(causes: &[(Cause, u64, Option<u64>)]) -> Ledger {
        let mut ledger = Ledger::new(100);
        for (cause, ms, floor) in causes {
            let at = |ms: u64| Sighting {
                at: Instant::from_nanos(ms * 1_000_000),
                packet: 1,
            };
            ledger.add(&Gap {
                connection: 0,
                side: Side::Client,
                start: at(0),
                end: at(*ms),
                cause: *cause,
                confidence: Confidence::Likely,
                evidence: Evidence {
                    floor: floor.map(Duration::from_millis),
                    ..Evidence::default()
                },
            });
        }
        ledger
    }

    #[test]
    fn a_floor_of_200_ms_is_to_be_lowered_and_one_of_1_ms_is_not() {
        let wants = |floor| {
            let all = advice(&ledger(&[(Cause::TimeoutTail, floor, Some(floor))]));
            all.iter().any(|one| one.set == [("host.tcp.rto", "1ms")])
        };
        assert!(wants(200));
        assert!(!wants(1));
    }

    #[test]
    fn what_costs_little_or_is_an_applications_asks_for_nothing() {
        let all = advice(&ledger(&[
            (Cause::AppWroteNothing, 10_000, None),
            (Cause::DelayedAck, 40, None),
            (Cause::TimeoutTail, 2_000, Some(200)),
        ]));
        assert!(
            all.iter().all(|one| one.cause == Cause::TimeoutTail),
            "{all:?}"
        );
        assert_eq!(advice(&ledger(&[])), []);
    }
}
