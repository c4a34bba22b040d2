//! A message comes in: whether it may, which session it belongs to, and what has to happen first.

use jiff::tz::TimeZone;
use quipu_transcript::key::SessionKey;
use quipu_transcript::native::NewEntry;
use quipu_transcript::routing::command::{Command, switch_target};
use quipu_transcript::routing::reset::Activity;
use quipu_transcript::routing::{Admission, Inbound, Settings, Thread, is_due, key_for};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use super::append::{Append, append};
use super::sessions::{NewSession, bind, by_id, by_key, create};
use super::work::Work;
use super::{NativeSession, Store, meta};
use crate::Result;
use crate::read::query::native_keys::{index_of, noted_as};

/// Where a chat was switched to, among what is noted about its key.
const SWITCHED: &str = "quipu:switchedTo";

/// So many sessions are listed in a chat.
const LISTED: usize = 20;

/// What is to be done with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// The key of its conversation.
    pub key: String,
    /// The session that it belongs to; `None` if it was not admitted, or nothing was made for it.
    pub session: Option<NativeSession>,
    /// The session is new.
    pub created: bool,
    /// Why a session that was there starts over with this message: `reset`, `daily` or `idle`.
    pub reset: Option<&'static str>,
    /// Whether it was admitted, and why not.
    pub admission: Admission,
    /// What to answer, if nobody has to be asked.
    pub reply: Option<String>,
    /// What to begin a turn with; `None` if the message was a command.
    pub message: Option<String>,
    /// No turn was begun in the session yet, or none since it started over: the files of the
    /// workspace have to be put before the model. It stays so until a message is appended, however
    /// often it is asked, because whoever asked before may not have come that far.
    pub starts: bool,
}

impl Store {
    /// Finds out what is to be done with a message, and does what comes before its turn: asks
    /// strangers to be paired, makes the session, starts over one that is due, obeys commands, and
    /// notes where the message came from. The message itself is not written.
    pub fn route(
        &mut self,
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
            let asked = Asked { settings, inbound, now, zone, chat: &chat, key: &key };
            routed.key = key.as_str().to_owned();
            asked.obey(work, &mut routed)?;
            routed.starts = match &routed.session {
                Some(_) if routed.created || routed.reset.is_some() => true,
                Some(session) => !has_begun(work.tx, session)?,
                None => false,
            };
            Ok(routed)
        })
    }
}

/// A message that was admitted.
struct Asked<'a> {
    settings: &'a Settings,
    inbound: &'a Inbound,
    now: i64,
    zone: &'a TimeZone,
    /// The key of the chat that it stands in …
    chat: &'a SessionKey,
    /// … and the one that the chat was switched to, or the same.
    key: &'a SessionKey,
}

