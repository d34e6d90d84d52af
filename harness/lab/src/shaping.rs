//! What a shaper lets go at once, and what it carries then: the kernel's `tbf` beside the simulated one
//! (`host.nic.shaper_rate`) with the same rate and burst.
//!
//! More is sent at once than the bucket holds, and the bytes that have left are looked at all the time. A
//! token bucket lets go no more than burst + rate x time in any time, so the burst is the greatest
//! that any two looks differ by beyond the rate. A look is taken for the moment before it where it is
//! the first of two, and for the one after where it is the second: what is found is never more than
//! there was, however late the looks are.

use crate::lab::KERNEL_INTERFACE;
use crate::meter::Interface;
use crate::pair::Pair;
use crate::shaper::Shape;
use crate::sockets;
use crate::{LiveError, joined, sleep};
use narrows::driver::{Clock, RealTime};
use narrows::{ByteCount, Duration, Rate};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What a frame takes on a wire, all of it counted.
const WIRE: u64 = 1_500;
/// The kernel's counters leave out check sequence, preamble and gap.
const COUNTED: u64 = WIRE - 24;
/// Of UDP, IPv4 and Ethernet.
const HEADERS: u64 = 8 + 20 + 14;
const PORT: u16 = 5_008;
/// After which the bucket is full, and after which no more comes.
const PAUSE: Duration = Duration::from_millis(200);

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

/// One look at what has left.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// When it began and ended, in nanoseconds.
    between: (u64, u64),
    /// Bytes on the wire until then.
    bytes: f64,
}

/// `None` where nothing left after the burst.
fn conformance(looks: &[Look], spec: &ShapingSpec) -> Option<Conformance> {
    let a_nanosecond = spec.rate.bits_per_sec() as f64 / 8e9;
    let (mut least, mut burst) = (f64::INFINITY, 0.0_f64);
    for look in looks {
        let beyond = |at: u64| look.bytes - at as f64 * a_nanosecond;
        burst = burst.max(beyond(look.between.1) - least);
        least = least.min(beyond(look.between.0));
    }
    let all = looks.last()?.bytes;
    let first = looks.iter().find(|l| l.bytes >= spec.burst.get() as f64)?;
    let last = looks.iter().find(|l| l.bytes >= all)?;
    let time = last
        .between
        .1
        .checked_sub(first.between.1)
        .filter(|t| *t > 0)?;
    Some(Conformance {
        burst,
        rate: (all - first.bytes) * 8e9 / time as f64,
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
    // The first asks who has the address.
    from.send(&[0]).map_err(failed)?;
    to.set_read_timeout(Some(sockets::CONNECT))
        .map_err(failed)?;
    to.recv(&mut [0]).map_err(failed)?;
    sleep(PAUSE.into());
    let interface = Interface::within(pair.b.namespace(), KERNEL_INTERFACE);
    let mut interface = interface.map_err(failed)?;
    let stop = AtomicBool::new(false);
    let begun = Barrier::new(2);
    let looks = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let _ = RealTime::LOWEST.apply();
            let zero = interface.read();
            begun.wait();
            look(&mut interface, zero?.rx_bytes, &stop)
        });
        begun.wait();
        let sent = send(&from, spec, cancel);
        sleep(PAUSE.into());
        stop.store(true, Ordering::Relaxed);
        sent.and(joined(looking.join()))
    });
    let seen = conformance(&looks.map_err(failed)?, spec);
    seen.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))
}

fn send(from: &UdpSocket, spec: &ShapingSpec, cancel: &AtomicBool) -> io::Result<()> {
    let datagram = vec![0; (COUNTED - HEADERS) as usize];
    for _ in 0..spec.sent.get() / WIRE {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // It waits where as much as a socket may have is in the queue.
        from.send(&datagram)?;
    }
    Ok(())
}

/// Looks at what came since the counter was at `zero` until it is stopped, and keeps what is news.
fn look(interface: &mut Interface, zero: u64, stop: &AtomicBool) -> io::Result<Vec<Look>> {
    let begin = Clock.now();
    let now = || Clock.now().since(begin).as_nanos();
    let mut looks: Vec<Look> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let before = now();
        let counted = interface.read()?.rx_bytes - zero;
        let look = Look {
            between: (before, now()),
            bytes: counted as f64 * WIRE as f64 / COUNTED as f64,
        };
        // Of looks at the same the last one says that nothing has left since.
        match looks.len().checked_sub(2) {
            Some(at) if looks[at].bytes == look.bytes => {
                let last = looks.len() - 1;
                looks[last] = look;
            }
            _ => looks.push(look),
        }
    }
    Ok(looks)
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
            between: (at as u64, at as u64),
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
            between: (us * 1_000, us * 1_000),
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
        let again = [(0, 0), (10, 3_000), (1_000, 3_000), (1_010, 7_000)];
        let seen = conformance(&looks(&again), &SPEC).unwrap();
        assert_eq!(seen.burst, 5_990.0);
        assert!(conformance(&looks(&[(0, 0), (10, 3_000)]), &SPEC).is_none());
    }

    #[test]
    fn a_look_that_took_long_finds_no_more_than_there_was() {
        let mut late = looks(&[(0, 0), (10, 3_000), (1_010, 4_000)]);
        late[1].between = (0, 400_000);
        assert_eq!(conformance(&late, &SPEC).unwrap().burst, 2_990.0);
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
