//! Every value of every table of a grid of runs: a change that is to change nothing is held against
//! `golden/grid.txt`. The grid goes where a short path through the code and a long one must agree:
//! refusals of NICs, losses, reordering, packets as bytes, 8 to 10,000 senders, all congestion
//! controls and loss detectors.
//!
//! `NARROWS_GOLDEN=write cargo test -p narrows-cli --test it grid` writes it anew: for a change that
//! CHANGELOG.md has under "Simulation output changed", or for a command that was added there.

use super::commands::{Table, of_csv};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/grid.txt");
const TABLES: [&str; 4] = ["runs", "flows", "transfers", "ports"];

/// A column of a table of results: its name, how many values it has, and their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    rows: usize,
    hash: u64,
}

/// FNV-1a, 64 bits.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn columns(of: &str, table: &Table) -> Vec<Column> {
    // What was set is no result.
    let result = |name: &str| {
        !["network.", "group.", "host.", "traffic.", "run."]
            .iter()
            .any(|section| name.starts_with(section))
    };
    let named = table.header.iter().enumerate();
    named
        .filter(|(_, name)| result(name))
        .map(|(i, name)| Column {
            name: format!("{of}/{name}"),
            rows: table.rows.len(),
            hash: hash(
                table
                    .rows
                    .iter()
                    .flat_map(|row| row[i].bytes().chain([b'\n'])),
            ),
        })
        .collect()
}

fn given(command: &str) -> Vec<Column> {
    let folder = env::temp_dir().join(format!("narrows-grid-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(command.split(' '))
        .args(["-r", "1", "--quiet", "--no-report", "--out"])
        .arg(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command}: {said}");
    let read = |table: &str| {
        let path: &Path = &folder.join(format!("{table}.csv"));
        columns(table, &of_csv(&fs::read_to_string(path).unwrap()))
    };
    let all = TABLES.into_iter().flat_map(read).collect();
    fs::remove_dir_all(&folder).unwrap();
    all
}

/// What stands there: each command, and what it gave.
fn golden() -> Vec<(String, Vec<Column>)> {
    let text = fs::read_to_string(GOLDEN).unwrap();
    let mut all: Vec<(String, Vec<Column>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), Vec::new())),
            (None, Some((_, columns))) => {
                let [name, rows, hash] = line.split('\t').collect::<Vec<_>>()[..] else {
                    panic!("no column: {line}");
                };
                columns.push(Column {
                    name: name.to_owned(),
                    rows: rows.parse().unwrap(),
                    hash: u64::from_str_radix(hash, 16).unwrap(),
                });
            }
            (None, None) => panic!("a column of no command: {line}"),
        }
    }
    all
}

/// The columns that are others now; columns may be added.
fn moved(then: &[Column], now: &[Column]) -> Vec<String> {
    let same = |then: &&Column| !now.contains(then);
    then.iter().filter(same).map(|c| c.name.clone()).collect()
}

#[test]
fn a_grid_of_runs_gives_what_it_gave() {
    let golden = golden();
    let runs = |(_, columns): &(String, Vec<Column>)| columns.first().map_or(0, |c| c.rows);
    if env::var("NARROWS_GOLDEN").is_ok_and(|what| what == "write") {
        let mut text = String::new();
        for (command, _) in &golden {
            text += &format!("$ {command}\n");
            for Column { name, rows, hash } in given(command) {
                text += &format!("{name}\t{rows}\t{hash:016x}\n");
            }
        }
        fs::write(GOLDEN, text).unwrap();
        return;
    }
    let all: usize = golden.iter().map(runs).sum();
    assert!(all >= 500, "{all} runs");
    let moved: Vec<String> = golden
        .iter()
        .map(|(command, then)| (command, moved(then, &given(command))))
        .filter(|(_, moved)| !moved.is_empty())
        .map(|(command, moved)| format!("narrows {command}\n    {}", moved.join(" ")))
        .collect();
    assert!(moved.is_empty(), "{}", moved.join("\n"));
}

/// A comparison that finds nothing would be worth nothing.
#[test]
fn a_column_that_moved_is_found() {
    let of = |text: &str| columns("runs", &of_csv(text));
    let then = of("host.mss,a,b\nx,1,2\nx,3,4\n");
    assert_eq!(then.len(), 2);
    assert!(moved(&then, &of("c,b,a\n0,2,1\n0,4,3\n")).is_empty());
    assert_eq!(moved(&then, &of("a,b\n1,2\n3,5\n")), ["runs/b"]);
    assert_eq!(moved(&then, &of("b\n2\n4\n")), ["runs/a"]);
    assert_eq!(moved(&then, &of("a,b\n1,2\n")), ["runs/a", "runs/b"]);
    // Its published test vectors.
    assert_eq!(hash("".bytes()), 0xcbf2_9ce4_8422_2325);
    assert_eq!(hash("foobar".bytes()), 0x8594_4171_f739_67e8);
}
