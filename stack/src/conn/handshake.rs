//! Opening a connection: our SYN, the peer's, and what they agree on (RFC 9293 section 3.5).

use super::fast_open::Side;
use super::icmp::SoftError;
use super::rx::Heard;
use super::state::{CloseReason, Origin, State};
use super::timers::Timer;
use super::user::Kind as EventKind;
use super::{Connection, TcpTypes, Text, tracer};
use crate::buffer::{Payload, RecvBuffer};
use crate::config::{TcpConfig, WindowCount};
use crate::fast_open::FastOpenStatus;
use crate::recovery::SenderPolicy;
use crate::sparse::{Sparse, begins};
use crate::trace::{TimeoutCause, TraceEvent};
use crate::wire::{Ecn, Flags, Seq, TcpHeader};
use narrows_congestion::{AnyCongestion, ByteCount, Duration, FlowStart, Instant};
use std::net::IpAddr;

/// A smaller MSS in a SYN is an attack or an error.
const MIN_MSS: u16 = 64;

begins! {
    /// Our SYN or SYN-ACK.
    #[derive(Clone, Debug)]
    pub(super) struct Handshake {
        /// It is to be sent (again).
        pub(super) due: bool = false,
        /// When it was to leave for the first time.
        pub(super) sent_at: Option<Instant> = None,
        /// How often it has left, for whatever reason. Its answer measures a round trip only if that is
        /// once: that to a segment sent again may be to either (Karn's rule, RFC 6298 section 3).
        pub(super) transmissions: u32 = 0,
        /// When it left last.
        pub(super) left_at: Instant = Instant::ZERO,
        /// How often it went unanswered until its timer fired.
        pub(super) retries: u32 = 0,
        /// How often the peer's SYN came again, and our SYN-ACK was sent again for it.
        pub(super) asked_again: u32 = 0,
        /// Bytes of text that came with the peer's SYN and wait in the receive buffer.
        pub(super) text: u16 = 0,
        /// A FIN came behind them.
        pub(super) peer_fin: bool = false,
        /// TSval of a segment that a RST answers in SYN-SENT.
        pub(super) refused_tsval: Option<u32> = None,
        pub(super) fast_open: FastOpenStatus = FastOpenStatus::Unused,
        pub(super) side: Side = Side::Neither,
        /// When it was given up.
        pub(super) over_at: Instant = Instant::ZERO,
    }
}

/// What the peer's SYN offered, so that our SYN-ACK does not offer more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerOffers {
    pub(super) mss: Option<u16>,
    pub(super) wscale: Option<u8>,
}

/// The MSS of a peer whose SYN names none (RFC 9293 MUST-15).
pub(crate) const fn default_mss(remote: IpAddr) -> u16 {
    match remote {
        IpAddr::V4(_) => 536,
        IpAddr::V6(_) => 1_220,
    }
}

/// What the sender needs to know of the configuration.
pub(super) fn sender_policy(config: &TcpConfig, sack: bool) -> SenderPolicy {
    SenderPolicy {
        recovery: config.recovery,
        dup_thresh: config.dup_thresh,
        limited_transmit: config.limited_transmit,
        spurious: config.spurious,
        sack,
        // The peer's delay is unknown; ours is the best guess at what its kind uses.
        max_ack_delay: config.ack.delay,
        pacing: config.pacing,
        max_segments: config.buffers.max_outstanding_segments,
    }
}

impl<T: TcpTypes> Connection<T> {
    /// A segment in SYN-SENT (RFC 9293 section 3.10.7.3).
    pub(super) fn on_segment_syn_sent(
        &mut self,
        now: Instant,
        ecn: Ecn,
        tcp: &TcpHeader,
        text: Text<'_, T>,
    ) {
        let ack = tcp.flags.contains(Flags::ACK);
        // First, check the ACK bit. Only our SYN can be acknowledged.
        if ack && !self.acknowledges_syn(tcp.ack) {
            self.exceptions.change().unacceptable_in += 1;
            if !tcp.flags.contains(Flags::RST) {
                self.rare.reset_due = Some(tcp.ack);
                self.handshake.refused_tsval = tcp.options.timestamps.map(|t| t.val);
            }
            return;
        }
        // Second, the RST bit.
        if tcp.flags.contains(Flags::RST) {
            if ack {
                self.finish(CloseReason::Refused, now);
            }
            return;
        }
        // Fourth, the SYN bit.
        if !tcp.flags.contains(Flags::SYN) {
            return;
        }
        self.last_received = now;
        self.on_peer_syn(tcp, now);
        if ack {
            self.ecn.on_syn_ack(tcp.flags);
            self.establish(tcp, now);
            self.forget_handshake();
            self.ack.force();
            // Data or FIN on the SYN-ACK.
            if !text.is_empty() || tcp.flags.contains(Flags::FIN) {
                let rest = self.without_syn(tcp);
                self.on_segment(now, ecn, &rest, text);
            }
        } else {
            // Simultaneous open.
            self.ecn.on_syn(tcp.flags);
            self.queue_syn_text(tcp, text);
            self.set_state(State::SynReceived(Origin::Active), now);
            self.handshake.due = true;
        }
    }

