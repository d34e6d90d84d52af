//! On-off: bursts with idle periods between them.

use super::alarms::Alarms;
use super::arrivals::Pause;
use super::bulk::Pairs;
use super::error::TrafficError;
use super::kind::Traffic;
use super::messages::{Channels, Draws, Messenger};
use super::opening::{Begins, Opening, SETUP, SETUP_KIND};
use super::placement::Placement;
use super::receiver::Receiver;
use super::role::{Io, Role, RoleEvent};
use super::size::SizeDistribution;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::net::packet::HostId;
use crate::sim::rng::Stream;
use crate::sim::time::SimTime;
use narrows::congestion::order::OrderedMap;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant, Rate};

/// Bursts from some hosts to others over connections that stay open. The application writes a
/// burst at once, or at a rate, is idle, and writes the next one, whatever became of the last. A
/// transfer is a burst, from its first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// Who sends.
    pub from: String,
    /// Who receives.
    pub to: String,
    /// Who sends to whom.
    pub pairs: Pairs,
    /// Connections of each pair.
    pub connections: u32,
    /// How long bursts are.
    pub size: SizeDistribution,
    /// How fast they are written; at once if `None`.
    pub rate: Option<Rate>,
    /// How much is written at a time, where there is a rate.
    pub write: ByteCount,
    /// From the end of a burst to the begin of the next.
    pub idle: Pause,
    /// Bursts of each connection; without end if `None`.
    pub bursts: Option<u32>,
    /// Whether the first burst of each connection is at the same instant.
    pub aligned: bool,
    /// Time for the handshakes.
    pub setup: Duration,
}

impl Default for OnOff {
    /// 100 kB now and then, 10 ms apart on average, from all other hosts to h0, without end.
    fn default() -> Self {
        Self {
            from: "*".to_owned(),
            to: "h0".to_owned(),
            pairs: Pairs::Each,
            connections: 1,
            size: SizeDistribution::fixed(ByteCount::new(100_000)),
            rate: None,
            write: ByteCount::new(1_460),
            idle: Pause::Exponential(Duration::from_millis(10)),
            bursts: None,
            aligned: false,
            setup: SETUP,
        }
    }
}

impl Knobs for OnOff {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { from: "from", "senders", Kind::Hosts, "Who sends." },
        knob! { to: "to", "receivers", Kind::Hosts, "Who receives." },
        knob! { pairs: "pairs", "pairs", Kind::Choice(&["each", "in-turn"]),
        "Who sends to whom: each sender to each receiver but itself, or the first to the first, the second to the second." },
        knob! { connections: "connections", "connections of a pair", Kind::Whole { least: 1, most: 10_000 },
        "Connections of each pair." },
        knob! { size: "size", "burst size", SizeDistribution::KIND, "How long bursts are." },
        knob! { rate: "rate", "write rate", Kind::Or("off", &Kind::Rate),
        "How fast the application writes a burst; off is all at once." },
        knob! { write: "write", "write size", Kind::Size { least: 1, most: 1 << 30 },
        "How much it writes at a time, where there is a rate." },
        knob! { idle: "idle", "idle period", Pause::KIND,
        "From the end of a burst to the begin of the next; longer than none." },
        knob! { bursts: "bursts", "bursts", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000_000 }),
        "Bursts of each connection; off is without end." },
        knob! { aligned: "aligned", "aligned start", Kind::Switch,
        "Whether the first burst of each connection is at the same instant; otherwise it is after a part of an idle period." },
        knob! { setup: "setup", "setup time", SETUP_KIND,
        "Time for the handshakes, after which bursts begin; on a host whose handshakes take longer, after them." },
    ];
}

impl Traffic for OnOff {
    #[inline]
    fn clone_box(&self) -> Box<dyn Traffic> {
        Box::new(self.clone())
    }

    #[inline] // It runs once.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
        if self.idle.mean().is_zero() {
            let why = "without idle periods it is bulk traffic";
            return Err(TrafficError::new("idle", why));
        }
        let from = on.hosts("from", &self.from)?;
        let to = on.hosts("to", &self.to)?;
        let pairs = self.pairs.of(&from, &to)?;
        let channels = Channels::<Instant>::default();
        let mut senders: OrderedMap<HostId, Vec<HostId>> = OrderedMap::new();
        for &(from, to) in &pairs {
            let peers = senders.get_or_default(from);
            peers.extend((0..self.connections).map(|_| to));
        }
        for (host, peers) in senders {
            let sender = Sender {
                traffic: self.clone(),
                messages: channels.messenger(),
                opening: Opening::new(),
                lines: vec![Line::default(); peers.len()],
                peers,
                alarms: Alarms::default(),
                sizes: Draws::Sizes.stream(on, host),
                pauses: Draws::Pauses.stream(on, host),
            };
            on.role(host, sender);
        }
        let mut receivers: Vec<HostId> = pairs.iter().map(|(_, to)| *to).collect();
        receivers.sort_unstable();
        receivers.dedup();
        for host in receivers {
            let messages = channels.messenger();
            on.role(host, Receiver::new(messages));
        }
        match self.bursts {
            Some(bursts) => {
                let each = pairs.len().saturating_mul(self.connections as usize);
                on.ends_after(each.saturating_mul(bursts as usize));
            }
            None => on.never_ends(),
        }
        Ok(())
    }
}

