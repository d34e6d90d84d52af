//! Outputs to files that are open already: the shell's `>` and descriptors by number.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;

const ONE_RUN: &str =
    "incast -n 2 --cc reno --rto 1ms --blocks 1 --sru 10kB -r 1 --no-report --quiet";

/// What is in the file after `before`, `narrows` with the words of `line`, and `after`, all with
/// `redirection` in a shell.
fn written(name: &str, redirection: &str, line: &str) -> String {
    let dir: PathBuf =
        std::env::temp_dir().join(format!("narrows-outputs-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let script = format!(
        "{{ echo before >&3; \"$NARROWS\" {line} || exit; echo after >&3; }} {redirection}"
    );
    let ran = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&dir)
        .env("NARROWS", env!("CARGO_BIN_EXE_narrows"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{script}: {ran:?}");
    let names = std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(names, 1, "nothing beside the file");
    let text = std::fs::read_to_string(dir.join("x")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    text
}

/// The file keeps what was written before, and takes what comes after.
#[test]
fn a_redirected_standard_output_is_written_where_it_stands() {
    for (i, (line, part)) in [
        ("--csv /dev/stdout", "point,repetition,seed,"),
        ("--json /dev/fd/1", "\"outcome\""),
        ("--svg /proc/self/fd/1", "<svg"),
        ("--trace /dev/stdout", "\"format\""),
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!("{ONE_RUN} {line}");
        let text = written(&format!("stdout-{i}"), "3>x >&3", &line);
        assert!(text.starts_with("before\n"), "{line}: {text}");
        assert!(text.ends_with("after\n"), "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
    }
}

#[test]
fn another_open_file_is_written_at_its_end() {
    let line = format!("{ONE_RUN} --csv /dev/fd/3 > /dev/null");
    let text = written("third", "3>>x", &line);
    assert!(text.starts_with("before\npoint,repetition,seed,"), "{text}");
    assert!(text.ends_with("\nafter\n"), "{text}");
}

/// What a meter saw cannot be seen again.
#[test]
fn a_meter_says_what_it_saw_though_its_file_cannot_be_written() {
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args("meter lo --for 50ms --every 5ms --csv /dev/full".split(' '))
        .output()
        .unwrap();
    let (said, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(said.contains("lo in"), "{said}");
    assert!(err.contains("cannot write the CSV"), "{err}");
}
