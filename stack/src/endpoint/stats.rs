//! What an endpoint counts.

/// Counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Packets for no connection and no listener.
    pub strangers: u64,
    /// ... and those of them, SYNs too, that were dropped unanswered because there were too many
    /// ([`EndpointConfig::strangers`](super::EndpointConfig::strangers)).
    pub strangers_dropped: u64,
    /// Batches in which a driver handed packets over.
    pub batches: u64,
    /// RSTs sent to strangers.
    pub resets_sent: u64,
    /// SYNs dropped because a backlog was full.
    pub backlog_drops: u64,
    /// Active opens.
    pub active_opens: u64,
    /// Connections created for SYNs.
    pub passive_opens: u64,
    /// TIME-WAIT connections cut short by an acceptable new SYN (RFC 6191).
    pub time_wait_reuses: u64,
    /// SYNs answered with a cookie.
    pub cookies_sent: u64,
    /// Connections opened by a cookie that came back.
    pub cookies_accepted: u64,
    /// Acknowledgements that may have answered a cookie and did not.
    pub cookies_failed: u64,
    /// ICMP errors about TCP segments.
    pub icmp_errors: u64,
    /// Routers' claims that packets are too big which nobody looked at: there were too many about
    /// the path to that host.
    pub path_mtu_refused: u64,
    /// SYNs and SYN-ACKs that went unanswered until their timer fired, of all connections: those
    /// that came to nothing, too.
    pub handshake_timeouts: u64,
    /// Connections given to their user before the handshake was complete, by a Fast Open cookie.
    pub fast_open_accepted: u64,
    /// Fast Open cookies sent.
    pub fast_open_cookies_sent: u64,
    /// Fast Open cookies that came and were not good.
    pub fast_open_bad_cookies: u64,
    /// Good ones that were passed over because too many connections were pending.
    pub fast_open_overflows: u64,
    /// Active opens whose SYN had data that was taken, all of it.
    pub fast_open_passed: u64,
    /// Active opens with Fast Open that met a negative response (RFC 7413 section 4.1.3.1).
    pub fast_open_failed: u64,
}

/// Those of [`EndpointStats`] that connections move.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opens {
    pub(super) active: u64,
    pub(super) passive: u64,
    pub(super) handshake_timeouts: u64,
}
