//! From what was seen around a gap to its cause: a pure function.
//!
//! The rules in the order in which they are asked. "Certain" is said only where the packets prove
//! it at the place of the capture.

use crate::gap::{Cause, Confidence, Evidence, Vantage};
use crate::half::Sighting;
use narrows::Duration;

/// What ended a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// SYN or SYN-ACK again.
    Syn,
    /// Something that was sent before, or is missing from the capture.
    Retransmission { head: bool, tail: bool },
    /// New data, while other data was outstanding and nothing had been heard.
    New,
    /// New data while nothing was outstanding.
    Wrote,
    /// A segment without data that acknowledges some.
    Ack,
    /// The peer's data, which acknowledges some as well.
    Answer,
    /// A window that was closed is open.
    Opened,
    /// A probe of a closed window.
    Probe,
}

/// What an acknowledgement after a retransmission tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aftermath {
    /// Nothing that was noticed.
    None,
    /// It came too early to be caused by the retransmission.
    Early,
    /// It proves that both copies arrived, or that the first one caused it.
    Needless,
}

/// The facts of a gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) length: Duration,
    /// How long the retransmission timer had been running at least.
    pub(crate) timer: Duration,
    pub(crate) ended: Ended,
    pub(crate) evidence: Evidence,
    pub(crate) vantage: Vantage,
    pub(crate) mss: u32,
    /// Bytes above the first outstanding one that arrived, or duplicate acknowledgements.
    pub(crate) heard: bool,
    pub(crate) dup_acks: u32,
    /// What was heard may have asked for something to be sent again, without any timer.
    pub(crate) asked: bool,
    /// Something was sent again, and not all that was out then is acknowledged.
    pub(crate) recovers: bool,
    /// What its sender echoes shows that nothing which it heard asked for what ended it.
    pub(crate) unprompted: bool,
    /// It is the first to echo what its sender had heard last, or nobody knows.
    pub(crate) prompted: bool,
    /// What is sent again begins before what its receiver has acknowledged.
    pub(crate) arrived: bool,
    /// How long its sender had been silent by its own clock, and had heard nothing, if that is known.
    pub(crate) ran: Option<Duration>,
    /// How much of the gap passed in queues between the sender and the place of the capture: what was heard
    /// last on its way there, and what ended it on its way back.
    pub(crate) queued: Duration,
    /// How long the probe timer had been running: since something left or, at the sender, news came (RFC 8985
    /// section 7.2).
    pub(crate) probe: Duration,
    /// Bytes that what ended it acknowledges.
    pub(crate) acked: u64,
    /// Its receiver is known to acknowledge every second segment only.
    pub(crate) pairs: bool,
    /// With that the window is half of the widest wider than it would be if all had been read at once.
    pub(crate) widened: bool,
    /// More was written than has left.
    pub(crate) unsent: bool,
    /// The last text that left does not say PSH.
    pub(crate) unpushed: bool,
    /// SRTT + 4 RTTVAR of the way to the sender and back, where it had more to send.
    pub(crate) turns: Option<Duration>,
    /// Timeouts before this one without an acknowledgement between.
    pub(crate) timeouts: u16,
    pub(crate) aftermath: Aftermath,
    /// The sender had more to send than was outstanding.
    pub(crate) more: bool,
    /// Some of what is outstanding had to wait for an acknowledgement before it left, or more had.
    pub(crate) limited: bool,
    /// Both may use SACK, as far as is known: probes need it (RFC 8985 section 7).
    pub(crate) sack: bool,
    /// What was sent again was missing from the capture.
    pub(crate) missing: bool,
    /// The segment that was sent again is larger than any that arrived, of those that left after it
    /// smaller ones did, or a router said so.
    pub(crate) too_large: bool,
    /// Later copies of it vanished as well, and nothing as large has arrived since.
    pub(crate) swallowed: bool,
    /// The window was closed; whether a probe went out in the gap.
    pub(crate) closed: bool,
    /// How late the packet that ended it is, by its own timestamp or by queues.
    pub(crate) late: Duration,
    /// How late it may be by its own timestamp, if that tells that it is late.
    pub(crate) at_most: Duration,
    /// A probe of new data is out: until it is acknowledged there is no other (RFC 8985 section 7.3).
    pub(crate) probing: bool,
    /// What is not longer than this is no gap.
    pub(crate) threshold: Duration,
    /// The answer to the probe that ended the gap says that the window is open.
    pub(crate) opened: bool,
    /// The last that passed here was that the window is open, which the sender had yet to learn.
    pub(crate) updated: bool,
    /// The flight is the first after an idle time, and less than half of what was out before.
    pub(crate) restarted: bool,
    /// The largest segment that left when the gap was over.
    pub(crate) released_largest: u32,
    /// What ended the gap is a segment of full size.
    pub(crate) full: bool,
    /// SRTT.
    pub(crate) smoothed: Option<Duration>,
    /// Round-trip times of the acknowledgements that came at once when it was over.
    pub(crate) burst: Burst,
}

/// Two ticks of a kernel with a thousand a second.
const TICKS: Duration = Duration::from_millis(2);

/// The shortest frame takes as long at 1 Gb/s, with preamble and gap.
const WIRE: Duration = Duration::from_nanos(672);

