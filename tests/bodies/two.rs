//! Two captures of the same packets, made from the bytes: with losses, copies and any delay between them,
//! with clocks that are off and are set, ports that are used again, and packets that one of them lacks.
//! They are aligned or refused, and the books balance.

use super::captures::{MAX_STEPS, hosts, segment};
use super::input::Input;
use narrows::{Duration, Instant};
use narrows_explain::capture::Steady;
use narrows_explain::segment::Segment;
use narrows_explain::two::{Log, Path};
use narrows_explain::{Analyzer, Config, Explanation, Sighting};
use std::collections::BTreeSet;

/// Packets that are followed of each capture, and connections that are kept of it.
const FOLLOWED: usize = 300;
const KEPT: usize = 50;

struct Capture {
    log: Log,
    analyzer: Analyzer,
    clock: Steady,
    /// What its clock shows more.
    ahead: Duration,
    packets: u64,
}

impl Capture {
    fn new() -> Self {
        Self {
            log: Log::new(FOLLOWED),
            analyzer: Analyzer::new(Config::default()),
            clock: Steady::default(),
            ahead: Duration::from_secs(7),
            packets: 0,
        }
    }

    fn see(&mut self, at: Instant, segment: &Segment) {
        self.packets += 1;
        let now = Sighting {
            at: self.clock.steady(at + self.ahead),
            packet: self.packets,
        };
        self.log.handle_segment(now, 0, segment);
        self.analyzer.handle_segment(now, 0, segment);
    }

    fn told(&mut self) -> Explanation {
        let mut explanation = Explanation::new(200, KEPT);
        self.analyzer.finish();
        explanation.take(&mut self.analyzer);
        explanation.finish();
        explanation
    }
}

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut captures = [Capture::new(), Capture::new()];
    let mut hosts = hosts();
    // What is under way to the other place: when it arrives there, in which order, where, and what.
    let mut under_way: Vec<(Instant, u64, usize, Segment)> = Vec::new();
    let mut at = Instant::ZERO + Duration::from_secs(10);
    for step in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let (kind, wait, way) = (input.u8(), u64::from(input.u8()), input.u8());
        at = at
            + match kind & 3 {
                0 => Duration::from_nanos(wait * 100),
                1 => Duration::from_micros(wait * 10),
                2 => Duration::from_millis(wait * 4),
                _ => Duration::from_micros(wait),
            };
        let segment = segment(kind >> 2, &mut hosts, &mut input);
        under_way.sort_by_key(|(arrives, order, ..)| (*arrives, *order));
        let later = under_way.partition_point(|(arrives, ..)| *arrives <= at);
        for (arrives, _, place, segment) in under_way.drain(..later) {
            captures[place].see(arrives, &segment);
        }
        // Addresses are of either end, the greater the server's.
        let place = usize::from(segment.src > segment.dst);
        match way & 7 {
            // One place lacks it.
            0 => {}
            1 => captures[place].see(at, &segment),
            2 => under_way.push((at, step, 1 - place, segment)),
            3 => {
                captures[place].see(at, &segment);
                let by = Duration::from_millis(u64::from(way >> 3) * 100);
                let set = &mut captures[usize::from(way >> 7)].ahead;
                *set = match way & 64 {
                    0 => *set + by,
                    _ => set.saturating_sub(by),
                };
            }
            some => {
                captures[place].see(at, &segment);
                let took = Duration::from_micros(50 + u64::from(way >> 3) * 30);
                for copy in 0..u64::from(some == 7) + 1 {
                    let arrives = at + took * (copy + 1);
                    under_way.push((arrives, step, 1 - place, segment.clone()));
                }
            }
        }
    }
    for (arrives, _, place, segment) in under_way {
        captures[place].see(arrives, &segment);
    }
    let [first, second] = &mut captures;
    let told = [first.told(), second.told()];
    let _ = first.log.is_of_the_same_packets(&second.log);
    match Path::between(&first.log, &second.log) {
        Ok(path) => hold(path, &told),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

fn hold(path: Path, told: &[Explanation; 2]) {
    assert!(path.clock.delay <= path.clock.bound, "{:?}", path.clock);
    for (n, way) in path.ways.iter().enumerate() {
        assert!(way.lost <= way.sent && way.acks[1] <= way.acks[0]);
        let lost = way.lost + way.acks[1];
        assert_eq!(path.lost(n).count() as u64, lost);
        let course = path.course(n, 16);
        assert!(course.len() <= 16);
        assert_eq!(course.iter().map(|slice| slice.lost).sum::<u64>(), lost);
        let extremes = way.delays.map(|delays| [delays[0], delays[3]]);
        let slices = || course.iter().filter_map(|slice| slice.delays);
        let least = slices().map(|[least, _]| least).min();
        let most = slices().map(|[_, most]| most).max();
        assert_eq!(least.zip(most).map(|(least, most)| [least, most]), extremes);
        assert!(way.delays.is_none_or(|delays| delays.is_sorted()));
    }
    let both = path.explain(&told[0], &told[1]);
    let gaps = both.ledger.gaps();
    let all: usize = told.iter().map(|one| one.ledger.gaps().len()).sum();
    assert!(gaps.len() <= all, "{} of {all}", gaps.len());
    let known: BTreeSet<u64> = both.connections.iter().map(|c| c.id).collect();
    assert_eq!(known.len(), both.connections.len());
    let most: usize = told.iter().map(|one| one.connections.len()).sum();
    assert!(known.len() <= most);
    for gap in gaps {
        assert!(known.contains(&gap.connection), "{gap:?}");
        assert!(gap.start.at <= gap.end.at, "{gap:?}");
        let _ = gap.because();
    }
    let _ = both.slowest(3);
}
