//! The script's numbers and the stack's: sequence numbers and timestamps.
//!
//! A script numbers from 0. What the peer sends is taken as it stands; what the TCP under test
//! sends is counted from its initial sequence number, and its timestamps are learned from the
//! packets that left.

use super::ast::TcpOption;
use narrows::wire::TcpOptions;
use narrows::{Duration, Instant};
use std::collections::BTreeMap;

/// One connection as the script sees it.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The port of the TCP under test.
    pub(super) local: u16,
    /// The peer's.
    pub(super) remote: u16,
    /// Live less script sequence number of the TCP under test; unknown before its SYN.
    shift: Option<u32>,
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
    /// Segments with text that arrived.
    pub(super) data_in: u64,
    /// Segments with text that left.
    pub(super) data_out: u64,
    /// What the user wrote, in order, and the live sequence number of its first byte.
    pub(super) written: Vec<u8>,
    first_byte: Option<u32>,
}

impl Flow {
    /// Between these ports.
    pub(super) fn new(local: u16, remote: u16) -> Self {
        Self {
            local,
            remote,
            shift: None,
            timestamps: BTreeMap::new(),
            first: None,
            peer_isns: Vec::new(),
            peer: TcpOptions::default(),
            own: TcpOptions::default(),
            data_in: 0,
            data_out: 0,
            written: Vec::new(),
            first_byte: None,
        }
    }

    /// Our SYN leaves with `live`, which the script calls `script`: a new incarnation.
    pub(super) fn on_syn(&mut self, live: u32, script: u32) {
        self.shift = Some(live.wrapping_sub(script));
    }

    /// Our SYN left, whatever the script calls it.
    pub(super) fn on_live_syn(&mut self, live: u32) {
        let first = Some(live.wrapping_add(1));
        if self.first_byte != first {
            self.first_byte = first;
            self.written.clear();
        }
    }

    /// A sequence number of ours, as the stack has it.
    pub(super) fn live(&self, script: u32) -> u32 {
        script.wrapping_add(self.shift.unwrap_or(0))
    }

    /// A sequence number of ours, as the script has it.
    pub(super) fn script(&self, live: u32) -> u32 {
        live.wrapping_sub(self.shift.unwrap_or(0))
    }

    /// What should stand at live sequence number `seq`: `len` bytes, if the user wrote them.
    pub(super) fn written_at(&self, seq: u32, len: usize) -> Option<&[u8]> {
        let at = seq.wrapping_sub(self.first_byte?) as usize;
        self.written.get(at..at.checked_add(len)?)
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

/// The byte that the script's peer sends at sequence number `seq`: always the same, so that a
/// retransmission agrees with the original.
pub(super) fn peer_byte(seq: u32) -> u8 {
    (seq.wrapping_mul(0x9e37_79b1) >> 24) as u8
}

/// The byte that the user writes as the `n`-th where the script says `...`.
pub(super) fn user_byte(n: usize) -> u8 {
    ((n as u32).wrapping_mul(0x85eb_ca6b) >> 24) as u8
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
        assert_eq!((f.live(7), f.script(7)), (7, 7));
        f.on_syn(u32::MAX, 0);
        f.on_live_syn(u32::MAX);
        assert_eq!((f.live(1), f.script(0)), (0, 1));
        f.written.extend([1, 2, 3]);
        assert_eq!(f.written_at(1, 2), Some(&[2, 3][..]));
        assert_eq!(f.written_at(2, 2), None);
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
