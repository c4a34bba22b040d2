//! Edits and lists of tasks in the input of a tool call, recognised by the names of its fields.
//!
//! Tools of many agents and servers use the same few names, so no tool is named here.

use serde_json::{Map, Value};

/// A change of a file that a call asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file, as written.
    pub path: String,
    /// The text that was replaced; `None` if the whole file was written.
    pub old: Option<String>,
    /// The new text.
    pub new: String,
}

/// A task of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its text.
    pub text: String,
    /// Its state.
    pub state: TaskState,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// Not begun.
    Open,
    /// Being worked on.
    Doing,
    /// Done.
    Done,
}

/// Limit for the length of an input, in bytes. A longer one holds no edit that a person would read.
const MAX_INPUT_BYTES: usize = 16 << 20;

const PATHS: &[&str] = &["file_path", "path", "filePath", "notebook_path"];

/// The names of the old and the new text.
const REPLACED: &[(&str, &str)] = &[
    ("old_string", "new_string"),
    ("oldText", "newText"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("old_text", "new_text"),
];

/// The names of the content of a file that is written as a whole.
const WRITTEN: &[&str] = &["content", "file_text", "new_source"];

/// Returns whether a tool of this name changes the file that its call names. `None` if its calls do
/// not name one file.
pub fn changes_file(tool: &str) -> Option<bool> {
    match tool.to_ascii_lowercase().as_str() {
        "read" => Some(false),
        "write" | "edit" | "multiedit" | "notebookedit" => Some(true),
        _ => None,
    }
}

/// Returns the edits of a call, in order. Empty if it edits nothing.
pub fn edits(input: &str) -> Vec<Edit> {
    let Some(fields) = object(input) else { return Vec::new() };
    let Some(path) = PATHS.iter().find_map(|name| text(&fields, name)) else { return Vec::new() };
    let replaced = |fields: &Map<String, Value>| {
        REPLACED.iter().find_map(|(old, new)| Some((text(fields, old)?, text(fields, new)?)))
    };
    let edit = |(old, new)| Edit { path: path.clone(), old: Some(old), new };
    let mut edits: Vec<Edit> = replaced(&fields).map(edit).into_iter().collect();
    if let Some(Value::Array(several)) = fields.get("edits") {
        edits.extend(several.iter().filter_map(Value::as_object).filter_map(replaced).map(edit));
    }
    if edits.is_empty()
        && let Some(new) = WRITTEN.iter().find_map(|name| text(&fields, name))
    {
        edits.push(Edit { path: path.clone(), old: None, new });
    }
    edits
}

/// Returns the list of tasks that a call sets; `None` if it sets none.
pub fn tasks(input: &str) -> Option<Vec<Task>> {
    let fields = object(input)?;
    let Some(Value::Array(tasks)) = fields.get("todos") else { return None };
    let task = |task: &Value| {
        let fields = task.as_object()?;
        let state = match text(fields, "status")?.as_str() {
            "completed" | "done" => TaskState::Done,
            "in_progress" => TaskState::Doing,
            _ => TaskState::Open,
        };
        Some(Task { text: text(fields, "content")?, state })
    };
    tasks.iter().map(task).collect()
}

fn object(input: &str) -> Option<Map<String, Value>> {
    if input.len() > MAX_INPUT_BYTES {
        return None;
    }
    match serde_json::from_str(input).ok()? {
        Value::Object(fields) => Some(fields),
        // Some agents write the arguments as JSON inside a string.
        Value::String(inner) => serde_json::from_str(&inner).ok(),
        _ => None,
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, old: Option<&str>, new: &str) -> Edit {
        Edit { path: path.to_owned(), old: old.map(str::to_owned), new: new.to_owned() }
    }

    #[test]
    fn edits_are_recognised_by_their_fields() {
        assert_eq!(
            edits(r#"{"file_path":"/a","old_string":"x","new_string":"y"}"#),
            [edit("/a", Some("x"), "y")]
        );
        assert_eq!(
            edits(
                r#"{"path":"a","edits":[{"oldText":"1","newText":"2"},{"oldText":"3","newText":"4"}]}"#
            ),
            [edit("a", Some("1"), "2"), edit("a", Some("3"), "4")]
        );
        assert_eq!(edits(r#"{"file_path":"/a","content":"all"}"#), [edit("/a", None, "all")]);
        assert_eq!(
            edits(r#""{\"path\":\"a\",\"content\":\"all\"}""#),
            [edit("a", None, "all")],
            "inside a string"
        );
        for other in [r#"{"file_path":"/a"}"#, r#"{"content":"x"}"#, "[]", "", "{", "7"] {
            assert_eq!(edits(other), [], "{other}");
        }
    }

    #[test]
    fn tasks_are_recognised_by_their_fields() {
        let found = tasks(
            r#"{"todos":[{"content":"a","status":"completed","activeForm":"x"},
                         {"content":"b","status":"in_progress"},{"content":"c","status":"pending"}]}"#,
        );
        let states: Vec<TaskState> = found.unwrap().iter().map(|task| task.state).collect();
        assert_eq!(states, [TaskState::Done, TaskState::Doing, TaskState::Open]);
        assert_eq!(tasks(r#"{"todos":[{"title":"a"}]}"#), None);
        assert_eq!(tasks(r#"{"todos":3}"#), None);
    }
}
