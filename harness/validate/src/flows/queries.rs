//! Transfers that the receiver asks for, on several connections together.

use super::watch::Watched;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Instant};
use narrows_experiment::knob::{Knob, Knobs};
use narrows_experiment::traffic::{Io, Placement, Role, RoleEvent, Traffic, TrafficError};
use narrows_net::net::packet::HostId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Data that the receiver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The answer.
    pub(crate) size: ByteCount,
    /// The request's payload.
    pub(crate) request: ByteCount,
    /// How often.
    pub(crate) times: u32,
    /// Connections of one receiver with the same number are asked together, and again when all have
    /// answered; equal answers, please.
    pub(crate) group: u32,
}

/// A connection over which the receiver asks for data, again and again. Those of one receiver and
/// group are asked together, and again when all have answered.
#[derive(Clone, Debug)]
pub(super) struct AskedTraffic {
    pub(super) flow: usize,
    pub(super) from: HostId,
    pub(super) to: HostId,
    pub(super) asked: Asked,
    pub(super) together: Arc<Mutex<Together>>,
    pub(super) watched: Watched,
}

impl Knobs for AskedTraffic {
    const TABLE: &'static [Knob<Self>] = &[];
}

impl Traffic for AskedTraffic {
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        on.role(
            self.from,
            Answering {
                traffic: self.clone(),
                heard: 0,
                waiting: 0,
                conn: None,
            },
        );
        on.role(
            self.to,
            Asking {
                traffic: self.clone(),
                place: None,
            },
        );
        on.ends_after(self.asked.times as usize);
        Ok(())
    }
}

impl AskedTraffic {
    fn together(&self) -> MutexGuard<'_, Together> {
        self.together.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the connections of a run share.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// By receiver and group.
    groups: BTreeMap<(HostId, u32), Vec<Member>>,
}

/// A connection of a group, at its receiver.
#[derive(Debug)]
struct Member {
    conn: Option<ConnId>,
    connected: bool,
    began: Instant,
    /// Bytes of the present transfer still to come.
    missing: u64,
    complete: u32,
}

/// The receiver.
#[derive(Debug)]
struct Asking {
    traffic: AskedTraffic,
    /// Which of its group it is.
    place: Option<usize>,
}

impl Asking {
    fn with<R>(&self, of: impl FnOnce(&mut Vec<Member>, usize) -> R) -> Option<R> {
        let key = (self.traffic.to, self.traffic.asked.group);
        let mut together = self.traffic.together();
        let group = together.groups.get_mut(&key)?;
        Some(of(group, self.place?))
    }

    /// Asks for the next answers of the group, if none is missing.
    fn ask(&self, io: &mut Io<'_>) {
        let asked = self.traffic.asked;
        let now = io.now();
        self.with(|group, place| {
            let ready = |m: &Member| m.connected && m.missing == 0;
            if group[place].complete >= asked.times || !group.iter().all(ready) {
                return;
            }
            for member in group {
                member.began = now;
                member.missing = asked.size.get();
                if let Some(conn) = member.conn {
                    io.send(conn, asked.request.get());
                }
            }
        });
    }

    fn took(&self, io: &mut Io<'_>, n: u64) {
        let began = self.with(|group, place| {
            let member = &mut group[place];
            if member.missing == 0 || n == 0 {
                return None;
            }
            member.missing = member.missing.saturating_sub(n);
            if member.missing > 0 {
                return None;
            }
            member.complete += 1;
            Some(member.began)
        });
        if let Some(Some(began)) = began {
            io.complete(Some(self.traffic.from), began, self.traffic.asked.size);
            io.finish();
            self.ask(io);
        }
    }
}

impl Role for Asking {
    fn open(&mut self, _: &mut Io<'_>) {
        let key = (self.traffic.to, self.traffic.asked.group);
        let mut together = self.traffic.together();
        let group = together.groups.entry(key).or_default();
        self.place = Some(group.len());
        group.push(Member {
            conn: None,
            connected: false,
            began: Instant::ZERO,
            missing: 0,
            complete: 0,
        });
    }

    fn start(&mut self, io: &mut Io<'_>) {
        let conn = io.connect(self.traffic.from);
        self.with(|group, place| group[place].conn = conn);
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Connected => {
                self.with(|group, place| group[place].connected = true);
                self.ask(io);
            }
            RoleEvent::Readable => {
                let n = io.read(conn);
                self.took(io, n);
            }
            _ => {}
        }
    }
}

/// The sender.
#[derive(Debug)]
struct Answering {
    traffic: AskedTraffic,
    /// Bytes of a request that have come.
    heard: u64,
    /// Bytes that the send buffer has not taken.
    waiting: u64,
    conn: Option<ConnId>,
}

impl Answering {
    /// Begins an answer.
    fn answer(&mut self, io: &mut Io<'_>) {
        let conn = self.conn.and_then(|id| io.tcp().connection(id));
        let timeouts = conn.map_or(0, |conn| conn.sender_stats().timeouts);
        self.traffic
            .watched
            .note_answer(self.traffic.flow, timeouts);
        self.waiting += self.traffic.asked.size.get();
    }

    fn write(&mut self, io: &mut Io<'_>) {
        if let (Some(conn), 1..) = (self.conn, self.waiting) {
            self.waiting -= io.send(conn, self.waiting);
        }
    }
}

impl Role for Answering {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => self.conn = Some(conn),
            RoleEvent::Readable => {
                self.heard += io.read_control(conn);
                let request = self.traffic.asked.request;
                while self.heard >= request.get() {
                    self.heard -= ByteCount::get(request);
                    self.answer(io);
                }
                self.write(io);
            }
            RoleEvent::Writable => self.write(io),
            _ => {}
        }
    }
}
