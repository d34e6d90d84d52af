//! The victim of somebody else's incast, as Zhu et al. measured it in a testbed whose switches pause.

use super::super::dctcp::measure::median;
use super::super::{Bench, Expected, Measured, Row, Tolerance};
use super::{goodput, parsed, run};
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::ScenarioError;

const SOURCE: &str = "Zhu et al., SIGCOMM 2015 (DCQCN), figure 4: median goodput of the victim with priority flow control";
/// Odd, so that the median is one of them. The paper has 250.
const TRIALS: u32 = 61;
/// Bytes of a port: 222 kB of headroom, and what waits before the port pauses.
const ROOM: &str = "400kB";
/// Hardly more than the headroom: R's line runs dry between a pause and the next packet.
const SCARCE: &str = "250kB";

/// The paper's testbed: two pods of two racks and two leaves each, two spines, all links of 40 Gb/s.
/// H11 to H14 of the first rack and `joined` of the third send to R in the fourth; VS, in the first
/// too, to VR in the second, by leaves that the third rack's packets never pass. Senders have no
/// congestion control, as RDMA has none without DCQCN: windows that react to nothing and are larger
/// than what is free on their way. Packets are of 4 KiB, which the paper does not say.
fn experiment(joined: &[&str], memory: &str, trial: u32) -> Result<Experiment, ScenarioError> {
    let (mut group, mut others) = (String::new(), String::new());
    if !joined.is_empty() {
        let hosts = joined.join(",");
        group = format!("[group.joined]\nhosts = \"{hosts}\"\n");
        others = "[[traffic]]\nname = \"others\"\nkind = \"bulk\"\nfrom = \"joined\"\nto = \"r\"\n"
            .to_owned();
    }
    let file = format!(
        "title = \"A victim of pause frames\"\n\
         [network]\ntopology = \"graph\"\nmtu = 4096\n\
         host_names = [\"h11\", \"h12\", \"h13\", \"h14\", \"vs\", \"vr\", \"h31\", \"h32\", \"r\"]\n\
         switches = [\"t1\", \"t2\", \"t3\", \"t4\", \"l1\", \"l2\", \"l3\", \"l4\", \"s1\", \"s2\"]\n\
         cables = [\"h11 - t1\", \"h12 - t1\", \"h13 - t1\", \"h14 - t1\", \"vs - t1\", \"vr - t2\",\
         \"h31 - t3\", \"h32 - t3\", \"r - t4\", \"t1 - l1\", \"t1 - l2\", \"t2 - l1\", \"t2 - l2\",\
         \"t3 - l3\", \"t3 - l4\", \"t4 - l3\", \"t4 - l4\", \"l1 - s1\", \"l1 - s2\", \"l2 - s1\",\
         \"l2 - s2\", \"l3 - s1\", \"l3 - s2\", \"l4 - s1\", \"l4 - s2\"]\n\
         link = {{ rate = \"40Gb/s\", delay = \"1us\" }}\n\
         queue = {{ limit = \"{memory}\" }}\npause = {{ mode = \"pfc\" }}\n\
         [group.four]\nhosts = \"h11,h12,h13,h14\"\n{group}\
         [host.tcp]\ncongestion = \"fixed:500\"\nreceive_window = \"2MB\"\nrto = \"100ms\"\n\
         [[traffic]]\nname = \"crowd\"\nkind = \"bulk\"\nfrom = \"four\"\nto = \"r\"\n\
         {others}\
         [[traffic]]\nname = \"victim\"\nkind = \"bulk\"\nfrom = \"vs\"\nto = \"vr\"\n\
         [run]\nduration = \"1500us\"\nwarm_up = \"500us\"\nseed = {trial}\n",
    );
    parsed("victim", &file)
}

/// In the median trial two of H11 to H14 take the victim's uplink. R's 40 Gb/s are 10 for each of the
/// four, and a paused uplink gives each of its inputs alike: the victim has 10, though 20 are free.
/// Those that join take turns at R's leaves and leave less of R, so the victim has less.
///
/// Which paths flows take is drawn in each trial, there and here. The tolerance is that of the other
/// row of this family that is held against a testbed whose switches and hashes are not known. The
/// number with one that joins is between the two others in the paper's figure.
pub(super) fn victim(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mut dropped = 0;
    let (both, near) = (&["h31", "h32"][..], Tolerance::Relative(0.3));
    let (ten, less) = (Expected::Value(10.0), Expected::Value(4.5));
    let between = Expected::Range(4.5, 10.0);
    let cases = [
        ("nobody joins", &[][..], ROOM, ten.clone(), near),
        ("H31 joins", &["h31"], ROOM, between, Tolerance::Exact),
        ("H31 and H32 join", both, ROOM, less.clone(), near),
        (
            "memory hardly above the headroom, nobody joins",
            &[],
            SCARCE,
            ten,
            Tolerance::Shown,
        ),
        (
            "memory hardly above the headroom, H31 and H32 join",
            both,
            SCARCE,
            less,
            Tolerance::Shown,
        ),
    ];
    for (who, joined, memory, expected, tolerance) in cases {
        let mut trials = Vec::new();
        for trial in 1..=TRIALS {
            let ran = run(bench, &experiment(joined, memory, trial)?)?;
            dropped += ran.ports.iter().map(|p| p.dropped_for_room()).sum::<u64>();
            trials.push(goodput(&ran, "victim") / 1e9);
        }
        let row = Row::new(
            format!("{who}, median of {TRIALS} trials"),
            SOURCE,
            expected,
            Measured::Value(median(trials)),
            "Gb/s",
            tolerance,
        );
        bench.row(row.explained("the-victim-of-pause-frames"));
    }
    bench.row(Row::new(
        "the victim's trials, packets dropped",
        "IEEE 802.3 Annex 31B with headroom: none",
        Expected::Value(0.0),
        Measured::Value(dropped as f64),
        "",
        Tolerance::Exact,
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_experiment::registry::Registry;
    use narrows_experiment::scenario::RunContext;

    #[test]
    fn who_joins_takes_from_the_victim_and_nothing_is_lost() {
        let medians = [&[][..], &["h31", "h32"]].map(|joined| {
            let trials = (1..=11).map(|trial| {
                let experiment = experiment(joined, ROOM, trial).unwrap();
                let ran = experiment.run(&Registry::default(), RunContext::default());
                let ran = ran.unwrap();
                let lost: u64 = ran.ports.iter().map(|p| p.dropped_for_room()).sum();
                assert_eq!(lost, 0, "trial {trial}");
                goodput(&ran, "victim") / 1e9
            });
            median(trials.collect())
        });
        assert!((8.0..12.0).contains(&medians[0]), "{medians:?}");
        assert!(medians[1] < medians[0] * 0.8, "{medians:?}");
    }
}
