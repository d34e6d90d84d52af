//! `#ifdef`, `#ifndef`, `#if`, `#else`, `#endif`: parts for one stack only.

use super::Defines;
use crate::ast::Span;
use crate::cursor::Read;
use crate::diagnostic::Diagnostic;

/// One open block.
struct Block {
    span: Span,
    /// What stands around it counts.
    outer: bool,
    /// The part being read counts.
    active: bool,
    /// `#else` was seen.
    has_else: bool,
}

/// The script with blanks in place of the parts that do not count, so that every place keeps its
/// number.
pub(super) fn resolve(source: &str, defines: &Defines) -> Read<String> {
    let mut out = String::with_capacity(source.len());
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        let span = Span {
            start: at,
            end: at + line.trim_end().len(),
        };
        at += line.len();
        let words: Vec<&str> = line.split_whitespace().collect();
        let counts = blocks.last().is_none_or(|b| b.active);
        let error = |message: &str| Err(Diagnostic::syntax(span, message));
        match words.as_slice() {
            ["#ifdef" | "#if", name] => {
                let wanted = match name.strip_prefix('!') {
                    Some(name) => !is_set(defines, name),
                    None => is_set(defines, name),
                };
                blocks.push(open(span, counts, wanted));
            }
            ["#ifndef", name] => blocks.push(open(span, counts, !is_set(defines, name))),
            ["#else", ..] => match blocks.last_mut() {
                Some(b) if !b.has_else => {
                    b.has_else = true;
                    b.active = b.outer && !b.active;
                }
                _ => return error("`#else` without `#ifdef`"),
            },
            ["#endif", ..] => {
                if blocks.pop().is_none() {
                    return error("`#endif` without `#ifdef`");
                }
            }
            ["#if" | "#ifdef" | "#ifndef", ..] => {
                return error("a condition is one name: `#ifdef FREEBSD`");
            }
            _ => {
                if counts {
                    out.push_str(line);
                } else {
                    blank(line, &mut out);
                }
                continue;
            }
        }
        blank(line, &mut out);
    }
    match blocks.first() {
        Some(b) => Err(Diagnostic::syntax(b.span, "a condition without `#endif`")),
        None => Ok(out),
    }
}

fn open(span: Span, outer: bool, wanted: bool) -> Block {
    Block {
        span,
        outer,
        active: outer && wanted,
        has_else: false,
    }
}

/// Defined, and not as 0.
fn is_set(defines: &Defines, name: &str) -> bool {
    defines.get(name).is_some_and(|value| value != "0")
}

fn blank(line: &str, out: &mut String) {
    out.extend(line.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
}
