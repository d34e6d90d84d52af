//! Stand-in.
use narrows_congestion::Instant;
#[derive(Debug)]
pub(crate) struct Budget { per_second: u32, left: u32, since: Instant }
impl Budget {
    pub(crate) fn new(per_second: u32, _seed: u64) -> Self { Self { per_second, left: per_second, since: Instant::ZERO } }
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= narrows_congestion::Duration::from_secs(1) { self.since = now; self.left = self.per_second; }
        if self.left == 0 { return false; }
        self.left -= 1;
        true
    }
}
