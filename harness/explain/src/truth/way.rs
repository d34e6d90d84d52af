//! What happens to packets between the ends, as the network tells it: what arrives how late and why,
//! what vanishes, what a receiver offers.

use super::Truth;
use crate::gap::Cause;
use crate::half::RttEstimate;
use narrows::trace::Held;
use narrows::{Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// A segment as the network has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// Its first sequence number.
    pub seq: u32,
    /// Bytes of text.
    pub len: u32,
    /// What it acknowledges.
    pub ack: u32,
    /// The window, as in the header.
    pub window: u16,
    /// Of a SYN: its window scale, 0 if it has none.
    pub scale: Option<u8>,
}

impl Passing {
    fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

/// What is known of one end of a connection.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// When it sent last, and when something new was acknowledged last.
    left: Instant,
    progress: Instant,
    /// What left and is not acknowledged: the number after it, and when it left first; nothing is
    /// known of when what was sent again did.
    out: VecDeque<(u32, Option<Instant>)>,
    rtt: RttEstimate,
    /// Something of its was too long for a link since the last timeout.
    pub(super) swallowed: bool,
    /// The number after the first that was, until all is acknowledged, and the least length that was.
    too_long: Option<(u32, u32)>,
    /// Something of its was dropped on its way, and not all is acknowledged since.
    pub(super) lost: bool,
    /// The number after what its NIC refused last and has not taken since.
    refused: Option<u32>,
    /// Something that comes after that has left.
    shows: bool,
    /// Ports that its packets pass.
    ports: Vec<u32>,
    /// What is in the receive ring of its host.
    ring: VecDeque<(u32, Instant)>,
    /// For how long what it took last had been there.
    waited: Duration,
    /// The shift of the windows that it offers.
    shift: u8,
    /// The window that it offered last was closed.
    closed: bool,
    /// When it offered an open one after that.
    opened: Option<Instant>,
}

/// What a host's own refusal is to a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There was none.
    No,
    /// There was, and what comes later has left.
    Shows,
    /// There was, and it was the last: nothing that left tells of it.
    Hidden,
}

/// Less than this is what a closed window has; every sender holds back for less.
const SILLY: u64 = 1_000;
/// What waits longer in a ring than any card is set to wait has a host that is busy.
const LONGEST: Duration = Duration::from_millis(5);
/// Pauses that are remembered of a port.
const PAUSES: usize = 64;
/// Segments in a receive ring that are remembered.
const RING: usize = 4_096;

const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Way {
    fn leaves(&mut self, at: Instant, segment: &Passing) {
        if segment.len == 0 {
            return;
        }
        let end = segment.end();
        if self.out.back().is_some_and(|(last, _)| !before(*last, end)) {
            // Which copy is acknowledged nobody knows (Karn).
            let again = self.out.iter_mut();
            again
                .filter(|(out, _)| before(segment.seq, *out) && !before(end, *out))
                .for_each(|(_, left)| *left = None);
        } else {
            self.out.push_back((end, Some(at)));
        }
        match self.refused {
            // It has left at last.
            Some(refused) if before(segment.seq, refused) && !before(end, refused) => {
                self.refused = None;
            }
            Some(refused) if !before(segment.seq, refused) => self.shows = true,
            _ => {}
        }
    }

    /// Whether `ack` acknowledges something new.
    fn acknowledged(&mut self, at: Instant, ack: u32) -> bool {
        let (mut newest, mut once) = (None, true);
        while let Some((end, left)) = self.out.front().copied()
            && !before(ack, end)
        {
            newest = Some(left);
            once &= left.is_some();
            self.out.pop_front();
        }
        if self.refused.is_some_and(|refused| !before(ack, refused)) {
            self.refused = None;
        }
        if self.out.is_empty() {
            self.lost = false;
            self.too_long = None;
        }
        if let Some(Some(left)) = newest.filter(|_| once) {
            self.rtt.add(at.since(left));
        }
        newest.is_some()
    }

    /// Whether anything has left after what was too long for a link that is not.
    pub(super) fn passes(&self) -> bool {
        let Some((mut last, least)) = self.too_long else {
            return false;
        };
        for (end, _) in &self.out {
            if before(last, *end) {
                if end.wrapping_sub(last) < least {
                    return true;
                }
                last = *end;
            }
        }
        false
    }

    pub(super) fn refusal(&self) -> Refused {
        match (self.refused, self.shows) {
            (None, _) => Refused::No,
            (Some(_), true) => Refused::Shows,
            (Some(_), false) => Refused::Hidden,
        }
    }

    /// For how long what arrives now had been in the ring.
    fn takes(&mut self, at: Instant, segment: &Passing) {
        let mut first = None;
        // Receive offload may have made one of several.
        let end = segment.seq.wrapping_add(segment.len.max(1));
        while let Some((seq, since)) = self.ring.front().copied()
            && before(seq, end)
        {
            first.get_or_insert(since);
            self.ring.pop_front();
            if segment.len == 0 {
                break;
            }
        }
        self.waited = first.map_or(Duration::ZERO, |since| at.since(since));
    }
}

