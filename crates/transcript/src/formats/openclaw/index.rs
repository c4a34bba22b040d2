//! Decodes `sessions.json` in every known shape, JSON or JSON5.
//!
//! The shapes: a flat map of keys (as releases write it, and an older one with ISO times and
//! `tokenCount`), and `{version, agents: {key: …}}` with nested `model` and `tokenCounts`. All
//! fields are returned under the names of the flat map. A broken index is reported and never fatal,
//! because the transcripts hold the data.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{archives, files};
use crate::index::{Binding, Group, Index, field};
use crate::key::SessionKey;
use crate::problem::{Problem, ProblemKind};
use crate::time::Timestamp;

/// Maximum nesting of an index. A deeper one is not decoded, so that the JSON5 parser cannot
/// exhaust the stack.
const MAX_DEPTH: usize = 100;

/// Maximum size in bytes of a value that is decoded. Longer values stay only in the index's bytes.
const MAX_VALUE_BYTES: usize = 16 << 10;

/// Implements [`crate::format::Format::read_index`].
pub(super) fn read(bytes: &[u8]) -> Index {
    read_fields(bytes, false)
}

/// Decodes an index; with `all`, long values are included, for callers that do not keep the bytes.
pub(super) fn read_fields(bytes: &[u8], all: bool) -> Index {
    let mut index = Index::default();
    let damaged = |detail: String| Index {
        problems: vec![Problem::new(ProblemKind::IndexDamaged, detail)],
        is_damaged: true,
        ..Index::default()
    };
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if text.trim_ascii().is_empty() {
        return damaged("empty".to_owned());
    }
    let mut stream =
        serde_json::Deserializer::from_slice(text).into_iter::<BTreeMap<String, &RawValue>>();
    match stream.next() {
        Some(Ok(keys)) => {
            let rest = text.get(stream.byte_offset()..).unwrap_or_default();
            let left =
                rest.iter().filter(|byte| !byte.is_ascii_whitespace() && **byte != 0).count();
            if left > 0 {
                let detail = format!("{left} bytes after its end");
                index.problems.push(Problem::new(ProblemKind::IndexDamaged, detail));
            }
            take_keys(&mut index, &keys, all);
        }
        // Older releases accept JSON5: comments, single quotes, trailing commas.
        _ => match relaxed(text) {
            Ok(keys) => {
                let keys = keys.iter().map(|(key, value)| (key.clone(), &**value)).collect();
                take_keys(&mut index, &keys, all);
            }
            Err(why) => return damaged(why),
        },
    }
    index.bindings.sort_by(|a, b| a.key.cmp(&b.key));
    index
}

/// Implements [`crate::format::Format::index_without`]. Writes the rest as plain JSON, keys in
/// order.
pub(super) fn without(bytes: &[u8], leave_out: &dyn Fn(&str) -> bool) -> Option<Vec<u8>> {
    let index = read(bytes);
    if index.is_damaged {
        return Some(Vec::new());
    }
    let is_left_out = |binding: &Binding| {
        let sessions = binding.session.iter().chain(&binding.earlier);
        sessions.into_iter().any(|session| {
            let likely = sessions_of_key(&binding.key, session, &binding.fields);
            leave_out(session) || likely.first().is_some_and(|session| leave_out(session))
        })
    };
    let gone: BTreeSet<&str> = index
        .bindings
        .iter()
        .filter(|binding| is_left_out(binding))
        .map(|binding| binding.key.as_str())
        .collect();
    if gone.is_empty() && index.problems.is_empty() {
        return None;
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut stream = serde_json::Deserializer::from_slice(text).into_iter();
    let mut keys: BTreeMap<String, Box<RawValue>> = match stream.next() {
        Some(Ok(keys)) => keys,
        _ => relaxed(text).unwrap_or_default(),
    };
    let wrapped = keys.get("agents").filter(|_| keys.contains_key("version")).cloned();
    if let Some(raw) = wrapped
        && let Ok(mut agents) = BTreeMap::<String, &RawValue>::deserialize(&*raw)
    {
        agents.retain(|key, _| !gone.contains(key.as_str()));
        keys.insert("agents".to_owned(), serde_json::value::to_raw_value(&agents).ok()?);
    } else {
        keys.retain(|key, _| !gone.contains(key.as_str()));
    }
    serde_json::to_vec_pretty(&keys).ok()
}

/// Parses JSON5 into JSON values.
fn relaxed(text: &[u8]) -> Result<BTreeMap<String, Box<RawValue>>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_owned())?;
    if nests_too_deeply(text) {
        return Err("nested too deeply".to_owned());
    }
    let value: BTreeMap<String, Value> =
        json5::from_str(text).map_err(|_| "neither JSON nor JSON5".to_owned())?;
    value
        .into_iter()
        .map(|(key, value)| Ok((key, serde_json::value::to_raw_value(&value)?)))
        .collect::<serde_json::Result<_>>()
        .map_err(|_| "not JSON".to_owned())
}

