//! What looks at a run.

use super::reading::Reading;
use crate::host::{SimPacket, TcpHost};
use crate::net::network::Network;
use crate::sim::tap::{PauseEvent, TapEvent};
use crate::sim::time::SimTime;
use crate::traffic::HostApp;
use narrows::endpoint::Tracer;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A run as an instrument sees it.
#[derive(Debug)]
pub struct View<'a> {
    /// Now.
    pub now: SimTime,
    /// The hosts.
    pub hosts: &'a [TcpHost<HostApp>],
    /// The network, for questions.
    pub network: &'a mut Network<SimPacket>,
}

/// What a [`PacketListener`] is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// Everything.
    All,
    /// Everything but what ports take ([`TapEvent::PortQueued`]), which is most of what there is.
    AllButQueued,
}

/// What hears of each packet at hosts and switches.
pub trait PacketListener: fmt::Debug {
    /// What it is told of, which costs each packet that it is.
    fn hears(&self) -> Hears {
        Hears::All
    }

    /// `event` happened to `packet` at `at`; as [`Tap::event`](crate::sim::tap::Tap::event).
    fn packet(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket);

    /// A pause frame was sent or obeyed; as [`Tap::pause`](crate::sim::tap::Tap::pause).
    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        let _ = (at, event);
    }
}

/// A listener of an instrument, which it shares with the run.
pub type Listener = Rc<RefCell<dyn PacketListener>>;

/// Something that looks at a run.
pub trait Instrument: fmt::Debug {
    /// What is to hear what connections decide, if the instrument needs that; asked once for each
    /// host, before anything happens. Connections that nothing listens to pay nothing for it.
    fn tracer(&self) -> Option<Tracer> {
        None
    }

    /// What is to hear of each packet of the run, if the instrument needs that; asked once, before
    /// anything happens. A run in which nothing listens pays nothing for it.
    fn listener(&self) -> Option<Listener> {
        None
    }

    /// Before anything happens.
    fn prepare(&mut self, view: &mut View<'_>) {
        let _ = view;
    }
    /// The warm-up is over: what is measured begins here.
    fn begin(&mut self, view: &mut View<'_>);
    /// When to look next; `None` for not again. Asked after each other call but `prepare`.
    fn next(&self) -> Option<SimTime>;
    /// It is that time.
    fn look(&mut self, view: &mut View<'_>);
    /// The run is over; what was seen.
    fn finish(&mut self, view: &mut View<'_>) -> Reading;
}
