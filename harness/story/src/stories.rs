//! The stories.

pub mod burst;
pub mod busyport;
pub mod enobufs;
pub mod incast;
pub mod pause;
pub mod rack_coalesce;
pub mod rack_tails;
pub mod rack_unfair;
pub mod racks;
pub mod writes;

use crate::story::Story;

/// All that run. One file each, and a line here.
pub const ALL: &[&Story] = &[
    &burst::STORY,
    &busyport::STORY,
    &enobufs::STORY,
    &incast::STORY,
    &pause::STORY,
    &rack_coalesce::STORY,
    &rack_tails::STORY,
    &rack_unfair::STORY,
    &racks::STORY,
    &writes::STORY,
];

/// Those that are to be, in the order of the list: names, and a sentence for what does not run yet.
const LISTED: &[(&str, &str)] = &[
    (
        "burst",
        "A port that looks a quarter full when it is read each second overflows within milliseconds.",
    ),
    (
        "busyport",
        "A full port suspends a writer of an Erlang node, and peers on idle links wait with it.",
    ),
    (
        "incast",
        "Servers that answer at once overfill one port, and the block waits for a timeout.",
    ),
    (
        "pause",
        "Pause frames cure one switch, and stop the innocent across several.",
    ),
    (
        "enobufs",
        "A refused send resets the window of a storage server, to a fifth of its speed.",
    ),
    (
        "writes",
        "Four one-byte writes wait 40 ms for an ACK, though Nagle's algorithm is off.",
    ),
    (
        "rack unfair",
        "Three senders to one receiver get 25, 25 and 50 % whatever their congestion control.",
    ),
    (
        "rack coalesce",
        "Interrupts that wait for company make two round-trip times of one.",
    ),
    (
        "rack tails",
        "A DCTCP receiver that forgets an ACK gives tails of 40 and 200 ms.",
    ),
    (
        "racks",
        "Six racks: DCTCP drops less, and its marks cost the receiver its merging.",
    ),
];

/// Name and sentence of each story, those that nothing runs yet included.
pub fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
    LISTED.iter().map(|(name, about)| {
        let about = get(name).map_or(*about, |story| story.about);
        (*name, about)
    })
}

/// The story with a name, if it runs.
pub fn get(name: &str) -> Option<&'static Story> {
    ALL.iter().find(|s| s.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;
    use crate::scene::Extent;
    use crate::stage::Stage;
    use crate::story::Live;
    use narrows_experiment::plan::Plan;

    #[test]
    fn each_story_is_listed_and_judges_claims_that_there_are_once() {
        let mut judged = Vec::new();
        for story in ALL {
            assert!(
                listed().any(|(name, _)| name == story.name),
                "{}",
                story.name
            );
            for row in story.rows {
                assert!(claims::get(row.claim).is_some(), "{}", row.claim);
                assert!(
                    !judged.contains(&row.claim),
                    "{} is judged twice",
                    row.claim
                );
                judged.push(row.claim);
            }
        }
    }

    #[test]
    fn each_scene_is_a_possible_experiment_in_short_and_in_full() {
        let registry = narrows_explain::simulated::registry();
        for story in ALL {
            let live = match story.live {
                Live::Twin(twin) => twin.scenes,
                Live::Cannot(_) | Live::Elsewhere(_) => &[],
            };
            for scene in story.scenes.iter().chain(live) {
                for extent in [Extent::Usual, Extent::Full] {
                    let stage = Stage {
                        extent,
                        ..Stage::new(&registry)
                    };
                    let experiment = stage.experiment(scene);
                    let at = format!("{}, {}", story.name, scene.name);
                    let experiment = experiment.unwrap_or_else(|e| panic!("{at}: {e}"));
                    let plan = Plan::new(&experiment, &registry);
                    let checked = plan.and_then(|plan| plan.check(&registry));
                    checked.unwrap_or_else(|e| panic!("{at}: {e}"));
                }
            }
        }
    }
}
