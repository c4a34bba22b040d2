//! Pairs tool calls with their results, so that every provider accepts the messages: each result
//! directly after the message with its call, one for each call, none without a call.
//!
//! The rules are those by which OpenClaw repairs a history before sending it. A result elsewhere is
//! moved after its call. A missing result becomes an error, unless the call itself failed or was
//! stopped. Of several results the first wins, but a real result wins over a synthetic one. A
//! result without a call is left out. A result without an id answers the oldest open call of the
//! message before it. If an id is used again later, each call has its own results.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::json;
use serde_json::value::RawValue;

use super::{Message, Seen, apart, shapes};
use crate::json::object::{Object, list};

/// The text of a synthetic result, exactly as OpenClaw writes it.
const MISSING_RESULT_TEXT: &str = "[openclaw] missing tool result in session history; inserted synthetic error \
                       result for transcript repair.";

/// The field that marks a synthetic result.
const SYNTHETIC_FIELD: &str = "openclawSyntheticMissingToolResult";

/// The changes that pairing made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Missing results that were added as errors.
    pub added: usize,
    /// Results that were moved.
    pub moved: usize,
    /// Removed results of calls that already have one.
    pub duplicates: usize,
    /// Removed results without a call.
    pub orphans: usize,
}

/// A message with calls, and the results of each.
struct Caller {
    calls: Vec<Call>,
    /// True if the message failed or was stopped, so that missing results are not added.
    is_broken: bool,
}

struct Call {
    id: String,
    name: String,
    /// The index of the message that answers the call.
    result: Option<usize>,
    is_synthetic: bool,
}

/// The calls of some messages, and which results answer them.
struct Links {
    callers: HashMap<usize, Caller>,
    /// True for each message that is a result.
    is_result: Vec<bool>,
    left_out: Vec<(usize, LeftOut)>,
    repairs: Repairs,
}

/// Returns the index of each message with a call, together with the index of the message with its
/// result.
pub(crate) fn answers(messages: &[Message]) -> Vec<(usize, usize)> {
    let callers = link(messages).callers.into_iter();
    callers
        .flat_map(|(caller, Caller { calls, .. })| {
            calls.into_iter().filter_map(move |call| Some((caller, call.result?)))
        })
        .collect()
}

fn link(messages: &[Message]) -> Links {
    let mut callers: HashMap<usize, Caller> = HashMap::new();
    // For each id of a call, the index of the last message with that call, and of the call in it.
    let mut last_call: HashMap<String, (usize, usize)> = HashMap::new();
    let mut last = None;
    // The first call of `last` that a result without an id may answer.
    let mut open = 0;
    let mut is_result = vec![false; messages.len()];
    let mut left_out = Vec::new();
    let parts = apart::map(
        messages,
        |message| message.json().len(),
        |messages| messages.iter().map(read).collect::<Vec<_>>(),
    );
    for (index, part) in parts.into_iter().flatten().enumerate() {
        match part {
            Some(Part::Calls(caller)) => {
                for (place, call) in caller.calls.iter().enumerate() {
                    last_call.insert(call.id.clone(), (index, place));
                }
                callers.insert(index, caller);
                last = Some(index);
                open = 0;
            }
            Some(Part::Result { id, is_synthetic }) => {
                if let Some(is) = is_result.get_mut(index) {
                    *is = true;
                }
                let place = match id {
                    Some(id) => last_call.get(&id).copied(),
                    None => last.and_then(|last| {
                        let calls = &callers.get(&last)?.calls;
                        let is_open = |place: &usize| {
                            calls.get(*place).is_some_and(|call| call.result.is_none())
                        };
                        let place = (open..calls.len()).find(is_open)?;
                        open = place + 1;
                        Some((last, place))
                    }),
                };
                let found = place.and_then(|(caller, place)| {
                    let is_near = Some(caller) == last;
                    let caller = callers.get_mut(&caller)?;
                    // A failed message gets no results that come after the next message with calls.
                    (is_near || !caller.is_broken).then(|| caller.calls.get_mut(place))?
                });
                match found {
                    None => left_out.push((index, LeftOut::Orphan)),
                    Some(call) if call.result.is_none() || call.is_synthetic && !is_synthetic => {
                        let before = call.result.replace(index);
                        left_out.extend(before.map(|before| (before, LeftOut::Duplicate)));
                        call.is_synthetic = is_synthetic;
                    }
                    Some(_) => left_out.push((index, LeftOut::Duplicate)),
                }
            }
            None => {}
        }
    }
    let orphans = left_out.iter().filter(|(_, why)| *why == LeftOut::Orphan).count();
    let duplicates = left_out.len() - orphans;
    let repairs = Repairs { orphans, duplicates, ..Repairs::default() };
    Links { callers, is_result, left_out, repairs }
}

