//! Runs of an experiment.

use super::prepare::Prepared;
use super::{RunError, RunOutcome};
use crate::host::SimPacket;
use crate::model::{Experiment, Place};
use crate::registry::Registry;
use crate::scenario::RunContext;
use crate::sim::tap::Tap;

impl Experiment {
    /// Runs it once, with its own seed; what its sweep and repetitions say is left alone. The same
    /// experiment gives the same outcome, bit for bit.
    ///
    /// # Errors
    /// When it is impossible, or the run was cancelled.
    pub fn run(&self, registry: &Registry, ctx: RunContext<'_>) -> Result<RunOutcome, RunError> {
        if self.run.place == Place::Live {
            return registry.live_place()?.run(self, registry, ctx);
        }
        Prepared::new(self, registry)?.parts.run(ctx)
    }

    /// The same, watched by a tap of the caller's, which sees each packet at hosts and switches. A
    /// capture in `ctx` is left alone.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub fn watch<T: Tap<SimPacket>>(
        &self,
        registry: &Registry,
        ctx: RunContext<'_>,
        mut tap: T,
    ) -> Result<(RunOutcome, T), RunError> {
        let parts = Prepared::new(self, registry)?.parts;
        let outcome = parts.watch(ctx, &mut tap)?;
        Ok((outcome, tap))
    }
}
