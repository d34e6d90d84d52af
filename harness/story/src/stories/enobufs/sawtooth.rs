//! The window that refusals reset: claims E2, E4, E7, E8, E9 and E12.

use super::{FAST, LENGTHS, MSS, SLOW, moments};
use crate::judge::{Finding, median};
use crate::played::{Answer, Played, Scenery, column, missing};
use narrows_report::points::number;

/// Each time that a window came down: in ns, from where and to where, in segments.
struct Sawtooth(Vec<(f64, f64, f64)>);

impl Sawtooth {
    /// Of the flow at a point of a scene, whose segments have `mss` bytes.
    fn of(scene: &Scenery, at: &[(&str, &str)], mss: f64) -> Answer<Self> {
        let series = scene.series(at, "window")?;
        let column = |name: &str| column(series, name);
        let (time, to, from) = (
            column("time_ns")?,
            column("cwnd_bytes")?,
            column("fell_from_bytes")?,
        );
        let falls = series
            .rows
            .iter()
            .filter_map(|row| Some((row[time]?, row[from]? / mss, row[to]? / mss)));
        let falls: Vec<_> = falls.collect();
        match falls.len() > 1 {
            true => Ok(Self(falls)),
            false => Err(missing("window that came down")),
        }
    }

    /// From where it came down, a share of the falls from less.
    fn peak(&self, share: f64) -> f64 {
        let mut peaks: Vec<f64> = self.0.iter().map(|fall| fall.1).collect();
        peaks.sort_by(f64::total_cmp);
        let at = (peaks.len() as f64 * share) as usize;
        peaks[at.min(peaks.len() - 1)]
    }

    /// The median time from one fall to the next, in ms.
    fn period(&self) -> Answer<f64> {
        let times = self.0.windows(2).map(|w| (w[1].0 - w[0].0) / 1e6);
        let times: Vec<f64> = times.collect();
        median(&times).ok_or_else(|| missing("period"))
    }

    /// The largest window to which it came down.
    fn foot(&self) -> f64 {
        self.0.iter().map(|fall| fall.2).fold(0.0, f64::max)
    }
}

/// What the probe counts of the one flow.
pub(super) fn counted(scene: &Scenery, at: &[(&str, &str)], what: &str) -> Answer<f64> {
    let values = scene.matching(at, "window.", &format!(".{what}"))?;
    Ok(values.iter().sum())
}

pub(super) fn large_packets_do_not_help(played: &Played) -> Answer<Finding> {
    let scene = played.scene("mtu")?;
    let mut findings = Vec::new();
    for mtu in ["1500", "9000"] {
        let at = [("mtu", mtu)];
        // 40 bytes of headers.
        let mss = mtu.parse::<f64>().unwrap_or(1_500.0) - 40.0;
        let teeth = Sawtooth::of(scene, &at, mss)?;
        let resets = counted(scene, &at, "falls.refusal")?;
        findings.push(Finding::is(
            format!(
                "with {mtu} bytes {resets:.0} resets in {}, each to {} segment, from {} in the median",
                number(scene.measured(), "ns"),
                number(teeth.foot(), ""),
                number(teeth.peak(0.5), ""),
            ),
            resets >= 20.0 && teeth.foot() <= 1.0 && teeth.peak(0.5) >= 10.0,
        ));
    }
    Ok(Finding::all(findings))
}

pub(super) fn the_window_goes_from_one_segment_up_and_back(played: &Played) -> Answer<Finding> {
    let course = played.scene("course")?;
    let teeth = Sawtooth::of(course, &SLOW, MSS)?;
    let seconds = course.measured() / 1e9;
    Ok(Finding::all([
        Finding::at_most(
            "the window comes down, to segments at the most",
            teeth.foot(),
            1.0,
            "",
        ),
        Finding::at_least("from, in the median", teeth.peak(0.5), 20.0, ""),
        Finding::at_least(
            "times in a second",
            teeth.0.len() as f64 / seconds,
            20.0,
            "",
        ),
        Finding::at_most(
            "fast, after a loss, of so many times",
            counted(played.scene("answers")?, &FAST, "falls")?
                / counted(played.scene("answers")?, &SLOW, "falls")?,
            0.1,
            "",
        ),
    ]))
}

