//! Plays our scripts under the original packetdrill, with the shared object as its TCP:
//!
//! ```text
//! cargo build --release -p narrows-packetdrill
//! cargo run --release -p narrows-packetdrill --example under_packetdrill -- \
//!     /path/to/packetdrill target/release/libnarrows_packetdrill.so harness/script/scripts
//! ```
//!
//! Each script is rewritten into what the original reads (`narrows_packetdrill::original`). Exit
//! status 0: those failed that cannot pass there, see `CANNOT`, each for its reason, and no
//! others. 1: others failed, or passed. 2: nothing could be run.

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
    use narrows_packetdrill::original::{Rewritten, rewrite};
    use narrows_script::{Options, Profile, suite};
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitStatus, Stdio};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::{Duration, Instant};

    const USAGE: &str = "usage: under_packetdrill PACKETDRILL FILE.so [--profile rfc|linux|freebsd] \
                         [--define NAME=VALUE] [--jobs N] [--keep FOLDER] SCRIPT.pkt|FOLDER...\n\
                         --keep FOLDER: leave the rewritten scripts there";

    /// A script that cannot pass under the original.
    struct Cannot {
        /// How its path ends.
        file: &'static str,
        /// Part of what the original says.
        says: &'static str,
        why: &'static str,
    }

    /// The numbers of a second connection between the same ports count from its own SYNs with us.
    const FIRST_ISN: &str =
        "it counts from the first SYN between two ports, the script from the second";

    const CANNOT: &[Cannot] = &[
        Cannot {
            file: "calls/given-text.pkt",
            says: "syntax error",
            why: "it writes zeros: a script gives it no text",
        },
        Cannot {
            file: "calls/own-port.pkt",
            says: "actual: sockaddr_in expected: ellipsis",
            why: "its bind() takes no address",
        },
        Cannot {
            file: "calls/two-connections.pkt",
            says: "packet of 0 bytes",
            why: "it follows one connection, and passes over the packets of others",
        },
        Cannot {
            file: "handshake/rst-in-syn-received.pkt",
            says: "tcp_seq: expected: 0",
            why: FIRST_ISN,
        },
        Cannot {
            file: "options/unknown-option.pkt",
            says: "parse error at 'unknown'",
            why: "it has no word for an option of any kind",
        },
        Cannot {
            file: "time-wait/new-syn-beyond.pkt",
            says: "tcp_seq: expected: 0",
            why: FIRST_ISN,
        },
    ];

    /// Longer than any script takes on a busy machine: time is virtual.
    const LIMIT: Duration = Duration::from_secs(60);

    struct Setting {
        program: PathBuf,
        object: PathBuf,
        /// What runs assertions.
        python: Option<PathBuf>,
        options: Options,
        /// Where the rewritten scripts lie.
        folder: PathBuf,
    }

    /// What came of a script.
    enum Outcome {
        Passed,
        /// With what was said.
        Failed(String),
    }

    /// Whether just those failed that cannot pass.
    pub(super) fn run(mut args: impl Iterator<Item = String>) -> Result<bool, String> {
        let program = file(
            &args.next().ok_or(USAGE)?,
            "the original packetdrill, built from its published sources",
        )?;
        let object = file(
            &args.next().ok_or(USAGE)?,
            "the object that `cargo build --release -p narrows-packetdrill` makes",
        )?;
        let mut options = Options::default();
        let mut paths = Vec::new();
        let mut jobs = thread::available_parallelism().map_or(1, usize::from);
        let mut keep = None;
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .ok_or_else(|| format!("{arg} wants a value\n{USAGE}"))
            };
            match arg.as_str() {
                "--profile" => options.profile = value()?.parse::<Profile>()?,
                "--define" => {
                    let text = value()?;
                    let (name, value) = text.split_once('=').unwrap_or((&text, ""));
                    options.defines.insert(name.to_owned(), value.to_owned());
                }
                "--jobs" => {
                    let n = value()?.parse().ok().filter(|n| *n > 0);
                    jobs = n.ok_or("--jobs wants a number above 0")?;
                }
                "--keep" => keep = Some(PathBuf::from(value()?)),
                other if other.starts_with('-') => {
                    return Err(format!("no option {other}\n{USAGE}"));
                }
                path => paths.push(PathBuf::from(path)),
            }
        }
        if paths.is_empty() {
            return Err(USAGE.to_owned());
        }
        let files = suite::find(&paths).map_err(|e| e.to_string())?;
        let own = std::env::temp_dir().join(format!("under-packetdrill-{}", std::process::id()));
        let folder = keep.clone().unwrap_or(own);
        let cannot_make = |e| format!("cannot make {}: {e}", folder.display());
        fs::create_dir_all(&folder).map_err(cannot_make)?;
        let folder = fs::canonicalize(&folder).map_err(cannot_make)?;
        let setting = Setting {
            program,
            object,
            python: python(),
            options,
            folder: folder.clone(),
        };
        let outcomes = play_all(&setting, &files, jobs);
        if keep.is_none() {
            // What is left in the temporary folder harms nobody.
            let _ = fs::remove_dir_all(&folder);
        }
        Ok(summary(&files, &outcomes))
    }

    /// A file that must be there, by its full path. `what` it is, and how to get it.
    fn file(path: &str, what: &str) -> Result<PathBuf, String> {
        let full =
            fs::canonicalize(path).map_err(|e| format!("{path}: {e}; it should be {what}"))?;
        match full.is_file() {
            true => Ok(full),
            false => Err(format!("{path} is no file; it should be {what}")),
        }
    }

    /// `python3` of the path: not everywhere is there a `/usr/bin/python`, which the original
    /// runs assertions with.
    fn python() -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let mut folders = std::env::split_paths(&path);
        folders.find_map(|f| Some(f.join("python3")).filter(|p| p.is_file()))
    }

    fn play_all(setting: &Setting, files: &[PathBuf], jobs: usize) -> Vec<Outcome> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..jobs.min(files.len()) {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let Some(path) = files.get(n) else {
                            return;
                        };
                        let outcome = play(setting, n, path).unwrap_or_else(Outcome::Failed);
                        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                        done.push((n, outcome));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(n, _)| *n);
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Play one script. An error is what kept it from being played.
    fn play(setting: &Setting, n: usize, path: &Path) -> Result<Outcome, String> {
        let name = path.display().to_string();
        let bytes = fs::read(path).map_err(|e| format!("{name}: {e}"))?;
        let source = String::from_utf8_lossy(&bytes);
        let rewritten = rewrite(&name, &source, &setting.options)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let script = setting.folder.join(format!("{n:03}-{stem}.pkt"));
        let said = script.with_extension("out");
        let failed = |e| format!("{}: {e}", script.display());
        fs::write(&script, &rewritten.script).map_err(failed)?;
        let out = File::create(&said).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let mut command = command(setting, &rewritten);
        command.arg(&script);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let status = within_limit(&mut command)
            .map_err(|e| format!("{}: {e}", setting.program.display()))?;
        let text = fs::read(&said).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        // Where it stands, for people: the line is the same.
        let text = text.replace(&script.display().to_string(), &name);
        Ok(match status {
            Some(status) if status.success() => Outcome::Passed,
            Some(status) => Outcome::Failed(format!("{}\n{status}", text.trim_end())),
            None => Outcome::Failed(format!(
                "{}\nno end after {} seconds",
                text.trim_end(),
                LIMIT.as_secs()
            )),
        })
    }

    fn command(setting: &Setting, script: &Rewritten) -> Command {
        let mut command = Command::new(&setting.program);
        let so_filename = format!("--so_filename={}", setting.object.display());
        command.arg(so_filename);
        command.arg(format!("--so_flags=quiet=1; {}", script.so_flags));
        if setting.options.profile == Profile::Rfc {
            // As our runner has it; what the script says counts more.
            command.arg("--tolerance_usecs=1000");
        }
        if let Some(python) = &setting.python {
            command.arg(format!("--code_command={}", python.display()));
        }
        for (name, value) in &setting.options.defines {
            command.arg(format!("--define={name}={value}"));
        }
        if script.asserts {
            command.env("LD_PRELOAD", &setting.object);
        }
        command
    }

    /// How it ended; none if it did not in time.
    #[expect(clippy::disallowed_methods, reason = "another program takes real time")]
    fn within_limit(command: &mut Command) -> std::io::Result<Option<ExitStatus>> {
        let mut child = command.spawn()?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if begun.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Tell what came of all. Whether it is as it should be.
    fn summary(files: &[PathBuf], outcomes: &[Outcome]) -> bool {
        let (mut passed, mut known, mut wrong) = (0, 0, 0);
        for (path, outcome) in files.iter().zip(outcomes) {
            let name = path.display();
            let cannot = CANNOT.iter().find(|c| path.ends_with(c.file));
            match (outcome, cannot) {
                (Outcome::Passed, None) => passed += 1,
                (Outcome::Passed, Some(cannot)) => {
                    wrong += 1;
                    println!("error: {name} passes, and cannot: {}\n", cannot.why);
                }
                (Outcome::Failed(said), Some(cannot)) if said.contains(cannot.says) => {
                    known += 1;
                    println!("note: {name} cannot pass: {}\n", cannot.why);
                }
                (Outcome::Failed(said), _) => {
                    wrong += 1;
                    println!("error: {name}");
                    for line in said.lines() {
                        println!("  | {line}");
                    }
                    println!();
                }
            }
        }
        println!(
            "{} scripts: {passed} pass, {known} cannot, {wrong} are not as they should be",
            files.len()
        );
        wrong == 0
    }
}
