//! Two connections under a list of what the path does to each packet.

use super::input::Input;
use crate::pair::Fate;
use crate::pair::weather::{CLEAN, CONTROLS, Case, Choice, Network, Outcome, TIMERS, run_under};
use narrows::Duration;

/// The list is gone through once; afterwards the path is clean, so all must arrive.
pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let choices = [choice(&mut input), choice(&mut input)];
    let case = Case {
        client: choices[0].config(),
        server: choices[1].config(),
        network: Network {
            delay: Duration::from_micros(1 + u64::from(input.u16() % 3_000)),
            ..CLEAN
        },
        sizes: [
            usize::from(input.u16() % 20_000),
            usize::from(input.u16() % 5_000),
        ],
        choices,
    };
    let fates: Vec<u8> = input.0.to_vec();
    let mut at = 0;
    let path = Box::new(move |_: &crate::pair::Seen, _| {
        let op = fates.get(at).copied().unwrap_or(0);
        at += 1;
        let arg = u64::from(op >> 3);
        match op & 7 {
            0 | 1 => Fate::Pass,
            2 | 3 => Fate::Drop,
            4 => Fate::Duplicate,
            5 => Fate::Delay(Duration::from_micros(1 << (arg % 20))),
            6 => Fate::Corrupt(arg * 37),
            _ => Fate::Mark,
        }
    });
    let (outcome, p) = run_under(&case, path);
    assert_eq!(
        outcome,
        Outcome::Delivered,
        "{choices:?}: {:?} {:?}",
        p.client,
        p.server
    );
}

fn choice(input: &mut Input<'_>) -> Choice {
    let bits = input.u16();
    let bit = |n: u16| bits >> n & 1 == 1;
    Choice {
        control: usize::from(input.u8()) % CONTROLS.len(),
        timer: usize::from(input.u8()) % TIMERS.len(),
        detector: usize::from(input.below(5)),
        sack: bit(0),
        stamps: input.below(3),
        prr: bit(1),
        limited_transmit: bit(2),
        spurious: bit(3),
        ecn: (bits >> 4 & 3) as u8,
        ack: input.below(3),
        nagle: bit(6),
        mss: 100 + input.u16() % 1_361,
        send_buffer: 1_000 + usize::from(input.u16()),
        recv_buffer: 1_000 + usize::from(input.u16()),
        window: 1 + u32::from(input.below(19)),
        tick: (bits >> 7 & 3) as u8,
        paced: bit(9),
        ranges: 1 + usize::from(input.below(40)),
        old_prr: bit(10),
    }
}
