//! One page that needs nothing from elsewhere: the ledger, and connections to zoom into.

use super::figures::{busier, timeline};
use super::numbers::{share, short};
use super::text::{HELPS, HOSTS, TRY_IT, WHEN, slices, slow_pairs, trial};
use crate::chart::{Theme, ink::escape};
use crate::html;
use narrows::Instant;
use narrows_explain::advice::advice;
use narrows_explain::{Connection, Explanation, Gap, Side, lost_time, main_cause};
use std::fmt::Write;

const STYLE: &str = include_str!("../../assets/explain.css");
const SCRIPT: &str = include_str!("../../assets/explain.js");
/// Rows of a table in a page.
const ROWS: usize = 200;

/// The viewer of connections; `explain.js` fills it.
const VIEWER: &str = "<h2>A connection closely</h2>\n<div id=\"viewer\"><p><select id=\"which\" aria-label=\"connection\"></select> \
    <button id=\"all\">all of it</button> <span class=\"note\">wheel: zoom, drag: move, double click: all of it; \
    point at a packet or a gap</span></p><canvas id=\"sequence\" height=\"420\"></canvas><canvas id=\"flight\" height=\"120\"></canvas>\
    <canvas id=\"rtt\" height=\"120\"></canvas><p id=\"at\" class=\"note\"></p><p id=\"joined\" class=\"note\"></p></div>\n";

/// The page. `drawn` are the connections that have points, `tried` is what became of the changes that
/// would help, `command` made it.
pub fn page(
    explanation: &Explanation,
    drawn: &[Connection],
    tried: Option<&str>,
    command: &str,
) -> String {
    let mut o = String::new();
    let files: Vec<_> = explanation
        .inputs
        .iter()
        .map(|i| format!("{}: {}", i.name, i.contents))
        .collect();
    html::begin(
        &mut o,
        "Why was it slow?",
        &files.join("; "),
        &explanation.ledger.story(),
    );
    let _ = writeln!(o, "<style>\n{STYLE}</style>");
    causes(&mut o, explanation);
    advised(&mut o, explanation, tried);
    if let Some(path) = &explanation.path {
        super::ends::section(&mut o, path);
    }
    let _ = writeln!(
        o,
        "<h2>Connections over time</h2>\n<figure class=\"paper\">{}</figure>",
        timeline(explanation).svg(Theme::Page)
    );
    times(&mut o, explanation);
    pairs(&mut o, explanation);
    let gaps = explanation.ledger.gaps();
    if !drawn.is_empty() {
        o.push_str(VIEWER);
    }
    connections(&mut o, explanation, drawn);
    longest(&mut o, explanation, &gaps, drawn);
    html::again(&mut o, command);
    html::end(&mut o, html::Plots::Stand);
    let script = format!(
        "<script type=\"application/json\" id=\"explained\">{}</script>\n<script>\n{SCRIPT}</script>\n</body>",
        data(drawn, &gaps)
    );
    if !drawn.is_empty() {
        o = o.replacen("</body>", &script, 1);
    }
    o
}

fn causes(o: &mut String, explanation: &Explanation) {
    if explanation.ledger.causes.is_empty() {
        return;
    }
    o.push_str("<h2>What was waited for</h2>\n<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th>gaps</th><th>time</th><th>longest</th><th class=\"word\">cause</th></tr></thead><tbody>\n");
    for (cause, sum) in explanation.ledger.by_time() {
        let _ = writeln!(
            o,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"word\">{}</td></tr>",
            sum.count,
            short(sum.time),
            short(sum.longest),
            cause.text()
        );
    }
    o.push_str("</tbody></table></div>\n");
}

fn advised(o: &mut String, explanation: &Explanation, tried: Option<&str>) {
    let all = advice(&explanation.ledger);
    if all.is_empty() {
        return;
    }
    let _ = writeln!(o, "<h2>{HELPS}</h2>\n<ul>");
    for one in all {
        let _ = writeln!(
            o,
            "<li><b>{}</b>: {}<pre><code>{}</code></pre></li>",
            one.cause.text(),
            escape(&one.what),
            escape(&trial(&one))
        );
    }
    o.push_str("</ul>\n");
    let _ = match tried {
        Some(tried) => writeln!(o, "<pre><code>{}</code></pre>", escape(tried.trim())),
        None => writeln!(o, "<p class=\"note\">{TRY_IT}</p>"),
    };
}

/// Pairs of hosts in a page.
const PAIRS: usize = 20;

fn pairs(o: &mut String, explanation: &Explanation) {
    if explanation.pairs.len() < 2 {
        return;
    }
    let _ = writeln!(
        o,
        "<h2>{HOSTS}</h2>\n<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th>lost</th><th>gaps</th><th class=\"word\">hosts</th></tr></thead><tbody>"
    );
    for ([a, b], sum) in slow_pairs(explanation, PAIRS) {
        let _ = writeln!(
            o,
            "<tr><td>{}</td><td>{}</td><td class=\"word\">{a}, {b}</td></tr>",
            short(sum.time),
            sum.count
        );
    }
    o.push_str("</tbody></table></div>\n");
}

fn times(o: &mut String, explanation: &Explanation) {
    let slices = slices(explanation);
    let Some(most) = slices.iter().map(|(_, time)| *time).max() else {
        return;
    };
    let _ = writeln!(
        o,
        "<h2>{WHEN}</h2>\n<div class=\"scroll\"><table class=\"numbers when\"><thead><tr><th>from</th><th>lost</th><th></th></tr></thead><tbody>"
    );
    for (from, time) in slices {
        let _ = writeln!(
            o,
            "<tr><td>{}</td><td>{}</td><td class=\"word\"><i style=\"width:{}%\"></i></td></tr>",
            short(from),
            short(time),
            share(time, most)
        );
    }
    o.push_str("</tbody></table></div>\n");
}

