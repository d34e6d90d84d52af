//! **narrows**: a userspace TCP with a sans-I/O core.
//!
//! - [`endpoint::Endpoint`] is a host's TCP: demultiplexing, listeners, timers. Packets and time
//!   go in through `handle_*`, packets and events come out of `poll_*`. Nothing in here reads a
//!   clock, draws randomness or does I/O, so the same calls give the same packets.
//! - [`conn::Connection`] is one connection, for those who bring their own endpoint.
//! - [`config::TcpConfig`] has everything that papers vary as a value, the plug-in points among
//!   them: [congestion control](congestion::CongestionControl), [retransmission
//!   timeout](congestion::RtoPolicy), [loss detector](recovery::LossDetector), and where the
//!   bytes are kept ([`buffer`]).
//! - [`wire`] parses and emits Ethernet, ARP, IPv4, IPv6 and TCP. The core itself works on parsed
//!   headers.
//! - [`trace`] tells what a connection decided, and why.
//!
//! # Two hosts and a cable
//!
//! ```
//! use narrows::buffer::{RecvRing, SendRing};
//! use narrows::config::TcpConfig;
//! use narrows::conn::Boxed;
//! use narrows::endpoint::{Endpoint, EndpointConfig, EndpointEvent};
//! use narrows::{Duration, Instant};
//! use std::sync::Arc;
//!
//! type Host = Endpoint<Boxed<SendRing, RecvRing>>;
//!
//! /// Everything that one host has to send reaches the other at once.
//! fn carry(now: Instant, from: &mut Host, to: &mut Host) {
//!     while let Some((ip, tcp, payload)) = from.poll_transmit(now) {
//!         let bytes: Vec<u8> = payload.iter().collect();
//!         to.handle_packet(now, &ip, &tcp, &bytes);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tcp = Arc::new(TcpConfig::default());
//! // Sixteen bytes from the operating system on a live host: sequence numbers hang on them.
//! let mut client = Host::new(EndpointConfig::new(tcp.clone(), [1; 16]))?;
//! let mut server = Host::new(EndpointConfig::new(tcp, [2; 16]))?;
//! server.listen("10.0.0.2:80".parse()?, 16, None)?;
//!
//! let mut now = Instant::ZERO;
//! let conn = client.connect(now, "10.0.0.1:0".parse()?, "10.0.0.2:80".parse()?, None)?;
//! if let Some(conn) = client.connection_mut(conn) {
//!     conn.send(b"hello", 5)?;
//! }
//! let mut got = Vec::new();
//! for _ in 0..4 {
//!     carry(now, &mut client, &mut server);
//!     carry(now, &mut server, &mut client);
//!     while let Some(event) = server.poll_event() {
//!         let (EndpointEvent::Accepted { conn, .. } | EndpointEvent::Conn { conn, .. }) = event;
//!         if let Some(conn) = server.connection_mut(conn) {
//!             let bytes: Vec<u8> = conn.recv_buffer().peek(conn.readable_end()).iter().collect();
//!             conn.consume(bytes.len() as u64, now);
//!             got.extend(bytes);
//!         }
//!     }
//!     now = now + Duration::from_micros(10);
//!     for host in [&mut client, &mut server] {
//!         if host.poll_timeout().is_some_and(|at| at <= now) {
//!             host.handle_timeout(now);
//!         }
//!     }
//! }
//! assert_eq!(got, b"hello");
//! # Ok(())
//! # }
//! ```

//!
//! # Features
//!
//! None is on by default: the core needs no operating system's network.
//!
//! - `device`: TAP, TUN and AF_XDP (module `device`) and a driver on a thread (`driver::poll`). Linux only.
//! - `tokio`: `driver::tokio`, streams and listeners with the names and behaviour of
//!   `tokio::net`. Turns `device` on.
//!
//! With `tokio`, a client on a TAP interface:
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # async fn client() -> Result<(), Box<dyn std::error::Error>> {
//! use narrows::config::TcpConfig;
//! use narrows::device::tap::{Tap, TapConfig};
//! use narrows::driver::tokio::{Stack, TcpStream};
//! use narrows::interface::InterfaceConfig;
//! use narrows::wire::ethernet::MacAddr;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let tap = Tap::open("narrows0", &TapConfig::default())?;
//! let mac = MacAddr([2, 0, 0, 0, 0, 1]);
//! let interface = InterfaceConfig::new(mac, vec!["10.0.0.1/24".parse()?]);
//! let stack = Stack::spawn(tap, interface, TcpConfig::default())?;
//!
//! let mut stream = TcpStream::connect(&stack, "10.0.0.2:80").await?;
//! stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "device", not(target_os = "linux")))]
compile_error!("the features `device` and `tokio` of narrows need Linux");

pub mod buffer;
pub mod config;
pub mod conn;
#[cfg(feature = "device")]
pub mod device;
#[cfg(feature = "device")]
pub mod driver;
pub mod endpoint;
pub mod fast_open;
pub mod interface;
pub mod memory;
pub mod neighbor;
pub mod pcapng;
// For the simulator and the benches.
#[doc(hidden)]
pub mod prefetch;
pub mod recovery;
pub mod rng;
// For the simulator and the benches.
#[doc(hidden)]
pub mod siphash;
mod sparse;
// For captures, which have connections as well.
#[doc(hidden)]
pub mod table;
pub mod trace;
pub mod wire;

pub use narrows_congestion as congestion;
pub use narrows_congestion::{ByteCount, Duration, Instant, Rate};