/// When ports were told to pause.
#[derive(Debug, Default)]
pub(super) struct Pauses(HashMap<u32, VecDeque<(Instant, Instant)>>);

impl Pauses {
    fn obeyed(&mut self, at: Instant, port: u32, span: Duration) {
        let spans = self.0.entry(port).or_default();
        // What a later frame says takes the place of what an earlier one did.
        if let Some((_, until)) = spans.back_mut() {
            *until = (*until).min(at);
        }
        if !span.is_zero() {
            spans.push_back((at, at + span));
        }
        if spans.len() > PAUSES {
            spans.pop_front();
        }
    }

    /// For how long a port stood still in a stretch of time.
    fn within(&self, port: u32, start: Instant, end: Instant) -> Duration {
        let spans = self.0.get(&port).into_iter().flatten();
        let parts = spans.map(|(from, until)| (*until).min(end).since((*from).max(start)));
        parts.fold(Duration::ZERO, |all, part| all + part)
    }
}

impl Truth {
    /// The end `ends` gave a segment to its NIC, the port `port`.
    pub fn sent(&mut self, at: Instant, ends: [SocketAddr; 2], port: u32, segment: &Passing) {
        if segment.len > 0 {
            self.shut(at, ends);
        }
        let way = &mut self.ends.entry(ends).or_default().way;
        way.left = at;
        if let Some(scale) = segment.scale {
            way.shift = scale.min(14);
            way.leaves(at, &Passing { len: 1, ..*segment });
            return;
        }
        if way.ports.is_empty() {
            way.ports.push(port);
        }
        way.leaves(at, segment);
        let closed = u64::from(segment.window) << way.shift < SILLY;
        match (way.closed, closed) {
            (_, true) => way.opened = None,
            (true, false) => way.opened = Some(at),
            (false, false) => {}
        }
        way.closed = closed;
    }

    /// The NIC of the end `ends` refused a segment.
    pub fn refused(&mut self, ends: [SocketAddr; 2], segment: &Passing) {
        let way = &mut self.ends.entry(ends).or_default().way;
        if segment.len > 0 {
            (way.refused, way.shows) = (Some(segment.end()), false);
        }
    }

    /// A segment of the end `ends` is in the queue of `port`.
    pub fn queued(&mut self, ends: [SocketAddr; 2], port: u32) {
        let ports = &mut self.ends.entry(ends).or_default().way.ports;
        if ports.len() < 16 && !ports.contains(&port) {
            ports.push(port);
        }
    }

    /// A segment of the end `ends` was dropped on its way, or was too long for a link.
    pub fn dropped(&mut self, ends: [SocketAddr; 2], segment: &Passing, too_long: bool) {
        let way = &mut self.ends.entry(ends).or_default().way;
        way.lost |= segment.len > 0;
        if too_long {
            way.swallowed = true;
            let least = way
                .too_long
                .map_or(segment.len, |(_, len)| len.min(segment.len));
            let first = way.too_long.map_or(segment.end(), |(first, _)| first);
            way.too_long = Some((first, least));
        }
    }

