//! A connection under observation: both directions, the gaps of each, and what is still to be seen
//! before a gap has its cause.

mod gaps;
mod path;
mod pending;
mod points;
mod record;
mod sends;

pub use record::{Closed, Connection, Opened, Point, PointKind};

use crate::busy::Waits;
use crate::classify::{Ended, may_be_put_off};
use crate::ends::{Key, Socket};
use crate::gap::{Cause, Gap, Side, Vantage};
use crate::half::{Half, Sighting};
use crate::segment::Segment;
use narrows::Duration;
use narrows::wire::{Ecn, Flags, Seq};
use pending::{Pending, Wait};
use points::Points;
use std::collections::VecDeque;

/// What is a gap, and how much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Percent of the RTT.
    pub(crate) share: u64,
    pub(crate) floor: Duration,
    pub(crate) segments: usize,
    pub(crate) rounds: bool,
    pub(crate) points: usize,
}

/// What is taken for the RTT while nothing is known of it.
const UNKNOWN_RTT: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) id: u64,
    pub(crate) client: Socket,
    opened: Opened,
    pub(crate) first: Sighting,
    pub(crate) last: Sighting,
    /// The last text, and whose it was.
    last_data: Option<(Sighting, Side)>,
    half: [Half; 2],
    interfaces: [Option<u32>; 2],
    pending: [Option<Box<Pending>>; 2],
    /// By side: gaps of what may be too large for the path, and of probes that nobody has answered.
    suspects: [Vec<Pending>; 2],
    /// By side: how long everything had been idle before its latest flight, and packets since.
    idle: [Option<(Duration, u32)>; 2],
    too_big: [bool; 2],
    /// How late the packet that is looked at is, by its timestamp or by queues, with that of the one before it
    /// that went the other way.
    late: Duration,
    /// The same without the one before.
    own: Duration,
    /// How late it may be by its timestamp, if it is: it left at any time of its tick.
    at_most: Duration,
    /// By side: how long its last packet waited behind the place of the capture.
    behind: [Duration; 2],
    path_rtt: Option<Duration>,
    threshold: Duration,
    reset: Option<Side>,
    /// By side: whether its SYN permitted SACK.
    sack: [Option<bool>; 2],
    /// The last packet's marks, by side, to know one that was captured twice.
    twin: [(u16, Seq, Seq, u32, u8); 2],
    lost: Vec<(Cause, u64, Duration)>,
    /// Of the few connections that are drawn.
    points: Option<Box<Points>>,
    rounds_wanted: bool,
}

impl Tracked {
    /// Asks for the memory of what is under way.
    #[inline]
    pub(crate) fn ask_for_flight(&self) {
        self.half.iter().for_each(Half::ask_for_flight);
    }

    pub(crate) fn new(
        id: u64,
        client: Socket,
        opened: Opened,
        now: Sighting,
        rules: &Rules,
    ) -> Self {
        let half = || Half::new(rules.segments, rules.rounds);
        Self {
            id,
            client,
            opened,
            first: now,
            last: now,
            last_data: None,
            half: [half(), half()],
            interfaces: [None; 2],
            pending: [None, None],
            suspects: [Vec::new(), Vec::new()],
            idle: [None; 2],
            too_big: [false; 2],
            late: Duration::ZERO,
            own: Duration::ZERO,
            at_most: Duration::ZERO,
            behind: [Duration::ZERO; 2],
            path_rtt: None,
            threshold: (UNKNOWN_RTT * rules.share / 100).max(rules.floor),
            reset: None,
            sack: [None; 2],
            twin: [(0, Seq(0), Seq(0), 0, 0); 2],
            lost: Vec::new(),
            points: None,
            rounds_wanted: rules.rounds,
        }
    }

