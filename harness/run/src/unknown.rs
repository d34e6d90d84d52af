//! What is said of a name that there is not.

use narrows_net::near_match::nearest;

/// There is no `name`.
pub fn unknown<'a>(noun: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = names.collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("there is no {noun} '{name}'; did you mean '{near}'?"),
        None => format!(
            "there is no {noun} '{name}'; known are {}",
            known.join(", ")
        ),
    }
}
