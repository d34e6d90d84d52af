//! A simulated host: the TCP of `narrows`, unchanged, and an application on top.
//!
//! Models a host whose CPU takes no time, unless its NIC says what packets cost
//! ([`crate::net::nic::cpu`]). The resolution of its timers is `timer_tick` of the TCP's
//! configuration; what its NIC refuses comes back to the TCP as a local drop.

pub mod capture;
mod packet;
pub mod trace;

pub use packet::{SimPacket, address_of, ipv6_address_of};

use crate::net::nic::NicRoom;
use crate::net::packet::HostId;
use crate::sim::host::Host;
use crate::sim::rng::{Component, Stream};
use narrows::Instant;
use narrows::buffer::{SyntheticRecv, SyntheticSend};
use narrows::config::{ConfigError, TcpConfig};
use narrows::conn::Boxed;
use narrows::endpoint::{Endpoint, EndpointConfig, EndpointEvent, Made};
use narrows_congestion::hint::cold_path;
use std::sync::Arc;

/// The TCP of simulated hosts: payload is a pattern that is a function of the stream offset,
/// algorithms are boxed.
pub type SimTypes = Boxed<SyntheticSend, SyntheticRecv>;
/// The endpoint of a simulated host.
pub type SimEndpoint = Endpoint<SimTypes>;

/// What runs on a host.
pub trait SimApp {
    /// The host starts.
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant);
    /// The TCP tells something.
    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent);
    /// The application's own timer is due.
    fn timeout(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        let _ = (tcp, now);
    }
    /// When the application's own timer is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// What packets go through before they leave.
#[derive(Debug, Default)]
struct Through {
    /// Serialise every packet and parse it again.
    wire: bool,
    /// Payload that the NIC takes as one packet.
    burst: u32,
    scratch: Vec<u8>,
}

/// Most payload of one packet: the rest of the longest there is may be headers.
const MAX_BURST: u32 = 65_535 - 40 - 60;

/// A host with a TCP and an application.
#[derive(Debug)]
#[repr(C, align(64))] // What each packet touches of the application comes first there.
pub struct TcpHost<A> {
    /// `None` for nothing.
    through: Option<Box<Through>>,
    /// The application.
    pub app: A,
    /// Packets whose checksum failed.
    pub corrupt_in: u64,
    /// Packets whose payload a switch had cut. A TCP can make nothing of them (their checksum is
    /// that of the whole segment), so they are counted here, and to the TCP they are lost.
    pub trimmed_in: u64,
    tcp: SimEndpoint,
}

