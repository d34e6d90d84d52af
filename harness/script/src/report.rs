//! Reports of scripts for programs: JSON and JUnit's XML.

use super::Report;
use super::diagnostic::{Kind, position};
use serde::Serialize;
use std::fmt::Write;

/// All scripts, as JSON has them.
#[derive(Debug, Serialize)]
struct Document<'a> {
    scripts: usize,
    failed: usize,
    results: Vec<Entry<'a>>,
}

/// One script.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    file: &'a str,
    passed: bool,
    steps: usize,
    /// Nanoseconds of virtual time.
    virtual_time_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    printed: &'a [String],
}

/// Why it failed.
#[derive(Debug, Serialize)]
struct Failure<'a> {
    kind: Kind,
    line: usize,
    column: usize,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    got: Option<&'a str>,
    notes: &'a [String],
    transcript: &'a [String],
}

/// The reports as JSON.
pub fn json(reports: &[Report]) -> String {
    let document = Document {
        scripts: reports.len(),
        failed: reports.iter().filter(|r| !r.passed()).count(),
        results: reports.iter().map(entry).collect(),
    };
    // Strings and numbers: nothing that JSON lacks.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn entry(report: &Report) -> Entry<'_> {
    Entry {
        file: &report.file,
        passed: report.passed(),
        steps: report.steps,
        virtual_time_ns: report.time.as_nanos(),
        failure: report.failure.as_ref().map(|d| {
            let at = position(&report.source, d.span.start);
            Failure {
                kind: d.kind,
                line: at.line,
                column: at.column,
                message: &d.message,
                expected: d.expected.as_deref(),
                got: d.got.as_deref(),
                notes: &d.notes,
                transcript: &report.transcript,
            }
        }),
        printed: &report.printed,
    }
}

/// The reports as JUnit's XML: a suite for each folder, a case for each script. Times are virtual.
pub fn junit(reports: &[Report]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let failed = reports.iter().filter(|r| !r.passed()).count();
    let _ = writeln!(
        out,
        "<testsuites name=\"narrows script\" tests=\"{}\" failures=\"{failed}\">",
        reports.len()
    );
    let folders: Vec<&str> = reports.iter().map(|r| parts(&r.file).0).collect();
    let mut begun: Vec<&str> = Vec::new();
    for folder in &folders {
        if begun.contains(folder) {
            continue;
        }
        begun.push(folder);
        let cases = || reports.iter().filter(|r| parts(&r.file).0 == *folder);
        let _ = writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\">",
            escaped(folder),
            cases().count(),
            cases().filter(|r| !r.passed()).count()
        );
        for report in cases() {
            case(report, &mut out);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn case(report: &Report, out: &mut String) {
    let (folder, name) = parts(&report.file);
    let micros = report.time.as_micros();
    let _ = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{}.{:06}\"",
        escaped(folder),
        escaped(name),
        micros / 1_000_000,
        micros % 1_000_000
    );
    let Some(failure) = &report.failure else {
        out.push_str("/>\n");
        return;
    };
    let _ = writeln!(
        out,
        ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
        escaped(&failure.message),
        escaped(&report.text())
    );
}

/// Folder and name.
fn parts(file: &str) -> (&str, &str) {
    file.rsplit_once(['/', '\\']).unwrap_or((".", file))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            // XML 1.0 has no way to say these.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, run};

    fn reports() -> Vec<Report> {
        let options = Options::default();
        vec![
            run("a/good.pkt", "0 `true`", &options),
            run("a/bad.pkt", "0 `true`\n+0 > S 0:0(0) <mss 1>", &options),
            run("b/odd.pkt", "0 nonsense(\"<&>\") = 0", &options),
        ]
    }

    #[test]
    fn json_tells_line_and_message() {
        let value: serde_json::Value = serde_json::from_str(&json(&reports())).unwrap();
        assert_eq!(value["failed"], 2);
        assert_eq!(value["results"][0]["passed"], true);
        let failure = &value["results"][1]["failure"];
        assert_eq!(
            (&failure["line"], &failure["kind"]),
            (&2.into(), &"mismatch".into())
        );
        assert_eq!(failure["expected"], "> S 0:0(0) <mss 1>");
        assert_eq!(value["results"][2]["failure"]["kind"], "unsupported");
    }

    #[test]
    fn junit_has_a_suite_for_each_folder_and_escapes() {
        let xml = junit(&reports());
        assert!(
            xml.contains("<testsuite name=\"a\" tests=\"2\" failures=\"1\">"),
            "{xml}"
        );
        assert!(
            xml.contains("<testsuite name=\"b\" tests=\"1\" failures=\"1\">"),
            "{xml}"
        );
        assert!(
            xml.contains("name=\"good.pkt\" time=\"0.000000\"/>"),
            "{xml}"
        );
        assert!(xml.contains("&lt;&amp;&gt;"), "{xml}");
        assert_eq!(xml.matches("<testcase").count(), 3);
    }
}
