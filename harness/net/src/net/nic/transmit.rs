//! Buffers for sending that may not be there, behind a send that is refused (ENOBUFS).
//!
//! A full transmit queue refuses because of what the host itself has queued. Buffers are what
//! drivers take for a packet besides its place there (mbuf clusters, descriptors, bounce buffers),
//! and they can be missing though the queue is short. Two models of that:
//! - **A bucket** of buffers, one a frame. They come back when frames have left, at once or so many
//!   at a time as a completion interrupt reports; or at a rate of their own, whoever else uses up
//!   the rest.
//! - **Moments without any**: a send is refused with some probability, and those after it, too, on
//!   average so many in all (a chain of two states, as Gilbert's of 1960), or for so long. A buffer is *unavailable now*,
//!   the supply is not exhausted. Counted in sends, of those refused once the share 1 - 1/mean is
//!   refused again, however late; counted in time, who waits for longer finds a buffer.
//!
//! Which of them, if any, stands behind the refusals of a real driver is not known from its error
//! code: they are named so that experiments can tell what would follow. A host whose packet was
//! refused is asked again when a buffer is back or, without buffers to wait for, when the next packet
//! has left or would have.
//!
//! Left out: buffers of several sizes, those that receiving takes from the same supply, and who else
//! shares it.

use crate::sim::rng::{Probability, Stream};
use crate::sim::time::SimTime;

use super::ShaperSpec;
use super::shaper::Shaper;
use crate::net::buffer::{Capacity, Limit};

/// Buffers that a frame needs besides its place in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransmitBuffers {
    /// There are always enough.
    #[default]
    Enough,
    /// So many, and each comes back.
    Bucket {
        /// Buffers, at least one.
        buffers: u32,
        /// When they come back.
        refill: Refill,
    },
    /// Sends are refused at random moments.
    Moments {
        /// A send is refused with this probability if the one before was not.
        refuse: Probability,
        /// How long that goes on.
        lasts: Moment,
    },
}

/// How long a moment without a buffer is. It has no memory: what is left of it is as long as all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So many sends in a row, on average; at least one.
    Sends(u32),
    /// So many microseconds, on average, whatever is tried; at least one. Drawn microsecond by
    /// microsecond: meant for up to a second.
    Micros(u32),
}

/// When buffers come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// When so many frames have left, for as many (one completion interrupt), or when none is
    /// queued; at least one.
    Completions(u32),
    /// So many a second, whatever has left; at least one.
    PerSecond(u64),
}

/// A buffer at a rate, in units of a buffer times 10^-12.
const BUFFER: u128 = 1_000_000_000_000;

/// Buffers at work.
#[derive(Debug)]
enum Buffers {
    Enough,
    Completions {
        buffers: u32,
        each: u32,
    },
    AtRate {
        most: u128,
        there: u128,
        as_of: SimTime,
        per_second: u128,
    },
    Moments {
        refuse: Probability,
        ends: Probability,
        /// Whether the send before was refused.
        refusing: bool,
        random: Stream,
    },
    MomentsOfTime {
        refuse: Probability,
        /// A microsecond of a moment is its last with this probability.
        ends: Probability,
        until: SimTime,
        random: Stream,
    },
}

/// Frames of a NIC at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    /// Taken so far.
    pub(crate) taken: u64,
    /// Of those still there.
    pub(crate) queued: u32,
}

/// Why a send is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue is full.
    Queue,
    /// There is no buffer.
    Buffers,
}

/// Sends that a NIC refused for want of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithoutBuffer {
    /// All of them.
    pub sends: u64,
    /// Those right after another one: what was tried next was refused as well.
    pub in_a_row: u64,
}

impl WithoutBuffer {
    /// What was refused since there were `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            sends: self.sends - before.sends,
            in_a_row: self.in_a_row - before.in_a_row,
        }
    }
}

/// When a refused host may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// When so many frames more have left.
    Departures(u32),
    /// At this time.
    At(SimTime),
    /// When a frame has left, or would have.
    Frame,
}

