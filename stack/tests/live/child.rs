//! Another process in this thread's namespace that holds a device until it is killed.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// What the other process is to be told by.
const HOLD: &str = "NARROWS_TEST_HOLDS";

/// A process that runs one test of this program, which calls [`hold_if_told`].
pub struct Holder(Child);

impl Holder {
    /// Start it with the test called `test`, its module included; back when it holds what it was told.
    pub fn start(test: &str, what: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(HOLD, what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut holder = Self(child.unwrap());
        let mut lines = BufReader::new(holder.0.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(HOLD) {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it does not start");
        }
        holder
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the other process: open what it was told, and keep it until the process ends. Nothing happens
/// where the test is run as a test.
pub fn hold_if_told<T>(open: impl FnOnce(&str) -> T) {
    let Ok(what) = std::env::var(HOLD) else {
        return;
    };
    let held = open(&what);
    println!("\n{HOLD} {what}");
    // The end of the file is the end of the parent.
    let _ = std::io::stdin().read(&mut [0]);
    drop(held);
}
