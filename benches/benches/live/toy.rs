//! A toy TCP: what is left of one when there is nothing to decide. One connection, fixed headers,
//! no options after the handshake, no buffers, going back to the last acknowledged byte whenever
//! nothing has moved for a while. It shows how much the device and the kernel behind it can do.

use super::lab::MAC;
use narrows::buffer::BytesView;
use narrows::device::Device;
use narrows::driver::Clock;
use narrows::interface::{Offload, PartialChecksum, Segmentation, TxFrame};
use narrows::wire::checksum::Sum;
use narrows::{Duration, Instant};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const HEAD: usize = 14 + 20 + 20;
const MSS: usize = 1460;
/// Segments in a super-frame.
const BURST: usize = 44;
/// Unacknowledged at most, and the window offered.
const WINDOW: u32 = 1 << 20;
const SHIFT: u8 = 6;
/// When to begin again.
const STALL: Duration = Duration::from_millis(20);

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// What the toy does.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Sends for ever.
    Source,
    /// Counts what comes.
    Sink(Arc<AtomicU64>),
}

struct Toy {
    role: Role,
    /// The peer's hardware address, address and port, and our port.
    peer: Option<([u8; 6], [u8; 4], u16, u16)>,
    own: [u8; 4],
    una: u32,
    nxt: u32,
    rcv: u32,
    window: u32,
    shift: u8,
    answer: bool,
    syn: bool,
    moved: Instant,
}

fn word(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(b.get(at..at + 2)?.try_into().ok()?))
}
fn long(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

/// The shift count among the options of a SYN.
fn window_scale(mut options: &[u8]) -> u8 {
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [3, 3, shift, ..] => return *shift,
            [0, ..] | [] => return 0,
            [_, len, ..] => options = options.get(usize::from(*len).max(2)..).unwrap_or(&[]),
            [_] => return 0,
        }
    }
}

impl Toy {
    /// A frame arrives; `None` if it means nothing.
    fn take(&mut self, f: &[u8], now: Instant) -> Option<()> {
        if word(f, 12)? != 0x0800 || *f.get(23)? != 6 {
            return None;
        }
        let ip = 14;
        let tcp = ip + usize::from(f[ip] & 15) * 4;
        let text = tcp + usize::from(f.get(tcp + 12)? >> 4) * 4;
        let end = ip + usize::from(word(f, ip + 2)?);
        let (seq, ack) = (long(f, tcp + 4)?, long(f, tcp + 8)?);
        let flags = *f.get(tcp + 13)?;
        if flags & SYN != 0 {
            let mac = f.get(6..12)?.try_into().ok()?;
            let addr = f.get(26..30)?.try_into().ok()?;
            self.own = f.get(30..34)?.try_into().ok()?;
            self.peer = Some((mac, addr, word(f, tcp)?, word(f, tcp + 2)?));
            self.shift = window_scale(f.get(tcp + 20..text)?);
            self.rcv = seq.wrapping_add(1);
            self.window = word(f, tcp + 14)?.into();
            (self.una, self.nxt, self.syn) = (0, 0, true);
            return Some(());
        }
        self.peer?;
        if ack.wrapping_sub(self.una) <= self.nxt.wrapping_sub(self.una) {
            if ack != self.una {
                self.moved = now;
            }
            self.una = ack;
            self.window = u32::from(word(f, tcp + 14)?) << self.shift;
        }
        let len = end.checked_sub(text)?;
        if len > 0 || flags & FIN != 0 {
            if seq == self.rcv {
                self.rcv = seq.wrapping_add(len as u32);
                if let Role::Sink(counter) = &self.role {
                    counter.fetch_add(len as u64, Ordering::Relaxed);
                }
            }
            self.answer = true;
        }
        Some(())
    }

