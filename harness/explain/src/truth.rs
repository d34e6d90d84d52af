//! The truth about gaps: what connections, told from inside, waited for.
//!
//! A simulated connection tells what it decides ([`TraceEvent`](narrows::trace::TraceEvent)). From that, and from nothing that
//! is captured, come the gaps that a capture's explanation is held against.

use crate::gap::{Cause, Gap, Side};
mod ends;
mod feed;
mod gaps;
mod outstanding;
mod way;

pub use ends::EndId;
use gaps::{GapId, Gaps};
pub use way::Passing;

use narrows::trace::{Held, TimeoutCause};
use narrows::{Duration, Instant};
use std::net::{SocketAddr, SocketAddrV4};

/// A gap as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueGap {
    /// Whose: the end that stood still first.
    pub ends: [SocketAddr; 2],
    /// From when.
    pub start: Instant,
    /// Until when.
    pub end: Instant,
    /// Why.
    pub cause: Cause,
    /// Whether an explanation that lacks it has missed something.
    pub counts: bool,
}

impl TrueGap {
    /// How long it was.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// A question that was in queues on its way: until it is there, who is asked cannot know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who is asked, its own address first.
    pub ends: [SocketAddr; 2],
    /// When it left.
    pub asked: Instant,
    /// When the first of the answer left.
    pub answered: Instant,
    /// How much longer it was on its way than the quickest of its connection.
    pub waited: Duration,
}

/// What is a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Longer than this,
    pub floor: Duration,
    /// and than so many percent of the least smoothed RTT that the connection knew by then.
    pub share_percent: u32,
}

/// One end of a connection.
#[derive(Debug, Default)]
struct End {
    /// Why nothing leaves, and since when.
    held: Option<(Held, Instant)>,
    /// When something arrived last, and when something without data did.
    arrived: Instant,
    acknowledged: Instant,
    /// The last timeout, and one at whose end nothing left, for its host refused that.
    timeout: Option<GapId>,
    goes_on: Option<GapId>,
    /// When a gap of it ended last.
    last: Instant,
    /// The least smoothed RTT.
    rtt: Option<Duration>,
    /// The last gap that a delayed acknowledgement ended, which has not arrived yet.
    delayed: Option<GapId>,
    /// The window was another one after an idle time, and no acknowledgement has come since.
    restarted: bool,
    /// The window came down for a segment that the host refused, and is not back where it was.
    lowered: bool,
    /// What its packets and their network tell.
    way: way::Way,
}

/// Gathers what the ends of connections tell, and knows their gaps.
#[derive(Debug)]
pub struct Truth {
    threshold: Threshold,
    ends: ends::Ends,
    tellers: feed::Tellers,
    gaps: Gaps,
    /// Questions that waited for longer than the threshold's floor, if they are wanted.
    questions: Option<Vec<Question>>,
    pauses: way::Pauses,
}

impl Truth {
    /// Knows gaps that are longer than `threshold`.
    pub fn new(threshold: Threshold) -> Self {
        Self {
            threshold,
            ends: ends::Ends::default(),
            tellers: feed::Tellers::default(),
            gaps: Gaps::default(),
            questions: None,
            pauses: way::Pauses::default(),
        }
    }

    /// Keeps what questions waited for from now on.
    pub fn keep_questions(&mut self) {
        self.questions = Some(Vec::new());
    }

    /// The questions that were kept.
    pub fn questions(&self) -> &[Question] {
        self.questions.as_deref().unwrap_or_default()
    }

    /// The gaps until now, in the order in which they ended.
    pub fn gaps(&self) -> &[TrueGap] {
        self.gaps.as_slice()
    }

    /// The end with these addresses, its own first.
    pub fn end(&mut self, addresses: [SocketAddr; 2]) -> EndId {
        self.ends.number(addresses)
    }

    /// The same where both are IPv4.
    #[inline]
    pub fn end_v4(&mut self, addresses: [SocketAddrV4; 2]) -> EndId {
        self.ends.number_v4(addresses)
    }

