//! What is said of a name that there is not.

use narrows_net::near_match::nearest;

/// There is no `name`.
pub(crate) fn unknown<'a>(
    noun: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match nearest(name, names.clone()) {
        Some(near) => format!("there is no {noun} '{name}'; did you mean '{near}'?"),
        None => {
            let known: Vec<&str> = names.collect();
            format!(
                "there is no {noun} '{name}'; known are {}",
                known.join(", ")
            )
        }
    }
}
