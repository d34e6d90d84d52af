//! The claims of the story, each with what judges it.

use super::measures::{TEXT, at_hosts, drop_shares, drops, load_at, ratio, sent_again, words};
use super::scenes::{HOSTS, LINE};
use super::{collapse, copies, knee, see_saw, timeouts};
use crate::judge::{Finding, median};
use crate::played::{Answer, NoAnswer, missing};
use crate::story::Row;
use narrows_experiment::run::RunOutcome;
use narrows_report::points::number;

/// The rows.
pub(super) const ROWS: &[Row] = &[
    Row::new("M1", |played| {
        let outcomes = played.scene("bulk")?.outcomes(&[])?;
        let seconds = |o: &RunOutcome| o.measured.as_nanos() as f64 / 1e9;
        let rates: Vec<f64> = outcomes
            .iter()
            .flat_map(|o| {
                o.flows
                    .iter()
                    .map(|f| f.received.get() as f64 * 8.0 / seconds(o))
            })
            .collect();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        Ok(Finding::all([
            Finding::between("slowest flow", least, (173e6, 203e6), "bit/s"),
            Finding::between("fastest", most, (173e6, 203e6), "bit/s"),
            in_sum(rates.iter().sum()),
        ]))
    }),
    Row::new("M2", copies::bulk_adapts).because(copies::BULK_DROPS),
    Row::new("M3", knee::what_is_served_bends).because(knee::NOTHING_IS_LOST),
    Row::new("M4", |played| {
        let at = |load: &str, range: (f64, f64)| -> Answer<Finding> {
            let wanted = (range.0 / 2.0, range.1 * 2.0);
            Ok(Finding::between(
                load,
                drops(played, "load", load)?,
                wanted,
                "",
            ))
        };
        let mut all = Vec::new();
        for load in ["250Mb/s", "300Mb/s", "350Mb/s"] {
            all.push(at(load, (40.0, 100.0))?);
        }
        for load in ["450Mb/s", "500Mb/s", "550Mb/s"] {
            all.push(at(load, (100.0, 500.0))?);
        }
        let curve = played.scene("load")?.along("load", &[], "drops_per_s")?;
        let told: Vec<(f64, f64)> = curve
            .into_iter()
            .filter(|(load, _)| (250e6..=550e6).contains(load))
            .collect();
        let slopes: Vec<f64> = told
            .windows(2)
            .map(|w| (w[1].1 - w[0].1) / (w[1].0 - w[0].0))
            .collect();
        let convex = if slopes.is_sorted() { "" } else { "not " };
        all.push(Finding::is(
            format!("from 25 to 55 % {convex}convex"),
            slopes.is_sorted(),
        ));
        Ok(Finding::all(all))
    }),
    Row::new("M5", knee::the_ceiling),
    Row::new("M6", |played| {
        let drops = played.scene("together")?.along("buffer", &[], "drops")?;
        let of = |keep: &dyn Fn(f64) -> bool| -> Vec<f64> {
            drops.iter().filter(|p| keep(p.0)).map(|p| p.1).collect()
        };
        let (deep, shallow) = (of(&|b| b >= 300e3), of(&|b| b <= 200e3));
        let measured = format!("drops of 50 rounds by buffer: {}", words(&drops, "bytes"));
        let so = deep.iter().all(|d| *d == 0.0) && shallow.iter().all(|d| *d > 0.0);
        Ok(Finding::is(measured, so))
    }),
    Row::new("M7", |played| {
        let drops = played
            .scene("apart")?
            .along("traffic.read.stagger", &[], "drops")?;
        let at_once = drops.iter().filter(|p| p.0 <= 100e3).all(|p| p.1 > 0.0);
        let apart = drops.iter().filter(|p| p.0 >= 2e6).all(|p| p.1 == 0.0);
        let measured = format!("drops of 50 rounds by stagger: {}", words(&drops, "ns"));
        Ok(Finding::is(measured, at_once && apart))
    }),
    Row::new("M8", |played| {
        let percent = |scene: &str, metric: &str| -> Answer<Vec<(f64, f64)>> {
            let values = played.scene(scene)?.along("buffer", &[], metric)?;
            Ok(values.into_iter().map(|(b, share)| (b, share * 100.0)).collect())
        };
        let dropped = |scene: &str| -> Answer<Vec<(f64, f64)>> {
            let scene = played.scene(scene)?;
            let sent = scene.along("buffer", &[], "segments")?;
            let drops = scene.along("buffer", &[], "drops")?;
            let shares = drops.iter().zip(&sent);
            let share = |(d, s): (&(f64, f64), &(f64, f64))| (d.0, d.1 / s.1.max(1.0) * 100.0);
            Ok(shares.map(share).collect())
        };
        let falls_and_is_never_0 = |what: &str, shares: &[(f64, f64)]| {
            let falls = shares.is_sorted_by(|a, b| a.1 >= b.1);
            Finding::is(
                format!("{what} {}", words(shares, "bytes")),
                falls && shares.iter().all(|p| p.1 > 0.0),
            )
        };
        let finding = Finding::all([
            falls_and_is_never_0(
                "percent dropped by buffer, where queries at 100 Mb/s run beside five copies without an \
                 end to one host (M1),",
                &dropped("deep")?,
            ),
            falls_and_is_never_0(
                "of those queries' own segments sent again",
                &percent("deep", "get.retransmit_share")?,
            ),
        ]);
        // The queue of queries of 90 kB that arrive by themselves at a load of .45 is longer than B with a
        // probability of about exp(-x B / 90 kB), where .45 (exp(x) - 1) = x.
        Ok(finding.and_words(format_args!(
            ". The copies are chosen: what has no end and windows (80 MiB) beyond any buffer overruns them all. \
             Of queries alone, of 3 x 30 kB at 450 Mb/s, {}: of them more than 1 MiB waits with a probability of \
             about exp(-1.43 x 1 MiB / 90 kB), 6 in 100 million",
            words(&dropped("buffers")?, "bytes"),
        )))
    }),
    Row::new("M9", |played| {
        let scene = played.scene("frames")?;
        let mut fits = Vec::new();
        for buffer in ["24p", "50p", "100p", "200p", "400p"] {
            let drops = scene.along("servers", &[("buffer", buffer)], "drops")?;
            let clean = drops.iter().take_while(|p| p.1 == 0.0).last();
            let packets: f64 = buffer.trim_end_matches('p').parse().unwrap_or(0.0);
            fits.push((packets, clean.map_or(0.0, |p| p.0)));
        }
        // 10 kB are seven packets.
        let so = fits
            .iter()
            .all(|(buffer, n)| (n * 7.0 / buffer - 1.0).abs() <= 0.25);
        let fits: Vec<String> = fits.iter().map(|(b, n)| format!("{b}p: {n}")).collect();
        Ok(Finding::is(
            format!("replies of 10 kB (7 packets) that fit: {}", fits.join(", ")),
            so,
        ))
    }),
    Row::new("M10", |played| {
        let scene = played.scene("load")?;
        let queries = scene.value(&[("load", "250Mb/s")], "transfers_per_s")? / HOSTS;
        Ok(Finding::all([
            Finding::near(
                "queries a second of 3 x 10 kB at 250 Mb/s",
                queries,
                1_042.0,
                0.1,
                "",
            ),
            Finding::at_least("drops a second", drops(played, "load", "250Mb/s")?, 1.0, ""),
        ]))
    }),
    Row::new("M11", |played| {
        let star = load_at(
            &played.scene("load")?.along("load", &[], "drops_per_s")?,
            50.0 * HOSTS,
        )?;
        let racks = load_at(
            &played.scene("racks")?.along("load", &[], "drops_per_s")?,
            50.0 * HOSTS,
        )?;
        Ok(Finding::near(
            "load of 50 drops a second and host, racks",
            racks,
            star,
            0.25,
            "bit/s",
        ))
    }),
    Row::new("M12", see_saw::two_modes).in_full(see_saw::TAKES),
    Row::new("M13", see_saw::one_second_is_lost),
    Row::new("M14", |played| {
        let flows = HOSTS * (HOSTS - 1.0);
        let in_text = |metric| Ok::<_, NoAnswer>(at_hosts(played, "resends", &[], metric)? * 7.5);
        let (again, bytes) = (in_text("again_packets")?, in_text("again_bytes")?);
        let frames = (in_text("out_packets")? + in_text("in_packets")?) / HOSTS;
        // 837 of 6.7 kB on 99 flows.
        let text = 837.0 / 99.0;
        let finding = Finding::between(
            "packets sent again by flow in 7.5 s, as hosts with segmentation offload count them,",
            again / flows,
            (text / 2.0, text * 2.0),
            "",
        );
        Ok(finding.and_words(format_args!(
            ", {} times the text's {}. They have {} each and the text's 6.7 kB: in bytes a flow sends {} again, {} \
             of the text's {}. Ours is a mean over all {flows} flows, the text's over the 99 that sent again. A \
             host sends and gets {} packets, where the text's capture has 200,000: offload merges only what is \
             sent here",
            number(again / flows / text, ""),
            number(text, ""),
            number(bytes / again, "bytes"),
            number(bytes / flows, "bytes"),
            number(bytes / flows / (text * 6_700.0), ""),
            number(text * 6_700.0, "bytes"),
            number(frames, ""),
        )))
    })
    .because(
        "what is sent again leaves here segment by segment, as Linux did before 4.7; the text's sender sends 4.6 \
         segments again as one packet, which its capture, above segmentation, counts once",
    ),
    Row::new("M15", |played| {
        let at = |metric| Ok::<_, NoAnswer>(at_hosts(played, "counted-at-hosts", &[], metric)? / HOSTS);
        let (out, again) = (at("out_packets")?, at("again_packets")?);
        let wire = |scene: &str, point: &[(&str, &str)]| {
            Ok::<_, NoAnswer>(number(sent_again(played, scene, point)?, ""))
        };
        let loaded = [("load", "200Mb/s")];
        let finding = Finding::between(
            "percent of the packets of a host with segmentation offload that are sent again, by its own \
             counters, at 200 Mb/s with replies of 10 kB on the mean, exponential,",
            again / out * 100.0,
            (0.4, 1.7),
            "",
        )
        .after_words("calibrated, a fit and no prediction: the sizes of replies are chosen so that it holds. ");
        Ok(finding.and_words(format_args!(
            ": {} packets a second, {} of them again, and the text's host 10,604 and 92. Its packets have 2,370 \
             bytes, more than a frame, so they were counted above segmentation; of segments on the wire {} \
             percent are sent again here. It does not say how large its replies are, and equal ones are outside \
             the range, by segments: all of 10 kB, as in M4, {}, of 30 kB {}",
            number(out.round(), ""),
            number(again.round(), ""),
            wire("counted-at-hosts", &[])?,
            wire("load", &loaded)?,
            wire("large-replies", &loaded)?,
        )))
    }),
    Row::new("M16", collapse::at_half_the_line).in_full(collapse::TAKES),
    Row::new("M17", |played| {
        let wanted = TEXT.iter().filter(|(period, _)| *period != "1ms");
        let findings = wanted.map(|(period, text)| {
            let ratio = ratio(played, "polling", period)?;
            Ok(Finding::near(period, ratio, *text, 0.2, ""))
        });
        Ok(Finding::all(findings.collect::<Answer<Vec<_>>>()?))
    }),
    Row::new("M18", |played| {
        let means = played
            .scene("polling")?
            .matching(&[], "port.", ".mean.500ms_bps")?;
        let mean = median(&means).ok_or_else(|| missing("reading"))?;
        let usual = |period: &str| -> Answer<f64> { Ok(ratio(played, "late", period)? * mean) };
        let most = |period: &str| -> Answer<String> {
            let scene = played.scene("late")?;
            let all = scene.matching(&[], "port.", &format!(".max.{period}_bps"))?;
            Ok(number(all.into_iter().fold(0.0, f64::max), "bit/s"))
        };
        // The lateness was chosen for it: what is judged of it is only whether that is still so.
        let one = usual("1ms")?;
        let calibrated = format!(
            "calibrated: looks are up to .85 ms late, chosen so that the greatest 1 ms reading of the \
             median second is 1.5 to 1.65 Gb/s, here {}",
            number(one, "bit/s")
        );
        let two = usual("2ms")?;
        let text = 8.1 / 5.05;
        let finding = Finding::all([
            Finding::is(calibrated, (1.5e9..=1.65e9).contains(&one)),
            Finding::between(
                "its ratio to that of 2 ms",
                one / two,
                (text * 0.8, text * 1.2),
                "",
            ),
            Finding::between(
                "that of 2 ms",
                two,
                (0.9 * LINE, 1.1 * LINE),
                "bit/s",
            ),
        ]);
        Ok(finding.and_words(format_args!(
            "; in all seconds {} and {}. The text's ratio is {}, of which 20 % are allowed, which is ours; a poller \
             that is never late has {}",
            most("1ms")?,
            most("2ms")?,
            number(text, ""),
            number(ratio(played, "polling", "1ms")? / ratio(played, "polling", "2ms")?, ""),
        )))
    }),
    Row::new("M19", |played| {
        let scene = played.scene("units")?;
        let mean = |mega: &str| scene.value(&[("probe.port.mega", mega)], "port.s0->h0.mean.100ms");
        let factor = mean("10^6")? / mean("2^20")?;
        let real = (952.0 * factor).round();
        Ok(Finding::is(
            format!(
                "what the script calls 952 is {real}, by construction: the same port, read in both units, has \
                 {factor:.6} times as many of the smaller"
            ),
            real == 998.0,
        ))
    }),
    Row::new("M20", |played| {
        let scene = played.scene("few-losses")?;
        let goodput = scene.along("network.link.loss", &[], "goodput")?;
        let clean = goodput.first().map_or(0.0, |p| p.1);
        let few = scene.value(&[("network.link.loss", "0.1%")], "goodput")?;
        let finding = Finding::at_least("of the goodput at .1 % loss", few / clean, 0.99, "");
        let all: Vec<String> = goodput
            .iter()
            .map(|(loss, rate)| format!("{} %: {}", loss * 100.0, number(*rate, "bit/s")))
            .collect();
        Ok(finding.and_words(format_args!(" ({})", all.join(", "))))
    }),
    Row::new("M21", timeouts::losses_cost_timeouts_and_slow_starts),
    Row::new("M28", |played| {
        let unmarked = played.scene("unmarked")?;
        let marking = |from: &str, size: &str| -> Answer<f64> {
            let marked = played.scene("early-marks")?;
            let at = [("network.queue.threshold", from), ("size", size)];
            let without = unmarked.value(&[("size", size)], "drops_per_s")?;
            Ok(marked.value(&at, "drops_per_s")? / without)
        };
        let deeper = played.scene("deeper")?;
        let deeper = |cc: &str| deeper.value(&[("cc", cc)], "drops_per_s");
        let chosen = Finding::all([
            Finding::at_most(
                "of CUBIC's drops through ports of 64 KiB that mark from 5 packets on, replies of 10 kB",
                marking("5p", "10kB")?,
                0.1,
                "",
            ),
            Finding::at_most("of 30 kB", marking("5p", "30kB")?, 0.1, ""),
        ]);
        let finding = chosen.after_words(
            "calibrated, a fit and no prediction: that ports mark from 5 packets on is chosen so that it holds. ",
        );
        Ok(finding.and_words(format_args!(
            "; with the 20 that DCTCP's authors have at 1 Gb/s it does not: {} and {}, since the first windows of \
             seven replies of 10 kB that meet, or of three of 30 kB, overfill the \
             port before a mark comes back (through 128 KiB, where they fit, {} of 30 kB); with 10, {} and {} \
             (`narrows run microbursts --set cc=dctcp --set load=250Mb/s --set host.tcp.loss_detection=sack \
             --sweep size=10kB,30kB --sweep network.queue.threshold=5p,10p,20p`)",
            number(marking("20p", "10kB")?, ""),
            number(marking("20p", "30kB")?, ""),
            number(deeper("dctcp")? / deeper("cubic")?, ""),
            number(marking("10p", "10kB")?, ""),
            number(marking("10p", "30kB")?, ""),
        )))
    }),
    Row::new("M30", timeouts::the_floor_is_a_remedy),
    Row::new("M31", |played| {
        let of = |scene: &str, at: &[(&str, &str)], metric: &str| {
            played.scene(scene)?.value(at, metric)
        };
        let more = |without: f64, with: f64| (with / without - 1.0) * 100.0;
        let little = |what: &str, percent: f64| Finding::between(what, percent, (-20.0, 20.0), "");
        let drops = |scene: &str, at: &[(&str, &str)]| of(scene, at, "drops_per_s");
        let waiting = |time: &'static str| drops("interrupts", &[("host.nic.rx_usecs", time)]);
        let queue = more(drops("none", &[])?, drops("tx-queue", &[])?);
        let ring = more(waiting("20us")?, drops("ring", &[])?);
        let interrupts = more(waiting("20us")?, waiting("125us")?);
        // Whether the smaller of two is ever full.
        let refused = of("tx-queue", &[], "refused")?;
        let overrun = of("ring", &[], "drops.ring")?;
        let mtu = |metric: &str| {
            Ok::<_, NoAnswer>(more(of("none", &[], metric)?, of("mtu", &[], metric)?))
        };
        let share = |scene: &str| {
            Ok::<_, NoAnswer>(of(scene, &[], "drops")? / of(scene, &[], "segments")?)
        };
        let of_sent = more(share("none")?, share("mtu")?);
        let p99 = |scene: &str| of(scene, &[], "latency.p99");
        let (packets, bits) = (mtu("drops_per_s")?, mtu("tier.s0->host.dropped_bits")?);
        let larger = (100.0 + bits) / (100.0 + packets);
        let finding = Finding::all([
            little("drops with a NIC queue of 100, percent more", queue),
            little("with a ring of 64", ring),
            little("with interrupts after 125 us", interrupts),
            little("with MTU 9000 in packets", packets),
            little("in bits", bits),
            little(
                "and the slowest query of a thousand takes, percent more",
                mtu("latency.p999")?,
            ),
        ]);
        Ok(finding.and_words(format_args!(
            "; the queue of 100 refuses {} packets and the ring of 64 loses {}: neither fills in this model, so that \
             these two hold by construction; what is dropped with 9000 bytes has {} times the bits by packet, so \
             that one of the two counts is off by its root, {}, at least; the slowest of a hundred takes {} with \
             1500 bytes and {} with 9000, {} times as long; the share of the packets sent that is dropped, percent \
             more {}",
            number(refused, ""),
            number(overrun, ""),
            number(larger, ""),
            number(larger.sqrt(), ""),
            number(p99("none")?, "ns"),
            number(p99("mtu")?, "ns"),
            number(p99("mtu")? / p99("none")?, ""),
            number(of_sent, ""),
        )))
    })
    .because(
        "drops cannot stay both in packets and in bits: with an MTU of 9000 a reply of 10 kB is two packets \
         in place of seven",
    ),
    Row::new("M32", copies::a_limit_at_ticks_is_worse),
    Row::new("M34", |played| {
        let slow = drop_shares(
            played,
            "load",
            &["200Mb/s", "300Mb/s", "400Mb/s", "500Mb/s"],
        )?;
        let fast = drop_shares(played, "ten-gigabit", &["2Gb/s", "3Gb/s", "4Gb/s", "5Gb/s"])?;
        let rising = fast.is_sorted();
        let near = slow
            .iter()
            .zip(&fast)
            .all(|(a, b)| *b <= 2.0 * a && *a <= 2.0 * b);
        let list = |all: &[f64]| {
            let all: Vec<String> = all.iter().map(|x| number(*x * 100.0, "")).collect();
            all.join(", ")
        };
        let measured = format!(
            "percent sent again at 20, 30, 40 and 50 % load: {} at 10 Gb/s against {} at 1 Gb/s \
             (wanted rising, each within a factor 2)",
            list(&fast),
            list(&slow)
        );
        Ok(Finding::is(measured, rising && near))
    }),
    Row::new("M35", |played| {
        let timeouts = played.scene("all-to-all")?.value(&[], "timeouts")?;
        Ok(Finding::at_least(
            "timeouts of a shuffle of 240 transfers",
            timeouts,
            1.0,
            "",
        ))
    }),
];

/// What all flows carry, with the digits of its limit: 1448 of the 1538 bytes of a frame on the wire.
fn in_sum(rate: f64) -> Finding {
    let measured = format!("all five {:.1}Mb/s (wanted at most 941.5Mb/s)", rate / 1e6);
    Finding::is(measured, rate <= 941.5e6)
}
