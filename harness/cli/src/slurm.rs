//! `narrows run --slurm`: the runs as an array job of shards, and a job that merges them.
//!
//! What the jobs need is in the folder of `--out`: the whole experiment, their scripts, a folder
//! for each part, and their logs. Both jobs may be started again, and go on where they were.

use super::expected::ExpectedArgs;
use super::output::OutputFile;
use super::{Stop, usage};
use narrows_experiment::plan::{Plan, Shard};
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, SLURM};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is left for the command to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing: jobs do it, as this sentence says.
    Submitted(String),
    /// To tell what came out: all runs are there.
    Results,
}

/// The jobs that were submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Submitted {
    /// The array.
    array: String,
    /// What merges its parts.
    merge: String,
}

/// What is to be submitted.
#[derive(Debug)]
pub(super) struct Jobs<'a> {
    /// The folder of results, which has the experiment.
    pub(super) out: &'a Path,
    /// How many tasks the array has, if there are as many runs.
    pub(super) tasks: u32,
    /// Options for `sbatch`.
    pub(super) options: &'a [String],
    /// What what merges does with what was expected.
    pub(super) expected: &'a ExpectedArgs,
}

/// Options of `sbatch` that the jobs have of their own,
const OWN: [&str; 4] = ["--array", "--dependency", "--output", "--parsable"];
/// and in short.
const OWN_SHORT: [&str; 3] = ["-a", "-d", "-o"];

impl Jobs<'_> {
    /// Has Slurm run what is missing.
    ///
    /// # Errors
    /// If the folder has results of something else, a script cannot be written, or `sbatch` does not take
    /// it.
    pub(super) fn submit_missing(mut self, plan: &Plan, registry: &Registry) -> Result<Rest, Stop> {
        // The folder says what is left to run.
        let folder = Folder::open(self.out, plan, registry)?;
        let missing = plan.missing(Shard::WHOLE, &folder.done()).len();
        drop(folder);
        if missing == 0 {
            return Ok(Rest::Results);
        }
        self.tasks = self.tasks.min(u32::try_from(missing).unwrap_or(u32::MAX));
        let Submitted { array, merge } = self.submit()?;
        Ok(Rest::Submitted(format!(
            "narrows: job {array} does {missing} runs in {} tasks, job {merge} puts them into {}\n",
            self.tasks,
            self.out.display()
        )))
    }

    /// Writes the scripts and submits them.
    fn submit(&self) -> Result<Submitted, Stop> {
        self.check()?;
        let narrows = std::env::current_exe().map_err(|e| failed("find this program", &e))?;
        let out = std::path::absolute(self.out).map_err(|e| failed("find the folder", &e))?;
        let folder = out.join(SLURM);
        fs::create_dir_all(&folder)
            .map_err(|e| failed(&format!("create {}", folder.display()), &e))?;
        let part = folder.join("part");
        // Slurm replaces what begins with a percent sign.
        let place = word(&folder)?.replace('%', "%%");
        let log = |name: &str| format!("{place}/{name}");
        let [narrows, out, parts] = [&narrows, &out, &part].map(|path| quoted(path));
        let (narrows, out, parts) = (narrows?, out?, parts?);
        let array = write(
            &folder,
            "array.sh",
            &array_script(&narrows, &out, &parts, self.tasks),
        )?;
        let merge = write(
            &folder,
            "merge.sh",
            &merge_script(&narrows, &out, &parts, self.tasks, &self.expectation()?),
        )?;
        let tasks = format!("--array=1-{}", self.tasks);
        let array = self.sbatch(
            "narrows",
            &log("task-%a.log"),
            &[&tasks, "--requeue"],
            &array,
        )?;
        // Whatever became of the parts: what there is of them is merged.
        let after = format!("--dependency=afterany:{array}");
        let merge = self.sbatch("narrows-merge", &log("merge.log"), &[&after], &merge);
        let merge = merge.map_err(|e| match e {
            Stop::Failed(why) => Stop::Failed(format!(
                "{why}\njob {array} runs all the same: merge its parts with `sh {}` when it is done",
                folder.join("merge.sh").display()
            )),
            other => other,
        })?;
        Ok(Submitted { array, merge })
    }

    /// The options of the merge that concern what was expected, each after a space.
    fn expectation(&self) -> Result<String, Stop> {
        let mut text = String::new();
        if self.expected.check() {
            text += " --check";
        }
        if let Some(path) = self.expected.junit() {
            let path = std::path::absolute(path).map_err(|e| failed("find the folder", &e))?;
            let _ = write!(text, " --junit {}", quoted(&path)?);
        }
        Ok(text)
    }

    /// Options that both jobs need for themselves are refused.
    fn check(&self) -> Result<(), Stop> {
        for option in self.options {
            let name = option.split(['=', ' ']).next().unwrap_or_default();
            // sbatch takes any beginning that only one has.
            let long = |own: &str| name.len() > 3 && own.starts_with(name);
            let short = |own: &str| !option.starts_with("--") && option.starts_with(own);
            if OWN.iter().any(|own| long(own)) || OWN_SHORT.iter().any(|own| short(own)) {
                let why =
                    "narrows sets it for its two jobs; --slurm=N says how many tasks there are";
                return Err(usage("sbatch", option, why));
            }
        }
        Ok(())
    }

    /// Submits a script; the number of the job.
    fn sbatch(&self, name: &str, log: &str, own: &[&str], script: &Path) -> Result<String, Stop> {
        let done = Command::new("sbatch")
            .args(["--parsable", "--open-mode=append"])
            .arg(format!("--job-name={name}"))
            .arg(format!("--output={log}"))
            .args(own)
            .args(self.options)
            .arg(script)
            .output();
        let done = done.map_err(|e| {
            match e.kind() {
            io::ErrorKind::NotFound => Stop::Failed(
                "there is no sbatch here, which submits jobs to Slurm; --shard and `narrows merge` \
                 do the same by hand"
                    .to_owned(),
            ),
            _ => failed("start sbatch", &e),
        }
        })?;
        let said = String::from_utf8_lossy(&done.stdout);
        // NUMBER, or NUMBER;CLUSTER.
        let number = said.trim().split(';').next().unwrap_or_default();
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        if !done.status.success() || !is_number {
            let said = [said, String::from_utf8_lossy(&done.stderr)].concat();
            return Err(Stop::Failed(format!(
                "sbatch did not take {}: {}",
                script.display(),
                said.trim()
            )));
        }
        Ok(number.to_owned())
    }
}

