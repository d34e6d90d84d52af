//! A role's own numbers in its connections (`Connection::tag`).

use narrows_experiment::file::Loaded;
use narrows_experiment::knob::{Knob, Knobs};
use narrows_experiment::narrows::endpoint::ConnId;
use narrows_experiment::narrows::{ByteCount, Instant};
use narrows_experiment::net::packet::HostId;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::RunContext;
use narrows_experiment::traffic::{
    Io, Placement, Role, RoleEvent, Traffic, TrafficError, TrafficKind,
};

const SIZE: u64 = 100_000;
const TAG: u64 = 7;

/// The first host sends the second one bytes that are no messages.
#[derive(Clone, Debug, Default)]
struct Plain;

impl Knobs for Plain {
    const TABLE: &'static [Knob<Self>] = &[];
}

impl Traffic for Plain {
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        for host in on.hosts("hosts", "h0..h1")? {
            on.role(host, End::default());
        }
        on.ends_after(1);
        Ok(())
    }
}

/// Either end.
#[derive(Debug, Default)]
struct End {
    unwritten: u64,
    read: u64,
}

impl Role for End {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn start(&mut self, io: &mut Io<'_>) {
        if io.host() == HostId(0)
            && let Some(conn) = io.connect(HostId(1))
        {
            self.unwritten = SIZE - io.send(conn, SIZE);
        }
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => {
                let conn = io.tcp().connection_mut(conn).expect("it was accepted");
                conn.set_tag(TAG);
            }
            RoleEvent::Writable => self.unwritten -= io.send(conn, self.unwritten),
            RoleEvent::Readable => {
                self.read += io.read(conn);
                let tag = io.tcp().connection(conn).map(|conn| conn.tag());
                assert_eq!(tag, Some(TAG), "after {} bytes", self.read);
                if self.read == SIZE {
                    io.complete(io.peer(conn), Instant::ZERO, ByteCount::new(SIZE));
                    io.finish();
                }
            }
            _ => {}
        }
    }
}

#[test]
fn reading_what_are_no_messages_leaves_tags_alone() {
    let mut registry = Registry::default();
    let kind = TrafficKind::new::<Plain>("plain", "bytes");
    registry.traffic.register(kind);
    let file = r#"
        [network]
        topology = "star"
        hosts = 2
        [[traffic]]
        name = "bytes"
        kind = "plain"
    "#;
    let loaded = Loaded::parse("plain.toml", file, &registry).unwrap();
    let outcome = loaded.experiment.run(&registry, RunContext::default());
    assert_eq!(outcome.unwrap().transfers[0].size, ByteCount::new(SIZE));
}
