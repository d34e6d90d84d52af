//! The `narrows` command.

use narrows_cli::App;
use narrows_cli::catalog::Catalog;
use std::process::ExitCode;

/// Ten thousand hosts are more memory than small pages are good for.
#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: narrows::device::pages::LargePages = narrows::device::pages::LargePages;

fn main() -> ExitCode {
    App::new(Catalog::default()).main()
}
