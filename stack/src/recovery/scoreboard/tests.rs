use super::*;
use crate::recovery::detector::{AckFacts, LossDetector};
use crate::recovery::dup_thresh::Sack6675;
use crate::recovery::rack::RackTlp;
use narrows_congestion::{Duration, RttEstimator};
use proptest::prelude::*;

const MSS: u64 = 1_000;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// `n` segments of one MSS from sequence number 0 on, sent a nanosecond apart from 1 ns on.
fn board_of(n: u64) -> Scoreboard {
    let mut board = Scoreboard::new();
    for i in 1..=n {
        board.push(i * MSS, at(i), 0);
    }
    board
}

fn sack(board: &mut Scoreboard, blocks: &[(u64, u64)]) -> u64 {
    let blocks: Vec<_> = blocks.iter().map(|&(a, b)| (a * MSS, b * MSS)).collect();
    board.sack(&blocks, |_| {}).get()
}

/// The records in flight, oldest transmission first.
fn by_send_time(board: &Scoreboard) -> impl Iterator<Item = SentSegment> {
    let oldest = board.record(board.flight.head);
    std::iter::successors(oldest, |r| board.record(r.next)).map(|r| r.view(board.start(r)))
}

fn lost(board: &Scoreboard) -> Vec<u64> {
    board
        .iter()
        .filter(|r| r.is_lost())
        .map(|r| r.start / MSS)
        .collect()
}

#[test]
fn a_record_is_small() {
    assert_eq!(size_of::<Record>(), 32);
}

#[test]
fn pipe_follows_every_transition() {
    let mut board = board_of(10);
    assert_eq!(board.pipe().get(), 10 * MSS);
    sack(&mut board, &[(5, 8)]);
    assert_eq!(board.pipe().get(), 7 * MSS);
    assert!(board.mark_lost(0));
    assert!(!board.mark_lost(0), "it is lost already");
    assert!(!board.mark_lost(5 * MSS), "it is SACKed");
    assert!(!board.mark_lost(5), "no record starts there");
    assert_eq!(board.pipe().get(), 6 * MSS);
    assert_eq!(board.next_lost().map(|r| r.start), Some(0));
    board.on_retransmit(0, at(20), 0);
    assert_eq!(board.pipe().get(), 7 * MSS);
    assert!(board.next_lost().is_none());
    assert!(board.mark_lost(0), "the retransmission is lost too");
    assert_eq!((board.pipe().get(), board.lost().get()), (6 * MSS, MSS));
    board.on_retransmit(0, at(21), 0);
    board.undo_retransmit(0);
    assert_eq!(board.next_lost().map(|r| r.transmissions), Some(3));
    // A probe of a segment that is not lost counts twice.
    board.on_retransmit(9 * MSS, at(22), 0);
    assert_eq!(board.pipe().get(), 7 * MSS);
    board.check_invariants();
    let order: Vec<u64> = by_send_time(&board).map(|r| r.start / MSS).collect();
    assert_eq!(order, [1, 2, 3, 4, 8, 9]);
    board.clear_lost();
    assert_eq!((board.pipe().get(), board.lost().get()), (8 * MSS, 0));
    board.check_invariants();
    assert_eq!(board.mark_all_lost().get(), 7 * MSS);
    assert_eq!((board.pipe().get(), board.lost().get()), (0, 7 * MSS));
    board.reset_sacked();
    assert_eq!((board.sacked().get(), board.pipe().get()), (0, 3 * MSS));
    assert_eq!(board.ack(10 * MSS, |_| {}).get(), 10 * MSS);
    assert!(board.is_empty());
    board.check_invariants();
}

#[test]
fn duplicate_acks_stand_for_segments() {
    let mut board = board_of(5);
    board.set_reno_sacked(2, ByteCount::new(MSS));
    assert_eq!(board.pipe().get(), 3 * MSS);
    assert_eq!(board.sacked_segments(), 2);
    board.set_reno_sacked(u32::MAX, ByteCount::MAX);
    assert_eq!(board.pipe(), ByteCount::ZERO);
}

