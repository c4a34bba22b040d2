//! Chooses frames by session, agent, project and type.

use quipu_transcript::format;
use quipu_transcript::project::Name;

use super::{EventSession, Frame};
use crate::wire::EventChange;

/// The conditions for frames. A frame has to meet all of them.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// The id of the session.
    pub session_id: Option<String>,
    /// The agent, by any of its names: its own, or that of its format.
    pub agent: Option<String>,
    /// The name of the project.
    pub project: Option<Name>,
    /// The types of changes; one of them is enough. Empty means all.
    pub types: Vec<String>,
    /// The only agent whose frames may be seen, by its own name. What concerns no agent, or another
    /// one, is left out.
    pub bound_to: Option<String>,
}

/// A type of changes that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no change has the type `{0}`")]
pub struct UnknownType(String);

impl EventFilter {
    /// Reads a list of types, separated by commas: `entry.appended,leaf.moved`. A type that ends
    /// with `.` means all types that begin with it.
    pub fn set_types(&mut self, list: &str) -> Result<(), UnknownType> {
        for wanted in list.split(',').filter(|wanted| !wanted.is_empty()) {
            let is_meant = |known: &&&str| {
                **known == wanted || (wanted.ends_with('.') && known.starts_with(wanted))
            };
            let before = self.types.len();
            self.types
                .extend(EventChange::TYPES.iter().filter(is_meant).map(|name| (*name).to_owned()));
            if self.types.len() == before {
                return Err(UnknownType(wanted.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns whether a frame meets the conditions.
    pub fn passes(&self, frame: &Frame) -> bool {
        let session = frame.session.as_deref();
        let may_see =
            self.bound_to.is_none() || self.bound_to.as_deref() == frame.wire.agent.as_deref();
        may_see
            && self
                .session_id
                .as_ref()
                .is_none_or(|id| session.is_some_and(|it| it.session_id == *id))
            && self.agent.as_ref().is_none_or(|agent| is_of_agent(agent, session, frame))
            && self.project.as_ref().is_none_or(|project| {
                session.is_some_and(|session| {
                    project.closeness(session.slug.as_deref(), session.path.as_deref()).is_some()
                })
            })
            && (self.types.is_empty()
                || frame
                    .wire
                    .changes
                    .iter()
                    .any(|change| self.types.iter().any(|name| name == change.type_name())))
    }
}

fn is_of_agent(agent: &str, session: Option<&EventSession>, frame: &Frame) -> bool {
    match session {
        Some(session) => format::is_agent(agent, &session.format, &session.agent),
        None => frame.wire.agent.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(agent)),
    }
}
