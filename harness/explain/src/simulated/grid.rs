//! Experiments whose causes differ: incast, small writes, lost and late packets, bursts, outages, and
//! scenes of one cause each.
//!
//! It runs once, and is `#[inline]` to be compiled where it is called: the command is not optimised.

mod scenes;

use narrows::Duration;

/// An experiment of the grid.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its file.
    pub text: String,
    /// The round trip of its network, without queues.
    pub rtt: Duration,
}

/// A star of `hosts`, each link `delay` long.
#[inline]
fn star(
    hosts: u32,
    delay_us: u64,
    tcp: &str,
    rest: &str,
    seed: u64,
    buffer: &str,
    duration: &str,
) -> (String, Duration) {
    let text = format!(
        "title = \"A case\"\n[network]\ntopology = \"star\"\nhosts = {hosts}\nlink = {{ rate = \"1Gb/s\", delay = \"{delay_us}us\" }}\n\
         queue = {{ limit = \"{buffer}\" }}\n[host.tcp]\n{tcp}\n{rest}\n[run]\nduration = \"{duration}\"\nseed = {seed}\n"
    );
    (text, Duration::from_micros(delay_us * 4 + 15))
}

/// Seeds of random numbers that nobody had looked at when the rules were done: the next after those that had
/// been.
const FRESH: &[u64] = &[419, 420, 421];
/// Those that had.
const SPENT: &[u64] = &[
    401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418,
];

/// Which values the cases take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Those that explanations were made with.
    First,
    /// Others, and random numbers with these seeds.
    HeldOut(&'static [u64]),
}

impl Values {
    fn of<T: Clone>(self, first: &[T], held_out: &[T]) -> Vec<T> {
        match self {
            Self::First => first.to_vec(),
            Self::HeldOut(_) => held_out.to_vec(),
        }
    }

    fn seeds(self, first: &[u64]) -> Vec<u64> {
        match self {
            Self::First => first.to_vec(),
            Self::HeldOut(seeds) => seeds.to_vec(),
        }
    }
}

/// The cases: at least 2,000, or about `wanted` of them, evenly spread.
#[inline]
pub fn grid(wanted: Option<usize>) -> Vec<Case> {
    spread(cases(Values::First), wanted)
}

/// Cases of the same kinds with the parameters of what was held out before, and random numbers that nobody has
/// looked at.
#[inline]
pub fn held_out(wanted: Option<usize>) -> Vec<Case> {
    spread(cases(Values::HeldOut(FRESH)), wanted)
}

/// What was held out before: of these cases rules may be made.
#[inline]
pub fn spent(wanted: Option<usize>) -> Vec<Case> {
    spread(cases(Values::HeldOut(SPENT)), wanted)
}

#[inline]
fn cases(values: Values) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add =
        |name: String, (text, rtt): (String, Duration)| all.push(Case { name, text, rtt });
    incast(values, &mut add);
    writes(values, &mut add);
    losses(values, &mut add);
    late(values, &mut add);
    bursts(values, &mut add);
    outages(values, &mut add);
    scenes::scenes(values, &mut add);
    all
}

#[inline]
fn spread(all: Vec<Case>, wanted: Option<usize>) -> Vec<Case> {
    match wanted {
        Some(wanted) if wanted < all.len() => {
            let len = all.len();
            (0..wanted).map(|i| all[i * len / wanted].clone()).collect()
        }
        _ => all,
    }
}

type Add<'a> = &'a mut dyn FnMut(String, (String, Duration));

#[inline]
fn incast(values: Values, add: Add<'_>) {
    for servers in values.of(&[3, 6, 10, 16, 24], &[4, 12, 18]) {
        for rto in values.of(&["linux", "10ms", "1ms"], &["linux", "3ms"]) {
            for loss in ["reno", "newreno", "sack", "rack"] {
                for buffer in values.of(&["64KiB", "32p"], &["80KiB", "40p"]) {
                    for sru in values.of(&["32kB", "256kB"], &["70kB", "140kB"]) {
                        for seed in values.seeds(&[1, 2]) {
                            let tcp = format!(
                                "rto = \"{rto}\"\nloss_detection = \"{loss}\"\nsack = \"{}\"",
                                sack(loss)
                            );
                            let traffic = format!(
                                "[[traffic]]\nname = \"read\"\nkind = \"synchronised-read\"\nclient = \"h0\"\nservers = \"h1..h{servers}\"\nsru = \"{sru}\"\nblocks = 3\n"
                            );
                            let name =
                                format!("incast {servers} {rto} {loss} {buffer} {sru} {seed}");
                            add(
                                name,
                                star(servers + 1, 25, &tcp, &traffic, seed, buffer, "3s"),
                            );
                        }
                    }
                }
            }
        }
    }
}

