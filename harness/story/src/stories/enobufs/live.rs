//! The twin of `enobufs` on this machine's kernel.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::config::TcpConfig;
use narrows::{ByteCount, Rate};
use narrows_lab::bulk::{LocalDropSpec, local_drop};
use narrows_lab::refusing::{self, RefusingRun, RefusingSpec};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A sender of the kernel's behind a tbf of its own of 100 Mb/s, whose queue refuses what does \
            not fit. Linux answers a refusal with a window reduction as for a mark (CWR) and sends \
            the same packet later: nothing is sent again, and no window is reset, so the text's \
            fault cannot be had with it. How often it is refused is the machine's: one flow has at \
            most a millisecond's worth below it (TCP small queues). Super-frames are off: of one that \
            does not fit tbf queues a part and loses the rest without a refusal. The text's fault is \
            had with a sender of ours, which answers as FreeBSD does: its TAP has a dozen buffers, \
            one of which is free again for each frame that a tbf port of 20 Mb/s has carried, and \
            refuses when there is none; what comes back to it is 25 ms late. It tries \
            again after 50 us to 1 ms and with each frame that arrives, and each try counts and has its \
            answer, where the simulated one waits for a buffer: an answer that takes a segment is not \
            judged.",
    scenes: &[SIMULATED, OURS],
    run: twin,
};

/// The same without and with a loss, and with an answer that takes a segment, at a round trip of 25 ms.
const OURS: Scene = Scene::new("ours", "enobufs").with(&[
    ("network.link.rate", "20Mb/s"),
    ("network.link.delay", "6250us"),
    ("sweep.answer", "reset,minus-segment"),
    ("sweep.toggle", "1s,100s"),
    ("change.0.for", "30ms"),
    ("change.0.every", "off"),
    ("run.warm_up", "2s"),
    ("run.duration", "6s"),
]);
/// For how long it is counted.
const OURS_SPAN: Duration = Duration::from_secs(4);
/// Answers of ours, with the time of the simulated loss, and the frame that is lost live.
const ANSWERS: [(&str, &str, &str, Option<u64>); 3] = [
    ("reset, no loss before", "reset", "100s", None),
    ("reset, after a loss", "reset", "1s", Some(300)),
    (
        "a segment less, no loss before",
        "minus-segment",
        "100s",
        None,
    ),
];

const SIMULATED: Scene = Scene::new("simulated", "enobufs").with(&[
    ("network.link.rate", "100Mb/s"),
    ("sweep.answer", "reset,congestion"),
    ("toggle", "100s"),
    ("sweep.buffers", "12,1000"),
    ("run.warm_up", "500ms"),
    ("run.duration", "1500ms"),
]);

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let mut grid = Grid::new(["", "goodput", "refused a second", "sent again"], 1);
    for (name, answer, buffers) in [
        ("simulated, reset, 12 buffers", "reset", "12"),
        ("simulated, congestion, 12 buffers", "congestion", "12"),
        ("simulated, congestion, 1000 buffers", "congestion", "1000"),
    ] {
        let at = [("answer", answer), ("buffers", buffers)];
        let value = |metric| simulated.value(&at, metric);
        grid.rows.push(vec![
            name.to_owned(),
            number(value("goodput")?, "bit/s"),
            number(value("refused.buffers")?, ""),
            number(value("retransmits")?, ""),
        ]);
    }
    let span = Duration::from_secs(2);
    for packets in [12, 1_000] {
        let spec = LocalDropSpec {
            rate: Rate::from_mbps(100),
            limit: ByteCount::new(packets * 1_514),
            span,
        };
        let run = local_drop(&spec, stage.cancel).map_err(|e| e.to_string())?;
        grid.rows.push(vec![
            format!("live, a queue of {packets} packets"),
            number(run.goodput, "bit/s"),
            number(run.refused as f64 / span.as_secs_f64(), ""),
            number(run.again as f64, ""),
        ]);
    }
    let told = played.scene(OURS.name)?;
    let mut ours = Vec::new();
    let mut expected = Vec::new();
    for (name, answer, toggle, lose) in ANSWERS {
        let at = [("answer", answer), ("toggle", toggle)];
        let value = |metric| told.value(&at, metric);
        expected.push(value("goodput")?);
        grid.rows.push(vec![
            format!("simulated, 25 ms, {name}"),
            number(value("goodput")?, "bit/s"),
            number(value("refused.buffers")? / OURS_SPAN.as_secs_f64(), ""),
            number(value("retransmits")?, ""),
        ]);
        let run = refusing::run(&refused(stage, answer, lose)?, stage.cancel);
        ours.push(run.map_err(|e| e.to_string())?);
    }
    for ((name, ..), run) in ANSWERS.iter().zip(&ours) {
        grid.rows.push(vec![
            format!("live, ours, 25 ms, {name}"),
            number(run.goodput, "bit/s"),
            number(run.refused as f64 / OURS_SPAN.as_secs_f64(), ""),
            number(run.again as f64, ""),
        ]);
    }
    let simulated = expected[0] / expected[1];
    Ok(Seen {
        grid,
        found: found(&ours, simulated),
    })
}

/// A sender of ours with that answer.
fn refused(stage: &Stage<'_>, answer: &str, lose: Option<u64>) -> Result<RefusingSpec, String> {
    let registry = stage.registry;
    Ok(RefusingSpec {
        tcp: TcpConfig {
            congestion: registry.congestion.get("reno").map_err(|e| e.to_string())?,
            local_drop: registry.local_drop.get(answer).map_err(|e| e.to_string())?,
            ..TcpConfig::default()
        },
        rate: Rate::from_mbps(20),
        buffers: 12,
        delay: Duration::from_millis(25),
        lose,
        warm_up: Duration::from_secs(2),
        span: OURS_SPAN,
    })
}

/// What was found with a sender of ours; simulated, slow is so much of fast. With a window of fifty
/// segments, which doubles six times, a reset costs less than in the text.
fn found(runs: &[RefusingRun], simulated: f64) -> Vec<Found> {
    let [slow, fast, ..] = runs else {
        return Vec::new();
    };
    let most = f64::midpoint(1.0, simulated);
    vec![Found {
        claim: "E1",
        finding: Finding::at_most(
            "slow over fast, where half of what the simulated one is below 1 is wanted",
            slow.goodput / fast.goodput,
            most,
            "",
        ),
        because: "a sender that waits for a processor finds its buffers free, and is refused less often; it \
                  sends less meanwhile, too",
    }]
}
