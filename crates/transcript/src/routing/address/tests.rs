//! Tests every form of key, and what hostile ids cannot do.

use proptest::prelude::*;

use super::super::names::AgentId;
use super::*;

fn inbound(channel: &str, chat: Chat, peer: &str) -> Inbound {
    Inbound {
        agent: AgentId::default(),
        channel: Channel::parse(channel).unwrap(),
        account: None,
        chat,
        peer: peer.to_owned(),
        sender: "somebody".to_owned(),
        thread: None,
        text: String::new(),
    }
}

fn scoped(dm_scope: DmScope) -> Settings {
    Settings { dm_scope, ..Settings::default() }
}

#[track_caller]
fn check(settings: &Settings, inbound: &Inbound, key: &str) {
    assert_eq!(key_for(settings, inbound).as_str(), key);
}

#[test]
fn r61_every_scope_has_its_key() {
    let telegram = inbound("telegram", Chat::Direct, "821071206");
    let mut whatsapp = inbound("whatsapp", Chat::Direct, "+15555550123");
    whatsapp.account = Some("Work Phone".to_owned());
    for (scope, on_telegram, on_whatsapp) in [
        ("main", "agent:main:main", "agent:main:main"),
        ("channel", "agent:main:telegram:dm:821071206", "agent:main:whatsapp:dm:+15555550123"),
        ("peer", "agent:main:peer:821071206", "agent:main:peer:+15555550123"),
        ("channel-peer", "agent:main:telegram:dm:821071206", "agent:main:whatsapp:dm:+15555550123"),
        ("per-peer", "agent:main:direct:821071206", "agent:main:direct:+15555550123"),
        (
            "per-channel-peer",
            "agent:main:telegram:direct:821071206",
            "agent:main:whatsapp:direct:+15555550123",
        ),
        (
            "per-account-channel-peer",
            "agent:main:telegram:default:direct:821071206",
            "agent:main:whatsapp:work-phone:direct:+15555550123",
        ),
    ] {
        let settings = scoped(DmScope::parse(scope).unwrap());
        check(&settings, &telegram, on_telegram);
        check(&settings, &whatsapp, on_whatsapp);
    }
    assert_eq!(Settings::default().dm_scope, DmScope::Main);
    assert_eq!(DmScope::NAMES.len(), 7, "every scope is in the table");
}

#[test]
fn r60_groups_channels_and_rooms_have_keys() {
    let settings = Settings::default();
    check(
        &settings,
        &inbound("telegram", Chat::Group, "-1001234567890"),
        "agent:main:telegram:group:-1001234567890",
    );
    check(
        &settings,
        &inbound("discord", Chat::Channel, "123456789"),
        "agent:main:discord:channel:123456789",
    );
    check(&settings, &inbound("irc", Chat::Room, "#Rust"), "agent:main:irc:room:#rust");
    // Ids are case-sensitive there.
    check(
        &settings,
        &inbound("matrix", Chat::Channel, "!aB:x.org"),
        "agent:main:matrix:channel:!aB:x.org",
    );
    check(&settings, &inbound("signal", Chat::Group, "aB=="), "agent:main:signal:group:aB==");
    check(&settings, &inbound("slack", Chat::Channel, "C01AB"), "agent:main:slack:channel:c01ab");
    check(&settings, &inbound("slack", Chat::Channel, " "), "agent:main:slack:channel:unknown");
    let together = Settings { group_scope: GroupScope::Main, ..Settings::default() };
    check(&together, &inbound("telegram", Chat::Group, "-100"), "agent:main:main");
}

#[test]
fn r60_threads_and_topics_have_keys() {
    let settings = Settings::default();
    let with = |mut inbound: Inbound, thread: Thread| {
        inbound.thread = Some(thread);
        inbound
    };
    let thread = |id: &str| Thread::Thread(id.to_owned());
    check(
        &settings,
        &with(inbound("telegram", Chat::Group, "-100"), Thread::Topic("7".to_owned())),
        "agent:main:telegram:group:-100:topic:7",
    );
    check(
        &settings,
        &with(inbound("slack", Chat::Channel, "C1"), thread("1712.5")),
        "agent:main:slack:channel:c1:thread:1712.5",
    );
    // The form of the documents, for a thread whose group is not known.
    check(
        &settings,
        &with(inbound("slack", Chat::Channel, ""), thread("1712.5")),
        "agent:main:slack:thread:1712.5",
    );
    check(
        &settings,
        &with(inbound("telegram", Chat::Direct, "1"), thread("9")),
        "agent:main:main:thread:9",
    );
    check(
        &scoped(DmScope::PerChannelPeer),
        &with(inbound("telegram", Chat::Direct, "1"), thread("9")),
        "agent:main:telegram:direct:1:thread:9",
    );
    check(
        &settings,
        &with(inbound("slack", Chat::Channel, "C1"), thread(" ")),
        "agent:main:slack:channel:c1",
    );
    check(
        &settings,
        &with(inbound("slack", Chat::Channel, ""), thread(" ")),
        "agent:main:slack:channel:unknown",
    );
}