impl<A: SimApp> TcpHost<A> {
    /// Host number `id` of the run with `seed`. With `wire` every packet is serialised and
    /// parsed again before it leaves.
    ///
    /// # Errors
    /// When the TCP's configuration is out of range.
    pub fn new(
        id: HostId,
        tcp: Arc<TcpConfig>,
        app: A,
        seed: u64,
        wire: bool,
    ) -> Result<Self, ConfigError> {
        let mut random = Stream::new(seed, Component::Host, u64::from(id.0));
        let secret =
            (u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())).to_le_bytes();
        let tcp = Endpoint::new(EndpointConfig::new(tcp, secret))?;
        Ok(Self {
            tcp,
            app,
            through: wire.then(|| {
                Box::new(Through {
                    wire,
                    ..Through::default()
                })
            }),
            corrupt_in: 0,
            trimmed_in: 0,
        })
    }

    /// The TCP.
    pub fn tcp(&self) -> &SimEndpoint {
        &self.tcp
    }

    /// The TCP and the application, to do something to them from outside.
    pub fn parts_mut(&mut self) -> (&mut SimEndpoint, &mut A) {
        (&mut self.tcp, &mut self.app)
    }

    /// Hands its NIC up to so many bytes of payload as one packet, which the NIC cuts into segments:
    /// [`NicSpec::segmentation`](crate::net::NicSpec::segmentation) of that NIC.
    pub fn set_segmentation(&mut self, burst: u32) {
        let burst = burst.min(MAX_BURST);
        if burst > 0 {
            self.through.get_or_insert_default().burst = burst;
        }
    }

    /// As [`Host::transmit_into`], through more than nothing.
    #[inline(never)]
    fn transmit_through(&mut self, now: Instant, place: &mut Option<SimPacket>) -> Made {
        let Some(through) = self.through.as_mut() else {
            return Made::Nothing;
        };
        loop {
            if let Some((ip, tcp, payload, segment)) =
                self.tcp.poll_transmit_burst(now, through.burst.into())
            {
                let packet = SimPacket::new(&ip, &tcp, payload);
                let packet = if through.wire {
                    packet.through_bytes(&mut through.scratch)
                } else {
                    packet
                };
                let segment = u32::try_from(segment.get()).unwrap_or(u32::MAX);
                *place = Some(packet.cut_at(segment));
                return Made::Packet;
            }
            let Some(event) = self.tcp.poll_event() else {
                return Made::Nothing;
            };
            self.app.event(&mut self.tcp, now, event);
        }
    }

    /// A packet has come with something in its headers that is rare.
    #[inline(never)]
    fn handle_other(&mut self, now: Instant, packet: &SimPacket) {
        if let Some((segment, sack)) = packet.with_sack() {
            return (self.tcp).handle_sack(now, segment, sack, packet.payload());
        }
        let (ip, tcp, payload) = packet.parts();
        self.tcp.handle_packet(now, &ip, &tcp, payload);
    }

    /// A packet has come that did not come through whole.
    #[cold]
    fn discard(&mut self, packet: &SimPacket) {
        if packet.is_corrupt() {
            self.corrupt_in += 1;
        } else {
            self.trimmed_in += 1;
        }
    }

    #[inline(always)] // Of each packet.
    fn tell(&mut self, now: Instant) {
        while let Some(event) = self.tcp.poll_event() {
            self.app.event(&mut self.tcp, now, event);
        }
    }
}

impl<A: SimApp> Host for TcpHost<A> {
    type Packet = SimPacket;

    fn handle_start(&mut self, now: Instant) {
        self.app.start(&mut self.tcp, now);
    }

    #[inline(always)] // One place hands packets over.
    fn handle_packet(&mut self, now: Instant, packet: &SimPacket) {
        if !packet.is_intact() {
            cold_path();
            return self.discard(packet);
        }
        match packet.plain() {
            Some(plain) => self.tcp.handle_plain(now, plain, packet.payload()),
            None => self.handle_other(now, packet),
        }
        self.tell(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.tcp.handle_timeout(now);
        if self.app.poll_timeout().is_some_and(|at| at <= now) {
            self.app.timeout(&mut self.tcp, now);
        }
        self.tell(now);
    }

    fn poll_transmit(&mut self, now: Instant, room: impl FnOnce() -> NicRoom) -> Option<SimPacket> {
        let mut packet = None;
        match self.transmit_into(now, room, &mut packet) {
            Made::Packet => packet,
            Made::Nothing => None,
        }
    }

    #[inline(always)] // One place asks.
    fn transmit_into(
        &mut self,
        now: Instant,
        _room: impl FnOnce() -> NicRoom,
        place: &mut Option<SimPacket>,
    ) -> Made {
        if self.through.is_some() {
            return self.transmit_through(now, place);
        }
        loop {
            if self.tcp.transmit_into(now, place, SimPacket::of) == Made::Packet {
                return Made::Packet;
            }
            if !self.tcp.has_events() {
                return Made::Nothing;
            }
            // Sending may have closed a connection or made room.
            cold_path();
            let Some(event) = self.tcp.poll_event() else {
                return Made::Nothing;
            };
            self.app.event(&mut self.tcp, now, event);
        }
    }

    #[inline(always)]
    fn is_dry(&mut self, now: Instant) -> bool {
        self.tcp.is_dry(now) && !self.tcp.has_events()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        let [tcp, app] = [self.tcp.poll_timeout(), self.app.poll_timeout()];
        let next = tcp.unwrap_or(Instant::MAX).min(app.unwrap_or(Instant::MAX));
        (next != Instant::MAX).then_some(next)
    }

    fn local_drop(&mut self, now: Instant, packet: SimPacket) {
        let (ip, tcp, payload) = packet.parts();
        self.tcp
            .handle_local_drop(now, &ip, &tcp, payload.len as usize);
    }
}