/// Returns whether brackets are nested deeper than the JSON5 parser may follow.
pub(crate) fn nests_too_deeply(text: &str) -> bool {
    let (mut depth, mut quote) = (0_usize, None);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (_, b'\\') => {
                bytes.next();
            }
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'/') if bytes.peek() == Some(&b'/') => {
                while bytes.next().is_some_and(|byte| byte != b'\n') {}
            }
            (None, b'/') if bytes.peek() == Some(&b'*') => {
                bytes.next();
                let mut before = 0;
                while let Some(byte) = bytes.next()
                    && !(before == b'*' && byte == b'/')
                {
                    before = byte;
                }
            }
            (None, b'{' | b'[') => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            (None, b'}' | b']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    false
}

fn take_keys(index: &mut Index, keys: &BTreeMap<String, &RawValue>, all: bool) {
    let wrapped = keys.get("agents").filter(|_| keys.contains_key("version"));
    if let Some(agents) = wrapped {
        match BTreeMap::<String, &RawValue>::deserialize(*agents) {
            Ok(agents) => return agents.iter().for_each(|(key, raw)| take(index, key, raw, all)),
            Err(_) => return bad_field(index, "agents"),
        }
    }
    keys.iter().for_each(|(key, raw)| take(index, key, raw, all));
}

/// Decodes one key.
fn take(index: &mut Index, key: &str, raw: &RawValue, all: bool) {
    let Ok(entry) = BTreeMap::<String, &RawValue>::deserialize(raw) else {
        const WHY: &str = "an entry that is not an object";
        index.unread.push((key.to_owned(), WHY));
        return bad_field(index, WHY);
    };
    let mut fields = Map::new();
    let mut written = BTreeMap::new();
    let mut odd = BTreeSet::new();
    for (name, raw) in entry {
        let is_report = field(&name).is_some_and(|field| field.group == Group::Report);
        let is_left = is_report || name == "skills" || raw.get().len() > MAX_VALUE_BYTES;
        if is_left && !all {
            continue;
        }
        if all {
            written.insert(name.clone(), raw.get().to_owned());
        }
        match serde_json::from_str(raw.get()) {
            Ok(value) => {
                fields.insert(name, value);
            }
            // The value is stored as it was written.
            Err(_) if all => {
                odd.insert(name);
            }
            Err(_) => bad_field(index, "a value that cannot be read"),
        }
    }
    normalise(&mut fields, &mut written);
    written.retain(|name, value| match fields.contains_key(name) {
        // `model` was split into two fields.
        true => name != "model" || !value.starts_with('{'),
        false => odd.contains(name),
    });
    let session = session(index, &fields);
    index.bindings.push(Binding {
        earlier: earlier(&fields, session.as_deref()),
        updated_at: milliseconds(fields.get("updatedAt")),
        written,
        ..Binding::of(key, session, fields)
    });
}

