//! Incoming messages: admission, routing to sessions, and the chat commands.

use jiff::tz::TimeZone;
use quipu_ledger::store::senders::SenderFilter;
use quipu_ledger::store::{Entry, Routed, Store};
use quipu_transcript::routing::admission::{DirectPolicy, GroupPolicy};
use quipu_transcript::routing::reset::{ResetMode, ResetRule};
use quipu_transcript::routing::settings::DmScope;
use quipu_transcript::routing::{Admission, AgentId, Channel, Chat, Inbound, Settings};
use serde_json::json;

use crate::home::Home;

fn message(chat: Chat, peer: &str, sender: &str, text: &str) -> Inbound {
    Inbound {
        agent: AgentId::default(),
        channel: Channel::parse("telegram").unwrap(),
        account: None,
        chat,
        peer: peer.to_owned(),
        sender: sender.to_owned(),
        thread: None,
        text: text.to_owned(),
    }
}

fn direct(peer: &str, text: &str) -> Inbound {
    message(Chat::Direct, peer, "", text)
}

/// Returns settings that admit every sender.
fn open() -> Settings {
    let mut settings = Settings::default();
    settings.admission.direct = DirectPolicy::Open;
    settings.admission.group = GroupPolicy::Open;
    settings
}

fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[track_caller]
fn route(store: &Store, settings: &Settings, inbound: &Inbound) -> Routed {
    store.route(settings, inbound, now(), &TimeZone::UTC).unwrap()
}

/// Begins a turn with a routed message.
fn begin_turn(routed: &Routed) {
    let text = routed.message.clone().unwrap();
    routed.session.as_ref().unwrap().begin_turn(Entry::user(&text)).unwrap();
}

#[test]
fn r70_an_unknown_key_makes_a_session() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let first = route(&store, &open(), &direct("7", "hello"));
    assert_eq!(first.key, "agent:main:main");
    assert!(first.created && first.starts && first.admission.is_admitted());
    assert_eq!(first.message.as_deref(), Some("hello"));
    begin_turn(&first);
    let again = route(&store, &open(), &direct("8", "again"));
    assert_eq!(again.session, first.session);
    assert!(!again.created && !again.starts);
    // The last origin is stored, and only if it changed.
    let session = first.session.unwrap();
    assert_eq!(session.meta().unwrap()["lastTo"], "8");
    let lines = home.one::<i64>("SELECT count(*) FROM records");
    route(&store, &open(), &direct("8", "and again"));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), lines);
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r70_a_conversation_starts_until_its_first_turn() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let settings = open();
    assert!(route(&store, &settings, &direct("7", "/new")).starts);
    // The runtime that got this answer died, or did not reply.
    let second = route(&store, &settings, &direct("7", "hello"));
    assert!(second.starts && !second.created);
    // An entry that is not a turn does not count as one.
    let session = second.session.clone().unwrap();
    session.mirror("Your build is done.").unwrap();
    let note = json!({"type": "custom", "customType": "x"}).to_string();
    session.append(Entry::json(&note)).unwrap();
    assert!(route(&store, &settings, &direct("7", "/sessions")).starts);
    let third = route(&store, &settings, &direct("7", "hello"));
    assert!(third.starts);
    begin_turn(&third);
    assert!(!route(&store, &settings, &direct("7", "more")).starts);
    session.append(Entry::json(&note)).unwrap();
    assert!(!route(&store, &settings, &direct("7", "more")).starts);
    // Also after a reset, by any caller.
    session.reset("reset", None).unwrap();
    let reset = route(&store, &settings, &direct("7", "hello"));
    assert!(reset.starts && reset.reset.is_none());
    begin_turn(&reset);
    assert!(!route(&store, &settings, &direct("7", "more")).starts);
    // A leaf before the first entry begins the conversation, too.
    session.branch(None, None).unwrap();
    assert!(route(&store, &settings, &direct("7", "more")).starts);
    // A sender who is not admitted begins nothing.
    assert!(!route(&store, &Settings::default(), &direct("9", "hello")).starts);
}

#[test]
fn r74_strangers_are_paired_first_and_group_members_filtered() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let settings = Settings::default();
    let refused = route(&store, &settings, &direct("7", "let me in"));
    let Admission::Pair { code, is_new: true } = refused.admission else {
        panic!("{refused:?}");
    };
    assert!(refused.session.is_none() && refused.message.is_none());
    assert!(refused.reply.unwrap().contains(&code.to_string()));
    // A sender who asks again gets the same code, and nothing more is stored.
    let records = home.one::<i64>("SELECT count(*) FROM records");
    let again = route(&store, &settings, &direct("7", "hello?"));
    assert_eq!(again.admission, Admission::Pair { code, is_new: false });
    assert!(again.reply.unwrap().contains(&code.to_string()));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), records);
    let group = message(Chat::Group, "-100", "9", "psst");
    let filtered = route(&store, &settings, &group);
    assert!(matches!(filtered.admission, Admission::Filtered { .. }));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 0);
    store.pair(code, &SenderFilter::default(), now()).unwrap();
    assert!(route(&store, &settings, &direct("7", "hello")).created);
    assert!(!route(&store, &settings, &direct("8", "hello")).admission.is_admitted());
    home.assert_rebuilds();
}

