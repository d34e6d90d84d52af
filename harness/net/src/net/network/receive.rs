//! Hosts with a receive side ([`crate::net::nic::receive`]), among the others. Apart from the rest,
//! because most hosts take each packet as it arrives: those have nothing of this, and packets for the
//! others are caught where links do harm.

use std::collections::VecDeque;

use super::change::CHANGES;
use super::{HELD, Network};
use crate::net::nic::receive::{Aggregate, Receiver, Step};
use crate::net::nic::{HostStats, ReceiveSpec};
use crate::net::packet::{HostId, Merge, Packet};
use crate::net::port::Node;
use crate::net::stats::DropReason;
use crate::sim::queue::Event;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;

/// The ids of the events of hosts begin here: that of host h is this plus h. No packet held back has
/// one of them: slots end before.
pub(super) const RECEIVES: u32 = HELD | 0x7000_0000;
const _: () = assert!(RECEIVES < CHANGES);

/// What a poll has merged so far of one flow.
struct Head {
    aggregate: Aggregate,
    /// Payload of its first segment.
    segment: u32,
}

impl<P: Packet> Network<P> {
    /// Gives a host a receive side.
    pub(crate) fn set_receiver(&mut self, host: HostId, spec: ReceiveSpec) {
        if spec.is_direct() {
            return;
        }
        if self.receivers.len() <= host.index() {
            self.receivers.resize_with(host.index() + 1, || None);
        }
        self.receivers[host.index()] = Some(Box::new(Receiver::new(spec)));
        self.tell_link_to(host);
    }

    /// A host's receive offload is so many bytes from the next poll on. One that took each packet as it
    /// arrived has a ring from now on.
    pub(super) fn set_offload(&mut self, host: HostId, most: u32) {
        match self.receiver_mut(host) {
            Some(receiver) => receiver.set_offload(most),
            None => self.set_receiver(
                host,
                ReceiveSpec {
                    offload: most,
                    ..ReceiveSpec::DIRECT
                },
            ),
        }
    }

    /// Whether a host has a receive side.
    pub(super) fn has_receiver(&self, host: HostId) -> bool {
        self.receivers
            .get(host.index())
            .is_some_and(Option::is_some)
    }

    /// What a host's receive side and processor have done until `now`; `None` if it takes each packet
    /// as it arrives.
    pub fn host_stats(&self, now: SimTime, host: HostId) -> Option<HostStats> {
        let receiver = self.receivers.get(host.index())?.as_ref()?;
        Some(receiver.stats(now))
    }

    /// Frames in a host's fullest ring, if it pauses who sends to it.
    pub(super) fn ring_frames(&self, host: HostId) -> Option<usize> {
        self.receivers.get(host.index())?.as_ref()?.pauses_at()
    }

    fn receiver_mut(&mut self, host: HostId) -> Option<&mut Receiver> {
        self.receivers.get_mut(host.index())?.as_deref_mut()
    }

    /// The packet in slot `i`, from port `at`, reaches the NIC of a host with a receive side.
    pub(super) fn reach_ring<T: Tap<P>>(
        &mut self,
        now: SimTime,
        at: u32,
        host: HostId,
        i: u32,
        tap: &mut T,
    ) {
        let packet = self.slab.body(i);
        let receiver = self.receivers.get_mut(host.index());
        let receiver = receiver.and_then(|receiver| receiver.as_deref_mut());
        let (taken, pauses) = receiver.map_or((false, None), |receiver| {
            let queue = receiver.queue_of(packet);
            (receiver.arrive(now, i, queue), receiver.pauses_at())
        });
        if let Some(frames) = pauses {
            self.ring_holds(host, frames, now, tap);
        }
        if taken {
            if T::ACTIVE {
                tap.event(now, TapEvent::Reached { host }, self.slab.body(i));
            }
            // All frames of this instant are in the ring when it is looked at.
            self.arm_receiver(host, now);
        } else {
            self.discard(now, at, i, DropReason::RingFull, tap);
        }
    }

