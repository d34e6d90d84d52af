//! The tests that docs/RELIABILITY.md names exist.
#![allow(missing_docs)]

use std::path::Path;

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/RELIABILITY.md")).unwrap();
    let names: Vec<&str> = page.split('`').filter(|s| s.contains(".rs::")).collect();
    assert!(names.len() > 30, "{} names", names.len());
    for name in names {
        let (file, test) = name.split_once("::").unwrap();
        let source = std::fs::read_to_string(root.join(file)).unwrap_or_else(|e| {
            panic!("{name}: {e}");
        });
        let (begin, end) = (format!("fn {test}("), "#[test]");
        let at = source.find(&begin).unwrap_or_else(|| panic!("no {name}"));
        let before = &source[source[..at].rfind('}').unwrap_or(0)..at];
        assert!(before.contains(end), "{name} is no test");
    }
}
