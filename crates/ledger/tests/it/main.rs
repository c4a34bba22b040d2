//! Integration tests of the ledger: real files, real SQLite.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up fails the test")]

mod child;
mod docs;
mod home;
mod prng;

mod collecting;
mod concurrency;
mod faults;
mod forget;
mod kill;
mod properties;
mod rewrites;
mod secrets;
mod spec;
mod torture;
mod truth;
