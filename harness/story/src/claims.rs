//! What the texts claim: a table, `claims.tsv`.

use std::sync::OnceLock;

/// A claim of one of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name: `M17`. The letter says which text: I incast in storage clusters, M microbursts and
    /// the busy port, E a local drop, S four one-byte writes, D DCTCP in a rack and in six racks.
    pub id: &'static str,
    /// Which story tells it.
    pub story: &'static str,
    /// What the text says.
    pub says: &'static str,
    /// What is to be shown, with the tolerance.
    pub show: &'static str,
    /// What it takes; empty if nothing but a row.
    pub needs: &'static str,
}

/// All of them, by text and number.
pub fn all() -> &'static [Claim] {
    static ALL: OnceLock<Vec<Claim>> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = include_str!("claims.tsv").lines();
        let lines = lines.filter(|l| !l.is_empty() && !l.starts_with('#'));
        lines.filter_map(claim).collect()
    })
}

fn claim(line: &'static str) -> Option<Claim> {
    let mut cells = line.split('\t');
    Some(Claim {
        id: cells.next()?,
        story: cells.next()?,
        says: cells.next()?,
        show: cells.next()?,
        needs: cells.next().unwrap_or_default(),
    })
}

/// The claim with a name.
pub fn get(id: &str) -> Option<&'static Claim> {
    all().iter().find(|c| c.id == id)
}

/// The claims that a story tells.
pub fn of_story(name: &str) -> impl Iterator<Item = &'static Claim> {
    all().iter().filter(move |c| c.story == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_texts_make_102_claims() {
        let count = |letter: char| all().iter().filter(|c| c.id.starts_with(letter)).count();
        let counts = ['M', 'I', 'E', 'S', 'D'].map(count);
        assert_eq!(counts, [35, 15, 13, 13, 26]);
        assert_eq!(all().len(), 102);
        for (n, claim) in all().iter().enumerate() {
            assert!(all()[..n].iter().all(|c| c.id != claim.id), "{}", claim.id);
            let cells = [claim.story, claim.says, claim.show];
            assert!(cells.iter().all(|c| !c.is_empty()), "{}", claim.id);
        }
    }

    #[test]
    fn each_claim_is_in_a_story_that_is_listed() {
        for claim in all() {
            let known = crate::stories::listed().any(|(name, _)| name == claim.story);
            assert!(known, "{}: {}", claim.id, claim.story);
        }
    }
}
