//! Values of assertions, and what can be done with them.

use super::{Eval, Stop, bad};
use std::fmt;

/// What an expression gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `True`, `False`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a point. Scripts divide; nothing of the TCP hangs on it.
    Float(f64),
    /// Text.
    Text(String),
    /// A list or tuple.
    List(Vec<Value>),
    /// `None`.
    None,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(n) => n.fmt(f),
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Text(s) => f.write_str(s),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    let gap = if i > 0 { ", " } else { "" };
                    write!(f, "{gap}{item}")?;
                }
                f.write_str("]")
            }
            Self::None => f.write_str("None"),
        }
    }
}

impl Value {
    pub(super) fn truth(&self) -> bool {
        match self {
            Self::Bool(b) => *b,
            Self::Int(n) => *n != 0,
            Self::Float(x) => *x != 0.0,
            Self::Text(s) => !s.is_empty(),
            Self::List(l) => !l.is_empty(),
            Self::None => false,
        }
    }
    pub(super) fn int(&self) -> Option<i128> {
        match self {
            Self::Bool(b) => Some(i128::from(*b)),
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }
    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Self::Float(x) => Some(*x),
            other => other.int().map(|n| n as f64),
        }
    }
}

pub(super) fn compare(sign: &str, left: &Value, right: &Value) -> Result<bool, Stop> {
    if sign == "in" || sign == "not in" {
        let found = match (left, right) {
            (_, Value::List(items)) => items.iter().any(|item| equal(left, item)),
            (Value::Text(part), Value::Text(whole)) => whole.contains(part.as_str()),
            _ => return bad("`in` wants a list"),
        };
        return Ok(found == (sign == "in"));
    }
    match sign {
        "==" => return Ok(equal(left, right)),
        "!=" => return Ok(!equal(left, right)),
        _ => {}
    }
    let order = match (left.int(), right.int(), left.float(), right.float()) {
        (Some(a), Some(b), ..) => Some(a.cmp(&b)),
        (_, _, Some(a), Some(b)) => a.partial_cmp(&b),
        _ => match (left, right) {
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            _ => return bad(format!("cannot compare {left} and {right}")),
        },
    };
    Ok(order.is_some_and(|o| match sign {
        "<" => o.is_lt(),
        ">" => o.is_gt(),
        "<=" => o.is_le(),
        _ => o.is_ge(),
    }))
}

pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left.int(), right.int(), left.float(), right.float()) {
        (Some(a), Some(b), ..) => a == b,
        (_, _, Some(a), Some(b)) => a == b,
        _ => left == right,
    }
}

pub(super) fn arithmetic(sign: &str, left: &Value, right: &Value) -> Eval {
    if let (Value::Text(a), "+", Value::Text(b)) = (left, sign, right) {
        return Ok(Value::Text(format!("{a}{b}")));
    }
    // `"%d" % n`: only the value matters in a message.
    if let (Value::Text(format), "%", value) = (left, sign, right) {
        return Ok(Value::Text(format!("{format} % {value}")));
    }
    if let (Some(a), Some(b), true) = (left.int(), right.int(), sign != "/") {
        let shift = u32::try_from(b).unwrap_or(u32::MAX);
        let value = match sign {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "//" | "%" if b == 0 => return bad("division by zero"),
            "//" => floor(a, b).map(|(quotient, _)| quotient),
            "%" => floor(a, b).map(|(_, rest)| rest),
            "**" => a.checked_pow(shift),
            "<<" => a.checked_shl(shift).filter(|v| v >> shift == a),
            ">>" => Some(a >> shift.min(127)),
            "&" => Some(a & b),
            "|" => Some(a | b),
            "^" => Some(a ^ b),
            _ => None,
        };
        return value
            .map(Value::Int)
            .ok_or_else(|| Stop::Bad(format!("`{a} {sign} {b}` is too large")));
    }
    let (Some(a), Some(b)) = (left.float(), right.float()) else {
        return bad(format!("`{sign}` wants numbers, not {left} and {right}"));
    };
    Ok(Value::Float(match sign {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" | "//" | "%" if b == 0.0 => return bad("division by zero"),
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => a - b * (a / b).floor(),
        "**" => a.powf(b),
        _ => return bad(format!("`{sign}` wants whole numbers")),
    }))
}

/// Quotient and rest, rounded down as Python does.
fn floor(a: i128, b: i128) -> Option<(i128, i128)> {
    let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    if rest != 0 && (rest < 0) != (b < 0) {
        Some((quotient.checked_sub(1)?, rest.checked_add(b)?))
    } else {
        Some((quotient, rest))
    }
}

pub(super) fn call(name: &str, arguments: &[Value]) -> Eval {
    let numbers = || -> Result<Vec<Value>, Stop> {
        let list = match arguments {
            [Value::List(items)] => items.clone(),
            _ => arguments.to_vec(),
        };
        if list.is_empty() || list.iter().any(|v| v.float().is_none()) {
            return bad(format!("{name}() wants numbers"));
        }
        Ok(list)
    };
    let extreme = |sign: &str| -> Eval {
        let mut best = Value::None;
        for v in numbers()? {
            if best == Value::None || compare(sign, &v, &best)? {
                best = v;
            }
        }
        Ok(best)
    };
    match (name, arguments) {
        ("min", _) => extreme("<"),
        ("max", _) => extreme(">"),
        ("abs", [v]) => match (v.int(), v.float()) {
            (Some(n), _) => Ok(Value::Int(n.checked_abs().unwrap_or(i128::MAX))),
            (None, Some(x)) => Ok(Value::Float(x.abs())),
            _ => bad("abs() wants a number"),
        },
        ("int" | "round", [v]) => match (v.int(), v.float()) {
            (Some(n), _) => Ok(Value::Int(n)),
            (None, Some(x)) if name == "int" => Ok(Value::Int(x as i128)),
            (None, Some(x)) => Ok(Value::Int(x.round_ties_even() as i128)),
            _ => bad(format!("{name}() wants a number")),
        },
        ("float", [v]) => match v.float() {
            Some(x) => Ok(Value::Float(x)),
            None => bad("float() wants a number"),
        },
        ("bool", [v]) => Ok(Value::Bool(v.truth())),
        ("str" | "hex", [v]) => Ok(Value::Text(v.to_string())),
        ("len", [Value::List(items)]) => Ok(Value::Int(items.len() as i128)),
        _ => bad(format!(
            "{name}() with {} arguments is not known here",
            arguments.len()
        )),
    }
}
