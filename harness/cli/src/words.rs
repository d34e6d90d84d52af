//! Options that are one of a few words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A word, what it is in help, and what it stands for.
pub(crate) type Word<T> = (&'static str, &'static str, T);

/// Reads one of `words`.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    words: &'static [Word<T>],
) -> impl TypedValueParser<Value = T> {
    let shown = words.iter().map(|(word, help, _)| match *help {
        "" => PossibleValue::new(*word),
        help => PossibleValue::new(*word).help(help),
    });
    PossibleValuesParser::new(shown).try_map(move |given| {
        let found = words.iter().find(|(word, ..)| *word == given);
        found.map(|(.., value)| *value).ok_or("is no such word")
    })
}
