//! `quipu session branch`: the tips of a session's tree, and new ones.

use super::super::Context;
use super::{How, entry, look, open, tell};
use crate::error::Result;
use crate::output::{Column, Look, Text, elapsed, number};

/// List the branches of a session, or begin one
///
/// A branch ends in an entry that nothing hangs off. With --from the leaf moves
/// to that entry, with --summary a summary of what is left behind is appended
/// there.
///
/// Examples:
///   quipu session branch 640a
///   quipu session branch 640a --from 65a08635 --summary 'tried the cache first'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The entry that the branch begins at; `root`: before the first one
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    from: Option<String>,

    /// What is left behind, in words
    #[arg(long, value_name = "TEXT", requires = "from", allow_hyphen_values = true)]
    summary: Option<String>,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    if let Some(from) = &args.from {
        let (mut store, session) = open(context, &args.id)?;
        let summary = args.summary.as_deref();
        let begun = store.branch(&session, entry(from), summary, args.how.append());
        return tell(context, begun).map(|_| ());
    }
    let (ledger, row) = look(context, &args.id)?;
    let branches = quipu_ledger::store::branches(&ledger, row)?;
    if context.is_json {
        for branch in &branches {
            context.output.json(branch)?;
        }
        return Ok(());
    }
    let rows = branches.iter().map(|branch| {
        let mark = if branch.is_current { "leaf" } else { "" };
        vec![
            Text::of(Look::Good, &branch.tip.id),
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
