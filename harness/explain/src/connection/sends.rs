//! What leaves one end, and what it ends: a silence that was a gap, or none.

use super::Tracked;
use super::gaps::Settled;
use super::pending::Wait;
use super::record::PointKind;
use crate::classify::{Ended, Facts};
use crate::gap::{Gap, Side, Vantage};
use crate::half::{Data, Retransmitted, Sighting};
use crate::segment::Segment;
use narrows::Duration;
use narrows::wire::Flags;
use std::collections::VecDeque;

/// What is known of a segment that is sent again, but for the copy itself.
struct Known {
    /// The silence that it ends.
    silence: Option<(Sighting, Facts)>,
    /// What went before, where it is the first of its flight.
    before: Option<Facts>,
    /// Since when nothing that its sender heard can have asked for it.
    alone: Option<Sighting>,
}

impl Tracked {
    /// Something of `side` that takes sequence space.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn sends(
        &mut self,
        now: Sighting,
        side: Side,
        segment: &Segment,
        space: u32,
        silent: bool,
        out: &mut VecDeque<Gap>,
    ) {
        let k = side.index();
        let half = &self.half[k];
        let waited = half.flight() > 0 || half.closed.is_some();
        let from = if waited {
            half.last.map(|last| (last, side.other()))
        } else if silent {
            // Who has nothing outstanding has nothing to do from the last acknowledgement on.
            let heard = |of: Side| Some((self.half[of.index()].heard?, of.other()));
            let acked = Side::BOTH.into_iter().filter_map(heard);
            let all = acked.chain(self.last_data);
            all.max_by_key(|(s, _)| (s.at, s.packet))
        } else {
            None
        };
        // What this side sent before that says that it had what came to it: only its own way counts.
        let late = match from {
            Some((_, by)) if by == side => self.own,
            _ => self.late,
        };
        let from = from.map(|(from, _)| from);
        let gap = from.filter(|start| now.at.since(start.at) > self.threshold);
        // In the middle what was heard last may have been on its way to the sender still.
        let unheard = match gap {
            None if waited => self.unheard(side, now, segment),
            _ => None,
        };
        let unheard = unheard.map(|silence| {
            let start = silence.since;
            let mut facts = self.facts(side, now, start);
            if silence.alone.is_some() {
                self.heard_nothing(side, segment, &mut facts, silence.alone);
                facts.heard = self.half[k].had_heard_of_loss();
                (facts.queued, facts.probe) = (self.own, facts.length);
            }
            (start, facts)
        });
        // The facts take a look at the whole flight: they are gathered where there may be a gap.
        let again = half.offset(segment.seq) < half.nxt;
        let alone = match again || gap.is_some() {
            true => self.unprompted(side, now, segment),
            false => None,
        };
        // Who hears of its flight sends what that lets out.
        let prompted = gap.is_some()
            && self.vantage(side) == Vantage::Middle
            && (segment.options.timestamps)
                .is_some_and(|stamps| half.silent_since(stamps, segment.ack).is_none());
        let head = waited && half.offset(segment.seq) <= half.una;
        let before_it = (head || gap.is_some() || alone.is_some() && again)
            .then(|| self.facts(side, now, half.last.unwrap_or(now)));
        let facts = gap.zip(before_it).map(|(start, facts)| {
            let facts = facts.since(now, start);
            (start, Facts { late, ..facts })
        });
        let before = half.last;
        let shut = half.closed.is_some();
        let stamp = segment.options.timestamps.map(|stamps| stamps.val);
        let data = self.half[k].on_data(now, segment.seq, space, segment.len, segment.flags);
        let half = &self.half[k];
        let start = half.offset(segment.seq);
        let kind = if matches!(data, Data::New { .. }) {
            PointKind::Sent
        } else {
            PointKind::Resent
        };
        self.point(now, side, kind, start, start + u64::from(space));
        match data {
            Data::New { .. } => {
                let half = &mut self.half[k];
                if segment.len > 0 {
                    let echo = segment.options.timestamps.map(|stamps| stamps.ecr);
                    half.begins(now.at, echo, self.path_rtt.unwrap_or_default());
                }
                if start > half.una
                    && let Some(answered) = half.answered
                    && now.at.since(answered) <= self.release_time(side)
                {
                    self.half[k].limited_until = start;
                }
                // A FIN is nothing that waited.
                if segment.len > 0 {
                    self.released(side, now, segment.len);
                }
                let full = segment.len >= u32::from(self.half[k].mss());
                if let Some((start, facts)) = unheard.filter(|_| segment.len > 0) {
                    let ended = Ended::New;
                    let facts = Facts {
                        ended,
                        full,
                        ..facts
                    };
                    self.settle(side, start, now, &facts, out);
                }
                if let Some((start, mut facts)) = facts
                    && segment.len > 0
                {
                    facts.ended = match (shut, waited && self.half[k].flight() > u64::from(space)) {
                        (true, false) => Ended::Probe,
                        (_, true) => Ended::New,
                        (false, false) => Ended::Wrote,
                    };
                    facts.full = full;
                    facts.unprompted = alone.is_some() || self.vantage(side) == Vantage::Sender;
                    facts.prompted = prompted;
                    if facts.ended == Ended::Probe {
                        self.probes(side, facts, (start, now), segment, out);
                    } else if self.settle(side, start, now, &facts, out) == Settled::Gap {
                        self.half[k].heard = Some(now);
                    }
                }
                if !waited
                    && segment.len > 0
                    && let Some(last) = self.half[k].text.map(|text| text.at)
                    && now.at.since(last) > self.threshold.max(Duration::from_millis(1))
                {
                    self.idle[k] = Some((now.at.since(last), 0));
                }
                if let Some((_, packets)) = &mut self.idle[k] {
                    *packets = packets.saturating_add(1);
                }
            }
            Data::Retransmitted(again) => {
                let target = self.half[k].nxt;
                let known = Known {
                    silence: facts,
                    before: before_it,
                    alone,
                };
                self.resends(now, side, segment, (again, target), known, out);
            }
            Data::Needless => {
                if let Some(start) = before {
                    self.needless(now, side, segment, (start, alone), out);
                }
                self.half[k].rare.needless = Some(now);
            }
            Data::Probe => {
                if let Some((start, mut facts)) = facts {
                    facts.ended = Ended::Probe;
                    self.probes(side, facts, (start, now), segment, out);
                }
            }
            // It ends no wait, and who sends it does not know of a window that is closed.
            Data::KeepAlive => {
                self.half[k].updated = false;
                return;
            }
        }
        self.half[k].last = Some(now);
        // Who asks again has not heard that the window is open. A probe has more behind it, unless it is of
        // the very last byte, which looks like a keystroke.
        let last = segment.flags.intersects(Flags::PSH | Flags::FIN);
        let asks = matches!(data, Data::Probe) || segment.len == 1 && !last;
        let (half, end) = (&mut self.half[k], start + u64::from(space));
        if asks && start >= half.una && (shut || half.updated) {
            half.rare.probed = Some(end);
        }
        let asks = half.updated && asks;
        half.updated = asks;
        if segment.len > 0 && (asks || !matches!(data, Data::Probe)) {
            self.last_data = Some((now, side));
            self.half[k].text = Some(now);
            self.half[k].text_stamp = stamp;
        }
    }

    /// A segment without text asks for a window that is closed if its number is acknowledged, as Linux's probes
    /// do (`tcp_xmit_probe_skb`): what is not acceptable is answered (RFC 9293 section 3.10.7.4).
    pub(super) fn asks(
        &mut self,
        now: Sighting,
        side: Side,
        segment: &Segment,
        out: &mut VecDeque<Gap>,
    ) {
        let half = &self.half[side.index()];
        let (Some(last), Some(_)) = (half.last, half.closed) else {
            return;
        };
        if half.flight() > 0 || half.offset(segment.seq) + 1 != half.una {
            return;
        }
        if now.at.since(last.at) > self.threshold {
            let ended = Ended::Probe;
            let facts = Facts {
                ended,
                ..self.facts(side, now, last)
            };
            self.probes(side, facts, (last, now), segment, out);
        }
        self.half[side.index()].last = Some(now);
    }

    /// Something is sent again, up to `target` of what had left.
    fn resends(
        &mut self,
        now: Sighting,
        side: Side,
        segment: &Segment,
        (again, target): (Retransmitted, u64),
        known: Known,
        out: &mut VecDeque<Gap>,
    ) {
        let k = side.index();
        let stamp = segment.options.timestamps.map(|stamps| stamps.val);
        // What was written meanwhile is not what the first of the flight waited for.
        let before = Sighting {
            at: now.at - again.age,
            packet: again.packet,
        };
        let (facts, alone) = (known.silence, known.alone);
        let heard = alone.or_else(|| self.heard_by(side, now));
        let since = heard.filter(|heard| heard.at > before.at).unwrap_or(before);
        // What was acknowledged here, and had not been heard there, left first.
        let first = self.half[k]
            .rare
            .needless
            .filter(|first| first.at > since.at);
        let since = first.unwrap_or(since);
        let waited = now.at.since(since.at);
        // The rest of the same flight is part of it.
        let longer = facts.is_none_or(|(_, facts)| facts.length * 2 < waited);
        let facts = if (again.head || alone.is_some()) && again.sends > 0 && longer {
            let gap = waited > self.threshold;
            (known.before)
                .filter(|_| gap)
                .map(|facts| (since, facts.since(now, since)))
        } else {
            facts
        };
        if facts.is_none() {
            self.released(side, now, segment.len);
        }
        if let Some((start, mut facts)) = facts {
            self.heard_nothing(side, segment, &mut facts, alone);
            facts.arrived = again.arrived;
            facts.evidence.sends = again.sends;
            facts.evidence.earlier = (again.sends > 0).then_some(again.packet);
            let since = self.half[k]
                .progress
                .map_or(again.age, |at| now.at.since(at));
            facts.timer = again.age.min(since).max(facts.length);
            let near = match self.vantage(side) {
                Vantage::Sender => Duration::ZERO,
                _ => self.near(side),
            };
            let news = self.half[k].news.map(|at| now.at.since(at + near));
            facts.probe = news.map_or(again.age, |news| again.age.min(news));
            facts.missing = again.sends == 0;
            facts.too_large = self.too_big[k] || (again.head && self.half[k].swallows(&again));
            if segment.flags.contains(Flags::SYN) {
                // A SYN-ACK that answers a SYN that came again has waited for nothing.
                let answers = segment.flags.contains(Flags::ACK)
                    && self.half[side.other().index()]
                        .last
                        .is_some_and(|syn| now.at.since(syn.at) <= self.threshold);
                facts.ended = Ended::Syn;
                if !answers {
                    self.settle(side, start, now, &facts, out);
                }
            } else {
                facts.ended = Ended::Retransmission {
                    head: again.head,
                    tail: again.tail,
                };
                let wait = Wait::Verify {
                    again,
                    stamp,
                    target,
                    until: None,
                    acked: false,
                };
                self.wait(side, facts, start, now, wait, out);
                self.half[k].timeouts = self.half[k].timeouts.saturating_add(1);
            }
        }
    }

    /// What `side` sends again nothing asked for that it heard after `alone`, if that is known: nor does it wait
    /// for a window of which it has not heard that it is closed.
    fn heard_nothing(
        &self,
        side: Side,
        segment: &Segment,
        facts: &mut Facts,
        alone: Option<Sighting>,
    ) {
        let Some(alone) = alone else {
            return;
        };
        facts.unprompted = true;
        let half = &self.half[side.index()];
        facts.closed = half.closed.is_some_and(|closed| closed.at < alone.at);
        facts.ran = half.ran(segment.options.timestamps, alone);
    }

    /// What had been acknowledged is sent again, after what went before at `start`, and after that since which
    /// nothing that was heard can have asked for it, if that is known.
    fn needless(
        &mut self,
        now: Sighting,
        side: Side,
        segment: &Segment,
        (start, alone): (Sighting, Option<Sighting>),
        out: &mut VecDeque<Gap>,
    ) {
        // What it sent itself it knows.
        let own = alone.map(|alone| match self.half[side.index()].text {
            Some(text) if text.at > alone.at => text,
            _ => alone,
        });
        let start = own.unwrap_or(start);
        if now.at.since(start.at) <= self.threshold {
            return;
        }
        let [syn, ack] = [Flags::SYN, Flags::ACK].map(|flag| segment.flags.contains(flag));
        // A SYN-ACK answers what came again.
        if syn && ack {
            return;
        }
        let mut facts = self.facts(side, now, start);
        if syn {
            // Its answer was lost between here and there.
            facts.ended = Ended::Syn;
        } else {
            facts.arrived = true;
            self.heard_nothing(side, segment, &mut facts, alone);
            // Who asks for a window sends a byte: what is longer was not heard to arrive.
            facts.updated &= segment.len <= 1;
            facts.evidence.sends = 1;
            let half = &self.half[side.index()];
            let from = half.offset(segment.seq);
            let tail = half.is_last(from, from + u64::from(segment.len));
            // One probe at a time is out (RFC 8985 section 7.2).
            let again = half.rare.needless.zip(alone);
            let again = again.is_some_and(|(before, alone)| before.at > alone.at);
            facts.timeouts = facts.timeouts.saturating_add(again.into());
            // Its timers run since it left last, or what left after it did.
            let text = half.text.map(|text| now.at.since(text.at));
            facts.probe = facts.probe.max(text.unwrap_or_default());
            facts.ended = Ended::Retransmission { head: true, tail };
        }
        self.settle(side, start, now, &facts, out);
    }
}
