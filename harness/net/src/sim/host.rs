//! A host, as the world knows it.

use narrows_congestion::Instant;

use crate::net::nic::NicRoom;
use crate::net::packet::Packet;

/// A host: a protocol endpoint with its application.
pub trait Host {
    /// What it sends and receives.
    type Packet: Packet;

    /// Its start time has come ([`World::start_at`](super::World::start_at)). A host that waits for others needs none:
    /// packets reach it from the beginning.
    fn handle_start(&mut self, now: Instant) {
        let _ = now;
    }

    /// This will soon happen to it: a hint, to ask for what it wants to have at hand then. With few
    /// hosts none hears of anything.
    #[inline]
    fn ask_ahead(&self, coming: Coming<'_, Self::Packet>) {
        let _ = coming;
    }

    /// A packet for it has arrived.
    fn handle_packet(&mut self, now: Instant, packet: &Self::Packet);

    /// The time that it named in [`Host::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet that it wants to send now. Called after every other call until `None`, or
    /// until the NIC refuses a packet; then again when a packet has left the NIC. `room` is what
    /// the NIC will take for certain.
    fn poll_transmit(
        &mut self,
        now: Instant,
        room: impl FnOnce() -> NicRoom,
    ) -> Option<Self::Packet>;

    /// Whether it is certain, after the NIC took a packet, that [`Host::poll_transmit`] has no other
    /// now: then it is not asked.
    #[inline]
    fn is_dry(&mut self) -> bool {
        false
    }

    /// When it wants [`Host::handle_timeout`] to be called; `None` for never. A time in the past
    /// is now. After a call at or after the named time this has to be later, or `None`.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The NIC refused `packet` (ENOBUFS).
    fn local_drop(&mut self, now: Instant, packet: Self::Packet);

    /// Whether it holds something back because of the room in the NIC: it is then asked again
    /// when a packet has left the NIC.
    #[inline]
    fn waits_for_nic(&self) -> bool {
        false
    }
}

/// What will soon happen to a host, if nothing comes between: [`Host::ask_ahead`].
#[derive(Clone, Copy, Debug)]
pub enum Coming<'a, P> {
    /// A packet arrives. What the host reads now it waits for.
    Packet,
    /// This one does, and the host is at hand: it was told of another a moment ago.
    Another(&'a P),
    /// The packet is this one, and what was asked for has come: it tells what else to ask for.
    PacketAtHand(&'a P),
    /// Its timer fires.
    Timeout,
    /// Its timer fires, and what was asked for has come.
    TimeoutAtHand,
}
