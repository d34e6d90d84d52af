//! ns-3, if there is one: our program for it, built and run.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = include_str!("../../reference/ns3/incast.cc");
const PACKAGES: [&str; 5] = [
    "ns3-core",
    "ns3-network",
    "ns3-internet",
    "ns3-point-to-point",
    "ns3-traffic-control",
];

/// Why there is no result of ns-3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing(pub(super) String);

/// The program, in a folder of its own that goes when this does.
#[derive(Debug)]
pub(super) struct Ns3 {
    folder: PathBuf,
    version: String,
}

impl Ns3 {
    /// Builds the program.
    ///
    /// # Errors
    /// What is not installed, or what the compiler said.
    pub(super) fn build() -> Result<Self, Missing> {
        let flags = output(
            Command::new("pkg-config")
                .args(["--cflags", "--libs"])
                .args(PACKAGES),
        )
        .map_err(|Missing(why)| {
            Missing(format!(
                "ns-3 is not installed (apt-get install libns3-dev pkg-config g++): {why}"
            ))
        })?;
        let version = output(Command::new("pkg-config").args(["--modversion", PACKAGES[0]]))?;
        let ns3 = Self {
            folder: folder()?,
            version: version.trim().to_owned(),
        };
        let source = ns3.folder.join("incast.cc");
        std::fs::write(&source, PROGRAM).map_err(|e| failed(&source, &e))?;
        // Debian's list names development files of other packages that nothing here needs.
        let flags = flags.split_whitespace().filter(|f| !f.ends_with(".so"));
        let mut compile = Command::new("g++");
        compile.args(["-O2", "-std=c++17"]).arg(&source);
        compile.args(flags).arg("-o").arg(ns3.program());
        output(&mut compile)?;
        Ok(ns3)
    }

    /// Goodput in Mb/s and timeouts of one run.
    ///
    /// # Errors
    /// What the program said.
    pub(super) fn run(
        &self,
        servers: u32,
        rto_min_ms: u32,
        seed: u64,
    ) -> Result<(f64, f64), Missing> {
        let said = output(Command::new(self.program()).args([
            format!("--servers={servers}"),
            format!("--rtoMin={rto_min_ms}ms"),
            format!("--seed={seed}"),
        ]))?;
        let mut numbers = said.split_whitespace().map(str::parse::<f64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(goodput)), Some(Ok(timeouts))) if goodput > 0.0 => Ok((goodput, timeouts)),
            _ => Err(Missing(format!(
                "ns-3's incast did not end: {}",
                said.trim()
            ))),
        }
    }

    /// As its package has it: `3.37`.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    fn program(&self) -> PathBuf {
        self.folder.join("incast")
    }
}

impl Drop for Ns3 {
    fn drop(&mut self) {
        // Nothing is lost if it stays.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A new folder that nobody else uses.
fn folder() -> Result<PathBuf, Missing> {
    let base = std::env::temp_dir();
    for n in 0..1_000 {
        let folder = base.join(format!("narrows-ns3-{}-{n}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(&folder, &e)),
        }
    }
    Err(Missing(format!(
        "{} is full of such folders",
        base.display()
    )))
}

/// What `command` prints, if it succeeds.
fn output(command: &mut Command) -> Result<String, Missing> {
    let name: OsString = command.get_program().to_owned();
    let result = command.output().map_err(|e| failed(Path::new(&name), &e))?;
    if result.status.success() {
        return Ok(String::from_utf8_lossy(&result.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&result.stderr);
    let first = said.lines().find(|l| !l.trim().is_empty());
    Err(Missing(format!(
        "{}: {}",
        name.display(),
        first.unwrap_or("failed without a word")
    )))
}

fn failed(what: &Path, e: &std::io::Error) -> Missing {
    Missing(format!("{}: {e}", what.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named() {
        let Missing(why) = output(&mut Command::new("no-such-program-of-ns3")).unwrap_err();
        assert!(why.starts_with("no-such-program-of-ns3: "), "{why}");
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo; echo broken >&2; exit 3"]);
        let Missing(why) = output(&mut fails).unwrap_err();
        assert_eq!(why, "sh: broken");
        assert_eq!(
            output(Command::new("echo").arg("4 2")),
            Ok("4 2\n".to_owned())
        );
    }

    #[test]
    fn the_folder_goes_with_the_program() {
        let ns3 = Ns3 {
            folder: folder().unwrap(),
            version: String::new(),
        };
        let folder = ns3.folder.clone();
        assert!(folder.is_dir());
        drop(ns3);
        assert!(!folder.exists());
    }
}
