//! New sessions: empty ones, and forks.

use quipu_ledger::Error;
use quipu_ledger::store::{Fork, NewSession, Session};
use quipu_ledger::wire::StoredSession;
use quipu_transcript::key::SessionKey;
use serde::Deserialize;

use super::Work;
use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::given::Given;

/// Creates an empty session, like `quipu session new`.
pub(crate) fn create(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        agent: Option<String>,
        key: Option<String>,
        id: Option<String>,
        cwd: Option<String>,
        /// True if the session that the key leads to is as good as a new one.
        #[serde(default)]
        or_existing: bool,
    }
    given.refuse_conditions()?;
    let asked: Body = given.body()?;
    let agent = given.agent_or(asked.agent.as_deref())?;
    check_key(&given, asked.key.as_deref())?;
    if asked.or_existing && asked.key.is_none() {
        return Err(Problem::bad_request("`or_existing` needs a `key`"));
    }
    Work::on_thread(move |store| {
        let existing = || match asked.key.as_deref().filter(|_| asked.or_existing) {
            Some(key) => store.session_of_key(key),
            None => Ok(None),
        };
        if let Some(session) = existing()? {
            return Answer::json(&stored(&session)?);
        }
        let made = store.create(&NewSession {
            agent: agent.as_deref(),
            id: asked.id.as_deref(),
            key: asked.key.as_deref(),
            cwd: asked.cwd.as_deref(),
            ..NewSession::default()
        });
        let session = match made {
            // Another process may have been faster.
            Err(error @ Error::Exists { .. }) => existing()?.ok_or(error)?,
            made => made?,
        };
        Answer::json(&stored(&session)?)
    })
}

/// Creates a session from a path of another one, like `quipu session fork`.
pub(crate) fn fork(given: Given) -> Result<Work, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        at: Option<String>,
        key: Option<String>,
        id: Option<String>,
        cwd: Option<String>,
    }
    given.refuse_conditions()?;
    let asked: Body = given.body()?;
    check_key(&given, asked.key.as_deref())?;
    let name = given.name("id");
    Work::on_thread(move |store| {
        let from = store.find(&name, given.agent.as_deref())?;
        if given.agent.is_some() && asked.key.is_none() {
            // The fork of a native session has its agent. That of a collected one may have another,
            // unless a key names it.
            match store.session_at(from) {
                Err(Error::Collected { .. }) => {
                    return Err(Problem::refused("a fork of a collected session needs a `key`"));
                }
                found => drop(found?),
            }
        }
        let fork = Fork {
            at: asked.at.as_deref(),
            id: asked.id.as_deref(),
            key: asked.key.as_deref(),
            cwd: asked.cwd.as_deref(),
        };
        let forked = store.fork_at(from, &fork).map_err(Problem::of_write)?;
        Answer::json(&stored(&forked.session)?)
    })
}

/// Fails if a key belongs to an agent that the caller may not write to.
fn check_key(given: &Given, key: Option<&str>) -> Result<(), Problem> {
    let key = key.map(SessionKey::parse);
    match (given.agent.as_deref(), key.as_ref().map(SessionKey::agent)) {
        (Some(own), Some(agent)) if agent != Some(own) => {
            Err(Problem::forbidden("this token is for another agent"))
        }
        _ => Ok(()),
    }
}

fn stored(session: &Session) -> quipu_ledger::Result<StoredSession> {
    let session_key = session.key()?;
    let (session_id, agent) = (session.id().to_owned(), session.agent().to_owned());
    Ok(StoredSession { session_id, agent, session_key })
}
