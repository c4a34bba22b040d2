//! What the fields of an entry have to hold, so that everybody who reads it later understands it.
//!
//! Nothing is refused that a release of pi or OpenClaw writes; fields that are not in these lists may
//! hold anything, and `null` is the same as nothing.

use serde_json::value::RawValue;

use super::Refusal;
use crate::json::object::{Object, list, text};
use crate::time::Timestamp;

/// What a value has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Text,
    Object,
    Flag,
    Number,
    /// A number of tokens: whole, and not below zero.
    Tokens,
    /// Text, or a list of blocks.
    Content,
    /// What an answer took, in tokens and money.
    Usage,
}

/// How the sentence about a field ends that is refused: what it is, or what is wrong with it.
type Wrong = &'static str;

use Is::{Content, Flag, Number, Text, Tokens, Usage};

/// Names of fields, and what they have to be.
type Known = &'static [(&'static str, Is)];

/// Every type, with the fields that it cannot do without, and those that it may have.
const TYPES: &[(&str, Known, Known)] = &[
    ("message", &[("message", Is::Object)], &[]),
    ("model_change", &[("provider", Text), ("modelId", Text)], &[]),
    ("thinking_level_change", &[("thinkingLevel", Text)], &[]),
    (
        "compaction",
        &[("summary", Text)],
        &[("tokensBefore", Tokens), ("tokensAfter", Tokens), ("usage", Usage), ("fromHook", Flag)],
    ),
    (
        "branch_summary",
        &[("summary", Text)],
        &[("fromId", Text), ("usage", Usage), ("fromHook", Flag)],
    ),
    ("custom", &[("customType", Text)], &[]),
    ("custom_message", &[("customType", Text), ("content", Content)], &[("display", Flag)]),
    ("label", &[("targetId", Text)], &[("label", Text)]),
    ("session_info", &[("name", Text)], &[]),
    (
        "usage",
        &[("usage", Usage)],
        &[("kind", Text), ("provider", Text), ("model", Text), ("note", Text)],
    ),
    ("context_edit", &[("targetId", Text)], &[]),
    ("leaf", &[], &[]),
    ("reset", &[], &[]),
];

/// Roles of messages, whether their content may be left out, and the fields that they may have.
const ROLES: &[(&str, bool, Known)] = &[
    ("user", false, &[]),
    (
        "assistant",
        false,
        &[
            ("api", Text),
            ("provider", Text),
            ("model", Text),
            ("stopReason", Text),
            ("errorMessage", Text),
            ("usage", Usage),
        ],
    ),
    ("toolResult", false, &[("toolName", Text), ("isError", Flag), ("usage", Usage)]),
    ("custom", false, &[("customType", Text), ("display", Flag)]),
    ("system", true, &[]),
    (
        "bashExecution",
        true,
        &[("output", Text), ("exitCode", Number), ("cancelled", Flag), ("truncated", Flag)],
    ),
];

/// Why a session was reset, in OpenClaw's words.
const RESETS: &[&str] = &["new", "reset", "idle", "daily", "cron-stale"];

/// Where usage tells numbers of tokens: pi's names, and those of the documents.
const TOKENS: &[&str] = &[
    "input",
    "output",
    "cacheRead",
    "cacheWrite",
    "cacheWrite1h",
    "reasoning",
    "totalTokens",
    "inputTokens",
    "outputTokens",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
];

/// Blocks that call a tool, and where other programs put the id of the call.
const CALLS: &[&str] =
    &["toolCall", "toolUse", "functionCall", "tool_call", "tool_use", "function_call"];
const CALL_IDS: &[&str] =
    &["id", "call_id", "toolCallId", "toolUseId", "tool_call_id", "tool_use_id"];

impl Is {
    pub(super) fn holds(self, value: &RawValue) -> bool {
        self.check(value).is_ok()
    }

    fn check(self, value: &RawValue) -> Result<(), Wrong> {
        let json = value.get();
        let first = json.as_bytes().first();
        let is = |holds: bool, should: Wrong| if holds { Ok(()) } else { Err(should) };
        match self {
            Is::Text => is(first == Some(&b'"'), "is text"),
            Is::Object => is(first == Some(&b'{'), "is an object"),
            Is::Flag => is(matches!(json, "true" | "false"), "is true or false"),
            Is::Number => is(number(json).is_some(), "is a number"),
            Is::Tokens => is(is_count(json), "is a whole number of tokens, not below zero"),
            Is::Content => {
                is(matches!(first, Some(b'"' | b'[')), "is text or a list of blocks")?;
                blocks(value)
            }
            Is::Usage => usage(value),
        }
    }
}

