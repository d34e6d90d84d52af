//! What it means that a segment is the [`Emitted::Last`]: who asks once more is told the same, and
//! finds nothing changed.

use super::{Emitted, Output};
use crate::buffer::{RecvRing, SendRing};
use crate::config::{AckPolicy, InitialWindow, PacingMode, TcpConfig};
use crate::conn::{Boxed, Connection, Opening};
use crate::wire::{Ecn, Flags, SackBlock, Seq, TcpHeader};
use narrows_congestion::{Duration, Instant};
use proptest::prelude::*;
use std::sync::Arc;

type Conn = Connection<Boxed<SendRing, RecvRing>>;

const MSS: usize = 1_000;
const SHIFT: u8 = 4;
const ISS: Seq = Seq(u32::MAX - 5_000);
const PEER_ISS: Seq = Seq(77);

/// What happens to a connection.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The user writes so many bytes.
    Write(usize),
    /// The same, and says that more comes.
    WriteMore(usize),
    /// The peer acknowledges so many percent of what is in flight, and offers so many bytes.
    Ack(u64, usize),
    /// The peer has what is behind so many percent of what is in flight.
    Sack(u64),
    /// So many bytes come.
    Data(usize),
    /// So many bytes come that are behind a byte which does not.
    Hole(usize),
    /// So long nothing comes.
    Wait(Duration),
}
use Step::{Ack, Data, Hole, Sack, Wait, Write, WriteMore};

/// Two connections to which the same happens. After the last segment one is told that it has left,
/// and the other is asked for more.
struct Twins {
    told: Conn,
    asked: Conn,
    now: Instant,
    received: u32,
    window: usize,
    /// Payload of segments that were the last.
    last: Vec<u64>,
}

/// All of the sender, and when it is to be asked again.
fn state(conn: &Conn) -> String {
    let (at, pace) = (conn.poll_timeout(), conn.pace_at());
    format!("{at:?} {pace:?} {:#?}", conn.snd)
}

impl Twins {
    fn new(config: TcpConfig) -> Self {
        let config = Arc::new(TcpConfig {
            mss: MSS as u16,
            timestamps: crate::config::TimestampMode::Off,
            ..config
        });
        let now = Instant::ZERO + Duration::from_secs(1);
        let open = || {
            let opening = Opening {
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: "10.0.0.2:80".parse().unwrap(),
                iss: ISS,
                timestamp_offset: 0,
                seed: 1,
                metrics: Default::default(),
            };
            let mut conn = Conn::connect(config.clone(), opening, now);
            assert!(conn.output(now, &mut Output::default()).is_some());
            conn
        };
        let mut twins = Self {
            told: open(),
            asked: open(),
            now: now + Duration::from_millis(10),
            received: 0,
            window: 60_000,
            last: Vec::new(),
        };
        let mut syn_ack = twins.header();
        syn_ack.seq = PEER_ISS;
        syn_ack.flags = Flags::SYN | Flags::ACK;
        syn_ack.options.mss = Some(1_460);
        syn_ack.options.sack_permitted = true;
        syn_ack.options.window_scale = Some(SHIFT);
        syn_ack.window = 60_000;
        twins.arrives(&syn_ack, &[]);
        twins.take(Ack(0, 60_000));
        twins
    }

    fn header(&self) -> TcpHeader {
        TcpHeader {
            src_port: 80,
            dst_port: 40_000,
            seq: PEER_ISS + 1 + self.received,
            ack: self.told.seq(self.told.snd.una().max(1)),
            flags: Flags::ACK,
            window: (self.window >> SHIFT) as u16,
            ..TcpHeader::default()
        }
    }

    fn both(&mut self) -> [&mut Conn; 2] {
        [&mut self.told, &mut self.asked]
    }

    fn arrives(&mut self, tcp: &TcpHeader, payload: &[u8]) {
        let now = self.now;
        for conn in self.both() {
            conn.handle_segment(now, Ecn::NotEct, tcp, payload);
            let readable = conn.readable();
            conn.consume(readable, now);
        }
        self.pump();
    }

    /// What leaves as one of the steps happens.
    fn take(&mut self, step: Step) {
        match step {
            Write(len) | WriteMore(len) => {
                for conn in self.both() {
                    let data = vec![7; len];
                    let sent = match step {
                        WriteMore(_) => conn.send_more(&data, len),
                        _ => conn.send(&data, len),
                    };
                    assert!(sent.is_ok());
                }
                self.pump();
            }
            Ack(percent, window) => {
                self.window = window;
                let flight = self.told.snd.nxt() - self.told.snd.una();
                let mut tcp = self.header();
                tcp.ack += (flight * percent / 100) as u32;
                self.arrives(&tcp, &[]);
            }
            Sack(percent) => {
                let flight = self.told.snd.nxt() - self.told.snd.una();
                let mut tcp = self.header();
                let start = tcp.ack + (flight * percent / 100) as u32;
                let end = tcp.ack + flight as u32;
                if start != end {
                    assert!(tcp.options.sack.push(SackBlock { start, end }));
                }
                self.arrives(&tcp, &[]);
            }
            Data(len) => {
                let tcp = self.header();
                self.received += len as u32;
                self.arrives(&tcp, &vec![3; len]);
            }
            Hole(len) => {
                let mut tcp = self.header();
                tcp.seq += 1;
                self.arrives(&tcp, &vec![3; len]);
            }
            Wait(time) => {
                let end = self.now + time;
                while let Some(at) = self.told.poll_timeout().filter(|at| *at <= end) {
                    self.now = self.now.max(at);
                    let now = self.now;
                    for conn in self.both() {
                        conn.handle_timeout(now);
                    }
                    self.pump();
                }
                self.now = end;
            }
        }
    }

