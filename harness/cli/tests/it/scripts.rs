//! `narrows script`.

use std::process::Command;

const OPEN: &str = include_str!("../../../script/tests/opening.pkt");

#[test]
fn the_command_reports_to_programs_and_by_its_exit_code() {
    let narrows = || Command::new(env!("CARGO_BIN_EXE_narrows"));
    let dir = std::env::temp_dir().join(format!("narrows-scripts-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("good.pkt"), OPEN).unwrap();
    let good = narrows().arg("script").arg(&dir).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&good.stdout),
        "1 script: all passed\n"
    );
    assert_eq!(good.status.code(), Some(0));

    std::fs::write(dir.join("bad.pkt"), format!("{OPEN}+0 close(4) = 0\n")).unwrap();
    let junit = dir.join("junit.xml");
    let bad = narrows()
        .args(["script", "--json", "-", "--jobs", "2", "--junit"])
        .arg(&junit)
        .arg(&dir)
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!((&json["scripts"], &json["failed"]), (&2.into(), &1.into()));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("2 scripts: 1 failed"));
    assert!(
        std::fs::read_to_string(&junit)
            .unwrap()
            .contains("failures=\"1\"")
    );

    let none = narrows().args(["script", "no/such.pkt"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no/such.pkt"));
    std::fs::remove_dir_all(&dir).unwrap();
}
