//! Admission of senders: decisions and requests persist, a rebuild changes nothing, and no text of
//! a message is stored.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quipu_ledger::Error;
use quipu_ledger::store::Store;
use quipu_ledger::store::senders::{self, SenderAddress, SenderFilter};
use quipu_transcript::routing::admission::{
    Admission, AdmissionSettings, DirectPolicy, MOST_REQUESTS, REQUEST_LIFETIME, RefusalReason,
};
use quipu_transcript::routing::{AgentId, Channel, Chat, Inbound, PairingCode};

use crate::home::Home;

const NOW: i64 = 1_800_000_000_000;

fn open(home: &Home) -> Store {
    Store::open(home.ledger_path()).unwrap()
}

fn inbound(agent: &str, channel: &str, chat: Chat, sender: &str) -> Inbound {
    Inbound {
        agent: AgentId::parse(agent).unwrap(),
        channel: Channel::parse(channel).unwrap(),
        account: None,
        chat,
        peer: if chat == Chat::Direct { sender.to_owned() } else { "-100".to_owned() },
        sender: sender.to_owned(),
        thread: None,
        text: "the canary sings at noon".to_owned(),
    }
}

fn who(agent: &str, channel: &str, sender: &str) -> SenderAddress {
    SenderAddress::new(AgentId::parse(agent).unwrap(), Channel::parse(channel).unwrap(), sender)
        .unwrap()
}

fn direct(sender: &str) -> Inbound {
    inbound("main", "telegram", Chat::Direct, sender)
}

fn code(admission: Admission) -> PairingCode {
    match admission {
        Admission::Pair { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

fn states(home: &Home, now: i64) -> Vec<String> {
    let found = senders::senders(&home.open(), &SenderFilter::default(), now).unwrap();
    let line = |sender: quipu_ledger::wire::Sender| {
        format!("{}:{}:{} {}", sender.agent, sender.channel, sender.sender_id, sender.state)
    };
    found.into_iter().map(line).collect()
}

#[test]
fn r74_a_stranger_is_paired_and_revoked() {
    let home = Home::new();
    let store = open(&home);
    let settings = AdmissionSettings::default();
    let admit =
        |store: &Store, message: &Inbound, now| store.admit(&settings, message, now).unwrap();
    let first = admit(&store, &direct("821"), NOW);
    assert!(matches!(first, Admission::Pair { is_new: true, .. }));
    let code = code(first);
    // Asking again changes nothing.
    let records: i64 = home.one("SELECT count(*) FROM records");
    let again = admit(&store, &direct(" 821 "), NOW + 5);
    assert_eq!(again, Admission::Pair { code, is_new: false });
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), records);
    // An unknown sender in a group leaves no trace.
    let group = inbound("main", "telegram", Chat::Group, "821");
    assert_eq!(admit(&store, &group, NOW), Admission::Filtered { why: RefusalReason::NotApproved });
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), records);

    let elsewhere = SenderFilter { channel: Channel::parse("irc").ok(), ..SenderFilter::default() };
    let missed = store.pair(code, &elsewhere, NOW).unwrap_err();
    assert!(matches!(missed, Error::NoMatch { what: "open pairing request", .. }));
    let paired = store.pair(code, &SenderFilter::default(), NOW + 10).unwrap();
    assert_eq!(
        (paired.state, paired.time, paired.sender_id.as_str()),
        ("allowed", NOW + 10, "821")
    );
    assert_eq!(admit(&store, &direct("821"), NOW + 20), Admission::Admitted);
    assert_eq!(admit(&store, &group, NOW + 20), Admission::Admitted);
    assert!(store.pair(code, &SenderFilter::default(), NOW + 20).is_err());
    // The code approves the sender on this channel and for this agent only.
    for (agent, channel) in [("main", "discord"), ("work", "telegram")] {
        let message = inbound(agent, channel, Chat::Direct, "821");
        assert!(matches!(admit(&store, &message, NOW), Admission::Pair { is_new: true, .. }));
    }

    store.revoke(&who("main", "telegram", "821"), NOW + 30).unwrap();
    let next = admit(&store, &direct("821"), NOW + 40);
    assert!(matches!(next, Admission::Pair { is_new: true, .. }));
    store.deny(&who("main", "telegram", "821"), NOW + 50).unwrap();
    let denied = admit(&store, &direct("821"), NOW + 60);
    assert_eq!(denied, Admission::Refused { why: RefusalReason::Denied });
    assert!(store.pair(self::code(next), &SenderFilter::default(), NOW).is_err());
    drop(store);
    let expected =
        ["main:discord:821 asking", "work:telegram:821 asking", "main:telegram:821 denied"];
    assert_eq!(states(&home, NOW), expected);
    home.assert_rebuilds();
    assert_eq!(states(&home, NOW), expected);
    home.assert_sound();
}

