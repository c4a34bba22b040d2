//! One file per agent format. [`crate::format::FORMATS`] lists them.

pub mod claude_code;
pub mod native;
pub mod openclaw;
mod plain;
