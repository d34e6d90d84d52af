//! A segment as most are: new data, or an acknowledgement, with what every segment of a synchronised
//! connection carries.

use super::Output;
use crate::buffer::{RecvBuffer, SendBuffer};
use crate::conn::timers::Timer;
use crate::conn::tx::Emitted;
use crate::conn::{Connection, TcpTypes, payload_mss};
use crate::recovery::AbsSeq;
use crate::sparse::Sparse;
use crate::wire::{Beside, Flags, PlainHeader, RareHeader, SackBlocks, Seq};
use core::ops::Range;
use narrows_congestion::Instant;

/// What an acknowledgement goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    /// Data, beside which there may be no room for more.
    Data,
    /// What the peer is to know of what has arrived beyond a gap.
    Sack,
}

impl<T: TcpTypes> Connection<T> {
    /// A segment of `len` bytes of new data, within the peer's window, to be
    /// [completed](Self::complete_here).
    #[inline(always)]
    pub(super) fn plain_segment(&mut self, len: u64, now: Instant, out: &mut Output) {
        self.timers.stop(Timer::Persist);
        let start = self.snd.nxt();
        let end = start + len;
        let mut flags = Flags::ACK;
        if end == self.send_buf.end() + 1 && self.hold.pushes() {
            flags |= Flags::PSH;
        }
        if self.snd.take_cwr() && self.ecn.in_use() {
            flags |= Flags::CWR;
        }
        self.new_data_left(end, now);
        self.begin_data(start..end, flags, true, out);
    }

    /// What is new leaves, up to `end`.
    #[inline(always)]
    pub(super) fn new_data_left(&mut self, end: AbsSeq, now: Instant) {
        self.snd.on_sent_new(end, now);
        if let Some(limit) = self.config.lifetimes.user_timeout {
            self.timers.arm_if_idle(Timer::User, now + limit);
        }
        self.look_for_fewer_unsent();
    }

    /// The segment with the bytes of `range`.
    #[inline(never)]
    pub(super) fn segment(
        &mut self,
        range: Range<AbsSeq>,
        flags: Flags,
        new: bool,
        now: Instant,
        out: &mut Output,
    ) {
        self.begin_data(range, flags, new, out);
        self.complete(out, With::Data, now);
    }

    /// The same but for what every segment carries.
    #[inline(always)]
    fn begin_data(&mut self, range: Range<AbsSeq>, flags: Flags, new: bool, out: &mut Output) {
        let Range { start, end } = range;
        out.ecn = self.ecn.codepoint(new);
        out.payload = start - 1..end - 1;
        self.begin(&mut out.tcp, self.seq(start), flags);
        if let Some(rare) = self.rare.as_changed()
            && let Some(up) = rare.snd_up.get()
        {
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

    #[inline(never)]
    pub(super) fn pure_ack(&mut self, now: Instant, out: &mut Output) -> Emitted {
        self.begin_ack(out);
        self.complete(out, With::Sack, now);
        Emitted::MoreMayFollow
    }

    /// The same but for what every segment carries.
    #[inline(always)]
    pub(super) fn begin_ack(&mut self, out: &mut Output) {
        self.traffic.pure_acks += 1;
        out.ecn = self.ecn.codepoint(false);
        out.payload = self.nothing();
        self.begin(&mut out.tcp, self.seq(self.snd.nxt()), Flags::ACK);
    }

    /// Acknowledgement, window, ECE, options: what every segment of a synchronised connection
    /// carries.
    #[inline(always)]
    pub(super) fn complete_here(&mut self, out: &mut Output, with: With, now: Instant) {
        let tcp = &mut out.tcp;
        tcp.ack = self.rcv_nxt_seq();
        if self.ecn.ece() {
            tcp.flags |= Flags::ECE;
        }
        self.know_room();
        let (mss_out, in_use) = (self.mss_out, self.ts.in_use());
        let mss = || payload_mss(mss_out, in_use).get();
        let (nxt, read) = (self.rcv_nxt, self.recv_buf.start());
        tcp.window = self.offered.advertise(nxt, read, mss, true, now);
        if self.ts.in_use() {
            tcp.timestamps = Some(self.ts.option(now));
        }
        if with == With::Sack && self.sack && (!self.ooo.is_empty() || self.ooo.has_dsack()) {
            self.say_what_is_here(out);
        }
        // Owed like any other acknowledgement, should the segment not leave.
        if std::mem::take(&mut self.challenge_due) {
            self.ack.force();
        }
        self.ack.on_sent(out.tcp.ack);
        self.timers.stop(Timer::DelayedAck);
    }

    /// The same out of line, for what does not leave the plain way.
    #[inline(never)]
    pub(super) fn complete(&mut self, out: &mut Output, with: With, now: Instant) {
        self.complete_here(out, with, now);
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

    /// Puts ports, sequence number and flags into a blank header.
    #[inline]
    pub(super) fn begin(&self, tcp: &mut PlainHeader, seq: Seq, flags: Flags) {
        debug_assert_eq!(*tcp, PlainHeader::default(), "of a segment before");
        tcp.src_port = self.ends.local_port;
        tcp.dst_port = self.ends.remote_port;
        tcp.seq = seq;
        tcp.flags = flags;
    }

    pub(super) fn nothing(&self) -> Range<u64> {
        self.send_buf.end()..self.send_buf.end()
    }
}
