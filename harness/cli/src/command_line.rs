//! The command line again, for who repeats it.

use std::ffi::OsString;
use std::path::Path;

/// The command as a shell takes it, by the name of the program that ran: ours, or one of somebody
/// who brought algorithms along.
pub(crate) fn command_line(args: &[OsString]) -> String {
    let quoted = |arg: &OsString| {
        let text = arg.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/%@".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            text
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let path = args.first().map(Path::new);
    let program = path.and_then(Path::file_name).unwrap_or("narrows".as_ref());
    std::iter::once(quoted(&program.to_owned()))
        .chain(args.iter().skip(1).map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}
