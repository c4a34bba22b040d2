//! Finds the words of a person in the result of a tool: why a call was rejected, the answers to
//! questions, a plan that was edited.
//!
//! Claude Code has no separate line for these words. They are found by the fixed phrases around
//! them; a result without such a phrase holds no words of a person.

use std::borrow::Cow;

use super::line::ToolUseResultFields;
use crate::json::object::{Object, text};

/// The phrases before the reason for a rejection.
const REASON_PHRASES: &[&str] = &[
    "To tell you how to proceed, the user said:",
    "(eg. if it was a file edit, the new_string was NOT written to the file). The user said:",
];

/// The phrases that begin the result of a rejected call.
const REJECTED: &[&str] = &[
    "The user doesn't want to proceed with this tool use.",
    "Permission for this tool use was denied.",
];

/// The hint that newer releases add after the reason.
const HINT: &str = "\n\nNote: The user's next message may contain a correction";

/// The phrases that begin answers to questions.
const ANSWERED: &[&str] =
    &["User has answered your questions:", "Your questions have been answered:"];

/// The heading of a plan that the person changed.
const EDITED: &str = "## Approved Plan (edited by user):";

/// Returns the words of a person in a tool's result.
pub(super) fn words<'a>(result: &str, fields: &ToolUseResultFields<'a>) -> Option<Cow<'a, str>> {
    let found =
        rejection(result).or_else(|| answers(result, fields)).or_else(|| edited_plan(result))?;
    let found = found.trim();
    (!found.is_empty()).then(|| Cow::Owned(found.to_owned()))
}

fn rejection(result: &str) -> Option<String> {
    if !REJECTED.iter().any(|start| result.trim_start().starts_with(start)) {
        return None;
    }
    let words = REASON_PHRASES.iter().find_map(|said| result.split_once(said))?.1;
    let words = words.split(HINT).next().unwrap_or(words).trim();
    // If a person leaves a list of questions, Claude Code records a rejection in its own words.
    (!words.starts_with("The user wants to clarify these questions")).then(|| words.to_owned())
}

/// Returns the answers, one per line, from the fields of the result if it has them, otherwise from
/// its text.
fn answers(result: &str, fields: &ToolUseResultFields<'_>) -> Option<String> {
    let listed = ANSWERED.iter().find_map(|start| result.trim_start().strip_prefix(start));
    let mut lines: Vec<String> = Vec::new();
    if let Some(answers) = fields.answers.as_ref().and_then(|raw| Object::read(raw.get())) {
        let notes = fields.annotations.as_ref().and_then(|raw| Object::read(raw.get()));
        for (question, answer) in answers.fields() {
            lines.extend(text(answer).map(Cow::into_owned));
            let note = notes.as_ref().and_then(|notes| Object::read(notes.get(question)?.get()));
            lines.extend(note.and_then(|note| Some(note.text("notes")?.into_owned())));
        }
        lines.retain(|line| !line.trim().is_empty());
    } else {
        // "Question"="answer", "Another"="answer" user notes: a note. You can now continue …
        let mut rest = listed?;
        while let Some((_, behind)) = rest.split_once("\"=\"") {
            let Some((answer, after)) = behind.split_once('"') else { break };
            lines.push(answer.to_owned());
            rest = after;
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn edited_plan(result: &str) -> Option<String> {
    if !result.trim_start().starts_with("User has approved your plan") {
        return None;
    }
    Some(result.split_once(EDITED)?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::RawJson;

    #[track_caller]
    fn check(result: &str, expected: Option<&str>) {
        assert_eq!(words(result, &ToolUseResultFields::default()).as_deref(), expected, "{result}");
    }

    #[test]
    fn the_reason_for_a_rejection_is_found() {
        let rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file).";
        check(
            &format!(
                "{rejected} To tell you how to proceed, the user said:\nuse a switch\n\nplease"
            ),
            Some("use a switch\n\nplease"),
        );
        check(
            &format!(
                "{rejected} To tell you how to proceed, the user said:\nno\n\nNote: The user's next message may contain a correction or preference."
            ),
            Some("no"),
        );
        check(&format!("{rejected} STOP what you are doing and wait."), None);
        check(
            &format!(
                "{rejected} To tell you how to proceed, the user said:\nThe user wants to clarify these questions."
            ),
            None,
        );
        check(
            "Permission for this tool use was denied. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). The user said:\nnot now",
            Some("not now"),
        );
        // The same phrase in the output of a tool is not followed by words of a person.
        check("12: To tell you how to proceed, the user said:\nx", None);
    }

    #[test]
    fn answers_to_questions_are_found() {
        check(
            "User has answered your questions: \"Which?\"=\"Only ci\", \"How?\"=\"slowly, \" user notes: x. You can now continue with the user's answers in mind.",
            Some("Only ci\nslowly,"),
        );
        check(
            "Your questions have been answered: \"Which?\"=\"a\". You can now continue.",
            Some("a"),
        );
        let raw = |json: &str| {
            Some(RawJson::Owned(serde_json::value::RawValue::from_string(json.to_owned()).unwrap()))
        };
        let fields = ToolUseResultFields {
            answers: raw(r#"{"Which \"one\"?":"the \"left\" one","Why?":"because"}"#),
            annotations: raw(r#"{"Why?":{"notes":"and so on"}}"#),
            ..ToolUseResultFields::default()
        };
        assert_eq!(
            words("User has answered your questions: …", &fields).as_deref(),
            Some("the \"left\" one\nbecause\nand so on")
        );
    }

    #[test]
    fn a_plan_that_a_person_edited_is_found() {
        check(
            "User has approved your plan. You can now start coding.\n\n## Approved Plan (edited by user):\n# Plan\n1. wait",
            Some("# Plan\n1. wait"),
        );
        check("User has approved your plan.\n\n## Approved Plan:\n# Plan", None);
    }
}
