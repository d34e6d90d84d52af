//! Two hosts of the kernel, each in a network namespace of its own, and between them a path that loses
//! what it is told to and takes two milliseconds each way. Both are listened to.

use super::skip::skip;
use narrows::buffer::BytesView;
use narrows::device::Device;
use narrows::device::packet_socket::{Head, PacketSocket};
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::Clock;
use narrows::interface::{Offload, TxFrame};
use narrows::{ByteCount, Duration, Instant};
use narrows_explain::capture::Frame;
use narrows_explain::link::Link;
use narrows_explain::segment::{Content, Segment, parse};
use narrows_lab::netns::Namespace;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

const ONE_WAY: Duration = Duration::from_millis(2);
const ADDRESSES: [&str; 2] = ["10.79.0.1", "10.79.0.2"];
pub const INTERFACES: [&str; 2] = ["x0", "x1"];

/// A network namespace without a name.
pub struct Space(Namespace);

impl Space {
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.0.run(f).unwrap()
    }

    /// A program and its words.
    pub fn command(&self, line: &str) -> Result<(), String> {
        let mut words = line.split(' ');
        let ran = self.run(|| Command::new(words.next().unwrap()).args(words).output());
        match ran {
            Ok(ran) if ran.status.success() => Ok(()),
            Ok(ran) => Err(format!("{line}: {}", String::from_utf8_lossy(&ran.stderr))),
            Err(e) => Err(format!("{line}: {e}")),
        }
    }

    pub fn sysctl(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/ipv4/{name}");
        self.run(|| std::fs::write(path, value)).unwrap();
    }
}

/// What is on its way, and from which end.
pub struct Passing {
    pub from: usize,
    pub segment: Segment,
    /// Bytes of the IP packet.
    pub len: usize,
}

/// Whether it is lost.
pub type Rule = Box<dyn FnMut(&Passing) -> bool + Send>;

/// A frame, when the kernel had it, and how long it was.
pub type Captured = (Instant, Vec<u8>, usize);

pub struct Path {
    pub spaces: [Space; 2],
    rule: Arc<Mutex<Rule>>,
    /// Nanoseconds.
    hold: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    carrier: Option<JoinHandle<()>>,
}

impl Path {
    /// `None`: the machine cannot, which is said.
    pub fn new() -> Option<Self> {
        match Self::lay() {
            Ok(path) => Some(path),
            Err(why) => {
                skip(&why);
                None
            }
        }
    }

    fn lay() -> Result<Self, String> {
        let space = || match Namespace::new() {
            Ok(made) => Ok(Space(made)),
            Err(e) => Err(format!("make a network namespace: {e}")),
        };
        let spaces = [space()?, space()?];
        let mut taps = Vec::new();
        for (n, space) in spaces.iter().enumerate() {
            let config = TapConfig {
                offload: false,
                ..TapConfig::default()
            };
            let tap = space.run(|| Tap::open(INTERFACES[n], &config));
            taps.push(tap.map_err(|e| e.to_string())?);
            space.sysctl("tcp_no_metrics_save", "1");
            space.command(&format!(
                "ip addr add {}/24 dev {}",
                ADDRESSES[n], INTERFACES[n]
            ))?;
            space.command(&format!("ip link set {} up", INTERFACES[n]))?;
        }
        let rule: Rule = Box::new(|_| false);
        let rule = Arc::new(Mutex::new(rule));
        let hold = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let ends: [Tap; 2] = taps.try_into().map_err(|_| "two".to_owned())?;
        let carrier = {
            let (rule, hold, stop) = (rule.clone(), hold.clone(), stop.clone());
            thread::spawn(move || carry(ends, &rule, &hold, &stop))
        };
        Ok(Self {
            spaces,
            rule,
            hold,
            stop,
            carrier: Some(carrier),
        })
    }

