//! The senders that may write to an agent: decisions and pairing requests. The rules are in
//! [`quipu_transcript::routing::admission`]; this file stores and loads the data for them.
//!
//! Decisions and requests are lines of the journal, so they are permanent. Never stores the text of
//! a message. A message can only add a pairing request, so at most three strangers per hour,
//! channel and agent make the ledger grow.

use quipu_transcript::routing::admission::{
    self, Admission, AdmissionSettings, EVERYBODY, PairingCode, REQUEST_LIFETIME, Request,
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
pub struct SenderAddress {
    agent: AgentId,
    channel: Channel,
    sender: String,
}

impl SenderAddress {
    /// Returns a sender; `None` if the id is empty, too long, `*`, or has a control character.
    pub fn new(agent: AgentId, channel: Channel, sender: &str) -> Option<SenderAddress> {
        Some(SenderAddress { agent, channel, sender: sender_id(sender)? })
    }

    /// Returns the address of all senders on a channel that have no decision of their own.
    pub fn all_on_channel(agent: AgentId, channel: Channel) -> SenderAddress {
        SenderAddress { agent, channel, sender: EVERYBODY.to_owned() }
    }

    fn of(inbound: &Inbound) -> Option<SenderAddress> {
        SenderAddress::new(inbound.agent.clone(), inbound.channel.clone(), inbound.sender())
    }

    fn to_sender(&self, state: &'static str, since: i64) -> Sender {
        Sender {
            agent: self.agent.to_string(),
            channel: self.channel.to_string(),
            sender_id: self.sender.clone(),
            state,
            time: since,
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
    fn matches(&self, sender: &Sender) -> bool {
        self.agent.as_ref().is_none_or(|agent| agent.as_str() == sender.agent)
            && self.channel.as_ref().is_none_or(|channel| channel.as_str() == sender.channel)
    }
}

impl Store {
    /// Decides whether a message goes to its session. Stores a new pairing request before its code
    /// is returned. `now` is in milliseconds UTC.
    pub fn admit(
        &self,
        settings: &AdmissionSettings,
        inbound: &Inbound,
        now: i64,
    ) -> Result<Admission> {
        let admission = self.read_caught_up(&mut |ledger| {
            decide_admission(ledger.conn(), settings, inbound, now)
        })?;
        // Most messages need no write.
        if !matches!(admission, Admission::Pair { is_new: true, .. }) {
            return Ok(admission);
        }
        self.write(&mut |work| {
            let admission = decide_admission(work.tx, settings, inbound, now)?;
            if let Admission::Pair { code, is_new: true } = &admission
                && let Some(address) = SenderAddress::of(inbound)
            {
                work.event(&Event::PairingRequest {
                    at: now,
                    agent: address.agent.to_string(),
                    channel: address.channel.to_string(),
                    sender: address.sender,
                    code: code.to_string(),
                })?;
            }
            Ok(admission)
        })
    }

    /// Allows a sender to write.
    pub fn allow(&self, address: &SenderAddress, now: i64) -> Result<Sender> {
        self.decide(address, "allowed", now)
    }

    /// Forbids a sender to write and to request pairing.
    pub fn deny(&self, address: &SenderAddress, now: i64) -> Result<Sender> {
        if address.sender == EVERYBODY {
            return Err(Error::refused(
                "senders who are not allowed are refused anyway; \
                 to give out no pairing codes either, set `direct = \"allowlist\"` for the channel",
            ));
        }
        self.decide(address, "denied", now)
    }

    /// Removes the decision on a sender, and the sender's pairing request.
    pub fn revoke(&self, address: &SenderAddress, now: i64) -> Result<Sender> {
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
                .query_row(
                    (address.agent.as_str(), address.channel.as_str(), &address.sender),
                    |row| row.get(0),
                )?;
            if !is_known {
                let name = format!("{}:{}", address.channel, address.sender);
                return Err(Error::NoMatch { what: "sender", name });
            }
            work.event(&decision(address, "revoked", now))?;
            Ok(address.to_sender("revoked", now))
        })
    }

    /// Allows the sender that received this code, if the code is still valid.
    pub fn pair(&self, code: PairingCode, filter: &SenderFilter, now: i64) -> Result<Sender> {
        self.write(&mut |work| {
            let text = code.to_string();
            let request = pending_requests(work.tx, now)?.into_iter().find(|sender| {
                sender.code.as_deref() == Some(text.as_str()) && filter.matches(sender)
            });
            let address = request.and_then(|sender| {
                let agent = AgentId::parse(&sender.agent).ok()?;
                SenderAddress::new(agent, Channel::parse(&sender.channel).ok()?, &sender.sender_id)
            });
            let no_match = || Error::NoMatch { what: "open pairing request", name: text.clone() };
            let address = address.ok_or_else(no_match)?;
            work.event(&decision(&address, "allowed", now))?;
            Ok(address.to_sender("allowed", now))
        })
    }

    fn decide(&self, address: &SenderAddress, state: &'static str, now: i64) -> Result<Sender> {
        self.write(&mut |work| {
            let before: Option<(String, i64)> = work
                .tx
                .prepare_cached(
                    "SELECT state, time FROM senders
                      WHERE agent = ?1 AND channel = ?2 AND sender = ?3",
                )?
                .query_row(
                    (address.agent.as_str(), address.channel.as_str(), &address.sender),
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            // An unchanged decision is not stored again.
            if let Some((before, since)) = before
                && before == state
            {
                return Ok(address.to_sender(state, since));
            }
            work.event(&decision(address, state, now))?;
            Ok(address.to_sender(state, now))
        })
    }
}

/// Returns the pairing requests, the newest first, and then the senders with a decision, sorted by
/// agent, channel and id.
pub fn senders(ledger: &Ledger, filter: &SenderFilter, now: i64) -> Result<Vec<Sender>> {
    complete(ledger, &mut |conn| listed(conn, filter, now))
}

fn listed(conn: &Connection, filter: &SenderFilter, now: i64) -> Result<Vec<Sender>> {
    let mut found = pending_requests(conn, now)?;
    found.sort_by_key(|sender| std::cmp::Reverse(sender.time));
    let mut statement = conn.prepare_cached(
        "SELECT agent, channel, sender, state, time FROM senders ORDER BY agent, channel, sender",
    )?;
    let decided = statement.query_map([], |row| {
        let state: String = row.get(3)?;
        Ok(Sender {
            agent: row.get(0)?,
            channel: row.get(1)?,
            sender_id: row.get(2)?,
            state: if state == "allowed" { "allowed" } else { "denied" },
            time: row.get(4)?,
            code: None,
            expires_at: None,
        })
    })?;
    for sender in decided {
        found.push(sender?);
    }
    found.retain(|sender| filter.matches(sender));
    Ok(found)
}

/// Projects everything up to the last record, so that the latest decisions are visible.
pub fn catch_up_ledger(ledger: &mut Ledger) -> Result<()> {
    rebuild::catch_up(ledger, &mut |_, _| {})
}

fn decision(address: &SenderAddress, decision: &str, at: i64) -> Event {
    Event::Sender {
        at,
        agent: address.agent.to_string(),
        channel: address.channel.to_string(),
        sender: address.sender.clone(),
        decision: decision.to_owned(),
    }
}

/// Applies the rules to a message.
fn decide_admission(
    conn: &Connection,
    settings: &AdmissionSettings,
    inbound: &Inbound,
    now: i64,
) -> Result<Admission> {
    let stored_state = match SenderAddress::of(inbound) {
        Some(address) => stored_state(conn, &address)?,
        None => SenderState::default(),
    };
    let fresh = fresh_code(conn)?;
    Ok(admission::decide(settings, &stored_state, inbound, fresh, now))
}

fn stored_state(conn: &Connection, address: &SenderAddress) -> Result<SenderState> {
    let (agent, channel) = (address.agent.as_str(), address.channel.as_str());
    let state: Option<String> = conn
        .prepare_cached(
            // A decision on the sender takes precedence over one on all senders.
            "SELECT state FROM senders WHERE agent = ?1 AND channel = ?2 AND sender IN (?3, ?4)
              ORDER BY sender = ?4 LIMIT 1",
        )?
        .query_row((agent, channel, &address.sender, EVERYBODY), |row| row.get(0))
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
fn pending_requests(conn: &Connection, now: i64) -> Result<Vec<Sender>> {
    let mut statement = conn.prepare_cached(
        "SELECT agent, channel, sender, code, asked_at FROM pairing_requests
          ORDER BY agent, channel, sender",
    )?;
    let rows = statement.query_map([], |row| {
        let asked_at: i64 = row.get(4)?;
        Ok(Sender {
            agent: row.get(0)?,
            channel: row.get(1)?,
            sender_id: row.get(2)?,
            state: "asking",
            time: asked_at,
            code: row.get(3)?,
            expires_at: Some(asked_at.saturating_add(REQUEST_LIFETIME)),
        })
    })?;
    let mut found = rows.collect::<Result<Vec<Sender>, _>>()?;
    found.retain(|sender| admission::is_open_at(sender.time, now));
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
