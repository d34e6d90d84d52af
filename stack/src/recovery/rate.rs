//! Stand-in; the real one is being written.
#![allow(missing_docs)]
use narrows_congestion::{ByteCount, Duration, Instant, Rate};
#[derive(Clone, Copy, Debug, Default)]
pub struct TxSnapshot { pub delivered: u64, pub delivered_at: Instant, pub first_sent_at: Instant, pub app_limited: bool }
#[derive(Debug, Default)]
pub struct RateEstimator { delivered: u64, next_round: u64, round: bool }
#[derive(Default)]
pub struct RateSample { pub rate: Option<Rate>, pub interval: Duration }
impl RateEstimator {
    pub fn new() -> Self { Self::default() }
    pub fn on_sent(&mut self, now: Instant, _idle: bool) -> TxSnapshot { TxSnapshot { delivered: self.delivered, delivered_at: now, first_sent_at: now, app_limited: false } }
    pub fn on_delivered(&mut self, tx: &TxSnapshot, _sent: Instant, bytes: ByteCount, _now: Instant) { self.delivered += bytes.get(); if tx.delivered >= self.next_round { self.round = true; } }
    pub fn take_round_start(&mut self) -> bool { let r = core::mem::take(&mut self.round); if r { self.next_round = self.delivered; } r }
    pub fn sample(&self, _now: Instant) -> RateSample { RateSample::default() }
    pub fn on_app_limited(&mut self, _in_flight: u64) {}
}
