//! A segment as most are: new data, or an acknowledgement, with what every segment of a synchronised
//! connection carries.

use super::Output;
use crate::buffer::{RecvBuffer, SendBuffer};
use crate::conn::timers::Timer;
use crate::conn::tx::Emitted;
use crate::conn::{Connection, TcpTypes, payload_mss};
use crate::recovery::AbsSeq;
use crate::sparse::Sparse;
use crate::wire::{Beside, Ecn, Flags, PlainHeader, RareHeader, SackBlocks, Seq};
use core::ops::Range;
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;

/// A segment that is to leave, but for what every one of a synchronised connection carries.
pub(super) struct Begun {
    pub(super) seq: Seq,
    pub(super) flags: Flags,
    pub(super) ecn: Ecn,
    pub(super) payload: Range<u64>,
}

impl<T: TcpTypes> Connection<T> {
    /// A segment of `len` bytes of new data, and of the FIN if that goes with it; a `probe` is beyond
    /// the peer's window.
    #[inline(always)]
    pub(super) fn new_segment(&mut self, len: u64, fin: bool, probe: bool, now: Instant) -> Begun {
        self.timers.stop(Timer::Persist);
        let start = self.snd.nxt();
        let end = start + len;
        let drains = len > 0 && end == self.send_buf.end() + 1;
        let pushes = std::mem::take(&mut self.probe_window) || self.hold.pushes();
        let mut flags = Flags::ACK | Flags::FIN.when(fin) | Flags::PSH.when(drains && pushes);
        // RFC 3168 section 6.1.6: a window probe is neither ECN-capable nor says CWR.
        if !probe && len > 0 && self.snd.take_cwr() && self.ecn.in_use {
            flags |= Flags::CWR;
        }
        self.snd.on_sent_new(end + u64::from(fin), now);
        if let Some(limit) = self.config.lifetimes.user_timeout {
            cold_path();
            self.timers.arm_if_idle(Timer::User, now + limit);
        }
        self.look_for_fewer_unsent();
        Begun {
            seq: self.seq(start),
            flags,
            ecn: self.ecn.codepoint(!probe),
            payload: start - 1..end - 1,
        }
    }

    /// Some of the data from `start` on, which `out` has, may be urgent.
    pub(super) fn mark_urgent(&mut self, start: AbsSeq, out: &mut Output) {
        if let Some(up) = self.rare.as_changed().and_then(|rare| rare.snd_up.get()) {
            cold_path();
            if start < up {
                out.tcp.flags |= Flags::URG;
                // RFC 9293 section 3.8.5 with RFC 6093's reading: the offset of what follows the
                // urgent data.
                let urgent = u16::try_from(up - start).unwrap_or(u16::MAX);
                out.beside = Beside::Rare(RareHeader {
                    urgent,
                    ..RareHeader::default()
                });
            }
            if self.snd.una() >= up {
                self.rare.snd_up = Sparse::NONE;
            }
        }
    }

    /// An acknowledgement, and what is here of what it does not cover.
    #[inline(never)]
    pub(super) fn pure_ack(&mut self, now: Instant, out: &mut Output) -> Emitted {
        let begun = self.begin_ack();
        self.put(begun, now, out);
        if self.sack && self.ooo.has_disorder() {
            self.say_what_is_here(out);
        }
        Emitted::MoreMayFollow
    }

    /// The same where all is covered.
    #[inline(always)]
    pub(super) fn begin_ack(&mut self) -> Begun {
        self.traffic.pure_acks += 1;
        Begun {
            seq: self.seq(self.snd.nxt()),
            flags: Flags::ACK,
            ecn: self.ecn.codepoint(false),
            payload: self.nothing(),
        }
    }

    /// Puts it, as it leaves now, into `out`, which is blank.
    #[inline(always)]
    pub(super) fn put_here(&mut self, begun: Begun, now: Instant, out: &mut Output) {
        out.ecn = begun.ecn;
        out.payload = begun.payload;
        out.tcp = self.header_here(begun.seq, begun.flags, now);
    }

    /// The same out of line.
    #[inline(never)]
    pub(super) fn put(&mut self, begun: Begun, now: Instant, out: &mut Output) {
        self.put_here(begun, now, out);
    }

    /// The header of a segment that leaves now, with acknowledgement, window, ECE, timestamps: what every
    /// one of a synchronised connection carries.
    #[inline(always)]
    pub(super) fn header_here(&mut self, seq: Seq, mut flags: Flags, now: Instant) -> PlainHeader {
        let ack = self.rcv_nxt_seq();
        if self.ecn.ece() {
            cold_path();
            flags |= Flags::ECE;
        }
        let window = self.window_field(self.rcv_nxt, now);
        let timestamps = self.ts.in_use.then(|| self.ts.option(now));
        // Owed like any other acknowledgement, should the segment not leave.
        if std::mem::take(&mut self.challenge_due) {
            cold_path();
            self.ack.force();
        }
        self.ack.on_sent(ack);
        self.timers.stop(Timer::DelayedAck);
        PlainHeader {
            src_port: self.ends.local_port,
            dst_port: self.ends.remote_port,
            seq,
            ack,
            flags,
            window,
            timestamps,
        }
    }

    /// The window that goes with an acknowledgement of all before `nxt`.
    #[inline(always)]
    pub(super) fn window_field(&mut self, nxt: u64, now: Instant) -> u16 {
        self.know_room();
        let mss = || payload_mss(self.mss_out, self.ts.in_use).get();
        let read = self.recv_buf.start();
        self.offered.advertise(nxt, read, mss, true, now)
    }

    /// The SACK option.
    #[inline(never)] // While something is missing.
    fn say_what_is_here(&mut self, out: &mut Output) {
        debug_assert_eq!(out.beside, Beside::Nothing, "of an acknowledgement");
        let first = self.irs + 1;
        let max = SackBlocks::most_beside(out.tcp.timestamps);
        let blocks = self.ooo.sack_blocks(|offset| first + offset as u32, max);
        out.beside = Beside::Sack(blocks);
    }

    pub(super) fn nothing(&self) -> Range<u64> {
        self.send_buf.end()..self.send_buf.end()
    }
}
