//! Our TCP on AF_XDP against the kernel's over a veth pair, each test in a network namespace of its
//! own. Every byte is compared.
#![cfg(feature = "device")]

#[path = "live/kernel.rs"]
mod kernel;
mod live;
#[path = "live/netns.rs"]
mod netns;

use kernel::{kernel_to_us, us_to_kernel};
use live::{Echo, data, host};
use narrows::config::TcpConfig;
use narrows::device::Device;
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::xdp::{Attach, AttachMode, CopyMode, PartialChecksums, Xdp, XdpConfig};
use narrows::driver::poll::{PollConfig, spawn};
use netns::{add_address, counter, ethtool, in_own_namespace};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const MB: u64 = 1 << 20;
/// Our end of the cable, and the kernel's.
const OURS: &str = "nwx0";
const PEER: &str = "nwx1";

/// What `ethtool -K` calls tx, tso, gso and gro.
const SET_TX_CHECKSUM: u32 = 0x17;
const SET_TSO: u32 = 0x1f;
const SET_GSO: u32 = 0x24;
const SET_GRO: u32 = 0x2c;

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args}: {said}");
}

/// Run `test` in a namespace with a cable whose end for the kernel is 10.77.0.9 and fd77::9. Where
/// the machine has no AF_XDP the test is skipped, loudly; with `CI=true` it fails.
fn with_cable(mtu: usize, test: impl FnOnce() + Send + 'static) {
    in_own_namespace(move || {
        if let Err(e) = Command::new("ip").arg("-V").output() {
            return skip(&format!("there is no `ip` command: {e}"));
        }
        ip(&format!(
            "link add {OURS} mtu {mtu} type veth peer name {PEER} mtu {mtu}"
        ));
        ip(&format!("link set {OURS} up"));
        ip(&format!("link set {PEER} up"));
        add_address(PEER, "10.77.0.9".parse().unwrap(), 24);
        if mtu >= 1280 {
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
            assert!(
                e.source
                    .raw_os_error()
                    .is_some_and(|c| missing.contains(&c)),
                "{e}"
            );
            return skip(&e.to_string());
        }
        test();
    });
}

fn skip(why: &str) {
    let ci = std::env::var("CI").is_ok_and(|v| v == "true");
    assert!(!ci, "{why}");
    eprintln!("SKIPPED: {why}");
}

