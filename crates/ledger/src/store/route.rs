//! Routes an incoming message: admits its sender, finds its session, and does the work before its
//! turn.
//!
//! Never writes the message itself, and never calls a model.

use std::io::ErrorKind;
use std::path::Path;

use jiff::tz::TimeZone;
use quipu_transcript::key::SessionKey;
use quipu_transcript::native::NewEntry;
use quipu_transcript::routing::command::{Command, switch_target};
use quipu_transcript::routing::reset::Activity;
use quipu_transcript::routing::{
    Admission, Inbound, Settings, Thread, bootstrap_files, is_due, key_for,
};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use super::append::{Append, append};
use super::session::Session;
use super::sessions::{NativeSession, NewSession, bind, by_id, by_key, create};
use super::work::Work;
use super::{Fields, Store, meta};
use crate::read::query::native_keys::{index_of, stored_key_and_session};
use crate::wire::RoutedMessage;
use crate::{Error, Result};

/// The metadata field of a chat's key that holds the key to which the chat was switched.
const SWITCHED_TO_FIELD: &str = "quipu:switchedTo";

/// The number of sessions that a chat lists at most, so that the reply stays short.
const MAX_LISTED_SESSIONS: usize = 20;

/// The reply to a command that only an owner may run.
const OWNER_ONLY: &str = "Only the owner can do that here.";

/// The result of routing a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The key of its conversation.
    pub key: String,
    /// The session of the message; `None` if the message was not admitted, or if no session was
    /// created for it.
    pub session: Option<Session>,
    /// True if the session is new.
    pub created: bool,
    /// The reason that an existing session starts over with this message: `reset`, `daily` or
    /// `idle`.
    pub reset: Option<&'static str>,
    /// The decision whether the sender may write, with the reason.
    pub admission: Admission,
    /// The reply to send without asking a model.
    pub reply: Option<String>,
    /// The message to begin a turn with; `None` if the message was only a command.
    pub message: Option<String>,
    /// True if the session has no turn yet, or none since it started over. The runtime then shows
    /// the files of the workspace to the model. Stays true until a message is appended, because an
    /// earlier caller may have stopped before that.
    pub starts: bool,
}

impl Routed {
    /// Returns the shape of the answer, with the files of the workspace to show to the model.
    pub fn message<'a>(&'a self, bootstrap: Vec<&'a str>) -> RoutedMessage<'a> {
        RoutedMessage {
            session_key: &self.key,
            session_id: self.session.as_ref().map(Session::id),
            is_created: self.created,
            reset: self.reset,
            is_admitted: self.admission.is_admitted(),
            reason: self.admission.why(),
            reply: self.reply.as_deref(),
            is_beginning: self.starts,
            bootstrap,
            text: self.message.as_deref(),
        }
    }
}

/// Returns the files in a workspace that are shown to the model when a conversation begins; none if
/// the folder does not exist.
pub fn bootstrap_of(workspace: &Path) -> Result<Vec<&'static str>> {
    let failed = || Error::io("list", workspace);
    let entries = match std::fs::read_dir(workspace) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed())?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed())?;
        // Only regular files are listed.
        if std::fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file()) {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(bootstrap_files(names.iter().map(String::as_str)))
}

impl Store {
    /// Decides what a runtime should do with a message, and does the work before its turn.
    ///
    /// Offers a pairing code to an unknown sender, creates the session or starts it over, runs
    /// commands, and stores the origin of the message. Never writes the message itself.
    pub fn route(
        &self,
        settings: &Settings,
        inbound: &Inbound,
        now: i64,
        zone: &TimeZone,
    ) -> Result<Routed> {
        self.route_in(None, settings, inbound, now, zone)
    }

    /// Routes like [`Store::route`], and stores the agent's working directory in the header of a
    /// new session.
    pub fn route_in(
        &self,
        cwd: Option<&str>,
        settings: &Settings,
        inbound: &Inbound,
        now: i64,
        zone: &TimeZone,
    ) -> Result<Routed> {
        let chat = key_for(settings, inbound);
        let admission = self.admit(&settings.admission, inbound, now)?;
        let routed = Routed {
            key: chat.as_str().to_owned(),
            session: None,
            created: false,
            reset: None,
            reply: admission.reply(),
            admission,
            message: None,
            starts: false,
        };
        if !routed.admission.is_admitted() {
            return Ok(routed);
        }
        self.write(&mut |work| {
            let mut routed = routed.clone();
            let key = switched_to(work.tx, &chat)?.unwrap_or_else(|| chat.clone());
            let (chat, key) = (&chat, &key);
            let admitted =
                AdmittedMessage { store: self, settings, inbound, now, zone, chat, key, cwd };
            routed.key = key.as_str().to_owned();
            admitted.run_command_or_accept(work, &mut routed)?;
            routed.starts = match &routed.session {
                Some(_) if routed.created || routed.reset.is_some() => true,
                Some(session) => !has_begun(work.tx, &session.native)?,
                None => false,
            };
            Ok(routed)
        })
    }
}

