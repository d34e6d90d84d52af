//! One direction of a connection: what its sender must know, rebuilt from what was captured.

mod counts;
mod meaning;
mod sack;
mod sent;
mod stamps;

use counts::smooth;
pub use counts::{Counts, RttEstimate};
pub(crate) use meaning::{Acked, Data, Retransmitted};

use crate::gap::Vantage;
use crate::rounds::{Histogram, Round, RoundMeter};
use narrows::prefetch::{prefetch, prefetch_after};
use narrows::wire::{SackBlock, Seq, Timestamps};
use narrows::{Duration, Instant};
use std::collections::VecDeque;
use std::ops::Range;

/// A packet, and when it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// When.
    pub at: Instant,
    /// Its number in the capture.
    pub packet: u64,
}

/// A stretch of the stream that is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// When it was first seen, or when its lack was noticed.
    pub(crate) first: Instant,
    /// When it was last seen, or when its lack was noticed.
    pub(crate) last: Instant,
    /// The packet that had it last.
    pub(crate) packet: u64,
    /// How often it was seen; 0: it is missing from the capture.
    pub(crate) sends: u16,
    pub(crate) sacked: bool,
    /// What it counts as: a super-frame counts once, as where it was captured.
    pub(crate) packets: u16,
}

/// What is only kept on request.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    pub(crate) meter: RoundMeter,
    pub(crate) rounds: Vec<Round>,
    pub(crate) histogram: Histogram,
}

/// Where a sequence number of 0 is in the stream that is counted on: numbers before the first one
/// seen have a place, too.
const ORIGIN: u64 = 1 << 32;
/// The largest segment until one was seen or announced (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// Nobody who has said something asks sooner whether the peer is there (Linux, tcp(7)).
const KEEP_ALIVE: Duration = Duration::from_secs(1);

impl Sent {
    /// What is seen so often `now`.
    fn new(Range { start, end }: Range<u64>, now: Sighting, sends: u16, packets: u16) -> Self {
        Self {
            start,
            end,
            first: now.at,
            last: now.at,
            packet: now.packet,
            sends,
            sacked: false,
            packets,
        }
    }
}

/// What few packets need, away from what all do: each packet fetches its connection from memory.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub(crate) syn: Option<(Sighting, Seq)>,
    /// When what had been acknowledged left again last.
    pub(crate) needless: Option<Sighting>,
    /// The number after the byte that asked last for a window.
    pub(crate) probed: Option<u64>,
    /// The latest acknowledgement of something new that ended a recovery, or was of one.
    recovered_at: Option<Instant>,
    /// TLP.end_seq (RFC 8985 section 7.1), of the last probe of new data.
    pub(crate) tlp_end_seq: u64,
    /// But for packets and bytes.
    pub(crate) counts: Counts,
    /// Blocks of SACK.
    blocks: [(u64, u64); 4],
}