    /// The text, and the FIN, of a SYN are kept until the handshake is complete; the SYN-ACK does
    /// not acknowledge them, and the peer may send them again. No more than a segment is kept.
    pub(crate) fn queue_syn_text(&mut self, syn: &TcpHeader, text: Text<'_, T>) {
        let room = u64::from(self.config.mss).min(self.syn_text_room());
        let kept = text.len().min(room as usize);
        let whole = kept == text.len();
        self.handshake.peer_fin = whole && syn.flags.contains(Flags::FIN);
        self.handshake.text = kept as u16;
        if kept > 0 {
            self.recv_buf.write(0, text.slice(0..kept));
        }
    }

    /// Bytes of text that there is memory for.
    pub(in crate::conn) fn syn_text_room(&self) -> u64 {
        let buffer = self.config.buffers.recv as u64;
        self.recv_buf.room().unwrap_or(buffer).min(buffer)
    }

    /// A segment in SYN-RECEIVED: the handshake is complete if it acknowledges our SYN.
    #[cold]
    pub(super) fn on_segment_syn_received(
        &mut self,
        heard: Heard<'_>,
        tcp: &TcpHeader,
        text: Text<'_, T>,
    ) {
        let Heard { now, ecn, .. } = heard;
        // Simultaneous open: the SYN has been seen, the rest of the peer's SYN-ACK has not
        // (RFC 9293 section 3.5, figure 8).
        if self.state == State::SynReceived(Origin::Active)
            && tcp.flags.contains(Flags::SYN | Flags::ACK)
            && !tcp.flags.contains(Flags::RST)
            && tcp.seq == self.irs
        {
            let rest = self.without_syn(tcp);
            self.on_segment(now, ecn, &rest, text);
            self.ack.force();
            return;
        }
        let Some(seg) = self.admit(now, heard.tcp, text.len()) else {
            return;
        };
        if !self.acknowledges_syn(tcp.ack) {
            self.exceptions.change().unacceptable_in += 1;
            self.rare.reset_due = Some(tcp.ack);
            return;
        }
        self.establish(tcp, now);
        if !self.handshake.peer_fin
            && seg.start == 0
            && seg.text_len >= usize::from(self.handshake.text)
        {
            // All of it has come again.
            self.handshake.text = 0;
        }
        let queued = self.deliver_syn_text(now);
        self.forget_handshake();
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        self.on_acknowledged(heard, &seg, text);
        if queued > 0 && seg.start < queued as i64 && seg.text_len > 0 {
            // It was not acknowledged: sending it again was right, and is not worth a report.
            self.ooo.forget_dsack();
        }
    }

    /// What came with the SYN is the user's now. How many bytes.
    fn deliver_syn_text(&mut self, now: Instant) -> u64 {
        let offered = self.offered.right_edge;
        let kept = u64::from(std::mem::take(&mut self.handshake.text));
        let text = kept.min(offered);
        if std::mem::take(&mut self.handshake.peer_fin) && text == kept {
            self.peer_fin = Sparse::some(text);
            self.ack.force();
        }
        if text > 0 {
            self.rcv_nxt = text;
            self.ack.force();
            self.on_new_text(text, now);
        }
        text
    }

    /// What follows the SYN in its segment. The window of a SYN is not scaled, that of the
    /// rest would be.
    pub(super) fn without_syn(&self, tcp: &TcpHeader) -> TcpHeader {
        let mut rest = tcp.clone();
        rest.flags = rest.flags.without(Flags::SYN);
        rest.seq += 1;
        rest.window = tcp.window >> self.window.shift;
        rest
    }

