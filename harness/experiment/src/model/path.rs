//! Keys as people write them: words with dots between, those with dots of their own in quotes.

use std::fmt;

/// A key: `traffic.get.load`, `network.port."s0->h0".queue.limit`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<String>);

impl Path {
    /// The words of a key.
    ///
    /// # Errors
    /// If a quote is not closed, or a word is missing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = Vec::new();
        let mut rest = text.trim();
        loop {
            let word;
            (word, rest) = match rest.chars().next() {
                Some(quote @ ('"' | '\'')) => {
                    let Some((word, rest)) = rest[1..].split_once(quote) else {
                        return Err(format!("'{text}': a quote is not closed"));
                    };
                    (word, rest)
                }
                _ => rest.split_at(rest.find('.').unwrap_or(rest.len())),
            };
            if word.trim().is_empty() {
                return Err(format!("'{text}' is not a key: a word is missing"));
            }
            words.push(word.trim().to_owned());
            if rest.is_empty() {
                return Ok(Self(words));
            }
            rest = rest
                .strip_prefix('.')
                .ok_or_else(|| format!("'{text}' is not a key: expected a dot after a quote"))?;
        }
    }

    /// Of these words.
    pub fn new(words: Vec<String>) -> Self {
        Self(words)
    }

    /// Its words.
    pub fn words(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, word) in self.0.iter().enumerate() {
            let dot = if n == 0 { "" } else { "." };
            write!(f, "{dot}{}", quoted(word))?;
        }
        Ok(())
    }
}

/// A word of a key, in quotes where it needs them.
pub fn quoted(word: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !word.is_empty() && word.chars().all(bare) {
        return word.to_owned();
    }
    if word.contains('"') {
        return format!("'{word}'");
    }
    format!("\"{word}\"")
}

/// Values with commas between them, each a value or a range of whole numbers: `1-8`, `8-64+8`,
/// `1..64x2`. A name keeps its parameters: `reno,dctcp:g=1/32,floor=1` are two values.
///
/// # Errors
/// If one is missing, or a range is empty or endless.
pub(super) fn list(text: &str) -> Result<Vec<String>, String> {
    let mut values: Vec<String> = Vec::new();
    for item in text.split(',') {
        let item = item.trim();
        let parameter = item.contains('=') && !item.contains(':');
        match values
            .last_mut()
            .filter(|last| parameter && last.contains(':'))
        {
            Some(last) => *last = format!("{last},{item}"),
            None if item.is_empty() => return Err("a value is missing".to_owned()),
            None => match range(item)? {
                Some(numbers) => values.extend(numbers.iter().map(u64::to_string)),
                None => values.push(item.to_owned()),
            },
        }
    }
    Ok(values)
}

/// Most values of a range.
const MOST: usize = 10_000;

/// The whole numbers of a range, if it is one.
fn range(text: &str) -> Result<Option<Vec<u64>>, String> {
    let number = |t: &str| t.trim().parse::<u64>().ok();
    let Some((first, rest)) = text.split_once("..").or_else(|| text.split_once('-')) else {
        return Ok(None);
    };
    let (last, step) = match (rest.split_once('x'), rest.split_once('+')) {
        (Some((last, by)), _) => (last, number(by).map(|by| (0, by))),
        (None, Some((last, by))) => (last, number(by).map(|by| (by, 1))),
        (None, None) => (rest, Some((1, 1))),
    };
    let (Some(first), Some(last), Some((add, times))) = (number(first), number(last), step) else {
        return Ok(None);
    };
    if first > last || (add == 0 && (times < 2 || first == 0)) {
        return Err(format!("the range '{text}' is empty or has no end"));
    }
    let next = |n: &u64| n.checked_mul(times)?.checked_add(add);
    let numbers: Vec<u64> = std::iter::successors(Some(first), next)
        .take_while(|n| *n <= last)
        .take(MOST + 1)
        .collect();
    if numbers.len() > MOST {
        return Err(format!("the range '{text}' has more than {MOST} numbers"));
    }
    Ok(Some(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        for (text, words) in [
            ("run.seed", vec!["run", "seed"]),
            (
                r#"network.port."s0->h0".queue.limit"#,
                vec!["network", "port", "s0->h0", "queue", "limit"],
            ),
            ("a.'b.c'", vec!["a", "b.c"]),
        ] {
            let path = Path::parse(text).unwrap();
            assert_eq!(path.words(), words);
            assert_eq!(Path::parse(&path.to_string()), Ok(path));
        }
        for text in ["", ".", "a.", "a..b", "\"a", "\"a\"b", "\"\".a"] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_have_ranges_and_names_keep_their_parameters() {
        for (text, values) in [
            ("a, b", vec!["a", "b"]),
            ("1-3,8", vec!["1", "2", "3", "8"]),
            ("1..64x4", vec!["1", "4", "16", "64"]),
            ("8-24+8", vec!["8", "16", "24"]),
            (
                "reno,dctcp:g=1/32,floor=1,cubic",
                vec!["reno", "dctcp:g=1/32,floor=1", "cubic"],
            ),
            ("20us-80us,a-b", vec!["20us-80us", "a-b"]),
            ("h0..h7", vec!["h0..h7"]),
        ] {
            assert_eq!(list(text).unwrap(), values, "{text}");
        }
        for text in ["", "a,,b", "4-1", "1..8x1", "0..8x2", "1-100000"] {
            assert!(list(text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9.,:+x\"' ->-]{0,24}|\\PC{0,12}") {
            let _ = list(&text);
            if let Ok(path) = Path::parse(&text) {
                let _ = path.to_string();
            }
        }
    }
}