/// Round-trip times of acknowledgements that come one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    pub(crate) last: Option<Duration>,
    /// How often one was shorter than the one before, and how often not.
    pub(crate) falling: u16,
    pub(crate) other: u16,
}

impl Burst {
    /// Another comes so long after the one before.
    pub(crate) fn add(&mut self, rtt: Duration, after: Duration) {
        match self.last.replace(rtt) {
            Some(last) if rtt < last && after < WIRE => self.falling += 1,
            // What left at once comes at once.
            Some(last) if rtt == last && after.is_zero() => self.falling += 1,
            Some(_) => self.other += 1,
            None => {}
        }
    }

    /// No other followed at once.
    const fn is_alone(&self) -> bool {
        self.falling == 0 && self.other == 0
    }

    /// What waits for one interrupt leaves at once: the later it came the less it waited. Queues let go one
    /// after the other.
    const fn is_interrupt(&self) -> bool {
        self.falling >= 2 && self.other == 0
    }
}

impl Facts {
    /// The same of a gap from `start` to `now`.
    pub(crate) fn since(&self, now: Sighting, start: Sighting) -> Self {
        let length = now.at.since(start.at);
        Self {
            length,
            timer: length,
            probe: length.saturating_sub(self.length.saturating_sub(self.probe)),
            ..*self
        }
    }
}

/// Floors of timeouts in use, in milliseconds.
const FLOORS: [u64; 13] = [1_000, 500, 400, 300, 250, 200, 100, 50, 30, 20, 10, 5, 1];

/// Whether a sender was silent for no longer than it takes to hear of its flight when queues are as
/// long as they have been: nothing was wrong then.
pub(crate) fn is_usual(facts: &Facts, cause: Cause) -> bool {
    // It had left soon enough; where its own host and the other's queue are behind the place of the capture,
    // some more time says nothing.
    let unseen = match facts.ended {
        Ended::Answer => facts.vantage != Vantage::Receiver,
        _ => facts.vantage != Vantage::Sender,
    };
    let soon = match unseen && facts.vantage != Vantage::Middle {
        true => facts.threshold.max(queues(facts)),
        false => facts.threshold,
    };
    let late = facts.late.max(facts.at_most);
    if cause == Cause::AppWroteNothing && facts.length.saturating_sub(late) <= soon {
        return true;
    }
    // What it waited for took as long as ever.
    if facts.ended == Ended::Wrote && cause == Cause::PacketDelay {
        return facts.length <= facts.turns.unwrap_or_default().max(queues(facts));
    }
    let usual = facts.evidence.timeout;
    let delayed = matches!(cause, Cause::PacketDelay | Cause::Coalescing);
    if facts.missing {
        // What was lost on its way to the capture is sent again after a round trip or two, without any timer.
        let rtt = match facts.vantage {
            // Its sender's own, in whose queue it may have waited, and been dropped.
            Vantage::Middle => facts.evidence.rtt.max(facts.smoothed),
            _ => facts.evidence.rtt,
        };
        let rtt = rtt.unwrap_or_default();
        return facts.length <= rtt * 4 + Duration::from_millis(1);
    }
    // What passed here is in queues still on its way to an end, and the end's answer on its way back:
    // elsewhere than at the sender a silence that is no longer than that has taken says nothing.
    if facts.vantage != Vantage::Sender && !facts.unprompted {
        // What more was heard of a loss does not begin the timer anew, but sends more again, if it is enough
        // (RFC 5681 section 3.2).
        let waited = if facts.heard && facts.dup_acks >= 3 {
            facts.length
        } else {
            facts.timer
        };
        let waited = waited.saturating_sub(facts.queued);
        let within = |least: Option<Duration>| least.is_some_and(|least| waited < least);
        match (facts.ended, cause) {
            // No timer is shorter than what RTT and its variation give (RFC 6298 section 2); what was
            // heard of a loss has it sent again sooner.
            (Ended::Retransmission { .. }, cause)
                if cause.is_timeout() && facts.asked && within(usual) && !is_of_floor(facts) =>
            {
                return true;
            }
            // Of what arrives again sooner neither what asked for it nor it itself was seen to wait.
            (Ended::Retransmission { .. }, Cause::TimeoutSpurious)
                if facts.vantage == Vantage::Receiver && within(Some(queues(facts) * 2)) =>
            {
                return true;
            }
            // A probe takes two round trips (RFC 8985 section 7.2). What nothing asked for and is not the first
            // that is missing nobody else sends.
            (Ended::Retransmission { head, .. }, Cause::TailLossProbe)
                if (head || facts.asked || facts.recovers)
                    && (facts.smoothed).is_some_and(|rtt| waited.max(ran(facts)) < rtt * 2) =>
            {
                return true;
            }
            _ => {}
        }
    }
    // While something is outstanding that is not news, an application may write whenever it likes.
    if facts.ended == Ended::New {
        return cause != Cause::TailLossProbe;
    }
    // What is sent again is waited for as part of the loss.
    delayed
        && (facts.recovers
            || facts.evidence.sends > 1
            || usual.is_some_and(|usual| facts.length <= usual))
}

