//! The name that was meant, for what has none.

/// The most similar of `names`, if it is at most a third of its letters away or starts with
/// what was given. The first of equals.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    names
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let distance = strsim::damerau_levenshtein(&given, &lower);
            let length = given.chars().count().max(lower.chars().count());
            let starts = given.len() >= 2 && lower.starts_with(&given);
            (starts || distance * 3 <= length.max(3)).then_some((distance, name))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_matches() {
        let names = ["reno", "newreno", "sack", "rack"];
        for (given, expected) in [
            ("neqreno", Some("newreno")),
            ("SACK", Some("sack")),
            ("new", Some("newreno")),
            ("rakc", Some("rack")),
            ("remo", Some("reno")),
            ("fack", Some("sack")),
            ("bbr", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(given, names.into_iter()), expected, "{given}");
        }
    }
}
