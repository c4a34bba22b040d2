//! Work on a whole ledger: forget, doctor, backup, restore, export, status, and collecting before a
//! read.

pub mod answer;
pub mod backup;
mod damaged_indexes;
pub mod doctor;
pub mod export;
pub mod forget;
pub mod freshness;
pub(crate) mod outdated;
pub mod restore;
pub mod status;
