//! `mirror`: each host copies a block to the host opposite, again and again.

use narrows_experiment::knob;
use narrows_experiment::knob::{Kind, Knob, Knobs};
use narrows_experiment::narrows::endpoint::ConnId;
use narrows_experiment::narrows::{ByteCount, Duration, Instant};
use narrows_experiment::net::packet::HostId;
use narrows_experiment::traffic::{
    Channels, Io, Messenger, Placement, Receiver, Role, RoleEvent, Traffic, TrafficError,
    TrafficKind,
};

pub(crate) fn kind() -> TrafficKind {
    TrafficKind::new::<Mirror>("mirror", "blocks to the host opposite, at a fixed period")
}

/// Blocks of `size` from each host to the one half of the hosts further on, `count` times.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    hosts: String,
    size: ByteCount,
    every: Duration,
    count: u32,
}

impl Default for Mirror {
    fn default() -> Self {
        Self {
            hosts: "*".to_owned(),
            size: ByteCount::new(100_000),
            every: Duration::from_millis(10),
            count: 10,
        }
    }
}

impl Knobs for Mirror {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { hosts: "hosts", "hosts", Kind::Hosts, "Who takes part." },
        knob! { size: "size", "block", Kind::Size { least: 1, most: 1 << 30 }, "Size of a block." },
        knob! { every: "every", "period", Kind::SPAN, "Time from a block to the next." },
        knob! { count: "count", "blocks", Kind::Whole { least: 1, most: 1_000_000 },
        "Blocks of each host." },
    ];
}

impl Traffic for Mirror {
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        let hosts = on.hosts("hosts", &self.hosts)?;
        if hosts.len() < 2 {
            return Err(TrafficError::new("hosts", "at least two are needed"));
        }
        let channels = Channels::<Instant>::default();
        for (n, &host) in hosts.iter().enumerate() {
            let peer = hosts[(n + hosts.len() / 2) % hosts.len()];
            on.role(
                host,
                Sender {
                    peer,
                    conn: None,
                    next: None,
                    left: self.count,
                    every: self.every,
                    size: self.size,
                    messages: channels.messenger(),
                },
            );
            let messages = channels.messenger();
            on.role(host, Receiver::new(messages));
        }
        on.ends_after(hosts.len() * self.count as usize);
        Ok(())
    }
}

#[derive(Debug)]
struct Sender {
    peer: HostId,
    conn: Option<ConnId>,
    /// When the next block is due.
    next: Option<Instant>,
    left: u32,
    every: Duration,
    size: ByteCount,
    /// A message is a block, by when it was due.
    messages: Messenger<Instant>,
}

impl Role for Sender {
    fn start(&mut self, io: &mut Io<'_>) {
        self.conn = self.messages.connect(io, self.peer, 0);
        self.next = Some(io.now());
        self.timeout(io);
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        if matches!(event, RoleEvent::Connected | RoleEvent::Writable) {
            self.messages.writable(io, conn);
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        while let (Some(conn), Some(due)) = (self.conn, self.next)
            && due <= io.now()
        {
            self.messages.send(io, conn, self.size.get(), due);
            self.left -= 1;
            self.next = (self.left > 0).then_some(due + self.every);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}
