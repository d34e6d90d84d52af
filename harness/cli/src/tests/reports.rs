//! What results look like.

use super::*;
use narrows_report::records::HEADER;
use narrows_report::testing::well_formed;

fn written(name: &str, options: &str) -> String {
    let dir = folder(name);
    let file = dir.join("x");
    let ran = narrows(&format!("incast {options} {}", file.display()));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    text
}

/// Without the last line, which tells the time it took.
fn stable(text: &str) -> String {
    text.lines()
        .filter(|l| !l.contains(" data packets in "))
        .fold(String::new(), |a, l| a + l + "\n")
}

#[test]
fn the_table() {
    let ran = narrows("incast -n 1,4,16 --cc reno,dctcp --rto linux,1ms --no-report");
    assert_eq!(stable(&ran.out), include_str!("table.txt"));
    let ran = narrows("incast -n 4,16 --cc reno --rto linux -r 5 --no-report");
    assert_eq!(stable(&ran.out), include_str!("table_repeated.txt"));
}

#[test]
fn nothing_is_wider_than_100_columns_but_sentences() {
    let ran = narrows("incast -r 3 --rate 100G -n 1..1024x2 --no-report");
    let rows = ran
        .out
        .lines()
        .filter(|l| !l.contains(". ") && !l.ends_with('.'));
    for row in rows {
        assert!(row.chars().count() <= 100, "{row}");
    }
}

/// Sentences, too, and no word is broken.
#[test]
fn a_screen_of_80_columns_is_enough() {
    let interrupted = AtomicBool::new(true);
    let going_on = AtomicBool::new(false);
    for (line, cancel) in [
        ("incast --no-report", &going_on),
        ("incast -r 3 --no-report", &going_on),
        (
            "incast -n 1-64 --cc reno,cubic --rto 1ms,5ms --no-report",
            &going_on,
        ),
        ("incast --no-report", &interrupted),
        ("incast --json - --no-report", &going_on),
        (
            "incast --cc dctcp --ecn-threshold off --no-report",
            &going_on,
        ),
        (
            "flows --duration 5ms --cc dctcp --ecn-threshold off",
            &going_on,
        ),
        ("incast -n 1-10000 -r 10000", &going_on),
    ] {
        let narrow = narrows_in(80, &app(), line, cancel);
        let wide = narrows_in(COLUMNS, &app(), line, cancel);
        let human = |ran: Ran| match line.contains("--json") {
            true => ran.err,
            false => ran.out + &ran.err,
        };
        let (narrow, wide) = (human(narrow), human(wide));
        for row in narrow.lines() {
            assert!(row.chars().count() <= 80, "{row}");
        }
        // The table has shorter words where there is less room.
        let prose = |text: &str| -> Vec<String> {
            let whole = |w: &&str| *w != "goodput" && w.chars().all(char::is_alphabetic);
            let words = text.split_whitespace().filter(whole);
            words.map(str::to_owned).collect()
        };
        assert_eq!(prose(&narrow), prose(&wide), "{line}");
    }
    let ran = narrows_in(80, &app(), "incast --no-report", &going_on);
    assert!(ran.out.contains("collapse"));
    assert!(ran.out.contains("N=64"), "the whole matrix");
}

/// The page's first sentence has each value of what is swept.
#[test]
fn the_lead_names_all_values_of_a_list() {
    let page = written(
        "lead",
        "-n 2 --cc reno --rto 1ms --buffer 32KiB,64KiB,1MiB --rate 1G,10G --report",
    );
    assert!(
        page.contains("with a buffer of 32KiB, 64KiB or 1MiB, over links of 1Gb/s or 10Gb/s."),
        "{}",
        page.lines().find(|l| l.contains("class=\"lead\"")).unwrap()
    );
    let page = written(
        "lead-shared",
        "-n 2 --cc reno --rto 1ms --shared-buffer 4MB --report",
    );
    assert!(page.contains("with a buffer of 4MB that all ports share,"));
}

/// What is negotiated is what is said.
#[test]
fn without_sack_the_settings_say_so() {
    let page = written("sack", "-n 2 --cc reno --rto 1ms --loss newreno --report");
    assert!(page.contains("SACK</th><td>off<"));
}