/// Renames the fields of older shapes, and their values as written, to the newest names.
fn normalise(fields: &mut Map<String, Value>, written: &mut BTreeMap<String, String>) {
    for (old, new) in [
        ("activeSessionId", "sessionId"),
        ("tokenCount", "totalTokens"),
        ("lastProvider", "lastChannel"),
        ("room", "groupChannel"),
        ("provider", "channel"),
    ] {
        if !fields.contains_key(new)
            && let Some(value) = fields.remove(old)
        {
            fields.insert(new.to_owned(), value);
            if let Some(raw) = written.remove(old) {
                written.insert(new.to_owned(), raw);
            }
        }
    }
    if let Some(Value::Object(model)) = fields.get("model") {
        let (provider, model) = (model.get("provider").cloned(), model.get("model").cloned());
        if let Some(provider) = provider {
            fields.entry("modelProvider").or_insert(provider);
        }
        fields.insert("model".to_owned(), model.unwrap_or(Value::Null));
    }
    if let Some(Value::Object(counts)) = fields.remove("tokenCounts") {
        let raw = written.remove("tokenCounts").unwrap_or_default();
        let raw: BTreeMap<String, &RawValue> = serde_json::from_str(&raw).unwrap_or_default();
        for (name, count) in counts {
            if !fields.contains_key(&name) {
                if let Some(raw) = raw.get(&name) {
                    written.insert(name.clone(), raw.get().to_owned());
                }
                fields.insert(name, count);
            }
        }
    }
}

/// Returns the session that a key routes to. The transcript's name wins over the id, because
/// threads of one id are different sessions. A path outside the folder is not followed.
fn session(index: &mut Index, fields: &Map<String, Value>) -> Option<String> {
    let id = fields.get("sessionId").and_then(Value::as_str).filter(|id| !id.is_empty());
    if let Some(file) = fields.get("sessionFile").and_then(Value::as_str) {
        let is_plain = !file.split('/').any(|part| part == "..")
            && (!file.starts_with('/') || file.contains("/sessions/"));
        let name = file.rsplit(['/', '\\']).next().unwrap_or_default();
        let named = files::session_of(name.as_bytes());
        match (is_plain, named, id) {
            // A file of another session is a mistake in the index; the id wins.
            (true, Some(session), Some(id)) if archives::is_named(&session, id) => {
                return Some(session);
            }
            (true, Some(session), None) => return Some(session),
            (true, ..) => {}
            (false, ..) => {
                let detail = "a transcript outside of its folder".to_owned();
                index.problems.push(Problem::new(ProblemKind::IndexOutside, detail));
            }
        }
    }
    id.map(str::to_owned)
}

/// Implements [`crate::format::Format::sessions_of_key`]. If the index names no file, the thread in
/// the key names the transcript. `lastThreadId` is the least likely, because it changes with every
/// message.
pub(super) fn sessions_of_key(
    key: &str,
    session: &str,
    fields: &Map<String, Value>,
) -> Vec<String> {
    let id = archives::without_thread(session).unwrap_or(session);
    if id != session {
        // In the database, the session of a thread has the id alone.
        return vec![session.to_owned(), id.to_owned()];
    }
    if fields.get("sessionFile").is_some_and(Value::is_string) {
        return vec![session.to_owned()];
    }
    let last = match fields.get("lastThreadId") {
        Some(Value::String(thread)) if !thread.is_empty() => Some(thread.clone()),
        Some(Value::Number(thread)) => Some(thread.to_string()),
        _ => None,
    };
    let key = SessionKey::parse(key);
    let in_key = key.named_thread().map(|thread| archives::of_thread(id, thread));
    let last = last
        .map(|thread| archives::of_thread(id, &thread))
        .filter(|last| in_key.as_ref() != Some(last));
    in_key.into_iter().chain([session.to_owned()]).chain(last).collect()
}

/// Returns the sessions that a key routed to before.
fn earlier(fields: &Map<String, Value>, now: Option<&str>) -> Vec<String> {
    let list = |name: &str| fields.get(name).and_then(Value::as_array).into_iter().flatten();
    let windows = list("quipu:windows").filter_map(|window| window.get("sessionId"));
    let mut earlier: Vec<String> = Vec::new();
    for id in windows.chain(list("usageFamilySessionIds")).filter_map(Value::as_str) {
        if Some(id) != now && !id.is_empty() && !earlier.iter().any(|known| known == id) {
            earlier.push(id.to_owned());
        }
    }
    earlier
}

fn milliseconds(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::String(text) => Timestamp::from_text(text),
        Value::Number(number) => number.as_f64().and_then(Timestamp::from_number),
        _ => None,
    }
    .map(|time| time.0)
}

