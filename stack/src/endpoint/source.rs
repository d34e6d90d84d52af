//! Which local address a connection is opened from, where the user does not say
//! (RFC 9293 MUST-44).

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Asks the IP layer: `GET_SRCADDR` of RFC 1122 section 3.4.
pub trait SourceAddress: Debug + Send + Sync {
    /// The local address from which packets to `remote` are to be sent; `None` if there is no
    /// route.
    fn source_for(&self, remote: IpAddr) -> Option<IpAddr>;
}

/// `local` with its address filled in, where it has none and the IP layer knows one.
pub(super) fn complete(
    source: Option<&Arc<dyn SourceAddress>>,
    local: SocketAddr,
    remote: SocketAddr,
) -> SocketAddr {
    if !local.ip().is_unspecified() {
        return local;
    }
    let found = source.and_then(|source| source.source_for(remote.ip()));
    SocketAddr::new(found.unwrap_or(local.ip()), local.port())
}
