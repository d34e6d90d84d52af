//! Writes a large capture: calls over many connections at once, cut at 96 bytes, with a reply in
//! fifty whose last segment is lost and sent again after 200 ms.
//!
//! ```sh
//! cargo run --release -p narrows-explain --example large -- FILE 10000000 100000
//! ```
//!
//! The numbers are packets, and connections at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

const KEPT: usize = 96;
const MSS: u32 = 1_448;
/// Segments of a reply.
const REPLY: u32 = 8;
/// Calls of a connection.
const CALLS: u32 = 10;
/// One in so many replies loses its last segment.
const LOSES: u64 = 50;
const TURN_US: u64 = 50;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, packets, connections] = &args[..] else {
        return Err(io::Error::other("wanted: FILE PACKETS CONNECTIONS"));
    };
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    let (packets, at_once) = (number(packets)?, number(connections)?.max(1));
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, KEPT as u32, 1] {
        out.write_all(&word.to_le_bytes())?;
    }
    let mut next: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut all: Vec<Call> = Vec::new();
    for n in 0..at_once {
        all.push(Call::new(n));
        next.push(Reverse((n * 1_000_000 / at_once, n)));
    }
    let mut fresh = at_once;
    for _ in 0..packets {
        let Some(Reverse((at, n))) = next.pop() else {
            break;
        };
        let call = &mut all[n as usize];
        let (packet, wait) = call.step(at);
        packet.write(at, &mut out)?;
        if call.over() {
            *call = Call::new(fresh);
            fresh += 1;
        }
        next.push(Reverse((at + wait, n)));
    }
    out.flush()
}

/// A connection: handshake, calls, FINs.
struct Call {
    id: u64,
    step: Step,
    calls: u32,
    replies: u64,
    /// Next sequence numbers of client and server.
    next: [u32; 2],
    /// The latest timestamps of both.
    stamps: [u32; 2],
}

#[derive(Clone, Copy)]
enum Step {
    Syn,
    SynAck,
    Established,
    Request,
    /// So many segments of the reply are out, and so many acknowledged.
    Reply {
        out: u32,
        acked: u32,
        /// The last one is on its way again.
        again: bool,
    },
    Fin(u8),
    Over,
}

impl Call {
    fn new(id: u64) -> Self {
        Self {
            id,
            step: Step::Syn,
            calls: 0,
            replies: id,
            next: [id as u32, !id as u32],
            stamps: [0; 2],
        }
    }

    fn over(&self) -> bool {
        matches!(self.step, Step::Over)
    }

