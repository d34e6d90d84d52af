//! Bulk: transfers of a size, or without end.

use super::error::TrafficError;
use super::kind::Traffic;
use super::messages::{Channels, Messenger};
use super::placement::Placement;
use super::receiver::Receiver;
use super::role::{Io, Role, RoleEvent};
use crate::knob;
use crate::knob::{Choice, Kind, Knob, Knobs};
use crate::net::packet::HostId;
use narrows::congestion::order::OrderedMap;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};

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
    /// Whether the receiver closes the connection of a transfer that is complete, and its sender then.
    pub close: bool,
    /// For how long a receiver reads nothing each time that it has read `read_each` from a connection.
    pub read_pause: Duration,
    /// After how much.
    pub read_each: ByteCount,
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
            close: false,
            read_pause: Duration::ZERO,
            read_each: ByteCount::new(256 << 10),
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
        knob! { close: "close", "closing", Kind::Switch,
        "Whether a connection is closed, by the receiver first, when its transfer is complete." },
        knob! { read_pause: "read_pause", "reading pause", Kind::TIME,
        "For how long the receiver reads nothing from a connection each time that it has read read_each: its window closes where tcp.receive_window or the buffer says so." },
        knob! { read_each: "read_each", "read between pauses", Kind::Size { least: 1, most: 1 << 40 },
        "Where there is a read_pause: after how many bytes it comes." },
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
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let from = on.hosts("from", &self.from)?;
        let to = on.hosts("to", &self.to)?;
        let pairs = self.pairs.of(&from, &to)?;
        let channels = Channels::<Instant>::default();
        let mut senders: OrderedMap<HostId, Vec<(Duration, HostId)>> = OrderedMap::new();
        let mut late = Duration::ZERO;
        for &(from, to) in &pairs {
            for _ in 0..self.connections {
                senders.get_or_default(from).push((late, to));
                late += self.stagger;
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
                    messages: channels.messenger(),
                },
            );
        }
        let mut receivers: Vec<HostId> = pairs.iter().map(|(_, to)| *to).collect();
        receivers.sort_unstable();
        receivers.dedup();
        for host in receivers {
            let receiver = Receiver::new(channels.messenger());
            let receiver = receiver.closing(self.close);
            on.role(host, receiver.resting(self.read_each, self.read_pause));
        }
        match self.size {
            Some(_) => on.ends_after(pairs.len() * self.connections as usize),
            None => on.never_ends(),
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Sender {
    size: Option<ByteCount>,
    /// After the start, to whom; the next one last.
    to_open: Vec<(Duration, HostId)>,
    started: Option<Instant>,
    /// A message is a transfer, by when it began.
    messages: Messenger<Instant>,
}

impl Sender {
    fn open_due(&mut self, io: &mut Io<'_>) {
        while let Some(&(after, to)) = self.to_open.last()
            && self.started.is_some_and(|start| start + after <= io.now())
        {
            self.to_open.pop();
            let Some(conn) = self.messages.connect(io, to, 0) else {
                return;
            };
            if let Some(size) = self.size {
                self.messages.announce(conn, size.get(), io.now());
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
        match (event, self.size) {
            (RoleEvent::Connected, Some(size)) => self.messages.write(io, conn, size.get()),
            (RoleEvent::Writable, Some(_)) => self.messages.writable(io, conn),
            (RoleEvent::Connected | RoleEvent::Writable, None) => {
                io.send(conn, u64::MAX);
            }
            (RoleEvent::PeerClosed, Some(_)) => io.close(conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        self.open_due(io);
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        let (after, _) = self.to_open.last()?;
        Some(self.started? + *after)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Rig, through_star};
    use super::*;
    use crate::knob::Section;

    fn bulk(from: &str, to: &str, size: u64) -> Bulk {
        Bulk {
            from: from.to_owned(),
            to: to.to_owned(),
            size: Some(ByteCount::new(size)),
            ..Bulk::default()
        }
    }

    /// A segment on an idle star: SYN, SYN-ACK, and the data after the ACK.
    #[test]
    fn a_transfer_counts_from_the_opening_of_its_connection() {
        let ran = Rig::star(2)
            .with(bulk("h1", "h0", 1_000))
            .run(Duration::from_secs(1))
            .done();
        let [transfer] = ran.transfers()[..] else {
            panic!("one transfer");
        };
        assert_eq!((transfer.to, transfer.from), (HostId(0), Some(HostId(1))));
        assert_eq!(transfer.began, Instant::ZERO);
        // SYN and SYN-ACK have eight bytes more of options.
        let syn = through_star(8);
        assert_eq!(transfer.took, syn + syn + through_star(1_000));
    }

    #[test]
    fn every_pair_has_its_connections_and_its_turn() {
        let mut bulk = bulk("h1..h3", "h0", 20_000);
        bulk.set("connections", "2").unwrap();
        bulk.set("stagger", "1ms").unwrap();
        let rig = Rig::star(4).ipv6().at(Duration::from_millis(7), bulk);
        let ran = rig.run(Duration::from_secs(1)).done();
        let mut began: Vec<_> = ran.transfers().iter().map(|t| t.began.as_nanos()).collect();
        began.sort_unstable();
        assert_eq!(began, [7, 8, 9, 10, 11, 12].map(|ms| ms * 1_000_000));
        assert_eq!(rig.run(Duration::from_secs(1)).bits(), ran.bits());
    }

    /// 400 kB, of which the first 100 kB are read before a rest; what has come meanwhile is read at once.
    #[test]
    fn a_receiver_rests_each_time_that_it_has_read_so_much() {
        let took = |pause: &str| {
            let mut bulk = bulk("h1", "h0", 400_000);
            bulk.set("read_pause", pause).unwrap();
            bulk.set("read_each", "100kB").unwrap();
            let ran = Rig::star(2).with(bulk).run(Duration::from_secs(2)).done();
            ran.transfers()[0].took
        };
        let (plain, rested) = (took("0s"), took("50ms"));
        assert!(plain < Duration::from_millis(10), "{plain}");
        assert!(rested >= Duration::from_millis(50), "{rested}");
        assert!(rested <= plain + Duration::from_millis(50), "{rested}");
    }

    /// The second connection comes when the first is over, in its place, while the receiver would still
    /// rest from that.
    #[test]
    fn a_receiver_rests_from_a_connection_and_not_from_the_next_in_its_place() {
        let mut bulk = bulk("h1", "h0", 10_000);
        for (key, value) in [
            ("connections", "2"),
            ("stagger", "70s"),
            ("close", "on"),
            ("read_pause", "100s"),
            ("read_each", "10kB"),
        ] {
            bulk.set(key, value).unwrap();
        }
        let ran = Rig::star(2).with(bulk).run(Duration::from_secs(200)).done();
        let took = ran.transfers().into_iter().map(|transfer| transfer.took);
        let took: Vec<Duration> = took.collect();
        assert_eq!(took.len(), 2);
        let most = Duration::from_millis(10);
        assert!(took.iter().all(|took| *took < most), "{took:?}");
    }

    #[test]
    fn without_end_bytes_count_and_no_transfer_does() {
        let endless = Bulk::default();
        let ran = Rig::leaf_spine(2, 2)
            .with(endless)
            .run(Duration::from_millis(100));
        assert!(ran.log.is_endless() && ran.log.goes_on());
        assert_eq!(ran.transfers(), []);
        // 94.9 % of 1 Gb/s, when windows have opened.
        let share = ran.log.delivered().get() * 80;
        assert!((850_000_000..950_000_000).contains(&share), "{share}");
    }

    #[test]
    fn pairs_that_cannot_be_are_named() {
        let in_turn = |from: &str, to: &str| {
            let mut bulk = bulk(from, to, 1);
            bulk.set("pairs", "in-turn").unwrap();
            Rig::star(4).with(bulk).refused()
        };
        assert_eq!(in_turn("h0..h2", "h3").key, "pairs");
        assert_eq!(in_turn("h1..h2", "h1..h2").key, "pairs");
        assert_eq!(Rig::star(4).with(bulk("h0", "h0", 1)).refused().key, "to");
        assert_eq!(Rig::star(4).with(bulk("h9", "h0", 1)).refused().key, "from");
        assert_eq!(
            Rig::star(4).with(bulk("h1", "switch", 1)).refused().key,
            "to"
        );
    }
}