    /// Whether a SYN of `side` with this sequence number begins another connection: the one before is
    /// over, or this is not its SYN (RFC 9293 section 3.10.7.4 has a SYN that fits nothing answered by
    /// a challenge, so numbers far off are another's too).
    pub(crate) fn is_over_for(&self, side: Side, seq: Seq) -> bool {
        let half = &self.half[side.index()];
        let same = half.rare.syn.is_some_and(|(_, first)| first == seq);
        let over = self.half.iter().all(|h| h.fin.is_some());
        // A copy of its SYN comes no later than its end.
        over || !same && (half.rare.syn.is_some() || self.reset.is_some())
    }

    /// Whether nothing more is expected.
    pub(crate) fn is_closed(&self) -> bool {
        self.reset.is_some()
            || self
                .half
                .iter()
                .all(|half| half.fin.is_some_and(|fin| half.una >= fin))
    }

    pub(crate) fn side_of(&self, from: Socket) -> Side {
        match from == self.client {
            true => Side::Client,
            false => Side::Server,
        }
    }

    /// A router refused a packet of this side as too big.
    pub(crate) fn too_big(&mut self, side: Side) {
        self.too_big[side.index()] = true;
    }

    /// Whether a segment is one that was seen before, at another place or twice.
    pub(crate) fn is_copy(&mut self, interface: u32, side: Side, segment: &Segment) -> bool {
        let me = side.index();
        // The same packets on another interface say nothing new.
        if *self.interfaces[me].get_or_insert(interface) != interface {
            return true;
        }
        let twin = (
            segment.identification,
            segment.seq,
            segment.ack,
            segment.len,
            segment.hop_limit,
        );
        if segment.identification != 0 && self.twin[me] == twin && segment.len > 0 {
            return true;
        }
        self.twin[me] = twin;
        false
    }

    /// Takes a segment that is no copy, which waits in queues so long: whether another RTT of the path is
    /// known now.
    pub(crate) fn handle(
        &mut self,
        (now, waits): (Sighting, Waits),
        side: Side,
        segment: &Segment,
        out: &mut VecDeque<Gap>,
    ) -> bool {
        let rtt = self.path_rtt;
        let (me, peer) = (side.index(), side.other().index());
        let now = Sighting {
            at: now.at.max(self.last.at),
            ..now
        };
        self.expire(now, out);
        let clock = &mut self.half[me].clock;
        let stamps = segment.options.timestamps;
        let stamped = stamps.map_or(Duration::ZERO, |s| clock.lateness(now.at, s.val));
        self.own = stamped;
        self.at_most = match stamped {
            Duration::ZERO => Duration::ZERO,
            late => late + clock.tick().unwrap_or_default(),
        };
        // A packet tells itself how late it is, to a tick.
        let tick = clock.tick().filter(|_| stamps.is_some());
        let most = tick.map_or(waits.before, |tick| waits.before.min(self.own + tick));
        self.late = self.own;
        // Where a host captures what it sends itself, nothing has waited on its way.
        if self.vantage(side) != Vantage::Sender {
            self.own = self.own.max(most);
            // Where a link is busy others may be, which what it answers has passed.
            self.late = self.own.max(waits.before) + self.behind[peer];
        }
        // A queue that is full drops what comes: no wait is longer than what was seen.
        let longest = self.half[me].rtt.timeout().unwrap_or_default();
        self.behind[me] = waits.after.min(longest);
        self.half[me].packets += 1;
        self.half[me].bytes += u64::from(segment.len);
        if segment.ecn == Ecn::Ce {
            self.half[me].rare.counts.marked += 1;
            if let Some(detail) = &mut self.half[me].detail {
                detail.meter.marked(1);
            }
        }
        let syn = segment.flags.contains(Flags::SYN);
        if syn {
            self.half[peer].peer_syn(segment.options.mss, segment.options.window_scale);
            self.half[me].rare.syn.get_or_insert((now, segment.seq));
            self.sack[me] = Some(segment.options.sack_permitted);
            let both = segment.options.window_scale.is_some();
            self.half[peer].scaling(both);
        }
        let text = segment.len;
        let fin = segment.flags.contains(Flags::FIN);
        let space = text.saturating_add(syn.into()).saturating_add(fin.into());
        let silent = self.half.iter().all(|half| half.flight() == 0);
        let more = (self.half[me].is_unpushed()).then(|| self.release_time(side));
        if segment.flags.contains(Flags::RST) {
            self.reset.get_or_insert(side);
        } else {
            if segment.flags.contains(Flags::ACK) {
                self.acknowledges(now, side.other(), segment, space == 0, out);
            }
            if space > 0 {
                self.sends(now, side, segment, space, silent, out);
            } else {
                self.asks(now, side, segment, out);
                let half = &mut self.half[me];
                half.bare = Some((half.offset(segment.seq), now.at));
            }
        }
        if let Some(stamps) = segment.options.timestamps {
            let [client, server] = &mut self.half;
            let (mine, other) = match side {
                Side::Client => (client, server),
                Side::Server => (server, client),
            };
            mine.on_stamp(now, stamps, segment.ack, other, text > 0, (more, stamped));
        }
        self.last = now;
        self.path_rtt != rtt
    }

