//! Where sessions are **kept**: one SQLite file with every collected byte, and everything that can
//! be understood from it.
//!
//! This crate holds all SQL. It never prints, never exits and never reads the environment; it is
//! synchronous. Read in this order: `ledger` (the file), `schema/*.sql` (truth and projection),
//! `collect` (files in), `watch` (files in as they change), `project` (understanding), `restore`
//! (files out).

mod aged;
mod backup;
mod beside;
mod building;
mod chunks;
mod clock;
mod collect;
mod companions;
mod damaged;
mod doctor;
mod error;
pub mod export;
mod foreign;
mod forget;
mod fresh;
mod frozen;
mod ids;
mod indexes;
mod journal;
mod ledger;
mod lock;
mod opened;
mod place;
mod project;
mod query;
mod records;
mod restore;
mod room;
mod schema;
mod search;
mod snapshot;
mod spans;
pub mod store;
mod sums;
mod tails;
mod target;
pub mod watch;
pub mod wire;
mod written;

pub use backup::{
    Backup, BackupProgress, BackupTarget, Prepared, backup, backups, prepare_restore,
};
pub use collect::{Progress, Retention, RootPath, Selection, collect, collect_changed};
pub use doctor::{DoctorProgress, doctor, doctor_waiting};
pub use error::{Error, Result, Trouble};
pub use foreign::read_named_file;
pub use forget::{foresee, forget};
pub use fresh::{Freshness, Patience, Reader, Whose, adopt, open_to_read, unprojected};
pub use ids::{EntryId, GenerationId, PackedId, Seq, SessionRow, SourceId};
pub use ledger::Ledger;
pub use project::rebuild::rebuild;
pub use query::{
    Choice, Costs, Filter, SessionContext, Sessions, SqlAnswer, SqlLimits, Story, UsageBy,
    UsageRequest, also_led_to, context, costs, cron_jobs, cron_runs, crowded_ids, cursors,
    find_session, note_versions, notes, projects, session, session_rows, sessions, sql, status,
    status_without_ledger, tree, usage,
};
#[doc(hidden)]
pub use quipu_fts5::Access as Fts5Access;
pub use restore::{Generations, InPlace, What, put_back, restore};
pub use search::{Order, SearchRequest, search, search_each};
pub use target::{Existing, NewFile, Target};
