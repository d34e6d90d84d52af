//! The values that `narrows incast` and `narrows flows` give, for a choice of their options: the same
//! bits on every machine, and those that stand in `golden/commands.txt`.
//!
//! `NARROWS_GOLDEN=write cargo test -p narrows-cli --test it commands` writes them anew: for a change that
//! CHANGELOG.md has under "Simulation output changed", or for a command that was added there.

use serde_json::Value;
use std::process::Command;
use std::{env, fs};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/commands.txt");

/// A name for each column, and rows of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// What stands there: each command, and what it gave.
fn golden() -> Vec<(String, Table)> {
    let text = fs::read_to_string(GOLDEN).unwrap();
    let mut all: Vec<(String, Table)> = Vec::new();
    for line in text.lines() {
        let cells = || line.split('\t').map(str::to_owned).collect();
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), Table::default())),
            (None, Some((_, table))) if table.header.is_empty() => table.header = cells(),
            (None, Some((_, table))) => table.rows.push(cells()),
            (None, None) => panic!("values of no command: {line}"),
        }
    }
    all
}

fn given(command: &str) -> Table {
    let one: &[&str] = match command.contains(" -r ") {
        true => &[],
        false => &["-r", "1"],
    };
    let (how, read): (Vec<&str>, fn(&str) -> Table) = match command.split(' ').next() {
        Some("incast") => (
            [one, &["--no-report", "--quiet", "--csv", "-"]].concat(),
            of_csv,
        ),
        Some("flows") => (vec!["--json", "-"], of_json),
        other => panic!("no command {other:?}"),
    };
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(command.split(' ').chain(how.iter().copied()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command}: {said}");
    read(std::str::from_utf8(&ran.stdout).unwrap())
}

fn of_csv(text: &str) -> Table {
    // Commas between quotes part nothing.
    let cells = |line: &str| {
        let mut cells = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                c => cells.last_mut().unwrap().push(c),
            }
        }
        cells
    };
    let mut lines = text.lines().map(cells);
    let header = lines.next().unwrap();
    let rows = lines.collect();
    Table { header, rows }
}

/// One row: a column for each value, named by the way to it.
fn of_json(text: &str) -> Table {
    fn add(table: &mut Table, name: String, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    let name = if name.is_empty() {
                        field.clone()
                    } else {
                        format!("{name}.{field}")
                    };
                    add(table, name, value);
                }
            }
            Value::Array(values) => {
                for (i, value) in values.iter().enumerate() {
                    add(table, format!("{name}.{i}"), value);
                }
            }
            value => {
                table.header.push(name);
                let cell = value.as_str().map_or(value.to_string(), str::to_owned);
                table.rows[0].push(cell);
            }
        }
    }
    let mut table = Table {
        header: Vec::new(),
        rows: vec![Vec::new()],
    };
    add(
        &mut table,
        String::new(),
        &serde_json::from_str(text).unwrap(),
    );
    table
}

/// The first value that is another now; columns may be added.
fn difference(then: &Table, now: &Table) -> Option<String> {
    if then.rows.len() != now.rows.len() {
        return Some(format!("{} rows, now {}", then.rows.len(), now.rows.len()));
    }
    for (i, column) in then.header.iter().enumerate() {
        let Some(j) = now.header.iter().position(|name| name == column) else {
            return Some(format!("{column} is gone"));
        };
        for (n, (then, now)) in then.rows.iter().zip(&now.rows).enumerate() {
            if then[i] != now[j] {
                return Some(format!("row {n}: {column} was {}, is {}", then[i], now[j]));
            }
        }
    }
    None
}

#[test]
fn the_commands_give_what_they_gave() {
    let golden = golden();
    assert!(golden.len() >= 40, "{} commands", golden.len());
    if env::var("NARROWS_GOLDEN").is_ok_and(|what| what == "write") {
        let mut text = String::new();
        for (command, _) in &golden {
            let Table { header, rows } = given(command);
            text += &format!("$ {command}\n{}\n", header.join("\t"));
            for row in rows {
                text += &(row.join("\t") + "\n");
            }
        }
        fs::write(GOLDEN, text).unwrap();
        return;
    }
    let moved: Vec<String> = golden
        .iter()
        .filter_map(|(command, then)| {
            let what = difference(then, &given(command))?;
            Some(format!("narrows {command}\n    {what}"))
        })
        .collect();
    assert!(moved.is_empty(), "{}", moved.join("\n"));
}

/// A comparison that finds nothing would be worth nothing.
#[test]
fn a_value_that_moved_is_found() {
    let table = of_csv("a,b\n1,2\n3,4\n");
    assert_eq!(of_csv("a\n\"1,2\"\n").rows, [["1,2"]]);
    assert_eq!(difference(&table, &of_csv("b,c,a\n2,0,1\n4,0,3\n")), None);
    let moved = difference(&table, &of_csv("a,b\n1,2\n3,5\n"));
    assert_eq!(moved.as_deref(), Some("row 1: b was 4, is 5"));
    assert!(difference(&table, &of_csv("a\n1\n3\n")).is_some());
    assert!(difference(&table, &of_csv("a,b\n1,2\n")).is_some());
    let flows = of_json(r#"{"x": 1, "flows": [{"cc": "reno", "done": null}]}"#);
    assert_eq!(flows.header.join(" "), "flows.0.cc flows.0.done x");
    assert_eq!(flows.rows[0].join(" "), "reno null 1");
}
