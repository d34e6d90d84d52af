//! One real connection against a peer that answers as an RFC's example says.
//!
//! Positions are counted in segments of [`MSS`] bytes from the first byte of the stream.

use narrows::buffer::{Synthetic, SyntheticRecv, SyntheticSend};
use narrows::config::{AckPolicy, SpuriousDetection, TcpConfig, TimestampMode};
use narrows::congestion::{CongestionRegistry, RtoRegistry};
use narrows::conn::{Boxed, Connection, Opening};
use narrows::recovery::detector;
use narrows::wire::options::{SackBlock, SackBlocks};
use narrows::wire::{Ecn, Flags, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::net::SocketAddr;
use std::sync::Arc;

/// Payload of a full segment.
pub(super) const MSS: u64 = 1_000;
const ISS: Seq = Seq(1_000);
const PEER_ISS: Seq = Seq(5_000);
const PORTS: (u16, u16) = (40_000, 80);
/// What the peer's window is shifted by.
const SHIFT: u8 = 10;
const WINDOW: u64 = 50_000_000;

/// Reno, SACK, RFC 6298's timer with a floor of a second, no timestamps, no means against
/// spurious timeouts: the sender of the RFCs' examples.
pub(super) fn textbook(detector_name: &str, rto: &str) -> TcpConfig {
    let detector = (detector::standard().get(detector_name)).expect("a detector of ours");
    TcpConfig {
        congestion: CongestionRegistry::standard()
            .get("reno")
            .expect("Reno is ours"),
        rto: RtoRegistry::standard().get(rto).expect("a policy of ours"),
        detector,
        spurious: SpuriousDetection::OFF,
        timestamps: TimestampMode::Off,
        mss: MSS as u16,
        nagle: false,
        ack: AckPolicy::IMMEDIATE,
        ..TcpConfig::default()
    }
}

/// The connection and its peer.
pub(super) struct Peer {
    pub(super) now: Instant,
    pub(super) conn: Connection<Boxed<SyntheticSend, SyntheticRecv>>,
}

/// A segment that the connection sent: when, and which; `None` if it carried no data.
pub(super) type Sent = (Instant, Option<u64>);

impl Peer {
    /// The SYN has just left.
    pub(super) fn opening(config: TcpConfig, seed: u64) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let opening = Opening {
            local: SocketAddr::from(([10, 0, 0, 1], PORTS.0)),
            remote: SocketAddr::from(([10, 0, 0, 2], PORTS.1)),
            iss: ISS,
            timestamp_offset: 0,
            seed,
            metrics: Default::default(),
        };
        let conn = Connection::connect(Arc::new(config), opening, now);
        let mut peer = Self { now, conn };
        peer.pump();
        peer
    }

    /// Connected; the handshake took `rtt`, which is the first sample.
    pub(super) fn connected(config: TcpConfig, seed: u64, rtt: Duration) -> Self {
        let mut peer = Self::opening(config, seed);
        peer.now = peer.now + rtt;
        peer.syn_ack();
        peer
    }

    /// The SYN-ACK, and at once an ACK with a window that could not be scaled in it.
    pub(super) fn syn_ack(&mut self) {
        let mut tcp = header(ISS + 1, Flags::SYN | Flags::ACK);
        tcp.seq = PEER_ISS;
        tcp.window = u16::MAX;
        tcp.options.mss = Some(MSS as u16);
        tcp.options.sack_permitted = true;
        tcp.options.window_scale = Some(SHIFT);
        self.conn
            .handle_segment(self.now, Ecn::NotEct, &tcp, Synthetic::EMPTY);
        self.pump();
        self.ack(0, &[]);
    }

    /// Everything that leaves now.
    pub(super) fn pump(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some((_, tcp, payload)) = self.conn.poll_transmit(self.now) {
            let segment = u64::from(tcp.seq.since(ISS + 1)) / MSS;
            sent.push((self.now, (payload.len > 0).then_some(segment)));
        }
        sent
    }

    /// The user hands over `n` full segments; what leaves.
    pub(super) fn write(&mut self, n: u64) -> Vec<Sent> {
        let bytes = (n * MSS) as usize;
        let taken = self.conn.send(bytes, bytes);
        debug_assert_eq!(taken, Ok(bytes));
        self.pump()
    }

    /// An ACK of all before segment `to` with SACK blocks `[from, to)`; what leaves.
    pub(super) fn ack(&mut self, to: u64, blocks: &[(u64, u64)]) -> Vec<Sent> {
        self.take_ack(to, blocks);
        self.pump()
    }

    /// The same, before anything leaves.
    pub(super) fn take_ack(&mut self, to: u64, blocks: &[(u64, u64)]) {
        let at = |segment: u64| ISS + 1 + (segment * MSS) as u32;
        let mut tcp = header(at(to), Flags::ACK);
        tcp.options.sack = SackBlocks::EMPTY;
        for &(start, end) in blocks {
            let (start, end) = (at(start), at(end));
            tcp.options.sack.push(SackBlock { start, end });
        }
        self.conn
            .handle_segment(self.now, Ecn::NotEct, &tcp, Synthetic::EMPTY);
    }

    /// What is in flight, in segments.
    pub(super) fn in_flight(&self) -> u64 {
        self.conn.sender().scoreboard().pipe().get() / MSS
    }

    /// Time until the next timer fires.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.conn.poll_timeout().map(|at| at.since(self.now))
    }

    /// Time passes; timers fire when they are due. What leaves.
    pub(super) fn wait(&mut self, d: Duration) -> Vec<Sent> {
        let end = self.now + d;
        let mut sent = Vec::new();
        while let Some(at) = self.conn.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.conn.handle_timeout(self.now);
            sent.extend(self.pump());
        }
        self.now = end;
        sent
    }

    /// The next timer fires; what leaves.
    pub(super) fn timer(&mut self) -> Vec<Sent> {
        let due = self.deadline().unwrap_or(Duration::ZERO);
        self.wait(due)
    }
}

/// A segment of the peer's without data.
fn header(ack: Seq, flags: Flags) -> TcpHeader {
    TcpHeader {
        src_port: PORTS.1,
        dst_port: PORTS.0,
        seq: PEER_ISS + 1,
        ack,
        flags,
        window: (WINDOW >> SHIFT) as u16,
        ..TcpHeader::default()
    }
}
