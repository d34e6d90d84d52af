//! RFC 9937, section 8: what one ACK after the other lets out.

use super::peer::{MSS, Peer, textbook};
use super::{Run, list};
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::Duration;
use narrows::config::{InitialWindow, RecoverySending, TcpConfig};

const RTT: Duration = Duration::from_millis(100);

/// The lines of a figure of section 8: a value for each ACK.
struct Lines<'a> {
    cwnd: &'a [u64],
    inflight: &'a [u64],
    /// `N`ew, `R`etransmitted, with a number if several, `-` for nothing.
    sent: &'a str,
}

/// Figure 1, PRR: the first of twenty segments is lost.
const ONE_PRR: Lines<'_> = Lines {
    cwnd: &[
        20, 20, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 10,
    ],
    inflight: &[
        19, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9,
    ],
    sent: "N N R - N - N - N - N - N - N - N - N - N N",
};

/// Figure 1, RFC 6675.
const ONE_PIPE: Lines<'_> = Lines {
    cwnd: &[
        20, 20, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
    ],
    inflight: &[
        19, 19, 18, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
    ],
    sent: "N N R - - - - - - - - - N N N N N N N N N N",
};

/// Figure 2, PRR: the first fifteen are lost.
const BURST_PRR: Lines<'_> = Lines {
    cwnd: &[20, 20, 5, 5, 5],
    inflight: &[19, 19, 4, 4, 4],
    sent: "N N R R R",
};

/// Figure 2, RFC 6675.
const BURST_PIPE: Lines<'_> = Lines {
    cwnd: &[20, 20, 10, 10, 10],
    inflight: &[19, 19, 4, 9, 9],
    sent: "N N 6R R R",
};

/// What our sender did.
#[derive(Default)]
struct Played {
    cwnd: Vec<u64>,
    inflight: Vec<u64>,
    sent: Vec<String>,
}

impl Played {
    /// The ACK that `to` and `blocks` describe, and what it lets out.
    fn ack(&mut self, peer: &mut Peer, sending: RecoverySending, to: u64, blocks: &[(u64, u64)]) {
        let next = peer.conn.sender().nxt() / MSS;
        peer.take_ack(to, blocks);
        self.inflight.push(peer.in_flight());
        let sent: Vec<_> = peer.pump().into_iter().filter_map(|s| s.1).collect();
        let again = sent.iter().filter(|&&s| s < next).count();
        self.sent.push(match (sent.len() - again, again) {
            (0, 0) => "-".to_owned(),
            (1, 0) => "N".to_owned(),
            (0, 1) => "R".to_owned(),
            (0, n) => format!("{n}R"),
            (n, again) => format!("{n}N{again}R"),
        });
        self.cwnd.push(match sending {
            // With PRR cwnd is what may be in flight until the next ACK, and by now it is.
            RecoverySending::Prr | RecoverySending::PrrLinux43 => peer.in_flight(),
            RecoverySending::Pipe => peer.conn.sender().congestion().cwnd().get() / MSS,
        });
    }
}

/// The checks of `vectors/rfc9937`.
pub(super) fn run(bench: &mut Bench<'_>) -> Run {
    use RecoverySending::{Pipe, Prr};
    for (name, lost, sending, figure) in [
        ("PRR, 1 of 20 lost", 1, Prr, ONE_PRR),
        ("RFC 6675, 1 of 20 lost", 1, Pipe, ONE_PIPE),
        ("PRR, 15 of 20 lost", 15, Prr, BURST_PRR),
        ("RFC 6675, 15 of 20 lost", 15, Pipe, BURST_PIPE),
    ] {
        let ours = play(lost, sending);
        let source = if lost == 1 { "figure 1" } else { "figure 2" };
        let mut row = |line: &str, theirs: String, ours: String| {
            let row = text(format!("{name}: {line} on each ACK"), source, theirs, ours);
            bench.row(if sending == Prr && lost == 1 {
                row.note(
                    "on ACK 19 inflight is ssthresh: the figure sends there and by the letter of \
                     section 6.2 the same segment leaves one ACK later",
                )
            } else {
                row
            });
        };
        row("cwnd", list(figure.cwnd), list(&ours.cwnd));
        row("inflight", list(figure.inflight), list(&ours.inflight));
        row("sent", figure.sent.to_owned(), ours.sent.join(" "));
    }
    Ok(())
}

/// Twenty segments of which the first `lost` are lost, and everything that arrives acknowledged;
/// if one was lost, up to the ACK that ends the recovery.
fn play(lost: u64, sending: RecoverySending) -> Played {
    let config = TcpConfig {
        recovery: sending,
        initial_window: InitialWindow::Segments(20),
        ..textbook("sack", "rfc6298")
    };
    let mut peer = Peer::connected(config, 1, RTT);
    peer.write(200);
    peer.wait(RTT);
    let mut played = Played::default();
    for end in lost + 1..=20 {
        played.ack(&mut peer, sending, 0, &[(lost, end)]);
    }
    if lost == 1 {
        // What limited transmit sent arrives a round trip later, then the retransmission.
        peer.wait(RTT);
        played.ack(&mut peer, sending, 0, &[(1, 21)]);
        played.ack(&mut peer, sending, 0, &[(1, 22)]);
        played.ack(&mut peer, sending, 22, &[]);
    }
    played
}

fn text(what: String, figure: &str, reference: String, ours: String) -> Row {
    Row::new(
        what,
        format!("RFC 9937, {figure}"),
        Expected::Exactly(reference),
        Measured::Text(ours),
        "segments",
        Tolerance::Exact,
    )
}
