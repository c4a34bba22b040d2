//! What a line of a transcript is made of: only the fields that are understood.
//!
//! One struct serves all types of line, because the type may stand behind everything else. Large
//! values that say nothing more (`toolUseResult`'s copy of the output, the second copy of a
//! sub-agent's message in a progress line, file snapshots) are walked over without being kept.

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess};

use crate::json::{self, Lenient, Nullable, Odd, fields};
use crate::message::{Content, Message};
use crate::time::Timestamp;

fields! {
    /// A line of any type.
    struct Line<'a> {
        "type" => type_name: Cow<'a, str>,
        "uuid" => uuid: Cow<'a, str>,
        "parentUuid" => parent_uuid: Nullable<Cow<'a, str>>,
        "logicalParentUuid" => logical_parent_uuid: Cow<'a, str>,
        "timestamp" => timestamp: Timestamp,
        "sessionId" => session_id: Cow<'a, str>,
        "cwd" => cwd: Cow<'a, str>,
        "version" => version: Cow<'a, str>,
        "gitBranch" => git_branch: Cow<'a, str>,
        "isSidechain" => is_sidechain: bool,
        "isMeta" => is_meta: bool,
        "message" => message: Box<Message<'a>>,
        "origin" => origin: PromptOrigin<'a>,
        "forkedFrom" => forked_from: ForkedFrom<'a>,
        // user
        "toolUseResult" => tool_use_result: ToolUseResult<'a>,
        "isCompactSummary" => is_compact_summary: bool,
        // assistant
        "requestId" => request_id: Cow<'a, str>,
        "isApiErrorMessage" => is_api_error: bool,
        "isAbortedMidStream" => is_aborted: bool,
        "costUSD" => cost_usd: f64,
        // system
        "subtype" => subtype: Cow<'a, str>,
        "content" => content: Content<'a>,
        "compactMetadata" => compact_metadata: CompactMetadata<'a>,
        // progress
        "data" => data: Progress<'a>,
        "parentToolUseID" => parent_tool_use_id: Cow<'a, str>,
        // attachment, queue-operation
        "attachment" => attachment: Attachment<'a>,
        "operation" => operation: Cow<'a, str>,
        // what is said about the session
        "summary" => summary: Cow<'a, str>,
        "leafUuid" => leaf_uuid: Cow<'a, str>,
        "lastPrompt" => last_prompt: Cow<'a, str>,
        "aiTitle" => ai_title: Cow<'a, str>,
        "customTitle" => custom_title: Cow<'a, str>,
        "prUrl" => pr_url: Cow<'a, str>,
        "continuedInSessionId" => continued_in: Cow<'a, str>,
        "derivedFromSessionId" => derived_from: Cow<'a, str>,
        "sourceSessionId" => source_session: Cow<'a, str>,
        "parentSessionId" => parent_session: Cow<'a, str>,
    }
}

fields! {
    /// A line of `history.jsonl`.
    struct HistoryLine<'a> {
        "display" => display: Cow<'a, str>,
        "timestamp" => timestamp: Timestamp,
        "project" => project: Cow<'a, str>,
        "sessionId" => session_id: Cow<'a, str>,
    }
}

fields! {
    /// Where a copied line was copied from.
    struct ForkedFrom<'a> {
        "sessionId" => session_id: Cow<'a, str>,
    }
}

fields! {
    /// What `compact_boundary` says.
    struct CompactMetadata<'a> {
        "trigger" => trigger: Cow<'a, str>,
        "preTokens" => tokens_before: u64,
        "postTokens" => tokens_after: u64,
        "preservedSegment" => preserved: PreservedSegment<'a>,
    }
}

fields! {
    /// The messages that stay in the context beside the summary.
    struct PreservedSegment<'a> {
        "headUuid" => head: Cow<'a, str>,
    }
}

fields! {
    /// Payload of a progress line. `normalizedMessages` repeats the message and is skipped.
    struct ProgressFields<'a> {
        "agentId" => agent_id: Cow<'a, str>,
        "message" => message: ProgressMessage<'a>,
    }
}

fields! {
    /// A sub-agent's line inside a progress line.
    struct ProgressMessageFields<'a> {
        "requestId" => request_id: Cow<'a, str>,
        "message" => message: Message<'a>,
    }
}

fields! {
    /// What stands behind a user line that is not a plain message.
    struct AttachmentFields<'a> {
        "type" => type_name: Cow<'a, str>,
        "prompt" => prompt: Content<'a>,
        "commandMode" => command_mode: Cow<'a, str>,
        "origin" => origin: PromptOrigin<'a>,
    }
}

fields! {
    /// The tool's own account of a result.
    struct ToolUseResultFields<'a> {
        "persistedOutputPath" => persisted_output_path: Cow<'a, str>,
        "agentId" => agent_id: Cow<'a, str>,
    }
}

fields! {
    /// Who sent a prompt.
    struct PromptOriginFields<'a> {
        "kind" => kind: Cow<'a, str>,
    }
}

/// Declares a wrapper for a value that has fields when it is an object, and that may be anything
/// else without being odd: tools and extensions write what they like there.
macro_rules! object_or_anything {
    ($($(#[$meta:meta])* $name:ident($fields:ident),)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(super) struct $name<'a>(pub(super) $fields<'a>);

        impl<'de> Lenient<'de> for $name<'de> {
            fn from_text(_text: &str) -> Option<Self> {
                Some(Self::default())
            }

            fn from_bool(_value: bool) -> Option<Self> {
                Some(Self::default())
            }

            fn from_number(_number: json::Number) -> Option<Self> {
                Some(Self::default())
            }

            fn from_list<A: SeqAccess<'de>>(list: A, _odd: &mut Odd) -> Result<Option<Self>, A::Error> {
                json::skip_list(list)?;
                Ok(Some(Self::default()))
            }

            fn from_object<A: MapAccess<'de>>(
                object: A,
                _odd: &mut Odd,
            ) -> Result<Option<Self>, A::Error> {
                // What is odd in there is the tool's affair.
                Ok($fields::from_object(object, &mut Odd::default())?.map($name))
            }
        }
    )+};
}

object_or_anything! {
    /// An object 95 times in 100, otherwise a string or a list.
    ToolUseResult(ToolUseResultFields),
    /// Payload of a progress line, by any tool.
    Progress(ProgressFields),
    /// A sub-agent's line.
    ProgressMessage(ProgressMessageFields),
    /// More than 80 kinds of attachment are known.
    Attachment(AttachmentFields),
    /// Who sent a prompt.
    PromptOrigin(PromptOriginFields),
}
