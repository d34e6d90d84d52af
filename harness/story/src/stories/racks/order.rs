//! Which of two numbers of the text is the larger, and whether it is so here.

use super::published::{PUBLISHED, Published};
use super::{FABRIC, RACK, both, by_side};
use crate::judge::Finding;
use crate::played::{Answer, Played};
use narrows_report::points::number;

/// Two numbers of a kind.
struct Pair {
    what: &'static str,
    names: [&'static str; 2],
    text: [f64; 2],
    ours: [f64; 2],
    /// What differs by no more in the text is equal there, as far as its digits tell.
    equal: f64,
}

impl Pair {
    /// Nothing where the text has no order.
    fn finding(&self) -> Option<Finding> {
        let [a, b] = self.text;
        if (a - b).abs() <= self.equal {
            return None;
        }
        let in_words = |[a, b]: [f64; 2]| {
            let sign = if a > b { '>' } else { '<' };
            let sign = if a == b { '=' } else { sign };
            let [first, second] = self.names;
            format!(
                "{first} {} {sign} {second} {}",
                number(a, ""),
                number(b, "")
            )
        };
        let so = (a > b && self.ours[0] > self.ours[1]) || (a < b && self.ours[0] < self.ours[1]);
        let but = match so {
            true => String::new(),
            false => format!(" (the text: {})", in_words(self.text)),
        };
        Some(Finding::is(
            format!("{}: {}{but}", self.what, in_words(self.ours)),
            so,
        ))
    }
}

const CONTROLS: [&str; 2] = ["CUBIC", "DCTCP"];
const SIDES: [&str; 2] = ["stores", "workers"];

/// The order of all numbers of some racks that can be compared: of both controls, of both tiers, of
/// stores and workers. How busy links are is all but equal in the text: within 5 points.
pub(super) fn of(played: &Played, racks: usize) -> Answer<Finding> {
    let text: &Published = &PUBLISHED[racks - 1];
    let mbit = |bits: [f64; 2]| bits.map(|bits| bits / 1e6);
    let (fabric, rack) = (
        mbit(both(played, racks, FABRIC)?),
        mbit(both(played, racks, RACK)?),
    );
    let text_rack = text.rack / 1e6;
    let text_fabric = mbit(text.fabric);
    let ours = by_side(played, racks)?;
    let pair = |what, names, text, ours| Pair {
        what,
        names,
        text,
        ours,
        equal: 0.0,
    };
    let across = |[stores, workers]: [[f64; 2]; 2], of: usize| [stores[of], workers[of]];
    let text_again = [text.by_stores, text.by_workers];
    let pairs = [
        pair(
            "Mbit dropped in the fabric in three runs",
            CONTROLS,
            text_fabric,
            fabric,
        ),
        pair("in racks", CONTROLS, [text_rack, 0.0], rack),
        pair(
            "of CUBIC's",
            ["fabric", "racks"],
            [text_fabric[0], text_rack],
            [fabric[0], rack[0]],
        ),
        pair(
            "sent again by stores, %",
            CONTROLS,
            text.by_stores,
            ours.again[0],
        ),
        pair("by workers", CONTROLS, text.by_workers, ours.again[1]),
        pair(
            "with CUBIC",
            SIDES,
            across(text_again, 0),
            across(ours.again, 0),
        ),
        pair(
            "with DCTCP",
            SIDES,
            across(text_again, 1),
            across(ours.again, 1),
        ),
        Pair {
            equal: 1.0,
            ..pair(
                "processors with DCTCP, % more",
                SIDES,
                text.processor,
                ours.processor,
            )
        },
        pair(
            "marked with DCTCP on the way to, %",
            SIDES,
            text.marked,
            ours.marked,
        ),
    ];
    Ok(Finding::all(pairs.iter().filter_map(Pair::finding)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judged;

    #[test]
    fn the_order_is_that_of_the_text_or_there_is_none() {
        let judged = |text, ours, equal| {
            let pair = Pair {
                what: "again",
                names: SIDES,
                text,
                ours,
                equal,
            };
            pair.finding().map(|finding| finding.judged)
        };
        assert_eq!(judged([2.0, 1.0], [9.0, 0.5], 0.0), Some(Judged::Holds));
        assert_eq!(judged([2.0, 1.0], [0.5, 9.0], 0.0), Some(Judged::Differs));
        assert_eq!(judged([2.0, 1.0], [1.0, 1.0], 0.0), Some(Judged::Differs));
        assert_eq!(judged([1.0, 1.0], [9.0, 0.5], 0.0), None);
        assert_eq!(judged([0.0, 1.0], [9.0, 0.5], 1.0), None);
    }
}