/// What a packet waits in queues that are not seen is no more than this, most of the time.
fn queues(facts: &Facts) -> Duration {
    facts.evidence.rtt.unwrap_or_default().mul_ratio(5, 2) + Duration::from_micros(200)
}

/// The cause, how sure it is, and the floor of the timeout if there is one.
pub(crate) fn classify(facts: &Facts) -> (Cause, Confidence, Option<Duration>) {
    use Confidence::{Certain, Guess, Likely};
    let plain = |cause, confidence| (cause, confidence, None);
    match facts.ended {
        // Who knows that the window is open uses it.
        ended if facts.updated && !matches!(ended, Ended::Ack | Ended::Answer | Ended::Opened) => {
            plain(Cause::WindowUpdateLate, Likely)
        }
        // A network may have made two of one.
        Ended::Syn => plain(Cause::SynRetried, Likely),
        // There was room for less than a segment, and a timer sent what fits (RFC 9293 section 3.8.6.2.1).
        Ended::Wrote if facts.closed => plain(Cause::WindowClosed, Likely),
        // What it had written last had more behind it (RFC 9293 section 3.9.1.2, MUST-61): the acknowledgement
        // that passed here came late to it.
        Ended::Wrote
            if facts.unpushed && matches!(facts.vantage, Vantage::Middle | Vantage::Receiver) =>
        {
            plain(Cause::PacketDelay, Guess)
        }
        Ended::Wrote => plain(Cause::AppWroteNothing, wrote(facts)),
        // A receiver says at once that its window is open; that a probe had to ask shows that it got lost.
        Ended::Probe if facts.opened => plain(Cause::WindowUpdateLate, Likely),
        Ended::Probe => plain(Cause::WindowClosed, Likely),
        // A sender of whose flight some is unheard of may wait for that as well.
        Ended::Opened if facts.evidence.flight.get() > 1 || facts.vantage == Vantage::Receiver => {
            plain(Cause::WindowClosed, Likely)
        }
        Ended::Opened => plain(Cause::WindowClosed, Certain),
        _ if facts.closed && facts.evidence.window.is_some_and(|w| w.is_zero()) => {
            plain(Cause::WindowClosed, Likely)
        }
        Ended::Retransmission { head, tail } => retransmission(facts, head, tail),
        // A probe may carry new data (RFC 8985 section 7.3), and an application may write any time.
        Ended::New if facts.full && !facts.probing && is_probe_of_new_data(facts) => {
            plain(Cause::TailLossProbe, Guess)
        }
        Ended::New => plain(Cause::AppWroteNothing, Guess),
        // The question may have been in a queue behind the place of the capture as long as others.
        Ended::Answer
            if matches!(facts.vantage, Vantage::Middle | Vantage::Unknown)
                && facts
                    .evidence
                    .timeout
                    .is_some_and(|usual| facts.length <= usual) =>
        {
            plain(Cause::AppWroteNothing, Guess)
        }
        // Here it is the receiver's end of what was late: a timeout of the other looks alike.
        Ended::Answer if matches!(facts.vantage, Vantage::Sender | Vantage::Unknown) => {
            plain(Cause::AppWroteNothing, Guess)
        }
        Ended::Answer => plain(Cause::AppWroteNothing, Likely),
        Ended::Ack if facts.widened => plain(Cause::WindowClosed, Likely),
        Ended::Ack => {
            let (cause, confidence) = ack(facts);
            plain(cause, confidence)
        }
    }
}

/// A flight that was lost before the place of the capture looks like this, too.
fn wrote(facts: &Facts) -> Confidence {
    match facts.vantage {
        Vantage::Sender | Vantage::Middle => Confidence::Likely,
        Vantage::Receiver | Vantage::Unknown => Confidence::Guess,
    }
}

