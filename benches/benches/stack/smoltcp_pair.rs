//! smoltcp doing what [`narrows_benches::segments::Wired`] does: two interfaces, frames of the
//! same number and size in memory, all checksums made and verified, timestamps on (so that a
//! segment has 1448 bytes), buffers of the same size, the user reading and writing as much.

use narrows_benches::segments::{BUFFER, CHUNK, FRAME_LEN, FRAMES};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::mem::swap;

/// Frames one way.
struct Frames {
    bytes: Box<[[u8; FRAME_LEN]]>,
    lens: Vec<usize>,
    taken: usize,
}

impl Frames {
    fn new() -> Self {
        Self {
            bytes: vec![[0; FRAME_LEN]; FRAMES].into_boxed_slice(),
            lens: Vec::with_capacity(FRAMES),
            taken: 0,
        }
    }
    fn is_full(&self) -> bool {
        self.lens.len() == FRAMES
    }
    fn clear(&mut self) {
        self.lens.clear();
        self.taken = 0;
    }
}

struct Memory {
    rx: Frames,
    tx: Frames,
}

struct Rx<'a>(&'a [u8]);
struct Tx<'a>(&'a mut Frames);

impl phy::RxToken for Rx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl phy::TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let at = self.0.lens.len();
        self.0.lens.push(len);
        f(&mut self.0.bytes[at][..len])
    }
}

impl Device for Memory {
    type RxToken<'a> = Rx<'a>;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx<'_>, Tx<'_>)> {
        if self.tx.is_full() {
            return None;
        }
        let len = *self.rx.lens.get(self.rx.taken)?;
        self.rx.taken += 1;
        Some((
            Rx(&self.rx.bytes[self.rx.taken - 1][..len]),
            Tx(&mut self.tx),
        ))
    }
    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        (!self.tx.is_full()).then_some(Tx(&mut self.tx))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = Medium::Ip;
        caps.max_transmission_unit = 1_500;
        caps
    }
}

struct Host {
    device: Memory,
    iface: Interface,
    sockets: SocketSet<'static>,
    tcp: SocketHandle,
}

impl Host {
    fn new(address: IpAddress) -> Self {
        let mut device = Memory {
            rx: Frames::new(),
            tx: Frames::new(),
        };
        let config = Config::new(HardwareAddress::Ip);
        let mut iface = Interface::new(config, &mut device, Instant::ZERO);
        iface.update_ip_addrs(|list| list.push(IpCidr::new(address, 24)).expect("room for one"));
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_tsval_generator(Some(|| 1));
        let mut sockets = SocketSet::new(Vec::new());
        let tcp = sockets.add(socket);
        Self {
            device,
            iface,
            sockets,
            tcp,
        }
    }
    fn poll(&mut self, now: Instant) {
        self.iface.poll(now, &mut self.device, &mut self.sockets);
    }
    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.tcp)
    }
}

/// Two hosts with a connection.
pub(crate) struct SmoltcpPair {
    now: Instant,
    sender: Host,
    receiver: Host,
    source: Vec<u8>,
    sink: Vec<u8>,
    carried: usize,
}

impl SmoltcpPair {
    /// Connected and warm.
    pub(crate) fn connected() -> Self {
        let (a, b) = (IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2));
        let mut this = Self {
            now: Instant::from_secs(1),
            sender: Host::new(a),
            receiver: Host::new(b),
            source: vec![0x5a; CHUNK],
            sink: vec![0; CHUNK],
            carried: 0,
        };
        this.receiver.socket().listen(5_001).expect("a valid port");
        let Host {
            iface,
            sockets,
            tcp,
            ..
        } = &mut this.sender;
        sockets
            .get_mut::<Socket<'_>>(*tcp)
            .connect(iface.context(), (b, 5_001), 40_000)
            .expect("a valid address");
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
                match self.sender.socket().send_slice(chunk).expect("open") {
                    0 => break,
                    n => unsent -= n,
                }
            }
            self.turn();
            loop {
                match self
                    .receiver
                    .sockets
                    .get_mut::<Socket<'_>>(self.receiver.tcp)
                    .recv_slice(&mut self.sink)
                {
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

fn cross(from: &mut Host, to: &mut Host) {
    swap(&mut from.device.tx, &mut to.device.rx);
    from.device.tx.clear();
}
