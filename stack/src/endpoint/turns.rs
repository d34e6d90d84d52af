//! Whose turn comes next, by whose came next the last time.
//!
//! Of many connections each is out of the cache when its next segment comes. Those that a queue
//! holds go round: their segments come in nearly the order of the time before. So it is remembered
//! whose came, and where that repeats itself, the connection is asked for whose turn will come a few
//! segments later. Nothing hangs on it but when memory is there.

/// Turns ahead that are asked for. One may come so many earlier or later than the time before.
const AHEAD: usize = 8;
/// Of so many turns one is looked at, whether it came as the time before.
const LOOKED_AT: usize = 8;
/// How far turns must have come as the time before for any to be asked for: each looked at that does
/// counts one up, each that does not one down, and no more than twice this counts.
const TRUSTED: u32 = 4;
/// Turns that are early or late together by so much, of those looked at, move all that follow by one.
const DRIFT: i32 = 4 * AHEAD as i32;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) slot: u32,
    /// Where the table of connections has it.
    pub(super) place: u32,
}

impl Turn {
    const NOBODYS: Self = Self {
        slot: u32::MAX,
        place: u32::MAX,
    };
}

/// The order of turns.
#[derive(Debug)]
pub(super) struct Turns {
    /// The last turns, of which there are a power of two.
    order: Box<[Turn]>,
    /// The place of the next turn, modulo their number.
    next: usize,
    /// The same the time before.
    before: usize,
    trust: u32,
    drift: i32,
    /// Turns to be looked at until the one is looked for that came before at `before`.
    patience: usize,
}

impl Turns {
    /// For so many slots, of which each may have two turns a round.
    pub(super) fn of(slots: usize) -> Self {
        let places = (2 * slots + 4 * AHEAD).next_power_of_two();
        Self {
            order: vec![Turn::NOBODYS; places].into(),
            next: 0,
            before: 0,
            trust: 0,
            drift: 0,
            patience: places / LOOKED_AT,
        }
    }

    /// Whether it is for as many as there are with `slot` among them.
    #[inline]
    pub(super) fn holds(&self, slot: u32) -> bool {
        2 * (slot as usize + 1) < self.order.len()
    }

    fn place(&self, turn: usize) -> usize {
        turn & (self.order.len() - 1)
    }

    /// It is this `turn`: which comes soon, where that is foreseen.
    #[inline]
    pub(super) fn took(&mut self, turn: Turn) -> Option<Turn> {
        if self.next.is_multiple_of(LOOKED_AT) {
            self.look_at(turn.slot);
        }
        let now = self.place(self.next);
        self.order[now] = turn;
        let soon = self.place(self.before.wrapping_add(AHEAD));
        let foreseen = (self.trust >= TRUSTED).then(|| self.order[soon]);
        self.next = self.next.wrapping_add(1);
        self.before = self.before.wrapping_add(1);
        foreseen
    }

    /// Whether `slot`, whose turn it is, had its turn before at about the same place.
    #[inline(never)]
    fn look_at(&mut self, slot: u32) {
        let first = self.before.wrapping_sub(AHEAD);
        let mut near = (0..=2 * AHEAD).map(|n| self.order[self.place(first.wrapping_add(n))].slot);
        if let Some(n) = near.position(|s| s == slot) {
            self.trust = (self.trust + 1).min(2 * TRUSTED);
            self.drift += n as i32 - AHEAD as i32;
            if self.drift.abs() > DRIFT {
                let (late, early) = (self.drift > 0, self.drift < 0);
                self.before = (self.before + usize::from(late)).wrapping_sub(usize::from(early));
                self.drift = 0;
            }
            return;
        }
        self.trust = self.trust.saturating_sub(1);
        self.patience = self.patience.saturating_sub(1);
        if self.trust == 0 && self.patience == 0 {
            self.look_for(slot);
        }
    }

    /// What comes is not what came after `before`: where that is, if `slot` tells.
    #[cold]
    fn look_for(&mut self, slot: u32) {
        let places = self.order.len();
        self.patience = places / 4 / LOOKED_AT;
        // The oldest: of a slot with two turns a round that of the same.
        let mut turns = (4 * AHEAD..places - 2 * AHEAD)
            .rev()
            .map(|ago| self.next.wrapping_sub(ago));
        if let Some(before) = turns.find(|&turn| self.order[self.place(turn)].slot == slot) {
            self.before = before;
            self.trust = TRUSTED / 2;
            self.drift = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random numbers below `n`.
    struct Random(u32);

    impl Random {
        fn below(&mut self, n: u32) -> u32 {
            self.0 = self.0.wrapping_mul(0x915f_77f5).wrapping_add(1);
            ((u64::from(self.0) * u64::from(n)) >> 32) as u32
        }
    }

    fn turn_of(slot: u32) -> Turn {
        Turn {
            slot,
            place: slot + 1,
        }
    }

    /// A queue that goes round is foreseen.
    #[test]
    fn what_repeats_itself_is_foreseen() {
        let mut turns = Turns::of(1_000);
        let mut foreseen = 0;
        for n in 0..10_000_u32 {
            let slot = |n| n % 1_000 * 7 % 1_000;
            let ahead = AHEAD as u32;
            if let Some(f) = turns.took(turn_of(slot(n))) {
                assert_eq!(f, turn_of(slot(n + ahead)));
                foreseen += 1;
            }
        }
        assert!(foreseen > 7_000, "{foreseen}");
    }

    /// Two turns a round for each, in an order that differs a little from round to round: they are
    /// foreseen before they come, and not long before.
    #[test]
    fn small_disorder_does_no_harm() {
        let mut random = Random(1);
        let mut order: Vec<u32> = (0..2_000).map(|n| n % 1_000).collect();
        let mut turns = Turns::of(1_000);
        let (mut recent, mut right) = (vec![0; 1_000], 0);
        for turn in 0..100_000 {
            let n = turn % order.len();
            if n == 0 {
                let slots = order.iter().zip(0..);
                let mut late: Vec<_> = slots
                    .map(|(&s, n)| (10 * n + random.below(42), s))
                    .collect();
                late.sort_unstable();
                order = late.into_iter().map(|(_, slot)| slot).collect();
            }
            let slot = order[n];
            right += u32::from(turn - recent[slot as usize] < 4 * AHEAD);
            if let Some(f) = turns.took(turn_of(slot)) {
                recent[f.slot as usize] = turn;
            }
        }
        assert!(right > 90_000, "{right}");
    }

    /// Where there is no order, next to nothing is asked for.
    #[test]
    fn what_has_no_order_is_not_foreseen() {
        let mut random = Random(1);
        let mut turns = Turns::of(1_000);
        let mut round = |turns: &mut Turns| {
            let mut took = |_: &u32| turns.took(turn_of(random.below(1_000))).is_some();
            (0..20_000).filter(|n| took(n)).count()
        };
        assert!(round(&mut turns) < 10);
        (0..20_000).for_each(|n| _ = turns.took(turn_of(n % 1_000)));
        assert!(turns.trust > TRUSTED);
        assert!(round(&mut turns) < 50);
    }

    #[test]
    fn holds_two_turns_of_each() {
        let turns = Turns::of(1_985);
        assert_eq!(turns.order.len(), 4_096);
        assert!(turns.holds(1_984) && turns.holds(2_046) && !turns.holds(2_047));
    }
}
