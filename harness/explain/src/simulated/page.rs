//! The score as a page of the documentation.

use super::PLACES;
use crate::gap::{Cause, Confidence, Vantage};
use crate::score::{Row, Score, Share};
use std::fmt::Write;

/// Fewer gaps than this say nothing of a share.
const FEW: u64 = 20;

/// The page: precision and recall by cause and place of the capture, the same of runs that were
/// `held_out`, and what is taken for what. `asked` is how many runs were asked for, if it is not all
/// that there are.
pub fn page(score: &Score, held_out: &Score, asked: Option<usize>) -> String {
    let runs = asked.map_or(String::new(), |n| format!("={n}"));
    let mut o = String::new();
    let _ = write!(
        o,
        "# How good `narrows explain` is\n\n\
         {} simulated runs (incast, small writes, lost packets, late packets, bursts, outages) were captured at the sender, at the switch \
         before its queues, and at the receiver, and explained from these captures alone. What was true was told from inside: by \
         the timers, windows and buffers of both ends. This page is made by\n\n```sh\nnarrows explain --score{runs} --docs docs/EXPLAIN.md\n```\n\n\
         Recall: of the gaps that were, the share that was found and named so. Precision: of the gaps that were named so, the share \
         that was. In percent, with the number of gaps; goal 95 each. A cause with fewer than {FEW} gaps is marked with `*`. \
         A window in packets and a restart after idle count as what makes them long, the delayed ACK; a late window update \
         as a closed window. Runs without a cause say nothing of it: no reader here stops reading, no path has a black hole, no link \
         is paused.\n\n\
         A true gap begins with the last that its end sent or heard, and counts for recall if it is longer than two and a half round \
         trips and 200 us: shorter ones are what queues do, too.\n\n\
         ## What cannot be seen from where\n\n\
         - **At the receiver**: a flight that was lost on its way never came by, so a timeout looks like an application that wrote \
         nothing until its retransmission shows a hole before what came, and a whole window lost never does. What was lost once and what was \
         lost twice look alike. A tail loss probe looks like any retransmission.\n\
         - **In the middle**, before the queue that drops: what was lost behind the capture is seen, what was lost before it is not. \
         Acknowledgements may still be lost on their way to the sender. When a sender knew something is only known to half a round trip, \
         and to what queues behind the capture take: what comes sooner than SRTT + 4 RTTVAR is no timeout here, and a short silence \
         after a question is named as a guess. A SYN-ACK that follows a SYN that came again may be its answer or a timer's.\n\
         - **At the sender**: a probe for a single packet and a timeout with a low floor send the same packet at about the same time. \
         Whether a window of up to three packets was full, or all that there was, shows only in what left before and after it.\n\
         - **From nowhere in a capture**: why packets were delayed (queues, pause frames, coalescing, a busy host), what a sender's \
         own host dropped without sending it later, and why an application wrote nothing. \"Packets delayed\" and \"coalescing\" are \
         said where nothing else fits, as a guess; no end of a connection knows of them, so they have no truth here, and in the table \
         their precision says nothing.\n",
        score.runs
    );
    causes(&mut o, score);
    let _ = write!(
        o,
        "\n## Held out\n\nThe same of {} runs of these kinds with other parameters (loads, losses, delays, buffers, sizes, timeouts) \
         and other random numbers, to which no rule was fitted.\n",
        held_out.runs
    );
    causes(&mut o, held_out);
    o.push_str("\n## Confidence\n\nOf the gaps that were found, the share that was right.\n\n| place | certain | likely | guess |\n|---|---|---|---|\n");
    confidence(&mut o, score);
    o.push_str("\nThe same of what was held out.\n\n| place | certain | likely | guess |\n|---|---|---|---|\n");
    confidence(&mut o, held_out);
    for place in PLACES {
        let _ = write!(
            o,
            "\n## What was true, and what was found at the {}\n\n",
            place.name()
        );
        rows(&mut o, &score.truth, place);
        let _ = write!(
            o,
            "\n## What was found at the {}, and what was true\n\n",
            place.name()
        );
        rows(&mut o, &score.found, place);
    }
    o
}

fn causes(o: &mut String, score: &Score) {
    o.push_str("\n| cause |");
    for place in PLACES {
        let _ = write!(o, " {0}: recall | {0}: precision |", place.name());
    }
    o.push_str("\n|---|");
    o.push_str(&"---|".repeat(2 * PLACES.len()));
    o.push('\n');
    for cause in Cause::ALL {
        let shares =
            PLACES.map(|place| [score.recall(place, *cause), score.precision(place, *cause)]);
        if shares.iter().flatten().all(|share| share.all == 0) {
            continue;
        }
        let _ = write!(o, "| {cause} |");
        for share in shares.iter().flatten() {
            let _ = write!(o, " {} |", cell(*share));
        }
        o.push('\n');
    }
}

fn confidence(o: &mut String, score: &Score) {
    for place in PLACES {
        let _ = write!(o, "| {} |", place.name());
        for confidence in Confidence::ALL {
            let (all, right) = score
                .confidence
                .get(&(place, confidence))
                .copied()
                .unwrap_or_default();
            let _ = write!(o, " {} |", cell(Share { right, all }));
        }
        o.push('\n');
    }
}

fn rows(o: &mut String, rows: &std::collections::BTreeMap<(Vantage, Cause), Row>, place: Vantage) {
    for ((_, cause), row) in rows.iter().filter(|((p, _), _)| *p == place) {
        let mut row: Vec<_> = row.iter().collect();
        row.sort_by_key(|(cause, n)| (std::cmp::Reverse(**n), **cause));
        let row: Vec<_> = row
            .iter()
            .map(|(c, n)| format!("{} {n}", c.map_or("nothing", Cause::text)))
            .collect();
        let _ = writeln!(o, "- **{cause}**: {}", row.join("; "));
    }
}

fn cell(share: Share) -> String {
    match share.per_mille() {
        None => "-".to_owned(),
        Some(per_mille) => {
            let few = if share.all < FEW { "*" } else { "" };
            format!("{}.{} ({}){few}", per_mille / 10, per_mille % 10, share.all)
        }
    }
}