#[test]
fn partial_ack_trims_and_sack_takes_whole_records_only() {
    let mut board = board_of(4);
    let mut seen = Vec::new();
    assert_eq!(board.ack(1_500, |r| seen.push(r.start)).get(), 1_500);
    assert_eq!(seen, [0]);
    assert_eq!(
        board.first().map(|r| (r.start, r.end)),
        Some((1_500, 2_000))
    );
    assert_eq!(board.sack(&[(1_600, 2_999)], |_| {}).get(), 0);
    assert_eq!(board.sack(&[(1_400, 3_000)], |_| {}).get(), 1_500);
    // The same block again brings nothing; one that now covers the rest does.
    assert_eq!(board.sack(&[(1_500, 3_000)], |_| {}).get(), 0);
    assert_eq!(board.sack(&[(2_500, 9_000)], |_| {}).get(), 1_000);
    // A renege, or an ACK inside SACKed data: nothing is delivered twice.
    assert_eq!(board.ack(2_500, |_| panic!("was SACKed")).get(), 0);
    assert_eq!(board.ack(1, |_| panic!("old")).get(), 0);
    assert_eq!(board.outstanding().get(), 1_500);
    board.check_invariants();
}

#[test]
fn only_what_never_left_can_be_forgotten() {
    let mut board = board_of(3);
    assert!(!board.pop_unsent(0), "not the last");
    assert!(board.pop_unsent(2 * MSS));
    assert_eq!(board.end(), 2 * MSS);
    board.on_retransmit(MSS, at(9), 0);
    assert!(!board.pop_unsent(MSS), "it was sent twice");
    board.push(3 * MSS, at(10), 0);
    sack(&mut board, &[(2, 3)]);
    assert!(!board.pop_unsent(2 * MSS), "the peer has it");
    board.check_invariants();
}

/// RFC 8985 section 6.2 step 3: a segment sent once and delivered below the highest delivered
/// one was reordered; a retransmission proves nothing, nor does in-order delivery.
#[test]
fn reordering_is_seen() {
    let mut board = board_of(10);
    board.ack(2 * MSS, |_| {});
    sack(&mut board, &[(3, 5)]);
    assert_eq!(board.reordering(), Reordering::default());
    board.mark_lost(2 * MSS);
    board.on_retransmit(2 * MSS, at(20), 0);
    board.ack(5 * MSS, |_| {});
    assert_eq!(board.reordering(), Reordering::default());
    sack(&mut board, &[(6, 8), (9, 10)]);
    assert_eq!(board.reordering(), Reordering::default());
    sack(&mut board, &[(8, 10), (6, 8)]);
    assert_eq!(board.reordering().segments, 1);
    assert_eq!(board.reordering().extent.get(), 2 * MSS);
    board.ack(10 * MSS, |_| {});
    assert_eq!(board.reordering().segments, 2);
    assert_eq!(board.reordering().extent.get(), 5 * MSS);
}

