//! What the client and the servers of a live incast do, on whichever TCP: the client asks for
//! blocks and waits for the last server of each, a server answers each request with its share, in
//! the order and after the jitter that a simulated one draws.

use narrows::{ByteCount, Duration, Instant};
use narrows_experiment::scenario::Outcome;
use narrows_experiment::traffic::{AnswerTimes, AskOrder, SynchronisedRead};
use narrows_net::sim::rng::{Component, Stream};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A synchronised read of a live place.
#[derive(Clone, Debug)]
pub struct Read {
    /// How many servers there are.
    pub servers: u32,
    /// Its knobs; client and servers are known.
    pub knobs: SynchronisedRead,
    /// The time from the first request on after which it is over.
    pub time: Duration,
    /// Seeds what is drawn.
    pub seed: u64,
}

/// What the client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for more.
    Wait,
    /// Ask for the next block.
    Ask,
    /// Nothing: it is over.
    End,
}

/// The client: asks for blocks and waits for them.
#[derive(Debug)]
pub(super) struct Blocks {
    read: Read,
    order: AskOrder,
    /// By server: bytes of the block still to come.
    missing: Vec<u64>,
    unfinished: u32,
    asked_at: Instant,
    /// When it asked for the first block.
    pub(super) began: Option<Instant>,
    /// When the last byte so far came.
    pub(super) last_byte: Instant,
    /// All that has come.
    pub(super) payload: ByteCount,
    /// How long each complete block took.
    pub(super) times: Vec<Duration>,
    /// How it ended, if it has.
    pub(super) outcome: Option<Outcome>,
    /// Where somebody sees how many are complete.
    count: Option<Arc<AtomicU64>>,
}

impl Blocks {
    /// The client of `read`, which has asked for nothing.
    pub(super) fn new(read: &Read) -> Self {
        Self {
            order: AskOrder::new(
                read.knobs.order,
                Stream::new(read.seed, Component::Scenario, 0),
            ),
            missing: vec![0; read.servers as usize],
            unfinished: 0,
            asked_at: Instant::ZERO,
            began: None,
            last_byte: Instant::ZERO,
            payload: ByteCount::ZERO,
            times: Vec::new(),
            outcome: None,
            count: None,
            read: read.clone(),
        }
    }

    /// The same; `count` has the number of complete blocks at any time.
    pub(super) fn counted_by(self, count: Arc<AtomicU64>) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    /// How many blocks there are to be; 0: as many as the time allows.
    pub(super) fn wanted(read: &Read) -> u64 {
        read.knobs.blocks.unwrap_or(0).into()
    }

    /// How large a block is.
    pub(super) fn size(&self) -> ByteCount {
        self.read.knobs.block.total(self.read.servers)
    }

    /// How long a request is.
    pub(super) fn request(&self) -> usize {
        self.read.knobs.request.as_usize()
    }

    /// The next block begins; in which order to ask.
    pub(super) fn ask(&mut self, now: Instant) -> Vec<usize> {
        let n = self.read.servers;
        self.began.get_or_insert(now);
        self.asked_at = now;
        self.unfinished = n;
        for (server, missing) in (0..n).zip(&mut self.missing) {
            *missing = self.read.knobs.block.share(server, n).get();
        }
        self.order.next(n as usize)
    }

    /// `n` right bytes came from `server`.
    pub(super) fn took(&mut self, server: usize, n: u64, now: Instant) -> Next {
        self.payload += ByteCount::new(n);
        self.last_byte = now;
        let Some(missing) = self.missing.get_mut(server) else {
            return Next::Wait;
        };
        if n == 0 || *missing == 0 {
            return Next::Wait;
        }
        *missing = missing.saturating_sub(n);
        self.unfinished -= u32::from(*missing == 0);
        if *missing > 0 || self.unfinished > 0 {
            return Next::Wait;
        }
        self.times.push(now.since(self.asked_at));
        if let Some(count) = &self.count {
            count.store(self.times.len() as u64, Ordering::Relaxed);
        }
        match self.read.knobs.blocks {
            Some(blocks) if self.times.len() >= blocks as usize => {
                self.outcome = Some(Outcome::Completed);
                Next::End
            }
            _ => Next::Ask,
        }
    }

    /// When the time is up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.began.map(|began| began + self.read.time)
    }

    /// The time is up, if it is.
    pub(super) fn look_at(&mut self, now: Instant) {
        if self.outcome.is_none() && self.deadline().is_some_and(|at| at <= now) {
            self.outcome = Some(match self.read.knobs.blocks {
                Some(_) => Outcome::TimeLimit,
                None => Outcome::Completed,
            });
            if self.outcome == Some(Outcome::TimeLimit) || self.unfinished > 0 {
                self.last_byte = now;
            }
        }
    }

    /// From the first request to the last byte, or to the end of the time.
    pub(super) fn took_in_all(&self) -> Duration {
        self.began
            .map_or(Duration::ZERO, |began| self.last_byte.since(began))
    }
}

