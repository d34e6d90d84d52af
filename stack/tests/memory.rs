//! The memory of an endpoint under hostile peers. The oracle is the allocator of this program: it
//! counts every byte, and knows nothing of what the stack says.
#![allow(unsafe_code)] // An allocator is.

use crate::hosts::*;
use narrows::ByteCount;
use narrows::buffer::{SyntheticRecv, SyntheticSend};
use narrows::config::{Buffers, Lifetimes, TcpConfig, TimestampMode};
use narrows::congestion::{
    AckSample, CongestionControl, CongestionEvent, FlowStart, FlowView, Needs,
};
use narrows::conn::reassembly::{Inserted, Reassembly};
use narrows::conn::state::State;
use narrows::conn::{Boxed, Connection, Opening};
use narrows::endpoint::metrics::PathMetrics;
use narrows::endpoint::{ConnId, ConnectError, EndpointConfig, EndpointEvent, SynCookies};
use narrows::memory::{FLOOR, MemoryLimit};
use narrows::rng::Rng;
use narrows::wire::{Flags, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;

struct Counting;

thread_local! {
    // Of this thread alone: what runs the tests allocates beside them, in one of its own, and hands
    // some over. So it does not begin with zero.
    static HELD: Cell<usize> = const { Cell::new(1 << 40) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn took(bytes: usize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

// SAFETY: every call is that of `System` with the same arguments, and gives what it gives.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size());
        // SAFETY: as above; the block is from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const MSS: usize = 1_460;
const SHIFT: u8 = 5;

fn tcp() -> TcpConfig {
    TcpConfig {
        timestamps: TimestampMode::Off,
        buffers: Buffers {
            send: MIB,
            recv: MIB,
            ..Buffers::default()
        },
        lifetimes: Lifetimes {
            // The others, which are not heard of again, must not end in the midst of a test.
            data_retry_time: Duration::from_secs(1 << 20),
            ..Lifetimes::default()
        },
        ..TcpConfig::default()
    }
}

/// What one connection of a peer knows; the peer itself obeys no rule but the wire's.
struct Peer {
    port: u16,
    id: Option<ConnId>,
    snd_nxt: u32,
    rcv_nxt: u32,
    /// Right edge of what it is offered.
    edge: u32,
}

impl Peer {
    fn window(&self) -> usize {
        self.edge.wrapping_sub(self.snd_nxt).min(i32::MAX as u32) as usize
    }
}

/// A server, and peers made by hand.
struct Siege {
    now: Instant,
    host: Host,
    peers: Vec<Peer>,
    before: usize,
}

impl Siege {
    fn new(limit: usize, syn_cookies: SynCookies) -> Self {
        Self::with(limit, syn_cookies, tcp())
    }

    fn with(limit: usize, syn_cookies: SynCookies, tcp: TcpConfig) -> Self {
        let before = HELD.get();
        PEAK.set(before);
        let mut host = Host::new(EndpointConfig {
            memory: Some(MemoryLimit::new(ByteCount::new(limit as u64))),
            syn_cookies,
            ..config(tcp, 7)
        })
        .unwrap();
        host.listen(addr(S), 1 << 16, None).unwrap();
        Self {
            now: start(),
            host,
            peers: Vec::new(),
            before,
        }
    }

    fn held(&self) -> usize {
        HELD.get().saturating_sub(self.before)
    }

    fn peak(&self) -> usize {
        PEAK.get().saturating_sub(self.before)
    }

    /// What the test itself and the endpoint's tables may take beside the limit: places for
    /// connections are made ahead, twice as many as there ever were at most.
    fn beside(&self) -> usize {
        3 * MIB + self.peers.len() * 4 * KIB
    }

    fn hear(&mut self) {
        while let Some((ip, tcp, payload)) = self.host.poll_transmit(self.now) {
            let len = payload.len() as u32;
            let _ = ip;
            let Some(peer) = self.peers.iter_mut().find(|p| p.port == tcp.dst_port) else {
                continue;
            };
            let end = tcp.seq + len;
            if tcp.flags.contains(SYN) {
                peer.rcv_nxt = tcp.seq.0.wrapping_add(1);
            } else if end.after(Seq(peer.rcv_nxt)) {
                peer.rcv_nxt = end.0;
            }
            let shift = if tcp.flags.contains(SYN) { 0 } else { SHIFT };
            peer.edge = tcp.ack.0.wrapping_add(u32::from(tcp.window) << shift);
        }
        let ids: Vec<ConnId> = events(&mut self.host)
            .into_iter()
            .filter_map(|e| match e {
                EndpointEvent::Accepted { conn, .. } => Some(conn),
                EndpointEvent::Conn { .. } => None,
            })
            .collect();
        for id in ids {
            let port = self.host.connection(id).unwrap().remote().port();
            let peer = self.peers.iter_mut().find(|p| p.port == port);
            peer.unwrap().id = Some(id);
        }
    }

    /// A segment of that peer; what is acknowledged is `ack`.
    fn say(&mut self, peer: usize, flags: Flags, seq: u32, ack: u32, text: &[u8]) {
        let port = self.peers[peer].port;
        let (ip, mut tcp, _) = packet(&format!("10.0.0.1:{port}"), S, flags, seq, ack);
        if flags.contains(SYN) {
            tcp.options.window_scale = Some(SHIFT);
            tcp.options.mss = Some(MSS as u16);
            tcp.options.sack_permitted = true;
        }
        let tcp: TcpHeader = tcp;
        self.host.handle_packet(self.now, &ip, &tcp, text);
        self.hear();
    }

    /// A handshake: the number of the peer, unless it was refused.
    fn open(&mut self) -> Option<usize> {
        let peer = self.peers.len();
        self.peers.push(Peer {
            port: 1_024 + peer as u16,
            id: None,
            snd_nxt: 1_001,
            rcv_nxt: 0,
            edge: 1_001,
        });
        self.say(peer, SYN, 1_000, 0, &[]);
        if self.peers[peer].rcv_nxt == 0 {
            self.peers.pop();
            return None;
        }
        let nxt = self.peers[peer].rcv_nxt;
        self.say(peer, ACK, 1_001, nxt, &[]);
        Some(peer)
    }

    /// The peer sends all that it is offered, in order, a segment's worth at a time.
    fn fill(&mut self, peer: usize, most: usize) -> usize {
        let mut sent = 0;
        while sent < most {
            let p = &self.peers[peer];
            let len = p.window().min(MSS).min(most - sent);
            if len == 0 {
                break;
            }
            let (seq, ack) = (p.snd_nxt, p.rcv_nxt);
            self.peers[peer].snd_nxt = seq.wrapping_add(len as u32);
            self.say(peer, ACK, seq, ack, &[b'x'; MSS][..len]);
            sent += len;
        }
        sent
    }

    fn wait(&mut self, d: Duration) {
        let end = self.now + d;
        while let Some(at) = self.host.poll_timeout().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.host.handle_timeout(self.now);
            self.hear();
        }
        self.now = end;
    }
}

/// Peers that send all they are offered and are never read: windows are refused first, then
/// connections, and not a byte beyond the limit is held. When the users read, all is as before.
#[test]
fn windows_are_refused_first_and_connections_then() {
    const LIMIT: usize = 8 * MIB;
    let mut siege = Siege::new(LIMIT, SynCookies::WhenFull);
    let (mut small_window_at, mut refused_at) = (None, None);
    for n in 0..4_000 {
        let Some(peer) = siege.open() else {
            refused_at = Some(n);
            break;
        };
        siege.fill(peer, 4 * MIB);
        let at_first = siege.peers[peer].snd_nxt - 1_001;
        if at_first <= 65_535 / 2 {
            small_window_at.get_or_insert(n);
        }
        let held = siege.held();
        assert!(held <= LIMIT + siege.beside(), "{held} after {n}");
    }
    let (small, refused) = (small_window_at.unwrap(), refused_at.unwrap());
    let stats = siege.host.memory_stats();
    assert!(
        small < refused,
        "windows {small}, connections {refused}, {stats:?}"
    );
    // At least as many as there are bytes for when each has its least.
    assert!(refused >= LIMIT / 4 / (24 * KIB), "{refused}, {stats:?}");
    assert!(stats.peak.as_usize() <= LIMIT, "{stats:?}");
    assert!(stats.connections_refused > 0, "{stats:?}");
    let peak = siege.peak();
    assert!(peak <= LIMIT + siege.beside(), "{peak}");
    let open = siege
        .host
        .connect(siege.now, addr("10.0.0.2:0"), addr("10.0.0.9:1"), None);
    assert_eq!(open, Err(ConnectError::NoMemory));

    // Each connection still goes on: read, and the peer may send.
    for peer in [0, small, refused - 1] {
        let id = siege.peers[peer].id.unwrap();
        let got = read(&mut siege.host, id, siege.now).len();
        assert!(got > 0);
        siege.hear();
        // Whatever it was offered last, a probe tells the peer of the window.
        let p = &siege.peers[peer];
        let (seq, ack) = (p.snd_nxt, p.rcv_nxt);
        siege.say(peer, ACK, seq.wrapping_sub(1), ack, b"x");
        assert!(siege.peers[peer].window() >= FLOOR.as_usize() / 2, "{peer}");
        assert!(siege.fill(peer, 8 * KIB) > 0, "{peer}");
    }

    // Everything is read: memory comes back, and there is room for more.
    for n in 0..siege.peers.len() {
        let id = siege.peers[n].id.unwrap();
        let _ = read(&mut siege.host, id, siege.now);
    }
    siege.hear();
    siege.wait(SEC * 5);
    assert!(
        siege.held() <= siege.beside() + LIMIT / 4,
        "{}",
        siege.held()
    );
    let peer = siege.open().expect("there is room again");
    assert!(siege.fill(peer, 256 * KIB) == 256 * KIB);

    // The connections end, and nothing is left but their places.
    siege.host.abort_all(siege.now);
    siege.hear();
    let left = siege.held();
    assert!(left <= siege.beside(), "{left}");
    assert_eq!(siege.host.memory_stats().used, ByteCount::ZERO);
}

/// A byte at the far end of the window would make the whole window be held. It is taken while
/// there is memory to spare, and never takes what others need.
#[test]
fn bytes_at_the_far_end_of_the_window_take_what_is_to_spare() {
    const LIMIT: usize = 8 * MIB;
    let mut siege = Siege::new(LIMIT, SynCookies::WhenFull);
    for _ in 0..100 {
        let Some(peer) = siege.open() else { break };
        // In order first, so that the window opens.
        siege.fill(peer, MSS);
        let p = &siege.peers[peer];
        let (far, ack) = (p.edge.wrapping_sub(1), p.rcv_nxt);
        siege.say(peer, ACK, far, ack, b"x");
        let held = siege.held();
        assert!(held <= LIMIT + siege.beside(), "{held} after {peer}");
    }
    assert_eq!(siege.peers.len(), 100, "{:?}", siege.host.memory_stats());
    let stats = siege.host.memory_stats();
    assert!(stats.text_dropped > 0, "{stats:?}");
    assert!(
        stats.used <= stats.limit.unwrap().pressure() + ByteCount::from(2 * MIB as u32),
        "{stats:?}"
    );
    // All of them still get through what they send in order.
    for peer in 0..100 {
        assert!(siege.fill(peer, 2 * KIB) > 0, "{peer}");
    }
}

/// Responses that nobody acknowledges: the users write as much as there is memory for, all the
/// memory comes back when the connections are gone, and one that acknowledges gets all of its.
#[test]
fn unread_responses_take_what_there_is_and_give_it_back() {
    // A quarter of it is for connections.
    const LIMIT: usize = 128 * MIB;
    const PEERS: usize = 2_000;
    let response = vec![b'r'; MIB];
    let mut siege = Siege::new(LIMIT, SynCookies::WhenFull);
    let mut queued = 0;
    for _ in 0..PEERS {
        let peer = siege
            .open()
            .expect("a response never keeps a connection out");
        let id = siege.peers[peer].id.unwrap();
        let taken = write(&mut siege.host, id, &response);
        assert!(taken >= FLOOR.as_usize(), "{taken} of {peer}");
        queued += taken;
        siege.hear();
        let held = siege.held();
        assert!(held <= LIMIT + MIB + siege.beside(), "{held} after {peer}");
    }
    assert!(queued >= LIMIT / 4, "{queued}");
    let stats = siege.host.memory_stats();
    assert!(
        stats.writes_refused > 0 && stats.peak.as_usize() <= LIMIT,
        "{stats:?}"
    );

    // One reads after all, at the pace of the memory it has.
    let id = siege.peers[PEERS - 1].id.unwrap();
    let mut done = response.len() - siege.host.connection(id).unwrap().unacknowledged() as usize;
    let mut rounds = 0;
    while done < response.len() && rounds < 2_000 {
        rounds += 1;
        let p = &siege.peers[PEERS - 1];
        let (seq, ack) = (p.snd_nxt, p.rcv_nxt);
        siege.say(PEERS - 1, ACK, seq, ack, &[]);
        let conn = siege.host.connection_mut(id).unwrap();
        let unsent = response.len() - done;
        done += conn.send(&response[..unsent], unsent).unwrap();
        siege.hear();
    }
    assert_eq!(done, response.len(), "{:?}", siege.host.memory_stats());

    for n in 0..PEERS {
        let id = siege.peers[n].id.unwrap();
        siege.host.connection_mut(id).unwrap().abort(siege.now);
        siege.host.release(id, siege.now);
    }
    siege.hear();
    assert_eq!(siege.host.connections(), 0);
    let left = siege.held() - response.len();
    assert!(left <= siege.beside(), "{left}");
    assert_eq!(siege.host.memory_stats().used, ByteCount::ZERO);
}

/// Everything leaves at once.
#[derive(Debug)]
struct Open {
    delivery_rate: bool,
}

impl CongestionControl for Open {
    fn name(&self) -> &'static str {
        "open"
    }
    fn cwnd(&self) -> ByteCount {
        ByteCount::from(MIB as u32)
    }
    fn ssthresh(&self) -> ByteCount {
        ByteCount::ZERO
    }
    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.delivery_rate = self.delivery_rate;
        needs
    }
    fn on_ack(&mut self, _: &AckSample, _: &FlowView<'_>) {}
    fn on_congestion_event(&mut self, _: CongestionEvent, _: &FlowView<'_>) {}
    fn on_rto(&mut self, _: u32, _: &FlowView<'_>) {}
}

/// What a congestion control that wants rates makes a connection keep for each segment outstanding
/// is charged like the segment's record, and goes with it.
#[test]
fn what_is_kept_for_rates_is_charged_and_given_back() {
    const KEPT: usize = 16 * KIB;
    let text = vec![b'r'; MIB];
    // Charged and held with a mebibyte outstanding, and when it is acknowledged.
    let with = |delivery_rate| {
        let tcp = TcpConfig {
            congestion: Arc::new(move |_: &FlowStart| Open { delivery_rate }),
            ..tcp()
        };
        let mut siege = Siege::with(64 * MIB, SynCookies::WhenFull, tcp);
        let peer = siege.open().unwrap();
        let id = siege.peers[peer].id.unwrap();
        let idle = siege.host.memory_stats().used.as_usize();
        assert_eq!(write(&mut siege.host, id, &text), MIB);
        siege.hear();
        let used = siege.host.memory_stats().used.as_usize();
        let outstanding = (idle, used, siege.held());
        while siege.host.connection(id).unwrap().unacknowledged() > 0 {
            let p = &siege.peers[peer];
            let (seq, ack) = (p.snd_nxt, p.rcv_nxt);
            siege.say(peer, ACK, seq, ack, &[]);
        }
        siege.wait(SEC * 5);
        let used = siege.host.memory_stats().used.as_usize();
        (outstanding, used, siege.held())
    };
    let ((plain_idle, plain_used, plain_held), plain_after, plain_rest) = with(false);
    let ((idle, used, held), after, rest) = with(true);
    let kept = held - plain_held;
    assert!(kept >= KEPT, "{kept}");
    assert!(idle > plain_idle);
    assert!(
        used - plain_used >= kept - KIB,
        "{used} {plain_used} {kept}"
    );
    let (rest, after) = (rest - plain_rest, after - plain_after);
    assert!(rest <= KIB, "{rest}");
    assert_eq!(after, idle - plain_idle);
}

/// TIME-WAIT needs neither buffers nor records, and an idle connection holds what is in it.
#[test]
fn time_wait_and_idle_connections_are_small() {
    const BYTES: usize = 900_000;
    let text = vec![b't'; BYTES];
    for limit in [None, Some(64 * MIB)] {
        let memory = limit.map(|l| MemoryLimit::new(ByteCount::new(l as u64)));
        let with = |secret| EndpointConfig {
            memory,
            ..config(TcpConfig::default(), secret)
        };
        let mut net = Net::new(with(1), with(2));
        net.b.listen(addr(S), 64, None).unwrap();
        let before = HELD.get();
        let mut pairs = Vec::new();
        for _ in 0..8 {
            let a = net.connect();
            net.run(SEC);
            let b = *net.accepted().last().unwrap();
            assert_eq!(write(&mut net.a, a, &text), BYTES);
            net.run(SEC * 10);
            assert_eq!(read(&mut net.b, b, net.now), text);
            pairs.push((a, b));
        }
        // Idle, and nothing held.
        net.run(SEC * 3);
        let of_the_net = |net: &mut Net| {
            net.flying.shrink_to_fit();
            (net.a_events, net.b_events) = (Vec::new(), Vec::new());
        };
        of_the_net(&mut net);
        let idle = HELD.get().saturating_sub(before) / pairs.len();
        assert!(idle <= 12 * KIB, "{idle} bytes for an idle pair");
        for &(a, b) in &pairs {
            assert_eq!(write(&mut net.a, a, &text), BYTES);
            net.run(SEC * 3 / 2);
            assert_eq!(read(&mut net.b, b, net.now).len(), BYTES);
            net.a.release(a, net.now);
            net.run(MS * 10);
            net.b.release(b, net.now);
            net.run(MS * 10);
            assert_eq!(net.a.connection(a).unwrap().state(), State::TimeWait);
            assert!(net.b.connection(b).is_none());
        }
        of_the_net(&mut net);
        let waiting = HELD.get().saturating_sub(before) / pairs.len();
        assert!(waiting <= 6 * KIB, "{waiting} bytes for one in TIME-WAIT");
    }
}

/// A connection that goes through a SYN cookie is counted and refused as any other.
#[test]
fn answers_to_cookies_are_refused_without_memory() {
    let mut siege = Siege::new(256 * KIB, SynCookies::Always);
    let mut opened = 0;
    for _ in 0..200 {
        match siege.open() {
            Some(peer) if siege.peers[peer].id.is_some() => opened += 1,
            _ => break,
        }
    }
    let stats = siege.host.memory_stats();
    assert!((5..100).contains(&opened), "{opened}, {stats:?}");
    assert!(
        stats.connections_refused > 0 && stats.peak.as_usize() <= 256 * KIB,
        "{stats:?}"
    );
}

/// Hostile peers and honest ones, in any order: the allocator never counts more than the limit and
/// what stands beside it, and the honest ones get through.
#[test]
fn whatever_peers_and_users_do_the_limit_holds() {
    const LIMIT: usize = 4 * MIB;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut siege = Siege::new(LIMIT, SynCookies::WhenFull);
        let honest = siege.open().unwrap();
        let honest_id = siege.peers[honest].id.unwrap();
        let mut got = 0;
        for step in 0..400 {
            let n = siege.peers.len();
            let peer = 1 + rng.below(n.max(2) as u64 - 1) as usize;
            match rng.below(8) {
                0 | 1 => drop(siege.open()),
                2 if peer < n => drop(siege.fill(peer, 1 << (10 + rng.below(11)))),
                3 if peer < n => {
                    let p = &siege.peers[peer];
                    let at = p.snd_nxt.wrapping_add(rng.below(1 << 20) as u32);
                    let ack = p.rcv_nxt;
                    siege.say(peer, ACK, at, ack, &[b'o'; MSS]);
                }
                4 if peer < n => {
                    let id = siege.peers[peer].id;
                    if let Some(conn) = id.and_then(|id| siege.host.connection_mut(id)) {
                        let bytes = [b'w'; 64 * KIB];
                        let _ = conn.send(&bytes, bytes.len());
                    }
                    siege.hear();
                }
                5 if peer < n => {
                    if let Some(id) = siege.peers[peer].id
                        && siege.host.connection(id).is_some()
                    {
                        let _ = read(&mut siege.host, id, siege.now);
                        siege.hear();
                    }
                }
                6 if peer < n && rng.below(4) == 0 => {
                    if let Some(id) = siege.peers[peer].id
                        && let Some(conn) = siege.host.connection_mut(id)
                    {
                        conn.abort(siege.now);
                        siege.host.release(id, siege.now);
                    }
                    siege.hear();
                }
                _ => siege.wait(MS * rng.below(700)),
            }
            // The honest one sends what it may, and is read.
            got += read(&mut siege.host, honest_id, siege.now).len();
            siege.hear();
            if siege.peers[honest].window() == 0 {
                let p = &siege.peers[honest];
                let (seq, ack) = (p.snd_nxt, p.rcv_nxt);
                siege.say(honest, ACK, seq.wrapping_sub(1), ack, b"x");
            }
            siege.fill(honest, 4 * KIB);
            let (held, stats) = (siege.held(), siege.host.memory_stats());
            assert!(
                held <= LIMIT + siege.beside(),
                "seed {seed}, step {step}: {held}"
            );
            assert!(
                stats.used.as_usize() <= LIMIT,
                "seed {seed}, step {step}: {stats:?}"
            );
        }
        assert!(got >= 400 * KIB, "seed {seed}: {got} of the honest peer");
        let peak = siege.peak();
        assert!(peak <= LIMIT + MIB + siege.beside(), "seed {seed}: {peak}");
    }
}

/// Whatever the order in which they come, and however thinly the removal of others leaves them.
#[test]
fn a_range_out_of_order_takes_no_more_than_is_said() {
    const RANGES: u64 = 65_536;
    let place = |order: u64, n: u64| match order {
        0 => n,
        1 => RANGES - 1 - n,
        _ => n * 40_503 % RANGES,
    };
    for order in 0..3 {
        let before = HELD.get();
        let mut ranges = Reassembly::default();
        let held = |count: u64| {
            let bytes = HELD.get() - before;
            let said = KIB + count as usize * Reassembly::RANGE_MEMORY;
            assert!(bytes <= said, "order {order}: {bytes}, said {said}");
        };
        for n in 0..RANGES {
            let at = 1 + 2 * place(order, n);
            assert_eq!(
                ranges.insert(at..at + 1, 0, RANGES as usize, |_| {}),
                Inserted::OutOfOrder
            );
            held(n + 1);
        }
        assert_eq!(ranges.ranges().count() as u64, RANGES);
        // Gaps close in an order that leaves some everywhere.
        for n in 1..RANGES {
            let at = 2 * ((n * 40_503) % RANGES).max(1);
            let _ = ranges.insert(at..at + 1, 0, RANGES as usize, |_| {});
            held(RANGES - n);
        }
        assert_eq!(ranges.ranges().count(), 1);
    }
}

/// Without text a connection takes no more than its own place and a few small boxes.
#[test]
fn an_idle_connection_takes_no_more_than_a_kilobyte() {
    type Bare = Connection<Boxed<SyntheticSend, SyntheticRecv>>;
    const PAIRS: usize = 100;
    let config = Arc::new(TcpConfig::default());
    let opening = |iss, [local, remote]: [SocketAddr; 2]| Opening {
        local,
        remote,
        iss: Seq(iss),
        timestamp_offset: 0,
        seed: 1,
        metrics: PathMetrics::default(),
    };
    let hear = |from: &mut Bare, to: &mut Bare, now| {
        while let Some((ip, tcp, payload)) = from.poll_transmit(now) {
            to.handle_segment(now, ip.ecn, &tcp, payload);
        }
    };
    let before = HELD.get();
    let mut all = Vec::with_capacity(2 * PAIRS);
    let now = start();
    for _ in 0..PAIRS {
        let ends = [addr(C), addr(S)];
        let mut a = Bare::connect(config.clone(), opening(1, ends), now);
        let (_, syn, _) = a.poll_transmit(now).unwrap();
        let [client, server] = ends;
        let mut b = Bare::accept(config.clone(), opening(2, [server, client]), &syn, now);
        hear(&mut b, &mut a, now);
        hear(&mut a, &mut b, now);
        assert_eq!(
            (a.state(), b.state()),
            (State::Established, State::Established)
        );
        all.extend([a, b]);
    }
    let each = (HELD.get() - before) / all.len();
    assert!(
        each <= 1_000,
        "{each} bytes a connection, {} of it its own",
        size_of::<Bare>()
    );
}
