//! Bulk beside queries: claims M2 and M32.

use super::measures::drops;
use super::scenes::HOSTS;
use crate::judge::Finding;
use crate::played::{Answer, NoAnswer, Played};
use narrows_report::points::number;

/// Drops that a port has of queries over those of bulk, where both are served as much.
pub(super) fn bulk_adapts(played: &Played) -> Answer<Finding> {
    let (queries, copies) = (played.scene("load")?, played.scene("copies-alone")?);
    let loaded = [("load", "250Mb/s")];
    let (fan_out, served) = (
        drops(played, "load", "250Mb/s")?,
        queries.value(&loaded, "goodput")? / HOSTS,
    );
    let of = |metric| Ok::<_, NoAnswer>(copies.value(&[], metric)? / HOSTS);
    let (bulk, carried) = (of("drops_per_s")?, of("goodput")?);
    let smooth = played.scene("smooth")?.value(&[], "drops_per_s")? / HOSTS;
    let finding = Finding::at_least(
        "drops of queries at 250 Mb/s over those of bulk, for each bit that is served,",
        (fan_out / served) / (bulk / carried),
        10.0,
        "",
    );
    Ok(finding.and_words(format_args!(
        ": a port drops {} packets a second of queries, of which it carries {}, and {} of copies of 600 MB, \
         chosen as in M12, of which it carries {}. Of an even stream of the same mean, where each host's \
         applications write 13.2 Mb/s to each other one and TCP has nothing to adapt to, it drops {}",
        number(fan_out, ""),
        number(served, "bit/s"),
        number(bulk, ""),
        number(carried, "bit/s"),
        number(smooth, "")
    )))
}

/// Why bulk drops more than a tenth.
pub(super) const BULK_DROPS: &str = "bulk that adapts takes all that it gets: whatever its mean, where copies meet \
    they fill the port, and drops are how they learn what is left for each. Small ones meet oftener: of 100 MB as \
    much is dropped for a bit as of queries, within a factor of two (`narrows run microbursts --set cc=cubic --set \
    load=250Mb/s --set servers=1 --set size=100MB --set host.tcp.loss_detection=sack --set run.warm_up=2s --set \
    run.duration=12s -r 2`). Only what has room and nothing to adapt to drops none";

/// A limit of 800 Mb/s at a sender of bulk, exact and at ticks.
pub(super) fn a_limit_at_ticks_is_worse(played: &Played) -> Answer<Finding> {
    let limited = |tick: &str, metric: &str| {
        let scene = played.scene("sender-limit")?;
        scene.value(&[("host.nic.shaper_tick", tick)], metric)
    };
    let all = |scene: &str| played.scene(scene)?.value(&[], "drops_per_s");
    let free = all("none")?;
    let exact = limited("0s", "drops_per_s")? / free * 100.0;
    let jiffy = all("sender-limit-bursts")? / free * 100.0;
    let small = limited("10ms", "goodput")? / limited("0s", "goodput")? * 100.0;
    let copy = played.scene("limited-copy")?;
    let beside = |rate: &str, tick: &str, metric: &str| {
        let at = [
            ("host.nic.shaper_rate", rate),
            ("host.nic.shaper_tick", tick),
        ];
        copy.value(&at, metric)
    };
    let late = |rate, tick| {
        let p99 = beside(rate, tick, "get.latency.p99")?;
        Ok::<_, NoAnswer>(number(p99, "ns"))
    };
    let dropped = |rate, tick| beside(rate, tick, "drops_per_s");
    let (even, bursts) = (dropped("800Mb/s", "0s")?, dropped("800Mb/s", "10ms")?);
    let finding = Finding::all([
        Finding::at_least(
            "drops of all ports, where a host copies to another one without an end beside queries at 100 Mb/s, with \
             a limit of 800 Mb/s at ticks of 10 ms, a burst of 1 MB each, over those with the same limit exact",
            bursts / even,
            2.0,
            "",
        ),
        Finding::between(
            "percent of the drops that an exact limit leaves of queries alone, at 300 Mb/s,",
            exact,
            (80.0, 100.0),
            "",
        ),
        Finding::at_most(
            "percent of their goodput with that tick and a burst of 3 kB",
            small,
            50.0,
            "",
        ),
    ]);
    Ok(finding.and_words(format_args!(
        ". The 2 are ours. Beside the copy they are {} a second exact, {} at ticks and {} without a limit, and one \
         query of a hundred takes {}, {} and {}. Of queries alone ticks and their burst leave {} percent: no host \
         has 1 MB to send at once, so that it is no limit",
        number(even, ""),
        number(bursts, ""),
        number(dropped("off", "0s")?, ""),
        late("800Mb/s", "0s")?,
        late("800Mb/s", "10ms")?,
        late("off", "0s")?,
        number(jiffy, ""),
    )))
}
