//! A TCP connection: the `handle_*` and `poll_*` face.
//!
//! # How to drive it
//! Whenever something happens, call the `handle_*` or user call for it, then:
//! 1. [`poll_transmit`](Connection::poll_transmit) until it gives `None`, sending each packet. If
//!    the device refuses one, give it back to
//!    [`handle_local_drop`](Connection::handle_local_drop) and stop until there is room.
//! 2. [`poll_event`](Connection::poll_event) until it gives `None`.
//! 3. [`poll_timeout`](Connection::poll_timeout): call
//!    [`handle_timeout`](Connection::handle_timeout) when that time has come.
//!
//! Time is an argument and must not go back. Nothing in here reads a clock, draws randomness from
//! outside, or does I/O.

pub mod acknowledge;
mod deadlines;
pub mod ecn;
mod ends;
mod fast_open;
mod few;
pub mod flow_window;
mod handshake;
pub mod icmp;
pub mod info;
mod memory;
pub mod mtu_probing;
pub mod reassembly;
mod rx;
pub mod state;
mod timers;
mod timestamps;
mod tx;
mod types;
mod user;

use crate::buffer::Payload;
use crate::config::TcpConfig;
use crate::endpoint::challenge::ConnectionBudget;
use crate::endpoint::metrics::PathMetrics;
use crate::memory::Charge;
use crate::recovery::{AbsSeq, Sender};
use crate::sparse::{Rarely, Sparse, Thin, begins};
use crate::trace::{TraceEvent, TraceSink};
use crate::wire::icmp::IcmpErrorKind;
use crate::wire::{Ecn, PlainHeader, SackBlocks, Seq, TcpHeader};
use acknowledge::AckState;
use ecn::EcnState;
use ends::Ends;
use flow_window::{OfferedWindow, SendWindow};
use handshake::{Handshake, PeerOffers};
use icmp::PathMtu;
use narrows_congestion::local_drop::LocalDropAnswer;
use narrows_congestion::{AnyCongestion, AnyRto, ByteCount, CongestionControl, FlowStart};
use narrows_congestion::{Instant, RttEstimator};
use reassembly::Reassembly;
use rx::Heard;
use state::{CloseReason, Origin, State};
use std::fmt::{self, Debug};
use std::hint::black_box;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::sync::Arc;
use timers::Timers;
use timestamps::Timestamping;
use tx::{Hold, More};
use user::{EventSet, Kind as EventKind, Lack};

pub(crate) use fast_open::Early;
pub(crate) use handshake::default_mss;
pub(crate) use timestamps::echo_only;
pub use tx::Packet;
pub(crate) use tx::{Emitted, Output};
pub use types::{Boxed, Source, TcpTypes, Text, View};
pub use user::{Event, SendError};

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnStats {
    /// Received segments with data in a packet marked CE.
    pub ce_in: u64,
    /// Received segments with data that was not new.
    pub duplicates_in: u64,
    /// Received segments with data beyond a gap.
    pub out_of_order_in: u64,
    /// Received data dropped because it would take one more out-of-order range than allowed.
    pub out_of_order_dropped: u64,
    /// Segments outside the window, or failing PAWS or the ACK check.
    pub unacceptable_in: u64,
    /// Challenge ACKs sent.
    pub challenge_acks: u64,
    /// Acknowledgements without data sent.
    pub pure_acks: u64,
    /// In-order bytes received.
    pub bytes_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments received, unacceptable ones included.
    pub segments_in: u64,
    /// Probes of the path's MTU sent (RFC 4821).
    pub mtu_probes: u64,
    /// ... of which were lost.
    pub mtu_probes_lost: u64,
    /// Times that nothing large seemed to pass any more, and segments became smaller.
    pub mtu_black_holes: u64,
}

/// Those of [`ConnStats`] that every segment moves.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    segments_in: u64,
    segments_out: u64,
    pure_acks: u64,
}

begins! {
    /// What few connections come to need, in a box of the [`Connection`] from its first change on.
    #[derive(Clone, Debug)]
    struct Rare {
        reset_due: Option<Seq> = None,
        challenge: Option<ConnectionBudget> = None,
        /// Where a byte was sent into the closed window.
        probe_sent: Sparse<AbsSeq> = Sparse::NONE,
        /// When the next segment may leave that is paced.
        pace_at: Option<Instant> = None,
        /// SND.UP: urgent data ends here.
        snd_up: Sparse<AbsSeq> = Sparse::NONE,
        /// What is queued up to here leaves though the user holds back what is not a full segment.
        pushed_to: Sparse<AbsSeq> = Sparse::NONE,
        /// RCV.UP.
        rcv_up: Option<u64> = None,
        /// Remembered of an earlier connection to the peer.
        initial_ssthresh: Option<ByteCount> = None,
        /// The last that a router or the peer's host complained of.
        last_icmp: Option<IcmpErrorKind> = None,
    }
}

