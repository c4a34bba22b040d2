//! Where sessions are **kept**: one SQLite file with every collected byte, and everything that can
//! be understood from it.
//!
//! This crate holds all SQL. It never prints, never exits and never reads the environment; it is
//! synchronous. Read in this order: `ledger` (the file), `schema/*.sql` (truth and projection),
//! `collect` (files in), `watch` (files in as they change), `project` (understanding), `restore`
//! (files out).

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
pub use ops::forget::{foresee, forget};
pub use ops::freshness::{Freshness, Patience, Reader, Whose, open_to_read, unprojected};
pub use ops::restore::{Generations, InPlace, What, put_back, restore};
pub use ops::status::{status, status_without_ledger};
pub use project::rebuild::rebuild;
#[doc(hidden)]
pub use quipu_fts5::Access as Fts5Access;
pub use read::query::{
    Choice, Costs, Filter, SessionContext, Sessions, SqlAnswer, SqlLimits, Story, UsageBy,
    UsageRequest, also_led_to, context, costs, cron_jobs, cron_runs, crowded_ids, cursors,
    find_session, note_versions, notes, projects, session, session_rows, sessions, sql, tree,
    usage,
};
pub use read::search::{Order, SearchRequest, search, search_each};
