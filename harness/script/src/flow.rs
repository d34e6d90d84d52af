//! The script's numbers and the stack's: sequence numbers and timestamps.
//!
//! As packetdrill has it: a SYN carries its number as the script writes it, all other packets count
//! from the initial sequence numbers, which are 0 to them. The peer's is the script's choice, that
//! of the TCP under test is learned from the SYN that left; so are its timestamps.

use super::ast::TcpOption;
use super::sockets::{Text, user_byte};
use narrows::wire::{Flags, TcpOptions};
use narrows::{Duration, Instant};
use std::collections::BTreeMap;

/// An initial sequence number of the TCP under test.
#[derive(Clone, Copy, Debug)]
struct Isn {
    live: u32,
    /// What the script calls it in the SYN.
    script: u32,
}

/// One connection as the script sees it.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The port of the TCP under test.
    pub(super) local: u16,
    /// The peer's.
    pub(super) remote: u16,
    /// The number of our SYN; unknown before it left.
    isn: Option<Isn>,
    /// The number of the peer's SYN that opened the connection; unknown before it.
    peer_isn: Option<u32>,
    /// Only SYNs of ours have left, and no RST has come: another SYN of ours is the same again.
    opening: bool,
    /// Live TSval by the script's.
    timestamps: BTreeMap<u32, u32>,
    /// The first TSval: the script's, the live one, and when it left.
    first: Option<(u32, u32, Instant)>,
    /// Initial sequence numbers of the peer's SYNs, honest or not.
    pub(super) peer_isns: Vec<u32>,
    /// Options of the peer's last SYN.
    pub(super) peer: TcpOptions,
    /// Options of our last SYN.
    pub(super) own: TcpOptions,
    /// The live sequence number of our first byte.
    first_byte: Option<u32>,
}

impl Flow {
    /// Between these ports.
    pub(super) fn new(local: u16, remote: u16) -> Self {
        Self {
            local,
            remote,
            isn: None,
            peer_isn: None,
            opening: false,
            timestamps: BTreeMap::new(),
            first: None,
            peer_isns: Vec::new(),
            peer: TcpOptions::default(),
            own: TcpOptions::default(),
            first_byte: None,
        }
    }

    /// Our SYN leaves with `live`, which the script calls `script`, and acknowledges `acked`. What
    /// it is called counts in the first SYN of an incarnation: one that comes again is compared.
    pub(super) fn on_syn(&mut self, live: u32, script: u32, acked: Option<u32>) {
        // The SYN of the peer's that it is the answer to, with some of its text or none.
        let theirs = acked.map(|ack| {
            let last = ack.wrapping_sub(1);
            let text = |isn: &u32| last.wrapping_sub(*isn);
            let answered = |isn: &u32| text(isn) <= u32::from(u16::MAX);
            let seen = self.peer_isns.iter().copied();
            seen.filter(answered).min_by_key(text).unwrap_or(last)
        });
        if self.opening && (theirs.is_none() || theirs == self.peer_isn) {
            return;
        }
        self.isn = Some(Isn { live, script });
        self.peer_isn = theirs;
        self.opening = true;
    }

    /// Something has happened after which a SYN of ours is that of a new incarnation.
    pub(super) fn on_end_of_opening(&mut self) {
        self.opening = false;
    }

    /// The peer's SYN arrives.
    pub(super) fn on_peer_syn(&mut self, isn: u32) {
        self.peer_isn.get_or_insert(isn);
        if !self.peer_isns.contains(&isn) {
            self.peer_isns.push(isn);
        }
    }

    /// Our SYN left, whatever the script calls it.
    pub(super) fn on_live_syn(&mut self, live: u32) {
        self.first_byte = Some(live.wrapping_add(1));
    }

    /// A sequence number of ours, in a packet with these flags, as the stack has it.
    pub(super) fn live(&self, script: u32, flags: Flags) -> u32 {
        script.wrapping_add(self.shift(flags))
    }