fn open(mode: AttachMode) -> Xdp {
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

const MODES: [AttachMode; 2] = [AttachMode::Native, AttachMode::Skb];

#[test]
fn passive_open() {
    for mode in MODES {
        with_cable(1500, move || {
            let stats = kernel_to_us(open(mode), "10.77.0.1:7", 32 * MB);
            assert_eq!(stats.bad_checksum, 0);
            assert_eq!(counter("Tcp", "InErrs"), 0, "checksums");
        });
    }
}

#[test]
fn active_open() {
    for mode in MODES {
        with_cable(1500, move || {
            let stats = us_to_kernel(open(mode), "10.77.0.9:7", 32 * MB);
            assert_eq!(stats.bad_checksum, 0);
            assert_eq!(counter("Tcp", "InErrs"), 0, "checksums");
        });
    }
}

#[test]
fn ipv6_both_ways() {
    with_cable(1500, || {
        us_to_kernel(open(AttachMode::Native), "[fd77::9]:7", 8 * MB);
    });
    with_cable(1500, || {
        kernel_to_us(open(AttachMode::Native), "[fd77::1]:7", 8 * MB);
    });
}

#[test]
fn small_and_large_mtu() {
    for mtu in [576, 3506] {
        with_cable(mtu, || {
            kernel_to_us(open(AttachMode::Native), "10.77.0.1:7", 4 * MB);
        });
    }
}

/// Rings so small that they are full all the time, and 32 frames a call.
#[test]
fn small_rings() {
    with_cable(1500, || {
        let config = XdpConfig {
            receive_ring: 64,
            transmit_ring: 64,
            transmit_budget: 32,
            ..XdpConfig::default()
        };
        let xdp = Xdp::open(OURS, &config).unwrap();
        kernel_to_us(xdp, "10.77.0.1:7", 8 * MB);
    });
}

#[test]
fn faults_on_our_side() {
    with_cable(1500, || {
        let faults = || Faults {
            rates: vec![
                (Fault::Drop, 5_000),
                (Fault::Duplicate, 5_000),
                (Fault::Corrupt, 5_000),
                (Fault::Reorder(4), 5_000),
            ],
            ..Faults::default()
        };
        // What is corrupted shall not look like a checksum that was left out.
        ethtool(PEER, SET_TX_CHECKSUM, 0);
        let xdp = Faulty::new(open(AttachMode::Native), 42, faults(), faults());
        let stats = kernel_to_us(xdp, "10.77.0.1:7", 4 * MB);
        assert!(stats.bad_checksum > 0, "{stats:?}");
    });
}

/// Checksums that the kernel left out are seen as such, and as nothing else.
#[test]
fn incomplete_checksums() {
    with_cable(1500, || {
        let xdp = open(AttachMode::Native);
        let server = host(1, TcpConfig::default(), xdp.capabilities());
        let app = Echo::new("10.77.0.1:7");
        let server = spawn(PollConfig::default(), server, xdp, app).unwrap();
        echo_once();
        let ended = server.stop();
        ended.outcome.unwrap();
        assert!(ended.device.statistics().unwrap().partial_checksums > 0);
        drop(ended.device);

        ethtool(PEER, SET_TX_CHECKSUM, 0);
        let xdp = open(AttachMode::Native);
        let server = host(1, TcpConfig::default(), xdp.capabilities());
        let app = Echo::new("10.77.0.1:7");
        let server = spawn(PollConfig::default(), server, xdp, app).unwrap();
        echo_once();
        let ended = server.stop();
        assert_eq!(ended.device.statistics().unwrap().partial_checksums, 0);
    });
}

fn echo_once() {
    let at = "10.77.0.1:7".parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(10)).unwrap();
    stream.write_all(&data(0, 1000)).unwrap();
    let mut back = [0; 1000];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back[..], data(0, 1000)[..]);
}

#[test]
fn incomplete_checksums_refused() {
    with_cable(1500, || {
        let config = XdpConfig {
            partial_checksums: PartialChecksums::Refuse,
            ..XdpConfig::default()
        };
        let xdp = Xdp::open(OURS, &config).unwrap();
        let server = host(1, TcpConfig::default(), xdp.capabilities());
        let server = spawn(PollConfig::default(), server, xdp, Echo::new("10.77.0.1:7")).unwrap();
        let at = "10.77.0.1:7".parse().unwrap();
        let _ = TcpStream::connect_timeout(&at, Duration::from_millis(200));
        let text = server.join().outcome.unwrap_err().to_string();
        assert!(text.contains("ethtool -K PEER tx off"), "{text}");
    });
}

/// Super-frames are lost in SKB mode: the device says so, and what to do.
#[test]
fn super_frames_in_skb_mode_are_named() {
    with_cable(1500, || {
        let config = XdpConfig {
            attach: Attach::As(AttachMode::Skb),
            ..XdpConfig::default()
        };
        let xdp = Xdp::open(OURS, &config).unwrap();
        let server = host(1, TcpConfig::default(), xdp.capabilities());
        let server = spawn(PollConfig::default(), server, xdp, Echo::new("10.77.0.1:7")).unwrap();
        let at = "10.77.0.1:7".parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(10)).unwrap();
        // Nobody may be there any more to take it all.
        stream.set_nonblocking(true).unwrap();
        assert!(stream.write(&data(0, 100_000)).unwrap() > 10_000);
        let text = server.join().outcome.unwrap_err().to_string();
        assert!(text.contains("ethtool -K PEER tso off gso off"), "{text}");
    });
}

#[test]
fn merging_is_refused_in_skb_mode() {
    with_cable(1500, || {
        ethtool(OURS, SET_GRO, 1);
        let config = XdpConfig {
            attach: Attach::As(AttachMode::Skb),
            ..XdpConfig::default()
        };
        let text = Xdp::open(OURS, &config).unwrap_err().to_string();
        assert!(text.contains("ethtool -K nwx0 gro off"), "{text}");
    });
}

