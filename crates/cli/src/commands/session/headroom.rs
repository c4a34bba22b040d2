//! `quipu session headroom`: how much of the model's window is used.

use quipu_ledger::store::{Headroom, WindowFrom, headroom_of};
use quipu_transcript::compaction::AS_OF;

use super::super::Context;
use super::{compaction_settings, open_to_read};
use crate::error::Result;
use crate::output::{ID_LETTERS, ShortIds, Style, Text, count, number};

/// Print how much of the model's window a session uses
///
/// The tokens are those that the last answer reports, plus an estimate for
/// everything after it: one token for four characters. A compaction is due when
/// they exceed the window minus the reserve. The window comes from --window, the
/// session's contextTokens, [models] in the configuration, or a list in quipu.
///
/// `--json` prints one object; `quipu schema session-headroom` describes it.
///
/// Examples:
///   quipu session headroom agent:main:main
///   quipu session headroom 640a --window 32768 --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The size of the model's context window
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let settings = compaction_settings(context, args.window)?;
    let (ledger, row) = open_to_read(context, &args.id)?;
    let headroom = headroom_of(&ledger, row, &settings)?;
    if context.is_json {
        return Ok(context.output.json(&headroom)?);
    }
    let session = quipu_ledger::query::summary_of(&ledger, row)?;
    let ids = ShortIds::new(quipu_ledger::query::ids_with_ambiguous_prefix(&ledger, ID_LETTERS)?);
    let id = session.map_or_else(|| args.id.clone(), |session| ids.of(&session.session_id));
    print(context, &id, &headroom)
}

fn print(context: &mut Context, id: &str, headroom: &Headroom) -> Result<()> {
    let tokens = count(headroom.context_tokens, "token");
    let messages = count(headroom.messages as u64, "message");
    let headline = Text::plain("session ").with(Style::Bold, id);
    context.output.line(headline.and(format!(": {tokens} in {messages}")))?;
    let mut facts = Vec::new();
    let words = [&headroom.provider, &headroom.model].into_iter().flatten().cloned();
    let words = words.collect::<Vec<_>>().join(" ");
    if !words.is_empty() {
        facts.push(("model", Text::plain(words)));
    }
    let (window, limit) = (headroom.window_tokens, headroom.limit_tokens);
    let (Some(window), Some(limit), Some(from)) = (window, limit, headroom.window_from) else {
        let why = match headroom.model {
            Some(_) => "not known for this model, so no compaction is due",
            None => "not known without a model, so no compaction is due",
        };
        facts.push(("window", Text::styled(Style::Warning, why)));
        context.output.facts(2, &facts)?;
        context.output.note("hint: name it with --window, or in [models] of the configuration");
        return Ok(());
    };
    let from = match from {
        WindowFrom::Call => "--window".to_owned(),
        WindowFrom::Session => "contextTokens of the session".to_owned(),
        WindowFrom::Configuration => "[models] of the configuration".to_owned(),
        WindowFrom::List => format!("quipu's list of {AS_OF}"),
    };
    let dim = |text: String| Text::default().with(Style::Dim, text);
    facts.push((
        "window",
        Text::plain(format!("{} ", number(window))).join(dim(format!("from {from}"))),
    ));
    facts.push(("reserved", Text::plain(number(headroom.reserve_tokens))));
    facts.push(("due", due(headroom, limit)));
    facts.push(("kept", Text::plain(format!("about {}", count(headroom.keep_tokens, "token")))));
    Ok(context.output.facts(2, &facts)?)
}

fn due(headroom: &Headroom, limit: u64) -> Text {
    match headroom.is_due {
        true => Text::styled(Style::Warning, format!("now: above {}", count(limit, "token"))),
        false => {
            let left = number(headroom.left_tokens.unwrap_or_default());
            Text::plain(format!("above {}: {left} more", count(limit, "token")))
        }
    }
}