    /// A sequence number of ours, in a packet with these flags, as the script has it.
    pub(super) fn script(&self, live: u32, flags: Flags) -> u32 {
        live.wrapping_sub(self.shift(flags))
    }

    fn shift(&self, flags: Flags) -> u32 {
        match self.isn {
            Some(isn) if flags.contains(Flags::SYN) => isn.live.wrapping_sub(isn.script),
            Some(isn) => isn.live,
            None => 0,
        }
    }

    /// What is to be added to a sequence number of the peer's in a packet with these flags.
    pub(super) fn peer_shift(&self, flags: Flags) -> u32 {
        match self.peer_isn {
            Some(isn) if !flags.contains(Flags::SYN) => isn,
            _ => 0,
        }
    }

    /// Where in what the user writes live sequence number `seq` lies.
    pub(super) fn offset(&self, seq: u32) -> Option<u64> {
        Some(seq.wrapping_sub(self.first_byte?).into())
    }

    /// A packet left with TSval `live` where the script says `script`.
    pub(super) fn learn_timestamp(&mut self, script: u32, live: u32, now: Instant) {
        self.timestamps.insert(script, live);
        self.first.get_or_insert((script, live, now));
    }

    /// The echo that a packet of the script's peer carries, as the stack knows it.
    pub(super) fn live_echo(&self, script: u32) -> u32 {
        if let Some(live) = self.timestamps.get(&script) {
            return *live;
        }
        match self.first {
            // Between those that left: by the same clock.
            Some((from, live, _)) => live.wrapping_add(script.wrapping_sub(from)),
            None => script,
        }
    }

    /// A live TSval for printing, counted as the script counts.
    pub(super) fn script_timestamp(&self, live: u32) -> u32 {
        match self.first {
            Some((script, from, _)) => script.wrapping_add(live.wrapping_sub(from)),
            None => live,
        }
    }

    /// Whether the script's TSval fits the time since the first, with a clock of `tick` and room
    /// for `tolerance`.
    pub(super) fn timestamp_fits(
        &self,
        script: u32,
        live: u32,
        tick: Duration,
        tolerance: Duration,
    ) -> bool {
        let Some((first_script, first_live, _)) = self.first else {
            return true;
        };
        let room = tolerance.as_nanos() / tick.as_nanos().max(1);
        let wanted = script.wrapping_sub(first_script);
        let came = live.wrapping_sub(first_live);
        u64::from((wanted.wrapping_sub(came) as i32).unsigned_abs()) <= room
    }
}

/// What a user writes to a descriptor and reads from it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The flow it goes by, once that is known.
    pub(super) flow: Option<usize>,
    /// Bytes written.
    pub(super) written: u64,
    /// Those of them that the script gave, and where they lie.
    given: Vec<(u64, Vec<u8>)>,
    /// Bytes read.
    pub(super) read: u64,
}

impl Stream {
    /// Nothing yet, by this flow.
    pub(super) fn of(flow: Option<usize>) -> Self {
        Self {
            flow,
            ..Self::default()
        }
    }

    /// `text` is written.
    pub(super) fn write(&mut self, text: &Text) {
        if !text.given.is_empty() {
            self.given.push((self.written, text.given.clone()));
        }
        self.written += text.len as u64;
    }

    /// No more than so many bytes were taken in all.
    pub(super) fn truncate(&mut self, written: u64) {
        self.written = self.written.min(written);
        self.given.retain(|(at, _)| *at < written);
        if let Some((at, bytes)) = self.given.last_mut() {
            bytes.truncate(usize::try_from(written - *at).unwrap_or(usize::MAX));
        }
    }

