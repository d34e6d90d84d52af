//! A gap: what is known of it, and whether it is one.

use super::Tracked;
use super::record::lose;
use crate::classify::{Aftermath, Ended, Facts, classify, is_usual};
use crate::gap::{Evidence, Gap, Side};
use crate::half::Sighting;
use narrows::ByteCount;
use std::collections::VecDeque;

/// What a gap proves to be when its cause is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// One.
    Gap,
    /// A time in which nothing was wrong.
    Usual,
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
        let after_idle = self.idle[k]
            .filter(|(_, since)| *since <= packets.max(1))
            .map(|(idle, _)| idle);
        let (alike_to, alike) = self.alike[k];
        let alike = if alike_to.abs_diff(length) <= length / 4 {
            alike
        } else {
            0
        };
        Facts {
            length,
            timer: length,
            ended: Ended::Wrote,
            evidence: Evidence {
                flight: ByteCount::new(half.flight().saturating_sub(half.sacked)),
                packets,
                small,
                rtt: self.path_rtt.or(half.rtt.min),
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
            heard: half.sacked > 0 || half.dup_acks > 0,
            dup_acks: half.dup_acks,
            timeouts: half.timeouts,
            aftermath: Aftermath::None,
            more: false,
            limited: half.limited_until > half.una,
            sack: self.sack.iter().all(|sack| *sack != Some(false)),
            missing: false,
            too_large: false,
            closed: half.closed.is_some(),
            probed: half.probed.is_some(),
            released_largest: 0,
            full: false,
            answers: self.half[side.other().index()].rtt.timeout(),
            smoothed: half
                .rtt
                .smoothed
                .map(|smoothed| smoothed + half.turn.unwrap_or_default()),
            alike,
        }
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
        if is_usual(facts, cause) {
            return Settled::Usual;
        }
        let k = side.index();
        if matches!(facts.ended, Ended::Ack) {
            let (before, n) = self.alike[k];
            let alike = before.abs_diff(facts.length) <= facts.length / 4;
            self.alike[k] = (facts.length, if alike { n.saturating_add(1) } else { 1 });
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
        lose(&mut self.lost, cause, gap.length());
        out.push_back(gap);
        Settled::Gap
    }
}