    /// Take the peer's initial sequence number and options.
    pub(super) fn on_peer_syn(&mut self, syn: &TcpHeader, now: Instant) {
        self.irs = syn.seq;
        self.peer_offers.mss = syn.options.mss;
        self.peer_offers.wscale = syn.options.window_scale;
        self.ts.on_syn(syn.options.timestamps, now);
        self.mss_out = self.negotiated_mss().min(self.path_mss());
        self.begin_mtu_probing(now);
        if self.config.window_scaling
            && let Some(shift) = syn.options.window_scale
        {
            self.window.shift = shift.min(14);
            self.offered.shift = self.config.window_shift();
        }
        self.sack = self.wants_sack() && syn.options.sack_permitted;
        self.window.init(syn.window, false, syn.seq, 0);
    }

    /// The largest MSS that we and the path take.
    pub(crate) fn largest_mss(&self) -> u16 {
        self.config.mss.min(self.path_mss())
    }

    /// The effective MSS (RFC 9293 MUST-16), the path aside.
    pub(super) fn negotiated_mss(&self) -> u16 {
        let offered = (self.peer_offers.mss).unwrap_or(default_mss(self.ends.ips().1));
        offered.max(MIN_MSS).min(self.config.mss)
    }

    /// The handshake is complete by `tcp`: the sender gets the values it settled.
    fn establish(&mut self, tcp: &TcpHeader, now: Instant) {
        self.timers.stop(Timer::Handshake);
        self.handshake.due = false;
        self.on_syn_acknowledged(tcp, now);
        let of = &self.handshake;
        let rtt = (of.transmissions == 1).then(|| now.since(of.left_at));
        if self.is_early() {
            self.confirm_early(rtt, self.rto_floor(), now);
        } else {
            self.begin_sending(rtt, now);
        }
        let scaled = !tcp.flags.contains(Flags::SYN);
        (self.window).init(tcp.window, scaled, tcp.seq, self.snd.una());
        self.set_state(State::Established, now);
        self.established = true;
        self.events.set(EventKind::Connected);
        self.arm_keepalive(now);
        if self.fin_queued {
            self.set_state(State::FinWait1, now);
        }
    }

    /// All is told of the handshake; of an ordinary one nothing needs to be kept.
    pub(super) fn forget_handshake(&mut self) {
        let of = &*self.handshake;
        if of.retries == 0 && of.asked_again == 0 && matches!(of.side, Side::Neither) {
            self.handshake.forget();
        }
    }

    /// The sender gets the values that the SYNs have settled; `rtt` is what they measured.
    pub(super) fn begin_sending(&mut self, rtt: Option<Duration>, now: Instant) {
        let mss = self.payload_mss();
        let initial_window = self.initial_window(mss);
        let cc = self.congestion_from(mss, initial_window);
        let policy = sender_policy(&self.config, self.sack);
        self.snd.begin(mss, policy, cc, rtt, self.rto_floor(), now);
        self.limit_records();
        let rule = self.config.idle_restart;
        self.snd.validate_window(rule, initial_window, now);
        if self.config.window_count == WindowCount::Packets {
            self.snd.count_packets();
        }
    }

    /// Congestion control at its start, with what is remembered of the peer.
    pub(super) fn congestion_from(&self, mss: ByteCount, window: ByteCount) -> AnyCongestion {
        let mut start = FlowStart::new(mss, window);
        start.initial_ssthresh = self.rare.initial_ssthresh.unwrap_or(start.initial_ssthresh);
        self.config.congestion.build_any(&start)
    }

    /// The RTO is at least this until the first sample (RFC 6298 section 5.7).
    fn rto_floor(&self) -> Duration {
        match self.handshake.retries {
            0 => Duration::ZERO,
            _ => self.config.rto_after_syn_timeout,
        }
    }

    /// We offer SACK: it is configured, and the loss detector makes use of it.
    fn wants_sack(&self) -> bool {
        self.config.sack && self.snd.detector().uses_sack()
    }

