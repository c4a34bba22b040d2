//! `quipu session meta`: what is noted about a session.

use quipu_ledger::store::Fields;

use super::super::Context;
use super::append::standard_input;
use super::{look, open};
use crate::error::{CommandError, Result};

/// Print what is noted about a session, or change it
///
/// Fields have the names of OpenClaw's sessions.json. Known ones are checked,
/// unknown ones are kept as they are. Tokens, compactions and times are counted
/// by the ledger. Of a collected session it is what its agent notes about it.
///
/// Examples:
///   quipu session meta 640a
///   quipu session meta 640a --patch '{"label":"release","thinkingLevel":null}'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// A JSON object: fields and their new values, null to take one away; `-`: read from standard
    /// input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    patch: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let patch = args.patch.as_deref().map(read).transpose()?;
    let fields = match patch {
        Some(patch) => {
            let (mut store, session) = open(context, &args.id)?;
            store.patch_fields(&session, &patch)?
        }
        None => {
            let (ledger, row) = look(context, &args.id)?;
            quipu_ledger::store::meta(&ledger, row)?
        }
    };
    Ok(context.output.json(&fields)?)
}

fn read(patch: &str) -> Result<Fields> {
    let text = if patch == "-" { standard_input()? } else { patch.to_owned() };
    Fields::read(&text).map_err(|error| {
        // What is wrong with one field is said with its name.
        let said = error.to_string();
        if said.starts_with('`') {
            return CommandError::new(format!("the patch cannot be kept: {said}"));
        }
        let place = format!("line {} column {}", error.line(), error.column());
        CommandError::new(format!("the patch is not a JSON object: {place}"))
    })
}
