//! The report: one HTML page that needs nothing from elsewhere.

use super::chart::ink::escape;
use std::fmt::Write;

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");

/// Begin a page: head, heading, and the story in a box.
pub fn begin(o: &mut String, heading: &str, lead: &str, story: &[String]) {
    let _ = write!(
        o,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"narrows {version}\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <title>{heading} - narrows</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{heading}</h1>\n<p class=\"lead\">{lead}</p>\n<section class=\"story\">\n",
        version = narrows_experiment::version::text(),
        heading = escape(heading),
        lead = escape(lead),
    );
    for sentence in story {
        let _ = writeln!(o, "<p>{}</p>", escape(sentence));
    }
    let _ = writeln!(o, "</section>");
}

/// A table: its first `words` columns are text, the others numbers. Rows are in groups, each with
/// a heading if that is not empty.
pub fn table(
    out: &mut String,
    head: &[String],
    words: usize,
    groups: Vec<(String, Vec<Vec<String>>)>,
) {
    // The first cell of a row has its other words, too, for pages that have no room for them.
    let class = |n: usize, row: &[String]| {
        if n >= words {
            return String::new();
        }
        let rest = row.iter().take(words).skip(1);
        let rest: Vec<&str> = rest.map(String::as_str).filter(|w| !w.is_empty()).collect();
        match (n, rest.is_empty()) {
            (0, true) => " class=\"word\"".to_owned(),
            (0, false) => format!(" class=\"word\" data-rest=\"{}\"", escape(&rest.join("\n"))),
            _ => " class=\"word rest\"".to_owned(),
        }
    };
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"numbers\">\n<thead><tr>"
    );
    for (n, text) in head.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(n, head), escape(text));
    }
    let _ = writeln!(out, "</tr></thead>");
    for (heading, rows) in groups {
        let _ = writeln!(out, "<tbody>");
        if !heading.is_empty() {
            let _ = writeln!(
                out,
                "<tr class=\"variant\"><th colspan=\"{}\" scope=\"rowgroup\">{}</th></tr>",
                head.len(),
                escape(&heading)
            );
        }
        for row in rows {
            let _ = write!(out, "<tr>");
            for n in 0..head.len() {
                let text = row.get(n).map_or("", String::as_str);
                let _ = write!(out, "<td{}>{}</td>", class(n, &row), escape(text));
            }
            let _ = writeln!(out, "</tr>");
        }
        let _ = writeln!(out, "</tbody>");
    }
    let _ = writeln!(out, "</table></div>");
}

/// How to have the page again.
pub fn again(o: &mut String, command: &str) {
    let _ = write!(
        o,
        "<h2>Again</h2>\n<p>This page was made by narrows {version} with</p>\n\
         <pre><code>{command}</code></pre>\n",
        version = narrows_experiment::version::text(),
        command = escape(command),
    );
}

/// What the plots of a page do.
#[derive(Clone, Copy, Debug)]
pub enum Plots {
    /// Nothing: the page has no script.
    Stand,
    /// They hide lines whose key is clicked.
    Hide,
}

/// End a page.
pub fn end(o: &mut String, plots: Plots) {
    let _ = writeln!(o, "</main>");
    if !matches!(plots, Plots::Stand) {
        let _ = writeln!(o, "<script>\n{SCRIPT}</script>");
    }
    let _ = write!(o, "</body>\n</html>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cell_of_a_row_has_all_of_its_words() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let mut out = String::new();
        let rows = vec![row(["reno", "64KiB", "3"]), row(["reno", "", "4"])];
        table(
            &mut out,
            &row(["cc", "buffer", "n"]),
            2,
            vec![(String::new(), rows)],
        );
        for line in [
            "<th class=\"word\" data-rest=\"buffer\">cc</th><th class=\"word rest\">buffer</th><th>n</th>",
            "<td class=\"word\" data-rest=\"64KiB\">reno</td><td class=\"word rest\">64KiB</td><td>3</td>",
            "<td class=\"word\">reno</td><td class=\"word rest\"></td><td>4</td>",
        ] {
            assert!(out.contains(line), "{line}: {out}");
        }
    }
}
