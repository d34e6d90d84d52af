//! What tests of reports share, here and in the packages above.

/// That `xml` has its elements closed in order, its attributes quoted, and no stray `&`.
///
/// # Panics
/// Where it has not.
pub fn well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        assert!(!text.contains('>'), "stray > in {text}");
        for (i, _) in text.match_indices('&') {
            assert!(
                text[i..].split_once(';').is_some_and(|(e, _)| e.len() < 6),
                "{text}"
            );
        }
        let end = tag.find('>').expect("a tag ends");
        let (body, after) = (&tag[1..end], &tag[end + 1..]);
        assert_eq!(body.matches('"').count() % 2, 0, "quotes in {body}");
        let name = body.trim_matches('/').split_whitespace().next().unwrap();
        if body.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !body.ends_with('/') {
            open.push(name);
        }
        rest = after;
    }
    assert!(open.is_empty(), "{open:?}");
}
