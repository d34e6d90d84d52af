//! A host, as the world knows it.

use narrows::endpoint::Made;
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

    /// The same, put into `place` instead of what is there: packets are more than a few words, and are
    /// best made where they stay.
    #[inline]
    fn transmit_into(
        &mut self,
        now: Instant,
        room: impl FnOnce() -> NicRoom,
        place: &mut Option<Self::Packet>,
    ) -> Made {
        match self.poll_transmit(now, room) {
            None => Made::Nothing,
            packet => {
                *place = packet;
                Made::Packet
            }
        }
    }

    /// Whether it is certain, after the NIC took a packet, that [`Host::poll_transmit`] has no other
    /// now: then it is not asked.
    #[inline]
    fn is_dry(&mut self, now: Instant) -> bool {
        let _ = now;
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
