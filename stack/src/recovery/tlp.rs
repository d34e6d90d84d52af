//! Tail loss probe (RFC 8985 section 7): a segment sent before the retransmission timeout, so
//! that the ACK it draws tells what became of the end of a flight.

use crate::recovery::scoreboard::AbsSeq;
use narrows_congestion::{Duration, RttEstimator};

/// The probe timeout before the first RTT sample (section 7.2).
const INITIAL_PTO: Duration = Duration::from_secs(1);
/// The least: an RTT below the clock's resolution measures as zero, and a probe that goes with
/// the flight it is to ask for tells nothing.
const MIN_PTO: Duration = Duration::from_micros(1);

/// `TLP_calc_PTO` of section 7.2: 2 SRTT, and the longest delay of an ACK if a single segment
/// is in flight; 1 s before the first RTT sample. The caller keeps it from exceeding the
/// retransmission timeout.
#[inline]
pub fn pto(rtt: &RttEstimator, one_segment: bool, max_ack_delay: Duration) -> Duration {
    let pto = match rtt.srtt() {
        None => INITIAL_PTO,
        Some(srtt) if one_segment => srtt * 2 + max_ack_delay,
        Some(srtt) => srtt * 2,
    };
    pto.max(MIN_PTO)
}

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlpOutcome {
    /// Not known yet.
    Pending,
    /// The probe repaired a loss that nobody else will notice: the window must be reduced.
    Repaired,
    /// The probe was new data, or a needless duplicate: nothing was lost.
    NoLoss,
}

/// A probe that is in flight. At most one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlpEpisode {
    /// `TLP.end_seq`: SND.NXT after it.
    pub end_seq: AbsSeq,
    /// `TLP.is_retrans`: it was a retransmission, not new data.
    pub is_retrans: bool,
}

impl TlpEpisode {
    /// `TLP_process_ack` of section 7.4.2. Anything but [`TlpOutcome::Pending`] ends the
    /// episode; so do fast recovery and a timeout, which the caller sees. `duplicate`: this is a
    /// duplicate ACK *without any SACK block*, from a peer that does not report duplicates by D-SACK.
    pub fn on_ack(
        &self,
        ack: AbsSeq,
        dsack: Option<(AbsSeq, AbsSeq)>,
        duplicate: bool,
    ) -> TlpOutcome {
        let end_seq = self.end_seq;
        if ack < end_seq {
            TlpOutcome::Pending
        } else if !self.is_retrans || dsack.is_some_and(|(_, end)| end == end_seq) {
            TlpOutcome::NoLoss
        } else if ack > end_seq {
            TlpOutcome::Repaired
        } else if duplicate {
            TlpOutcome::NoLoss
        } else {
            TlpOutcome::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_congestion::Instant;

    fn rtt_of(us: u64) -> RttEstimator {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Duration::from_micros(us), Instant::ZERO);
        rtt
    }

    /// RFC 8985 section 7.2: 2 SRTT, and the delay of an ACK only for a single segment; with a
    /// 200 ms delayed ACK no probe helps a window of one.
    #[test]
    fn rfc8985_pto() {
        let delay = Duration::from_millis(200);
        assert_eq!(pto(&rtt_of(100), false, delay), Duration::from_micros(200));
        assert_eq!(
            pto(&rtt_of(100), true, delay),
            Duration::from_micros(200_200)
        );
        assert_eq!(
            pto(&rtt_of(100), true, Duration::ZERO),
            Duration::from_micros(200)
        );
        assert_eq!(
            pto(&RttEstimator::new(), true, delay),
            Duration::from_secs(1)
        );
        assert_eq!(pto(&rtt_of(u64::MAX), true, Duration::MAX), Duration::MAX);
        assert!(pto(&rtt_of(0), true, Duration::ZERO) > Duration::ZERO);
    }

    /// RFC 8985 section 7.4.2, case by case.
    #[test]
    fn rfc8985_process_ack() {
        let probe = TlpEpisode {
            end_seq: 1_000,
            is_retrans: true,
        };
        let table = [
            ((999, None, true), TlpOutcome::Pending),
            ((999, Some((500, 1_000)), false), TlpOutcome::Pending),
            // The probed segment arrives: the original may still come, wait for its ACK.
            ((1_000, None, false), TlpOutcome::Pending),
            // Both arrived: a D-SACK, or a bare duplicate ACK.
            ((1_000, Some((500, 1_000)), true), TlpOutcome::NoLoss),
            ((1_200, Some((500, 1_000)), false), TlpOutcome::NoLoss),
            ((1_000, None, true), TlpOutcome::NoLoss),
            // Later data is acknowledged and nothing was ever reported twice.
            ((1_001, None, false), TlpOutcome::Repaired),
            ((1_200, Some((100, 200)), false), TlpOutcome::Repaired),
        ];
        for ((ack, dsack, duplicate), outcome) in table {
            let told = probe.on_ack(ack, dsack, duplicate);
            assert_eq!(told, outcome, "{ack} {dsack:?} {duplicate}");
        }
        let new_data = TlpEpisode {
            is_retrans: false,
            ..probe
        };
        assert_eq!(new_data.on_ack(999, None, false), TlpOutcome::Pending);
        assert_eq!(new_data.on_ack(1_000, None, false), TlpOutcome::NoLoss);
        assert_eq!(new_data.on_ack(1_400, None, false), TlpOutcome::NoLoss);
    }
}
