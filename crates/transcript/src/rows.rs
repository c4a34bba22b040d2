//! Paths of sessions that are rows of a database: each gets a path as if it were a file in a folder
//! with the database's name, so that all rules for files apply to it.

/// Maximum length of a name in bytes. File systems allow 255; the rest is for suffixes.
const MAX_NAME_BYTES: usize = 180;

/// Returns the file name, without an extension, for a session id. Bytes that could change the path
/// are percent-encoded; `session` decodes the name. `None` for an empty id or one that is too long.
pub fn file_name(session: &str) -> Option<String> {
    let mut name = String::with_capacity(session.len());
    for (at, byte) in session.bytes().enumerate() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => name.push(char::from(byte)),
            // A leading dot would hide the file, and `.jsonl` in an id would look like the end of
            // the id, as in `x.jsonl.reset`.
            b'.' if at > 0 && !session.contains(".jsonl") => name.push('.'),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then_some(name)
}

/// Returns the session id that a name was made from.
pub(crate) fn session(name: &str) -> String {
    percent_decoded(name).unwrap_or_else(|| name.to_owned())
}

/// Decodes percent-encoded text; `None` if `encodeURIComponent` cannot have written it.
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
