//! `struct sockaddr` and what it says.

use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use narrows_script::sockets::Errno;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

/// The address at `addr`. An IPv4 address inside an IPv6 one is the IPv4 address.
///
/// # Errors
/// `EFAULT` for null, `EINVAL` if it is too short, `EAFNOSUPPORT` if it is not of IP.
///
/// # Safety
/// `addr` is null or leads to `len` bytes that can be read.
pub(crate) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    if addr.is_null() {
        return Err(Errno::EFAULT);
    }
    let len = len as usize;
    if len < size_of::<sa_family_t>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise, and the family, which is first, fits in `len`.
    let family = unsafe { ptr::read_unaligned(addr.cast::<sa_family_t>()) };
    match i32::from(family) {
        AF_INET if len < size_of::<sockaddr_in>() => Err(Errno::EINVAL),
        AF_INET => {
            // SAFETY: the caller's promise, and `len` is enough; any bits are a `sockaddr_in`.
            let a = unsafe { ptr::read_unaligned(addr.cast::<sockaddr_in>()) };
            let ip = Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr));
            Ok(SocketAddr::new(ip.into(), u16::from_be(a.sin_port)))
        }
        AF_INET6 if len < size_of::<sockaddr_in6>() => Err(Errno::EINVAL),
        AF_INET6 => {
            // SAFETY: as above.
            let a = unsafe { ptr::read_unaligned(addr.cast::<sockaddr_in6>()) };
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr).to_canonical();
            Ok(SocketAddr::new(ip, u16::from_be(a.sin6_port)))
        }
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Write `at` to `addr`, as much as there is room for, and its length to `len`. Sockets of the
/// family IPv6 see IPv4 addresses inside IPv6 ones. Null pointers: nobody wants to know.
///
/// # Safety
/// `len` is null or can be read and written; if it is not, `addr` is null or leads to as many
/// bytes as it says, which can be written.
pub(crate) unsafe fn write(at: SocketAddr, v6: bool, addr: *mut sockaddr, len: *mut socklen_t) {
    if addr.is_null() || len.is_null() {
        return;
    }
    let bytes = bytes(at, v6);
    // SAFETY: the caller's promise.
    let room = unsafe { ptr::read_unaligned(len) } as usize;
    let n = room.min(bytes.len());
    // SAFETY: `n` is no more than either has, and what was just made does not overlap the caller's.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast::<u8>(), n) };
    // SAFETY: the caller's promise.
    unsafe { ptr::write_unaligned(len, bytes.len() as socklen_t) };
}

/// The structure as bytes: family, port, and for IPv6 the flow label, address, scope.
pub(crate) fn bytes(at: SocketAddr, v6: bool) -> Vec<u8> {
    let port = at.port().to_be_bytes();
    let head = |family: i32| {
        let family = (family as sa_family_t).to_ne_bytes();
        [family[0], family[1], port[0], port[1]]
    };
    match at.ip() {
        IpAddr::V4(ip) if !v6 => {
            let mut out = head(AF_INET).to_vec();
            out.extend(ip.octets());
            out.resize(size_of::<sockaddr_in>(), 0);
            out
        }
        ip => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            let mut out = head(AF_INET6).to_vec();
            out.extend([0; 4]);
            out.extend(ip.octets());
            out.resize(size_of::<sockaddr_in6>(), 0);
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for (text, v6) in [
            ("192.0.2.1:8080", false),
            ("192.0.2.1:8080", true),
            ("[2001:db8::1]:1", true),
        ] {
            let at: SocketAddr = text.parse().unwrap();
            let raw = bytes(at, v6);
            // SAFETY: a slice leads to as many bytes as it says.
            let back = unsafe { read(raw.as_ptr().cast(), raw.len() as socklen_t) };
            assert_eq!(back, Ok(at));
            let mut room = [0u8; 28];
            let mut len = 28;
            // SAFETY: as many bytes as `len` says.
            unsafe { write(at, v6, room.as_mut_ptr().cast(), &raw mut len) };
            assert_eq!(&room[..len as usize], raw);
        }
    }

    #[test]
    fn too_little_is_an_error() {
        let raw = bytes("192.0.2.1:8080".parse().unwrap(), false);
        let read = |addr: *const u8, len| {
            // SAFETY: null, or no more than there is.
            unsafe { read(addr.cast(), len) }
        };
        assert_eq!(read(ptr::null(), 16), Err(Errno::EFAULT));
        assert_eq!(read(raw.as_ptr(), 1), Err(Errno::EINVAL));
        assert_eq!(read(raw.as_ptr(), 15), Err(Errno::EINVAL));
        assert_eq!(read([1u8; 16].as_ptr(), 16), Err(Errno::EAFNOSUPPORT));
    }
}