#[derive(Debug)]
pub(crate) struct Half {
    began: bool,
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    pub(crate) sent: VecDeque<Sent>,
    /// Bytes of `sent` that are acknowledged selectively.
    pub(crate) sacked: u64,
    pub(crate) dup_acks: u32,
    /// The peer's window, scaled; unknown until an acknowledgement was seen.
    pub(crate) window: Option<u64>,
    /// As it stood in the header last.
    raw_window: u16,
    /// The largest window.
    widest: u64,
    /// Where the last began that was new.
    latest: u64,
    /// Where the last without text stood, and when it came by.
    pub(crate) bare: Option<(u64, Instant)>,
    /// When it had text last.
    pub(crate) text: Option<Sighting>,
    /// The timestamp of its last text.
    pub(crate) text_stamp: Option<u32>,
    /// The last thing that happened is that its window opened.
    pub(crate) updated: bool,
    /// The largest flight.
    pub(crate) most_out: u64,
    /// The peer's shift, if its SYN was seen.
    shift: Option<u8>,
    shift_counts: bool,
    /// The peer's MSS option.
    pub(crate) announced: Option<u16>,
    /// The largest segment that was seen and is no super-frame.
    pub(crate) largest: u16,
    /// The largest that arrived.
    largest_arrived: u64,
    pub(crate) rtt: RttEstimate,
    /// From the peer's packet to the first new data of ours that echoes it: the way from the capture
    /// to this sender and back.
    pub(crate) turn: Option<Duration>,
    /// How late its last packet came by, by its own timestamp.
    pub(crate) late: Duration,
    /// SRTT as this sender has it itself, and an acknowledgement that is under way to it.
    own: Option<Duration>,
    going: Option<stamps::Going>,
    /// The same each time that it had more to send.
    pub(crate) turns: RttEstimate,
    /// The last thing that happened to this sender: something left, or news of it came.
    pub(crate) last: Option<Sighting>,
    /// When news of its flight came last, and before that.
    pub(crate) heard: Option<Sighting>,
    pub(crate) heard_before: Option<Sighting>,
    /// When an acknowledgement of its flight came last.
    pub(crate) answered: Option<Instant>,
    /// What was sent when an acknowledgement let more out last: the window was full.
    pub(crate) limited_until: u64,
    /// This sender's latest timestamp, and when it was first seen.
    stamp: Option<(u32, Instant)>,
    /// The first that left with what it echoes now.
    echo: Option<stamps::Echo>,
    pub(crate) fin: Option<u64>,
    /// What its timestamps tell.
    pub(crate) clock: stamps::StampClock,
    /// When window was found closed.
    pub(crate) closed: Option<Sighting>,
    /// What was sent when something was sent again first: until that is acknowledged, what is acknowledged
    /// asks for more of it (RFC 6582, RFC 6675).
    recover: u64,
    /// The latest acknowledgement of something new ended such a recovery, or was of one.
    recovered: bool,
    /// Whether it has ever said PSH, and whether it said so with its last text.
    pushes: bool,
    pushed: bool,
    /// When something was acknowledged in order last: the retransmission timer began anew
    /// (RFC 6298 section 5.3).
    pub(crate) progress: Option<Instant>,
    /// When something was acknowledged last, in order or selectively: the probe timer began anew (RFC 8985
    /// section 7.2).
    pub(crate) news: Option<Instant>,
    /// What its first text echoes, or when it came, and how many packets were let out with it.
    pub(crate) first_flight: Option<(Result<u32, Instant>, u32)>,
    /// Acknowledgements that were of less than two segments though as much was out, and others.
    pub(crate) acks: [u32; 2],
    /// Timeouts in a row.
    pub(crate) timeouts: u16,
    /// Packets, those without text included, and bytes of text in them.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) rare: Box<Rare>,
    pub(crate) detail: Option<Box<Detail>>,
    most: usize,
}

impl Half {
    pub(crate) fn new(most: usize, detail: bool) -> Self {
        Self {
            began: false,
            una: ORIGIN,
            nxt: ORIGIN,
            sent: VecDeque::new(),
            sacked: 0,
            dup_acks: 0,
            window: None,
            raw_window: 0,
            widest: 0,
            most_out: 0,
            latest: ORIGIN,
            bare: None,
            text: None,
            text_stamp: None,
            updated: false,
            shift: None,
            shift_counts: false,
            announced: None,
            largest: 0,
            largest_arrived: 0,
            rtt: RttEstimate::default(),
            turn: None,
            turns: RttEstimate::default(),
            late: Duration::ZERO,
            own: None,
            going: None,
            last: None,
            heard: None,
            heard_before: None,
            answered: None,
            limited_until: 0,
            stamp: None,
            echo: None,
            fin: None,
            clock: stamps::StampClock::default(),
            closed: None,
            recover: 0,
            recovered: false,
            pushes: false,
            pushed: false,
            progress: None,
            news: None,
            first_flight: None,
            acks: [0; 2],
            timeouts: 0,
            packets: 0,
            bytes: 0,
            rare: Box::default(),
            detail: detail.then(Box::default),
            most,
        }
    }

    /// Whether more was written than has left: the last segment of what was written says PSH (RFC 9293
    /// section 3.9.1.2, MUST-61), and the last that left does not.
    pub(crate) const fn has_more(&self) -> bool {
        self.flight() > 0 && self.pushes && !self.pushed
    }

