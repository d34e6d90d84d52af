//! The poll-loop driver over a loopback cable: whole, broken, full and cut.

use crate::live::{Client, Echo, Host, for_a_while, host};
use narrows::config::TcpConfig;
use narrows::device::Device;
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::loopback::Loopback;
use narrows::device::pcap::Captured;
use narrows::device::rule::Ruled;
use narrows::driver::LiveTcp;
use narrows::driver::poll::{Application, PollConfig, Waiting, spawn};
use narrows::interface::{Capabilities, Medium};
use narrows::{Duration, Instant};
use std::io;
use std::sync::{Arc, Mutex};

const PLAIN: Capabilities = Capabilities::plain(Medium::Ethernet, 1500);
const OFFLOAD: Capabilities = Capabilities::offload(Medium::Ethernet, 1500);

/// Echo `total` bytes between two drivers; the hosts afterwards.
fn echo(
    total: u64,
    waiting: Waiting,
    (a, b): (impl Device + 'static, impl Device + 'static),
) -> (Host, Host) {
    let config = PollConfig {
        waiting,
        ..PollConfig::default()
    };
    let server = host(2, TcpConfig::default(), b.capabilities());
    let client = host(1, TcpConfig::default(), a.capabilities());
    let server = spawn(config.clone(), server, b, Echo::new("10.77.0.2:7")).unwrap();
    let client = spawn(config, client, a, Client::new("10.77.0.2:7", total)).unwrap();
    let client = client.join();
    let server = server.stop();
    client.outcome.unwrap();
    assert_eq!(client.app.outcome, Some(Ok(())));
    assert_eq!(client.app.got, total);
    assert_eq!(server.app.accepted, 1);
    (client.interface, server.interface)
}

#[test]
fn bytes_come_back() {
    let (a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    echo(3_000_000, Waiting::default(), (a, b));
}

#[test]
fn super_frames_come_back() {
    let (a, b) = Loopback::pair(OFFLOAD, 1 << 20).unwrap();
    let (client, _) = echo(20_000_000, Waiting::default(), (a, b));
    let stats = client.stats();
    assert!(stats.bytes_out / stats.frames_out > 3_000, "{stats:?}");
}

#[test]
fn spinning_works_as_well() {
    let (a, b) = Loopback::pair(OFFLOAD, 1 << 20).unwrap();
    echo(2_000_000, Waiting::Spin, (a, b));
}

/// What a full cable refuses is sent later and is no loss.
#[test]
fn a_full_cable_is_waited_for() {
    let (a, b) = Loopback::pair(PLAIN, 5_000).unwrap();
    let (client, server) = echo(2_000_000, Waiting::default(), (a, b));
    assert!(client.stats().refused > 0, "{:?}", client.stats());
    for stats in [client.stats(), server.stats()] {
        assert_eq!(stats.bad_checksum + stats.malformed, 0);
    }
}

/// A device that refuses and is writable is tried again, neither never nor without a pause.
#[test]
fn a_refusing_device_is_tried_again_after_a_while() {
    for first in [2, 40] {
        let (a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
        let a = Ruled::new(a, for_a_while(first, Duration::from_millis(300)));
        let (client, _) = echo(1_000_000, Waiting::default(), (a, b));
        let refused = client.stats().refused;
        assert!(
            (2..1_000).contains(&refused),
            "{refused} from try {first} on"
        );
    }
}

#[test]
fn faults_are_survived() {
    let faults = |seed: u32| Faults {
        rates: vec![
            (Fault::Drop, 10_000),
            (Fault::Duplicate, 10_000),
            (Fault::Reorder(3), 10_000),
            (Fault::Corrupt, 5_000),
            (Fault::Delay(Duration::from_micros(300)), 5_000 + seed),
        ],
        ..Faults::default()
    };
    let (a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    let a = Faulty::new(a, 7, faults(0), faults(1));
    let (client, _) = echo(1_000_000, Waiting::default(), (a, b));
    assert!(client.stats().bad_checksum > 0, "{:?}", client.stats());
}

#[test]
fn a_cut_cable_ends_the_driver() {
    let (a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    let server = host(2, TcpConfig::default(), PLAIN);
    let server = spawn(PollConfig::default(), server, b, Echo::new("10.77.0.2:7")).unwrap();
    drop(a);
    let ended = server.join();
    assert_eq!(
        ended.outcome.map_err(|e| e.kind()),
        Err(io::ErrorKind::UnexpectedEof)
    );
}

#[test]
fn a_core_that_does_not_exist_is_an_error() {
    let (_a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    let config = PollConfig {
        core: Some(1_000_000),
        ..PollConfig::default()
    };
    let server = host(2, TcpConfig::default(), PLAIN);
    let ended = spawn(config, server, b, Echo::new("10.77.0.2:7"))
        .unwrap()
        .join();
    assert!(ended.outcome.is_err());
}

/// An application that is woken from outside and by its own timer.
struct Woken {
    times: u32,
    due: Option<Instant>,
    late: Option<Duration>,
}

impl Application<LiveTcp> for Woken {
    fn start(&mut self, _: &mut Host, _: Instant) -> io::Result<()> {
        Ok(())
    }
    fn event(&mut self, _: &mut Host, _: Instant, _: narrows::endpoint::EndpointEvent) {}
    fn wake(&mut self, _: &mut Host, now: Instant) {
        if self.due.is_none() {
            self.due = Some(now + Duration::from_micros(700));
        }
        self.late = self.due.filter(|&due| due <= now).map(|due| now.since(due));
        self.times += 1;
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
    fn is_done(&self) -> bool {
        self.late.is_some()
    }
}

#[test]
fn the_application_is_woken_and_has_a_timer() {
    let (_a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    let app = Woken {
        times: 0,
        due: None,
        late: None,
    };
    let idle = host(2, TcpConfig::default(), PLAIN);
    let handle = spawn(PollConfig::default(), idle, b, app).unwrap();
    handle.wake();
    let ended = handle.join();
    assert!(ended.outcome.is_ok());
    assert!(ended.app.late.is_some() && ended.app.times >= 2);
}

#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);
impl io::Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Every frame is in the capture, with a good checksum, also where the device was to compute it.
#[test]
fn a_capture_has_every_frame_and_good_checksums() {
    use narrows::wire::ethernet::EthernetHeader;
    use narrows::wire::{ChecksumPolicy, Packet};
    let (a, b) = Loopback::pair(OFFLOAD, 1 << 20).unwrap();
    let file = File::default();
    let a = Captured::new(a, "a", file.clone()).unwrap();
    let (client, _) = echo(500_000, Waiting::default(), (a, b));
    let bytes = file.0.lock().unwrap().clone();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut frames, mut segments) = (0, 0, 0);
    while at < bytes.len() {
        let (kind, len) = (word(at), word(at + 4));
        assert_eq!(word(at + len - 4), len);
        if kind == 6 {
            frames += 1;
            let frame = &bytes[at + 28..at + 28 + word(at + 20)];
            let (ethernet, packet) = EthernetHeader::parse(frame).unwrap();
            if u16::from(ethernet.ether_type) == 0x0800 {
                Packet::parse(packet, ChecksumPolicy::Verify).unwrap();
                segments += 1;
            }
        }
        at += len;
    }
    let stats = client.stats();
    assert_eq!(frames, stats.frames_in + stats.frames_out);
    assert!(segments > 20);
}