/// A connection of a sender.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    bursts: u32,
    /// When this burst began.
    began: Instant,
    /// Of this burst: how long it is, and what is written.
    size: u64,
    written: u64,
}

#[derive(Debug)]
struct Sender {
    traffic: OnOff,
    /// A message is a burst, by when it began.
    messages: Messenger<Instant>,
    opening: Opening,
    peers: Vec<HostId>,
    /// By tag.
    lines: Vec<Line>,
    /// By tag: the next write.
    alarms: Alarms<u32>,
    sizes: Stream,
    pauses: Stream,
}

impl Sender {
    fn begin(&mut self, io: &mut Io<'_>) {
        for tag in 0..self.lines.len() as u32 {
            let late = match self.traffic.idle {
                _ if self.traffic.aligned => Duration::ZERO,
                Pause::Fixed(idle) => {
                    let idle = SimTime::from_duration(idle);
                    self.pauses.jitter(idle).to_duration()
                }
                exponential => exponential.draw(&mut self.pauses),
            };
            self.alarms.set(io.now() + late, tag);
        }
        self.write_due(io);
    }

    fn write_due(&mut self, io: &mut Io<'_>) {
        while let Some(tag) = self.alarms.due(io.now()) {
            self.write(io, tag);
        }
    }

    /// The next write of a connection: of the burst that it is in, or of the next.
    fn write(&mut self, io: &mut Io<'_>, tag: u32) {
        let (line, conn) = (
            &mut self.lines[tag as usize],
            self.opening.conns[tag as usize],
        );
        if line.written == line.size {
            *line = Line {
                bursts: line.bursts.saturating_add(1),
                began: io.now(),
                size: self.traffic.size.draw(&mut self.sizes).get(),
                written: 0,
            };
            self.messages.announce(conn, line.size, line.began);
        }
        let left = line.size - line.written;
        let piece = match self.traffic.rate {
            Some(_) => left.min(self.traffic.write.get()),
            None => left,
        };
        line.written += piece;
        self.messages.write(io, conn, piece);
        // The next write is when the rate allows, seen from the begin of the burst.
        let written = ByteCount::new(line.written);
        let busy = self.traffic.rate.map(|rate| rate.time_for(written));
        let mut next = line.began + busy.unwrap_or_default();
        if line.written == line.size {
            if self.traffic.bursts.is_some_and(|all| line.bursts >= all) {
                return;
            }
            next = next + self.traffic.idle.draw(&mut self.pauses);
        }
        // Time goes on, however small the pieces are.
        let next = next.max(io.now() + Duration::from_nanos(1));
        self.alarms.set(next, tag);
    }
}

