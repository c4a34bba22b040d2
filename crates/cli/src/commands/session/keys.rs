//! `quipu session keys`: all session keys.

use quipu_ledger::store::registry;

use super::super::Context;
use super::open_projected;
use crate::error::Result;
use crate::output::{Column, ID_LETTERS, ShortIds, Style, Text, minute, number};

/// List all session keys, and the sessions that they lead to
///
/// Examples:
///   quipu session keys
///   quipu session keys --agent work --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Only the keys of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let ledger = open_projected(context)?;
    let mut keys = registry(&ledger)?;
    if let Some(agent) = &args.agent {
        keys.retain(|key| key.agent.eq_ignore_ascii_case(agent));
    }
    if context.is_json {
        for key in &keys {
            context.output.json(key)?;
        }
        return Ok(());
    }
    let ids = ShortIds::new(quipu_ledger::query::ids_with_ambiguous_prefix(&ledger, ID_LETTERS)?);
    drop(ledger);
    context.output.page()?;
    let tokens = |count: Option<i64>| count.map(|count| number(count.unsigned_abs()));
    let rows = keys.iter().map(|key| {
        let session = key.session_id.as_deref().map(|id| ids.of(id));
        vec![
            Text::plain(&key.session_key),
            Text::styled(Style::Good, session.unwrap_or_default()),
            Text::styled(Style::Dim, key.created_at.map(minute).unwrap_or_default()),
            Text::plain(tokens(key.input_tokens).unwrap_or_default()),
            Text::plain(tokens(key.output_tokens).unwrap_or_default()),
            Text::plain(key.channel.as_deref().unwrap_or_default()),
        ]
    });
    let columns = [
        Column::long("key"),
        Column::words("session"),
        Column::words("created"),
        Column::numbers("input"),
        Column::numbers("output"),
        Column::words("channel"),
    ];
    let rows = rows.collect();
    Ok(context.output.table(0, &columns, rows)?)
}
