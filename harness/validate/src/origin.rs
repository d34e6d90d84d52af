//! What the references are: measurements of a paper, an equation, another program, a model of our
//! own.
//!
//! A row says where its reference comes from in words of its own ([`Row::source`](super::Row::source)).
//! `harness/validate/reference/origins.tsv` says of each beginning of such words which reference that is.

const LIST: &str = include_str!("../reference/origins.tsv");

/// Of which sort a reference is: how far it is from our own hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What authors measured on their machines and published.
    Measured,
    /// What authors say in words.
    Stated,
    /// An equation or a model that was published, computed here.
    Equation,
    /// Figures, tables and rules of an RFC.
    Rfc,
    /// What another program gave when it was run, kept as data.
    Recorded,
    /// Another program, run beside ours.
    Here,
    /// A formula or a model of our own.
    Model,
    /// An earlier run of our own.
    Ours,
    /// No reference.
    Nothing,
}

/// One reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its sort.
    pub kind: Kind,
    /// Its name, short: `RFC 9438`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    begins: Vec<&'static str>,
}

/// All references that rows have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins(Vec<Origin>);

impl Kind {
    /// All, the farthest from our own hands first.
    pub const ALL: [Self; 9] = [
        Self::Measured,
        Self::Stated,
        Self::Equation,
        Self::Rfc,
        Self::Recorded,
        Self::Here,
        Self::Model,
        Self::Ours,
        Self::Nothing,
    ];

    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Stated => "stated",
            Self::Equation => "equation",
            Self::Rfc => "RFC",
            Self::Recorded => "recorded",
            Self::Here => "here",
            Self::Model => "our model",
            Self::Ours => "our record",
            Self::Nothing => "none",
        }
    }

    /// What the word means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Measured => "what authors measured on their machines and published",
            Self::Stated => "what authors say in words; the number that is held against it is ours",
            Self::Equation => "an equation or a model that was published, computed by us",
            Self::Rfc => "tables, figures, equations and rules of an RFC",
            Self::Recorded => "what another simulator or TCP gave when it was run, kept as data",
            Self::Here => "another program, run beside ours",
            Self::Model => "a formula or a model of our own, from rules that others published",
            Self::Ours => "an earlier run of narrows itself",
            Self::Nothing => "no reference",
        }
    }
}

impl Origins {
    /// Those of `harness/validate/reference/origins.tsv`.
    ///
    /// # Panics
    /// If the file is not such a list; a test reads it.
    pub fn known() -> Self {
        Self::parse(LIST)
    }

    fn parse(list: &'static str) -> Self {
        let mut all: Vec<Origin> = Vec::new();
        for line in list.lines().filter(|l| !l.starts_with('#')) {
            if let Some(begin) = line.strip_prefix('\t') {
                let last = all.last_mut().expect("a reference before its sources");
                last.begins.push(begin);
                continue;
            }
            let mut cells = line.splitn(3, '\t');
            let mut cell = || {
                cells
                    .next()
                    .unwrap_or_else(|| panic!("a cell more: {line}"))
            };
            let (kind, name, what) = (cell(), cell(), cell());
            let kind = Kind::ALL.into_iter().find(|k| k.name() == kind);
            all.push(Origin {
                kind: kind.unwrap_or_else(|| panic!("what kind is that: {line}")),
                name,
                what,
                begins: Vec::new(),
            });
        }
        Self(all)
    }

    /// The reference of a row with this [source](super::Row::source): the longest beginning that
    /// fits.
    pub fn of(&self, source: &str) -> Option<&Origin> {
        let fits = |o: &Origin| {
            let begins = o.begins.iter().filter(|b| source.starts_with(**b));
            begins.map(|b| b.len()).max()
        };
        let best = self.0.iter().filter_map(|o| Some((fits(o)?, o)));
        best.max_by_key(|(length, _)| *length).map(|(_, o)| o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_longest_beginning_decides() {
        let list = "# remark\nmeasured\tA paper\tits tables\n\tA paper\nour model\tours\tof it\n\tA paper, drawn\n";
        let origins = Origins::parse(list);
        let of = |source| origins.of(source).map(|o| (o.name, o.kind));
        assert_eq!(of("A paper, table 1"), Some(("A paper", Kind::Measured)));
        assert_eq!(of("A paper, drawn anew"), Some(("ours", Kind::Model)));
        assert_eq!(of("Another paper"), None);
    }

    #[test]
    fn the_list_names_each_reference_once_and_no_beginning_is_empty() {
        let Origins(all) = Origins::known();
        let (mut names, mut begins) = (BTreeSet::new(), BTreeSet::new());
        for origin in &all {
            assert!(names.insert(origin.name), "{} is there twice", origin.name);
            assert!(!origin.what.is_empty() && !origin.what.ends_with('.'));
            assert!(!origin.begins.is_empty(), "{} has no rows", origin.name);
            for begin in &origin.begins {
                assert!(!begin.trim().is_empty() && begins.insert(begin), "{begin}");
            }
        }
    }
}
