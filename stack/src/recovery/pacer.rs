//! Stand-in; the real one is being written.
#![allow(missing_docs)]
use narrows_congestion::{ByteCount, Instant, Rate};
#[derive(Debug, Default)]
pub struct Pacer {}
impl Pacer { pub fn new() -> Self { Self {} } pub fn on_sent(&mut self, _n: Instant, _b: ByteCount, _r: Rate) {} pub fn next_send(&self, _n: Instant) -> Option<Instant> { None } }
