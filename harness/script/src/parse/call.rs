//! System calls: `+0...0.1 read(4, ..., 1000) = 1000`.

use super::Defines;
use crate::ast::{Call, Expr};
use crate::cursor::{Cursor, Read};
use crate::diagnostic::Diagnostic;

/// How deep lists and records may nest.
const MAX_DEPTH: usize = 24;

pub(super) fn call(c: &mut Cursor<'_>, defines: &Defines) -> Read<Call> {
    let start = c.here();
    let until = match c.take("...") {
        true => Some(c.seconds()?),
        false => None,
    };
    let name = c
        .word("a packet (`<` or `>`), a system call, `command` or %{ code }%")?
        .to_owned();
    let p = Parser { defines };
    c.expect("(")?;
    let args = p.list(c, ")", 0)?;
    c.expect("=")?;
    let result = p.expr(c, 0)?;
    // An error's name, and notes in parentheses.
    let mut errno = None;
    if let Some(word) = c.peek_word()
        && word.as_bytes()[0].is_ascii_uppercase()
    {
        errno = Some(c.word("an error's name")?.to_owned());
    }
    if c.sees("(") {
        c.enclosed("(", ")")?;
    }
    Ok(Call {
        until,
        name,
        args,
        result,
        errno,
        span: c.since(start),
    })
}

struct Parser<'a> {
    defines: &'a Defines,
}

impl Parser<'_> {
    /// Expressions up to `close`, which is taken.
    fn list(&self, c: &mut Cursor<'_>, close: &str, depth: usize) -> Read<Vec<Expr>> {
        let mut out = Vec::new();
        if c.take(close) {
            return Ok(out);
        }
        loop {
            out.push(self.expr(c, depth)?);
            if c.take(",") {
                continue;
            }
            c.expect(close)?;
            return Ok(out);
        }
    }

    fn expr(&self, c: &mut Cursor<'_>, depth: usize) -> Read<Expr> {
        let first = self.term(c, depth)?;
        if !c.sees("|") {
            return Ok(first);
        }
        let mut all = vec![first];
        while c.take("|") {
            all.push(self.term(c, depth)?);
        }
        Ok(Expr::Or(all))
    }

    fn term(&self, c: &mut Cursor<'_>, depth: usize) -> Read<Expr> {
        let start = c.here();
        if depth > MAX_DEPTH {
            return Err(Diagnostic::syntax(c.since(start), "nested too deeply"));
        }
        if c.take("...") {
            return Ok(Expr::Ellipsis);
        }
        match c.peek() {
            Some(b'"') => {
                let mut text = c.string()?;
                while c.peek() == Some(b'"') {
                    text.extend(c.string()?);
                }
                c.take("...");
                Ok(Expr::Text(text))
            }
            Some(b'[') => {
                c.expect("[")?;
                Ok(Expr::List(self.list(c, "]", depth + 1)?))
            }
            Some(b'{') => {
                c.expect("{")?;
                self.record(c, depth + 1)
            }
            Some(b'-') => {
                c.expect("-")?;
                Ok(Expr::Int(-(c.number("a number", i64::MAX as u64)? as i64)))
            }
            Some(b) if b.is_ascii_digit() => {
                Ok(Expr::Int(c.number("a number", i64::MAX as u64)? as i64))
            }
            _ => self.name(c, depth),
        }
    }

    fn name(&self, c: &mut Cursor<'_>, depth: usize) -> Read<Expr> {
        let word = c.word("a value: a number, a name, \"text\", [list], {record} or ...")?;
        if let Some(value) = self.defines.get(word) {
            return Ok(defined(value));
        }
        if c.raw() == Some(b'(') {
            c.expect("(")?;
            let args = self.list(c, ")", depth + 1)?;
            return Ok(Expr::Apply(word.to_owned(), args));
        }
        Ok(Expr::Word(word.to_owned()))
    }

    /// `{fd=4, events=POLLIN}`, `{..., 1000}`, `{msg_iov(1)=[{..., 5}]}`.
    fn record(&self, c: &mut Cursor<'_>, depth: usize) -> Read<Expr> {
        let mut fields = Vec::new();
        if c.take("}") {
            return Ok(Expr::Record(fields));
        }
        loop {
            let value = self.expr(c, depth)?;
            let name = match &value {
                Expr::Word(name) | Expr::Apply(name, _) if c.sees("=") => Some(name.clone()),
                _ => None,
            };
            match name {
                Some(name) => {
                    c.expect("=")?;
                    fields.push((name, self.expr(c, depth)?));
                }
                None => fields.push((String::new(), value)),
            }
            if c.take(",") {
                continue;
            }
            c.expect("}")?;
            return Ok(Expr::Record(fields));
        }
    }
}

/// What a definition stands for.
fn defined(value: &str) -> Expr {
    if let Some(text) = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
        return Expr::Text(text.as_bytes().to_vec());
    }
    let number = match value.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    };
    number.map_or_else(|| Expr::Word(value.to_owned()), Expr::Int)
}