    /// The NIC of a host loses what its rings hold.
    pub(super) fn lose_rings(&mut self, host: HostId) -> Vec<u32> {
        let receiver = self.receiver_mut(host);
        receiver.map(Receiver::lose_rings).unwrap_or_default()
    }

    /// Has the host's receive side looked at, at `time`.
    pub(super) fn arm_receiver(&mut self, host: HostId, time: SimTime) {
        if let Some(receiver) = self.receiver_mut(host)
            && time < receiver.armed
        {
            receiver.armed = time;
            self.events.push(Event {
                time,
                // After all else of its instant.
                rank: u32::MAX,
                id: RECEIVES + host.0,
            });
        }
    }

    /// Goes on with the receive side of a host. If a packet reaches it: as [`Network::handle`].
    #[cold]
    pub(super) fn handle_receiver<T: Tap<P>>(
        &mut self,
        now: SimTime,
        host: HostId,
        tap: &mut T,
    ) -> Option<(HostId, u32)> {
        let receiver = self.receiver_mut(host)?;
        if receiver.armed != now {
            return None; // Stale.
        }
        receiver.armed = SimTime::MAX;
        if self.is_paused(host) {
            return None; // It is armed again when it wakes.
        }
        loop {
            let receiver = self.receiver_mut(host)?;
            match receiver.step(now) {
                Step::Wait(time) => {
                    self.arm_receiver(host, time.max(now));
                    return None;
                }
                Step::Poll { core, frames } => {
                    let most = receiver.offload();
                    if let Some(frames) = receiver.pauses_at() {
                        self.ring_holds(host, frames, now, tap);
                    }
                    let aggregates = self.merge(frames, most);
                    self.receiver_mut(host)?.polled(core, aggregates);
                }
                Step::Deliver(slot) => {
                    // What it sends because of this is done first.
                    self.arm_receiver(host, now);
                    let at = self.port_to(host)?;
                    return self.arrive(now, at.0, Node::Host(host.0), slot, tap);
                }
            }
        }
    }

    /// Merges what a poll took, as `dev_gro_receive` of Linux does: an aggregate of each flow is open
    /// until a packet of its flow does not go with it or is its last, or the poll is over.
    fn merge(&mut self, frames: Vec<u32>, most: u32) -> VecDeque<Aggregate> {
        let mut done = VecDeque::with_capacity(frames.len());
        let mut open: Vec<Head> = Vec::new();
        for slot in frames {
            let flow = self.slab.body(slot).flow_hash();
            let packet = self.slab.body(slot);
            let payload = packet.wire_len() - packet.header_len().min(packet.wire_len());
            let alone = Aggregate {
                slot,
                flow,
                payload,
                frames: 1,
            };
            if most == 0 {
                done.push_back(alone);
                continue;
            }
            if let Some(at) = open.iter().position(|head| head.aggregate.flow == flow) {
                let head = &mut open[at];
                let next = packet.clone();
                let body = self.slab.body_mut(head.aggregate.slot);
                let merged = body.merge(&next, head.segment, most);
                if merged != Merge::No {
                    head.aggregate.payload += payload;
                    head.aggregate.frames += 1;
                    self.totals.delivered += 1;
                    self.slab.free(slot);
                }
                if merged != Merge::Yes {
                    done.push_back(open.remove(at).aggregate);
                }
                if merged != Merge::No {
                    continue;
                }
            }
            if self.slab.body(slot).leads() {
                open.push(Head {
                    aggregate: alone,
                    segment: payload,
                });
            } else {
                done.push_back(alone);
            }
        }
        done.extend(open.into_iter().map(|head| head.aggregate));
        done
    }

    /// A host's processor has given its NIC a packet.
    pub(super) fn charge_sent(&mut self, now: SimTime, host: HostId, flow: u32, payload: u32) {
        if let Some(receiver) = self.receiver_mut(host) {
            receiver.sent(now, flow, payload);
        }
    }
}