/// A queue is busy for a while after a socket was closed.
#[test]
fn open_again_after_close() {
    with_cable(1500, || {
        for mode in [MODES, MODES].concat() {
            kernel_to_us(open(mode), "10.77.0.1:7", MB / 8);
        }
    });
}

#[test]
fn a_queue_in_use_is_named_in_the_error() {
    with_cable(1500, || {
        let first = open(AttachMode::Native);
        let config = XdpConfig {
            patience: narrows::Duration::from_millis(20),
            ..XdpConfig::default()
        };
        let text = Xdp::open(OURS, &config).unwrap_err().to_string();
        assert!(text.contains("queue 0") && text.contains(OURS), "{text}");
        drop(first);
    });
}

/// The program goes with the device: the kernel gets its frames back.
#[test]
fn nothing_stays_behind() {
    with_cable(1500, || {
        let attached = || {
            let output = Command::new("ip").args(["link", "show", OURS]).output();
            String::from_utf8_lossy(&output.unwrap().stdout).contains("xdp")
        };
        let xdp = open(AttachMode::Native);
        assert!(attached());
        drop(xdp);
        assert!(!attached());
    });
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    with_cable(1500, || {
        let refusal = |name: &str, config: XdpConfig| match Xdp::open(name, &config) {
            Ok(_) => panic!("{name} was opened with {config:?}"),
            Err(e) => e.to_string(),
        };
        let usual = XdpConfig::default;
        let text = refusal("nwx7", usual());
        assert!(text.contains("nwx7") && text.contains("ip link"), "{text}");
        for name in ["", "a-name-much-too-long", "a/b", "a\0b"] {
            assert!(refusal(name, usual()).contains("interface name"));
        }
        let config = XdpConfig {
            queue: 7,
            ..usual()
        };
        assert!(refusal(OURS, config).contains("ethtool -l nwx0"));
        for ring in [0, 63, 100, 1 << 20] {
            let config = XdpConfig {
                receive_ring: ring,
                ..usual()
            };
            assert!(refusal(OURS, config).contains("power of two"));
        }
        let config = XdpConfig {
            copy: CopyMode::ZeroCopy,
            ..usual()
        };
        assert!(refusal(OURS, config).contains("zero-copy"));
    });
    with_cable(9000, || {
        let text = Xdp::open(OURS, &XdpConfig::default()).unwrap_err();
        assert!(text.to_string().contains("mtu 3506"), "{text}");
    });
    // Native mode cannot, so it is the other one; who insists is told.
    with_cable(3600, || {
        let config = XdpConfig {
            attach: Attach::As(AttachMode::Native),
            ..XdpConfig::default()
        };
        let text = Xdp::open(OURS, &config).unwrap_err().to_string();
        assert!(text.contains("mtu 3506"), "{text}");
        let xdp = Xdp::open(OURS, &XdpConfig::default()).unwrap();
        assert_eq!(xdp.mode(), AttachMode::Skb);
    });
}

/// The device goes away under a running driver.
#[test]
fn a_removed_interface_ends_the_driver() {
    with_cable(1500, || {
        let xdp = open(AttachMode::Native);
        let server = host(1, TcpConfig::default(), xdp.capabilities());
        let server = spawn(PollConfig::default(), server, xdp, Echo::new("10.77.0.1:7")).unwrap();
        echo_once();
        ip(&format!("link del {OURS}"));
        let text = server.join().outcome.unwrap_err().to_string();
        assert!(text.contains(OURS) && text.contains("gone"), "{text}");
    });
}

/// What is sent while the interface is down is refused, and the connection goes on when it is up.
#[test]
fn down_and_up_again() {
    with_cable(1500, || {
        let xdp = open(AttachMode::Native);
        let server = host(1, TcpConfig::default(), xdp.capabilities());
        let server = spawn(PollConfig::default(), server, xdp, Echo::new("10.77.0.1:7")).unwrap();
        echo_once();
        ip(&format!("link set {OURS} down"));
        ip(&format!("link set {OURS} up"));
        echo_once();
        let ended = server.stop();
        ended.outcome.unwrap();
        assert_eq!(ended.app.accepted, 2);
    });
}
