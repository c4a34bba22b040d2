//! Whether all is well, and what is not.

use serde::Serialize;

/// Whether all is well, and what is not.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    /// False if there is an error among the findings.
    pub ok: bool,
    /// The ledger.
    pub ledger: String,
    /// Every byte was read.
    pub deep: bool,
    /// What was checked.
    pub checks: Vec<CheckReport>,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// One kind of check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// Its stable name.
    pub check: String,
    /// False if there was nothing to check.
    pub done: bool,
    /// What holds, since it found nothing; absent if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fine: Option<String>,
}

/// Something that a check found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The check that found it.
    pub check: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub what: String,
    /// How often it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Where it was found first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// What to do about it.
    #[serde(rename = "do")]
    pub advice: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is wrong.
    Error,
    /// Something may go wrong.
    Warning,
    /// Good to know.
    Note,
}