/// `IsLost` of RFC 6675 section 4, `DupThresh` 3: three discontiguous runs, or more than
/// 2 SMSS of bytes, above.
#[test]
fn rfc6675_is_lost() {
    type Case = (&'static [(u64, u64)], &'static [u64]);
    let table: &[Case] = &[
        (&[(1, 2)], &[]),
        (&[(1, 3)], &[]),
        (&[(1, 4)], &[0]),
        (&[(1, 2), (4, 5)], &[]),
        (&[(1, 2), (3, 4), (5, 6)], &[0]),
        (&[(2, 3), (4, 5), (6, 7), (8, 9)], &[0, 1, 3]),
        (&[(7, 10)], &[0, 1, 2, 3, 4, 5, 6]),
        (&[(3, 5), (9, 10)], &[0, 1, 2]),
    ];
    for (blocks, expected) in table {
        let mut board = board_of(12);
        sack(&mut board, blocks);
        board.mark_lost_by_sacks(3, ByteCount::new(MSS));
        assert_eq!(lost(&board), *expected, "{blocks:?}");
        board.check_invariants();
    }
    // Short segments: two SMSS take many of them, but three runs are enough.
    let mut board = board_of(12);
    sack(&mut board, &[(1, 4)]);
    assert!(
        board
            .mark_lost_by_sacks(3, ByteCount::new(2 * MSS))
            .is_zero()
    );
    sack(&mut board, &[(5, 6), (7, 8)]);
    assert_eq!(
        board.mark_lost_by_sacks(3, ByteCount::new(2 * MSS)).get(),
        MSS
    );
    // A run that closes a gap takes a run away, and judges nothing anew.
    sack(&mut board, &[(4, 5)]);
    assert!(
        board
            .mark_lost_by_sacks(3, ByteCount::new(3 * MSS))
            .is_zero()
    );
    assert_eq!(lost(&board), [0]);
    board.check_invariants();
}

#[test]
fn splitting_keeps_every_byte_in_its_state() {
    let mut board = board_of(6);
    sack(&mut board, &[(2, 4)]);
    board.mark_lost(0);
    board.mark_lost(MSS);
    board.on_retransmit(0, at(50), 0);
    let before = (
        board.pipe(),
        board.sacked(),
        board.lost(),
        board.retransmitted(),
    );
    board.split_at_mss(ByteCount::new(300));
    assert_eq!(
        before,
        (
            board.pipe(),
            board.sacked(),
            board.lost(),
            board.retransmitted()
        )
    );
    assert_eq!(board.len(), 24);
    assert_eq!(
        board.next_lost().map(|r| (r.start, r.end)),
        Some((1_000, 1_300))
    );
    board.check_invariants();
}

/// What a scoreboard must be, written without a thought for speed.
#[derive(Clone, Default)]
struct Naive {
    records: Vec<NaiveRecord>,
    una: u64,
    end: u64,
    judged: u64,
    undone: u64,
    high_sacked: u64,
    reordered: u64,
}

#[derive(Clone, Copy, Debug)]
struct NaiveRecord {
    start: u64,
    end: u64,
    sent_at: u64,
    times: u8,
    sacked: bool,
    lost: bool,
    resent: bool,
}

impl Naive {
    fn push(&mut self, len: u64, now: u64) {
        let start = self.end;
        self.end += len;
        self.records.push(NaiveRecord {
            start,
            end: self.end,
            sent_at: now,
            times: 1,
            sacked: false,
            lost: false,
            resent: false,
        });
    }

    fn delivered(&mut self, r: &NaiveRecord, highest: u64) {
        self.reordered += u64::from(r.times == 1 && r.end < highest);
    }

    fn ack(&mut self, ack: u64) -> u64 {
        let mut bytes = 0;
        for mut r in std::mem::take(&mut self.records) {
            if r.start < ack && !r.sacked {
                bytes += r.end.min(ack) - r.start;
            }
            if r.end <= ack {
                if !r.sacked {
                    let highest = self.high_sacked;
                    self.delivered(&r, highest);
                }
            } else {
                r.start = r.start.max(ack);
                self.records.push(r);
            }
        }
        self.una = self.una.max(ack);
        bytes
    }

    fn sack(&mut self, blocks: &[(u64, u64)]) -> u64 {
        let highest = self.high_sacked;
        let mut bytes = 0;
        for &(start, end) in blocks {
            for i in 0..self.records.len() {
                let r = self.records[i];
                if start <= r.start && r.end <= end && !r.sacked {
                    bytes += r.end - r.start;
                    self.delivered(&r, highest);
                    self.high_sacked = self.high_sacked.max(r.end);
                    let r = &mut self.records[i];
                    (r.sacked, r.lost, r.resent) = (true, false, false);
                }
            }
        }
        bytes
    }

