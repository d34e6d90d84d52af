//! The values of an endpoint.

use super::challenge::ChallengeLimit;
use super::metrics::MetricsConfig;
use super::ports::EphemeralPorts;
use super::{StrangerLimit, SynCookies};
use crate::config::TcpConfig;
use crate::memory::MemoryLimit;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

/// Which local address a connection is opened from, where the user does not say (RFC 9293 MUST-44):
/// asks the IP layer, `GET_SRCADDR` of RFC 1122 section 3.4.
pub trait SourceAddress: Debug + Send + Sync {
    /// The local address from which packets to `remote` are to be sent; `None` if there is no
    /// route.
    fn source_for(&self, remote: IpAddr) -> Option<IpAddr>;
}

/// Values of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// How connections behave unless they are given a configuration of their own.
    pub tcp: Arc<TcpConfig>,
    /// Everything unpredictable is derived from this: ISNs, ports, hash keys. From the operating
    /// system on a live host; from the simulation's seed in the simulator.
    pub secret: [u8; 16],
    /// Ephemeral ports for active opens (RFC 6056).
    pub ports: std::ops::RangeInclusive<u16>,
    /// Remember RTT, ssthresh and path MTU per peer (RFC 9040); `None` is off.
    pub metrics: Option<MetricsConfig>,
    /// Challenge ACKs of all connections together (RFC 5961 section 7).
    pub challenge_acks: ChallengeLimit,
    /// Answer segments that belong to no connection with a RST (RFC 9293 section 3.10.7.1).
    pub reset_strangers: bool,
    /// When listeners answer SYNs without keeping state.
    pub syn_cookies: SynCookies,
    /// Where [`Endpoint::connect`](super::Endpoint::connect) asks for the local address if it is given none; `None`: it must
    /// be given.
    pub source: Option<Arc<dyn SourceAddress>>,
    /// How much is done for strangers while packets come in batches; `None`: whatever they ask
    /// for.
    pub strangers: Option<StrangerLimit>,
    /// How much memory the connections may take together, see [`memory`](crate::memory); `None`:
    /// what their own buffers allow, times their number.
    pub memory: Option<MemoryLimit>,
    /// Servers whose Fast Open cookie is remembered, and services that did not take it
    /// (RFC 7413 section 4.1.3), together.
    pub fast_open_memory: u32,
}

impl EndpointConfig {
    /// The defaults, with the given TCP and secret.
    pub fn new(tcp: Arc<TcpConfig>, secret: [u8; 16]) -> Self {
        Self {
            tcp,
            secret,
            ports: EphemeralPorts::DYNAMIC,
            metrics: None,
            challenge_acks: ChallengeLimit::ENDPOINT,
            reset_strangers: true,
            syn_cookies: SynCookies::default(),
            source: None,
            strangers: Some(StrangerLimit::default()),
            memory: None,
            fast_open_memory: 1_024,
        }
    }
}
