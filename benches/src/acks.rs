//! Acknowledgements at a sender that has a window of segments in flight.

use crate::SEGMENT;
use crate::segments::{config, handshake};
use narrows::buffer::{RecvRing, SendRing};
use narrows::config::{EcnMode, InitialWindow, TcpConfig};
use narrows::congestion::{ByteCount, CongestionRegistry, FlowStart};
use narrows::conn::{Boxed, Connection};
use narrows::wire::{Ecn, PlainHeader, SackBlock, TcpHeader};
use narrows::{Duration, Instant};
use std::hint::black_box;
use std::sync::Arc;

/// Segments in flight.
pub const WINDOW: u32 = 256;

/// A sender and the ACK that its peer would send.
#[derive(Debug)]
pub struct AckPath {
    conn: Connection<Boxed<SendRing, RecvRing>>,
    now: Instant,
    ack: TcpHeader,
    ecn: Ecn,
    data: Vec<u8>,
}

impl AckPath {
    /// A connection under the congestion control of that name in the standard registry, or
    /// `"fixed"` for a window that never changes.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(congestion: &str) -> Self {
        let factory = match congestion {
            "fixed" => Arc::new(|start: &FlowStart| {
                let window = ByteCount::new(u64::from(WINDOW) * 2_048);
                narrows::congestion::Fixed::new(&FlowStart::new(start.mss, window))
            }),
            name => {
                return Self::with(TcpConfig {
                    congestion: CongestionRegistry::standard().get(name).expect("known"),
                    ..config()
                });
            }
        };
        Self::with(TcpConfig {
            congestion: factory,
            ..config()
        })
    }

    fn with(sender: TcpConfig) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let sender = TcpConfig {
            initial_window: InitialWindow::Segments(2 * WINDOW),
            idle_restart: narrows::config::IdleRestart::Keep,
            ..sender
        };
        let peer = TcpConfig {
            ecn: EcnMode::Accept,
            ..sender.clone()
        };
        let (mut conn, mut peer) = handshake(sender, peer, now);
        // A first exchange, for the header of an ACK.
        let data = vec![0x5a; SEGMENT * WINDOW as usize];
        conn.send(&data[..SEGMENT], SEGMENT).expect("open");
        let (ip, tcp, _) = conn.poll_transmit(now).expect("a window of two at least");
        peer.handle_segment(now, ip.ecn, &tcp, &data[..SEGMENT]);
        let at = peer.poll_timeout().unwrap_or(now).max(now);
        peer.handle_timeout(at);
        let (ip, ack, _) = peer.poll_transmit(at).expect("an ACK");
        conn.handle_segment(now, ip.ecn, &ack, &[]);
        assert!(conn.sender().is_idle(), "acknowledged");
        Self {
            conn,
            now,
            ack,
            ecn: ip.ecn,
            data,
        }
    }

    /// Put [`WINDOW`] segments in flight.
    ///
    /// # Panics
    /// If the windows do not admit them.
    pub fn fill(&mut self) {
        self.now = self.now + Duration::from_micros(100);
        self.conn.send(&self.data, self.data.len()).expect("open");
        let mut sent = 0;
        while self.transmit() {
            sent += 1;
        }
        assert_eq!(sent, WINDOW, "the window is large enough");
    }

    /// Acknowledge them one by one, each ACK handled as a driver does.
    pub fn acknowledge(&mut self) {
        for _ in 0..WINDOW {
            self.ack.ack += SEGMENT as u32;
            self.deliver();
        }
    }

    /// The first is lost: SACK all the others one by one.
    pub fn selectively(&mut self) {
        let first = self.ack.ack + SEGMENT as u32;
        for n in 1..WINDOW {
            self.ack.options.sack = Default::default();
            self.ack.options.sack.push(SackBlock {
                start: first,
                end: first + n * SEGMENT as u32,
            });
            self.deliver();
        }
    }

    /// The lost one arrived.
    pub fn repair(&mut self) {
        self.ack.options.sack = Default::default();
        self.ack.ack += WINDOW * SEGMENT as u32;
        self.deliver();
    }

    /// What leaves next goes where its headers are seen; whether there was something.
    fn transmit(&mut self) -> bool {
        let sent = (self.conn).transmit(self.now, |headers, payload| {
            black_box((headers, payload));
        });
        sent.is_some()
    }

    fn deliver(&mut self) {
        self.now = self.now + Duration::from_micros(1);
        match self.ack.options.sack.is_empty() {
            true => {
                let plain = PlainHeader::of(&self.ack);
                self.conn.handle_plain(self.now, self.ecn, &plain, &[]);
            }
            false => self.conn.handle_segment(self.now, self.ecn, &self.ack, &[]),
        }
        while self.transmit() {}
        while self.conn.poll_event().is_some() {}
        black_box(self.conn.poll_timeout());
    }
}
