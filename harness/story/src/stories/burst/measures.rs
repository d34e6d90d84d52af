//! What the rows, tables and figure of the story read of its scenes.

use super::scenes::HOSTS;
use crate::judge::median;
use crate::played::{Answer, Played, missing};
use narrows_report::points::number;

/// The text's table: period, and the median of max over mean.
pub(super) const TEXT: [(&str, f64); 10] = [
    ("500ms", 1.1),
    ("250ms", 1.1),
    ("128ms", 1.3),
    ("64ms", 1.6),
    ("32ms", 1.9),
    ("16ms", 2.45),
    ("8ms", 3.65),
    ("4ms", 4.2),
    ("2ms", 5.05),
    ("1ms", 8.1),
];

/// Greatest over mean of a second, in the median of the seconds and of the ports.
pub(super) fn ratio(played: &Played, scene: &str, period: &str) -> Answer<f64> {
    let end = format!(".second.max_over_mean.{period}");
    let all = played.scene(scene)?.matching(&[], "port.", &end)?;
    median(&all).ok_or_else(|| missing("reading"))
}

/// Drops a second of a host's port.
pub(super) fn drops(played: &Played, scene: &str, load: &str) -> Answer<f64> {
    Ok(played
        .scene(scene)?
        .value(&[("load", load)], "drops_per_s")?
        / HOSTS)
}

/// What the counters of all hosts have of something, a second.
pub(super) fn at_hosts(
    played: &Played,
    scene: &str,
    point: &[(&str, &str)],
    metric: &str,
) -> Answer<f64> {
    let scene = played.scene(scene)?;
    let all = scene.matching(point, "at.", &format!(".{metric}"))?;
    let seconds = scene.value(point, "measured")? / 1e9;
    Ok(all.iter().sum::<f64>() / seconds)
}

/// Percent of the segments that are sent again.
pub(super) fn sent_again(played: &Played, scene: &str, point: &[(&str, &str)]) -> Answer<f64> {
    Ok(played.scene(scene)?.value(point, "retransmit_share")? * 100.0)
}

pub(super) fn drop_shares(played: &Played, scene: &str, loads: &[&str]) -> Answer<Vec<f64>> {
    let scene = played.scene(scene)?;
    loads
        .iter()
        .map(|load| scene.value(&[("load", load)], "retransmit_share"))
        .collect()
}

/// The load at which a rising curve comes to `wanted`, between its points on a straight line.
pub(super) fn load_at(curve: &[(f64, f64)], wanted: f64) -> Answer<f64> {
    let pair = curve
        .windows(2)
        .find(|w| w[0].1 < wanted && w[1].1 >= wanted);
    let pair = pair.ok_or_else(|| missing("load at which the curve comes so far"))?;
    let (a, b) = (pair[0], pair[1]);
    Ok(a.0 + (b.0 - a.0) * (wanted - a.1) / (b.1 - a.1))
}

/// The load at which the median query takes [`AT_THE_KNEE`]: it waits for a timeout.
pub(super) fn knee(played: &Played) -> Answer<f64> {
    load_at(
        &played.scene("load")?.along("load", &[], "latency.p50")?,
        AT_THE_KNEE,
    )
}

/// Far more than any queue of the port takes, in ns.
pub(super) const AT_THE_KNEE: f64 = 10e6;

/// Pairs of numbers in words: `64KiB: 7, 128KiB: 0`.
pub(super) fn words(points: &[(f64, f64)], unit: &str) -> String {
    let all: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{}: {}", number(*x, unit), number(*y, "")))
        .collect();
    all.join(", ")
}
