//! What scripts run against: a TCP with sockets, a network device and a clock.
//!
//! [`Sockets`] is one, in this process. Another drives a shared object through packetdrill's C
//! interface.

use super::profile::Profile;
use super::segment::encoded_options;
use super::sockets::{Call, Config, Fd, Finished, Outcome, Sent, Sockets, Stuck};
use narrows::Instant;
use narrows::wire::{ChecksumPolicy, IpHeader, Packet, ParseError, TcpHeader};
use std::net::IpAddr;

/// What a script says of the stack that it wants, before anything happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose choices hold where the RFCs leave one.
    pub profile: Profile,
    /// The stack's address.
    pub local: IpAddr,
    /// Bytes of the largest packet.
    pub mtu: u16,
    /// Set-up lines at the head of the script, before its first step. They come to
    /// [`Stack::setup`] too.
    pub setup: Vec<String>,
}

/// A packet that left, as far as scripts look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departed {
    /// When.
    pub at: Instant,
    /// Its IP header.
    pub ip: IpHeader,
    /// Its TCP header.
    pub tcp: TcpHeader,
    /// Its TCP options as they stand in it, padding and all.
    pub options: Vec<u8>,
    /// Its text.
    pub payload: Vec<u8>,
}

impl Departed {
    /// Read an IP packet that carries TCP.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(at: Instant, bytes: &[u8]) -> Result<Self, ParseError> {
        let Packet { ip, tcp, payload } = Packet::parse(bytes, ChecksumPolicy::Verify)?;
        let (_, segment) = IpHeader::parse(bytes, ChecksumPolicy::Trust)?;
        let header = segment.len() - payload.len();
        Ok(Self {
            at,
            ip,
            tcp,
            options: segment.get(20..header).unwrap_or_default().to_vec(),
            payload: payload.to_vec(),
        })
    }
}

impl From<Sent> for Departed {
    fn from(sent: Sent) -> Self {
        Self {
            at: sent.at,
            options: encoded_options(&sent.tcp.options),
            ip: sent.ip,
            tcp: sent.tcp,
            payload: sent.payload,
        }
    }
}

/// Whether the script expects that a call takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// It returns at once.
    NoTime,
    /// It blocks for a while.
    Time,
}

/// What is known of a connection's next timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTimer {
    /// Nothing.
    Unknown,
    /// None is running.
    None,
    /// It fires then.
    At(Instant),
}

/// A TCP with sockets, a network device and a clock. Its time begins at
/// [`BEGIN`](super::sockets::BEGIN).
pub trait Stack {
    /// A set-up line.
    ///
    /// # Errors
    /// What is not known, by name.
    fn setup(&mut self, line: &str) -> Result<(), String>;

    /// Let time go on to `to`, if it is not that late yet; what time it is then.
    ///
    /// # Errors
    /// When the stack can do no more.
    fn wait_until(&mut self, to: Instant) -> Result<Instant, Stuck>;

    /// Let time go on until the call that blocks has returned, but not beyond `limit`; what time
    /// it is then.
    ///
    /// # Errors
    /// When the stack can do no more.
    fn wait_for_return(&mut self, limit: Instant) -> Result<Instant, Stuck>;

    /// An IP packet arrives.
    ///
    /// # Errors
    /// When the stack can do no more.
    fn packet_in(&mut self, packet: &[u8]) -> Result<(), Stuck>;

    /// The next packet that is known to have left, without waiting for one.
    fn departed(&mut self) -> Option<Departed>;

    /// The next packet that leaves. Time goes on for it, to `latest` if that is in the stack's
    /// hands; none if none leaves.
    ///
    /// # Errors
    /// When the stack can do no more.
    fn wait_for_packet(&mut self, latest: Instant) -> Result<Option<Departed>, Stuck>;

    /// The time now, after packets were waited for.
    fn now(&self) -> Instant;

    /// Make a call.
    ///
    /// # Errors
    /// What the stack does not do, by name; when it can do no more.
    fn call(&mut self, call: Call, takes: Takes) -> Result<Outcome, Stuck>;

    /// A call that blocked has returned.
    fn finished(&mut self) -> Option<Finished>;

    /// A field of `struct tcp_info`, by its name without `tcpi_`.
    fn tcp_info(&self, fd: Fd, field: &str) -> Option<i128>;

    /// When the next timer of a connection fires, if that can be known: for messages.
    fn next_timer_of(&self, _fd: Fd) -> NextTimer {
        NextTimer::Unknown
    }
}

/// The stack of this process.
///
/// # Errors
/// When what is wanted makes no valid TCP.
pub fn in_process(wanted: &Wanted) -> Result<Box<dyn Stack>, Stuck> {
    Ok(Box::new(Sockets::new(&wanted.into())?))
}

impl From<&Wanted> for Config {
    fn from(wanted: &Wanted) -> Self {
        Self {
            profile: wanted.profile,
            local: wanted.local,
            mtu: wanted.mtu,
        }
    }
}

impl Stack for Sockets {
    fn setup(&mut self, line: &str) -> Result<(), String> {
        Self::setup(self, line)
    }

    fn wait_until(&mut self, to: Instant) -> Result<Instant, Stuck> {
        self.advance_to(to)?;
        Ok(self.now())
    }

    fn wait_for_return(&mut self, limit: Instant) -> Result<Instant, Stuck> {
        while !self.has_finished() && self.next_timer().is_some_and(|at| at <= limit) {
            self.fire()?;
        }
        Ok(self.now())
    }

    fn packet_in(&mut self, packet: &[u8]) -> Result<(), Stuck> {
        Self::packet_in(self, packet)
    }

    fn departed(&mut self) -> Option<Departed> {
        Self::departed(self).map(Into::into)
    }

    fn wait_for_packet(&mut self, latest: Instant) -> Result<Option<Departed>, Stuck> {
        loop {
            if let Some(sent) = Self::departed(self) {
                return Ok(Some(sent.into()));
            }
            if self.next_timer().is_none_or(|at| at > latest) {
                return Ok(None);
            }
            self.fire()?;
        }
    }

    fn now(&self) -> Instant {
        Self::now(self)
    }

    fn call(&mut self, call: Call, _takes: Takes) -> Result<Outcome, Stuck> {
        Self::call(self, call)
    }

    fn finished(&mut self) -> Option<Finished> {
        Self::finished(self)
    }

    fn tcp_info(&self, fd: Fd, field: &str) -> Option<i128> {
        Self::tcp_info(self, fd, field)
    }

    fn next_timer_of(&self, fd: Fd) -> NextTimer {
        Self::next_timer_of(self, fd).map_or(NextTimer::None, NextTimer::At)
    }
}
