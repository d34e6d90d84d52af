//! Arguments that have a form of their own: those of calls for data, of `poll` and `ioctl`.

use super::words::number;
use crate::ast::{self, Expr};
use crate::diagnostic::Diagnostic;
use crate::sockets::{FLAGS_KNOWN, Fd, Form};

/// A descriptor that no stack has.
pub(super) const NO_DESCRIPTOR: Fd = Fd::MAX;

/// What a call says of data.
pub(super) struct Data {
    pub(super) form: Form,
    pub(super) parts: Vec<usize>,
    pub(super) flags: i32,
    /// The bytes, where the script gives them.
    pub(super) text: Vec<u8>,
}

/// Arguments of the calls for data, in their several forms.
pub(super) fn data(call: &ast::Call, known: i32) -> Result<Data, Diagnostic> {
    let mut data = Data {
        form: Form::Plain,
        parts: Vec::new(),
        flags: 0,
        text: Vec::new(),
    };
    match call.name.as_str() {
        "readv" | "writev" => {
            data.form = Form::Vector;
            data.parts = vector(call, call.arg(1)?)?;
        }
        "recvmsg" | "sendmsg" => {
            data.form = Form::Message;
            let message = call.arg(1)?;
            let parts = message.field("msg_iov").ok_or_else(|| {
                call.unsupported("a message is {msg_name(...)=..., msg_iov(N)=...}")
            })?;
            data.parts = vector(call, parts)?;
            if let Some(Expr::List(control)) = message.field("msg_control")
                && !control.is_empty()
            {
                return Err(call.unsupported("control messages are not known"));
            }
            data.flags = flags(call, 2, known)?;
        }
        name => {
            data.form = match name {
                "read" | "write" => Form::Plain,
                "recvfrom" | "sendto" => Form::Address,
                _ => Form::Flags,
            };
            data.parts = vec![call.size(2)?];
            if let Expr::Text(text) = call.arg(1)? {
                data.text.clone_from(text);
            }
            if data.form != Form::Plain {
                data.flags = flags(call, 3, known)?;
            }
        }
    }
    Ok(data)
}

fn flags(call: &ast::Call, at: usize, known: i32) -> Result<i32, Diagnostic> {
    let flags = match call.args.get(at) {
        None => Some(0),
        Some(e) => number(e).and_then(|n| i32::try_from(n).ok()),
    };
    flags
        .filter(|n| n & !known == 0)
        .ok_or_else(|| call.unsupported(FLAGS_KNOWN))
}

/// `[{..., 1000}, {"abc", 3}]`
fn vector(call: &ast::Call, parts: &Expr) -> Result<Vec<usize>, Diagnostic> {
    let Expr::List(parts) = parts else {
        return Err(call.unsupported("parts are written [{..., LENGTH}, ...]"));
    };
    let mut room = 1 << 26;
    let part = |part: &Expr| {
        let Expr::Record(fields) = part else {
            return Err(call.unsupported("a part is written {..., LENGTH}"));
        };
        let len = fields.get(1).and_then(|(_, e)| number(e));
        let len = len.and_then(|n| usize::try_from(n).ok());
        let len = len.ok_or_else(|| call.unsupported("a part is written {..., LENGTH}"))?;
        let len = len.min(room);
        room -= len;
        Ok(len)
    };
    parts.iter().map(part).collect()
}

/// Descriptor, events asked for, events expected.
pub(super) type Entry = (i32, i16, i16);

/// The first argument of `poll`.
pub(super) fn entries(call: &ast::Call) -> Result<Vec<Entry>, Diagnostic> {
    let Expr::List(entries) = call.arg(0)? else {
        return Err(call.unsupported("descriptors are written [{fd=4, events=POLLIN}]"));
    };
    let entry = |entry: &Expr| {
        let field = |name| entry.field(name).and_then(number);
        let (Some(fd), Some(events)) = (field("fd"), field("events")) else {
            return Err(call.unsupported("a descriptor is written {fd=4, events=POLLIN}"));
        };
        let wanted = field("revents").unwrap_or(0);
        Ok((
            i32::try_from(fd).unwrap_or(NO_DESCRIPTOR),
            events as i16,
            wanted as i16,
        ))
    };
    entries.iter().map(entry).collect()
}

/// The value that a script writes for an `ioctl`.
pub(super) fn said(call: &ast::Call) -> Option<i64> {
    match call.args.get(2)? {
        Expr::List(items) => items.first().and_then(number),
        other => number(other),
    }
}
