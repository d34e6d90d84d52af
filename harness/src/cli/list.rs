//! `narrows list`: everything that has a name.

use super::catalog::{Catalog, Kind};
use std::fmt::Write;

/// Every name with its line, by kind; with `parameters` also how each is written.
pub(super) fn text(catalog: &Catalog, parameters: bool, bold: bool) -> String {
    let names = Kind::ALL.iter().flat_map(|kind| catalog.entries(*kind));
    let width = names.map(|e| e.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for kind in Kind::ALL {
        let gap = if out.is_empty() { "" } else { "\n" };
        let (on, off) = if bold {
            ("\x1b[1m", "\x1b[0m")
        } else {
            ("", "")
        };
        let _ = writeln!(out, "{gap}{on}{}{off}", kind.heading());
        for e in catalog.entries(kind) {
            let _ = writeln!(out, "  {:<width$}  {}", e.name, e.summary);
            if parameters && e.usage != e.name {
                let _ = writeln!(out, "  {:<width$}    {}", "", e.usage);
            }
        }
    }
    out
}
