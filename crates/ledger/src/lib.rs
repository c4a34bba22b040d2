//! Keeps sessions in one SQLite file: every collected byte, and everything derived from it.
//!
//! ```
//! use quipu_ledger::{Entry, SearchRequest, Store};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     # let folder = tempfile::tempdir()?;
//!     # let path = folder.path().join("ledger.db");
//!     let store = Store::open(&path)?;
//!     let session = store.session_or_new("agent:main:main")?;
//!
//!     // A turn: the prompt, what the model sees, its answer.
//!     let turn = session.begin_turn(Entry::user("Who knots numbers into strings?"))?;
//!     assert_eq!(session.context()?.messages.len(), 1);
//!     let answer = Entry::assistant("The Inca did: a quipu.").model("none", "example");
//!     session.at(&turn.id).append(answer)?;
//!     assert_eq!(session.context()?.messages.len(), 2);
//!
//!     // Everything that was appended or collected is found.
//!     let request = SearchRequest { exact: Some("quipu".to_owned()), ..SearchRequest::default() };
//!     let found = quipu_ledger::search(&store.reader()?, &request)?;
//!     assert_eq!(found.hits.len(), 1);
//!     Ok(())
//! }
//! ```
//!
//! This crate holds all SQL. It never prints, never exits and never reads the environment; it is
//! synchronous. Each folder is a layer that uses only the layers before it. Read them in this
//! order: `base`, `file` (the SQLite file), `truth` (raw bytes), `wire` (shapes of JSON output),
//! `project` (rows derived from raw bytes), `read` (queries and search), `collect` (files in),
//! `store` (sessions that runtimes write), `ops` (work on a whole ledger).

mod base;
mod collect;
mod file;
mod ops;
mod project;
mod read;
pub mod store;
mod truth;
pub mod wire;

pub use base::error::{Error, Result, Trouble};
pub use base::foreign::read_named_file;
pub use base::ids::{EntryId, GenerationId, PackedId, Seq, SessionRow, SourceId};
pub use base::target::{Existing, NewFile, Target};
pub use collect::watch;
pub use collect::{Progress, Retention, RootPath, Selection, collect, collect_changed};
pub use file::ledger::Ledger;
pub use file::owner::adopt;
pub use ops::backup::{
    Backup, BackupProgress, BackupTarget, Prepared, backup, backups, prepare_restore,
};
pub use ops::doctor::{DoctorProgress, doctor, doctor_waiting};
pub use ops::export;
pub use ops::forget::{forget, preview_forget};
pub use ops::freshness::{Freshness, Ownership, Patience, Reader, open_to_read, unprojected};
pub use ops::restore::{Generations, TranscriptInPlace, What, restore, restore_in_place};
pub use ops::status::{status, status_without_ledger};
pub use project::rebuild::rebuild;
#[doc(hidden)]
pub use quipu_fts5::Access as Fts5Access;
pub use read::query::{
    Choice, Costs, Filter, SessionContext, Sessions, SqlAnswer, SqlLimits, Story, UsageBy,
    UsageRequest, context_of, costs, cron_jobs, cron_runs, cursors, find_session,
    ids_with_ambiguous_prefix, note_versions, notes, other_sessions_of_key, projects, session_rows,
    sessions, sql, summary_of, tree, usage,
};
pub use read::search::{Order, SearchRequest, search, search_each};
pub use store::{Append, Appended, Context, Entry, Expect, Message, NewSession, Session, Store};

/// Servers and async runtimes keep these in tasks that move between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_sync<T: Sync>() {}
    is_send::<Ledger>();
    is_send::<store::Store>();
    is_send::<store::Session>();
    is_sync::<store::Store>();
    is_sync::<store::Session>();
};
