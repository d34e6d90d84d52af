//! The world: hosts on a network, and the loop that drives them through virtual time.
//!
//! A host is sans-I/O. The world calls, at one instant and in this order: `handle_start` if its
//! start has come, `handle_packet` or `handle_timeout`, then `poll_transmit` until it has
//! nothing more or its NIC refuses, then `poll_timeout`. A packet is handled before a timer of
//! the same instant; packets of one instant in the order of their links; timers in the order of
//! their hosts.
//!
//! Each host has one timer in the world. It is moved when the host's deadline comes nearer and
//! left alone when it recedes: then it fires early, the host is asked again, and nothing else
//! happens. So a retransmission timer that each ACK pushes back costs nothing per ACK.

use super::ahead::Ahead;
use super::numbered::Numbered;
use super::rng::{Component, Stream};
use super::slab::Hop;
use super::slot::Slot;
use super::tap::{NoTap, Tap};
use super::time::SimTime;
use super::timers::Timers;
use crate::net::change::{Change, ChangeError};
use crate::net::network::{Concerns, Network, Sent};
use crate::net::packet::HostId;
use narrows::endpoint::Made;
use narrows_congestion::Instant;
use narrows_congestion::hint::cold_path;

pub use super::host::Host;

/// Where a run stops at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events in all.
    pub events: u64,
    /// Events at one instant, one at least: more means that time stands still.
    pub events_at_once: u64,
    /// Virtual time.
    pub time: SimTime,
}

impl Default for Limits {
    /// 10^12 events, 10^8 at one instant, no limit of time.
    fn default() -> Self {
        Self {
            events: 1_000_000_000_000,
            events_at_once: 100_000_000,
            time: SimTime::MAX,
        }
    }
}

/// Why a run returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Halt {
    /// The time asked for is reached: all events until then are done.
    Reached,
    /// The condition no longer holds.
    Stopped,
    /// Nothing is left to happen: no packet under way, no timer armed.
    Idle,
    /// [`Limits::events`].
    EventLimit,
    /// [`Limits::time`].
    TimeLimit,
    /// [`Limits::events_at_once`]: most likely a host whose timer does not advance.
    Standstill,
    /// [`Network::set_packet_limit`].
    PacketLimit,
}

/// What a host is asked for packets after.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    ByPacket,
    ByTimer,
}

/// Whether a timer was due for anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fired {
    ForHost,
    /// The host's deadline has receded.
    ForNothing,
}

/// Hosts on a network.
#[derive(Debug)]
pub struct World<H: Host, T: Tap<H::Packet> = NoTap> {
    hosts: Numbered<H>,
    slots: Numbered<Slot>,
    network: Network<H::Packet>,
    timers: Timers,
    now: SimTime,
    /// Events until [`Limits::events`].
    events_left: u64,
    /// Events at `now` so far.
    events_at_once: u64,
    limits: Limits,
    tap: T,
    ahead: Ahead,
}

impl<H: Host> World<H> {
    /// Puts `hosts` on `network`, which has as many. Nothing happens before [`Self::start_at`]
    /// or [`Self::kick`].
    ///
    /// # Panics
    /// If the number of hosts is not that of the network.
    pub fn new(network: Network<H::Packet>, hosts: Vec<H>) -> Self {
        Self::with_tap(network, hosts, NoTap)
    }
}

impl<H: Host, T: Tap<H::Packet>> World<H, T> {
    /// The same with somebody who listens.
    ///
    /// # Panics
    /// If the number of hosts is not that of the network.
    pub fn with_tap(network: Network<H::Packet>, hosts: Vec<H>, tap: T) -> Self {
        assert_eq!(
            hosts.len(),
            network.hosts() as usize,
            "one host for each NIC"
        );
        Self {
            slots: vec![Slot::IDLE; hosts.len()].into(),
            timers: Timers::new(hosts.len()),
            hosts: hosts.into(),
            network,
            now: SimTime::ZERO,
            events_left: Limits::default().events,
            events_at_once: 0,
            limits: Limits::default(),
            tap,
            ahead: Ahead::default(),
        }
    }

    /// Sets where runs stop at the latest.
    pub fn set_limits(&mut self, limits: Limits) {
        let events = self.events();
        self.limits = limits;
        // So many it has been, whatever is asked for now.
        self.limits.events = limits.events.max(events);
        self.events_left = self.limits.events - events;
    }

    /// Calls [`Host::handle_start`] of `host` at `time`, or now if that is past.
    pub fn start_at(&mut self, host: HostId, time: SimTime) {
        let time = time.max(self.now);
        self.slots[host.0].start = time;
        if !self.network.is_paused(host) {
            self.arm(host);
        }
    }

    /// Starts each host at `time` and up to `jitter` later, drawn from a stream of its own.
    pub fn start_all(&mut self, seed: u64, time: SimTime, jitter: SimTime) {
        for h in 0..self.network.hosts() {
            let late = Stream::new(seed, Component::Start, u64::from(h)).jitter(jitter);
            self.start_at(HostId(h), time + late);
        }
    }

