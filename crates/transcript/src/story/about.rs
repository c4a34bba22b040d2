//! Summarizes a tool call in one line, and finds error words in a result.

use std::borrow::Cow;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::json::Key;

/// Returns the exit code that the record of a tool's result names at the beginning of its text:
/// `Exit code 1`.
pub fn exit_code(record: &[u8]) -> Option<i32> {
    const START: &[u8] = b":\"Exit code ";
    let at = memchr::memmem::find(record, START)? + START.len();
    let digits: Vec<u8> =
        record.get(at..)?.iter().copied().take_while(u8::is_ascii_digit).take(10).collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// Tools whose call waits for a person: a question, or a plan to approve.
pub const QUESTIONS: &[&str] = &["AskUserQuestion", "ExitPlanMode"];

/// The keys of a tool's input that summarize the call, best first.
pub const ABOUT_KEYS: &[&str] =
    &["file_path", "path", "notebook_path", "command", "query", "pattern", "url", "prompt"];

/// Further keys that summarize the call of a tool that has none of [`ABOUT_KEYS`], best first.
const OTHER_KEYS: &[&str] =
    &["task", "subject", "question", "skill", "title", "name", "message", "text", "description"];

/// The words that mark a result in formats that do not always record errors.
pub const ERROR_WORDS: &[&str] = &["error", "Error", "failed", "FAILED"];

/// Returns whether a text holds one of [`ERROR_WORDS`].
pub fn mentions_error(text: &str) -> bool {
    ERROR_WORDS.iter().any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some())
}

/// Returns a summary of a call of the tool `name` on one line of at most `columns` columns. `None`
/// if no argument summarizes it.
pub fn about(name: &str, input: &str, columns: usize) -> Option<String> {
    let fields: Fields<'_> = match serde_json::from_str(input) {
        Ok(fields) => fields,
        Err(_) => {
            // Some agents write the arguments as JSON inside a string.
            let inner: String = serde_json::from_str(input).ok()?;
            let is_object = inner.trim_start().starts_with('{');
            return if is_object { about(name, &inner, columns) } else { None };
        }
    };
    let line = |text: &str| {
        let line = one_line(text, columns);
        (!line.is_empty()).then_some(line)
    };
    if let Some(subject) = known_tool(name, &fields) {
        return line(&subject);
    }
    for key in ABOUT_KEYS.iter().chain(OTHER_KEYS) {
        let Some(text) = fields.text(key) else { continue };
        if matches!(*key, "file_path" | "path" | "notebook_path") {
            return Some(path_line(&text, columns));
        }
        return line(&text);
    }
    // An unknown tool is summarized by its first argument with text.
    let texts = fields.0.iter().filter(|(_, value)| value.get().starts_with(['"', '[']));
    texts.into_iter().find_map(|(key, _)| line(&fields.text(key)?))
}

/// Returns the subject of a tool whose arguments need more than one key.
fn known_tool(name: &str, fields: &Fields<'_>) -> Option<String> {
    match name {
        "Grep" | "Glob" | "grep" | "glob" | "find" => {
            let pattern = fields.text("pattern")?;
            Some(match fields.text("path").or_else(|| fields.text("glob")) {
                Some(place) => format!("{pattern} in {place}"),
                None => pattern,
            })
        }
        "TodoWrite" => {
            let todos: Vec<Fields<'_>> = fields.list("todos")?;
            let is = |todo: &Fields<'_>, state: &str| todo.text("status").as_deref() == Some(state);
            let done = todos.iter().filter(|todo| is(todo, "completed")).count();
            let current = todos
                .iter()
                .find(|todo| is(todo, "in_progress"))
                .or_else(|| todos.iter().find(|todo| !is(todo, "completed")));
            let current = current.and_then(|todo| todo.text("content"));
            let current = current.map(|todo| format!(": {todo}")).unwrap_or_default();
            Some(format!("{done} of {} done{current}", todos.len()))
        }
        // A tool that calls another one.
        "tool_call" => {
            let tool = fields.text("id")?;
            let input = fields.raw("args").and_then(|args| about(&tool, args, super::CALL_COLUMNS));
            Some(input.map_or_else(|| tool.clone(), |input| format!("{tool} {input}")))
        }
        "TaskUpdate" => {
            let parts = [
                fields.text("taskId").map(|id| format!("#{id}")),
                fields.text("status"),
                fields.text("subject"),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join(" "))
        }
        "Skill" => {
            let skill = fields.text("skill").or_else(|| fields.text("command"))?;
            let args = fields.text("args").map(|args| format!(" {args}"));
            Some(skill + &args.unwrap_or_default())
        }
        "AskUserQuestion" => {
            let questions: Vec<Fields<'_>> = fields.list("questions")?;
            let first = questions.first()?.text("question")?;
            Some(match questions.len() {
                1 => first,
                all => format!("{first} (1 of {all} questions)"),
            })
        }
        "ExitPlanMode" => {
            let plan = fields.text("plan")?;
            let title = plan.lines().map(|line| line.trim_start_matches(['#', ' ']));
            title.map(str::to_owned).find(|line| !line.trim().is_empty())
        }
        _ => None,
    }
}

