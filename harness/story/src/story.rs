//! A story as data.

use crate::grid::{Column, Grid};
use crate::judge::Finding;
use crate::played::{Answer, Played};
use crate::scene::Scene;
use crate::twin::Twin;
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
    /// What it shows in figures: the first one tells it.
    pub figures: &'static [Figure],
    /// What to run or read next.
    pub next: &'static [Next],
    /// Its twin on kernels.
    pub live: Live,
}

/// A figure of a story.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name among those of the story; empty for the one that tells it.
    pub name: &'static str,
    /// Draws it.
    pub draw: fn(&Played) -> Answer<Chart>,
}

impl Figure {
    /// The one that tells the story.
    pub const fn first(draw: fn(&Played) -> Answer<Chart>) -> Self {
        Self { name: "", draw }
    }

    /// Another one, by its name.
    pub const fn named(name: &'static str, draw: fn(&Played) -> Answer<Chart>) -> Self {
        Self { name, draw }
    }
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

    /// It, of what was played.
    ///
    /// # Errors
    /// If what it shows did not run.
    pub fn grid(&self, played: &Played) -> Answer<Grid> {
        match self.made {
            Contents::Own(make) => make(played),
            Contents::Points { scene, at, columns } => played.scene(scene)?.grid(at, columns),
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
    /// It takes the runs of `--full`; why.
    pub in_full: Option<&'static str>,
}

impl Row {
    /// A claim that `judge` judges.
    pub const fn new(claim: &'static str, judge: fn(&Played) -> Answer<Finding>) -> Self {
        Self {
            claim,
            judge,
            because: None,
            in_full: None,
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

    /// It takes the runs of `--full` to judge it, for this reason. What fewer runs give is shown, and
    /// without a reason ([`Self::because`]) it has to hold where all run.
    #[must_use]
    pub const fn in_full(self, why: &'static str) -> Self {
        Self {
            in_full: Some(why),
            ..self
        }
    }
}

/// The twin of a story on kernels, in network namespaces.
#[derive(Clone, Copy, Debug)]
pub enum Live {
    /// It has one.
    Twin(Twin),
    /// It cannot have one; why.
    Cannot(&'static str),
    /// Another command is its twin: which, and what it has.
    Elsewhere(&'static str),
}
