//! Who may speak to an agent: what was decided, and who asks.
//!
//! The rules are in [`quipu_transcript::routing::admission`]; here is what they are asked about.
//! Decisions and requests are lines of the journal, so they last as long as everything else. Nothing
//! of a message is stored but who wrote it, and that only if they ask to be paired: at most three
//! strangers an hour on one channel can make the ledger grow.

use quipu_transcript::routing::admission::{
    self, Admission, AdmissionSettings, EVERYBODY, PairingCode, REQUEST_STANDS, Request,
    SenderState, Standing, sender_id,
};
use quipu_transcript::routing::{AgentId, Channel, Inbound};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::Store;
use crate::file::ledger::Ledger;
use crate::project::rebuild;
use crate::read::query::complete::complete;
use crate::truth::journal::Event;
use crate::wire::Sender;
use crate::{Error, Result};

/// A sender: whom they write to, where, and under which id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    agent: AgentId,
    channel: Channel,
    sender: String,
}

impl Who {
    /// `None` if it cannot be an id: nothing, or full of control characters, or far too long.
    pub fn new(agent: AgentId, channel: Channel, sender: &str) -> Option<Who> {
        Some(Who { agent, channel, sender: sender_id(sender)? })
    }

    /// Everybody on a channel about whom nothing else was decided.
    pub fn everybody(agent: AgentId, channel: Channel) -> Who {
        Who { agent, channel, sender: EVERYBODY.to_owned() }
    }

    fn of(inbound: &Inbound) -> Option<Who> {
        Who::new(inbound.agent.clone(), inbound.channel.clone(), inbound.sender())
    }

    fn described(&self, state: &'static str, since: i64) -> Sender {
        Sender {
            agent: self.agent.to_string(),
            channel: self.channel.to_string(),
            sender: self.sender.clone(),
            state,
            since,
            code: None,
            expires_at: None,
        }
    }
}

/// Which senders are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SenderFilter {
    /// Those who write to this agent.
    pub agent: Option<AgentId>,
    /// Those on this channel.
    pub channel: Option<Channel>,
}

impl SenderFilter {
    fn has(&self, sender: &Sender) -> bool {
        self.agent.as_ref().is_none_or(|agent| agent.as_str() == sender.agent)
            && self.channel.as_ref().is_none_or(|channel| channel.as_str() == sender.channel)
    }
}

impl Store {
    /// Whether a message goes to its session. A new request to be paired is stored before its code
    /// is told. `now` is in milliseconds UTC.
    pub fn admit(
        &mut self,
        settings: &AdmissionSettings,
        inbound: &Inbound,
        now: i64,
    ) -> Result<Admission> {
        let admission = self.settled(&mut |ledger| judge(ledger.conn(), settings, inbound, now))?;
        // Nearly always nothing has to be written.
        if !matches!(admission, Admission::Pair { is_new: true, .. }) {
            return Ok(admission);
        }
        self.write(&mut |work| {
            let admission = judge(work.tx, settings, inbound, now)?;
            if let Admission::Pair { code, is_new: true } = &admission
                && let Some(who) = Who::of(inbound)
            {
                work.event(&Event::PairingRequest {
                    at: now,
                    agent: who.agent.to_string(),
                    channel: who.channel.to_string(),
                    sender: who.sender,
                    code: code.to_string(),
                })?;
            }
            Ok(admission)
        })
    }

    /// From now on they may speak.
    pub fn allow(&mut self, who: &Who, now: i64) -> Result<Sender> {
        self.decide(who, "allowed", now)
    }

    /// From now on they may not speak, and not ask either.
    pub fn deny(&mut self, who: &Who, now: i64) -> Result<Sender> {
        if who.sender == EVERYBODY {
            return Err(Error::refused(
                "whoever is not allowed is refused anyway; \
                 to let nobody ask either, set `direct = \"allowlist\"` for the channel",
            ));
        }
        self.decide(who, "denied", now)
    }

    /// What was decided about them holds no longer, and what they asked is dropped.
    pub fn revoke(&mut self, who: &Who, now: i64) -> Result<Sender> {
        self.write(&mut |work| {
            let is_known: bool = work
                .tx
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM senders
                                     WHERE agent = ?1 AND channel = ?2 AND sender = ?3
                                    UNION ALL
                                    SELECT 1 FROM pairing_requests
                                     WHERE agent = ?1 AND channel = ?2 AND sender = ?3)",
                )?
                .query_row((who.agent.as_str(), who.channel.as_str(), &who.sender), |row| {
                    row.get(0)
                })?;
            if !is_known {
                let name = format!("{}:{}", who.channel, who.sender);
                return Err(Error::NoMatch { what: "sender", name });
            }
            work.event(&decision(who, "revoked", now))?;
            Ok(who.described("revoked", now))
        })
    }

    /// Approves whoever was told this code, if it is still good.
    pub fn pair(&mut self, code: PairingCode, filter: &SenderFilter, now: i64) -> Result<Sender> {
        self.write(&mut |work| {
            let text = code.to_string();
            let asking = asking(work.tx, now)?
                .into_iter()
                .find(|sender| sender.code.as_deref() == Some(text.as_str()) && filter.has(sender));
            let who = asking.and_then(|sender| {
                let agent = AgentId::parse(&sender.agent).ok()?;
                Who::new(agent, Channel::parse(&sender.channel).ok()?, &sender.sender)
            });
            let no_match = || Error::NoMatch { what: "open pairing request", name: text.clone() };
            let who = who.ok_or_else(no_match)?;
            work.event(&decision(&who, "allowed", now))?;
            Ok(who.described("allowed", now))
        })
    }

    fn decide(&mut self, who: &Who, state: &'static str, now: i64) -> Result<Sender> {
        self.write(&mut |work| {
            let before: Option<(String, i64)> = work
                .tx
                .prepare_cached(
                    "SELECT state, since FROM senders
                      WHERE agent = ?1 AND channel = ?2 AND sender = ?3",
                )?
                .query_row((who.agent.as_str(), who.channel.as_str(), &who.sender), |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            // What is decided already is not decided again.
            if let Some((before, since)) = before
                && before == state
            {
                return Ok(who.described(state, since));
            }
            work.event(&decision(who, state, now))?;
            Ok(who.described(state, now))
        })
    }
}

