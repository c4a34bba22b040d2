//! Computes the key of a message's session.
//!
//! The keys are exactly those of OpenClaw's documents and releases, so that imported sessions are
//! found again. Ids come from outside: an id that could be read as a part of another address is
//! escaped, and no id can change the agent.

use std::fmt::Write as _;

use super::inbound::{Chat, Inbound, Thread};
use super::names::Channel;
use super::settings::{DmScope, GroupScope, Settings};
use crate::key::SessionKey;

/// The account for messages that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// The id for groups without one.
const UNKNOWN: &str = "unknown";

/// Returns the key of the session that a message belongs to.
pub fn key_for(settings: &Settings, inbound: &Inbound) -> SessionKey {
    let agent = &inbound.agent;
    let base = match inbound.chat {
        Chat::Direct => direct(settings, inbound),
        _ => match settings.group_scope {
            GroupScope::Main => settings.main_key.clone(),
            GroupScope::PerGroup => {
                return SessionKey::parse(format!("agent:{agent}:{}", group(inbound)));
            }
        },
    };
    let suffix = suffix(&inbound.channel, inbound.thread.as_ref());
    SessionKey::parse(format!("agent:{agent}:{base}{suffix}"))
}

/// Returns the address of a conversation with one person.
fn direct(settings: &Settings, inbound: &Inbound) -> String {
    let channel = &inbound.channel;
    let peer = match inbound.peer.trim() {
        "" => inbound.sender(),
        peer => peer,
    };
    let peer = match linked(settings, channel, peer) {
        Some(name) => name.to_lowercase(),
        // A peer whose own id equals the name of an identity link is not the linked person.
        None if is_a_link(settings, peer) => format!("{channel}:{}", peer.to_lowercase()),
        None => peer.to_lowercase(),
    };
    let peer = escaped(&peer);
    match settings.dm_scope {
        // Without a peer id, senders cannot be distinguished.
        _ if peer.is_empty() => settings.main_key.clone(),
        DmScope::Main => settings.main_key.clone(),
        DmScope::Channel | DmScope::ChannelPeer => format!("{channel}:dm:{peer}"),
        DmScope::Peer => format!("peer:{peer}"),
        DmScope::PerPeer => format!("direct:{peer}"),
        DmScope::PerChannelPeer => format!("{channel}:direct:{peer}"),
        DmScope::PerAccountChannelPeer => {
            format!("{channel}:{}:direct:{peer}", account(inbound.account.as_deref()))
        }
    }
}

/// Returns the address of a conversation with several people, thread included.
fn group(inbound: &Inbound) -> String {
    let channel = &inbound.channel;
    let chat = inbound.chat.as_str();
    let keeps_case =
        channel.has_case() || (channel.as_str(), inbound.chat) == ("signal", Chat::Group);
    let peer = inbound.peer.trim();
    match (peer, &inbound.thread) {
        // A thread without the id of the group that it belongs to.
        ("", Some(Thread::Thread(id))) if !id.trim().is_empty() => {
            format!("{channel}:thread:{}", escaped(&id.trim().to_lowercase()))
        }
        (peer, thread) => {
            let peer = if peer.is_empty() { UNKNOWN } else { peer };
            let peer = if keeps_case { peer.to_owned() } else { peer.to_lowercase() };
            format!("{channel}:{chat}:{}{}", escaped(&peer), suffix(channel, thread.as_ref()))
        }
    }
}

/// Returns the suffix for a thread, with its colon; empty for a thread without an id.
fn suffix(channel: &Channel, thread: Option<&Thread>) -> String {
    let Some(thread) = thread else { return String::new() };
    match thread.id().trim() {
        "" => String::new(),
        id if channel.has_case() => format!(":{}:{}", thread.mark(), escaped(id)),
        id => format!(":{}:{}", thread.mark(), escaped(&id.to_lowercase())),
    }
}

/// Returns the name of the identity link that a peer belongs to, if there is one. Returns `None`
/// with [`DmScope::Main`], because all conversations share one session there.
fn linked<'a>(settings: &'a Settings, channel: &Channel, peer: &str) -> Option<&'a str> {
    if settings.dm_scope == DmScope::Main {
        return None;
    }
    let peer = peer.to_lowercase();
    let with_channel = format!("{channel}:{peer}");
    let matches_peer = |id: &String| {
        let id = id.trim().to_lowercase();
        !id.is_empty() && (id == peer || id == with_channel)
    };
    let mut links = settings.identity_links.iter();
    links
        .find(|(name, ids)| !name.trim().is_empty() && ids.iter().any(matches_peer))
        .map(|(name, _)| name.trim())
}

/// Returns whether an identity link has this name.
fn is_a_link(settings: &Settings, peer: &str) -> bool {
    let peer = peer.to_lowercase();
    settings.identity_links.iter().any(|(name, _)| name.trim().to_lowercase() == peer)
}

/// Returns an account as releases write it: lower case, with one dash for each run of characters
/// other than letters, digits, `-` and `_`.
fn account(account: Option<&str>) -> String {
    let mut name = String::new();
    for letter in account.unwrap_or_default().trim().to_lowercase().chars() {
        let is_plain = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        match letter {
            _ if is_plain || matches!(letter, '-' | '_') => name.push(letter),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let name: String = name.trim_matches('-').chars().take(64).collect();
    match name.as_str() {
        "" => DEFAULT_ACCOUNT.to_owned(),
        // As an account, these words would change the meaning of the key.
        "direct" | "dm" | "group" | "channel" | "room" | "thread" | "topic" => {
            format!("account-{name}")
        }
        _ => name,
    }
}

/// Escapes an id that contains control characters, the mark of a thread or topic, or something that
/// looks like an escape, so that no other meaning is possible. Different ids stay different.
fn escaped(id: &str) -> String {
    let framed = format!(":{id}:");
    let has_mark = [":thread:", ":topic:"].iter().any(|mark| framed.contains(mark));
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = id.as_bytes();
    let has_escape = bytes
        .iter()
        .enumerate()
        .any(|(at, byte)| *byte == b'%' && is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2)));
    if !has_mark && !has_escape && !id.chars().any(char::is_control) {
        return id.to_owned();
    }
    let mut escaped = String::with_capacity(id.len() * 2);
    for letter in id.chars() {
        if letter.is_control() || matches!(letter, ':' | '%') {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "%{byte:02x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