#[test]
fn r61_a_linked_person_has_one_name() {
    let mut settings = scoped(DmScope::PerPeer);
    settings.identity_links.insert(
        " Alice ".to_owned(),
        vec!["telegram:821".to_owned(), "Discord:99".to_owned(), "U1".to_owned()],
    );
    check(&settings, &inbound("telegram", Chat::Direct, "821"), "agent:main:direct:alice");
    check(&settings, &inbound("discord", Chat::Direct, "99"), "agent:main:direct:alice");
    check(&settings, &inbound("slack", Chat::Direct, "u1"), "agent:main:direct:alice");
    // The same number on another channel is another person.
    check(&settings, &inbound("whatsapp", Chat::Direct, "821"), "agent:main:direct:821");
    check(&settings, &inbound("telegram", Chat::Group, "821"), "agent:main:telegram:group:821");
    settings.dm_scope = DmScope::ChannelPeer;
    check(&settings, &inbound("telegram", Chat::Direct, "821"), "agent:main:telegram:dm:alice");
    settings.dm_scope = DmScope::Main;
    check(&settings, &inbound("telegram", Chat::Direct, "821"), "agent:main:main");
    settings.identity_links.insert(" ".to_owned(), vec!["telegram:5".to_owned(), String::new()]);
    settings.dm_scope = DmScope::Peer;
    check(&settings, &inbound("telegram", Chat::Direct, "5"), "agent:main:peer:5");
}

#[test]
fn r63_hostile_ids_stay_ids() {
    let settings = scoped(DmScope::ChannelPeer);
    for (peer, key) in [
        ("", "agent:main:telegram:dm:somebody"),
        ("1:thread:5", "agent:main:telegram:dm:1%3athread%3a5"),
        ("thread:5", "agent:main:telegram:dm:thread%3a5"),
        ("a\n:b\u{1b}", "agent:main:telegram:dm:a%0a%3ab%1b"),
        ("../../etc", "agent:main:telegram:dm:../../etc"),
        ("agent:work:main", "agent:main:telegram:dm:agent:work:main"),
        ("100%41", "agent:main:telegram:dm:100%2541"),
        ("100%", "agent:main:telegram:dm:100%"),
    ] {
        let key_of = key_for(&settings, &inbound("telegram", Chat::Direct, peer));
        assert_eq!(key_of.as_str(), key);
        assert_eq!((key_of.agent(), key_of.thread()), (Some("main"), None), "{peer}");
    }
    let mut account = inbound("telegram", Chat::Direct, "5");
    account.account = Some("group".to_owned());
    check(
        &scoped(DmScope::PerAccountChannelPeer),
        &account,
        "agent:main:telegram:account-group:direct:5",
    );
}

fn any_id() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z0-9+@#!._-]{0,4}",
        Just(":".to_owned()),
        Just("thread".to_owned()),
        Just("topic".to_owned()),
        Just("direct".to_owned()),
        Just("dm".to_owned()),
        Just("group".to_owned()),
        Just("agent:b:".to_owned()),
        Just("%3a".to_owned()),
        Just("..".to_owned()),
        Just("/".to_owned()),
        ".{0,2}",
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

prop_compose! {
    fn any_inbound()(
        agent in "[a-z0-9][a-zA-Z0-9_-]{0,8}",
        channel in prop_oneof![Just("telegram"), Just("matrix"), Just("signal"), Just("slack")],
        account in proptest::option::of(any_id()),
        chat in 0_usize..4,
        peer in any_id(),
        sender in any_id(),
        thread in proptest::option::of((any::<bool>(), any_id())),
    ) -> Inbound {
        Inbound {
            agent: AgentId::parse(&agent).unwrap(),
            channel: Channel::parse(channel).unwrap(),
            account,
            chat: Chat::NAMES[chat].1,
            peer,
            sender,
            thread: thread.map(|(is_topic, id)| if is_topic { Thread::Topic(id) } else { Thread::Thread(id) }),
            text: String::new(),
        }
    }
}

fn any_scope() -> impl Strategy<Value = DmScope> {
    (0..DmScope::NAMES.len()).prop_map(|at| DmScope::parse(DmScope::NAMES[at]).unwrap())
}

