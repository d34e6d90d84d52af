//! Causes, each injected in its own way.

use super::path::{Captured, INTERFACES, Passing, Path};
use super::pause;
use narrows::wire::Flags;
use narrows_explain::Cause;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// A cause that is injected.
pub struct Scene {
    pub name: &'static str,
    /// What it may be called.
    pub causes: &'static [Cause],
    /// How long the gap is at least.
    pub least: narrows::Duration,
    /// Captures of both ends prove it.
    pub certain: bool,
    act: fn(&Path) -> Result<[Vec<Captured>; 2], String>,
}

impl Scene {
    pub fn play(&self, path: &Path) -> Result<[Vec<Captured>; 2], String> {
        let [sender, receiver] = &path.spaces;
        for space in [sender, receiver] {
            space.sysctl("tcp_early_retrans", "0");
            space.sysctl("tcp_mtu_probing", "0");
        }
        let played = (self.act)(path);
        path.set(|_| false);
        played
    }
}

pub fn all() -> Vec<Scene> {
    use Cause::{
        AppWroteNothing, BlackHole, Coalescing, DelayedAck, LocalDrop, NagleDelayedAck,
        PacketDelay, PacketWindow, SynRetried, TailLossProbe, TimeoutRetransmissionLost,
        TimeoutTail, TimeoutWholeWindow, WindowClosed, WindowUpdateLate,
    };
    let scene = |name, causes, least, certain, act| Scene {
        name,
        causes,
        least: narrows::Duration::from_millis(least),
        certain,
        act,
    };
    vec![
        scene(
            "a lost tail",
            &[TimeoutTail][..],
            200,
            false,
            tail as fn(&Path) -> _,
        ),
        scene("a lost tail and a probe", &[TailLossProbe], 8, false, probe),
        scene(
            "a whole window lost",
            &[TimeoutWholeWindow],
            200,
            true,
            whole,
        ),
        scene(
            "a retransmission lost",
            &[TimeoutRetransmissionLost],
            200,
            true,
            again,
        ),
        scene(
            "Nagle and a delayed ACK",
            &[NagleDelayedAck],
            40,
            false,
            nagle,
        ),
        scene(
            "a window of one segment and a delayed ACK",
            &[DelayedAck],
            40,
            false,
            delayed,
        ),
        scene(
            "a reader that pauses",
            &[WindowClosed, WindowUpdateLate],
            200,
            false,
            closed,
        ),
        scene("a lost SYN", &[SynRetried], 900, true, syn),
        scene(
            "a path that swallows large packets",
            &[BlackHole],
            200,
            false,
            black_hole,
        ),
        scene(
            "a queue behind a token bucket",
            &[PacketDelay],
            10,
            false,
            bucket,
        ),
        // The timer of 200 ms runs from the first packet on, which nothing captured; the command between both
        // packets takes some of it, more on a loud machine.
        scene(
            "a packet that the sender's host drops",
            &[LocalDrop],
            150,
            false,
            local,
        ),
        // TCP is told, and keeps what was refused: nothing leaves that could tell of it.
        scene(
            "a queue that refuses all and says so",
            &[AppWroteNothing],
            200,
            false,
            refused,
        ),
        scene(
            "acknowledgements held for one interrupt",
            &[Coalescing, PacketDelay],
            60,
            false,
            held,
        ),
        scene(
            "a window of two packets and small writes",
            &[PacketWindow],
            40,
            false,
            packets,
        ),
    ]
}

/// Bytes of the second write: ten segments and no more.
const FLIGHT: usize = 10 * 1_448;
const FIRST: usize = 1_000;

