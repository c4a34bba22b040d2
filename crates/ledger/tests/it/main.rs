//! Integration tests of the ledger: real files, real SQLite.

mod child;
mod home;
mod prng;

mod collecting;
mod concurrency;
mod kill;
mod properties;
mod rewrites;
mod secrets;
mod spec;
mod torture;
