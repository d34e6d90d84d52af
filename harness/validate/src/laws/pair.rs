//! Two CUBIC flows in a model of windows alone: the rules of RFC 9438, a drop-tail port, and a
//! choice of who loses when it overflows. No recovery, no whole segments, no clock of ACKs.

use narrows_net::sim::rng::{Component, Stream};

/// C, in segments per second cubed.
const C: f64 = 0.4;
/// beta_cubic.
const BETA: f64 = 0.7;
/// alpha_cubic.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Seconds that a packet takes at 100 Mb/s.
const PACKET: f64 = 1_538.0 * 8.0 / 100e6;
/// Seconds.
const RTT: f64 = 0.02;
/// Packets that path and buffer hold.
const ROOM: f64 = RTT / PACKET + 250_000.0 / 1_518.0;

/// Who is cut when the port overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loser {
    /// Both.
    Both,
    /// One, drawn by its share of the packets; the seed.
    One(u64),
}

/// A flow; names as in section 4.1.
#[derive(Clone, Copy, Debug)]
struct Flow {
    cwnd: f64,
    w_max: f64,
    w_est: f64,
    cwnd_prior: f64,
    k: f64,
    epoch_start: f64,
}

impl Flow {
    fn new(cwnd: f64) -> Self {
        Self {
            cwnd,
            w_max: cwnd,
            w_est: cwnd,
            cwnd_prior: cwnd,
            k: 0.0,
            epoch_start: 0.0,
        }
    }

    /// Sections 4.6 and 4.7.
    fn cut(&mut self, now: f64) {
        self.cwnd_prior = self.cwnd;
        self.w_max = if self.cwnd < self.w_max {
            self.cwnd * (1.0 + BETA) / 2.0
        } else {
            self.cwnd
        };
        self.cwnd *= BETA;
        self.w_est = self.cwnd;
        self.k = ((self.w_max - self.cwnd).max(0.0) / C).cbrt();
        self.epoch_start = now;
    }

    /// A round trip, sections 4.2 to 4.5.
    fn grow(&mut self, now: f64, rtt: f64) {
        let t = now - self.epoch_start;
        self.w_est += if self.w_est < self.cwnd_prior {
            ALPHA
        } else {
            1.0
        };
        let w_cubic = |t: f64| C * (t - self.k).powi(3) + self.w_max;
        self.cwnd = if w_cubic(t) < self.w_est {
            self.cwnd.max(self.w_est)
        } else {
            w_cubic(t + rtt).clamp(self.cwnd, 1.5 * self.cwnd)
        };
    }
}

/// The share in percent of a second flow between 50 and 90 s after it joined a first.
pub(super) fn share(loser: Loser) -> f64 {
    let mut random = match loser {
        Loser::Both => Stream::new(0, Component::Scenario, 0),
        Loser::One(seed) => Stream::new(seed, Component::Scenario, 0),
    };
    let mut flows = [Flow::new(ROOM * 0.85), Flow::new(ROOM * 0.15)];
    flows.iter_mut().for_each(|f| f.cut(0.0));
    let mut now = 0.0;
    let mut time = [0.0; 2];
    while now < 90.0 {
        let sum = flows[0].cwnd + flows[1].cwnd;
        let rtt = RTT.max(sum * PACKET);
        if now >= 50.0 {
            (0..2).for_each(|i| time[i] += flows[i].cwnd / sum * rtt);
        }
        if sum > ROOM {
            let draw = random.next_u64() as f64 / 2.0_f64.powi(64);
            let first = draw < flows[0].cwnd / sum;
            let both = loser == Loser::Both;
            if both || first {
                flows[0].cut(now);
            }
            if both || !first {
                flows[1].cut(now);
            }
        } else {
            flows.iter_mut().for_each(|f| f.grow(now, rtt));
        }
        now += rtt;
    }
    100.0 * time[1] / (time[0] + time[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Losing together is what makes equal; losing alone is chance, and even on average.
    #[test]
    fn who_loses_decides() {
        assert!((share(Loser::Both) - 50.0).abs() < 1.0);
        let drawn: Vec<f64> = (1..=100).map(|i| share(Loser::One(i))).collect();
        let mean = drawn.iter().sum::<f64>() / 100.0;
        assert!((mean - 50.0).abs() < 4.0, "{mean}");
        assert!(drawn.iter().any(|s| *s < 43.0), "{drawn:?}");
    }
}