/// Returns the facts that identify a conversation, computed independently of its key.
fn conversation(settings: &Settings, inbound: &Inbound) -> Vec<String> {
    let channel = inbound.channel.to_string();
    let lower = |text: &str| text.trim().to_lowercase();
    let keeps_case = match inbound.chat {
        Chat::Direct => false,
        Chat::Room => channel == "matrix",
        Chat::Group => matches!(channel.as_str(), "matrix" | "signal"),
        Chat::Channel => channel == "matrix",
    };
    let peer = if keeps_case { inbound.peer.trim().to_owned() } else { lower(&inbound.peer) };
    let thread = inbound.thread.as_ref().filter(|thread| !thread.id().trim().is_empty());
    let is_alone = peer.is_empty()
        && inbound.chat != Chat::Direct
        && matches!(inbound.thread, Some(Thread::Thread(_)))
        && thread.is_some();
    let thread = thread.map(|thread| {
        let has_case = channel == "matrix" && !is_alone;
        let id = thread.id().trim();
        format!("{} {}", thread.mark(), if has_case { id.to_owned() } else { lower(id) })
    });
    let mut parts = vec![inbound.agent.to_string(), thread.unwrap_or_default()];
    match inbound.chat {
        Chat::Direct => {
            let peer = if peer.is_empty() { lower(inbound.sender()) } else { peer };
            match settings.dm_scope {
                DmScope::Main => parts.push("main".to_owned()),
                _ if peer.is_empty() => parts.push("main".to_owned()),
                DmScope::Peer | DmScope::PerPeer => parts.extend(["direct".to_owned(), peer]),
                DmScope::Channel | DmScope::ChannelPeer | DmScope::PerChannelPeer => {
                    parts.extend(["direct".to_owned(), channel, peer]);
                }
                DmScope::PerAccountChannelPeer => {
                    let account = account(inbound.account.as_deref());
                    parts.extend(["direct".to_owned(), channel, account, peer]);
                }
            }
        }
        _ if is_alone => parts.extend(["thread".to_owned(), channel]),
        chat => {
            let peer = if peer.is_empty() { UNKNOWN.to_owned() } else { peer };
            parts.extend([chat.as_str().to_owned(), channel, peer]);
        }
    }
    parts
}

proptest! {
    #![proptest_config(crate::few_cases(2_000))]

    #[test]
    fn r63_no_message_reaches_another_agent(inbound in any_inbound(), dm_scope in any_scope()) {
        let settings = scoped(dm_scope);
        let key = key_for(&settings, &inbound);
        prop_assert_eq!(key.agent(), Some(inbound.agent.as_str()));
        prop_assert_eq!(SessionKey::parse(key.as_str()).to_string(), key.as_str());
        prop_assert!(!key.as_str().chars().any(char::is_control));
        let is_in_thread = inbound.thread.as_ref().is_some_and(|thread| !thread.id().trim().is_empty());
        let is_thread = key.thread().is_some() || matches!(key.kind(), crate::key::Kind::Thread { .. });
        prop_assert_eq!(is_thread, is_in_thread, "{}", key);
    }

    /// Checks that two messages share a session exactly if they are in one conversation.
    #[test]
    fn r63_different_conversations_have_different_keys(
        one in any_inbound(),
        other in any_inbound(),
        dm_scope in any_scope(),
        mix in any::<[bool; 7]>(),
    ) {
        let settings = scoped(dm_scope);
        // Most of them have something in common.
        let mut other = other;
        if mix[0] { other.agent = one.agent.clone(); }
        if mix[1] { other.channel = one.channel.clone(); }
        if mix[2] { other.account = one.account.clone(); }
        if mix[3] { other.chat = one.chat; }
        if mix[4] { other.peer = one.peer.clone(); }
        if mix[5] { other.sender = one.sender.clone(); }
        if mix[6] { other.thread = one.thread.clone(); }
        let (first, second) = (key_for(&settings, &one), key_for(&settings, &other));
        let is_one = conversation(&settings, &one) == conversation(&settings, &other);
        prop_assert_eq!(first == second, is_one, "{} {}", first, second);
        prop_assert_eq!(first.canonical() == second.canonical(), is_one, "{} {}", first, second);
    }
}

#[test]
fn a_peer_with_the_name_of_a_link_is_another_person() {
    let mut settings = Settings { dm_scope: DmScope::Channel, ..Settings::default() };
    settings.identity_links.insert("alice".to_owned(), vec!["telegram:821".to_owned()]);
    let key = |peer: &str| {
        key_for(&settings, &inbound("telegram", Chat::Direct, peer)).as_str().to_owned()
    };
    assert_eq!(key("821"), "agent:main:telegram:dm:alice");
    assert_ne!(key("ALICE"), key("821"));
    assert_ne!(key("bob"), key("ALICE"));
}
