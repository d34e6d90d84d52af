//! Hosts of ours, each with an interface and a link of its own, on one thread.

mod cable;
mod waiter;

pub(crate) use waiter::Waiter;

use crate::LiveError;
use crate::capture::CaptureFile;
use crate::lab::{self, Plugged};
use cable::Cable;
use narrows::buffer::BytesView;
use narrows::config::TcpConfig;
use narrows::device::{Device, Refused};
use narrows::driver::poll::Application;
use narrows::driver::{Clock, LiveTcp, secret};
use narrows::endpoint::EndpointConfig;
use narrows::interface::{Interface, InterfaceConfig, Offload, RxChecksum, RxFrame, TxFrame};
use narrows::pcapng::{self, Direction, LinkType, Record};
use narrows::{ByteCount, Duration, Instant, Rate};
use narrows_net::sim::rng::{Component, Stream};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Frames taken from an interface before the others have their turn.
const BATCH: usize = 64;

/// The link between a host and the switch, and what lies behind: this side takes all delays of
/// the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) rate: Rate,
    /// From the host to the kernel's, and back.
    pub(crate) delay: Duration,
    pub(crate) mtu: u32,
    /// A frame enters it up to so much late.
    pub(crate) overhead: Duration,
    pub(crate) seed: u64,
}

/// A host.
pub(crate) struct RackHost<A> {
    device: Box<dyn Device>,
    _cable: lab::Cable,
    pub(crate) interface: Interface<LiveTcp>,
    pub(crate) app: A,
    out: Cable,
    back: Cable,
    /// It may have something to send.
    touched: bool,
    /// Frames that its interface refused.
    pub(crate) refused: u64,
    capture: Option<pcapng::Interface>,
}

/// The hosts.
pub(crate) struct Rack<A> {
    pub(crate) hosts: Vec<RackHost<A>>,
    waiter: Waiter,
    capture: Option<Capture>,
}

struct Capture {
    writer: pcapng::Writer<CaptureFile>,
    /// What the clock's zero is since the epoch, in nanoseconds.
    epoch: u64,
}

impl Capture {
    fn packet(&mut self, at: pcapng::Interface, now: Instant, direction: Direction, bytes: &[u8]) {
        self.writer.packet(&Record {
            interface: at,
            nanos: self.epoch + now.as_nanos(),
            direction,
            comment: None,
            bytes,
        });
    }
}

impl<A: Application<LiveTcp>> Rack<A> {
    /// For `n` hosts; what passes them goes to `capture`, of each frame the first `snap_length` bytes.
    #[allow(clippy::disallowed_methods, reason = "a capture says what time it was")]
    pub(crate) fn new(
        n: usize,
        capture: Option<CaptureFile>,
        snap_length: Option<ByteCount>,
    ) -> Result<Self, LiveError> {
        let failed = |e| LiveError::io("start the hosts", e);
        let capture = match capture {
            None => None,
            Some(file) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                let real = since.map_or(0, |d| d.as_nanos() as u64);
                let application = concat!("narrows ", env!("CARGO_PKG_VERSION"));
                let writer = pcapng::Writer::new(file, application, "Linux", "a live incast");
                let mut writer = writer.map_err(failed)?;
                writer.set_snap_length(snap_length);
                Some(Capture {
                    writer,
                    epoch: real.saturating_sub(Clock.now().as_nanos()),
                })
            }
        };
        Ok(Self {
            hosts: Vec::with_capacity(n),
            waiter: Waiter::new(n).map_err(failed)?,
            capture,
        })
    }

    /// Add a host that runs `app`.
    pub(crate) fn add(
        &mut self,
        plugged: Plugged,
        wire: Wire,
        tcp: &Arc<TcpConfig>,
        app: A,
    ) -> Result<(), LiveError> {
        let Plugged {
            number,
            port,
            device,
            cable,
        } = plugged;
        let failed = |e| LiveError::io("start a host", e);
        let config = InterfaceConfig::new(lab::mac(number), lab::networks(number));
        let endpoint = EndpointConfig::new(tcp.clone(), secret().map_err(failed)?);
        let interface = Interface::new(config, endpoint, device.capabilities())
            .map_err(|e| LiveError::Invalid(e.to_string()))?;
        let token = self.hosts.len() as u64;
        self.waiter.add(device.fd(), token).map_err(failed)?;
        let capture = self.capture.as_mut().map(|capture| {
            let what = format!("10.77.0.{number}");
            let writer = &mut capture.writer;
            writer.interface_of(LinkType::Ethernet, &port, &what)
        });
        self.hosts.push(RackHost {
            device,
            _cable: cable,
            interface,
            app,
            out: Cable::new(Some(wire.rate), wire.delay, wire.mtu).with_overhead(
                wire.overhead,
                Stream::new(wire.seed, Component::Overhead, number.into()),
            ),
            back: Cable::new(None, wire.delay, wire.mtu),
            touched: true,
            refused: 0,
            capture,
        });
        Ok(())
    }

    /// Run them until `stop` is set, or one's application is done.
    pub(crate) fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let Self {
            hosts,
            waiter,
            capture,
        } = self;
        let now = Clock.now();
        for host in hosts.iter_mut() {
            host.app.start(&mut host.interface, now)?;
        }
        while !stop.load(Ordering::Relaxed) {
            let now = Clock.now();
            for token in waiter.ready() {
                if let Some(host) = hosts.get_mut(token as usize) {
                    host.hear(now)?;
                }
            }
            for host in hosts.iter_mut() {
                // What the device itself has kept back.
                if host.device.poll_timeout().is_some_and(|at| at <= now) {
                    host.hear(now)?;
                }
            }
            for host in hosts.iter_mut() {
                host.turn(now, capture.as_mut());
            }
            // Frames reach the switch in the order of their times, whoever's they are.
            let first = |hosts: &mut [RackHost<A>]| {
                let arrived = |host: &RackHost<A>| host.out.next().filter(|at| *at <= now);
                let times = hosts.iter().enumerate();
                times
                    .filter_map(|(n, host)| Some((arrived(host)?, n)))
                    .min()
            };
            while let Some((_, n)) = first(hosts) {
                hosts[n].leave(now)?;
            }
            let next = hosts.iter().filter_map(|host| host.next(now)).min();
            if hosts.iter().any(|host| host.app.is_done()) {
                break;
            }
            waiter.wait(next)?;
        }
        Ok(())
    }

    /// For how long the most belated of them stood still, though it had something to send.
    pub(crate) fn still(&self) -> Duration {
        let still = self.hosts.iter().map(|host| host.out.still());
        still.max().unwrap_or(Duration::ZERO)
    }

    /// Complete the capture.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self.capture.take() {
            Some(capture) => capture.writer.finish(),
            None => Ok(()),
        }
    }
}

