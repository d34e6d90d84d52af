//! The twin of `busyport` on this machine's kernel.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_lab::stall::erlang::{self, ErlangRun};
use narrows_lab::stall::{BusyPolicy, StallRun, StallSpec, run, run_ours};
use narrows_report::points::number;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A node on a host of the kernel's, or of ours at a TAP, answers three others of the kernel's in \
            namespaces, 10 kB each 2 ms, one request at a time, from queues that are busy from 128 KiB on \
            before sockets of 64 KiB. For half a second the switch's port to the first one carries 5 Mb/s \
            (tbf). Live one node serves; simulated each of four serves the others at the same rate, and what \
            three send to the slow port it drops. A socket of the kernel's takes twice what it is told to, so \
            ours is told twice as much. With `erl` on the path (Debian: erlang-base) the same load is put to \
            nodes of Erlang/OTP, a namespace each: `+zdbbl 128`, suspensions as `erlang:system_monitor` \
            tells them; with a relay for each peer where nobody is to wait, and with sends that do not \
            suspend (`nosuspend`), which drop what a busy port refuses.",
    scenes: &[SIMULATED],
    run: twin,
};

const SIMULATED: Scene = Scene::new("simulated", "busy-port").with(&[
    ("limit", "128KiB"),
    ("sweep.writers", "suspend,async"),
    ("network.hosts", "4"),
    ("network.link.rate", "200Mb/s"),
    ("network.queue.limit", "64KiB"),
    ("rate", "1000"),
    ("traffic.mesh.request", "100B"),
    ("run.warm_up", "0s"),
]);

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let mut grid = Grid::new(
        [
            "",
            "longest suspension",
            "suspensions",
            "longest idle gap",
            "suspended in it",
            "most queued",
        ],
        1,
    );
    for writers in ["suspend", "async"] {
        let value = |metric| simulated.value(&[("writers", writers)], metric);
        grid.rows.push(vec![
            format!("simulated, {writers}"),
            number(value("suspended.max")?, "ns"),
            number(value("busy_dist_port")?, ""),
            number(value("latency.max")?, "ns"),
            String::new(),
            // Beside what a node holds at rest.
            number(value("memory.peak")? - 16e6, "bytes"),
        ]);
    }
    let mut notes = vec![
        "The gap is that of links that are idle while another one is slow; simulated, the slowest call.".to_owned(),
    ];
    let tcp = stage.tcp(&SIMULATED, &[])?;
    let mut nodes = Vec::new();
    for whose in ["kernel", "ours"] {
        let mut ran = |name: &str, policy| {
            let spec = spec(policy);
            let seen = match whose {
                "ours" => run_ours(&spec, tcp.clone(), stage.cancel),
                _ => run(&spec, stage.cancel),
            };
            let seen = seen.map_err(|e| e.to_string())?;
            grid.rows.push(row(format!("live, {whose}, {name}"), &seen));
            Ok::<_, String>(seen)
        };
        nodes.push(Node {
            whose: whose.to_owned(),
            suspended: ran("suspend", BusyPolicy::Suspend)?,
            free: ran("async", BusyPolicy::Async)?,
        });
    }
    let of_erlang = if erlang::is_installed() {
        ran_by_erlang(|policy| erlang::run(&spec(policy), stage.cancel).map_err(|e| e.to_string()))
    } else {
        let package = erlang::PACKAGE;
        Err(format!(
            "there is no erl on the path (Debian: apt install {package})"
        ))
    };
    match of_erlang {
        Ok((node, rows, note)) => {
            nodes.push(node);
            grid.rows.extend(rows);
            notes.push(note);
        }
        Err(why) if stage.cancel.load(Ordering::Relaxed) => return Err(why),
        Err(why) => notes.push(format!("Live, Erlang/OTP: not run: {why}.")),
    }
    Ok(Seen {
        tables: vec![grid],
        notes,
        found: found(&nodes),
    })
}

