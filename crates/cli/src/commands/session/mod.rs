//! `quipu session`: the session store for agent runtimes.

mod append;
mod branch;
mod compact;
mod context;
mod fork;
mod headroom;
mod keys;
mod label;
mod leaf;
mod meta;
mod new;
mod reset;
mod route;

use std::path::Path;

use quipu_ledger::Ledger;
use quipu_ledger::ids::SessionRow;
use quipu_ledger::store::{Append, Appended, CompactionSettings, Expect, Session, Store};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::count;

/// Keep an agent's sessions in the ledger
///
/// A runtime begins turns, appends entries, and asks for the messages that the
/// model should see. Entries and messages are JSON in pi's format. An entry is on
/// disk before its id is printed. These commands never collect anything first.
///
/// Example:
///   id=$(quipu session new)
///   echo '{"role":"user","content":"hello"}' | quipu session begin $id
///   quipu session context $id --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The action to run.
    #[command(subcommand)]
    action: Action,
}

/// Actions of `quipu session`.
#[derive(Debug, clap::Subcommand)]
enum Action {
    New(new::Args),
    Begin(append::BeginArgs),
    Append(append::Args),
    Mirror(append::MirrorArgs),
    Context(context::Args),
    Headroom(headroom::Args),
    Compact(compact::Args),
    Branch(branch::Args),
    Leaf(leaf::Args),
    Fork(fork::Args),
    Keys(keys::Args),
    Label(label::Args),
    Meta(meta::Args),
    Reset(reset::Args),
    Route(route::Args),
}

impl Args {
    /// Returns whether it prints a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.action, Action::Keys(_))
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    match &args.action {
        Action::New(args) => new::run(args, context),
        Action::Begin(args) => append::begin(args, context),
        Action::Append(args) => append::run(args, context),
        Action::Mirror(args) => append::mirror(args, context),
        Action::Context(args) => context::run(args, context),
        Action::Headroom(args) => headroom::run(args, context),
        Action::Compact(args) => compact::run(args, context),
        Action::Branch(args) => branch::run(args, context),
        Action::Leaf(args) => leaf::run(args, context),
        Action::Fork(args) => fork::run(args, context),
        Action::Keys(args) => keys::run(args, context),
        Action::Label(args) => label::run(args, context),
        Action::Meta(args) => meta::run(args, context),
        Action::Reset(args) => reset::run(args, context),
        Action::Route(args) => route::run(args, context),
    }
}

/// Options of every append.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct AppendArgs {
    /// Append only if the leaf is this entry; `root`: only if there are no entries yet
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    expect_leaf: Option<String>,

    /// An idempotency key: a retry with the same key does not append twice
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    key: Option<String>,
}

/// The name of the place before the first entry.
const ROOT: &str = "root";

impl AppendArgs {
    fn append(&self) -> Append<'_> {
        Append {
            expected_leaf: self.expect_leaf.as_deref().map_or(Expect::Any, expect),
            key: self.key.as_deref(),
            part: 0,
        }
    }
}

fn expect(leaf: &str) -> Expect<'_> {
    if leaf == ROOT { Expect::Root } else { Expect::Entry(leaf) }
}

/// Returns an entry's id; `None` for the place before the first entry.
fn entry(name: &str) -> Option<&str> {
    (name != ROOT).then_some(name)
}

/// Opens the ledger for reading, and finds a session in it, collected or not.
fn open_to_read(context: &Context, name: &str) -> Result<(Ledger, SessionRow)> {
    let ledger = open_projected(context)?;
    let row = quipu_ledger::query::find_session(&ledger, name)?;
    Ok((ledger, row))
}

/// Opens the ledger for reading, with everything that was appended if it can be projected.
fn open_projected(context: &Context) -> Result<Ledger> {
    let (ledger, is_behind) = quipu_ledger::store::open_projected(&context.settings.ledger.value)?;
    if is_behind && !quipu_ledger::store::has_all_sessions(&ledger)? {
        warn_of_rebuild(context, &ledger)?;
    } else if is_behind {
        context.output.warn(
            "the ledger is read-only: the entries appended last are missing in this answer",
            Some("`quipu session context` includes them"),
        );
    }
    Ok(ledger)
}

/// Warns that an interrupted rebuild of a read-only ledger left records out of the answer.
fn warn_of_rebuild(context: &Context, ledger: &Ledger) -> Result<()> {
    let records = count(quipu_ledger::freshness::unprojected(ledger)?, "record");
    let warning = format!(
        "the ledger is read-only, and a rebuild of it was interrupted: {records} are missing in \
         this answer"
    );
    let hint = "make the ledger writable and run `quipu sync`, which finishes the rebuild";
    context.output.warn(&warning, Some(hint));
    Ok(())
}

/// Opens the store and finds a session in it that can be written to.
fn open_to_write(context: &Context, name: &str) -> Result<Session> {
    Ok(Store::open(&context.settings.ledger.value)?.session(name)?)
}

/// Prints the appended entry as JSON; on a conflict, the current leaf.
fn print_appended(
    context: &mut Context,
    appended: quipu_ledger::Result<Appended>,
) -> Result<Appended> {
    match appended {
        Ok(appended) => {
            context.output.json(&appended)?;
            Ok(appended)
        }
        Err(error) => {
            if let quipu_ledger::Error::Conflict { leaf, .. } = &error {
                context.output.json(&serde_json::json!({"error": "conflict", "leaf": leaf}))?;
            }
            if let quipu_ledger::Error::KeyUsed { entry, .. } = &error {
                context.output.json(&serde_json::json!({"error": "key_used", "id": entry}))?;
            }
            let is_conflict = matches!(error, quipu_ledger::Error::Conflict { .. });
            let mut error = CommandError::from(error);
            if is_conflict {
                error.kind = Kind::NoMatch;
            }
            Err(error)
        }
    }
}

/// Returns the settings of compactions, for a window that the caller names.
fn compaction_settings(context: &Context, window: Option<u64>) -> Result<CompactionSettings> {
    Ok(CompactionSettings {
        rules: context.settings.store.routing()?.settings.compaction,
        window,
        windows: context.settings.windows.value.clone(),
    })
}

/// Returns the working folder for the header of a new session.
fn working_folder(said: Option<&Path>) -> Option<String> {
    let folder = match said {
        Some(said) => std::path::absolute(said).unwrap_or_else(|_| said.to_owned()),
        None => std::env::current_dir().ok()?,
    };
    Some(folder.to_string_lossy().into_owned())
}

/// Prints a new session.
fn print_session(context: &mut Context, session: &Session) -> Result<()> {
    if !context.is_json {
        return Ok(context.output.line(session.id())?);
    }
    let key = session.key()?;
    let (id, agent) = (session.id(), session.agent());
    Ok(context.output.json(&serde_json::json!({"session": id, "agent": agent, "key": key}))?)
}
