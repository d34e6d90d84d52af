//! What a shaper lets go at once, and what it carries then: the kernel's `tbf` beside the simulated one
//! (`host.nic.shaper_rate`) with the same rate and burst.
//!
//! More is sent at once than the bucket holds, and the kernel stamps each packet when it has left the
//! shaper, whoever runs by then. A token bucket lets go no more than burst + rate x time in any time, so the burst is the
//! greatest that any two packets are apart beyond the rate. What it carries is told from where the bucket was empty
//! on, and is less where the machine is late: then tokens are lost once the bucket is full.

use crate::pair::Pair;
use crate::shaper::Shape;
use crate::sockets;
use crate::{LiveError, sleep};
use narrows::{ByteCount, Duration, Rate};
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimestampns, SndBufForce};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a frame takes on a wire, all of it counted.
const WIRE: u64 = 1_500;
/// The kernel's counters leave out check sequence, preamble and gap.
const COUNTED: u64 = WIRE - 24;
/// Of UDP, IPv4 and Ethernet.
const HEADERS: u64 = 8 + 20 + 14;
const PORT: u16 = 5_008;
/// After which the bucket is full.
const PAUSE: Duration = Duration::from_millis(200);
/// Room in a socket for a packet, the kernel's own records among it.
const ROOM: u64 = 4_096;

/// A token bucket, and how much is sent through it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapingSpec {
    /// At which tokens come.
    pub rate: Rate,
    /// The most tokens.
    pub burst: ByteCount,
    /// Bytes that are sent, more than the burst.
    pub sent: ByteCount,
}

/// That of `narrows calibrate`: a tenth of a second of 100 Mb/s after a burst of 64 KiB.
impl Default for ShapingSpec {
    fn default() -> Self {
        Self {
            rate: Rate::from_mbps(100),
            burst: ByteCount::new(64 << 10),
            sent: ByteCount::new(1_314_000),
        }
    }
}

/// What was let go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conformance {
    /// The most bytes beyond the rate, in any time.
    pub burst: f64,
    /// What it carried after the burst, in bits a second.
    pub rate: f64,
}

/// What had left by a time.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// In nanoseconds.
    at: u64,
    /// Bytes on the wire until then.
    bytes: f64,
}

/// `None` where nothing left after the burst.
fn conformance(looks: &[Look], spec: &ShapingSpec) -> Option<Conformance> {
    let a_nanosecond = spec.rate.bits_per_sec() as f64 / 8e9;
    let (mut least, mut burst) = (f64::INFINITY, 0.0_f64);
    let mut beyond = Vec::with_capacity(looks.len());
    for look in looks {
        let now = look.bytes - look.at as f64 * a_nanosecond;
        least = least.min(now);
        beyond.push(now - least);
        burst = burst.max(now - least);
    }
    // The bucket was empty when it had let go of all but a frame.
    let empty = beyond.iter().position(|b| *b > burst - WIRE as f64)?;
    let (first, last) = (looks.get(empty)?, looks.last()?);
    let time = last.at.checked_sub(first.at).filter(|t| *t > 0)?;
    Some(Conformance {
        burst,
        rate: (last.bytes - first.bytes) * 8e9 / time as f64,
    })
}

/// The kernel's, on a wire of its own.
///
/// # Errors
/// See [`LiveError`].
pub fn kernel(spec: &ShapingSpec, cancel: &AtomicBool) -> Result<Conformance, LiveError> {
    let failed = |e| LiveError::io("shape what a host of the kernel's sends", e);
    let pair = Pair::new()?;
    let shape = Shape {
        burst: spec.burst,
        ..Shape::port(spec.rate, ByteCount::new(1_000 * WIRE))
    };
    let shaped = pair.a.shape(&shape);
    shaped.map_err(|e| LiveError::shaper("shape what a host of the kernel's sends", e))?;
    let socket = |end: &crate::pair::End, port| {
        let at = SocketAddr::new(end.address(), port);
        end.namespace().run(|| UdpSocket::bind(at)).and_then(|s| s)
    };
    let (from, to) = (socket(&pair.a, 0), socket(&pair.b, PORT));
    let (from, to) = (from.map_err(failed)?, to.map_err(failed)?);
    from.connect(SocketAddr::new(pair.b.address(), PORT))
        .map_err(failed)?;
    // All that is sent has room, so that neither end keeps the other waiting.
    let room = usize::try_from(ROOM * (spec.sent.get() / WIRE)).unwrap_or(usize::MAX);
    setsockopt(&from, SndBufForce, &room)
        .and_then(|()| setsockopt(&to, RcvBufForce, &room))
        .and_then(|()| setsockopt(&to, ReceiveTimestampns, &true))
        .map_err(|e| failed(e.into()))?;
    to.set_read_timeout(Some(sockets::CONNECT))
        .map_err(failed)?;
    // The first asks who has the address.
    from.send(&[0]).map_err(failed)?;
    stamp(&to).map_err(failed)?;
    sleep(PAUSE.into());
    let count = send(&from, spec, cancel).map_err(failed)?;
    let looks = looks(&to, count).map_err(failed)?;
    let seen = conformance(&looks, spec);
    seen.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))
}

/// How many were sent.
fn send(from: &UdpSocket, spec: &ShapingSpec, cancel: &AtomicBool) -> io::Result<u64> {
    let datagram = vec![0; (COUNTED - HEADERS) as usize];
    let count = spec.sent.get() / WIRE;
    for _ in 0..count {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        from.send(&datagram)?;
    }
    Ok(count)
}

