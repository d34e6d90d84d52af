//! Our TCP against the kernel's over a TAP or TUN interface, each test in a network namespace of
//! its own. Every byte is compared.

use crate::child;
use crate::child::Holder;
use crate::kernel::{kernel_echoes, kernel_to_us};
use crate::live::{Echo, host};
use crate::netns::{PATIENCE, add_address, counter, in_own_namespace, sysctl};
use narrows::config::TcpConfig;
use narrows::device::Device;
use narrows::device::pcap::Captured;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::poll::{PollConfig, spawn};
use narrows::interface::Medium;
use std::net::TcpStream;
use std::process::Command;

const MB: u64 = 1 << 20;

/// A TAP whose kernel side is 10.77.0.9 and fd77::9.
fn tap(config: &TapConfig) -> Tap {
    let tap = Tap::open("nw%d", config).unwrap();
    add_address(tap.name(), "10.77.0.9".parse().unwrap(), 24);
    // The smallest MTU of IPv6.
    if tap.capabilities().mtu >= 1280 {
        add_address(tap.name(), "fd77::9".parse().unwrap(), 64);
    }
    tap
}

fn with(offload: bool, medium: Medium, mtu: usize) -> TapConfig {
    TapConfig {
        medium,
        offload,
        mtu: Some(mtu),
        ..TapConfig::default()
    }
}

#[test]
fn segments_share_frames_with_offload() {
    in_own_namespace(|| {
        let tap = tap(&with(true, Medium::Ethernet, 1500));
        let stats = kernel_to_us(tap, "10.77.0.1:7", 64 * MB);
        // Forty segments share a frame where nothing hinders it.
        assert!(stats.bytes_in / stats.frames_in > 4_000, "{stats:?}");
        assert!(stats.bytes_out / stats.frames_out > 4_000, "{stats:?}");
        assert_eq!(counter("Tcp", "InErrs"), 0, "checksums");
        // On a busy machine an answer may come late, but nothing is lost.
        let late = counter("TcpExt", "TCPLossProbes") + counter("TcpExt", "TCPTimeouts");
        assert!(counter("Tcp", "RetransSegs") <= late);
    });
}

/// tshark finds nothing wrong in a capture: headers, checksums, sequence numbers.
#[test]
fn tshark_finds_nothing_wrong() {
    for offload in [true, false] {
        in_own_namespace(move || {
            let path = std::env::temp_dir().join(format!(
                "narrows-live-{}-{offload}.pcapng",
                std::process::id()
            ));
            let file = std::fs::File::create(&path).unwrap();
            let tap = tap(&with(offload, Medium::Ethernet, 1500));
            let tap = Captured::new(tap, "tap", file).unwrap();
            kernel_to_us(tap, "10.77.0.1:7", MB);
            let tshark = |filter: &str| {
                let output = Command::new("tshark")
                    .args([
                        "-o",
                        "tcp.check_checksum:TRUE",
                        "-o",
                        "ip.check_checksum:TRUE",
                    ])
                    .arg("-r")
                    .arg(&path)
                    .args(["-Y", filter])
                    .output()?;
                std::io::Result::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            };
            let all = tshark("tcp");
            let wrong = tshark(
                "_ws.malformed || tcp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\" \
                 || tcp.analysis.ack_lost_segment || tcp.analysis.lost_segment",
            );
            // Linux writes a checksum of zero as 0xffff (`skb_checksum_help`), for TCP too.
            let unchecked = tshark(
                "tcp && tcp.checksum.status != \"Good\" \
                 && !(ip.src == 10.77.0.9 && tcp.checksum == 0xffff)",
            );
            std::fs::remove_file(&path).unwrap();
            let all = match all {
                Ok(all) => all,
                Err(e) => {
                    let ci = std::env::var("CI").is_ok_and(|v| v == "true");
                    assert!(!ci, "no tshark: {e}");
                    return eprintln!("SKIPPED, there is no tshark: {e}");
                }
            };
            assert!(all.lines().count() > 20, "{all}");
            assert_eq!(wrong.unwrap(), "");
            assert_eq!(unchecked.unwrap(), "");
        });
    }
}

/// Each queue has a driver and an endpoint of its own, and every connection finds its way.
#[test]
fn several_queues() {
    in_own_namespace(|| {
        let config = with(true, Medium::Ip, 1500);
        // A flow stays with its queue though something is sent again.
        sysctl("net/core/txrehash", "0");
        let queues = Tap::open_queues("nw%d", &config, 2).unwrap();
        add_address(queues[0].name(), "10.77.0.9".parse().unwrap(), 24);
        let servers: Vec<_> = queues
            .into_iter()
            .map(|queue| {
                let server = host(1, TcpConfig::default(), queue.capabilities());
                let app = Echo::new("10.77.0.1:7");
                spawn(PollConfig::default(), server, queue, app).unwrap()
            })
            .collect();
        let clients: Vec<_> = (0..16)
            .map(|_| {
                let at = "10.77.0.1:7".parse().unwrap();
                let stream = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
                std::thread::spawn(move || kernel_echoes(stream, MB))
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        let accepted: Vec<_> = servers.into_iter().map(|s| s.stop().app.accepted).collect();
        assert_eq!(accepted.iter().sum::<usize>(), 16);
        assert!(accepted.iter().all(|&n| n > 0), "{accepted:?}");
    });
}

/// The device goes away under a running driver.
#[test]
fn a_removed_interface_ends_the_driver() {
    in_own_namespace(|| {
        let tap = tap(&TapConfig::default());
        let name = tap.name().to_owned();
        let server = host(1, TcpConfig::default(), tap.capabilities());
        let app = Echo::new("10.77.0.1:7");
        let server = spawn(PollConfig::default(), server, tap, app).unwrap();
        let ok = Command::new("ip").args(["link", "del", &name]).status();
        match ok {
            Ok(status) => assert!(status.success()),
            Err(e) => return eprintln!("SKIPPED, there is no `ip` command: {e}"),
        }
        let ended = server.join();
        assert!(ended.outcome.is_err());
    });
}

/// The interface goes with the process that has made it, also when that is killed.
#[test]
fn nothing_stays_behind_of_a_process_that_was_killed() {
    in_own_namespace(|| {
        let is_there = || {
            let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            devices.contains("nwkilled")
        };
        let holder = Holder::start("live_tap::an_interface_to_be_killed", "nwkilled");
        assert!(is_there());
        holder.kill();
        // The kernel has done so when the process is gone.
        assert!(!is_there());
    });
}

/// The other process of the test above.
#[test]
fn an_interface_to_be_killed() {
    child::hold_if_told(|name| Tap::open(name, &TapConfig::default()).unwrap());
}

#[test]
fn an_interface_in_use_is_named_in_the_error() {
    in_own_namespace(|| {
        let tap = tap(&TapConfig::default());
        let again = Tap::open(tap.name(), &TapConfig::default()).unwrap_err();
        let text = again.to_string();
        assert!(text.contains(tap.name()) && text.contains("open"), "{text}");
    });
}
