//! Knobs: what an experiment depends on, one table entry each.
//!
//! A knob stands once, in the [`Knobs::TABLE`] of the section of an experiment that it is a value
//! of: its key, its title, what it means, what it may be, where that comes from, and the field it
//! sets. The key in a file, the axis of a sweep, the column of a result and the line of
//! `narrows keys` are made of that entry.

mod kind;
mod quantity;

pub use kind::Kind;
#[doc(hidden)]
pub use kind::Meaning;
pub use quantity::{Choice, Quantity};

use narrows_net::near_match::nearest;
use std::fmt;

/// A value of the section `S` of an experiment.
#[derive(Debug)]
pub struct Knob<S: 'static> {
    /// Its name, documentation and range.
    pub about: About,
    /// The value as a file has it; `None` where it is not set and has no word for that.
    pub get: fn(&S) -> Option<String>,
    /// Sets it, in range.
    pub set: fn(&mut S, &str) -> Result<(), String>,
}

/// What a knob is, for people and tools.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// The key within its section.
    pub key: &'static str,
    /// The name for people: `congestion control`.
    pub title: &'static str,
    /// What it means, a sentence or two.
    pub meaning: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// The standard, the paper or the device that it comes from; empty where it needs none.
    pub source: &'static str,
}

/// A section of an experiment, a table of knobs.
pub trait Knobs: fmt::Debug + Sized + 'static {
    /// Its knobs, in the order in which they are shown.
    const TABLE: &'static [Knob<Self>];
}

/// A section of whatever type.
pub trait Section: fmt::Debug {
    /// What its knobs are.
    fn knobs(&self) -> Vec<About>;
    /// The value of a knob as a file has it; `None` if it is not set, or there is none.
    fn get(&self, key: &str) -> Option<String>;
    /// Sets a knob.
    ///
    /// # Errors
    /// If there is no such knob, or it cannot be that.
    fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError>;
}

impl<S: Knobs> Section for S {
    fn knobs(&self) -> Vec<About> {
        abouts(S::TABLE.len(), &|n| &S::TABLE[n].about)
    }

    fn get(&self, key: &str) -> Option<String> {
        let found = find(key, S::TABLE.len(), &|n| &S::TABLE[n].about)?;
        (S::TABLE[found].get)(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError> {
        let (len, about) = (S::TABLE.len(), |n: usize| &S::TABLE[n].about);
        let Some(found) = find(key, len, &about) else {
            let known = abouts(len, &about);
            return Err(KnobError::unknown(key, known.iter().map(|about| about.key)));
        };
        (S::TABLE[found].set)(self, value).map_err(KnobError::value)
    }
}

// Compiled once, not for each table: what all knobs of a table are, and which is called `key`.

fn abouts(len: usize, about: &dyn Fn(usize) -> &'static About) -> Vec<About> {
    (0..len).map(|n| *about(n)).collect()
}

fn find(key: &str, len: usize, about: &dyn Fn(usize) -> &'static About) -> Option<usize> {
    (0..len).find(|n| about(*n).key == key)
}

/// Why a knob was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobError {
    /// There is none of this name here.
    Unknown {
        /// What was given.
        key: String,
        /// What was meant, probably.
        near: Option<String>,
        /// All there are.
        known: Vec<String>,
    },
    /// It cannot be that.
    Value {
        /// Why not, and what it can be.
        why: String,
    },
}

impl KnobError {
    /// There is no `key` among `known`.
    pub fn unknown<'a>(key: &str, mut known: impl Iterator<Item = &'a str>) -> Self {
        Self::unknown_among(key, &mut known)
    }

    /// Compiled once, not for each table.
    fn unknown_among(key: &str, known: &mut dyn Iterator<Item = &str>) -> Self {
        let known: Vec<&str> = known.collect();
        Self::Unknown {
            key: key.to_owned(),
            near: nearest(key, known.iter().copied()).map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }

    /// It cannot be that, because of `why`.
    pub fn value(why: impl Into<String>) -> Self {
        Self::Value { why: why.into() }
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown {
                key,
                near: Some(near),
                ..
            } => write!(f, "there is no '{key}' here; did you mean '{near}'?"),
            Self::Unknown { key, known, .. } if known.is_empty() => {
                write!(f, "there is no '{key}': nothing can be set here")
            }
            Self::Unknown { key, known, .. } => write!(
                f,
                "there is no '{key}' here; what can be set is {}",
                known.join(", ")
            ),
            Self::Value { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for KnobError {}

/// A [`Knob`] of a section for a field that is a [`Quantity`].
///
/// ```
/// use narrows_run::knob::{Kind, Knob, Knobs, Section};
/// use narrows_run::knob;
///
/// #[derive(Debug, Default)]
/// struct Pinging {
///     size: narrows::ByteCount,
/// }
/// impl Knobs for Pinging {
///     const TABLE: &'static [Knob<Self>] = &[knob! {
///         size: "size", "ping size", Kind::Size { least: 1, most: 1 << 20 },
///         "Payload of a ping."
///     }];
/// }
/// let mut pinging = Pinging::default();
/// pinging.set("size", "2kB").unwrap();
/// assert_eq!(pinging.size.get(), 2_000);
/// assert!(pinging.set("size", "2MB").unwrap_err().to_string().contains("1B to 1MiB"));
/// assert!(pinging.set("sice", "2kB").unwrap_err().to_string().contains("did you mean 'size'?"));
/// ```
#[macro_export]
macro_rules! knob {
    ($($field:ident).+ : $key:literal, $title:literal, $kind:expr, $meaning:literal $(, $source:literal)? $(,)?) => {
        $crate::knob::Knob {
            about: $crate::knob::About {
                key: $key,
                title: $title,
                meaning: $meaning,
                kind: $kind,
                source: concat!($($source)?),
            },
            get: |section| $crate::knob::Quantity::show(&section.$($field).+),
            set: |section, text| {
                const KIND: $crate::knob::Kind = $kind;
                section.$($field).+ = KIND.read(text)?;
                Ok(())
            },
        }
    };
}
