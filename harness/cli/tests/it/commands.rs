//! The values that `narrows incast` and `narrows flows` give, for a choice of their options: the same
//! bits on every machine, and those that stand in `golden/commands.txt`.
//!
//! `NARROWS_GOLDEN=write cargo test -p narrows-cli --test it commands` writes them anew: for a change that
//! CHANGELOG.md has under "Simulation output changed", or for a command that was added there.

use narrows_experiment::file::Loaded;
use narrows_experiment::registry::Registry;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/commands.txt");

/// A name for each column, and rows of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
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
    let narrows = |how: &[&str]| {
        let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(command.split(' ').chain(how.iter().copied()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{command}: {said}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let folder = env::temp_dir().join(format!("narrows-golden-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let out = folder.to_str().unwrap();
    narrows(&[one, &["--quiet", "--out", out]].concat());
    let table = match command.split(' ').next() {
        Some("incast") => of_folder(&folder),
        Some("flows") => of_flows(&folder),
        other => panic!("no command {other:?}"),
    };
    fs::remove_dir_all(&folder).unwrap();
    table
}

/// The values of a run of flows, under the names of the golden file.
fn of_flows(folder: &Path) -> Table {
    let [runs, flows, ports, transfers] =
        ["runs.csv", "flows.csv", "ports.csv", "transfers.csv"].map(|t| rows(folder, t));
    let [run] = &runs[..] else {
        panic!("{} runs", runs.len())
    };
    let whole = |text: &str| {
        text.parse::<u64>()
            .unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    let rate = |bytes: &str, ns: u64| {
        (u128::from(whole(bytes)) * 8_000_000_000 / u128::from(ns)).to_string()
    };
    let experiment = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let mut registry = Registry::default();
    // Where a report is written, the command adds a probe of this kind.
    registry
        .probes
        .register(narrows_explain::simulated::ledger_probe());
    let loaded = Loaded::parse("experiment.toml", &experiment, &registry).unwrap();
    let experiment = loaded.experiment;
    let congestion = |name: &str| {
        let mut all = experiment.traffic.iter();
        let own = all.find(|t| t.name == name).unwrap().tcp.get("congestion");
        own.unwrap_or(&experiment.host.tcp.congestion).to_owned()
    };
    let port = ports.iter().find(|p| p["port"] == "s0->h0").unwrap();
    let room = [
        "full",
        "over-threshold",
        "pool-exhausted",
        "push-out",
        "header-queue-full",
    ];
    let dropped = room
        .iter()
        .chain(&["early"])
        .map(|r| whole(&port[&format!("drops.{r}")]));
    let (simulated, measured) = (whole(&run["simulated_ns"]), whole(&run["measured_ns"]));
    let ratio = |text: &str, by: f64| (text.parse::<f64>().unwrap() * by).round().to_string();
    let received: u64 = flows.iter().map(|f| whole(&f["received_bytes"])).sum();
    let mut values = vec![
        ("dropped".to_owned(), dropped.sum::<u64>().to_string()),
        (
            "goodput_bps".to_owned(),
            rate(&received.to_string(), measured),
        ),
        ("lost".to_owned(), port["drops.lost"].clone()),
        ("marks".to_owned(), port["marks"].clone()),
        (
            "max_queue_packets".to_owned(),
            run["port.s0->h0.max_packets"].clone(),
        ),
        (
            "mean_queue_millipackets".to_owned(),
            ratio(&run["port.s0->h0.mean_packets"], 1e3),
        ),
        ("measured_ns".to_owned(), measured.to_string()),
        ("outcome".to_owned(), run["outcome"].clone()),
        ("simulated_ns".to_owned(), simulated.to_string()),
        (
            "utilisation_ppm".to_owned(),
            ratio(&port["utilisation"], 1e6),
        ),
    ];
    for flow in &flows {
        // The first sender is h1.
        let n = whole(&flow["from"][1..]) - 1;
        let done = transfers.iter().find(|t| t["from"] == flow["from"]);
        let took = done.map(|t| whole(&t["took_ns"]));
        let start = whole(&flow["opened_ns"]);
        let end = took.map_or(simulated, |took| start + took);
        let active = end - start.max(simulated - measured);
        let own = [
            ("active_ns", active.to_string()),
            ("cc", congestion(&flow["traffic"])),
            (
                "completed_ns",
                took.map_or("null".to_owned(), |t| t.to_string()),
            ),
            ("delivered_bytes", flow["read_in_all_bytes"].clone()),
            ("ecn_reductions", flow["ecn_reductions"].clone()),
            ("fast_recoveries", flow["fast_recoveries"].clone()),
            ("goodput_bps", rate(&flow["received_bytes"], active)),
            ("out_of_order_dropped", flow["out_of_order_dropped"].clone()),
            ("received_bytes", flow["received_bytes"].clone()),
            ("retransmits", flow["retransmits"].clone()),
            ("segments", flow["segments"].clone()),
            ("start_ns", start.to_string()),
            ("timeouts", flow["timeouts"].clone()),
            ("timeouts_handshake", flow["timeouts.handshake"].clone()),
        ];
        values.extend(own.map(|(name, value)| (format!("flows.{n}.{name}"), value)));
    }
    values.sort();
    let (header, row) = values.into_iter().unzip();
    Table {
        header,
        rows: vec![row],
    }
}

/// Rows of a table of results, by column.
fn rows(folder: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let Table { header, rows } = of_csv(&fs::read_to_string(folder.join(name)).unwrap());
    let named = |row: Vec<String>| header.iter().cloned().zip(row).collect();
    rows.into_iter().map(named).collect()
}

/// The values of an incast, one row for each run, under the names of the golden file.
fn of_folder(folder: &Path) -> Table {
    type Row = BTreeMap<String, String>;
    let [runs, flows, ports] = ["runs.csv", "flows.csv", "ports.csv"].map(|t| rows(folder, t));
    let sum = |rows: &[&Row], columns: &[&str]| -> u64 {
        let cells = rows.iter().flat_map(|row| columns.iter().map(|c| &row[*c]));
        cells.map(|cell| cell.parse::<u64>().unwrap()).sum()
    };
    let room = [
        "drops.full",
        "drops.over-threshold",
        "drops.pool-exhausted",
        "drops.push-out",
        "drops.header-queue-full",
    ];
    // What is as it is without being set has no column.
    let whole = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let usual: Row = whole
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
        .collect();
    let set = |run: &Row, key: &str| run.get(key).unwrap_or(&usual[key]).clone();
    let mut table = Table::default();
    for run in &runs {
        let of = |row: &&Row| ["point", "repetition"].iter().all(|c| row[*c] == run[*c]);
        let (flows, ports): (Vec<&Row>, Vec<&Row>) = (
            flows.iter().filter(of).collect(),
            ports.iter().filter(of).collect(),
        );
        let (client, servers): (Vec<&Row>, Vec<&Row>) =
            flows.iter().partition(|flow| flow["from"] == "h0");
        let switch = |row: &&&Row| row["port"].starts_with("s0->");
        let to_client = |row: &&&Row| row["port"] == "s0->h0";
        let ports_to = |which: &dyn Fn(&&&Row) -> bool| -> Vec<&Row> {
            ports.iter().filter(which).copied().collect()
        };
        let studied = ports_to(&to_client);
        let others = ports_to(&|row| switch(row) && !to_client(row));
        let nic_of_client = ports_to(&|row| row["port"] == "h0->s0");
        let nics = ports_to(&|row| !switch(row) && row["port"] != "h0->s0");
        let (payload, time) = (&run["received_bytes"], &run["measured_ns"]);
        let bits = payload.parse::<u128>().unwrap() * 8_000_000_000;
        let full = sum(&studied, &room);
        let early = sum(&ports, &["drops.early"]);
        let server = sum(&others, &room);
        let lost = sum(&[run], &["drops.link"]);
        let whole = |n: u64| n.to_string();
        let rate = run.get("network.link.rate_bps").cloned();
        let rate = rate.unwrap_or_else(|| {
            assert_eq!(usual["network.link.rate"], "1Gb/s");
            "1000000000".to_owned()
        });
        let values = [
            ("congestion", set(run, "host.tcp.congestion")),
            ("rto", set(run, "host.tcp.rto")),
            ("loss_detector", set(run, "host.tcp.loss_detection")),
            ("servers", set(run, "group.servers.size")),
            ("repetition", run["repetition"].clone()),
            ("seed", run["seed"].clone()),
            ("outcome", run["outcome"].clone()),
            (
                "goodput_bps",
                (bits / time.parse::<u128>().unwrap()).to_string(),
            ),
            ("link_rate_bps", rate),
            ("payload_bytes", payload.clone()),
            ("simulated_ns", time.clone()),
            ("blocks", run["transfers"].clone()),
            ("block_median_ns", run["latency.p50_ns"].clone()),
            ("block_p99_ns", run["latency.p99_ns"].clone()),
            ("timeouts", run["timeouts"].clone()),
            (
                "timeouts_full_window",
                whole(sum(&servers, &["timeouts.full_window"])),
            ),
            ("timeouts_tail", whole(sum(&servers, &["timeouts.tail"]))),
            (
                "timeouts_retransmission_lost",
                whole(sum(&servers, &["timeouts.retransmission"])),
            ),
            (
                "timeouts_other",
                whole(sum(&client, &["timeouts"]) - sum(&client, &["timeouts.handshake"])),
            ),
            (
                "fast_retransmits",
                whole(sum(&servers, &["fast_recoveries"])),
            ),
            ("drops", whole(full + early + server + lost)),
            ("drops_port_full", whole(full)),
            ("drops_port_early", whole(early)),
            ("drops_port_server", whole(server)),
            ("drops_device", "0".to_owned()),
            ("drops_impaired", whole(lost)),
            ("refused_server_nic", whole(sum(&nics, &room))),
            ("refused_client_nic", whole(sum(&nic_of_client, &room))),
            ("marks", run["marks"].clone()),
            ("data_packets", whole(sum(&servers, &["segments"]))),
            (
                "retransmitted_packets",
                whole(sum(&servers, &["retransmits"])),
            ),
            (
                "max_queue_packets",
                whole(sum(&studied, &["max_queue_packets"])),
            ),
            (
                "max_queue_bytes",
                whole(sum(&studied, &["max_queue_bytes"])),
            ),
            ("events", run["events"].clone()),
        ];
        table.header = values.iter().map(|(name, _)| (*name).to_owned()).collect();
        table
            .rows
            .push(values.into_iter().map(|(_, v)| v).collect());
    }
    table
}

pub(crate) fn of_csv(text: &str) -> Table {
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
}
