//! Numbers below zero on the command line.

use clap::Command;
use std::ffi::OsString;

/// `--delay -1us` as `--delay=-1us`: a number below zero is a value that is not allowed, and not an
/// option that does not exist. What is another program's, or behind `--`, stays as it is.
pub(super) fn joined(args: &[OsString], command: &Command) -> Vec<OsString> {
    let (own, others) = args.split_at(own(args, command));
    let mut out: Vec<OsString> = Vec::new();
    for arg in own {
        let text = arg.to_string_lossy();
        let negative = text
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
        match out.last_mut().filter(|_| negative) {
            Some(option) if is_option(option) => {
                let long = option.to_string_lossy().starts_with("--");
                option.push(if long { "=" } else { "" });
                option.push(arg);
            }
            _ => out.push(arg.clone()),
        }
    }
    out.extend(others.iter().cloned());
    out
}

/// How many of `args` are ours: those before `--`, and before the command that a subcommand takes
/// with all its arguments.
fn own(args: &[OsString], command: &Command) -> usize {
    let mut at = command;
    let mut is_value = false;
    for (place, arg) in args.iter().enumerate().skip(1) {
        if arg == "--" {
            return place;
        }
        if std::mem::take(&mut is_value) {
            continue;
        }
        if is_option(arg) {
            is_value = takes_value(at, arg);
        } else if let Some(sub) = at.find_subcommand(arg) {
            at = sub;
        } else if at.get_positionals().any(clap::Arg::is_trailing_var_arg_set) {
            return place;
        }
    }
    args.len()
}

/// Whether `option`, without a value so far, has one in the argument behind it.
fn takes_value(command: &Command, option: &OsString) -> bool {
    let text = option.to_string_lossy();
    let named = |arg: &&clap::Arg| match text.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| text.ends_with(short)),
    };
    let arg = command.get_arguments().find(named);
    arg.is_some_and(|arg| arg.get_action().takes_values())
}

/// `--name` or `-n`, without a value.
fn is_option(arg: &OsString) -> bool {
    let text = arg.to_string_lossy();
    let name = |c: char| c.is_ascii_alphabetic() || c == '-';
    match (text.strip_prefix("--"), text.strip_prefix('-')) {
        (Some(long), _) => !long.is_empty() && long.chars().all(name),
        (None, Some(short)) => short.len() == 1 && short.chars().all(name),
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    fn command() -> Command {
        let exec = Command::new("exec")
            .arg(Arg::new("lab").long("lab").short('l'))
            .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue))
            .arg(
                Arg::new("program")
                    .num_args(1..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true),
            );
        let run = Command::new("run")
            .arg(Arg::new("delay").long("delay").short('d'))
            .arg(Arg::new("files").num_args(0..));
        Command::new("p").subcommand(exec).subcommand(run)
    }

    #[test]
    fn only_what_is_ours_is_joined() {
        for (given, expected) in [
            ("p run --delay -1us", "p run --delay=-1us"),
            ("p run -d -1", "p run -d-1"),
            ("p run -d -.5 f", "p run -d-.5 f"),
            ("p run f --delay -1us", "p run f --delay=-1us"),
            ("p run -- --delay -1us", "p run -- --delay -1us"),
            ("p exec iperf3 -s -1", "p exec iperf3 -s -1"),
            ("p exec --lab x iperf3 -s -1", "p exec --lab x iperf3 -s -1"),
            ("p exec -l x iperf3 -s -1", "p exec -l x iperf3 -s -1"),
            ("p exec --lab=x iperf3 -s -1", "p exec --lab=x iperf3 -s -1"),
            ("p exec --quiet nc -N -w -1", "p exec --quiet nc -N -w -1"),
            ("p exec --lab run run --x -1", "p exec --lab run run --x -1"),
            ("p exec -- ls -l -1", "p exec -- ls -l -1"),
            ("p exec --lab -1 ls -l -1", "p exec --lab=-1 ls -l -1"),
        ] {
            let args: Vec<OsString> = given.split(' ').map(OsString::from).collect();
            let joined = joined(&args, &command());
            let joined: Vec<_> = joined.iter().map(|a| a.to_str().unwrap()).collect();
            assert_eq!(joined.join(" "), expected);
        }
    }
}
