//! A gap told by one capture, with what both know of the packets in it.

use super::fates::{Fate, Journey, Sent};
use crate::gap::{Between, Cause, Confidence, Gap};
use narrows::Duration;

/// A full segment on Ethernet (RFC 879): more than one of them is acknowledged at once
/// (RFC 5681 section 4.2).
const FULL: u32 = 1_460;

/// Packets before a gap that are looked at.
const LOOK: usize = 4_096;

/// `gap`, by the first clock, of what goes the way of `there` and is acknowledged the way of `back`.
/// What passed the second place has arrived if that is near the receiver.
pub(super) fn refine(gap: &Gap, there: &Journey, back: &Journey, at_receiver: bool) -> Gap {
    let mut gap = *gap;
    let end = there.index(gap.end.packet);
    let Some(facts) = Facts::of(&gap, there, back, end) else {
        gap.evidence.between = Some(Between {
            capture: there.upstream as u8,
            ..Between::default()
        });
        return gap;
    };
    gap.evidence.between = Some(facts.between);
    if gap.cause.is_timeout() || gap.cause == Cause::TailLossProbe {
        again(&mut gap, &facts, at_receiver);
    } else if gap.cause == Cause::LocalDrop {
        // The other place has it, so it did leave: this capture lacks it.
        if facts.elsewhere {
            gap.cause = Cause::TimeoutTail;
            gap.confidence = Confidence::Guess;
        }
    } else if gap.cause == Cause::SynRetried {
        if facts.known && (facts.between.lost > 0 || facts.between.acks_lost > 0) {
            gap.confidence = Confidence::Certain;
        }
    } else if at_receiver {
        waited(&mut gap, &facts);
    }
    gap
}

struct Facts {
    between: Between,
    /// Copies of what was sent again: how many, and of these lost and arrived in time.
    copies: u16,
    copies_lost: u16,
    copies_arrived: u16,
    /// Nobody can say of some of these.
    known: bool,
    /// Everything that was outstanding was lost, and that is known.
    all_lost: bool,
    /// What was sent again had arrived although the near capture never saw it leave.
    elsewhere: bool,
}

impl Facts {
    fn of(gap: &Gap, there: &Journey, back: &Journey, end: usize) -> Option<Self> {
        let again = there.sent.get(end).filter(|s| s.packet == gap.end.packet);
        let range = end.saturating_sub(LOOK)..end.min(there.sent.len());
        let before = &there.sent[range];
        // What was acknowledged by then, as far as this place knew.
        let acked = acked(gap, back);
        let open = |sent: &&Sent| {
            sent.end > sent.start
                && acked.is_none_or(|una| (sent.end as u32).wrapping_sub(una) as i32 > 0)
        };
        let ended = gap.end.at;
        let in_time = |sent: &Sent| matches!(sent.fate, Fate::Arrived { at, .. } if at <= ended);
        let mut facts = Self {
            between: Between {
                capture: there.upstream as u8,
                ways: ways(gap, there, back),
                put_off: put_off(gap, there, back),
                ..Between::default()
            },
            copies: 0,
            copies_lost: 0,
            copies_arrived: 0,
            known: true,
            all_lost: true,
            elsewhere: false,
        };
        for sent in before.iter().filter(open) {
            let lost = matches!(sent.fate, Fate::Lost | Fate::Part);
            facts.between.lost += u16::from(lost);
            facts.between.arrived += u16::from(in_time(sent));
            facts.all_lost &= sent.fate == Fate::Lost;
            if let Some(again) = again
                && sent.start < again.end
                && sent.end > again.start
            {
                facts.copies += 1;
                facts.copies_lost += u16::from(sent.fate == Fate::Lost);
                facts.copies_arrived += u16::from(in_time(sent) && !sent.ambiguous);
                facts.known &=
                    !sent.ambiguous && matches!(sent.fate, Fate::Lost | Fate::Arrived { .. });
            }
        }
        let from = first_open(before, &open).map(|sent| sent.at);
        if let Some(from) = from {
            let begin = back.sent.partition_point(|s| s.at < from);
            let meanwhile = back.sent[begin..].iter().take_while(|s| s.at <= ended);
            facts.between.acks_lost = meanwhile
                .filter(|s| s.fate == Fate::Lost)
                .count()
                .min(9_999) as u16;
        }
        if gap.evidence.sends == 0
            && let Some(again) = again
        {
            facts.elsewhere = again.fate == Fate::Unknown;
        }
        Some(facts)
    }
}

fn first_open<'a>(before: &'a [Sent], open: &impl Fn(&&Sent) -> bool) -> Option<&'a Sent> {
    before.iter().find(|sent| open(sent))
}

/// The highest acknowledgement that had come by before the gap was over.
fn acked(gap: &Gap, back: &Journey) -> Option<u32> {
    // At the near place acknowledgements are those that arrived there.
    let arrived = back.from.range(0..gap.end.packet);
    let mut newest: Option<u32> = None;
    for (_, n) in arrived.iter().rev().take(64) {
        let ack = back.sent.get(*n)?.ack;
        newest = Some(newest.map_or(ack, |best| {
            if ack.wrapping_sub(best) as i32 > 0 {
                ack
            } else {
                best
            }
        }));
    }
    newest
}

