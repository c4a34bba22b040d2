//! The fields of a session's entry in an index, as OpenClaw's releases write them, in one list.

/// A field of an index entry.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name, as written.
    pub name: &'static str,
    /// The topic of the field.
    pub group: Group,
    /// The type of its value.
    pub holds: Holds,
}

/// The topic of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The identity of the session.
    Identity,
    /// The state of the session.
    State,
    /// The session that started it.
    Spawn,
    /// The source and destination of messages.
    Routing,
    /// The rules for accepting and answering messages.
    Policy,
    /// The model and its settings.
    Model,
    /// Tokens and cost.
    Tokens,
    /// Compaction and memory flushes.
    Memory,
    /// Times of events.
    Times,
    /// Internal bookkeeping of the agent.
    Machinery,
    /// A report on the prompt; large, and useless without the prompt.
    Report,
}

impl Group {
    /// Returns whether the journal records a change of such a field.
    pub fn is_noted(self) -> bool {
        matches!(
            self,
            Group::Identity | Group::State | Group::Spawn | Group::Routing | Group::Policy
        )
    }
}

/// The type of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// Milliseconds since 1970, or ISO text in an older shape.
    Time,
    /// A text or a number.
    TextOrNumber,
    /// A list.
    List,
    /// An object.
    Object,
    /// Any value.
    Any,
}

/// Returns the field with this name.
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

macro_rules! fields {
    ($($group:ident { $($name:literal: $holds:expr,)+ })+) => {
        /// Every field that quipu reads.
        pub static FIELDS: &[Field] = &[
            $($(Field { name: $name, group: Group::$group, holds: $holds },)+)+
        ];
    };
}

use Holds::{Any, Flag, List, Number, Object, Text, TextOrNumber, Time, Word};