fn failed(what: &str, e: &io::Error) -> Stop {
    Stop::Failed(format!("cannot {what}: {e}"))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Stop> {
    let path = folder.join(name);
    OutputFile::create("script", &path)?.finish_with(text.as_bytes())?;
    Ok(path)
}

/// A path as text.
fn word(path: &Path) -> Result<&str, Stop> {
    path.to_str().ok_or_else(|| {
        Stop::Failed(format!(
            "{} is no UTF-8, which a script needs",
            path.display()
        ))
    })
}

/// A path as a word of a shell's.
fn quoted(path: &Path) -> Result<String, Stop> {
    Ok(format!("'{}'", word(path)?.replace('\'', r"'\''")))
}

/// A task runs what is missing of a part into a folder of its own, on as many threads as it has processors.
fn array_script(narrows: &str, out: &str, parts: &str, tasks: u32) -> String {
    format!(
        "#!/bin/sh\n\
         exec {narrows} run {out}/experiment.toml --quiet \\\n    \
         --shard \"$SLURM_ARRAY_TASK_ID/{tasks}\" --threads \"${{SLURM_CPUS_PER_TASK:-1}}\" \\\n    \
         --except {out} --out {parts}\"$SLURM_ARRAY_TASK_ID\"\n"
    )
}

/// Parts that never began are not there.
fn merge_script(narrows: &str, out: &str, parts: &str, tasks: u32, expected: &str) -> String {
    let mut text = String::from("#!/bin/sh\nset --\n");
    let _ = writeln!(text, "n=1\nwhile [ $n -le {tasks} ]; do");
    let _ = writeln!(text, "    part={parts}$n");
    text += "    if [ -e \"$part/experiment.toml\" ]; then set -- \"$@\" \"$part\"; fi\n";
    text += "    n=$((n + 1))\ndone\n";
    text += "if [ $# -eq 0 ]; then echo 'no part has begun' >&2; exit 1; fi\n";
    let _ = writeln!(text, "exec {narrows} merge{expected} {out} \"$@\"");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words() {
        for (path, word) in [("/a b", "'/a b'"), ("/it's", r"'/it'\''s'")] {
            assert!(matches!(quoted(Path::new(path)), Ok(text) if text == word));
        }
    }
}