    fn mark_lost_by_sacks(&mut self, dup_thresh: u32, smss: u64) -> u64 {
        let mut bytes = 0;
        for i in 0..self.records.len() {
            if self.records[i].start < self.judged {
                continue;
            }
            let above = &self.records[i..];
            let sacked: u64 = above
                .iter()
                .filter(|r| r.sacked)
                .map(|r| r.end - r.start)
                .sum();
            let runs = above
                .chunk_by(|a, b| a.sacked == b.sacked)
                .filter(|c| c[0].sacked)
                .count();
            let is_lost = runs >= dup_thresh as usize || sacked > u64::from(dup_thresh - 1) * smss;
            if !is_lost {
                break;
            }
            let r = &mut self.records[i];
            self.judged = r.end;
            if !r.sacked && !r.lost && (!r.resent || r.end > self.undone) {
                r.lost = true;
                bytes += r.end - r.start;
            }
        }
        bytes
    }

    fn sum(&self, f: impl Fn(&NaiveRecord) -> bool) -> u64 {
        self.records
            .iter()
            .filter(|r| f(r))
            .map(|r| r.end - r.start)
            .sum()
    }

    fn agrees(&self, board: &Scoreboard) {
        board.check_invariants();
        assert_eq!((board.una(), board.end()), (self.una, self.end));
        let ours: Vec<_> = board
            .iter()
            .map(|r| {
                let retx = r.in_flight_retransmission();
                let sent_at = r.sent_at.as_nanos();
                (
                    r.start,
                    r.end,
                    sent_at,
                    r.transmissions,
                    r.is_sacked(),
                    r.is_lost(),
                    retx,
                )
            })
            .collect();
        let model: Vec<_> = self
            .records
            .iter()
            .map(|r| {
                (
                    r.start, r.end, r.sent_at, r.times, r.sacked, r.lost, r.resent,
                )
            })
            .collect();
        assert_eq!(ours, model);
        let pipe = self.sum(|r| !r.sacked && !r.lost) + self.sum(|r| r.resent);
        assert_eq!(board.pipe().get(), pipe);
        assert_eq!(board.sacked().get(), self.sum(|r| r.sacked));
        assert_eq!(board.lost().get(), self.sum(|r| r.lost));
        assert_eq!(board.retransmitted().get(), self.sum(|r| r.resent));
        let waiting = self.records.iter().find(|r| r.lost && !r.resent);
        assert_eq!(board.next_lost().map(|r| r.start), waiting.map(|r| r.start));
        let mut flight: Vec<_> = self
            .records
            .iter()
            .filter(|r| !r.sacked && (!r.lost || r.resent))
            .map(|r| (r.sent_at, r.start))
            .collect();
        flight.sort_unstable();
        let ours: Vec<_> = by_send_time(board)
            .map(|r| (r.sent_at.as_nanos(), r.start))
            .collect();
        assert_eq!(ours, flight);
        assert_eq!(board.reordering().segments, self.reordered);
        assert_eq!(
            board.last_unsacked().map(|r| r.start),
            self.records.iter().rfind(|r| !r.sacked).map(|r| r.start)
        );
    }
}