#[test]
fn r74_nothing_of_a_message_is_stored() {
    let home = Home::new();
    let store = open(&home);
    for sender in 0..9 {
        let message = direct(&sender.to_string());
        store.admit(&AdmissionSettings::default(), &message, NOW).unwrap();
        let group = inbound("main", "telegram", Chat::Group, &format!("stranger-{sender}"));
        store.admit(&AdmissionSettings::default(), &group, NOW).unwrap();
    }
    drop(store);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM pairing_requests"), 3);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 3);
    for (name, bytes) in home.ledger_bytes() {
        for word in ["canary", "stranger"] {
            let is_there = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!is_there, "{word} is in {name}");
        }
    }
}

#[test]
fn r74_a_repeated_decision_is_not_written_again() {
    let home = Home::new();
    let store = open(&home);
    let alice = who("main", "telegram", "Alice");
    assert_eq!(store.allow(&alice, NOW).unwrap().time, NOW);
    assert_eq!(store.allow(&alice, NOW + 9).unwrap().time, NOW);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 1);
    assert_eq!(store.deny(&alice, NOW + 9).unwrap().state, "denied");
    let nobody = store.revoke(&who("main", "irc", "alice"), NOW).unwrap_err();
    assert_eq!(nobody.to_string(), "no sender matches `irc:alice`");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 2);
}

/// A decision counts at once, even if the projection is behind.
#[test]
fn r74_a_projection_that_is_behind_catches_up_first() {
    let home = Home::new();
    home.write(
        ".claude/projects/p/s.jsonl",
        crate::home::line("user", &crate::home::uuid(1), None, "hi"),
    );
    home.sync();
    open(&home).deny(&who("main", "telegram", "1"), NOW).unwrap();
    let settings = AdmissionSettings { direct: DirectPolicy::Open, ..AdmissionSettings::default() };
    home.sql()
        .execute_batch("DELETE FROM senders; UPDATE ledger SET projection_version = 1")
        .unwrap();
    let store = open(&home);
    let admission = store.admit(&settings, &direct("1"), NOW).unwrap();
    assert_eq!(admission, Admission::Refused { why: RefusalReason::Denied });
    home.sql().execute_batch("UPDATE ledger SET projected_to = 0, projection_version = 1").unwrap();
    store.allow(&who("main", "telegram", "2"), NOW).unwrap();
    drop(store);
    assert_eq!(states(&home, NOW), ["main:telegram:1 denied", "main:telegram:2 allowed"]);
    home.assert_rebuilds();
}

/// An action of the model.
#[derive(Debug, Clone)]
enum Step {
    Message {
        agent: usize,
        channel: usize,
        sender: usize,
        is_group: bool,
    },
    Allow {
        agent: usize,
        channel: usize,
        sender: usize,
    },
    Deny {
        agent: usize,
        channel: usize,
        sender: usize,
    },
    Revoke {
        agent: usize,
        channel: usize,
        sender: usize,
    },
    /// The n-th code that was ever issued.
    Pair {
        which: usize,
    },
    Wait {
        minutes: i64,
    },
    Rebuild,
}

const AGENTS: [&str; 2] = ["main", "work"];
const CHANNELS: [&str; 2] = ["telegram", "irc"];
const SENDERS: [&str; 6] = ["1", "2", "alice", "@b:c.org", "thread:5", "+15"];

fn any_step() -> impl Strategy<Value = Step> {
    let place = || (0..AGENTS.len(), 0..CHANNELS.len(), 0..SENDERS.len());
    prop_oneof![
        8 => (place(), any::<bool>()).prop_map(|((agent, channel, sender), is_group)| {
            Step::Message { agent, channel, sender, is_group }
        }),
        2 => place().prop_map(|(agent, channel, sender)| Step::Allow { agent, channel, sender }),
        2 => place().prop_map(|(agent, channel, sender)| Step::Deny { agent, channel, sender }),
        2 => place().prop_map(|(agent, channel, sender)| Step::Revoke { agent, channel, sender }),
        3 => (0_usize..6).prop_map(|which| Step::Pair { which }),
        2 => (-20_i64..70).prop_map(|minutes| Step::Wait { minutes }),
        1 => Just(Step::Rebuild),
    ]
}

type Place = (usize, usize, usize);

/// The simple model: maps that are scanned each time.
#[derive(Default)]
struct Model {
    decided: BTreeMap<Place, bool>,
    requests: BTreeMap<Place, (PairingCode, i64)>,
    codes: Vec<(Place, PairingCode)>,
    now: i64,
}

