//! What a host of the kernel's hands down, and what of it is on the wire: super-frames (TSO), which a
//! port of the switch cuts, since its tbf lets fewer bytes go at once. And the same simulated.
//!
//! Counted are the frames of both interfaces as the kernel counts them, one for a super-frame.
//!
//! Replies that the window admits at once compare. In bulk they do not: there each ACK lets out a segment
//! or two, the kernel waits for more (`tcp_tso_should_defer`), and the simulated sender does not.

use crate::LiveError;
use crate::lab::{self, FRAME, Owned, Port};
use crate::meter::Interface;
use crate::shaper::{RouteRules, Shape};
use crate::sockets;
use narrows::{ByteCount, Rate};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const PORT: u16 = 5_007;
const FROM: u8 = 1;
const TO: u8 = 2;
/// What is sent in bulk.
const BULK: usize = 4 << 20;
const CHUNK: usize = 64 << 10;
/// Replies that are counted.
const REPLIES: usize = 100;
/// Replies that go before, so that the window admits one whole.
const OPENING: usize = 10;
const RATE: Rate = Rate::from_gbps(1);

/// Whether the sender hands down super-frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tso {
    /// Of up to 64 KiB.
    On,
    /// A packet for each segment.
    Off,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// All at once, for the window to let out.
    Bulk,
    /// Replies of so many bytes, one after the other was read.
    Replies(usize),
}

/// Payload of a packet in bytes, on the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Of those that the host hands to its interface.
    pub host: f64,
    /// Of those on the wire.
    pub wire: f64,
}

/// Of a host of the kernel's.
///
/// # Errors
/// See [`LiveError`].
pub fn kernel(load: Load, tso: Tso, cancel: &AtomicBool) -> Result<Sizes, LiveError> {
    let failed = |e| LiveError::io("count what a host of the kernel's hands down", e);
    let lab = Owned::for_run()?;
    // Which lets a super-frame go whole.
    let link = Shape {
        burst: ByteCount::new(128 << 10),
        ..Shape::port(RATE, ByteCount::new(4 << 20))
    };
    let from = lab.add_kernel_host(FROM, &link, RouteRules::default())?;
    let to = lab.add_kernel_host(TO, &link, RouteRules::default())?;
    let _watch = lab.shape(Port::Further(TO), &Shape::port(RATE, FRAME * 4_000))?;
    if tso == Tso::Off {
        from.cut().map_err(failed)?;
    }
    let counted = || {
        let listener = sockets::listen(&to.namespace, PORT, 1, sockets::cubic)?;
        let at = SocketAddr::new(lab::addresses(TO)[0], PORT);
        let sender = sockets::connect(&from.namespace, at, sockets::cubic)?;
        let receiver = sockets::accept(&listener)?;
        let mut own = Interface::within(&from.namespace, lab::KERNEL_INTERFACE)?;
        let mut port = lab.interface(Port::Further(TO))?;
        if let Load::Replies(size) = load {
            reply(&sender, &receiver, size, OPENING, cancel)?;
        }
        let before = [own.read()?, port.read()?];
        let sent = match load {
            Load::Bulk => carry(&sender, &receiver, cancel).map(|()| BULK)?,
            Load::Replies(size) => {
                reply(&sender, &receiver, size, REPLIES, cancel)?;
                size * REPLIES
            }
        };
        let after = [own.read()?, port.read()?];
        let [host, wire] = [0, 1].map(|at| {
            let packets = after[at].tx_packets - before[at].tx_packets;
            sent as f64 / packets.max(1) as f64
        });
        Ok(Sizes { host, wire })
    };
    counted().map_err(failed)
}

/// `count` replies, each written once the one before was read; a reply fits into the sender's buffer.
fn reply(
    mut from: &TcpStream,
    mut to: &TcpStream,
    size: usize,
    count: usize,
    cancel: &AtomicBool,
) -> io::Result<()> {
    let mut data = vec![0; size];
    for _ in 0..count {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        from.write_all(&data)?;
        to.read_exact(&mut data)?;
    }
    Ok(())
}

fn carry(from: &TcpStream, mut to: &TcpStream, cancel: &AtomicBool) -> io::Result<()> {
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let (chunk, mut from) = (vec![0; CHUNK], from);
            (0..BULK / CHUNK).try_for_each(|_| from.write_all(&chunk))
        });
        let (mut left, mut data) = (BULK, vec![0; CHUNK]);
        let read = loop {
            if left == 0 {
                break Ok(());
            }
            match to.read(&mut data) {
                _ if cancel.load(Ordering::Relaxed) => {
                    break Err(io::ErrorKind::Interrupted.into());
                }
                Ok(0) => break Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => left = left.saturating_sub(n),
                Err(e) => break Err(e),
            }
        };
        if read.is_err() {
            // Who waits for room is woken.
            let _ = from.shutdown(std::net::Shutdown::Both);
        }
        let wrote = crate::joined(writing.join());
        read.and(wrote)
    })
}

/// Of a simulated host: what its TCP hands down as the probe `counters` has it, and what leaves.
///
/// # Errors
/// If there is no such host.
pub fn simulated(load: Load, tso: Tso) -> Result<Sizes, LiveError> {
    let tso = match tso {
        Tso::On => "64KiB",
        Tso::Off => "off",
    };
    let traffic = match load {
        Load::Bulk => format!("kind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\nsize = \"{BULK}B\""),
        Load::Replies(size) => format!(
            "kind = \"rpc\"\nclients = \"h0\"\nservers = \"h1\"\nrequest = \"100B\"\n\
             reply = \"{size}B\"\ncalls = {REPLIES}"
        ),
    };
    let text = format!(
        "title = \"What a host hands down\"\n\
         [network]\ntopology = \"star\"\nhosts = 2\n\
         link = {{ rate = \"1Gb/s\", delay = \"5us\", framing = \"ethernet\" }}\n\
         queue = {{ limit = \"6MB\" }}\n\
         [host.tcp]\ncongestion = \"cubic\"\n[group.h1.nic]\ntso = \"{tso}\"\n\
         [[traffic]]\nname = \"all\"\n{traffic}\n\
         [[probe]]\nname = \"host\"\nkind = \"counters\"\non = \"h1\"\n\
         [[probe]]\nname = \"peer\"\nkind = \"counters\"\non = \"h0\"\n\
         [run]\nduration = \"200ms\"\n"
    );
    let ran = crate::simulate("host", &text)?;
    let value = |probe: &str, name: &str| {
        let mut of = ran.readings.iter().filter(|(named, _)| named == probe);
        let (_, reading) = of.next()?;
        let mut found = reading.values.iter().filter(|(named, ..)| named == name);
        found.next().map(|(.., value)| value.value())
    };
    // The peer merges nothing: what comes in is what was on the wire.
    let counted = value("host", "data_bytes")
        .zip(value("host", "data"))
        .zip(value("peer", "in"));
    let ((bytes, host), wire) = counted
        .ok_or_else(|| LiveError::Internal("the simulated host counts nothing".to_owned()))?;
    Ok(Sizes {
        host: bytes / host.max(1.0),
        wire: bytes / wire.max(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_host_hands_down_more_than_a_segment_only_with_offload() {
        for size in [10_000, 30_000] {
            let of = |tso| simulated(Load::Replies(size), tso).unwrap();
            let (on, off) = (of(Tso::On), of(Tso::Off));
            assert!(on.host > 4.0 * on.wire, "{on:?}");
            assert!(off.host <= 1_460.0 && off.host > 1_200.0, "{off:?}");
            assert!(on.wire > 1_200.0 && on.wire <= 1_460.0, "{on:?}");
        }
    }
}
