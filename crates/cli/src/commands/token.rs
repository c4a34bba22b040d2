//! `quipu token`: who may use the server.

use quipu_gateway::{Scope, Token, TokenError, TokenFolder};
use quipu_ledger::wire::{CreatedToken, ListedToken, RevokedToken};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Style, Text, elapsed};

/// Create, list and revoke the tokens of `quipu serve`
///
/// A program sends its token as `Authorization: Bearer TOKEN`, and can then read
/// every session in the ledger, or those of one agent. Browsers that signed in are
/// listed too.
///
/// Examples:
///   quipu token new phone
///   quipu token new bot --scope write --agent main
///   quipu token list
///   quipu token revoke phone
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The action to run.
    #[command(subcommand)]
    action: Action,
}

/// Actions of `quipu token`.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create a token and print it
    ///
    /// It is printed once: only its hash is kept.
    ///
    /// Examples:
    ///   quipu token new phone
    ///   quipu token new bot --scope write --agent main
    #[command(verbatim_doc_comment)]
    New(NewArgs),
    /// List tokens and signed-in browsers
    ///
    /// Example:
    ///   quipu token list --json
    #[command(verbatim_doc_comment)]
    List,
    /// Remove a token, or sign a browser out
    ///
    /// Example:
    ///   quipu token revoke phone
    #[command(verbatim_doc_comment)]
    Revoke(NameArgs),
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct NewArgs {
    #[command(flatten)]
    named: NameArgs,

    /// What its holder may do
    #[arg(long, value_name = "SCOPE", default_value = "read")]
    scope: ScopeArg,

    /// The only agent whose sessions its holder sees and writes to [default: all agents]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ScopeArg {
    /// Read sessions
    Read,
    /// Read sessions, and write those that agent runtimes keep in the ledger
    Write,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct NameArgs {
    /// The name: letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    name: String,
}

impl Args {
    /// Returns whether it prints a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.action, Action::List)
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let tokens = TokenFolder::beside(&context.settings.ledger.value);
    match &args.action {
        Action::New(NewArgs { named: NameArgs { name }, scope, agent }) => {
            let scope = match scope {
                ScopeArg::Read => Scope::Read,
                ScopeArg::Write => Scope::Write,
            };
            let token = tokens.create(name, scope, agent.as_deref()).map_err(failed)?;
            match context.is_json {
                true => context.output.json(&CreatedToken { name, token: &token })?,
                false => context.output.line(token)?,
            }
            Ok(())
        }
        Action::List => list(context, &tokens.list().map_err(failed)?),
        Action::Revoke(NameArgs { name }) => {
            tokens.revoke(name).map_err(failed)?;
            match context.is_json {
                true => context.output.json(&RevokedToken { name })?,
                false => context.output.note(&format!("revoked {name}")),
            }
            Ok(())
        }
    }
}

fn list(context: &mut Context, tokens: &[Token]) -> Result<()> {
    if context.is_json {
        return Ok(tokens.iter().try_for_each(|token| {
            context.output.json(&ListedToken {
                name: &token.name,
                scope: token.scope.name(),
                agent: token.agent.as_deref(),
                kind: token.kind,
                created_at: token.created_at,
            })
        })?);
    }
    if tokens.is_empty() {
        return Ok(context.output.line("no tokens")?);
    }
    let columns = [
        Column::words("name"),
        Column::words("kind"),
        Column::words("may"),
        Column::words("agent"),
        Column::words("created"),
    ];
    let row = |token: &Token| {
        vec![
            Text::plain(&token.name),
            Text::plain(token.kind),
            Text::plain(token.scope.name()),
            Text::plain(token.agent.as_deref().unwrap_or("all")),
            Text::styled(Style::Dim, elapsed(token.created_at)),
        ]
    };
    Ok(context.output.table(0, &columns, tokens.iter().map(row).collect())?)
}

fn failed(error: TokenError) -> CommandError {
    let is_no_match = matches!(error, TokenError::NoMatch(_));
    let hint = match &error {
        TokenError::NoMatch(_) => Some("`quipu token list` lists all tokens"),
        TokenError::Exists(_) => Some("choose another name, or revoke that token first"),
        _ => None,
    };
    let mut error = CommandError::from_source(error.into());
    if let Some(hint) = hint {
        error = error.hint(hint);
    }
    if is_no_match {
        error.kind = Kind::NoMatch;
    }
    error
}