/// The type of that name.
pub(super) fn known_type(name: &str) -> Result<&'static str, Refusal> {
    let known = TYPES.iter().map(|(known, ..)| *known).find(|known| *known == name);
    known.ok_or_else(|| Refusal::UnknownType(short(name)))
}

/// The fields of an entry of that type.
pub(super) fn fields(type_name: &'static str, object: &Object<'_>) -> Result<(), Refusal> {
    let Some((_, needs, may_have)) = TYPES.iter().find(|(name, ..)| *name == type_name) else {
        return Ok(());
    };
    if needs.iter().any(|(field, _)| object.some(field).is_none()) {
        return Err(Refusal::Field(missing(type_name)));
    }
    check_all(type_name, object, needs)?;
    check_all(type_name, object, may_have)
}

/// Fields that are there have to be what they are said to be.
fn check_all(of: &'static str, object: &Object<'_>, fields: Known) -> Result<(), Refusal> {
    for (field, is) in fields {
        if let Some(Err(should)) = object.some(field).map(|value| is.check(value)) {
            return Err(Refusal::Wrong { field, of: called(of), should });
        }
    }
    Ok(())
}

/// What an entry of that type, or a message of that role, is called.
fn called(name: &str) -> &'static str {
    match name {
        "model_change" => "a model change",
        "thinking_level_change" => "a change of the thinking level",
        "compaction" => "a compaction",
        "branch_summary" => "a branch summary",
        "custom" | "custom_message" => "a custom message",
        "label" => "a label",
        "session_info" => "a session info",
        "usage" => "a usage entry",
        "context_edit" => "a context edit",
        "assistant" => "an answer",
        "toolResult" => "a tool result",
        "bashExecution" => "a bash execution",
        _ => "a message",
    }
}

fn missing(type_name: &str) -> &'static str {
    match type_name {
        "message" => "a message entry needs `message`",
        "model_change" => "a model change needs `provider` and `modelId`",
        "thinking_level_change" => "a change of the thinking level needs `thinkingLevel`",
        "compaction" => "a compaction needs `summary`",
        "branch_summary" => "a branch summary needs `summary`",
        "custom" => "a custom entry needs `customType`",
        "custom_message" => "a custom message needs `customType` and `content`",
        "label" => "a label needs `targetId`",
        "session_info" => "a session info needs `name`",
        "usage" => "a usage entry needs `usage`",
        _ => "a context edit needs `targetId`",
    }
}

