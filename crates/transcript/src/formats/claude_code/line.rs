//! The fields of a transcript line that quipu decodes.
//!
//! One struct serves all line types, because the type may come after all other fields. Large values
//! that add nothing (`toolUseResult`'s copy of the output, the second copy of a sub-agent's message
//! in a progress line, file snapshots) are skipped without copying.

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess};

use super::attachment::Attachment;
use crate::entry::RawJson;
use crate::json::{self, Lenient, Nullable, Oddities, fields};
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
        // facts about the session
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
        "startTime" => start_time: Timestamp,
        "modelUsage" => model_usage: RawJson<'a>,
    }
}

fields! {
    /// The sum of a model in a `cost-state`.
    struct ModelUsage {
        "inputTokens" => input: u64,
        "outputTokens" => output: u64,
        "cacheReadInputTokens" => cache_read: u64,
        "cacheCreationInputTokens" => cache_write: u64,
        "cacheCreationEphemeral1hInputTokens" => cache_write_1h: u64,
        "costUSD" => cost_usd: f64,
    }
}

fields! {
    /// A line of `history.jsonl`.
    struct HistoryLine<'a> {
        "display" => display: Cow<'a, str>,
        "pastedContents" => pasted: RawJson<'a>,
        "timestamp" => timestamp: Timestamp,
        "project" => project: Cow<'a, str>,
        "sessionId" => session_id: Cow<'a, str>,
    }
}

fields! {
    /// The origin of a copied line.
    struct ForkedFrom<'a> {
        "sessionId" => session_id: Cow<'a, str>,
    }
}

fields! {
    /// The metadata of a `compact_boundary`.
    struct CompactMetadata<'a> {
        "trigger" => trigger: Cow<'a, str>,
        "preTokens" => tokens_before: u64,
        "postTokens" => tokens_after: u64,
        "preservedSegment" => preserved: PreservedSegment<'a>,
    }
}

fields! {
    /// The messages that stay in the context after the summary.
    struct PreservedSegment<'a> {
        "headUuid" => head: Cow<'a, str>,
    }
}

fields! {
    /// The payload of a progress line. `normalizedMessages` repeats the message and is skipped.
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
    /// The tool's own description of a result.
    struct ToolUseResultFields<'a> {
        "persistedOutputPath" => persisted_output_path: Cow<'a, str>,
        "agentId" => agent_id: Cow<'a, str>,
        /// The person's answers, by question.
        "answers" => answers: RawJson<'a>,
        /// Notes to the answers, by question.
        "annotations" => annotations: RawJson<'a>,
    }
}

fields! {
    /// The sender of a prompt.
    struct PromptOriginFields<'a> {
        "kind" => kind: Cow<'a, str>,
    }
}

/// Declares a wrapper for a value that may be an object with fields or anything else. Another type
/// is not odd, because tools and extensions write any value there.
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

            fn from_list<A: SeqAccess<'de>>(list: A, _odd: &mut Oddities) -> Result<Option<Self>, A::Error> {
                json::skip_list(list)?;
                Ok(Some(Self::default()))
            }

            fn from_object<A: MapAccess<'de>>(
                object: A,
                _odd: &mut Oddities,
            ) -> Result<Option<Self>, A::Error> {
                // Oddities inside the value are the tool's, and are not noted.
                Ok($fields::from_object(object, &mut Oddities::default())?.map($name))
            }
        }
    )+};
}

object_or_anything! {
    /// An object in about 95 % of lines, otherwise a string or a list.
    ToolUseResult(ToolUseResultFields),
    /// The payload of a progress line, by any tool.
    Progress(ProgressFields),
    /// A sub-agent's line.
    ProgressMessage(ProgressMessageFields),
    /// The sender of a prompt.
    PromptOrigin(PromptOriginFields),
}
