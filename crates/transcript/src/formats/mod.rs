//! One module per format; [`crate::format::all`] lists them. `plain` decodes whole text files for
//! all of them.

pub mod claude_code;
pub mod native;
pub mod openclaw;
mod plain;

/// Returns a file name as text. A byte that is not UTF-8 becomes `\xFF`, so that different names
/// almost always stay different.
fn spelled(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text
}