/// So many packets by when they came, the first at zero, with what had come before any of them.
fn looks(to: &UdpSocket, count: u64) -> io::Result<Vec<Look>> {
    let mut looks = Vec::new();
    let mut begin = None;
    for nth in 0..count {
        let stamp = stamp(to)?;
        let at = (stamp - *begin.get_or_insert(stamp)).num_nanoseconds();
        let at =
            u64::try_from(at).map_err(|_| io::Error::other("the machine's clock was set back"))?;
        if nth == 0 {
            looks.push(Look { at, bytes: 0.0 });
        }
        let bytes = ((nth + 1) * WIRE) as f64;
        looks.push(Look { at, bytes });
    }
    Ok(looks)
}

/// When the kernel had the next packet that waits to be read.
fn stamp(to: &UdpSocket) -> io::Result<TimeSpec> {
    let mut buf = [0; 1];
    let mut space = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(&mut buf)];
    let flags = MsgFlags::empty();
    let read = recvmsg::<()>(to.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let stamp = read.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
        _ => None,
    });
    stamp.ok_or_else(|| io::Error::other("the kernel does not stamp what it receives"))
}

/// The simulated one, which releases what waits at multiples of `tick`, or if that is zero when there are
/// tokens.
///
/// # Errors
/// If there is no such shaper.
pub fn simulated(spec: &ShapingSpec, tick: Duration) -> Result<Conformance, LiveError> {
    let ShapingSpec { rate, burst, sent } = spec;
    let (rate, burst, sent) = (rate.bits_per_sec(), burst.get(), sent.get());
    let tick = tick.as_nanos();
    let text = format!(
        "title = \"A shaped sender\"\n\
         [network]\ntopology = \"star\"\nhosts = 2\n\
         link = {{ rate = \"1Gb/s\", delay = \"5us\", framing = \"ethernet\" }}\n\
         queue = {{ limit = \"10MB\" }}\n\
         [host.tcp]\ncongestion = \"fixed\"\ninitial_window = 1000\n\
         [group.h1.nic]\nshaper_rate = \"{rate}b/s\"\nshaper_burst = \"{burst}B\"\n\
         shaper_tick = \"{tick}ns\"\ntx_queue = \"2000p\"\n\
         [[traffic]]\nname = \"burst\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\nsize = \"{sent}B\"\n\
         [[probe]]\nname = \"out\"\nkind = \"rate\"\non = \"h1->s0\"\nevery = [\"{EVERY_NS}ns\"]\n\
         [run]\nduration = \"300ms\"\n"
    );
    let ran = crate::simulate("shaper", &text)?;
    let series = ran.readings.iter().find_map(|(_, r)| r.series.as_ref());
    let rows = series.map_or(&[][..], |series| &series.rows);
    let mut bytes = 0.0;
    let looks = rows.iter().filter_map(|row| {
        let (at, rate) = (row.first().copied()??, row.get(1).copied()??);
        bytes += rate * EVERY_NS as f64 / 8e9;
        Some(Look {
            at: at as u64,
            bytes,
        })
    });
    let seen = conformance(&looks.collect::<Vec<_>>(), spec);
    seen.ok_or_else(|| {
        LiveError::Invalid("no such shaper: it lets nothing go after its burst".to_owned())
    })
}

/// From one simulated look to the next.
const EVERY_NS: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: ShapingSpec = ShapingSpec {
        rate: Rate::from_mbps(8),
        burst: ByteCount::new(3_000),
        sent: ByteCount::new(6_000),
    };

    /// 8 Mb/s is a byte a microsecond.
    fn looks(all: &[(u64, u64)]) -> Vec<Look> {
        let look = |&(us, bytes): &(u64, u64)| Look {
            at: us * 1_000,
            bytes: bytes as f64,
        };
        all.iter().map(look).collect()
    }

    #[test]
    fn a_burst_is_what_any_two_looks_differ_by_beyond_the_rate() {
        let steady = [
            (0, 0),
            (10, 3_000),
            (1_010, 4_000),
            (2_010, 5_000),
            (3_010, 6_000),
        ];
        let seen = conformance(&looks(&steady), &SPEC).unwrap();
        assert_eq!((seen.burst, seen.rate), (2_990.0, 8e6));
        // After a pause the bucket is full again, and one that lets more go is found out.
        let again = [
            (0, 0),
            (10, 3_000),
            (1_000, 3_000),
            (1_010, 7_000),
            (2_010, 8_000),
        ];
        let seen = conformance(&looks(&again), &SPEC).unwrap();
        assert_eq!(seen.burst, 5_990.0);
        assert!(conformance(&looks(&[(0, 0), (10, 3_000)]), &SPEC).is_none());
    }

    /// A sender that waits in the midst of the burst has a fuller bucket afterwards, and no more of the rate.
    #[test]
    fn what_it_carries_is_told_from_where_the_bucket_is_empty() {
        let late = [
            (0, 0),
            (10, 1_000),
            (2_000, 1_000),
            (2_010, 4_000),
            (3_010, 5_000),
        ];
        let seen = conformance(&looks(&late), &SPEC).unwrap();
        assert_eq!((seen.burst, seen.rate), (2_990.0, 8e6));
    }

    /// With ticks what waits leaves a tick's worth at a time: 50 kB of the bucket's 64 KiB.
    #[test]
    fn the_simulated_shaper_keeps_rate_and_burst_with_ticks_too() {
        let spec = ShapingSpec::default();
        for (tick, least) in [(0, 63e3), (4, 50e3)] {
            let seen = simulated(&spec, Duration::from_millis(tick)).unwrap();
            assert!((least..66e3).contains(&seen.burst), "{seen:?}");
            assert!((90e6..=101e6).contains(&seen.rate), "{seen:?}");
        }
    }
}