/// What was seen of a live node.
fn row(name: String, seen: &StallRun) -> Vec<String> {
    let time = |t: Duration| number(t.as_nanos() as f64, "ns");
    let longest = seen.suspended.iter().max().copied().unwrap_or_default();
    vec![
        name,
        time(longest),
        seen.suspended.len().to_string(),
        time(seen.longest_gap),
        time(seen.suspended_in_it),
        number(seen.most_queued as f64, "bytes"),
    ]
}

/// What a node of Erlang/OTP did, its rows, and what is said of them; all or none.
fn ran_by_erlang(
    run: impl Fn(BusyPolicy) -> Result<ErlangRun, String>,
) -> Result<(Node, Vec<Vec<String>>, String), String> {
    let mut rows = Vec::new();
    let mut ran = |name: &str, policy| {
        let seen = run(policy)?;
        rows.push(row(format!("live, Erlang/OTP, {name}"), &seen.run));
        Ok::<_, String>(seen)
    };
    let suspended = ran("suspend", BusyPolicy::Suspend)?;
    let free = ran("relay", BusyPolicy::Relay)?;
    let dropped = ran("nosuspend", BusyPolicy::NoSuspend)?.dropped;
    let note = format!(
        "Erlang/OTP is of release {}; with nosuspend it dropped {dropped} replies.",
        suspended.release
    );
    let node = Node {
        whose: format!("Erlang/OTP {}", suspended.release),
        suspended: suspended.run,
        free: free.run,
    };
    Ok((node, rows, note))
}

/// What a node did with suspended writers and without.
struct Node {
    whose: String,
    suspended: StallRun,
    free: StallRun,
}

impl Node {
    /// M25.
    fn serves_late(&self) -> Finding {
        let run = &self.suspended;
        if run.suspended.is_empty() {
            return self.not_seen(UNSUSPENDED);
        }
        if run.suspended_in_it.is_zero() {
            return self.not_seen("the longest gap is none in which the server was suspended");
        }
        let what = "longest gap of idle links over what the server was suspended in it";
        let over = run.longest_gap.as_secs_f64() / run.suspended_in_it.as_secs_f64();
        self.found(Finding::near(what, over, 1.0, 0.1, ""))
    }

    /// M33.
    fn is_cured(&self) -> Finding {
        let Self {
            suspended, free, ..
        } = self;
        if suspended.suspended.is_empty() {
            return self.not_seen(UNSUSPENDED);
        }
        // Who was suspended had something in a queue, but there may be no two replies.
        if suspended.longest_gap.is_zero() {
            return self.not_seen("no reply came after another");
        }
        let gap = |run: &StallRun| run.longest_gap.as_secs_f64();
        let queued = |run: &StallRun| run.most_queued as f64;
        self.found(Finding::all([
            Finding::at_most(
                "longest gap with writers that are not suspended over that with suspended ones",
                gap(free) / gap(suspended),
                0.5,
                "",
            ),
            Finding::at_least(
                "most in queues over that with suspended ones",
                queued(free) / queued(suspended),
                1.0,
                "",
            ),
        ]))
    }

    fn not_seen(&self, why: &str) -> Finding {
        self.found(Finding::is(format!("not seen: {why}"), false))
    }

    fn found(&self, finding: Finding) -> Finding {
        finding.after_words(format_args!("node {}: ", self.whose))
    }
}

/// What all nodes showed.
fn found(nodes: &[Node]) -> Vec<Found> {
    let never = nodes.iter().any(|node| node.suspended.suspended.is_empty());
    let because = |otherwise| if never { NEVER } else { otherwise };
    vec![
        Found {
            claim: "M25",
            finding: Finding::all(nodes.iter().map(Node::serves_late)),
            because: because(LATE),
        },
        Found {
            claim: "M33",
            finding: Finding::all(nodes.iter().map(Node::is_cured)),
            because: because(
                "a gap has in it how long the node and who asks it waited for a processor, and queues \
                 that grow hold what was asked while the port was slow: less if a late processor \
                 leaves it slow for a shorter time",
            ),
        },
    ]
}

