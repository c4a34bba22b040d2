//! Names of sessions that are rows of a database: each is given a path as if it were a file in a
//! folder of the database's name, so that everything that is said of files holds for it.

/// Longer names fit in no folder.
const LONGEST_NAME: usize = 180;

/// The name, without an extension, that stands for a session id. Whatever could lead anywhere is
/// percent-encoded; `session` gives the id back. `None` for no id, or one too long for a name.
pub fn file_name(session: &str) -> Option<String> {
    let mut name = String::with_capacity(session.len());
    for (at, byte) in session.bytes().enumerate() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => name.push(char::from(byte)),
            // A dot ends the id in a name like `x.jsonl.reset`, and hides a file at its start.
            b'.' if at > 0 && !session.contains(".jsonl") => name.push('.'),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    (!name.is_empty() && name.len() <= LONGEST_NAME).then_some(name)
}

/// The session id that a name stands for.
pub(crate) fn session(name: &str) -> String {
    percent_decoded(name).unwrap_or_else(|| name.to_owned())
}

/// `None` if it is not what `encodeURIComponent` can have written.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(decoded).ok()
}
