//! Write patterns: a message as several writes.

use super::messages::Messenger;
use super::role::Io;
use crate::knob::{Kind, Quantity};
use crate::values;
use narrows::endpoint::ConnId;
use narrows::{Duration, Instant};
use std::collections::VecDeque;

/// How an application writes a message: with one call, or piece by piece, as one that does not
/// buffer does. Each piece is its own call, so that TCP may send it before it sees the next.
///
/// Written as sizes with a `+` between them, one of which is `n`, the rest of the message:
/// `1+1+1+1+n`. Commas are read as well. A message that is too short has the first pieces only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePattern {
    before: Vec<u64>,
    after: Vec<u64>,
}

/// The most pieces.
const PIECES: usize = 1_000;

impl WritePattern {
    /// One call.
    pub const WHOLE: Self = Self {
        before: Vec::new(),
        after: Vec::new(),
    };
    /// The kind of a knob that is one.
    pub const KIND: Kind = Kind::Text("n (one write) or 1+1+1+1+n");

    /// The pieces of a message of `size` bytes; together they are as long.
    pub fn pieces(&self, size: u64) -> impl Iterator<Item = u64> {
        let fixed: u64 = self.before.iter().chain(&self.after).sum();
        let rest = size.saturating_sub(fixed);
        let before = self.before.iter().copied();
        let pieces = before.chain([rest]).chain(self.after.iter().copied());
        let mut left = size;
        pieces
            .map(move |piece| {
                let piece = piece.min(left);
                left -= piece;
                piece
            })
            .filter(|piece| *piece > 0)
    }
}

impl Quantity for WritePattern {
    fn read(text: &str) -> Result<Self, String> {
        let (mut before, mut after, mut rest) = (Vec::new(), Vec::new(), false);
        for piece in text.split(['+', ',']).map(str::trim) {
            match piece {
                "n" if rest => return Err("'n', the rest, can be there once".to_owned()),
                "n" => rest = true,
                _ => {
                    let size = values::size(piece)?.get();
                    if size == 0 || size > 1 << 30 {
                        return Err(format!("a piece has 1B to 1GiB, not {piece}"));
                    }
                    if rest { &mut after } else { &mut before }.push(size);
                }
            }
        }
        if !rest {
            return Err("one of the pieces has to be 'n', the rest of the message".to_owned());
        }
        if before.len() + after.len() > PIECES {
            return Err(format!("there can be no more than {PIECES} pieces"));
        }
        Ok(Self { before, after })
    }

    fn show(&self) -> Option<String> {
        let before = self.before.iter().map(u64::to_string);
        let after = self.after.iter().map(u64::to_string);
        let pieces: Vec<String> = before.chain(["n".to_owned()]).chain(after).collect();
        Some(pieces.join("+"))
    }
}

/// The writes of a role, connection by connection, by tag.
#[derive(Debug)]
pub(super) struct Writer {
    pattern: WritePattern,
    /// From one write to the next.
    gap: Duration,
    pending: Vec<VecDeque<u64>>,
}

impl Writer {
    pub(super) fn new(pattern: WritePattern, gap: Duration) -> Self {
        Self {
            pattern,
            gap,
            pending: Vec::new(),
        }
    }

    /// A message begins: its first write is now, unless another message is being written. When
    /// the next write is due, if this begins a row of them.
    pub(super) fn begin<M>(
        &mut self,
        io: &mut Io<'_>,
        messages: &mut Messenger<M>,
        conn: ConnId,
        size: u64,
        message: M,
    ) -> Option<Instant> {
        let tag = messages.tag(conn)? as usize;
        messages.announce(conn, size, message);
        if self.pattern == WritePattern::WHOLE && self.pending.get(tag).is_none_or(|p| p.is_empty())
        {
            messages.write(io, conn, size);
            return None;
        }
        if self.pending.len() <= tag {
            self.pending.resize_with(tag + 1, VecDeque::new);
        }
        let idle = self.pending[tag].is_empty();
        self.pending[tag].extend(self.pattern.pieces(size));
        if idle {
            self.write(io, messages, conn)
        } else {
            None
        }
    }

    /// The next write is due; when the one after it is, if there is one.
    pub(super) fn write<M>(
        &mut self,
        io: &mut Io<'_>,
        messages: &mut Messenger<M>,
        conn: ConnId,
    ) -> Option<Instant> {
        let pending = self.pending.get_mut(messages.tag(conn)? as usize)?;
        let piece = pending.pop_front()?;
        messages.write(io, conn, piece);
        (!pending.is_empty()).then(|| io.now() + self.gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_are_read_and_shown() {
        let read = |text| WritePattern::read(text);
        assert_eq!(read("n"), Ok(WritePattern::WHOLE));
        let five = read("1+1+1+1+n").unwrap();
        assert_eq!(read("1,1, 1,1,n"), Ok(five.clone()));
        assert_eq!(five.pieces(104).collect::<Vec<_>>(), [1, 1, 1, 1, 100]);
        assert_eq!(five.pieces(4).collect::<Vec<_>>(), [1, 1, 1, 1]);
        assert_eq!(five.pieces(2).collect::<Vec<_>>(), [1, 1]);
        let last = read("2kB+n+4").unwrap();
        assert_eq!(last.show().as_deref(), Some("2000+n+4"));
        assert_eq!(last.pieces(2_005).collect::<Vec<_>>(), [2_000, 1, 4]);
        assert_eq!(last.pieces(2_003).collect::<Vec<_>>(), [2_000, 3]);
        for text in ["", "1+1", "n+n", "0+n", "1x+n", "2GiB+n"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn pieces_are_the_message(
            before in prop::collection::vec(1_u64..50, 0..6),
            after in prop::collection::vec(1_u64..50, 0..6),
            size in 1_u64..500,
        ) {
            let pattern = WritePattern { before, after };
            prop_assert_eq!(pattern.pieces(size).sum::<u64>(), size);
            prop_assert_eq!(WritePattern::read(&pattern.show().unwrap()), Ok(pattern));
        }
    }
}