const UNSUSPENDED: &str = "no writer was suspended";
/// What makes a gap another than the server's suspension.
const LATE: &str = "a gap has in it how long the node and who asks it waited for a processor, and with few \
    suspensions that is most of it";
/// Why no queue comes to its limit.
const NEVER: &str = "a queue comes to its limit only if the port is slow for long enough, and a late processor \
    leaves it slow for a shorter time, or asks too late for what fills the queue";

fn spec(busy_policy: BusyPolicy) -> StallSpec {
    StallSpec {
        clients: 3,
        rate: Rate::from_mbps(200),
        slow: Rate::from_mbps(5),
        slow_from: Duration::from_millis(1_000),
        slow_until: Duration::from_millis(1_500),
        buffer: ByteCount::new(64 << 10),
        every: Duration::from_millis(2),
        reply: ByteCount::new(10_000),
        busy_limit: ByteCount::new(128 << 10),
        busy_policy,
        span: Duration::from_secs(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judged;

    #[test]
    fn without_a_suspension_nothing_is_seen_of_it() {
        let ms = Duration::from_millis;
        let free = StallRun {
            longest_gap: ms(10),
            most_queued: 900_000,
            replies: 2_000,
            ..StallRun::default()
        };
        let suspended = StallRun {
            suspended: vec![ms(150), ms(150)],
            longest_gap: ms(155),
            suspended_in_it: ms(150),
            most_queued: 150_000,
            replies: 1_900,
        };
        let judged = |suspended: &StallRun| {
            let found = found(&[Node {
                whose: "kernel".to_owned(),
                suspended: suspended.clone(),
                free: free.clone(),
            }]);
            assert_eq!(
                found.iter().map(|f| f.claim).collect::<Vec<_>>(),
                ["M25", "M33"]
            );
            found
                .into_iter()
                .map(|f| (f.finding.judged, f.finding.measured))
                .collect::<Vec<_>>()
        };
        for (is, said) in judged(&suspended) {
            assert_eq!(is, Judged::Holds, "{said}");
        }
        for (is, said) in judged(&free) {
            assert_eq!(is, Judged::Differs);
            assert_eq!(said, "node kernel: not seen: no writer was suspended");
        }
        let elsewhere = StallRun {
            suspended_in_it: Duration::ZERO,
            ..suspended.clone()
        };
        let [served, avoided] = &judged(&elsewhere)[..] else {
            panic!("two claims");
        };
        assert_eq!(served.0, Judged::Differs);
        assert!(
            served.1.contains("not seen: the longest gap"),
            "{}",
            served.1
        );
        assert_eq!(avoided.0, Judged::Holds, "{}", avoided.1);
    }
    #[test]
    fn a_node_of_erlang_has_all_rows_or_none() {
        let seen = |policy| {
            let run = StallRun {
                most_queued: if policy == BusyPolicy::Relay { 2 } else { 1 },
                ..StallRun::default()
            };
            let (dropped, release) = (260, "25".to_owned());
            Ok(ErlangRun {
                run,
                dropped,
                release,
            })
        };
        let (node, rows, note) = ran_by_erlang(seen).unwrap();
        assert_eq!(node.whose, "Erlang/OTP 25");
        assert_eq!((node.suspended.most_queued, node.free.most_queued), (1, 2));
        let names: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
        let expected = [
            "live, Erlang/OTP, suspend",
            "live, Erlang/OTP, relay",
            "live, Erlang/OTP, nosuspend",
        ];
        assert_eq!(names, expected);
        assert!(
            note.contains("release 25") && note.contains("260 replies"),
            "{note}"
        );
        let fails = |policy| match policy {
            BusyPolicy::NoSuspend => Err("too old".to_owned()),
            _ => seen(policy),
        };
        assert_eq!(ran_by_erlang(fails).err().as_deref(), Some("too old"));
    }
}
