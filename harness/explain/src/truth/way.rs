//! What happens to packets between the ends, as the network tells it: what arrives how late and why,
//! what vanishes, what a receiver offers.

use super::outstanding::{Outstanding, before};
use super::{EndId, Question, Truth};
use crate::gap::Cause;
use crate::half::RttEstimate;
use foldhash::fast::RandomState;
use narrows::trace::Held;
use narrows::{Duration, Instant};
use std::collections::{HashMap, VecDeque};

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
    /// The first of what it acknowledges selectively, which is the latest that came (RFC 2018 section 4).
    pub sacked: Option<(u32, u32)>,
}

impl Passing {
    fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

/// What is known of one end of a connection.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// When it sent last, and when news of its flight came last.
    left: Instant,
    news: Instant,
    out: Outstanding,
    /// What was out when something was sent again first, until all of it is acknowledged (RFC 6582).
    recover: Option<u32>,
    /// The largest segment that left.
    largest: u32,
    rtt: RttEstimate,
    /// What was acknowledged last, and the window beside that, as in the header.
    told: Option<(u32, u16)>,
    /// Something of its was dropped on its way, and not all is acknowledged since.
    pub(super) lost: bool,
    /// Ports that its packets pass.
    ports: Vec<u32>,
    /// For how long what it took last had been in the receive ring of its host.
    waited: Duration,
    /// Since when there has been something here that is not acknowledged.
    unanswered: Option<Instant>,
    /// Acknowledgements that left and were put off: of what, and for how long that had been here.
    answers: VecDeque<(u32, Duration)>,
    /// The shift of the windows that it offers, and the widest.
    shift: u8,
    widest: u64,
    /// The window that it offered last was closed.
    closed: bool,
    /// When it offered an open one after that.
    opened: Option<Instant>,
    rare: Option<Box<Rare>>,
}

/// What few ends come to have.
#[derive(Debug, Default)]
struct Rare {
    /// Something of its was too long for a link since the last timeout.
    swallowed: bool,
    /// The number after the first that was, until all is acknowledged, and the least length that was.
    too_long: Option<(u32, u32)>,
    /// What its NIC refused and has not taken since: its numbers.
    refused: VecDeque<(u32, u32)>,
    /// What is in the receive ring of its host.
    ring: VecDeque<(u32, Instant)>,
    /// The least time that any of its segments was on its way, where questions are wanted.
    quickest: Option<Duration>,
    /// The last that was asked of it and is not answered: when that left, and how long it was in queues.
    question: Option<(Instant, Duration)>,
}

/// What a host's own refusal is to a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There was none.
    No,
    /// There was, and what comes later has left.
    Shows,
    /// There was, and it was the last, or a copy of what had left before: nothing that left tells of it.
    Hidden,
}

/// The largest segment of who has sent none (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u32 = 536;
/// What waits longer in a ring than any card is set to wait has a host that is busy.
const LONGEST: Duration = Duration::from_millis(5);
/// Pauses that are remembered of a port.
const PAUSES: usize = 64;
/// Segments in a receive ring, and acknowledgements that were put off, that are remembered.
const RING: usize = 4_096;
/// Refused segments that are remembered.
const REFUSED: usize = 64;

impl Way {
    fn leaves(&mut self, at: Instant, segment: &Passing) {
        if segment.len == 0 {
            return;
        }
        let (seq, end) = (segment.seq, segment.end());
        self.largest = self.largest.max(segment.len);
        let last = self.out.end();
        if last.is_some_and(|last| before(seq, last)) {
            self.recover = self.recover.or(last);
            self.out.leaves_again((seq, end));
        }
        let una = self.told.map_or(seq, |(una, _)| una);
        self.out.leaves(at, una, (seq, end));
        // It has left at last.
        if let Some(rare) = &mut self.rare {
            rare.refused
                .retain(|(_, refused)| !before(seq, *refused) || before(end, *refused));
        }
    }

    /// A segment of its arrives: when it left, and for how long it was in queues. Of what was sent again nobody
    /// knows which copy it is.
    fn comes(&mut self, at: Instant, segment: &Passing) -> Option<(Instant, Duration)> {
        let left = self.out.holding(segment.end())?.left?;
        let took = at.since(left);
        let least = &mut self.rare.get_or_insert_default().quickest;
        let quickest = least.map_or(took, |quickest| quickest.min(took));
        *least = Some(quickest);
        Some((left, took.saturating_sub(quickest)))
    }

