//! Tests of the real binary, in a home of its own. There are a few tests per command; the library
//! has its own tests.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up fails the test")]

mod home;

mod aged;
mod backup;
mod behind;
mod closed;
mod commands;
mod compact;
#[cfg(target_os = "linux")]
mod completions;
mod config;
mod cron;
mod cursors;
mod damaged;
mod demo;
mod doctor;
mod documents;
mod export;
mod files;
mod forget;
mod formats;
mod help;
mod mcp;
mod memory_flush;
mod mistakes;
mod notes;
mod odd;
mod overview;
mod problems;
mod rebuild;
mod refusals;
mod repair;
mod restore;
mod rows;
mod schemas;
mod scripts;
mod search;
mod secrets;
mod senders;
mod serve;
mod serve_events;
mod serve_write;
mod service;
mod session;
mod sessions;
mod show;
mod sql;
mod status;
mod store;
mod summarisers;
mod sync;
mod tail;
mod terminal;
mod torture;
mod tree;
mod usage;
mod watch;
