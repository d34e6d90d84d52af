//! `narrows list`: everything that has a name.

use super::catalog::{Catalog, Kind};
use std::fmt::Write;

/// Every name with its line, by kind; with `parameters` also how each is written.
pub(super) fn text(catalog: &Catalog, parameters: bool, bold: bool) -> String {
    let mut out = String::new();
    for kind in Kind::ALL {
        let gap = if out.is_empty() { "" } else { "\n" };
        let (on, off) = if bold {
            ("\x1b[1m", "\x1b[0m")
        } else {
            ("", "")
        };
        let _ = writeln!(out, "{gap}{on}{}{off}", kind.heading());
        let entries = catalog.entries(kind);
        let names = entries.iter().map(|e| e.name.chars().count());
        let width = names.max().unwrap_or(0);
        for e in entries {
            let _ = writeln!(out, "  {:<width$}  {}", e.name, e.summary);
            if parameters && e.usage != e.name {
                let _ = writeln!(out, "  {:<width$}    {}", "", e.usage);
            }
        }
    }
    out
}
