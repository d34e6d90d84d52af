//! The twin of `enobufs` on this machine's kernel.

use crate::grid::Grid;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_lab::bulk::{LocalDropSpec, local_drop};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A sender of the kernel's behind a tbf of its own of 100 Mb/s, whose queue refuses what does \
            not fit. Linux answers a refusal with a window reduction as for a mark (CWR) and sends \
            the same packet later: nothing is sent again, and no window is reset, so the text's \
            fault cannot be had with it (the simulated rows have FreeBSD's answer and Linux's). How \
            often it is refused is the machine's: one flow has at most a millisecond's worth below \
            it (TCP small queues). Super-frames are off: of one that does not fit tbf queues a part \
            and loses the rest without a refusal.",
    run: twin,
};

const SIMULATED: Scene = Scene::new("simulated", "enobufs").with(&[
    ("network.link.rate", "100Mb/s"),
    ("sweep.answer", "reset,congestion"),
    ("toggle", "100s"),
    ("sweep.buffers", "12,1000"),
    ("run.warm_up", "500ms"),
    ("run.duration", "1500ms"),
]);

fn twin(stage: &Stage<'_>) -> Result<Seen, String> {
    let simulated = stage.scenery(&SIMULATED).map_err(|e| e.to_string())?;
    let mut grid = Grid::new(["", "goodput", "refused a second", "sent again"], 1);
    for (name, answer, buffers) in [
        ("simulated, reset, 12 buffers", "reset", "12"),
        ("simulated, congestion, 12 buffers", "congestion", "12"),
        ("simulated, congestion, 1000 buffers", "congestion", "1000"),
    ] {
        let at = [("answer", answer), ("buffers", buffers)];
        let value = |metric| simulated.value(&at, metric).map_err(|e| e.to_string());
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
    Ok(Seen {
        grid,
        found: Vec::new(),
    })
}
