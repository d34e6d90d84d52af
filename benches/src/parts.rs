//! Single parts: demultiplexing, timers, packets, congestion controls.

use crate::SEGMENT;
use narrows::congestion::{
    AckSample, ByteCount, CongestionControl, CongestionRegistry, FlowStart, FlowView, RttEstimator,
};
use narrows::endpoint::demux::{Demux, FourTuple};
use narrows::endpoint::wheel::TimerWheel;
use narrows::siphash::SipKey;
use narrows::wire::{Ecn, Flags, IpHeader, SackBlock, Seq, TcpHeader, Timestamps};
use narrows::{Duration, Instant};
use std::net::{Ipv4Addr, SocketAddr};

/// Numbers below `n` in an order that no cache foresees.
#[derive(Clone, Debug)]
pub struct Shuffle {
    n: u32,
    state: u32,
}

impl Shuffle {
    /// Numbers below `n`.
    pub const fn below(n: u32) -> Self {
        Self { n, state: 1 }
    }

    /// The next one.
    pub const fn draw(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(0x915f_77f5).wrapping_add(1);
        ((self.state as u64 * self.n as u64) >> 32) as u32
    }
}

/// The four-tuple of connection `i` of a server.
pub const fn tuple(i: u32) -> FourTuple {
    let remote = Ipv4Addr::from_bits(0x0a00_0000 + i / 50_000);
    FourTuple::new(
        SocketAddr::V4(std::net::SocketAddrV4::new(
            Ipv4Addr::new(192, 0, 2, 1),
            443,
        )),
        SocketAddr::V4(std::net::SocketAddrV4::new(
            remote,
            (10_000 + i % 50_000) as u16,
        )),
    )
}

/// A table of `n` connections.
pub fn demux(n: u32) -> Demux {
    let mut demux = Demux::new(&SipKey::new(1, 2));
    for i in 0..n {
        demux.insert(&tuple(i), i);
    }
    demux
}

/// Timers that are put off again and again, as ACKs put off retransmission timers.
#[derive(Debug)]
pub struct Rearming {
    wheel: TimerWheel,
    now: u64,
    order: Shuffle,
    /// Timers that expired.
    pub expired: u64,
}

impl Rearming {
    /// `n` timers of 200 ms.
    pub fn new(n: u32) -> Self {
        let mut wheel = TimerWheel::default();
        for id in 0..n {
            wheel.arm(id, Instant::from_nanos(200_000_000 + u64::from(id)));
        }
        Self {
            wheel,
            now: 0,
            order: Shuffle::below(n),
            expired: 0,
        }
    }

    /// 100 ns later, some timer is put off to 200 ms from now.
    #[inline]
    pub fn step(&mut self) {
        self.now += 100;
        let now = Instant::from_nanos(self.now);
        let later = Instant::from_nanos(self.now + 200_000_000);
        if self.wheel.next_deadline().is_some_and(|at| at <= now) {
            for id in self.wheel.expire(now) {
                self.wheel.arm(id, later);
                self.expired += 1;
            }
        }
        self.wheel.arm(self.order.draw(), later);
    }
}

/// The headers of a segment with timestamps, and of an ACK with two SACK blocks.
pub fn headers() -> (IpHeader, TcpHeader, TcpHeader) {
    let ip = IpHeader {
        src: Ipv4Addr::new(10, 0, 0, 1).into(),
        dst: Ipv4Addr::new(10, 0, 0, 2).into(),
        ecn: Ecn::Ect0,
        dscp: 0,
        hop_limit: 64,
    };
    let mut data = TcpHeader {
        src_port: 40_000,
        dst_port: 443,
        seq: Seq(1_000),
        ack: Seq(2_000),
        flags: Flags::ACK,
        window: 1_000,
        ..TcpHeader::default()
    };
    data.options.timestamps = Some(Timestamps { val: 1, ecr: 2 });
    let mut ack = data.clone();
    for i in 0..2 {
        let start = Seq(10_000 + i * 10_000);
        ack.options.sack.push(SackBlock {
            start,
            end: start + 5_000,
        });
    }
    (ip, data, ack)
}

/// A congestion control in avoidance.
#[derive(Debug)]
pub struct Controlled {
    cc: Box<dyn CongestionControl>,
    rtt: RttEstimator,
    now: Instant,
}

impl Controlled {
    /// The one of that name in the standard registry.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(name: &str) -> Self {
        let mss = ByteCount::new(SEGMENT as u64);
        let factory = CongestionRegistry::standard().get(name).expect("known");
        let mut cc = factory.build(&FlowStart::new(mss, mss * 100));
        let mut rtt = RttEstimator::new();
        let now = Instant::ZERO + Duration::from_secs(1);
        rtt.on_sample(Duration::from_micros(100), now);
        let view = FlowView::new(now, mss, &rtt);
        cc.on_congestion_event(narrows::congestion::CongestionEvent::Loss, &view);
        Self { cc, rtt, now }
    }

    /// One ACK of one segment.
    #[inline]
    pub fn ack(&mut self, n: u32) {
        self.now = self.now + Duration::from_micros(1);
        let mss = ByteCount::new(SEGMENT as u64);
        let mut view = FlowView::new(self.now, mss, &self.rtt);
        view.in_flight = self.cc.cwnd();
        view.flight_size = self.cc.cwnd();
        view.cwnd_limited = true;
        let mut sample = AckSample::default();
        sample.acked = mss;
        sample.delivered = mss;
        sample.rtt = Some(Duration::from_micros(100));
        sample.round_start = n.is_multiple_of(64);
        self.cc.on_ack(&sample, &view);
    }
}