    /// A gap until `end`, if it is longer than the threshold.
    fn add(&mut self, me: EndId, start: Instant, end: Instant, cause: Cause) -> Option<GapId> {
        if end.since(start) <= self.threshold.floor {
            return None;
        }
        let rtts = [me, me.peer()].map(|end| self.ends[end].rtt);
        let rtt = rtts.into_iter().flatten().min().unwrap_or_default();
        if end.since(start) <= rtt.mul_ratio(self.threshold.share_percent.into(), 100) {
            return None;
        }
        self.add_above_floor(me, start, end, cause)
    }

    /// A gap until `end`, if it is longer than the threshold's floor, however long a round trip is.
    fn add_above_floor(
        &mut self,
        me: EndId,
        start: Instant,
        end: Instant,
        cause: Cause,
    ) -> Option<GapId> {
        (end.since(start) > self.threshold.floor).then(|| {
            self.gaps.push(TrueGap {
                ends: self.ends.name(me),
                start,
                end,
                cause,
                counts: true,
            })
        })
    }

    /// The retransmission timer fired after `rto`; news of the flight had come at `heard` last.
    pub(crate) fn timeout(
        &mut self,
        at: Instant,
        end: EndId,
        cause: TimeoutCause,
        rto: Duration,
        heard: Instant,
    ) {
        if cause == TimeoutCause::ZeroWindow {
            self.shut(at, end);
            self.ends[end].last = at;
            return;
        }
        let me = &mut self.ends[end];
        // Of what left no one can tell that the timer had fired before.
        let goes_on = me.goes_on.map(|gap| &mut self.gaps[gap]);
        if let Some(gap) = goes_on.filter(|gap| gap.cause == Cause::LocalDrop) {
            (gap.end, me.last, me.timeout) = (at, at, me.goes_on.take());
            return;
        }
        let start = (at - rto).max(me.last).max(heard).max(me.acknowledged);
        me.last = at;
        let refusal = me.way.refusal();
        let passes = me.way.passes();
        let safe = me.way.lost_nothing();
        let delayed = me.delayed.take();
        let cause = match cause {
            TimeoutCause::Handshake => Cause::SynRetried,
            _ if refusal != way::Refused::No => Cause::LocalDrop,
            _ if me.way.swallows() => Cause::BlackHole,
            // Whether its sender ever learns that or not.
            _ if safe => Cause::TimeoutSpurious,
            TimeoutCause::FullWindow | TimeoutCause::ZeroWindow => Cause::TimeoutWholeWindow,
            TimeoutCause::Tail => Cause::TimeoutTail,
            TimeoutCause::RetransmissionLost => Cause::TimeoutRetransmissionLost,
        };
        let gap = match delayed {
            // The acknowledgement left too late to stop the timer.
            Some(late) => {
                let gap = &mut self.gaps[late];
                (gap.end, gap.cause) = (at, cause);
                delayed
            }
            None => self.add(end, start, at, cause),
        };
        // Where all of a flight is too long for the path it vanishes as in an outage.
        let hidden = refusal == way::Refused::Hidden || cause == Cause::BlackHole && !passes;
        if hidden && let Some(gap) = gap {
            self.gaps[gap].counts = false;
        }
        self.ends[end].timeout = gap;
    }

    /// A tail loss probe left.
    fn probe(&mut self, at: Instant, end: EndId, heard: Instant) {
        let me = &mut self.ends[end];
        let since = me.held.map_or(at, |(_, since)| since);
        let since = since.max(me.last).max(heard).max(me.acknowledged);
        me.last = at;
        self.add(end, since, at, Cause::TailLossProbe);
    }

