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

/// A port.
#[derive(Debug)]
pub(super) struct NodePort<M> {
    conn: ConnId,
    peer: HostId,
    /// From how much in its queue it is busy.
    busy_limit: ByteCount,
    writers: Writers,
    /// Its busy time, in the log.
    busy: Option<usize>,
    waiting: VecDeque<Held<M>>,
}

/// A message whose process waits for the port.
#[derive(Debug)]
pub(super) struct Held<M> {
    /// Who sends it.
    pub(super) process: Process,
    /// How long it is.
    pub(super) size: u64,
    /// What it is.
    pub(super) message: M,
    /// The time for which its process is suspended, in the log; none while it lies in a mailbox.
    pub(super) suspended: Option<usize>,
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
            busy_limit,
            writers,
            busy: None,
            waiting: VecDeque::new(),
        }
    }

    /// What its queue and those that wait for it hold.
    pub(super) fn holds(&self, messages: &Messenger<M>) -> u64 {
        let waiting: u64 = self.waiting.iter().map(|held| held.size).sum();
        messages.unwritten(self.conn) + waiting
    }

    fn is_busy(&self, messages: &Messenger<M>) -> bool {
        messages.unwritten(self.conn) >= self.busy_limit.get()
    }

    /// A process sends a message.
    pub(super) fn post(
        &mut self,
        io: &mut Io<'_>,
        messages: &mut Messenger<M>,
        held: Held<M>,
    ) -> Passed {
        let waits = self.is_busy(messages) || !self.waiting.is_empty();
        if !waits || self.writers == Writers::Async {
            self.send(io, messages, held);
            return Passed::On;
        }
        let passed = match held.process {
            Process::Relay => Passed::On,
            Process::Server | Process::Client => Passed::Suspended,
        };
        self.waiting.push_back(held);
        self.suspend(io);
        passed
    }

    /// Those that wait are suspended; of what is in the mailbox of a relay the first alone.
    fn suspend(&mut self, io: &mut Io<'_>) {
        for (place, held) in self.waiting.iter_mut().enumerate() {
            if held.suspended.is_none() && (held.process != Process::Relay || place == 0) {
                let kind = SpanKind::BusyDistPort(held.process);
                held.suspended = Some(io.begin_span(kind, Some(self.peer)));
            }
        }
    }

    fn send(&mut self, io: &mut Io<'_>, messages: &mut Messenger<M>, held: Held<M>) {
        if let Some(span) = held.suspended {
            io.end_span(span);
        }
        messages.send(io, self.conn, held.size, held.message);
        if self.busy.is_none() && self.is_busy(messages) {
            self.busy = Some(io.begin_span(SpanKind::BusyPort, Some(self.peer)));
        }
    }

    /// The TCP has taken some of the queue: while the port is not busy those that wait go on, in
    /// their order. Who did.
    pub(super) fn drain(&mut self, io: &mut Io<'_>, messages: &mut Messenger<M>) -> Vec<Process> {
        let mut resumed = Vec::new();
        while !self.is_busy(messages) {
            if let Some(span) = self.busy.take() {
                io.end_span(span);
            }
            let Some(held) = self.waiting.pop_front() else {
                break;
            };
            resumed.push(held.process);
            self.send(io, messages, held);
        }
        self.suspend(io);
        resumed
    }
}