/// How long what ended the gap was on its way.
fn ways(gap: &Gap, there: &Journey, back: &Journey) -> Option<[Duration; 3]> {
    let answer = back.sent.get(*back.from.get(&gap.end.packet)?)?;
    let Fate::Arrived { at: home, .. } = answer.fate else {
        return None;
    };
    // The last that had left before the gap began is what was waited for.
    let left = there.index(gap.start.packet + 1);
    let mut asked = there.sent[..left].iter().rev().filter(|s| s.end > s.start);
    let asked = asked.find(|s| (s.end as u32).wrapping_sub(answer.ack) as i32 <= 0)?;
    let Fate::Arrived { at: arrived, .. } = asked.fate else {
        return None;
    };
    Some([
        arrived.since(asked.at),
        answer.at.since(arrived),
        home.since(answer.at),
    ])
}

/// Bytes that had arrived when the acknowledgement that ended the gap left, beyond what was acknowledged
/// before it.
fn put_off(gap: &Gap, there: &Journey, back: &Journey) -> u32 {
    let Some(&n) = back.from.get(&gap.end.packet) else {
        return 0;
    };
    let before = n.checked_sub(1).and_then(|n| back.sent.get(n));
    let (Some(answer), Some(before)) = (back.sent.get(n), before) else {
        return 0;
    };
    let left = there.index(gap.end.packet);
    let recent = &there.sent[left.saturating_sub(LOOK)..left];
    let arrived = recent.iter().filter(|s| {
        let in_time = matches!(s.fate, Fate::Arrived { at, .. } if at <= answer.at);
        in_time && s.end > s.start && (s.end as u32).wrapping_sub(before.ack) as i32 > 0
    });
    let bytes: u64 = arrived.map(|s| s.end - s.start).sum();
    bytes.min(u32::MAX.into()) as u32
}

/// Something was sent again.
fn again(gap: &mut Gap, facts: &Facts, at_receiver: bool) {
    if !facts.known || facts.copies == 0 {
        return;
    }
    if facts.copies_arrived > 0 {
        // It need not have been sent again; whether a probe did is for the clock to say.
        if gap.cause.is_timeout() && at_receiver {
            // A probe is sent once, and for a single packet at about the time of a timer
            // (RFC 8985 section 7.2).
            let probe = facts.copies == 1 && gap.evidence.packets <= 1;
            gap.cause = Cause::TimeoutSpurious;
            gap.confidence = match probe {
                true => Confidence::Likely,
                false => Confidence::Certain,
            };
        }
        return;
    }
    if facts.copies_lost < facts.copies {
        return;
    }
    // All copies were lost: it is no spurious timeout.
    if !gap.cause.is_timeout() {
        return;
    }
    (gap.cause, gap.confidence) = match gap.cause {
        _ if facts.copies > 1 => (Cause::TimeoutRetransmissionLost, Confidence::Certain),
        Cause::TimeoutWholeWindow if facts.all_lost && facts.between.lost > 3 => {
            (gap.cause, Confidence::Certain)
        }
        Cause::TimeoutTail if !facts.all_lost => (gap.cause, Confidence::Certain),
        Cause::TimeoutSpurious | Cause::TimeoutRetransmissionLost => {
            let whole = facts.all_lost && facts.between.lost > 3;
            let cause = if whole {
                Cause::TimeoutWholeWindow
            } else {
                Cause::TimeoutTail
            };
            (cause, Confidence::Likely)
        }
        other => (other, gap.confidence),
    };
}

/// An acknowledgement or an answer was waited for.
fn waited(gap: &mut Gap, facts: &Facts) {
    let Some([out, there, back]) = facts.between.ways else {
        return;
    };
    let delayed = matches!(
        gap.cause,
        Cause::DelayedAck | Cause::NagleDelayedAck | Cause::PacketWindow | Cause::IdleRestart
    );
    let length = gap.length();
    if delayed && (out + back) * 2 > length {
        // It was on its way: the receiver answered soon.
        gap.cause = Cause::PacketDelay;
        gap.confidence = Confidence::Likely;
    } else if matches!(gap.cause, Cause::PacketDelay | Cause::Coalescing)
        && (out + back) * 2 > length
    {
        gap.cause = Cause::PacketDelay;
        gap.confidence = Confidence::Likely;
    } else if gap.cause == Cause::PacketDelay
        && there <= length
        && there * 4 > length * 3
        && there >= Duration::from_millis(5)
        && (1..=FULL).contains(&facts.between.put_off)
    {
        // Of less than two full segments the receiver may put off the acknowledgement.
        gap.cause = Cause::DelayedAck;
        gap.confidence = Confidence::Guess;
    } else if delayed && there * 2 > length && gap.confidence == Confidence::Guess {
        gap.confidence = Confidence::Likely;
    }
}