fn retransmission(facts: &Facts, head: bool, tail: bool) -> (Cause, Confidence, Option<Duration>) {
    use Confidence::{Certain, Guess, Likely};
    let e = &facts.evidence;
    let floor = (facts.timeouts == 0).then(|| floor(facts)).flatten();
    // The timer is that of the first that its sender takes to be out, which has arrived.
    if facts.arrived {
        return match head && tail && is_probe_time(facts) {
            true => (Cause::TailLossProbe, Guess, None),
            false => (Cause::TimeoutSpurious, Likely, floor),
        };
    }
    if facts.aftermath == Aftermath::Needless {
        // No timer is shorter than what RTT and its variation give (RFC 6298 section 2).
        let early = facts.vantage == Vantage::Sender
            && facts.sack
            && e.timeout
                .is_some_and(|usual| facts.timer < usual.mul_ratio(9, 10));
        let cause = if tail && (!head || early || is_probe_time(facts)) {
            Cause::TailLossProbe
        } else {
            Cause::TimeoutSpurious
        };
        // Of several copies only one need have been needless.
        // Duplicate acknowledgements may have asked for it; at the sender that leaves no gap.
        // What is the last, too, may have been a probe's.
        let once = e.sends == 1 && facts.timeouts == 0 && !tail;
        // A probe is no timeout: it takes two round trips, and for a single packet the delay of its
        // acknowledgement, which Linux takes to be up to 200 ms.
        let delay = Duration::from_millis(if e.packets > 1 { 2 } else { 250 });
        let longest = facts.smoothed.unwrap_or_default() * 3 + delay;
        let timer = !facts.sack || facts.length > longest;
        // One that is not what RTT or a floor gives may have been several, of which the host itself
        // refused to send the first.
        let usual = e.timeout.unwrap_or_default().mul_ratio(3, 2);
        let timer = timer && (floor.is_some() || facts.length <= usual);
        let once = once && timer && !facts.heard && facts.vantage == Vantage::Sender;
        return (cause, if once { Certain } else { Likely }, floor);
    }
    if facts.missing {
        return match facts.vantage {
            Vantage::Sender => (Cause::LocalDrop, Likely, floor),
            _ if facts.dup_acks >= 3 => (Cause::TimeoutRetransmissionLost, Guess, floor),
            _ => (Cause::TimeoutTail, Guess, floor),
        };
    }
    if facts.swallowed || facts.too_large && e.sends > 2 {
        return (Cause::BlackHole, Guess, floor);
    }
    // A timeout sends the first one again; only a probe has the last (RFC 8985 section 7.3).
    // Who heard of a loss sends none (section 7.2).
    if tail && !head && facts.sack && !(facts.heard && facts.vantage != Vantage::Sender) {
        return (Cause::TailLossProbe, Likely, None);
    }
    if facts.timeouts > 0 || e.sends > 1 {
        return (Cause::TimeoutRetransmissionLost, sure(facts), floor);
    }
    if head && tail && is_probe_time(facts) {
        return (Cause::TailLossProbe, Guess, None);
    }
    if facts.aftermath == Aftermath::Early {
        return (Cause::TimeoutSpurious, Likely, floor);
    }
    // A last segment that is small had none after it.
    let more = facts.limited || (facts.more && e.small == 0);
    let whole = !facts.heard && (e.packets > 3 || more);
    let cause = if whole {
        Cause::TimeoutWholeWindow
    } else {
        Cause::TimeoutTail
    };
    (cause, sure(facts), floor)
}

/// Whether a retransmission is proved to be a timer's: the first copy was seen on its way.
fn sure(facts: &Facts) -> Confidence {
    match facts.vantage {
        Vantage::Sender | Vantage::Middle => Confidence::Likely,
        Vantage::Receiver | Vantage::Unknown => Confidence::Guess,
    }
}

/// Whether what had already been sent again before had been out for just as long as a floor in use: a
/// first copy is as often asked for by chance at such a time.
fn is_of_floor(facts: &Facts) -> bool {
    let timer = facts.timer;
    let exact = |floor: Duration| timer.abs_diff(floor) <= timer / 50;
    facts.evidence.sends > 1 && floor(facts).is_some_and(exact)
}

/// For how long a probe's timer has run.
fn ran(facts: &Facts) -> Duration {
    let seen = || facts.probe.saturating_sub(facts.queued);
    facts.ran.unwrap_or_else(seen)
}

/// Two round trips, and for a single packet what its acknowledgement may be delayed (RFC 8985
/// section 7.2), but not as long as a timeout with a floor of 200 ms.
fn is_probe_time(facts: &Facts) -> bool {
    let e = &facts.evidence;
    let Some(timeout) = e.timeout else {
        return false;
    };
    let least = e.rtt.unwrap_or(timeout).max(Duration::from_micros(1));
    let smoothed = facts.smoothed.unwrap_or(least).max(least);
    let length = ran(facts);
    // Where nothing waits on the way to the capture, a timer is as long as its floor to the tick.
    let near = |time: Duration| length.abs_diff(time) <= length / 1_000;
    // Between the ends that is so by the sender's own clock; without one, to what queues leave of it.
    let about = |time: Duration| length.abs_diff(time) <= length / 100;
    let mut floors = FLOORS.iter().map(|ms| Duration::from_millis(*ms));
    let exact = match facts.vantage == Vantage::Sender || facts.ran.is_some() {
        true => floors.any(near) && !near(smoothed * 2),
        false => floors.any(about) && !about(smoothed * 2),
    };
    if exact {
        return false;
    }
    // Two round trips it is, to what a clock and an estimate tell, or the floor of a timeout.
    if facts.sack && facts.timeouts == 0 && length + length / 100 >= smoothed * 2 {
        if length <= smoothed.mul_ratio(22, 10) {
            return true;
        }
        let near = |ms: &u64| length.abs_diff(Duration::from_millis(*ms)) <= length / 50;
        if length > smoothed * 3 && FLOORS.iter().any(near) {
            return false;
        }
    }
    // Linux adds two ticks of its clock where more than one is out.
    let ticks = if e.packets > 1 { TICKS } else { Duration::ZERO };
    facts.sack
        && length < Duration::from_millis(150)
        && length >= least * 2
        && length <= smoothed * 3 + ticks
        && facts.timeouts == 0
        && floor(facts).is_none_or(|floor| floor < Duration::from_millis(5))
}

