//! When acknowledgements leave, and what they say: RFC 9293 section 3.8.6.3, RFC 5681 section
//! 4.2, RFC 2018, RFC 2883.

use crate::lab::{Lab, Out, ms, textbook, us};
use narrows::Duration;
use narrows::config::{AckPolicy, TcpConfig};
use narrows::wire::{Ecn, Flags};

fn lab(ack: AckPolicy) -> Lab {
    Lab::connected(
        TcpConfig {
            ack,
            ..textbook("sack")
        },
        ms(100),
    )
}

const DELAYED: AckPolicy = AckPolicy {
    delay: Duration::from_millis(40),
    every: 2,
    quick_acks: 0,
};

fn feed(lab: &mut Lab, segment: u64) -> Vec<Out> {
    lab.data(segment * 1000, 1000, Ecn::NotEct, Flags::NONE)
}

fn acks(out: &[Out]) -> Vec<u64> {
    out.iter().map(Lab::acked).collect()
}

#[test]
fn rfc5681_4_2_every_second_segment_at_once() {
    let mut lab = lab(DELAYED);
    for n in 0..10 {
        let out = feed(&mut lab, n);
        assert_eq!(
            acks(&out),
            if n % 2 == 1 {
                vec![(n + 1) * 1000]
            } else {
                vec![]
            }
        );
    }
}

#[test]
fn rfc9293_must_40_a_single_segment_within_the_delay() {
    let mut lab = lab(DELAYED);
    assert!(feed(&mut lab, 0).is_empty());
    assert!(lab.wait(ms(40).saturating_sub(us(1))).is_empty());
    assert_eq!(acks(&lab.wait(us(1))), [1000]);
    assert_eq!(lab.conn.poll_timeout(), None);
}

#[test]
fn the_delay_counts_from_the_first_unacknowledged_segment() {
    let policy = AckPolicy {
        every: 5,
        ..DELAYED
    };
    let mut lab = lab(policy);
    lab.reads = false; // or window updates would go out
    feed(&mut lab, 0);
    lab.wait(ms(30));
    feed(&mut lab, 1);
    assert_eq!(acks(&lab.wait(ms(10))), [2000]);
    assert!(lab.wait(ms(100)).is_empty());
}

#[test]
fn the_count_is_a_value() {
    let mut lab = lab(AckPolicy {
        every: 4,
        ..DELAYED
    });
    lab.reads = false; // or window updates would go out
    let out: Vec<_> = (0..8).flat_map(|n| acks(&feed(&mut lab, n))).collect();
    assert_eq!(out, [4000, 8000]);
}

#[test]
fn off_acknowledges_each_segment() {
    let mut lab = lab(AckPolicy::IMMEDIATE);
    for n in 0..5 {
        assert_eq!(acks(&feed(&mut lab, n)), [(n + 1) * 1000]);
    }
}

#[test]
fn quick_acks_at_the_start_and_after_idling() {
    let mut lab = lab(AckPolicy {
        quick_acks: 3,
        ..DELAYED
    });
    let count = |lab: &mut Lab, from: u64| -> Vec<usize> {
        (from..from + 6).map(|n| feed(lab, n).len()).collect()
    };
    assert_eq!(count(&mut lab, 0), [1, 1, 1, 0, 1, 0]);
    lab.wait(ms(1_000));
    assert_eq!(count(&mut lab, 6), [1, 1, 1, 0, 1, 0]);
}

#[test]
fn an_ack_rides_on_data_of_our_own() {
    let mut lab = lab(DELAYED);
    feed(&mut lab, 0);
    let out = lab.write(1);
    assert_eq!(
        (out.len(), out[0].len, Lab::acked(&out[0])),
        (1, 1000, 1000)
    );
    assert!(lab.wait(ms(100)).is_empty(), "settled");
}

