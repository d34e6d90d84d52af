//! What is no cure: other recovery, another first window or slow start, and queues that act on what waits.

use crate::judge::Finding;
use crate::played::{Answer, Played};
use narrows_report::points::number;

/// How the client's port queues, and how soon CoDel acts there.
pub(super) const DISCIPLINE: &str = "network.port.\"s0->h0\".queue.discipline";
const INTERVAL: &str = "network.port.\"s0->h0\".queue.interval";
const HYSTART: &str = "reno:slow-start=hystart";
const HYBRID: &str = "reno:slow-start=hybrid";

const LIMITED_TRANSMIT: &str = "host.tcp.limited_transmit";

/// A point: a scene, and keys or short names with a value of each.
type At = (&'static str, &'static [(&'static str, &'static str)]);

const SACK: At = ("recovery", &[("loss", "sack"), (LIMITED_TRANSMIT, "off")]);
const TEN: At = ("first-window", &[("initial-window", "10")]);
const RENO: At = ("slow-start", &[("cc", "reno")]);
const DROP_TAIL: At = ("queues", &[(DISCIPLINE, "drop-tail")]);

/// What the text names, each with the plain variant beside it; step marking is not among them.
const NAMED: [(At, At); 10] = [
    (
        (
            "recovery",
            &[("loss", "newreno"), (LIMITED_TRANSMIT, "off")],
        ),
        SACK,
    ),
    (
        ("recovery", &[("loss", "newreno"), (LIMITED_TRANSMIT, "on")]),
        SACK,
    ),
    (
        ("recovery", &[("loss", "sack"), (LIMITED_TRANSMIT, "on")]),
        SACK,
    ),
    (("first-window", &[("initial-window", "1")]), TEN),
    (("first-window", &[("initial-window", "2")]), TEN),
    (("first-window", &[("initial-window", "3")]), TEN),
    (("slow-start", &[("cc", HYSTART)]), RENO),
    (("slow-start", &[("cc", HYBRID)]), RENO),
    (("red", &[]), DROP_TAIL),
    (("queues", &[(DISCIPLINE, "red")]), DROP_TAIL),
];

/// Goodput over that of another variant.
fn times(played: &Played, (variant, plain): (At, At)) -> Answer<f64> {
    let goodput = |(scene, at): At| played.scene(scene)?.value(at, "goodput");
    Ok(goodput(variant)? / goodput(plain)?)
}

/// None makes more than twice of goodput, nor less than half, but step marking.
pub(super) fn none_is_one(played: &Played) -> Answer<Finding> {
    let named = NAMED.map(|pair| times(played, pair));
    let named: Vec<f64> = named.into_iter().collect::<Answer<_>>()?;
    let most = named.iter().copied().fold(0.0, f64::max);
    let least = named.iter().copied().fold(f64::INFINITY, f64::min);
    let words = |variant, plain| {
        Ok::<_, crate::played::NoAnswer>(number(times(played, (variant, plain))?, ""))
    };
    let queues = |discipline: &'static [_; 1]| words(("queues", discipline), DROP_TAIL);
    let step = times(played, (("queues", &[(DISCIPLINE, "ecn-step")]), DROP_TAIL))?;
    let finding = Finding::all([
        Finding::is(
            format!(
                "goodput over the plain variant's (of recovery SACK without limited transmit, of first windows that of \
                 10, of slow start Reno's own, of queues drop-tail): {} to {} of {} variants that the text names",
                number(least, ""),
                number(most, ""),
                named.len(),
            ),
            most <= 2.0 && least >= 0.5,
        ),
        Finding::is(format!("step marking {}", number(step, "")), step > 2.0),
    ]);
    Ok(finding.and_words(format_args!(
        ". Among them are HyStart++ {} and hybrid slow start {}, RED that drops {} and RED that marks {}. Ours are \
         RACK {}, and CoDel that marks, with the internet's target of 5 ms {}, which a full queue, half a \
         millisecond, never comes to, and with one of 50 us and an interval of 100 us {}: what marks soon is a cure",
        words(("slow-start", &[("cc", HYSTART)]), RENO)?,
        words(("slow-start", &[("cc", HYBRID)]), RENO)?,
        words(("red", &[]), DROP_TAIL)?,
        queues(&[(DISCIPLINE, "red")])?,
        words(("recovery", &[("loss", "rack"), (LIMITED_TRANSMIT, "off")]), SACK)?,
        queues(&[(DISCIPLINE, "codel")])?,
        words(("codel", &[(INTERVAL, "100us")]), DROP_TAIL)?,
    )))
}
