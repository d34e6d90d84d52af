//! The same script in the simulator and over TAP gives the same segments of ours, byte for byte.
//!
//! A script says who sends how much after whom, and which packets are lost, by number. In the
//! simulator the peer is this stack with its defaults, which are Linux's; over TAP it is the
//! kernel. Compared are the IP packets that we send, in their order, from the SYN to the last ACK.
//!
//! Taken out of the comparison is what depends on chance or on the clock: sequence numbers and
//! acknowledgements are counted from the initial ones, the values of timestamps are left out, and
//! with these the TCP checksum, which is verified instead. So is the window of an acknowledgement
//! without data: a driver acknowledges what comes out of order before the user has read what it
//! completes, a simulated host after.
//!
//! So that the order of our segments is a matter of the script and not of the machine's load, our
//! window is constant and holds a whole flight, each packet that arrives is answered before the
//! next is looked at, each segment is acknowledged, and timeouts are constant: ours so long that no
//! stall of the machine reaches them unless the script wants one, the kernel's likewise and without
//! loss probes. Tail loss probes are left out for that reason on our side too. What the kernel
//! would put off to answer it with something else (SACKs, and what comes while its program is at
//! work on the connection) it answers at once.
#![cfg(target_os = "linux")]

#[path = "../../stack/tests/live/netns.rs"]
mod netns;

use narrows::buffer::synthetic::{check_pattern, fill_pattern};
use narrows::config::{AckPolicy, TcpConfig};
use narrows::congestion::{FlowStart, fixed::Fixed, rto::presets};
use narrows::conn::Event;
use narrows::conn::state::State;
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::tap::{Tap, TapConfig};
use narrows::device::{Device, DeviceStats, Refused};
use narrows::driver::poll::{self, Application, PollConfig};
use narrows::driver::{LiveTcp, secret};
use narrows::endpoint::{ConnId, EndpointConfig, EndpointEvent};
use narrows::interface::{Capabilities, Interface, InterfaceConfig, RxFrame, TxFrame};
use narrows::recovery::detector;
use narrows::wire::ethernet::MacAddr;
use narrows::wire::{ChecksumPolicy, Flags, Packet};
use narrows::{Duration, Instant, Rate};
use narrows_net::host::{SimApp, SimEndpoint, SimPacket, TcpHost, address_of};
use narrows_net::net::buffer::Capacity;
use narrows_net::net::graph::{Attachment, TieOrder};
use narrows_net::net::impair::{ImpairSpec, When};
use narrows_net::net::link::LinkSpec;
use narrows_net::net::nic::NicSpec;
use narrows_net::net::packet::HostId;
use narrows_net::net::port::PortSpec;
use narrows_net::net::topology::Star;
use narrows_net::sim::tap::{Tap as Listener, TapEvent};
use narrows_net::sim::time::SimTime;
use narrows_net::sim::world::{Halt, World};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, mpsc};

/// Payload of a full segment: an MTU of 1500 less headers with timestamps.
const MSS: usize = 1448;
/// Longer than any stall.
const NEVER: Duration = Duration::from_secs(30);
/// The peer's timeout: as long.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than most; it has to be waited for.
const RTO: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Script {
    name: String,
    /// Segments from us, then bytes from the peer, which is the sign for the next round. After the
    /// last one we close, and then the peer does.
    rounds: Vec<(usize, usize)>,
    /// Packets of ours that are lost; the SYN is number 1.
    lose: Vec<u64>,
    /// ... and of the peer; the SYN-ACK is number 1.
    lose_theirs: Vec<u64>,
    tcp: TcpConfig,
    /// What we send: the numbers of data segments, from 1, and the rest by name.
    sends: &'static str,
}

impl Script {
    fn new(name: &str, rounds: &[(usize, usize)], sends: &'static str) -> Self {
        let tcp = TcpConfig {
            congestion: Arc::new(|start: &FlowStart| Fixed::segments(start, 64)),
            rto: Arc::new(|| presets::fixed(NEVER)),
            detector: detector::standard().get("sack").unwrap(),
            ack: AckPolicy::IMMEDIATE,
            nagle: false,
            ..TcpConfig::default()
        };
        Self {
            name: name.to_owned(),
            rounds: rounds.to_vec(),
            lose: Vec::new(),
            lose_theirs: Vec::new(),
            tcp,
            sends,
        }
    }

    fn lose(mut self, packets: &[u64]) -> Self {
        self.lose = packets.to_vec();
        self
    }

