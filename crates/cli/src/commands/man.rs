//! `quipu man`: manual pages.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::count;
use crate::{args, help};

/// Print the manual page, or write the pages of all commands
///
/// Examples:
///   quipu man | man -l -
///   quipu man --to ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Write quipu.1 and a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let codes = format!("Exit codes:\n{}", help::exit_code_rows());
    let mut command = args::Args::command().after_help(codes).disable_help_flag(true);
    command.build();
    let Some(folder) = &args.to else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return Ok(context.output.file(with_tables(&page).as_bytes())?);
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot("create", folder, error))?;
    let mut pages = Vec::new();
    collect(&command, "quipu", &mut pages);
    for (name, command) in &pages {
        let path = folder.join(format!("{name}.1"));
        let mut page = Vec::new();
        Man::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
        std::fs::write(&path, with_tables(&page)).map_err(|error| cannot("write", &path, error))?;
    }
    let written =
        format!("{} written to {}", count(pages.len() as u64, "page"), context.show(folder));
    context.output.line(written)?;
    Ok(())
}

/// Keeps indented lines of a page as they are: tables and examples. Other lines are filled.
fn with_tables(page: &[u8]) -> String {
    let page = String::from_utf8_lossy(page);
    let mut kept = String::with_capacity(page.len() + 256);
    let mut is_inside = false;
    for line in page.lines() {
        let is_indented = line.starts_with("  ");
        if std::mem::replace(&mut is_inside, is_indented) != is_indented {
            kept.push_str(if is_indented { ".nf\n" } else { ".fi\n" });
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// Collects a command and all its subcommands, each with the name of its page.
fn collect(command: &clap::Command, name: &str, pages: &mut Vec<(String, clap::Command)>) {
    let page = command.clone().name(name.to_owned()).bin_name(name.replace('-', " "));
    pages.push((name.to_owned(), page));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{name}-{}", below.get_name()), pages);
    }
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> CommandError {
    let what = format!("cannot {what} {}", path.display());
    CommandError::from_source(anyhow::Error::new(error).context(what))
}
