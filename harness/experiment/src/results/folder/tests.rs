use super::super::merge;
use super::*;
use crate::scenario::RunContext;

const TEXT: &str = r#"
[network]
hosts = 3
[[traffic]]
kind = "bulk"
name = "copy"
size = "30kB"
[[probe]]
kind = "rate"
name = "port"
every = ["200us"]
[run]
repetitions = 2
[sweep]
host.tcp.congestion = ["reno", "cubic"]
network.link.delay = ["5us", "50us"]
"#;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("narrows-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn plan(text: &str) -> Plan {
    let registry = Registry::default();
    let loaded = Loaded::parse("x.toml", text, &registry).unwrap();
    Plan::new(&loaded.experiment, &registry).unwrap()
}

/// Run what is missing, at most so many.
fn go_on(path: &Path, plan: &Plan, shard: Shard, most: usize) -> Folder {
    let registry = Registry::default();
    let mut folder = Folder::open(path, plan, &registry).unwrap();
    for run in plan.missing(shard, &folder.done()).into_iter().take(most) {
        let experiment = plan.experiment(run, &registry).unwrap();
        let outcome = experiment.run(&registry, RunContext::default()).unwrap();
        folder.add(plan, run, &outcome, &registry).unwrap();
    }
    folder.write_tables(&registry).unwrap();
    folder
}

const TABLES: [&str; 5] = [
    "runs.csv",
    "flows.csv",
    "transfers.csv",
    "ports.csv",
    "series-port.csv",
];

fn tables(path: &Path) -> Vec<String> {
    let read = |name: &&str| fs::read_to_string(path.join(name)).unwrap();
    TABLES.iter().map(read).collect()
}

#[test]
fn going_on_gives_what_one_go_gives() {
    let scratch = Scratch::new("resume");
    let plan = plan(TEXT);
    let (once, twice) = (scratch.at("once"), scratch.at("twice"));
    drop(go_on(&once, &plan, Shard::WHOLE, 100));
    drop(go_on(&twice, &plan, Shard::WHOLE, 3));
    let half = tables(&twice);
    assert_eq!(half[0].lines().count(), 4, "{}", half[0]);
    let folder = go_on(&twice, &plan, Shard::WHOLE, 100);
    assert_eq!(folder.records().len(), 8);
    assert_eq!(tables(&once), tables(&twice));
    let runs = &tables(&once)[0];
    for column in [
        "host.tcp.congestion",
        "traffic.copy.size",
        "goodput_bps",
        "latency.p99_ns",
    ] {
        assert!(
            runs.lines().next().unwrap().contains(column),
            "{column}: {runs}"
        );
    }
}

/// Wherever a process is killed: what is behind the last whole line is forgotten, and nothing
/// else.
#[test]
fn a_killed_process_loses_no_finished_run() {
    let scratch = Scratch::new("killed");
    let plan = plan(TEXT);
    let whole = scratch.at("whole");
    drop(go_on(&whole, &plan, Shard::WHOLE, 100));
    let expected = tables(&whole);
    let journal = fs::read(whole.join(JOURNAL)).unwrap();
    for cut in [
        0,
        1,
        journal.len() / 3,
        journal.len() / 2,
        journal.len() - 1,
    ] {
        let path = scratch.at(&format!("cut-{cut}"));
        drop(go_on(&path, &plan, Shard::WHOLE, 100));
        fs::write(path.join(JOURNAL), &journal[..cut]).unwrap();
        // Rows of a run that was not finished.
        let mut part = OpenOptions::new()
            .append(true)
            .open(path.join(PARTS).join("flows"))
            .unwrap();
        part.write_all(b"half a ro").unwrap();
        drop(go_on(&path, &plan, Shard::WHOLE, 100));
        assert_eq!(tables(&path), expected, "cut at {cut}");
    }
}

#[test]
fn shards_merge_to_what_one_process_gives() {
    let scratch = Scratch::new("shards");
    let plan = plan(TEXT);
    let whole = scratch.at("whole");
    drop(go_on(&whole, &plan, Shard::WHOLE, 100));
    let parts: Vec<PathBuf> = (1..=3)
        .map(|number| {
            let path = scratch.at(&format!("part-{number}"));
            drop(go_on(&path, &plan, Shard { number, of: 3 }, 100));
            path
        })
        .collect();
    let merged = scratch.at("merged");
    let registry = Registry::default();
    assert_eq!(merge(&merged, &parts, &registry).unwrap().added, 8);
    assert_eq!(tables(&whole), tables(&merged));
    // Once more changes nothing.
    assert_eq!(merge(&merged, &parts, &registry).unwrap().added, 0);
    assert_eq!(tables(&whole), tables(&merged));
}