    /// It offers this window, as in the header, to a peer whose largest segment was `largest`.
    fn offers(&mut self, at: Instant, window: u16, largest: u32) {
        // Every sender holds back for less (RFC 9293 section 3.8.6.2.1).
        let window = u64::from(window) << self.shift;
        self.widest = self.widest.max(window);
        let closed = window < u64::from(largest.max(DEFAULT_MSS)).min(self.widest / 2);
        match (self.closed, closed) {
            (_, true) => self.opened = None,
            (true, false) => self.opened = Some(at),
            (false, false) => {}
        }
        self.closed = closed;
    }

    /// Whether a segment is news of what is out: it acknowledges something new, selectively, or what the one
    /// before did (RFC 5681 section 2).
    fn hears(&mut self, at: Instant, segment: &Passing) -> bool {
        // A SYN that is no answer acknowledges nothing.
        if segment.scale.is_some() && segment.ack == 0 {
            return false;
        }
        let told = Some((segment.ack, segment.window));
        let repeats = self.told == told && segment.len == 0 && !self.out.is_empty();
        if self.told.is_none_or(|(ack, _)| !before(segment.ack, ack)) {
            self.told = told;
        }
        let acknowledged = self.acknowledged(at, segment.ack);
        let sacked = self.selectively(at, segment.sacked);
        acknowledged || sacked || repeats
    }

    /// Whether something new is acknowledged selectively.
    fn selectively(&mut self, at: Instant, block: Option<(u32, u32)>) -> bool {
        let Some(block) = block else {
            return false;
        };
        let mut newest = None;
        for out in self.out.within(block).filter(|out| !out.sacked) {
            out.sacked = true;
            newest = Some(out.left);
        }
        if let Some(Some(left)) = newest {
            self.rtt.add(at.since(left));
        }
        newest.is_some()
    }

    /// Whether `ack` acknowledges something new.
    fn acknowledged(&mut self, at: Instant, ack: u32) -> bool {
        let (mut new, mut newest, mut once) = (false, None, true);
        while let Some(out) = self.out.take_acknowledged(ack) {
            if !out.sacked {
                newest = Some(out.left);
                once &= out.left.is_some();
            }
            new = true;
        }
        let all = self.out.is_empty();
        self.lost &= !all;
        if let Some(rare) = &mut self.rare {
            rare.refused.retain(|(_, refused)| before(ack, *refused));
            rare.too_long = rare.too_long.filter(|_| !all);
        }
        self.recover = self.recover.filter(|recover| before(ack, *recover));
        if let Some(Some(left)) = newest.filter(|_| once) {
            self.rtt.add(at.since(left));
        }
        new
    }

    #[cfg(test)]
    pub(super) const fn rtt(&self) -> RttEstimate {
        self.rtt
    }

    /// Whether what its timer waits for is on its way or has arrived.
    pub(super) fn lost_nothing(&self) -> bool {
        self.out.first().is_some_and(|first| first.copies > 0)
    }

    /// Whether anything has left after what was too long for a link that is not.
    pub(super) fn passes(&self) -> bool {
        let too_long = self.rare.as_ref().and_then(|rare| rare.too_long);
        too_long.is_some_and(|(last, least)| {
            let mut later = self.out.iter().filter(|out| before(last, out.end));
            later.any(|out| out.end.wrapping_sub(out.seq) < least)
        })
    }

    /// Whether its NIC refused what its timer waits for.
    pub(super) fn refusal(&self) -> Refused {
        let una = self.told.map(|(ack, _)| ack);
        let head = |(seq, end): &&(u32, u32)| {
            una.is_some_and(|una| !before(una, *seq) && before(una, *end))
        };
        let refused = self.rare.iter().flat_map(|rare| &rare.refused);
        let Some((seq, end)) = refused.into_iter().find(head) else {
            return Refused::No;
        };
        let earlier = self
            .out
            .iter()
            .any(|out| before(*seq, out.end) && !before(*end, out.end));
        let later = self.out.end().is_some_and(|last| before(*end, last));
        match later && !earlier {
            true => Refused::Shows,
            false => Refused::Hidden,
        }
    }

    /// Whether something of its was too long for a link since it was asked last.
    pub(super) fn swallows(&mut self) -> bool {
        let rare = self.rare.as_mut();
        rare.is_some_and(|rare| std::mem::take(&mut rare.swallowed))
    }

    /// It acknowledges this, which was put off if anything has been here for a while.
    fn answers(&mut self, at: Instant, ack: u32) {
        let here = self.unanswered.take().map(|since| at.since(since));
        let Some(here) = here.filter(|here| !here.is_zero()) else {
            return;
        };
        if self.answers.len() == RING {
            self.answers.pop_front();
        }
        self.answers.push_back((ack, here));
    }

