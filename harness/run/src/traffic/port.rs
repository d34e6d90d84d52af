//! The port of a node towards another: a queue with a limit, and the processes that wait for it.

use super::log::{Process, SpanKind};
use super::messages::Messenger;
use super::role::Io;
use crate::knob::Choice;
use crate::net::packet::HostId;
use narrows::ByteCount;
use narrows::endpoint::ConnId;
use std::collections::VecDeque;

/// What a process does that sends to a busy port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writers {
    /// It is suspended.
    #[default]
    Suspend,
    /// It goes on, and the queue grows beyond the limit (`process_flag(async_dist, true)`).
    Async,
    /// It hands what it sends to a process that does nothing else, one for each peer, and goes on:
    /// that one is suspended, and its mailbox grows.
    Relay,
}

impl Choice for Writers {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Suspend, "suspend"),
        (Self::Async, "async"),
        (Self::Relay, "relay"),
    ];
}

/// What the driver below a port's queue has left when it takes more (`INET_LOW_WATERMARK` of
/// Erlang/OTP's `inet_drv.c`).
const LOW_WATERMARK: ByteCount = ByteCount::new(4 << 10);

/// From how much in its queue a port is busy, and whether it is.
///
/// It stays busy until all that waits is with the driver, which takes nothing while it has more than
/// 4 KiB of its own (`erts_dist_command` of Erlang/OTP's `dist.c`, for connections over TCP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyLimit {
    limit: ByteCount,
    busy: bool,
}

impl BusyLimit {
    /// A port that is not busy, and is from `limit` on.
    pub const fn new(limit: ByteCount) -> Self {
        Self { limit, busy: false }
    }

    /// So many bytes are in its queue now: whether it is busy.
    pub fn update(&mut self, queued: u64) -> bool {
        let limit = self.limit.get();
        self.busy = queued >= limit || self.busy && queued > LOW_WATERMARK.get();
        self.busy
    }
}

/// A port.
#[derive(Debug)]
pub(super) struct NodePort<M> {
    conn: ConnId,
    peer: HostId,
    limit: BusyLimit,
    writers: Writers,
    /// Its busy time, in the log.
    busy: Option<usize>,
    waiting: VecDeque<Waiter<M>>,
}

/// A message that a process sends.
#[derive(Debug)]
pub(super) struct Held<M> {
    /// Who sends it.
    pub(super) process: Process,
    /// How long it is.
    pub(super) size: u64,
    /// What it is.
    pub(super) message: M,
}

/// A process that waits for the port.
#[derive(Debug)]
struct Waiter<M> {
    process: Process,
    /// What it sends, or lies in its mailbox; none, if that is in the queue.
    held: Option<Held<M>>,
    /// The time for which it is suspended, in the log; none while its message lies in a mailbox.
    suspended: Option<usize>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// It is on its way, or with a process that waits in place of its sender.
    On,
    /// Its sender is suspended.
    Suspended,
}

impl<M> NodePort<M> {
    /// The port of connection `conn` to `peer`.
    pub(super) fn new(conn: ConnId, peer: HostId, busy_limit: ByteCount, writers: Writers) -> Self {
        Self {
            conn,
            peer,
            limit: BusyLimit::new(busy_limit),
            writers,
            busy: None,
            waiting: VecDeque::new(),
        }
    }

    /// What its queue and those that wait for it hold.
    pub(super) fn holds(&self, messages: &Messenger<M>) -> u64 {
        let waiting = self
            .waiting
            .iter()
            .filter_map(|waiter| waiter.held.as_ref());
        let waiting: u64 = waiting.map(|held| held.size).sum();
        messages.unwritten(self.conn) + waiting
    }

    fn update(&mut self, messages: &Messenger<M>) -> bool {
        self.limit.update(messages.unwritten(self.conn))
    }

    /// A process sends a message.
    pub(super) fn post(
        &mut self,
        io: &mut Io<'_>,
        messages: &mut Messenger<M>,
        held: Held<M>,
    ) -> Passed {
        if self.writers == Writers::Async {
            self.send(io, messages, held);
            return Passed::On;
        }
        let process = held.process;
        let passed = if self.update(messages) || !self.waiting.is_empty() {
            self.wait(process, Some(held));
            Passed::Suspended
        } else {
            self.send_and_wait(io, messages, held)
        };
        self.suspend(io);
        match process {
            Process::Relay => Passed::On,
            Process::Server | Process::Client => passed,
        }
    }

    /// Its process is suspended if it makes the port busy: the message is in the queue then.
    fn send_and_wait(
        &mut self,
        io: &mut Io<'_>,
        messages: &mut Messenger<M>,
        held: Held<M>,
    ) -> Passed {
        let process = held.process;
        self.send(io, messages, held);
        if !self.update(messages) {
            return Passed::On;
        }
        self.wait(process, None);
        Passed::Suspended
    }

    fn wait(&mut self, process: Process, held: Option<Held<M>>) {
        self.waiting.push_back(Waiter {
            process,
            held,
            suspended: None,
        });
    }

    /// Those that wait are suspended; of what is in the mailbox of a relay the first alone.
    fn suspend(&mut self, io: &mut Io<'_>) {
        for (place, waiter) in self.waiting.iter_mut().enumerate() {
            if waiter.suspended.is_none() && (waiter.process != Process::Relay || place == 0) {
                let kind = SpanKind::BusyDistPort(waiter.process);
                waiter.suspended = Some(io.begin_span(kind, Some(self.peer)));
            }
        }
    }

    fn send(&mut self, io: &mut Io<'_>, messages: &mut Messenger<M>, held: Held<M>) {
        messages.send(io, self.conn, held.size, held.message);
        if self.busy.is_none() && self.update(messages) {
            self.busy = Some(io.begin_span(SpanKind::BusyPort, Some(self.peer)));
        }
    }

    /// The TCP has taken some of the queue: once the port is not busy all that wait go on, in their
    /// order, and are suspended again by what those before them send. Who is not.
    pub(super) fn drain(&mut self, io: &mut Io<'_>, messages: &mut Messenger<M>) -> Vec<Process> {
        let mut resumed = Vec::new();
        if self.update(messages) {
            return resumed;
        }
        if let Some(span) = self.busy.take() {
            io.end_span(span);
        }
        for waiter in std::mem::take(&mut self.waiting) {
            if let Some(span) = waiter.suspended {
                io.end_span(span);
            }
            let passed = match waiter.held {
                None => Passed::On,
                Some(held) if self.update(messages) => {
                    self.wait(waiter.process, Some(held));
                    Passed::Suspended
                }
                Some(held) => self.send_and_wait(io, messages, held),
            };
            if passed == Passed::On {
                resumed.push(waiter.process);
            }
        }
        self.suspend(io);
        resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_stays_so_until_the_driver_has_all() {
        let mut port = BusyLimit::new(ByteCount::new(128 << 10));
        let course = [0, 131_071, 131_072, 131_071, 4_097, 4_096, 131_071];
        let busy = course.map(|queued| port.update(queued));
        assert_eq!(busy, [false, false, true, true, true, false, false]);
        // A limit below what the driver keeps.
        let mut port = BusyLimit::new(ByteCount::new(1_000));
        assert_eq!(
            [999, 1_000, 999].map(|n| port.update(n)),
            [false, true, false]
        );
    }
}