    fn lose_theirs(mut self, packets: &[u64]) -> Self {
        self.lose_theirs = packets.to_vec();
        self
    }

    fn rto(mut self, rto: Duration) -> Self {
        self.tcp.rto = Arc::new(move || presets::fixed(rto));
        self
    }

    fn detector(mut self, name: &str) -> Self {
        self.name += &format!(", {name}");
        self.tcp.detector = detector::standard().get(name).unwrap();
        self
    }

    /// Both ways, and what is to come of it.
    fn check(self) {
        let simulated = captured(&self.simulated());
        let said: Vec<_> = simulated.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(said.join(" "), self.sends, "{}, simulated", self.name);
        let name = self.name.clone();
        let live = netns::in_namespace(&name, move || {
            let live = captured(&self.live());
            for (n, (live, simulated)) in live.iter().zip(&simulated).enumerate() {
                assert_eq!(live, simulated, "packet {n} of {}", self.name);
            }
            assert_eq!(live.len(), simulated.len(), "{}: {live:#?}", self.name);
        });
        live.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// A packet as it is compared.
#[derive(Clone, PartialEq, Eq)]
struct Segment {
    name: String,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers = &self.bytes[..self.bytes.len().min(80)];
        let hex: String = headers.iter().map(|b| format!("{b:02x}")).collect();
        write!(f, "{} ({} bytes: {hex})", self.name, self.bytes.len())
    }
}

/// The packets without what chance and the clock put into them.
fn captured(packets: &[Vec<u8>]) -> Vec<Segment> {
    let (mut iss, mut irs) = (None, None);
    let each = packets.iter().map(|bytes| {
        let packet = Packet::parse(bytes, ChecksumPolicy::Verify).unwrap();
        let tcp = &packet.tcp;
        let iss = *iss.get_or_insert(tcp.seq.0);
        if irs.is_none() && tcp.flags.contains(Flags::ACK) {
            irs = Some(tcp.ack.0.wrapping_sub(1));
        }
        let irs = irs.unwrap_or(0);
        let mut bytes = bytes.clone();
        let ip_len = usize::from(bytes[0] & 0xf) * 4;
        relative(&mut bytes[ip_len..], iss, irs);
        if packet.payload.is_empty() && !tcp.flags.contains(Flags::SYN) {
            bytes[ip_len + 14..ip_len + 16].fill(0);
        }
        let name = name(&packet, iss, irs);
        Segment { name, bytes }
    });
    each.collect()
}

/// Count the numbers of a segment from the initial ones, and clear what is not compared.
fn relative(segment: &mut [u8], iss: u32, irs: u32) {
    let less = |bytes: &mut [u8], n: u32| {
        let number = u32::from_be_bytes(bytes.try_into().unwrap());
        bytes.copy_from_slice(&number.wrapping_sub(n).to_be_bytes());
    };
    less(&mut segment[4..8], iss);
    less(&mut segment[8..12], irs);
    segment[16..18].fill(0);
    let end = usize::from(segment[12] >> 4) * 4;
    let mut at = 20;
    while at < end {
        let len = match segment[at] {
            0 | 1 => 1,
            _ => usize::from(segment[at + 1]),
        };
        let option = &mut segment[at..at + len];
        match option[0] {
            5 => option[2..]
                .chunks_exact_mut(4)
                .for_each(|edge| less(edge, irs)),
            8 => {
                // Whether there is an echo is compared.
                let echoes = option[6..10] != [0; 4];
                option[2..].fill(0);
                option[9] = echoes.into();
            }
            _ => {}
        }
        at += len;
    }
}

/// What a script calls it.
fn name(packet: &Packet<&[u8]>, iss: u32, irs: u32) -> String {
    let tcp = &packet.tcp;
    let mut parts = Vec::new();
    if tcp.flags.contains(Flags::SYN) {
        parts.push("SYN".to_owned());
    }
    if !packet.payload.is_empty() {
        let offset = tcp.seq.0.wrapping_sub(iss) - 1;
        assert_eq!(check_pattern(offset.into(), packet.payload), None);
        parts.push((offset as usize / MSS + 1).to_string());
    }
    if tcp.flags.contains(Flags::FIN) {
        parts.push("FIN".to_owned());
    }
    if tcp.flags.contains(Flags::RST) {
        parts.push("RST".to_owned());
    }
    if parts.is_empty() {
        // What is acknowledged counts in segments, and so do SACK blocks: first to last. A FIN is no
        // segment.
        let number = |n: u32| (n.wrapping_sub(irs) as usize + MSS - 3) / MSS;
        let mut text = format!("A{}", number(tcp.ack.0));
        for block in tcp.options.sack.as_slice() {
            let (first, last) = (number(block.start.0) + 1, number(block.end.0));
            text += &format!(",{first}-{last}");
        }
        parts.push(text);
    }
    parts.join("+")
}

/// Where a round stands, with either of us.
#[derive(Clone, Debug)]
struct Progress {
    rounds: Vec<(usize, usize)>,
    round: usize,
    /// Bytes of the round that came.
    got: usize,
    sent: u64,
}

/// What is to be done next.
enum Next {
    /// Send so many bytes.
    Send(usize),
    Wait,
    Close,
}

impl Progress {
    fn new(rounds: &[(usize, usize)]) -> Self {
        Self {
            rounds: rounds.to_vec(),
            round: 0,
            got: 0,
            sent: 0,
        }
    }

