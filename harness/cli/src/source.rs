//! The text that a command is given: a file, or an experiment that ships.

use super::Stop;
use narrows_experiment::file::FileErrors;
use narrows_experiment::shipped::{self, Shipped};
use narrows_story::stories;
use std::fs;

/// The text of what `name` names: a file, or what ships.
pub(super) fn read(name: &str) -> Result<(String, String), Stop> {
    // A file by its looks, or because it is there.
    let looks_like_a_file = name.ends_with(".toml") || name.contains(['/', '\\']);
    if !looks_like_a_file && let Ok(shipped) = Shipped::get(name) {
        return Ok((format!("<{name}>"), shipped.text.to_owned()));
    }
    match fs::read_to_string(name) {
        Ok(text) => Ok((name.to_owned(), text)),
        Err(_) if !looks_like_a_file => {
            let all: Vec<&str> = shipped::ALL.iter().map(|s| s.name).collect();
            let near = match Shipped::get(name) {
                _ if stories::get(name).is_some() => {
                    format!("there is a story of that name: narrows story {name}")
                }
                Err(Some(near)) => format!("did you mean '{near}'?"),
                _ => format!("experiments that ship are {}", all.join(", ")),
            };
            Err(Stop::Failed(format!(
                "there is no file and no experiment '{name}'; {near}"
            )))
        }
        Err(e) => Err(Stop::Failed(format!("cannot read {name}: {e}"))),
    }
}

/// What is wrong with a file.
pub(super) fn wrong(errors: &FileErrors) -> Stop {
    let n = errors.errors.len();
    let count = match n {
        1 => String::new(),
        n => format!("\n\n{n} mistakes"),
    };
    Stop::Wrong(format!("{errors}{count}\n"))
}
