//! An endpoint with many connections of which most are idle.

use crate::SEGMENT;
use crate::parts::tuple;
use narrows::buffer::{Synthetic, SyntheticRecv, SyntheticSend};
use narrows::config::{AckPolicy, TcpConfig};
use narrows::conn::{Boxed, Event};
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent};
use narrows::wire::{Ecn, Flags, IpHeader, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::sync::Arc;

/// Where the peers' streams begin.
const PEER_ISS: Seq = Seq(1_000);

/// A server whose peers are only headers; payload is a range of offsets, so that what is measured
/// is the TCP and not the copying.
#[derive(Debug)]
pub struct Crowd {
    server: Endpoint<Boxed<SyntheticSend, SyntheticRecv>>,
    now: Instant,
    /// By connection: our initial sequence number, and bytes sent by the peer.
    peers: Vec<(Seq, u64)>,
}

impl Crowd {
    /// `n` established connections. Each segment is acknowledged at once.
    ///
    /// # Panics
    /// If a handshake fails.
    pub fn new(n: u32) -> Self {
        let config = TcpConfig {
            ack: AckPolicy::IMMEDIATE,
            ..TcpConfig::default()
        };
        let config = EndpointConfig::new(Arc::new(config), [7; 16]);
        let mut this = Self {
            server: Endpoint::new(config).expect("valid"),
            now: Instant::ZERO + Duration::from_secs(1),
            peers: Vec::with_capacity(n as usize),
        };
        let local = tuple(0).local;
        this.server
            .listen(local, 16, None)
            .expect("nobody else listens");
        for i in 0..n {
            this.shake_hands(i);
        }
        this
    }

    fn headers(&self, i: u32, seq: Seq, flags: Flags) -> (IpHeader, TcpHeader) {
        let tuple = tuple(i);
        let ip = IpHeader {
            src: tuple.remote.ip(),
            dst: tuple.local.ip(),
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: 64,
        };
        let tcp = TcpHeader {
            src_port: tuple.remote.port(),
            dst_port: tuple.local.port(),
            seq,
            flags,
            window: u16::MAX,
            ..TcpHeader::default()
        };
        (ip, tcp)
    }

    fn shake_hands(&mut self, i: u32) {
        let (ip, mut syn) = self.headers(i, PEER_ISS, Flags::SYN);
        syn.options.mss = Some(1_460);
        syn.options.window_scale = Some(7);
        syn.options.sack_permitted = true;
        self.server
            .handle_packet(self.now, &ip, &syn, Synthetic::EMPTY);
        let (_, syn_ack, _) = self.server.poll_transmit(self.now).expect("a SYN-ACK");
        self.peers.push((syn_ack.seq, 0));
        assert!(self.server.poll_transmit(self.now).is_none());
        let (ip, mut ack) = self.headers(i, PEER_ISS + 1, Flags::ACK);
        ack.ack = syn_ack.seq + 1;
        self.server
            .handle_packet(self.now, &ip, &ack, Synthetic::EMPTY);
        assert!(self.server.poll_transmit(self.now).is_none());
        let event = self.server.poll_event();
        assert!(
            matches!(event, Some(EndpointEvent::Accepted { .. })),
            "{event:?}"
        );
    }

    /// A microsecond later: a full segment arrives for connection `i`, is read, and acknowledged.
    /// All that a driver asks is asked.
    ///
    /// # Panics
    /// If it is not acknowledged.
    pub fn segment(&mut self, i: u32) {
        self.now = self.now + Duration::from_micros(1);
        let (iss, sent) = self.peers[i as usize];
        self.peers[i as usize].1 += SEGMENT as u64;
        let flags = Flags::ACK | Flags::PSH;
        let (ip, mut tcp) = self.headers(i, PEER_ISS + 1 + sent as u32, flags);
        tcp.ack = iss + 1;
        let payload = Synthetic {
            offset: sent,
            len: SEGMENT as u32,
        };
        if self
            .server
            .poll_timeout()
            .is_some_and(|due| due <= self.now)
        {
            self.server.handle_timeout(self.now);
        }
        self.server.handle_packet(self.now, &ip, &tcp, payload);
        while let Some(event) = self.server.poll_event() {
            if let EndpointEvent::Conn {
                conn,
                event: Event::Readable,
            } = event
            {
                self.read(conn);
            }
        }
        let mut acks = 0;
        while self.server.poll_transmit(self.now).is_some() {
            acks += 1;
        }
        assert_eq!(acks, 1, "acknowledged at once");
    }

    fn read(&mut self, id: ConnId) {
        if let Some(conn) = self.server.connection_mut(id) {
            conn.consume(conn.readable(), self.now);
        }
    }
}
