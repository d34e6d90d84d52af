//! Bulk: transfers of a size, or without end.

use super::{Io, Placement, Role, RoleEvent, Shared, Traffic, TrafficError};
use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use crate::net::packet::HostId;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};
use std::collections::BTreeMap;

/// Transfers from some hosts to others, each over a connection that the sender opens. The time of
/// a transfer counts from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Who sends.
    pub from: String,
    /// Who receives.
    pub to: String,
    /// Who sends to whom.
    pub pairs: Pairs,
    /// Connections of each pair.
    pub connections: u32,
    /// What is sent over each; without end if `None`.
    pub size: Option<ByteCount>,
    /// Each connection opens this much later than the one before.
    pub stagger: Duration,
}

/// Which hosts of two sets have to do with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairs {
    /// Each of the one with each of the other, but none with itself.
    #[default]
    Each,
    /// The first with the first, the second with the second, and so on.
    InTurn,
}

impl Choice for Pairs {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Each, "each"), (Self::InTurn, "in-turn")];
}

impl Default for Bulk {
    /// Without end from all other hosts to h0, one connection each, all at once.
    fn default() -> Self {
        Self {
            from: "*".to_owned(),
            to: "h0".to_owned(),
            pairs: Pairs::Each,
            connections: 1,
            size: None,
            stagger: Duration::ZERO,
        }
    }
}

impl Knobs for Bulk {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { from: "from", "senders", Kind::Hosts, "Who sends." },
        knob! { to: "to", "receivers", Kind::Hosts, "Who receives." },
        knob! { pairs: "pairs", "pairs", Kind::Choice(&["each", "in-turn"]),
        "Who sends to whom: each sender to each receiver but itself, or the first to the first, the second to the second." },
        knob! { connections: "connections", "connections of a pair", Kind::Whole { least: 1, most: 10_000 },
        "Connections of each pair." },
        knob! { size: "size", "transfer size", Kind::Or("off", &Kind::Size { least: 1, most: 1 << 40 }),
        "What is sent over each connection; off is without end." },
        knob! { stagger: "stagger", "stagger", Kind::TIME,
        "Each connection opens this much later than the one before." },
    ];
}

impl Pairs {
    /// The pairs of `from` and `to`, none of a host with itself.
    ///
    /// # Errors
    /// If there are none, or `InTurn` has not as many on either side.
    pub fn of(self, from: &[HostId], to: &[HostId]) -> Result<Vec<(HostId, HostId)>, TrafficError> {
        let pairs: Vec<(HostId, HostId)> = match self {
            Self::Each => to
                .iter()
                .flat_map(|&to| from.iter().map(move |&from| (from, to)))
                .filter(|(from, to)| from != to)
                .collect(),
            Self::InTurn if from.len() != to.len() => {
                return Err(TrafficError::new(
                    "pairs",
                    format!(
                        "in-turn needs as many senders as receivers; there are {} and {}",
                        from.len(),
                        to.len()
                    ),
                ));
            }
            Self::InTurn => from.iter().copied().zip(to.iter().copied()).collect(),
        };
        if let Some((host, _)) = pairs.iter().find(|(from, to)| from == to) {
            let why = format!("host {} would send to itself", host.0);
            return Err(TrafficError::new("pairs", why));
        }
        if pairs.is_empty() {
            let why = "no sender has a receiver other than itself";
            return Err(TrafficError::new("to", why));
        }
        Ok(pairs)
    }
}

impl Traffic for Bulk {
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    fn place(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let from = on.hosts("from", &self.from)?;
        let to = on.hosts("to", &self.to)?;
        let pairs = self.pairs.of(&from, &to)?;
        let begun = Shared::<Begun>::default();
        let mut senders: BTreeMap<HostId, Vec<(Duration, HostId)>> = BTreeMap::new();
        let mut late = Duration::ZERO;
        for &(from, to) in &pairs {
            for _ in 0..self.connections {
                senders.entry(from).or_default().push((late, to));
                late = late + self.stagger;
            }
        }
        for (host, mut transfers) in senders {
            transfers.reverse();
            on.role(
                host,
                Sender {
                    size: self.size,
                    to_open: transfers,
                    started: None,
                    waiting: BTreeMap::new(),
                    begun: begun.clone(),
                },
            );
        }
        let mut receivers: Vec<HostId> = pairs.iter().map(|(_, to)| *to).collect();
        receivers.sort_unstable();
        receivers.dedup();
        for host in receivers {
            on.role(
                host,
                Receiver {
                    size: self.size,
                    missing: BTreeMap::new(),
                    begun: begun.clone(),
                },
            );
        }
        match self.size {
            Some(_) => on.ends_after(pairs.len() * self.connections as usize),
            None => on.never_ends(),
        }
        Ok(())
    }
}

/// When each transfer began, by the sender and its port.
type Begun = BTreeMap<(HostId, u16), Instant>;

#[derive(Debug)]
struct Sender {
    size: Option<ByteCount>,
    /// After the start, to whom; the next one last.
    to_open: Vec<(Duration, HostId)>,
    started: Option<Instant>,
    /// Bytes that the send buffer has not taken.
    waiting: BTreeMap<ConnId, u64>,
    begun: Shared<Begun>,
}

impl Sender {
    fn open_due(&mut self, io: &mut Io<'_>) {
        while let Some(&(after, to)) = self.to_open.last()
            && self.started.is_some_and(|start| start + after <= io.now())
        {
            self.to_open.pop();
            let Some(conn) = io.connect(to) else {
                return;
            };
            if let Some(port) = io.opener_port(conn) {
                let key = (io.host(), port);
                self.begun.borrow_mut().insert(key, io.now());
            }
        }
    }

    fn write(&mut self, io: &mut Io<'_>, conn: ConnId) {
        match self.size {
            None => {
                io.send(conn, u64::MAX);
            }
            Some(_) => {
                if let Some(waiting) = self.waiting.get_mut(&conn) {
                    *waiting -= io.send(conn, *waiting);
                }
            }
        }
    }
}

impl Role for Sender {
    fn start(&mut self, io: &mut Io<'_>) {
        self.started = Some(io.now());
        self.open_due(io);
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Connected => {
                if let Some(size) = self.size {
                    self.waiting.insert(conn, size.get());
                }
                self.write(io, conn);
            }
            RoleEvent::Writable => self.write(io, conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        self.open_due(io);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let (after, _) = self.to_open.last()?;
        Some(self.started? + *after)
    }
}

#[derive(Debug)]
struct Receiver {
    size: Option<ByteCount>,
    missing: BTreeMap<ConnId, u64>,
    begun: Shared<Begun>,
}

impl Role for Receiver {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        if event != RoleEvent::Readable {
            return;
        }
        let n = io.read(conn);
        let Some(size) = self.size else {
            return;
        };
        let missing = self.missing.entry(conn).or_insert(size.get());
        if n == 0 || *missing == 0 {
            return;
        }
        *missing = missing.saturating_sub(n);
        if *missing > 0 {
            return;
        }
        let peer = io.peer(conn);
        let key = peer.zip(io.opener_port(conn));
        let began = key.and_then(|key| self.begun.borrow().get(&key).copied());
        if let Some(began) = began {
            io.complete(peer, began, size);
        }
        io.finish();
    }
}