/// An admitted message.
struct AdmittedMessage<'a> {
    store: &'a Store,
    settings: &'a Settings,
    inbound: &'a Inbound,
    now: i64,
    zone: &'a TimeZone,
    /// The key of the message's chat.
    chat: &'a SessionKey,
    /// The key to which the chat was switched; otherwise the chat's own key.
    key: &'a SessionKey,
    /// The agent's working directory.
    cwd: Option<&'a str>,
}

impl AdmittedMessage<'_> {
    /// Runs the command in the message, or accepts an ordinary message.
    fn run_command_or_accept(&self, work: &mut Work<'_, '_>, routed: &mut Routed) -> Result<()> {
        let command = Command::parse(&self.inbound.text);
        if let Some(command) = &command
            && !command.is_allowed(self.settings, self.inbound)
        {
            routed.session = self.current(work.tx)?;
            routed.reply = Some(OWNER_ONLY.to_owned());
            return Ok(());
        }
        match command {
            None => {
                self.accept_message(work, routed)?;
                routed.message = Some(self.inbound.text.clone());
            }
            Some(Command::New { message }) => {
                self.create_session(work, routed)?;
                routed.reply = Some("A new session has begun.".to_owned());
                routed.message = message;
            }
            Some(Command::Reset { message }) => {
                match by_key(work.tx, self.key)? {
                    Some(session) => self.start_over(work, routed, session, "reset")?,
                    None => self.create_session(work, routed)?,
                }
                routed.reply = Some("The session was reset.".to_owned());
                routed.message = message;
            }
            Some(Command::Sessions) => {
                routed.session = self.current(work.tx)?;
                routed.reply = Some(self.list(work.tx)?);
            }
            Some(Command::Session { key }) => self.switch(work, routed, key.as_deref())?,
        }
        Ok(())
    }

    /// Returns the session that the key leads to now.
    fn current(&self, conn: &Connection) -> Result<Option<Session>> {
        Ok(by_key(conn, self.key)?.map(|native| self.store.open_session(native)))
    }

    /// Handles an ordinary message: creates its session, or starts it over if a reset is due.
    fn accept_message(&self, work: &mut Work<'_, '_>, routed: &mut Routed) -> Result<()> {
        let Some(session) = by_key(work.tx, self.key)? else {
            return self.create_session(work, routed);
        };
        let policy = self.settings.resets.policy(self.key, self.inbound.channel.as_str());
        let activity = activity(work.tx, &session)?;
        match is_due(&policy, &activity, self.now, self.zone) {
            Some(due) => self.start_over(work, routed, session, due.as_str()),
            None => {
                let known = meta::patched_fields(work.tx, &session)?.to_map();
                let patch: Map<String, Value> = self
                    .origin()
                    .into_iter()
                    .filter(|(name, value)| known.get(name) != Some(value))
                    .collect();
                // Most messages have the same origin as the one before.
                if !patch.is_empty() {
                    let key = self.stored_spelling(work.tx)?;
                    bind(work, &session, &key, patch.into())?;
                }
                routed.session = Some(self.store.open_session(session));
                Ok(())
            }
        }
    }

    /// Creates a session, and makes the key lead to it.
    fn create_session(&self, work: &mut Work<'_, '_>, routed: &mut Routed) -> Result<()> {
        let key = self.stored_spelling(work.tx)?;
        let new = NewSession {
            agent: Some(self.inbound.agent.as_str()),
            key: Some(&key),
            takes_key: true,
            fields: self.origin(),
            cwd: self.cwd,
            ..NewSession::default()
        };
        routed.session = Some(self.store.open_session(create(work, &new)?));
        routed.created = true;
        Ok(())
    }

    /// Appends a reset to an existing session, and stores the origin of the message.
    fn start_over(
        &self,
        work: &mut Work<'_, '_>,
        routed: &mut Routed,
        session: NativeSession,
        why: &'static str,
    ) -> Result<()> {
        let reset = NewEntry::read(&json!({"type": "reset", "reason": why}).to_string())?;
        append(work, &session, &reset, Append::default())?;
        let key = self.stored_spelling(work.tx)?;
        bind(work, &session, &key, self.origin().into())?;
        routed.session = Some(self.store.open_session(session));
        routed.reset = Some(why);
        Ok(())
    }

    /// Switches the conversation to another session of the same agent.
    fn switch(&self, work: &mut Work<'_, '_>, routed: &mut Routed, to: Option<&str>) -> Result<()> {
        routed.session = self.current(work.tx)?;
        let Some(to) = to else {
            routed.reply = Some("Usage: /session KEY. /sessions lists all sessions.".to_owned());
            return Ok(());
        };
        let target = switch_target(&self.inbound.agent, to);
        let found = target.as_ref().map(|key| by_key(work.tx, key)).transpose()?.flatten();
        let (Some(target), Some(session)) = (target, found) else {
            let unknown = "There is no such session. /sessions lists all sessions.";
            routed.reply = Some(unknown.to_owned());
            return Ok(());
        };
        let is_own = target.canonical() == self.chat.canonical();
        if !is_own
            && !self.inbound.is_group()
            && !self.settings.admission.is_owner(self.inbound)
            && is_read_by_group(work.tx, &session)?
        {
            routed.reply = Some(OWNER_ONLY.to_owned());
            return Ok(());
        }
        // The chat's own key keeps its session, so that the user can switch back.
        let own = match stored_key_and_session(work.tx, self.chat)? {
            Some((key, id)) => by_id(work.tx, self.inbound.agent.as_str(), &id)?.zip(Some(key)),
            None => None,
        };
        let (own, chat) = match own {
            Some(own) => own,
            None => {
                let key = self.chat.as_str();
                let agent = Some(self.inbound.agent.as_str());
                let new = NewSession { agent, key: Some(key), cwd: self.cwd, ..<_>::default() };
                (create(work, &new)?, key.to_owned())
            }
        };
        let is_back = own.id == session.id;
        let to = if is_back { Value::Null } else { target.as_str().into() };
        let switch = Map::from_iter([(SWITCHED_TO_FIELD.to_owned(), to)]);
        bind(work, &own, &chat, switch.into())?;
        routed.key = if is_back { chat } else { target.as_str().to_owned() };
        routed.reply = Some("Switched to that session.".to_owned());
        routed.session = Some(self.store.open_session(session));
        Ok(())
    }

    /// Returns a list of the agent's sessions, the most recent first.
    fn list(&self, conn: &Connection) -> Result<String> {
        let agent = self.inbound.agent.as_str();
        let Some(index) = index_of(conn, agent)? else {
            return Ok("There are no sessions yet.".to_owned());
        };
        let mut statement = conn.prepare_cached(
            "SELECT k.key, coalesce(k.title, s.title, '')
               FROM session_keys k
               JOIN sessions s ON s.format = k.format AND s.agent = k.agent
                              AND s.session_id = k.session_id
              WHERE k.source = ?1
              ORDER BY s.updated_at DESC, k.key LIMIT ?2",
        )?;
        let lines = statement
            .query_map((index, MAX_LISTED_SESSIONS as i64), |row| {
                let (key, title): (String, String) = (row.get(0)?, row.get(1)?);
                let key = key.strip_prefix(&format!("agent:{agent}:")).unwrap_or(&key).to_owned();
                Ok(if title.is_empty() { key } else { format!("{key}  {title}") })
            })?
            .collect::<Result<Vec<String>, _>>()?;
        if lines.is_empty() {
            return Ok("There are no sessions yet.".to_owned());
        }
        Ok(lines.join("\n"))
    }

    /// Returns the key as it is stored, which may be another spelling of it.
    fn stored_spelling(&self, conn: &Connection) -> Result<String> {
        let stored = stored_key_and_session(conn, self.key)?;
        Ok(stored.map_or_else(|| self.key.as_str().to_owned(), |(key, _)| key))
    }

    /// Returns the origin of the message, in the fields of OpenClaw's index. Returns nothing for a
    /// chat that was switched: these fields hold the address of the key's own chat.
    fn origin(&self) -> Map<String, Value> {
        let inbound = self.inbound;
        let mut fields = Map::new();
        if self.key != self.chat {
            return fields;
        }
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                fields.insert(name.to_owned(), value.into());
            }
        };
        put("channel", inbound.channel.as_str());
        put("lastChannel", inbound.channel.as_str());
        put("lastTo", inbound.peer.trim());
        put("lastAccountId", inbound.account.as_deref().unwrap_or_default().trim());
        put("lastThreadId", inbound.thread.as_ref().map(Thread::id).unwrap_or_default());
        let is_group = inbound.is_group();
        put(
            "chatType",
            match inbound.chat.as_str() {
                // OpenClaw's index has no chat type for rooms.
                "room" => "channel",
                chat => chat,
            },
        );
        if is_group {
            put("groupId", inbound.peer.trim());
        }
        fields
    }
}