impl<A: Application<LiveTcp>> RackHost<A> {
    /// Take what has arrived at its interface, a batch at most.
    fn hear(&mut self, now: Instant) -> io::Result<()> {
        let back = &mut self.back;
        let take = &mut |frame: &RxFrame<'_>| {
            back.send(now, |out| {
                out.extend_from_slice(frame.bytes);
                // What crosses is whole frames: AF_XDP gives the kernel's as they left its TCP.
                if let RxChecksum::Partial(partial) = frame.checksum {
                    partial.complete(out);
                }
            });
        };
        self.device.receive(now, BATCH, take).map(|_| ())
    }

    /// Whatever is due.
    fn turn(&mut self, now: Instant, mut capture: Option<&mut Capture>) {
        let Self {
            interface,
            app,
            out,
            back,
            touched,
            capture: own,
            ..
        } = self;
        let mut note = |direction, bytes: &[u8]| {
            if let (Some(capture), Some(own)) = (capture.as_deref_mut(), *own) {
                capture.packet(own, now, direction, bytes);
            }
        };
        while back.arrive(now, |frame| {
            note(Direction::Inbound, frame);
            interface.handle_frame(now, &RxFrame::plain(frame));
        }) {
            *touched = true;
        }
        if interface.poll_timeout().is_some_and(|at| at <= now) {
            interface.handle_timeout(now);
            *touched = true;
        }
        if app.poll_timeout().is_some_and(|at| at <= now) {
            app.wake(interface, now);
            *touched = true;
        }
        if *touched {
            tell(interface, app, now);
            *touched = false;
            loop {
                if out.full_until(now).is_some() {
                    *touched = true;
                    break;
                }
                let Some(frame) = interface.poll_frame(now) else {
                    break;
                };
                out.send(now, |bytes| {
                    frame.append_to(bytes);
                    note(Direction::Outbound, bytes);
                });
            }
            // Sending may have made room.
            tell(interface, app, now);
        }
    }

    /// The next frame reaches the switch.
    fn leave(&mut self, now: Instant) -> io::Result<()> {
        let Self {
            device,
            out,
            refused,
            ..
        } = self;
        let mut outcome = Ok(());
        out.arrive(now, |frame| {
            let frame = TxFrame {
                head: frame,
                body: BytesView::new(&[], &[]),
                offload: Offload::NONE,
            };
            match device.transmit(now, &frame) {
                Ok(()) => outcome = device.flush(now),
                Err(Refused::Gone(e)) => outcome = Err(e),
                Err(Refused::Full | Refused::Down) => *refused += 1,
            }
        });
        outcome
    }

    /// When it has its next turn at the latest.
    fn next(&self, now: Instant) -> Option<Instant> {
        let room = self
            .touched
            .then(|| self.out.full_until(now).unwrap_or(now));
        let times = [
            self.interface.poll_timeout(),
            self.device.poll_timeout(),
            self.app.poll_timeout(),
            self.out.next(),
            self.back.next(),
            room,
        ];
        times.into_iter().flatten().min()
    }
}

fn tell<A: Application<LiveTcp>>(tcp: &mut Interface<LiveTcp>, app: &mut A, now: Instant) {
    while let Some(event) = tcp.poll_event() {
        app.event(tcp, now, event);
    }
}
