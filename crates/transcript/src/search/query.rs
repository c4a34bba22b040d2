//! The query language: words, `"phrases"`, `-not`, `prefix*`, `OR`, `NOT` and filters such as
//! `project:shop`.
//!
//! Only a filter with an invalid value or beside an operator, or a query that is too long, is an
//! error. Everything that is neither a filter nor an operator is text to search for, with all its dashes, quotes and brackets.

mod operators;
mod understood;

use std::fmt;

use jiff::Zoned;

use self::operators::{Operator, Part};
use crate::entry::Role;
use crate::when;

/// Maximum length of a query in bytes. No person types a longer one, and each word costs an index
/// lookup.
pub const MAX_QUERY_BYTES: usize = 64 << 10;

/// Maximum number of words and phrases in a query. Each costs an index lookup.
pub const MAX_CLAUSES: usize = 256;

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The sides of `OR`. One must match; without words, there is none.
    pub alternatives: Vec<Alternative>,
    /// Words and phrases with a dash. None of them may match, on any side of `OR`.
    pub excluded: Vec<Clause>,
    /// Conditions on a hit. Of several filters of one kind, one must hold; of negated ones and of
    /// times, all.
    pub filters: Vec<Filter>,
    /// The places to search; if empty, all but thinking and attached text.
    pub places: Vec<Place>,
}

/// One side of `OR`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alternative {
    /// Words and phrases that must all match.
    pub required: Vec<Clause>,
    /// For each `NOT`, the words and phrases after it, which must not all match.
    pub excluded: Vec<Vec<Clause>>,
}

/// A word or a phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// The text as typed, without quotes, dash and star.
    pub text: String,
    /// True if it was in quotes.
    pub is_quoted: bool,
    /// True if the last word is a prefix.
    pub is_prefix: bool,
}

/// A condition on a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// True if the condition must not hold.
    pub is_negated: bool,
    /// The condition.
    pub condition: Condition,
}

/// The condition of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The session's project, by a part of its name or path.
    Project(String),
    /// The agent.
    Agent(String),
    /// The agent of a caller that may see no other: a rule beside every other one. No word of the
    /// language means it.
    OnlyAgent(String),
    /// The format, by its beginning.
    Format(String),
    /// The session, by the beginning of its id.
    Session(String),
    /// The speaker.
    Role(Role),
    /// A call of this tool, or its result.
    Tool(String),
    /// A turn in which a tool was used on this file.
    File(String),
    /// A failure.
    Error,
    /// At or after this time, in milliseconds UTC.
    Since(i64),
    /// Before this time, in milliseconds UTC.
    Until(i64),
    /// The session was compacted.
    Compaction,
}

/// A kind of text to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Messages of people and agents.
    Text,
    /// Inputs of tool calls.
    Input,
    /// Results of tool calls.
    Result,
    /// The model's reasoning.
    Thinking,
    /// Text that programs attached to a message: opened files, facts about the sender, reminders.
    Attached,
    /// Memory and personality files.
    Notes,
    /// Scheduled jobs and their runs.
    Cron,
    /// The agent's own list of prompts.
    Prompts,
}

impl Place {
    const ALL: &'static [(&'static str, &'static [Place])] = &[
        ("text", &[Place::Text]),
        ("input", &[Place::Input]),
        ("result", &[Place::Result]),
        ("tools", &[Place::Input, Place::Result]),
        ("thinking", &[Place::Thinking]),
        ("attached", &[Place::Attached]),
        ("notes", &[Place::Notes]),
        ("cron", &[Place::Cron]),
        ("prompts", &[Place::Prompts]),
        ("all", &[Place::Text, Place::Input, Place::Result, Place::Thinking, Place::Attached]),
    ];
}

const ROLES: &[Role] = &[Role::User, Role::Assistant, Role::Tool, Role::System];

/// The words that begin a filter.
const KEYS: &[&str] = &[
    "project", "agent", "format", "session", "role", "tool", "file", "is", "has", "since", "until",
    "in",
];

/// Returns the words that begin a filter, each with the values that it accepts; empty if any.
pub fn filters() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    KEYS.iter().map(|key| {
        let values = match *key {
            "in" => Place::ALL.iter().map(|(name, _)| *name).collect(),
            "role" => ROLES.iter().map(|role| role.as_str()).collect(),
            "is" => vec!["error"],
            "has" => vec!["compaction"],
            _ => Vec::new(),
        };
        (*key, values)
    })
}

