//! Assertions between `%{` and `}%`: the part of Python that scripts use.
//!
//! Statements: `assert CONDITION[, MESSAGE]`, `print(...)`, `NAME = EXPRESSION`. Expressions:
//! numbers, strings, names, `( )`, `and or not`, chained comparisons, `in` and `not in` of a list,
//! `+ - * / // % ** << >> & | ^ ~`, `A if C else B`, `abs min max int float round bool len`.

mod tokens;
mod value;

use std::collections::BTreeMap;
use tokens::{Token, shown, statements, tokens};
use value::{arithmetic, call, compare};

pub(super) use value::Value;

/// How deep expressions may nest.
const MAX_DEPTH: usize = 40;

/// Why a snippet stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It cannot be read, or does what is not known here.
    Bad(String),
    /// An assertion does not hold.
    Failed {
        /// The assertion.
        assertion: String,
        /// The values of the names in it.
        values: String,
        /// Its message, if it has one.
        message: Option<String>,
        /// Bytes from the start of the snippet to it.
        at: usize,
    },
}

/// Runs `code`. Names are looked up in `variables`, then by `known`; what is assigned stays in
/// `variables`. What is printed is given back.
///
/// # Errors
/// See [`Stop`].
pub(super) fn run(
    code: &str,
    variables: &mut BTreeMap<String, Value>,
    known: &dyn Fn(&str) -> Option<Value>,
) -> Result<Vec<String>, Stop> {
    let mut printed = Vec::new();
    for (at, statement) in statements(code)? {
        let mut e = Evaluator {
            tokens: tokens(statement)?,
            at: 0,
            depth: 0,
            live: true,
            variables,
            known,
            used: Vec::new(),
        };
        e.statement(statement, at, &mut printed)?;
    }
    Ok(printed)
}

struct Evaluator<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// What is read is also computed: not what `and`, `or` and `if` skip.
    live: bool,
    variables: &'a mut BTreeMap<String, Value>,
    known: &'a dyn Fn(&str) -> Option<Value>,
    /// Names met, with their values.
    used: Vec<(String, Value)>,
}

type Eval = Result<Value, Stop>;

fn bad<T>(message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Bad(message.into()))
}

