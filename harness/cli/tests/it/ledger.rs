//! `narrows run`: whose ledger is told, and how often.

use std::path::PathBuf;
use std::process::Command;

const EXPERIMENT: &str = "title = \"Whose ledger\"\n[network]\ntopology = \"star\"\nhosts = 2\n\
    [[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 3\nrequest = \"100B\"\nreply = \"3kB\"\npause = \"50ms\"\n\
    [run]\nduration = \"1s\"\nrepetitions = 3\n";

/// Runs the experiment with `probe` added and these options: each ledger in the results, by name, and of
/// how many repetitions its table has rows.
fn ledgers(name: &str, probe: &str, options: &[&str]) -> Vec<(String, usize)> {
    let dir: PathBuf =
        std::env::temp_dir().join(format!("narrows-ledger-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("e.toml"), format!("{EXPERIMENT}{probe}")).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["run", "e.toml", "--quiet", "--out", "out"])
        .args(options)
        .current_dir(&dir)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let files = std::fs::read_dir(dir.join("out")).unwrap();
    let mut told: Vec<(String, usize)> = files
        .filter_map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            let name = name
                .strip_prefix("table-")?
                .strip_suffix(".csv")?
                .to_owned();
            let table = std::fs::read_to_string(file.path()).unwrap();
            let runs: std::collections::BTreeSet<&str> = table
                .lines()
                .skip(1)
                .filter_map(|line| line.split(',').nth(1))
                .collect();
            Some((name, runs.len()))
        })
        .collect();
    told.sort();
    std::fs::remove_dir_all(&dir).unwrap();
    told
}

const OWN: &str = "[[probe]]\nname = \"mine\"\nkind = \"ledger\"\n";
const FIRST: &str = "[[probe]]\nname = \"mine\"\nkind = \"ledger\"\neach_run = \"off\"\n";

fn one(name: &str, runs: usize) -> Vec<(String, usize)> {
    vec![(name.to_owned(), runs)]
}

#[test]
fn a_report_has_the_ledger_of_the_first_repetition() {
    assert_eq!(ledgers("first", "", &[]), one("ledger", 1));
}

#[test]
fn with_an_option_it_is_of_all_repetitions() {
    assert_eq!(ledgers("all", "", &["--ledger"]), one("ledger", 3));
    assert_eq!(ledgers("all-own", FIRST, &["--ledger"]), one("mine", 3));
}

#[test]
fn with_another_there_is_none() {
    assert_eq!(ledgers("none", "", &["--no-ledger"]), []);
    assert_eq!(ledgers("none-own", OWN, &["--no-ledger"]), []);
}

/// Of several probes each tells of all repetitions.
#[test]
fn an_option_is_of_each_of_several() {
    let two = format!("{FIRST}{}", FIRST.replace("mine", "other"));
    let all = vec![("mine".to_owned(), 3), ("other".to_owned(), 3)];
    assert_eq!(ledgers("several", &two, &["--ledger"]), all);
}

/// What is swept is not taken away without a word.
#[test]
fn without_the_ledger_a_sweep_over_it_is_refused() {
    let file = std::env::temp_dir().join(format!("narrows-swept-{}.toml", std::process::id()));
    std::fs::write(&file, format!("{EXPERIMENT}{FIRST}")).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .arg("run")
        .arg(&file)
        .args(["--no-ledger", "--sweep", "probe.mine.each_run=on,off"])
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--no-ledger") && said.contains("probe.mine.each_run"),
        "{said}"
    );
}

#[test]
fn an_experiment_that_asks_for_it_has_it_once_and_as_it_asks() {
    assert_eq!(ledgers("own", OWN, &[]), one("mine", 3));
    assert_eq!(ledgers("own-first", FIRST, &[]), one("mine", 1));
    assert_eq!(ledgers("own-all", OWN, &["--ledger"]), one("mine", 3));
}
