//! Experiments that ship: files, by name.

use narrows_net::near_match::nearest;

/// An experiment that ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../shipped/", $name, ".toml")),
        }),*]
    };
}

/// All of them.
pub const ALL: &[Shipped] = shipped!["dumbbell", "leaf-spine", "two-senders"];

impl Shipped {
    /// The one with a name.
    ///
    /// # Errors
    /// The near match, if there is none.
    pub fn get(name: &str) -> Result<&'static Self, Option<&'static str>> {
        let found = ALL.iter().find(|s| s.name == name);
        found.ok_or_else(|| nearest(name, ALL.iter().map(|s| s.name)))
    }

    /// Its title.
    pub fn title(&self) -> &'static str {
        let line = self.text.lines().find(|l| l.starts_with("title = "));
        line.map_or("", |l| l["title = ".len()..].trim_matches('"'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Loaded, text_of};
    use crate::plan::Plan;
    use crate::registry::Registry;

    #[test]
    fn what_ships_can_be_run_as_printed() {
        let registry = Registry::default();
        for shipped in ALL {
            let loaded = Loaded::parse(shipped.name, shipped.text, &registry);
            let experiment = loaded.unwrap_or_else(|e| panic!("{e}")).experiment;
            assert_eq!(experiment.title, shipped.title());
            assert!(!experiment.about.is_empty(), "{}", shipped.name);
            let plan = Plan::new(&experiment, &registry).unwrap();
            plan.check(&registry)
                .unwrap_or_else(|e| panic!("{}: {e}", shipped.name));
            let again = Loaded::parse(shipped.name, &text_of(&experiment), &registry).unwrap();
            assert_eq!(text_of(&again.experiment), text_of(&experiment));
        }
    }
}
