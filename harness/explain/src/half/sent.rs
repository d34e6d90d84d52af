//! What leaves: what follows, what is sent again, or a question.

use super::{Data, Half, KEEP_ALIVE, Retransmitted, Sent, Sighting};
use crate::rounds::Departure;
use narrows::ByteCount;
use narrows::wire::{Flags, Seq};

impl Half {
    /// A segment of this sender with `len` bytes of sequence space from `seq` on.
    pub(crate) fn on_data(
        &mut self,
        now: Sighting,
        seq: Seq,
        len: u32,
        text: u32,
        flags: Flags,
    ) -> Data {
        self.begin(seq);
        let start = self.offset(seq);
        let end = start + u64::from(len);
        // What is longer than the peer takes is a super-frame.
        if text > 0 && text <= self.announced.map_or(9_000, u32::from) {
            self.largest = self.largest.max(text as u16);
        }
        if flags.contains(Flags::FIN) {
            self.fin = Some(end);
        }
        let mss = u32::from(self.mss().max(1));
        let packets = text.div_ceil(mss).clamp(1, u16::MAX.into()) as u16;
        let data = self.kind_of(now, start, end, packets, flags);
        if let Some(detail) = &mut self.detail
            && !matches!(data, Data::Probe | Data::KeepAlive)
        {
            detail.meter.sent(
                now.at,
                Departure {
                    end: self.nxt,
                    packets: packets.into(),
                    resent: !matches!(data, Data::New { .. }),
                    flight: ByteCount::new(self.nxt - self.una),
                },
            );
        }
        data
    }

    fn kind_of(&mut self, now: Sighting, start: u64, end: u64, packets: u16, flags: Flags) -> Data {
        if start >= self.nxt {
            let hole = start > self.nxt;
            if hole {
                let mss = u64::from(self.mss().max(1));
                let packets = ((start - self.nxt) / mss).clamp(1, 9_999) as u16;
                self.push(Sent::new(self.nxt..start, now, 0, packets));
            }
            self.push(Sent::new(start..end, now, 1, packets));
            (self.latest, self.nxt) = (start, end);
            self.most_out = self.most_out.max(self.flight());
            self.pushes(flags);
            return Data::New { hole };
        }
        // A byte before what is next, of an idle connection or of one whose peer's window is closed.
        if end - start <= 1
            && !flags.intersects(Flags::FIN | Flags::SYN)
            && (self.flight() <= 1 && end <= self.nxt)
            && (self.closed.is_some() || end <= self.una)
        {
            // One that asks for a window has text that is not acknowledged, or had it when it asked first.
            let asks = end > self.una || self.closed.is_some() || self.rare.probed == Some(end);
            let idle = self
                .text
                .is_none_or(|text| now.at.since(text.at) >= KEEP_ALIVE);
            match (asks, idle) {
                (true, _) => return Data::Probe,
                (false, true) => return Data::KeepAlive,
                (false, false) => {}
            }
        }
        if end <= self.una {
            self.rare.counts.needless += 1;
            return Data::Needless;
        }
        let head = start <= self.una;
        let tail = self.is_last(start, end);
        if end > self.nxt {
            // The text of two segments in one, or a super-frame cut anew: what is new is new.
            self.push(Sent::new(self.nxt..end, now, 1, 1));
            (self.latest, self.nxt) = (self.nxt, end);
            self.pushes(flags);
        }
        self.split(start);
        self.split(end);
        let from = self.sent.partition_point(|sent| sent.end <= start);
        let mut again: Option<Retransmitted> = None;
        for sent in self
            .sent
            .range_mut(from..)
            .take_while(|sent| sent.start < end)
        {
            if sent.packet == now.packet && sent.sends == 1 && sent.first == now.at {
                continue; // What was appended above.
            }
            let fresh = again.is_none_or(|a| sent.sends < a.sends);
            if fresh {
                again = Some(Retransmitted {
                    sends: sent.sends,
                    head,
                    tail,
                    arrived: start < self.una,
                    age: now.at.since(sent.last),
                    start,
                    end,
                    packet: sent.packet,
                });
            }
            if sent.sends == 0 {
                sent.first = now.at;
            }
            sent.sends = sent.sends.saturating_add(1);
            (sent.last, sent.packet) = (now.at, now.packet);
        }
        match again {
            Some(again) => {
                if self.una >= self.recover {
                    self.recover = self.nxt;
                }
                if again.sends == 0 {
                    self.rare.counts.filled += 1;
                } else {
                    self.rare.counts.retransmitted += 1;
                }
                Data::Retransmitted(again)
            }
            None => Data::New { hole: false },
        }
    }

    /// Whether these are the last that were sent, or a part of them.
    pub(crate) const fn is_last(&self, start: u64, end: u64) -> bool {
        end >= self.nxt && start >= self.latest
    }

    /// The last that was sent says this.
    fn pushes(&mut self, flags: Flags) {
        self.pushed = flags.intersects(Flags::PSH | Flags::FIN);
        self.pushes |= flags.contains(Flags::PSH);
    }

    /// Has a boundary at `at`.
    fn split(&mut self, at: u64) {
        let index = self.sent.partition_point(|sent| sent.end <= at);
        if let Some(sent) = self.sent.get_mut(index)
            && sent.start < at
        {
            let mut rest = *sent;
            sent.end = at;
            rest.start = at;
            sent.packets = (sent.packets / 2).max(1);
            rest.packets = (rest.packets - rest.packets / 2).max(1);
            self.sent.insert(index + 1, rest);
        }
    }

    fn push(&mut self, sent: Sent) {
        if self.sent.len() >= self.most {
            // The two oldest become one: its times are the first's.
            if let (Some(first), Some(second)) = (self.sent.pop_front(), self.sent.front_mut()) {
                if first.sacked != second.sacked {
                    let unsacked = if first.sacked { first } else { *second };
                    self.sacked = self.sacked.saturating_sub(if first.sacked {
                        first.end - first.start
                    } else {
                        second.end - second.start
                    });
                    second.sacked = unsacked.sacked;
                }
                second.start = first.start;
                second.first = first.first;
                second.sends = first.sends.max(second.sends);
                second.packets = second.packets.saturating_add(first.packets);
            }
        }
        self.sent.push_back(sent);
    }

    /// Whether the path seems to swallow what is as large as what was sent `again` (RFC 2923 section
    /// 2.1): nothing as large has arrived, and of what first left after it something smaller has.
    ///
    /// Without SACK duplicate acknowledgements tell that something arrived: not more than what is smaller.
    pub(crate) fn swallows(&self, again: &Retransmitted) -> bool {
        let size = again.end - again.start;
        let later = self.sent.iter().skip_while(|sent| sent.start < again.end);
        if self.sacked == 0 && self.dup_acks > 0 && size > self.largest_arrived {
            let smaller = later.filter(|sent| {
                (sent.end - sent.start).div_ceil(u64::from(sent.packets.max(1))) < size
            });
            return self.dup_acks as usize <= smaller.count();
        }
        let mut later = later.filter(|sent| sent.sacked);
        let (mut smaller, mut larger) = (false, size <= self.largest_arrived);
        for sent in &mut later {
            let size_of = sent.end - sent.start;
            // Of what is counted as several each is smaller.
            let each = size_of.div_ceil(u64::from(sent.packets.max(1)));
            larger |= each >= size;
            smaller |= each < size;
        }
        smaller && !larger
    }
}
