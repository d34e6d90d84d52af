//! The bodies of the fuzz targets: each takes any bytes and panics when something is wrong.
//!
//! `fuzz/` makes programs of them, `tests/corpus.rs` runs the committed inputs through them, and
//! `.ci/fuzz` fuzzes them.

mod captures;
mod frames;
mod input;
mod options;
mod packets;
mod schedules;
mod scripts;
pub mod seeds;
mod segments;
mod shared;
mod two;

/// A body by its name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, that of the program in `fuzz/` and of the folder in `fuzz/seeds/`.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
    /// The longest input that is of use.
    pub max_len: usize,
}

/// All of them.
pub const TARGETS: [Target; 9] = [
    Target {
        name: "options",
        run: options::run,
        max_len: 64,
    },
    Target {
        name: "packets",
        run: packets::run,
        max_len: 256,
    },
    Target {
        name: "segments",
        run: segments::run,
        max_len: 1_024,
    },
    Target {
        name: "frames",
        run: frames::run,
        max_len: 2_048,
    },
    Target {
        name: "shared",
        run: shared::run,
        max_len: 512,
    },
    Target {
        name: "schedules",
        run: schedules::run,
        max_len: 512,
    },
    Target {
        name: "scripts",
        run: scripts::run,
        max_len: 2_048,
    },
    Target {
        name: "captures",
        run: captures::run,
        max_len: 2_048,
    },
    Target {
        name: "two",
        run: two::run,
        max_len: 2_048,
    },
];

/// The target called `name`.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|t| t.name == name);
    *found.unwrap_or_else(|| panic!("no fuzz target is called {name}"))
}
