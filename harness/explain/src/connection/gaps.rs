//! A gap: what is known of it, and whether it is one.

use super::Tracked;
use super::record::lose;
use crate::classify::{Aftermath, Burst, Ended, Facts, classify, is_usual};
use crate::gap::{Cause, Evidence, Gap, Side, Vantage};
use crate::half::Sighting;
use crate::segment::Segment;
use narrows::{ByteCount, Duration, Instant};
use std::collections::VecDeque;

/// What a gap proves to be when its cause is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// One.
    Gap,
    /// A time in which nothing was wrong.
    Usual,
}

/// A silence of who had not heard yet what came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unheard {
    pub(super) since: Sighting,
    /// What it echoes shows that it had heard nothing since this.
    pub(super) alone: Option<Sighting>,
}

impl Tracked {
    /// What is known of `side`'s flight while it waits since `start`.
    pub(super) fn facts(&self, side: Side, now: Sighting, start: Sighting) -> Facts {
        let k = side.index();
        let half = &self.half[k];
        let mss = half.mss();
        let (mut packets, mut small, mut sends) = (0_u32, 0_u32, 0);
        for sent in half
            .sent
            .iter()
            .filter(|sent| !sent.sacked && sent.sends > 0)
        {
            packets = packets.saturating_add(sent.packets.into());
            small += u32::from(sent.end - sent.start < mss.into());
            sends = sends.max(sent.sends);
        }
        let window = half.window.map(ByteCount::new);
        let length = now.at.since(start.at);
        // What was heard passes queues behind the place of the capture first.
        let queued = match (self.vantage(side), half.heard) {
            (Vantage::Sender, _) => Duration::ZERO,
            (_, None) => self.own,
            (_, Some(heard)) => {
                self.own + (heard.at + self.behind[side.other().index()]).since(start.at)
            }
        };
        // A timer begins when news is at the sender, which takes the way from here and back.
        let news = half.heard.is_some_and(|heard| heard.at >= start.at);
        let way = match self.vantage(side) {
            Vantage::Sender => Duration::ZERO,
            _ if news => self.near(side),
            _ => Duration::ZERO,
        };
        let after_idle = self.idle[k]
            .filter(|(_, since)| *since <= packets.max(1))
            .map(|(idle, _)| idle);
        Facts {
            length,
            timer: length,
            ended: Ended::Wrote,
            evidence: Evidence {
                flight: ByteCount::new(half.flight().saturating_sub(half.sacked)),
                packets,
                small,
                rtt: self.path_rtt.or(half.rtt.min()),
                timeout: half
                    .rtt
                    .timeout()
                    .map(|timeout| timeout + half.turn.unwrap_or_default()),
                floor: None,
                sends,
                earlier: None,
                window,
                after_idle,
                released: None,
                between: None,
            },
            vantage: self.vantage(side),
            mss: mss.into(),
            heard: half.hears_of_loss(),
            dup_acks: half.dup_acks,
            asked: half.is_asked(self.heard_until(side, now)),
            recovers: half.recovers(),
            unprompted: false,
            prompted: false,
            arrived: false,
            ran: None,
            queued,
            probe: length.saturating_sub(way),
            acked: 0,
            pairs: half.is_acked_in_pairs(),
            widened: false,
            unsent: half.has_more(),
            unpushed: half.is_unpushed(),
            turns: half.turns.timeout(),
            timeouts: half.timeouts,
            aftermath: Aftermath::None,
            more: false,
            limited: half.limited_until > half.una || half.has_more(),
            sack: self.sack.iter().all(|sack| *sack != Some(false)),
            missing: false,
            too_large: false,
            swallowed: false,
            closed: half.closed.is_some(),
            late: self.late,
            at_most: self.at_most,
            probing: half.una < half.rare.tlp_end_seq,
            threshold: self.threshold,
            opened: false,
            updated: half.updated && self.vantage(side) != Vantage::Sender,
            restarted: after_idle.is_some()
                && half.flight() * 2 <= half.most_out
                && half.first_flight.is_none_or(|(_, first)| packets >= first),
            released_largest: 0,
            full: false,
            smoothed: half.smoothed(self.vantage(side)),
            burst: Burst::default(),
        }
    }

