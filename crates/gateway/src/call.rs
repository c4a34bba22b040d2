//! One request as a route sees it: a ledger to read from, the parts of the request, and the
//! settings.

use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use axum::http::Uri;
use jiff::Zoned;
use quipu_ledger::Ledger;
use quipu_ledger::freshness::Freshness;
use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::{self, Filter};
use quipu_transcript::format;
use quipu_transcript::project::Name;
use quipu_transcript::when;
use serde::de::DeserializeOwned;

use crate::answer::{Answer, ListBuilder};
use crate::page::List;
use crate::problem::Problem;
use crate::settings::Settings;

/// The number of items of a page if the request has no `limit`.
const PAGE_ITEMS: usize = 100;

/// The largest number of items of a page.
const MAX_PAGE_ITEMS: usize = 1000;

/// A request with everything that a route needs.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    pub(crate) ledger: &'c Ledger,
    pub(crate) freshness: &'c Freshness,
    pub(crate) settings: &'c Settings,
    pub(crate) asked: &'c Asked,
    /// The only agent whose sessions the caller may see; `None` for all agents.
    pub(crate) agent: Option<&'c str>,
}

/// The parts of a request: the path, its parameters by name, and the query string.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) names: Vec<(String, String)>,
    pub(crate) query: String,
}

impl Asked {
    /// Takes the parts of a request. Fails if the path is not UTF-8.
    pub(crate) fn of(
        names: Result<RawPathParams, RawPathParamsRejection>,
        uri: &Uri,
    ) -> Result<Asked, Problem> {
        let names = names.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        Ok(Asked {
            path: uri.path().to_owned(),
            names: names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            query: uri.query().unwrap_or_default().to_owned(),
        })
    }

    /// Parses the query string. Fails for an option that the route does not have.
    pub(crate) fn options<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_urlencoded::from_str(&self.query)
            .map_err(|error| Problem::bad_request(error.to_string()))
    }

    /// Returns the value of a path parameter.
    pub(crate) fn name(&self, place: &str) -> &str {
        let found = self.names.iter().find(|(name, _)| name == place);
        found.map_or("", |(_, value)| value)
    }
}

impl Call<'_> {
    /// Parses the query string. Fails for an option that the route does not have.
    pub(crate) fn options<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.asked.options()
    }

    /// Returns the value of a path parameter.
    pub(crate) fn name(&self, place: &str) -> &str {
        self.asked.name(place)
    }

    /// Returns the session that the path names.
    pub(crate) fn session(&self) -> Result<SessionRow, Problem> {
        let (ledger, name) = (self.ledger, self.name("id"));
        Ok(match self.agent {
            Some(agent) => query::find_session_of_agent(ledger, name, agent)?,
            None => query::find_session(ledger, name)?,
        })
    }

    /// Returns the agent whose sessions are meant: the one that the caller asks for, or the only one
    /// that it may see.
    pub(crate) fn agent_or(&self, asked: Option<String>) -> Result<Option<String>, Problem> {
        match (self.agent, asked) {
            (None, asked) => Ok(asked),
            (Some(own), Some(asked)) if !asked.eq_ignore_ascii_case(own) => {
                Err(Problem::forbidden("this token is for another agent"))
            }
            (Some(own), _) => Ok(Some(own.to_owned())),
        }
    }

    /// Returns whether the caller may see what belongs to an agent.
    pub(crate) fn may_see(&self, agent: &str) -> bool {
        self.agent.is_none_or(|own| own.eq_ignore_ascii_case(agent))
    }

    /// Fails if the caller may see the sessions of one agent only, for an answer about all of them.
    pub(crate) fn refuse_bound(&self) -> Result<(), Problem> {
        match self.agent {
            None => Ok(()),
            Some(_) => Err(Problem::forbidden("this token is for the sessions of one agent")),
        }
    }

    /// Returns the list that cursors of this request belong to.
    pub(crate) fn list(&self) -> List {
        List::of(&self.asked.path, &self.asked.query)
    }

    /// Returns the time of the request, in the zone of the server.
    pub(crate) fn now(&self) -> Zoned {
        jiff::Timestamp::now().to_zoned(self.settings.zone.clone())
    }

    /// Returns the range of `since` and `until`, in milliseconds UTC.
    pub(crate) fn range(
        &self,
        since: &Option<String>,
        until: &Option<String>,
    ) -> Result<(Option<i64>, Option<i64>), Problem> {
        when::range(since.as_deref(), until.as_deref(), &self.now())
            .map_err(|error| Problem::bad_request(error.to_string()))
    }

    /// Returns one object as the answer.
    pub(crate) fn object(&self, value: &impl serde::Serialize) -> Result<Answer, Problem> {
        Answer::object(value, self.freshness)
    }

    /// Returns a page of a list. Its cursors are numbers of items to skip.
    pub(crate) fn page<T: serde::Serialize>(
        &self,
        items: &[T],
        page: &Page,
    ) -> Result<Answer, Problem> {
        let skipped = page.skipped(self)?;
        let mut list = ListBuilder::new(page.limit());
        for item in items.iter().skip(skipped) {
            if !list.add(item)? {
                break;
            }
        }
        let end = skipped + list.len();
        let next = (end < items.len()).then(|| self.list().cursor(&end.to_string()));
        list.finish(Some(items.len() as u64), next, self.freshness)
    }
}

/// Selects a page of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) limit: Option<usize>,
    pub(crate) cursor: Option<String>,
}

impl Page {
    /// Returns the largest number of items.
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(PAGE_ITEMS).clamp(1, MAX_PAGE_ITEMS)
    }

    /// Returns the number of items on the pages before.
    pub(crate) fn skipped(&self, call: &Call<'_>) -> Result<usize, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(0) };
        call.list().position(cursor)?.parse().map_err(|_| Problem::bad_cursor())
    }
}

/// Returns the format that an option names.
pub(crate) fn format_named(name: &Option<String>) -> Result<Option<String>, Problem> {
    let Some(name) = name else { return Ok(None) };
    match format::by_beginning(name) {
        Some(format) => Ok(Some(format.name().to_owned())),
        None => Err(Problem::bad_request(format!("unknown format `{name}`"))),
    }
}

/// Returns a filter over all sessions of a project, an agent and a format; `None` if none is named.
pub(crate) fn chosen(
    project: &Option<String>,
    agent: &Option<String>,
    format: &Option<String>,
) -> Result<Option<Filter>, Problem> {
    if project.is_none() && agent.is_none() && format.is_none() {
        return Ok(None);
    }
    Ok(Some(Filter {
        project: project.as_deref().map(Name::new),
        agent: agent.clone(),
        format: format_named(format)?,
        all: true,
        ..Filter::default()
    }))
}
