//! What results look like.

use super::*;
use narrows_report::testing::well_formed;

const SMALL: &str = "incast -n 1,2,8 --cc reno,dctcp --rto linux --blocks 3 -r 2";

fn written(name: &str, options: &str) -> String {
    let dir = folder(name);
    let file = dir.join("x");
    let ran = narrows(&format!("{SMALL} {options} {}", file.display()));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    text
}

#[test]
fn threads_change_nothing() {
    let one = narrows(&format!("{SMALL} -j 1 --no-report --csv -"));
    let two = narrows(&format!("{SMALL} -j 2 --no-report --csv -"));
    assert_eq!(one.out, two.out);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = written("page", "--report");
    // The name of the SVG vocabulary looks like an address and is none.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for outside in [
        "http:",
        "https:",
        "//cdn",
        " src=",
        " href=",
        "url(",
        "@import",
        "fetch(",
        "<link",
        "experiment.toml",
        ".csv</code>",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in [
        "<!doctype html>",
        "default-src 'none'",
        &format!("narrows {SMALL} --report"),
        "made by narrows",
        env!("CARGO_PKG_VERSION"),
        "port buffer",
        "linux",
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
    let words = format!("narrows {SMALL} --report");
    let words = words.split(' ').map(OsString::from);
    let code = app().run(words.chain([file.clone().into()]), &mut console);
    assert_eq!(code, EXIT_OK);
    let page = fs::read_to_string(file).unwrap();
    assert!(!page.contains("<b>&'") && page.contains("&lt;b&gt;&amp;"));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_plot_is_well_formed() {
    let svg = written("svg", "--no-report --svg");
    well_formed(&svg);
    assert!(svg.contains("dctcp") && !svg.contains("NaN"), "{svg}");
    assert!(!svg.contains("var("), "colours of its own");
}

/// Where goodput breaks down is said, and where it does not.
#[test]
fn where_a_collapse_sets_in_is_said() {
    let line = "incast -n 1,4,32 --cc reno --rto linux,fine --blocks 4 -r 1 --no-report";
    let ran = narrows(line);
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let says = "less than half of the best that was measured without loss: at 32 servers with \
                linux; nowhere with fine.";
    assert!(ran.out.contains(says), "{}", ran.out);
    let held = narrows("incast -n 1,2 --cc reno --rto fine --blocks 4 -r 1 --no-report");
    assert!(!held.out.contains("without loss"), "{}", held.out);
    // A marker says its values to who points at it.
    let page = written("hover", "--report");
    assert!(page.contains("<title>reno: 8, "), "{page}");
}