impl Evaluator<'_> {
    fn statement(&mut self, text: &str, at: usize, printed: &mut Vec<String>) -> Result<(), Stop> {
        match (self.tokens.first(), self.tokens.get(1)) {
            (Some(Token::Name(n)), _) if n == "assert" => {
                self.at = 1;
                self.assertion(text, at)
            }
            (Some(Token::Name(n)), _) if n == "print" => {
                self.at = 1;
                let bracketed = self.take("(");
                let mut words = Vec::new();
                while self.at < self.tokens.len() && !self.sees(")") {
                    words.push(self.expression()?.to_string());
                    if !self.take(",") {
                        break;
                    }
                }
                if bracketed && !self.take(")") {
                    return bad("`print(` without `)`");
                }
                printed.push(words.join(" "));
                self.finish()
            }
            (Some(Token::Name(n)), Some(Token::Sign("="))) => {
                let name = n.clone();
                self.at = 2;
                let value = self.expression()?;
                self.variables.insert(name, value);
                self.finish()
            }
            (Some(Token::Name(n)), _)
                if matches!(
                    n.as_str(),
                    "if" | "for" | "while" | "def" | "import" | "from" | "class" | "with" | "try"
                ) =>
            {
                bad(format!(
                    "`{n}` statements are not known here; there are assert, print and assignments"
                ))
            }
            _ => {
                self.expression()?;
                self.finish()
            }
        }
    }

    fn assertion(&mut self, text: &str, at: usize) -> Result<(), Stop> {
        let holds = self.expression()?.truth();
        let message = match self.take(",") {
            true => Some(self.expression()?.to_string()),
            false => None,
        };
        self.finish()?;
        if holds {
            return Ok(());
        }
        let mut values = Vec::new();
        for (name, value) in &self.used {
            let text = format!("{name} = {value}");
            if !values.contains(&text) {
                values.push(text);
            }
        }
        Err(Stop::Failed {
            assertion: text.split_whitespace().collect::<Vec<_>>().join(" "),
            values: values.join(", "),
            message,
            at,
        })
    }

    fn finish(&self) -> Result<(), Stop> {
        match self.tokens.get(self.at) {
            None => Ok(()),
            Some(token) => bad(format!("did not expect {} here", shown(token))),
        }
    }

    fn sees(&self, sign: &str) -> bool {
        self.tokens.get(self.at).is_some_and(|t| match t {
            Token::Sign(s) => *s == sign,
            Token::Name(n) => n == sign,
            _ => false,
        })
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.sees(sign);
        self.at += usize::from(found);
        found
    }

    /// `value` unless it is skipped.
    fn when_live(&self, value: impl FnOnce() -> Eval) -> Eval {
        if self.live { value() } else { Ok(Value::None) }
    }

    /// Read something whose value counts only if `live`.
    fn with_live(&mut self, live: bool, read: impl FnOnce(&mut Self) -> Eval) -> Eval {
        let outer = self.live;
        self.live = outer && live;
        let value = read(self);
        self.live = outer;
        value
    }

    fn expression(&mut self) -> Eval {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return bad("nested too deeply");
        }
        let value = self.conditional();
        self.depth -= 1;
        value
    }

    fn conditional(&mut self) -> Eval {
        let value = self.either()?;
        if !self.take("if") {
            return Ok(value);
        }
        let chosen = self.either()?.truth();
        if !self.take("else") {
            return bad("`A if C` without `else`");
        }
        let other = self.with_live(!chosen, Self::expression)?;
        Ok(if chosen { value } else { other })
    }

    fn either(&mut self) -> Eval {
        let mut left = self.both()?;
        while self.take("or") {
            let settled = left.truth();
            let right = self.with_live(!settled, Self::both)?;
            left = if settled { left } else { right };
        }
        Ok(left)
    }

    fn both(&mut self) -> Eval {
        let mut left = self.negation()?;
        while self.take("and") {
            let open = left.truth();
            let right = self.with_live(open, Self::negation)?;
            left = if open { right } else { left };
        }
        Ok(left)
    }

    fn negation(&mut self) -> Eval {
        if self.take("not") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return bad("nested too deeply");
            }
            let value = self.negation()?;
            self.depth -= 1;
            return Ok(Value::Bool(!value.truth()));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Eval {
        let mut left = self.binary(0)?;
        let mut holds = true;
        let mut compared = false;
        loop {
            let sign = ["==", "!=", "<=", ">=", "<", ">", "in", "not", "is"]
                .into_iter()
                .find(|s| self.sees(s));
            let Some(mut sign) = sign else { break };
            self.at += 1;
            if sign == "not" {
                if !self.take("in") {
                    return bad("expected `in` behind `not`");
                }
                sign = "not in";
            } else if sign == "is" {
                sign = if self.take("not") { "!=" } else { "==" };
            }
            let right = self.binary(0)?;
            if self.live {
                holds &= compare(sign, &left, &right)?;
            }
            compared = true;
            left = right;
        }
        Ok(if compared { Value::Bool(holds) } else { left })
    }

    /// `| ^ & << >> + - * / // %` by rising strength.
    fn binary(&mut self, level: usize) -> Eval {
        const LEVELS: &[&[&str]] = &[
            &["|"],
            &["^"],
            &["&"],
            &["<<", ">>"],
            &["+", "-"],
            &["*", "//", "/", "%"],
        ];
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = signs.iter().find(|s| self.sees(s)) {
            self.at += 1;
            let right = self.binary(level + 1)?;
            left = self.when_live(|| arithmetic(sign, &left, &right))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Eval {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return bad("nested too deeply");
        }
        let value = if self.take("-") {
            let value = self.unary()?;
            self.when_live(|| arithmetic("-", &Value::Int(0), &value))
        } else if self.take("+") {
            self.unary()
        } else if self.take("~") {
            let value = self.unary()?;
            self.when_live(|| match value.int() {
                Some(n) => Ok(Value::Int(!n)),
                None => bad("`~` wants a whole number"),
            })
        } else {
            let base = self.atom()?;
            if self.take("**") {
                let exponent = self.unary()?;
                self.when_live(|| arithmetic("**", &base, &exponent))
            } else {
                Ok(base)
            }
        };
        self.depth -= 1;
        value
    }

    fn atom(&mut self) -> Eval {
        let Some(token) = self.tokens.get(self.at).cloned() else {
            return bad("the expression ends too soon");
        };
        self.at += 1;
        match token {
            Token::Int(n) => Ok(Value::Int(n)),
            Token::Float(x) => Ok(Value::Float(x)),
            Token::Text(s) => {
                let mut text = s;
                while let Some(Token::Text(more)) = self.tokens.get(self.at) {
                    text.push_str(more);
                    self.at += 1;
                }
                if self.take(".") {
                    return self.format(&text);
                }
                Ok(Value::Text(text))
            }
            Token::Sign("(") => {
                let mut items = self.items(")")?;
                match (items.0.len(), items.1) {
                    (1, false) => Ok(items.0.remove(0)),
                    _ => Ok(Value::List(items.0)),
                }
            }
            Token::Sign("[") => Ok(Value::List(self.items("]")?.0)),
            Token::Name(name) if self.take("(") => {
                let arguments = self.items(")")?.0;
                self.when_live(|| call(&name, &arguments))
            }
            Token::Name(name) => self.name(&name),
            other => bad(format!("did not expect {} here", shown(&other))),
        }
    }

    /// `"{} and {}".format(a, b)`
    fn format(&mut self, text: &str) -> Eval {
        if !self.take("format") || !self.take("(") {
            return bad("of strings only .format() is known");
        }
        let mut values = self.items(")")?.0.into_iter();
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("{}") {
            out.push_str(&rest[..at]);
            let Some(value) = values.next() else {
                return bad("format() has too few values");
            };
            out.push_str(&value.to_string());
            rest = &rest[at + 2..];
        }
        out.push_str(rest);
        Ok(Value::Text(out))
    }

    /// Items up to `close`; whether a comma came.
    fn items(&mut self, close: &str) -> Result<(Vec<Value>, bool), Stop> {
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            if self.take(close) {
                return Ok((items, comma));
            }
            items.push(self.expression()?);
            if self.take(",") {
                comma = true;
            } else if !self.sees(close) {
                return bad(format!("expected `{close}`"));
            }
        }
    }

    fn name(&mut self, name: &str) -> Eval {
        let value = match name {
            "True" => return Ok(Value::Bool(true)),
            "False" => return Ok(Value::Bool(false)),
            "None" => return Ok(Value::None),
            _ => self
                .variables
                .get(name)
                .cloned()
                .or_else(|| (self.known)(name)),
        };
        match value {
            Some(value) => {
                if self.live {
                    self.used.push((name.to_owned(), value.clone()));
                }
                Ok(value)
            }
            None if !self.live => Ok(Value::None),
            None => bad(format!("nothing is known of `{name}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(expression: &str) -> Result<String, Stop> {
        let known = |name: &str| (name == "cwnd").then_some(Value::Int(10));
        let mut variables = BTreeMap::new();
        run(&format!("print({expression})"), &mut variables, &known).map(|out| out.join("|"))
    }

    #[test]
    fn expressions_as_python_has_them() {
        for (expression, value) in [
            ("1 + 2 * 3 ** 2", "19"),
            ("-7 // 2, -7 % 3, 7 // -2, 7 % -3", "-4 2 -4 -2"),
            ("7 / 2", "3.5"),
            ("1 < 2 <= 2 != 3", "True"),
            ("1 < 2 > 5", "False"),
            ("cwnd == 10 and not cwnd > 11", "True"),
            ("cwnd in (1, 10), cwnd not in [1]", "True True"),
            ("0 or 5, 1 and 0", "5 0"),
            ("1 or unknown_name", "1"),
            ("'a' if cwnd > 5 else unknown", "a"),
            ("abs(-3), min(2, 1), max([2, 3]), int(2.9)", "3 1 3 2"),
            ("0x10 | 1 << 2 ^ 3 & ~1", "22"),
            ("(1)", "1"),
            ("1.5 == 3 / 2", "True"),
            ("-2 ** 2", "-4"),
            ("'{}:{}'.format(1, cwnd)", "1:10"),
        ] {
            assert_eq!(eval(expression).as_deref(), Ok(value), "{expression}");
        }
    }

    #[test]
    fn assertions_tell_the_values() {
        let known = |name: &str| (name == "cwnd").then_some(Value::Int(10));
        let mut vars = BTreeMap::new();
        let code = "x = 3 # why\nassert x == 3; assert (cwnd ==\n 10)\n  assert cwnd == x, 'bad'";
        let stop = run(code, &mut vars, &known).unwrap_err();
        assert_eq!(
            stop,
            Stop::Failed {
                assertion: "assert cwnd == x, 'bad'".to_owned(),
                values: "cwnd = 10, x = 3".to_owned(),
                message: Some("bad".to_owned()),
                at: 50,
            }
        );
        assert_eq!(
            run("assert x == 3", &mut vars, &known),
            Ok(vec![]),
            "it stays"
        );
    }

    #[test]
    fn what_is_not_known_is_named_and_nothing_panics() {
        for (code, named) in [
            ("for i in x:", "`for`"),
            ("assert what", "`what`"),
            ("assert 1 / 0", "zero"),
            ("assert 1 +", "too soon"),
            ("assert foo(1)", "foo()"),
            ("assert 'a", "end"),
            ("assert 9 ** 999", "too large"),
            ("assert $", "`$`"),
            ("assert 1 2", "`2`"),
        ] {
            match run(code, &mut BTreeMap::new(), &|_| None) {
                Err(Stop::Bad(why)) => assert!(why.contains(named), "{code}: {why}"),
                other => panic!("{code}: {other:?}"),
            }
        }
        let deep = format!("assert {}1", "(".repeat(5_000));
        assert!(run(&deep, &mut BTreeMap::new(), &|_| None).is_err());
        let deep = format!("assert {}1", "-".repeat(5_000));
        assert!(run(&deep, &mut BTreeMap::new(), &|_| None).is_err());
    }
}