/// A message; returns its role.
pub(super) fn message(message: &Object<'_>) -> Result<&'static str, Refusal> {
    let role = message.text("role").unwrap_or_default();
    let known = ROLES.iter().find(|(known, ..)| *known == role);
    let Some((role, may_be_empty, may_have)) = known else {
        return Err(Refusal::WrongRole(short(&role)));
    };
    match message.get("content") {
        Some(content) => {
            let checked = Is::Content.check(content);
            let of = called(role);
            checked.map_err(|should| Refusal::Wrong { field: "content", of, should })?;
        }
        None if *may_be_empty => {}
        None => return Err(Refusal::Field("a message needs `content`: text or a list of blocks")),
    }
    check_all(role, message, may_have)?;
    if *role == "toolResult" && message.text("toolCallId").is_none_or(|id| id.is_empty()) {
        return Err(Refusal::Field("a tool result needs `toolCallId`"));
    }
    if *role == "bashExecution" && !message.get("command").is_some_and(|is| Is::Text.holds(is)) {
        return Err(Refusal::Field("a bash execution needs `command`"));
    }
    if message.some("timestamp").is_some_and(|time| !is_time(time)) {
        let why = "`timestamp` of a message is milliseconds since 1970, or an ISO 8601 time";
        return Err(Refusal::Field(why));
    }
    Ok(role)
}

/// Why a session starts over.
pub(super) fn reset(object: &Object<'_>) -> Result<(), Refusal> {
    let reason = object.text("reason").unwrap_or_default();
    match RESETS.contains(&&*reason) {
        true => Ok(()),
        false => {
            Err(Refusal::Field("`reason` of a reset is new, reset, idle, daily or cron-stale"))
        }
    }
}

/// What a context edit puts in the place of something.
pub(super) fn replacement(object: &Object<'_>) -> Result<(), Refusal> {
    let is_good = object.get("replacement").is_some_and(|replacement| {
        let content = Object::read(replacement.get());
        let content = content.as_ref().and_then(|content| content.get("content"));
        replacement.get() == "null" || content.is_some_and(|content| Is::Content.holds(content))
    });
    match is_good {
        true => Ok(()),
        false => Err(Refusal::Field(
            "`replacement` of a context edit is null, or an object with `content`",
        )),
    }
}

/// When an entry was written. JavaScript reads a text of digits as a year, and numbers are for
/// messages alone.
pub(super) fn timestamp(time: &RawValue) -> Result<(), Refusal> {
    match text(time).is_some_and(|time| is_iso(&time)) {
        true => Ok(()),
        false => Err(Refusal::Field("`timestamp` is no ISO 8601 time of the years 0 to 9999")),
    }
}

/// Whether content is text, or blocks that say what they are.
fn blocks(content: &RawValue) -> Result<(), Wrong> {
    if Is::Text.holds(content) {
        return Ok(());
    }
    let no_block = "is text or a list of blocks, and a block is an object with a `type`";
    for block in list(content).ok_or(no_block)? {
        let block = Object::read(block.get()).ok_or(no_block)?;
        let kind = block.text("type").filter(|kind| !kind.is_empty()).ok_or(no_block)?;
        let is_text = |name: &&str| block.get(name).is_some_and(|value| Is::Text.holds(value));
        let is_name = |name: &&str| block.text(name).is_some_and(|name| !name.is_empty());
        match &*kind {
            "text" if !is_text(&"text") => return Err("has a text block without `text`"),
            "thinking" => {
                let is_hidden = block.get("redacted").is_some_and(|value| value.get() == "true");
                if !is_hidden && !["thinking", "text"].iter().any(is_text) {
                    return Err("has a thinking block without `thinking`");
                }
            }
            "image" if !["data", "url", "source"].iter().any(|name| block.some(name).is_some()) => {
                return Err("has an image without `data`");
            }
            kind if CALLS.contains(&kind) => {
                let ids = if kind == "toolCall" { &["id"][..] } else { CALL_IDS };
                if !ids.iter().any(is_name) || !is_name(&"name") {
                    return Err("has a call without `id` or `name`");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn usage(value: &RawValue) -> Result<(), Wrong> {
    let object = Object::read(value.get()).ok_or("is an object")?;
    for name in TOKENS {
        if object.some(name).is_some_and(|value| !is_count(value.get())) {
            return Err("tells tokens that are no whole numbers, or below zero");
        }
    }
    let is_price = |json: &str| number(json).is_some_and(|price| price >= 0.0);
    let is_good = object.some("cost").is_none_or(|cost| match Object::read(cost.get()) {
        Some(parts) => parts.fields().all(|(_, part)| {
            let part = part.get();
            part == "null" || is_price(part)
        }),
        None => is_price(cost.get()),
    });
    if is_good { Ok(()) } else { Err("tells costs that are no numbers, or below zero") }
}

/// A number that a computer can hold.
fn number(json: &str) -> Option<f64> {
    let is_number = json.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    is_number.then(|| json.parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}

/// Whether it is a whole number that every reader of JSON takes for the same.
fn is_count(json: &str) -> bool {
    json.bytes().all(|byte| byte.is_ascii_digit())
        && json.parse().is_ok_and(|number: u64| number <= 1 << 53)
}

/// Whether it is a time of a message: milliseconds, or text as in the documents.
fn is_time(time: &RawValue) -> bool {
    match text(time) {
        Some(time) => is_iso(&time),
        None => number(time.get()).is_some_and(|time| (0.0..=LATEST).contains(&time)),
    }
}

/// 9999-12-31T23:59:59.999Z, the latest time that every reader can say.
const LATEST: f64 = 253_402_300_799_999.0;

/// Whether a text is a date of four digits' year, and what follows it.
fn is_iso(time: &str) -> bool {
    let is_year = |year: &str| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    time.split_once('-').is_some_and(|(year, _)| is_year(year))
        && Timestamp::from_text(time).is_some()
}

/// Of a hostile name enough to recognise it.
fn short(name: &str) -> String {
    name.chars().take(40).collect()
}
