//! A segment as most are: new data, or an acknowledgement, with what every segment of a synchronised
//! connection carries.

use super::Output;
use super::output::NewData;
use crate::buffer::{RecvBuffer, SendBuffer};
use crate::conn::timers::Timer;
use crate::conn::{Connection, TcpTypes, payload_mss};
use crate::sparse::Sparse;
use crate::wire::{Beside, Flags, RareHeader, SackBlocks, Timestamps};
use core::ops::Range;
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;

impl<T: TcpTypes> Connection<T> {
    /// Begins a segment of new data.
    #[inline(always)]
    pub(super) fn begin_new(&mut self, new: NewData, now: Instant, out: &mut Output) {
        self.timers.stop(Timer::Persist);
        let start = self.snd.nxt();
        let end = start + new.len;
        let drains = new.len > 0 && new.drains;
        let overdue = std::mem::take(&mut self.probe_window);
        let pushes = overdue || self.hold.pushes();
        let probe = overdue && new.len > self.usable();
        if probe {
            cold_path();
            self.rare.probe_sent = Sparse::some(start);
        }
        out.plain.tcp.seq = self.seq(start);
        out.plain.tcp.flags =
            Flags::ACK | Flags::FIN.when(new.fin) | Flags::PSH.when(drains && pushes);
        out.plain.ecn = self.ecn.codepoint(!probe);
        out.payload = start - 1..end - 1;
        // RFC 3168 section 6.1.6: a window probe is neither ECN-capable nor says CWR.
        if !probe && new.len > 0 && self.snd.take_cwr() && self.ecn.in_use {
            out.plain.tcp.flags |= Flags::CWR;
        }
        self.snd.on_sent_new(end + u64::from(new.fin), now);
        if let Some(limit) = self.config.lifetimes.user_timeout {
            cold_path();
            self.timers.arm_if_idle(Timer::User, now + limit);
        }
        self.look_for_fewer_unsent();
    }

    /// Some of the data that `out` has may be urgent.
    pub(super) fn mark_urgent(&mut self, out: &mut Output) {
        if let Some(up) = self.rare.as_changed().and_then(|rare| rare.snd_up.get()) {
            cold_path();
            let start = out.payload.start + 1;
            if start < up {
                out.plain.tcp.flags |= Flags::URG;
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

    /// An acknowledgement.
    #[inline(never)]
    pub(super) fn pure_ack(&mut self, now: Instant, out: &mut Output) {
        self.begin_ack(now, out);
        self.complete(now, out);
    }

    /// Begins an acknowledgement, which says what is here of what it does not cover.
    #[inline(always)]
    pub(super) fn begin_ack(&mut self, now: Instant, out: &mut Output) {
        self.traffic.pure_acks += 1;
        out.plain.tcp.seq = self.seq(self.snd.nxt());
        out.plain.tcp.flags = Flags::ACK;
        out.plain.ecn = self.ecn.codepoint(false);
        out.payload = self.nothing();
        if self.sack && self.ooo.has_disorder() {
            cold_path();
            self.say_what_is_here(now, out);
        }
    }

    /// A segment that has begun leaves now: with acknowledgement, window, ECE, timestamps, what every one
    /// of a synchronised connection carries.
    #[inline(always)]
    pub(super) fn complete(&mut self, now: Instant, out: &mut Output) {
        let ack = self.rcv_nxt_seq();
        if self.ecn.ece() {
            cold_path();
            out.plain.tcp.flags |= Flags::ECE;
        }
        out.plain.tcp.src_port = self.ends.local_port;
        out.plain.tcp.dst_port = self.ends.remote_port;
        out.plain.tcp.ack = ack;
        out.plain.tcp.window = self.window_field(self.rcv_nxt, now);
        out.plain.tcp.timestamps = self.timestamps(now);
        // Owed like any other acknowledgement, should the segment not leave.
        if std::mem::take(&mut self.challenge_due) {
            cold_path();
            self.ack.force();
        }
        self.ack.on_sent(ack);
        self.timers.stop(Timer::DelayedAck);
    }

    /// The window that goes with an acknowledgement of all before `nxt`.
    #[inline(always)]
    pub(super) fn window_field(&mut self, nxt: u64, now: Instant) -> u16 {
        self.know_room();
        let mss = || payload_mss(self.mss_out, self.ts.in_use).get();
        let read = self.recv_buf.start();
        self.offered.advertise(nxt, read, mss, true, now)
    }

    /// The timestamps of a segment that leaves now.
    #[inline(always)]
    fn timestamps(&self, now: Instant) -> Option<Timestamps> {
        self.ts.in_use.then(|| self.ts.option(now))
    }

    /// The SACK option.
    #[inline(never)] // While something is missing.
    fn say_what_is_here(&mut self, now: Instant, out: &mut Output) {
        debug_assert_eq!(out.beside, Beside::Nothing, "of an acknowledgement");
        let first = self.irs + 1;
        let max = SackBlocks::most_beside(self.timestamps(now));
        let blocks = self.ooo.sack_blocks(|offset| first + offset as u32, max);
        out.beside = Beside::Sack(blocks);
    }

    pub(super) fn nothing(&self) -> Range<u64> {
        self.send_buf.end()..self.send_buf.end()
    }
}
