use super::*;

const FILE: &str = r#"
title = "Two senders, one port"

[network]
topology = "star"
hosts = 3
link = { rate = "1Gb/s", delay = "5us" }
queue = { limit = "64KiB" }
[network.port."s0->h0"]
queue = { discipline = "ecn-step", threshold = "30kB" }

[group.senders]
hosts = "h1..h2"
tcp = { delayed_ack = "2/40ms" }

[host]
tcp = { congestion = "cubic", sack = true }

[[traffic]]
size = "100kB"
name = "copy"
kind = "bulk"
from = "senders"
to = "h0"

[[probe]]
name = "port"
kind = "rate"
on = "s0->h0"
every = ["10ms", "1ms"]

[run]
duration = "2s"
repetitions = 2

[sweep]
"host.tcp.congestion" = ["cubic", "reno"]
traffic.copy.size = ["100kB", "1MB"]

[[expect]]
that = "drops"
is = "< 10"
where = { host.tcp.congestion = "reno" }
"#;

fn loaded(text: &str) -> Result<Loaded, String> {
    Loaded::parse("x.toml", text, &Registry::default()).map_err(|e| e.to_string())
}

#[test]
fn a_file_is_an_experiment() {
    let Loaded { experiment, .. } = loaded(FILE).unwrap();
    assert_eq!(experiment.title, "Two senders, one port");
    for (key, value) in [
        ("network.hosts", "3"),
        ("network.link.rate", "1Gb/s"),
        (r#"network.port."s0->h0".queue.threshold"#, "30kB"),
        ("host.tcp.sack", "on"),
        ("group.senders.tcp.delayed_ack", "2/40ms"),
        ("traffic.copy.size", "100kB"),
        ("probe.port.every", "10ms,1ms"),
        ("run.duration", "2s"),
        ("expect.0.is", "< 10"),
        (r#"expect.0.where."host.tcp.congestion""#, "reno"),
    ] {
        assert_eq!(experiment.get(key).as_deref(), Some(value), "{key}");
    }
    let axes: Vec<&str> = experiment.sweep.iter().map(|a| a.key.as_str()).collect();
    assert_eq!(axes, ["host.tcp.congestion", "traffic.copy.size"]);
    experiment.check(&Registry::default()).unwrap();
}

#[test]
fn what_is_printed_reads_back() {
    for text in [FILE, "[network]\ntopology = \"leaf-spine\"\nleaves = 2\n"] {
        let first = text_of(&loaded(text).unwrap().experiment);
        let again = text_of(&loaded(&first).unwrap().experiment);
        assert_eq!(first, again);
    }
}

#[test]
fn an_error_shows_its_line() {
    let mistakes = [
        (
            "size = \"100kB\"",
            "sise = \"100kB\"",
            "20:1: there is no 'sise' here; did you mean 'size'?",
        ),
        ("kind = \"bulk\"", "kind = \"bulc\"", "did you mean 'bulk'?"),
        ("rate = \"1Gb/s\"", "rate = \"1GB/s\"", "rates are in bits"),
        ("delay = \"5us\"", "delay = \"11s\"", "0ns to 10s"),
        ("sack = true", "sack = 2024-01-01", "no date"),
        (
            "sack = true",
            "ecn = true",
            "there is no 'on' (true); it is one of",
        ),
        (
            "limit = \"64KiB\"",
            "limit = \"-5p\"",
            "'-5p' is below zero",
        ),
        ("hosts = 3", "hosts = 0", "expected a whole number from 1"),
        ("[[probe]]", "[[prob]]", "did you mean 'probe'?"),
        ("\"reno\"]", "\"remo\"]", "did you mean 'reno'?"),
        (
            "congestion = \"cubic\"",
            "congestion = \"dctcp:h=1\"",
            "dctcp",
        ),
        ("duration = \"2s\"", "duration = 2s", "x.toml:"),
        (
            "is = \"< 10\"",
            "is = \"about 10\"",
            "expected a comparison",
        ),
    ];
    for (right, wrong, part) in mistakes {
        assert!(FILE.contains(right), "{right}");
        let e = loaded(&FILE.replacen(right, wrong, 1)).unwrap_err();
        assert!(e.contains(part), "{wrong}: {e}");
        assert!(e.contains('^'), "{wrong}: {e}");
    }
}

#[test]
fn every_mistake_is_told_at_once() {
    let text = FILE
        .replacen("size =", "sise =", 1)
        .replacen("1Gb/s", "fast", 1);
    let Err(e) = Loaded::parse("x.toml", &text, &Registry::default()) else {
        panic!("it is wrong");
    };
    assert_eq!(e.errors.len(), 2, "{e}");
    assert!(e.errors[0].line < e.errors[1].line);
}

#[test]
fn what_goes_wrong_later_has_its_line_too() {
    let text = FILE.replacen("to = \"h0\"", "to = \"h9\"", 1);
    let Loaded { experiment, source } = loaded(&text).unwrap();
    let e = experiment.check(&Registry::default()).unwrap_err();
    assert_eq!(e.key, "traffic.copy.to");
    let e = source.locate(&e).to_string();
    assert!(
        e.contains("to = \"h9\"") && e.contains("|      ^^^^"),
        "{e}"
    );
}

/// A caret is below the word that is wrong, in a table within a line, too.
#[test]
fn carets_are_below_the_word_that_is_wrong() {
    for (right, wrong, part) in [
        ("sack = true", "sakc = true", "^^^^"),
        ("\nlink = {", "\nlnik = {", "did you mean 'link'?\n  |\n"),
        (
            "topology = \"star\"",
            "topology = \"star\"\nleaves = 3",
            "a size of leaf-spine",
        ),
    ] {
        assert!(FILE.contains(right), "{right}");
        let e = loaded(&FILE.replacen(right, wrong, 1)).unwrap_err();
        assert!(e.contains(part), "{wrong}: {e}");
        assert!(
            !wrong.contains("lnik") || e.contains("| ^^^^\n") || e.ends_with("| ^^^^"),
            "{e}"
        );
    }
}

/// Of a line with a thousand values what is near the wrong one is shown.
#[test]
fn long_lines_are_cut() {
    let values: Vec<String> = (64..1_064).map(|n| format!("\"{n}\"")).collect();
    let values = values.join(", ").replacen("\"500\"", "\"5OO\"", 1);
    let sweep = format!("[sweep]\n\"host.tcp.mss\" = [{values}]");
    let e = loaded(&FILE.replacen("[sweep]", &sweep, 1)).unwrap_err();
    let lines: Vec<&str> = e.lines().collect();
    assert!(lines.iter().all(|line| line.len() < 200), "{e}");
    let [.., text, carets] = lines[..] else {
        panic!("{e}");
    };
    assert!(text.contains("| ...") && text.ends_with("..."), "{e}");
    let (from, to) = (carets.find('^').unwrap(), carets.rfind('^').unwrap());
    assert_eq!(&text[from..=to], "\"5OO\"", "{e}");
}

proptest::proptest! {
    #[test]
    fn no_text_panics(at in 0..FILE.len(), cut in 0..40_usize, put in "[a-z0-9=\\[\\]\"'. ,{}-]{0,6}") {
        let mut text = FILE.to_owned();
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &put);
        if let Ok(loaded) = loaded(&text) {
            let _ = loaded.experiment.check(&Registry::default());
        }
    }
}
