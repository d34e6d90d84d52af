//! A path that takes smaller packets than either end knows, and says nothing: the kernel's bridge
//! drops what is too large for a port. Ours finds its way (RFC 4821), and so does the kernel's TCP.
#![cfg(feature = "tokio")]

use crate::netns::{PATIENCE, add_address, await_running, ethtool, in_own_namespace, sysctl};
use narrows::config::TcpConfig;
use narrows::conn::mtu_probing::MtuProbingMode;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::tokio::{Stack, TcpSocket};
use narrows::interface::InterfaceConfig;
use narrows::wire::ethernet::MacAddr;
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// What `ethtool -K` calls tso and gso: the bridge lets packets pass that are still to be cut, ours too.
const SET_TSO: u32 = 0x1f;
const SET_GSO: u32 = 0x24;

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args}: {said}");
}

/// A TAP for us and a cable to the kernel's 10.77.0.9, all of 1,500 bytes, and between their bridges
/// one of `mtu`. The kernel's own cable must not be that one: its sender hears of what its own cable
/// drops, and that is no silence. When not even the first packet counts as sent (seen after a
/// handshake of a second, when packets leave one by one) it tries the same size every half second,
/// as with a closed window, never looks for a smaller one, and gives up.
fn lay(mtu: u32) -> Tap {
    let config = TapConfig {
        offload: false,
        ..TapConfig::default()
    };
    let tap = Tap::open("nw%d", &config).unwrap();
    for bridge in ["nwb0", "nwb1"] {
        ip(&format!("link add {bridge} type bridge"));
    }
    for (mtu, left, right) in [(mtu, "nwn0", "nwn1"), (1_500, "nwp0", "nwp1")] {
        ip(&format!(
            "link add {left} mtu {mtu} type veth peer name {right} mtu {mtu}"
        ));
        for end in [left, right] {
            ethtool(end, SET_TSO, 0);
            ethtool(end, SET_GSO, 0);
        }
    }
    let ports = [
        (tap.name(), "nwb0"),
        ("nwn0", "nwb0"),
        ("nwn1", "nwb1"),
        ("nwp0", "nwb1"),
    ];
    for (port, bridge) in ports {
        ip(&format!("link set {port} master {bridge}"));
    }
    // The bridges are the kernel's, too, and would answer for the cable's address.
    sysctl("net/ipv4/conf/all/arp_ignore", "1");
    let links = ["nwb0", "nwb1", "nwn0", "nwn1", "nwp0", "nwp1"];
    for link in links {
        ip(&format!("link set {link} up"));
    }
    add_address("nwp1", "10.77.0.9".parse().unwrap(), 24);
    await_running(&[tap.name()]);
    await_running(&links);
    tap
}

/// 2 MB there and back.
async fn both_ways(stack: &Stack, mode: MtuProbingMode) -> u32 {
    let theirs = tokio::net::TcpListener::bind("10.77.0.9:0").await.unwrap();
    let mut socket = TcpSocket::new_v4(stack).unwrap();
    socket.set_mtu_probing(mode);
    // One that fails must not wait for the other.
    let connecting = socket.connect(theirs.local_addr().unwrap());
    let (ours, theirs) = tokio::try_join!(connecting, theirs.accept()).unwrap();
    let (mut ours, (mut theirs, _)) = (ours, theirs);
    let data: Vec<u8> = (0..2_000_000_u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    let mut got = vec![0; data.len()];
    tokio::try_join!(ours.write_all(&data), theirs.read_exact(&mut got)).unwrap();
    assert!(got == data);
    got.fill(0);
    tokio::try_join!(theirs.write_all(&data), ours.read_exact(&mut got)).unwrap();
    assert!(got == data);
    ours.info().unwrap().tcpi_pmtu
}

#[test]
fn rfc4821_a_bridge_that_drops_in_silence_is_passed_both_ways() {
    if Command::new("ip").arg("-V").output().is_err() {
        assert!(std::env::var("CI").is_err(), "there is no `ip` command");
        eprintln!("SKIPPED: there is no `ip` command");
        return;
    }
    in_own_namespace(|| {
        // The kernel's own way out of the hole.
        sysctl("net/ipv4/tcp_mtu_probing", "1");
        let tap = lay(1_300);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let addresses = vec!["10.77.0.1/24".parse().unwrap()];
            let interface = InterfaceConfig::new(MacAddr([2, 0x77, 0, 0, 0, 1]), addresses);
            let stack = Stack::spawn(tap, interface, TcpConfig::default()).unwrap();
            for mode in [MtuProbingMode::AfterBlackHole, MtuProbingMode::Always] {
                let pmtu = timeout(PATIENCE, both_ways(&stack, mode)).await.unwrap();
                // From 1,064 on: how far probes get is a matter of the window, as each that is lost
                // lets the next wait, and of the machine. That they come within 8 bytes is held in
                // virtual time.
                assert!((1_065..=1_300).contains(&pmtu), "{mode:?}: {pmtu}");
            }
            stack.shutdown(PATIENCE).await.unwrap();
        });
    });
}