/// Returns the key to which a chat was switched, if that key still leads to a session.
fn switched_to(conn: &Connection, chat: &SessionKey) -> Result<Option<SessionKey>> {
    let Some((key, _)) = stored_key_and_session(conn, chat)? else { return Ok(None) };
    let Some(fields) = meta::fields_of_key(conn, chat.agent().unwrap_or_default(), &key)? else {
        return Ok(None);
    };
    let to = fields.get(SWITCHED_TO_FIELD);
    let to = to.as_ref().and_then(Value::as_str).map(SessionKey::parse);
    let Some(to) = to.filter(|to| to.agent() == chat.agent()) else { return Ok(None) };
    Ok(by_key(conn, &to)?.map(|_| to))
}

/// Returns whether a group reads the session: the key of a group leads to it, or a group was
/// switched to it. A key belongs to a group by its kind or by its `chatType`.
fn is_read_by_group(conn: &Connection, session: &NativeSession) -> Result<bool> {
    let Some(index) = index_of(conn, &session.agent)? else { return Ok(false) };
    let mut statement = conn.prepare_cached(
        "SELECT key, fields, session_id = ?2 FROM session_keys
          WHERE source = ?1 AND (session_id = ?2 OR instr(fields, ?3) > 0)",
    )?;
    let mut rows = statement.query((index, &session.id, SWITCHED_TO_FIELD))?;
    while let Some(row) = rows.next()? {
        let (key, fields): (String, String) = (row.get(0)?, row.get(1)?);
        let fields: Fields = serde_json::from_str(&fields).unwrap_or_default();
        let text = |name: &str| fields.get(name)?.as_str().map(str::to_owned);
        let is_group = SessionKey::parse(key).is_group()
            || matches!(text("chatType").as_deref(), Some("group" | "channel"));
        if !is_group {
            continue;
        }
        let leads_there = match row.get(2)? {
            true => true,
            false => match text(SWITCHED_TO_FIELD).map(SessionKey::parse) {
                Some(to) => by_key(conn, &to)?.is_some_and(|to| to.id == session.id),
                None => false,
            },
        };
        if leads_there {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the conversation has a turn: a message on the path to the leaf, after the last
/// reset. A message that was sent without a model (a mirror) is not a turn.
fn has_begun(conn: &Connection, session: &NativeSession) -> Result<bool> {
    Ok(conn
        .prepare_cached(
            "WITH RECURSIVE path (id, type, speaks) AS (
                 SELECT e.id, e.type, e.type IN ('message', 'bare') AND NOT e.is_mirror
                   FROM sessions s JOIN entries e ON e.id = s.leaf WHERE s.id = ?1
                  UNION ALL
                 SELECT e.id, e.type, e.type IN ('message', 'bare') AND NOT e.is_mirror
                   FROM path
                   JOIN entry_rows child ON child.id = path.id
                   JOIN entries e ON e.id = child.parent
                  WHERE path.type <> 'reset' AND NOT path.speaks)
             SELECT EXISTS (SELECT 1 FROM path WHERE speaks)",
        )?
        .query_row([session.row], |row| row.get(0))?)
}

/// Returns the time of a session's start or last reset, and the time of its last entry.
fn activity(conn: &Connection, session: &NativeSession) -> Result<Activity> {
    let (started_at, last_at): (Option<i64>, Option<i64>) = conn
        .prepare_cached(
            "SELECT coalesce((SELECT max(time) FROM entries
                               WHERE session = ?1 AND type = 'reset'), started_at), last_entry_at
               FROM sessions WHERE id = ?1",
        )?
        .query_row([session.row], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Activity { started_at, last_at, updated_at: None })
}