    /// The last news that `side` had heard when it sent again what comes by now. Where no news can have asked
    /// for that, a timer did, and what came by since the sender looked was on its way to it.
    pub(super) fn heard_by(&self, side: Side, now: Sighting) -> Option<Sighting> {
        let half = &self.half[side.index()];
        let shut = half.updated || half.closed.is_some();
        let until = self.heard_until(side, now);
        if half.is_asked(until) || shut {
            return half.heard;
        }
        let in_time = |heard: &Sighting| heard.at <= until;
        half.heard.filter(in_time).or(half.heard_before)
    }

    /// Since when `side` was silent when it sent `segment`, which comes by now, if the last news that came by was
    /// still on its way to it and that is long.
    pub(super) fn unheard(&self, side: Side, now: Sighting, segment: &Segment) -> Option<Unheard> {
        let half = &self.half[side.index()];
        let heard = half.heard?.at;
        let recent = |seen: Sighting| now.at.since(seen.at) <= self.threshold;
        if half.text.is_some_and(recent) {
            return None;
        }
        // What it echoes shows what it had heard, however much came by since.
        if let Some(alone) = self.unprompted(side, now, segment) {
            let since = half.text.filter(|text| text.at > alone.at).unwrap_or(alone);
            let alone = Some(alone);
            return (!recent(since)).then_some(Unheard { since, alone });
        }
        if half.heard_before.is_some_and(recent) {
            return None;
        }
        let before = [half.heard_before, half.text].into_iter().flatten();
        let last = before.max_by_key(|last| last.at)?;
        let unheard = self.vantage(side) == Vantage::Middle && heard > self.heard_until(side, now);
        unheard.then_some(Unheard {
            since: last,
            alone: None,
        })
    }

    /// The packet of `side` since which nothing that it heard can have asked for `segment`, which it sent now:
    /// both echo the same, and what is not sent at once when it is asked for RACK's timer sends after a part of
    /// a round trip (RFC 8985 section 6.2).
    pub(super) fn unprompted(
        &self,
        side: Side,
        now: Sighting,
        segment: &Segment,
    ) -> Option<Sighting> {
        let half = &self.half[side.index()];
        let since = half.silent_since(segment.options.timestamps?, segment.ack)?;
        let peer = &self.half[side.other().index()];
        // What comes out of order is heard and not echoed, but answered at once (RFC 5681 section 4.2). What has
        // no text is not answered: who had heard it would not send again what it acknowledges.
        let bare = peer.bare.is_some_and(|(bare, at)| {
            bare > peer.offset(segment.ack) && at + self.near(side) > since.at
        });
        let hidden = bare && half.offset(segment.seq) >= half.una;
        let in_order = !hidden && peer.sacked == 0 && peer.dup_acks == 0;
        let silent = now.at.since(since.at).saturating_sub(self.own) > self.path_rtt?;
        (in_order && silent && self.vantage(side) != Vantage::Sender).then_some(since)
    }

    /// When what `side` had heard came by at the latest when it sent what comes by now.
    fn heard_until(&self, side: Side, now: Sighting) -> Instant {
        if self.vantage(side) == Vantage::Sender {
            return now.at;
        }
        now.at - (self.near(side) + self.behind[side.other().index()] + self.own)
    }

    /// The way from the place of the capture to `side` and back.
    pub(super) fn near(&self, side: Side) -> Duration {
        let other = self.half[side.other().index()].rtt.min();
        self.half[side.index()].turn.or(other).unwrap_or_default()
    }