    /// Whether its last text says that more was written (RFC 9293 section 3.9.1.2, MUST-61).
    pub(crate) const fn is_unpushed(&self) -> bool {
        self.text.is_some() && !self.pushed
    }

    /// Whether its receiver is known to acknowledge every second segment only (RFC 5681 section 4.2).
    pub(crate) const fn is_acked_in_pairs(&self) -> bool {
        self.acks[1] > 0 && self.acks[1] >= self.acks[0]
    }

    /// Whether it is known to acknowledge each.
    const fn is_acked_each(&self) -> bool {
        self.acks[0] > self.acks[1]
    }

    /// A packet with text, which echoes this: was it let out with the first? What acknowledgements of that let
    /// out echoes them, and comes about a round trip later.
    pub(crate) fn begins(&mut self, now: Instant, echo: Option<u32>, rtt: Duration) {
        let (first, packets) = self.first_flight.get_or_insert((echo.ok_or(now), 0));
        let with = match *first {
            Ok(first) => echo == Some(first),
            Err(at) => now.since(at) < rtt.mul_ratio(3, 4),
        };
        *packets = packets.saturating_add(with.into());
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            packets: self.packets,
            bytes: self.bytes,
            ..self.rare.counts
        }
    }

    /// Asks for the memory of the flight: of what an acknowledgement takes off, and where more comes.
    #[inline]
    pub(crate) fn ask_for_flight(&self) {
        if let Some(first) = self.sent.front() {
            prefetch(first);
        }
        let (one, other) = self.sent.as_slices();
        prefetch_after(if other.is_empty() { one } else { other });
    }

    /// Whether what passed here tells that something of the flight is lost.
    pub(crate) const fn hears_of_loss(&self) -> bool {
        self.sacked > 0 || self.dup_acks > 0
    }

    /// Whether its sender may have heard of that when what it echoes now was new.
    pub(crate) fn had_heard_of_loss(&self) -> bool {
        self.echo.is_none_or(|echo| echo.troubled)
    }

    /// Whether something was sent again and not all that was out then is acknowledged.
    pub(crate) const fn recovers(&self) -> bool {
        self.una < self.recover
    }

    /// Whether what was heard, of which what came after `then` had not arrived yet, may have asked for
    /// something to be sent again.
    pub(crate) fn is_asked(&self, then: Instant) -> bool {
        let recovered = self.rare.recovered_at.is_some_and(|at| at >= then);
        self.sacked > 0 || self.dup_acks >= 3 || self.recovered || recovered
    }

    /// The place of `seq` in the stream.
    pub(crate) fn offset(&self, seq: Seq) -> u64 {
        let ahead = seq.0.wrapping_sub(self.una as u32) as i32;
        self.una.saturating_add_signed(ahead.into())
    }

    fn begin(&mut self, seq: Seq) {
        if !self.began {
            self.began = true;
            self.una = ORIGIN + u64::from(seq.0);
            self.nxt = self.una;
            if let Some(detail) = &mut self.detail {
                detail.meter.begin(self.una);
            }
        }
    }

    /// Bytes that were sent and not acknowledged.
    pub(crate) const fn flight(&self) -> u64 {
        self.nxt - self.una
    }

    pub(crate) fn mss(&self) -> u16 {
        match (self.announced, self.largest) {
            (_, 0) => self.announced.unwrap_or(DEFAULT_MSS),
            // What all segments of a long flow have; options make it less than announced.
            (Some(announced), largest) => {
                if largest >= announced.saturating_sub(40) {
                    largest
                } else {
                    announced.saturating_sub(12)
                }
            }
            (None, largest) => largest.max(DEFAULT_MSS),
        }
    }

    /// The window that `raw` means.
    pub(crate) fn scaled(&self, raw: u16) -> u64 {
        let shift = if self.shift_counts {
            self.shift.unwrap_or(0).min(14)
        } else {
            0
        };
        u64::from(raw) << shift
    }

    /// The peer's SYN said this of what it wants to receive.
    pub(crate) fn peer_syn(&mut self, mss: Option<u16>, shift: Option<u8>) {
        // Without the option it is the default, or the option was cut off.
        self.announced = mss;
        self.shift = shift;
    }

    /// Both SYNs are known: windows are scaled only if both want it.
    pub(crate) fn scaling(&mut self, both: bool) {
        self.shift_counts = both;
    }

    /// The peer acknowledges up to `ack`; `blocks` are its SACK blocks, `raw` its window.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn on_ack(
        &mut self,
        now: Sighting,
        ack: Seq,
        blocks: &[SackBlock],
        raw: u16,
        syn: bool,
        bare: bool,
    ) -> Acked {
        self.begin(ack);
        let mss = u64::from(self.mss());
        let mut result = Acked::default();
        let to = self.offset(ack);
        let before = self.window;
        let had = before.map(|window| (window.saturating_sub(self.flight()), self.una + window));
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        let window = if syn { raw.into() } else { self.scaled(raw) };
        if to > self.una {
            if to > self.nxt {
                self.rare.counts.unseen += to - self.nxt;
                self.nxt = to;
            }
            result.bytes = to - self.una;
            let pair = 2 * mss;
            if self.flight() >= pair {
                let acks = &mut self.acks[usize::from(result.bytes >= pair)];
                *acks = acks.saturating_add(1);
            }
            self.recovered = self.recovers() || self.sacked > 0 || self.dup_acks >= 3;
            if self.recovered {
                self.rare.recovered_at = Some(now.at);
            }
            self.una = to;
            self.dup_acks = 0;
            let mut newest: Option<Sent> = None;
            while let Some(front) = self.sent.front_mut() {
                if front.end > to {
                    if front.start < to {
                        front.start = to;
                    }
                    break;
                }
                let Some(sent) = self.sent.pop_front() else {
                    break;
                };
                if sent.sacked {
                    self.sacked = self.sacked.saturating_sub(sent.end - sent.start);
                } else {
                    self.largest_arrived = self.largest_arrived.max(sent.end - sent.start);
                    if newest.is_none_or(|n| sent.sends != 1 || n.sends == 1) {
                        newest = Some(sent);
                    }
                }
                result.packet = Some(sent.packet);
            }
            if self.sent.is_empty() {
                // The next begins where it is asked for.
                self.sent.clear();
            }
            if let Some(sent) = newest
                && sent.sends == 1
            {
                result.rtt = Some(now.at.since(sent.first));
            }
            if let Some(detail) = &mut self.detail {
                result.round = detail.meter.acked(now.at, to);
            }
        } else if to == self.una && bare && self.flight() > 0 && raw == self.raw_window && !syn {
            self.dup_acks = self.dup_acks.saturating_add(1);
            self.rare.counts.duplicate_acks += 1;
            result.duplicate = true;
        }
        self.on_sack(now, blocks, &mut result);
        if to >= self.una {
            self.window = Some(window);
            self.raw_window = raw;
            // What no sender uses for less than the end of its data (RFC 9293 section 3.8.6.2.1).
            self.widest = self.widest.max(window);
            let silly = mss.min(self.widest / 2).max(1);
            let shut = |w: u64| w < silly;
            match (before.map(shut), shut(window)) {
                (Some(false) | None, true) if !syn => {
                    self.closed = Some(now);
                }
                (Some(true), false) => result.opened = true,
                _ => {}
            }
            if let Some((room, end)) = had.filter(|_| bare && result.bytes > 0) {
                let more = (to + window).saturating_sub(end + result.bytes);
                result.widened = room < mss && more >= self.widest / 2;
            }
        }
        if let Some(sample) = result.rtt {
            self.rtt.add(sample);
            if let Some(detail) = &mut self.detail {
                detail.histogram.add(sample);
            }
        }
        if result.bytes > 0 {
            self.timeouts = 0;
            self.progress = Some(now.at);
        }
        if result.bytes > 0 || result.sacked > 0 {
            self.news = Some(now.at);
        }
        result
    }

    /// Notes this sender's timestamps, and what it echoes of the peer's: how long the way from here
    /// to this sender and back takes at most.
    pub(crate) fn on_stamp(
        &mut self,
        seen: Sighting,
        stamps: Timestamps,
        ack: Seq,
        peer: &mut Self,
        new_data: bool,
        (more, late): (Option<Duration>, Duration),
    ) {
        let now = seen.at;
        if self.stamp.is_none_or(|(value, _)| value != stamps.val) {
            self.stamp = Some((stamps.val, now));
        }
        self.late = late;
        let troubled = self.hears_of_loss();
        self.echo = Some(stamps::Echo::of(self.echo, seen, (stamps, ack), troubled));
        // Of two that are stamped alike nobody knows which one is echoed.
        if peer.echo.is_some_and(|echo| echo.heard == stamps.val) {
            peer.echo = None;
        }
        if let Some(going) = self.going.filter(|going| going.is_echoed(stamps)) {
            self.going = None;
            // Who has more to send sends, and data is acknowledged at once by who does not put that off.
            // What it waited on its way here is no part of what its sender waited.
            let took = now.since(going.at).saturating_sub(late);
            let soon = more.is_some_and(|release| took <= release);
            let at_once = soon || going.text && peer.is_acked_each();
            let near = match at_once {
                true => took,
                false => self.turn.unwrap_or_default(),
            };
            self.own = Some(smooth(self.own, going.far + near));
        }
        if let Some((value, at)) = peer.stamp
            && new_data
            && value == stamps.ecr
        {
            self.turned(now.since(at));
            if more.is_some() {
                self.turns.add(now.since(at));
            }
        }
    }

    /// An acknowledgement that measures a round trip came by: from here to there and back it was so long.
    pub(crate) fn goes(&mut self, now: Instant, far: Duration, stamps: Timestamps, text: bool) {
        let going = stamps::Going::new(now, far, stamps, text);
        if let Some(before) = self.going.replace(going) {
            let sample = before.far + self.turn.unwrap_or_default();
            self.own = Some(smooth(self.own, sample));
        }
    }

    /// SRTT as this sender has it.
    pub(crate) fn smoothed(&self, vantage: Vantage) -> Option<Duration> {
        let own = self.own.filter(|_| vantage != Vantage::Receiver);
        let turn = self.turn.unwrap_or_default();
        own.or(self.rtt.smoothed().map(|far| far + turn))
    }

    /// The first that left after the last that this sender had heard when a packet left that comes by now, if
    /// other packets tell: both echo the same timestamp and acknowledge the same (RFC 7323 section 4.3).
    pub(crate) fn silent_since(&self, stamps: Timestamps, ack: Seq) -> Option<Sighting> {
        let echo = self.echo.filter(|echo| echo.is_same(stamps, ack));
        echo.map(|echo| echo.since)
    }

    /// How long it has sent nothing by its own clock, if nothing that it heard after `alone` began a timer anew.
    pub(crate) fn ran(&self, stamps: Option<Timestamps>, alone: Sighting) -> Option<Duration> {
        self.text.filter(|text| text.at >= alone.at)?;
        let tick = self.clock.tick()?;
        let ticks = stamps?.val.wrapping_sub(self.text_stamp?);
        // To a hundredth. What left before its last text has come late.
        (100..=u32::MAX / 2)
            .contains(&ticks)
            .then(|| tick * u64::from(ticks))
    }

    pub(crate) fn turned(&mut self, took: Duration) {
        self.turn = Some(self.turn.map_or(took, |turn| turn.min(took)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::wire::Flags;

    /// A half that has sent segments of these sizes from `ORIGIN` on.
    fn sent(sizes: &[u32]) -> Half {
        let mut half = Half::new(100, false);
        let mut seq = Seq(0);
        for (n, size) in (1..).zip(sizes) {
            let now = Sighting {
                at: Instant::ZERO,
                packet: n,
            };
            half.on_data(now, seq, *size, *size, Flags::ACK);
            seq = Seq(seq.0 + size);
        }
        half
    }

    #[test]
    fn rfc2923_2_1_a_path_swallows_large_segments_if_smaller_ones_that_left_later_arrive() {
        let later = Sighting {
            at: Instant::ZERO + Duration::from_millis(200),
            packet: 9,
        };
        for (sizes, arrived, swallows) in [
            (&[1_000, 1_000, 300][..], 2_000..2_300, true),
            (&[1_000, 1_000, 300], 1_000..2_000, false),
            (&[1_000, 1_000, 300], 1_000..2_300, false),
            (&[300, 1_000, 300], 1_300..1_600, false),
        ] {
            let mut half = sent(sizes);
            let block = SackBlock {
                start: Seq(arrived.start),
                end: Seq(arrived.end),
            };
            half.on_ack(later, Seq(0), &[block], 60_000, false, true);
            let data = half.on_data(later, Seq(0), sizes[0], sizes[0], Flags::ACK);
            let Data::Retransmitted(again) = data else {
                panic!("{data:?}")
            };
            assert_eq!(half.swallows(&again), swallows, "{sizes:?} {arrived:?}");
        }
    }

    fn ack(half: &mut Half, us: u64, ack: u32) {
        let now = Sighting {
            at: Instant::ZERO + Duration::from_micros(us),
            packet: us,
        };
        half.on_ack(now, Seq(ack), &[], 60_000, false, true);
    }

    #[test]
    fn rfc9293_3_9_1_2_more_was_written_than_left_if_the_last_does_not_say_psh() {
        let mut half = sent(&[1_000]);
        assert!(!half.has_more(), "nobody knows whether it ever says PSH");
        let mut seq = Seq(1_000);
        for (flags, more) in [(Flags::ACK | Flags::PSH, false), (Flags::ACK, true)] {
            let now = Sighting {
                at: Instant::ZERO,
                packet: 9,
            };
            half.on_data(now, seq, 1_000, 1_000, flags);
            seq = Seq(seq.0 + 1_000);
            assert_eq!(half.has_more(), more);
        }
        let now = Sighting {
            at: Instant::ZERO,
            packet: 10,
        };
        half.on_data(now, seq, 1, 0, Flags::ACK | Flags::FIN);
        assert!(!half.has_more(), "nothing comes after the end");
        ack(&mut half, 1, 3_001);
        assert!(!half.has_more(), "nothing is out");
    }

    #[test]
    fn rfc5681_4_2_a_receiver_acknowledges_each_or_every_second() {
        for (each, pairs) in [(1, false), (2, true)] {
            let mut half = sent(&[1_000; 12]);
            for n in 1..4 {
                ack(&mut half, n, n as u32 * each * 1_000);
            }
            assert_eq!(half.is_acked_in_pairs(), pairs);
        }
    }

    #[test]
    fn a_flight_begins_with_what_echoes_the_same_or_comes_with_it() {
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        let rtt = Duration::from_micros(40);
        for (echoes, first) in [([Some(7), Some(7), Some(8)], 2), ([None; 3], 1)] {
            let mut half = Half::new(100, false);
            for (n, echo) in (0..).zip(echoes) {
                half.begins(at(n * 40), echo, rtt);
            }
            assert_eq!(half.first_flight.map(|(_, packets)| packets), Some(first));
        }
    }

    #[test]
    fn a_window_that_grows_by_more_than_was_acknowledged_had_not_been_read() {
        for (before, after, widened) in [
            (1_000, 60_000, true),
            (1_000, 1_000, false),
            // There was room all the time.
            (30_000, 60_000, false),
        ] {
            let mut half = sent(&[1_000]);
            half.widest = 60_000;
            let now = |packet| Sighting {
                at: Instant::ZERO,
                packet,
            };
            half.on_ack(now(2), Seq(0), &[], before, false, true);
            let acked = half.on_ack(now(3), Seq(1_000), &[], after, false, true);
            assert_eq!(acked.widened, widened, "{before} {after}");
        }
    }

    #[test]
    fn rfc6582_what_is_acknowledged_in_a_recovery_asks_for_more_of_it() {
        let mut half = sent(&[1_000; 4]);
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        ack(&mut half, 10, 1_000);
        assert!(!half.is_asked(at(10)));
        let again = Sighting {
            at: at(20),
            packet: 9,
        };
        half.on_data(again, Seq(1_000), 1_000, 1_000, Flags::ACK);
        assert!(half.recovers());
        ack(&mut half, 30, 2_000);
        assert!(half.is_asked(at(30)));
        ack(&mut half, 40, 4_000);
        assert!(!half.recovers() && half.is_asked(at(40)));
        half.on_data(again, Seq(4_000), 1_000, 1_000, Flags::ACK);
        ack(&mut half, 50, 5_000);
        assert!(!half.is_asked(at(50)), "that is over");
        assert!(half.is_asked(at(35)), "its sender has not heard that yet");
    }

    #[test]
    fn a_copy_with_new_text_makes_that_the_last() {
        let mut half = sent(&[1_000]);
        let again = Sighting {
            at: Instant::ZERO,
            packet: 2,
        };
        half.on_data(again, Seq(0), 1_500, 1_500, Flags::ACK);
        let [first, last, end] = [0, 1_000, 1_500].map(|at| ORIGIN + at);
        assert!(half.is_last(last, end));
        assert!(!half.is_last(first, end), "that is two");
    }

    #[test]
    fn what_left_earlier_and_comes_later_tells_nothing_of_a_timer() {
        let at = |us: u64| Instant::ZERO + Duration::from_micros(us);
        let seen = |us| Sighting {
            at: at(us),
            packet: us,
        };
        let mut half = Half::new(100, false);
        for us in (0..1_000).step_by(20) {
            half.clock.lateness(at(us), us as u32);
        }
        (half.text, half.text_stamp) = (Some(seen(1_000)), Some(1_000));
        let ran = |val| half.ran(Some(Timestamps { val, ecr: 0 }), seen(500));
        assert_eq!(ran(3_000), Some(Duration::from_micros(2_000)));
        assert_eq!(ran(1_099), None, "less than a hundred ticks");
        assert_eq!(ran(990), None);
    }

    #[test]
    fn rfc6298_2_a_sender_measures_to_itself_and_not_to_the_capture() {
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        let us = Duration::from_micros;
        let stamps = |val, ecr| Timestamps { val, ecr };
        let half = || {
            let mut half = Half::new(100, false);
            half.turned(us(30));
            half
        };
        let (far, guessed) = (us(200), us(530));
        for (text, acks, had_more, echoed, (after, late), near) in [
            // What it has it sends at once.
            (false, [0, 0], true, 7, (40, 0), Some(40)),
            // What waited on its way here as well.
            (false, [0, 0], true, 7, (8_040, 8_000), Some(40)),
            // What comes later or from its application says nothing: it is near at least so much.
            (false, [0, 0], true, 7, (900, 0), Some(30)),
            (false, [0, 0], false, 7, (40, 0), Some(30)),
            // Data is acknowledged at once, unless that is put off, or may wait for an application's answer.
            (true, [1, 0], false, 7, (900, 0), Some(900)),
            (true, [0, 1], false, 7, (900, 0), Some(30)),
            (true, [0, 0], false, 7, (5_000, 0), Some(30)),
            // It has not heard it.
            (false, [0, 0], true, 6, (40, 0), None),
        ] {
            let (mut half, mut peer) = (half(), Half::new(100, false));
            peer.acks = acks;
            half.rtt.add(us(500));
            half.goes(at(1_000), far, stamps(7, 0), text);
            assert_eq!(half.smoothed(Vantage::Middle), Some(guessed));
            let seen = Sighting {
                at: at(1_000 + after),
                packet: 9,
            };
            let more = had_more.then_some(us(160));
            half.on_stamp(
                seen,
                stamps(50, echoed),
                Seq(0),
                &mut peer,
                false,
                (more, us(late)),
            );
            let own = near.map_or(guessed, |near| far + us(near));
            assert_eq!(half.smoothed(Vantage::Middle), Some(own), "{after}");
            assert_eq!(half.smoothed(Vantage::Receiver), Some(guessed));
        }
        // Nothing that it sends tells when it heard the first.
        let mut half = half();
        half.goes(at(0), far, stamps(7, 0), false);
        assert_eq!(half.smoothed(Vantage::Middle), None);
        half.goes(at(100), us(900), stamps(8, 0), false);
        assert_eq!(half.smoothed(Vantage::Middle), Some(us(230)));
    }
}