/// What decides about sends besides the queue, and when frames may leave.
#[derive(Debug)]
pub(crate) struct Transmit {
    /// The limit of the queue.
    pub(crate) limit: Limit,
    buffers: Buffers,
    pub(crate) shaper: Option<Shaper>,
    refused_by: Refusal,
    without_buffer: WithoutBuffer,
    /// Whether the last send was refused for want of a buffer.
    refusing: bool,
}

impl Transmit {
    pub(crate) fn new(
        capacity: Capacity,
        buffers: TransmitBuffers,
        shaper: Option<ShaperSpec>,
        random: Stream,
    ) -> Self {
        let buffers = match buffers {
            TransmitBuffers::Enough => Buffers::Enough,
            TransmitBuffers::Bucket { buffers, refill } => match refill {
                Refill::Completions(each) => Buffers::Completions {
                    buffers: buffers.max(1),
                    each: each.max(1),
                },
                Refill::PerSecond(rate) => Buffers::AtRate {
                    most: u128::from(buffers.max(1)) * BUFFER,
                    there: u128::from(buffers.max(1)) * BUFFER,
                    as_of: SimTime::ZERO,
                    per_second: u128::from(rate.max(1)),
                },
            },
            TransmitBuffers::Moments { refuse, lasts } => match lasts {
                Moment::Sends(mean) => Buffers::Moments {
                    refuse,
                    ends: Probability::ratio(1, u64::from(mean.max(1))),
                    refusing: false,
                    random,
                },
                Moment::Micros(mean) => Buffers::MomentsOfTime {
                    refuse,
                    ends: Probability::ratio(1, u64::from(mean.max(1))),
                    until: SimTime::ZERO,
                    random,
                },
            },
        };
        Self {
            limit: Limit::new(capacity),
            buffers,
            shaper: shaper.map(Shaper::new),
            refused_by: Refusal::Queue,
            without_buffer: WithoutBuffer::default(),
            refusing: false,
        }
    }

    /// Whether a packet of so many frames is taken, for which the queue has room or not.
    pub(crate) fn offer(
        &mut self,
        now: SimTime,
        fits: bool,
        frames: u32,
        nic: Frames,
    ) -> Result<(), Refusal> {
        let refused = if !fits {
            Err(Refusal::Queue)
        } else if self.buffers.take(now, frames, nic) {
            Ok(())
        } else {
            self.without_buffer.sends += 1;
            self.without_buffer.in_a_row += u64::from(self.refusing);
            Err(Refusal::Buffers)
        };
        self.refusing = refused == Err(Refusal::Buffers);
        if let Err(by) = refused {
            self.refused_by = by;
        }
        refused
    }

    /// Sends that were refused for want of a buffer; `None` if there are always enough.
    pub(crate) fn without_buffer(&self) -> Option<WithoutBuffer> {
        (!matches!(self.buffers, Buffers::Enough)).then_some(self.without_buffer)
    }

    /// When a host whose last packet was refused may try again.
    pub(crate) fn retry(&self, now: SimTime, nic: Frames) -> Retry {
        match (self.refused_by, &self.buffers) {
            (Refusal::Queue, _) => Retry::Departures(1),
            (Refusal::Buffers, Buffers::Completions { each, .. }) => {
                let each = u64::from(*each);
                let left = nic.taken - u64::from(nic.queued);
                let missing = (each - left % each) as u32;
                Retry::Departures(missing.min(nic.queued))
            }
            (
                Refusal::Buffers,
                Buffers::AtRate {
                    there,
                    as_of,
                    per_second,
                    ..
                },
            ) => {
                let wait = BUFFER.saturating_sub(*there).div_ceil(*per_second);
                let wait = SimTime::from_picos(u64::try_from(wait).unwrap_or(u64::MAX));
                Retry::At((*as_of + wait).max(now + SimTime::from_picos(1)))
            }
            (
                Refusal::Buffers,
                Buffers::Moments { .. } | Buffers::MomentsOfTime { .. } | Buffers::Enough,
            ) => Retry::Frame,
        }
    }
}