    /// An acknowledgement of what `side` sent.
    fn acknowledges(
        &mut self,
        now: Sighting,
        side: Side,
        segment: &Segment,
        bare: bool,
        out: &mut VecDeque<Gap>,
    ) {
        let k = side.index();
        let half = &self.half[k];
        let waited = half.flight() > 0 || half.closed.is_some();
        let gap = half
            .last
            .filter(|last| waited && now.at.since(last.at) > self.threshold);
        let facts = gap.map(|start| (start, self.facts(side, now, start)));
        let blocks = segment.options.sack.as_slice();
        let syn = segment.flags.contains(Flags::SYN);
        let half = &mut self.half[k];
        let samples = half.rtt.samples();
        let acked = half.on_ack(now, segment.ack, blocks, segment.window, syn, bare);
        let resampled = half.rtt.samples() != samples;
        let una = half.una;
        if let (Some(round), Some(detail)) = (acked.round, &mut half.detail) {
            detail.rounds.push(round);
        }
        if segment.flags.contains(Flags::ECE)
            && !syn
            && acked.bytes > 0
            && let Some(detail) = &mut half.detail
        {
            detail
                .meter
                .marked((acked.bytes / u64::from(half.largest.max(1))).max(1) as u32);
        }
        // Karn's rule, unless a timestamp tells which copy is acknowledged (RFC 6298 section 3).
        if let Some(stamps) = segment.options.timestamps.filter(|_| acked.bytes > 0) {
            let left = || Some(now.at.since(half.clock.came_by(stamps.ecr, now.at)?));
            // What is acknowledged had waited on its way here, as what came last has.
            let far = acked.rtt.map(|far| far + half.late);
            if let Some(far) = far.or_else(left) {
                half.goes(now.at, far, stamps, segment.len > 0);
            }
        }
        if resampled {
            self.measure();
        }
        if acked.bytes > 0 {
            self.point(now, side, PointKind::Acked, una - acked.bytes, una);
        }
        if acked.sacked > 0
            && let Some(first) = blocks.first()
        {
            let half = &self.half[k];
            let (from, to) = (half.offset(first.start), half.offset(first.end));
            self.point(now, side, PointKind::Sacked, from, to);
        }
        if let Some(window) = self.half[k].window {
            self.point(now, side, PointKind::Window, una, una + window);
        }
        self.verify(now, side, &acked, segment);
        self.answered(now, side, &acked, segment, out);
        if let Some(rtt) = acked.rtt.filter(|_| acked.bytes > 0) {
            self.follows(now, side, rtt);
        }
        let event = acked.bytes > 0 || acked.sacked > 0 || acked.duplicate || acked.opened;
        if event {
            if let Some((start, mut facts)) = facts {
                facts.ended = match () {
                    () if acked.opened => Ended::Opened,
                    () if bare => Ended::Ack,
                    () => Ended::Answer,
                };
                facts.heard |= acked.sacked > 0 || acked.duplicate;
                facts.burst.last = acked.rtt;
                (facts.acked, facts.widened) = (acked.bytes, acked.widened);
                let whole = self.half[k].flight() == 0;
                let peer = &self.half[side.other().index()];
                match facts.ended {
                    // What was written late is the peer's, unless it waits for something itself.
                    Ended::Answer if whole && segment.len > 0 && peer.flight() > 0 => {}
                    Ended::Answer if whole && segment.len > 0 => {
                        self.settle(side, start, now, &facts, out);
                    }
                    // What was sent again is answered: that is part of the gap before.
                    Ended::Ack if self.verifies(side) && !may_be_put_off(&facts) => {}
                    Ended::Ack | Ended::Opened | Ended::Answer => {
                        let until = now.at + self.release_time(side);
                        self.wait(side, facts, start, now, Wait::Release { until }, out);
                    }
                    _ => {}
                }
            }
            self.half[k].last = Some(now);
            let heard = self.half[k].heard.replace(now);
            self.half[k].heard_before = heard;
            self.half[k].answered = Some(now.at);
            // A probe that is acknowledged tells nothing new.
            let probed = self.half[k].updated && acked.bytes <= 1;
            self.half[k].updated = acked.opened || probed;
        }
        if acked.opened {
            self.half[k].closed = None;
        }
    }

