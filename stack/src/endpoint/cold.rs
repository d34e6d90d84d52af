//! What few packets touch of an endpoint with one connection, in a box of its own.

use super::challenge::EndpointBudget;
use super::config::EndpointConfig;
use super::cookies::Cookies;
use super::demux::Demux;
use super::isn::Secrets;
use super::listen::{Listener, ListenerId};
use super::metrics::MetricsCache;
use super::paths::Paths;
use super::ports::EphemeralPorts;
use super::stats::{EndpointStats, Opens};
use super::{SourceAddress, StrangerLimit, SynCookies, Tracer, fast_open};
use crate::config::TcpConfig;
use crate::conn::TcpTypes;
use crate::memory::Ledger;
use crate::rng::Rng;
use crate::sparse::Rarely;
use crate::wire::{IpHeader, TcpHeader};
use narrows_congestion::order::OrderedMap;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// See the module.
pub(super) struct Cold<T: TcpTypes> {
    pub(super) config: Kept,
    pub(super) free: Vec<u32>,
    /// By number. A number is not used again, so that what is left of a listener that is gone speaks of
    /// no other.
    pub(super) listeners: OrderedMap<ListenerId, Listener>,
    pub(super) next_listener: NonZeroU32,
    pub(super) secrets: Secrets,
    pub(super) cookies: Cookies,
    /// From the first active open on that asks for a port.
    pub(super) ports: Option<Box<EphemeralPorts>>,
    pub(super) paths: Paths,
    /// What is remembered of peers ([`EndpointConfig::metrics`]).
    pub(super) peers: Option<Box<MetricsCache>>,
    /// From the first active open on that asks for it.
    pub(super) fast_open: Option<Box<fast_open::Memory>>,
    pub(super) challenge: EndpointBudget,
    pub(super) rng: Rng,
    /// For the payload of packets that have none.
    pub(super) empty: T::Send,
    pub(super) opens: Opens,
    /// But for `opens`.
    pub(super) stats: Rarely<EndpointStats>,
    pub(super) ledger: Option<Arc<Ledger>>,
    /// How many are served yet; `None`: nobody takes packets in batches.
    pub(super) strangers: Option<u32>,
    pub(super) tracer: Option<Tracer>,
    pub(super) demux: Demux,
    #[allow(clippy::box_collection)] // One word for what hardly any has.
    pub(super) stray: Option<Box<VecDeque<(IpHeader, TcpHeader)>>>,
}

/// The values of an endpoint ([`EndpointConfig`]) that are asked for later.
pub(super) struct Kept {
    pub(super) tcp: Arc<TcpConfig>,
    pub(super) ports: RangeInclusive<u16>,
    pub(super) reset_strangers: bool,
    pub(super) syn_cookies: SynCookies,
    pub(super) source: Option<Arc<dyn SourceAddress>>,
    pub(super) strangers: Option<StrangerLimit>,
    fast_open_memory: u32,
}

impl<T: TcpTypes> Cold<T> {
    /// Of an endpoint without connections.
    pub(super) fn new(config: EndpointConfig) -> Self {
        let secrets = Secrets::new(&config.secret);
        Self {
            free: Vec::new(),
            demux: Demux::new(&secrets.table()),
            listeners: OrderedMap::new(),
            next_listener: NonZeroU32::MIN,
            ports: None,
            peers: config.metrics.map(MetricsCache::new),
            paths: Paths::default(),
            challenge: EndpointBudget::new(config.challenge_acks),
            cookies: Cookies(secrets.cookie()),
            fast_open: None,
            rng: secrets.random(1),
            secrets,
            stray: None,
            tracer: None,
            empty: T::Send::default(),
            opens: Opens::default(),
            stats: Rarely::default(),
            ledger: config.memory.map(Ledger::new),
            strangers: None,
            config: Kept {
                tcp: config.tcp,
                ports: config.ports,
                reset_strangers: config.reset_strangers,
                syn_cookies: config.syn_cookies,
                source: config.source,
                strangers: config.strangers,
                fast_open_memory: config.fast_open_memory,
            },
        }
    }

    /// How many answers to strangers wait to leave.
    pub(super) fn strays(&self) -> usize {
        self.stray.as_ref().map_or(0, |stray| stray.len())
    }

    /// What is remembered of servers.
    pub(super) fn fast_open(&mut self) -> &mut fast_open::Memory {
        let capacity = self.config.fast_open_memory;
        self.fast_open
            .get_or_insert_with(|| Box::new(fast_open::Memory::new(capacity)))
    }
}