/// A call of [`FIRST`] bytes, and one of [`FLIGHT`], of which `lost` says what is lost: it is asked for
/// the number of each segment of that flight, from 0, and how often it passed before.
fn flight(
    path: &Path,
    lost: fn(nth: usize, before: usize) -> bool,
) -> Result<[Vec<Captured>; 2], String> {
    let mut passed = [0; 64];
    let mut begins: Option<u32> = None;
    path.set(move |p: &Passing| {
        if p.from != 0 {
            return false;
        }
        if p.segment.flags.contains(Flags::SYN) {
            begins = Some(p.segment.seq.0.wrapping_add(1 + FIRST as u32));
        }
        let at = begins.map_or(-1, |first| p.segment.seq.0.wrapping_sub(first) as i32);
        if p.segment.len == 0 || at < 0 {
            return false;
        }
        let nth = (at as usize / 1_448).min(63);
        passed[nth] += 1;
        lost(nth, passed[nth] - 1)
    });
    Ok(path.captured(|| {
        let [mut there, back] = path.connect();
        let answering = thread::spawn(move || {
            answer(&back, FIRST);
            answer(&back, FLIGHT);
        });
        call(&mut there, FIRST);
        // What is written at once with an answer could have waited for it.
        pause(20);
        call(&mut there, FLIGHT);
        answering.join().unwrap();
    }))
}

