//! A window that counts packets, whatever their size, as Linux's `snd_cwnd` does; RFC 5681 counts
//! bytes.
//!
//! The congestion control goes on in bytes, of which each segment stands for a full one: a window
//! of three segments is full with three of one byte each, and their acknowledgement lets it grow
//! as that of three full ones would (Linux `tcp_cwnd_test`, `tcp_packets_in_flight`,
//! `tcp_is_cwnd_limited`).
//!
//! How many more records may be outstanding is granted when the limit that a sender has on them
//! anyway is reached, and the grant ends with each acknowledgement and each change of the window:
//! a sender that counts bytes does nothing for it.
//!
//! Left out: proportional rate reduction, which lets out bytes here and packets there; it lets out
//! as many segments as its bytes would be if they were full, and one at least.

/// What a sender that counts packets keeps.
#[derive(Clone, Debug)]
pub(super) struct PacketCount {
    /// Records on the scoreboard at most, whatever the window.
    pub(super) records: usize,
    /// Records on the scoreboard when it was last looked.
    pub(super) outstanding: usize,
}

/// What became of a request for more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// There are more.
    More,
    /// The window has no room.
    Full,
    /// The window does not count packets, or it is not the limit.
    Nothing,
}
