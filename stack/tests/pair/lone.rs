//! One connection whose peer is the test: segments are built by hand, and what comes out is
//! looked at one by one.

use super::{Conn, opening};
use narrows::config::{AckPolicy, Buffers, TcpConfig, TimestampMode};
use narrows::conn::Event;
use narrows::conn::state::State;
use narrows::wire::{Ecn, Flags, IpHeader, SackBlock, Seq, TcpHeader, Timestamps};
use narrows::{Duration, Instant};
use std::sync::Arc;

/// Both initial sequence numbers lie just below the wrap.
pub const ISS: Seq = Seq(u32::MAX - 5_000);
pub const IRS: Seq = Seq(u32::MAX - 20);

/// Never more than so many packets in one go: what is more is a loop.
const MAX_BURST: usize = 5_000;

/// A segment that came out. `seq` and `ack` are stream offsets: 0 is the first byte after the SYN.
#[derive(Clone, Debug)]
pub struct Out {
    pub at: Instant,
    pub ip: IpHeader,
    pub tcp: TcpHeader,
    pub data: Vec<u8>,
    pub seq: i64,
    pub ack: i64,
}

impl Out {
    pub fn has(&self, flags: Flags) -> bool {
        self.tcp.flags.contains(flags)
    }
    pub fn is(&self, flags: Flags) -> bool {
        self.tcp.flags == flags
    }
    /// An acknowledgement and nothing else.
    pub fn is_pure_ack(&self) -> bool {
        self.data.is_empty() && self.tcp.flags.without(Flags::ECE) == Flags::ACK
    }
}

/// A segment to be fed in, by stream offsets.
#[derive(Clone, Debug)]
pub struct Seg {
    pub tcp: TcpHeader,
    pub data: Vec<u8>,
    pub ecn: Ecn,
    bare: bool,
}

/// A segment at the peer's offset `seq` that acknowledges our bytes before `ack`.
pub fn seg(flags: Flags, seq: i64, ack: i64) -> Seg {
    Seg {
        tcp: TcpHeader {
            src_port: 80,
            dst_port: 40_000,
            seq: IRS + 1 + seq as u32,
            ack: if flags.contains(Flags::ACK) {
                ISS + 1 + ack as u32
            } else {
                Seq(0)
            },
            flags,
            window: u16::MAX,
            ..TcpHeader::default()
        },
        data: Vec::new(),
        ecn: Ecn::NotEct,
        bare: false,
    }
}

/// A pure acknowledgement.
pub fn ack(seq: i64, ack: i64) -> Seg {
    seg(Flags::ACK, seq, ack)
}

/// Text.
pub fn text(seq: i64, ack: i64, data: &[u8]) -> Seg {
    seg(Flags::ACK, seq, ack).data(data)
}

impl Seg {
    pub fn win(mut self, window: u16) -> Self {
        self.tcp.window = window;
        self
    }
    pub fn data(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }
    pub fn and(mut self, flags: Flags) -> Self {
        self.tcp.flags |= flags;
        self
    }
    pub fn mss(mut self, mss: u16) -> Self {
        self.tcp.options.mss = Some(mss);
        self
    }
    pub fn scale(mut self, shift: u8) -> Self {
        self.tcp.options.window_scale = Some(shift);
        self
    }
    pub fn sack_ok(mut self) -> Self {
        self.tcp.options.sack_permitted = true;
        self
    }
    pub fn ts(mut self, val: u32, ecr: u32) -> Self {
        self.tcp.options.timestamps = Some(Timestamps { val, ecr });
        self
    }
    pub fn urgent(mut self, pointer: u16) -> Self {
        self.tcp.flags |= Flags::URG;
        self.tcp.urgent = pointer;
        self
    }
    /// Blocks of our bytes, as offsets.
    pub fn sack(mut self, blocks: &[(i64, i64)]) -> Self {
        for (start, end) in blocks {
            self.tcp.options.sack.push(SackBlock {
                start: ISS + 1 + *start as u32,
                end: ISS + 1 + *end as u32,
            });
        }
        self
    }
    /// Without the timestamps that [`Lone::peer_ts`] would add.
    pub fn no_ts(mut self) -> Self {
        self.bare = true;
        self
    }
}

/// A peer's SYN or (with `ack`) SYN-ACK with nothing in it.
pub fn syn() -> Seg {
    seg(Flags::SYN, -1, 0)
}
pub fn syn_ack() -> Seg {
    seg(Flags::SYN | Flags::ACK, -1, 0)
}

