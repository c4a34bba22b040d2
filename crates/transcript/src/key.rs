//! Session keys: the addresses that route messages to sessions.
//!
//! `agent:<agentId>:<rest>`, where the rest names the kind of conversation. Every string is a valid
//! key and prints as it was written; the kind is only an interpretation. Ids of peers, groups and
//! threads come from other systems and may hold colons.

use std::fmt;

/// The kind of conversation that a key routes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// The agent's main session, or another one named by a single word.
    Main {
        /// Usually `main`.
        name: &'a str,
    },
    /// A conversation with one person.
    Direct {
        /// The channel; `None` if all channels share one session.
        channel: Option<&'a str>,
        /// The agent's account on the channel, if each account has its own sessions.
        account: Option<&'a str>,
        /// The person.
        peer: &'a str,
    },
    /// A group, channel or room.
    Group {
        /// The channel.
        channel: &'a str,
        /// `group`, `channel` or `room`.
        sort: &'a str,
        /// The group's id on the channel.
        id: &'a str,
    },
    /// A thread whose key does not name the group that it belongs to.
    Thread {
        /// The channel.
        channel: &'a str,
        /// The thread's id on the channel.
        id: &'a str,
    },
    /// A scheduled job.
    Cron {
        /// The job.
        job: &'a str,
        /// The id of one run.
        run: Option<&'a str>,
    },
    /// A webhook.
    Hook {
        /// The webhook's id.
        id: &'a str,
    },
    /// A session that works for another one.
    Subagent {
        /// The sub-agent's id. For a sub-agent of a sub-agent, all that follows the first
        /// `subagent:`.
        id: &'a str,
    },
    /// A session with a name chosen on purpose.
    Explicit {
        /// The name.
        name: &'a str,
    },
    /// `global` or `unknown`.
    Sentinel {
        /// The word itself.
        name: &'a str,
    },
    /// Any other key.
    Other,
}

/// Words that end an address and introduce a topic or thread.
const SUFFIXES: [&str; 2] = ["topic", "thread"];

/// A session key as it was written.
///
/// ```
/// use quipu_transcript::key::{Kind, SessionKey};
///
/// let key = SessionKey::parse("agent:main:main");
/// assert_eq!((key.agent(), key.kind()), (Some("main"), Kind::Main { name: "main" }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(String);

impl SessionKey {
    /// Parses a key. Every string is valid.
    pub fn parse(text: impl Into<String>) -> SessionKey {
        SessionKey(text.into())
    }

    /// Returns the key as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the agent; `None` for sentinels and keys without one.
    pub fn agent(&self) -> Option<&str> {
        let (agent, _) = self.0.strip_prefix("agent:")?.split_once(':')?;
        (!agent.is_empty()).then_some(agent)
    }

    /// Returns the part after the agent, or the whole key if it has no agent.
    pub fn rest(&self) -> &str {
        match self.agent() {
            Some(agent) => self.0.get("agent:".len() + agent.len() + 1..).unwrap_or_default(),
            None => &self.0,
        }
    }

    /// Returns the topic or thread, if the key addresses a part of another conversation.
    pub fn thread(&self) -> Option<&str> {
        self.split().1
    }

    /// Returns the thread that a transcript of the conversation may be named after: a topic or
    /// thread after an address, or one that is the address itself.
    pub fn named_thread(&self) -> Option<&str> {
        match self.kind() {
            Kind::Thread { id, .. } => Some(self.thread().unwrap_or(id)),
            _ => self.thread(),
        }
    }

