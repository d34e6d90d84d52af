//! A probe of the path's MTU is a segment of new data that is larger than others (RFC 4821 section
//! 10.1): its loss alone is no sign of congestion, and it never leaves twice in one piece.

use super::episode::Episode;
use super::rare::Rare;
use super::scoreboard::{AbsSeq, SentSegment};
use super::sender::Sender;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, CongestionControl, RtoPolicy};

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeFate {
    /// It arrived.
    Delivered,
    /// It was lost, and nothing else.
    Lost,
    /// It was lost with others, or sent again on suspicion.
    Inconclusive,
    /// It was sent again after a timeout.
    TimedOut,
}

/// A probe, from its sending until somebody has asked what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuProbe {
    pub(super) start: AbsSeq,
    pub(super) end: AbsSeq,
    /// `None`: outstanding.
    pub(super) fate: Option<ProbeFate>,
}

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Nothing is wrong, as far as is known: a loss now would be the probe's.
    pub fn may_probe_mtu(&self) -> bool {
        self.rare.asked.mtu_probe.is_none()
            && !self.probe_due
            && self.episode.is_open()
            && self.backoff == 0
            && self.dup_acks == 0
            && self.board.sacked().is_zero()
            && self.board.lost().is_zero()
    }

    /// The new data that has just left, `[start, SND.NXT)`, is a probe.
    pub fn on_mtu_probe(&mut self, start: AbsSeq) {
        self.rare.asked.mtu_probe = Some(Box::new(MtuProbe {
            start,
            end: self.nxt(),
            fate: None,
        }));
    }

    /// How long the probe is that starts at `start`, if one is outstanding there.
    pub fn mtu_probe_at(&self, start: AbsSeq) -> Option<u64> {
        let probe = self.outstanding_probe().filter(|p| p.start == start);
        probe.map(|p| p.end - p.start)
    }

    fn outstanding_probe(&self) -> Option<&MtuProbe> {
        let probe = self.rare.asked.mtu_probe.as_deref();
        probe.filter(|p| p.fate.is_none())
    }

    /// What became of the probe, and how long it was, once; `None` if that is not known.
    pub fn take_mtu_probe_fate(&mut self) -> Option<(ProbeFate, u64)> {
        let probe = self.rare.asked.mtu_probe.as_deref()?;
        let arrived =
            probe.end <= self.una() || self.board.get(probe.start).is_some_and(|s| s.is_sacked());
        let fate = probe.fate.or(arrived.then_some(ProbeFate::Delivered))?;
        let len = probe.end - probe.start;
        self.forget_mtu_probe();
        Some((fate, len))
    }

    /// It never left, or nobody asks any more.
    pub fn forget_mtu_probe(&mut self) {
        if let Some(rare) = self.rare.changed() {
            rare.asked.clear(|asked| &mut asked.mtu_probe);
        }
    }

    /// The probe does not pass: it leaves again at once, in segments that do, and nothing is
    /// concluded about congestion (RFC 4821 section 7.6.2).
    pub fn fail_mtu_probe(&mut self) {
        let Some(MtuProbe { start, end, .. }) = self.outstanding_probe().copied() else {
            return;
        };
        self.settle_probe(ProbeFate::Lost);
        self.board.split_at_mss(self.mss);
        self.board.mark_all_absent(start.max(self.una()), end);
    }

    /// Losses were found: whether they are the probe and nothing else. It is dealt with then.
    pub(super) fn lost_probe_alone(&mut self) -> bool {
        let Some(probe) = self.outstanding_probe() else {
            return false;
        };
        let alone = self.episode.is_settled()
            && (self.board.get(probe.start))
                .is_some_and(|s| s.is_lost() && s.end == probe.end && s.len() == self.board.lost());
        if alone {
            self.fail_mtu_probe();
        }
        alone
    }

    /// What leaves again fits the path: of a segment longer than others its first part.
    pub fn fit(&mut self, segment: SentSegment) -> SentSegment {
        // A FIN takes one more.
        if segment.len() <= self.mss + ByteCount::new(1) {
            return segment;
        }
        cold_path();
        if self.mtu_probe_at(segment.start).is_some() {
            self.settle_probe(match self.episode {
                Episode::Loss { .. } => ProbeFate::TimedOut,
                _ => ProbeFate::Inconclusive,
            });
        }
        self.board.split_at_mss(self.mss);
        self.board.get(segment.start).unwrap_or(segment)
    }

    fn settle_probe(&mut self, fate: ProbeFate) {
        let asked = Rare::asked(&mut self.rare);
        if let Some(probe) = asked.and_then(|asked| asked.mtu_probe.as_mut()) {
            probe.fate = Some(fate);
        }
    }
}