impl Asked<'_> {
    fn obey(&self, work: &mut Work<'_, '_>, routed: &mut Routed) -> Result<()> {
        let command = Command::parse(&self.inbound.text);
        if let Some(command) = &command
            && !command.is_allowed(self.settings, self.inbound)
        {
            routed.session = by_key(work.tx, self.key)?;
            routed.reply = Some("Only the owner can do that here.".to_owned());
            return Ok(());
        }
        match command {
            None => {
                self.speak(work, routed)?;
                routed.message = Some(self.inbound.text.clone());
            }
            Some(Command::New { message }) => {
                self.make(work, routed)?;
                routed.reply = Some("A new session has begun.".to_owned());
                routed.message = message;
            }
            Some(Command::Reset { message }) => {
                match by_key(work.tx, self.key)? {
                    Some(session) => self.start_over(work, routed, session, "reset")?,
                    None => self.make(work, routed)?,
                }
                routed.reply = Some("The session starts over.".to_owned());
                routed.message = message;
            }
            Some(Command::Sessions) => {
                routed.session = by_key(work.tx, self.key)?;
                routed.reply = Some(self.list(work.tx)?);
            }
            Some(Command::Session { key }) => self.switch(work, routed, key.as_deref())?,
        }
        Ok(())
    }

    /// An ordinary message: its session is made, or starts over if that is due.
    fn speak(&self, work: &mut Work<'_, '_>, routed: &mut Routed) -> Result<()> {
        let Some(session) = by_key(work.tx, self.key)? else { return self.make(work, routed) };
        let policy = self.settings.resets.policy(self.key, self.inbound.channel.as_str());
        let activity = activity(work.tx, &session)?;
        match is_due(&policy, &activity, self.now, self.zone) {
            Some(due) => self.start_over(work, routed, session, due.as_str()),
            None => {
                let known = meta::noted(work.tx, &session)?.to_map();
                let patch: Map<String, Value> = self
                    .origin()
                    .into_iter()
                    .filter(|(name, value)| known.get(name) != Some(value))
                    .collect();
                // Most messages come from where the last one came from.
                if !patch.is_empty() {
                    let key = self.spelled(work.tx)?;
                    bind(work, &session, &key, patch.into())?;
                }
                routed.session = Some(session);
                Ok(())
            }
        }
    }

    /// A new session, to which the key leads from now on.
    fn make(&self, work: &mut Work<'_, '_>, routed: &mut Routed) -> Result<()> {
        let key = self.spelled(work.tx)?;
        let new = NewSession {
            agent: Some(self.inbound.agent.as_str()),
            key: Some(&key),
            takes_key: true,
            fields: self.origin(),
            ..NewSession::default()
        };
        routed.session = Some(create(work, &new)?);
        routed.created = true;
        Ok(())
    }

    fn start_over(
        &self,
        work: &mut Work<'_, '_>,
        routed: &mut Routed,
        session: NativeSession,
        why: &'static str,
    ) -> Result<()> {
        let reset = NewEntry::read(&json!({"type": "reset", "reason": why}).to_string())?;
        append(work, &session, &reset, Append::default())?;
        let key = self.spelled(work.tx)?;
        bind(work, &session, &key, self.origin().into())?;
        routed.session = Some(session);
        routed.reset = Some(why);
        Ok(())
    }

    /// From now on the conversation goes on in another session of the same agent.
    fn switch(&self, work: &mut Work<'_, '_>, routed: &mut Routed, to: Option<&str>) -> Result<()> {
        routed.session = by_key(work.tx, self.key)?;
        let Some(to) = to else {
            routed.reply = Some("Say which: /session KEY. /sessions lists them.".to_owned());
            return Ok(());
        };
        let target = switch_target(&self.inbound.agent, to);
        let found = target.as_ref().map(|key| by_key(work.tx, key)).transpose()?.flatten();
        let (Some(target), Some(session)) = (target, found) else {
            let unknown = "There is no such session. /sessions lists them.";
            routed.reply = Some(unknown.to_owned());
            return Ok(());
        };
        // The chat's own key keeps its session, so that one can come back.
        let own = match noted_as(work.tx, self.chat)? {
            Some((key, id)) => by_id(work.tx, self.inbound.agent.as_str(), &id)?.zip(Some(key)),
            None => None,
        };
        let (own, chat) = match own {
            Some(own) => own,
            None => {
                let key = self.chat.as_str();
                let agent = Some(self.inbound.agent.as_str());
                let new = NewSession { agent, key: Some(key), ..NewSession::default() };
                (create(work, &new)?, key.to_owned())
            }
        };
        let is_back = own.id == session.id;
        let to = if is_back { Value::Null } else { target.as_str().into() };
        let switch = Map::from_iter([(SWITCHED.to_owned(), to)]);
        bind(work, &own, &chat, switch.into())?;
        routed.key = if is_back { chat } else { target.as_str().to_owned() };
        routed.reply = Some("The conversation goes on in that session.".to_owned());
        routed.session = Some(session);
        Ok(())
    }

    /// The sessions of the agent, the last ones first.
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
            .query_map((index, LISTED as i64), |row| {
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

    /// The key as it is noted already, which may be another spelling of it.
    fn spelled(&self, conn: &Connection) -> Result<String> {
        let noted = noted_as(conn, self.key)?;
        Ok(noted.map_or_else(|| self.key.as_str().to_owned(), |(key, _)| key))
    }

    /// Where the message came from, in the fields of OpenClaw's index.
    fn origin(&self) -> Map<String, Value> {
        let inbound = self.inbound;
        let mut fields = Map::new();
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
                // OpenClaw's index knows no rooms.
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

/// The key that a chat was switched to, if it was and that still leads somewhere.
fn switched_to(conn: &Connection, chat: &SessionKey) -> Result<Option<SessionKey>> {
    let Some((key, _)) = noted_as(conn, chat)? else { return Ok(None) };
    let Some(fields) = meta::of_key(conn, chat.agent().unwrap_or_default(), &key)? else {
        return Ok(None);
    };
    let to = fields.get(SWITCHED);
    let to = to.as_ref().and_then(Value::as_str).map(SessionKey::parse);
    let Some(to) = to.filter(|to| to.agent() == chat.agent()) else { return Ok(None) };
    Ok(by_key(conn, &to)?.map(|_| to))
}

/// Whether a turn was begun in the conversation as it stands: whether there is a message on the path
/// to the leaf, back to the last reset. What was sent without a model (a mirror) is no turn.
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

/// When a session began, or last started over, and when somebody last spoke.
fn activity(conn: &Connection, session: &NativeSession) -> Result<Activity> {
    let (started_at, last_at): (Option<i64>, Option<i64>) = conn
        .prepare_cached(
            "SELECT coalesce((SELECT max(time) FROM entries
                               WHERE session = ?1 AND type = 'reset'), started_at), updated_at
               FROM sessions WHERE id = ?1",
        )?
        .query_row([session.row], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Activity { started_at, last_at, updated_at: None })
}
