//! Marks that no queue gives: drawn, or on every second packet, to see what marks do to a receiver.
//!
//! They are given where frames come in, before what merges them sees their headers (XDP in the driver).
//! The codepoint is written whatever the connection has agreed on, so that a sender without ECN goes
//! on as it would. IPv4, and of that only packets without class and codepoint.

use super::hook::{Hook, LET_PASS, MarkingError, Place, counted};
use crate::device::bpf::{
    ADD, AND, CALL, Instruction, JUMP_32_IF_AT_LEAST, JUMP_IF_ABOVE_REGISTER, JUMP_IF_AT_LEAST,
    JUMP_IF_EQUAL, JUMP_IF_OTHER, LOAD_BYTE, LOAD_HALF, LOAD_WORD, MOVE_REGISTER, STORE_BYTE,
    STORE_HALF_REGISTER, TO_BIG_ENDIAN,
};
use std::io;

// From linux/bpf.h.
const BPF_FUNC_GET_PRANDOM_U32: i32 = 7;
/// Where `struct xdp_md` has the frame and its end.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const IPV4: u16 = 0x0800;

// Where a frame has what is read or written, in bytes.
const ETHER_TYPE: i16 = 12;
const TOS: i16 = 15;
const LOW_BYTE_OF_ID: i16 = 19;
const HEADER_CHECKSUM: i16 = 24;
/// Ethernet and the 20 bytes of IPv4.
const HEADERS: i32 = 34;
/// Congestion Experienced (RFC 3168 section 5).
const CE: i32 = 3;
// Registers: what was given, the frame, its end, and one for values.
const GIVEN: u8 = 6;
const FRAME: u8 = 7;
const END: u8 = 8;
const VALUE: u8 = 1;

/// Which packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Each with this probability, in parts of 2^32.
    Share(u32),
    /// All.
    All,
    /// Every second one of a connection, by its IP identification, which the kernel counts for each
    /// connection.
    EverySecond,
}

/// `if (ipv4 && tos == 0 && chosen) { tos = CE; checksum -= CE; marks++ }`; an offset of 0 is a jump to
/// where what is not marked goes on.
fn program(draw: Draw, map: i32) -> Vec<Instruction> {
    const PASS: i16 = 0;
    let (drawn, second) = match draw {
        Draw::Share(share) => (
            vec![
                Instruction::new(CALL, 0, 0, 0, BPF_FUNC_GET_PRANDOM_U32),
                Instruction::new(JUMP_32_IF_AT_LEAST, 0, 0, PASS, share.cast_signed()),
            ],
            vec![],
        ),
        Draw::All => (vec![], vec![]),
        Draw::EverySecond => (
            vec![],
            vec![
                Instruction::new(LOAD_BYTE, VALUE, FRAME, LOW_BYTE_OF_ID, 0),
                Instruction::new(AND, VALUE, 0, 0, 1),
                Instruction::new(JUMP_IF_EQUAL, VALUE, 0, PASS, 0),
            ],
        ),
    };
    let eligible = [
        Instruction::new(LOAD_WORD, FRAME, GIVEN, DATA, 0),
        Instruction::new(LOAD_WORD, END, GIVEN, DATA_END, 0),
        Instruction::new(MOVE_REGISTER, VALUE, FRAME, 0, 0),
        Instruction::new(ADD, VALUE, 0, 0, HEADERS),
        Instruction::new(JUMP_IF_ABOVE_REGISTER, VALUE, END, PASS, 0),
        Instruction::new(LOAD_HALF, VALUE, FRAME, ETHER_TYPE, 0),
        Instruction::new(JUMP_IF_OTHER, VALUE, 0, PASS, i32::from(IPV4.to_be())),
        Instruction::new(LOAD_BYTE, VALUE, FRAME, TOS, 0),
        Instruction::new(JUMP_IF_OTHER, VALUE, 0, PASS, 0),
    ];
    // RFC 1624: the sum has become larger by the codepoint, so that its complement is less by it.
    let mark = [
        Instruction::new(STORE_BYTE, FRAME, 0, TOS, CE),
        Instruction::new(LOAD_HALF, VALUE, FRAME, HEADER_CHECKSUM, 0),
        Instruction::new(TO_BIG_ENDIAN, VALUE, 0, 0, 16),
        Instruction::new(JUMP_IF_AT_LEAST, VALUE, 0, 1, CE),
        Instruction::new(ADD, VALUE, 0, 0, 0xffff),
        Instruction::new(ADD, VALUE, 0, 0, -CE),
        Instruction::new(TO_BIG_ENDIAN, VALUE, 0, 0, 16),
        Instruction::new(STORE_HALF_REGISTER, FRAME, VALUE, HEADER_CHECKSUM, 0),
    ];
    let begin = [Instruction::new(MOVE_REGISTER, GIVEN, 1, 0, 0)];
    let mut all = [&begin[..], &drawn, &eligible, &second, &mark].concat();
    let pass = all.len() as i16 + LET_PASS;
    for (at, instruction) in all.iter_mut().enumerate() {
        if instruction.jumps() && instruction.offset == PASS {
            instruction.offset = pass - at as i16 - 1;
        }
    }
    all.extend(counted(Place::OnArrival, map));
    all
}

/// An interface that marks, as long as this lives.
#[derive(Debug)]
pub struct EcnDraw(Hook);

impl EcnDraw {
    /// Mark what the interface with the number `interface`, of this thread's network namespace,
    /// receives.
    ///
    /// # Errors
    /// What the kernel lacks.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn attach(interface: u32, draw: Draw) -> Result<Self, MarkingError> {
        Hook::attach(interface, Place::OnArrival, |map| program(draw, map)).map(Self)
    }

    /// Packets marked so far.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn marks(&self) -> io::Result<u64> {
        self.0.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum;

    /// What the program makes of a header checksum, by its instructions from the one that loads it.
    fn marked(program: &[Instruction], checksum: u16) -> u16 {
        let from = program.iter().position(|i| i.code == STORE_BYTE).unwrap() + 2;
        let (mut at, mut value) = (from, u64::from(checksum.to_be()));
        loop {
            let i = program[at];
            at += 1;
            match i.code {
                TO_BIG_ENDIAN => value = u64::from((value as u16).to_be()),
                JUMP_IF_AT_LEAST if value >= i.immediate as u64 => at += i.offset as usize,
                JUMP_IF_AT_LEAST => {}
                ADD => value = value.wrapping_add_signed(i64::from(i.immediate)),
                STORE_HALF_REGISTER => return u16::from_be(value as u16),
                other => panic!("{other:#x} between loading the checksum and storing it"),
            }
        }
    }

    #[test]
    fn rfc1624_3_the_checksum_follows_the_codepoint() {
        let program = program(Draw::All, 3);
        for sum in 0..=0xffff {
            let by_the_book = checksum::update(sum, 0x4500, 0x4503);
            assert_eq!(marked(&program, sum), by_the_book, "{sum:#x}");
        }
    }

    #[test]
    fn what_is_not_marked_jumps_to_the_last_two_instructions() {
        for (draw, jumps) in [(Draw::Share(7), 4), (Draw::All, 3), (Draw::EverySecond, 4)] {
            let program = program(draw, 3);
            let jumping = program.iter().enumerate().filter(|(_, i)| i.jumps());
            // All but the one within the checksum.
            let ends: Vec<usize> = jumping
                .filter(|(_, i)| i.code != JUMP_IF_AT_LEAST)
                .map(|(at, i)| at + 1 + i.offset as usize)
                .collect();
            assert_eq!(ends, vec![program.len() - 2; jumps], "{draw:?}");
        }
    }
}
