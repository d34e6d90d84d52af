//! The grammar of a script: options, then steps.

mod call;
mod conditions;
mod packet;

use super::ast::{Action, Event, Script, ScriptOption, When};
use super::cursor::{Cursor, Read};
use super::diagnostic::Diagnostic;
use std::collections::BTreeMap;

/// The longest script.
const MAX_SOURCE: usize = 4 << 20;
/// The most steps.
const MAX_EVENTS: usize = 100_000;

/// Names with their values, from `-D NAME=VALUE` and `--define`.
pub type Defines = BTreeMap<String, String>;

/// Read a script. `defines` replace words, and decide `#ifdef`.
///
/// # Errors
/// The first thing that cannot be read.
pub fn parse(source: &str, defines: &Defines) -> Read<Script> {
    if source.len() > MAX_SOURCE {
        let span = super::ast::Span::default();
        return Err(Diagnostic::syntax(span, "a script has at most 4 MiB"));
    }
    let source = conditions::resolve(source, defines)?;
    let mut cursor = Cursor::new(&source);
    let c = &mut cursor;
    let mut defines = defines.clone();
    let mut options = Vec::new();
    while c.sees("--") {
        let option = option(c)?;
        if option.name == "define"
            && let Some((name, value)) = option.value.as_deref().and_then(|v| v.split_once('='))
        {
            defines
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
        }
        options.push(option);
    }
    let mut events = Vec::new();
    while !c.is_done() {
        if events.len() == MAX_EVENTS {
            let start = c.here();
            return Err(Diagnostic::syntax(
                c.since(start),
                "a script has at most 100000 steps",
            ));
        }
        events.push(event(c, &defines)?);
    }
    Ok(Script { options, events })
}

fn option(c: &mut Cursor<'_>) -> Read<ScriptOption> {
    let start = c.here();
    c.expect("--")?;
    let name = c.word("an option's name")?.to_owned();
    let mut value = None;
    if c.raw() == Some(b'=') {
        c.expect("=")?;
        value = Some(if c.raw() == Some(b'"') {
            String::from_utf8_lossy(&c.string()?).into_owned()
        } else {
            c.raw_while(|b| b.is_ascii_graphic()).to_owned()
        });
    }
    Ok(ScriptOption {
        name,
        value,
        span: c.since(start),
    })
}

fn event(c: &mut Cursor<'_>, defines: &Defines) -> Read<Event> {
    let start = c.here();
    // Set-up and clean-up stand without a time.
    let at = if c.peek() == Some(b'`') {
        When::Relative(narrows::Duration::ZERO)
    } else {
        when(c)?
    };
    let action = match c.peek() {
        Some(b'<' | b'>') => Action::Packet(packet::packet(c, defines)?),
        Some(b'`') => Action::Command(c.enclosed("`", "`")?.to_owned()),
        Some(b'%') => Action::Code(c.enclosed("%{", "}%")?.to_owned()),
        _ => Action::Call(call::call(c, defines)?),
    };
    let event = Event {
        at,
        action,
        span: c.since(start),
    };
    check_stamp(&event)?;
    Ok(event)
}

fn when(c: &mut Cursor<'_>) -> Read<When> {
    if c.take("*") {
        return Ok(When::Any);
    }
    let start = c.here();
    let relative = c.take("+");
    if !relative && !c.peek().is_some_and(|b| b.is_ascii_digit() || b == b'.') {
        return Err(c.unexpected("a time stamp: `0.5`, `+0.5`, `*`"));
    }
    let from = c.seconds()?;
    if !c.take("~") {
        return Ok(match relative {
            true => When::Relative(from),
            false => When::Absolute(from),
        });
    }
    if relative {
        c.expect("+")?;
    }
    let to = c.seconds()?;
    if to < from {
        return Err(Diagnostic::syntax(
            c.since(start),
            "a time range that runs backwards",
        ));
    }
    Ok(match relative {
        true => When::RelativeRange(from, to),
        false => When::AbsoluteRange(from, to),
    })
}

/// Only what leaves can come at an uncertain time.
fn check_stamp(event: &Event) -> Read<()> {
    use super::ast::Direction;
    let outbound = matches!(&event.action, Action::Packet(p) if p.direction == Direction::Out);
    match event.at {
        When::Absolute(_) | When::Relative(_) => Ok(()),
        _ if outbound => Ok(()),
        _ => Err(Diagnostic::syntax(
            event.span,
            "`*` and ranges are for packets that leave: everything else has one time",
        )),
    }
}

#[cfg(test)]
mod tests;