/// The arguments of a call, in the order in which they were written.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Returns the value of a key as text that is not blank: a string, a number, or the joined
    /// words of a command.
    fn text(&self, key: &str) -> Option<String> {
        let (_, value) = self.0.iter().rev().find(|(name, _)| name == key)?;
        let text = match serde_json::from_str::<SummaryValue<'_>>(value.get()).ok()? {
            SummaryValue::Text(text) => text.into_owned(),
            SummaryValue::List(words) => words.join(" "),
            SummaryValue::Number(number) if !ABOUT_KEYS.contains(&key) => number.to_string(),
            SummaryValue::Number(_) => return None,
        };
        (!text.trim().is_empty()).then_some(text)
    }

    /// Returns the value of a key as written.
    fn raw(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    fn list(&self, key: &str) -> Option<Vec<Fields<'a>>> {
        let (_, value) = self.0.iter().rev().find(|(name, _)| name == key)?;
        serde_json::from_str(value.get()).ok()
    }
}

impl<'de> serde::Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'de>, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = map.next_key_seed(Key)? {
                    fields.push((key, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Ordered)
    }
}

/// A value that can summarize a call. A command may be a list of its words.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum SummaryValue<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    List(Vec<String>),
    Number(serde_json::Number),
}

/// Returns the subject of a call on one line of at most `columns` columns. A path keeps the name of
/// its file.
pub fn subject_line(subject: &str, columns: usize) -> String {
    if is_path(subject) { path_line(subject, columns) } else { one_line(subject, columns) }
}

/// Returns whether a subject looks like a path. Folders may have spaces in their names; a command
/// that begins with the path of its program mostly has an option or another path behind a space.
fn is_path(subject: &str) -> bool {
    if !subject.contains(char::is_whitespace) {
        return subject.contains(['/', '\\']);
    }
    let has_root = subject.starts_with(['/', '~']) || subject.get(1..3) == Some(":\\");
    let is_command = [" -", " /", "\n", "\"", "'", "|", "&", ";", "<", ">", "$"];
    has_root && !is_command.iter().any(|sign| subject.contains(sign))
}

/// Returns a path on one line of at most `columns` columns. A path that does not fit loses its
/// middle, so that the file's name stays. A name that is too long itself loses its own middle.
pub fn path_line(path: &str, columns: usize) -> String {
    let whole = one_line(path, usize::MAX);
    if whole.width() <= columns {
        return whole;
    }
    let name = whole.rsplit(['/', '\\']).next().unwrap_or_default();
    let head = whole.len() - name.len();
    if name.is_empty() || head == 0 {
        return one_line(path, columns);
    }
    let with_separator = whole.get(head - 1..).unwrap_or(name);
    for tail in [with_separator, name] {
        if let Some(room) = columns.checked_sub(tail.width() + 1) {
            return format!("{}…{tail}", beginning(&whole, room));
        }
    }
    // The extension is a part of the end.
    let room = columns.saturating_sub(1);
    let end: String =
        beginning(&name.chars().rev().collect::<String>(), room / 2).chars().rev().collect();
    let ellipsis = if columns > 0 { "…" } else { "" };
    format!("{}{ellipsis}{end}", beginning(name, room - end.width()))
}

/// Returns as much of a text as fits into `columns` columns.
fn beginning(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |character: &char| {
        used += character.width().unwrap_or(1);
        used <= columns
    };
    text.chars().take_while(fits).collect()
}

