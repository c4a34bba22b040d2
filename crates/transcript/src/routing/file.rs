//! What the transcript of a session is called on disk. Ids come from outside; none leads anywhere.

use std::fmt::Write as _;

/// The longest name that file systems take.
const LONGEST: usize = 255;

/// `<sessionId>.jsonl`, or `<sessionId>-topic-<thread>.jsonl` with the thread as `encodeURIComponent`
/// writes it. `None` for a session id that is no plain name, and where the name would be too long.
pub fn transcript_name(session_id: &str, thread: Option<&str>) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = !session_id.is_empty()
        && !session_id.starts_with(['.', '-'])
        && session_id.bytes().all(is_plain);
    let name = match thread {
        _ if !is_name => return None,
        None => format!("{session_id}.jsonl"),
        Some(thread) => format!("{session_id}-topic-{}.jsonl", encoded(thread)),
    };
    (name.len() <= LONGEST).then_some(name)
}

/// As `encodeURIComponent`.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_as_releases_write_them() {
        let name = |id, thread| transcript_name(id, thread);
        assert_eq!(name("640a-1", None).as_deref(), Some("640a-1.jsonl"));
        assert_eq!(name("640a", Some("7")).as_deref(), Some("640a-topic-7.jsonl"));
        assert_eq!(
            name("640a", Some("a/b c:é")).as_deref(),
            Some("640a-topic-a%2Fb%20c%3A%C3%A9.jsonl")
        );
        for id in ["", ".", "..", "../x", "a/b", "-rf", "a\0", "é", ".hidden"] {
            assert_eq!(name(id, None), None, "{id:?}");
        }
        assert_eq!(name("a", Some(&"x".repeat(250))), None);
    }

    proptest! {
        #[test]
        fn r63_a_name_is_one_file(id in ".{0,8}", thread in proptest::option::of(".{0,8}")) {
            if let Some(name) = transcript_name(&id, thread.as_deref()) {
                prop_assert!(!name.contains('/') && !name.contains('\0') && !name.starts_with('.'));
                prop_assert!(name.ends_with(".jsonl"));
            }
        }
    }
}
