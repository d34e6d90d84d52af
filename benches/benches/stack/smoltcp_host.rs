//! A host of smoltcp's: frames of the same number and size in memory as ours have, all checksums made
//! and verified, timestamps on (so that a segment has 1448 bytes).

use narrows_benches::segments::{FRAME_LEN, FRAMES};
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::mem::swap;

/// Frames one way.
pub(crate) struct Frames {
    bytes: Box<[[u8; FRAME_LEN]]>,
    pub(crate) lens: Vec<usize>,
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

pub(crate) struct Memory {
    rx: Frames,
    pub(crate) tx: Frames,
}

pub(crate) struct Rx<'a>(&'a [u8]);
pub(crate) struct Tx<'a>(&'a mut Frames);

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

/// A host without sockets.
pub(crate) struct Host {
    pub(crate) device: Memory,
    pub(crate) iface: Interface,
    pub(crate) sockets: SocketSet<'static>,
}

impl Host {
    pub(crate) fn new(address: IpAddress) -> Self {
        let mut device = Memory {
            rx: Frames::new(),
            tx: Frames::new(),
        };
        let config = Config::new(HardwareAddress::Ip);
        let mut iface = Interface::new(config, &mut device, Instant::ZERO);
        iface.update_ip_addrs(|list| list.push(IpCidr::new(address, 24)).expect("room for one"));
        Self {
            device,
            iface,
            sockets: SocketSet::new(Vec::new()),
        }
    }

    /// A closed socket that buffers so many bytes each way.
    pub(crate) fn add(&mut self, bytes: usize) -> SocketHandle {
        let buffer = || SocketBuffer::new(vec![0; bytes]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_tsval_generator(Some(|| 1));
        self.sockets.add(socket)
    }

    pub(crate) fn connect(&mut self, tcp: SocketHandle, remote: (IpAddress, u16), port: u16) {
        let Self { iface, sockets, .. } = self;
        sockets
            .get_mut::<Socket<'_>>(tcp)
            .connect(iface.context(), remote, port)
            .expect("a valid address");
    }

    pub(crate) fn poll(&mut self, now: Instant) {
        self.iface.poll(now, &mut self.device, &mut self.sockets);
    }

    /// What has come, without sending anything.
    pub(crate) fn take_in(&mut self, now: Instant) {
        let Self {
            iface,
            device,
            sockets,
        } = self;
        while iface.poll_ingress_single(now, device, sockets) != PollIngressSingleResult::None {}
    }

    /// What is to leave, as far as there are frames.
    pub(crate) fn send(&mut self, now: Instant) {
        self.iface
            .poll_egress(now, &mut self.device, &mut self.sockets);
    }

    pub(crate) fn socket(&mut self, tcp: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(tcp)
    }
}

/// What `from` has sent, over to `to`.
pub(crate) fn cross(from: &mut Host, to: &mut Host) {
    swap(&mut from.device.tx, &mut to.device.rx);
    from.device.tx.clear();
}