#[test]
fn rfc5681_4_2_out_of_order_data_is_acknowledged_at_once() {
    let mut lab = lab(DELAYED);
    feed(&mut lab, 0);
    let out = feed(&mut lab, 2);
    assert_eq!(acks(&out), [1000]);
    assert_eq!(Lab::sacked(&out[0]), [(2000, 3000)]);
    assert_eq!(acks(&feed(&mut lab, 3)), [1000], "each a duplicate ACK");
}

#[test]
fn rfc5681_4_2_data_that_fills_a_gap_is_acknowledged_at_once() {
    let mut lab = lab(DELAYED);
    feed(&mut lab, 1);
    feed(&mut lab, 3);
    let out = feed(&mut lab, 0);
    assert_eq!(acks(&out), [2000], "part of the gap");
    assert_eq!(Lab::sacked(&out[0]), [(3000, 4000)]);
    let out = feed(&mut lab, 2);
    assert_eq!((acks(&out), Lab::sacked(&out[0])), (vec![4000], vec![]));
}

#[test]
fn rfc2018_4_the_block_of_the_segment_that_set_off_the_ack_comes_first() {
    let mut lab = lab(DELAYED);
    for n in [2, 4, 6] {
        feed(&mut lab, n);
    }
    let out = feed(&mut lab, 5);
    assert_eq!(Lab::sacked(&out[0]), [(4000, 7000), (2000, 3000)]);
    let out = feed(&mut lab, 8);
    assert_eq!(
        Lab::sacked(&out[0]),
        [(8000, 9000), (4000, 7000), (2000, 3000)]
    );
    feed(&mut lab, 10);
    feed(&mut lab, 12);
    let out = feed(&mut lab, 14);
    assert_eq!(Lab::sacked(&out[0]).len(), 4, "as many as fit");
}

#[test]
fn rfc2883_4_1_duplicate_below_the_cumulative_ack_is_reported_once() {
    let mut lab = lab(DELAYED);
    feed(&mut lab, 0);
    feed(&mut lab, 1);
    let out = feed(&mut lab, 0);
    assert_eq!(
        (acks(&out), Lab::sacked(&out[0])),
        (vec![2000], vec![(0, 1000)])
    );
    let out = feed(&mut lab, 3);
    assert_eq!(Lab::sacked(&out[0]), [(3000, 4000)]);
}

#[test]
fn rfc2883_4_2_duplicate_above_the_cumulative_ack_stands_before_its_block() {
    let mut lab = lab(DELAYED);
    feed(&mut lab, 2);
    feed(&mut lab, 3);
    let out = feed(&mut lab, 2);
    assert_eq!(Lab::sacked(&out[0]), [(2000, 3000), (2000, 4000)]);
}

#[test]
fn rfc2883_4_3_partial_duplicate_reports_only_what_came_before() {
    let mut lab = lab(DELAYED);
    feed(&mut lab, 0);
    feed(&mut lab, 1);
    lab.data(1500, 1000, Ecn::NotEct, Flags::NONE);
    let out = lab.wait(ms(40));
    assert_eq!(
        (acks(&out), Lab::sacked(&out[0])),
        (vec![2500], vec![(1500, 2000)])
    );
}

#[test]
fn a_fin_is_acknowledged_at_once() {
    let mut lab = lab(DELAYED);
    let out = lab.data(0, 500, Ecn::NotEct, Flags::FIN);
    assert_eq!(acks(&out), [501]);
}

#[test]
fn without_sack_no_block_is_sent() {
    let config = TcpConfig {
        sack: false,
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(100));
    feed(&mut lab, 2);
    let out = feed(&mut lab, 2);
    assert_eq!((acks(&out), Lab::sacked(&out[0])), (vec![0], vec![]));
}

#[test]
fn delayed_acks_and_slow_start_grow_by_bytes() {
    // RFC 3465: an ACK of two segments opens the window by two.
    let mut lab = lab(DELAYED);
    lab.write(100);
    lab.wait(ms(100));
    for n in 1..=5 {
        lab.ack(2 * n);
    }
    assert_eq!(lab.cwnd(), 20);
}
