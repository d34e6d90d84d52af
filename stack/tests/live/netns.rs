//! A network namespace without a name: it belongs to the thread that made it and those that this
//! thread starts, and is gone with the last of them, however they end.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Longer than anything takes, on however busy a machine: only what hangs reaches it.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Run `test` in a namespace of its own. Where that cannot be the test is skipped, loudly; with
/// `CI=true` it fails.
pub fn in_own_namespace(test: impl FnOnce() + Send + 'static) {
    if let Err(panic) = in_namespace("in a namespace", test) {
        std::panic::resume_unwind(panic);
    }
}

/// The same on a thread called `name`, which stands in the message of a panic.
///
/// # Errors
/// What the test panicked with.
pub fn in_namespace(name: &str, test: impl FnOnce() + Send + 'static) -> std::thread::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let outcome = thread.spawn(move || {
        // SAFETY: the flag concerns this thread only, which nobody else uses.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        fs::metadata("/dev/net/tun")?;
        test();
        Ok(())
    });
    match outcome.unwrap().join()? {
        Ok(()) => {}
        Err(e) => {
            let ci = std::env::var("CI").is_ok_and(|v| v == "true");
            assert!(!ci, "no network namespace: {e}");
            eprintln!("SKIPPED, it takes root and /dev/net/tun: {e}");
        }
    }
    Ok(())
}

/// The `ifreq` of the kernel with an address in it.
#[repr(C)]
struct AddressRequest {
    name: [u8; libc::IFNAMSIZ],
    addr: libc::sockaddr_in,
    rest: [u8; 8],
}

#[repr(C)]
struct AddressRequest6 {
    addr: [u8; 16],
    prefix: u32,
    index: libc::c_int,
}

fn name_of(interface: &str) -> [u8; libc::IFNAMSIZ] {
    let mut name = [0; libc::IFNAMSIZ];
    name[..interface.len()].copy_from_slice(interface.as_bytes());
    name
}

/// Give `interface`, which is up, an address of the kernel's.
pub fn add_address(interface: &str, addr: IpAddr, prefix: u8) {
    match addr {
        IpAddr::V4(addr) => {
            let set = |code: libc::c_ulong, value: Ipv4Addr| {
                let mut request = AddressRequest {
                    name: name_of(interface),
                    addr: libc::sockaddr_in {
                        sin_family: libc::AF_INET as _,
                        sin_port: 0,
                        sin_addr: libc::in_addr {
                            s_addr: u32::from_ne_bytes(value.octets()),
                        },
                        sin_zero: [0; 8],
                    },
                    rest: [0; 8],
                };
                control(libc::AF_INET, code, &raw mut request);
            };
            set(libc::SIOCSIFADDR, addr);
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            set(libc::SIOCSIFNETMASK, Ipv4Addr::from_bits(mask));
        }
        IpAddr::V6(addr) => {
            // Without the second in which the kernel asks whether the address is free.
            sysctl("net/ipv6/conf/all/accept_dad", "0");
            sysctl(&format!("net/ipv6/conf/{interface}/accept_dad"), "0");
            let name = std::ffi::CString::new(interface).unwrap();
            // SAFETY: the name is a C string.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let mut request = AddressRequest6 {
                addr: addr.octets(),
                prefix: prefix.into(),
                index: index as libc::c_int,
            };
            control(libc::AF_INET6, libc::SIOCSIFADDR, &raw mut request);
            await_address(addr);
        }
    }
}

/// The kernel lets go of an address's first doubts (IFA_F_TENTATIVE) in its own time.
fn await_address(addr: Ipv6Addr) {
    let wanted: String = addr.octets().iter().map(|b| format!("{b:02x}")).collect();
    until(&format!("{addr} becomes usable"), || {
        let text = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
        let flags = text
            .lines()
            .find(|line| line.starts_with(&wanted))
            .and_then(|line| line.split_whitespace().nth(4))
            .and_then(|flags| u32::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & 0x40 == 0)
    });
}