    /// Returns the kind of conversation that the key routes to.
    pub fn kind(&self) -> Kind<'_> {
        let (base, _) = self.split();
        if self.agent().is_none() && matches!(base, "global" | "unknown") {
            return Kind::Sentinel { name: base };
        }
        let Some((first, after)) = base.split_once(':') else {
            return if base.is_empty() { Kind::Other } else { Kind::Main { name: base } };
        };
        match first {
            _ if after.is_empty() => return Kind::Other,
            "direct" | "dm" | "peer" => {
                return Kind::Direct { channel: None, account: None, peer: after };
            }
            "cron" => {
                let (job, run) = match after.split_once(":run:") {
                    Some((job, run)) => (job, Some(run)),
                    None => (after, None),
                };
                return Kind::Cron { job, run };
            }
            "hook" => return Kind::Hook { id: after },
            "subagent" => return Kind::Subagent { id: after },
            "explicit" => return Kind::Explicit { name: after },
            _ => {}
        }
        let Some((second, id)) = after.split_once(':').filter(|(_, id)| !id.is_empty()) else {
            return Kind::Other;
        };
        match second {
            "direct" | "dm" => Kind::Direct { channel: Some(first), account: None, peer: id },
            "group" | "channel" | "room" => Kind::Group { channel: first, sort: second, id },
            "thread" => Kind::Thread { channel: first, id },
            account => match id.split_once(':') {
                Some(("direct" | "dm", peer)) if !peer.is_empty() => {
                    Kind::Direct { channel: Some(first), account: Some(account), peer }
                }
                _ => Kind::Other,
            },
        }
    }

    /// Returns whether several people read the conversation: a group, channel or room, or a thread
    /// that may belong to one. In keys of other forms it looks for these words, as OpenClaw does.
    pub fn is_group(&self) -> bool {
        match self.kind() {
            Kind::Group { .. } | Kind::Thread { .. } => true,
            Kind::Other => {
                let rest = self.rest().to_lowercase();
                ["group", "channel", "room"]
                    .iter()
                    .any(|sort| rest.split(':').any(|part| part == *sort))
            }
            _ => false,
        }
    }

    /// Returns the spelling by which keys are compared: `dm` becomes `direct`, and letters become
    /// lower case. Ids of topics and threads keep their case, and so do ids of Signal groups and of
    /// Matrix groups and channels.
    pub fn canonical(&self) -> String {
        let agent = match self.agent() {
            Some(agent) => format!("agent:{}:", agent.to_lowercase()),
            None => String::new(),
        };
        let (_, thread) = self.split();
        let base = match self.kind() {
            Kind::Direct { channel: None, .. } if self.rest().starts_with("peer:") => {
                self.split().0.to_lowercase()
            }
            Kind::Direct { channel, account, peer } => {
                let parts = [channel, account, Some("direct"), Some(peer)];
                parts.into_iter().flatten().collect::<Vec<_>>().join(":").to_lowercase()
            }
            Kind::Group { channel, sort, id } => {
                let channel = channel.to_lowercase();
                let keeps_case = matches!(
                    (channel.as_str(), sort),
                    ("signal", "group") | ("matrix", "group" | "channel")
                );
                let id = if keeps_case { id.to_owned() } else { id.to_lowercase() };
                format!("{channel}:{sort}:{id}")
            }
            _ => self.split().0.to_lowercase(),
        };
        let suffix = match thread {
            Some(thread) => {
                let mark = self.rest().get(base_length(self)..).unwrap_or_default();
                let mark = mark.get(..mark.len() - thread.len()).unwrap_or_default();
                format!("{mark}{thread}")
            }
            None => String::new(),
        };
        format!("{agent}{base}{suffix}")
    }

    /// Returns the only spelling that OpenClaw 2026.9.6 accepts: with an agent, and in lower case,
    /// except for the id of a Signal group and for all that follows `matrix:group:` or
    /// `matrix:channel:`.
    ///
    /// A single key in another spelling makes that release refuse all sessions of the agent.
    pub fn for_openclaw(&self, agent: &str) -> String {
        let text = self.0.trim();
        let lower = text.to_lowercase();
        if matches!(&*lower, "global" | "unknown") {
            return lower;
        }
        let whole = match lower.starts_with("agent:") {
            true => SessionKey::parse(format!("agent:{}", text.get(6..).unwrap_or_default())),
            false => SessionKey::parse(format!("agent:{agent}:{text}")),
        };
        let owner = whole.agent().unwrap_or(agent).to_lowercase();
        let rest = whole.rest();
        let mut parts = rest.splitn(3, ':');
        let (channel, sort, id) = (parts.next(), parts.next(), parts.next());
        let lower = |part: Option<&str>| part.unwrap_or_default().to_lowercase();
        let rest = match (&*lower(channel), &*lower(sort), id) {
            (channel @ "signal", sort @ "group", Some(id)) => match id.split_once(':') {
                Some((id, rest)) => format!("{channel}:{sort}:{id}:{}", rest.to_lowercase()),
                None => format!("{channel}:{sort}:{id}"),
            },
            (channel @ "matrix", sort @ ("group" | "channel"), Some(id)) => {
                let parts = id.split(':').map(|part| match part.eq_ignore_ascii_case("thread") {
                    true => "thread",
                    false => part,
                });
                format!("{channel}:{sort}:{}", parts.collect::<Vec<_>>().join(":"))
            }
            _ => rest.to_lowercase(),
        };
        format!("agent:{owner}:{rest}")
    }

    /// Returns the address, and the topic or thread after it.
    fn split(&self) -> (&str, Option<&str>) {
        let rest = self.rest();
        let found = SUFFIXES
            .iter()
            .filter_map(|mark| {
                let mark = format!(":{mark}:");
                let at = rest.rfind(&mark)?;
                let base = rest.get(..at)?;
                let id = rest.get(at + mark.len()..)?;
                // `telegram:thread:5` is an address without a topic or thread.
                (base.contains(':') || base == "main")
                    .then_some((base, id))
                    .filter(|(_, id)| !id.is_empty())
            })
            .min_by_key(|(base, _)| base.len());
        match found {
            Some((base, id)) => (base, Some(id)),
            None => (rest, None),
        }
    }
}