/// The reason why a query cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryError {
    /// The value of a filter is not one that it accepts.
    Value {
        /// The filter.
        key: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        known: Vec<&'static str>,
    },
    /// A time that cannot be parsed.
    Time {
        /// The filter.
        key: &'static str,
        /// The given value.
        value: String,
    },
    /// An operator beside a filter.
    Operator {
        /// The operator.
        operator: &'static str,
    },
    /// The query is too long.
    TooLong,
    /// The query has too many words.
    TooManyWords,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Value { key, value, known } => {
                write!(
                    f,
                    "`{key}:{value}` is not a valid filter; {key}: accepts {}",
                    known.join(", ")
                )
            }
            QueryError::Time { key, value } => {
                write!(
                    f,
                    "`{key}:{value}` is not a time; try 3d, yesterday, last-week, 2026-11-01 or \
                     2026-11-01..2026-11-07"
                )
            }
            QueryError::Operator { operator } => {
                write!(f, "`{operator}` joins words, and a filter holds for the whole query")
            }
            QueryError::TooLong => {
                write!(f, "the query is longer than {} KiB", MAX_QUERY_BYTES >> 10)
            }
            QueryError::TooManyWords => {
                write!(f, "the query has more than {MAX_CLAUSES} words")
            }
        }
    }
}

impl std::error::Error for QueryError {}

/// Parses a query. Relative times such as `since:3d` count from `now`.
///
/// ```
/// use quipu_transcript::search::query;
///
/// let found = query::parse("\"disk full\" -test project:shop since:3d", &jiff::Zoned::now())?;
/// assert_eq!((found.alternatives.len(), found.excluded.len(), found.filters.len()), (1, 1, 2));
/// # Ok::<(), query::QueryError>(())
/// ```
pub fn parse(text: &str, now: &Zoned) -> Result<Query, QueryError> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(QueryError::TooLong);
    }
    let mut query = Query::default();
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((token, after)) = next_token(rest) {
        rest = after;
        if let Some((key, value)) = token.filter() {
            query.filter(key, value, token.is_negated, now)?;
            parts.push(Part::Filter);
            continue;
        }
        match (Operator::of(&token), token.clause()) {
            (Some(operator), _) => parts.push(Part::Operator(operator)),
            (None, Some(clause)) if token.is_negated => push_new(&mut query.excluded, clause),
            (None, Some(clause)) => parts.push(Part::Clause(clause)),
            (None, None) => {}
        }
    }
    query.alternatives = operators::bind(&parts)?;
    if query.clauses().count() > MAX_CLAUSES {
        return Err(QueryError::TooManyWords);
    }
    Ok(query)
}

/// Parses a query. Text without words, such as `""`, is searched for as it is.
pub fn parse_or_literal(text: &str, now: &Zoned) -> Result<Query, QueryError> {
    let query = parse(text, now)?;
    match query.is_empty() && !text.trim().is_empty() {
        true => Ok(Query::literal(text.trim())),
        false => Ok(query),
    }
}

/// Adds a clause unless it is there.
fn push_new(clauses: &mut Vec<Clause>, clause: Clause) {
    if !clauses.contains(&clause) {
        clauses.push(clause);
    }
}

impl Query {
    /// Returns a query for one text, without special characters.
    pub fn literal(text: &str) -> Query {
        let clause = Clause { text: text.to_owned(), is_quoted: true, is_prefix: false };
        let alternative = Alternative { required: vec![clause], ..Alternative::default() };
        Query { alternatives: vec![alternative], ..Query::default() }
    }

    /// Returns whether the query has neither clauses nor filters nor places.
    pub fn is_empty(&self) -> bool {
        !self.has_words() && self.filters.is_empty() && self.places.is_empty()
    }

    /// Returns whether the query has words, wanted or not.
    pub fn has_words(&self) -> bool {
        self.clauses().next().is_some()
    }

    fn clauses(&self) -> impl Iterator<Item = &Clause> {
        let each = self.alternatives.iter();
        each.flat_map(|side| side.required.iter().chain(side.excluded.iter().flatten()))
            .chain(&self.excluded)
    }

