//! What the kernel says of an interface.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::super::sys;
use super::super::tap::InterfaceRequest;
use crate::wire::ethernet::MacAddr;
use std::io;
use std::os::fd::AsFd;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// What has to be known before it is opened.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    pub(super) index: u32,
    /// In bytes of IP packet.
    pub(super) mtu: usize,
    pub(super) mac: MacAddr,
    /// The other end is in this machine, and nothing that comes from there was on a wire.
    pub(super) virtual_cable: bool,
    /// Received frames are merged before a program in SKB mode sees them.
    pub(super) merges: bool,
}

/// The kernel's `ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// The kernel's `ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    value: u32,
}

/// A control call about the interface `name`.
///
/// # Safety
/// The kernel reads and writes for `code` no more than an `ifreq`, and what a pointer in it is to.
unsafe fn control(
    name: &str,
    code: libc::c_ulong,
    pointer: *mut libc::c_void,
) -> io::Result<InterfaceRequest> {
    let mut request = InterfaceRequest::new(name)?;
    request.value.pointer = pointer;
    let socket = sys::control_socket()?;
    // SAFETY: promised by the caller; the request is no shorter than an `ifreq`, and every bit
    // pattern is a valid one.
    unsafe { sys::ioctl(socket.as_fd(), code, &mut request) }?;
    Ok(request)
}

fn mtu(name: &str) -> io::Result<usize> {
    let none = std::ptr::null_mut();
    // SAFETY: SIOCGIFMTU takes an `ifreq` without pointers.
    let request = unsafe { control(name, libc::SIOCGIFMTU, none) }?;
    // SAFETY: every member of the union is plain bytes, all of which are initialised.
    let mtu = unsafe { request.value.number };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

fn mac(name: &str) -> io::Result<MacAddr> {
    let none = std::ptr::null_mut();
    // SAFETY: SIOCGIFHWADDR takes an `ifreq` without pointers.
    let request = unsafe { control(name, libc::SIOCGIFHWADDR, none) }?;
    // SAFETY: every member of the union is plain bytes, all of which are initialised.
    let [first, ..] = unsafe { request.value.all };
    // A `sockaddr`: two bytes of family, then the address.
    let [_, _, mac @ ..] = first.to_ne_bytes();
    Ok(MacAddr(mac))
}

fn driver(name: &str) -> io::Result<String> {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    // SAFETY: SIOCETHTOOL takes an `ifreq` with a pointer to what the command is about, here an
    // `ethtool_drvinfo` of 196 bytes, which is ours to write.
    unsafe {
        control(
            name,
            libc::SIOCETHTOOL,
            std::ptr::from_mut(&mut info).cast(),
        )
    }?;
    let end = info.driver.iter().position(|&b| b == 0).unwrap_or(32);
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// A number that a driver may not have.
fn value(name: &str, command: u32) -> u32 {
    let mut value = Value { command, value: 0 };
    // SAFETY: SIOCETHTOOL takes an `ifreq` with a pointer to what the command is about, for those
    // used here an `ethtool_value`, which is ours to write.
    let asked = unsafe {
        control(
            name,
            libc::SIOCETHTOOL,
            std::ptr::from_mut(&mut value).cast(),
        )
    };
    asked.map_or(0, |_| value.value)
}

impl Properties {
    /// Of the interface `name` in this thread's network namespace.
    pub(super) fn of(name: &str) -> io::Result<Self> {
        Ok(Self {
            index: sys::interface_index(name)?,
            mtu: mtu(name)?,
            mac: mac(name)?,
            virtual_cable: driver(name).is_ok_and(|d| d == "veth"),
            merges: value(name, ETHTOOL_GGRO) != 0
                || value(name, ETHTOOL_GFLAGS) & ETH_FLAG_LRO != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_long_as_the_kernel_takes_them() {
        assert_eq!(size_of::<DriverInfo>(), 196);
        assert_eq!(size_of::<Value>(), 8);
        // A `sockaddr` and a pointer fit into the union.
        assert!(size_of::<InterfaceRequest>() >= size_of::<libc::ifreq>());
    }

    #[test]
    fn the_loopback_interface_is_known() {
        let lo = Properties::of("lo").unwrap();
        assert_eq!(lo.mac, MacAddr([0; 6]));
        assert!(lo.index > 0 && lo.mtu > 0 && !lo.virtual_cable);
    }
}