/// The messages of a context in the order in which a model gets them.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) places: Vec<Place>,
    /// The results that are left out: their indexes, and why.
    pub(crate) left_out: Vec<(usize, LeftOut)>,
    repairs: Repairs,
}

/// One message in that order.
#[derive(Debug)]
pub(crate) enum Place {
    /// A message that is no result, by its index.
    Message(usize),
    /// A result of the last [`Place::Message`].
    Result { message: usize, call: Called },
    /// A call of the last [`Place::Message`] has no result; an error takes its place.
    Missing(Called),
}

/// A call: its id and the name of its tool.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) name: String,
}

impl Called {
    /// Returns the name of the tool.
    fn tool(&self) -> &str {
        if self.name.is_empty() { "unknown" } else { &self.name }
    }
}

/// The reason why a result is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// Another message is the result of its call.
    Duplicate,
    /// There is no call.
    Orphan,
}

/// Returns the order in which a model gets the messages. Takes time linear in their length.
pub(crate) fn order(messages: &[Message]) -> Order {
    let Links { mut callers, is_result, left_out, mut repairs } = link(messages);
    let mut places = Vec::with_capacity(messages.len());
    for index in 0..messages.len() {
        if is_result.get(index) == Some(&true) {
            continue;
        }
        places.push(Place::Message(index));
        let Some(caller) = callers.remove(&index) else { continue };
        let mut expected = index + 1;
        for Call { id, name, result, .. } in caller.calls {
            let call = Called { id, name };
            match result {
                Some(message) => {
                    repairs.moved += usize::from(message != expected);
                    expected = message + 1;
                    places.push(Place::Result { message, call });
                }
                None if caller.is_broken => {}
                None => {
                    repairs.added += 1;
                    places.push(Place::Missing(call));
                }
            }
        }
    }
    Order { places, left_out, repairs }
}

/// Moves results after their calls, adds missing ones and removes superfluous ones. Takes time
/// linear in the length of the messages.
pub fn pair(messages: Vec<Message>) -> (Vec<Message>, Repairs) {
    let Order { places, repairs, .. } = order(&messages);
    let mut messages: Vec<Option<Message>> = messages.into_iter().map(Some).collect();
    let mut take = |index: usize| messages.get_mut(index).and_then(Option::take);
    let mut out = Vec::with_capacity(places.len());
    // The last message that is no result, and its time once that was read.
    let (mut caller, mut time) = (0, None);
    for place in places {
        match place {
            Place::Message(index) => {
                (caller, time) = (out.len(), None);
                out.extend(take(index));
            }
            Place::Result { message, call } => {
                out.extend(take(message).map(|message| named(message, &call)));
            }
            Place::Missing(call) => {
                let time = time.get_or_insert_with(|| out.get(caller).and_then(time_of));
                out.extend(missing(&call, time.as_deref()));
            }
        }
    }
    (out, repairs)
}

enum Part {
    Calls(Caller),
    Result { id: Option<String>, is_synthetic: bool },
}