    pub fn set(&self, rule: impl FnMut(&Passing) -> bool + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// The first host has what arrives once in so long only, as from a card that interrupts late.
    pub fn hold(&self, time: Duration) {
        self.hold.store(time.as_nanos(), Ordering::Release);
    }

    /// A connection from the first host to the second, and both ends of it.
    pub fn connect(&self) -> [TcpStream; 2] {
        let listener = self.spaces[1]
            .run(|| TcpListener::bind((ADDRESSES[1], 0)))
            .unwrap();
        let to: SocketAddr = listener.local_addr().unwrap();
        let there = self.spaces[0].run(|| TcpStream::connect(to)).unwrap();
        let (back, _) = listener.accept().unwrap();
        [there, back]
    }

    /// What both hosts' interfaces sent and received while `talk` ran.
    pub fn captured(&self, talk: impl FnOnce()) -> [Vec<Captured>; 2] {
        let stop = AtomicBool::new(false);
        let listeners: Vec<PacketSocket> = self
            .spaces
            .iter()
            .zip(INTERFACES)
            .map(|(space, name)| space.run(|| PacketSocket::open(name, 192)).unwrap())
            .collect();
        thread::scope(|scope| {
            let heard: Vec<_> = listeners
                .into_iter()
                .map(|mut listener| {
                    let stop = &stop;
                    scope.spawn(move || {
                        assert_eq!(listener.head(), Head::Ethernet);
                        let mut all = Vec::new();
                        loop {
                            let last = stop.load(Ordering::Acquire);
                            let wait = Duration::from_millis(5);
                            let poll = listener.poll(wait, |heard| {
                                all.push((heard.at, heard.bytes.to_vec(), heard.original));
                            });
                            if poll.unwrap() == 0 && last {
                                assert_eq!(listener.drops().unwrap(), 0);
                                return all;
                            }
                        }
                    })
                })
                .collect();
            talk();
            thread::sleep(std::time::Duration::from_millis(30));
            stop.store(true, Ordering::Release);
            let both: Vec<_> = heard.into_iter().map(|h| h.join().unwrap()).collect();
            both.try_into().unwrap()
        })
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(carrier) = self.carrier.take() {
            let _ = carrier.join();
        }
    }
}

/// Carries frames between the ends until `stop` is set.
fn carry(mut ends: [Tap; 2], rule: &Mutex<Rule>, hold: &AtomicU64, stop: &AtomicBool) {
    let mut under_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)> = BTreeMap::new();
    let mut count = 0;
    while !stop.load(Ordering::Acquire) {
        while let Some(next) = under_way.first_entry() {
            let now = Clock.now();
            if next.key().0 > now {
                break;
            }
            let (to, frame) = next.remove();
            let frame = TxFrame {
                head: &frame,
                body: BytesView::default(),
                offload: Offload::NONE,
            };
            ends[to].transmit(now, &frame).expect("a TAP takes all");
        }
        let mut idle = true;
        for (from, end) in ends.iter_mut().enumerate() {
            let mut frames = Vec::new();
            let now = Clock.now();
            let taken = end.receive(now, 64, &mut |frame| frames.push(frame.bytes.to_vec()));
            taken.unwrap();
            for frame in frames {
                idle = false;
                if !is_lost(from, &frame, rule) {
                    count += 1;
                    let mut due = now + ONE_WAY;
                    let held = hold.load(Ordering::Acquire);
                    if held > 0 && from == 1 {
                        due = Instant::from_nanos(due.as_nanos().next_multiple_of(held));
                    }
                    under_way.insert((due, count), (1 - from, frame));
                }
            }
        }
        if idle {
            thread::sleep(std::time::Duration::from_micros(100));
        }
    }
}

fn is_lost(from: usize, frame: &[u8], rule: &Mutex<Rule>) -> bool {
    let Some((packet, _)) = Link::Ethernet.network(frame) else {
        return false;
    };
    let len = packet.len();
    match parse(packet, len) {
        Content::Tcp(segment) => {
            let passing = Passing { from, segment, len };
            (rule.lock().unwrap())(&passing)
        }
        _ => false,
    }
}

/// The frames as a reader of captures hands them over.
pub fn frames(all: &[Captured]) -> impl Iterator<Item = Frame<'_>> {
    (1..).zip(all).map(|(number, (at, bytes, original))| Frame {
        number,
        at: *at,
        interface: 0,
        link: Link::Ethernet,
        bytes,
        original: ByteCount::new(*original as u64),
    })
}
