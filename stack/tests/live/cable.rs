//! A veth pair: one end for AF_XDP, the other for the kernel's TCP.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use super::netns::{add_address, ethtool, until};
use narrows::device::xdp::{Attach, AttachMode, Xdp, XdpConfig};
use std::process::Command;

/// Our end of the cable, and the kernel's.
pub const OURS: &str = "nwx0";
pub const PEER: &str = "nwx1";

/// What `ethtool -K` calls tx, tso, gso and gro.
pub const SET_TX_CHECKSUM: u32 = 0x17;
pub const SET_TSO: u32 = 0x1f;
pub const SET_GSO: u32 = 0x24;
pub const SET_GRO: u32 = 0x2c;

/// Run `ip` in this thread's namespace.
pub fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args}: {said}");
}

/// Lay a cable with `queues` queues, the kernel's end being 10.77.0.9, and fd77::9 with `ipv6`.
/// `false`: the machine has no AF_XDP, which was said, or with `CI=true` failed.
pub fn lay(mtu: usize, queues: u32, ipv6: bool) -> bool {
    if let Err(e) = Command::new("ip").arg("-V").output() {
        skip(&format!("there is no `ip` command: {e}"));
        return false;
    }
    let ours = format!("numtxqueues {queues} numrxqueues {queues}");
    ip(&format!(
        "link add {OURS} mtu {mtu} {ours} type veth peer name {PEER} mtu {mtu} {ours}"
    ));
    ip(&format!("link set {OURS} up"));
    ip(&format!("link set {PEER} up"));
    add_address(PEER, "10.77.0.9".parse().unwrap(), 24);
    if ipv6 {
        add_address(PEER, "fd77::9".parse().unwrap(), 64);
    }
    let probe = XdpConfig {
        attach: Attach::As(AttachMode::Skb),
        ..XdpConfig::default()
    };
    if mtu <= 3506
        && let Err(e) = Xdp::open(OURS, &probe)
    {
        let missing = [
            libc::EPERM,
            libc::EAFNOSUPPORT,
            libc::ENOSYS,
            libc::EOPNOTSUPP,
            libc::EINVAL,
        ];
        let code = e.source.raw_os_error();
        assert!(code.is_some_and(|c| missing.contains(&c)), "{e}");
        skip(&e.to_string());
        return false;
    }
    await_detached();
    true
}

fn skip(why: &str) {
    let ci = std::env::var("CI").is_ok_and(|v| v == "true");
    assert!(!ci, "{why}");
    eprintln!("SKIPPED: {why}");
}

/// A program is attached to our end.
pub fn is_attached() -> bool {
    let output = Command::new("ip").args(["link", "show", OURS]).output();
    String::from_utf8_lossy(&output.unwrap().stdout).contains("xdp")
}

/// Wait until none is. It goes with the last descriptor of it, and a process that another thread
/// starts has all of ours for a moment.
pub fn await_detached() {
    until("the program goes", || !is_attached());
}

/// Our end.
pub fn open(mode: AttachMode) -> Xdp {
    await_detached();
    let config = XdpConfig {
        attach: Attach::As(mode),
        ..XdpConfig::default()
    };
    if mode == AttachMode::Skb {
        ethtool(PEER, SET_TSO, 0);
        ethtool(PEER, SET_GSO, 0);
    }
    let xdp = Xdp::open(OURS, &config).unwrap();
    assert_eq!(xdp.mode(), mode);
    xdp
}
