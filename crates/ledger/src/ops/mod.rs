//! Work on a whole ledger: forgetting, checking, backups, restoring, exporting, bringing it up to
//! date before it is read.

pub(crate) mod backup;
pub(crate) mod doctor;
pub mod export;
pub(crate) mod forget;
pub(crate) mod freshness;
pub(crate) mod outdated;
pub(crate) mod restore;
pub(crate) mod status;
