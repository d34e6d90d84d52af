//! DCTCP's receiver as Linux has it since 4.18, and as Linux had it before.
//!
//! RFC 8257 section 3.2 says what a receiver does when the mark of arriving data changes. Linux
//! had that since 3.18 (`net/ipv4/tcp_dctcp.c`), with faults that four patches of July 2018 mended:
//!
//! | patch | what it mended |
//! |---|---|
//! | `tcp: notify when a delayed ack is sent`, `tcp: fix dctcp delayed ACK schedule` | whether an acknowledgement is delayed was remembered in a flag of DCTCP's own, which one that had left on data did not clear |
//! | `tcp: do not cancel delay-AcK on DCTCP special ACK` | the acknowledgement of what had come before the change counted as that of the changed data, too, which then had none |
//! | `tcp: do not delay ACK in DCTCP upon CE status change` | the changed data was acknowledged when its turn came, not at once |
//! | `tcp: ack immediately when a cwr packet arrives` | a sender whose window is one segment waited for the timer of the delayed acknowledgement |

use super::{Dctcp, EcnFeedback, MarkEffect};
use crate::wire::{Ecn, Flags};

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
    fn is_exact(&self) -> bool {
        self.0.is_exact()
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
    fn is_exact(&self) -> bool {
        self.0.is_exact()
    }
}
