//! `quipu senders`.

use quipu_ledger::store::Store;
use quipu_transcript::routing::admission::{Admission, AdmissionSettings};
use quipu_transcript::routing::{AgentId, Channel, Chat, Inbound};

use crate::home::{Home, snapshot};

const LEDGER: &str = ".local/share/quipu/ledger.db";

/// Routes a message, as a runtime does. Returns the pairing code in the reply.
fn message(home: &Home, agent: &str, sender: &str) -> Option<String> {
    let inbound = Inbound {
        agent: AgentId::parse(agent).unwrap(),
        channel: Channel::parse("telegram").unwrap(),
        account: None,
        chat: Chat::Direct,
        peer: sender.to_owned(),
        sender: sender.to_owned(),
        thread: None,
        text: "hello".to_owned(),
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let store = Store::open(home.path(LEDGER)).unwrap();
    let now = i64::try_from(now).unwrap();
    match store.admit(&AdmissionSettings::default(), &inbound, now).unwrap() {
        Admission::Pair { code, .. } => Some(code.to_string()),
        Admission::Admitted => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r74_everybody_on_a_channel_may_be_allowed() {
    let home = Home::empty();
    home.run("senders deny telegram:9");
    snapshot!(home.run("senders allow telegram:*"), @"
    exit 0
    --- stdout
    telegram:* may now write to agent main
    ");
    assert_eq!(message(&home, "main", "7"), None);
    assert!(message(&home, "work", "7").is_some(), "another agent's");
    let denied = home.run("session route --channel telegram --peer 9 --text hi").json();
    assert_eq!(denied["is_admitted"], false, "what was decided about somebody counts first");
    let named = home.run("session route --channel telegram --peer * --text hi").json();
    assert_eq!(named["is_admitted"], false, "nobody is called so");
    snapshot!(home.run("senders allow *"), @r#"
    exit 2
    --- stderr
    error: `*` needs a channel
    hint: write telegram:* for every sender on Telegram, or set `direct = "open"` under [store.admission] for all channels
    "#);
    snapshot!(home.run("senders deny telegram:*"), @r#"
    exit 2
    --- stderr
    error: senders who are not allowed are refused anyway; to give out no pairing codes either, set `direct = "allowlist"` for the channel
    "#);
    assert_eq!(home.run("senders revoke telegram:*").code, 0);
    assert!(message(&home, "main", "7").is_some());
}

#[test]
fn r74_senders_are_allowed_denied_and_revoked() {
    let home = Home::empty();
    snapshot!(home.run("senders allow telegram:821071206"), @"
    exit 0
    --- stdout
    telegram:821071206 may now write to agent main
    ");
    snapshot!(home.run("senders deny +15555550123 --channel whatsapp --agent work"), @"
    exit 0
    --- stdout
    whatsapp:+15555550123 may not write to agent work
    ");
    snapshot!(home.run("senders allow matrix:@Ada:example.org"), @"
    exit 0
    --- stdout
    matrix:@ada:example.org may now write to agent main
    ");
    snapshot!(home.run("senders list").timeless(), @"
    exit 0
    --- stdout
    state  sender  agent  since
    allowed  matrix:@ada:example.org  main  (age)
    allowed  telegram:821071206  main  (age)
    denied  whatsapp:+15555550123  work  (age)
    ");
    snapshot!(home.run("senders list --agent work").timeless(), @"
    exit 0
    --- stdout
    state  sender  agent  since
    denied  whatsapp:+15555550123  work  (age)
    ");
    snapshot!(home.run_with("senders list", &[("COLUMNS", "40")]).timeless(), @"
    exit 0
    --- stdout
    allowed
    sender  matrix:@ada:example.org
    agent  main
    since  (age)
    allowed
    sender  telegram:821071206
    agent  main
    since  (age)
    denied
    sender  whatsapp:+15555550123
    agent  work
    since  (age)
    ");
    snapshot!(home.run("senders revoke telegram:821071206 --channel telegram"), @"
    exit 0
    --- stdout
    telegram:821071206 is now unknown to agent main
    ");
    snapshot!(home.run("senders revoke telegram:821071206"), @"
    exit 1
    --- stderr
    error: no sender matches `telegram:821071206`
    hint: `quipu senders list` shows all known senders
    ");
    assert!(message(&home, "main", "821071206").is_some());
}

#[test]
fn r74_a_pairing_code_allows_its_sender() {
    let home = Home::empty();
    let code = message(&home, "work", "42").unwrap();
    let listed = home.run("senders list");
    assert!(listed.stdout.contains(&code), "{listed}");
    let line = home.run("senders list --json").json();
    assert_eq!((&line["state"], &line["code"]), (&"asking".into(), &code.as_str().into()));
    let stands = line["expires_at"].as_i64().unwrap() - line["time"].as_i64().unwrap();
    assert_eq!(stands, 3_600_000);
    snapshot!(home.run("senders pair AAAAAAA2"), @"
    exit 1
    --- stderr
    error: no open pairing request matches `AAAAAAA2`
    hint: a code is valid for one hour; `quipu senders list` shows pending requests
    ");
    snapshot!(home.run("senders pair nonsense!"), @"
    exit 1
    --- stderr
    error: `nonsense!` is not a pairing code
    hint: a code has eight letters and digits; `quipu senders list` shows pending requests
    ");
    assert_eq!(home.run(&format!("senders pair {code} --agent main")).code, 1);
    snapshot!(home.run(&format!("senders pair {}", code.to_lowercase())), @"
    exit 0
    --- stdout
    telegram:42 may now write to agent work
    ");
    assert_eq!(message(&home, "work", "42"), None);
    assert_eq!(home.run(&format!("senders pair {code}")).code, 1, "a code is good for once");
    assert!(message(&home, "main", "42").is_some(), "another agent was not asked");
}

#[test]
fn json_has_the_new_state() {
    let home = Home::empty();
    let allowed = home.run("senders allow telegram:7 --json").json();
    let mut fields: Vec<&String> = allowed.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["agent", "channel", "sender_id", "state", "time"]);
    assert_eq!(home.run("senders list --json").json(), allowed);
    assert_eq!(home.run("senders list --json --channel irc").code, 1);
    assert_eq!(home.run("senders revoke telegram:7 --json").json()["state"], "revoked");
    snapshot!(home.run("senders list"), @"
    exit 0
    --- stdout
    no senders
    ");
}

#[test]
fn a_mistake_is_an_error_with_a_hint() {
    let home = Home::empty();
    snapshot!(home.run("senders allow 821071206"), @"
    exit 2
    --- stderr
    error: `821071206` has no channel
    hint: write it as telegram:821071206, or add --channel
    ");
    snapshot!(home.run("senders allow cron:1"), @"
    exit 2
    --- stderr
    error: `cron` cannot be the name of a channel: the word is reserved in session keys
    ");
    snapshot!(home.run("senders allow telegram:"), @"
    exit 2
    --- stderr
    error: `` is not a valid sender id
    hint: an id is not empty and has no control characters
    ");
    snapshot!(home.run("senders allow telegram:1 --agent ../x"), @"
    exit 2
    --- stderr
    error: `../x` cannot be the name of an agent: a name is up to 64 letters, digits, `-` and `_`, and begins with a letter or digit
    ");
    for odd in ["telegram:\n5", "telegram:5\t", "telegram:*\n"] {
        let refused = home.feed(&["senders", "allow", odd], "");
        assert!(refused.code == 2 && refused.stderr.contains("control characters"), "{refused}");
    }
    assert!(!home.path(".local").exists(), "nothing was created");
}

/// They read only the ledger, and a later sync changes nothing.
#[test]
fn commands_for_senders_never_collect() {
    let home = Home::small();
    home.run("senders allow telegram:7");
    assert_eq!(home.run("sessions --all --no-sync --json").code, 1);
    assert_eq!(home.run("sync").code, 0);
    assert_eq!(home.run("senders list --json").json()["sender_id"], "7");
    assert_eq!(home.run("rebuild").code, 0);
    assert_eq!(home.run("senders list --json").json()["sender_id"], "7");
    // A backup can be read too.
    home.run("backup copy.db");
    assert_eq!(home.run("senders list --json --ledger copy.db").json()["sender_id"], "7");
}

#[test]
fn hostile_ids_are_shown_safely() {
    let home = Home::empty();
    let mut command = home.command(["senders", "allow", "telegram:a\u{1b}[2Jb"]);
    command.env("COLUMNS", "80");
    let run = home.finish(command);
    assert_eq!(run.code, 2);
    assert!(!run.stderr.contains('\u{1b}'), "{run}");
}
