//! Messages on connections: what each means to who reads it, and where it ends.

use super::placement::Placement;
use super::role::{Io, Read};
use crate::net::packet::HostId;
use narrows::endpoint::ConnId;
use narrows_congestion::short::{ShortQueue, push_short};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::rc::Rc;

pub use super::role::Counts;

/// State that the roles of a traffic share, on whichever hosts: a run has one thread.
pub type Shared<T> = Rc<RefCell<T>>;

/// The connections of a traffic and the messages on their way, which its roles share: payload is
/// a pattern and says nothing, so that who sends a message notes here what it is and how long.
#[derive(Debug)]
pub struct Channels<M>(Shared<Table<M>>);

impl<M> Default for Channels<M> {
    fn default() -> Self {
        Self(Shared::new(
            Table {
                channels: Vec::new(),
                by_port: BTreeMap::new(),
            }
            .into(),
        ))
    }
}

impl<M> Channels<M> {
    /// What a role of the traffic needs to take part.
    pub fn messenger(&self) -> Messenger<M> {
        Messenger {
            table: self.0.clone(),
            ends: Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Table<M> {
    /// By connection: from its opener, and to it.
    channels: Vec<[Way<M>; 2]>,
    /// By the opener, its port and its peer, until that has accepted: the connection, and what its
    /// opener knows it by. The same port may lead to several peers.
    by_port: BTreeMap<(HostId, u16, HostId), (u32, u32)>,
}

#[derive(Debug)]
struct Way<M> {
    /// Bytes that the send buffer has not taken.
    unwritten: u64,
    /// Bytes that were read and are of no complete message, but for those of `ahead`.
    read: u64,
    /// Bytes that were to be read, when somebody looked last, before a message is complete. How many of them
    /// still are is with the connection ([`Io::set_missing`]): until then the way, which is out of the cache
    /// where there are many, is not looked at.
    ahead: u64,
    /// Messages that were not read to their end, with their sizes.
    under_way: ShortQueue<(NonZeroU64, M)>,
}

impl<M> Way<M> {
    const fn new() -> Self {
        Self {
            unwritten: 0,
            read: 0,
            ahead: 0,
            under_way: ShortQueue::new(),
        }
    }
}

/// The connections of one role, by their index, for sending and receiving messages. In the tag of each
/// ([`Connection::tag`](narrows::conn::Connection::tag)) it counts what is to be read yet.
#[derive(Debug)]
pub struct Messenger<M> {
    table: Shared<Table<M>>,
    ends: Vec<End>,
}

/// A connection of a role.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Twice the channel, and which of the ways is from here; [`End::NONE`] if it is none.
    channel: u32,
    generation: u32,
    tag: u32,
}

impl End {
    const NONE: Self = Self {
        channel: u32::MAX,
        generation: 0,
        tag: 0,
    };

    #[inline]
    fn is_of(self, conn: ConnId) -> bool {
        self.channel != Self::NONE.channel && self.generation == conn.generation()
    }

    #[inline]
    fn channel(self) -> usize {
        (self.channel >> 1) as usize
    }

    /// The way from here.
    #[inline]
    fn out(self) -> usize {
        (self.channel & 1) as usize
    }
}

impl<M> Messenger<M> {
    /// Opens a connection, as [`Io::connect`]. `tag` is what the role knows it by.
    pub fn connect(&mut self, io: &mut Io<'_>, peer: HostId, tag: u32) -> Option<ConnId> {
        let conn = io.connect(peer)?;
        let port = io.opener_port(conn)?;
        let channel = {
            let mut table = self.table.borrow_mut();
            let channel = table.channels.len() as u32;
            table.channels.push([Way::new(), Way::new()]);
            let key = (io.host(), port, peer);
            table.by_port.insert(key, (channel, tag));
            channel
        };
        self.attach(conn, channel << 1, tag);
        Some(conn)
    }

    /// A connection was accepted, which its opener knows by [`Self::connect`]; here it is `tag`.
    pub fn accept(&mut self, io: &Io<'_>, conn: ConnId, tag: u32) {
        self.accept_with(io, conn, |_| tag);
    }

    /// The same; here it is what it is to its opener, which is returned.
    pub fn accept_as_opened(&mut self, io: &Io<'_>, conn: ConnId) -> Option<u32> {
        self.accept_with(io, conn, |openers| openers)
    }

    fn accept_with(
        &mut self,
        io: &Io<'_>,
        conn: ConnId,
        tag: impl FnOnce(u32) -> u32,
    ) -> Option<u32> {
        let key = io.peer(conn).zip(io.opener_port(conn));
        let found = key.and_then(|(peer, port)| {
            let mut table = self.table.borrow_mut();
            let (channel, openers) = table.by_port.remove(&(peer, port, io.host()))?;
            Some((channel, tag(openers)))
        });
        debug_assert!(found.is_some(), "nobody has opened this connection");
        let (channel, tag) = found?;
        self.attach(conn, channel << 1 | 1, tag);
        Some(tag)
    }

    fn attach(&mut self, conn: ConnId, channel: u32, tag: u32) {
        let index = conn.index();
        while self.ends.len() <= index {
            push_short(&mut self.ends, End::NONE);
        }
        self.ends[index] = End {
            channel,
            generation: conn.generation(),
            tag,
        };
    }

    #[inline]
    fn end(&self, conn: ConnId) -> Option<End> {
        let end = self.ends.get(conn.index())?;
        end.is_of(conn).then_some(*end)
    }

    /// What the role knows a connection by.
    #[inline]
    pub fn tag(&self, conn: ConnId) -> Option<u32> {
        self.end(conn).map(|end| end.tag)
    }

    /// Whether this role opened it.
    #[inline]
    pub fn opened(&self, conn: ConnId) -> bool {
        self.end(conn).is_some_and(|end| end.out() == 0)
    }

    /// Sends a message of `size` bytes, at least one.
    pub fn send(&mut self, io: &mut Io<'_>, conn: ConnId, size: u64, message: M) {
        self.announce(conn, size, message);
        self.write(io, conn, size);
    }

    /// The next `size` bytes that will be written are a message.
    pub fn announce(&mut self, conn: ConnId, size: u64, message: M) {
        debug_assert!(size > 0, "an empty message never arrives");
        if let Some(end) = self.end(conn)
            && let Some(size) = NonZeroU64::new(size)
        {
            let mut table = self.table.borrow_mut();
            let way = &mut table.channels[end.channel()][end.out()];
            way.under_way.push((size, message));
        }
    }

    /// Writes `n` bytes of what was announced; those that do not fit follow when there is room.
    pub fn write(&mut self, io: &mut Io<'_>, conn: ConnId, n: u64) {
        let Some(end) = self.end(conn) else {
            return;
        };
        let mut table = self.table.borrow_mut();
        let way = &mut table.channels[end.channel()][end.out()];
        way.unwritten += n;
        if way.unwritten > 0 {
            way.unwritten -= io.send(conn, way.unwritten);
        }
    }

    /// Bytes of what was to be written that did not fit.
    pub fn unwritten(&self, conn: ConnId) -> u64 {
        let Some(end) = self.end(conn) else {
            return 0;
        };
        let table = self.table.borrow();
        table.channels[end.channel()][end.out()].unwritten
    }

    /// There is room: writes what did not fit.
    pub fn writable(&mut self, io: &mut Io<'_>, conn: ConnId) {
        self.write(io, conn, 0);
    }

    /// Reads all there is; whether [`Self::next`] has messages that it completes.
    #[inline]
    pub fn read(&mut self, io: &mut Io<'_>, conn: ConnId, counts: Counts) -> bool {
        let read = io.read_toward(conn, counts);
        read.is_some_and(|read| read.bytes >= read.missing && self.read_through(io, conn, read))
    }

    /// The same of what may complete a message.
    #[inline(never)] // Few segments do.
    fn read_through(&mut self, io: &mut Io<'_>, conn: ConnId, read: Read) -> bool {
        let Some(end) = self.end(conn) else {
            return false;
        };
        let mut table = self.table.borrow_mut();
        let way = &mut table.channels[end.channel()][1 - end.out()];
        way.read += std::mem::take(&mut way.ahead).saturating_sub(read.missing) + read.bytes;
        let Some((size, _)) = way.under_way.front() else {
            return false;
        };
        way.ahead = size.get().saturating_sub(way.read);
        io.set_missing(conn, way.ahead);
        way.ahead == 0
    }

    /// The next message that was read to its end, and its size.
    #[inline]
    pub fn next(&mut self, conn: ConnId) -> Option<(u64, M)> {
        let end = self.end(conn)?;
        let mut table = self.table.borrow_mut();
        let way = &mut table.channels[end.channel()][1 - end.out()];
        let size = way.under_way.front()?.0.get();
        if size > way.read {
            return None;
        }
        way.read -= size;
        let (_, message) = way.under_way.pop()?;
        Some((size, message))
    }
}

/// The random streams that a host of a traffic has besides those of its start.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(super) enum Draws {
    /// When it begins something.
    Arrivals = 1,
    /// With whom.
    Peers = 2,
    /// How large.
    Sizes = 3,
    /// How long it waits before it asks.
    Pauses = 4,
    /// How long it waits before it answers.
    Service = 5,
}

impl Draws {
    /// The stream of `host` for this.
    pub(super) fn stream(self, on: &Placement<'_>, host: HostId) -> crate::sim::rng::Stream {
        let component = crate::sim::rng::Component::Scenario;
        on.stream(component, u64::from(host.0) << 4 | self as u64)
    }
}