pub struct Lone {
    pub now: Instant,
    pub conn: Conn,
    pub events: Vec<Event>,
    /// The peer's timestamp clock, put on each segment; the echo is the last value seen.
    pub peer_ts: Option<u32>,
    pub last_ts: u32,
    /// Right edges offered; held to be monotone (to one granule of the scale).
    pub shift: u8,
    highest_edge: Option<Seq>,
}

/// Nothing that is not asked for: no timestamps, no scaling, no SACK, an ACK for each segment.
pub fn plain() -> TcpConfig {
    TcpConfig {
        timestamps: TimestampMode::Off,
        window_scaling: false,
        sack: false,
        ack: AckPolicy::IMMEDIATE,
        buffers: Buffers {
            recv: 20_000,
            ..Buffers::default()
        },
        mss: 1_000,
        ..TcpConfig::default()
    }
}

impl Lone {
    fn with(conn: Conn, now: Instant) -> Self {
        Self {
            now,
            conn,
            events: Vec::new(),
            peer_ts: None,
            last_ts: 0,
            shift: 0,
            highest_edge: None,
        }
    }

    pub fn start() -> Instant {
        Instant::ZERO + Duration::from_secs(100)
    }

    /// In SYN-SENT; its SYN is returned.
    pub fn syn_sent(config: TcpConfig) -> (Self, Out) {
        let now = Self::start();
        let conn = Conn::connect(Arc::new(config), opening(true, ISS.0), now);
        let mut lone = Self::with(conn, now);
        let mut out = lone.settle();
        assert_eq!(out.len(), 1, "{out:?}");
        (lone, out.remove(0))
    }

    /// In SYN-RECEIVED through a listener that got `syn`; its SYN-ACK is returned.
    pub fn syn_received(config: TcpConfig, syn: &Seg) -> (Self, Out) {
        let now = Self::start();
        let conn = Conn::accept(Arc::new(config), opening(true, ISS.0), &syn.tcp, now);
        let mut lone = Self::with(conn, now);
        if syn.tcp.options.window_scale.is_some() {
            lone.shift = lone.conn.config().window_shift();
        }
        let mut out = lone.settle();
        assert_eq!(out.len(), 1, "{out:?}");
        (lone, out.remove(0))
    }

    /// ESTABLISHED by an active open that `answer` completes.
    pub fn established_by(config: TcpConfig, answer: Seg) -> Self {
        let (mut lone, _) = Self::syn_sent(config);
        if let Some(ts) = answer.tcp.options.timestamps {
            lone.peer_ts = Some(ts.val);
        }
        // A round trip takes time.
        lone.now = lone.now + Duration::from_millis(1);
        let out = lone.recv(answer);
        assert_eq!(lone.conn.state(), State::Established);
        assert!(out.len() == 1 && out[0].is_pure_ack(), "{out:?}");
        assert_eq!((out[0].seq, out[0].ack), (0, 0));
        lone.events.clear();
        lone
    }

    /// ESTABLISHED, with [`plain`] options and an MSS of 1,000.
    pub fn established(config: TcpConfig) -> Self {
        Self::established_by(config, syn_ack().mss(1_000))
    }

    /// Everything due now; what came out. Afterwards the next timer is in the future.
    pub fn settle(&mut self) -> Vec<Out> {
        self.conn.handle_timeout(self.now);
        let mut out = Vec::new();
        while let Some((ip, tcp, view)) = self.conn.poll_transmit(self.now) {
            let mut data = vec![0; view.len()];
            view.copy_to_slice(&mut data);
            let rel = |seq: Seq, zero: Seq| i64::from(seq.0.wrapping_sub(zero.0) as i32);
            let seq = rel(tcp.seq, ISS + 1);
            let ack = rel(tcp.ack, IRS + 1);
            if let Some(ts) = tcp.options.timestamps {
                self.last_ts = ts.val;
            }
            // The window of a SYN is not scaled and cannot say all that was offered.
            if tcp.flags.contains(Flags::ACK) && !tcp.flags.intersects(Flags::RST | Flags::SYN) {
                let edge = tcp.ack + (u32::from(tcp.window) << self.shift);
                // On the circle: the peer may have begun anywhere.
                let moved = self.highest_edge.map_or(0, |highest| {
                    i64::from(edge.0.wrapping_sub(highest.0) as i32)
                });
                assert!(
                    moved + (1 << self.shift) > 0,
                    "right edge moved left by {}: {tcp:?}",
                    -moved
                );
                if moved >= 0 {
                    self.highest_edge = Some(edge);
                }
            }
            out.push(Out {
                at: self.now,
                ip,
                tcp,
                data,
                seq,
                ack,
            });
            assert!(
                out.len() < MAX_BURST,
                "never stops sending: {:?}",
                out.last()
            );
        }
        while let Some(e) = self.conn.poll_event() {
            self.events.push(e);
        }
        if let Some(at) = self.conn.poll_timeout() {
            assert!(
                at > self.now,
                "a timer in the past: {at:?} at {:?}",
                self.now
            );
        }
        out
    }