    /// We: send, then wait for the answer.
    fn ours(&mut self) -> Next {
        match self.rounds.get(self.round) {
            Some(&(up, _)) if up > 0 && self.sent == self.before(self.round) => {
                Next::Send(up * MSS)
            }
            Some(&(_, down)) if self.got < down => Next::Wait,
            Some(&(_, down)) => {
                self.got -= down;
                self.round += 1;
                self.ours()
            }
            None => Next::Close,
        }
    }

    /// Bytes of ours before that round.
    fn before(&self, round: usize) -> u64 {
        self.rounds[..round]
            .iter()
            .map(|r| (r.0 * MSS) as u64)
            .sum()
    }

    /// The peer: wait for the flight, then answer.
    fn theirs(&mut self) -> Next {
        match self.rounds.get(self.round) {
            Some(&(up, _)) if self.got < up * MSS => Next::Wait,
            Some(&(up, down)) => {
                self.got -= up * MSS;
                self.round += 1;
                match down {
                    0 => self.theirs(),
                    down => Next::Send(down),
                }
            }
            None => Next::Wait,
        }
    }
}

// ---- In the simulator

/// Either side's application.
struct SimSide {
    progress: Progress,
    /// Where to, if it is us.
    to: Option<SocketAddr>,
    conn: Option<ConnId>,
    connected: bool,
    peer_closed: bool,
}

impl SimSide {
    fn act(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let Some(conn) = self.conn.and_then(|id| tcp.connection_mut(id)) else {
            return;
        };
        let n = conn.readable();
        conn.consume(n, now);
        assert_eq!(conn.recv_buffer().mismatched, 0);
        self.progress.got += n as usize;
        while self.connected {
            let next = match self.to {
                Some(_) => self.progress.ours(),
                None if self.peer_closed => Next::Close,
                None => self.progress.theirs(),
            };
            match next {
                Next::Send(n) => {
                    assert_eq!(conn.send(n, n), Ok(n));
                    self.progress.sent += n as u64;
                }
                Next::Wait => return,
                Next::Close => return conn.close(now),
            }
        }
    }
}

impl SimApp for SimSide {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        match self.to {
            Some(to) => {
                let local = SocketAddr::new(address_of(US), OUR_PORT);
                self.conn = Some(tcp.connect(now, local, to, None).unwrap());
            }
            None => {
                let at = SocketAddr::new(address_of(THEM), THEIR_PORT);
                tcp.listen(at, 1, None).unwrap();
            }
        }
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => {
                self.conn = Some(conn);
                self.connected = true;
            }
            EndpointEvent::Conn { event, .. } => {
                self.connected |= event == Event::Connected;
                self.peer_closed |= event == Event::PeerClosed;
            }
        }
        self.act(tcp, now);
    }
}

const US: HostId = HostId(0);
const THEM: HostId = HostId(1);
const OUR_PORT: u16 = 40_000;
const THEIR_PORT: u16 = 7;

/// The peer, which is as patient as the kernel is told to be.
fn like_linux() -> TcpConfig {
    TcpConfig {
        rto: Arc::new(|| presets::floor(PATIENCE)),
        detector: detector::standard().get("rack-notlp").unwrap(),
        ..TcpConfig::default()
    }
}

/// Writes down what we send.
#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

impl Listener<SimPacket> for Sent {
    fn event(&mut self, _: SimTime, event: TapEvent, packet: &SimPacket) {
        if matches!(event, TapEvent::NicSent { host: US, .. }) {
            let mut bytes = Vec::new();
            packet.write(&mut bytes);
            self.0.push(bytes);
        }
    }
}

