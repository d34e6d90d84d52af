//! Where queries begin to wait, and whether what is served bends there: claims M3 and M5.

use super::measures::{AT_THE_KNEE, knee, load_at};
use super::scenes::{HOSTS, LINE};
use crate::judge::Finding;
use crate::played::{Answer, Played};
use narrows_report::points::number;

/// Less of what is offered than this is not all.
const ALL: f64 = 0.95;

/// The share of what is offered that is served, by load.
fn served(played: &Played, scene: &str) -> Answer<Vec<(f64, f64)>> {
    let goodput = played.scene(scene)?.along("load", &[], "goodput")?;
    let share = |(load, rate): (f64, f64)| (load, rate / HOSTS / load);
    Ok(goodput.into_iter().map(share).collect())
}

/// The load from which on less than [`ALL`] is served.
fn bend(shares: &[(f64, f64)]) -> Answer<f64> {
    let lost: Vec<(f64, f64)> = shares.iter().map(|(x, y)| (*x, 1.0 - y)).collect();
    load_at(&lost, 1.0 - ALL)
}

/// Loads from one on, with the share that is served.
fn in_words(shares: &[(f64, f64)], from: f64) -> String {
    let shown = shares.iter().filter(|(load, _)| *load >= from);
    let words: Vec<String> = shown
        .map(|(load, share)| format!("{} {share:.3}", number(*load, "bit/s")))
        .collect();
    words.join(", ")
}

pub(super) fn what_is_served_bends(played: &Played) -> Answer<Finding> {
    let shares = served(played, "load")?;
    let knee = knee(played)?;
    let below = shares.iter().filter(|(load, _)| *load <= 250e6);
    let least = below.map(|(_, share)| *share).fold(1.0, f64::min);
    let bounded = served(played, "bounded")?;
    let of_all = match bend(&shares) {
        Ok(load) => Finding::between(
            "load from which on less than .95 are served, Mb/s,",
            load / 1e6,
            (400.0, 600.0),
            "",
        ),
        Err(_) => Finding::is("at least .95 are served at all loads", false),
    };
    let finding = Finding::all([
        Finding::at_least("served of up to 250 Mb/s", least, 0.99, ""),
        of_all,
    ]);
    Ok(finding.and_words(format_args!(
        ": of {}. The median query takes {} from {} on, of which 250 Mb/s are {:.2}. Where a host has at most 256 \
         queries under way (`traffic.get.limit`, chosen) what is served bends: of {}",
        in_words(&shares, 450e6),
        number(AT_THE_KNEE, "ns"),
        number(knee.round(), "bit/s"),
        250e6 / knee,
        in_words(&bounded, 250e6),
    )))
}

/// Why it does not bend.
pub(super) const NOTHING_IS_LOST: &str = "queries come whether or not those before have their replies, and TCP sends \
    again what is lost: what is usable ends in how long they take, at twice 250 Mb/s within a fifth (M5), and what is \
    served only where the line is full. Where a host asks for no more while so many are not answered, timeouts hold \
    up those behind. How many the text does not say, and the bend moves with it: with 64 it is between 300 and \
    400 Mb/s, with 1,000 above 700 (`narrows run microbursts --set cc=cubic --set host.tcp.loss_detection=sack --set \
    size=10kB --set run.warm_up=500ms --sweep traffic.get.limit=64,256,1000 --sweep load=300Mb/s,400Mb/s,500Mb/s,600Mb/s,700Mb/s`)";

pub(super) fn the_ceiling(played: &Played) -> Answer<Finding> {
    let finding = Finding::between(
        "knee, percent of the line",
        knee(played)? / LINE * 100.0,
        (40.0, 70.0),
        "",
    );
    Ok(finding.and_words(format_args!(
        ", where the median query takes {}, our reading of a ceiling",
        number(AT_THE_KNEE, "ns")
    )))
}