#[test]
fn r72_chat_commands_reset_and_switch_sessions() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let settings = open();
    let first = route(&store, &settings, &direct("7", "one"));
    begin_turn(&first);
    let old = first.session.unwrap();

    // A new session id under the same key; the old session stays readable.
    let new = route(&store, &settings, &direct("7", "/new tell me more"));
    assert!(new.created && new.message.as_deref() == Some("tell me more"));
    assert_ne!(new.session.as_ref(), Some(&old));
    begin_turn(&new);
    assert_eq!(old.context().unwrap().messages.len(), 1);

    // Key and id stay the same, and the conversation is empty.
    let reset = route(&store, &settings, &direct("7", "/reset"));
    assert_eq!(reset.session, new.session);
    assert!(reset.starts && !reset.created && reset.message.is_none());
    let session = reset.session.unwrap();
    assert!(session.context().unwrap().messages.is_empty());
    store.catch_up().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 2);

    // Another conversation of the same agent, and back.
    let mut apart = settings.clone();
    apart.dm_scope = DmScope::Channel;
    apart.admission.owners.insert((Channel::parse("telegram").unwrap(), "8".to_owned()));
    let other = route(&store, &apart, &direct("8", "hi"));
    assert_eq!(other.key, "agent:main:telegram:dm:8");
    begin_turn(&other);
    let listed = route(&store, &apart, &direct("8", "/sessions"));
    let reply = listed.reply.unwrap();
    assert!(reply.contains("telegram:dm:8") && reply.contains("main"), "{reply}");
    let switched = route(&store, &apart, &direct("8", "/session main"));
    assert_eq!(switched.session.as_ref(), Some(&session));
    assert_eq!(route(&store, &apart, &direct("8", "go on")).session, Some(session.clone()));
    let back = route(&store, &apart, &direct("8", "/session agent:work:main"));
    assert_eq!(back.session, Some(session.clone()));
    assert!(back.reply.unwrap().contains("no such session"));
    // Back to the first conversation.
    let home_again = route(&store, &apart, &direct("8", "/session telegram:dm:8"));
    assert_eq!(home_again.session, other.session);
    assert_eq!(route(&store, &apart, &direct("8", "here")).session, other.session);
    // Other senders may not list or switch sessions there.
    let nosy = route(&store, &apart, &direct("9", "/sessions"));
    assert!(!nosy.reply.unwrap().contains("telegram:dm:8"));
    let group = message(Chat::Group, "-100", "9", "/session main");
    assert!(route(&store, &apart, &group).reply.unwrap().contains("owner"));
    home.assert_rebuilds();
    home.assert_sound();
}

#[test]
fn r73_sessions_reset_only_if_configured() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let mut settings = open();
    let first = route(&store, &settings, &direct("7", "one"));
    begin_turn(&first);
    let later = now() + 400 * 24 * 3_600_000;
    let same = store.route(&settings, &direct("7", "two"), later, &TimeZone::UTC).unwrap();
    assert!(!same.starts);
    settings.resets.base =
        ResetRule { mode: Some(ResetMode::Idle), idle_minutes: Some(30), ..ResetRule::default() };
    let soon = now() + 60_000;
    assert!(!store.route(&settings, &direct("7", "two"), soon, &TimeZone::UTC).unwrap().starts);
    let idle = store.route(&settings, &direct("7", "two"), later, &TimeZone::UTC).unwrap();
    assert_eq!((idle.reset, idle.session), (Some("idle"), first.session));
}

#[test]
fn two_first_messages_at_once_make_one_session() {
    let home = Home::quick();
    drop(Store::open(home.ledger_path()).unwrap());
    let path = home.ledger_path();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let store = Store::open(&path).unwrap();
                route(&store, &open(), &direct("7", "hello"))
            })
        })
        .collect();
    let routed: Vec<Routed> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(routed.iter().filter(|routed| routed.created).count(), 1);
    let id = |routed: &Routed| routed.session.as_ref().map(|session| session.id().to_owned());
    assert!(routed.iter().all(|other| id(other) == id(&routed[0])));
}

/// Returns the routing fields of a session, which only messages of its own chat may change.
fn routing(routed: &Routed) -> [Option<String>; 3] {
    let meta = routed.session.as_ref().unwrap().meta().unwrap();
    let text = |name: &str| meta.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    [text("chatType"), text("lastTo"), text("groupId")]
}