/// Who asks, the newest first; then about whom something was decided, by agent, channel and id.
pub fn senders(ledger: &Ledger, filter: &SenderFilter, now: i64) -> Result<Vec<Sender>> {
    complete(ledger, &mut |conn| listed(conn, filter, now))
}

fn listed(conn: &Connection, filter: &SenderFilter, now: i64) -> Result<Vec<Sender>> {
    let mut found = asking(conn, now)?;
    found.sort_by_key(|sender| std::cmp::Reverse(sender.since));
    let mut statement = conn.prepare_cached(
        "SELECT agent, channel, sender, state, since FROM senders ORDER BY agent, channel, sender",
    )?;
    let decided = statement.query_map([], |row| {
        let state: String = row.get(3)?;
        Ok(Sender {
            agent: row.get(0)?,
            channel: row.get(1)?,
            sender: row.get(2)?,
            state: if state == "allowed" { "allowed" } else { "denied" },
            since: row.get(4)?,
            code: None,
            expires_at: None,
        })
    })?;
    for sender in decided {
        found.push(sender?);
    }
    found.retain(|sender| filter.has(sender));
    Ok(found)
}

/// Brings the projection up to the last record, so that what was decided is seen.
pub fn bring_up(ledger: &mut Ledger) -> Result<()> {
    rebuild::bring_up(ledger, &mut |_, _| {})
}

fn decision(who: &Who, decision: &str, at: i64) -> Event {
    Event::Sender {
        at,
        agent: who.agent.to_string(),
        channel: who.channel.to_string(),
        sender: who.sender.clone(),
        decision: decision.to_owned(),
    }
}

/// What the rules say.
fn judge(
    conn: &Connection,
    settings: &AdmissionSettings,
    inbound: &Inbound,
    now: i64,
) -> Result<Admission> {
    let known = match Who::of(inbound) {
        Some(who) => known(conn, &who)?,
        None => SenderState::default(),
    };
    let fresh = fresh_code(conn)?;
    Ok(admission::admit(settings, &known, inbound, fresh, now))
}

fn known(conn: &Connection, who: &Who) -> Result<SenderState> {
    let (agent, channel) = (who.agent.as_str(), who.channel.as_str());
    let state: Option<String> = conn
        .prepare_cached(
            // What was decided about themselves counts before what was about everybody.
            "SELECT state FROM senders WHERE agent = ?1 AND channel = ?2 AND sender IN (?3, ?4)
              ORDER BY sender = ?4 LIMIT 1",
        )?
        .query_row((agent, channel, &who.sender, EVERYBODY), |row| row.get(0))
        .optional()?;
    let standing = state.map(|state| match state.as_str() {
        "allowed" => Standing::Allowed,
        _ => Standing::Denied,
    });
    let mut statement = conn.prepare_cached(
        "SELECT sender, code, asked_at FROM pairing_requests WHERE agent = ?1 AND channel = ?2",
    )?;
    let rows = statement.query_map((agent, channel), |row| {
        Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?))
    })?;
    let mut requests = Vec::new();
    for row in rows {
        let (sender, code, asked_at) = row?;
        if let Some(code) = PairingCode::parse(&code) {
            requests.push(Request { sender, code, asked_at });
        }
    }
    Ok(SenderState { standing, requests })
}

/// Requests that still stand.
fn asking(conn: &Connection, now: i64) -> Result<Vec<Sender>> {
    let mut statement = conn.prepare_cached(
        "SELECT agent, channel, sender, code, asked_at FROM pairing_requests
          ORDER BY agent, channel, sender",
    )?;
    let rows = statement.query_map([], |row| {
        let asked_at: i64 = row.get(4)?;
        Ok(Sender {
            agent: row.get(0)?,
            channel: row.get(1)?,
            sender: row.get(2)?,
            state: "asking",
            since: asked_at,
            code: row.get(3)?,
            expires_at: Some(asked_at.saturating_add(REQUEST_STANDS)),
        })
    })?;
    let mut found = rows.collect::<Result<Vec<Sender>, _>>()?;
    found.retain(|sender| admission::stands(sender.since, now));
    Ok(found)
}

/// A code that nobody has.
fn fresh_code(conn: &Connection) -> Result<PairingCode> {
    loop {
        // The first six bytes are random.
        let [first, second, third, fourth, fifth, ..] = *Uuid::new_v4().as_bytes();
        let code = PairingCode::of([first, second, third, fourth, fifth]);
        let is_taken: bool = conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM pairing_requests WHERE code = ?1)")?
            .query_row([code.to_string()], |row| row.get(0))?;
        if !is_taken {
            return Ok(code);
        }
    }
}
