//! Where connections are kept: slots, who has something to send, what happened, when they end.

use super::chunks::{Cell, LAST, NOT_QUEUED, Slot};
use super::cold::Cold;
use super::demux::{FourTuple, LastFound};
use super::metrics::PathMetrics;
use super::ports::EphemeralPorts;
use super::{ConnId, Endpoint, EndpointEvent, Events, ListenerId};
use crate::conn::state::CloseReason;
use crate::conn::{Connection, Event, Opening, TcpTypes};
use crate::fast_open::{FastOpenStatus, Finding};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, CongestionControl, Instant};
use std::net::SocketAddr;

impl<T: TcpTypes> Endpoint<T> {
    pub(super) fn id(&mut self, slot: u32) -> ConnId {
        let generation = self.slots.at(slot).generation;
        ConnId { slot, generation }
    }

    /// The connection in `slot` may have something to send.
    pub(super) fn touch(&mut self, slot: u32) {
        let s = self.slots.at(slot);
        self.finished = false;
        if s.next_dirty == NOT_QUEUED {
            s.next_dirty = LAST;
            self.append_dirty(slot);
        }
    }

    /// `slot`, marked as the last, joins the queue of those that may have something to send.
    #[inline(always)] // Of each packet.
    pub(super) fn append_dirty(&mut self, slot: u32) {
        if self.first_dirty == LAST {
            self.first_dirty = slot;
        } else {
            cold_path();
            self.slots.at(self.last_dirty).next_dirty = slot;
        }
        self.last_dirty = slot;
    }

    /// Take the first connection out of the queue of those that may have something to send.
    pub(super) fn pop_dirty(&mut self) {
        if let Some(s) = self.slots.get_mut(self.first_dirty as usize) {
            self.first_dirty = std::mem::replace(&mut s.next_dirty, NOT_QUEUED);
        }
    }

    pub(super) fn after_input(&mut self, slot: u32, now: Instant) {
        let s = self.slots.at(slot);
        if s.conn.as_ref().is_some_and(Connection::has_events) {
            self.cold.tell_user(s, slot, &mut self.events, now);
        }
        self.touch(slot);
    }

    /// The connection in `slot` is over, and has nothing to send.
    #[cold]
    pub(super) fn settle_closed(&mut self, slot: u32) {
        self.unbind(slot);
        if self.slots.at(slot).released {
            self.free_slot(slot);
        }
    }

    /// The addresses of the connection in `slot` are free, if they are its still.
    fn unbind(&mut self, slot: u32) {
        let conn = self.slots.at(slot).conn.as_ref();
        if let Some(tuple) = conn.map(Connection::tuple)
            && self.cold.demux.lookup(&tuple) == Some(slot)
        {
            self.last_found = LastFound::NONE;
            self.cold.demux.remove(&tuple);
            if let Some(ports) = &mut self.cold.ports {
                ports.on_closed(&tuple);
            }
        }
    }

