//! What a story runs: experiments that ship, with some keys set.

/// How much of a story runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// What takes less than a minute.
    #[default]
    Usual,
    /// All rows, with all their runs.
    Full,
}

/// Keys, or an experiment's short names, with a value; or with several, between commas.
pub type Keys = &'static [(&'static str, &'static str)];

/// An experiment that ships, as a story runs it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Its name in the story.
    pub name: &'static str,
    /// The experiment that ships.
    pub experiment: &'static str,
    /// What is set that scenes share, in lists; `set` comes after.
    pub common: &'static [Keys],
    /// What is set, or varied.
    pub set: Keys,
    /// The same unless all rows are asked for.
    pub usually: Keys,
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

impl When {
    /// Whether it is now.
    pub fn is_in(self, extent: Extent) -> bool {
        self == Self::Always || extent == Extent::Full
    }
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

    /// With the keys of these lists set, which others share.
    #[must_use]
    pub const fn sharing(self, common: &'static [Keys]) -> Self {
        Self { common, ..self }
    }

    /// The same under another name.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// With these keys set, or varied where a value has commas.
    #[must_use]
    pub const fn with(self, set: Keys) -> Self {
        Self { set, ..self }
    }

    /// With these keys set or varied unless all rows are asked for: what makes it short.
    #[must_use]
    pub const fn usually(self, usually: Keys) -> Self {
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

    /// All of its runs is kept: [`Scenery::outcomes`](crate::played::Scenery::outcomes).
    #[must_use]
    pub const fn keeping_outcomes(self) -> Self {
        Self {
            keep: Keep::Outcomes,
            ..self
        }
    }
}
