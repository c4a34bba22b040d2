//! `quipu session meta`: a session's metadata.

use quipu_ledger::store::Fields;

use super::super::Context;
use super::append::standard_input;
use super::{open_to_read, open_to_write};
use crate::error::{CommandError, Result};

/// Print the metadata of a session, or change it
///
/// Fields have the names of OpenClaw's sessions.json. Known fields are checked,
/// unknown ones are stored unchanged. The ledger itself counts tokens,
/// compactions and times. For a collected session, prints its agent's metadata.
///
/// Examples:
///   quipu session meta 640a
///   quipu session meta 640a --patch '{"label":"release","thinkingLevel":null}'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// A JSON object with fields and their new values, null to remove a field; `-` reads it from
    /// standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    patch: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let patch = args.patch.as_deref().map(read).transpose()?;
    let fields = match patch {
        Some(patch) => open_to_write(context, &args.id)?.patch_fields(&patch)?,
        None => {
            let (ledger, row) = open_to_read(context, &args.id)?;
            quipu_ledger::store::meta_of(&ledger, row)?
        }
    };
    Ok(context.output.json(&fields)?)
}

fn read(patch: &str) -> Result<Fields> {
    let text = if patch == "-" { standard_input()? } else { patch.to_owned() };
    Fields::read(&text).map_err(|error| {
        // An error in one field includes the field's name.
        let message = error.to_string();
        if message.starts_with('`') {
            return CommandError::new(format!("the patch is not valid: {message}"));
        }
        let place = format!("line {} column {}", error.line(), error.column());
        CommandError::new(format!("the patch is not a JSON object: {place}"))
    })
}