/// One TCP connection.
///
/// Its layout is that of the declaration: what every segment touches comes first and lies
/// together, what few need comes last. Of many connections each one is out of the cache when its
/// next segment comes, and then the cache lines that a segment touches are what it costs.
#[repr(C)]
pub struct Connection<T: TcpTypes> {
    // Every segment. Positions of what is received are stream offsets: 0 is the first byte after
    // the SYN.
    config: Arc<TcpConfig>,
    state: State,
    mss_out: u16,
    iss: Seq,
    irs: Seq,
    keepalive_sent: u32,
    rcv_nxt: u64,
    last_received: Instant,
    ts: Timestamping,
    window: SendWindow,
    offered: OfferedWindow,
    sack: bool,
    /// The user has closed; the FIN takes the sequence number after the last byte of the send buffer.
    fin_queued: bool,
    fin_received: bool,
    hold: Hold,
    /// What the last call of `send` lacked, if it took less than it was offered.
    lacks: Lack,
    /// The persist timer fired: send what the window admits, or one byte.
    probe_window: bool,
    /// The window admits no more after what left last.
    fills_window: bool,
    /// The user will neither send nor read any more.
    orphan: bool,
    challenge_due: bool,
    probe_keepalive: bool,
    established: bool,
    /// The last soft error is [`SoftError::Retransmitting`](icmp::SoftError); any other is in `rare`.
    suspects_route: bool,
    events: EventSet,
    /// Whether there is a ledger in `charge`, which lies out of the way.
    is_charged: bool,
    /// Where the peer's FIN is, once seen.
    peer_fin: Sparse<u64>,
    send_buf: T::Send,
    recv_buf: T::Recv,
    ecn: EcnState,
    /// What few come to need; each segment asks whether there is any of it.
    rare: Rarely<Rare>,
    trace: Option<Thin<dyn TraceSink>>,
    ack: AckState,
    ends: Ends,
    path_mtu: PathMtu,
    timers: Timers,
    traffic: Traffic,
    /// The user's.
    tag: u64,
    ooo: Reassembly,

    // Few, as the beginning of the sender: together they are a line.
    /// But for `traffic`.
    exceptions: Rarely<ConnStats>,
    /// Until it is over.
    handshake: Rarely<Handshake>,

    // Every segment, but for the beginning.
    snd: Sender<AnyCongestion, AnyRto>,

    // Few.
    peer_offers: PeerOffers,
    /// What is counted of it but its buffers.
    charge: Charge,
}

/// Everything a connection needs at birth besides its configuration.
#[derive(Debug)]
pub struct Opening {
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// The initial send sequence number (RFC 6528 where peers are not trusted).
    pub iss: Seq,
    /// Added to the timestamp clock (RFC 7323 section 5.4).
    pub timestamp_offset: u32,
    /// Seed of the connection's own random stream.
    pub seed: u64,
    /// What is remembered of the peer (RFC 9040); the default is nothing.
    pub metrics: PathMetrics,
}

impl<T: TcpTypes> Connection<T> {
    /// Bytes of which segments touch some that bring nothing for the sender.
    pub(crate) const OF_RECEIVER: usize =
        offset_of!(Self, snd) + Sender::<AnyCongestion, AnyRto>::OF_RECEIVER;

    /// Open actively: a SYN will be sent.
    pub fn connect(config: Arc<TcpConfig>, opening: Opening, now: Instant) -> Self {
        let mut conn = Self::new(config, opening, State::SynSent);
        conn.handshake.due = true;
        conn.last_received = now;
        conn
    }

    /// Open passively on `syn`, an acceptable SYN that a listener received: a SYN-ACK will be
    /// sent. Its text is the caller's matter.
    pub fn accept(config: Arc<TcpConfig>, opening: Opening, syn: &TcpHeader, now: Instant) -> Self {
        let mut conn = Self::new(config, opening, State::SynReceived(Origin::Passive));
        conn.last_received = now;
        conn.traffic.segments_in = 1;
        conn.on_peer_syn(syn, now);
        conn.ecn.on_syn(syn.flags);
        conn.handshake.due = true;
        conn
    }