/// The attribute of a row whose connection the viewer has.
fn follows(id: u64, drawn: &[Connection]) -> String {
    match drawn.iter().any(|c| c.id == id) {
        true => format!(" data-connection=\"{id}\""),
        false => String::new(),
    }
}

fn connections(o: &mut String, explanation: &Explanation, drawn: &[Connection]) {
    let slowest = explanation.slowest(ROWS);
    if slowest.is_empty() {
        return;
    }
    o.push_str("<h2>Connections that lost the most time</h2>\n<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th>number</th><th>lost</th><th>gaps</th><th>lasted</th><th>resent</th><th>RTT</th><th class=\"word\">ends</th><th class=\"word\">most of it</th></tr></thead><tbody>\n");
    for c in slowest {
        let (count, lost) = lost_time(c);
        let resent: u64 = c.counts.iter().map(|n| n.retransmitted + n.filled).sum();
        let _ = writeln!(
            o,
            "<tr{follows}><td>{id}</td><td>{}</td><td>{count}</td><td>{}</td><td>{resent}</td><td>{}</td><td class=\"word\">{} &rarr; {}</td><td class=\"word\">{}</td></tr>",
            short(lost),
            short(c.last.at.since(c.first.at)),
            c.path_rtt.map_or("?".to_owned(), short),
            c.ends[0],
            c.ends[1],
            main_cause(c).map_or("", |cause| cause.text()),
            id = c.id,
            follows = follows(c.id, drawn),
        );
    }
    o.push_str("</tbody></table></div>\n");
}

fn longest(o: &mut String, explanation: &Explanation, gaps: &[Gap], drawn: &[Connection]) {
    let mut gaps: Vec<&Gap> = gaps.iter().filter(|gap| gap.cause.is_lost_time()).collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.length()), gap.start.at));
    gaps.truncate(ROWS);
    if gaps.is_empty() {
        return;
    }
    let origin = explanation.seen.first.unwrap_or(Instant::ZERO);
    o.push_str("<h2>The longest gaps</h2>\n<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th>at</th><th>length</th><th>connection</th><th>packets</th><th class=\"word\">cause</th><th class=\"word\">evidence</th></tr></thead><tbody>\n");
    for gap in gaps {
        let _ = writeln!(
            o,
            "<tr{follows} data-gap=\"{}\"><td>{}</td><td>{}</td><td>{id} {}</td><td>{}&ndash;{}</td><td class=\"word\">{} ({})</td><td class=\"word\">{}</td></tr>",
            gap.start.packet,
            short(gap.start.at.since(origin)),
            short(gap.length()),
            gap.side.name(),
            gap.start.packet,
            gap.end.packet,
            gap.cause,
            gap.confidence,
            escape(&gap.because()),
            id = gap.connection,
            follows = follows(gap.connection, drawn),
        );
    }
    o.push_str("</tbody></table></div>\n");
}

/// What the viewer draws: by connection its ends, how far apart in time what is one point may be, its
/// points (each seven numbers: nanoseconds since the one before, for how long, packets since the one
/// before, how many, kind, first byte, bytes), round trips (when one began since the one before, and
/// its length), and gaps.
fn data(drawn: &[Connection], gaps: &[Gap]) -> String {
    let mut o = String::from("[");
    for (i, c) in drawn.iter().enumerate() {
        let side = busier(c);
        let _ = write!(
            o,
            "{}{{\"id\":{},\"name\":\"{} &rarr; {}, from the {}\",\"joined\":{},\"points\":[",
            if i > 0 { "," } else { "" },
            c.id,
            c.ends[0],
            c.ends[1],
            side.name(),
            c.resolution.as_nanos()
        );
        let (mut at, mut packet) = (c.first.at, 0);
        for (n, p) in c.points.iter().filter(|p| p.side == side).enumerate() {
            let _ = write!(
                o,
                "{}{},{},{},{},{},{},{}",
                if n > 0 { "," } else { "" },
                p.at.since(at).as_nanos(),
                p.until.since(p.at).as_nanos(),
                p.packet.saturating_sub(packet),
                p.count,
                p.kind as u8,
                p.from,
                p.to.saturating_sub(p.from)
            );
            (at, packet) = (p.at, p.packet);
        }
        o.push_str("],\"rtt\":[");
        let mut at = c.first.at;
        for (n, round) in c.rounds[side as usize].iter().enumerate() {
            let _ = write!(
                o,
                "{}{},{}",
                if n > 0 { "," } else { "" },
                round.start.since(at).as_nanos(),
                round.rtt.as_nanos()
            );
            at = round.start;
        }
        o.push_str("],\"gaps\":[");
        let own = gaps.iter().filter(|gap| gap.connection == c.id);
        for (n, gap) in own.enumerate() {
            let _ = write!(
                o,
                "{}[{},{},\"{}\",{},\"{} ({}): {}\",{}]",
                if n > 0 { "," } else { "" },
                gap.start.at.since(c.first.at).as_nanos(),
                gap.length().as_nanos(),
                gap.cause.text(),
                u8::from(gap.cause.is_lost_time()),
                gap.side.name(),
                gap.confidence,
                gap.because(),
                gap.start.packet
            );
        }
        o.push_str("]}");
    }
    o.push(']');
    o
}

const _: () = assert!(Side::Client as usize == 0);
