//! Scenes of one cause each: readers that rest, local drops, pauses, coalescing, black holes, restarts
//! after idle, windows in packets, delayed acknowledgements.
//!
//! It runs once, and is `#[inline]` to be compiled where it is called: the command is not optimised.

use super::{Add, Values, star};

#[inline]
pub(super) fn scenes(values: Values, add: Add<'_>) {
    readers(values, add);
    local_drops(values, add);
    pauses(values, add);
    coalescing(values, add);
    coalescing_now_and_then(values, add);
    black_holes(values, add);
    small_windows(values, add);
    packet_windows(values, add);
}

/// Readers that read nothing for a while, some of them on a path that loses what tells that they do again.
#[inline]
fn readers(values: Values, add: Add<'_>) {
    for rest in values.of(&["20ms", "300ms", "900ms"], &["60ms", "700ms"]) {
        for window in values.of(&["32KiB", "128KiB"], &["48KiB"]) {
            for lost in values.of(&["0%", "25%"], &["0%", "35%"]) {
                for rto in values.of(&["linux", "10ms"], &["linux", "15ms"]) {
                    for delay in values.of(&[25, 400], &[90]) {
                        for seed in values.seeds(&[1, 2]) {
                            let tcp = format!("rto = \"{rto}\"\nreceive_window = \"{window}\"");
                            let traffic = format!(
                                "[network.port.\"h0->s0\"]\nlink = {{ loss = \"{lost}\" }}\n[[traffic]]\nname = \"send\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\nsize = \"2MB\"\n\
                                 read_pause = \"{rest}\"\nread_each = \"200kB\"\n"
                            );
                            let name =
                                format!("reader {rest} {window} {lost} {rto} {delay} {seed}");
                            add(name, star(2, delay, &tcp, &traffic, seed, "1MiB", "12s"));
                        }
                    }
                }
            }
        }
    }
}

/// NICs that refuse packets, whose loss nobody tells TCP of.
#[inline]
fn local_drops(values: Values, add: Add<'_>) {
    for refuse in values.of(&["2%", "6%"], &["3%"]) {
        for run in values.of(&[1, 3], &[2]) {
            for reply in values.of(&["4kB", "8kB", "60kB"], &["6kB", "30kB"]) {
                for rto in values.of(&["linux", "10ms"], &["linux", "20ms"]) {
                    for seed in values.seeds(&[1, 2]) {
                        let tcp = format!(
                            "rto = \"{rto}\"\nloss_detection = \"newreno\"\nsack = \"off\"\nlocal_drop = \"ignore\"\n[host.nic]\nrefuse = \"{refuse}\"\nrefuse_run = {run}"
                        );
                        let traffic = format!(
                            "[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 60\nrequest = \"100B\"\nreply = \"{reply}\"\npause = \"5ms\"\n"
                        );
                        let name = format!("refused {refuse} {run} {reply} {rto} {seed}");
                        add(name, star(2, 50, &tcp, &traffic, seed, "1MiB", "10s"));
                    }
                }
            }
        }
    }
}

