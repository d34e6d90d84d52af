//! The score as a page of the documentation.
//!
//! It runs once, and is `#[inline]` to be compiled where it is called: the command is not optimised.

use super::PLACES;
use crate::gap::{Cause, Confidence, TAPO, Vantage};
use crate::score::{Row, Score, Share};
use narrows::congestion::order::{OrderedMap, sort_by_key};
use std::fmt::Write;

/// Fewer gaps than this say nothing of a share.
const FEW: u64 = 20;

/// The page: precision and recall by cause and place of the capture, the same of runs that were
/// `held_out`, and what is taken for what. `asked` is how many runs were asked for, if it is not all
/// that there are.
#[inline]
pub fn page(score: &Score, held_out: &Score, asked: Option<usize>) -> String {
    let runs = asked.map_or(String::new(), |n| format!("={n}"));
    let mut o = String::new();
    let _ = write!(
        o,
        "# How good `narrows explain` is\n\n\
         {} simulated runs (incast, small writes, lost packets, late packets, bursts, outages; readers that rest, refused sends, paused \
         links and hosts, coalescing, black holes, windows of a segment, windows in packets) were captured at the sender, at the switch \
         before its queues, and at the receiver, and explained from these captures alone. What was true was told from inside: by \
         the timers, windows and buffers of both ends, and by what packets waited for on their way. This page is made by\n\n```sh\nnarrows explain --score{runs} --docs docs/EXPLAIN.md\n```\n\n\
         Recall: of the gaps that were, the share that was found and named so. Precision: of the gaps that were named so, the share \
         that was. In percent, with the number of gaps; goal 95 each. A cause with fewer than {FEW} gaps is marked with `*`. \
         Where a cause cannot be seen, a letter stands for the reason, which is below.\n\n\
         What a true gap is:\n\n\
         - It begins with the last that its end sent or heard, and counts for recall if it is longer than two and a half round \
         trips and 200 us: shorter ones are what queues do, too.\n\
         - A timeout is spurious if a copy of what it sent again was not dropped on its way, whether its sender ever learns that or not.\n\
         - Packets are delayed if a sender that has more to send hears of its flight, be it by a duplicate or selective acknowledgement, \
         after more than SRTT + 4 RTTVAR as its own packets had it (RFC 6298 section 2, no floor) and more than two of its least round \
         trips. What a peer acknowledges with its own data, for which it had it ready, waited for its application. It is a pause if a port on the way stood still for half of that, coalescing if packets were in \
         a receive ring for half of it and not longer than 5 ms. \"Packets delayed\" is right for all three. \
         Until all is acknowledged that was out when something was sent again, waiting is part of the loss.\n\
         - An application that wrote nothing while the other end had lost or held back data is right if it is found, and not \
         missed if it is not; so is a host's own drop after which nothing left that tells of it, or of a copy of what had left before (what is refused again leaves one wait), and a black hole that takes all of \
         a flight, which at the sender and in the middle looks as an outage does (a test has both).\n\
         - A window is closed if it is less than the sender's largest segment (536 bytes at least) and than half of the widest window (RFC 9293 section \
         3.8.6.2.1). Where a window update got lost, the window was closed until it was sent; elsewhere than at the receiver it is one wait, and either \
         name is right for both parts.\n",
        score.runs
    );
    causes(&mut o, score);
    reasons(&mut o);
    let _ = write!(
        o,
        "\n## Held out\n\nThe same of {} runs of these kinds with other parameters (loads, losses, delays, buffers, sizes, timeouts) and three seeds each. \
         What was wrong of runs with these parameters was read while rules were made, with other random numbers; those of these runs nobody had looked at. Where nothing but the overhead of sending is random \
         (small writes, black holes, windows of a segment, windows in packets) three seeds say little more than one.\n",
        held_out.runs
    );
    causes(&mut o, held_out);
    o.push_str("\n## Confidence\n\nOf the gaps that were found, the share that was right.\n\n| place | certain | likely | guess |\n|---|---|---|---|\n");
    confidence(&mut o, score);
    o.push_str("\nThe same of what was held out.\n\n| place | certain | likely | guess |\n|---|---|---|---|\n");
    confidence(&mut o, held_out);
    tapo(&mut o);
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

#[inline]
fn causes(o: &mut String, score: &Score) {
    o.push_str("\n| cause |");
    for place in PLACES {
        let _ = write!(o, " {0}: recall | {0}: precision |", place.name());
    }
    o.push_str("\n|---|");
    o.push_str(&"---|".repeat(2 * PLACES.len()));
    o.push('\n');
    for cause in Cause::ALL {
        let shares = PLACES.map(|place| match cause {
            Cause::Coalescing => score.by_name(place, *cause),
            _ => [score.recall(place, *cause), score.precision(place, *cause)],
        });
        if shares.iter().flatten().all(|share| share.all == 0) {
            continue;
        }
        let _ = write!(o, "| {cause} |");
        for (place, shares) in PLACES.iter().zip(shares) {
            let [recall, precision] = match hidden(*place, *cause) {
                Some(letter) => [(); 2].map(|()| format!("not visible ({letter})")),
                None => shares.map(cell),
            };
            let unseen = match score.unseen(*place, *cause) {
                0 => String::new(),
                n => {
                    let seen = cell(score.precision_of_seen(*place, *cause));
                    format!("; {seen} without {n} that cannot be told (i)")
                }
            };
            let _ = write!(o, " {recall} | {precision}{unseen} |");
        }
        o.push('\n');
    }
}

/// Why causes cannot be seen from places: the letters in the table.
const HIDDEN: &[(char, &[Vantage], &[Cause], &str)] = &[
    (
        'a',
        &[Vantage::Receiver],
        &[
            Cause::TimeoutWholeWindow,
            Cause::TimeoutTail,
            Cause::TimeoutRetransmissionLost,
        ],
        "What was lost on its way never came by: a timeout looks like an application that wrote nothing until its retransmission \
         shows a hole before what came, a whole window lost never does, and what was lost once and what was lost twice look alike (a test has a reply of each kind and one that was written later).",
    ),
    (
        'b',
        &[Vantage::Receiver],
        &[Cause::TailLossProbe],
        "A probe for what never came by looks like new data, and any other like a retransmission (the same test has one).",
    ),
    (
        'c',
        &[Vantage::Receiver],
        &[Cause::BlackHole],
        "What was too long for the path never came by, and none of its copies did (a test has a black hole and an outage).",
    ),
    (
        'd',
        &[Vantage::Middle, Vantage::Receiver],
        &[Cause::LocalDrop],
        "What a host dropped itself looks like what was lost on its way to the capture (a test has both).",
    ),
    (
        'e',
        &[Vantage::Middle, Vantage::Receiver],
        &[Cause::SynRetried],
        "A SYN or SYN-ACK that was lost before it came by is not seen to be sent again (a test has a SYN that was, and a client that calls later), and a SYN-ACK that follows a SYN that came \
         again may be its answer or a timer's.",
    ),
    (
        'f',
        &[Vantage::Middle, Vantage::Receiver],
        &[Cause::PacketDelay],
        "What waits behind the capture is not seen to wait, and acknowledgements that pass in time may come late to the sender, whose \
         capture alone shows what it waited for (a test has an acknowledgement that is late behind the capture, and an application that writes later).",
    ),
    (
        'g',
        &[Vantage::Sender, Vantage::Middle, Vantage::Receiver],
        &[Cause::Pause],
        "Pause frames end at the port that obeys them and are in no capture of a host: what they delay is found as packets delayed (a test has an acknowledgement that waits for a pause, and one that is as late on a link).",
    ),
    (
        'h',
        &[Vantage::Middle, Vantage::Receiver],
        &[Cause::Coalescing],
        "A card that holds packets back does it behind the capture, or before it, and lets them go at once (a test has a card at the sender, and an application that writes later): of that the acknowledgements at \
         the sender tell, which come closer together than a link of 1 Gb/s carries them, none later after its packet than the one before. The cards of these runs let go in no time. Elsewhere what it \
         delays is not found in these runs, and at the sender it is packets delayed where fewer than three acknowledgements come at once. What a card does to every packet is part of the round-trip time.",
    ),
];

/// The letter of the reason why a cause cannot be seen from a place.
#[inline]
fn hidden(place: Vantage, cause: Cause) -> Option<char> {
    HIDDEN
        .iter()
        .find(|(_, places, causes, _)| places.contains(&place) && causes.contains(&cause))
        .map(|(letter, ..)| *letter)
}

#[inline]
fn reasons(o: &mut String) {
    o.push_str(
        "\n## What cannot be seen from where\n\nThe tests are `cargo test -p narrows-explain --features simulate --test unseen`: \
         in each, runs with different causes have the same packets at that place, to the nanosecond.\n\n",
    );
    for (letter, places, causes, why) in HIDDEN {
        let places: Vec<_> = places.iter().map(|place| place.name()).collect();
        let causes: Vec<_> = causes.iter().map(|cause| cause.text()).collect();
        let _ = writeln!(
            o,
            "- **{letter}** ({}; {}): {why}",
            places.join(", "),
            causes.join("; ")
        );
    }
    o.push_str(
        "- **i** (receiver; application wrote nothing, of the precision): Where a question waited in queues on its way for at least half of a silence, \
         and who is asked puts acknowledgements off, so that none left before the answer, what arrives at who asked is as where its application took as long: a test has \
         a call of each kind. The first figure counts these \
         gaps as wrong; those that are right and look the same are in both.\n",
    );
    o.push_str(
        "\nWhat is below the goal though it can be seen in part:\n\n\
         - **At the sender** a probe of new data looks like an application that writes, unless what left before it had to wait for an acknowledgement: then its window \
         was full, and who hears nothing sends only a probe (RFC 8985 section 7.3). A probe for a single packet and a timeout with a \
         low floor send the same packet at about the same time. Whether a window of up to three packets was full, or all that there was, shows \
         in PSH, too, and in what left before and after it. Of several spurious timeouts in a row what is acknowledged in the end tells of the last one only. A black hole is known by the third copy that vanishes, and not while nothing smaller left \
         after it. What a host refused and then sent again late, its own drop, looks like a longer timeout. Of \
         probes of a closed window that are not answered before the capture ends nobody knows whether it was open: they are told to be of a closed one; what is answered \
         later tells which copy was taken (RFC 7323 section 5.3).\n\
         - **In the middle** what was lost before the capture, and what a host dropped itself, is not seen, and when a sender knew something is \
         only known to half a round trip, and to what queues behind the capture take: what was asked for (by three duplicate acknowledgements, \
         SACK, or one of a recovery) and comes sooner than SRTT + 4 RTTVAR is no timeout here, unless timestamps tell that its sender had not heard that: what it echoes \
         is what an earlier packet echoed (RFC 7323 section 4.3). How long a timer ran is told by its sender's own clock then. New data that is the first to echo what was heard last is \
         a probe only if it comes just two round trips later. For how long a question \
         waits behind the capture is estimated from what else goes to its host. What asks for something may pass while a timer's copy is under way.\n\
         - **At the receiver** a short silence of the sender may be a queue that its own packets waited in. Timestamps (RFC 7323) tell when \
         a packet left, to the tick of their clock, and a link that is busy without a pause shows what waited before it. How long the \
         question waited before its host and the answer in that host is not seen: what is no longer than two and a half round trips and 200 us is no gap \
         here, what is longer is taken for an application that wrote nothing, as a guess, unless what it wrote last does not say PSH. What arrives again within twice that \
         is no spurious timeout here, unless it echoes what was echoed before: neither what asked for it nor it itself was seen to wait.\n",
    );
}

#[inline]
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

#[inline]
fn rows(o: &mut String, rows: &OrderedMap<(Vantage, Cause), Row>, place: Vantage) {
    for ((_, cause), row) in rows.iter().filter(|((p, _), _)| *p == place) {
        let mut row = row.to_vec();
        sort_by_key(&mut row, |(cause, n)| (std::cmp::Reverse(*n), *cause));
        let row: Vec<_> = row
            .iter()
            .map(|(c, n)| format!("{} {n}", c.map_or("nothing", Cause::text)))
            .collect();
        let _ = writeln!(o, "- **{cause}**: {}", row.join("; "));
    }
}

#[inline]
fn tapo(o: &mut String) {
    o.push_str("\n## The names of TAPO\n\nWhat TAPO (Zhou et al., CoNEXT 2015) calls a stall, and what it is here.\n\n| TAPO | here |\n|---|---|\n");
    for (name, causes, how) in TAPO {
        let causes: Vec<_> = causes.iter().map(|cause| cause.text()).collect();
        let _ = writeln!(o, "| {name} | {}{how} |", causes.join("; "));
    }
}

#[inline]
fn cell(share: Share) -> String {
    match share.per_mille() {
        None => "-".to_owned(),
        Some(per_mille) => {
            let few = if share.all < FEW { "*" } else { "" };
            format!("{}.{} ({}){few}", per_mille / 10, per_mille % 10, share.all)
        }
    }
}
