//! The fields of each hit that is shown: its snippet, session, turn, tool and neighbours.
//!
//! Reads one hit at a time and never decides which entries match.

use foldhash::{HashMap, HashMapExt};
use quipu_transcript::format::Part;
use quipu_transcript::search::snippet;
use quipu_transcript::story::Folded;
use rusqlite::{Connection, OptionalExtension};

use super::columns;
use super::nearby;
use super::outputs;
use super::pattern::Pattern;
use super::texts::{Texts, by_column};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow, is_further_of_line};
use crate::project::session_sources::holds_transcript;
use crate::read::query::originals::is_original;
use crate::read::query::sessions::title;
use crate::read::query::{listed, lost, story};
use crate::wire::{SearchHit, SessionState};

/// The length of a snippet in bytes: about three lines of a terminal.
const SNIPPET_BYTES: usize = 240;

/// The length of the text of a nearby entry in bytes: shorter than the hit itself.
const NEARBY_BYTES: usize = 160;

/// The form of entries that are files with a call's output.
const TOOL_OUTPUT: &str = Part::ToolOutput.as_str();

/// The form of entries that are texts pasted into prompts.
const PASTED: &str = Part::Pasted.as_str();

/// An entry to be described.
pub(crate) struct HitRequest {
    pub(crate) entry: EntryId,
    /// The columns in which it was found.
    pub(crate) columns: u8,
    pub(crate) score: Option<f64>,
    pub(crate) is_older: bool,
}

/// Describes entries as hits.
pub(crate) struct HitReader<'c> {
    conn: &'c Connection,
    texts: Texts<'c>,
    pattern: &'c Pattern,
    sessions: HashMap<SessionRow, Session>,
    /// The last numbered turn of each session, with its number.
    turns: HashMap<SessionRow, (EntryId, i64)>,
    /// All turns, in the order shown, of sessions where that is not the order of their ids.
    unordered_turns: HashMap<SessionRow, Option<Vec<EntryId>>>,
    around: usize,
}

#[derive(Default)]
struct Session {
    id: String,
    format: String,
    agent: Option<String>,
    title: Option<String>,
    project: Option<String>,
    slug: Option<String>,
    cwd: Option<String>,
    part: String,
    state: Option<SessionState>,
    parent: Option<String>,
}

struct Row {
    session: Option<SessionRow>,
    uuid: Option<PackedId>,
    turn: Option<EntryId>,
    kind: String,
    form: String,
    role: Option<String>,
    time: Option<i64>,
    is_error: bool,
    folded: Option<Folded>,
}

impl Row {
    /// Returns the reason why a story hides the entry by default. It also depends on the column in
    /// which the words were found.
    fn folded(&self, column_name: &str, is_command: bool) -> Option<&'static str> {
        match (self.form.as_str(), self.role.as_deref()) {
            _ if self.folded.is_some() => self.folded.map(Folded::as_str),
            // A story shows one line about a summary, not its text.
            ("compaction" | "branch_summary", _) => Some("summary"),
            _ if column_name == "attached" => Some("attached"),
            // The output of a command that the human ran.
            (_, Some("user")) if is_command => Some("injected"),
            _ => None,
        }
    }
}