fn read(message: &Message) -> Option<Part> {
    match &message.seen {
        Seen::Unread => {}
        Seen::Nothing => return None,
        Seen::Calls { calls, is_broken } => {
            let (calls, is_broken) = (once(calls.clone()), *is_broken);
            return Some(Part::Calls(Caller { calls, is_broken }));
        }
        Seen::Result { id, .. } => {
            return Some(Part::Result { id: Some(id.clone()), is_synthetic: false });
        }
    }
    let message = Object::read(message.json())?;
    let role = message.text("role")?;
    match &*role {
        "assistant" => {
            let calls = once(message.get("content").map(shapes::calls).unwrap_or_default());
            let reason = message.text("stopReason");
            let is_broken = matches!(reason.as_deref(), Some("error" | "aborted"));
            (!calls.is_empty()).then_some(Part::Calls(Caller { calls, is_broken }))
        }
        "toolResult" => {
            let id = shapes::id_of_result(&message);
            Some(Part::Result { id, is_synthetic: is_synthetic(&message) })
        }
        _ => None,
    }
}

/// Returns these calls, not answered yet. Of several calls with one id, only the first is kept.
fn once(calls: Vec<(String, String)>) -> Vec<Call> {
    let mut ids = HashSet::new();
    calls
        .into_iter()
        .filter(|(id, _)| ids.insert(id.clone()))
        .map(|(id, name)| Call { id, name, result: None, is_synthetic: false })
        .collect()
}

fn is_synthetic(result: &Object<'_>) -> bool {
    if result.get("isError").is_none_or(|value| value.get() != "true") {
        return false;
    }
    let details = result.get("details").and_then(|details| Object::read(details.get()));
    if details.is_some_and(|details| {
        details.get(SYNTHETIC_FIELD).is_some_and(|mark| mark.get() == "true")
    }) {
        return true;
    }
    let blocks = result.get("content").and_then(list).unwrap_or_default().into_iter();
    blocks
        .filter_map(|block| Object::read(block.get()))
        .any(|block| block.text("text").is_some_and(|text| text == MISSING_RESULT_TEXT))
}

/// Returns the time of a message as written.
pub(crate) fn time_of(message: &Message) -> Option<Box<RawValue>> {
    Object::read(message.json())?.some("timestamp").map(ToOwned::to_owned)
}

/// Returns whether a message is a result.
pub(crate) fn is_result(message: &Message) -> bool {
    matches!(read(message), Some(Part::Result { .. }))
}

/// Returns the id of the call that a result names.
pub(crate) fn call_of(result: &Message) -> Option<String> {
    match &result.seen {
        Seen::Result { id, .. } => Some(id.clone()),
        _ => shapes::id_of_result(&Object::read(result.json())?),
    }
}

/// Returns a result with its call's id and its tool's name.
pub(crate) fn named(message: Message, call: &Called) -> Message {
    if matches!(message.seen, Seen::Result { is_named: true, .. }) {
        return message;
    }
    let Some(mut object) = Object::read(message.json()) else { return message };
    let tool_name = object.text("toolName").map(Cow::into_owned);
    let has_id = object.text("toolCallId").is_some_and(|text| !text.trim().is_empty());
    let trimmed = tool_name.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let wanted = trimmed.unwrap_or_else(|| call.tool());
    if has_id && tool_name.as_deref() == Some(wanted) {
        return message;
    }
    if !has_id {
        object.put("toolCallId", &call.id);
    }
    object.put("toolName", &wanted);
    object.json().map_or_else(|| message.clone(), Message::new)
}

/// Returns an error in place of a result. It has the time of the call, because nothing here reads a
/// clock.
pub(crate) fn missing(call: &Called, time: Option<&RawValue>) -> Option<Message> {
    let mut message = Object::default();
    message.put("role", &"toolResult");
    message.put("toolCallId", &call.id);
    message.put("toolName", &call.tool());
    message.put("content", &json!([{"type": "text", "text": MISSING_RESULT_TEXT}]));
    message.put("details", &json!({ SYNTHETIC_FIELD: true }));
    message.put("isError", &true);
    if let Some(time) = time {
        message.set("timestamp", Cow::Borrowed(time));
    }
    message.json().map(Message::new)
}