    fn filter(
        &mut self,
        key: &'static str,
        value: &str,
        is_negated: bool,
        now: &Zoned,
    ) -> Result<(), QueryError> {
        let lower = value.to_lowercase();
        let unknown = |known: &[&'static str]| QueryError::Value {
            key,
            value: value.to_owned(),
            known: known.to_vec(),
        };
        let owned = value.to_owned();
        let condition = match key {
            "in" => {
                let known: Vec<_> = Place::ALL.iter().map(|(name, _)| *name).collect();
                let found = Place::ALL.iter().find(|(name, _)| *name == lower);
                let (_, places) = found.filter(|_| !is_negated).ok_or_else(|| unknown(&known))?;
                self.places.extend(*places);
                return Ok(());
            }
            "role" => {
                let role = ROLES.iter().find(|role| role.as_str() == lower);
                let known: Vec<_> = ROLES.iter().map(|role| role.as_str()).collect();
                Condition::Role(*role.ok_or_else(|| unknown(&known))?)
            }
            "is" if lower == "error" => Condition::Error,
            "is" => return Err(unknown(&["error"])),
            "has" if lower == "compaction" => Condition::Compaction,
            "has" => return Err(unknown(&["compaction"])),
            "since" | "until" => {
                let period = when::parse(value, now);
                let (start, end) = match period {
                    // The opposite of a range is not a range.
                    Some(period) if period.is_range && is_negated => (None, None),
                    Some(period) if period.is_range => (period.start, period.end),
                    Some(period) if key == "since" => (period.start, None),
                    Some(period) => (None, period.end),
                    None => (None, None),
                };
                if start.is_none() && end.is_none() {
                    return Err(QueryError::Time { key, value: value.to_owned() });
                }
                let ends = [
                    start.map(|start| Condition::Since(start.as_millisecond())),
                    end.map(|end| Condition::Until(end.as_millisecond())),
                ];
                let ends = ends.into_iter().flatten();
                self.filters.extend(ends.map(|condition| Filter { is_negated, condition }));
                return Ok(());
            }
            "project" => Condition::Project(owned),
            "agent" => Condition::Agent(owned),
            "format" => Condition::Format(owned),
            "session" => Condition::Session(owned),
            "tool" => Condition::Tool(owned),
            _ => Condition::File(owned),
        };
        self.filters.push(Filter { is_negated, condition });
        Ok(())
    }
}

/// A token of a query: text between spaces, or in quotes.
#[derive(Debug, PartialEq, Eq)]
struct Token<'q> {
    text: &'q str,
    /// The filter key before the quotes: `project:` in `project:"a b"`.
    key: Option<&'static str>,
    is_negated: bool,
    is_quoted: bool,
    /// True if a star follows the closing quote.
    has_star: bool,
}

impl<'q> Token<'q> {
    /// Returns the token as text to search for.
    fn clause(&self) -> Option<Clause> {
        let mut text = self.text;
        let mut is_prefix = self.has_star;
        if !self.is_quoted
            && let Some(start) = text.strip_suffix('*')
            && !start.is_empty()
        {
            text = start.trim_end_matches('*');
            is_prefix = true;
        }
        let is_quoted = self.is_quoted;
        (!text.is_empty()).then(|| Clause { text: text.to_owned(), is_quoted, is_prefix })
    }

    /// Returns the filter's key and value, if the token is a filter.
    fn filter(&self) -> Option<(&'static str, &'q str)> {
        if let Some(key) = self.key {
            return (!self.text.is_empty()).then_some((key, self.text));
        }
        if self.is_quoted {
            return None;
        }
        let (key, value) = self.text.split_once(':')?;
        let key = KEYS.iter().find(|known| **known == key)?;
        // A URL is text, and so is a key without a value.
        (!value.is_empty() && !value.starts_with("//")).then_some((*key, value))
    }
}

/// Returns true for spaces, NUL and other control characters, which all separate words.
fn is_space(character: char) -> bool {
    character.is_whitespace() || character.is_control()
}

/// Returns the first token of a query, and the rest of the text.
fn next_token(text: &str) -> Option<(Token<'_>, &str)> {
    let text = text.trim_start_matches(is_space);
    let mut token =
        Token { text: "", key: None, is_negated: false, is_quoted: false, has_star: false };
    // Two dashes begin an option of a program, and do not negate.
    let mut rest = match text.strip_prefix('-') {
        Some(after) if !after.starts_with('-') && !after.starts_with(is_space) => {
            token.is_negated = !after.is_empty();
            if after.is_empty() { text } else { after }
        }
        _ => text,
    };
    if rest.is_empty() {
        return None;
    }
    let quoted = KEYS.iter().find_map(|key| {
        let value = rest.strip_prefix(key)?.strip_prefix(":\"")?;
        Some((*key, value))
    });
    if let Some((key, value)) = quoted {
        token.key = Some(key);
        (token.text, rest) = value.split_once('"').unwrap_or((value, ""));
        return Some((token, rest));
    }
    if let Some(phrase) = rest.strip_prefix('"') {
        token.is_quoted = true;
        (token.text, rest) = phrase.split_once('"').unwrap_or((phrase, ""));
        if let Some(after) = rest.strip_prefix('*') {
            token.has_star = true;
            rest = after;
        }
        return Some((token, rest));
    }
    let end = rest.find(|character| is_space(character) || character == '"').unwrap_or(rest.len());
    (token.text, rest) = rest.split_at(end);
    Some((token, rest))
}

#[cfg(test)]
mod tests;