    /// `port` begins no frame for `span`; if that is nothing, it goes on.
    pub fn paused(&mut self, at: Instant, port: u32, span: Duration) {
        self.pauses.obeyed(at, port, span);
    }

    /// A segment is in the receive ring of the end `ends`, its own address first.
    pub fn reached(&mut self, at: Instant, ends: [SocketAddr; 2], segment: &Passing) {
        let ring = &mut self.ends.entry(ends).or_default().way.ring;
        if ring.len() == RING {
            ring.pop_front();
        }
        ring.push_back((segment.seq, at));
    }

    /// A segment arrived at the end `ends`, its own address first.
    pub fn arrived(&mut self, at: Instant, ends: [SocketAddr; 2], segment: &Passing) {
        self.shut(at, ends);
        self.late(at, ends, segment);
        let me = self.ends.entry(ends).or_default();
        me.delayed = None;
        me.arrived = at;
        if segment.len == 0 {
            me.acknowledged = at;
        }
    }

    /// The end `ends` had more to send, and waited for what arrives now: was that long?
    fn late(&mut self, at: Instant, ends: [SocketAddr; 2], segment: &Passing) {
        let me = self.ends.entry(ends).or_default();
        let way = &mut me.way;
        way.takes(at, segment);
        let (usual, sent) = (way.rtt.timeout(), !way.out.is_empty());
        // Waiting for what was sent again is part of the loss.
        let again = way.out.iter().any(|(_, left)| left.is_none());
        let start = me.last.max(way.progress).max(way.left);
        if !way.acknowledged(at, segment.ack) {
            return;
        }
        way.progress = at;
        let Some((held, since)) = me.held else {
            return;
        };
        let start = start.max(since);
        if !sent || again || !held.has_more() || usual.is_none_or(|usual| at.since(start) <= usual)
        {
            return;
        }
        let length = at.since(start);
        let own = way.waited;
        let ports = way.ports.clone();
        let other = self.ends.get(&[ends[1], ends[0]]);
        let waited = own + other.map_or(Duration::ZERO, |end| end.way.waited);
        let all = ports
            .iter()
            .chain(other.map_or(&[][..], |end| &end.way.ports));
        let paused = all.map(|port| self.pauses.within(*port, start, at)).max();
        let cause = match () {
            () if paused.unwrap_or_default() * 2 >= length => Cause::Pause,
            () if waited * 2 >= length && waited <= LONGEST => Cause::Coalescing,
            () => Cause::PacketDelay,
        };
        self.ends.entry(ends).or_default().last = at;
        self.add(ends, start, at, cause);
    }

    /// Something happens to the end `ends`, which may have waited for its peer's window with nothing
    /// but a probe outstanding. If the peer had said earlier that it is open, that was lost.
    pub(super) fn shut(&mut self, at: Instant, ends: [SocketAddr; 2]) {
        let me = self.ends.entry(ends).or_default();
        let way = &me.way;
        let Some((Held::ReceiveWindow, since)) = me.held else {
            return;
        };
        if way.out.len() > 1 {
            return;
        }
        let start = since.max(me.last).max(me.arrived).max(way.left);
        let peer = self.ends.get(&[ends[1], ends[0]]);
        let said = peer.and_then(|end| end.way.opened);
        let rtt = self.ends.get(&ends).and_then(|end| end.way.rtt.min);
        let lost = said.filter(|said| at.since(*said) > rtt.unwrap_or_default() * 2);
        let closed = lost.map_or(at, |said| said.max(start));
        self.add(ends, start, closed, Cause::WindowClosed);
        self.add(ends, closed, at, Cause::WindowUpdateLate);
    }
}

/// Whether an end has more to send than what left, for a reason that an acknowledgement ends.
trait HasMore {
    fn has_more(&self) -> bool;
}

impl HasMore for Held {
    fn has_more(&self) -> bool {
        match self {
            Self::CongestionWindow | Self::PacketWindow | Self::ReceiveWindow | Self::Nagle => true,
            Self::Idle | Self::Sent => false,
        }
    }
}
