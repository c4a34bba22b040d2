//! A message as summarisers read it: who speaks, the text, the calls.

use crate::context::Message;
use crate::json::object::{Object, list};
use crate::json::strings::lossy_text;

/// The speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
    Tool,
    /// A custom message, a command of the user, or a summary.
    Other,
}

/// The readable part of a message.
#[derive(Debug)]
pub(super) struct View {
    pub(super) speaker: Speaker,
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) calls: Vec<Call>,
    /// The call that a result answers.
    pub(super) answers: Option<String>,
    /// The name of the tool that a result is from.
    pub(super) tool: Option<String>,
    /// True if a tool failed.
    pub(super) is_error: bool,
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments, each as its name and its JSON.
    pub(super) arguments: Vec<(String, String)>,
}

impl Call {
    /// Returns the call as `name(argument=value, …)`.
    pub(super) fn line(&self) -> String {
        let arguments = self.arguments.iter().map(|(name, value)| format!("{name}={value}"));
        format!("{}({})", self.name, arguments.collect::<Vec<String>>().join(", "))
    }
}

/// Reads a message. `None` for messages that are not part of the conversation.
pub(super) fn view(message: &Message) -> Option<View> {
    view_of(message.json())
}

/// Reads the JSON of a message.
pub(super) fn view_of(json: &str) -> Option<View> {
    let message = Object::read(json)?;
    let text = |name: &str| message.get(name).and_then(lossy_text).unwrap_or_default();
    let mut view = View {
        speaker: Speaker::Other,
        text: String::new(),
        thinking: String::new(),
        calls: Vec::new(),
        answers: None,
        tool: None,
        is_error: false,
    };
    match message.text("role").as_deref()? {
        "user" => {
            view.speaker = Speaker::User;
            view.read(&message);
        }
        "assistant" => {
            view.speaker = Speaker::Assistant;
            view.read(&message);
        }
        "toolResult" => {
            view.speaker = Speaker::Tool;
            view.answers = message.get("toolCallId").and_then(lossy_text);
            view.tool = message.get("toolName").and_then(lossy_text);
            view.is_error = message.get("isError").is_some_and(|value| value.get() == "true");
            view.read(&message);
        }
        "custom" => view.read(&message),
        "bashExecution" => {
            let exit = message.get("exitCode").map_or("", |code| code.get());
            view.is_error = !matches!(exit, "" | "0" | "null");
            view.tool = Some(text("command"));
            view.text = text("output");
        }
        "branchSummary" | "compactionSummary" => view.text = text("summary"),
        _ => return None,
    }
    Some(view)
}

impl View {
    fn read(&mut self, message: &Object<'_>) {
        let Some(content) = message.get("content") else { return };
        if let Some(text) = lossy_text(content) {
            self.text = text;
            return;
        }
        for block in list(content).unwrap_or_default() {
            let Some(block) = Object::read(block.get()) else { continue };
            let text = |name: &str| block.get(name).and_then(lossy_text).unwrap_or_default();
            match block.text("type").as_deref() {
                Some("text") => join(&mut self.text, &text("text")),
                Some("thinking") => join(&mut self.thinking, &text("thinking")),
                Some("image") => join(&mut self.text, "[image]"),
                Some("toolCall") => {
                    let arguments = block.get("arguments").and_then(|it| Object::read(it.get()));
                    let arguments = arguments.unwrap_or_default();
                    let written = arguments.fields();
                    let arguments =
                        written.map(|(name, value)| (name.to_owned(), value.get().to_owned()));
                    let arguments = arguments.collect();
                    self.calls.push(Call { id: text("id"), name: text("name"), arguments });
                }
                _ => {}
            }
        }
    }
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