    #[inline]
    fn point(&mut self, now: Sighting, side: Side, kind: PointKind, from: u64, to: u64) {
        if self.points.is_some() {
            self.keep_point(now, side, kind, from, to);
        }
    }

    fn keep_point(&mut self, now: Sighting, side: Side, kind: PointKind, from: u64, to: u64) {
        if let Some(points) = &mut self.points {
            let origin = points.origin(side, from);
            let bytes = (from.saturating_sub(origin), to.saturating_sub(origin));
            points.push(Point::new((now.at, now.packet), side, kind, bytes));
        }
    }

    /// Keep up to so many points from now on.
    pub(crate) fn keep_points(&mut self, most: usize) {
        self.points = (most > 0).then(|| Box::new(Points::keep(most)));
    }

    /// No more is to be heard of it.
    pub(crate) fn finish(
        mut self,
        key: &Key,
        dropped: bool,
        out: &mut VecDeque<Gap>,
    ) -> Connection {
        for side in Side::BOTH {
            self.conclude(side, out);
            self.suspected(side, false, out);
        }
        let closed = match self.reset {
            Some(side) => Closed::Reset(side),
            None if self.half.iter().all(|half| half.fin.is_some()) => Closed::Fin,
            None if dropped => Closed::Dropped,
            None => Closed::Open,
        };
        let vantage = Side::BOTH.map(|side| self.vantage(side));
        let points = self.points.take().map(|points| points.finish());
        let (points, resolution) = points.unwrap_or_default();
        let rounds_wanted = self.rounds_wanted;
        let [client, server] = self.half;
        let counts = [client.counts(), server.counts()];
        let rtt = [client.rtt, server.rtt];
        let detail = [client.detail, server.detail].map(|detail| {
            let detail = detail.filter(|_| rounds_wanted);
            detail.map_or_else(Default::default, |detail| {
                (detail.histogram.modes(), detail.rounds)
            })
        });
        let [(client_modes, client_rounds), (server_modes, server_rounds)] = detail;
        Connection {
            id: self.id,
            ends: key.ends_from(self.client),
            opened: self.opened,
            closed,
            first: self.first,
            last: self.last,
            counts,
            rtt,
            vantage,
            path_rtt: self.path_rtt,
            lost: self.lost,
            rounds: [client_rounds, server_rounds],
            modes: [client_modes, server_modes],
            points,
            resolution,
        }
    }
}
