//! Work on a whole ledger: forget, doctor, backup, restore, export, status, and collecting before a
//! read.

pub(crate) mod backup;
mod damaged_indexes;
pub(crate) mod doctor;
pub mod export;
pub(crate) mod forget;
pub(crate) mod freshness;
pub(crate) mod outdated;
pub(crate) mod restore;
pub(crate) mod status;