/// A slow receiver's link, and switches that pause who fills it; hosts that stand still.
#[inline]
fn pauses(values: Values, add: Add<'_>) {
    for rate in values.of(&["20Mb/s", "100Mb/s"], &["50Mb/s"]) {
        for senders in values.of(&[2, 4, 8], &[3, 6]) {
            for buffer in values.of(&["128KiB", "256KiB"], &["192KiB"]) {
                for rto in values.of(&["linux", "50ms"], &["linux", "80ms"]) {
                    let tcp = format!("rto = \"{rto}\"");
                    let traffic = format!(
                        "[network.pause]\nmode = \"802.3x\"\n[network.port.\"s0->h0\"]\nlink = {{ rate = \"{rate}\" }}\n[[traffic]]\nname = \"get\"\nkind = \"synchronised-read\"\nclient = \"h0\"\nservers = \"h1..h{senders}\"\nsru = \"200kB\"\nblocks = 3\n"
                    );
                    for seed in values.seeds(&[1]) {
                        let name = format!("paused {rate} {senders} {buffer} {rto} {seed}");
                        let hosts = senders + 1;
                        add(name, star(hosts, 25, &tcp, &traffic, seed, buffer, "5s"));
                    }
                }
            }
        }
    }
    for long in values.of(&["3ms", "15ms", "60ms"], &["8ms", "40ms"]) {
        for rto in values.of(&["linux"], &["linux"]) {
            let at = values.of(&[1, 2, 3, 4], &[6, 7, 9]).into_iter().cycle();
            for (at, seed) in at.zip(values.seeds(&[1, 2, 3, 4])) {
                let tcp = format!("rto = \"{rto}\"");
                let traffic = format!(
                    "[[traffic]]\nname = \"send\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\nsize = \"40MB\"\n[[change]]\nat = \"{at}ms\"\nfor = \"{long}\"\nevery = \"100ms\"\non = \"h0\"\nwhat = \"pause\"\n"
                );
                let name = format!("host paused {long} {rto} {seed}");
                add(name, star(2, 25, &tcp, &traffic, seed, "1MiB", "2s"));
            }
        }
    }
}

/// NICs that interrupt late, and windows that are small against that.
#[inline]
fn coalescing(values: Values, add: Add<'_>) {
    for usecs in values.of(&["500us", "1ms", "3ms"], &["800us", "2ms"]) {
        for frames in values.of(&[0, 64], &[0, 100]) {
            for window in values.of(&["8KiB", "32KiB"], &["16KiB"]) {
                for size in values.of(&["300kB", "2MB"], &["700kB"]) {
                    for gro in values.of(&["off", "60kB"], &["off", "30kB"]) {
                        let tcp = format!(
                            "receive_window = \"{window}\"\n[host.nic]\nrx_usecs = \"{usecs}\"\nrx_frames = {frames}\ngro = \"{gro}\""
                        );
                        let traffic = format!(
                            "[[traffic]]\nname = \"send\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\nsize = \"{size}\"\n"
                        );
                        for seed in values.seeds(&[1]) {
                            let name =
                                format!("coalesced {usecs} {frames} {window} {size} {gro} {seed}");
                            add(name, star(2, 25, &tcp, &traffic, seed, "1MiB", "5s"));
                        }
                    }
                }
            }
        }
    }
}

/// NICs that interrupt for so many frames, which come soon while another host sends and late when it
/// does not: what then waits for the interrupt's age waits for longer than it ever did.
#[inline]
fn coalescing_now_and_then(values: Values, add: Add<'_>) {
    for usecs in values.of(&["500us", "1ms", "2ms", "4ms"], &["900us", "1300us"]) {
        for delay in values.of(&[10, 25, 80], &[15, 50]) {
            for window in values.of(&["8KiB", "16KiB"], &["18KiB"]) {
                for delack in values.of(&["off", "2/40ms"], &["off", "2/40ms"]) {
                    for seed in values.seeds(&[1, 2]) {
                        let tcp = format!(
                            "receive_window = \"{window}\"\ndelayed_ack = \"{delack}\"\n[host.nic]\nrx_usecs = \"{usecs}\"\nrx_frames = 16"
                        );
                        let traffic = "[[traffic]]\nname = \"send\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\nsize = \"20MB\"\n\
                             [[traffic]]\nname = \"bursts\"\nkind = \"on-off\"\nfrom = \"h2\"\nto = \"h0\"\nsize = \"400kB\"\nidle = \"exponential:20ms\"\n";
                        let name =
                            format!("coalesced now {usecs} {delay} {window} {delack} {seed}");
                        add(name, star(3, delay, &tcp, traffic, seed, "1MiB", "400ms"));
                    }
                }
            }
        }
    }
}