    /// The initial window; one segment after the SYN had to be retransmitted, as
    /// [`TcpConfig::lost_syn`](crate::config::TcpConfig::lost_syn) has it.
    pub(super) fn initial_window(&self, mss: ByteCount) -> ByteCount {
        let lost = self.handshake.retries + self.handshake.asked_again;
        if self.config.lost_syn.resets(lost) {
            mss
        } else {
            self.config.initial_window.bytes(mss)
        }
    }

    /// The SYNs have not been exchanged yet.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived(_))
    }

    /// How often our SYN or SYN-ACK went unanswered until its timer fired.
    pub fn handshake_timeouts(&self) -> u32 {
        self.handshake.retries
    }

    pub(super) fn on_handshake_timeout(&mut self, now: Instant) {
        if !self.is_opening() {
            return;
        }
        self.handshake.retries += 1;
        let rto = self.snd.on_handshake_timeout();
        tracer(&mut self.trace, now)(TraceEvent::Timeout {
            cause: TimeoutCause::Handshake,
            rto,
            consecutive: self.handshake.retries,
            flight_size: ByteCount::new(1),
        });
        let first = self.handshake.sent_at.unwrap_or(now);
        if self.handshake.retries > self.config.lifetimes.syn_retries
            && now.since(first) >= self.config.lifetimes.syn_retry_time
        {
            self.finish(CloseReason::TimedOut, now);
        } else {
            self.handshake.due = true;
            if self.handshake.retries == self.config.lifetimes.retries_before_report {
                self.report(SoftError::Retransmitting);
            }
        }
    }

    /// The SYN or SYN-ACK that is due.
    pub(super) fn syn_header(&mut self, now: Instant) -> (Ecn, TcpHeader) {
        let answer = matches!(self.state, State::SynReceived(_));
        let mut tcp = TcpHeader {
            src_port: self.ends.local_port,
            dst_port: self.ends.remote_port,
            seq: self.iss,
            flags: Flags::SYN,
            ..TcpHeader::default()
        };
        tcp.options.mss = Some(self.config.mss);
        tcp.options.sack_permitted = if answer { self.sack } else { self.wants_sack() };
        if self.config.window_scaling && (!answer || self.peer_offers.wscale.is_some()) {
            tcp.options.window_scale = Some(self.config.window_shift());
        }
        let has_timestamps = self.ts.in_use || (!answer && self.ts.wanted());
        tcp.options.timestamps = has_timestamps.then(|| self.ts.option(now));
        if answer {
            tcp.flags |= Flags::ACK | self.ecn.syn_ack_flags();
            tcp.ack = self.rcv_nxt_seq();
            self.ack.on_sent(tcp.ack);
        } else {
            tcp.flags |= self.ecn.syn_flags(self.handshake.retries > 1);
        }
        self.know_room();
        let (read, mss) = (self.recv_buf.start(), u64::from(self.config.mss));
        tcp.window = (self.offered).advertise(self.rcv_nxt, read, || mss, false, now);
        self.handshake.sent_at.get_or_insert(now);
        self.handshake.transmissions = self.handshake.transmissions.saturating_add(1);
        self.handshake.left_at = now;
        self.handshake.due = false;
        self.timers.arm(Timer::Handshake, now + self.snd.draw_rto());
        (self.ecn.syn_codepoint(answer), tcp)
    }

    /// The SYN-ACK was sent some time ago, too: its answer measures no round trip.
    pub(crate) fn forget_when_syn_ack_was_sent(&mut self) {
        self.handshake.transmissions += 1;
    }

    /// A new SYN may take the place of this connection in TIME-WAIT (RFC 6191 section 2,
    /// RFC 9293 MAY-2).
    pub(crate) fn time_wait_yields_to(&self, syn: &TcpHeader) -> bool {
        // As Linux and FreeBSD have it: at RCV.NXT it may be what the old incarnation sent last.
        let beyond = syn.seq.after(self.rcv_nxt_seq());
        match syn.options.timestamps.filter(|_| self.ts.wanted()) {
            // The new incarnation will have timestamps, the old one had none.
            Some(_) if !self.ts.in_use => true,
            Some(option) => self.ts.compare(option).then(beyond.cmp(&false)).is_gt(),
            None => beyond,
        }
    }

    /// An initial sequence number beyond everything this connection used.
    pub(crate) fn next_incarnation_iss(&self) -> Seq {
        self.iss + self.snd.nxt() as u32 + 65_535 + 2
    }
}