    /// Whether `bytes` are what was written at `offset`.
    pub(super) fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let byte = |n: u64| {
            let given = self.given.iter().find_map(|(at, given)| {
                let i = usize::try_from(n.checked_sub(*at)?).ok()?;
                given.get(i).copied()
            });
            given.unwrap_or_else(|| user_byte(n))
        };
        offset + bytes.len() as u64 <= self.written
            && bytes.iter().zip(offset..).all(|(b, n)| *b == byte(n))
    }
}

/// The byte that the script's peer sends at sequence number `seq`: always the same, so that a
/// retransmission agrees with the original.
pub(super) fn peer_byte(seq: u32) -> u8 {
    (seq.wrapping_mul(0x9e37_79b1) >> 24) as u8
}

/// TSval of a list of options.
pub(super) fn tsval(options: &[TcpOption]) -> Option<u32> {
    options.iter().find_map(|o| match o {
        TcpOption::Timestamps { val, .. } => Some(*val),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_translate_both_ways() {
        let mut f = Flow::new(1, 2);
        let (syn, ack) = (Flags::SYN, Flags::ACK);
        assert_eq!((f.live(7, ack), f.script(7, ack)), (7, 7));
        f.on_syn(u32::MAX, 0, None);
        f.on_live_syn(u32::MAX);
        assert_eq!((f.live(1, ack), f.script(0, ack)), (0, 1));
        assert_eq!(f.offset(2), Some(2));
        // A SYN that the script numbers: all others count from it.
        f.on_end_of_opening();
        f.on_syn(500, 100, None);
        assert_eq!((f.live(100, syn), f.script(500, syn)), (500, 100));
        assert_eq!((f.live(1, ack), f.script(501, ack)), (501, 1));
    }

    #[test]
    fn the_peer_counts_from_the_syn_that_opened_the_connection() {
        let mut f = Flow::new(1, 2);
        let (syn, ack) = (Flags::SYN, Flags::ACK);
        assert_eq!(f.peer_shift(ack), 0);
        f.on_peer_syn(700);
        f.on_peer_syn(900);
        assert_eq!((f.peer_shift(syn), f.peer_shift(ack)), (0, 700));
        f.on_syn(5, 0, Some(901));
        f.on_peer_syn(7);
        assert_eq!(f.peer_shift(ack), 900);
        // A SYN that comes again must have the same number, until one opens something new.
        f.on_syn(6, 0, Some(901));
        assert_eq!((f.peer_shift(ack), f.script(6, syn)), (900, 1));
        f.on_end_of_opening();
        f.on_syn(6, 0, None);
        f.on_peer_syn(8);
        assert_eq!((f.peer_shift(ack), f.script(6, syn)), (8, 0));
        assert_eq!(f.peer_isns, [700, 900, 7, 8]);
    }

    #[test]
    fn a_stream_holds_what_was_taken_of_what_was_written() {
        let mut s = Stream::default();
        let text = |given: &[u8], at, len| Text {
            given: given.to_vec(),
            at,
            len,
        };
        s.write(&text(&[1, 2, 3], 0, 3));
        s.write(&text(&[], 3, 2));
        assert!(s.holds(1, &[2, 3, user_byte(3), user_byte(4)]));
        assert!(!s.holds(1, &[2, 4]) && !s.holds(4, &[user_byte(4), user_byte(5)]));
        s.truncate(2);
        s.write(&text(&[9], 2, 1));
        assert!(s.holds(0, &[1, 2, 9]));
    }

    #[test]
    fn echoes_are_those_learned_or_counted_on() {
        let mut f = Flow::new(1, 2);
        f.learn_timestamp(100, 5_000, Instant::ZERO);
        f.learn_timestamp(300, 5_100, Instant::ZERO);
        assert_eq!(f.live_echo(300), 5_100);
        assert_eq!(f.live_echo(110), 5_010);
        let (tick, room) = (Duration::from_millis(1), Duration::from_millis(4));
        assert!(f.timestamp_fits(150, 5_054, tick, room));
        assert!(!f.timestamp_fits(150, 5_055, tick, room));
    }
}
