//! Proportional Rate Reduction (RFC 9937): how much may leave on each ACK while the window is
//! being reduced.

use crate::config::RecoverySending;
use narrows_congestion::ByteCount;

/// One reduction of the window, from its start to its end.
///
/// The RFC counts in segments or bytes alike; here everything is bytes, with one addition:
/// where the proportional part is rounded up (`CEIL`), it is rounded up to whole segments, so
/// that its result is always either nothing or something that can be sent.
///
/// The RFC's text and its example differ where what is in flight equals `ssthresh`: the text
/// leaves the proportional part there, the example (section 8, ACK 19) is still in it. This
/// follows the example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prr {
    /// `RecoverFS` (section 6): the data that will be reported delivered from the ACK on that set it off.
    pub(super) recover_fs: ByteCount,
    /// What the flight is being reduced to; the window when the reduction ends.
    ssthresh: ByteCount,
    prr_delivered: ByteCount,
    prr_out: ByteCount,
    /// What may leave until the next ACK.
    sndcnt: ByteCount,
}

impl Prr {
    /// The reduction of a flight of `recover_fs` to `ssthresh` begins.
    /// Report the ACK that set it off with [`Self::on_ack`] as well.
    pub fn new(recover_fs: ByteCount, ssthresh: ByteCount) -> Self {
        Self {
            recover_fs: recover_fs.max(ByteCount::new(1)),
            ssthresh,
            prr_delivered: ByteCount::ZERO,
            prr_out: ByteCount::ZERO,
            sndcnt: ByteCount::ZERO,
        }
    }

    /// An ACK delivered `delivered` bytes and left `pipe` in flight. `safe_ack`: it tells of no further
    /// loss, and advances SND.UNA (RFC 9937) or acknowledges what was sent again
    /// (`tcp_cwnd_reduction` of Linux 4.3). `sending`, one of the two, says what leaves while less is in
    /// flight than `ssthresh`. Returns `sndcnt`, the bytes that may leave now.
    pub fn on_ack(
        &mut self,
        delivered: ByteCount,
        pipe: ByteCount,
        mss: ByteCount,
        safe_ack: bool,
        sending: RecoverySending,
    ) -> ByteCount {
        if delivered.is_zero() {
            return self.sndcnt;
        }
        self.prr_delivered += delivered;
        self.sndcnt = if pipe >= self.ssthresh {
            let target = ceil_ratio(self.prr_delivered, self.ssthresh, self.recover_fs);
            round_up(target, mss) - self.prr_out
        } else {
            // PRR-CRB, and PRR-SSRB's extra segment while recovery goes well.
            let conserved = (self.prr_delivered - self.prr_out).max(delivered);
            let bound = match (safe_ack, sending) {
                (true, _) => conserved + mss,
                // What the ACK delivered, in whole segments.
                (false, RecoverySending::PrrLinux43) => round_up(delivered, mss),
                (false, _) => conserved,
            };
            bound.min(self.ssthresh - pipe)
        };
        // The first retransmission always leaves.
        if self.prr_out.is_zero() && self.sndcnt < mss {
            self.sndcnt = mss;
        }
        self.sndcnt
    }

    /// `bytes`, new or retransmitted, left.
    pub fn on_sent(&mut self, bytes: ByteCount) {
        self.prr_out += bytes;
        self.sndcnt -= bytes;
    }

    /// Segments are `mss` bytes from here on, no longer `was`, and the window has become `target`: it
    /// keeps its number of segments, and so does what may leave (RFC 5681 section 3.1). What was
    /// delivered and sent stays what it was, in bytes.
    pub fn on_smaller_mss(&mut self, was: ByteCount, mss: ByteCount, target: ByteCount) {
        self.ssthresh = self.ssthresh.min(target);
        self.sndcnt = self.sndcnt.mul_ratio(mss.get(), was.get().max(1));
    }

    /// `bytes` that counted as sent never left.
    pub fn on_unsent(&mut self, bytes: ByteCount) {
        self.prr_out -= bytes;
        self.sndcnt += bytes;
    }

    /// The bytes that may still leave before the next ACK.
    pub fn allowance(&self) -> ByteCount {
        self.sndcnt
    }

