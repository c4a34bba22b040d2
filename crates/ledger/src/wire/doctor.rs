//! The shape of the doctor's report.

use serde::Serialize;

/// The doctor's report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// False if one of the findings is an error.
    pub is_ok: bool,
    /// The ledger.
    pub ledger_path: String,
    /// True if every byte was read.
    pub is_deep: bool,
    /// The checks.
    pub checks: Vec<CheckReport>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The number of chunks that a deep check opened to compare files.
    #[serde(skip)]
    pub chunks_opened: u64,
}

/// One kind of check.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckReport {
    /// Its stable name.
    pub check: String,
    /// False if there was nothing to check.
    pub is_done: bool,
    /// The fact that holds because the check found nothing; absent if it found something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
}

/// A problem that a check found.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The check that found it.
    pub check: String,
    /// The severity.
    pub severity: Severity,
    /// The problem, as a sentence.
    pub message: String,
    /// The number of occurrences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The first occurrences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The action that resolves it.
    pub hint: String,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A fault.
    Error,
    /// A risk.
    Warning,
    /// Information.
    Note,
}