impl Script {
    fn simulated(&self) -> Vec<Vec<u8>> {
        let clean = LinkSpec::new(Rate::from_gbps(10), SimTime::from_micros(20));
        let losing = |packets: &[u64]| LinkSpec {
            impair: ImpairSpec {
                loss: When::Packets(packets.to_vec()),
                ..ImpairSpec::default()
            },
            ..clean.clone()
        };
        let attachment = Attachment {
            nic: NicSpec::new(Capacity::Unlimited),
            up: losing(&self.lose),
            port: PortSpec::new(Capacity::Unlimited),
            down: losing(&self.lose_theirs),
        };
        let mut spec = Star::uniform(2, &attachment);
        (spec.hosts[1].up, spec.hosts[1].down) = (clean.clone(), clean);
        let side = |to| SimSide {
            progress: Progress::new(&self.rounds),
            to,
            conn: None,
            connected: false,
            peer_closed: false,
        };
        let them = SocketAddr::new(address_of(THEM), THEIR_PORT);
        let host = |id, tcp, to| TcpHost::new(id, Arc::new(tcp), side(to), 1, true).unwrap();
        let hosts = vec![
            host(US, self.tcp.clone(), Some(them)),
            host(THEM, like_linux(), None),
        ];
        let network = spec.graph().unwrap().build(1, TieOrder::default());
        let mut world = World::with_tap(network.unwrap(), hosts, Sent::default());
        world.start_at(THEM, SimTime::ZERO);
        world.start_at(US, SimTime::ZERO);
        assert_eq!(world.run_until(SimTime::from_secs(1000)), Halt::Idle);
        std::mem::take(&mut world.tap_mut().0)
    }
}

// ---- Over TAP

/// Writes down what we send, gives what arrives one frame at a time, and tells how many bytes of ours
/// are acknowledged.
struct Recorded<D> {
    device: D,
    sent: Vec<Vec<u8>>,
    acked: mpsc::Sender<u64>,
}

impl<D: Device> Device for Recorded<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        let (sent, acked) = (&self.sent, &self.acked);
        self.device.receive(now, budget.min(1), &mut |frame| {
            if let Some(bytes) = acknowledged(sent, frame.bytes) {
                // The kernel's program no longer listens once it has all.
                let _ = acked.send(bytes);
            }
            sink(frame);
        })
    }
    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        self.device.transmit(now, frame)?;
        if bytes[12..14] == [8, 0] {
            self.sent.push(bytes.split_off(14));
        }
        Ok(())
    }
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.device.flush(now)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

/// How many bytes of ours, the first of whose packets is in `sent`, a frame from the peer acknowledges.
fn acknowledged(sent: &[Vec<u8>], frame: &[u8]) -> Option<u64> {
    let packet = |bytes| Packet::parse(bytes, ChecksumPolicy::Verify).ok();
    let (theirs, syn) = (packet(&frame[14..])?, packet(sent.first()?)?);
    Some(theirs.tcp.ack.since(syn.tcp.seq + 1).into())
}

/// Our side.
struct LiveSide {
    progress: Progress,
    received: u64,
    conn: Option<ConnId>,
    connected: bool,
    over: bool,
}

impl LiveSide {
    fn act(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) {
        let id = self.conn.unwrap();
        let conn = tcp.endpoint_mut().connection_mut(id).unwrap();
        let view = conn.recv_buffer().peek(conn.readable_end());
        let mut n = 0;
        for part in view.slices() {
            assert_eq!(check_pattern(self.received, part), None);
            self.received += part.len() as u64;
            n += part.len();
        }
        conn.consume(n as u64, now);
        self.progress.got += n;
        while self.connected {
            match self.progress.ours() {
                Next::Send(n) => {
                    let mut bytes = vec![0; n];
                    fill_pattern(self.progress.sent, &mut bytes);
                    assert_eq!(conn.send(&bytes, n), Ok(n));
                    self.progress.sent += n as u64;
                }
                Next::Wait => break,
                Next::Close => {
                    conn.close(now);
                    break;
                }
            }
        }
        self.over = matches!(conn.state(), State::TimeWait | State::Closed(_));
    }
}

impl Application<LiveTcp> for LiveSide {
    fn start(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) -> io::Result<()> {
        let local = SocketAddr::new(address_of(US), OUR_PORT);
        let them = SocketAddr::new(address_of(THEM), THEIR_PORT);
        let conn = tcp.connect(now, Some(local), them, None);
        self.conn = Some(conn.map_err(io::Error::other)?);
        Ok(())
    }

