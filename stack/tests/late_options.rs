//! What a user changes on an open connection.

use crate::pair::lone::{Lone, ack, plain};
use narrows::Duration;
use narrows::config::Keepalive;
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, State};

const SEC: Duration = Duration::from_secs(1);

#[test]
fn keepalive_is_turned_on_and_off_again() {
    let mut l = Lone::established(plain());
    let often = Keepalive {
        idle: SEC * 10,
        interval: SEC,
        probes: 3,
    };
    l.conn.set_keepalive(Some(often), l.now);
    assert!(l.wait(SEC * 9).is_empty());
    assert_eq!(Lone::one(l.wait(SEC)).seq, -1, "a byte the peer has had");
    l.recv(ack(0, 0));
    l.conn.set_keepalive(None, l.now);
    assert!(l.wait(SEC * 1_000).is_empty());
    assert_eq!(l.state(), State::Established);
}

#[test]
fn user_timeout_counts_from_the_change() {
    let mut l = Lone::established(plain());
    l.send(b"x");
    l.wait(SEC * 2);
    l.conn.set_user_timeout(Some(SEC * 5), l.now);
    l.wait(SEC * 4);
    assert_eq!(l.state(), State::Established);
    l.wait(SEC);
    assert_eq!(l.state(), State::Closed(CloseReason::UserTimeout));
}

#[test]
fn user_timeout_is_lifted() {
    let mut l = Lone::established(plain());
    l.conn.set_user_timeout(Some(SEC * 5), l.now);
    l.send(b"x");
    l.conn.set_user_timeout(None, l.now);
    l.wait(SEC * 50);
    assert_eq!(l.state(), State::Established);
}

#[test]
fn a_larger_send_buffer_tells_of_the_room() {
    let mut l = Lone::established(plain());
    l.conn.set_send_buffer(10);
    assert_eq!(l.conn.send(&[1; 20], 20), Ok(10));
    l.conn.set_send_buffer(20);
    let told = std::iter::from_fn(|| l.conn.poll_event()).collect::<Vec<_>>();
    assert!(told.contains(&Event::Writable), "{told:?}");
    assert_eq!(l.conn.send(&[1; 20], 20), Ok(10));
}
