//! The table of targets and measured values, for people and as JSON.
//!
//! The only place that writes to the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::Result;
use serde_json::{Value, json};

/// The results of a measurement.
pub(crate) struct Report {
    command: &'static str,
    facts: Vec<(&'static str, Value, String)>,
    rows: Vec<Row>,
}

/// One measured value, with the target if it has one.
struct Row {
    name: Cow<'static, str>,
    value: f64,
    unit: Unit,
    target: Target,
}

/// The target of a number.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// Printed for the reader; there is no target.
    None,
    AtMost(f64),
    AtLeast(f64),
    /// Measured elsewhere, for comparison; there is no target.
    Like(f64, f64),
}

/// The unit of a number.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// A ratio.
    Times,
    /// A part of a whole, which may be small.
    Share,
    Milliseconds,
    /// Bytes, shown in MB of 10^6.
    Megabytes,
    MegabytesPerSecond,
    Bytes,
    /// A number whose name has its unit.
    Number,
}

impl Report {
    /// Starts the report of a subcommand.
    pub(crate) fn new(command: &'static str) -> Self {
        Self { command, facts: Vec::new(), rows: Vec::new() }
    }

    /// Adds a fact without a target.
    pub(crate) fn fact(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = value.into();
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Number(number) if number.is_f64() => {
                format!("{:.1}", number.as_f64().unwrap_or_default())
            }
            other => other.to_string(),
        };
        self.facts.push((name, value, text));
    }

    /// Adds a number of bytes without a target.
    pub(crate) fn fact_bytes(&mut self, name: &'static str, bytes: u64) {
        self.facts.push((name, bytes.into(), Unit::Megabytes.write(bytes as f64)));
    }

    /// Adds a measured value.
    pub(crate) fn row(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: Unit,
        target: Target,
    ) {
        self.rows.push(Row { name: name.into(), value, unit, target });
    }

    /// Returns whether every target was reached.
    pub(crate) fn passes(&self) -> bool {
        self.rows.iter().all(|row| row.passes() != Some(false))
    }

    /// Prints the report as a table, or as one JSON object.
    pub(crate) fn print(&self, as_json: bool) -> Result<()> {
        let text = if as_json { format!("{}\n", self.json()) } else { self.table() };
        say(&text)
    }

    fn json(&self) -> Value {
        let facts: serde_json::Map<String, Value> =
            self.facts.iter().map(|(name, value, _)| ((*name).to_owned(), value.clone())).collect();
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({ "command": self.command, "passes": self.passes(), "facts": facts, "rows": rows })
    }

    fn table(&self) -> String {
        let mut text = format!("quipu-bench {}\n\n", self.command);
        let width = |names: &mut dyn Iterator<Item = &str>| {
            names.map(|name| name.chars().count()).max().unwrap_or(0)
        };
        let name_width = width(&mut self.facts.iter().map(|(name, ..)| *name))
            .max(width(&mut self.rows.iter().map(|row| row.name.as_ref())));
        for (name, _, value) in &self.facts {
            text.push_str(&format!("{name:<name_width$}  {value}\n"));
        }
        let targets: Vec<String> = self.rows.iter().map(Row::target_text).collect();
        let target_width = width(&mut targets.iter().map(String::as_str)).max(12);
        text.push_str(&format!(
            "\n{:<name_width$}  {:>target_width$}  {:>12}\n",
            "", "target", "measured"
        ));
        for (row, target) in self.rows.iter().zip(&targets) {
            let mark = match row.passes() {
                Some(true) => "  pass",
                Some(false) => "  MISS",
                None => "",
            };
            text.push_str(&format!(
                "{:<name_width$}  {target:>target_width$}  {:>12}{mark}\n",
                row.name,
                row.unit.write(row.value)
            ));
        }
        text
    }
}

impl Row {
    fn passes(&self) -> Option<bool> {
        match self.target {
            Target::None | Target::Like(..) => None,
            Target::AtMost(limit) => Some(self.value <= limit),
            Target::AtLeast(limit) => Some(self.value >= limit),
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            Target::None => "-".to_owned(),
            Target::AtMost(limit) => format!("≤ {}", self.unit.write(limit)),
            Target::AtLeast(limit) => format!("≥ {}", self.unit.write(limit)),
            Target::Like(low, high) if low == high => format!("like {}", self.unit.write(low)),
            Target::Like(low, high) => {
                let low = self.unit.write(low);
                let number = low.split(' ').next().unwrap_or_default();
                format!("like {number} – {}", self.unit.write(high))
            }
        }
    }

    fn json(&self) -> Value {
        let (at_most, at_least, like) = match self.target {
            Target::None => (None, None, None),
            Target::AtMost(limit) => (Some(limit), None, None),
            Target::AtLeast(limit) => (None, Some(limit), None),
            Target::Like(low, high) => (None, None, Some([low, high])),
        };
        json!({
            "name": self.name,
            "measured": self.value,
            "unit": self.unit.name(),
            "at_most": at_most,
            "at_least": at_least,
            "like": like,
            "pass": self.passes(),
        })
    }
}

impl Unit {
    fn write(self, value: f64) -> String {
        match self {
            Self::Times => format!("{value:.2} ×"),
            Self::Share => format!("{value:.3}"),
            Self::Milliseconds => format!("{value:.1} ms"),
            Self::Megabytes => format!("{:.2} MB", value / 1e6),
            Self::MegabytesPerSecond => format!("{value:.1} MB/s"),
            Self::Bytes => format!("{value:.0} bytes"),
            Self::Number => format!("{value:.1}"),
        }
    }

    /// Returns the unit of the number in JSON, which is never scaled.
    fn name(self) -> &'static str {
        match self {
            Self::Times | Self::Share => "ratio",
            Self::Milliseconds => "ms",
            Self::Megabytes | Self::Bytes => "bytes",
            Self::MegabytesPerSecond => "MB/s",
            Self::Number => "number",
        }
    }
}

/// Writes a result to standard output; a closed pipe is not an error.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints progress on standard error.
pub(crate) fn note(text: &str) {
    // Standard error may be closed; the measurement continues.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_is_marked_and_counted() {
        let mut report = Report::new("import");
        report.fact_bytes("source", 100_000_000);
        report.row("speed", 12.5, Unit::MegabytesPerSecond, Target::None);
        report.row("ledger / source", 0.4, Unit::Times, Target::AtMost(0.45));
        assert!(report.passes());
        report.row("over agentsview", 7.0, Unit::Times, Target::AtLeast(8.0));
        assert!(!report.passes());
        report.row("share", 0.016, Unit::Share, Target::Like(0.01, 0.021));
        report.row("mean line", 1450.0, Unit::Bytes, Target::Like(1300.0, 1450.0));
        let table = report.table();
        assert!(table.contains("source           100.00 MB"), "{table}");
        assert!(table.contains("≤ 0.45 ×        0.40 ×  pass"), "{table}");
        assert!(table.contains("≥ 8.00 ×        7.00 ×  MISS"), "{table}");
        assert!(table.contains("  like 0.010 – 0.021         0.016\n"), "{table}");
        assert!(table.contains("  like 1300 – 1450 bytes    1450 bytes\n"), "{table}");
        assert_eq!(report.json()["rows"][2]["pass"], false);
        assert_eq!(report.json()["rows"][3]["pass"], serde_json::Value::Null);
    }
}
