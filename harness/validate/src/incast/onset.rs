//! From how many servers on packets are lost.

use super::*;

/// The window that the receiver offers, in packets.
const RWND: f64 = 20.0;
/// Packets that the link holds in a round trip: 1 Gb/s x 100 us / 1040 bytes.
const PIPE: f64 = 12.0;

/// With fewer servers than this all windows fit into buffer and link.
pub(super) fn n_star(buffer: u32) -> f64 {
    (f64::from(buffer) + PIPE) / RWND
}

/// Each buffer, those of the table and those between.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for buffer in [32, 64, 128, 256, 512, 1_024] {
        of(bench, buffer)?;
    }
    Ok(())
}

/// One buffer: the greatest number of servers without loss.
pub(super) fn of(bench: &mut Bench<'_>, buffer: u32) -> Result<(), ScenarioError> {
    let n_star = n_star(buffer);
    // Below it no losses, above it losses: at it, either.
    let (low, high) = (n_star.ceil() - 1.0, n_star.floor());
    let mut loss_free = 0;
    for n in (low as u32).saturating_sub(1).max(1)..=high as u32 + 2 {
        let mut spec = fast08(n, buffer, 1);
        spec.run.duration = Duration::from_millis(20 * u64::from(n.max(10)));
        let found = runs(bench, &spec, 1..=2)?;
        if found.iter().any(|run| run.drops.total() > 0) {
            break;
        }
        loss_free = n;
    }
    bench.row(Row::new(
        format!("B = {buffer}: most servers without loss"),
        format!("N* = (B + C RTT) / rwnd = {n_star:.1}"),
        Expected::Range(low, high),
        Measured::Value(f64::from(loss_free)),
        "servers",
        Tolerance::Exact,
    ));
    Ok(())
}
