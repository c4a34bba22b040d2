//! Integration tests of the ledger: real files, real SQLite.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up fails the test")]

mod child;
mod docs;
mod home;
mod index;

mod archives;
mod backups;
mod clocks;
mod collecting;
mod concurrency;
mod cron;
mod doctor;
mod faults;
mod forget;
mod fresh;
mod index_faults;
mod kill;
mod log;
mod migrating;
mod moments;
mod notes;
mod priorities;
mod properties;
mod restores;
mod rewrites;
mod rows;
mod secrets;
mod spec;
mod torture;
mod truth;
mod usage;
mod watching;
