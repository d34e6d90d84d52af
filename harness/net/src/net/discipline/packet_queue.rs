//! Packets that wait, in order, with their bytes.

use std::collections::VecDeque;

use super::Queued;
use crate::net::buffer::Depth;

/// A first-in, first-out queue of packets, of which a discipline has one or many.
#[derive(Clone, Debug, Default)]
pub struct PacketQueue {
    packets: VecDeque<Queued>,
    bytes: u64,
}

impl PacketQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Puts a packet at the tail.
    pub fn push(&mut self, packet: Queued) {
        self.bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    /// The packet at the head.
    pub fn head(&self) -> Option<&Queued> {
        self.packets.front()
    }

    /// The packet at the tail.
    pub fn tail(&self) -> Option<&Queued> {
        self.packets.back()
    }

    /// Takes the packet at the head.
    pub fn pop_head(&mut self) -> Option<Queued> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }

    /// Takes the packet at the tail.
    pub fn pop_tail(&mut self) -> Option<Queued> {
        let packet = self.packets.pop_back()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Its length.
    pub fn depth(&self) -> Depth {
        Depth {
            packets: self.packets.len() as u32,
            bytes: self.bytes,
        }
    }
}