/// A server: answers each request with its share of a block.
#[derive(Debug)]
pub(super) struct Answers {
    share: u64,
    request: u64,
    begins: AnswerTimes,
    /// Bytes of a request that have come.
    heard: u64,
    /// When answers begin.
    due: VecDeque<Instant>,
    /// Bytes to send that the TCP has not taken.
    waiting: u64,
    /// Bytes that it has.
    sent: u64,
}

impl Answers {
    /// Server number `server` of `read`, which was asked for nothing.
    pub(super) fn new(read: &Read, server: u32) -> Self {
        Self {
            share: read.knobs.block.share(server, read.servers).get(),
            request: read.knobs.request.get(),
            begins: AnswerTimes::new(
                read.knobs.jitter,
                Stream::new(read.seed, Component::Start, u64::from(server) + 1),
            ),
            heard: 0,
            due: VecDeque::new(),
            waiting: 0,
            sent: 0,
        }
    }

    /// `n` bytes of requests came.
    pub(super) fn hear(&mut self, n: u64, now: Instant) {
        self.heard += n;
        while self.heard >= self.request {
            self.heard -= self.request;
            self.due.push_back(self.begins.of_request(now));
        }
    }

    /// When the next answer begins.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.front().copied()
    }

    /// Begin the answers that are due.
    pub(super) fn begin(&mut self, now: Instant) {
        while self.due.front().is_some_and(|at| *at <= now) {
            self.due.pop_front();
            self.waiting += self.share;
        }
    }

    /// Bytes to send that the TCP has not taken.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Bytes that it has.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// The TCP has taken `n` bytes of it.
    pub(super) fn take(&mut self, n: usize) {
        self.waiting -= n as u64;
        self.sent += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_experiment::scenario::spec::BlockSize;

    fn read(servers: u32, blocks: u32) -> Read {
        Read {
            servers,
            knobs: SynchronisedRead {
                block: BlockSize::Sru(ByteCount::new(100)),
                blocks: Some(blocks),
                ..SynchronisedRead::default()
            },
            time: Duration::from_secs(1),
            seed: 1,
        }
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn a_block_is_over_when_the_last_server_is() {
        let mut blocks = Blocks::new(&read(3, 2));
        let mut order = blocks.ask(at(10));
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
        assert_eq!(blocks.took(0, 100, at(20)), Next::Wait);
        assert_eq!(blocks.took(1, 99, at(30)), Next::Wait);
        assert_eq!(blocks.took(2, 100, at(40)), Next::Wait);
        assert_eq!(blocks.took(1, 1, at(50)), Next::Ask);
        blocks.ask(at(50));
        for server in [2, 0] {
            assert_eq!(blocks.took(server, 100, at(60)), Next::Wait);
        }
        assert_eq!(blocks.took(1, 100, at(90)), Next::End);
        let us = |n| Duration::from_micros(n);
        assert_eq!(blocks.times, [us(40), us(40)]);
        assert_eq!(blocks.took_in_all(), us(80));
        assert_eq!(blocks.payload, ByteCount::new(600));
        assert_eq!(blocks.outcome, Some(Outcome::Completed));
    }

    #[test]
    fn a_run_has_its_limit() {
        let mut blocks = Blocks::new(&read(1, 2));
        assert_eq!(blocks.deadline(), None);
        blocks.ask(at(0));
        blocks.took(0, 50, at(10));
        blocks.look_at(at(999_999));
        assert_eq!(blocks.outcome, None);
        blocks.look_at(at(1_000_000));
        assert_eq!(blocks.outcome, Some(Outcome::TimeLimit));
        assert_eq!(blocks.took_in_all(), Duration::from_secs(1));
    }

    #[test]
    fn answers_begin_within_the_jitter_and_in_order() {
        let mut answers = Answers::new(&read(1, 1), 0);
        answers.hear(63, at(0));
        assert_eq!(answers.next(), None);
        answers.hear(65, at(5));
        let begins = answers.next().unwrap();
        assert!(begins >= at(5) && begins <= at(15));
        assert_eq!(answers.waiting(), 0);
        answers.begin(at(15));
        assert_eq!(answers.next(), None);
        assert_eq!((answers.waiting(), answers.sent()), (200, 0));
        answers.take(150);
        assert_eq!((answers.waiting(), answers.sent()), (50, 150));
    }
}