    /// The peer of `waits` put its acknowledgement off until now.
    fn delayed_ack(&mut self, at: Instant, waits: EndId) {
        let end = &mut self.ends[waits];
        let Some((held, since)) = end.held else {
            return;
        };
        let cause = match held {
            Held::Nagle => Cause::NagleDelayedAck,
            Held::PacketWindow => Cause::PacketWindow,
            Held::CongestionWindow if end.restarted => Cause::IdleRestart,
            Held::CongestionWindow => Cause::DelayedAck,
            _ => return,
        };
        let start = since.max(end.last);
        end.last = at;
        let gap = self.add(waits, start, at, cause);
        self.ends[waits].delayed = gap;
    }

    /// Nothing leaves for another reason than before.
    fn held(&mut self, at: Instant, end: EndId, held: Held) {
        let me = &mut self.ends[end];
        let Some((before, since)) = me.held.replace((held, at)) else {
            return;
        };
        // It wrote. If the other waits for something, that is what the connection waits for as well.
        if before == Held::Idle {
            let since = since.max(me.last).max(me.arrived);
            me.last = at;
            let other = &self.ends[end.peer()];
            // Of whom nothing is known yet it is not known that it waits.
            let waits = match other.held {
                None | Some((Held::Idle, _)) => false,
                Some((Held::Sent, _)) => other.way.lost,
                Some(_) => true,
            };
            let gap = self.add(end, since, at, Cause::AppWroteNothing);
            if let Some(gap) = gap {
                self.gaps[gap].counts = !waits;
            }
        }
    }
}

