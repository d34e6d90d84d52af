//! What selective acknowledgements say of a stream.

use super::{Acked, Half, Sent, Sighting};
use narrows::wire::SackBlock;

impl Half {
    pub(super) fn on_sack(&mut self, now: Sighting, blocks: &[SackBlock], result: &mut Acked) {
        for (i, block) in blocks.iter().enumerate() {
            let (start, end) = (self.offset(block.start), self.offset(block.end));
            if end <= start {
                continue;
            }
            let within = |(a, b): (u64, u64)| start >= a && end <= b;
            let second = blocks
                .get(1)
                .map(|block| (self.offset(block.start), self.offset(block.end)));
            if i == 0 && (start < self.una || second.is_some_and(within)) {
                result.dsack = Some((start, end));
                continue;
            }
            if self.rare.blocks[i.min(3)] == (start, end) {
                continue;
            }
            // Blocks grow at their end: what was seen of this one is passed over.
            let seen = self
                .rare
                .blocks
                .iter()
                .find(|b| b.0 == start && b.1 <= end && b.1 > start);
            let from = seen.map_or(start, |b| b.1).max(self.una);
            self.rare.blocks[i.min(3)] = (start, end);
            let mut index = self.sent.partition_point(|sent| sent.end <= from);
            let mut newest: Option<Sent> = None;
            while let Some(sent) = self.sent.get_mut(index) {
                if sent.start >= end {
                    break;
                }
                if !sent.sacked && sent.start >= start && sent.end <= end {
                    sent.sacked = true;
                    self.sacked += sent.end - sent.start;
                    result.sacked += sent.end - sent.start;
                    newest = Some(*sent);
                }
                index += 1;
            }
            if let Some(sent) = newest
                && sent.sends == 1
                && result.rtt.is_none()
            {
                result.rtt = Some(now.at.since(sent.first));
            }
        }
    }
}
