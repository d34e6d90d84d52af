//! The twin of `rack coalesce` on this machine's kernel.

use crate::grid::Grid;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_lab::bulk::{HoldSpec, hold};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "Two flows over a veth of 1 Gb/s (tbf, a quarter of a millisecond of queue) to a host whose \
            veth polls and merges (GRO), and whose aggregates wait for more until gro_flush_timeout has \
            passed (napi_defer_hard_irqs 1). The second has a receive buffer of 16 kB, and gets what \
            that carries in a round trip, which the timer makes a millisecond. veth has no interrupts \
            to hold back, no rx-frames, and here no marks: the small window is given, while the \
            simulated one is kept small by marks; so the first flow waits, too, and the ratio is not \
            that of the text.",
    run: twin,
};

const SIMULATED: Scene = Scene::new("simulated", "rack-coalesce").with(&[
    ("sweep.usecs", "1us,1ms"),
    ("run.repetitions", "1"),
    ("run.warm_up", "100ms"),
    ("run.duration", "300ms"),
]);

fn twin(stage: &Stage<'_>) -> Result<Seen, String> {
    let simulated = stage.scenery(&SIMULATED).map_err(|e| e.to_string())?;
    let mut grid = Grid::new(
        ["", "first flow", "second", "ratio", "frames an aggregate"],
        1,
    );
    let mut row = |name: String, rates: (f64, f64), frames: f64| {
        grid.rows.push(vec![
            name,
            number(rates.0, "bit/s"),
            number(rates.1, "bit/s"),
            number(rates.0 / rates.1.max(1.0), ""),
            number(frames, ""),
        ]);
    };
    for usecs in ["1us", "1ms"] {
        let value = |metric| simulated.value(&[("usecs", usecs)], metric);
        let value = |metric| value(metric).map_err(|e| e.to_string());
        let (a, b) = (value("first.goodput")?, value("second.goodput")?);
        let name = format!("simulated at 25 Gb/s, rx_usecs {usecs}");
        row(name, (a.max(b), a.min(b)), value("frames_per_aggregate")?);
    }
    for hold_us in [0, 100, 1_000] {
        let spec = HoldSpec {
            rate: Rate::from_gbps(1),
            hold: Duration::from_micros(hold_us),
            narrow: ByteCount::new(16_000),
            span: Duration::from_secs(2),
        };
        let run = hold(&spec, stage.cancel).map_err(|e| e.to_string())?;
        let name = format!("live at 1 Gb/s, gro_flush_timeout {hold_us} us");
        row(name, (run.wide, run.narrow), run.segments_per_packet);
    }
    Ok(Seen {
        grid,
        found: Vec::new(),
    })
}
