//! Integration tests of the ledger: real files, real SQLite.

mod home;

mod collecting;
mod rewrites;