    fn new(config: Arc<TcpConfig>, opening: Opening, state: State) -> Self {
        let mss = ByteCount::from(u32::from(config.mss));
        let start = FlowStart::new(mss, config.initial_window.bytes(mss));
        let cc = config.congestion.build_any(&start);
        let custom = config.ecn_feedback.as_ref().map(|f| f());
        let ecn = EcnState::new(config.ecn, cc.needs().ecn, custom);
        let offers = config.receive_window.as_ref().map(|f| f());
        let remembered = opening.metrics.srtt.zip(opening.metrics.rttvar);
        let rtt = remembered.map_or_else(RttEstimator::new, |(srtt, rttvar)| {
            RttEstimator::seed(srtt, rttvar)
        });
        let snd = Sender::new(
            1,
            mss,
            handshake::sender_policy(&config, false),
            cc,
            config.rto.build_any(),
            rtt,
            config.detector.build(),
            opening.seed,
        );
        let mut rare = Rarely::<Rare>::default();
        if opening.metrics.ssthresh.is_some() {
            rare.initial_ssthresh = opening.metrics.ssthresh;
        }
        Self {
            ends: Ends::new(opening.local, opening.remote, config.dscp),
            state,
            rare,
            peer_offers: PeerOffers::default(),
            handshake: Rarely::default(),
            iss: opening.iss,
            snd,
            window: SendWindow::default(),
            send_buf: T::Send::default(),
            fin_queued: false,
            hold: Hold {
                nagle: config.nagle,
                corked: config.cork,
                more: More::No,
            },
            lacks: Lack::Nothing,
            probe_window: false,
            fills_window: false,
            irs: Seq(0),
            rcv_nxt: 0,
            recv_buf: T::Recv::default(),
            ooo: Reassembly::default(),
            offered: OfferedWindow::new(config.buffers.recv, config.buffers.window_clamp, offers),
            peer_fin: Sparse::NONE,
            fin_received: false,
            ack: AckState::new(&config.ack, config.acknowledge.as_ref().map(|f| f())),
            mss_out: config.mss,
            path_mtu: PathMtu::new(opening.metrics.path_mtu),
            sack: false,
            ts: Timestamping::new(config.timestamps, opening.timestamp_offset),
            ecn,
            timers: Timers::new(config.timer_tick),
            challenge_due: false,
            keepalive_sent: 0,
            orphan: false,
            probe_keepalive: false,
            last_received: Instant::ZERO,
            events: EventSet::default(),
            established: false,
            suspects_route: false,
            traffic: Traffic::default(),
            tag: 0,
            exceptions: Rarely::default(),
            charge: Charge::default(),
            is_charged: false,
            trace: None,
            config,
        }
    }

    // ---- The network.

    /// A segment for this connection arrived, in a packet with the ECN field `ecn`.
    pub fn handle_segment(&mut self, now: Instant, ecn: Ecn, tcp: &TcpHeader, text: Text<'_, T>) {
        let plain = PlainHeader::of(tcp);
        if tcp.options.sack.is_empty() && self.predicts(now, &plain, text.len()) {
            return self.on_predicted(now, ecn, &plain, text);
        }
        self.traffic.segments_in += 1;
        self.on_segment(now, ecn, tcp, text);
    }

    /// As [`handle_segment`](Self::handle_segment), of a segment with nothing rare in its header.
    #[inline]
    pub fn handle_plain(&mut self, now: Instant, ecn: Ecn, tcp: &PlainHeader, text: Text<'_, T>) {
        if self.predicts(now, tcp, text.len()) {
            return self.on_predicted(now, ecn, tcp, text);
        }
        self.handle_segment(now, ecn, &tcp.header(), text);
    }

    /// As [`handle_segment`](Self::handle_segment), in ESTABLISHED, of a segment with nothing rare in its
    /// header but `sack`, which is not as predicted.
    #[inline]
    pub(crate) fn handle_established(
        &mut self,
        now: Instant,
        ecn: Ecn,
        tcp: &PlainHeader,
        sack: &SackBlocks,
        text: Text<'_, T>,
    ) {
        self.traffic.segments_in += 1;
        let heard = Heard {
            now,
            ecn,
            tcp,
            sack,
            urgent: 0,
        };
        self.on_segment_synchronized(heard, text);
    }

    /// Reads a word of each cache line that a segment touches, one after the other as the fields
    /// are declared, but for the first, which who calls has read. Of many connections each one is out
    /// of the cache when its next segment comes. Read all at once, its lines come from memory all at
    /// the same time; each where it is needed, one after the other. Text may join what is held out of order.
    #[inline]
    pub(crate) fn bring_in(&self, payload_len: usize) {
        // What is read is of no use, but must be used, lest the compiler leave the reading out.
        black_box(
            self.window.wnd()
                ^ u64::from(self.orphan)
                ^ u64::from(self.rare.is_as_it_began())
                ^ u64::from(self.ends.local_port)
                ^ self.traffic.segments_in
                ^ self.snd.una()
                ^ u64::from(self.snd.retries()),
        );
        if payload_len > 0 {
            self.ooo.ask_for();
        } else {
            // An ACK: the sender will be needed, and not as with data a little of it.
            self.snd.bring_in();
        }
    }

