//! Sessions that runtimes keep in the ledger, and who may speak in them.

pub mod senders;