fn bad_field(index: &mut Index, what: &str) {
    index.problems.push(Problem::new(ProblemKind::BadField, what));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn one(text: &str) -> Binding {
        let index = read(text.as_bytes());
        assert_eq!(index.problems, []);
        let [binding] = index.bindings.as_slice() else { panic!("{:?}", index.bindings) };
        binding.clone()
    }

    #[test]
    fn r2_three_shapes_give_the_same_binding() {
        let flat = one(r#"{"agent:main:main": {"sessionId": "s1", "updatedAt": 1770193116233,
            "model": "claude", "modelProvider": "anthropic", "totalTokens": 7}}"#);
        let wrapped = one(r#"{"version": 2, "agents": {"agent:main:main": {
            "activeSessionId": "s1", "updatedAt": 1770193116233, "skills": [{"name": "x"}],
            "model": {"provider": "anthropic", "model": "claude"},
            "tokenCounts": {"totalTokens": 7}}}}"#);
        let old = one(r#"{"agent:main:main": {"sessionId": "s1", "tokenCount": 7,
            "updatedAt": "2026-02-04T08:18:36.233Z", "model": "claude",
            "modelProvider": "anthropic"}}"#);
        assert_eq!(flat, wrapped);
        assert_eq!(flat.updated_at, Some(1_770_193_116_233));
        assert_eq!(old.updated_at, flat.updated_at);
        assert_eq!(old.fields.get("totalTokens"), flat.fields.get("totalTokens"));
        assert_eq!(old.session, flat.session);
    }

    #[test]
    fn r2_json5_is_read() {
        let binding =
            one("// by hand\n{'agent:main:main': {sessionId: 's1', updatedAt: 1770193116233,},}");
        assert_eq!(binding.session.as_deref(), Some("s1"));
        let deep = format!("{{a: {}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
        assert!(read(deep.as_bytes()).is_damaged);
    }

    #[test]
    fn r2_damage_is_reported() {
        for broken in ["", " \n", "{\"agent:main:main\": {\"sessionId\": \"s", "\0\0\0", "[1]", "7"]
        {
            let index = read(broken.as_bytes());
            assert!(index.is_damaged, "{broken:?}");
            assert_eq!(index.problems.len(), 1, "{broken:?}");
        }
        // Stale bytes or NULs after a shorter index: the index before them is decoded.
        let stale = read(b"{\"a\": {\"sessionId\": \"s1\"}}ssionId\": 1}}");
        assert_eq!((stale.bindings.len(), stale.problems.len()), (1, 1));
        assert!(!stale.is_damaged);
        assert!(read(b"{\"a\": {\"sessionId\": \"s1\"}}\0\0").problems.is_empty());
    }

    #[test]
    fn r3_unknown_fields_are_kept_and_reports_are_not_copied() {
        let binding = one(r#"{"k": {"sessionId": "s", "futureField": {"x": 1},
            "systemPromptReport": {"a": 1}, "skillsSnapshot": {"prompt": "p"}}}"#);
        assert!(binding.fields.contains_key("futureField"));
        assert!(!binding.fields.contains_key("systemPromptReport"));
        assert!(!binding.fields.contains_key("skillsSnapshot"));
    }

    #[test]
    fn only_identity_routing_and_state_are_noted() {
        let binding = one(r#"{"k": {"sessionId": "s", "updatedAt": 5, "inputTokens": 3,
            "channel": "telegram", "archivedAt": 1770193116233, "label": null, "model": "m"}}"#);
        let noted: Vec<_> = binding.noted().into_iter().collect();
        assert_eq!(
            noted,
            [
                ("archivedAt".to_owned(), Value::Bool(true)),
                ("channel".to_owned(), "telegram".into()),
                ("sessionId".to_owned(), "s".into()),
            ]
        );
    }

    #[test]
    fn a_transcript_outside_of_the_folder_is_not_followed() {
        let session = |file: &str| {
            let text = format!(r#"{{"k": {{"sessionId": "s1", "sessionFile": "{file}"}}}}"#);
            let index = read(text.as_bytes());
            (index.bindings[0].session.clone().unwrap(), index.problems.len())
        };
        assert_eq!(session("s1-topic-7.jsonl"), ("s1-topic-7".to_owned(), 0));
        assert_eq!(session("/x/agents/main/sessions/s1-topic-a%2Fb.jsonl").0, "s1-topic-a/b");
        assert_eq!(session("../../etc/s1-topic-7.jsonl"), ("s1".to_owned(), 1));
        assert_eq!(session("/etc/passwd"), ("s1".to_owned(), 1));
        assert_eq!(session("other.jsonl"), ("s1".to_owned(), 0));
    }

    #[test]
    fn r120_a_thread_names_the_transcript() {
        let sessions = |key: &str, fields: &str| {
            let binding = one(&format!(r#"{{"{key}": {{"sessionId": "s1"{fields}}}}}"#));
            let session = binding.session.unwrap();
            sessions_of_key(&binding.key, &session, &binding.fields).join(" ")
        };
        for key in [
            "agent:main:telegram:group:-1:topic:42",
            "agent:main:slack:thread:42",
            "agent:main:slack:channel:c1:thread:42",
            "agent:main:discord:dm:7:thread:42",
            "agent:main:main:thread:42",
        ] {
            assert_eq!(sessions(key, ""), "s1-topic-42 s1", "{key}");
        }
        assert_eq!(sessions("agent:main:slack:thread:a/b", ""), "s1-topic-a/b s1");
        assert_eq!(sessions("agent:main:main", ""), "s1");
        assert_eq!(
            sessions("agent:main:telegram:dm:5", r#", "lastThreadId": 42"#),
            "s1 s1-topic-42"
        );
        assert_eq!(sessions("agent:main:main", r#", "lastThreadId": "x""#), "s1 s1-topic-x");
        let both =
            sessions("agent:main:matrix:channel:!a:thread:$ab", r#", "lastThreadId": "$Ab""#);
        assert_eq!(both, "s1-topic-$ab s1 s1-topic-$Ab");
        // The name of a file decides.
        let file = |name: &str| format!(r#", "lastThreadId": 9, "sessionFile": "{name}.jsonl""#);
        assert_eq!(sessions("agent:main:slack:thread:42", &file("s1")), "s1");
        assert_eq!(sessions("agent:main:slack:thread:42", &file("s1-topic-7")), "s1-topic-7 s1");
    }

    #[test]
    fn entries_can_be_left_out() {
        let is_left_out = |session: &str| session == "s1";
        let rest = |text: &str| without(text.as_bytes(), &is_left_out);
        let kept = r#"{"b": {"sessionId": "s2", "x": "kept"}}"#;
        assert_eq!(rest(kept), None);
        for text in [
            r#"{"a": {"sessionId": "s1", "x": "secret"}, "b": {"sessionId": "s2", "x": "kept"}}"#,
            r#"{"version": 2, "agents": {"a": {"activeSessionId": "s1", "x": "secret"},
                "b": {"sessionId": "s2", "x": "kept"}}}"#,
            "{a: {sessionId: 's1', x: 'secret'}, b: {sessionId: 's2', x: 'kept'}}",
            r#"{"b": {"sessionId": "s2", "x": "kept"}} stale "s1" secret"#,
        ] {
            let left = String::from_utf8(rest(text).unwrap()).unwrap();
            assert!(left.contains("kept") && !left.contains("secret"), "{left}");
            assert_eq!(read(left.as_bytes()).bindings.len(), 1);
        }
        assert_eq!(rest("{\"a\": {\"sessionId\": \"s1\", \"x\": \"sec"), Some(Vec::new()));
    }

    #[test]
    fn a_subagents_entry_names_its_parent() {
        let parent = |key: &str, more: &str| {
            one(&format!(r#"{{"{key}": {{"sessionId": "s"{more}}}}}"#)).parent_key
        };
        assert_eq!(parent("agent:main:subagent:u1", "").as_deref(), Some("agent:main:main"));
        assert_eq!(
            parent("agent:main:subagent:u1:subagent:u2", "").as_deref(),
            Some("agent:main:subagent:u1")
        );
        assert_eq!(
            parent("agent:a:subagent:u1", r#","spawnedBy":"agent:b:main""#).as_deref(),
            Some("agent:b:main")
        );
        assert_eq!(parent("agent:main:main", ""), None);
    }
}
