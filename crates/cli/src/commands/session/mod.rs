//! `quipu session`: the session store for agent runtimes.

mod append;
mod branch;
mod compact;
mod context;
mod flush;
mod fork;
mod headroom;
mod keys;
mod label;
mod leaf;
mod meta;
mod new;
mod repair;
mod reset;
mod route;

use std::path::Path;

use quipu_ledger::Ledger;
use quipu_ledger::ids::SessionRow;
use quipu_ledger::store::{Append, Appended, CompactionSettings, Expect, Session, Store};
use quipu_ledger::wire::{NotAppended, StoredSession};

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
    Flush(flush::Args),
    Branch(branch::Args),
    Leaf(leaf::Args),
    Fork(fork::Args),
    Keys(keys::Args),
    Label(label::Args),
    Meta(meta::Args),
    Repair(repair::Args),
    Reset(reset::Args),
    Route(route::Args),
}

impl Args {
    /// Returns whether it prints a list.
    pub(super) fn is_list(&self) -> bool {
        match &self.action {
            Action::Keys(_) => true,
            Action::Branch(args) => args.is_list(),
            Action::Label(args) => args.is_list(),
            _ => false,
        }
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
        Action::Flush(args) => flush::run(args, context),
        Action::Branch(args) => branch::run(args, context),
        Action::Leaf(args) => leaf::run(args, context),
        Action::Fork(args) => fork::run(args, context),
        Action::Keys(args) => keys::run(args, context),
        Action::Label(args) => label::run(args, context),
        Action::Meta(args) => meta::run(args, context),
        Action::Repair(args) => repair::run(args, context),
        Action::Reset(args) => reset::run(args, context),
        Action::Route(args) => route::run(args, context),
    }
}

/// Options of every append.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct AppendArgs {
    /// Append only if the leaf is this entry; `root`: only if it is before the first entry
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

/// Opens the ledger for reading, after it has projected everything that was appended. Warns if it
/// cannot.
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

/// Prints the appended entry as JSON; on a conflict, the current leaf; for a key that another entry
/// has used, that entry's id.
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
                context.output.json(&NotAppended::Conflict { leaf: leaf.as_deref() })?;
            }
            if let quipu_ledger::Error::KeyUsed { entry, .. } = &error {
                context.output.json(&NotAppended::KeyUsed { id: entry })?;
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

/// Prints the current leaf if another writer has appended to the session meanwhile.
fn conflict(context: &mut Context, error: quipu_ledger::Error) -> CommandError {
    let leaf = match &error {
        quipu_ledger::Error::Conflict { leaf, .. } => Some(leaf.clone()),
        _ => None,
    };
    let mut error = CommandError::from(error);
    if let Some(leaf) = leaf {
        error.kind = Kind::NoMatch;
        let refused = NotAppended::Conflict { leaf: leaf.as_deref() };
        if let Err(unprinted) = context.output.json(&refused) {
            return unprinted.into();
        }
    }
    error
}

/// Returns the settings of compactions, with the window of `--window`.
pub(super) fn compaction_settings(
    context: &Context,
    window: Option<u64>,
) -> Result<CompactionSettings> {
    Ok(CompactionSettings {
        rules: context.settings.store.routing()?.settings.compaction,
        window,
        windows: context.settings.windows.value.clone(),
        workspaces: context.settings.store.workspaces.clone(),
        zone: Some(crate::zone::zone()),
    })
}

/// Returns the working folder for the header of a new session.
fn working_folder(named: Option<&Path>) -> Option<String> {
    let folder = match named {
        Some(named) => std::path::absolute(named).unwrap_or_else(|_| named.to_owned()),
        None => std::env::current_dir().ok()?,
    };
    Some(folder.to_string_lossy().into_owned())
}

/// Prints a new session.
fn print_session(context: &mut Context, session: &Session) -> Result<()> {
    if !context.is_json {
        return Ok(context.output.line(session.id())?);
    }
    let session_key = session.key()?;
    let (session_id, agent) = (session.id().to_owned(), session.agent().to_owned());
    Ok(context.output.json(&StoredSession { session_id, agent, session_key })?)
}
