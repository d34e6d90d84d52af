//! The `narrows` command.

use narrows_harness::cli::App;
use narrows_harness::cli::catalog::Catalog;
use narrows_harness::scenario::incast::Incast;
use std::process::ExitCode;

fn main() -> ExitCode {
    let catalog = Catalog::default();
    let runner = Incast {
        congestion: catalog.congestion.clone(),
        rto: catalog.rto.clone(),
    };
    App::new(catalog, runner).main()
}