    /// Now.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Events so far: arrivals of packets at nodes, and timers.
    pub fn events(&self) -> u64 {
        self.limits.events - self.events_left
    }

    /// The hosts.
    pub fn hosts(&self) -> &[H] {
        &self.hosts
    }

    /// A host. After changing what it may want, call [`Self::kick`].
    ///
    /// # Panics
    /// If there is no such host.
    pub fn host_mut(&mut self, host: HostId) -> &mut H {
        &mut self.hosts[host.0]
    }

    /// Asks a host for packets and its timeout after something was done to it from outside. One
    /// that pauses is asked when it goes on.
    pub fn kick(&mut self, host: HostId) {
        if self.network.is_paused(host) {
            self.slots[host.0].nic_wake = self.now;
        } else {
            self.serve(host);
        }
    }

    /// Makes a change at this time, after all that has happened at it; see
    /// [`net::change`](crate::net::change).
    ///
    /// # Errors
    /// What cannot be; nothing has changed then.
    pub fn apply(&mut self, change: &Change) -> Result<(), ChangeError> {
        match self.network.apply(self.now, change, &mut self.tap)? {
            Concerns::Network => {}
            Concerns::Nic(host) => self.nic_changed(host),
            Concerns::Pause(host, until) => {
                // Nothing arms it for earlier: it is asked for nothing until then.
                self.slots[host.0].armed = until;
                self.timers.set(host.0, until);
            }
        }
        Ok(())
    }

    /// Lets time pass until `time` where nothing is left to happen ([`Halt::Idle`]), for
    /// [`Self::apply`] then; otherwise does nothing.
    pub fn pass(&mut self, time: SimTime) {
        if self.is_idle() {
            self.now = self.now.max(time);
        }
    }

    /// A host's NIC has more room, or will have it at another time.
    fn nic_changed(&mut self, host: HostId) {
        let room = self.network.nic_room(self.now, host);
        if room.packets() > 0 && room.bytes() > 0 {
            return self.kick(host);
        }
        let wake = self.network.nic_next_departure(self.now, host);
        self.slots[host.0].nic_wake = wake.unwrap_or(SimTime::MAX);
        if !self.network.is_paused(host) {
            self.arm(host);
        }
    }

    /// Whether nothing is left to happen.
    fn is_idle(&self) -> bool {
        self.network.events.is_empty() && self.timers.next_id().is_none()
    }

    /// The network.
    pub fn network(&self) -> &Network<H::Packet> {
        &self.network
    }

    /// The network, for questions that look at a queue now.
    pub fn network_mut(&mut self) -> &mut Network<H::Packet> {
        &mut self.network
    }

    /// The hosts, and the network for questions that look at a queue now.
    pub fn parts_mut(&mut self) -> (&[H], &mut Network<H::Packet>) {
        (&self.hosts, &mut self.network)
    }

    /// Who listens.
    pub fn tap_mut(&mut self) -> &mut T {
        &mut self.tap
    }

    /// The same world with somebody else who listens, and who did before. What does not run is so
    /// compiled for one tap only, whoever listens while it runs.
    pub fn heard_by<U: Tap<H::Packet>>(self, tap: U) -> (World<H, U>, T) {
        let world = World {
            hosts: self.hosts,
            slots: self.slots,
            network: self.network,
            timers: self.timers,
            now: self.now,
            events_left: self.events_left,
            events_at_once: self.events_at_once,
            limits: self.limits,
            tap,
            ahead: self.ahead,
        };
        (world, self.tap)
    }

    /// Takes the world apart.
    pub fn into_parts(self) -> (Vec<H>, Network<H::Packet>, T) {
        (self.hosts.into_inner(), self.network, self.tap)
    }

    /// Does all events until `time`, those at `time` included, and stands at `time` then
    /// ([`Halt::Reached`]), or returns sooner. [`Halt::Idle`] leaves time where the last
    /// event was.
    pub fn run_until(&mut self, time: SimTime) -> Halt {
        self.run(time, |_| true)
    }

    /// Does events as long as `goes_on` says so; it is asked after each one that concerned a
    /// host, never before the first.
    pub fn run_while(&mut self, goes_on: impl FnMut(&Self) -> bool) -> Halt {
        self.run(SimTime::MAX, goes_on)
    }

    /// Both: until `time` at the latest.
    pub fn run(&mut self, time: SimTime, mut goes_on: impl FnMut(&Self) -> bool) -> Halt {
        let end = time.min(self.limits.time);
        loop {
            if self.events_left == 0 {
                return Halt::EventLimit;
            }
            let timer = self.timers.next_time();
            let (host, now, woken) =
                if let Some(event) = self.network.events.pop_until(timer.min(end)) {
                    if !self.step_to(event.time) {
                        return Halt::Standstill;
                    }
                    let handled = self.network.handle(event, &mut self.tap);
                    self.attend();
                    let Some((host, slot)) = handled else {
                        continue;
                    };
                    let instant = event.time.to_instant();
                    self.hosts[host.0].handle_packet(instant, self.network.packet(slot));
                    self.network.release(slot);
                    (host, event.time, Woken::ByPacket)
                } else if timer <= end
                    && let Some(host) = self.timers.next_id()
                {
                    if !self.step_to(timer) {
                        return Halt::Standstill;
                    }
                    if self.fire(HostId(host)) == Fired::ForNothing {
                        continue;
                    }
                    (HostId(host), timer, Woken::ByTimer)
                } else {
                    return self.ended(time, end);
                };
            self.serve_here(host, now, now.to_instant());
            if woken == Woken::ByTimer {
                self.fired(host);
            }
            if self.network.overflowed {
                return Halt::PacketLimit;
            }
            if !goes_on(self) {
                return Halt::Stopped;
            }
        }
    }

