//! The text's remedies side by side, at one load.

use super::measures::sent_again;
use crate::grid::Grid;
use crate::played::{Answer, Played, missing};
use narrows_experiment::study::Point;
use narrows_report::points::number;

/// What the remedies meet.
pub(super) const TITLE: &str = "Remedies side by side: queries of three replies of 10 kB, 300 Mb/s a host, \
                                through ports of 64 KiB, CUBIC with SACK. Where nothing fills, \
                                rows are those of `none` (NIC queue of 100, 80 % by 1 MB) or of interrupts after 20 us \
                                (ring of 64); M31 and M32 say why";

/// What one query of a thousand takes, or exceeds.
const LATE: &str = "latency.p999";

/// A remedy: what it is called, and where it is played.
struct Remedy {
    name: &'static str,
    scene: &'static str,
    at: &'static [(&'static str, &'static str)],
}

impl Remedy {
    const fn new(
        name: &'static str,
        scene: &'static str,
        at: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { name, scene, at }
    }

    fn point<'p>(&self, played: &'p Played) -> Answer<Point<'p>> {
        played.scene(self.scene)?.at(self.at)
    }

    /// [`LATE`]; nothing where no query has its replies.
    fn late(&self, played: &Played) -> Answer<Option<f64>> {
        Ok(self.point(played)?.metric(LATE).ok().map(|e| e.mean))
    }

    fn row(&self, played: &Played) -> Answer<Vec<String>> {
        let point = self.point(played)?;
        let cell = |metric, unit| {
            let value = point.metric(metric).ok().map(|e| number(e.mean, unit));
            value.unwrap_or_else(|| "-".to_owned())
        };
        let again = sent_again(played, self.scene, self.at)?;
        Ok(vec![
            self.name.to_owned(),
            cell("goodput", "bit/s"),
            cell("drops_per_s", ""),
            format!("{} %", number(again, "")),
            cell("timeouts", ""),
            cell("latency.p50", "ns"),
            cell("latency.p99", "ns"),
            cell(LATE, "ns"),
        ])
    }
}

const NONE: Remedy = Remedy::new("none", "none", &[]);

const TICK: &str = "host.nic.shaper_tick";

const REMEDIES: &[Remedy] = &[
    Remedy::new(
        "DCTCP marking from 5 packets",
        "marks",
        &[("network.queue.threshold", "5p")],
    ),
    Remedy::new(
        "DCTCP marking from 30 kB",
        "marks",
        &[("network.queue.threshold", "30kB")],
    ),
    Remedy::new("pause frames", "pause", &[]),
    Remedy::new("ports of 128 KiB", "larger-ports", &[("buffer", "128KiB")]),
    Remedy::new("ports of 256 KiB", "larger-ports", &[("buffer", "256KiB")]),
    Remedy::new("RTO from 10 ms", "rto", &[("rto", "10ms")]),
    Remedy::new("RTO from 1 ms", "rto", &[("rto", "1ms")]),
    Remedy::new("MTU 9000", "mtu", &[]),
    Remedy::new("NIC queue of 100", "tx-queue", &[]),
    Remedy::new(
        "interrupts after 20 us",
        "interrupts",
        &[("host.nic.rx_usecs", "20us")],
    ),
    Remedy::new(
        "interrupts after 125 us",
        "interrupts",
        &[("host.nic.rx_usecs", "125us")],
    ),
    Remedy::new("ring of 64 at 20 us", "ring", &[]),
    Remedy::new("limit of 80 %", "sender-limit", &[(TICK, "0s")]),
    Remedy::new("80 % by 3 kB each 10 ms", "sender-limit", &[(TICK, "10ms")]),
    Remedy::new("80 % by 1 MB each 10 ms", "sender-limit-bursts", &[]),
];

pub(super) fn table(played: &Played) -> Answer<Grid> {
    let head = [
        "remedy",
        "goodput",
        "drops/s",
        "sent again",
        "timeouts",
        "median query",
        "p99",
        "p99.9",
    ];
    let all = std::iter::once(&NONE).chain(REMEDIES);
    Ok(Grid {
        rows: all
            .map(|remedy| remedy.row(played))
            .collect::<Answer<_>>()?,
        ..Grid::new(head, 1)
    })
}

/// Which of them help: those that at least halve what the slowest query of a thousand takes.
pub(super) fn verdict(played: &Played) -> Answer<String> {
    let none = NONE.late(played)?.ok_or_else(|| missing("query"))?;
    let (mut help, mut others) = (Vec::new(), Vec::new());
    for remedy in REMEDIES {
        match remedy.late(played)? {
            Some(ns) if ns <= none / 2.0 => {
                help.push(format!("{} ({})", remedy.name, number(ns, "ns")));
            }
            _ => others.push(remedy.name.to_owned()),
        }
    }
    let [help, others] = [help, others].map(|all| match all.as_slice() {
        [] => "none of them".to_owned(),
        all => all.join(", "),
    });
    Ok(format!(
        "At 300 Mb/s one query of a thousand takes {} or longer; what at least halves that is {help}, and what does \
         not is {others}.",
        number(none, "ns")
    ))
}
