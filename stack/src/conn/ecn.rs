//! Explicit congestion notification at both ends (RFC 3168 section 6.1, RFC 8257 section 3).

use crate::sparse::Thin;
use crate::wire::{Ecn, Flags};
use narrows_congestion::EcnNeed;
use narrows_congestion::hint::cold_path;
use std::fmt::Debug;

/// Explicit congestion notification, as configured; a congestion control may ask for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnMode {
    /// Neither offer nor accept.
    Off,
    /// Accept when the peer offers, do not offer.
    Accept,
    /// Offer and accept, feedback as in RFC 3168.
    Classic,
    /// Offer and accept, feedback as in RFC 8257 section 3.2.
    Dctcp,
}

/// The receiver's side of ECN: how marks come back to the sender.
///
/// [`Classic`] and [`Dctcp`] are the feedbacks of RFC 3168 and RFC 8257; [`LinuxDctcp`] and
/// [`LinuxDctcp2015`] are Linux's variants of the latter.
pub trait EcnFeedback: Debug + Send {
    /// A segment with data, and with the control bits `flags`, arrived in a packet marked `ip`.
    fn on_data(&mut self, ip: Ecn, flags: Flags) -> MarkEffect;
    /// Whether acknowledgements carry ECE now.
    fn ece(&self) -> bool;
    /// ECE reports exactly the marked bytes, instead of being a latched signal.
    fn is_exact(&self) -> bool {
        true
    }
}

/// What a data segment's mark asks of the acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkEffect {
    /// Nothing special.
    None,
    /// ECE flips: what came before is acknowledged at once with the old one, given here, then
    /// this segment at once with the new (RFC 8257 section 3.2).
    Flip {
        /// The ECE for data received before this segment.
        before: bool,
    },
    /// Nothing but that this segment is acknowledged at once.
    AckNow,
    /// As Linux did it before 4.18 ([`LinuxDctcp2015`]), on each segment. If ECE flips, and no
    /// acknowledgement without data has left since the segment before this one, what came before is
    /// acknowledged at once with the old ECE, and that settles what this segment is owed, too. If
    /// such a one has left, this segment is acknowledged in its turn.
    Special {
        /// ECE flips: the ECE for data received before this segment.
        flip: Option<bool>,
    },
}

/// RFC 3168 section 6.1.3: ECE from a mark until CWR.
#[derive(Clone, Copy, Debug, Default)]
pub struct Classic {
    echoing: bool,
}

impl EcnFeedback for Classic {
    fn on_data(&mut self, ip: Ecn, flags: Flags) -> MarkEffect {
        // CWR first: a mark on the same segment is a new one.
        if flags.contains(Flags::CWR) {
            self.echoing = false;
        }
        self.echoing |= ip == Ecn::Ce;
        MarkEffect::None
    }
    fn ece(&self) -> bool {
        self.echoing
    }
    fn is_exact(&self) -> bool {
        false
    }
}

/// RFC 8257 section 3.2: ECE mirrors the mark of each segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dctcp {
    /// `DCTCP.CE`.
    ce: bool,
}

impl EcnFeedback for Dctcp {
    fn on_data(&mut self, ip: Ecn, _: Flags) -> MarkEffect {
        let marked = ip == Ecn::Ce;
        let before = core::mem::replace(&mut self.ce, marked);
        if before == marked {
            MarkEffect::None
        } else {
            MarkEffect::Flip { before }
        }
    }
    fn ece(&self) -> bool {
        self.ce
    }
}

// RFC 8257 section 3.2 says what a receiver does when the mark of arriving data changes. Linux
// had that since 3.18 (`net/ipv4/tcp_dctcp.c`), with faults that four patches of July 2018 mended:
//
// | patch | what it mended |
// |---|---|
// | `tcp: notify when a delayed ack is sent`, `tcp: fix dctcp delayed ACK schedule` | whether an acknowledgement is delayed was remembered in a flag of DCTCP's own, which one that had left on data did not clear |
// | `tcp: do not cancel delay-AcK on DCTCP special ACK` | the acknowledgement of what had come before the change counted as that of the changed data, too, which then had none |
// | `tcp: do not delay ACK in DCTCP upon CE status change` | the changed data was acknowledged when its turn came, not at once |
// | `tcp: ack immediately when a cwr packet arrives` | a sender whose window is one segment waited for the timer of the delayed acknowledgement |

/// RFC 8257 section 3.2, and a segment that says CWR is acknowledged at once: its sender's window
/// may be a single one (Linux 4.18 and later).
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxDctcp(Dctcp);

impl EcnFeedback for LinuxDctcp {
    fn on_data(&mut self, ip: Ecn, flags: Flags) -> MarkEffect {
        match self.0.on_data(ip, flags) {
            MarkEffect::None if flags.contains(Flags::CWR) => MarkEffect::AckNow,
            effect => effect,
        }
    }
    fn ece(&self) -> bool {
        self.0.ece()
    }
}

/// Linux 3.18 to 4.17, of which the changes of 2015 are part: RFC 8257 with its
/// faults, to see what they cost; no TCP should be so.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxDctcp2015(Dctcp);

impl EcnFeedback for LinuxDctcp2015 {
    fn on_data(&mut self, ip: Ecn, flags: Flags) -> MarkEffect {
        MarkEffect::Special {
            flip: match self.0.on_data(ip, flags) {
                MarkEffect::Flip { before } => Some(before),
                _ => None,
            },
        }
    }
    fn ece(&self) -> bool {
        self.0.ece()
    }
}