    /// Looks at what the network says after an event.
    #[inline(always)]
    fn attend(&mut self) {
        if self.network.attends {
            cold_path();
            self.attend_to_all();
        }
    }

    /// The same where it says anything.
    #[inline(never)]
    fn attend_to_all(&mut self) {
        self.network.attends = false;
        Ahead::of_packets(&self.hosts, &self.slots, &mut self.network);
        if self.network.has_moved() {
            self.nics_moved();
        }
    }

    /// Asks the hosts whose NICs have room at another time than was said.
    #[cold]
    fn nics_moved(&mut self) {
        for host in self.network.take_moved() {
            if !self.network.is_paused(host) {
                self.nic_changed(host);
            }
        }
    }

    /// Nothing is due until `end`.
    fn ended(&mut self, time: SimTime, end: SimTime) -> Halt {
        if self.is_idle() {
            return Halt::Idle;
        }
        self.now = self.now.max(end);
        if end < time {
            Halt::TimeLimit
        } else {
            Halt::Reached
        }
    }

    /// Moves time; false if too much has happened without it moving.
    #[inline]
    fn step_to(&mut self, time: SimTime) -> bool {
        debug_assert!(
            time >= self.now,
            "time goes back from {:?} to {time:?}",
            self.now
        );
        self.events_left -= 1;
        if time > self.now {
            self.now = time;
            self.events_at_once = 1;
            return true;
        }
        cold_path();
        self.events_at_once += 1;
        self.events_at_once <= self.limits.events_at_once
    }

    /// A host's timer is due.
    #[inline(never)]
    fn fire(&mut self, host: HostId) -> Fired {
        let now = self.now;
        let slot = &mut self.slots[host.0];
        let h = &mut self.hosts[host.0];
        let starts = slot.start <= now;
        let nic_wakes = slot.nic_wake <= now;
        // The entry is used up, or names a deadline that has receded. It stays where it is, to be
        // moved in place if the timer is armed again.
        slot.armed = SimTime::MAX;
        if starts {
            slot.start = SimTime::MAX;
            h.handle_start(now.to_instant());
        }
        let instant = now.to_instant();
        let due = h.poll_timeout().is_some_and(|t| t <= instant);
        if due {
            h.handle_timeout(instant);
        }
        if starts || due || nic_wakes {
            return Fired::ForHost;
        }
        self.arm(host);
        self.fired(host);
        Fired::ForNothing
    }

    /// A host's timer has been due, and is armed again if the host wants that.
    #[inline(never)]
    fn fired(&mut self, host: HostId) {
        if self.slots[host.0].armed == SimTime::MAX {
            self.timers.cancel(host.0);
        }
        if self.network.looks_ahead {
            let (hosts, slots) = (&self.hosts, &self.slots);
            self.ahead
                .of_timers(hosts, slots, &self.timers, &self.network);
        }
    }

    /// Lets a host send what it wants, and arms its timer.
    #[inline(never)]
    fn serve(&mut self, host: HostId) {
        self.serve_here(host, self.now, self.now.to_instant());
    }

    /// The same, after a packet has come.
    #[inline(always)]
    fn serve_here(&mut self, host: HostId, now: SimTime, instant: Instant) {
        let h = &mut self.hosts[host.0];
        let mut refused = false;
        self.network.settle_nic(host, now);
        loop {
            let (room, place) = self.network.draft(host);
            if h.transmit_into(instant, room, place) == Made::Nothing {
                break;
            }
            let Some(hop) = place.as_ref().map(Hop::of) else {
                break;
            };
            if self.network.send_settled(now, host, hop, &mut self.tap) == Sent::Refused {
                if let Some(packet) = self.network.withdraw() {
                    h.local_drop(instant, packet);
                }
                refused = true;
                break;
            }
            if h.is_dry(instant) {
                break;
            }
        }
        let waits = refused || h.waits_for_nic();
        let wake = if waits {
            self.network.nic_next_departure(now, host)
        } else {
            None
        };
        let slot = &mut self.slots[host.0];
        slot.nic_wake = wake.unwrap_or(SimTime::MAX);
        if let Some(at) = slot.rearm(h.poll_timeout(), now) {
            self.timers.set(host.0, at);
        }
    }

    /// Arms a host's timer for its nearest deadline, unless it is armed for earlier already.
    #[inline(never)]
    fn arm(&mut self, host: HostId) {
        let timeout = self.hosts[host.0].poll_timeout();
        if let Some(at) = self.slots[host.0].rearm(timeout, self.now) {
            self.timers.set(host.0, at);
        }
    }
}
