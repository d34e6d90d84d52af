//! What may happen to one connection, step by step, and what must hold after each step.

use super::lone::{Lone, Seg};
use narrows::Duration;
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, Origin, State};
use narrows::wire::Flags;

/// Where a connection may be when the steps begin.
pub const STATES: [State; 10] = [
    State::SynSent,
    State::SynReceived(Origin::Passive),
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
    State::Closed(CloseReason::Aborted),
];

/// What happens to a connection next.
#[derive(Clone, Debug)]
pub enum Step {
    Segment(Box<Seg>),
    Wait(u64),
    Timer,
    Send(usize),
    Urgent,
    Read(u64),
    Close,
    Release,
    /// The last packet was refused.
    LocalDrop,
    PathMtu(u32),
}

/// Do `steps` to a connection; after each of them what must always hold is looked at.
pub fn drive(mut l: Lone, steps: Vec<Step>) {
    let mut last = None;
    let mut closed = 0;
    for step in steps {
        let (before, nxt, una) = (l.state(), l.conn.readable_end(), l.conn.sender().una());
        let seen = l.events.len();
        let out = match step {
            Step::Segment(s) => l.recv(*s),
            Step::Wait(us) => l.wait(Duration::from_micros(us)),
            Step::Timer if l.conn.poll_timeout().is_some() => l.next_timer(),
            Step::Timer => Vec::new(),
            Step::Send(n) => {
                let _ = l.conn.send(&vec![7; n], n);
                l.settle()
            }
            Step::Urgent => {
                let _ = l.conn.send_urgent(b"!", 1);
                l.settle()
            }
            Step::Read(n) => {
                let n = n.min(l.conn.readable());
                l.read_n(n).1
            }
            Step::Close => l.close(),
            Step::Release => {
                l.conn.release(l.now);
                l.settle()
            }
            Step::LocalDrop => {
                if let Some((tcp, len)) = last.take() {
                    l.conn.handle_local_drop(l.now, &tcp, len);
                }
                l.settle()
            }
            Step::PathMtu(mtu) => {
                l.conn.handle_path_mtu(l.now, mtu);
                l.settle()
            }
        };
        assert!(legal(before, l.state()), "{before:?} -> {:?}", l.state());
        assert!(l.conn.readable_end() >= nxt, "RCV.NXT moved left");
        assert!(l.conn.sender().una() >= una, "SND.UNA moved left");
        assert!(l.conn.sender().una() <= l.conn.sender().nxt());
        let buffer = l.conn.config().buffers.recv as u64;
        assert!(
            l.conn.readable() < buffer + (1 << l.shift),
            "more held than offered"
        );
        assert!(
            out.iter()
                .all(|o| o.data.len() + o.tcp.options.wire_len() <= 1_000)
        );
        assert!(out.len() <= 1_000, "{} packets for one step", out.len());
        closed += l.events[seen..]
            .iter()
            .filter(|e| matches!(e, Event::Closed(_)))
            .count();
        assert!(closed <= 1, "told twice");
        if matches!(before, State::Closed(_)) {
            assert!(
                out.iter().all(|o| o.has(Flags::RST)),
                "the dead speak: {out:?}"
            );
        }
        if let Some(o) = out.last() {
            last = Some((o.tcp.clone(), o.data.len()));
        }
    }
    // Left alone it comes to rest.
    let out = l.wait(Duration::from_secs(100_000));
    assert!(out.len() <= 20_000);
}

/// The changes of RFC 9293 section 3.3.2, and to CLOSED from anywhere. Several may happen between
/// two looks.
pub fn legal(from: State, to: State) -> bool {
    let rank = |s: State| match s {
        State::SynSent => 0,
        State::SynReceived(_) => 1,
        State::Established => 2,
        State::FinWait1 | State::CloseWait => 3,
        State::FinWait2 | State::Closing | State::LastAck => 4,
        State::TimeWait => 5,
        State::Closed(_) => 6,
    };
    from == to
        || (rank(from) < rank(to)
            && !matches!(
                (from, to),
                (
                    State::CloseWait,
                    State::FinWait2 | State::Closing | State::TimeWait
                ) | (State::FinWait1, State::LastAck)
                    | (State::LastAck, State::TimeWait)
            ))
}
