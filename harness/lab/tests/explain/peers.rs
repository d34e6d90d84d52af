//! tshark's expert analysis and tcptrace on the captures that `narrows explain` reads.

use super::path::{Captured, Path};
use super::skip::skip;
use super::{explained, scenes};
use narrows_explain::{Cause, Explanation, Side};
use std::fs;
use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::process::Command;

/// What a tool says of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    /// Packets with bytes that came by before.
    resent: u64,
    /// Packets that fill a hole.
    filled: u64,
    /// Whether a closed window was announced.
    closed: bool,
    /// The least RTT of what the first host sent, in microseconds.
    rtt: u64,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A pcap file with nanoseconds.
fn write(path: &FilePath, all: &[Captured]) -> io::Result<()> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (at, bytes, original) in all {
        let (seconds, nanos) = (at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
        for word in [
            seconds as u32,
            nanos as u32,
            bytes.len() as u32,
            *original as u32,
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
    }
    fs::write(path, file)
}

/// The lines that a program prints.
fn lines(program: &str, arguments: &[&str]) -> Vec<String> {
    let ran = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{program} {arguments:?}: {said}");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

fn tshark(file: &str) -> Said {
    let fields = [
        "ip.src",
        "tcp.analysis.retransmission",
        "tcp.analysis.out_of_order",
        "tcp.analysis.zero_window",
        "tcp.analysis.ack_rtt",
    ];
    let mut arguments = vec!["-r", file, "-Y", "tcp", "-T", "fields", "-E", "separator=,"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let mut said = Said {
        rtt: u64::MAX,
        ..Said::default()
    };
    for line in lines("tshark", &arguments) {
        let cells: Vec<&str> = line.split(',').collect();
        let [from, resent, late, closed, rtt] = cells[..] else {
            panic!("{line}")
        };
        said.resent += u64::from(!resent.is_empty());
        said.filled += u64::from(!late.is_empty());
        said.closed |= !closed.is_empty();
        if let (Ok(rtt), "10.79.0.2") = (rtt.parse::<f64>(), from) {
            said.rtt = said.rtt.min((rtt * 1e6).round() as u64);
        }
    }
    said
}

/// tcptrace writes two columns, a host each: `name:  value   name:  value`.
fn tcptrace(file: &str) -> Said {
    let mut said = Said {
        rtt: u64::MAX,
        ..Said::default()
    };
    for line in lines("tcptrace", &["-lrn", file]) {
        let values = |name: &str| -> Option<Vec<f64>> {
            let parts = line.split(name).skip(1);
            let first = |part: &str| part.split_whitespace().next()?.parse().ok();
            let values: Vec<f64> = parts.filter_map(first).collect();
            (!values.is_empty()).then_some(values)
        };
        if let Some(both) = values("rexmt data pkts:") {
            said.resent += both.iter().sum::<f64>() as u64;
        }
        if let Some(both) = values("outoforder pkts:") {
            said.filled += both.iter().sum::<f64>() as u64;
        }
        if let Some(both) = values("zero win adv:") {
            said.closed |= both.iter().any(|n| *n > 0.0);
        }
        if let Some(both) = values("RTT min:") {
            said.rtt = said.rtt.min((both[0] * 1_000.0) as u64);
        }
    }
    said
}

fn ours(explanation: &Explanation) -> Said {
    let mut said = Said {
        rtt: u64::MAX,
        ..Said::default()
    };
    for connection in &explanation.connections {
        for side in Side::BOTH {
            let counts = connection.counts[side as usize];
            said.resent += counts.retransmitted + counts.needless;
            said.filled += counts.filled;
        }
        let rtt = connection.rtt[Side::Client as usize].min();
        said.rtt = said
            .rtt
            .min(rtt.map_or(u64::MAX, |rtt| rtt.as_nanos() / 1_000));
        said.closed |= connection
            .lost
            .iter()
            .any(|(cause, ..)| matches!(cause, Cause::WindowClosed | Cause::WindowUpdateLate));
    }
    said
}

#[test]
fn tshark_and_tcptrace_count_the_same_where_they_mean_the_same() {
    let missing = ["tshark", "tcptrace"]
        .into_iter()
        .find(|program| Command::new(program).arg("-v").output().is_err());
    if let Some(program) = missing {
        skip(&format!("{program} is not installed"));
        return;
    }
    let Some(path) = Path::new() else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("narrows-peers-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let folder = Folder(folder);
    let mut wrong = Vec::new();
    // Each run of tshark takes a second and more.
    let several = scenes::all().into_iter().filter(|scene| {
        use Cause::{TailLossProbe, TimeoutRetransmissionLost, TimeoutWholeWindow, WindowClosed};
        let some = [
            TailLossProbe,
            TimeoutRetransmissionLost,
            TimeoutWholeWindow,
            WindowClosed,
        ];
        some.contains(&scene.causes[0])
    });
    for scene in several {
        let captured = match scene.play(&path) {
            Ok(captured) => captured,
            Err(why) => {
                skip(&format!("{}: {why}", scene.name));
                continue;
            }
        };
        for (place, all) in ["sender", "receiver"].into_iter().zip(&captured) {
            let file = folder.0.join("capture.pcap");
            write(&file, all).unwrap();
            let file = file.to_str().unwrap();
            let said = [ours(&explained(all)), tshark(file), tcptrace(file)];
            println!("| {} | {place} | {said:?}", scene.name);
            let [ours, tshark, tcptrace] = said;
            let mut differ = |what: &str| wrong.push(format!("{}, {place}: {what}", scene.name));
            if place == "sender" {
                // What is sent again was seen before here.
                if ours.resent != tshark.resent + tshark.filled {
                    differ("tshark: sent again");
                }
                if ours.closed != tshark.closed {
                    differ("tshark: window closed");
                }
                if ours.rtt.abs_diff(tshark.rtt) > 1 {
                    differ("tshark: least RTT");
                }
                if ours.resent != tcptrace.resent {
                    differ("tcptrace: sent again");
                }
                // It writes tenths of a millisecond.
                if ours.rtt.abs_diff(tcptrace.rtt) > 51 {
                    differ("tcptrace: least RTT");
                }
            } else {
                // What fills a hole was lost before it came here. tshark calls that a retransmission if
                // duplicate acknowledgements came before or it is late, and else out of order.
                if ours.filled != tcptrace.filled {
                    differ("tcptrace: out of order");
                }
                if ours.filled + ours.resent != tshark.filled + tshark.resent {
                    differ("tshark: retransmissions and out of order");
                }
            }
            if ours.closed != tcptrace.closed {
                differ("tcptrace: window closed");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
