//! Finds the session that a `sessions_spawn` call started.
//!
//! The result of the call names the session by its key. The result of a call through `tool_call` is
//! in a separate entry, which names the outer call.

use std::borrow::Cow;

use crate::entry::{Block, RawJson, SessionFact};
use crate::json::{self, Oddities, fields, non_empty};

const SPAWN: &str = "sessions_spawn";
/// The custom type of an entry about a call through another tool.
const NESTED: &str = "openclaw.nested-tool.v1";

fields! {
    /// The result of a call.
    struct Spawned<'a> {
        "childSessionKey" => key: Cow<'a, str>,
    }
}

fields! {
    /// A call through another tool.
    struct Nested<'a> {
        "toolName" => tool: Cow<'a, str>,
        "parentToolCallId" => call: Cow<'a, str>,
        "result" => result: NestedResult<'a>,
    }
}

fields! {
    struct NestedResult<'a> {
        "details" => details: Spawned<'a>,
    }
}

/// Returns the call and the session that it started. `tool` is the tool of a result, or the custom
/// type of an entry.
pub(super) fn started(
    tool: Option<&str>,
    details: Option<&RawJson<'_>>,
    blocks: &[Block<'_>],
) -> Option<SessionFact<'static>> {
    let details = details.map(RawJson::get);
    let (call, key) = match tool? {
        SPAWN => {
            let result = blocks.iter().find_map(|block| match block {
                Block::ToolResult(result) => Some(result),
                _ => None,
            })?;
            let key = details.and_then(key).or_else(|| key(&result.text))?;
            (result.call_id.as_deref()?.to_owned(), key)
        }
        NESTED => {
            let nested =
                json::object::<Nested<'_>>(details?.as_bytes(), &mut Oddities::default()).ok()?;
            let key = nested.result?.details?.key?.into_owned();
            (nested.call.filter(|_| nested.tool.as_deref() == Some(SPAWN))?.into_owned(), key)
        }
        _ => return None,
    };
    (!call.is_empty() && !key.is_empty())
        .then_some(SessionFact::Spawned { call: Cow::Owned(call), agent_id: Cow::Owned(key) })
}

/// Returns the key in a result.
fn key(json: &str) -> Option<String> {
    let spawned =
        json::object::<Spawned<'_>>(json.trim().as_bytes(), &mut Oddities::default()).ok()?;
    non_empty(spawned.key).map(Cow::into_owned)
}
