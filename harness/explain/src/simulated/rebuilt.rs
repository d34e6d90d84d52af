//! An experiment that is like what was captured.
//!
//! It runs once, and is `#[inline]` to be compiled where it is called: the command is not optimised.

use crate::connection::Connection;
use crate::explanation::{Explanation, lost_time};
use crate::gap::{Cause, Side};
use narrows::congestion::order::{OrderedMap, sort_by_key};
use narrows::{Duration, Instant};
use std::cmp::Reverse;
use std::fmt::Write;
use std::net::IpAddr;

/// Connections that are rebuilt, those that lost the most time.
const MOST_CONNECTIONS: usize = 64;
/// Calls of a connection.
const MOST_CALLS: u64 = 10_000;
/// Rates of links in use, in Mb/s.
const RATES: [u64; 6] = [100, 1_000, 10_000, 25_000, 40_000, 100_000];

/// What loses packets in the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// Its queues, where they are full.
    Queues,
    /// Its links, at random, as often as something was sent again: where the queue that lost the
    /// packets of the capture was filled by others.
    Links,
}

/// The experiment as a file: hosts around a switch, their links by the least RTT and the rate that
/// was reached, on each connection calls as many and as large as its data came in, at the times at which
/// connections began. `None` if nothing was sent.
///
/// What a capture does not tell is guessed: the rate is the next usual one above what was reached, the
/// buffer two bandwidth-delay products and 64 KiB at least, the algorithms are those of Linux; requests of
/// a connection are equal, and so are its replies and pauses; `losses` says what loses packets.
#[inline]
pub fn rebuilt(explanation: &Explanation, losses: Losses) -> Option<String> {
    let sent = |c: &Connection| c.counts.iter().map(|counts| counts.bytes).sum::<u64>();
    let mut all: Vec<&Connection> = explanation
        .connections
        .iter()
        .filter(|c| sent(c) > 0)
        .collect();
    sort_by_key(&mut all, |c| {
        (Reverse(lost_time(c).1), Reverse(sent(c)), c.id)
    });
    all.truncate(MOST_CONNECTIONS);
    let first = all.iter().map(|c| c.first.at).min()?;
    let last = all.iter().map(|c| c.last.at).max()?;
    let rtt = all.iter().filter_map(|c| c.path_rtt).min();
    let rtt = rtt.unwrap_or(Duration::from_micros(100));
    let reached = all.iter().map(|c| rate(c)).max()?;
    let rate = RATES.into_iter().find(|rate| *rate >= reached);
    let rate = rate.unwrap_or(RATES[RATES.len() - 1]);
    let buffer = (rate * rtt.as_nanos() / 8_000 * 2).clamp(64 << 10, 64 << 20);
    let mut hosts: OrderedMap<IpAddr, usize> = OrderedMap::new();
    for end in all.iter().flat_map(|c| c.ends) {
        let next = hosts.len();
        hosts.get_or_insert_with(end.ip(), || next);
    }
    let floors = explanation.ledger.floors.iter();
    let floor = floors
        .max_by_key(|(_, sum)| sum.count)
        .map(|((_, f), _)| *f);
    let rto = match floor {
        Some(floor) if floor.as_millis() != 200 => format!("{}us", floor.as_micros()),
        _ => "linux".to_owned(),
    };
    let loss = match losses {
        Losses::Queues => String::new(),
        Losses::Links => {
            let counts = all.iter().flat_map(|c| &c.counts);
            let (again, packets) = counts.fold((0, 0), |(again, packets), n| {
                (again + n.retransmitted + n.filled, packets + n.packets)
            });
            // Of a million; a packet passes two links.
            let share = again * 1_000_000 / packets.max(1) / 2;
            let share = share.clamp(1, 500_000);
            format!(", loss = \"{}.{:04}%\"", share / 10_000, share % 10_000)
        }
    };
    let mut out = String::new();
    let _ = write!(
        out,
        "title = \"What was captured, rebuilt\"\n\n[network]\ntopology = \"star\"\nhosts = {}\nlink = {{ rate = \"{rate}Mb/s\", delay = \"{}ns\"{loss} }}\n\
         queue = {{ limit = \"{buffer}B\" }}\n\n[host.tcp]\nrto = \"{rto}\"\n\n[run]\nduration = \"{}ms\"\n",
        hosts.len().max(2),
        (rtt.as_nanos() / 4).max(1),
        last.since(first).as_millis() * 2 + 5_000,
    );
    for c in all {
        connection(&mut out, c, first, &hosts);
    }
    Some(out)
}

/// What a connection reached while it had something to do, in Mb/s.
#[inline]
fn rate(c: &Connection) -> u64 {
    let idle = c.lost.iter().map(|(_, _, time)| *time);
    let idle = idle.fold(Duration::ZERO, |all, time| all + time);
    let busy = c.last.at.since(c.first.at).as_nanos();
    let busy = busy.saturating_sub(idle.as_nanos()).max(1);
    let most = c.counts.iter().map(|counts| counts.bytes).max();
    (u128::from(most.unwrap_or(0)) * 8_000 / u128::from(busy)) as u64
}

#[inline]
fn connection(out: &mut String, c: &Connection, first: Instant, hosts: &OrderedMap<IpAddr, usize>) {
    let pauses = c
        .lost
        .iter()
        .find(|(cause, ..)| *cause == Cause::AppWroteNothing);
    let (count, idle) = pauses.map_or((0, Duration::ZERO), |(_, n, time)| (*n, *time));
    let calls = (count + 1).min(MOST_CALLS);
    let each = |side: Side| (c.counts[side.index()].bytes / calls).max(1);
    let at = |side: Side| hosts.get(&c.ends[side.index()].ip()).copied().unwrap_or(0);
    let _ = write!(
        out,
        "\n[[traffic]]\nname = \"c{}\"\nkind = \"rpc\"\nclients = \"h{}\"\nservers = \"h{}\"\nrequest = \"{}B\"\nreply = \"{}B\"\n\
         calls = {calls}\npause = \"{}ns\"\nstart = \"{}ns\"\n",
        c.id,
        at(Side::Client),
        at(Side::Server),
        each(Side::Client),
        each(Side::Server),
        idle.as_nanos() / calls,
        c.first.at.since(first).as_nanos(),
    );
}