impl<'c> HitReader<'c> {
    pub(crate) fn new(conn: &'c Connection, pattern: &'c Pattern, around: usize) -> HitReader<'c> {
        HitReader {
            conn,
            texts: Texts::new(conn),
            pattern,
            sessions: HashMap::new(),
            turns: HashMap::new(),
            unordered_turns: HashMap::new(),
            around,
        }
    }

    /// Returns the hit for one entry.
    pub(crate) fn read_hit(&mut self, request: &HitRequest) -> Result<SearchHit> {
        let Some(row) = self.row(request.entry)? else { return Ok(SearchHit::default()) };
        // A file with the whole output of a call is shown as the call's result.
        let (described_by, row) = match row.form.as_str() {
            TOOL_OUTPUT => match outputs::result_of(self.conn, request.entry)? {
                Some(result) => (result, self.row(result)?.unwrap_or(row)),
                None => (request.entry, row),
            },
            PASTED => match outputs::prompt_of(self.conn, request.entry)? {
                Some(prompt) => (prompt, self.row(prompt)?.unwrap_or(row)),
                None => (request.entry, row),
            },
            _ => (request.entry, row),
        };
        let mut hit = SearchHit {
            entry_id: story::name(described_by, row.uuid.as_ref()),
            entry: described_by.0,
            type_name: row.kind.clone(),
            role: row.role.clone(),
            time: row.time,
            is_error: row.is_error,
            is_older: request.is_older,
            score: request.score,
            ..SearchHit::default()
        };
        let is_command = self.snippet(request, &mut hit)?;
        hit.folded = row.folded(hit.place, is_command);
        if hit.role.as_deref() == Some("tool") && hit.place == "text" {
            // Prose next to a tool's result was written by the human.
            hit.role = Some("user".to_owned());
        }
        self.tool(&mut hit)?;
        match row.session {
            Some(session) => {
                self.session(session, &mut hit)?;
                hit.turn_number = self.turn(session, row.turn)?;
                if self.around > 0 {
                    self.nearby(session, &mut hit)?;
                }
            }
            None => self.add_sessionless(&row.form, &mut hit)?,
        }
        Ok(hit)
    }

    fn row(&self, entry: EntryId) -> Result<Option<Row>> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT session, entry_id, turn, type, role, time, is_error, form, folded
                   FROM entries WHERE id = ?1",
            )?
            .query_row([entry], |row| {
                Ok(Row {
                    session: row.get(0)?,
                    uuid: row.get(1)?,
                    turn: row.get(2)?,
                    kind: row.get(3)?,
                    role: row.get(4)?,
                    time: row.get(5)?,
                    is_error: row.get(6)?,
                    form: row.get(7)?,
                    folded: row.get::<_, Option<String>>(8)?.as_deref().and_then(Folded::parse),
                })
            })
            .optional()?)
    }

    /// Sets the snippet: the part of the text with most of the searched words. Returns whether the
    /// text is a command that the human ran, or that command's output.
    fn snippet(&mut self, request: &HitRequest, hit: &mut SearchHit) -> Result<bool> {
        let mut best: Option<(usize, &'static str, snippet::Snippet)> = None;
        let mut consider = |name: &'static str, text: &str, pattern: &Pattern| {
            let places = pattern.places(text);
            let mut kinds: Vec<usize> = places.iter().map(|place| place.2).collect();
            kinds.sort_unstable();
            kinds.dedup();
            if best.as_ref().is_none_or(|(most, _, _)| kinds.len() > *most) {
                best = Some((kinds.len(), name, snippet::around(text, &places, SNIPPET_BYTES)));
            }
            kinds.len()
        };
        // Prose of messages is stored in a table. All other text is in a chunk that must be
        // decompressed. Prose is preferred, so if it has all searched words, the chunk is not read.
        let message = match request.columns & columns::PROSE {
            0 => None,
            _ => self.message(request.entry)?,
        };
        let is_command = message.as_ref().is_some_and(|text| text.starts_with("! "));
        let is_enough = message.is_some_and(|text| {
            let found = consider("text", &text, self.pattern);
            request.columns == columns::PROSE || found == self.pattern.marked_count()
        });
        if !is_enough {
            let text = self.texts.of(request.entry)?;
            for (column, name, text) in by_column(&text) {
                let is_asked_for = request.columns == 0 || request.columns & column != 0;
                if is_asked_for && name == "input" {
                    // The name of a tool and its first argument stay on one line.
                    consider(name, &text.replacen('\n', " ", 1), self.pattern);
                } else if is_asked_for && !text.is_empty() {
                    consider(name, text, self.pattern);
                }
            }
        }
        if let Some((_, column_name, snippet)) = best {
            let in_characters =
                |at: usize| snippet.text.get(..at).map_or(0, |before| before.chars().count());
            hit.marks = snippet
                .marks
                .iter()
                .map(|(start, end)| (in_characters(*start), in_characters(*end)))
                .collect();
            hit.place = column_name;
            hit.is_cut_before = snippet.is_cut_before;
            hit.is_cut_after = snippet.is_cut_after;
            hit.snippet = snippet.text;
        }
        Ok(is_command)
    }

    fn message(&self, entry: EntryId) -> Result<Option<String>> {
        Ok(self
            .conn
            .prepare_cached("SELECT text FROM message_texts WHERE id = ?1")?
            .query_row([entry], |row| row.get(0))
            .optional()?)
    }

    /// Sets the tool that was called, or whose result this is.
    fn tool(&self, hit: &mut SearchHit) -> Result<()> {
        let found = match (hit.place, hit.role.as_deref()) {
            ("input", _) => self
                .conn
                .prepare_cached("SELECT tool, 0 FROM tool_calls WHERE entry = ?1 LIMIT 1")?
                .query_row([hit.entry], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?,
            ("result", _) | (_, Some("tool")) => self.call_of_result(EntryId(hit.entry))?,
            _ => None,
        };
        if let Some((name, is_error)) = found {
            hit.tool = Some(name);
            hit.is_error |= is_error;
        }
        Ok(())
    }

    /// Returns the name of the tool that gave a result, and whether the call failed. Calls are not
    /// indexed by their results, so only the three nearest ancestors of the result are searched.
    fn call_of_result(&self, result: EntryId) -> Result<Option<(String, bool)>> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT t.tool, coalesce(t.is_error, 0)
                   FROM entry_rows e
                   JOIN tool_calls t ON t.entry IN (
                        SELECT p.id FROM entry_rows p WHERE p.id = e.parent
                         UNION ALL
                        SELECT p.parent FROM entry_rows p WHERE p.id = e.parent
                         UNION ALL
                        SELECT g.parent FROM entry_rows p JOIN entry_rows g ON g.id = p.parent
                         WHERE p.id = e.parent)
                  WHERE e.id = ?1 AND t.result = ?1 LIMIT 1",
            )?
            .query_row([result], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?)
    }

    fn session(&mut self, row: SessionRow, hit: &mut SearchHit) -> Result<()> {
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.sessions.entry(row) {
            let session = self
                .conn
                .prepare_cached(concat!(
                    "SELECT iif(",
                    is_original!(),
                    ", format || '/', '') || session_id, format, nullif(agent, ''), slug, ",
                    lost::cwd!(),
                    ", part, state, parent_session_id FROM sessions s WHERE id = ?1"
                ))?
                .query_row([row], |row| {
                    Ok(Session {
                        id: row.get(0)?,
                        format: row.get(1)?,
                        agent: row.get(2)?,
                        title: None,
                        project: None,
                        slug: row.get(3)?,
                        cwd: row.get(4)?,
                        part: row.get(5)?,
                        state: row.get(6)?,
                        parent: row.get(7)?,
                    })
                })
                .optional()?;
            let session = match session {
                Some(session) => {
                    let (slug, cwd) = (session.slug.as_deref(), session.cwd.as_deref());
                    let folder = listed::project_folder(self.conn, slug, cwd)?;
                    let name = listed::project_name(folder.as_deref(), slug).to_owned();
                    Session {
                        title: title(self.conn, row)?,
                        project: Some(name).filter(|name| !name.is_empty()),
                        ..session
                    }
                }
                None => Session::default(),
            };
            vacant.insert(session);
        }
        if let Some(session) = self.sessions.get(&row) {
            hit.session_id = Some(session.id.clone());
            hit.format = session.format.clone();
            hit.agent = session.agent.clone();
            hit.title = session.title.clone();
            hit.project = session.project.clone();
            hit.slug = session.slug.clone();
            hit.cwd = session.cwd.clone();
            hit.part = Some(session.part.clone());
            hit.state = session.state;
            hit.parent_session_id = session.parent.clone();
        }
        Ok(())
    }

    /// Returns the number of a turn in its session. Hits of a session mostly come in order, so
    /// counting continues from the last turn.
    fn turn(&mut self, session: SessionRow, turn: Option<EntryId>) -> Result<Option<u64>> {
        let Some(turn) = turn else { return Ok(None) };
        if let Some(order) = self.unordered_turns(session)? {
            let at = order.iter().position(|shown| *shown == turn);
            return Ok(at.map(|at| at as u64 + 1));
        }
        let known = self.turns.get(&session).copied().filter(|known| known.0 <= turn);
        let (after, before) = known.unwrap_or((EntryId(i64::MIN), 0));
        let since: i64 = self
            .conn
            .prepare_cached(
                "SELECT count(*) FROM turns WHERE session = ?1 AND id > ?2 AND id <= ?3",
            )?
            .query_row((session, after, turn), |row| row.get(0))?;
        let number = before + since;
        self.turns.insert(session, (turn, number));
        Ok(u64::try_from(number).ok().filter(|number| *number > 0))
    }

    /// Returns the turns of a session in the order shown, if that is not the order of their ids:
    /// the session has several files, its file was rewritten, one of its lines holds several
    /// prompts, or a prompt was written again.
    fn unordered_turns(&mut self, session: SessionRow) -> Result<Option<&Vec<EntryId>>> {
        if let std::collections::hash_map::Entry::Vacant(vacant) =
            self.unordered_turns.entry(session)
        {
            let is_pieced: bool = self
                .conn
                .prepare_cached(concat!(
                    "SELECT (SELECT count(*)
                               FROM session_sources ss JOIN generations g ON g.source = ss.source
                              WHERE ss.session = ?1
                                AND ",
                    holds_transcript!("ss.part"),
                    ") > 1
                         OR (SELECT ",
                    is_further_of_line!("max(id)"),
                    " FROM turns WHERE session = ?1)
                         OR EXISTS (SELECT 1 FROM turns t JOIN entry_rows e ON e.id = t.id
                                     WHERE t.session = ?1 AND e.superseded_by IS NOT NULL)",
                ))?
                .query_row([session], |row| {
                    Ok(row.get::<_, Option<bool>>(0)?.unwrap_or_default())
                })?;
            vacant.insert(match is_pieced {
                false => None,
                true => Some(story::shown_turns(self.conn, session)?),
            });
        }
        Ok(self.unordered_turns.get(&session).and_then(Option::as_ref))
    }

    /// Sets the fields of an entry without a session: a note, a job, a run of a job, or a prompt.
    fn add_sessionless(&self, form: &str, hit: &mut SearchHit) -> Result<()> {
        let found = self
            .conn
            .prepare_cached(
                "SELECT coalesce(s.format, ''), coalesce(d.agent, j.agent), p.slug,
                        coalesce(d.name, j.name, c.job_id), g.mtime_ns / 1000000, c.session_id
                   FROM entry_rows e
                   LEFT JOIN documents d ON d.id = e.id
                   LEFT JOIN prompts p ON p.id = e.id
                   LEFT JOIN cron_runs c ON c.id = e.id
                   LEFT JOIN cron_jobs j ON j.job_id = c.job_id
                   LEFT JOIN records r ON r.seq = e.id
                   LEFT JOIN generations g ON g.id = coalesce(r.generation, -e.id)
                   LEFT JOIN sources s ON s.id = g.source
                  WHERE e.id = ?1",
            )?
            .query_row([hit.entry], |row| {
                hit.format = row.get(0)?;
                hit.agent = row.get(1)?;
                // The list of prompts stores the folder.
                hit.cwd = row.get(2)?;
                let name = hit.cwd.as_deref().map(|cwd| listed::project_name(Some(cwd), None));
                hit.project = name.filter(|name| !name.is_empty()).map(str::to_owned);
                hit.name = row.get(3)?;
                let written: Option<i64> = row.get(4)?;
                if matches!(form, "note" | "cron_jobs") {
                    hit.time = hit.time.or(written);
                }
                hit.parent_session_id = row.get(5)?;
                Ok(())
            })
            .optional()?;
        if found.is_none() {
            hit.format.clear();
        }
        Ok(())
    }

    /// Sets the entries before and after a hit in its session.
    fn nearby(&mut self, session: SessionRow, hit: &mut SearchHit) -> Result<()> {
        let found = nearby::around(self.conn, session, EntryId(hit.entry), self.around)?;
        for mut near in found {
            let text = self.texts.of(EntryId(near.entry))?;
            let first = by_column(&text).into_iter().find(|(_, _, text)| !text.is_empty());
            near.text = first
                .map(|(_, _, text)| {
                    snippet::around(text, &[], NEARBY_BYTES).text.replace('\n', " ")
                })
                .unwrap_or_default();
            hit.around.push(near);
        }
        Ok(())
    }
}