impl Role for Sender {
    fn start(&mut self, io: &mut Io<'_>) {
        let setup = self.traffic.setup;
        self.opening
            .start(io, &mut self.messages, &self.peers, setup);
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Connected => {
                let begins = self.opening.connected();
                if begins == Begins::Now {
                    self.begin(io);
                }
            }
            RoleEvent::Writable => self.messages.writable(io, conn),
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        if self.opening.timeout(io.now()) == Begins::Now {
            self.begin(io);
        }
        self.write_due(io);
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        self.alarms.next().or(self.opening.poll_timeout())
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::tests::distance_from_exponential;
    use super::super::rig::{Rig, through_star};
    use super::*;
    use crate::knob::Section;
    use crate::net::buffer::Capacity;
    use proptest::prelude::*;

    fn on_off(knobs: &[(&str, &str)]) -> OnOff {
        let mut on_off = OnOff::default();
        for (key, value) in knobs {
            on_off.set(key, value).unwrap();
        }
        on_off
    }

    const LONG: Duration = Duration::from_secs(1_000);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn bursts_come_after_idle_periods() {
        let knobs = [
            ("from", "h1"),
            ("size", "1000"),
            ("idle", "5ms"),
            ("bursts", "10"),
            ("aligned", "on"),
        ];
        let ran = Rig::star(2).with(on_off(&knobs)).run(LONG).done();
        assert_eq!(ran.took(), vec![through_star(1_000); 10]);
        let began: Vec<Instant> = ran.transfers().iter().map(|t| t.began).collect();
        let due: Vec<Instant> = (0..10)
            .map(|n| Instant::ZERO + SETUP + MS * 5 * n)
            .collect();
        assert_eq!(began, due);
    }

    #[test]
    fn idle_periods_are_exponential() {
        let knobs = [
            ("from", "h1"),
            ("size", "1000"),
            ("bursts", "3000"),
            ("idle", "exponential:2ms"),
        ];
        let ran = Rig::star(2).with(on_off(&knobs)).run(LONG).done();
        let transfers = ran.transfers();
        let spans = transfers
            .windows(2)
            .map(|p| p[1].began.since(p[0].began).as_nanos() as f64);
        let distance = distance_from_exponential(spans.collect(), 2e6);
        assert!(distance < 1.63, "{distance}");
    }

    /// 100 kB at 80 Mb/s are 10 ms; with 10 ms between bursts half of that rate arrives.
    #[test]
    fn a_burst_is_written_at_its_rate() {
        let knobs = [
            ("from", "h1"),
            ("size", "100kB"),
            ("rate", "80Mb/s"),
            ("write", "1000"),
            ("idle", "10ms"),
            ("bursts", "20"),
            ("aligned", "on"),
        ];
        let ran = Rig::star(2).with(on_off(&knobs)).run(LONG).done();
        // The last of 100 pieces is written when 99 are through.
        let burst = Duration::from_micros(9_900) + through_star(1_000);
        assert_eq!(ran.took(), vec![burst; 20]);
        let period = ran.transfers()[19].began.since(ran.transfers()[0].began);
        assert_eq!(period, MS * 20 * 19);
        assert_eq!(ran.segments().0, 20 * 100);
    }

    #[test]
    fn without_alignment_connections_begin_at_different_times() {
        for idle in ["10ms", "exponential:10ms"] {
            let mut bursts = on_off(&[
                ("idle", idle),
                ("connections", "4"),
                ("bursts", "1"),
                ("size", "10"),
            ]);
            let began = |on_off: &OnOff| {
                let rig = Rig::leaf_spine(2, 3).ipv6().with(on_off.clone());
                let ran = rig.run(LONG).done();
                assert_eq!(rig.run(LONG).bits(), ran.bits());
                let mut began: Vec<Instant> = ran.transfers().iter().map(|t| t.began).collect();
                began.sort_unstable();
                began.dedup();
                began.len()
            };
            assert_eq!(began(&bursts), 5 * 4);
            bursts.aligned = true;
            assert_eq!(began(&bursts), 1);
        }
    }

    #[test]
    fn it_goes_on_without_end_beside_a_read() {
        let start = MS * 30;
        let rig = Rig::star(5).with(super::super::SynchronisedRead {
            blocks: None,
            ..super::super::SynchronisedRead::default()
        });
        let ran = rig
            .at(start, on_off(&[("size", "data-mining")]))
            .run(MS * 300);
        let bursts: Vec<_> = ran
            .transfers()
            .into_iter()
            .filter(|t| t.traffic == 1)
            .collect();
        assert!(
            bursts.len() > 20
                && bursts
                    .iter()
                    .all(|t| t.began > Instant::ZERO + start + SETUP)
        );
    }

    #[test]
    fn it_survives_an_outage() {
        let rig = Rig::lossy_star(4, 0, 10..40, Capacity::Packets(10));
        let ran = rig.with(on_off(&[("bursts", "10")])).run(LONG).done();
        assert_eq!(ran.transfers().len(), 30);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (knobs, key) in [
            (&[("idle", "0")][..], "idle"),
            (&[("from", "h0")], "to"),
            (&[("from", "h9")], "from"),
            (&[("from", "h0..h1"), ("pairs", "in-turn")], "pairs"),
        ] {
            assert_eq!(Rig::star(3).with(on_off(knobs)).refused().key, key);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn it_always_ends(
            hosts in 2_usize..6, connections in 1_u32..4, bursts in 1_u32..6, size in 1_u64..50_000,
            rate in 0_u64..2_000_000, write in 1_u64..3_000, idle in 1_u64..2_000, exponential: bool,
            aligned: bool, packets in 4_u32..40, seed in 0_u64..1_000,
        ) {
            let idle = Duration::from_nanos(idle * 997);
            let on_off = OnOff {
                connections,
                size: SizeDistribution::fixed(ByteCount::new(size)),
                rate: (rate > 0).then_some(Rate::from_bits_per_sec(rate * 5_000)),
                write: ByteCount::new(write),
                idle: if exponential { Pause::Exponential(idle) } else { Pause::Fixed(idle) },
                bursts: Some(bursts),
                aligned,
                ..OnOff::default()
            };
            let rig = Rig::lossy_star(hosts, 0, 3..9, Capacity::Packets(packets)).seed(seed);
            let ran = rig.with(on_off).run(LONG).done();
            let all = (hosts as u64 - 1) * u64::from(connections) * u64::from(bursts);
            prop_assert_eq!(ran.sum(), all * size);
        }
    }
}
