//! Faults that transfers with smoltcp brought to light, each in its smallest form.

mod pair;

use narrows::Duration;
use narrows::config::{AckPolicy, TcpConfig};
use pair::{Fate, Pair, bytes};

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
