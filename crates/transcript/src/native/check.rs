//! Checks the fields of an entry, so that every later reader can decode it.
//!
//! Nothing that a release of pi or OpenClaw writes is refused. Fields that are not in these lists
//! may hold anything, and `null` counts as absent.

use serde_json::value::RawValue;

use super::Refusal;
use crate::json::object::{Object, list, text};
use crate::time::Timestamp;

/// The required type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    Text,
    Object,
    Flag,
    Number,
    /// A number of tokens: a whole number, zero or more.
    Tokens,
    /// Text, or a list of blocks.
    Content,
    /// The usage of an answer, in tokens and money.
    Usage,
}

/// The end of the error message about a field: the rule that its value breaks.
type BrokenRule = &'static str;

use ValueType::{Content, Flag, Number, Text, Tokens, Usage};

/// Names of fields, with the required type of each.
type FieldTypes = &'static [(&'static str, ValueType)];

/// Every entry type, with its required and its optional fields.
const TYPES: &[(&str, FieldTypes, FieldTypes)] = &[
    ("message", &[("message", ValueType::Object)], &[]),
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

/// Every message role, with true if `content` may be absent, and its optional fields.
const ROLES: &[(&str, bool, FieldTypes)] = &[
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

/// Reasons for a reset, in OpenClaw's words.
const RESET_REASONS: &[&str] = &["new", "reset", "idle", "daily", "cron-stale"];

/// Token counts in usage: pi's names, and those of OpenClaw's documents.
const TOKEN_FIELDS: &[&str] = &[
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

/// Block types that call a tool.
const CALL_TYPES: &[&str] =
    &["toolCall", "toolUse", "functionCall", "tool_call", "tool_use", "function_call"];

/// Fields in which different programs store the id of a call.
const CALL_ID_FIELDS: &[&str] =
    &["id", "call_id", "toolCallId", "toolUseId", "tool_call_id", "tool_use_id"];

/// Fields in which different programs store the id of the call that a result answers. `id` comes
/// last, because some results have an id of their own.
const ANSWERED_ID_FIELDS: &[&str] =
    &["tool_use_id", "tool_call_id", "toolUseId", "toolCallId", "call_id", "id"];

impl ValueType {
    pub(super) fn holds(self, value: &RawValue) -> bool {
        self.check(value).is_ok()
    }

    fn check(self, value: &RawValue) -> Result<(), BrokenRule> {
        let json = value.get();
        let first = json.as_bytes().first();
        let require = |holds: bool, rule: BrokenRule| if holds { Ok(()) } else { Err(rule) };
        match self {
            ValueType::Text => require(first == Some(&b'"'), "must be text"),
            ValueType::Object => require(first == Some(&b'{'), "must be an object"),
            ValueType::Flag => require(matches!(json, "true" | "false"), "must be true or false"),
            ValueType::Number => require(number(json).is_some(), "must be a number"),
            ValueType::Tokens => {
                require(is_count(json), "must be a whole number of tokens, zero or more")
            }
            ValueType::Content => {
                require(matches!(first, Some(b'"' | b'[')), "must be text or a list of blocks")?;
                blocks(value)
            }
            ValueType::Usage => usage(value),
        }
    }
}

/// Returns the known entry type with this name.
pub(super) fn known_type(name: &str) -> Result<&'static str, Refusal> {
    let known = TYPES.iter().map(|(known, ..)| *known).find(|known| *known == name);
    known.ok_or_else(|| Refusal::UnknownType(short(name)))
}

/// Checks the fields of an entry of this type.
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

/// Checks the type of each field that is present.
fn check_all(name: &'static str, object: &Object<'_>, fields: FieldTypes) -> Result<(), Refusal> {
    for (field, required) in fields {
        if let Some(Err(should)) = object.some(field).map(|value| required.check(value)) {
            return Err(Refusal::Wrong { field, of: display_name(name), should });
        }
    }
    Ok(())
}

/// Returns the name of an entry type or message role in error messages.
fn display_name(name: &str) -> &'static str {
    match name {
        "model_change" => "a model change",
        "thinking_level_change" => "a change of the thinking level",
        "compaction" => "a compaction",
        "branch_summary" => "a branch summary",
        "custom" => "a custom entry",
        "custom_message" => "a custom message",
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

/// Checks a message and returns its role.
pub(super) fn message(message: &Object<'_>) -> Result<&'static str, Refusal> {
    let role = message.text("role").unwrap_or_default();
    let known = ROLES.iter().find(|(known, ..)| *known == role);
    let Some((role, may_be_empty, may_have)) = known else {
        return Err(Refusal::WrongRole(short(&role)));
    };
    match message.get("content") {
        Some(content) => {
            let checked = ValueType::Content.check(content);
            let of = display_name(role);
            checked.map_err(|should| Refusal::Wrong { field: "content", of, should })?;
        }
        None if *may_be_empty => {}
        None => return Err(Refusal::Field("a message needs `content`: text or a list of blocks")),
    }
    check_all(role, message, may_have)?;
    // The store fills in an id that is absent, if one call is open.
    if *role == "toolResult"
        && message.some("toolCallId").is_some_and(|id| text(id).is_none_or(|id| id.is_empty()))
    {
        return Err(Refusal::Field("`toolCallId` of a tool result must be the id of a call"));
    }
    if *role == "bashExecution"
        && !message.get("command").is_some_and(|command| ValueType::Text.holds(command))
    {
        return Err(Refusal::Field("a bash execution needs `command`"));
    }
    if message.some("timestamp").is_some_and(|time| !is_time(time)) {
        let why = "`timestamp` of a message must be milliseconds since 1970, or an ISO 8601 time";
        return Err(Refusal::Field(why));
    }
    Ok(role)
}

/// Checks the reason of a reset.
pub(super) fn reset(object: &Object<'_>) -> Result<(), Refusal> {
    let reason = object.text("reason").unwrap_or_default();
    match RESET_REASONS.contains(&&*reason) {
        true => Ok(()),
        false => {
            Err(Refusal::Field("`reason` of a reset must be new, reset, idle, daily or cron-stale"))
        }
    }
}

/// Checks the replacement in a context edit.
pub(super) fn replacement(object: &Object<'_>) -> Result<(), Refusal> {
    let is_good = object.get("replacement").is_some_and(|replacement| {
        let content = Object::read(replacement.get());
        let content = content.as_ref().and_then(|content| content.get("content"));
        replacement.get() == "null"
            || content.is_some_and(|content| ValueType::Content.holds(content))
    });
    match is_good {
        true => Ok(()),
        false => Err(Refusal::Field(
            "`replacement` of a context edit must be null, or an object with `content`",
        )),
    }
}

/// Checks the time of an entry. Text of digits is refused, because JavaScript parses it as a year.
/// So is a number, which only messages may have.
pub(super) fn timestamp(time: &RawValue) -> Result<(), Refusal> {
    match text(time).is_some_and(|time| is_iso(&time)) {
        true => Ok(()),
        false => Err(Refusal::Field("`timestamp` must be an ISO 8601 time of the years 0 to 9999")),
    }
}

/// Parses a time in milliseconds.
pub(super) fn milliseconds(time: &RawValue) -> Option<Timestamp> {
    let time = number(time.get()).filter(|time| (0.0..=LATEST).contains(time))?;
    Timestamp::from_number(time)
}

/// Returns the id of a call, if the block is one.
pub(super) fn call_id(block: &Object<'_>) -> Option<String> {
    block.text("type").filter(|kind| CALL_TYPES.contains(&&**kind))?;
    id_in(block, CALL_ID_FIELDS)
}

/// Returns the id of the call that a block answers, if it is a result.
pub(super) fn answered_id(block: &Object<'_>) -> Option<String> {
    is_result(block).then(|| id_in(block, ANSWERED_ID_FIELDS)).flatten()
}

/// Returns whether a block is the result of a call.
pub(super) fn is_result(block: &Object<'_>) -> bool {
    block.text("type").is_some_and(|kind| crate::message::is_result(&kind))
}

fn id_in(block: &Object<'_>, fields: &[&str]) -> Option<String> {
    let ids = fields.iter().filter_map(|name| block.text(name));
    ids.map(std::borrow::Cow::into_owned).find(|id| !id.is_empty())
}

/// Checks that content is text, or a list of blocks with types.
fn blocks(content: &RawValue) -> Result<(), BrokenRule> {
    if ValueType::Text.holds(content) {
        return Ok(());
    }
    let no_block = "must be text or a list of blocks, and a block must be an object with a `type`";
    for block in list(content).ok_or(no_block)? {
        let block = Object::read(block.get()).ok_or(no_block)?;
        let kind = block.text("type").filter(|kind| !kind.is_empty()).ok_or(no_block)?;
        let is_text =
            |name: &&str| block.get(name).is_some_and(|value| ValueType::Text.holds(value));
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
            kind if CALL_TYPES.contains(&kind) => {
                let ids = if kind == "toolCall" { &["id"][..] } else { CALL_ID_FIELDS };
                if !ids.iter().any(is_name) || !is_name(&"name") {
                    return Err("has a call without `id` or `name`");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn usage(value: &RawValue) -> Result<(), BrokenRule> {
    let object = Object::read(value.get()).ok_or("must be an object")?;
    for name in TOKEN_FIELDS {
        if object.some(name).is_some_and(|value| !is_count(value.get())) {
            return Err("must count tokens in whole numbers, zero or more");
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
    if is_good { Ok(()) } else { Err("must have costs that are numbers, zero or more") }
}

/// Parses a finite number.
fn number(json: &str) -> Option<f64> {
    let is_number = json.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    is_number.then(|| json.parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}

/// Returns true for a whole number that every JSON parser reads exactly.
fn is_count(json: &str) -> bool {
    json.bytes().all(|byte| byte.is_ascii_digit())
        && json.parse().is_ok_and(|number: u64| number <= 1 << 53)
}

/// Returns true for the time of a message: milliseconds, or ISO text.
fn is_time(time: &RawValue) -> bool {
    match text(time) {
        Some(time) => is_iso(&time),
        None => number(time.get()).is_some_and(|time| (0.0..=LATEST).contains(&time)),
    }
}

/// 9999-12-31T23:59:59.999Z in milliseconds, the latest time that every reader can print.
const LATEST: f64 = 253_402_300_799_999.0;

/// Returns true for a date with a four-digit year, with or without a time.
fn is_iso(time: &str) -> bool {
    let is_year = |year: &str| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    time.split_once('-').is_some_and(|(year, _)| is_year(year))
        && Timestamp::from_text(time).is_some()
}

/// Shortens a name from untrusted input for an error message.
fn short(name: &str) -> String {
    name.chars().take(40).collect()
}
