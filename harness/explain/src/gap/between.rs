//! What a second capture, at the other end, adds to the evidence of a gap.

use narrows::Duration;

/// What two captures know of a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// The capture that the gap's packets are in, 0 or 1: the one nearer to who stood still.
    pub capture: u8,
    /// Packets outstanding that were lost between the captures.
    pub lost: u16,
    /// Packets outstanding that arrived before the gap was over.
    pub arrived: u16,
    /// Acknowledgements that were lost meanwhile.
    pub acks_lost: u16,
    /// Bytes that had arrived at the other place and were not acknowledged there when what ended the gap
    /// left it.
    pub put_off: u32,
    /// How long what ended the gap was on its way: the newest of what it acknowledges to the other
    /// place, beyond that place until the acknowledgement came by, and back.
    pub ways: Option<[Duration; 3]>,
}

impl Between {
    /// As phrases.
    pub(crate) fn phrases(&self) -> Vec<String> {
        let mut phrases = Vec::new();
        match (self.lost, self.arrived) {
            (0, 0) => {}
            (lost, arrived) => {
                phrases.push(format!("of what was out {lost} lost and {arrived} arrived"))
            }
        }
        match self.acks_lost {
            0 => {}
            n => phrases.push(format!("{n} of the other side's packets lost")),
        }
        if let Some([out, there, back]) = self.ways {
            phrases.push(format!("{out} there, {there} beyond, {back} back"));
        }
        phrases.push(format!("packets of capture {}", self.capture + 1));
        phrases
    }
}