/// Just about two smoothed round trips, with nothing known to be lost.
fn is_probe_of_new_data(facts: &Facts) -> bool {
    let Some(smoothed) = facts.smoothed else {
        return false;
    };
    let e = &facts.evidence;
    let length = ran(facts);
    // Whose window is full, and who hears nothing, has no other reason to send.
    let slack = if facts.unsent && !facts.prompted || facts.unprompted {
        8
    } else {
        1
    };
    // Linux has two ticks of its clock at least beside two round trips.
    let most = match facts.unprompted {
        true => smoothed * 3 + TICKS,
        false => smoothed.mul_ratio(20 + slack, 10),
    };
    let untroubled = facts.timeouts == 0 && e.sends <= 1 && !facts.heard && e.small == 0;
    untroubled
        && facts.sack
        && facts.limited
        && e.packets > 1
        && length >= smoothed.mul_ratio(20 - slack, 10)
        && length <= most
}

/// The floor that a timeout kept to: one in use that is at most a little shorter than the gap, and
/// well above what the RTT gives.
fn floor(facts: &Facts) -> Option<Duration> {
    let timeout = facts.evidence.timeout?;
    if facts.timer < timeout.mul_ratio(3, 2) {
        return None;
    }
    let slack = timeout.max(facts.timer.mul_ratio(1, 25));
    let floors = FLOORS.iter().map(|ms| Duration::from_millis(*ms));
    let mut fitting =
        floors.filter(|floor| *floor <= facts.timer + slack / 8 && *floor + slack >= facts.timer);
    fitting.next()
}

/// Whether a receiver's timer may have put off the acknowledgement that ended it.
pub(crate) fn may_be_put_off(facts: &Facts) -> bool {
    // A receiver acknowledges at least every second full segment (RFC 5681 section 4.2), so a timer
    // of its can have put off only an acknowledgement of less. What else was out is lost: if it was late as
    // well, more acknowledgements follow.
    let pair = 2 * u64::from(facts.mss.max(1));
    let alone = facts.pairs && facts.acked < pair && facts.burst.is_alone();
    let delayable = facts.evidence.flight.get() < pair || alone;
    let long = |rtt| facts.length >= rtt * 3;
    delayable
        && !facts.heard
        && facts.length >= Duration::from_millis(5)
        && facts.evidence.rtt.is_none_or(long)
}

