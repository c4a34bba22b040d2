//! The senders that may write to an agent: decisions and pairing requests. The rules are in
//! [`quipu_transcript::routing::admission`]; this file stores and loads the data for them.
//!
//! Decisions and requests are lines of the journal, so they are permanent. Never stores the text of
//! a message. A message can only add a pairing request, so at most three strangers per hour and
//! channel make the ledger grow.

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

/// A sender: an id on a channel of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    agent: AgentId,
    channel: Channel,
    sender: String,
}

impl Who {
    /// Returns a sender; `None` if the id is empty, too long or full of control characters.
    pub fn new(agent: AgentId, channel: Channel, sender: &str) -> Option<Who> {
        Some(Who { agent, channel, sender: sender_id(sender)? })
    }

    /// Returns the entry for all senders on a channel that have no decision of their own.
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

/// A filter for senders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SenderFilter {
    /// The agent that the senders write to; any by default.
    pub agent: Option<AgentId>,
    /// The channel of the senders; any by default.
    pub channel: Option<Channel>,
}

impl SenderFilter {
    fn has(&self, sender: &Sender) -> bool {
        self.agent.as_ref().is_none_or(|agent| agent.as_str() == sender.agent)
            && self.channel.as_ref().is_none_or(|channel| channel.as_str() == sender.channel)
    }
}

impl Store {
    /// Decides whether a message goes to its session. Stores a new pairing request before it
    /// returns the code. `now` is in milliseconds UTC.
    pub fn admit(
        &self,
        settings: &AdmissionSettings,
        inbound: &Inbound,
        now: i64,
    ) -> Result<Admission> {
        let admission = self.settled(&mut |ledger| judge(ledger.conn(), settings, inbound, now))?;
        // Most messages need no write.
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

    /// Allows a sender to write.
    pub fn allow(&self, who: &Who, now: i64) -> Result<Sender> {
        self.decide(who, "allowed", now)
    }

    /// Denies a sender to write and to request pairing.
    pub fn deny(&self, who: &Who, now: i64) -> Result<Sender> {
        if who.sender == EVERYBODY {
            return Err(Error::refused(
                "senders who are not allowed are refused anyway; \
                 to give out no pairing codes either, set `direct = \"allowlist\"` for the channel",
            ));
        }
        self.decide(who, "denied", now)
    }

    /// Removes the decision on a sender, and the sender's pairing request.
    pub fn revoke(&self, who: &Who, now: i64) -> Result<Sender> {
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

    /// Allows the sender that received this code, if the code is still valid.
    pub fn pair(&self, code: PairingCode, filter: &SenderFilter, now: i64) -> Result<Sender> {
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

    fn decide(&self, who: &Who, state: &'static str, now: i64) -> Result<Sender> {
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
            // An unchanged decision is not stored again.
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

/// Returns pairing requests, the newest first, then senders with a decision, by agent, channel and
/// id.
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

/// Projects everything up to the last record, so that the latest decisions are visible.
pub fn bring_up(ledger: &mut Ledger) -> Result<()> {
    rebuild::catch_up(ledger, &mut |_, _| {})
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

/// Applies the rules to a message.
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
            // A decision on the sender takes precedence over one on all senders.
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

/// Returns the pairing requests that are still valid.
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

/// Returns a pairing code that no request has.
fn fresh_code(conn: &Connection) -> Result<PairingCode> {
    loop {
        // The first six bytes of the UUID are random.
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
