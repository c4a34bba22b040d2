//! Access to files that a person named: reading one, and writing beneath a folder.

pub use super::foreign::read_named_file;
pub use super::target::{Existing, NewFile, Target};
