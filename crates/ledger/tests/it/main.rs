//! Integration tests of the ledger: real files, real SQLite.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up fails the test")]

mod child;
mod docs;
mod home;
mod index;

mod archives;
mod backups;
mod building;
mod bulk;
mod clocks;
mod collecting;
mod concurrency;
mod contexts;
mod cron;
mod damaged;
mod doctor;
mod faults;
mod files;
mod forget;
mod forks;
mod fresh;
mod index_faults;
mod kill;
mod log;
mod migrating;
mod moments;
mod notes;
mod outputs;
mod priorities;
mod properties;
mod ranking;
mod restores;
mod rewrites;
mod rows;
mod search;
mod search_queued;
mod secrets;
mod senders;
mod sessions;
mod spec;
mod sql;
mod store;
mod store_crowd;
mod store_import;
mod store_route;
mod story;
mod tails;
mod torture;
mod truth;
mod unread;
mod usage;
mod versions;
mod watching;
mod welds;
