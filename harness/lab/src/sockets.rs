//! Sockets of hosts of the kernel's.

use crate::netns::Namespace;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A handshake that takes longer is a failure.
const CONNECT: Duration = Duration::from_secs(5);

/// A socket whose end leaves nothing behind: after a crash, too, the kernel sends a reset and
/// forgets it.
pub(crate) fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// One with CUBIC: a namespace's own default must be one that anybody may have, a socket's need not.
pub(crate) fn cubic() -> io::Result<Socket> {
    let socket = socket()?;
    socket.set_tcp_congestion(b"cubic")?;
    Ok(socket)
}

/// Listens at a host's `port` with what `socket` makes.
pub(crate) fn listen(
    host: &Namespace,
    port: u16,
    backlog: u8,
    socket: impl FnOnce() -> io::Result<Socket> + Send,
) -> io::Result<TcpListener> {
    host.run(|| {
        let socket = socket()?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
        socket.listen(backlog.into())?;
        Ok::<_, io::Error>(socket.into())
    })?
}

/// Connects a host to somewhere with what `socket` makes.
pub(crate) fn connect(
    host: &Namespace,
    to: SocketAddr,
    socket: impl FnOnce() -> io::Result<Socket> + Send,
) -> io::Result<TcpStream> {
    host.run(|| {
        let socket = socket()?;
        socket.connect_timeout(&to.into(), CONNECT)?;
        Ok::<_, io::Error>(socket.into())
    })?
}
