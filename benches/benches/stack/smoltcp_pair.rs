//! smoltcp doing what [`narrows_benches::segments::Wired`] does: buffers of the same size, the user
//! reading and writing as much.

use crate::smoltcp_host::{Host, cross};
use narrows_benches::segments::{BUFFER, CHUNK};
use smoltcp::iface::SocketHandle;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::IpAddress;

/// Two hosts with a connection.
pub(crate) struct SmoltcpPair {
    now: Instant,
    sender: Host,
    receiver: Host,
    out: SocketHandle,
    into: SocketHandle,
    source: Vec<u8>,
    sink: Vec<u8>,
    carried: usize,
}

impl SmoltcpPair {
    /// Connected and warm.
    pub(crate) fn connected() -> Self {
        let (a, b) = (IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2));
        let (mut sender, mut receiver) = (Host::new(a), Host::new(b));
        let (out, into) = (sender.add(BUFFER), receiver.add(BUFFER));
        receiver.socket(into).listen(5_001).expect("a valid port");
        sender.connect(out, (b, 5_001), 40_000);
        let mut this = Self {
            now: Instant::from_secs(1),
            sender,
            receiver,
            out,
            into,
            source: vec![0x5a; CHUNK],
            sink: vec![0; CHUNK],
            carried: 0,
        };
        for _ in 0..4 {
            this.turn();
        }
        this.transfer(16 << 20);
        // Full segments of the same size, or the comparison is none.
        let before = this.carried;
        this.transfer(1_448 * 10_000);
        assert!(
            (10_000..10_200).contains(&(this.carried - before)),
            "{}",
            this.carried - before
        );
        this
    }

    /// Send and receive `bytes`.
    pub(crate) fn transfer(&mut self, bytes: usize) {
        let (mut unsent, mut missing) = (bytes, bytes);
        while missing > 0 {
            while unsent > 0 {
                let chunk = &self.source[..unsent.min(CHUNK)];
                match self
                    .sender
                    .socket(self.out)
                    .send_slice(chunk)
                    .expect("open")
                {
                    0 => break,
                    n => unsent -= n,
                }
            }
            self.turn();
            loop {
                match self.receiver.socket(self.into).recv_slice(&mut self.sink) {
                    Ok(0) | Err(_) => break,
                    Ok(n) => missing -= n,
                }
            }
        }
    }

    fn turn(&mut self) {
        self.now += Duration::from_micros(10);
        self.sender.poll(self.now);
        let there = self
            .sender
            .device
            .tx
            .lens
            .iter()
            .filter(|&&len| len > 100)
            .count();
        cross(&mut self.sender, &mut self.receiver);
        self.receiver.poll(self.now);
        let back = self.receiver.device.tx.lens.len();
        cross(&mut self.receiver, &mut self.sender);
        self.carried += there;
        if there + back == 0
            && let Some(at) = self
                .receiver
                .iface
                .poll_at(self.now, &self.receiver.sockets)
        {
            self.now = self.now.max(at);
        }
    }
}