#[test]
fn r124_only_an_owner_leads_direct_messages_into_a_groups_session() {
    for scope in DmScope::NAMES {
        let home = Home::quick();
        let store = Store::open(home.ledger_path()).unwrap();
        let mut settings = open();
        settings.dm_scope = DmScope::parse(scope).unwrap();
        settings.admission.owners.insert((Channel::parse("telegram").unwrap(), "1".to_owned()));
        let group = |sender, text| message(Chat::Group, "-100", sender, text);
        let in_group = route(&store, &settings, &group("2", "hello all"));
        begin_turn(&in_group);
        let before = routing(&in_group);
        let own = route(&store, &settings, &direct("2", "hello"));
        begin_turn(&own);
        // By any spelling of the key.
        for key in ["telegram:group:-100", "agent:main:telegram:group:-100", "Telegram:GROUP:-100"]
        {
            let refused = route(&store, &settings, &direct("2", &format!("/session {key}")));
            assert!(refused.reply.unwrap().contains("owner"), "{scope} {key}");
            assert_eq!(refused.session, own.session, "{scope} {key}");
            assert_eq!(route(&store, &settings, &direct("2", "psst")).session, own.session);
        }
        // An owner may, and the group keeps its own address.
        let owner = route(&store, &settings, &direct("1", "hello"));
        let led = route(&store, &settings, &direct("1", "/session telegram:group:-100"));
        assert_eq!(led.session, in_group.session, "{scope}");
        for text in ["from afar", "/reset", "/new", "and again"] {
            let led = route(&store, &settings, &direct("1", text));
            assert_eq!(led.key, in_group.key, "{scope}");
            assert_eq!(routing(&led), before, "{scope} {text}");
        }
        let back = owner.key.strip_prefix("agent:main:").unwrap().to_owned();
        let back = route(&store, &settings, &direct("1", &format!("/session {back}")));
        assert_eq!(back.session, owner.session, "{scope}");
        home.assert_rebuilds();
    }
}

#[test]
fn r124_a_group_that_an_owner_switched_changes_no_other_chats_address() {
    for scope in DmScope::NAMES {
        let home = Home::quick();
        let store = Store::open(home.ledger_path()).unwrap();
        let mut settings = open();
        settings.dm_scope = DmScope::parse(scope).unwrap();
        settings.admission.owners.insert((Channel::parse("telegram").unwrap(), "1".to_owned()));
        let own = route(&store, &settings, &direct("1", "hello"));
        begin_turn(&own);
        let before = routing(&own);
        assert_eq!(before, [Some("direct".to_owned()), Some("1".to_owned()), None]);
        let key = own.key.strip_prefix("agent:main:").unwrap();
        let group = |sender: &str, text: &str| message(Chat::Group, "-100", sender, text);
        begin_turn(&route(&store, &settings, &group("2", "hello all")));
        let refused = route(&store, &settings, &group("2", &format!("/session {key}")));
        assert!(refused.reply.unwrap().contains("owner"), "{scope}");
        let led = route(&store, &settings, &group("1", &format!("/session {key}")));
        assert_eq!(led.session, own.session, "{scope}");
        let led = route(&store, &settings, &group("2", "hello again"));
        assert_eq!((&led.session, routing(&led)), (&own.session, before), "{scope}");
        home.assert_rebuilds();
    }
}

#[test]
fn r124_a_session_that_a_group_uses_belongs_to_the_group() {
    let home = Home::quick();
    let store = Store::open(home.ledger_path()).unwrap();
    let mut settings = open();
    settings.admission.owners.insert((Channel::parse("telegram").unwrap(), "1".to_owned()));
    let own = route(&store, &settings, &direct("2", "hello"));
    for name in ["plan", "notes"] {
        let key = format!("agent:main:explicit:{name}");
        store.session_or_new(&key).unwrap();
    }
    // An owner has switched a group there.
    route(&store, &settings, &message(Chat::Channel, "-100", "1", "/session explicit:plan"));
    let refused = route(&store, &settings, &direct("2", "/session explicit:plan"));
    assert!(refused.reply.unwrap().contains("owner"));
    // Its metadata is a group's.
    let notes = store.session("agent:main:explicit:notes").unwrap();
    notes.patch_meta(json!({"chatType": "group"}).as_object().unwrap()).unwrap();
    let refused = route(&store, &settings, &direct("2", "/session explicit:notes"));
    assert!(refused.reply.unwrap().contains("owner"));
    assert_eq!(route(&store, &settings, &direct("2", "here")).session, own.session);
    // A session that no group uses is open to all, as before.
    notes.patch_meta(json!({"chatType": null}).as_object().unwrap()).unwrap();
    let switched = route(&store, &settings, &direct("2", "/session explicit:notes"));
    assert_eq!(switched.session, Some(notes));
}
