//! Sockets of hosts of the kernel's.

use crate::LiveError;
use crate::netns::Namespace;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A handshake that takes longer is a failure, and an answer to the first packet.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

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
    with("cubic")
}

/// One with a congestion control.
pub(crate) fn with(congestion: &str) -> io::Result<Socket> {
    let socket = socket()?;
    choose(&socket, congestion)?;
    Ok(socket)
}

pub(crate) fn choose(socket: &Socket, congestion: &str) -> io::Result<()> {
    socket.set_tcp_congestion(congestion.as_bytes())
}

/// Whether the kernel has a congestion control.
///
/// # Errors
/// [`LiveError::NoCongestion`]: it has not.
pub(crate) fn has(congestion: &str) -> Result<(), LiveError> {
    with(congestion).map(drop).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            LiveError::NoCongestion {
                name: congestion.to_owned(),
                known: known.unwrap_or_default().trim().replace(' ', ", "),
            }
        }
        _ => LiveError::io(format!("choose the congestion control {congestion}"), e),
    })
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

/// The next connection of a listener, which waits for [`CONNECT`] at most: who is to connect may have
/// failed.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    accept_within(listener, CONNECT)
}

fn accept_within(listener: &TcpListener, time: Duration) -> io::Result<TcpStream> {
    // It is that of accept, too.
    SockRef::from(listener).set_read_timeout(Some(time))?;
    let (accepted, _) = listener.accept().map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => e,
    })?;
    // Which it has from the listener.
    accepted.set_read_timeout(None)?;
    Ok(accepted)
}

/// What there is to read of a stream that does not block, in bytes.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] where it has ended, among others.
pub(crate) fn heard(mut stream: &TcpStream, buf: &mut [u8]) -> io::Result<u64> {
    match stream.read(buf) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(n) => Ok(n as u64),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(0)
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn who_accepts_does_not_wait_for_ever_and_who_is_accepted_may_be_silent_for_longer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let time = Duration::from_millis(20);
        let nobody = accept_within(&listener, time).unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::TimedOut);
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = accept_within(&listener, time).unwrap();
        assert_eq!(accepted.read_timeout().unwrap(), None);
    }

    #[test]
    fn a_stream_without_data_is_silent_and_one_that_ended_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = accept(&listener).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut buf = [0; 8];
        assert_eq!(heard(&stream, &mut buf).unwrap(), 0);
        peer.write_all(b"???").unwrap();
        drop(peer);
        stream.set_nonblocking(false).unwrap();
        assert_eq!(heard(&stream, &mut buf).unwrap(), 3);
        let ended = heard(&stream, &mut buf).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }
}