/// Links that carry less than hosts send.
#[inline]
fn black_holes(values: Values, add: Add<'_>) {
    for mtu in values.of(&[1_400, 1_200], &[1_300]) {
        for reply in values.of(&["4kB", "10kB", "12300B"], &["5kB", "9kB"]) {
            for rto in values.of(&["linux", "10ms"], &["linux", "15ms"]) {
                for detector in ["newreno", "sack", "rack"] {
                    for connections in values.of(&[1, 3], &[2]) {
                        let tcp = format!(
                            "rto = \"{rto}\"\nloss_detection = \"{detector}\"\nsack = \"{}\"",
                            super::sack(detector)
                        );
                        let traffic = format!(
                            "[network.port.\"s0->h1\"]\nlink = {{ mtu = {mtu} }}\n[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\nconnections = {connections}\ncalls = 2\nrequest = \"100B\"\nreply = \"{reply}\"\n"
                        );
                        for seed in values.seeds(&[1]) {
                            let name = format!(
                                "black hole {mtu} {reply} {rto} {detector} {connections} {seed}"
                            );
                            add(name, star(2, 50, &tcp, &traffic, seed, "1MiB", "10s"));
                        }
                    }
                }
            }
        }
    }
}

/// Windows of a segment at the begin and after idle times, whose acknowledgement is put off.
#[inline]
fn small_windows(values: Values, add: Add<'_>) {
    for delack in values.of(&["2/40ms", "2/120ms"], &["2/70ms"]) {
        for idle in ["keep", "rfc5681"] {
            for pause in values.of(&["300ms", "700ms"], &["450ms"]) {
                for reply in values.of(&["5kB", "20kB"], &["9kB"]) {
                    for connections in values.of(&[4, 12], &[8]) {
                        for delay in values.of(&[25, 300], &[80]) {
                            let tcp = format!(
                                "rto = \"linux\"\ndelayed_ack = \"{delack}\"\ninitial_window = 1\nidle_restart = \"{idle}\"\nloss_detection = \"sack\""
                            );
                            let traffic = format!(
                                "[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\nconnections = {connections}\ncalls = 4\nrequest = \"100B\"\nreply = \"{reply}\"\npause = \"{pause}\"\n"
                            );
                            for seed in values.seeds(&[1]) {
                                let name = format!(
                                    "small window {delack} {idle} {pause} {reply} {connections} {delay} {seed}"
                                );
                                add(name, star(2, delay, &tcp, &traffic, seed, "1MiB", "10s"));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Windows that count packets, and many small writes.
#[inline]
fn packet_windows(values: Values, add: Add<'_>) {
    for writes in values.of(&["1+1+1+1+n", "20+20+20+20+20+20+n"], &["5+5+5+5+5+n"]) {
        for window in values.of(&[2, 3], &[4]) {
            for delack in values.of(&["2/40ms", "2/200ms"], &["2/60ms"]) {
                for idle in ["keep", "rfc5681"] {
                    for reply in values.of(&["400B", "3kB"], &["900B"]) {
                        for pause in values.of(&["2ms", "400ms"], &["10ms", "350ms"]) {
                            let tcp = format!(
                                "rto = \"linux\"\ndelayed_ack = \"{delack}\"\nack_count = \"bytes\"\nwindow_count = \"packets\"\ninitial_window = {window}\nidle_restart = \"{idle}\"\nloss_detection = \"sack\""
                            );
                            let traffic = format!(
                                "[[traffic]]\nname = \"call\"\nkind = \"rpc\"\nclients = \"h1\"\nservers = \"h0\"\ncalls = 15\nrequest = \"100B\"\nreply = \"{reply}\"\nreply_writes = \"{writes}\"\nserver_nodelay = \"on\"\npause = \"{pause}\"\n"
                            );
                            for seed in values.seeds(&[1]) {
                                let name = format!(
                                    "packets {writes} {window} {delack} {idle} {reply} {pause} {seed}"
                                );
                                add(name, star(2, 25, &tcp, &traffic, seed, "64KiB", "10s"));
                            }
                        }
                    }
                }
            }
        }
    }
}
