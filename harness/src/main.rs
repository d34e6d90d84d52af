//! The `narrows` command.

use narrows_harness::cli::App;
use narrows_harness::cli::catalog::Catalog;
use narrows_harness::scenario::{IncastRun, IncastSpec, RunContext, ScenarioError};
use std::process::ExitCode;

fn main() -> ExitCode {
    let runner = |_: &IncastSpec, _: RunContext<'_>| -> Result<IncastRun, ScenarioError> {
        Err(ScenarioError::Internal("this build has no simulator".to_owned()))
    };
    App::new(Catalog::default(), runner).main()
}