pub(super) fn without_a_loss_the_window_doubles(played: &Played) -> Answer<Finding> {
    let scene = played.scene("course")?;
    let series = scene.series(&SLOW, "window")?;
    let ssthresh = column(series, "ssthresh_bytes")?;
    let none = series.rows.iter().all(|row| row[ssthresh].is_none());
    let fours = counted(scene, &SLOW, "growth")?;
    let twos = counted(played.scene("every second")?, &[], "growth")?;
    let after = counted(scene, &FAST, "growth")?;
    Ok(Finding::all([
        Finding::is("without a loss ssthresh is infinite at all times", none),
        Finding::near(
            "window over that of a round trip before, in the median of those without a reset, where each \
             second segment is acknowledged (rx_frames=2; with buffers that are missing at moments, since \
             a dozen are used up in each round trip then)",
            twos,
            2.0,
            0.05,
            "",
        ),
        Finding::near(
            "where each fourth is, as in the other rows, and an ACK adds two segments at the most (L of RFC \
             3465)",
            fours,
            1.5,
            0.05,
            "",
        ),
        Finding::at_most("in a run with a loss", after, 1.1, ""),
    ]))
}

pub(super) fn each_reset_is_a_refusal(played: &Played) -> Answer<Finding> {
    let scene = played.scene("answers")?;
    let count = |what| counted(scene, &SLOW, what);
    let (falls, coincide) = (count("falls")?, count("falls.refusal")?);
    let (refusals, without) = (count("refusals")?, scene.value(&SLOW, "refused.buffers")?);
    Ok(Finding::is(
        format!(
            "the window came down {falls:.0} times, {coincide:.0} of them at the instant at which the NIC \
             refused a segment of its flow; {refusals:.0} segments were refused, {without:.0} for want of a \
             buffer"
        ),
        falls >= 20.0 && falls == coincide && falls == refusals && refusals == without,
    ))
}

/// Where buffers are missing at moments: so that a reset comes as often as where a dozen are used up.
const ALIKE: [(&str, &str); 3] = moments("reset", "1%", LENGTHS[0]);

pub(super) fn moments_do_the_same(played: &Played) -> Answer<Finding> {
    let scenes = [
        (played.scene("course")?, &SLOW[..]),
        (played.scene("moments")?, &ALIKE[..]),
    ];
    let [up, away] = scenes.map(|(scene, at)| Sawtooth::of(scene, at, MSS));
    let (up, away) = (up?, away?);
    let [grows, grows_there] = scenes.map(|(scene, at)| counted(scene, at, "growth"));
    Ok(Finding::all([
        Finding::is(
            format!(
                "with moments of 10 us without a buffer, which 1 % of sends begin, and with a dozen that are \
                 used up, the window is reset to {} and {} segment",
                number(away.foot(), ""),
                number(up.foot(), "")
            ),
            up.foot() <= 1.0 && away.foot() <= 1.0,
        ),
        Finding::near(
            "ms from one reset to the next, in the median,",
            away.period()?,
            up.period()?,
            0.2,
            "",
        ),
        Finding::near("segments before it", away.peak(0.5), up.peak(0.5), 0.5, ""),
        Finding::near(
            "window over that of a round trip before",
            grows_there?,
            grows?,
            0.1,
            "",
        ),
        Finding::at_most(
            "its goodput over fast",
            played.scene("moments")?.value(&ALIKE, "goodput")?
                / played.scene("answers")?.value(&FAST, "goodput")?,
            0.5,
            "",
        ),
    ]))
}

pub(super) fn the_window_tells_the_mode(played: &Played) -> Answer<Finding> {
    let up = Sawtooth::of(played.scene("course")?, &SLOW, MSS)?;
    let away = Sawtooth::of(played.scene("moments")?, &ALIKE, MSS)?;
    // The widest of the middle nine tenths over the narrowest.
    let spread = |teeth: &Sawtooth| teeth.peak(0.95) / teeth.peak(0.05);
    let (up, away) = (spread(&up), spread(&away));
    Ok(Finding::is(
        format!(
            "resets from windows that differ {up:.1}-fold where a dozen buffers are used up, and \
             {away:.1}-fold where they are missing at moments: teeth of one height name the first"
        ),
        up * 2.0 < away,
    ))
}