fields! {
    Identity {
        "sessionId": Text,
        "sessionKey": Text,
        "sessionFile": Text,
        "usageFamilyKey": Text,
        "usageFamilySessionIds": List,
        "quipu:windows": List,
    }
    State {
        "status": Word(&["running", "done", "failed", "killed", "timeout"]),
        "abortedLastRun": Flag,
        "archivedAt": Time,
        "pinnedAt": Time,
        "label": Text,
        "category": Text,
        "displayName": Text,
    }
    Spawn {
        "spawnedBy": Text,
        "spawnedWorkspaceDir": Text,
        "spawnedCwd": Text,
        "parentSessionKey": Text,
        "forkedFromParent": Flag,
        "spawnDepth": Number,
        "subagentRole": Word(&["orchestrator", "leaf"]),
        "subagentControlScope": Word(&["children", "none"]),
        "inheritedToolAllow": List,
        "inheritedToolDeny": List,
        "pluginOwnerId": Text,
    }
    Routing {
        "channel": Text,
        "chatType": Word(&["direct", "group", "channel"]),
        "groupId": Text,
        "subject": Text,
        "groupChannel": Text,
        "space": Text,
        "origin": Object,
        "route": Any,
        "delivery": Object,
        "deliveryContext": Object,
        "lastChannel": Text,
        "lastTo": Text,
        "lastAccountId": Text,
        "lastThreadId": TextOrNumber,
    }
    Policy {
        "sendPolicy": Word(&["allow", "deny"]),
        "groupActivation": Word(&["mention", "always"]),
        "groupActivationNeedsSystemIntro": Flag,
        "queueMode": Word(&[
            "steer", "followup", "collect", "queue", "interrupt", "steer-backlog", "steer+backlog",
        ]),
        "queueDebounceMs": Number,
        "queueCap": Number,
        "queueDrop": Word(&["old", "new", "summarize"]),
        "responseUsage": Word(&["on", "off", "tokens", "full"]),
        "ttsAuto": Word(&["off", "always", "inbound", "tagged"]),
        "execHost": Text,
        "execSecurity": Text,
        "execAsk": Text,
        "execNode": Text,
    }
    Model {
        "modelProvider": Text,
        "model": Text,
        "providerOverride": Text,
        "modelOverride": Text,
        "modelOverrideSource": Word(&["auto", "user"]),
        "modelOverrideFallbackOriginProvider": Text,
        "modelOverrideFallbackOriginModel": Text,
        "agentRuntimeOverride": Text,
        "agentHarnessId": Text,
        "authProfileOverride": Text,
        "authProfileOverrideSource": Text,
        "authProfileOverrideCompactionCount": Number,
        "liveModelSwitchPending": Flag,
        "thinkingLevel": Text,
        "fastMode": Any,
        "verboseLevel": Text,
        "traceLevel": Text,
        "reasoningLevel": Text,
        "elevatedLevel": Text,
        "fallbackNoticeSelectedModel": Text,
        "fallbackNoticeActiveModel": Text,
        "fallbackNoticeReason": Text,
    }
    Tokens {
        "inputTokens": Number,
        "outputTokens": Number,
        "totalTokens": Number,
        "totalTokensFresh": Flag,
        "cacheRead": Number,
        "cacheWrite": Number,
        "contextTokens": Number,
        "estimatedCostUsd": Number,
        "contextBudgetStatus": Object,
    }
    Memory {
        "compactionCount": Number,
        "compactionCheckpoints": List,
        "memoryFlushAt": Time,
        "memoryFlushCompactionCount": Number,
        "memoryFlushContextHash": Text,
        "memoryFlushFailureCount": Number,
        "memoryFlushLastFailedAt": Time,
        "memoryFlushLastFailureError": Text,
    }
    Times {
        "createdAt": Time,
        "updatedAt": Time,
        "sessionStartedAt": Time,
        "lastInteractionAt": Time,
        "lastActivityAt": Time,
        "lastReadAt": Time,
        "markedUnreadAt": Time,
        "startedAt": Time,
        "endedAt": Time,
        "runtimeMs": Number,
        "lastHeartbeatSentAt": Time,
        "abortCutoffTimestamp": Time,
    }
    Machinery {
        "systemSent": Flag,
        "lifecycleRevision": Any,
        "subagentRecovery": Any,
        "restartRecoveryRuns": List,
        "ambientTranscriptWatermarks": Any,
        "abortCutoffMessageSid": Text,
        "lastHeartbeatText": Text,
        "heartbeatIsolatedBaseSessionKey": Text,
        "heartbeatTaskState": Any,
        "pendingFinalDelivery": Any,
        "restartRecoveryDelivery": Any,
        "cliSessionIds": Any,
        "cliSessionBindings": Any,
        "claudeCliSessionId": Text,
        "acp": Any,
        "goal": Any,
        "quotaSuspension": Any,
        "pendingSkillSuggestion": Any,
        "skillCaptureSignalHashes": Any,
        "pluginExtensions": Any,
        "pluginExtensionSlotKeys": Any,
        "pluginNextTurnInjections": Any,
        "pluginDebugEntries": Any,
    }
    Report {
        "skillsSnapshot": Object,
        "systemPromptReport": Object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed_once() {
        let mut names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn r3_every_field_of_the_ledger_document_is_understood() {
        for name in [
            "sessionId",
            "updatedAt",
            "sessionFile",
            "systemSent",
            "abortedLastRun",
            "compactionCount",
            "inputTokens",
            "outputTokens",
            "totalTokens",
            "contextTokens",
            "modelProvider",
            "model",
            "modelOverride",
            "providerOverride",
            "thinkingLevel",
            "verboseLevel",
            "reasoningLevel",
            "elevatedLevel",
            "channel",
            "lastChannel",
            "lastTo",
            "lastAccountId",
            "lastThreadId",
            "deliveryContext",
            "chatType",
            "groupId",
            "subject",
            "groupChannel",
            "space",
            "displayName",
            "label",
            "origin",
            "queueMode",
            "queueDebounceMs",
            "queueCap",
            "queueDrop",
            "ttsAuto",
            "responseUsage",
            "sendPolicy",
            "memoryFlushAt",
            "memoryFlushCompactionCount",
            "spawnedBy",
            "lastHeartbeatText",
            "lastHeartbeatSentAt",
            "skillsSnapshot",
            "systemPromptReport",
        ] {
            assert!(field(name).is_some(), "{name}");
        }
    }
}