#[test]
fn another_experiment_is_told_apart() {
    let scratch = Scratch::new("other");
    let path = scratch.at("out");
    let first = plan(TEXT);
    drop(go_on(&path, &first, Shard::WHOLE, 1));
    let registry = Registry::default();
    let other = plan(&TEXT.replace("30kB", "40kB"));
    let e = Folder::open(&path, &other, &registry).unwrap_err();
    let e = e.to_string();
    assert!(
        e.contains("traffic.copy.size: 30kB there, 40kB here"),
        "{e}"
    );
    // More repetitions go on.
    let more = plan(&TEXT.replace("repetitions = 2", "repetitions = 3"));
    let folder = Folder::open(&path, &more, &registry).unwrap();
    assert_eq!(folder.records().len(), 1);
    // Two at once do not.
    let e = Folder::open(&path, &more, &registry).unwrap_err();
    assert!(matches!(e, FolderError::InUse(_)), "{e}");
    drop(folder);
    // Nor does another version.
    let file = path.join(EXPERIMENT);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replacen("# Results of narrows ", "# Results of narrows 9", 1),
    )
    .unwrap();
    let e = Folder::open(&path, &more, &registry).unwrap_err();
    assert!(matches!(e, FolderError::Version { .. }), "{e}");
}

#[test]
fn a_folder_of_other_things_is_left_alone() {
    let scratch = Scratch::new("foreign");
    fs::write(scratch.at("letter.txt"), "dear").unwrap();
    let e = Folder::open(&scratch.0, &plan(TEXT), &Registry::default()).unwrap_err();
    assert!(matches!(e, FolderError::Foreign(_)), "{e}");
    assert!(!scratch.at(EXPERIMENT).exists());
}

#[test]
fn a_line_that_was_changed_is_told() {
    let scratch = Scratch::new("changed");
    let path = scratch.at("out");
    let plan = plan(TEXT);
    drop(go_on(&path, &plan, Shard::WHOLE, 3));
    let file = path.join(JOURNAL);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"seed\"", "\"sead\"", 1)).unwrap();
    let e = Folder::open(&path, &plan, &Registry::default()).unwrap_err();
    assert!(matches!(e, FolderError::Broken { line: 1, .. }), "{e}");
}

/// A machine that went down may have kept a run's line and not its rows.
#[test]
fn a_run_whose_rows_are_lost_is_run_again() {
    let scratch = Scratch::new("rows");
    let plan = plan(TEXT);
    let (whole, path) = (scratch.at("whole"), scratch.at("lost"));
    drop(go_on(&whole, &plan, Shard::WHOLE, 100));
    drop(go_on(&path, &plan, Shard::WHOLE, 5));
    let part = path.join(PARTS).join("flows");
    let file = OpenOptions::new().write(true).open(&part).unwrap();
    file.set_len(fs::metadata(&part).unwrap().len() / 2)
        .unwrap();
    let folder = Folder::open(&path, &plan, &Registry::default()).unwrap();
    assert!((1..5).contains(&folder.records().len()));
    drop(folder);
    drop(go_on(&path, &plan, Shard::WHOLE, 100));
    // Nor does what was lost come back when the tables have grown over it.
    let folder = go_on(&path, &plan, Shard::WHOLE, 0);
    assert_eq!(folder.records().len(), 8);
    assert_eq!(tables(&path), tables(&whole));
}

/// Two distributions of one name, and an expectation about one of them.
const SIZES: &str = r#"
[network]
hosts = 3
[[traffic]]
kind = "rpc"
name = "copy"
clients = "h1..h2"
servers = "h0"
calls = 3
[run]
repetitions = 2
[sweep]
traffic.copy.reply = ["file:a/sizes.cdf", "file:b/sizes.cdf", "30kB"]
[[expect]]
that = "goodput"
is = "> 1Mb/s"
where = { traffic.copy.reply = "file:b/sizes.cdf" }
"#;

/// The plan of the file that lies at `path`.
fn plan_at(path: &Path) -> Plan {
    let registry = Registry::default();
    let text = fs::read_to_string(path).unwrap();
    let loaded = Loaded::parse(&path.display().to_string(), &text, &registry).unwrap();
    Plan::new(&loaded.experiment, &registry).unwrap()
}

