//! When time goes on by itself: not while the thread that plays the script has something to do.

#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![expect(
    clippy::disallowed_methods,
    reason = "what real threads do takes real time"
)]

mod common;

use narrows_packetdrill::loader::Library;
use narrows_script::sockets::{Call, Errno};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A SYN that nobody answers, given up after seven seconds of virtual time.
const FLAGS: &str = "quiet=1; idle_ms=60; narrows.syn_retries=2; narrows.syn_retry_time_ms=0";

#[test]
fn time_goes_on_while_the_scripts_thread_sleeps_and_not_while_it_is_busy() {
    let library = Library::load(&common::object()).unwrap();
    let table = library.instance(FLAGS).unwrap();
    let begun = table.look().unwrap();
    let (tell, told) = mpsc::channel();
    let second = thread::spawn(move || {
        let fd = table.call(&Call::Socket { nonblocking: false }).unwrap();
        let fd = fd.result.unwrap() as i32;
        tell.send(()).unwrap();
        let to = "192.0.2.1:80".parse().unwrap();
        let answer = table.call(&Call::Connect { fd, to }).unwrap();
        (answer.result, table.look().unwrap())
    });
    told.recv().unwrap();
    while table.sniff().unwrap().is_none() {
        thread::yield_now();
    }
    // Much longer than a thread may sleep here before time goes on.
    let busy = Instant::now();
    while busy.elapsed() < Duration::from_millis(600) {
        std::hint::spin_loop();
    }
    let spun = table.look().unwrap() - begun;
    assert!(spun < 1_000, "{spun}");
    let (result, returned) = second.join().unwrap();
    assert_eq!(result, Err(Errno::ETIMEDOUT));
    let took = returned - begun;
    assert!((7_000_000..7_001_000).contains(&took), "{took}");
}

const POLLIN: i16 = 1;

/// The thread has been asleep for a while: it has taken up what it was asked.
fn asleep_in_poll(tid: i32) -> bool {
    (0..3).all(|_| {
        thread::sleep(Duration::from_millis(1));
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
        stat.contains(") S ")
    })
}

/// As packetdrill has it: both threads do their work with a lock held, the one that plays the
/// script gives it away while it sleeps, and the other takes it when its call has returned and it
/// has looked at the clock. Milliseconds later, in virtual time, that must have happened.
#[test]
fn what_a_call_gave_is_known_when_the_scripts_thread_has_slept() {
    let library = Library::load(&common::object()).unwrap();
    let table = library.instance("quiet=1; idle_ms=0").unwrap();
    let fd = table.call(&Call::Socket { nonblocking: false }).unwrap();
    let fd = fd.result.unwrap() as i32;
    let at = "0.0.0.0:8080".parse().unwrap();
    for call in [Call::Bind { fd, at }, Call::Listen { fd, backlog: 1 }] {
        assert_eq!(table.call(&call).unwrap().result, Ok(0));
    }
    let returned = Arc::new(Mutex::new(0));
    let (ask, asked) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let theirs = returned.clone();
    let second = thread::spawn(move || {
        // SAFETY: asks for a number.
        tell.send(unsafe { libc::gettid() }).unwrap();
        while let Ok(wanted) = asked.recv() {
            let poll = Call::Poll {
                wanted,
                timeout_ms: 5,
            };
            table.call(&poll).unwrap();
            let at = table.look().unwrap();
            *theirs.lock().unwrap() = at;
        }
    });
    let tid = told.recv().unwrap();
    let mut lock = returned.lock().unwrap();
    for n in 0..200 {
        let begun = table.look().unwrap();
        // Nobody connects: the time passes.
        ask.send(vec![(fd, POLLIN)]).unwrap();
        while !asleep_in_poll(tid) {
            thread::yield_now();
        }
        let (waits, to) = (begun + 6_000, begun + 12_000);
        for until in [waits, to] {
            loop {
                let now = table.look().unwrap();
                if now >= until {
                    break;
                }
                drop(lock);
                table.sleep((until - now) as u32).unwrap();
                lock = returned.lock().unwrap();
            }
        }
        let at = *lock;
        assert!((begun..=to).contains(&at), "{n}: {at}, begun at {begun}");
    }
    drop((lock, ask));
    second.join().unwrap();
}
