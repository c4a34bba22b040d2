//! One file per agent format. [`crate::format::FORMATS`] lists them.

pub mod claude_code;
pub mod native;
pub mod openclaw;
mod plain;

/// Returns a name as text. Bytes that are not UTF-8 are escaped, so that different names stay
/// different.
fn spelled(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text
}
