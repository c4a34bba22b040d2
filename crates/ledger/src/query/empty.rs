//! Transcripts without a line. They tell nothing, so they are no sessions; but they are there, and
//! whoever asks for everything is shown them.

use quipu_transcript::format;
use rusqlite::Connection;

use super::listed::{Filter, Listed};
use crate::Result;
use crate::ids::SessionRow;
use crate::wire::Session;

/// Those that are wanted. None unless everything is.
pub(super) fn all(conn: &Connection, filter: &Filter) -> Result<Vec<Session>> {
    if !filter.all {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare(
        "SELECT s.format, s.path, s.is_gone, g.mtime_ns / 1000000
           FROM sources s JOIN generations g ON g.id = s.generation
          WHERE s.kind = 'file' AND s.refused IS NULL AND g.size = 0
            AND NOT EXISTS (SELECT 1 FROM session_sources ss WHERE ss.source = s.id)
          ORDER BY g.mtime_ns DESC, s.id DESC",
    )?;
    let mut known = conn
        .prepare("SELECT 1 FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3")?;
    let mut rows = statement.query([])?;
    let mut found: Vec<Session> = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let path: Vec<u8> = row.get(1)?;
        let Some(format) = format::by_name(&name) else { continue };
        let origin = format.origin(&path);
        let Some(id) = origin.session.filter(|_| origin.part.is_transcript()) else { continue };
        let agent = origin.agent.unwrap_or_default();
        let is_listed = found
            .iter()
            .any(|other| (&other.format, &other.agent, &other.id) == (&name, &agent, &id));
        if is_listed || known.exists((&name, &agent, &id))? {
            continue;
        }
        let time: Option<i64> = Some(row.get(3)?).filter(|time| *time > 0);
        let listed = Listed {
            row: SessionRow(0),
            format: name,
            agent,
            slug: origin.project,
            path: None,
            started_at: time,
            updated_at: time,
            channel: None,
            is_minor: true,
        };
        let is_of_project = filter
            .project
            .as_ref()
            .is_none_or(|project| project.closeness(listed.slug.as_deref(), None).is_some());
        if !filter.takes(&listed) || !is_of_project {
            continue;
        }
        let is_gone: bool = row.get(2)?;
        found.push(Session {
            id,
            project: listed.project().to_owned(),
            part: origin.part.as_str().to_owned(),
            format: listed.format,
            agent: listed.agent,
            slug: listed.slug,
            modified_at: time,
            updated_at: time,
            cost_usd: Some(0.0),
            parent: origin.parent,
            state: match (is_gone, origin.archive) {
                (true, _) => "gone",
                (false, Some(format::Archive::Deleted)) => "deleted",
                (false, Some(_)) => "archived",
                (false, None) => "live",
            }
            .to_owned(),
            ..Session::default()
        });
    }
    Ok(found)
}