    fn event(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, event: EndpointEvent) {
        if let EndpointEvent::Conn { event, .. } = event {
            self.connected |= event == Event::Connected;
        }
        self.act(tcp, now);
    }

    fn is_done(&self) -> bool {
        self.over
    }
}

impl Script {
    fn live(&self) -> Vec<Vec<u8>> {
        for (name, value) in [
            // Nothing but the connection's packets.
            ("net/ipv6/conf/all/disable_ipv6", "1"),
            ("net/ipv4/tcp_congestion_control", "reno"),
            ("net/ipv4/tcp_autocorking", "0"),
            // No loss probes.
            ("net/ipv4/tcp_early_retrans", "0"),
        ] {
            netns::sysctl(name, value);
        }
        // Not every kernel has these: the timeout, an ACK for all that was kept while a program was
        // at work on the connection, and SACKs that wait for others.
        let patience = (PATIENCE.as_nanos() / 1000).to_string();
        for (name, value) in [
            ("tcp_rto_min_us", patience.as_str()),
            ("tcp_backlog_ack_defer", "0"),
            ("tcp_comp_sack_nr", "0"),
        ] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
        }
        let config = TapConfig {
            offload: false,
            mtu: Some(1500),
            ..TapConfig::default()
        };
        let tap = Tap::open("nw%d", &config).unwrap();
        netns::add_address(tap.name(), address_of(THEM), 24);
        let losing = |packets: &[u64]| Faults {
            script: packets.iter().map(|n| (n - 1, Fault::Drop)).collect(),
            // ARP is spared.
            min_len: 50,
            ..Faults::default()
        };
        let (acked, arrived) = mpsc::channel();
        let device = Recorded {
            device: Faulty::new(tap, 1, losing(&self.lose), losing(&self.lose_theirs)),
            sent: Vec::new(),
            acked,
        };
        let network = format!("{}/24", address_of(US)).parse().unwrap();
        let interface = InterfaceConfig::new(MacAddr([2, 0, 0, 0, 0, 1]), vec![network]);
        let endpoint = EndpointConfig::new(Arc::new(self.tcp.clone()), secret().unwrap());
        let interface = Interface::new(interface, endpoint, device.capabilities()).unwrap();
        let listener = TcpListener::bind((address_of(THEM), THEIR_PORT)).unwrap();
        let rounds = self.rounds.clone();
        let kernel = std::thread::spawn(move || kernel(&listener, &rounds, &arrived));
        let app = LiveSide {
            progress: Progress::new(&self.rounds),
            received: 0,
            conn: None,
            connected: false,
            over: false,
        };
        let driver = poll::spawn(PollConfig::default(), interface, device, app).unwrap();
        kernel.join().unwrap().unwrap();
        let ended = driver.join();
        ended.outcome.unwrap();
        ended.device.sent
    }
}

/// The kernel's application. It keeps away from the connection while a flight arrives: of what comes
/// while a program is at work on it, the kernel makes one segment of several, and one ACK.
fn kernel(
    listener: &TcpListener,
    rounds: &[(usize, usize)],
    arrived: &mpsc::Receiver<u64>,
) -> io::Result<()> {
    let (mut got, mut sent, mut acked) = (0, 0, None);
    let mut flight = |end: u64| {
        while acked < Some(end) {
            let more = arrived.recv().map_err(io::Error::other)?;
            acked = acked.max(Some(more));
        }
        io::Result::Ok(())
    };
    flight((rounds[0].0 * MSS) as u64)?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    for &(up, down) in rounds {
        flight(got + (up * MSS) as u64)?;
        let mut bytes = vec![0; up * MSS];
        stream.read_exact(&mut bytes)?;
        assert_eq!(check_pattern(got, &bytes), None);
        got += bytes.len() as u64;
        let mut bytes = vec![0; down];
        fill_pattern(sent, &mut bytes);
        stream.write_all(&bytes)?;
        sent += down as u64;
    }
    assert_eq!(stream.read_to_end(&mut Vec::new())?, 0);
    Ok(())
}

// ---- The scripts

/// Detectors without probes of their own, which would come sooner or later as the machine is loaded.
fn detectors() -> Vec<String> {
    let all = detector::standard();
    let mut names: Vec<_> = all.entries().map(|e| e.name().to_owned()).collect();
    names.retain(|name| !all.get(name).unwrap().build().tail_loss_probe());
    names
}