const fn sack(loss: &str) -> &'static str {
    // Detectors of before SACK.
    match loss.as_bytes() {
        b"reno" | b"newreno" => "off",
        _ => "on",
    }
}

#[inline]
fn writes(values: Values, add: Add<'_>) {
    for reply_writes in values.of(&["1+1+1+1+n", "1+n", "n"], &["1+1+1+n", "n"]) {
        for nodelay in ["on", "off"] {
            for delack in values.of(&["2/40ms", "2/200ms", "off"], &["2/120ms", "2/30ms"]) {
                for reply in values.of(&["400B", "10kB"], &["700B", "18kB"]) {
                    for pause in values.of(&["1ms", "300ms"], &["5ms", "200ms"]) {
                        for window in values.of(&[2, 10], &[3, 5]) {
                            for idle in ["keep", "rfc5681"] {
                                let tcp = format!(
                                    "nagle = \"on\"\ndelayed_ack = \"{delack}\"\ninitial_window = {window}\nidle_restart = \"{idle}\""
                                );
                                let traffic = format!(
                                    "[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 20\nrequest = \"100B\"\nreply = \"{reply}\"\nreply_writes = \"{reply_writes}\"\nserver_nodelay = \"{nodelay}\"\npause = \"{pause}\"\n"
                                );
                                for seed in values.seeds(&[1]) {
                                    let name = format!(
                                        "writes {reply_writes} {nodelay} {delack} {reply} {pause} {window} {idle} {seed}"
                                    );
                                    let case = star(2, 25, &tcp, &traffic, seed, "64KiB", "10s");
                                    add(name, case);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[inline]
fn losses(values: Values, add: Add<'_>) {
    for loss in values.of(&["0.5%", "2%", "5%"], &["0.8%", "4%"]) {
        for reply in values.of(&["1kB", "10kB", "100kB", "1MB"], &["4kB", "40kB", "300kB"]) {
            for detector in ["newreno", "sack", "rack", "rack-notlp"] {
                for rto in values.of(&["linux", "10ms"], &["linux", "25ms"]) {
                    for delay in values.of(&[25, 1_000], &[60, 300]) {
                        for seed in values.seeds(&[1, 2, 3]) {
                            let tcp = format!(
                                "rto = \"{rto}\"\nloss_detection = \"{detector}\"\nsack = \"{}\"",
                                sack(detector)
                            );
                            let traffic = format!(
                                "[network.port.\"s0->h1\"]\nlink = {{ loss = \"{loss}\" }}\n[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 30\nrequest = \"100B\"\nreply = \"{reply}\"\npause = \"20ms\"\n"
                            );
                            let name =
                                format!("loss {loss} {reply} {detector} {rto} {delay} {seed}");
                            add(name, star(2, delay, &tcp, &traffic, seed, "1MiB", "10s"));
                        }
                    }
                }
            }
        }
    }
}

#[inline]
fn late(values: Values, add: Add<'_>) {
    for loss in values.of(&["0%", "0.2%"], &["0.15%"]) {
        for (reorder, hold) in values.of(
            &[
                ("0%", "100us"),
                ("1%", "300us"),
                ("1%", "8ms"),
                ("0.2%", "30ms"),
            ],
            &[("0.6%", "700us"), ("0.3%", "15ms")],
        ) {
            for congestion in ["reno", "cubic", "dctcp"] {
                for detector in ["newreno", "sack", "rack"] {
                    for rto in values.of(&["linux", "5ms", "1ms"], &["linux", "7ms"]) {
                        let tcp = format!(
                            "congestion = \"{congestion}\"\nrto = \"{rto}\"\nloss_detection = \"{detector}\"\nsack = \"{}\"",
                            sack(detector)
                        );
                        let traffic = format!(
                            "[network.port.\"s0->h0\"]\nlink = {{ loss = \"{loss}\", reorder = \"{reorder}\", hold = \"{hold}\" }}\n[[traffic]]\nname = \"send\"\nkind = \"bulk\"\nfrom = \"h1..h2\"\nto = \"h0\"\nsize = \"2MB\"\n"
                        );
                        for seed in values.seeds(&[1]) {
                            let name = format!(
                                "late {loss} {reorder} {hold} {congestion} {detector} {rto} {seed}"
                            );
                            add(name, star(3, 50, &tcp, &traffic, seed, "128KiB", "4s"));
                        }
                    }
                }
            }
        }
    }
}

#[inline]
fn bursts(values: Values, add: Add<'_>) {
    for load in values.of(&["100Mb/s", "250Mb/s", "450Mb/s"], &["150Mb/s", "400Mb/s"]) {
        for congestion in ["cubic", "dctcp"] {
            for buffer in values.of(&["32KiB", "64KiB"], &["40KiB", "100KiB"]) {
                for rto in values.of(&["linux", "10ms"], &["linux", "20ms"]) {
                    for k in values.of(&[3, 5], &[4, 7]) {
                        for seed in values.seeds(&[1, 2, 3, 4]) {
                            let tcp = format!(
                                "congestion = \"{congestion}\"\nrto = \"{rto}\"\ndelayed_ack = \"2/40ms\""
                            );
                            let traffic = format!(
                                "[[traffic]]\nname = \"get\"\nkind = \"fan-out\"\nload = \"{load}\"\nk = {k}\nsize = \"30kB\"\n"
                            );
                            let name =
                                format!("bursts {load} {congestion} {buffer} {rto} {k} {seed}");
                            add(name, star(8, 5, &tcp, &traffic, seed, buffer, "300ms"));
                        }
                    }
                }
            }
        }
    }
}

#[inline]
fn outages(values: Values, add: Add<'_>) {
    for at in values.of(&["0ns", "20ms"], &["0ns", "43ms"]) {
        for long in values.of(&["5ms", "30ms", "400ms"], &["15ms", "120ms"]) {
            for what in values.of(
                &["link = { loss = \"100%\" }", "link = { delay = \"60ms\" }"],
                &["link = { loss = \"100%\" }", "link = { delay = \"45ms\" }"],
            ) {
                for rto in values.of(&["linux", "10ms", "1ms"], &["linux", "9ms"]) {
                    for detector in ["sack", "rack"] {
                        for seed in values.seeds(&[1, 2, 3, 4]) {
                            let tcp = format!("rto = \"{rto}\"\nloss_detection = \"{detector}\"");
                            let traffic = format!(
                                "[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 30\nrequest = \"100B\"\nreply = \"30kB\"\npause = \"2ms\"\n[[change]]\nat = \"{at}\"\nfor = \"{long}\"\non = \"s0->h1\"\nwhat = \"set\"\n{what}\n"
                            );
                            let name = format!("outage {at} {long} {what} {rto} {detector} {seed}");
                            add(name, star(2, 50, &tcp, &traffic, seed, "1MiB", "6s"));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_held_out_was_looked_at() {
        let texts: std::collections::HashSet<_> =
            grid(None).into_iter().map(|case| case.text).collect();
        let held_out = held_out(None);
        assert!(held_out.len() >= 500, "{}", held_out.len());
        let spent: std::collections::HashSet<_> =
            spent(None).into_iter().map(|case| case.text).collect();
        for case in held_out {
            assert!(!texts.contains(&case.text), "{}", case.name);
            assert!(!spent.contains(&case.text), "{}", case.name);
        }
    }

    #[test]
    fn the_whole_grid_has_2000_cases_and_a_part_is_spread_over_it() {
        let whole = grid(None);
        assert!(whole.len() >= 2_000, "{}", whole.len());
        let part = grid(Some(50));
        assert_eq!(part.len(), 50);
        for family in [
            "incast", "writes", "loss", "late", "bursts", "outage", "reader", "small",
        ] {
            assert!(
                part.iter().any(|case| case.name.starts_with(family)),
                "{family}"
            );
        }
    }
}