    /// Gives a gap its cause.
    pub(super) fn settle(
        &mut self,
        side: Side,
        start: Sighting,
        end: Sighting,
        facts: &Facts,
        out: &mut VecDeque<Gap>,
    ) -> Settled {
        let (cause, confidence, floor) = classify(facts);
        if cause == Cause::BlackHole {
            self.suspected(side, true, out);
        }
        if is_usual(facts, cause) {
            return Settled::Usual;
        }
        let waits = match facts.ended {
            Ended::Answer => side.other(),
            _ => side,
        };
        let evidence = Evidence {
            floor,
            ..facts.evidence
        };
        let gap = Gap {
            connection: self.id,
            side: waits,
            start,
            end,
            cause,
            confidence,
            evidence,
        };
        if (cause, facts.ended) == (Cause::TailLossProbe, Ended::New) {
            let half = &mut self.half[side.index()];
            half.rare.tlp_end_seq = half.nxt;
        }
        lose(&mut self.lost, cause, gap.length());
        out.push_back(gap);
        Settled::Gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Opened, Rules};

    const SIDE: Side = Side::Server;

    fn seen(us: u64) -> Sighting {
        Sighting {
            at: Instant::ZERO + Duration::from_micros(us),
            packet: us,
        }
    }

    /// Without timestamps.
    fn segment() -> Segment {
        let [src, dst] = [80, 1_000].map(|port| ([10, 0, 0, 1], port).into());
        Segment::between(src, dst)
    }

    /// In the middle of a path of 200 us: the server sent at 0, and what it hears came by at 1,000 us.
    fn tracked() -> Tracked {
        let rules = Rules {
            share: 0,
            floor: Duration::from_micros(200),
            segments: 100,
            rounds: false,
            points: 0,
        };
        let mut tracked = Tracked::new(
            0,
            crate::ends::Socket::Lesser,
            Opened::Midway,
            seen(0),
            &rules,
        );
        for half in &mut tracked.half {
            half.rtt.add(Duration::from_micros(100));
        }
        let half = &mut tracked.half[SIDE.index()];
        (half.text, half.heard) = (Some(seen(0)), Some(seen(1_000)));
        tracked
    }

    #[test]
    fn what_came_by_less_than_the_way_to_a_sender_and_back_ago_it_had_not_heard() {
        let silent = |tracked: &Tracked, now| {
            tracked
                .unheard(SIDE, seen(now), &segment())
                .map(|s| s.since)
        };
        let mut tracked = tracked();
        assert_eq!(silent(&tracked, 1_099), Some(seen(0)));
        assert_eq!(silent(&tracked, 1_100), None, "it had");
        tracked.behind[SIDE.other().index()] = Duration::from_micros(50);
        assert_eq!(silent(&tracked, 1_149), Some(seen(0)), "that waited behind");
        tracked.own = Duration::from_micros(50);
        assert_eq!(silent(&tracked, 1_199), Some(seen(0)), "and so did this");
        assert_eq!(silent(&tracked, 1_200), None);
    }

    #[test]
    fn who_sent_or_heard_something_a_moment_ago_is_not_silent() {
        let mut tracked = tracked();
        let k = SIDE.index();
        tracked.half[k].heard_before = Some(seen(500));
        let silent = |tracked: &Tracked| {
            tracked
                .unheard(SIDE, seen(1_050), &segment())
                .map(|s| s.since)
        };
        assert_eq!(silent(&tracked), Some(seen(500)), "since it heard that");
        tracked.half[k].text = Some(seen(700));
        assert_eq!(silent(&tracked), Some(seen(700)), "since it sent that");
        tracked.half[k].heard_before = Some(seen(850));
        assert_eq!(silent(&tracked), None);
        (tracked.half[k].heard_before, tracked.half[k].text) = (None, Some(seen(850)));
        assert_eq!(silent(&tracked), None);
        tracked.half[k].text = None;
        assert_eq!(silent(&tracked), None, "nothing is known of before");
    }

    #[test]
    fn at_the_sender_all_that_came_by_is_heard() {
        let mut tracked = tracked();
        // It is close to the server.
        tracked.half[SIDE.other().index()].rtt = Default::default();
        tracked.half[SIDE.index()].turned(Duration::from_micros(2));
        assert_eq!(tracked.vantage(SIDE), Vantage::Sender);
        assert_eq!(tracked.unheard(SIDE, seen(1_001), &segment()), None);
    }
}
