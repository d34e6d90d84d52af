//! The twin of `burst` on this machine's kernel.

use crate::grid::Grid;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_experiment::polling::Readings;
use narrows_lab::burst::{BurstRun, BurstSpec, run};
use narrows_lab::meter::Track;
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "Six hosts of the kernel's in network namespaces, each behind a tbf port of 200 Mb/s with \
            13 KiB, ask three others for 6 kB at once; the counters of what comes in are polled. All \
            rates, sizes and buffers are a fifth of the story's, so that times are the same. veth \
            has no wire: what two segments of a super-frame take, and how long a look waits for a \
            processor, is this machine's.",
    run: twin,
};

const PERIODS_MS: [u64; 9] = [500, 250, 128, 64, 32, 16, 8, 4, 2];
const HOSTS: u8 = 6;

/// The same simulated. The load is payload, of which each port then carries 38 Mb/s.
const SIMULATED: Scene = Scene::new("simulated", "microbursts").with(&[
    ("cc", "cubic"),
    ("load", "34Mb/s"),
    ("size", "6kB"),
    ("buffer", "13KiB"),
    ("network.queue.threshold", "6kB"),
    ("network.hosts", "6"),
    ("network.link.rate", "200Mb/s"),
    ("network.link.delay", "25us"),
    ("host.tcp.loss_detection", "rack"),
    ("probe.port.on", "s0->host"),
    ("probe.port.series", "off"),
    (
        "probe.port.every",
        "500ms,250ms,128ms,64ms,32ms,16ms,8ms,4ms,2ms",
    ),
    ("run.warm_up", "500ms"),
    ("run.duration", "10500ms"),
]);

fn twin(stage: &Stage<'_>) -> Result<Seen, String> {
    let simulated = stage.scenery(&SIMULATED).map_err(|e| e.to_string())?;
    let spec = BurstSpec {
        hosts: HOSTS,
        rate: Rate::from_mbps(200),
        buffer: ByteCount::new(13 << 10),
        load: Rate::from_mbps(34),
        servers: 3,
        size: ByteCount::new(6_000),
        span: Duration::from_secs(10),
        seed: 1,
    };
    let periods = PERIODS_MS.map(Duration::from_millis);
    let live = run(&spec, &periods, stage.cancel).map_err(|e| e.to_string())?;
    let mut grid = Grid::new(["", "simulated", "live", "looks late, p99"], 1);
    let mean = |track: &Track| {
        let all = readings(track).filter_map(|r| Some(r.whole()?.mean));
        crate::judge::median(&all.collect::<Vec<_>>())
    };
    let ours = simulated
        .matching(&[], "port.", ".mean.500ms_bps")
        .map_err(|e| e.to_string())?;
    grid.rows.push(vec![
        "mean of a port".to_owned(),
        rate(crate::judge::median(&ours)),
        rate(live.tracks.first().and_then(mean)),
    ]);
    for (track, ms) in live.tracks.iter().zip(PERIODS_MS) {
        let end = format!(".second.max_over_mean.{ms}ms");
        let ours = simulated
            .matching(&[], "port.", &end)
            .map_err(|e| e.to_string())?;
        let all = readings(track).filter_map(|r| r.median_ratio());
        let all: Vec<f64> = all.collect();
        let plain = |x: Option<f64>| x.map_or("-".to_owned(), |x| number(x, ""));
        grid.rows.push(vec![
            format!("max/mean at {ms} ms"),
            plain(crate::judge::median(&ours)),
            plain(crate::judge::median(&all)),
            track
                .lateness(990)
                .map_or("-".to_owned(), |late| number(late.as_nanos() as f64, "ns")),
        ]);
    }
    let drops = simulated
        .value(&[], "drops_per_s")
        .map_err(|e| e.to_string())?;
    grid.rows.push(vec![
        "drops a second of a port".to_owned(),
        number(drops / f64::from(HOSTS), ""),
        number(drops_per_s(&live, &spec), ""),
    ]);
    Ok(Seen {
        grid,
        found: Vec::new(),
    })
}

fn drops_per_s(live: &BurstRun, spec: &BurstSpec) -> f64 {
    live.drops as f64 / f64::from(HOSTS) / spec.span.as_secs_f64()
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| number(rate, "bit/s"))
}

/// What comes in to each host.
fn readings(track: &Track) -> impl Iterator<Item = Readings> + '_ {
    (0..usize::from(HOSTS)).map(|host| track.readings(host, |counts| counts.rx_bytes))
}
