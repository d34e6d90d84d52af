//! A story as data.

use crate::judge::Finding;
use crate::stage::{Answer, Played};
use narrows_report::chart::Chart;
use std::fmt;

/// A story: what runs, what is shown of it, and what is claimed.
#[derive(Debug)]
pub struct Story {
    /// Its name on the command line: `burst`, `rack unfair`.
    pub name: &'static str,
    /// A sentence that says what it is about.
    pub about: &'static str,
    /// What runs, in this order.
    pub scenes: &'static [Scene],
    /// The variants side by side.
    pub tables: &'static [Table],
    /// The phenomenon in a sentence, with numbers that were measured.
    pub phenomenon: fn(&Played) -> Answer<String>,
    /// The claims that it judges. Others of [`claims::of_story`](crate::claims::of_story) are open.
    pub rows: &'static [Row],
    /// The one figure that tells it.
    pub figure: Option<fn(&Played) -> Answer<Chart>>,
    /// What to run or read next.
    pub next: &'static [Next],
    /// Its twin on kernels.
    pub live: Live,
}

/// A command to run next, or a page to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The command line, as it is to be typed, or the page.
    pub what: &'static str,
    /// What it shows.
    pub shows: &'static str,
}

impl Next {
    /// A command, or a page, with what it shows.
    pub const fn new(what: &'static str, shows: &'static str) -> Self {
        Self { what, shows }
    }
}

/// An experiment that ships, as a story runs it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Its name in the story.
    pub name: &'static str,
    /// The experiment that ships.
    pub experiment: &'static str,
    /// Keys, or the experiment's short names, with a value, which scenes share; `set` comes after.
    pub common: &'static [(&'static str, &'static str)],
    /// Keys, or the experiment's short names, with a value; or with several, between commas, over
    /// which they are varied.
    pub set: &'static [(&'static str, &'static str)],
    /// The same unless all rows are asked for.
    pub usually: &'static [(&'static str, &'static str)],
    /// When it runs.
    pub when: When,
    /// What is kept of its runs.
    pub keep: Keep,
}

/// When a scene runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// With all rows, `--full`.
    InFull,
}

/// What is kept of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its metrics.
    Metrics,
    /// All of it: each transfer, flow, port, and series of probes.
    Outcomes,
}

impl Scene {
    /// A scene that runs a shipped experiment as it is.
    pub const fn new(name: &'static str, experiment: &'static str) -> Self {
        Self {
            name,
            experiment,
            common: &[],
            set: &[],
            usually: &[],
            when: When::Always,
            keep: Keep::Metrics,
        }
    }

    /// With these keys set, which others share.
    #[must_use]
    pub const fn sharing(self, common: &'static [(&'static str, &'static str)]) -> Self {
        Self { common, ..self }
    }

    /// The same under another name.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// With these keys set, or varied where a value has commas.
    #[must_use]
    pub const fn with(self, set: &'static [(&'static str, &'static str)]) -> Self {
        Self { set, ..self }
    }

    /// With these keys set or varied unless all rows are asked for: what makes it short.
    #[must_use]
    pub const fn usually(self, usually: &'static [(&'static str, &'static str)]) -> Self {
        Self { usually, ..self }
    }

    /// It runs with all rows only.
    #[must_use]
    pub const fn in_full(self) -> Self {
        Self {
            when: When::InFull,
            ..self
        }
    }

    /// All of its runs is kept: [`Scenery::outcomes`](crate::stage::Scenery::outcomes).
    #[must_use]
    pub const fn keeping_outcomes(self) -> Self {
        Self {
            keep: Keep::Outcomes,
            ..self
        }
    }
}

/// A table of variants.
#[derive(Clone, Copy)]
pub struct Table {
    /// What it shows, in a line.
    pub title: &'static str,
    /// How it is made.
    pub made: Contents,
}

/// How a table is made.
#[derive(Clone, Copy)]
pub enum Contents {
    /// A row for each point of a scene at which keys have these values.
    Points {
        /// The scene.
        scene: &'static str,
        /// Keys, or short names, with values.
        at: &'static [(&'static str, &'static str)],
        /// The metrics.
        columns: &'static [Column],
    },
    /// Of one's own.
    Own(fn(&Played) -> Answer<Grid>),
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.title).finish()
    }
}

impl Table {
    /// A row for each point of a scene.
    pub const fn points(
        title: &'static str,
        scene: &'static str,
        columns: &'static [Column],
    ) -> Self {
        Self::points_at(title, scene, &[], columns)
    }

    /// A row for each point of a scene at which keys have these values.
    pub const fn points_at(
        title: &'static str,
        scene: &'static str,
        at: &'static [(&'static str, &'static str)],
        columns: &'static [Column],
    ) -> Self {
        let made = Contents::Points { scene, at, columns };
        Self { title, made }
    }

    /// One that a function makes.
    pub const fn own(title: &'static str, make: fn(&Played) -> Answer<Grid>) -> Self {
        let made = Contents::Own(make);
        Self { title, made }
    }
}

/// A metric in a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What stands above it.
    pub title: &'static str,
    /// The metric: `latency.p99`, `port.s0->h0.max_bytes`.
    pub metric: &'static str,
}

impl Column {
    /// A metric under a title.
    pub const fn new(title: &'static str, metric: &'static str) -> Self {
        Self { title, metric }
    }
}

/// Rows of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// What stands above the columns.
    pub head: Vec<String>,
    /// How many columns are words, which stand left.
    pub words: usize,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// Without rows yet; the first `words` columns are words.
    pub fn new<const N: usize>(head: [&str; N], words: usize) -> Self {
        Self {
            head: head.map(str::to_owned).to_vec(),
            words,
            rows: Vec::new(),
        }
    }
}

/// A claim with what judges it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The claim's name: `M17`.
    pub claim: &'static str,
    /// What is measured, and whether that is what was to be shown.
    pub judge: fn(&Played) -> Answer<Finding>,
    /// Why it differs, if it does.
    pub because: Option<&'static str>,
}

impl Row {
    /// A claim that `judge` judges.
    pub const fn new(claim: &'static str, judge: fn(&Played) -> Answer<Finding>) -> Self {
        Self {
            claim,
            judge,
            because: None,
        }
    }

    /// Why it differs: what was found out, in a sentence. A row that differs without a reason makes
    /// the command fail.
    #[must_use]
    pub const fn because(self, why: &'static str) -> Self {
        Self {
            because: Some(why),
            ..self
        }
    }
}

/// Whether what was found is what was to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It is.
    Holds,
    /// It is not.
    Differs,
}

/// The twin of a story on kernels, in network namespaces.
#[derive(Clone, Copy, Debug)]
pub enum Live {
    /// It has one.
    Twin(Twin),
    /// It cannot have one; why.
    Cannot(&'static str),
    /// Nobody has built it; what it would be.
    Open(&'static str),
}

/// A twin on kernels.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// What it does, and what it leaves out, in a sentence or two.
    pub about: &'static str,
    /// Runs it: simulated and live in one table.
    pub run: fn(&crate::stage::Stage<'_>) -> Result<Grid, String>,
}