fn base_length(key: &SessionKey) -> usize {
    key.split().0.len()
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(key: &str, agent: Option<&str>, kind: Kind<'_>, thread: Option<&str>) {
        let key = SessionKey::parse(key);
        assert_eq!((key.agent(), key.kind(), key.thread()), (agent, kind, thread), "{key}");
    }

    #[test]
    fn r60_every_kind_of_key_is_recognised() {
        let main = Some("main");
        let direct = |channel, account, peer| Kind::Direct { channel, account, peer };
        let group = |channel, sort, id| Kind::Group { channel, sort, id };
        check("agent:main:main", main, Kind::Main { name: "main" }, None);
        check("agent:main:telegram:dm:821", main, direct(Some("telegram"), None, "821"), None);
        check(
            "agent:w:whatsapp:direct:+1555",
            Some("w"),
            direct(Some("whatsapp"), None, "+1555"),
            None,
        );
        check("agent:main:direct:alice", main, direct(None, None, "alice"), None);
        check("agent:main:peer:alice", main, direct(None, None, "alice"), None);
        check(
            "agent:main:slack:work:direct:U1",
            main,
            direct(Some("slack"), Some("work"), "U1"),
            None,
        );
        check("agent:main:telegram:group:-100", main, group("telegram", "group", "-100"), None);
        check("agent:main:discord:channel:1", main, group("discord", "channel", "1"), None);
        check("agent:main:matrix:room:!a:b.org", main, group("matrix", "room", "!a:b.org"), None);
        check(
            "agent:main:slack:thread:17.5",
            main,
            Kind::Thread { channel: "slack", id: "17.5" },
            None,
        );
        check("agent:main:cron:job-1", main, Kind::Cron { job: "job-1", run: None }, None);
        check("agent:main:cron:j:run:9", main, Kind::Cron { job: "j", run: Some("9") }, None);
        check("cron:job-1", None, Kind::Cron { job: "job-1", run: None }, None);
        check("hook:u-1", None, Kind::Hook { id: "u-1" }, None);
        check(
            "agent:main:subagent:u:subagent:v",
            main,
            Kind::Subagent { id: "u:subagent:v" },
            None,
        );
        check("agent:main:explicit:mine", main, Kind::Explicit { name: "mine" }, None);
        check("global", None, Kind::Sentinel { name: "global" }, None);
        check("unknown", None, Kind::Sentinel { name: "unknown" }, None);
    }

    #[test]
    fn r60_topics_and_threads_after_an_address_are_found() {
        let group = |channel, sort, id| Kind::Group { channel, sort, id };
        let main = Some("main");
        check(
            "agent:main:telegram:group:-100:topic:7",
            main,
            group("telegram", "group", "-100"),
            Some("7"),
        );
        check(
            "agent:main:slack:channel:C1:thread:17.5",
            main,
            group("slack", "channel", "C1"),
            Some("17.5"),
        );
        check("agent:main:main:thread:a:b", main, Kind::Main { name: "main" }, Some("a:b"));
    }

    #[test]
    fn keys_are_spelled_as_openclaw_accepts_them() {
        for (key, written) in [
            ("agent:main:main", "agent:main:main"),
            (" Agent:Main:Telegram:DM:AbC ", "agent:main:telegram:dm:abc"),
            ("agent:main:signal:group:aB:Topic:X", "agent:main:signal:group:aB:topic:x"),
            (
                "agent:main:Matrix:Channel:!Ab:Org:THREAD:$Xy",
                "agent:main:matrix:channel:!Ab:Org:thread:$Xy",
            ),
            ("agent:main:matrix:room:!Ab:Org", "agent:main:matrix:room:!ab:org"),
            ("agent:main:explicit:Plan", "agent:main:explicit:plan"),
            ("cron:Job", "agent:main:cron:job"),
            ("GLOBAL", "global"),
            ("agent:main", "agent:main:agent:main"),
        ] {
            assert_eq!(SessionKey::parse(key).for_openclaw("main"), written, "{key}");
        }
    }

    #[test]
    fn groups_are_distinguished_from_other_keys() {
        let is_group = |key: &str| SessionKey::parse(key).is_group();
        for key in [
            "agent:main:telegram:group:-100",
            "agent:main:Telegram:GROUP:-100",
            "agent:main:telegram:group:-100:topic:7",
            "agent:main:discord:work:channel:1",
            "agent:main:slack:thread:17.5",
        ] {
            assert!(is_group(key), "{key}");
        }
        for key in ["agent:main:main", "agent:main:telegram:dm:1", "agent:main:explicit:group:1"] {
            assert!(!is_group(key), "{key}");
        }
    }

    #[test]
    fn dm_and_direct_are_the_same_address() {
        let same =
            |a: &str, b: &str| SessionKey::parse(a).canonical() == SessionKey::parse(b).canonical();
        assert!(same("agent:main:telegram:dm:1", "agent:main:telegram:direct:1"));
        assert!(same("agent:main:dm:A", "agent:main:direct:a"));
        assert!(!same("agent:main:peer:a", "agent:main:direct:a"));
        assert!(!same("agent:main:signal:group:aB", "agent:main:signal:group:ab"));
        assert!(same("agent:main:discord:group:aB", "agent:main:discord:group:ab"));
        assert!(!same("agent:main:main", "agent:work:main"));
        assert_eq!(
            SessionKey::parse("agent:main:telegram:dm:1:thread:X").canonical(),
            "agent:main:telegram:direct:1:thread:X"
        );
    }

    proptest! {
        #[test]
        fn r60_every_string_prints_as_it_was(text in ".*") {
            let key = SessionKey::parse(text.clone());
            prop_assert_eq!(key.to_string(), text);
            let _ = (key.agent(), key.rest(), key.kind(), key.thread(), key.canonical());
        }

        #[test]
        fn openclaws_spelling_is_its_own_spelling(text in "(agent:[a-zA-Z]{0,3}:)?([a-zA-Z]{1,8}:|signal:|matrix:|group:|thread:|[0-9]:?){0,6}") {
            let once = SessionKey::parse(text).for_openclaw("main");
            let twice = SessionKey::parse(once.clone()).for_openclaw("main");
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn canonical_is_its_own_canonical(text in "(agent:[a-zA-Z]{1,3}:)?([a-zA-Z]{1,8}:|direct:|dm:|group:|thread:|topic:|-?[0-9]{1,3}:?){0,6}") {
            let once = SessionKey::parse(text).canonical();
            let twice = SessionKey::parse(once.clone()).canonical();
            prop_assert_eq!(once, twice);
        }
    }
}