    pub(super) fn add(
        &mut self,
        tuple: FourTuple,
        mut conn: Connection<T>,
        listener: Option<ListenerId>,
        now: Instant,
    ) -> u32 {
        let free = self.cold.free.pop();
        let slot = free.unwrap_or_else(|| self.slots.add());
        // Both callers have looked: there is no such connection.
        self.cold.demux.insert(&tuple, slot);
        if let Some(ports) = &mut self.cold.ports {
            ports.on_opened(&tuple);
        }
        if let Some(ledger) = &self.cold.ledger {
            conn.charge_to(ledger);
        }
        if let Some(of) = listener.and_then(|id| self.cold.listeners.get_mut(&id)) {
            of.stats.embryonic += 1;
        }
        let id = self.id(slot);
        if let Some(tracer) = &mut self.cold.tracer {
            conn.set_trace(tracer(now, id, &tuple));
        }
        let s = self.slots.at(slot);
        s.released = false;
        s.news = self.news;
        s.listener = listener;
        s.conn = Cell::Taken(conn);
        self.touch(slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) {
        self.unbind(slot);
        self.wheel.cancel(slot);
        let id = self.id(slot);
        if !self.slots.at(slot).released {
            let event = Event::Closed(CloseReason::Finished);
            self.events.push(EndpointEvent::Conn { conn: id, event });
        }
        self.free_slot(slot);
    }

    pub(super) fn free_slot(&mut self, slot: u32) {
        let s = self.slots.at(slot);
        s.conn = Cell::Free;
        s.generation = s.generation.wrapping_add(1);
        self.cold.free.push(slot);
    }

    pub(super) fn opening(&mut self, tuple: FourTuple, now: Instant) -> Opening {
        let peers = self.cold.peers.as_mut();
        let metrics = peers.map(|peers| peers.get(tuple.remote.ip(), now));
        Opening {
            local: tuple.local,
            remote: tuple.remote,
            iss: self.cold.secrets.isn(now, &tuple),
            timestamp_offset: self.cold.secrets.timestamp_offset(&tuple),
            metrics: metrics.unwrap_or_default(),
            seed: self.cold.rng.next_u64(),
        }
    }

    /// A local port for `tuple`, which has none.
    pub(super) fn pick_port(&mut self, tuple: &FourTuple) -> Option<u16> {
        let demux = &mut self.cold.demux;
        let (config, secrets) = (&self.cold.config, &self.cold.secrets);
        let ports = self.cold.ports.get_or_insert_with(|| {
            Box::new(EphemeralPorts::new(config.ports.clone(), secrets.random(2)))
        });
        let (local, remote) = (tuple.local.ip(), tuple.remote);
        ports.choose(secrets, local, remote, |port| {
            let tuple = FourTuple::new(SocketAddr::new(local, port), remote);
            demux.lookup(&tuple).is_none()
        })
    }
}

impl<T: TcpTypes> Cold<T> {
    /// Tells the user what the connection in `s`, which is slot `slot`, has to tell.
    #[inline]
    pub(super) fn tell_user(
        &mut self,
        s: &mut Slot<T>,
        slot: u32,
        events: &mut Events,
        now: Instant,
    ) {
        let generation = s.generation;
        let Some(conn) = s.conn.as_mut() else {
            return;
        };
        if conn.take_readable_alone() {
            // Of several segments of one connection the user hears once.
            let readable = EndpointEvent::Conn {
                conn: ConnId { slot, generation },
                event: Event::Readable,
            };
            if !s.released && events.only() != Some(&readable) {
                events.push(readable);
            }
            return;
        }
        self.tell_user_more(s, slot, events, now);
    }

    /// The same where it is more than that there is something to read.
    #[inline(never)]
    fn tell_user_more(&mut self, s: &mut Slot<T>, slot: u32, events: &mut Events, now: Instant) {
        let generation = s.generation;
        let conn_id = ConnId { slot, generation };
        let listener = s.listener;
        let Some(conn) = s.conn.as_mut() else {
            return;
        };
        while let Some(event) = conn.poll_event() {
            if matches!(event, Event::Closed(_))
                && let Some(peers) = &mut self.peers
            {
                // Whoever hears of it may open the next at once.
                peers.update(conn.remote().ip(), &learned_by(conn), now);
            }
            let ends_opening = matches!(event, Event::Connected | Event::Closed(_));
            if ends_opening && let Some(report) = conn.take_fast_open_report() {
                let tuple = conn.tuple();
                self.fast_open().learn(&tuple, &report);
                let stats = self.stats.change();
                stats.fast_open_passed += u64::from(conn.fast_open() == FastOpenStatus::Accepted);
                stats.fast_open_failed += u64::from(report.finding == Finding::Fails);
            }
            // Other events are not its listener's, which is out of the cache.
            let of = listener.filter(|_| ends_opening);
            let mut of = of.and_then(|id| self.listeners.get_mut(&id));
            if ends_opening && conn.is_early() {
                if let Some(news) = conn.take_early()
                    && let Some(of) = &mut of
                {
                    of.on_early(news);
                }
                if event == Event::Connected && conn.was_handed_over() {
                    continue;
                }
            }
            if let (Event::Connected, Some(listener), Some(of)) = (event, listener, &mut of) {
                of.on_established();
                events.push(EndpointEvent::Accepted {
                    listener,
                    conn: conn_id,
                });
                continue;
            }
            if matches!(event, Event::Closed(_))
                && listener.is_some()
                && !conn.was_established()
                && !conn.is_early()
            {
                // Nobody has heard of it.
                if let Some(of) = of {
                    of.on_failed();
                }
                s.released = true;
            }
            if !s.released {
                events.push(EndpointEvent::Conn {
                    conn: conn_id,
                    event,
                });
            }
        }
    }
}

/// What the next connection to the same peer may start with.
fn learned_by<T: TcpTypes>(conn: &Connection<T>) -> PathMetrics {
    let sender = conn.sender();
    let ssthresh = sender.congestion().ssthresh();
    PathMetrics {
        srtt: sender.rtt().srtt(),
        rttvar: sender.rtt().srtt().map(|_| sender.rtt().rttvar()),
        ssthresh: (ssthresh != ByteCount::MAX).then_some(ssthresh),
        path_mtu: None,
    }
}