impl Model {
    fn open(&self, agent: usize, channel: usize) -> usize {
        let is_open = |(place, (_, at)): &(&Place, &(PairingCode, i64))| {
            (place.0, place.1) == (agent, channel) && self.is_open(*at)
        };
        self.requests.iter().filter(is_open).count()
    }

    fn is_open(&self, at: i64) -> bool {
        (self.now - at).abs() <= REQUEST_LIFETIME
    }
}

proptest! {
    #![proptest_config(crate::home::few_cases(24))]

    #[test]
    fn r74_admission_agrees_with_a_simple_model(steps in proptest::collection::vec(any_step(), 1..60)) {
        let home = Home::quick();
        let store = open(&home);
        let settings = AdmissionSettings::default();
        let mut model = Model { now: NOW, ..Model::default() };
        for step in steps {
            match step {
                Step::Message { agent, channel, sender, is_group } => {
                    let place = (agent, channel, sender);
                    let chat = if is_group { Chat::Group } else { Chat::Direct };
                    let message = inbound(AGENTS[agent], CHANNELS[channel], chat, SENDERS[sender]);
                    let admission = store.admit(&settings, &message, model.now).unwrap();
                    let request = model.requests.get(&place).filter(|(_, at)| model.is_open(*at));
                    match (model.decided.get(&place), is_group, request) {
                        (Some(true), ..) => prop_assert_eq!(admission, Admission::Admitted),
                        (Some(false), true, _) => prop_assert_eq!(admission, Admission::Filtered { why: RefusalReason::Denied }),
                        (Some(false), false, _) => prop_assert_eq!(admission, Admission::Refused { why: RefusalReason::Denied }),
                        (None, true, _) => prop_assert_eq!(admission, Admission::Filtered { why: RefusalReason::NotApproved }),
                        (None, false, Some((code, _))) => {
                            prop_assert_eq!(admission, Admission::Pair { code: *code, is_new: false });
                        }
                        (None, false, None) if model.open(agent, channel) >= MOST_REQUESTS => {
                            prop_assert_eq!(admission, Admission::Refused { why: RefusalReason::TooManyRequests });
                        }
                        (None, false, None) => {
                            let code = code(admission.clone());
                            prop_assert_eq!(admission, Admission::Pair { code, is_new: true });
                            prop_assert!(!model.codes.iter().any(|(_, other)| *other == code));
                            // Requests that had expired by then are dropped.
                            let now = model.now;
                            model.requests.retain(|other, (_, at)| {
                                (other.0, other.1) != (agent, channel) || (now - *at).abs() <= REQUEST_LIFETIME
                            });
                            model.requests.insert(place, (code, now));
                            model.codes.push((place, code));
                        }
                    }
                }
                Step::Allow { agent, channel, sender } => {
                    let place = (agent, channel, sender);
                    let who = who(AGENTS[agent], CHANNELS[channel], SENDERS[sender]);
                    store.allow(&who, model.now).unwrap();
                    model.decided.insert(place, true);
                    model.requests.remove(&place);
                }
                Step::Deny { agent, channel, sender } => {
                    let place = (agent, channel, sender);
                    let who = who(AGENTS[agent], CHANNELS[channel], SENDERS[sender]);
                    store.deny(&who, model.now).unwrap();
                    model.decided.insert(place, false);
                    model.requests.remove(&place);
                }
                Step::Revoke { agent, channel, sender } => {
                    let place = (agent, channel, sender);
                    let who = who(AGENTS[agent], CHANNELS[channel], SENDERS[sender]);
                    let revoked = store.revoke(&who, model.now);
                    let was_known = model.decided.remove(&place).is_some();
                    let had_asked = model.requests.remove(&place).is_some();
                    prop_assert_eq!(revoked.is_ok(), was_known || had_asked);
                }
                Step::Pair { which } => {
                    let Some((place, code)) = model.codes.get(which).copied() else { continue };
                    let is_good = model.requests.get(&place).is_some_and(|(own, at)| {
                        *own == code && model.is_open(*at)
                    });
                    let paired = store.pair(code, &SenderFilter::default(), model.now);
                    prop_assert_eq!(paired.is_ok(), is_good);
                    if is_good {
                        model.decided.insert(place, true);
                        model.requests.remove(&place);
                    }
                }
                Step::Wait { minutes } => model.now += minutes * 60_000,
                Step::Rebuild => {
                    quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {}).unwrap();
                }
            }
        }
        let found = senders::senders(&store.reader().unwrap(), &SenderFilter::default(), model.now).unwrap();
        let asking = found.iter().filter(|sender| sender.state == "asking").count();
        let open = model.requests.values().filter(|(_, at)| model.is_open(*at)).count();
        prop_assert_eq!((asking, found.len() - asking), (open, model.decided.len()));
        drop(store);
        home.assert_rebuilds();
    }
}