impl Buffers {
    /// Takes buffers for a packet of so many frames, if there are.
    fn take(&mut self, now: SimTime, frames: u32, nic: Frames) -> bool {
        match self {
            Self::Enough => true,
            Self::Completions { buffers, each } => {
                // What has left and is not reported yet holds its buffer.
                let left = nic.taken - u64::from(nic.queued);
                let unreported = match nic.queued {
                    0 => 0,
                    _ => left % u64::from(*each),
                };
                let held = u64::from(nic.queued) + unreported;
                // One that needs more than there are at all goes when none is held.
                held == 0 || held + u64::from(frames) <= u64::from(*buffers)
            }
            Self::AtRate {
                most,
                there,
                as_of,
                per_second,
            } => {
                let span = u128::from((now - *as_of).as_picos());
                *there = (*most).min(*there + span * *per_second);
                *as_of = now;
                let cost = (u128::from(frames) * BUFFER).min(*most);
                let enough = *there >= cost;
                if enough {
                    *there -= cost;
                }
                enough
            }
            Self::Moments {
                refuse,
                ends,
                refusing,
                random,
            } => {
                *refusing = match *refusing {
                    true => !random.chance(*ends),
                    false => random.chance(*refuse),
                };
                !*refusing
            }
            Self::MomentsOfTime {
                refuse,
                ends,
                until,
                random,
            } => {
                if now < *until {
                    return false;
                }
                if !random.chance(*refuse) {
                    return true;
                }
                let micro = SimTime::from_micros(1);
                *until = now + micro;
                while !random.chance(*ends) {
                    *until += micro;
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Component;

    fn transmit(buffers: TransmitBuffers) -> Transmit {
        let random = Stream::new(3, Component::Buffers, 0);
        Transmit::new(Capacity::Unlimited, buffers, None, random)
    }

    const fn frames(taken: u64, queued: u32) -> Frames {
        Frames { taken, queued }
    }

    #[test]
    fn a_bucket_of_four_refills_when_its_completions_are_reported() {
        let mut t = transmit(TransmitBuffers::Bucket {
            buffers: 4,
            refill: Refill::Completions(3),
        });
        let at = SimTime::ZERO;
        assert_eq!(t.offer(at, true, 1, frames(3, 3)), Ok(()));
        assert_eq!(t.offer(at, true, 1, frames(4, 4)), Err(Refusal::Buffers));
        assert_eq!(t.retry(at, frames(4, 4)), Retry::Departures(3));
        // Two have left and hold their buffers until the third has.
        assert_eq!(t.offer(at, true, 1, frames(4, 2)), Err(Refusal::Buffers));
        assert_eq!(t.retry(at, frames(4, 2)), Retry::Departures(1));
        assert_eq!(t.offer(at, true, 1, frames(4, 1)), Ok(()));
        assert_eq!(t.offer(at, true, 3, frames(4, 1)), Ok(()));
        assert_eq!(t.offer(at, true, 4, frames(4, 1)), Err(Refusal::Buffers));
        // With nothing queued all are back.
        assert_eq!(t.offer(at, true, 4, frames(4, 0)), Ok(()));
        let refused = WithoutBuffer {
            sends: 3,
            in_a_row: 1,
        };
        assert_eq!(t.without_buffer(), Some(refused));
        assert_eq!(t.offer(at, false, 1, frames(4, 0)), Err(Refusal::Queue));
        assert_eq!(t.retry(at, frames(4, 4)), Retry::Departures(1));
    }

    #[test]
    fn a_bucket_at_a_rate_is_back_when_the_arithmetic_says() {
        let mut t = transmit(TransmitBuffers::Bucket {
            buffers: 2,
            refill: Refill::PerSecond(1_000),
        });
        let ms = SimTime::from_millis;
        let nic = frames(0, 0);
        assert_eq!(t.offer(ms(0), true, 2, nic), Ok(()));
        assert_eq!(t.offer(ms(0), true, 1, nic), Err(Refusal::Buffers));
        assert_eq!(t.retry(ms(0), nic), Retry::At(ms(1)));
        assert_eq!(t.offer(ms(1), true, 1, nic), Ok(()));
        assert_eq!(t.offer(ms(1), true, 1, nic), Err(Refusal::Buffers));
        // Never more than two, however long it waits.
        assert_eq!(t.offer(ms(99), true, 2, nic), Ok(()));
        assert_eq!(t.offer(ms(99), true, 1, nic), Err(Refusal::Buffers));
    }

    /// A chain of two states that enters with p and leaves with r = 1/L (Gilbert 1960): runs of L on average,
    /// the share p / (p + r) refused, 1 - r of the refused refused again, and a send k after another one is like
    /// it by (1 - p - r)^k.
    #[test]
    fn moments_have_the_mean_length_and_share_of_the_chain() {
        let (p, mean) = (0.01, 8.0);
        let mut t = transmit(TransmitBuffers::Moments {
            refuse: Probability::ratio(1, 100),
            lasts: Moment::Sends(8),
        });
        let (mut refused, mut again, mut runs, mut before) = (0_u32, 0_u32, 0_u32, false);
        let sends = 1_000_000_u32;
        let mut all = Vec::new();
        for _ in 0..sends {
            let is = t.offer(SimTime::ZERO, true, 1, frames(0, 0)).is_err();
            refused += u32::from(is);
            again += u32::from(is && before);
            runs += u32::from(is && !before);
            before = is;
            all.push(f64::from(u8::from(is)));
        }
        let near = |is: f64, expected: f64| (is / expected - 1.0).abs() < 0.03;
        let share = f64::from(refused) / f64::from(sends);
        assert!(near(share, p / (p + 1.0 / mean)), "{share}");
        let twice = f64::from(again) / f64::from(refused);
        assert!(near(twice, 1.0 - 1.0 / mean), "{twice}");
        let run = f64::from(refused) / f64::from(runs);
        assert!(near(run, mean), "{run}");
        for k in [1, 2, 4, 8] {
            let pairs = all.iter().zip(&all[k..]);
            let both: f64 = pairs.map(|(a, b)| (a - share) * (b - share)).sum();
            let like = both / f64::from(sends) / (share * (1.0 - share));
            let expected = (1.0 - p - 1.0 / mean).powi(k as i32);
            // Four standard deviations of what so many draws give (Bartlett): at the most 2.6 / sqrt(sends).
            assert!((like - expected).abs() < 0.011, "{k}: {like}, {expected}");
        }
        assert_eq!(t.retry(SimTime::ZERO, frames(9, 9)), Retry::Frame);
    }

    /// Without memory: who tries again after `w` is refused again with q = exp(-w / mean), so of all
    /// sends the share p / (1 - q + q p) is refused: who waits for long meets each moment once.
    #[test]
    fn moments_of_time_are_over_for_who_waits() {
        let share_and_again = |wait: u64| {
            let mut t = transmit(TransmitBuffers::Moments {
                refuse: Probability::ratio(1, 100),
                lasts: Moment::Micros(32),
            });
            let (mut refused, mut again, mut before) = (0_u32, 0_u32, false);
            let mut at = SimTime::ZERO;
            let sends = 1_000_000_u32;
            for _ in 0..sends {
                let is = t.offer(at, true, 1, frames(0, 0)).is_err();
                refused += u32::from(is);
                again += u32::from(is && before);
                before = is;
                at += SimTime::from_micros(wait);
            }
            // Less those with which a new moment begins as soon as one is over.
            let again = (f64::from(again) / f64::from(refused) - 0.01) / 0.99;
            (f64::from(refused) / f64::from(sends), again)
        };
        for wait in [1, 8, 32, 64, 400] {
            let (share, again) = share_and_again(wait);
            let q = (-(wait as f64) / 32.0).exp();
            assert!((again - q).abs() < 0.02, "{wait}: {again}, {q}");
            let expected = 0.01 / (1.0 - q + q * 0.01);
            let off = share / expected - 1.0;
            assert!(off.abs() < 0.04, "{wait}: {share}, {expected}");
        }
        assert!(share_and_again(400).1 < 0.005);
    }
}
