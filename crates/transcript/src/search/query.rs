//! The query language: words, `"phrases"`, `-not`, `prefix*` and filters such as `project:shop`.
//!
//! Nothing that a person types is an error except a filter whose value makes no sense; whatever is
//! no filter is text to look for, with all its dashes, quotes and brackets.

use std::fmt;

use jiff::Zoned;

use crate::entry::Role;
use crate::when;

/// Longer queries are refused: nobody types them, and each word costs a look into the index.
pub const LONGEST: usize = 64 << 10;

/// More words than this are refused, too.
pub const MOST_CLAUSES: usize = 256;

/// What to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Words and phrases: all of them, and none of those that are negated.
    pub clauses: Vec<Clause>,
    /// What else has to hold. Of filters of one kind one is enough.
    pub filters: Vec<Filter>,
    /// Where to look; empty: everywhere but in thinking.
    pub places: Vec<Place>,
}

/// A word or a phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// As typed, without quotes, dash and star.
    pub text: String,
    /// It must not be there.
    pub is_negated: bool,
    /// The last word may go on.
    pub is_prefix: bool,
}

/// What has to hold of a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// It must not hold.
    pub is_negated: bool,
    /// What.
    pub what: What,
}

/// What a filter is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The session's project, by a part of its name or path.
    Project(String),
    /// The agent.
    Agent(String),
    /// The format, by its beginning.
    Format(String),
    /// The session, by the beginning of its id.
    Session(String),
    /// Who speaks.
    Role(Role),
    /// A call of this tool, or what it answered.
    Tool(String),
    /// A turn in which a tool was used on this file.
    File(String),
    /// Something failed.
    Error,
    /// Not before this, in milliseconds UTC.
    Since(i64),
    /// Before this.
    Until(i64),
    /// The session was compacted.
    Compaction,
}

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// What people and agents said.
    Text,
    /// What tools were asked.
    Input,
    /// What tools answered.
    Result,
    /// The model's reasoning.
    Thinking,
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
        ("notes", &[Place::Notes]),
        ("cron", &[Place::Cron]),
        ("prompts", &[Place::Prompts]),
        ("all", &[Place::Text, Place::Input, Place::Result, Place::Thinking]),
    ];
}

const ROLES: &[Role] = &[Role::User, Role::Assistant, Role::Tool, Role::System];

/// The words that begin a filter.
const KEYS: &[&str] = &[
    "project", "agent", "format", "session", "role", "tool", "file", "is", "has", "since", "until",
    "in",
];

/// Why a query cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryError {
    /// A filter's value is none of those that it knows.
    Value {
        /// The filter.
        key: &'static str,
        /// What was said.
        value: String,
        /// What could be said.
        known: Vec<&'static str>,
    },
    /// A time that cannot be read.
    Time {
        /// The filter.
        key: &'static str,
        /// What was said.
        value: String,
    },
    /// Too much text.
    TooLong,
    /// Too many words.
    TooManyWords,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Value { key, value, known } => {
                write!(f, "`{key}:{value}` is no filter; {key}: takes {}", known.join(", "))
            }
            QueryError::Time { key, value } => {
                write!(f, "`{key}:{value}` names no time; try 3d, yesterday or 2026-11-01")
            }
            QueryError::TooLong => {
                write!(f, "the query is longer than {} KiB", LONGEST >> 10)
            }
            QueryError::TooManyWords => {
                write!(f, "the query has more than {MOST_CLAUSES} words")
            }
        }
    }
}

impl std::error::Error for QueryError {}

/// Reads a query. `now` is what `since:3d` counts from.
pub fn parse(text: &str, now: &Zoned) -> Result<Query, QueryError> {
    if text.len() > LONGEST {
        return Err(QueryError::TooLong);
    }
    let mut query = Query::default();
    let mut rest = text;
    while let Some((token, after)) = next_token(rest) {
        rest = after;
        query.add(&token, now)?;
    }
    if query.clauses.len() > MOST_CLAUSES {
        return Err(QueryError::TooManyWords);
    }
    Ok(query)
}

impl Query {
    /// Looks for one text as it is, whatever it looks like.
    pub fn literal(text: &str) -> Query {
        let clause = Clause { text: text.to_owned(), is_negated: false, is_prefix: false };
        Query { clauses: vec![clause], ..Query::default() }
    }

    /// True if it says nothing.
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.filters.is_empty() && self.places.is_empty()
    }

    fn add(&mut self, token: &Token<'_>, now: &Zoned) -> Result<(), QueryError> {
        if let Some((key, value)) = token.filter() {
            return self.filter(key, value, token.is_negated, now);
        }
        let mut text = token.text;
        let mut is_prefix = token.has_star;
        if !token.is_quoted
            && let Some(start) = text.strip_suffix('*')
            && !start.is_empty()
        {
            text = start.trim_end_matches('*');
            is_prefix = true;
        }
        let clause = Clause { text: text.to_owned(), is_negated: token.is_negated, is_prefix };
        if !clause.text.is_empty() && !self.clauses.contains(&clause) {
            self.clauses.push(clause);
        }
        Ok(())
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
        let time = |moment: Option<jiff::Timestamp>| match moment {
            Some(moment) => Ok(moment.as_millisecond()),
            None => Err(QueryError::Time { key, value: value.to_owned() }),
        };
        let owned = value.to_owned();
        let what = match key {
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
                What::Role(*role.ok_or_else(|| unknown(&known))?)
            }
            "is" if lower == "error" => What::Error,
            "is" => return Err(unknown(&["error"])),
            "has" if lower == "compaction" => What::Compaction,
            "has" => return Err(unknown(&["compaction"])),
            "since" => What::Since(time(when::parse(value, now))?),
            "until" => What::Until(time(when::parse_end(value, now))?),
            "project" => What::Project(owned),
            "agent" => What::Agent(owned),
            "format" => What::Format(owned),
            "session" => What::Session(owned),
            "tool" => What::Tool(owned),
            _ => What::File(owned),
        };
        self.filters.push(Filter { is_negated, what });
        Ok(())
    }
}

/// A piece of a query: what stands between spaces, or in quotes.
#[derive(Debug, PartialEq, Eq)]
struct Token<'q> {
    text: &'q str,
    /// What stands before the quotes: `project:` of `project:"a b"`.
    key: Option<&'static str>,
    is_negated: bool,
    is_quoted: bool,
    /// A star follows the closing quote.
    has_star: bool,
}

impl<'q> Token<'q> {
    /// The filter that it is, if it is one.
    fn filter(&self) -> Option<(&'static str, &'q str)> {
        if let Some(key) = self.key {
            return (!self.text.is_empty()).then_some((key, self.text));
        }
        if self.is_quoted {
            return None;
        }
        let (key, value) = self.text.split_once(':')?;
        let key = KEYS.iter().find(|known| **known == key)?;
        // An address of a file is text; a key without a value, too.
        (!value.is_empty() && !value.starts_with("//")).then_some((*key, value))
    }
}

/// NUL and other control characters separate words as spaces do.
fn is_space(character: char) -> bool {
    character.is_whitespace() || character.is_control()
}

/// The first piece of a query, and the rest of it.
fn next_token(text: &str) -> Option<(Token<'_>, &str)> {
    let text = text.trim_start_matches(is_space);
    let mut token =
        Token { text: "", key: None, is_negated: false, is_quoted: false, has_star: false };
    // Two dashes are an option of some program, not a "not".
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
