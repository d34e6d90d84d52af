//! Plays packetdrill scripts against a TCP in a shared object, as packetdrill's `--so_filename`
//! does, with the parser, the matcher and the errors of `narrows script`:
//!
//! ```text
//! cargo build --release -p narrows-packetdrill
//! cargo run --release -p narrows-packetdrill --example script_so -- \
//!     target/release/libnarrows_packetdrill.so harness/script/scripts
//! ```
//!
//! `--profile NAME` and `--so-flags FLAGS` go before the scripts. Another TCP's object will not
//! know our flags: `--only-so-flags FLAGS` gives it these and no others.

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn main() -> std::process::ExitCode {
    match linux::run(std::env::args().skip(1)) {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn main() {
    eprintln!("packetdrill's interface is here for Linux on x86-64 and AArch64 only");
}

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod linux {
    use narrows_packetdrill::loader::{Given, Library};
    use narrows_script::{Options, run_on, suite};
    use std::path::{Path, PathBuf};

    const USAGE: &str = "usage: script_so FILE.so [--profile rfc|linux|freebsd] [--so-flags FLAGS | \
                         --only-so-flags FLAGS] SCRIPT.pkt...";

    /// Whether all passed.
    pub(super) fn run(mut args: impl Iterator<Item = String>) -> Result<bool, String> {
        let object = args.next().ok_or(USAGE)?;
        let mut options = Options::default();
        let mut given = Given::Wanted(String::new());
        let mut paths = Vec::new();
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .ok_or_else(|| format!("{arg} wants a value\n{USAGE}"))
            };
            match arg.as_str() {
                "--profile" => options.profile = value()?.parse()?,
                "--so-flags" => given = Given::Wanted(value()?),
                "--only-so-flags" => given = Given::Only(value()?),
                other if other.starts_with('-') => {
                    return Err(format!("no option {other}\n{USAGE}"));
                }
                path => paths.push(PathBuf::from(path)),
            }
        }
        if paths.is_empty() {
            return Err(USAGE.to_owned());
        }
        let library = Library::load(Path::new(&object))?;
        let files = suite::find(&paths).map_err(|e| e.to_string())?;
        let mut failed = 0;
        for file in &files {
            let name = file.display().to_string();
            let bytes = std::fs::read(file).map_err(|e| format!("{name}: {e}"))?;
            let source = String::from_utf8_lossy(&bytes);
            let mut make = |wanted: &_| library.stack(wanted, &given);
            let report = run_on(&name, &source, &options, &mut make);
            if !report.passed() {
                failed += 1;
                println!("{}", report.text());
            }
        }
        println!("{} scripts, {failed} failed", files.len());
        Ok(failed == 0)
    }
}
