//! Binds `OR`, `NOT` and `AND` as FTS5 does.
//!
//! Words beside each other bind tightest, then `NOT`, then `AND`, then `OR`: `a b NOT c d OR e` is
//! `((a b) NOT (c d)) OR e`. An operator without words on both sides is text.

use super::{Alternative, Clause, QueryError, Token, push_new};

/// A word between other words that joins them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    Not,
    And,
}

impl Operator {
    /// Returns the operator that a token is.
    pub(super) fn of(token: &Token<'_>) -> Option<Operator> {
        let is_plain = !token.is_quoted && !token.is_negated;
        [Operator::Or, Operator::Not, Operator::And]
            .into_iter()
            .find(|operator| is_plain && operator.as_str() == token.text)
    }

    fn as_str(self) -> &'static str {
        match self {
            Operator::Or => "OR",
            Operator::Not => "NOT",
            Operator::And => "AND",
        }
    }
}

/// A part of a query, in the order in which it was typed.
#[derive(Debug)]
pub(super) enum Part {
    Clause(Clause),
    Operator(Operator),
    Filter,
}

/// Returns the sides of `OR`.
pub(super) fn bind(parts: &[Part]) -> Result<Vec<Alternative>, QueryError> {
    let mut sides = vec![Alternative::default()];
    // True after `NOT`, up to the next operator.
    let mut is_excluded = false;
    let mut has_left = false;
    for (at, part) in parts.iter().enumerate() {
        let clause = match part {
            Part::Filter => continue,
            Part::Clause(clause) => clause.clone(),
            Part::Operator(operator) => {
                let after = parts.get(at + 1..).unwrap_or_default();
                let right = after.iter().find(|part| !matches!(part, Part::Filter));
                if has_left && matches!(right, Some(Part::Clause(_))) {
                    has_left = false;
                    is_excluded = *operator == Operator::Not;
                    match (operator, sides.last_mut()) {
                        (Operator::Not, Some(side)) => side.excluded.push(Vec::new()),
                        (Operator::Or, _) => sides.push(Alternative::default()),
                        _ => {}
                    }
                    continue;
                }
                let before = at.checked_sub(1).and_then(|before| parts.get(before));
                if [before, after.first()].iter().any(|part| matches!(part, Some(Part::Filter))) {
                    return Err(QueryError::Operator { operator: operator.as_str() });
                }
                let text = operator.as_str().to_owned();
                Clause { text, is_quoted: false, is_prefix: false }
            }
        };
        has_left = true;
        let Some(side) = sides.last_mut() else { continue };
        let group = match side.excluded.last_mut().filter(|_| is_excluded) {
            Some(excluded) => excluded,
            None => &mut side.required,
        };
        push_new(group, clause);
    }
    sides.retain(|side| !side.required.is_empty());
    Ok(sides)
}
