//! The statements that add an entry's rows.
//!
//! The callers decide the values; this file never derives one.

use quipu_transcript::entry::{CronJob, CronRun};
use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{CachedStatement, Connection};

use super::draft::{Detail, DraftEntry, Fact};
use super::{RecordPosition, outputs, usage};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow, SourceId};
use crate::project::interned::kinds::KindId;

/// The position of an entry in its session.
#[derive(Debug, Default, Clone)]
pub(crate) struct TreePosition {
    pub(crate) session: Option<SessionRow>,
    pub(crate) parent: Option<EntryId>,
    /// The id of the parent, if the session has no such entry yet.
    pub(crate) missing: Option<PackedId>,
    pub(crate) turn: Option<EntryId>,
}

/// The statements for nearly every record. A fold keeps them, because preparing them costs as much
/// as binding their values.
pub(crate) struct Inserts<'c> {
    entry: CachedStatement<'c>,
    message: CachedStatement<'c>,
    words: CachedStatement<'c>,
}

impl<'c> Inserts<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Result<Inserts<'c>> {
        Ok(Inserts {
            entry: conn.prepare_cached(
                "INSERT INTO entry_rows
                    (id, session, kind, uuid, parent, parent_uuid, turn, time, content)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            message: conn.prepare_cached("INSERT INTO message_texts (id, text) VALUES (?1, ?2)")?,
            words: conn.prepare_cached(
                "INSERT INTO search (rowid, tool_result, tool_input, prose, thinking, attached)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?,
        })
    }

    /// Adds the row of an entry.
    pub(crate) fn entry(
        &mut self,
        id: EntryId,
        kind: KindId,
        tree_position: &TreePosition,
        entry: &DraftEntry,
    ) -> Result<()> {
        self.entry.execute((
            id,
            tree_position.session,
            kind,
            &entry.uuid,
            tree_position.parent,
            &tree_position.missing,
            tree_position.turn,
            entry.time,
            entry.content,
        ))?;
        Ok(())
    }

    /// Adds the text of the human or the agent.
    pub(crate) fn message(
        &mut self,
        id: EntryId,
        tree_position: &TreePosition,
        entry: &DraftEntry,
    ) -> Result<()> {
        if entry.is_message && tree_position.session.is_some() {
            self.message.execute((id, entry.text.prose.as_str()))?;
        }
        Ok(())
    }

    /// Adds an entry's words to the search index.
    pub(crate) fn words(
        &mut self,
        conn: &Connection,
        id: EntryId,
        entry: &DraftEntry,
    ) -> Result<()> {
        if !entry.text.is_indexed() {
            return Ok(());
        }
        let [tool_result, tool_input, prose, thinking, attached] = entry.text.columns();
        self.words.execute((id, tool_result, tool_input, prose, thinking, attached))?;
        note_unindexed(conn, id, entry)
    }
}

/// Marks an entry if some of its words are not in the search index.
pub(crate) fn note_unindexed(conn: &Connection, id: EntryId, entry: &DraftEntry) -> Result<()> {
    if entry.text.unindexed_bytes > 0 {
        conn.prepare_cached("INSERT INTO partly_indexed (entry, bytes) VALUES (?1, ?2)")?
            .execute((id, entry.text.unindexed_bytes as i64))?;
    }
    Ok(())
}

/// Adds the rows that only some kinds of entries have.
pub(crate) fn insert_detail(
    conn: &Connection,
    position: &RecordPosition<'_>,
    id: EntryId,
    tree_position: &TreePosition,
    entry: &DraftEntry,
) -> Result<()> {
    match (&entry.detail, tree_position.session) {
        (Detail::Prompt { text, pasted }, session) => {
            let project = entry.facts.iter().find_map(|fact| match fact {
                Fact::Cwd(cwd) => Some(cwd),
                _ => None,
            });
            conn.prepare_cached(
                "INSERT INTO prompts (id, session, slug, time, text) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((id, session, project, entry.time, text))?;
            let mut statement = conn.prepare_cached(
                "INSERT OR IGNORE INTO pasted_texts (name, prompt) VALUES (?1, ?2)",
            )?;
            for name in pasted {
                statement.execute((name, id))?;
            }
        }
        (Detail::CronRun(run), _) => insert_cron_run(conn, position, id, entry.time, run)?,
        (Detail::CronJobs { bytes, jobs }, session) => {
            insert_document(conn, position, id, session, *bytes)?;
            replace_cron_jobs(conn, position, id, jobs)?;
        }
        (Detail::Document { bytes }, None) => insert_document(conn, position, id, None, *bytes)?,
        (Detail::Document { bytes }, Some(session)) => {
            insert_document(conn, position, id, Some(session), *bytes)?;
            outputs::attach(conn, session, &position.origin.name, id)?;
        }
        (Detail::Compaction(compaction), Some(session)) => {
            let list = |files: &[String]| serde_json::Value::from(files.to_vec()).to_string();
            conn.prepare_cached(
                "INSERT INTO compaction_rows
                    (id, session, summary, first_kept, compacted_count, tokens_before,
                     tokens_after, cause, read_files, modified_files)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute((
                id,
                session,
                &compaction.summary,
                &compaction.first_kept,
                compaction.compacted_count.map(usage::tokens),
                compaction.tokens_before.map(usage::tokens),
                compaction.tokens_after.map(usage::tokens),
                &compaction.cause,
                list(&compaction.read_files),
                list(&compaction.modified_files),
            ))?;
        }
        (Detail::Custom { custom_type, data }, Some(session)) => {
            conn.prepare_cached(
                "INSERT INTO custom_entries (id, session, custom_type, data) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((id, session, custom_type, data))?;
        }
        (Detail::ModelChange(model), Some(session)) => {
            conn.prepare_cached(
                "INSERT INTO model_changes (id, session, model, provider) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((id, session, &model.model, &model.provider))?;
        }
        (Detail::ThinkingLevel(level), Some(session)) => {
            conn.prepare_cached(
                "INSERT INTO thinking_levels (id, session, level) VALUES (?1, ?2, ?3)",
            )?
            .execute((id, session, level))?;
        }
        (Detail::Label { target, label }, Some(session)) => {
            conn.prepare_cached(
                "INSERT INTO label_rows (id, session, target, label) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((id, session, target, label))?;
        }
        _ => {}
    }
    Ok(())
}

/// Adds a whole file.
fn insert_document(
    conn: &Connection,
    position: &RecordPosition<'_>,
    id: EntryId,
    session: Option<SessionRow>,
    bytes: u64,
) -> Result<()> {
    let origin = position.origin;
    conn.prepare_cached(
        "INSERT INTO documents (id, session, source, part, agent, name, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((
        id,
        session,
        position.source,
        origin.part.as_str(),
        &origin.agent,
        &origin.name,
        bytes as i64,
    ))?;
    Ok(())
}

fn insert_cron_run(
    conn: &Connection,
    position: &RecordPosition<'_>,
    id: EntryId,
    time: Option<i64>,
    run: &CronRun<'_>,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO cron_runs
            (id, source, job_id, action, status, time, run_at, duration_ms, next_run_at, summary,
             error, session_id, session_key, model, provider)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?
    .execute(rusqlite::params![
        id,
        position.source,
        run.job,
        run.action,
        run.status,
        time,
        run.run_at.map(|at| at.0),
        run.duration_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
        run.next_run_at.map(|at| at.0),
        run.summary,
        run.error,
        run.session_id,
        run.session_key,
        run.model,
        run.provider,
    ])?;
    Ok(())
}

/// Replaces the jobs of a list with those of its newest version.
pub(crate) fn replace_cron_jobs(
    conn: &Connection,
    position: &RecordPosition<'_>,
    entry: EntryId,
    jobs: &[CronJob],
) -> Result<()> {
    conn.prepare_cached("DELETE FROM cron_jobs WHERE source = ?1")?.execute([position.source])?;
    let mut statement = conn.prepare_cached(
        "INSERT OR REPLACE INTO cron_jobs
            (source, job_id, entry, name, description, agent, schedule, schedule_json, is_enabled,
             prompt, created_at, updated_at, next_run_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    for job in jobs {
        statement.execute(rusqlite::params![
            position.source,
            job.id,
            entry,
            job.name,
            job.description,
            job.agent,
            job.schedule,
            job.schedule_json,
            job.is_enabled,
            job.prompt,
            job.created_at.map(|at| at.0),
            job.updated_at.map(|at| at.0),
            job.next_run_at.map(|at| at.0),
        ])?;
    }
    Ok(())
}

/// Stores a problem once. Returns whether it is new.
pub(crate) fn note_problem(
    conn: &Connection,
    entry: EntryId,
    source: SourceId,
    session: Option<SessionRow>,
    problem: &Problem,
) -> Result<bool> {
    let added = conn
        .prepare_cached(
            "INSERT OR IGNORE INTO problems (entry, kind, source, session, detail)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((entry, problem.kind.as_str(), source, session, &problem.detail))?;
    Ok(added > 0)
}

/// Removes a solved problem. Returns whether it was stored.
pub(crate) fn forget_problem(conn: &Connection, entry: EntryId, kind: ProblemKind) -> Result<bool> {
    let removed = conn
        .prepare_cached("DELETE FROM problems WHERE entry = ?1 AND kind = ?2")?
        .execute((entry, kind.as_str()))?;
    Ok(removed > 0)
}