    /// The device refused `tcp`, the header that [`poll_transmit`](Self::poll_transmit) gave last, with
    /// `payload_len` bytes behind it: it never left. Poll again when there is room.
    pub fn handle_local_drop(&mut self, now: Instant, tcp: &TcpHeader, payload_len: usize) {
        let bytes = ByteCount::new(payload_len as u64);
        let answer = (self.config.local_drop).on_local_drop(&self.snd.local_drop(bytes));
        tracer(&mut self.trace, now)(TraceEvent::LocalDrop { bytes });
        let cwnd = self.snd.congestion().cwnd();
        if answer != LocalDropAnswer::Ignore {
            let congestion = answer == LocalDropAnswer::Congestion;
            self.undo_transmit(now, tcp, payload_len, congestion);
        }
        if let LocalDropAnswer::Window(window) = answer
            && self.state.is_synchronized()
        {
            self.snd.window_refused(window, now);
        }
        if self.trace.is_some() && self.snd.congestion().cwnd() != cwnd {
            self.trace_window(now);
        }
    }

    /// A challenge ACK is to be sent; the endpoint may have reached its limit.
    pub(crate) fn owes_challenge(&self) -> bool {
        self.challenge_due
    }

    /// The endpoint's limit is reached.
    pub(crate) fn forget_challenge(&mut self) {
        self.challenge_due = false;
        self.exceptions.change().challenge_acks -= 1;
    }

    /// The handshake was completed at some time.
    pub fn was_established(&self) -> bool {
        self.established
    }

    /// There is nothing any more that it could do.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Whether [`poll_event`](Self::poll_event) has something.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        self.events.any()
    }

    /// The next thing to tell the user.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.any() {
            self.events.pop(self.state, self.last_error())
        } else {
            None
        }
    }

    // ---- Shared by the parts.

    fn set_state(&mut self, to: State, now: Instant) {
        let from = std::mem::replace(&mut self.state, to);
        if from != to {
            tracer(&mut self.trace, now)(TraceEvent::State { from, to });
            self.limit_orphan(now);
        }
    }

    /// The first segment outstanding does not fit the peer's window.
    fn window_refuses_the_first(&self) -> bool {
        let edge = self.snd.una() + self.window.wnd();
        self.snd.scoreboard().first().is_some_and(|s| s.end > edge)
    }

    /// Payload bytes of a full segment: the MSS less the options every segment carries.
    fn payload_mss(&self) -> ByteCount {
        payload_mss(self.mss_out, self.ts.in_use)
    }

    /// The connection is over, quietly.
    fn finish(&mut self, reason: CloseReason, now: Instant) {
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        if let Some(handshake) = self.handshake.changed() {
            handshake.over_at = now;
        }
        self.set_state(State::Closed(reason), now);
        self.timers.stop_all();
        self.snd.stop_timers();
        self.rare.clear(|rare| &mut rare.pace_at);
        self.ack.clear();
        self.events.set(EventKind::Closed);
        self.give_back();
    }

    /// The connection is over, and the peer is told by a RST where it has state.
    fn give_up(&mut self, reason: CloseReason, now: Instant) {
        if self.state.is_synchronized() && self.state != State::TimeWait {
            self.rare.reset_due = Some(self.iss + self.snd.nxt() as u32);
        }
        self.finish(reason, now);
    }
}

impl<T: TcpTypes> Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("local", &self.local())
            .field("remote", &self.remote())
            .field("state", &self.state)
            .field("snd_una", &self.snd.una())
            .field("snd_nxt", &self.snd.nxt())
            .field("rcv_nxt", &self.rcv_nxt)
            .finish_non_exhaustive()
    }
}

/// [`Connection::payload_mss`] of segments of so much, with timestamps in use or without.
#[inline]
fn payload_mss(mss_out: u16, timestamps: bool) -> ByteCount {
    let options = if timestamps { 12 } else { 0 };
    ByteCount::from(u32::from(mss_out).saturating_sub(options).max(1))
}

/// A closure that hands events to the sink, if there is one.
fn tracer(sink: &mut Option<Thin<dyn TraceSink>>, now: Instant) -> impl FnMut(TraceEvent) + '_ {
    move |event| {
        if let Some(sink) = sink {
            sink.event(now, &event);
        }
    }
}