#[derive(Clone, Debug)]
enum Op {
    Push(u64),
    Burst(u64, u64),
    Pop,
    Ack(u16),
    Sack(Vec<(u16, u16)>),
    Retransmit(u16),
    RetransmitLost,
    Undo(u16),
    MarkLost(u16),
    MarkByTime(u16),
    MarkBySacks(u32, u64),
    NextUnsacked(u16),
    MarkAll,
    ClearLost,
    Renege,
    Split(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (1u64..5).prop_map(Op::Push),
        4 => (1u64..9, 1u64..5).prop_map(|(count, len)| Op::Burst(count, len)),
        1 => Just(Op::Pop),
        3 => any::<u16>().prop_map(|p| Op::Ack(p / 4)),
        8 => proptest::collection::vec((any::<u16>(), 0u16..20_000), 1..5).prop_map(Op::Sack),
        3 => any::<u16>().prop_map(Op::Retransmit),
        4 => Just(Op::RetransmitLost),
        1 => any::<u16>().prop_map(Op::Undo),
        3 => any::<u16>().prop_map(Op::MarkLost),
        2 => any::<u16>().prop_map(|p| Op::MarkByTime(p / 2)),
        4 => (1u32..5, 1u64..6).prop_map(|(d, m)| Op::MarkBySacks(d, m)),
        2 => any::<u16>().prop_map(Op::NextUnsacked),
        1 => Just(Op::MarkAll),
        1 => Just(Op::ClearLost),
        1 => Just(Op::Renege),
        1 => (1u64..4).prop_map(Op::Split),
    ]
}

/// A place in what is outstanding, by 1/65536ths.
fn place(m: &Naive, p: u16) -> u64 {
    m.una + (m.end - m.una) * u64::from(p) / 65_535
}

fn apply(op: &Op, now: u64, m: &mut Naive, board: &mut Scoreboard) {
    let record =
        |m: &Naive, p: u16| (!m.records.is_empty()).then(|| usize::from(p) % m.records.len());
    match op {
        Op::Push(len) => {
            m.push(*len, now);
            board.push(m.end, at(now), 0);
        }
        Op::Burst(count, len) => {
            board.push_burst(*count, ByteCount::new(*len), at(now), 0);
            for _ in 0..*count {
                m.push(*len, now);
            }
        }
        Op::Pop => {
            let Some(r) = m.records.last().copied() else {
                return;
            };
            let popped = r.times == 1 && !r.sacked;
            if popped {
                m.records.pop();
                m.end = r.start;
                m.judged = m.judged.min(m.end);
            }
            assert_eq!(board.pop_unsent(r.start), popped);
        }
        Op::Ack(p) => {
            let ack = place(m, *p);
            let (mut each, mut records) = (0, board.len());
            let bytes = board.ack(ack, |r| {
                assert!(!r.is_sacked());
                each += r.len().get();
                records -= 1;
            });
            assert!(each <= bytes.get());
            assert!(records >= board.len(), "what was SACKed goes unsaid");
            assert_eq!(bytes.get(), m.ack(ack));
        }
        Op::Sack(places) => {
            let blocks: Vec<_> = places
                .iter()
                .map(|&(p, len)| (place(m, p), place(m, p.saturating_add(len))))
                .collect();
            let mut each = 0;
            let bytes = board.sack(&blocks, |r| each += r.len().get());
            assert_eq!(each, bytes.get());
            assert_eq!(bytes.get(), m.sack(&blocks));
        }
        Op::Retransmit(p) => {
            let Some(i) = record(m, *p) else { return };
            retransmit(m, board, i, now);
        }
        Op::RetransmitLost => {
            let Some(i) = m.records.iter().position(|r| r.lost && !r.resent) else {
                return;
            };
            retransmit(m, board, i, now);
        }
        Op::Undo(p) => {
            let Some(i) = record(m, *p) else { return };
            m.records[i].resent = false;
            board.undo_retransmit(m.records[i].start);
        }
        Op::MarkLost(p) => {
            let Some(i) = record(m, *p) else { return };
            let r = &mut m.records[i];
            let changes = !r.sacked && (!r.lost || r.resent);
            if changes {
                (r.lost, r.resent) = (true, false);
            }
            assert_eq!(board.mark_lost(r.start), changes);
        }
        Op::MarkByTime(p) => {
            let limit = now * u64::from(*p) / 65_535;
            let mut bytes = 0;
            for r in &mut m.records {
                if !r.sacked && (!r.lost || r.resent) && r.sent_at < limit {
                    (r.lost, r.resent) = (true, false);
                    bytes += r.end - r.start;
                }
            }
            assert_eq!(
                board
                    .mark_lost_by_send_time(|r| r.sent_at < at(limit))
                    .get(),
                bytes
            );
        }
        Op::MarkBySacks(dup_thresh, smss) => {
            let bytes = m.mark_lost_by_sacks(*dup_thresh, *smss);
            assert_eq!(
                board
                    .mark_lost_by_sacks(*dup_thresh, ByteCount::new(*smss))
                    .get(),
                bytes
            );
        }
        Op::NextUnsacked(p) => {
            let from = place(m, *p);
            let next = m.records.iter().find(|r| r.start >= from && !r.sacked);
            assert_eq!(
                board.next_unsacked(from).map(|r| r.start),
                next.map(|r| r.start)
            );
        }
        Op::MarkAll => {
            for r in m.records.iter_mut().filter(|r| !r.sacked) {
                (r.lost, r.resent) = (true, false);
            }
            m.judged = m.end;
            board.mark_all_lost();
        }
        Op::ClearLost => {
            m.records.iter_mut().for_each(|r| r.lost = false);
            (m.judged, m.undone) = (0, m.end);
            board.clear_lost();
        }
        Op::Renege => {
            m.records.iter_mut().for_each(|r| r.sacked = false);
            (m.judged, m.high_sacked) = (0, 0);
            board.reset_sacked();
        }
        Op::Split(mss) => {
            if m.records.iter().all(|r| r.end - r.start <= *mss) {
                board.split_at_mss(ByteCount::new(*mss));
                return;
            }
            m.records = m
                .records
                .iter()
                .flat_map(|&r| {
                    (r.start..r.end)
                        .step_by(*mss as usize)
                        .map(move |start| NaiveRecord {
                            start,
                            end: (start + mss).min(r.end),
                            ..r
                        })
                })
                .collect();
            m.judged = 0;
            board.split_at_mss(ByteCount::new(*mss));
        }
    }
}

