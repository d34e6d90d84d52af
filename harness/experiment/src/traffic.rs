//! Traffic: what the hosts of an experiment send each other.
//!
//! A kind of traffic is a file: its knobs, and the [`Role`]s that it gives to hosts. A role is a
//! part of the application of one host: it opens and accepts connections of its own, and hears of
//! no others, so that several kinds share hosts and network. Kinds have names in [`TrafficKinds`];
//! users add theirs:
//!
//! ```
//! use narrows::endpoint::ConnId;
//! use narrows::{ByteCount, Instant};
//! use narrows_experiment::file::Loaded;
//! use narrows_experiment::knob;
//! use narrows_experiment::knob::{Kind, Knob, Knobs};
//! use narrows_experiment::registry::Registry;
//! use narrows_experiment::scenario::RunContext;
//! use narrows_experiment::traffic::{
//!     Channels, Counts, Io, Messenger, Placement, Role, RoleEvent, Traffic, TrafficError,
//!     TrafficKind,
//! };
//!
//! /// The first host sends a message to the second one.
//! #[derive(Clone, Debug, Default)]
//! struct Once {
//!     size: ByteCount,
//! }
//!
//! impl Knobs for Once {
//!     const TABLE: &'static [Knob<Self>] = &[knob! {
//!         size: "size", "message size", Kind::Size { least: 1, most: 1 << 30 },
//!         "How long the message is."
//!     }];
//! }
//!
//! impl Traffic for Once {
//!     fn clone_box(&self) -> Box<dyn Traffic> {
//!         Box::new(self.clone())
//!     }
//!
//!     fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
//!         if self.size.is_zero() {
//!             return Err(TrafficError::new("size", "a message has a byte at least"));
//!         }
//!         let channels = Channels::default();
//!         for host in on.hosts("hosts", "h0..h1")? {
//!             let messages = channels.messenger();
//!             on.role(host, End { size: self.size, messages });
//!         }
//!         on.ends_after(1);
//!         Ok(())
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct End {
//!     size: ByteCount,
//!     /// A message says when it began.
//!     messages: Messenger<Instant>,
//! }
//!
//! impl Role for End {
//!     fn open(&mut self, io: &mut Io<'_>) {
//!         io.listen();
//!     }
//!
//!     fn start(&mut self, io: &mut Io<'_>) {
//!         if io.host().0 == 0
//!             && let Some(conn) = self.messages.connect(io, narrows_net::net::packet::HostId(1), 0)
//!         {
//!             self.messages.send(io, conn, self.size.get(), io.now());
//!         }
//!     }
//!
//!     fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
//!         match event {
//!             RoleEvent::Accepted => self.messages.accept(io, conn, 0),
//!             RoleEvent::Writable => self.messages.writable(io, conn),
//!             RoleEvent::Readable => {
//!                 self.messages.read(io, conn, Counts::Delivered);
//!                 while let Some((size, began)) = self.messages.next(conn) {
//!                     io.complete(io.peer(conn), began, ByteCount::new(size));
//!                     io.finish();
//!                 }
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//!
//! let mut registry = Registry::default();
//! registry.traffic.register(TrafficKind::new::<Once>("once", "a message"));
//! let file = r#"
//!     [network]
//!     topology = "star"
//!     hosts = 2
//!     [[traffic]]
//!     name = "hello"
//!     kind = "once"
//!     size = "100kB"
//! "#;
//! let loaded = Loaded::parse("once.toml", file, &registry).unwrap();
//! let outcome = loaded.experiment.run(&registry, RunContext::default()).unwrap();
//! assert_eq!(outcome.transfers[0].size, ByteCount::new(100_000));
//! ```

pub use narrows_run::traffic::*;
