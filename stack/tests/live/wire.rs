//! The wire between us and the kernel: what happens to frames on it.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use narrows::Instant;
use narrows::device::fault::{FaultStats, Faulty};
use narrows::device::{Device, DeviceStats, Refused};
use narrows::interface::{Capabilities, Medium, RxFrame, TxFrame};
use narrows::wire::ethernet::EthernetHeader;
use narrows::wire::{ChecksumPolicy, Flags, Packet};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

/// A device with faults. Sets Congestion Experienced in each `mark_every`-th IPv4 packet that may
/// carry it, in each direction, and says at any time what the faults have done.
pub struct Wire {
    pub device: Faulty<Box<dyn Device>>,
    /// 0: never.
    mark_every: u64,
    out: u64,
    into: u64,
    faults: Arc<Mutex<(FaultStats, FaultStats)>>,
    scratch: Vec<u8>,
    /// SYNs sent and received.
    pub syns: [Syns; 2],
}

/// How many SYNs there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syns {
    pub alone: u32,
    pub acknowledging: u32,
}

impl Syns {
    fn count(&mut self, medium: Medium, frame: &[u8]) {
        let bytes = match medium {
            Medium::Ip => Some(frame),
            Medium::Ethernet => EthernetHeader::parse(frame).ok().map(|(_, rest)| rest),
        };
        let packet = bytes.and_then(|b| Packet::parse(b, ChecksumPolicy::Trust).ok());
        match packet.map(|p| p.tcp.flags) {
            Some(flags) if !flags.contains(Flags::SYN) => {}
            Some(flags) if flags.contains(Flags::ACK) => self.acknowledging += 1,
            Some(_) => self.alone += 1,
            None => {}
        }
    }
}

impl Wire {
    pub fn new(device: Faulty<Box<dyn Device>>, mark_every: u64) -> Self {
        Self {
            device,
            mark_every,
            out: 0,
            into: 0,
            faults: Arc::default(),
            scratch: Vec::new(),
            syns: [Syns::default(); 2],
        }
    }

    /// What the faults have done so far to frames sent, and to frames received.
    pub fn faults(&self) -> Arc<Mutex<(FaultStats, FaultStats)>> {
        self.faults.clone()
    }
}

const ETHERNET: usize = 14;

/// Mark the Ethernet frame if it is its turn.
fn mark(every: u64, count: &mut u64, frame: &mut [u8]) {
    let is_ipv4 = frame.get(12..14) == Some(&[8, 0]);
    let Some(header) = frame.get_mut(ETHERNET..ETHERNET + 20) else {
        return;
    };
    if !is_ipv4 || every == 0 || !matches!(header[1] & 3, 1 | 2) {
        return;
    }
    *count += 1;
    if !count.is_multiple_of(every) {
        return;
    }
    header[1] |= 3;
    header[10..12].fill(0);
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&(!sum).to_be_bytes());
}

impl Device for Wire {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        let Self {
            device,
            mark_every,
            into,
            scratch,
            syns: [_, syns],
            ..
        } = self;
        let medium = device.capabilities().medium;
        let sink = &mut |frame: &RxFrame<'_>| {
            syns.count(medium, frame.bytes);
            sink(frame);
        };
        let received = if *mark_every == 0 {
            device.receive(now, budget, sink)?
        } else {
            device.receive(now, budget, &mut |frame| {
                scratch.clear();
                scratch.extend_from_slice(frame.bytes);
                mark(*mark_every, into, scratch);
                sink(&RxFrame {
                    bytes: scratch,
                    ..*frame
                });
            })?
        };
        *self.faults.lock().unwrap() = self.device.fault_stats();
        Ok(received)
    }
    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        // A SYN has no body.
        self.syns[0].count(self.device.capabilities().medium, frame.head);
        if self.mark_every == 0 {
            return self.device.transmit(now, frame);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(frame.head);
        mark(self.mark_every, &mut self.out, &mut self.scratch);
        let marked = TxFrame {
            head: &self.scratch,
            ..*frame
        };
        self.device.transmit(now, &marked)
    }
    fn flush(&mut self, now: Instant) -> io::Result<()> {
        let flushed = self.device.flush(now);
        *self.faults.lock().unwrap() = self.device.fault_stats();
        flushed
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}
