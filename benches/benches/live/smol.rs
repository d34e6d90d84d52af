//! smoltcp over its own TAP device.

use super::lab::{MAC, OTHER};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Medium, TunTapInterface, wait};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Each way; as much as ours has.
const BUFFER: usize = 1 << 20;

/// What it does.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Sends for ever.
    Source,
    /// Counts what comes.
    Sink(Arc<AtomicU64>),
}

/// Serve one connection at `port` on a TAP `name` until `stop`; `ready` is called when it is there.
pub(crate) fn run(
    name: &str,
    port: u16,
    role: &Role,
    stop: &AtomicBool,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut device = TunTapInterface::new(name, Medium::Ethernet)?;
    let fd = device.as_raw_fd();
    let config = Config::new(HardwareAddress::Ethernet(EthernetAddress(MAC.0)));
    let mut iface = Interface::new(config, &mut device, Instant::now());
    let IpAddr::V4(own) = OTHER else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    iface.update_ip_addrs(|addrs| {
        // There is room for one.
        let _ = addrs.push(IpCidr::new(IpAddress::Ipv4(own), 24));
    });
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.listen(port).map_err(io::Error::other)?;
    let mut sockets = SocketSet::new(Vec::new());
    let handle = sockets.add(socket);
    let chunk = vec![7; 64 << 10];
    ready()?;
    while !stop.load(Ordering::Relaxed) {
        iface.poll(Instant::now(), &mut device, &mut sockets);
        let socket = sockets.get_mut::<Socket<'_>>(handle);
        let mut moved = 0;
        match role {
            Role::Source => {
                while socket.can_send() {
                    match socket.send_slice(&chunk) {
                        Ok(n) if n > 0 => moved += n,
                        _ => break,
                    }
                }
            }
            Role::Sink(counter) => {
                while socket.can_recv() {
                    match socket.recv(|bytes| (bytes.len(), bytes.len())) {
                        Ok(n) if n > 0 => moved += n,
                        _ => break,
                    }
                }
                counter.fetch_add(moved as u64, Ordering::Relaxed);
            }
        }
        if moved == 0 {
            let delay = iface.poll_delay(Instant::now(), &sockets);
            let limit = smoltcp::time::Duration::from_millis(20);
            wait(fd, Some(delay.map_or(limit, |d| d.min(limit))))?;
        }
    }
    Ok(())
}
