//! Our TCP on AF_XDP against the kernel's over a veth pair, each test in a network namespace of its
//! own. Every byte is compared.

use crate::cable;
use crate::cable::{OURS, PEER, SET_GRO, SET_TX_CHECKSUM, await_detached, ip, is_attached, open};
use crate::child;
use crate::child::Holder;
use crate::kernel::{kernel_echoes, kernel_to_us};
use crate::live::{Echo, data, host};
use crate::netns::{PATIENCE, ethtool, in_own_namespace, sysctl};
use narrows::config::TcpConfig;
use narrows::device::Device;
use narrows::device::xdp::{Attach, AttachMode, CopyMode, PartialChecksums, Xdp, XdpConfig};
use narrows::driver::poll::{PollConfig, spawn};
use narrows::driver::secret;
use narrows::endpoint::EndpointConfig;
use narrows::interface::{Interface, InterfaceConfig};
use narrows::wire::ethernet::MacAddr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const MB: u64 = 1 << 20;

/// Run `test` in a namespace with a cable whose end for the kernel is 10.77.0.9. Where the machine
/// has no AF_XDP the test is skipped, loudly; with `CI=true` it fails.
fn with_cable(mtu: usize, test: impl FnOnce() + Send + 'static) {
    in_own_namespace(move || {
        if cable::lay(mtu, 1, false) {
            test();
        }
    });
}

const MODES: [AttachMode; 2] = [AttachMode::Native, AttachMode::Skb];

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
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
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
        let mut stream = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
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

/// A program in the other mode is in the way as well (EEXIST), and may be about to go.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "it waits for another thread to be refused"
)]
fn a_program_in_the_other_mode_is_waited_for() {
    in_own_namespace(|| {
        if !cable::lay(1500, 2, false) {
            return;
        }
        for mode in MODES {
            let first = open(mode);
            let other = MODES.into_iter().find(|m| *m != mode).unwrap();
            let open_other = |patience| {
                let config = XdpConfig {
                    queue: 1,
                    attach: Attach::As(other),
                    patience,
                    ..XdpConfig::default()
                };
                Xdp::open(OURS, &config)
            };
            let refused = open_other(narrows::Duration::from_millis(20)).unwrap_err();
            assert_eq!(refused.source.raw_os_error(), Some(libc::EEXIST));
            assert!(refused.to_string().contains("another XDP program"));
            let second = std::thread::scope(|scope| {
                let waiting = scope.spawn(|| open_other(PATIENCE.into()));
                std::thread::sleep(Duration::from_millis(50));
                drop(first);
                waiting.join().unwrap()
            });
            assert_eq!(second.unwrap().mode(), other);
            await_detached();
        }
    });
}

/// The program goes with the device: the kernel gets its frames back.
#[test]
fn nothing_stays_behind() {
    with_cable(1500, || {
        for mode in MODES {
            let xdp = open(mode);
            assert!(is_attached());
            drop(xdp);
            await_detached();
        }
    });
}

/// It goes as well when the process is killed, and the queue can be opened again.
#[test]
fn nothing_stays_behind_of_a_process_that_was_killed() {
    with_cable(1500, || {
        for mode in MODES {
            let holder = Holder::start("live_xdp::a_program_to_be_killed", &format!("{mode:?}"));
            assert!(is_attached());
            holder.kill();
            // The kernel cleans up behind the process.
            await_detached();
            kernel_to_us(open(mode), "10.77.0.1:7", MB / 8);
        }
    });
}

/// The other process of the test above.
#[test]
fn a_program_to_be_killed() {
    child::hold_if_told(|mode| {
        let mode = MODES.into_iter().find(|m| format!("{m:?}") == mode);
        open(mode.unwrap())
    });
}

/// Each queue has a driver and an endpoint of its own, and every connection finds its way. The
/// kernel picks a queue by a hash of the flow.
#[test]
fn several_queues() {
    for mode in MODES {
        in_own_namespace(move || {
            if !cable::lay(1500, 2, false) {
                return;
            }
            // A flow stays with its queue though something is sent again. The answers to questions
            // for a neighbour do not: it is known.
            sysctl("net/core/txrehash", "0");
            ip(&format!("link set {PEER} address 02:77:00:00:00:09"));
            let config = XdpConfig {
                attach: Attach::As(mode),
                ..XdpConfig::default()
            };
            if mode == AttachMode::Skb {
                ethtool(PEER, cable::SET_TSO, 0);
                ethtool(PEER, cable::SET_GSO, 0);
            }
            let queues = Xdp::open_queues(OURS, &config, 2).unwrap();
            let servers: Vec<_> = queues
                .into_iter()
                .map(|queue| {
                    let address = "10.77.0.1/24".parse().unwrap();
                    let mac = |n| MacAddr([2, 0x77, 0, 0, 0, n]);
                    let mut interface = InterfaceConfig::new(mac(1), vec![address]);
                    interface.fixed_neighbors = vec![("10.77.0.9".parse().unwrap(), mac(9))];
                    let tcp = Arc::new(TcpConfig::default());
                    let endpoint = EndpointConfig::new(tcp, secret().unwrap());
                    let capabilities = queue.capabilities();
                    let server = Interface::new(interface, endpoint, capabilities).unwrap();
                    let app = Echo::new("10.77.0.1:7");
                    spawn(PollConfig::default(), server, queue, app).unwrap()
                })
                .collect();
            let clients: Vec<_> = (0..24)
                .map(|_| {
                    let at = "10.77.0.1:7".parse().unwrap();
                    let stream = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
                    std::thread::spawn(move || kernel_echoes(stream, MB / 4))
                })
                .collect();
            for client in clients {
                client.join().unwrap();
            }
            let ended: Vec<_> = servers.into_iter().map(|s| s.stop()).collect();
            let accepted: Vec<_> = ended.iter().map(|e| e.app.accepted).collect();
            assert_eq!(accepted.iter().sum::<usize>(), 24);
            // In SKB mode a veth need not say by which queue a frame came: it is the first.
            let all_used = accepted.iter().all(|&n| n > 0);
            assert!(all_used || mode == AttachMode::Skb, "{accepted:?}");
            // The program is there as long as one of the queues is.
            let mut devices = ended.into_iter().map(|e| e.device);
            drop(devices.next());
            assert!(is_attached());
            drop(devices.next());
            await_detached();
        });
    }
}

/// Queues that the interface does not have are refused.
#[test]
fn more_queues_than_there_are() {
    with_cable(1500, || {
        let text = Xdp::open_queues(OURS, &XdpConfig::default(), 2).unwrap_err();
        assert!(text.to_string().contains("ethtool -l nwx0"), "{text}");
        await_detached();
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
