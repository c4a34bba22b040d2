//! `quipu session branch`: lists the branches of a session, and begins new ones.

use quipu_ledger::wire::SessionBranch;

use super::super::Context;
use super::{AppendArgs, entry, open_to_read, open_to_write, print_appended};
use crate::error::Result;
use crate::output::{Column, Style, Text, elapsed, number};

/// List the branches of a session, or begin one
///
/// A branch ends in an entry without children. With --from, the leaf moves to
/// that entry; with --summary, a summary of the abandoned branch is appended
/// there.
///
/// Examples:
///   quipu session branch 640a
///   quipu session branch 640a --from 65a08635 --summary 'tried the cache first'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Begin a branch at this entry; `root` means before the first entry
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    from: Option<String>,

    /// A summary of the abandoned branch
    #[arg(long, value_name = "TEXT", requires = "from", allow_hyphen_values = true)]
    summary: Option<String>,

    #[command(flatten)]
    how: AppendArgs,
}

impl Args {
    /// Returns whether it prints a list.
    pub(super) fn is_list(&self) -> bool {
        self.from.is_none()
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    if let Some(from) = &args.from {
        let session = open_to_write(context, &args.id)?;
        let summary = args.summary.as_deref();
        let begun = session.with(args.how.append()).branch(entry(from), summary);
        return print_appended(context, begun).map(|_| ());
    }
    let (ledger, row) = open_to_read(context, &args.id)?;
    let branches = quipu_ledger::store::branches_of(&ledger, row)?;
    if context.is_json {
        for branch in &branches {
            context.output.json(&SessionBranch::from(branch))?;
        }
        return Ok(());
    }
    let rows = branches.iter().map(|branch| {
        let mark = if branch.is_current { "leaf" } else { "" };
        vec![
            Text::styled(Style::Good, &branch.tip.id),
            Text::plain(number(branch.length)),
            Text::plain(branch.tip.role.as_deref().unwrap_or(&branch.tip.type_name)),
            Text::plain(branch.tip.time.map(elapsed).unwrap_or_default()),
            Text::plain(mark),
        ]
    });
    let columns = [
        Column::words("tip"),
        Column::numbers("entries"),
        Column::words("last"),
        Column::words("when"),
        Column::words(""),
    ];
    let rows = rows.collect();
    Ok(context.output.table(0, &columns, rows)?)
}
