//! Faults that transfers with smoltcp brought to light, each in its smallest form.

use crate::pair::lone::{Lone, plain, syn_ack, text};
use crate::pair::{Fate, Pair, bytes};
use narrows::Duration;
use narrows::config::{AckPolicy, TcpConfig};
use narrows::wire::Flags;

/// RFC 5681 section 2 lets the network repeat ACKs. Without SACK a repeated ACK stands for a
/// segment that has left the network, but never for the last one outstanding: after the first
/// ACK and its copy two segments are outstanding and one is stood for; after the second ACK one
/// is outstanding, and its copy stands for none.
#[test]
fn repeated_acks_without_sack_stand_for_no_more_than_is_outstanding() {
    let config = TcpConfig {
        sack: false,
        ack: AckPolicy::IMMEDIATE,
        ..TcpConfig::default()
    };
    let mut p = Pair::connected(config.clone(), config);
    p.path = Box::new(|s, _| {
        if s.from_client {
            Fate::Pass
        } else {
            Fate::Duplicate
        }
    });
    let data = bytes(3 * 1448);
    let took = p.transfer(&data, Duration::from_secs(5));
    p.run_for(Duration::from_millis(10));
    assert!(p.server_got == data);
    assert!(took < Duration::from_millis(1), "took {took}");
    assert_eq!(p.client.sender_stats().retransmits, 0);
    assert!(p.client.sender().is_idle());
}

/// RFC 9293 section 3.10.7.4 takes the window only from a segment that is not older than the one
/// the present window came from, by sequence number. A retransmission is older by that, but what
/// it acknowledges beyond SND.UNA shows that it was sent later; if its window is passed over,
/// SND.UNA + SND.WND moves past what the peer offers. (A peer that cuts off what is beyond its
/// window may keep the FIN and take the stream for complete.)
#[test]
fn an_ack_of_new_data_brings_its_window_even_on_a_retransmission() {
    let config = plain();
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).win(4_000));
    let out = l.send(&bytes(6_500));
    assert_eq!(out.iter().map(|o| o.data.len()).sum::<usize>(), 4_000);
    assert!(l.close().is_empty());
    // The peer's second segment comes first.
    l.recv(text(1_000, 0, &[1; 1_000]).win(4_000));
    // Its user reads nothing: the right edge stays at 4,000.
    let out = l.recv(text(0, 2_000, &[1; 1_000]).win(2_000));
    for o in &out {
        let end = o.seq + o.data.len() as i64;
        assert!(
            end <= 4_000 && !o.has(Flags::FIN),
            "sent up to {end} into a window that ends at 4,000: {o:?}"
        );
    }
    assert_eq!(l.conn.peer_window(), 2_000);
}
