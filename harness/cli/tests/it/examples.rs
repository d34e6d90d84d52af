//! The worked examples keep what the documentation says of them: short, conforming, and known by
//! name to the whole command.

use narrows_cli::{App, Console, EXIT_OK, EXIT_USAGE};
use narrows_congestion::testing;
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;

#[allow(dead_code, reason = "its main")]
#[path = "../../examples/own_congestion.rs"]
mod own_congestion;
#[allow(dead_code, reason = "its main")]
#[path = "../../examples/own_detector.rs"]
mod own_detector;
#[allow(dead_code, reason = "its main")]
#[path = "../../examples/own_rto.rs"]
mod own_rto;

/// Exit code, standard output and standard error of `narrows` with the words of `line`.
fn narrows(app: &App, line: &str) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        stdout: &mut out,
        stderr: &mut err,
        colour: false,
        columns: 100,
        wrap: narrows_cli::Wrap::default(),
        stderr_terminal: false,
        cancel: &AtomicBool::new(false),
    };
    let words = std::iter::once("narrows").chain(line.split_whitespace());
    let code = app.run(words.map(OsString::from), &mut console);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (code, text(out), text(err))
}

/// Lines from the first `use` to the comment that ends the algorithm, blank ones apart.
fn lines_of_algorithm(source: &str) -> usize {
    let (algorithm, _) = source
        .split_once("\n// That was the")
        .expect("the end of the algorithm is marked");
    let code = algorithm.lines().skip_while(|l| !l.starts_with("use "));
    let code = code.map(str::trim);
    code.filter(|l| !l.is_empty() && !l.starts_with("//"))
        .count()
}

/// The value of `column` in each row of a CSV without quoted cells.
fn column(csv: &str, column: &str) -> Vec<String> {
    let mut rows = csv.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a header");
    let at = head.iter().position(|c| *c == column).expect("the column");
    rows.map(|r| r[at].to_owned()).collect()
}

#[test]
fn the_algorithms_are_under_fifty_lines() {
    for source in [
        include_str!("../../examples/own_congestion.rs"),
        include_str!("../../examples/own_detector.rs"),
        include_str!("../../examples/own_rto.rs"),
    ] {
        let lines = lines_of_algorithm(source);
        assert!((10..50).contains(&lines), "{lines} lines");
    }
}

#[test]
fn the_algorithms_conform() {
    testing::assert_conformance(&own_congestion::Hold::new);
    testing::assert_rto_conformance(&own_rto::Peak::default);
}

#[test]
fn the_congestion_control_runs_by_name_and_avoids_the_collapse() {
    let app = own_congestion::app();
    let line =
        "incast --cc reno,hold --rto linux --servers 2,12 --blocks 8 -r 1 --no-report --csv -";
    let (code, csv, err) = narrows(&app, line);
    assert_eq!(code, EXIT_OK, "{err}");
    assert_eq!(
        column(&csv, "host.tcp.congestion"),
        ["reno", "reno", "hold", "hold"],
        "{csv}"
    );
    assert!(
        column(&csv, "outcome").iter().all(|o| o == "completed"),
        "{csv}"
    );
    // Other than Reno: it is the algorithm registered, not one that goes by its name.
    let drops: Vec<u64> = column(&csv, "drops")
        .iter()
        .map(|d| d.parse().expect("a number"))
        .collect();
    assert!(drops[3] < drops[1] / 2, "{csv}");
}

#[test]
fn the_rto_policy_runs_by_name_and_cures_the_collapse() {
    let app = own_rto::app();
    let line = "incast --cc reno --rto linux,peak --servers 12 --blocks 8 -r 1 --no-report --csv -";
    let (code, csv, err) = narrows(&app, line);
    assert_eq!(code, EXIT_OK, "{err}");
    assert_eq!(column(&csv, "host.tcp.rto"), ["linux", "peak"]);
    let goodput: Vec<f64> = column(&csv, "goodput_bps")
        .iter()
        .map(|g| g.parse().expect("a number"))
        .collect();
    assert!(goodput[1] > 2.0 * goodput[0], "{csv}");
}

#[test]
fn the_detector_runs_by_name_and_saves_timeouts() {
    let app = own_detector::app();
    let line = "incast --cc reno --rto linux --loss sack,early --servers 12 --blocks 8 -r 1 \
        --no-report --csv -";
    let (code, csv, err) = narrows(&app, line);
    assert_eq!(code, EXIT_OK, "{err}");
    assert_eq!(column(&csv, "host.tcp.loss_detection"), ["sack", "early"]);
    let timeouts: Vec<u64> = column(&csv, "timeouts")
        .iter()
        .map(|d| d.parse().expect("a number"))
        .collect();
    assert!(timeouts[1] < timeouts[0], "{csv}");
    let (code, _, err) = narrows(&app, "incast --loss earli");
    assert_eq!(code, EXIT_USAGE);
    assert!(err.contains("did you mean 'early'?"), "{err}");
}

#[test]
fn the_names_are_listed_and_suggested() {
    let app = own_congestion::app();
    let (code, out, _) = narrows(&app, "list");
    assert_eq!(code, EXIT_OK);
    assert!(
        out.lines().any(|l| l.trim_start().starts_with("hold ")),
        "{out}"
    );
    let (code, _, err) = narrows(&app, "incast --cc holt");
    assert_eq!(code, EXIT_USAGE);
    assert!(err.contains("did you mean 'hold'?"), "{err}");
    let (_, out, _) = narrows(&own_rto::app(), "list");
    assert!(
        out.lines().any(|l| l.trim_start().starts_with("peak ")),
        "{out}"
    );
}