fn control<T>(family: libc::c_int, code: libc::c_ulong, request: *mut T) {
    // SAFETY: `request` is what the kernel expects for `code` in this family, and alive.
    unsafe {
        let socket = libc::socket(family, libc::SOCK_DGRAM, 0);
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        let result = libc::ioctl(socket, code as _, request);
        let error = io::Error::last_os_error();
        libc::close(socket);
        assert!(result == 0, "{code:x}: {error}");
    }
}

/// Set a value of this namespace's kernel, as `net/ipv4/tcp_sack`.
pub fn sysctl(name: &str, value: &str) {
    fs::write(format!("/proc/sys/{name}"), value).unwrap_or_else(|e| panic!("{name}: {e}"));
}

/// A counter of this namespace's kernel, as `Tcp` `RetransSegs`.
pub fn counter(group: &str, name: &str) -> u64 {
    let wanted = format!("{group}{name}");
    let all = counters();
    let found = all.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("no counter {wanted}")).1
}

/// All of them, under the names of `nstat`: `TcpRetransSegs`, `TcpExtTCPChallengeACK`.
pub fn counters() -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for file in ["snmp", "netstat"] {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            let (names, values) = (pair[0].split_whitespace(), pair[1].split_whitespace());
            let group = pair[0].split(':').next().unwrap_or_default();
            for (name, value) in names.zip(values).skip(1) {
                // Some limits are -1.
                all.push((format!("{group}{name}"), value.parse().unwrap_or(0)));
            }
        }
    }
    let text = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(value)) = (words.next(), words.next()) {
            all.push((name.to_owned(), value.parse().unwrap_or(0)));
        }
    }
    all
}

/// Frames that the interfaces of this namespace have dropped.
pub fn dropped_frames() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let columns = text.lines().filter_map(|line| line.split_once(':'));
    let dropped = columns.map(|(_, counters)| {
        let all: Vec<_> = counters.split_whitespace().collect();
        // Eight columns for what was received, eight for what was sent.
        [3, 11].map(|at| all[at].parse::<u64>().unwrap())
    });
    dropped.flatten().sum()
}

/// Try until it is so, for as long as [`PATIENCE`] lasts.
#[allow(clippy::disallowed_methods)] // It waits for the kernel, and for other threads.
pub fn eventually(mut so: impl FnMut() -> bool) -> bool {
    let pause = Duration::from_millis(8);
    for _ in 0..PATIENCE.as_nanos() / pause.as_nanos() {
        if so() {
            return true;
        }
        std::thread::sleep(pause);
    }
    false
}

pub fn until(what: &str, so: impl FnMut() -> bool) {
    assert!(eventually(so), "in vain: {what}");
}

/// Wait until `interfaces` are said to run. The kernel finds out about carriers in a thread of its
/// own, in its own time, and until then a bridge forwards nothing from or to a port.
pub fn await_running(interfaces: &[&str]) {
    for name in interfaces {
        until(&format!("{name} runs"), || {
            let output = std::process::Command::new("ip")
                .args(["link", "show", name])
                .output();
            let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
            // A TAP's state is unknown for ever.
            ["state UP", "state UNKNOWN"]
                .iter()
                .any(|state| text.contains(state))
        });
    }
}

/// An `ethtool_value` command on `interface`, such as turning an offload off.
pub fn ethtool(interface: &str, command: u32, value: u32) {
    #[repr(C)]
    struct PointerRequest {
        name: [u8; libc::IFNAMSIZ],
        data: *mut [u32; 2],
        rest: [u8; 16],
    }
    let mut data = [command, value];
    let mut request = PointerRequest {
        name: name_of(interface),
        data: &raw mut data,
        rest: [0; 16],
    };
    control(libc::AF_INET, libc::SIOCETHTOOL, &raw mut request);
}