#[test]
fn nothing_lost() {
    let sends = "SYN 1 2 3 4 5 6 7 8 9 10 11 12 13 14+FIN A1";
    Script::new("nothing lost", &[(10, 100), (4, 0)], sends).check();
}

/// Three duplicate ACKs, or as many SACKed segments, and nothing but the hole goes again; unless
/// the sender goes back to it.
#[test]
fn a_hole() {
    for detector in &detectors() {
        let sends = match detector.as_str() {
            "go-back-n" => "SYN 1 2 3 4 5 6 7 8 9 10 3 4 5 6 7 8 9 10 11 12 FIN A1",
            _ => "SYN 1 2 3 4 5 6 7 8 9 10 3 11 12 FIN A1",
        };
        let script = Script::new("a hole", &[(10, 100), (2, 100)], sends);
        script.lose(&[4]).detector(detector).check();
    }
}

/// With SACK both holes are known; without, the second is known by the partial ACK.
#[test]
fn two_holes() {
    let sends = "SYN 1 2 3 4 5 6 7 8 9 10 3 7 FIN A1";
    // RFC 6675 section 4, NextSeg rule 4: when the first is repaired the highest hole goes again.
    let rescue = "SYN 1 2 3 4 5 6 7 8 9 10 3 7 7 FIN A1";
    for (detector, sends) in [("newreno", sends), ("sack", rescue), ("rack-notlp", sends)] {
        let script = Script::new("two holes", &[(10, 100)], sends);
        script.lose(&[4, 8]).detector(detector).check();
    }
}

#[test]
fn a_lost_retransmission() {
    let sends = "SYN 1 2 3 4 5 6 7 8 9 10 3 3 FIN A1";
    let script = Script::new("a lost retransmission", &[(10, 100)], sends);
    script.lose(&[4, 12]).rto(RTO).check();
}

/// A hole, and the last segment: RFC 6675 section 4, NextSeg rule 4, sends that again when the
/// retransmission of the first has arrived.
#[test]
fn a_hole_and_the_tail() {
    let sends = "SYN 1 2 3 4 5 6 7 8 9 10 3 10 FIN A1";
    let script = Script::new("a hole and the tail", &[(10, 100)], sends);
    script.lose(&[4, 11]).check();
}

/// Nothing but the timeout can find it.
#[test]
fn a_lost_tail() {
    let sends = "SYN 1 2 3 4 5 6 7 8 9 10 9 10 FIN A1";
    let script = Script::new("a lost tail", &[(10, 100)], sends);
    script.lose(&[10, 11]).rto(RTO).check();
}

#[test]
fn a_lost_flight() {
    let sends = "SYN 1 2 3 4 2 3 4 FIN A1";
    let script = Script::new("a lost flight", &[(1, 100), (3, 100)], sends);
    script.lose(&[3, 4, 5]).rto(RTO).check();
}

#[test]
fn a_lost_syn() {
    let sends = "SYN SYN 1 2 3 FIN A1";
    let script = Script::new("a lost SYN", &[(3, 100)], sends);
    script.lose(&[1]).rto(RTO).check();
}

#[test]
fn a_lost_fin() {
    let sends = "SYN 1 2 3 FIN FIN A1";
    let script = Script::new("a lost FIN", &[(3, 100)], sends);
    script.lose(&[5]).rto(RTO).check();
}

/// What we say of holes in what the peer sends.
#[test]
fn a_hole_of_theirs() {
    let sends = "SYN A0 A1 A2 A2,4-4 A2,4-5 A2,4-6 A2,4-7 A2,4-8 A2,4-9 A2,4-10 FIN A10";
    let script = Script::new("a hole of theirs", &[(0, 10 * MSS)], sends);
    script.lose_theirs(&[4]).check();
}

#[test]
fn two_holes_of_theirs() {
    let sends =
        "SYN A0 A1 A2 A2,4-4 A2,4-5 A2,7-7,4-5 A2,7-8,4-5 A2,7-9,4-5 A2,7-10,4-5 A5,7-10 FIN A10";
    let script = Script::new("two holes of theirs", &[(0, 10 * MSS)], sends);
    script.lose_theirs(&[4, 7]).check();
}

#[test]
fn a_hole_of_theirs_without_sack() {
    let sends = "SYN A0 A1 A2 A2 A2 A2 A2 A2 A2 A2 FIN A10";
    let mut script = Script::new("a hole of theirs without SACK", &[(0, 10 * MSS)], sends);
    script.tcp.sack = false;
    script.lose_theirs(&[4]).check();
}