    /// The next packet, and how long until the one after it, in microseconds.
    fn step(&mut self, at: u64) -> (Packet, u64) {
        const ACK: u8 = 0x10;
        let (side, flags, len, after, wait) = match self.step {
            Step::Syn => (0, 0x02, 0, Step::SynAck, TURN_US),
            Step::SynAck => (1, 0x12, 0, Step::Established, TURN_US),
            Step::Established => (0, ACK, 0, Step::Request, 5),
            Step::Request => {
                self.replies += 1;
                let reply = Step::Reply {
                    out: 0,
                    acked: 0,
                    again: false,
                };
                (0, 0x18, 100, reply, TURN_US + 20)
            }
            Step::Reply { out, acked, again } => {
                let last_is_lost = self.replies.is_multiple_of(LOSES) && !again;
                if again {
                    let mut packet = self.packet(1, ACK, MSS, at);
                    packet.seq = packet.seq.wrapping_sub(MSS);
                    self.next[1] = packet.seq.wrapping_add(MSS);
                    self.step = Step::Reply {
                        out,
                        acked,
                        again: false,
                    };
                    self.replies += 1;
                    return (packet, TURN_US);
                }
                if out < REPLY {
                    let after = Step::Reply {
                        out: out + 1,
                        acked,
                        again,
                    };
                    let wait = if out + 1 == REPLY { TURN_US } else { 2 };
                    (1, ACK, MSS, after, wait)
                } else {
                    let to = (acked + 2).min(REPLY - u32::from(last_is_lost));
                    let mut packet = self.packet(0, ACK, 0, at);
                    packet.ack = packet.ack.wrapping_sub((REPLY - to) * MSS);
                    let done = to == REPLY;
                    let lost = last_is_lost && to + 1 == REPLY;
                    let (step, wait) = match (done, lost) {
                        (true, _) => {
                            self.calls += 1;
                            let more = self.calls < CALLS;
                            (if more { Step::Request } else { Step::Fin(0) }, 1_000)
                        }
                        (_, true) => (
                            Step::Reply {
                                out,
                                acked: to,
                                again: true,
                            },
                            200_000,
                        ),
                        _ => (
                            Step::Reply {
                                out,
                                acked: to,
                                again,
                            },
                            3,
                        ),
                    };
                    self.step = step;
                    return (packet, wait);
                }
            }
            Step::Fin(0) => (0, 0x11, 0, Step::Fin(1), TURN_US),
            Step::Fin(1) => (1, 0x11, 0, Step::Fin(2), TURN_US),
            Step::Fin(_) | Step::Over => (0, ACK, 0, Step::Over, 500),
        };
        self.step = after;
        (self.packet(side, flags, len, at), wait)
    }

    fn packet(&mut self, side: usize, flags: u8, len: u32, at: u64) -> Packet {
        let seq = self.next[side];
        let space = len + u32::from(flags & 3 != 0);
        self.next[side] = seq.wrapping_add(space);
        self.stamps[side] = at as u32;
        Packet {
            id: self.id,
            side,
            flags,
            seq,
            ack: if flags & 0x10 == 0 {
                0
            } else {
                self.next[1 - side]
            },
            stamps: [at as u32, self.stamps[1 - side]],
            len,
        }
    }
}

struct Packet {
    id: u64,
    side: usize,
    flags: u8,
    seq: u32,
    ack: u32,
    stamps: [u32; 2],
    len: u32,
}

impl Packet {
    fn write(&self, at: u64, out: &mut impl Write) -> io::Result<()> {
        let mut frame = [0; KEPT];
        // A thousand clients a server, and ports that are used again only after 50,000 others.
        let client = (self.id % 1_000) as u16;
        let port = 10_000 + (self.id / 1_000 % 50_000) as u16;
        let hosts = [[10, 1, (client >> 8) as u8, client as u8], [10, 2, 0, 1]];
        let ports = [port, 80];
        let (me, peer) = (self.side, 1 - self.side);
        frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
        let total = 20 + 32 + self.len;
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&(total as u16).to_be_bytes());
        frame[22] = 64;
        frame[23] = 6;
        frame[26..30].copy_from_slice(&hosts[me]);
        frame[30..34].copy_from_slice(&hosts[peer]);
        frame[34..36].copy_from_slice(&ports[me].to_be_bytes());
        frame[36..38].copy_from_slice(&ports[peer].to_be_bytes());
        frame[38..42].copy_from_slice(&self.seq.to_be_bytes());
        frame[42..46].copy_from_slice(&self.ack.to_be_bytes());
        frame[46] = 8 << 4;
        frame[47] = self.flags;
        frame[48..50].copy_from_slice(&60_000_u16.to_be_bytes());
        frame[54..58].copy_from_slice(&[1, 1, 8, 10]);
        frame[58..62].copy_from_slice(&self.stamps[0].to_be_bytes());
        frame[62..66].copy_from_slice(&self.stamps[1].to_be_bytes());
        let original = 14 + total;
        let kept = (original as usize).min(KEPT);
        let seconds = (at / 1_000_000) as u32;
        let micros = (at % 1_000_000) as u32;
        for word in [seconds, micros, kept as u32, original] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&frame[..kept])
    }
}