#[test]
fn marks_that_cannot_come_are_told() {
    for (options, said) in [
        (
            "--ecn-threshold off --cc reno,dctcp --rto linux,1ms",
            "No packet is ever marked for dctcp / linux and dctcp / 1ms, and ECN was asked for: \
             the port's queue management is drop-tail.",
        ),
        (
            "--ecn-threshold 100p --buffer 64p --cc reno --rto 1ms --ecn classic",
            "for reno / 1ms, and ECN was asked for: the threshold of 100p is not below the buffer \
             of 64p.",
        ),
        (
            "--preset fast08 --cc dctcp",
            "No packet is ever marked for dctcp",
        ),
    ] {
        let ran = narrows(&format!("incast -n 2 --no-report {options}"));
        assert!(ran.out.contains(said), "{options}: {}", ran.out);
    }
    for options in ["--cc dctcp", "--cc reno --ecn-threshold off"] {
        let ran = narrows(&format!("incast -n 2 --no-report {options}"));
        assert!(!ran.out.contains("ever marked"), "{options}: {}", ran.out);
    }
}

#[test]
fn threads_change_nothing() {
    let one = narrows("incast -r 2 -j 1 --no-report --json");
    let two = narrows("incast -r 2 -j 2 --no-report --json");
    assert_eq!(one.out.replace("-j 1", "-j 2"), two.out);
}

#[test]
fn the_csv() {
    let ran =
        narrows("incast -n 8 --cc reno --rto linux --blocks 2 --seed 5 --no-report --csv - -q");
    assert_eq!(ran.out, include_str!("runs.csv"));
    assert_eq!(ran.out.lines().next().unwrap(), HEADER.join(","));
}

/// The columns are the fields, no more and no less.
#[test]
fn the_json() {
    let ran = narrows("incast -n 8 --cc reno --rto linux --seed 5 --no-report --json -q");
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let fields: Vec<&String> = value["runs"][0].as_object().unwrap().keys().collect();
    let mut header = HEADER.to_vec();
    header.sort_unstable();
    assert_eq!(fields, header);
    assert_eq!(value["format"], "narrows-incast");
    assert_eq!(value["format_version"], 2);
    assert_eq!(
        value["command"],
        "narrows incast -n 8 --cc reno --rto linux --seed 5 --no-report --json -q"
    );
    assert_eq!(value["runs"][0]["seed"], 5);
    let point: Vec<&String> = value["points"][0].as_object().unwrap().keys().collect();
    assert_eq!(
        point,
        [
            "block_median_ns",
            "block_p99_ns",
            "collapse_onset",
            "drops",
            "goodput_bps",
            "goodput_ci95_bps",
            "link_share",
            "marks",
            "repetitions",
            "servers",
            "timeouts",
            "variant"
        ]
    );
    let settings = value["settings"].as_array().unwrap();
    assert!(settings.contains(&serde_json::json!(["port buffer", "64KiB"])));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = written("page", "-n 1,8,64 -r 3 --report");
    // The name of the SVG vocabulary looks like an address and is none.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for outside in [
        "http:", "https:", "//cdn", " src=", " href=", "url(", "@import", "fetch(", "<link",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in [
        "<!doctype html>",
        "default-src 'none'",
        "Incast collapse sets in",
        "narrows incast -n 1,8,64 -r 3 --report",
        "made by narrows",
        env!("CARGO_PKG_VERSION"),
        "port buffer",
        "Seeds of the repetitions",
        "reno / linux",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// Values of the command line come back in the page: they must not be able to end an element.
#[test]
fn the_page_escapes_what_it_shows() {
    let dir = folder("escape");
    let odd = dir.join("<b>&'\"");
    fs::create_dir(&odd).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let cancel = AtomicBool::new(false);
    let mut console = Console {
        stdout: &mut out,
        stderr: &mut err,
        colour: false,
        columns: 100,
        wrap: Wrap::default(),
        stderr_terminal: false,
        cancel: &cancel,
    };
    let file = odd.join("r.html");
    let words = ["narrows", "incast", "-n", "2", "--report"].map(OsString::from);
    let code = app().run(words.into_iter().chain([file.clone().into()]), &mut console);
    assert_eq!(code, EXIT_OK);
    let page = fs::read_to_string(file).unwrap();
    assert!(!page.contains("<b>&'") && page.contains("&lt;b&gt;&amp;"));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_plot_is_well_formed() {
    for (name, options) in [
        ("svg1", "--svg"),
        (
            "svg2",
            "-r 5 -n 1..64x2 --rto linux,1ms,fine,bsd,5ms,rfc6298,200us --svg",
        ),
        ("svg3", "-n 7 --svg"),
        ("svg4", "-n 7 --cc reno --rto 1ms --svg"),
        (
            "svg5",
            "-n 1,2 --cc reno --rto 1ms --buffer 32p,64p --sru 1kB,1MB --svg",
        ),
        ("svg6", "-n 1-60 --rate 1G,10G --cc reno --rto 1ms --svg"),
    ] {
        let svg = written(name, &format!("--no-report {options}"));
        well_formed(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{options}");
        assert!(!svg.contains("var("), "colours of its own");
    }
}
