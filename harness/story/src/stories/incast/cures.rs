//! What is no cure: other recovery, another first window or slow start, and queues that act on what waits.

use crate::judge::Finding;
use crate::played::{Answer, Played};
use narrows_report::points::number;

const DISCIPLINE: &str = "network.port.\"s0->h0\".queue.discipline";
const INTERVAL: &str = "network.port.\"s0->h0\".queue.interval";

/// Where a key has a value.
type At = (&'static str, &'static str);

/// The variants of each scene, with the scene and the keys of the plain one, and the variant that marks at
/// once whatever waits, which is another matter.
const VARIANTS: [(&str, &str, &[At], Option<At>); 5] = [
    (
        "recovery",
        "recovery",
        &[("loss", "sack"), ("host.tcp.limited_transmit", "off")],
        None,
    ),
    (
        "first-window",
        "first-window",
        &[("initial-window", "10")],
        None,
    ),
    ("slow-start", "slow-start", &[("cc", "reno")], None),
    (
        "queues",
        "queues",
        &[(DISCIPLINE, "drop-tail")],
        Some((DISCIPLINE, "ecn-step")),
    ),
    (
        "codel",
        "queues",
        &[(DISCIPLINE, "drop-tail")],
        Some((INTERVAL, "100us")),
    ),
];

/// None makes more than twice of goodput, nor less than half.
pub(super) fn none_is_one(played: &Played) -> Answer<Finding> {
    let mut all = Vec::new();
    let mut at_once = Vec::new();
    for (scene, of_plain, plain, marks) in VARIANTS {
        let plain = played.scene(of_plain)?.value(plain, "goodput")?;
        let scene = played.scene(scene)?;
        let marks = marks.map(|(key, value)| (scene.experiment().axis_name(key), value));
        for point in scene.study().points() {
            let times = point.metric("goodput")?.mean / plain;
            match &marks {
                Some((key, value)) if point.value(key) == Some(*value) => at_once.push(times),
                _ => all.push(times),
            }
        }
    }
    let ratio = |scene: &str, at: &[At], plain: &[At]| -> Answer<String> {
        let scene = played.scene(scene)?;
        let times = scene.value(at, "goodput")? / scene.value(plain, "goodput")?;
        Ok(number(times, ""))
    };
    let plain = [(DISCIPLINE, "drop-tail")];
    let codel = ratio("queues", &[(DISCIPLINE, "codel")], &plain)?;
    let reno = [("cc", "reno")];
    let hystart = ratio("slow-start", &[("cc", "reno:slow-start=hystart")], &reno)?;
    let hybrid = ratio("slow-start", &[("cc", "reno:slow-start=hybrid")], &reno)?;
    let [step, tuned] = at_once[..] else {
        return Err(crate::played::missing("variant that marks at once"));
    };
    let most = all.iter().copied().fold(0.0, f64::max);
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Finding::is(
        format!(
            "goodput over the plain variant's: {} to {} of {} variants. Among them HyStart++ {hystart} and hybrid \
             slow start {hybrid}, and CoDel with the internet's target of 5 ms {codel}, which is 1 since a full \
             queue takes half a millisecond. What marks soon is a cure: step marking {}, and CoDel, which the text \
             does not name, with a target of 50 us and an interval of 100 us {}",
            number(least, ""),
            number(most, ""),
            all.len(),
            number(step, ""),
            number(tuned, "")
        ),
        most <= 2.0 && least >= 0.5,
    ))
}