fn retransmit(m: &mut Naive, board: &mut Scoreboard, i: usize, now: u64) {
    let r = &mut m.records[i];
    if !r.sacked {
        r.resent = true;
        r.sent_at = now;
        r.times = r.times.saturating_add(1);
    }
    board.on_retransmit(r.start, at(now), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn agrees_with_a_naive_one(ops in proptest::collection::vec(op(), 1..120)) {
        let mut model = Naive::default();
        let mut board = Scoreboard::new();
        // Record numbers wrap in the middle of the run.
        board.base = ID_MASK - 20;
        board.frontier = board.base;
        for (i, op) in ops.iter().enumerate() {
            apply(op, i as u64 + 1, &mut model, &mut board);
            model.agrees(&board);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Long enough for windows to grow large and empty many times.
    #[test]
    fn agrees_with_a_naive_one_for_long(ops in proptest::collection::vec(op(), 4_000)) {
        let mut model = Naive::default();
        let mut board = Scoreboard::new();
        for (i, op) in ops.iter().enumerate() {
            apply(op, i as u64 + 1, &mut model, &mut board);
            if i % 16 == 0 {
                model.agrees(&board);
            }
        }
        model.agrees(&board);
    }
}

/// Plays a window of `n` segments of which `dropped` are lost: one ACK for each that arrives,
/// with up to four blocks, newest first; losses are retransmitted at once and arrive after the
/// flight. Returns the steps taken for each record.
fn steps_per_record(n: u64, detector: &mut dyn LossDetector, dropped: impl Fn(u64) -> bool) -> u64 {
    let mut board = board_of(n);
    let mut rtt = RttEstimator::new();
    rtt.on_sample(Duration::from_nanos(n), Instant::ZERO);
    let mut arrivals: std::collections::VecDeque<u64> = (0..n).filter(|&i| !dropped(i)).collect();
    // Runs of what the receiver holds, by start; the runs touched last, newest first.
    let mut held = std::collections::BTreeMap::<u64, u64>::new();
    let mut recent: Vec<u64> = Vec::new();
    let mut now = 2 * n;
    while let Some(i) = arrivals.pop_front() {
        now += 1;
        let (mut start, mut end) = (i, i + 1);
        if let Some((&s, &e)) = held.range(..=i).next_back()
            && e == i
        {
            start = s;
        }
        if let Some(e) = held.remove(&end) {
            recent.retain(|&s| s != end);
            end = e;
        }
        held.insert(start, end);
        recent.retain(|&s| s != start);
        recent.insert(0, start);
        recent.truncate(8);
        let ack = held.get(&0).copied().unwrap_or(0) * MSS;
        let blocks: Vec<_> = recent
            .iter()
            .filter_map(|s| held.get(s).map(|e| (s * MSS, e * MSS)))
            .filter(|b| b.0 > ack)
            .take(4)
            .collect();
        let mut newest: Option<SentSegment> = None;
        let mut each = |r: &SentSegment| {
            if newest.is_none_or(|old| r.sent_after(&old)) {
                newest = Some(*r);
            }
        };
        let advanced = !board.ack(ack, &mut each).is_zero();
        let newly = board.sack(&blocks, &mut each);
        let mut facts = AckFacts::new(at(now), ByteCount::new(MSS), &rtt);
        facts.una_advanced = advanced;
        facts.newly_sacked = newly;
        facts.newest = newest;
        detector.on_ack(&facts, &mut board);
        while let Some(next) = board.next_lost() {
            board.on_retransmit(next.start, at(now), 0);
            arrivals.push_back(next.start / MSS);
        }
    }
    assert_eq!(board.una(), n * MSS, "all was repaired");
    board.check_invariants();
    board.steps.div_ceil(n)
}

/// The cost of an ACK does not grow with the window.
#[test]
fn cost_is_amortised() {
    const N: u64 = 100_000;
    let one_hole = |i: u64| i == 0;
    assert!(steps_per_record(N, &mut Sack6675::new(), one_hole) <= 8);
    assert!(steps_per_record(N, &mut RackTlp::new(), one_hole) <= 8);
    let comb = |i: u64| i.is_multiple_of(2) && i < N - 10;
    assert!(steps_per_record(N, &mut Sack6675::new(), comb) <= 16);
    assert!(steps_per_record(N, &mut RackTlp::new(), comb) <= 16);
    let burst = |i: u64| i < N - 10;
    assert!(steps_per_record(N, &mut Sack6675::new(), burst) <= 8);
    assert!(steps_per_record(N, &mut RackTlp::new(), burst) <= 8);
}

/// A peer that reports ever different parts of the same SACKed run costs a logarithm, not a
/// walk over the run.
#[test]
fn repeated_blocks_are_cheap() {
    const N: u64 = 100_000;
    let mut board = board_of(N);
    sack(&mut board, &[(1, N)]);
    let before = board.steps;
    for i in 0..1_000 {
        let from = 1 + i * 7_919 % (N - 1);
        assert_eq!(sack(&mut board, &[(from, N)]), 0);
        assert_eq!(board.next_unsacked(1).map(|r| r.start), None);
    }
    assert!(board.steps - before < 10 * N, "{}", board.steps - before);
}

/// What is lost again at the beginning of a window, of which the end waits, costs no walk over what
/// lies between.
#[test]
fn losing_the_same_again_is_cheap() {
    const N: u64 = 100_000;
    let mut board = board_of(N);
    board.mark_lost((N - 1) * MSS);
    let before = board.steps;
    for round in 0..1_000 {
        let start = round % 3 * MSS;
        board.mark_lost(start);
        assert_eq!(board.next_lost().map(|r| r.start), Some(start));
        board.on_retransmit(start, at(2 * N + round), 0);
    }
    assert_eq!(board.next_lost().map(|r| r.start), Some((N - 1) * MSS));
    board.check_invariants();
    assert!(board.steps - before < 4_000, "{}", board.steps - before);
}
