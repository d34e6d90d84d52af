//! The `narrows` command.

use narrows_harness::cli::App;
use narrows_harness::cli::catalog::Catalog;
use std::process::ExitCode;

fn main() -> ExitCode {
    let catalog = Catalog::default();
    let runner = catalog.incast();
    App::new(catalog, runner).main()
}
