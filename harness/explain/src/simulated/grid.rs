//! Experiments whose causes differ: incast, small writes, lost and late packets, bursts, outages.

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

/// The cases: at least 2,000, or about `wanted` of them, evenly spread.
pub fn grid(wanted: Option<usize>) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add =
        |name: String, (text, rtt): (String, Duration)| all.push(Case { name, text, rtt });
    incast(&mut add);
    writes(&mut add);
    losses(&mut add);
    late(&mut add);
    bursts(&mut add);
    outages(&mut add);
    match wanted {
        Some(wanted) if wanted < all.len() => {
            let len = all.len();
            (0..wanted).map(|i| all[i * len / wanted].clone()).collect()
        }
        _ => all,
    }
}

type Add<'a> = &'a mut dyn FnMut(String, (String, Duration));

fn incast(add: Add<'_>) {
    for servers in [3, 6, 10, 16, 24] {
        for rto in ["linux", "10ms", "1ms"] {
            for loss in ["reno", "newreno", "sack", "rack"] {
                for buffer in ["64KiB", "32p"] {
                    for sru in ["32kB", "256kB"] {
                        for seed in 1..=2 {
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

fn writes(add: Add<'_>) {
    for reply_writes in ["1+1+1+1+n", "1+n", "n"] {
        for nodelay in ["on", "off"] {
            for delack in ["2/40ms", "2/200ms", "off"] {
                for reply in ["400B", "10kB"] {
                    for pause in ["1ms", "300ms"] {
                        for window in [2, 10] {
                            for idle in ["keep", "rfc5681"] {
                                let tcp = format!(
                                    "nagle = \"on\"\ndelayed_ack = \"{delack}\"\ninitial_window = {window}\nidle_restart = \"{idle}\""
                                );
                                let traffic = format!(
                                    "[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 20\nrequest = \"100B\"\nreply = \"{reply}\"\nreply_writes = \"{reply_writes}\"\nserver_nodelay = \"{nodelay}\"\npause = \"{pause}\"\n"
                                );
                                let name = format!(
                                    "writes {reply_writes} {nodelay} {delack} {reply} {pause} {window} {idle}"
                                );
                                add(name, star(2, 25, &tcp, &traffic, 1, "64KiB", "10s"));
                            }
                        }
                    }
                }
            }
        }
    }
}

fn losses(add: Add<'_>) {
    for loss in ["0.5%", "2%", "5%"] {
        for reply in ["1kB", "10kB", "100kB", "1MB"] {
            for detector in ["newreno", "sack", "rack", "rack-notlp"] {
                for rto in ["linux", "10ms"] {
                    for delay in [25, 1_000] {
                        for seed in 1..=3 {
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

fn late(add: Add<'_>) {
    for loss in ["0%", "0.2%"] {
        for (reorder, hold) in [
            ("0%", "100us"),
            ("1%", "300us"),
            ("1%", "8ms"),
            ("0.2%", "30ms"),
        ] {
            for congestion in ["reno", "cubic", "dctcp"] {
                for detector in ["newreno", "sack", "rack"] {
                    for rto in ["linux", "5ms", "1ms"] {
                        let tcp = format!(
                            "congestion = \"{congestion}\"\nrto = \"{rto}\"\nloss_detection = \"{detector}\"\nsack = \"{}\"",
                            sack(detector)
                        );
                        let traffic = format!(
                            "[network.port.\"s0->h0\"]\nlink = {{ loss = \"{loss}\", reorder = \"{reorder}\", hold = \"{hold}\" }}\n[[traffic]]\nname = \"send\"\nkind = \"bulk\"\nfrom = \"h1..h2\"\nto = \"h0\"\nsize = \"2MB\"\n"
                        );
                        let name =
                            format!("late {loss} {reorder} {hold} {congestion} {detector} {rto}");
                        add(name, star(3, 50, &tcp, &traffic, 1, "128KiB", "4s"));
                    }
                }
            }
        }
    }
}

fn bursts(add: Add<'_>) {
    for load in ["100Mb/s", "250Mb/s", "450Mb/s"] {
        for congestion in ["cubic", "dctcp"] {
            for buffer in ["32KiB", "64KiB"] {
                for rto in ["linux", "10ms"] {
                    for k in [3, 5] {
                        for seed in 1..=4 {
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

fn outages(add: Add<'_>) {
    for at in ["0ns", "20ms"] {
        for long in ["5ms", "30ms", "400ms"] {
            for what in ["link = { loss = \"100%\" }", "link = { delay = \"60ms\" }"] {
                for rto in ["linux", "10ms", "1ms"] {
                    for detector in ["sack", "rack"] {
                        for seed in 1..=4 {
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
    fn the_whole_grid_has_2000_cases_and_a_part_is_spread_over_it() {
        let whole = grid(None);
        assert!(whole.len() >= 2_000, "{}", whole.len());
        let part = grid(Some(50));
        assert_eq!(part.len(), 50);
        for family in ["incast", "writes", "loss", "late", "bursts", "outage"] {
            assert!(
                part.iter().any(|case| case.name.starts_with(family)),
                "{family}"
            );
        }
    }
}
