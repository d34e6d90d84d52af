//! `narrows generate`: files for editors, shells and manuals, made of what the command has.

mod schema;

use super::output::{OutputFile, print};
use super::{App, Console, EXIT_OK, Stop};
use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use schema::schema;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The JSON schema of experiment files, for editors: `#:schema narrows.json` in a file's first
    /// line.
    Schema,
    /// Completions for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Manual pages, one for each command, in a folder.
    Man {
        /// The folder, which is there.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Makes it of `command`; the exit code.
pub(super) fn run(
    app: &App,
    args: &GenerateArgs,
    mut command: Command,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    match &args.what {
        What::Schema => {
            let schema = schema(&app.catalog.registry);
            print(console.stdout, &format!("{schema:#}\n"))?;
        }
        What::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command, "narrows", &mut script);
            print(console.stdout, &String::from_utf8_lossy(&script))?;
        }
        What::Man { folder } => {
            command.build();
            let count = pages(&command, "narrows", folder)?;
            let text = format!("narrows: {count} pages in {}\n", folder.display());
            console.say_aside(&text)?;
        }
    }
    Ok(EXIT_OK)
}

/// Writes the page of `command` and of each below it; how many.
fn pages(command: &Command, name: &str, folder: &Path) -> Result<usize, Stop> {
    let page = clap_mangen::Man::new(command.clone()).title(name);
    let mut text = Vec::new();
    let rendered = page.render(&mut text);
    rendered.map_err(|e| Stop::Failed(format!("cannot make the page of {name}: {e}")))?;
    let file = folder.join(format!("{name}.1"));
    OutputFile::create("page", &file)?.finish_with(&text)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
        count += pages(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(count)
}