    /// The peer's segment arrives; what comes out.
    pub fn recv(&mut self, mut seg: Seg) -> Vec<Out> {
        if let Some(val) = self.peer_ts
            && seg.tcp.options.timestamps.is_none()
            && !seg.bare
        {
            seg.tcp.options.timestamps = Some(Timestamps {
                val,
                ecr: self.last_ts,
            });
        }
        let opening = self.state() == State::SynSent;
        self.conn
            .handle_segment(self.now, seg.ecn, &seg.tcp, &seg.data);
        // Scaling is agreed on by the SYN that is taken, and by no other.
        if opening && self.state() != State::SynSent && seg.tcp.options.window_scale.is_some() {
            self.shift = self.conn.config().window_shift();
        }
        self.settle()
    }

    /// The clock runs; what comes out.
    pub fn wait(&mut self, d: Duration) -> Vec<Out> {
        let end = self.now + d;
        let mut out = self.settle();
        while let Some(at) = self.conn.poll_timeout().filter(|at| *at <= end) {
            self.now = at;
            out.extend(self.settle());
            assert!(out.len() < MAX_BURST);
        }
        self.now = end;
        out.extend(self.settle());
        out
    }

    /// The clock runs to the next timer; what comes out.
    pub fn next_timer(&mut self) -> Vec<Out> {
        self.now = self.conn.poll_timeout().expect("no timer is armed");
        self.settle()
    }

    /// The user sends all of `data`; what comes out.
    pub fn send(&mut self, data: &[u8]) -> Vec<Out> {
        assert_eq!(self.conn.send(data, data.len()), Ok(data.len()));
        self.settle()
    }

    pub fn close(&mut self) -> Vec<Out> {
        self.conn.close(self.now);
        self.settle()
    }

    /// The user reads everything; the bytes, and what comes out.
    pub fn read(&mut self) -> (Vec<u8>, Vec<Out>) {
        let n = self.conn.readable();
        self.read_n(n)
    }

    pub fn read_n(&mut self, n: u64) -> (Vec<u8>, Vec<Out>) {
        let buf = self.conn.recv_buffer();
        let start = self.conn.readable_end() - self.conn.readable();
        let view = buf.peek(start + n);
        let bytes: Vec<u8> = view.iter().collect();
        self.conn.consume(n, self.now);
        (bytes, self.settle())
    }

    pub fn state(&self) -> State {
        self.conn.state()
    }

    /// The one segment that comes out.
    #[track_caller]
    pub fn one(out: Vec<Out>) -> Out {
        assert_eq!(out.len(), 1, "{out:#?}");
        out.into_iter().next().unwrap()
    }
}

/// Drive a fresh connection into `state`; our stream offset and the peer's are both 0 then, but
/// for FINs.
pub fn in_state(state: State, config: TcpConfig) -> Lone {
    let fin = Flags::FIN;
    match state {
        State::SynSent => Lone::syn_sent(config).0,
        State::SynReceived(_) => Lone::syn_received(config, &syn().mss(1_000)).0,
        State::Established => Lone::established(config),
        State::FinWait1 => {
            let mut l = Lone::established(config);
            l.close();
            l
        }
        State::FinWait2 => {
            let mut l = in_state(State::FinWait1, config);
            l.recv(ack(0, 1));
            l
        }
        State::CloseWait => {
            let mut l = Lone::established(config);
            l.recv(ack(0, 0).and(fin));
            l
        }
        State::Closing => {
            let mut l = in_state(State::FinWait1, config);
            l.recv(ack(0, 0).and(fin));
            l
        }
        State::LastAck => {
            let mut l = in_state(State::CloseWait, config);
            l.close();
            l
        }
        State::TimeWait => {
            let mut l = in_state(State::FinWait2, config);
            l.recv(ack(0, 1).and(fin));
            l
        }
        State::Closed(_) => {
            let mut l = Lone::established(config);
            l.conn.abort(l.now);
            l.settle();
            l
        }
    }
}

/// The states in which a peer is known, for tests that go through them.
pub const SYNCHRONIZED: [State; 7] = [
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];

/// The peer's next sequence number in `state` as [`in_state`] leaves it, and ours.
pub fn positions(state: State) -> (i64, i64) {
    let peer = matches!(
        state,
        State::CloseWait | State::Closing | State::LastAck | State::TimeWait
    );
    let ours = matches!(state, State::FinWait2 | State::TimeWait);
    (i64::from(peer), i64::from(ours))
}
