//! Figures of `busyport`: who waits for whom.

use super::{LONG, LOST, length, name, nodes, run, stalls, suspensions};
use crate::played::{Answer, Played, Scenery, missing};
use narrows::Instant;
use narrows_experiment::model::expect::number_in_base_unit;
use narrows_experiment::net::packet::HostId;
use narrows_report::chart::{Axis, Band, Chart, Draw, Series};

/// Who waits for whom: the server that a busy port suspended for the longest time, and each node that it
/// serves.
pub(super) fn who_waits(played: &Played) -> Answer<Chart> {
    let run = run(played, "suspend")?;
    let slow = slow(played)?;
    let (from, to) = shown(&slow);
    let longest = stalls(run)
        .into_iter()
        .max_by(|a, b| length(run, a).total_cmp(&length(run, b)));
    let server = longest.ok_or_else(|| missing("suspended server"))?.host;
    // From above: the server, the lost node, the others.
    let others = nodes(run).into_iter();
    let others = others.filter(|node| *node != LOST && *node != server);
    let rows: Vec<HostId> = [LOST].into_iter().chain(others).collect();
    let top = rows.len() as f64;
    let (mut idle, mut lost, mut replies) = (Vec::new(), Vec::new(), Vec::new());
    for (n, client) in rows.iter().enumerate() {
        let y = top - 1.0 - n as f64;
        let calls = run.transfers.iter();
        let calls = calls.filter(|t| t.from == Some(server) && t.to == *client);
        let calls: Vec<(f64, f64)> = calls.map(|t| (ms(t.began), ms(t.began + t.took))).collect();
        let waits = idle_waits(&calls).into_iter().filter(is_long);
        let kind = if *client == LOST {
            &mut lost
        } else {
            &mut idle
        };
        kind.extend(bars(waits, y));
        let came = calls.iter().map(|call| (call.1, y));
        replies.extend(came.filter(|(x, _)| (from..=to).contains(x)));
    }
    let own = suspensions(run).filter(|span| span.host == server);
    let suspended = own.map(|span| {
        let began = ms(span.began);
        (began, began + length(run, span) / 1e6)
    });
    let suspended = bars(suspended.filter(is_long), top).collect();
    let mut words: Vec<String> = rows.iter().rev().copied().map(name).collect();
    let (server, peer) = (name(server), name(LOST));
    words.push(format!("{server}'s server"));
    let bar = |name: String, group: usize, points: Vec<(f64, f64)>| Series {
        name,
        draw: Draw::Bars,
        group,
        points,
        ..Series::default()
    };
    Ok(Chart {
        title: format!("Who waits for {server}, whose server the port to {peer} suspends"),
        x: Axis {
            label: "Time (ms)".to_owned(),
            range: Some((from, to)),
            ..Axis::default()
        },
        y: Axis {
            label: format!("Who asks {server}"),
            words,
            ..Axis::default()
        },
        series: vec![
            bar(
                format!("suspended by the busy port to {peer}"),
                1,
                suspended,
            ),
            bar(format!("waits for {server}, over an idle link"), 4, idle),
            bar(format!("waits for {server}, over the slow link"), 3, lost),
            Series {
                name: format!("a reply of {server} arrives"),
                draw: Draw::Dots,
                points: replies,
                ..Series::default()
            },
        ],
        bands: vec![slow],
        notes: vec![format!(
            "Bars are times of more than {:.0} ms. {server} is the server that was suspended for the longest time.",
            LONG / 1e6
        )],
        ..Chart::default()
    })
}