    /// For how long it had what it acknowledges with what now arrives at its peer.
    fn put_off(&mut self, ack: u32) -> Duration {
        if self.answers.is_empty() {
            return Duration::ZERO;
        }
        // As far as nothing is lost or comes in another order, it is the first.
        let mut answers = self.answers.iter();
        let Some(before) = answers.position(|(of, _)| *of == ack) else {
            return Duration::ZERO;
        };
        if before > 0 {
            self.answers.drain(..before);
        }
        let answer = self.answers.pop_front();
        answer.map_or(Duration::ZERO, |(_, here)| here)
    }

    /// For how long what arrives now had been in the ring.
    fn takes(&mut self, at: Instant, segment: &Passing) {
        let Some(rare) = &mut self.rare else {
            return;
        };
        let mut first = None;
        // Receive offload may have made one of several.
        let end = segment.seq.wrapping_add(segment.len.max(1));
        while let Some((seq, since)) = rare.ring.front().copied()
            && before(seq, end)
        {
            first.get_or_insert(since);
            rare.ring.pop_front();
            if segment.len == 0 {
                break;
            }
        }
        self.waited = first.map_or(Duration::ZERO, |since| at.since(since));
    }
}

/// When ports were told to pause.
#[derive(Debug, Default)]
pub(super) struct Pauses(HashMap<u32, VecDeque<(Instant, Instant)>, RandomState>);

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
    /// The end `end` gave a segment to its NIC, the port `port`.
    pub fn sent(&mut self, at: Instant, end: EndId, port: u32, segment: &Passing) {
        if segment.len > 0 {
            self.shut(at, end);
        }
        let (me, peer) = self.ends.pair(end);
        let largest = peer.way.largest;
        let way = &mut me.way;
        if segment.len > 0 {
            me.goes_on = None;
        }
        // An acknowledgement of its own shows when the question was there.
        let question = way.rare.as_mut().and_then(|rare| rare.question.take());
        way.left = at;
        way.answers(at, segment.ack);
        if let Some(scale) = segment.scale {
            way.shift = scale.min(14);
            way.leaves(at, &Passing { len: 1, ..*segment });
        } else {
            if way.ports.is_empty() {
                way.ports.push(port);
            }
            way.leaves(at, segment);
            way.offers(at, segment.window, largest);
        }
        if let Some((asked, waited)) = question.filter(|_| segment.len > 0) {
            self.answered(at, end, asked, waited);
        }
    }

    /// The end `end` answers a question that was `asked` of it and `waited` on its way.
    #[cold]
    fn answered(&mut self, at: Instant, end: EndId, asked: Instant, waited: Duration) {
        if let Some(questions) = &mut self.questions
            && waited > self.threshold.floor
        {
            questions.push(Question {
                ends: self.ends.name(end),
                asked,
                answered: at,
                waited,
            });
        }
    }

    /// The NIC of the end `end` refused a segment.
    pub fn refused(&mut self, at: Instant, end: EndId, segment: &Passing) {
        let me = &mut self.ends[end];
        if segment.len > 0 {
            me.goes_on = me.timeout.filter(|gap| self.gaps[*gap].end == at);
            let refused = &mut me.way.rare.get_or_insert_default().refused;
            if refused.len() == REFUSED {
                refused.pop_front();
            }
            refused.push_back((segment.seq, segment.end()));
        }
    }

    /// A segment of the end `end` is in the queue of `port`.
    pub fn queued(&mut self, end: EndId, port: u32) {
        let ports = &mut self.ends[end].way.ports;
        if ports.len() < 16 && !ports.contains(&port) {
            ports.push(port);
        }
    }

    /// A segment of the end `end` was dropped on its way, or was too long for a link.
    pub fn dropped(&mut self, end: EndId, segment: &Passing, too_long: bool) {
        let way = &mut self.ends[end].way;
        way.lost |= segment.len > 0;
        for out in way.out.within((segment.seq, segment.end())) {
            out.copies = out.copies.saturating_sub(1);
        }
        if too_long {
            let rare = way.rare.get_or_insert_default();
            rare.swallowed = true;
            let (first, least) = rare.too_long.unwrap_or((segment.end(), segment.len));
            rare.too_long = Some((first, least.min(segment.len)));
        }
    }

    /// `port` begins no frame for `span`; if that is nothing, it goes on.
    pub fn paused(&mut self, at: Instant, port: u32, span: Duration) {
        self.pauses.obeyed(at, port, span);
    }

    /// A segment is in the receive ring of the end `end`, its own address first.
    pub fn reached(&mut self, at: Instant, end: EndId, segment: &Passing) {
        let way = &mut self.ends[end].way;
        let ring = &mut way.rare.get_or_insert_default().ring;
        if ring.len() == RING {
            ring.pop_front();
        }
        ring.push_back((segment.seq, at));
    }

    /// A segment arrived at the end `end`, its own address first.
    pub fn arrived(&mut self, at: Instant, end: EndId, segment: &Passing) {
        let shut = self.shut(at, end);
        self.late(at, end, segment, shut);
        let syn = segment.scale.is_some();
        if self.questions.is_some() && (segment.len > 0 || syn) {
            let len = segment.len.max(1);
            let (me, peer) = self.ends.pair(end);
            let comes = peer.way.comes(at, &Passing { len, ..*segment });
            let rare = me.way.rare.get_or_insert_default();
            rare.question = comes.filter(|_| !syn);
        }
        let me = &mut self.ends[end];
        me.delayed = None;
        me.arrived = at;
        if segment.len == 0 {
            me.acknowledged = at;
        } else {
            me.way.unanswered.get_or_insert(at);
        }
    }

    /// The end `end` had more to send, and waited for what arrives now: was that long? If it waited for its
    /// peer's window, which was `shut`, that is what it waited for.
    fn late(&mut self, at: Instant, end: EndId, segment: &Passing, shut: bool) {
        let (me, peer) = self.ends.pair(end);
        let put_off = peer.way.put_off(segment.ack);
        let way = &mut me.way;
        way.takes(at, segment);
        let sent = !way.out.is_empty();
        // Waiting for what was sent again is part of the loss.
        let again = way.recover.is_some();
        let waits = me
            .held
            .filter(|(held, _)| sent && !again && !shut && has_more(*held));
        let waited = waits.map(|(held, since)| {
            let start = me.last.max(way.news).max(way.left).max(since);
            (held, start, way.rtt.timeout(), way.rtt.min())
        });
        if !way.hears(at, segment) {
            return;
        }
        way.news = at;
        let Some((held, start, usual, least)) = waited else {
            return;
        };
        let length = at.since(start);
        let within = |usual: Duration| length <= usual;
        // Who has sent its window is silent for a round trip; not so long if the window were what it was.
        if least.is_none_or(|least| within(least * 2)) || usual.is_none_or(within) {
            if !(me.lowered && is_of_the_window(held)) {
                return;
            }
            if let Some(gap) = self.add_above_floor(end, start, at, Cause::LocalDrop) {
                // No packet shows what the window was.
                self.gaps[gap].counts = false;
            }
            return;
        }
        let own = way.waited;
        let (way, other) = (&self.ends[end].way, &self.ends[end.peer()].way);
        let waited = own + other.waited;
        let all = way.ports.iter().chain(&other.ports);
        let paused = all.map(|port| self.pauses.within(*port, start, at)).max();
        let cause = match () {
            // It came with what the peer wrote, and not sooner: what was waited for is that it writes.
            () if segment.len > 0 && put_off * 2 >= length => return,
            () if paused.unwrap_or_default() * 2 >= length => Cause::Pause,
            () if waited * 2 >= length && waited <= LONGEST => Cause::Coalescing,
            () => Cause::PacketDelay,
        };
        self.ends[end].last = at;
        self.add(end, start, at, cause);
    }

    /// Something happens to the end `end`, which may have waited for its peer's window with nothing
    /// but a probe outstanding. If the peer had said earlier that it is open, that was lost.
    /// Whether that was a gap.
    #[inline]
    pub(super) fn shut(&mut self, at: Instant, end: EndId) -> bool {
        match self.ends[end].held {
            Some((Held::ReceiveWindow, since)) => self.shut_since(at, end, since),
            _ => false,
        }
    }

    #[inline(never)]
    fn shut_since(&mut self, at: Instant, end: EndId, since: Instant) -> bool {
        let me = &self.ends[end];
        let way = &me.way;
        if way.out.len() > 1 {
            return false;
        }
        let start = since.max(me.last).max(me.arrived).max(way.left);
        let said = self.ends[end.peer()].way.opened;
        let rtt = way.rtt.min();
        let lost = said.filter(|said| at.since(*said) > rtt.unwrap_or_default() * 2);
        let closed = lost.map_or(at, |said| said.max(start));
        let gaps = [
            self.add(end, start, closed, Cause::WindowClosed),
            self.add(end, closed, at, Cause::WindowUpdateLate),
        ];
        gaps.iter().any(Option::is_some)
    }
}

/// Whether an end has more to send than what left, for a reason that an acknowledgement ends.
const fn has_more(held: Held) -> bool {
    match held {
        Held::CongestionWindow | Held::PacketWindow | Held::ReceiveWindow | Held::Nagle => true,
        Held::Idle | Held::Sent => false,
    }
}

/// Whether what holds an end back is its congestion window.
const fn is_of_the_window(held: Held) -> bool {
    matches!(held, Held::CongestionWindow | Held::PacketWindow)
}