fn call(stream: &mut TcpStream, bytes: usize) {
    stream.write_all(&vec![1; bytes]).unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

/// Reads as many bytes and answers with one.
fn answer(mut stream: &TcpStream, bytes: usize) {
    stream.read_exact(&mut vec![0; bytes]).unwrap();
    stream.write_all(&[2]).unwrap();
}

fn tail(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    flight(path, |nth, before| nth == 9 && before == 0)
}

fn probe(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    path.spaces[0].sysctl("tcp_early_retrans", "3");
    flight(path, |nth, before| nth >= 8 && before == 0)
}

fn whole(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    flight(path, |_, before| before == 0)
}

fn again(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    flight(path, |nth, before| nth == 3 && before < 2)
}

/// Calls one way and the other make a receiver put off its acknowledgements.
fn interactive(there: &mut TcpStream, back: &TcpStream) {
    for _ in 0..10 {
        there.write_all(&[1; 100]).unwrap();
        answer(back, 100);
        there.read_exact(&mut [0]).unwrap();
    }
}

fn nagle(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    Ok(path.captured(|| {
        let [mut there, back] = path.connect();
        interactive(&mut there, &back);
        there.write_all(&[1; 100]).unwrap();
        there.write_all(&[1; 100]).unwrap();
        answer(&back, 200);
        there.read_exact(&mut [0]).unwrap();
    }))
}

/// Writes of these sizes into a first window of so many packets, to a receiver that puts off its
/// acknowledgement.
fn window(path: &Path, packets: u32, writes: &[usize]) -> Result<[Vec<Captured>; 2], String> {
    let route = format!(
        "ip route replace 10.79.0.0/24 dev {} src 10.79.0.1",
        INTERFACES[0]
    );
    path.spaces[0].command(&format!("{route} initcwnd {packets}"))?;
    let captured = path.captured(|| {
        let [mut there, back] = path.connect();
        there.set_nodelay(true).unwrap();
        // A receiver acknowledges the first segments at once, unless it is told to put that off.
        SockRef::from(&back).set_tcp_quickack(false).unwrap();
        for bytes in writes {
            there.write_all(&vec![1; *bytes]).unwrap();
        }
        // Who reads two small segments acknowledges them.
        pause(60);
        answer(&back, writes.iter().sum());
        there.read_exact(&mut [0]).unwrap();
    });
    path.spaces[0].command(&route)?;
    Ok(captured)
}

fn delayed(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    window(path, 1, &[2 * 1_448])
}

/// Linux counts its window in packets.
fn packets(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    window(path, 2, &[1; 4])
}

fn closed(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    const ALL: usize = 12_000_000;
    Ok(path.captured(|| {
        let [mut there, mut back] = path.connect();
        let writing = thread::spawn(move || {
            there.write_all(&vec![1; ALL]).unwrap();
            there
        });
        pause(900);
        back.read_exact(&mut vec![0; ALL]).unwrap();
        writing.join().unwrap();
    }))
}

fn syn(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    let mut syns = 0;
    path.set(move |p: &Passing| {
        let syn = p.from == 0 && p.segment.flags.contains(Flags::SYN);
        syns += usize::from(syn);
        syn && syns == 2
    });
    Ok(path.captured(|| {
        // Both captures have begun by then.
        let [mut there, back] = path.connect();
        interactive(&mut there, &back);
        let [mut there, back] = path.connect();
        interactive(&mut there, &back);
    }))
}

fn black_hole(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    path.set(|p: &Passing| p.from == 0 && p.len > 900);
    Ok(path.captured(|| {
        let [mut there, back] = path.connect();
        interactive(&mut there, &back);
        there.write_all(&[1; 5_000]).unwrap();
        pause(1_900);
        // It would be tried for long: it ends here.
        SockRef::from(&there)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop((there, back));
    }))
}

/// Acknowledgements wait behind what their host sends.
fn bucket(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    let device = format!("dev {}", INTERFACES[1]);
    let bucket = format!("tc qdisc add {device} root tbf rate 2mbit burst 2000 limit 200000");
    path.spaces[1].command(&bucket)?;
    let captured = path.captured(|| {
        let [mut there, mut back] = path.connect();
        interactive(&mut there, &back);
        back.write_all(&[2; 10_000]).unwrap();
        pause(10);
        // More than the first window, so that its acknowledgements are waited for.
        there.write_all(&[1; 30 * 1_448]).unwrap();
        back.read_exact(&mut [0; 30 * 1_448]).unwrap();
        there.read_exact(&mut [0; 10_000]).unwrap();
        pause(100);
    });
    path.spaces[1].command(&format!("tc qdisc del {device} root"))?;
    Ok(captured)
}

/// A connection that has talked, and goes on with `talk`.
fn talking(
    path: &Path,
    talk: impl FnOnce(&mut TcpStream, &mut TcpStream),
) -> Result<[Vec<Captured>; 2], String> {
    Ok(path.captured(|| {
        let [mut there, mut back] = path.connect();
        interactive(&mut there, &back);
        talk(&mut there, &mut back);
        pause(100);
    }))
}

/// The host drops a packet that TCP gave away, as a driver may, and what leaves after it is lost on its way.
fn local(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    let host = &path.spaces[0];
    host.command("ip link add drain type veth peer name sink")?;
    host.command("ip link set drain up")?;
    host.command("ip link set sink up")?;
    let device = format!("dev {}", INTERFACES[0]);
    host.command(&format!("tc qdisc add {device} clsact"))?;
    let drain = format!(
        "tc filter add {device} egress protocol ip u32 match u32 0 0 action mirred egress redirect dev drain"
    );
    let mut passed = 0;
    path.set(move |p: &Passing| {
        let large = p.from == 0 && p.segment.len >= 1_000;
        passed += usize::from(large);
        large && passed == 1
    });
    let captured = talking(path, |there, back| {
        there.set_nodelay(true).unwrap();
        host.command(&drain).unwrap();
        there.write_all(&[1; 1_000]).unwrap();
        host.command(&format!("tc filter del {device} egress"))
            .unwrap();
        there.write_all(&[1; 1_000]).unwrap();
        answer(back, 2_000);
        there.read_exact(&mut [0]).unwrap();
    });
    host.command(&format!("tc qdisc del {device} clsact"))?;
    captured
}

fn refused(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    let host = &path.spaces[0];
    let device = format!("dev {}", INTERFACES[0]);
    let captured = talking(path, |there, back| {
        let limit = |verb: &str, limit| {
            let queue = format!("tc qdisc {verb} {device} root pfifo limit {limit}");
            host.command(&queue).unwrap();
        };
        // The last acknowledgement leaves before.
        pause(60);
        limit("add", 0);
        there.write_all(&[1; 1_000]).unwrap();
        pause(100);
        limit("change", 100);
        answer(back, 1_000);
        there.read_exact(&mut [0]).unwrap();
    });
    host.command(&format!("tc qdisc del {device} root"))?;
    captured
}

/// The sender's card hands over what arrives once each 150 ms, longer than a loud machine makes packets late.
fn held(path: &Path) -> Result<[Vec<Captured>; 2], String> {
    talking(path, |there, back| {
        path.hold(narrows::Duration::from_millis(150));
        // More than the first window, so that its acknowledgements are waited for.
        there.write_all(&[1; 60 * 1_448]).unwrap();
        back.read_exact(&mut [0; 60 * 1_448]).unwrap();
        pause(160);
        path.hold(narrows::Duration::ZERO);
    })
}
