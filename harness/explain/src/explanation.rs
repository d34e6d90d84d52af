//! All that was found in captures, to be reported.

use crate::analyzer::{Analyzer, Finding, Seen};
use crate::capture::Contents;
use crate::connection::Connection;
use crate::gap::Cause;
use crate::ledger::{Ledger, Sum, pair};
use crate::two::Path;
use narrows::Duration;
use narrows::congestion::order::sort_by_key;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Input {
    /// What it is called.
    pub name: String,
    /// What was in it.
    pub contents: Contents,
}

/// All that was found.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What was read.
    pub inputs: Vec<Input>,
    /// What was seen.
    pub seen: Seen,
    /// The gaps.
    pub ledger: Ledger,
    /// Connections in the order in which they were first seen; of more than a limit those with the
    /// most lost time.
    pub connections: Vec<Connection>,
    /// Connections that are only counted.
    pub forgotten: u64,
    /// Gaps by hosts.
    pub pairs: BTreeMap<[IpAddr; 2], Sum>,
    /// Two captures that this joins, aligned.
    pub path: Option<Path>,
    most: usize,
}

impl Explanation {
    /// Keeps up to so many gaps and connections in full.
    pub fn new(gaps: usize, connections: usize) -> Self {
        Self {
            inputs: Vec::new(),
            seen: Seen::default(),
            ledger: Ledger::new(gaps),
            connections: Vec::new(),
            forgotten: 0,
            pairs: BTreeMap::new(),
            path: None,
            most: connections.max(1),
        }
    }

    /// Takes what `analyzer` has found by now.
    pub fn take(&mut self, analyzer: &mut Analyzer) {
        if analyzer.has_found() {
            self.take_found(analyzer);
        }
        self.seen = *analyzer.seen();
    }

    fn take_found(&mut self, analyzer: &mut Analyzer) {
        while let Some(finding) = analyzer.poll_finding() {
            self.add(finding);
        }
    }

    /// Takes something that was found.
    pub fn add(&mut self, finding: Finding) {
        match finding {
            Finding::Gap(gap) => self.ledger.add(&gap),
            Finding::Connection(connection) => self.add_connection(*connection),
        }
    }

    /// Gaps and connections that are kept in full.
    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.ledger.most(), self.most)
    }

    pub(crate) fn add_connection(&mut self, connection: Connection) {
        let (count, lost) = lost_time(&connection);
        if count > 0
            && (self.pairs.len() < self.most || self.pairs.contains_key(&pair(connection.ends)))
        {
            let sum = self.pairs.entry(pair(connection.ends)).or_default();
            sum.count += count;
            sum.time += lost;
        }
        self.connections.push(connection);
        if self.connections.len() >= self.most * 2 {
            self.shorten();
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        if self.connections.len() > self.most {
            self.shorten();
        }
        sort_by_key(&mut self.connections, |connection| connection.id);
    }

    fn shorten(&mut self) {
        sort_by_key(&mut self.connections, |c| (Reverse(lost_time(c).1), c.id));
        self.forgotten += self.connections.len().saturating_sub(self.most) as u64;
        self.connections.truncate(self.most);
    }

    /// The connections that lost the most time, most first; none that lost nothing.
    pub fn slowest(&self, most: usize) -> Vec<&Connection> {
        let mut slow: Vec<_> = self
            .connections
            .iter()
            .filter(|c| lost_time(c).0 > 0)
            .collect();
        sort_by_key(&mut slow, |c| (Reverse(lost_time(c).1), c.id));
        slow.truncate(most);
        slow
    }

    /// The connections to look at closely: those that lost the most time, then those that carried the
    /// most bytes.
    pub fn noteworthy(&self, most: usize) -> Vec<&Connection> {
        let mut all: Vec<&Connection> = self.connections.iter().collect();
        sort_by_key(&mut all, |c| {
            let bytes: u64 = c.counts.iter().map(|counts| counts.bytes).sum();
            (Reverse(lost_time(c).1), Reverse(bytes), c.id)
        });
        all.truncate(most);
        all
    }
}

/// Gaps in which a connection lost time to transport and network, and that time.
pub fn lost_time(connection: &Connection) -> (u64, Duration) {
    let lost = connection
        .lost
        .iter()
        .filter(|(cause, ..)| cause.is_lost_time());
    lost.fold((0, Duration::ZERO), |(count, time), (_, n, length)| {
        (count + n, time + *length)
    })
}

/// The cause of most of the lost time of a connection.
pub fn main_cause(connection: &Connection) -> Option<Cause> {
    let lost = connection
        .lost
        .iter()
        .filter(|(cause, ..)| cause.is_lost_time());
    lost.max_by_key(|(cause, _, time)| (*time, Reverse(*cause)))
        .map(|(cause, ..)| *cause)
}
