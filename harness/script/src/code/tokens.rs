//! Statements and tokens of assertions.

use super::Stop;

/// One statement a line, or between semicolons; a line goes on within parentheses and after a
/// backslash.
pub(super) fn statements(code: &str) -> Result<Vec<(usize, &str)>, Stop> {
    let mut out = Vec::new();
    let (mut start, mut open, mut quote, mut comment) = (0, 0usize, None, false);
    let bytes = code.as_bytes();
    for (i, &b) in bytes.iter().enumerate() {
        let escaped = i > 0 && bytes[i - 1] == b'\\';
        match b {
            b'\n' if comment => {
                comment = false;
                if open == 0 {
                    start = i + 1;
                }
            }
            _ if comment => {}
            _ if quote.is_some() => quote = quote.filter(|q| *q != b || escaped),
            b'"' | b'\'' => quote = Some(b),
            b'(' | b'[' => open += 1,
            b')' | b']' => open = open.saturating_sub(1),
            b'#' => {
                out.push((start, &code[start..i]));
                comment = true;
            }
            b'\n' | b';' if open == 0 && !escaped => {
                out.push((start, &code[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    if quote.is_some() {
        return Err(Stop::Bad("a string without its end".to_owned()));
    }
    if !comment {
        out.push((start, code.get(start..).unwrap_or_default()));
    }
    let trimmed = out.into_iter().map(|(at, s)| {
        let lead = s.len() - s.trim_start().len();
        (at + lead, s.trim())
    });
    Ok(trimmed.filter(|(_, s)| !s.is_empty()).collect())
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Int(i128),
    Float(f64),
    Text(String),
    Name(String),
    Sign(&'static str),
}

/// Longer ones first.
pub(super) const SIGNS: &[&str] = &[
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "&", "|", "^", "~",
    "<", ">", "(", ")", "[", "]", ",", "=", ".", ":",
];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Stop> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
        let Some(first) = rest.chars().next() else {
            return Ok(out);
        };
        let span = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let len = if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let len = span(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
            out.push(numeral(&rest[..len])?);
            len
        } else if first.is_ascii_alphabetic() || first == '_' {
            let len = span(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            out.push(Token::Name(rest[..len].to_owned()));
            len
        } else if first == '"' || first == '\'' {
            let body = &rest[1..];
            let end = body
                .find(first)
                .ok_or_else(|| Stop::Bad("a string without its end".to_owned()))?;
            out.push(Token::Text(body[..end].to_owned()));
            end + 2
        } else if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            out.push(Token::Sign(sign));
            sign.len()
        } else {
            return Err(Stop::Bad(format!("`{first}` is not known in assertions")));
        };
        rest = &rest[len..];
    }
}

pub(super) fn numeral(text: &str) -> Result<Token, Stop> {
    let plain = text.replace('_', "");
    let int = match plain.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => plain.parse().ok(),
    };
    int.map(Token::Int)
        .or_else(|| plain.parse().ok().map(Token::Float))
        .ok_or_else(|| Stop::Bad(format!("`{text}` is no number")))
}

pub(super) fn shown(token: &Token) -> String {
    match token {
        Token::Int(n) => format!("`{n}`"),
        Token::Float(x) => format!("`{x}`"),
        Token::Text(s) => format!("\"{s}\""),
        Token::Name(n) => format!("`{n}`"),
        Token::Sign(s) => format!("`{s}`"),
    }
}