/// Whose gap it is, as a true gap names it.
pub fn ends_of(gap: &Gap, client: SocketAddr, server: SocketAddr) -> [SocketAddr; 2] {
    match gap.side {
        Side::Client => [client, server],
        Side::Server => [server, client],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::ByteCount;
    use narrows::trace::{TraceEvent, TraceSink};

    const ADDRESSES: [SocketAddr; 2] = [
        SocketAddr::new(
            std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
            80,
        ),
        SocketAddr::new(
            std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)),
            5_000,
        ),
    ];

    const ENDS: EndId = EndId::FIRST;
    const PEER: EndId = EndId::FIRST.peer();

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn segment(seq: u32, len: u32, ack: u32) -> Passing {
        Passing {
            seq,
            len,
            ack,
            window: 60_000,
            scale: None,
            sacked: None,
        }
    }

    fn no_truth() -> Truth {
        let mut truth = Truth::new(Threshold {
            floor: Duration::from_micros(50),
            share_percent: 0,
        });
        assert_eq!(truth.end(ADDRESSES), ENDS);
        truth
    }

    /// 100 bytes have been acknowledged after 100 us, and the window is full of as many more.
    fn truth() -> Truth {
        let mut truth = no_truth();
        truth.sent(at(0), ENDS, 1, &segment(0, 100, 0));
        truth.arrived(at(100), ENDS, &segment(0, 0, 100));
        truth.held(at(100), ENDS, Held::CongestionWindow);
        truth.sent(at(110), ENDS, 1, &segment(100, 100, 0));
        truth.sent(at(110), ENDS, 1, &segment(200, 100, 0));
        truth
    }

    fn found(truth: &Truth) -> Vec<(Cause, u64, u64)> {
        let gaps = truth.gaps().iter();
        let us = |at: Instant| at.as_nanos() / 1_000;
        gaps.map(|gap| (gap.cause, us(gap.start), us(gap.end)))
            .collect()
    }

    #[test]
    fn who_hears_of_its_flight_by_a_duplicate_or_selective_acknowledgement_hears_of_it() {
        for sacked in [None, Some((200, 300))] {
            let mut truth = truth();
            let news = Passing {
                sacked,
                ..segment(0, 0, 100)
            };
            truth.arrived(at(2_000), ENDS, &news);
            assert_eq!(found(&truth), [(Cause::PacketDelay, 110, 2_000)]);
        }
    }

    #[test]
    fn what_the_peer_sends_with_its_own_data_waited_for_its_application() {
        let mut truth = truth();
        truth.arrived(at(200), PEER, &segment(100, 100, 0));
        let answer = segment(0, 50, 200);
        truth.sent(at(1_900), PEER, 2, &answer);
        truth.arrived(at(2_000), ENDS, &answer);
        assert!(found(&truth).is_empty());
    }

    /// It may be anything: a peer that nothing was heard of, or one that tells why it sends nothing.
    #[test]
    fn who_writes_nothing_is_waited_for_unless_its_peer_is_known_to_wait() {
        for (peer, counts) in [
            (None, true),
            (Some(Held::Idle), true),
            (Some(Held::CongestionWindow), false),
        ] {
            let mut truth = no_truth();
            truth.held(at(0), ENDS, Held::Idle);
            if let Some(peer) = peer {
                truth.held(at(0), PEER, peer);
            }
            truth.held(at(1_000), ENDS, Held::Sent);
            assert_eq!(found(&truth), [(Cause::AppWroteNothing, 0, 1_000)]);
            assert_eq!(truth.gaps()[0].counts, counts, "{peer:?}");
        }
    }

    #[test]
    fn a_timeout_is_spurious_unless_all_copies_were_dropped() {
        let lost = (Cause::TimeoutTail, 110, 10_110);
        let needless = (Cause::TimeoutSpurious, 110, 10_110);
        for (copies, dropped, cause) in [(0, 0, needless), (0, 1, lost), (1, 1, needless)] {
            let mut truth = truth();
            for _ in 0..copies {
                truth.sent(at(110), ENDS, 1, &segment(100, 100, 0));
            }
            for _ in 0..dropped {
                truth.dropped(ENDS, &segment(100, 100, 0), false);
            }
            let rto = Duration::from_millis(10);
            truth.timeout(at(10_110), ENDS, TimeoutCause::Tail, rto, at(110));
            assert_eq!(found(&truth), [cause]);
        }
    }

    #[test]
    fn what_is_refused_again_is_one_wait_and_what_left_before_it_is_no_local_drop() {
        let mut truth = truth();
        truth.arrived(at(210), ENDS, &segment(0, 0, 300));
        truth.refused(at(220), ENDS, &segment(300, 100, 0));
        truth.sent(at(220), ENDS, 1, &segment(400, 100, 0));
        let mut fires = |us, milliseconds| {
            let rto = Duration::from_millis(milliseconds);
            truth.timeout(at(us), ENDS, TimeoutCause::Tail, rto, at(220));
            truth.refused(at(us), ENDS, &segment(300, 100, 0));
        };
        fires(10_220, 10);
        fires(30_220, 20);
        assert_eq!(found(&truth), [(Cause::LocalDrop, 220, 30_220)]);
        truth.sent(at(30_230), ENDS, 1, &segment(300, 100, 0));
        truth.dropped(ENDS, &segment(300, 100, 0), false);
        truth.timeout(
            at(70_230),
            ENDS,
            TimeoutCause::Tail,
            Duration::from_millis(40),
            at(220),
        );
        assert_eq!(found(&truth)[1], (Cause::TimeoutTail, 30_230, 70_230));
    }

    /// Its length is held against the round trip, as that of others is.
    #[test]
    fn a_timeout_for_what_was_refused_is_no_gap_where_it_is_shorter_than_one() {
        for (share_percent, gaps) in [(0, 1), (100, 0)] {
            let mut truth = truth();
            truth.threshold.share_percent = share_percent;
            truth.arrived(at(210), ENDS, &segment(0, 0, 300));
            truth.ends[ENDS].rtt = Some(Duration::from_millis(20));
            truth.refused(at(220), ENDS, &segment(300, 100, 0));
            truth.sent(at(220), ENDS, 1, &segment(400, 100, 0));
            let rto = Duration::from_millis(10);
            truth.timeout(at(10_220), ENDS, TimeoutCause::Tail, rto, at(220));
            let all = [(Cause::LocalDrop, 220, 10_220)];
            assert_eq!(found(&truth), all[..gaps]);
        }
    }

    /// A round trip is no gap but where the window came down for a refusal, until it is back or comes
    /// down for something else.
    #[test]
    fn who_waits_with_a_window_that_a_refusal_made_smaller_waits_for_that() {
        let window = |kilobytes: u64| TraceEvent::Window {
            cwnd: ByteCount::new(kilobytes * 1_000),
            ssthresh: ByteCount::MAX,
            in_flight: ByteCount::ZERO,
            snd_wnd: ByteCount::MAX,
            srtt: Some(Duration::from_micros(100)),
            rto: Duration::from_millis(200),
        };
        let refused = || TraceEvent::LocalDrop {
            bytes: ByteCount::new(1_000),
        };
        let marked = || TraceEvent::Congestion(narrows::congestion::CongestionEvent::EcnEcho);
        let waits = [(Cause::LocalDrop, 110, 210)];
        for (then, gaps) in [
            (vec![refused(), window(1)], &waits[..]),
            (vec![refused(), window(1), window(9)], &waits),
            (vec![refused(), window(1), window(10)], &[]),
            (vec![refused(), window(1), marked()], &[]),
            (vec![refused(), window(10)], &[]),
            (vec![window(1)], &[]),
        ] {
            let mut truth = truth();
            truth.threshold.share_percent = 200;
            let mut sink = truth.sink(ADDRESSES);
            sink.event(at(110), &window(10));
            for event in &then {
                sink.event(at(111), event);
            }
            truth.hear();
            truth.arrived(at(210), ENDS, &segment(0, 0, 300));
            assert_eq!(found(&truth), gaps, "{then:?}");
            assert!(truth.gaps().iter().all(|gap| !gap.counts));
        }
    }

    #[test]
    fn an_acknowledgement_that_nobody_knows_of_takes_no_other_away() {
        let mut truth = truth();
        truth.arrived(at(200), PEER, &segment(100, 100, 0));
        let answer = segment(0, 50, 200);
        truth.sent(at(1_900), PEER, 2, &answer);
        truth.arrived(at(1_950), ENDS, &segment(0, 0, 50));
        truth.arrived(at(2_000), ENDS, &answer);
        assert!(found(&truth).is_empty(), "it waited for its application");
    }

    #[test]
    fn what_is_sent_again_in_part_tells_no_round_trip_time() {
        let mut truth = truth();
        truth.sent(at(50_000), ENDS, 1, &segment(100, 60, 0));
        truth.arrived(at(50_100), ENDS, &segment(0, 0, 160));
        truth.arrived(at(50_200), ENDS, &segment(0, 0, 300));
        let rtt = truth.ends[ENDS].way.rtt();
        assert_eq!(
            rtt.samples(),
            2,
            "of the first, and of the last, which left once"
        );
    }

    /// As where a small segment is sent again with what was written since.
    #[test]
    fn old_text_with_new_behind_it_is_another_copy_of_the_old_and_the_first_of_the_new() {
        // Nothing is dropped, the first copy, or both: it is there, it is there, it is not.
        for (dropped, cause) in [
            (&[][..], Cause::TimeoutSpurious),
            (&[100], Cause::TimeoutSpurious),
            (&[100, 150], Cause::TimeoutTail),
        ] {
            let mut truth = truth();
            truth.arrived(at(200), ENDS, &segment(0, 0, 200));
            truth.sent(at(1_000), ENDS, 1, &segment(200, 150, 0));
            for len in dropped {
                truth.dropped(ENDS, &segment(200, *len, 0), false);
            }
            let rto = Duration::from_millis(10);
            truth.timeout(at(11_000), ENDS, TimeoutCause::Tail, rto, at(200));
            assert_eq!(
                found(&truth).last().map(|gap| gap.0),
                Some(cause),
                "{dropped:?}"
            );
        }
        // No round-trip time follows from what acknowledges the old text, one does from the new.
        for (acks, samples) in [(&[300][..], 2), (&[350], 2), (&[300, 350], 3)] {
            let mut truth = truth();
            truth.arrived(at(200), ENDS, &segment(0, 0, 200));
            truth.sent(at(1_000), ENDS, 1, &segment(200, 150, 0));
            for (n, ack) in (0..).zip(acks) {
                truth.arrived(at(1_200 + n), ENDS, &segment(0, 0, *ack));
            }
            assert_eq!(truth.ends[ENDS].way.rtt().samples(), samples, "{acks:?}");
        }
    }

    /// What is acknowledged is not out again if a copy of it leaves.
    #[test]
    fn a_byte_that_keeps_a_connection_alive_is_not_out() {
        let mut truth = truth();
        truth.arrived(at(210), ENDS, &segment(0, 0, 300));
        truth.sent(at(90_000), ENDS, 1, &segment(299, 1, 0));
        truth.arrived(at(99_000), ENDS, &segment(0, 0, 300));
        assert_eq!(truth.ends[ENDS].way.rtt().samples(), 2);
    }

    #[test]
    fn an_acknowledgement_that_was_overtaken_hides_no_repetition() {
        let mut truth = truth();
        truth.arrived(at(200), ENDS, &segment(0, 0, 200));
        truth.arrived(at(210), ENDS, &segment(0, 0, 100));
        truth.arrived(at(2_000), ENDS, &segment(0, 0, 200));
        assert_eq!(found(&truth), [(Cause::PacketDelay, 200, 2_000)]);
    }

    #[test]
    fn who_waits_for_a_window_waits_for_nothing_else() {
        for (held, cause) in [
            (Held::ReceiveWindow, Cause::WindowClosed),
            (Held::CongestionWindow, Cause::PacketDelay),
        ] {
            let mut truth = truth();
            truth.arrived(at(200), ENDS, &segment(0, 0, 200));
            truth.held(at(200), ENDS, held);
            truth.arrived(at(2_000), ENDS, &segment(0, 0, 300));
            assert_eq!(found(&truth), [(cause, 200, 2_000)]);
        }
    }

    /// Its field for that means nothing (RFC 9293 section 3.1).
    #[test]
    fn a_syn_that_is_no_answer_acknowledges_nothing() {
        let far = |seq: u32, ack: u32| Passing {
            seq: seq + 0xf000_0000,
            ack: if ack == 0 { 0 } else { ack + 0xf000_0000 },
            ..segment(0, 100, 0)
        };
        let mut truth = no_truth();
        let syn = Passing {
            scale: Some(0),
            ..segment(7, 0, 0)
        };
        truth.arrived(at(0), ENDS, &syn);
        truth.sent(at(0), ENDS, 1, &far(0, 0));
        truth.arrived(
            at(100),
            ENDS,
            &Passing {
                len: 0,
                ..far(0, 100)
            },
        );
        truth.held(at(100), ENDS, Held::CongestionWindow);
        truth.sent(at(110), ENDS, 1, &far(100, 0));
        truth.arrived(
            at(2_000),
            ENDS,
            &Passing {
                len: 0,
                ..far(0, 100)
            },
        );
        assert_eq!(found(&truth), [(Cause::PacketDelay, 110, 2_000)]);
    }

    #[test]
    fn rfc9293_3_8_6_2_1_a_window_of_less_than_a_segment_is_closed() {
        let mut truth = truth();
        let offers = |window| Passing {
            window,
            ..segment(0, 0, 300)
        };
        truth.sent(at(200), PEER, 2, &offers(0));
        truth.arrived(at(210), ENDS, &offers(0));
        truth.held(at(210), ENDS, Held::ReceiveWindow);
        // Who has sent only small ones may send 536: 300 does not open it.
        truth.sent(at(1_000), PEER, 2, &offers(300));
        truth.sent(at(5_000), PEER, 2, &offers(60_000));
        truth.arrived(at(5_010), ENDS, &offers(60_000));
        assert_eq!(found(&truth), [(Cause::WindowClosed, 210, 5_010)]);
    }
}