fn ack(facts: &Facts) -> (Cause, Confidence) {
    use Confidence::{Guess, Likely};
    let e = &facts.evidence;
    let mss = u64::from(facts.mss.max(1));
    if !may_be_put_off(facts) {
        let short = facts.length <= Duration::from_millis(5);
        return if short && facts.burst.is_interrupt() && !facts.heard {
            (Cause::Coalescing, Guess)
        } else {
            (Cause::PacketDelay, Guess)
        };
    }
    let released = e.released.map_or(0, |b| b.get());
    let small_last = u64::from(facts.released_largest) < mss;
    match (e.packets, e.small) {
        // Nagle lets one small segment out; two of them show that it was off.
        (2.., 2..) if e.after_idle.is_some() || e.packets >= 2 => (Cause::PacketWindow, Likely),
        // The end of what was written waits, though there is room for it.
        (1, _) if small_last && released > 0 => (Cause::NagleDelayedAck, Likely),
        (1, 1) if released > 0 => (Cause::NagleDelayedAck, Guess),
        _ if facts.restarted && released > 0 => (Cause::IdleRestart, Likely),
        _ => (Cause::DelayedAck, Likely),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::ByteCount;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn facts(ended: Ended, length: Duration) -> Facts {
        Facts {
            length,
            timer: length,
            ended,
            evidence: Evidence {
                flight: ByteCount::new(14_600),
                packets: 10,
                rtt: Some(Duration::from_micros(200)),
                timeout: Some(Duration::from_micros(400)),
                sends: 1,
                ..Evidence::default()
            },
            vantage: Vantage::Sender,
            mss: 1_460,
            heard: false,
            dup_acks: 0,
            asked: false,
            recovers: false,
            unprompted: false,
            prompted: false,
            arrived: false,
            ran: None,
            queued: Duration::ZERO,
            probe: length,
            acked: 0,
            pairs: false,
            widened: false,
            unsent: false,
            unpushed: false,
            turns: None,
            timeouts: 0,
            aftermath: Aftermath::None,
            more: false,
            limited: false,
            sack: true,
            missing: false,
            too_large: false,
            swallowed: false,
            closed: false,
            late: Duration::ZERO,
            at_most: Duration::ZERO,
            probing: false,
            threshold: Duration::from_micros(400),
            opened: false,
            updated: false,
            restarted: false,
            released_largest: 0,
            full: true,
            smoothed: Some(Duration::from_micros(200)),
            burst: Burst::default(),
        }
    }

    const HEAD: Ended = Ended::Retransmission {
        head: true,
        tail: false,
    };

    #[test]
    fn fast08_classes_of_timeouts() {
        let whole = facts(HEAD, ms(200));
        assert_eq!(classify(&whole).0, Cause::TimeoutWholeWindow);
        assert_eq!(classify(&whole).2, Some(ms(200)));
        let tail = Facts {
            heard: true,
            dup_acks: 2,
            ..whole
        };
        assert_eq!(classify(&tail).0, Cause::TimeoutTail);
        let mut again = whole;
        again.evidence.sends = 2;
        assert_eq!(classify(&again).0, Cause::TimeoutRetransmissionLost);
    }

    #[test]
    fn floors_are_recognised_with_what_linux_adds_and_not_where_the_rtt_explains_the_timeout() {
        for (length, floor) in [
            (200_200, Some(200)),
            (1_000_100, Some(1_000)),
            (30_000, Some(30)),
            (350, None),
        ] {
            let gap = facts(HEAD, Duration::from_micros(length));
            assert_eq!(classify(&gap).2, floor.map(ms), "{length}");
        }
    }

    /// Dropped in its own host's queue, which the capture is behind.
    #[test]
    fn what_never_came_by_is_sent_again_after_round_trips_of_its_sender() {
        for (vantage, smoothed, usual) in [
            (Vantage::Middle, ms(8), true),
            (Vantage::Middle, Duration::from_micros(200), false),
            (Vantage::Sender, ms(8), false),
        ] {
            let gap = Facts {
                missing: true,
                vantage,
                smoothed: Some(smoothed),
                ..facts(HEAD, ms(30))
            };
            assert_eq!(
                is_usual(&gap, Cause::TimeoutTail),
                usual,
                "{vantage:?} {smoothed}"
            );
        }
    }

    #[test]
    fn what_left_within_the_tick_of_a_silence_tells_of_no_application() {
        let us = Duration::from_micros;
        for (length, late, at_most, usual) in [
            (5_009, 4_574, 5_574, true),
            (5_009, 3_000, 4_000, false),
            // By queues alone: of that a tick says nothing.
            (5_009, 4_574, 0, false),
            (1_200, 0, 0, false),
        ] {
            let gap = Facts {
                vantage: Vantage::Middle,
                late: us(late),
                at_most: us(at_most),
                ..facts(Ended::Wrote, us(length))
            };
            let is = is_usual(&gap, Cause::AppWroteNothing);
            assert_eq!(is, usual, "{length} {late} {at_most}");
        }
    }

    #[test]
    fn rfc8985_7_3_only_a_probe_sends_the_last_segment_first() {
        let probe = facts(
            Ended::Retransmission {
                head: false,
                tail: true,
            },
            Duration::from_micros(500),
        );
        assert_eq!(classify(&probe).0, Cause::TailLossProbe);
    }

    #[test]
    fn small_segments_tell_nagle_from_a_window_in_packets() {
        let mut gap = facts(Ended::Ack, ms(40));
        gap.evidence.released = Some(ByteCount::new(1));
        gap.released_largest = 1;
        for (packets, cause) in [(1, Cause::NagleDelayedAck), (3, Cause::PacketWindow)] {
            gap.evidence.flight = ByteCount::new(packets.into());
            (gap.evidence.packets, gap.evidence.small) = (packets, packets);
            assert_eq!(classify(&gap).0, cause);
        }
        gap.evidence.flight = ByteCount::new(1_460);
        (gap.evidence.packets, gap.evidence.small) = (1, 0);
        for (largest, cause) in [(1, Cause::NagleDelayedAck), (1_460, Cause::DelayedAck)] {
            gap.released_largest = largest;
            assert_eq!(classify(&gap).0, cause);
        }
    }

    #[test]
    fn rfc6298_2_no_timer_is_shorter_than_what_rtt_and_its_variation_give() {
        let gap = |vantage, us| Facts {
            vantage,
            asked: true,
            ..facts(HEAD, Duration::from_micros(us))
        };
        let is_usual = |facts: &Facts| is_usual(facts, classify(facts).0);
        assert!(is_usual(&gap(Vantage::Middle, 350)), "news was in a queue");
        assert!(!is_usual(&gap(Vantage::Middle, 450)));
        assert!(!is_usual(&gap(Vantage::Sender, 350)), "there is no queue");
    }

    #[test]
    fn what_nothing_asked_for_a_timer_sent_again() {
        let gap = |asked, us| Facts {
            vantage: Vantage::Middle,
            asked,
            ..facts(HEAD, Duration::from_micros(us))
        };
        let is_usual = |facts: &Facts| is_usual(facts, classify(facts).0);
        assert!(is_usual(&gap(true, 350)));
        assert!(!is_usual(&gap(false, 350)));
        // What asked for it was in a queue behind the capture, and the answer in one before it.
        let mut late = gap(true, 900);
        assert!(!is_usual(&late));
        late.queued = Duration::from_micros(550);
        assert!(is_usual(&late));
    }

    #[test]
    fn what_is_sent_again_once_more_after_a_floor_a_timer_sent_and_a_first_copy_may_be_asked_for() {
        let gap = |sends| {
            let mut gap = Facts {
                vantage: Vantage::Middle,
                asked: true,
                timer: ms(10),
                queued: ms(5),
                ..facts(HEAD, ms(10))
            };
            gap.evidence.timeout = Some(ms(6));
            gap.evidence.sends = sends;
            gap
        };
        let is_usual = |facts: &Facts| is_usual(facts, classify(facts).0);
        assert!(!is_usual(&gap(2)));
        assert!(is_usual(&gap(1)));
    }

    #[test]
    fn rfc8985_7_3_whose_window_is_full_sends_new_data_as_a_probe_only() {
        let new = |unsent, us| Facts {
            limited: unsent,
            unsent,
            ..facts(Ended::New, Duration::from_micros(us))
        };
        assert_eq!(classify(&new(true, 500)).0, Cause::TailLossProbe);
        assert_eq!(classify(&new(true, 200)).0, Cause::AppWroteNothing);
        assert_eq!(classify(&new(false, 400)).0, Cause::AppWroteNothing);
        let second = Facts {
            probing: true,
            ..new(true, 500)
        };
        assert_eq!(classify(&second).0, Cause::AppWroteNothing);
    }

    #[test]
    fn rfc6298_2_what_was_needless_and_sooner_than_any_timer_is_a_probe_s() {
        let again = Ended::Retransmission {
            head: true,
            tail: true,
        };
        for (timeout, cause) in [(400, Cause::TailLossProbe), (200, Cause::TimeoutSpurious)] {
            let mut gap = Facts {
                aftermath: Aftermath::Needless,
                ..facts(again, ms(250))
            };
            gap.evidence.timeout = Some(ms(timeout));
            assert_eq!(classify(&gap).0, cause);
        }
    }

    #[test]
    fn acknowledgements_that_came_at_once_waited_for_an_interrupt() {
        for (after, cause) in [(0, Cause::Coalescing), (720, Cause::PacketDelay)] {
            let mut gap = facts(Ended::Ack, ms(2));
            for us in [1_900, 1_800, 1_700] {
                let rtt = Duration::from_micros(us);
                gap.burst.add(rtt, Duration::from_nanos(after));
            }
            assert_eq!(classify(&gap).0, cause);
        }
    }

    #[test]
    fn what_left_at_once_and_is_acknowledged_at_once_waited_for_an_interrupt() {
        for (after, cause) in [(0, Cause::Coalescing), (1, Cause::PacketDelay)] {
            let mut gap = facts(Ended::Ack, ms(2));
            for _ in 0..3 {
                gap.burst.add(ms(2), Duration::from_nanos(after));
            }
            assert_eq!(classify(&gap).0, cause);
        }
    }

    #[test]
    fn rfc5681_4_2_of_a_receiver_that_acknowledges_pairs_a_timer_puts_off_what_is_of_less() {
        let gap = |pairs, acked, more| {
            let mut gap = Facts {
                pairs,
                acked,
                ..facts(Ended::Ack, ms(40))
            };
            gap.burst.last = Some(ms(40));
            if more {
                gap.burst.add(ms(40), Duration::from_micros(12));
            }
            classify(&gap).0
        };
        assert_eq!(gap(true, 1_460, false), Cause::DelayedAck);
        assert_eq!(
            gap(false, 1_460, false),
            Cause::PacketDelay,
            "it acknowledges each"
        );
        assert_eq!(gap(true, 2_920, false), Cause::PacketDelay);
        assert_eq!(
            gap(true, 1_460, true),
            Cause::PacketDelay,
            "the rest was late, too"
        );
    }

    #[test]
    fn a_window_that_is_wider_than_what_is_acknowledged_gives_was_closed() {
        let gap = Facts {
            widened: true,
            ..facts(Ended::Ack, ms(60))
        };
        assert_eq!(classify(&gap).0, Cause::WindowClosed);
    }

    #[test]
    fn rfc9293_3_9_1_2_whose_last_text_has_more_behind_it_did_not_wait_for_its_application() {
        for (vantage, unpushed, cause) in [
            (Vantage::Middle, true, Cause::PacketDelay),
            (Vantage::Receiver, true, Cause::PacketDelay),
            (Vantage::Middle, false, Cause::AppWroteNothing),
            (Vantage::Sender, true, Cause::AppWroteNothing),
        ] {
            let gap = Facts {
                vantage,
                unpushed,
                ..facts(Ended::Wrote, ms(1))
            };
            assert_eq!(classify(&gap).0, cause);
        }
    }

    #[test]
    fn between_the_ends_a_timer_is_as_long_as_its_floor_to_what_hosts_take() {
        for (us, cause) in [(1_005, Cause::TimeoutTail), (1_100, Cause::TailLossProbe)] {
            let mut gap = Facts {
                vantage: Vantage::Middle,
                smoothed: Some(Duration::from_micros(480)),
                ..facts(
                    Ended::Retransmission {
                        head: true,
                        tail: true,
                    },
                    Duration::from_micros(us),
                )
            };
            gap.evidence.packets = 1;
            assert_eq!(classify(&gap).0, cause);
        }
    }

    #[test]
    fn rfc8985_7_3_the_last_segment_that_nothing_asked_for_is_a_probe_s_at_any_time() {
        let gap = |head, asked| Facts {
            vantage: Vantage::Middle,
            asked,
            smoothed: Some(Duration::from_micros(446)),
            ..facts(
                Ended::Retransmission { head, tail: true },
                Duration::from_micros(870),
            )
        };
        let is_usual = |facts: &Facts| is_usual(facts, Cause::TailLossProbe);
        assert!(!is_usual(&gap(false, false)));
        assert!(is_usual(&gap(false, true)) && is_usual(&gap(true, false)));
    }

    #[test]
    fn a_silence_while_packets_are_on_their_way_to_an_end_says_nothing_of_its_application() {
        let wrote = |vantage, us| Facts {
            vantage,
            ..facts(Ended::Wrote, Duration::from_micros(us))
        };
        let is_usual = |facts: &Facts| is_usual(facts, classify(facts).0);
        assert!(is_usual(&wrote(Vantage::Receiver, 650)));
        assert!(!is_usual(&wrote(Vantage::Receiver, 750)));
        assert!(!is_usual(&wrote(Vantage::Middle, 650)), "queues are seen");
        assert!(!is_usual(&wrote(Vantage::Sender, 650)));
    }

    #[test]
    fn what_a_probe_may_have_sent_is_certainly_no_timeout() {
        for (tail, length, confidence) in [
            (false, 250, Confidence::Certain),
            (true, 250, Confidence::Likely),
            // Longer than one timeout: the host itself may have refused what others sent.
            (false, 1_400, Confidence::Likely),
        ] {
            let gap = Facts {
                aftermath: Aftermath::Needless,
                ..facts(Ended::Retransmission { head: true, tail }, ms(length))
            };
            assert_eq!(classify(&gap).1, confidence);
        }
    }

    /// A floor of 10 ms by the sender's own clock, and two of its round trips.
    #[test]
    fn rfc8985_7_2_what_was_acknowledged_here_is_a_probe_s_after_two_round_trips_of_its_sender() {
        let gap = |us, tail, timeouts| Facts {
            vantage: Vantage::Middle,
            arrived: true,
            unprompted: true,
            ran: Some(Duration::from_micros(us)),
            smoothed: Some(Duration::from_micros(7_700)),
            timeouts,
            ..facts(Ended::Retransmission { head: true, tail }, ms(15))
        };
        for (gap, cause) in [
            (gap(15_440, true, 0), Cause::TailLossProbe),
            (gap(15_440, false, 0), Cause::TimeoutSpurious),
            (gap(15_440, true, 1), Cause::TimeoutSpurious),
            (gap(10_000, true, 0), Cause::TimeoutSpurious),
        ] {
            assert_eq!(classify(&gap).0, cause, "{gap:?}");
        }
    }

    /// Its window was full, and nothing that it heard let anything out.
    #[test]
    fn rfc8985_7_3_who_heard_nothing_sends_new_data_as_a_probe_only() {
        for (unprompted, us, cause) in [
            (true, 900, Cause::TailLossProbe),
            (false, 900, Cause::AppWroteNothing),
            (true, 200, Cause::AppWroteNothing),
            // No timer of a probe is as long.
            (true, 50_000, Cause::AppWroteNothing),
        ] {
            let gap = Facts {
                vantage: Vantage::Middle,
                limited: true,
                full: true,
                unprompted,
                smoothed: Some(Duration::from_micros(200)),
                ..facts(Ended::New, Duration::from_micros(us))
            };
            assert_eq!(classify(&gap).0, cause, "{unprompted} {us}");
        }
    }

    /// Who has more to send and hears of its flight sends that, however late it heard.
    #[test]
    fn rfc8985_7_3_what_is_the_first_to_echo_what_was_heard_is_a_probe_only_after_two_round_trips()
    {
        for (prompted, us, cause) in [
            (false, 300, Cause::TailLossProbe),
            (true, 300, Cause::AppWroteNothing),
            (true, 400, Cause::TailLossProbe),
        ] {
            let gap = Facts {
                vantage: Vantage::Middle,
                limited: true,
                unsent: true,
                prompted,
                ..facts(Ended::New, Duration::from_micros(us))
            };
            assert_eq!(classify(&gap).0, cause, "{prompted} {us}");
        }
    }

    /// Linux adds two ticks to a probe's time where more than one packet is out. Of a peer that puts no
    /// acknowledgement off.
    #[test]
    fn rfc8985_7_2_a_probe_of_a_single_packet_has_no_ticks_beside_two_round_trips() {
        for (packets, us, cause) in [
            (2, 2_300, Cause::TailLossProbe),
            (1, 2_300, Cause::TimeoutTail),
            (1, 430, Cause::TailLossProbe),
        ] {
            let last = Ended::Retransmission {
                head: true,
                tail: true,
            };
            let mut gap = facts(last, Duration::from_micros(us));
            (gap.evidence.packets, gap.smoothed) = (packets, Some(Duration::from_micros(200)));
            assert_eq!(classify(&gap).0, cause, "{packets} {us}");
        }
    }

    /// A probe's timer runs since something left, though acknowledgements passed here since.
    #[test]
    fn rfc8985_7_2_a_probe_takes_two_round_trips_since_what_left_last() {
        for (left, usual) in [(390, true), (410, false)] {
            let last = Ended::Retransmission {
                head: true,
                tail: true,
            };
            let gap = Facts {
                vantage: Vantage::Middle,
                probe: Duration::from_micros(left),
                ..facts(last, Duration::from_micros(380))
            };
            assert_eq!(is_usual(&gap, Cause::TailLossProbe), usual, "{left}");
        }
    }

    #[test]
    fn no_timer_of_a_receiver_puts_off_an_acknowledgement_of_two_full_segments() {
        let gap = facts(Ended::Ack, ms(40));
        assert_eq!(classify(&gap).0, Cause::PacketDelay);
    }
}