/// All servers: a line for each long suspension, and dots for replies.
pub(super) fn all_servers(played: &Played) -> Answer<Chart> {
    let run = run(played, "suspend")?;
    let slow = slow(played)?;
    let (from, to) = shown(&slow);
    let inside = |x: &f64| (from..=to).contains(x);
    let replies: Vec<(f64, f64)> = run
        .transfers
        .iter()
        .filter_map(|t| Some((ms(t.began + t.took), f64::from(t.from?.0))))
        .filter(|(x, _)| inside(x))
        .collect();
    let suspended = stalls(run).into_iter().flat_map(|stall| {
        let began = ms(stall.began);
        let span = (began, began + length(run, stall) / 1e6);
        bars([span], f64::from(stall.host.0))
    });
    Ok(Chart {
        title: "Replies that each node's server gave, and when a busy port suspended it".to_owned(),
        x: Axis {
            label: "Time (ms)".to_owned(),
            range: Some((from, to)),
            ..Axis::default()
        },
        y: Axis {
            label: "Node that serves".to_owned(),
            words: nodes(run).into_iter().map(name).collect(),
            ..Axis::default()
        },
        series: vec![
            Series {
                name: "a reply is with who asked".to_owned(),
                draw: Draw::Dots,
                points: replies,
                ..Series::default()
            },
            Series {
                name: format!("server suspended by the port to {}", name(LOST)),
                draw: Draw::Bars,
                group: 1,
                points: suspended.collect(),
                ..Series::default()
            },
        ],
        bands: vec![slow],
        ..Chart::default()
    })
}

/// What the change of the experiment has.
fn change(scene: &Scenery, key: &str) -> Answer<String> {
    let text = scene.experiment().get(&format!("change.0.{key}"));
    text.ok_or_else(|| missing(key))
}

/// A time of it, in ms.
fn changed(scene: &Scenery, key: &str) -> Answer<f64> {
    let ns = number_in_base_unit(&change(scene, key)?);
    Ok(ns.ok_or_else(|| missing(key))? / 1e6)
}

/// From when to when the way to the lost node is slow, in ms.
fn slow(played: &Played) -> Answer<Band> {
    let scene = played.scene("mesh")?;
    let from = changed(scene, "at")?;
    Ok(Band {
        from,
        to: from + changed(scene, "for")?,
        label: format!(
            "the way to {} has {}",
            name(LOST),
            change(scene, "link.rate")?
        ),
        group: 0,
    })
}

/// The time that figures show: from before the way is slow until servers are free again.
fn shown(slow: &Band) -> (f64, f64) {
    (slow.from - 100.0, slow.to + 400.0)
}

/// In ms.
fn ms(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e6
}

/// Bars at a height.
fn bars(spans: impl IntoIterator<Item = (f64, f64)>, y: f64) -> impl Iterator<Item = (f64, f64)> {
    // A value that no scale can show parts one from the next.
    let parts = move |(from, to)| [(from, y), (to, y), (f64::NAN, y)];
    spans.into_iter().flat_map(parts)
}

/// A time, in ms, that is no queue.
fn is_long((from, to): &(f64, f64)) -> bool {
    (to - from) * 1e6 > LONG
}

/// When a node waits without hearing anything, of when its requests were put and answered, in ms: from the
/// reply before, or from when something is asked, to the next reply.
fn idle_waits(calls: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut replies: Vec<f64> = calls.iter().map(|call| call.1).collect();
    replies.sort_by(f64::total_cmp);
    let mut before = f64::NEG_INFINITY;
    let waits = replies.into_iter().map(|reply| {
        let last = std::mem::replace(&mut before, reply);
        let asked = calls.iter().filter(|call| call.1 > last).map(|call| call.0);
        (asked.fold(reply, f64::min).max(last), reply)
    });
    waits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From when something is asked, or from the reply before, to the next reply.
    #[test]
    fn who_asks_waits_from_the_reply_before() {
        let calls = [(0.0, 1.0), (5.0, 40.0), (6.0, 41.0), (50.0, 51.0)];
        let waits = [(0.0, 1.0), (5.0, 40.0), (40.0, 41.0), (50.0, 51.0)];
        assert_eq!(idle_waits(&calls), waits);
        // Replies may come in another order than requests.
        assert_eq!(
            idle_waits(&[(0.0, 9.0), (1.0, 2.0)]),
            [(0.0, 2.0), (2.0, 9.0)]
        );
        let long: Vec<_> = waits.into_iter().filter(is_long).collect();
        assert_eq!(long, [(5.0, 40.0)]);
        let points: Vec<_> = bars(long, 3.0).collect();
        assert_eq!(points[..2], [(5.0, 3.0), (40.0, 3.0)]);
        assert!(points[2].0.is_nan());
    }
}
