//! What stories say can be run next does run.

use narrows_story::stories;
use std::fs;
use std::process::Command;

/// Each experiment with the arguments as they are printed, of which some milliseconds are simulated.
#[test]
fn what_a_story_names_to_run_next_runs() {
    let name = format!("narrows-stories-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let all = stories::ALL.iter().flat_map(|story| story.next);
    for line in all.map(|next| next.what) {
        let words: Vec<&str> = line.split(' ').collect();
        let short = "run.duration=3ms --set run.warm_up=1ms -q";
        let more: Vec<&str> = match words[..] {
            ["narrows", "run", ..] => ["--set"].into_iter().chain(short.split(' ')).collect(),
            ["narrows", "keys" | "show", ..] => Vec::new(),
            ["narrows", "story", ..] => {
                assert!(stories::get(&words[2..].join(" ")).is_some(), "{line}");
                continue;
            }
            // Of a capture that an earlier line wrote, all of which was not simulated here.
            ["narrows", "explain", file] => {
                assert!(folder.join(file).exists(), "{line}");
                vec!["--help"]
            }
            // What --only names is looked up, and nothing runs.
            ["narrows", "validate", ..] => vec!["--list"],
            // Long runs, or those that take root: all words before --help are parsed, which then ends
            // it.
            ["narrows", "incast" | "live" | "meter", ..] => vec!["--help"],
            _ => {
                let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
                assert!(fs::exists(format!("{root}/{line}")).unwrap(), "{line}");
                continue;
            }
        };
        let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(&words[1..])
            .args(more)
            .current_dir(&folder)
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{line}: {err}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Before the story is told, which takes a minute.
#[test]
fn a_figure_that_a_story_does_not_have_is_refused_at_once() {
    let name = format!("narrows-no-figure-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["story", "incast", "--figure", "nope", "--svg"])
        .arg(&path)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{err}");
    assert!(
        err.contains("'nope' for '--figure': 'incast' has no such figure"),
        "{err}"
    );
    assert!(ran.stdout.is_empty() && !path.exists());
}

/// The one that takes no time.
#[test]
fn a_story_ends_with_its_figures_and_its_twin_as_commands() {
    let folder = std::env::temp_dir().join(format!("narrows-story-ends-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let narrows = |line: &str| {
        Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(line.split(' '))
            .current_dir(&folder)
            .output()
            .unwrap()
    };
    let told = narrows("story writes");
    let told = String::from_utf8_lossy(&told.stdout);
    let lines: Vec<&str> = told.lines().map(str::trim).collect();
    assert!(lines.contains(&"narrows story writes --live"), "{told}");
    let figure = "story writes --svg FILE";
    assert!(
        lines.contains(&format!("narrows {figure}").as_str()),
        "{told}"
    );
    assert!(narrows(figure).status.success());
    let svg = fs::read_to_string(folder.join("FILE")).unwrap();
    assert!(svg.starts_with("<svg"), "{svg}");

    assert!(narrows("story writes --full --docs .").status.success());
    let page = fs::read_to_string(folder.join("stories/writes-full.md")).unwrap();
    assert!(page.contains("| S7 | "), "{page}");
    assert!(!page.contains("takes --full"), "{page}");
    assert!(!folder.join("STORIES.md").exists());
    let unnamed = narrows("story --full --docs .");
    let err = String::from_utf8_lossy(&unnamed.stderr);
    assert!(!unnamed.status.success() && err.contains("NAME"), "{err}");
    fs::remove_dir_all(&folder).unwrap();
}
