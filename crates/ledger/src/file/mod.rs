//! The SQLite file: its path, opening and creating it, locks, schema, read-only ledgers, snapshots.
//!
//! Knows nothing of sessions or records.

pub(crate) mod building;
pub(crate) mod commits;
pub(crate) mod companions;
pub(crate) mod free_space;
pub(crate) mod ledger;
pub(crate) mod ledger_path;
pub(crate) mod lock;
pub(crate) mod open_files;
pub(crate) mod owner;
pub(crate) mod read_only;
pub(crate) mod schema;
pub(crate) mod snapshot;