    fn pump(&mut self) {
        let now = self.now;
        loop {
            let [mut a, mut b] = [Output::default(), Output::default()];
            let made = self.told.output(now, &mut a);
            assert_eq!(made, self.asked.output(now, &mut b));
            assert_eq!((&a.plain, &a.payload), (&b.plain, &b.payload));
            if made == Some(Emitted::Last) {
                self.last.push(a.payload_len());
                self.told.on_last_sent(now);
                let before = state(&self.told);
                for conn in self.both() {
                    assert_eq!(conn.output(now, &mut Output::default()), None);
                }
                same(&before, &state(&self.told));
            }
            same(&state(&self.told), &state(&self.asked));
            if made != Some(Emitted::MoreMayFollow) {
                return;
            }
        }
    }
}

/// Equal, or the lines in which they differ.
#[track_caller]
fn same(a: &str, b: &str) {
    let differ: Vec<_> = a.lines().zip(b.lines()).filter(|(a, b)| a != b).collect();
    assert!(a == b, "{differ:?}");
}

fn config() -> TcpConfig {
    TcpConfig {
        nagle: false,
        initial_window: InitialWindow::Segments(4),
        ack: AckPolicy::IMMEDIATE,
        ..TcpConfig::default()
    }
}

fn paced(config: TcpConfig) -> TcpConfig {
    TcpConfig {
        pacing: PacingMode::On {
            slow_start_gain: 200,
            avoidance_gain: 120,
        },
        ..config
    }
}

/// Payload of segments that were the last, while this happens.
fn last(config: TcpConfig, steps: &[Step]) -> Vec<u64> {
    let mut twins = Twins::new(config);
    twins.last.clear();
    for step in steps {
        twins.take(*step);
    }
    twins.last
}

#[test]
fn nothing_follows_the_last() {
    let long = Wait(Duration::from_secs(5));
    // All that is queued, short or full, of one who is idle or not.
    assert_eq!(last(config(), &[Write(10)]), [10]);
    assert_eq!(last(config(), &[Write(MSS), Write(10)]), [1_000, 10]);
    assert_eq!(last(config(), &[Write(2_010)]), [10]);
    assert_eq!(
        last(config(), &[Write(10), Ack(100, 60_000), long, Write(10)]),
        [10, 10]
    );
    // The congestion window's, and the peer's.
    assert_eq!(last(config(), &[Write(9_000)]), [1_000]);
    assert_eq!(last(config(), &[Ack(0, 2_000), Write(9_000)]), [1_000]);
    // What the peer's window cuts short does not leave at all.
    assert_eq!(last(config(), &[Ack(0, 512), Write(2_600)]), [0; 0]);
    // Held back, and then not.
    assert_eq!(last(config(), &[WriteMore(10)]), [0; 0]);
    assert_eq!(last(config(), &[WriteMore(1_010)]), [0; 0]);
    assert_eq!(last(config(), &[WriteMore(10), Write(10)]), [20]);
    // What is lost, after a timeout, and while what is behind it arrives: it is not said of that.
    let twice = [Write(9_000), Wait(Duration::from_millis(300))];
    assert_eq!(last(config(), &twice), [1_000]);
    assert_eq!(last(config(), &[Write(9_000), Sack(25)]), [1_000]);
    // An acknowledgement.
    assert_eq!(last(config(), &[Data(10)]), [0]);
    // One with SACK blocks, while data is outstanding, too.
    assert_eq!(last(config(), &[Write(10), Hole(10), Hole(20)]), [10, 0, 0]);
    // The first of a pace, behind which the pace is asked for.
    assert_eq!(last(paced(config()), &[Write(10)]), [10]);
    let one = TcpConfig {
        initial_window: InitialWindow::Segments(1),
        ..config()
    };
    assert_eq!(last(one.clone(), &[Write(5_000)]), [1_000]);
    assert_eq!(last(paced(one), &[Write(5_000)]), [0; 0]);
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..3 * MSS).prop_map(Write),
        1 => (1..3 * MSS).prop_map(WriteMore),
        1 => (3 * MSS..20 * MSS).prop_map(Write),
        3 => (0..=100_u64, 0..40_000_usize).prop_map(|(part, window)| Ack(part, window)),
        2 => Just(Ack(100, 60_000)),
        2 => (1..100_u64).prop_map(Sack),
        1 => (1..MSS).prop_map(Data),
        1 => (1..MSS).prop_map(Hole),
        2 => (0..2_000_u64).prop_map(|n| Wait(Duration::from_millis(n))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn nothing_follows_the_last_whatever_happened(
        nagle: bool, pace: bool, cork: bool, window in 1..6_u32,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let config = TcpConfig {
            nagle,
            cork,
            initial_window: InitialWindow::Segments(window),
            ..config()
        };
        last(if pace { paced(config) } else { config }, &steps);
    }
}