/// Writes the experiment and its files to `at`.
fn with_sizes(at: &Path, a: &str, b: &str) -> PathBuf {
    for (folder, text) in [("a", a), ("b", b)] {
        fs::create_dir_all(at.join(folder)).unwrap();
        fs::write(at.join(folder).join("sizes.cdf"), text).unwrap();
    }
    fs::write(at.join("x.toml"), SIZES).unwrap();
    at.join("x.toml")
}

const SMALL: &str = "# as measured\n1kB 0.5\n20kB 1\n";
const LARGE: &str = "10kB 0.5\n200kB 1\n";

#[test]
fn a_folder_goes_on_without_the_files_that_its_values_name() {
    let scratch = Scratch::new("moved");
    let (once, from) = (scratch.at("once"), scratch.at("from"));
    let file = with_sizes(&scratch.at("here"), SMALL, LARGE);
    let whole = go_on(&once, &plan_at(&file), Shard::WHOLE, 100);
    let summary = crate::summary::Summary::new(&plan_at(&file), whole.records())
        .verdicts(&Registry::default().metrics)
        .unwrap();
    assert_eq!(summary.len(), 1, "at one point");
    drop(go_on(&from, &plan_at(&file), Shard::WHOLE, 3));
    fs::remove_dir_all(scratch.at("here")).unwrap();
    let to = scratch.at("elsewhere/to");
    fs::create_dir_all(scratch.at("elsewhere")).unwrap();
    fs::rename(&from, &to).unwrap();
    let plan = plan_at(&to.join(EXPERIMENT));
    assert_eq!(plan.values(0), ["file:sizes.cdf"]);
    assert_eq!(plan.values(1), ["file:sizes.2.cdf"]);
    let all = go_on(&to, &plan, Shard::WHOLE, 100);
    assert_eq!(all.records().len(), 6);
    let tables = |path: &Path| {
        ["runs.csv", "flows.csv", "transfers.csv", EXPERIMENT]
            .map(|name| fs::read_to_string(path.join(name)).unwrap())
    };
    assert_eq!(tables(&to), tables(&once));
    let copy = fs::read_to_string(to.join(FILES).join("sizes.cdf")).unwrap();
    assert_eq!(copy, SMALL, "with its comments");
}

#[test]
fn files_are_compared_by_what_they_mean() {
    let scratch = Scratch::new("meaning");
    let registry = Registry::default();
    let out = scratch.at("out");
    let here = plan_at(&with_sizes(&scratch.at("here"), SMALL, LARGE));
    drop(go_on(&out, &here, Shard { number: 1, of: 2 }, 100));
    // Another folder, and another comment.
    let there = plan_at(&with_sizes(&scratch.at("there"), &SMALL[14..], LARGE));
    let other = scratch.at("other");
    drop(go_on(&other, &there, Shard { number: 2, of: 2 }, 100));
    let all = scratch.at("all");
    let merged = merge(&all, &[out.clone(), other], &registry).unwrap();
    assert_eq!(merged.folder.records().len(), 6);
    drop(Folder::open(&out, &there, &registry).unwrap());
    let changed = plan_at(&with_sizes(&scratch.at("there"), SMALL, "10kB 1\n"));
    let e = Folder::open(&out, &changed, &registry).unwrap_err();
    let why = "files/sizes.2.cdf: 10kB 0.5 there, 10kB 1 here";
    assert!(e.to_string().contains(why), "{e}");
    // A copy that is gone is named.
    fs::remove_file(out.join(FILES).join("sizes.2.cdf")).unwrap();
    let e = Folder::open(&out, &here, &registry).unwrap_err();
    assert!(
        e.to_string().contains("files/sizes.2.cdf: No such file"),
        "{e}"
    );
}

#[test]
fn two_names_of_one_content_are_one_value() {
    let scratch = Scratch::new("twice");
    let file = with_sizes(&scratch.0, SMALL, SMALL);
    let registry = Registry::default();
    let text = fs::read_to_string(&file).unwrap();
    let loaded = Loaded::parse(&file.display().to_string(), &text, &registry).unwrap();
    let e = Plan::new(&loaded.experiment, &registry).unwrap_err();
    let e = e.to_string();
    assert!(
        e.contains("a/sizes.cdf") && e.contains("are one value"),
        "{e}"
    );
}
