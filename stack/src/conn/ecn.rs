//! Explicit congestion notification at both ends (RFC 3168 section 6.1, RFC 8257 section 3).

use crate::config::EcnMode;
use crate::wire::{Ecn, Flags};
use narrows_congestion::EcnNeed;

/// Which feedback this connection gives and understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feedback {
    /// ECN is not in use.
    None,
    /// ECE from a mark until CWR.
    Classic,
    /// ECE mirrors the mark of each segment.
    Dctcp,
}

/// ECN state of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcnState {
    wanted: Feedback,
    offers: bool,
    accepts: bool,
    /// What the handshake settled.
    feedback: Feedback,
    /// Classic: ECE is being echoed. DCTCP: `DCTCP.CE`.
    ce: bool,
}

/// What a data segment's mark asks of the acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkEffect {
    /// Nothing special.
    None,
    /// `DCTCP.CE` flipped: what came before is acknowledged at once with the old ECE, given
    /// here, then this segment at once with the new (RFC 8257 section 3.2).
    Flip {
        /// The ECE for data received before this segment.
        before: bool,
    },
}

impl EcnState {
    pub(crate) fn new(mode: EcnMode, need: EcnNeed) -> Self {
        let (wanted, offers, accepts) = match (need, mode) {
            (EcnNeed::Dctcp, _) | (_, EcnMode::Dctcp) => (Feedback::Dctcp, true, true),
            (EcnNeed::Classic, _) | (_, EcnMode::Classic) => (Feedback::Classic, true, true),
            (EcnNeed::Configured, EcnMode::Accept) => (Feedback::Classic, false, true),
            (EcnNeed::Configured, EcnMode::Off) => (Feedback::None, false, false),
        };
        Self { wanted, offers, accepts, feedback: Feedback::None, ce: false }
    }

    /// Flags to add to a SYN we send; none on a retransmission that gives up ECN
    /// (RFC 3168 section 6.1.1.1).
    pub(crate) fn syn_flags(&self, give_up: bool) -> Flags {
        if self.offers && !give_up { Flags::ECE | Flags::CWR } else { Flags::NONE }
    }

    /// Flags to add to our SYN-ACK.
    pub(crate) fn syn_ack_flags(&self) -> Flags {
        if self.feedback == Feedback::None { Flags::NONE } else { Flags::ECE }
    }

    /// A SYN came: does the peer offer ECN?
    pub(crate) fn on_syn(&mut self, flags: Flags) {
        if self.accepts && flags.contains(Flags::ECE | Flags::CWR) {
            self.feedback = self.wanted;
        }
    }

    /// The answer to our SYN came.
    pub(crate) fn on_syn_ack(&mut self, flags: Flags) {
        if self.offers && flags.contains(Flags::ECE) && !flags.contains(Flags::CWR) {
            self.feedback = self.wanted;
        }
    }

    pub(crate) fn in_use(&self) -> bool {
        self.feedback != Feedback::None
    }

    /// ECE reports exactly the marked bytes.
    pub(crate) fn is_exact(&self) -> bool {
        self.feedback == Feedback::Dctcp
    }

    /// The IP codepoint for a segment: RFC 3168 marks new data only; DCTCP everything,
    /// because a packet that is not ECN-capable is dropped where data is only marked (RFC 8257
    /// section 5).
    pub(crate) fn codepoint(&self, new_data: bool) -> Ecn {
        match self.feedback {
            Feedback::Dctcp => Ecn::Ect0,
            Feedback::Classic if new_data => Ecn::Ect0,
            _ => Ecn::NotEct,
        }
    }

    /// The codepoint of our SYN, or (`answer`) SYN-ACK.
    pub(crate) fn syn_codepoint(&self, answer: bool) -> Ecn {
        let feedback = if answer { self.feedback } else { self.wanted };
        if feedback == Feedback::Dctcp { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// A segment with data arrived.
    pub(crate) fn on_data(&mut self, ip: Ecn, flags: Flags) -> MarkEffect {
        match self.feedback {
            Feedback::None => MarkEffect::None,
            Feedback::Classic => {
                // CWR first: a mark on the same segment is a new one.
                if flags.contains(Flags::CWR) {
                    self.ce = false;
                }
                self.ce |= ip == Ecn::Ce;
                MarkEffect::None
            }
            Feedback::Dctcp => {
                let marked = ip == Ecn::Ce;
                let before = core::mem::replace(&mut self.ce, marked);
                if before == marked { MarkEffect::None } else { MarkEffect::Flip { before } }
            }
        }
    }

    /// Whether acknowledgements carry ECE now.
    pub(crate) fn ece(&self) -> bool {
        self.feedback != Feedback::None && self.ce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn established(mode: EcnMode) -> EcnState {
        let mut e = EcnState::new(mode, EcnNeed::Configured);
        e.on_syn_ack(Flags::SYN | Flags::ACK | Flags::ECE);
        e
    }

    #[test]
    fn rfc3168_6_1_1_negotiation() {
        assert!(established(EcnMode::Classic).in_use());
        assert!(!established(EcnMode::Accept).in_use(), "not offered, so not agreed");
        let mut passive = EcnState::new(EcnMode::Accept, EcnNeed::Configured);
        passive.on_syn(Flags::SYN | Flags::ECE);
        assert!(!passive.in_use(), "ECE without CWR on a SYN is no offer");
        passive.on_syn(Flags::SYN | Flags::ECE | Flags::CWR);
        assert!(passive.in_use());
        // A broken peer reflects both bits: not an agreement.
        let mut e = EcnState::new(EcnMode::Classic, EcnNeed::Configured);
        e.on_syn_ack(Flags::SYN | Flags::ACK | Flags::ECE | Flags::CWR);
        assert!(!e.in_use());
    }

    #[test]
    fn rfc3168_6_1_3_ece_until_cwr() {
        let mut e = established(EcnMode::Classic);
        e.on_data(Ecn::Ect0, Flags::ACK);
        assert!(!e.ece());
        e.on_data(Ecn::Ce, Flags::ACK);
        e.on_data(Ecn::Ect0, Flags::ACK);
        assert!(e.ece());
        e.on_data(Ecn::Ect0, Flags::ACK | Flags::CWR);
        assert!(!e.ece());
        e.on_data(Ecn::Ce, Flags::ACK | Flags::CWR);
        assert!(e.ece());
    }

    #[test]
    fn rfc8257_3_2_ce_state_machine() {
        let mut e = established(EcnMode::Dctcp);
        assert_eq!(e.on_data(Ecn::Ect0, Flags::ACK), MarkEffect::None);
        assert_eq!(e.on_data(Ecn::Ce, Flags::ACK), MarkEffect::Flip { before: false });
        assert!(e.ece());
        assert_eq!(e.on_data(Ecn::Ce, Flags::ACK), MarkEffect::None);
        assert_eq!(e.on_data(Ecn::Ect0, Flags::ACK), MarkEffect::Flip { before: true });
        assert!(!e.ece());
    }

    #[test]
    fn codepoints() {
        let classic = established(EcnMode::Classic);
        assert_eq!(classic.codepoint(true), Ecn::Ect0);
        assert_eq!(classic.codepoint(false), Ecn::NotEct);
        assert_eq!(classic.syn_codepoint(false), Ecn::NotEct);
        let dctcp = established(EcnMode::Dctcp);
        assert_eq!(dctcp.codepoint(false), Ecn::Ect0);
        assert_eq!(dctcp.syn_codepoint(false), Ecn::Ect0);
    }
}