/// Returns the text on one line: a run of whitespace becomes a space, and text wider than
/// `columns` ends in `…`. Reads no more of the text than it shows.
pub fn one_line(text: &str, columns: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    let mut is_gap = false;
    for character in text.trim_start().chars() {
        if character.is_whitespace() {
            is_gap = true;
            continue;
        }
        let wide = character.width().unwrap_or(1) + usize::from(is_gap);
        if used + wide > columns {
            // Room for the ellipsis.
            while used + 1 > columns
                && let Some(last) = line.pop()
            {
                used -= last.width().unwrap_or(1);
            }
            if columns > 0 {
                line.truncate(line.trim_end().len());
                line.push('…');
            }
            return line;
        }
        if is_gap {
            line.push(' ');
            is_gap = false;
        }
        line.push(character);
        used += wide;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_key_with_text_summarizes_a_call() {
        for (input, expected) in [
            (r#"{"query":"q","path":"src/a.rs"}"#, Some("src/a.rs")),
            (r#"{"command":"ls","file_path":""}"#, Some("ls")),
            (r#"{"command":["ls","-l"]}"#, Some("ls -l")),
            (r#"{"path":7,"url":"https://a.example"}"#, Some("https://a.example")),
            (r#""{\"path\":\"a\"}""#, Some("a")),
            (r#"{"command":"a\n  b\tc  "}"#, Some("a b c")),
            (r#"{"n":7,"repo":"quipu"}"#, Some("quipu")),
            (r#"{"flag":true,"repo":"quipu"}"#, Some("quipu")),
            (r#"{"label":"otters","task":"count the otters"}"#, Some("count the otters")),
            (r#"{"todos":[]}"#, None),
            ("[1]", None),
            ("\"x\"", None),
            ("nonsense", None),
        ] {
            assert_eq!(about("Any", input, 120).as_deref(), expected, "{input}");
        }
    }

    #[test]
    fn some_tools_have_their_own_summaries() {
        for (name, input, expected) in [
            ("Grep", r#"{"path":"src","pattern":"fn main"}"#, "fn main in src"),
            ("Grep", r#"{"pattern":"fn main"}"#, "fn main"),
            ("Glob", r#"{"pattern":"**/*_test.go","path":"/p"}"#, "**/*_test.go in /p"),
            ("find", r#"{"pattern":"*.rs","path":"src"}"#, "*.rs in src"),
            ("find", r#"{"path":"src"}"#, "src"),
            (
                "TodoWrite",
                r#"{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"pending"},{"content":"c","status":"in_progress"}]}"#,
                "1 of 3 done: c",
            ),
            ("TodoWrite", r#"{"todos":[{"content":"a","status":"completed"}]}"#, "1 of 1 done"),
            ("TaskCreate", r#"{"description":"long","subject":"Fix it"}"#, "Fix it"),
            ("TaskUpdate", r#"{"taskId":"3","status":"completed"}"#, "#3 completed"),
            ("Skill", r#"{"skill":"pdf","args":"a.pdf"}"#, "pdf a.pdf"),
            ("AskUserQuestion", r#"{"questions":[{"question":"Which?"}]}"#, "Which?"),
            (
                "AskUserQuestion",
                r#"{"questions":[{"question":"Which?"},{"question":"Why?"}]}"#,
                "Which? (1 of 2 questions)",
            ),
            ("ExitPlanMode", r##"{"plan":"\n# The plan\n1. go"}"##, "The plan"),
            ("sessions_spawn", r#"{"task":"count","label":"x"}"#, "count"),
            (
                "tool_call",
                r#"{"id":"sessions_spawn","args":{"task":"count the otters","label":"x"}}"#,
                "sessions_spawn count the otters",
            ),
            ("tool_call", r#"{"id":"list","args":{}}"#, "list"),
        ] {
            assert_eq!(about(name, input, 120).as_deref(), Some(expected), "{name} {input}");
        }
    }

    #[test]
    fn a_path_keeps_the_name_of_its_file() {
        assert_eq!(path_line("src/a.rs", 8), "src/a.rs");
        assert_eq!(path_line("/home/ada/work/src/deep/name.rs", 20), "/home/ada/w…/name.rs");
        assert_eq!(path_line("C:\\Users\\ada\\name.rs", 16), "C:\\User…\\name.rs");
        assert_eq!(path_line("/home/ada/name.rs", 9), "…/name.rs");
        assert_eq!(path_line("/home/ada/name.rs", 8), "…name.rs");
        assert_eq!(path_line("/home/ada/name.rs", 7), "nam….rs");
        assert_eq!(path_line("dir/a_very_long_name.rs", 10), "a_ver…e.rs");
        assert_eq!(path_line("a_very_long_name.rs", 8), "a_very_…");
        assert_eq!(path_line("dir/日本語日本語.rs", 7), "日….rs");
        assert_eq!(path_line("dir/name.rs", 1), "…");
        assert_eq!(path_line("dir/name.rs", 0), "");
        assert_eq!(path_line("/home/ada/a/folder/", 12), "/home/ada/a…");
    }

    #[test]
    fn the_subject_of_a_call_may_be_a_path_with_spaces() {
        for (subject, expected) in [
            ("/home/ada/My Project/src/name.rs", "/home/ada/M…/name.rs"),
            ("C:\\My Project\\src\\deep\\name.rs", "C:\\My Proje…\\name.rs"),
            ("/usr/bin/env -i bash /home/ada/x.sh", "/usr/bin/env -i bas…"),
            ("grep the words in src/name.rs", "grep the words in s…"),
            ("https://a.example/some/page.html", "https://a…/page.html"),
        ] {
            assert_eq!(subject_line(subject, 20), expected);
        }
    }

    #[test]
    fn a_line_is_cut_by_columns() {
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("日本語日本語", 7), "日本語…");
        assert_eq!(one_line("ab cdefg", 4), "ab…");
        assert_eq!(one_line("ab", 0), "");
        assert_eq!(one_line("  \n ", 5), "");
    }

    #[test]
    fn an_exit_code_begins_the_text() {
        let code = |record: &str| exit_code(record.as_bytes());
        assert_eq!(
            code(r#"{"content":[{"type":"tool_result","content":"Exit code 127\nno"}]}"#),
            Some(127)
        );
        assert_eq!(code(r#"{"content":"it printed \"Exit code 3\""}"#), None);
        assert_eq!(code(r#"{"content":"Exit code x"}"#), None);
        assert_eq!(code(r#"{"content":"Exit code 99999999999"}"#), None);
    }
}