    /// Send `body` at `seq`.
    fn send(
        &self,
        device: &mut dyn Device,
        now: Instant,
        seq: u32,
        flags: u8,
        body: &[u8],
    ) -> io::Result<bool> {
        let Some((mac, addr, to, from)) = self.peer else {
            return Ok(false);
        };
        let options: &[u8] = if flags & SYN != 0 {
            &[2, 4, (MSS >> 8) as u8, MSS as u8, 3, 3, SHIFT, 0]
        } else {
            &[]
        };
        let capabilities = device.capabilities();
        let mut h = [0; HEAD + 8];
        let len = HEAD + options.len();
        h[..6].copy_from_slice(&mac);
        h[6..12].copy_from_slice(&MAC.0);
        h[12] = 8;
        h[14] = 0x45;
        h[16..18].copy_from_slice(&((len - 14 + body.len()) as u16).to_be_bytes());
        h[22] = 64;
        h[23] = 6;
        h[26..30].copy_from_slice(&self.own);
        h[30..34].copy_from_slice(&addr);
        let sum = Sum::of(&h[14..34]).checksum();
        h[24..26].copy_from_slice(&sum.to_be_bytes());
        h[34..36].copy_from_slice(&from.to_be_bytes());
        h[36..38].copy_from_slice(&to.to_be_bytes());
        h[38..42].copy_from_slice(&seq.to_be_bytes());
        h[42..46].copy_from_slice(&self.rcv.to_be_bytes());
        h[46] = (((20 + options.len()) / 4) << 4) as u8;
        h[47] = flags;
        let window = if flags & SYN != 0 {
            65_535
        } else {
            WINDOW >> SHIFT
        };
        h[48..50].copy_from_slice(&(window as u16).to_be_bytes());
        h[54..len].copy_from_slice(options);
        // The pseudo-header, then the rest.
        let mut pseudo = [0; 12];
        pseudo[..8].copy_from_slice(&h[26..34]);
        pseudo[9] = 6;
        pseudo[10..].copy_from_slice(&((len - 34 + body.len()) as u16).to_be_bytes());
        let partial = Sum::of(&pseudo);
        let mut offload = Offload::NONE;
        let sum = if capabilities.checksum {
            offload.checksum = Some(PartialChecksum {
                start: 34,
                offset: 16,
            });
            offload.segment = (body.len() > MSS).then_some(Segmentation {
                size: MSS as u16,
                header_len: len as u16,
                ipv6: false,
            });
            !partial.checksum()
        } else {
            let head = Sum::of(&h[34..len]);
            partial
                .then(12, head)
                .then(len - 34, Sum::of(body))
                .checksum()
        };
        h[50..52].copy_from_slice(&sum.to_be_bytes());
        let frame = TxFrame {
            head: &h[..len],
            body: BytesView::new(body, &[]),
            offload,
        };
        match device.transmit(now, &frame) {
            Ok(()) => Ok(true),
            Err(narrows::device::Refused::Gone(e)) => Err(e),
            Err(_) => Ok(false),
        }
    }
}

/// Serve one connection until `stop`.
pub(crate) fn run(mut device: Box<dyn Device>, role: Role, stop: &AtomicBool) -> io::Result<()> {
    let clock = Clock;
    let chunk = match device.capabilities().max_super_frame {
        0 => MSS,
        _ => BURST * MSS,
    };
    let body = vec![7; chunk];
    let mut toy = Toy {
        role,
        peer: None,
        own: [0; 4],
        una: 0,
        nxt: 0,
        rcv: 0,
        window: 0,
        shift: 0,
        answer: false,
        syn: false,
        moved: Instant::ZERO,
    };
    let device = &mut *device;
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        let received = device.receive(now, 64, &mut |frame| {
            toy.take(frame.bytes, now);
        })?;
        let mut busy = received > 0;
        if std::mem::take(&mut toy.syn) {
            toy.send(device, now, 0, SYN | ACK, &[])?;
            (toy.nxt, toy.moved) = (1, now);
        }
        if std::mem::take(&mut toy.answer) {
            toy.send(device, now, toy.nxt, ACK, &[])?;
        }
        if matches!(toy.role, Role::Source) && toy.una > 0 {
            if toy.nxt != toy.una && now.since(toy.moved) > STALL {
                (toy.nxt, toy.moved) = (toy.una, now);
            }
            let window = toy.window.min(WINDOW);
            for _ in 0..64 {
                let flight = toy.nxt.wrapping_sub(toy.una);
                if flight + chunk as u32 > window || !toy.send(device, now, toy.nxt, ACK, &body)? {
                    break;
                }
                toy.nxt = toy.nxt.wrapping_add(chunk as u32);
                busy = true;
            }
        }
        device.flush(now)?;
        if !busy {
            let mut fds = [PollFd::new(device.fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(5_u8))?;
        }
    }
    Ok(())
}