/// The feedback of most connections.
#[derive(Debug)]
enum Feedback {
    Classic(Classic),
    Dctcp(Dctcp),
}

/// ECN state of a connection.
#[derive(Debug)]
pub(crate) struct EcnState {
    feedback: Feedback,
    /// The user's own, in its stead.
    custom: Option<Thin<dyn EcnFeedback>>,
    /// Every packet is ECN-capable, not only those with new data.
    everything: bool,
    offers: bool,
    accepts: bool,
    /// Both ends have agreed to use it.
    pub(super) in_use: bool,
}

impl EcnState {
    pub(crate) fn new(mode: EcnMode, need: EcnNeed, custom: Option<Box<dyn EcnFeedback>>) -> Self {
        let dctcp = need == EcnNeed::Dctcp || mode == EcnMode::Dctcp;
        let offers = dctcp || need == EcnNeed::Classic || mode == EcnMode::Classic;
        let feedback = match dctcp {
            true => Feedback::Dctcp(Dctcp::default()),
            false => Feedback::Classic(Classic::default()),
        };
        Self {
            feedback,
            custom: custom.map(Box::new),
            everything: dctcp,
            offers,
            accepts: offers || mode == EcnMode::Accept,
            in_use: false,
        }
    }

    #[inline(never)] // Where it is in use.
    fn feedback(&mut self) -> &mut dyn EcnFeedback {
        match (&mut self.custom, &mut self.feedback) {
            (Some(custom), _) => &mut ***custom,
            (None, Feedback::Classic(f)) => f,
            (None, Feedback::Dctcp(f)) => f,
        }
    }

    /// Flags to add to a SYN we send; none on a retransmission that gives up ECN
    /// (RFC 3168 section 6.1.1.1).
    pub(crate) fn syn_flags(&self, give_up: bool) -> Flags {
        (Flags::ECE | Flags::CWR).when(self.offers && !give_up)
    }

    /// Flags to add to our SYN-ACK.
    pub(crate) fn syn_ack_flags(&self) -> Flags {
        Flags::ECE.when(self.in_use)
    }

    /// A SYN came: does the peer offer ECN?
    pub(crate) fn on_syn(&mut self, flags: Flags) {
        self.in_use |= self.accepts && flags.contains(Flags::ECE | Flags::CWR);
    }

    /// The answer to our SYN came.
    pub(crate) fn on_syn_ack(&mut self, flags: Flags) {
        let agrees = flags.contains(Flags::ECE) && !flags.contains(Flags::CWR);
        self.in_use |= self.offers && agrees;
    }

    /// ECE reports exactly the marked bytes.
    pub(crate) fn is_exact(&mut self) -> bool {
        self.in_use && self.feedback().is_exact()
    }

    /// The IP codepoint for a segment: RFC 3168 marks new data only; DCTCP everything,
    /// because a packet that is not ECN-capable is dropped where data is only marked (RFC 8257
    /// section 3.6).
    #[inline]
    pub(crate) fn codepoint(&self, new_data: bool) -> Ecn {
        if self.in_use && (self.everything || new_data) {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    /// The codepoint of our SYN, or (`answer`) SYN-ACK.
    pub(crate) fn syn_codepoint(&self, answer: bool) -> Ecn {
        if self.everything && (self.in_use || !answer) {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    /// A segment with data arrived.
    #[inline]
    pub(crate) fn on_data(&mut self, ip: Ecn, flags: Flags) -> MarkEffect {
        if !self.in_use {
            return MarkEffect::None;
        }
        cold_path();
        self.feedback().on_data(ip, flags)
    }

    /// Whether acknowledgements carry ECE now.
    #[inline]
    pub(crate) fn ece(&mut self) -> bool {
        if !self.in_use {
            return false;
        }
        cold_path();
        self.feedback().ece()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn established(mode: EcnMode) -> EcnState {
        let mut e = EcnState::new(mode, EcnNeed::Configured, None);
        e.on_syn_ack(Flags::SYN | Flags::ACK | Flags::ECE);
        e
    }

    #[test]
    fn rfc3168_6_1_1_negotiation() {
        assert!(established(EcnMode::Classic).in_use);
        assert!(
            !established(EcnMode::Accept).in_use,
            "not offered, so not agreed"
        );
        let mut passive = EcnState::new(EcnMode::Accept, EcnNeed::Configured, None);
        passive.on_syn(Flags::SYN | Flags::ECE);
        assert!(!passive.in_use, "ECE without CWR on a SYN is no offer");
        passive.on_syn(Flags::SYN | Flags::ECE | Flags::CWR);
        assert!(passive.in_use);
        // A broken peer reflects both bits: not an agreement.
        let mut e = EcnState::new(EcnMode::Classic, EcnNeed::Configured, None);
        e.on_syn_ack(Flags::SYN | Flags::ACK | Flags::ECE | Flags::CWR);
        assert!(!e.in_use);
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
        assert_eq!(
            e.on_data(Ecn::Ce, Flags::ACK),
            MarkEffect::Flip { before: false }
        );
        assert!(e.ece());
        assert_eq!(e.on_data(Ecn::Ce, Flags::ACK), MarkEffect::None);
        assert_eq!(
            e.on_data(Ecn::Ect0, Flags::ACK),
            MarkEffect::Flip { before: true }
        );
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
