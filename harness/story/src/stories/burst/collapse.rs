//! What collapses at half of the line: claim M16.

use super::measures::{at_hosts, drops, sent_again};
use crate::judge::{Finding, Judged};
use crate::played::{Answer, NoAnswer, Played};
use narrows_report::points::number;

/// The chosen set-up.
const CHOSEN: &str = "going-back";
/// Two set-ups beside it, one on either side.
const NEIGHBOURS: [(&str, &str); 2] = [
    ("going-back-less", "11 kB through 80 KiB"),
    ("going-back-more", "16 kB through 104 KiB"),
];

/// What a sender that goes back to the first loss has to show in a scene.
fn judged(played: &Played, scene: &str) -> Answer<Finding> {
    let again = |metric| at_hosts(played, scene, &[("load", "400Mb/s")], metric);
    let median = played.scene(scene)?;
    Ok(Finding::all([
        Finding::between(
            "percent of packets sent again at 400 Mb/s",
            again("again_packets")? / again("out_packets")? * 100.0,
            (4.0, 6.0),
            "",
        ),
        Finding::at_most(
            "drops of a host's port a second",
            drops(played, scene, "400Mb/s")?,
            500.0,
            "",
        ),
        Finding::at_least(
            "median query at 500 Mb/s",
            median.value(&[("load", "500Mb/s")], "latency.p50")?,
            200e6,
            "ns",
        ),
    ]))
}

/// Why a short run does not tell.
pub(super) const TAKES: &str = "(`narrows story burst --full`). Senders that wait for timeouts make runs differ, so that \
    three of 5 s are judged; usually there is one of 3 s";

pub(super) fn at_half_the_line(played: &Played) -> Answer<Finding> {
    let chosen = judged(played, CHOSEN)?;
    let neighbours = NEIGHBOURS.map(|(scene, what)| {
        let found = match judged(played, scene) {
            Err(NoAnswer::NeedsFull) => return Ok(None),
            found => found?,
        };
        let so = match found.judged {
            Judged::Holds => "all three hold there, too",
            Judged::Differs => "not all three hold there",
        };
        Ok::<_, NoAnswer>(Some(format!("{what} {so}: {}", found.measured)))
    });
    let neighbours = match neighbours {
        [Ok(Some(less)), Ok(Some(more))] => format!("{less}; {more}"),
        [Ok(_), Ok(_)] => {
            let [less, more] = NEIGHBOURS.map(|(_, what)| what);
            format!("With --full {less} and {more} are judged, too")
        }
        [Err(e), _] | [_, Err(e)] => return Err(e),
    };
    let point = [("load", "400Mb/s")];
    let scene = played.scene(CHOSEN)?;
    let a_drop = scene.value(&point, "retransmits")? / scene.value(&point, "drops")?;
    let dropped = |load: &str| Ok::<_, NoAnswer>(number(drops(played, CHOSEN, load)?, ""));
    let wire = |scene: &str, load: &str| {
        Ok::<_, NoAnswer>(number(sent_again(played, scene, &[("load", load)])?, ""))
    };
    let chosen = chosen.after_words(
        "calibrated, a fit and no prediction: replies of 14 kB and ports of 96 KiB are chosen so that all three \
         hold. ",
    );
    Ok(chosen.and_words(format_args!(
        ". The 500 drops are the most that M4 has at 450; that the median waits for a timeout is our reading, \
         since the text does not say what collapses. The sender goes back to the first loss, and is counted at \
         hosts with segmentation offload as in M14 and M15, which have another set-up: SACK, and other replies \
         and ports. {neighbours}. Of segments on the wire {} percent are sent again at 400 Mb/s, {} for each drop; by \
         load 250, 350 and 500 Mb/s its ports drop {}, {} and {}. One that sends again what was lost and little \
         else (SACK) sends {} percent of its segments again at 400 Mb/s with replies of 10 kB, of {} drops, and \
         {} at 500; of replies of 30 kB {} at 400, of {} drops",
        wire(CHOSEN, "400Mb/s")?,
        number(a_drop, ""),
        dropped("250Mb/s")?,
        dropped("350Mb/s")?,
        dropped("500Mb/s")?,
        wire("load", "400Mb/s")?,
        number(drops(played, "load", "400Mb/s")?, ""),
        wire("load", "500Mb/s")?,
        wire("large-replies", "400Mb/s")?,
        number(drops(played, "large-replies", "400Mb/s")?, ""),
    )))
}
