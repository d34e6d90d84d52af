//! Packetdrill scripts: whatever the text, it is read or refused with a place and a reason; what
//! can be read can be run.

use narrows_script::{Defines, Options, parse, run as run_script};

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse(&text, &Defines::new()) {
        Ok(script) => {
            let report = run_script("fuzz.pkt", &text, &Options::default());
            assert!(report.steps <= script.events.len());
            assert_eq!(report.passed(), report.text().is_empty());
        }
        Err(diagnostic) => {
            let shown = diagnostic.render("fuzz.pkt", &text, &[]);
            assert!(shown.contains("fuzz.pkt"), "an error says where: {shown}");
        }
    }
}