    /// What was in flight when the reduction began, and has not been reported delivered since.
    pub fn undelivered(&self) -> ByteCount {
        self.recover_fs - self.prr_delivered
    }
}

/// `a * num / den`, rounded up.
fn ceil_ratio(a: ByteCount, num: ByteCount, den: ByteCount) -> ByteCount {
    let [a, num, den] = [a, num, den].map(|bytes| u128::from(bytes.get()));
    let quotient = (a * num).div_ceil(den.max(1));
    ByteCount::new(u64::try_from(quotient).unwrap_or(u64::MAX))
}

fn round_up(bytes: ByteCount, mss: ByteCount) -> ByteCount {
    let mss = mss.get().max(1);
    ByteCount::new(bytes.get().div_ceil(mss).saturating_mul(mss))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const MSS: u64 = 1_000;

    fn segments(n: u64) -> ByteCount {
        ByteCount::new(n * MSS)
    }

    /// A window of 20 segments in which the first `lost` are lost, played at the sender as in
    /// RFC 9937 section 8: limited transmit, the third ACK enters recovery with every loss
    /// known, each ACK tells of one segment. Returns cwnd in segments after each ACK, up to the
    /// end of the original flight's ACKs plus those of limited transmit and the first
    /// retransmission.
    fn trace(lost: u64, acks: usize) -> Vec<u64> {
        let mut network: Vec<u64> = (lost + 1..=20).collect();
        let mut received: BTreeSet<u64> = BTreeSet::new();
        let mut waiting: Vec<u64> = (1..=lost).rev().collect();
        let mut nxt = 21;
        let mut retransmitted = 0;
        let mut una = 1;
        let mut prr: Option<Prr> = None;
        let mut cwnds = Vec::new();
        while cwnds.len() < acks && !network.is_empty() {
            let arrived = network.remove(0);
            received.insert(arrived);
            let before = una;
            while received.contains(&una) {
                una += 1;
            }
            if arrived <= lost {
                retransmitted -= 1;
            }
            let sacked = received.iter().filter(|&&s| s >= una).count() as u64;
            if una > 20 {
                cwnds.push(prr.unwrap().ssthresh.get() / MSS);
                continue;
            }
            if cwnds.len() < 2 {
                // Limited transmit, RFC 3042.
                cwnds.push(20);
                network.push(nxt);
                nxt += 1;
                continue;
            }
            let still_lost = (una..=lost).filter(|s| !received.contains(s)).count() as u64;
            let pipe = segments(nxt - una - sacked - still_lost + retransmitted);
            let prr = prr.get_or_insert_with(|| {
                let fs = segments(nxt - una - (sacked - 1));
                assert_eq!(fs, segments(20));
                Prr::new(fs, segments(10))
            });
            let mut sndcnt = prr
                .on_ack(
                    segments(1),
                    pipe,
                    ByteCount::new(MSS),
                    una > before,
                    RecoverySending::Prr,
                )
                .get()
                / MSS;
            cwnds.push((pipe + prr.allowance()).get() / MSS);
            while sndcnt > 0 {
                if let Some(again) = waiting.pop() {
                    network.push(again);
                    retransmitted += 1;
                } else {
                    network.push(nxt);
                    nxt += 1;
                }
                prr.on_sent(ByteCount::new(MSS));
                sndcnt -= 1;
            }
        }
        cwnds
    }

    /// RFC 9937 section 8, first example: the first of 20 segments is lost.
    #[test]
    fn rfc9937_one_loss() {
        assert_eq!(
            trace(1, 22),
            [
                20, 20, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10,
                10
            ]
        );
    }

    /// RFC 9937 section 8, second example: the first 15 of 20 are lost; packet conservation.
    #[test]
    fn rfc9937_burst_of_losses() {
        assert_eq!(trace(15, 5), [20, 20, 5, 5, 5]);
    }

    /// With few losses the flight ends at ssthresh; a safe ACK in a starved flight grows by one
    /// segment more than it delivered (PRR-SSRB), another by what it delivered (PRR-CRB).
    #[test]
    fn reduction_bounds() {
        let mss = ByteCount::new(MSS);
        let mut prr = Prr::new(segments(20), segments(10));
        assert_eq!(
            prr.on_ack(segments(1), segments(4), mss, false, RecoverySending::Prr),
            segments(1)
        );
        prr.on_sent(segments(1));
        assert_eq!(
            prr.on_ack(segments(1), segments(4), mss, true, RecoverySending::Prr),
            segments(2)
        );
        prr.on_sent(segments(2));
        assert_eq!(
            prr.on_ack(segments(1), segments(9), mss, true, RecoverySending::Prr),
            segments(1)
        );
        assert_eq!(
            prr.on_ack(
                ByteCount::ZERO,
                segments(9),
                mss,
                true,
                RecoverySending::Prr
            ),
            segments(1)
        );
        // At ssthresh nothing more leaves.
        assert_eq!(
            prr.on_ack(segments(1), segments(10), mss, true, RecoverySending::Prr),
            ByteCount::ZERO
        );
    }

    /// Linux 4.3: below `ssthresh` what was delivered leaves, and what was not replaced before does not;
    /// after a repair it is as in the RFC.
    #[test]
    fn linux_4_3_replaces_what_an_ack_delivers() {
        let mss = ByteCount::new(MSS);
        let mut prr = Prr::new(segments(20), segments(10));
        let half = ByteCount::new(MSS / 2);
        assert_eq!(
            prr.on_ack(
                segments(3),
                segments(4),
                mss,
                false,
                RecoverySending::PrrLinux43
            ),
            segments(3)
        );
        prr.on_sent(segments(1));
        assert_eq!(
            prr.on_ack(half, segments(4), mss, false, RecoverySending::PrrLinux43),
            segments(1)
        );
        assert_eq!(
            prr.on_ack(half, segments(4), mss, true, RecoverySending::PrrLinux43),
            segments(4)
        );
        // At ssthresh both are the same.
        assert_eq!(
            prr.on_ack(
                segments(4),
                segments(10),
                mss,
                true,
                RecoverySending::PrrLinux43
            ),
            segments(3)
        );
    }

    /// The first retransmission leaves even where the formula says nothing.
    #[test]
    fn first_retransmission_is_forced() {
        let mss = ByteCount::new(MSS);
        let almost = ByteCount::new(10 * MSS - 1);
        let mut prr = Prr::new(segments(20), segments(10));
        assert_eq!(
            prr.on_ack(segments(1), almost, mss, false, RecoverySending::Prr),
            mss
        );
        prr.on_sent(mss);
        assert_eq!(prr.allowance(), ByteCount::ZERO);
        assert_eq!(
            prr.on_ack(segments(1), almost, mss, false, RecoverySending::Prr),
            ByteCount::new(1)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Whatever comes in: no panic, the proportional part never sends faster than it
        /// should (beyond one segment of rounding and the forced one), and the flight never
        /// exceeds the larger of ssthresh and what was there.
        #[test]
        fn bounded(
            fs in 1u64..1_000_000,
            ssthresh in 0u64..1_000_000,
            acks in proptest::collection::vec((0u64..100_000, 0u64..2_000_000, any::<bool>()), 1..50),
        ) {
            let mss = ByteCount::new(MSS);
            let mut prr = Prr::new(ByteCount::new(fs), ByteCount::new(ssthresh));
            let (mut delivered, mut out) = (0u64, 0u64);
            for (d, pipe, safe) in acks {
                delivered += d;
                let sndcnt = prr.on_ack(ByteCount::new(d), ByteCount::new(pipe), mss, safe, RecoverySending::Prr).get();
                if d > 0 {
                    if pipe >= ssthresh {
                        let fair = u128::from(delivered) * u128::from(ssthresh) / u128::from(fs);
                        prop_assert!(u128::from(sndcnt + out) <= fair.max(u128::from(out)) + u128::from(2 * MSS));
                    } else {
                        prop_assert!(sndcnt <= (ssthresh - pipe).max(MSS));
                    }
                }
                prr.on_sent(ByteCount::new(sndcnt));
                out += sndcnt;
            }
            prr.on_sent(ByteCount::MAX);
            prr.on_ack(ByteCount::MAX, ByteCount::MAX, ByteCount::ZERO, true, RecoverySending::Prr);
        }
    }
}
