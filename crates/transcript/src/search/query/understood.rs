//! Writes a query as it was understood, for people: `checkout OR "time out", not test`.

use std::fmt;

use super::{Alternative, Clause, Query};

/// The words of a query in a fixed form.
pub struct Understood<'q>(&'q Query);

impl Query {
    /// Returns the words as they were understood, without filters.
    pub fn understood(&self) -> Understood<'_> {
        Understood(self)
    }
}

impl fmt::Display for Understood<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Query { alternatives, excluded, .. } = self.0;
        for (at, side) in alternatives.iter().enumerate() {
            let or = if at > 0 { " OR " } else { "" };
            let is_single =
                alternatives.len() == 1 || (side.required.len() == 1 && side.excluded.is_empty());
            match is_single {
                true => write!(f, "{or}{}", SideText(side))?,
                false => write!(f, "{or}({})", SideText(side))?,
            }
        }
        for (at, clause) in excluded.iter().enumerate() {
            let before = match (at, alternatives.is_empty()) {
                (0, true) => "not ",
                (0, false) => ", not ",
                _ => " or ",
            };
            write!(f, "{before}{}", ClauseText(clause))?;
        }
        Ok(())
    }
}

struct SideText<'q>(&'q Alternative);

impl fmt::Display for SideText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Alternative { required, excluded } = self.0;
        let is_grouped = required.len() > 1 && !excluded.is_empty();
        group(f, required, is_grouped)?;
        for clauses in excluded {
            f.write_str(" NOT ")?;
            group(f, clauses, clauses.len() > 1)?;
        }
        Ok(())
    }
}

fn group(f: &mut fmt::Formatter<'_>, clauses: &[Clause], is_grouped: bool) -> fmt::Result {
    f.write_str(if is_grouped { "(" } else { "" })?;
    for (at, clause) in clauses.iter().enumerate() {
        write!(f, "{}{}", if at > 0 { " AND " } else { "" }, ClauseText(clause))?;
    }
    f.write_str(if is_grouped { ")" } else { "" })
}

struct ClauseText<'q>(&'q Clause);

impl fmt::Display for ClauseText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clause { text, is_quoted, is_prefix } = self.0;
        let quote = if *is_quoted { "\"" } else { "" };
        write!(f, "{quote}{text}{quote}{}", if *is_prefix { "*" } else { "" })
    }
}
