//! Generates OpenClaw sessions of the file store: pi version 3 lines with short ids and a parent
//! chain, and the `sessions.json` next to them.
//!
//! The shapes are those of release 2026.7.1; its later SQLite store is not generated. Their
//! frequencies and lengths were counted in real lines of pi; `shares` has the figures.

use super::clock::Clock;
use super::json::{push_display, push_escaped, push_string};
use super::material::{Material, push_material};
use super::prng::Prng;
use super::project::{Project, slice_of};
use super::vocabulary::Topic;

/// A transcript, with the fields of its index entry.
pub(crate) struct Written {
    pub(crate) lines: String,
    pub(crate) last_active_ms: i64,
    pub(crate) tokens: usize,
}

/// Writes one session of about `budget` bytes.
pub(crate) fn write_session(
    session_id: &str,
    budget: usize,
    workspace: &Project<'_>,
    mut prng: Prng,
) -> Written {
    let clock = Clock::new(&mut prng);
    let mut session = Session {
        words: &workspace.words,
        workspace,
        prng,
        clock,
        out: String::with_capacity(budget + 64 * 1024),
        parent: None,
        kept_from: String::new(),
        tokens: 9000,
        compact_at: 700_000,
    };
    session.header(session_id);
    loop {
        session.turn(budget);
        if session.out.len() >= budget {
            break;
        }
        if session.out.len() >= session.compact_at {
            session.compaction();
        }
    }
    Written { last_active_ms: session.clock.now_ms, tokens: session.tokens, lines: session.out }
}

/// Returns the `sessions.json` of an agent: its session keys, each with its session.
pub(crate) fn sessions_json(
    agent: &str,
    sessions: &[(String, i64, usize)],
    prng: &mut Prng,
) -> String {
    let mut out = String::from("{");
    for (i, (session_id, last_active_ms, tokens)) in sessions.iter().enumerate() {
        let key = match i {
            0 => format!("agent:{agent}:main"),
            _ if i % 3 == 0 => format!("agent:{agent}:discord:channel:{}", 4_100_000 + i),
            _ => format!("agent:{agent}:telegram:direct:{}", 820_000 + i),
        };
        out.push_str(if i > 0 { ",\n" } else { "\n" });
        push_display(
            &mut out,
            format_args!(
                r#"  "{key}": {{
    "sessionId": "{session_id}",
    "updatedAt": {last_active_ms},
    "sessionStartedAt": {},
    "lastInteractionAt": {last_active_ms},
    "sessionFile": "/home/dev/.openclaw/agents/{agent}/sessions/{session_id}.jsonl",
    "chatType": "direct",
    "model": "claude-sonnet-4-5",
    "modelProvider": "anthropic",
    "inputTokens": {tokens},
    "outputTokens": {},
    "totalTokens": {tokens},
    "contextTokens": 200000,
    "compactionCount": {},
    "abortedLastRun": false,
    "systemPromptReport": {{
      "source": "run",
      "generatedAt": {last_active_ms},
      "workspaceDir": "/home/dev/.openclaw/workspace",
      "bootstrapMaxChars": 20000,
      "tools": ["#,
                last_active_ms - 7_200_000,
                tokens / 20,
                prng.below(4)
            ),
        );
        for (n, tool) in
            ["read", "write", "edit", "exec", "browser", "message", "cron"].iter().enumerate()
        {
            out.push_str(if n > 0 { ",\n" } else { "\n" });
            push_display(
                &mut out,
                format_args!(
                    "        {{\n          \"name\": \"{tool}\",\n          \"summaryChars\": {},\n          \"schemaChars\": {}\n        }}",
                    80 + n,
                    300 + n * 17
                ),
            );
        }
        out.push_str("\n      ]\n    }\n  }");
    }
    out.push_str("\n}\n");
    out
}

struct Session<'a> {
    words: &'a Topic<'a>,
    workspace: &'a Project<'a>,
    prng: Prng,
    clock: Clock,
    out: String,
    parent: Option<String>,
    /// The first entry that a compaction keeps.
    kept_from: String,
    tokens: usize,
    /// The length in bytes at which the next compaction is due.
    compact_at: usize,
}

impl Session<'_> {
    fn header(&mut self, session_id: &str) {
        let time = self.clock.iso();
        let line = format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"{session_id}\",\"timestamp\":\"{time}\",\"cwd\":\"{}\"}}\n",
            self.workspace.folder
        );
        self.out.push_str(&line);
        self.entry("model_change", r#","provider":"anthropic","modelId":"claude-sonnet-4-5""#);
        self.entry("thinking_level_change", r#","thinkingLevel":"low""#);
        let now = self.clock.now_ms;
        self.entry(
            "custom",
            &format!(r#","customType":"model-snapshot","data":{{"timestamp":{now},"provider":"anthropic","modelApi":"anthropic-messages","modelId":"claude-sonnet-4-5"}}"#),
        );
    }

    /// Writes one inbound message and all that answers it.
    fn turn(&mut self, budget: usize) {
        if self.prng.chance(600) {
            let level = self.prng.pick(&["off", "low", "medium"]);
            self.entry("thinking_level_change", &format!(r#","thinkingLevel":"{level}""#));
        }
        self.user_message();
        self.kept_from = self.parent.clone().unwrap_or_default();
        for _ in 0..self.prng.between(1, 7) {
            self.assistant_message(true);
            if self.out.len() >= budget {
                break;
            }
        }
        self.assistant_message(false);
        self.clock.now_ms += self.prng.skewed(20_000, 5_400_000) as i64;
    }

    fn user_message(&mut self) {
        self.open_message("user");
        let mut text = format!("[{} UTC] ", &self.clock.iso()[..16]);
        let size = self.prng.skewed(10, 400);
        self.words.push_remark(&mut self.prng, &mut text, size);
        self.out.push_str(r#","content":"#);
        if self.prng.chance(1) {
            self.out.push_str(r#"[{"type":"text","text":"#);
            push_string(&mut self.out, &text);
            self.out.push_str("},");
            self.image();
            self.out.push(']');
        } else {
            push_string(&mut self.out, &text);
        }
        self.close_message();
    }

    fn image(&mut self) {
        self.out.push_str(r#"{"type":"image","data":""#);
        let size = self.prng.skewed(8_000, 60_000);
        self.prng.push_base64(&mut self.out, size);
        self.out.push_str(r#"","mimeType":"image/jpeg"}"#);
    }

    /// Writes an answer and, if it calls a tool, the tool's result.
    fn assistant_message(&mut self, calls_tool: bool) {
        self.open_message("assistant");
        self.out.push_str(r#","content":["#);
        let mut text = String::new();
        if self.prng.chance(25) {
            let size = self.prng.skewed(60, 900);
            self.words.push_prose(&mut self.prng, &mut text, size);
            self.out.push_str(r#"{"type":"thinking","thinking":"#);
            push_string(&mut self.out, &text);
            self.out.push_str(r#","thinkingSignature":"E"#);
            let size = self.prng.skewed(180, 1200);
            self.prng.push_base64(&mut self.out, size);
            self.out.push_str(r#"=="},"#);
        }
        // Most answers with a tool call have no text.
        if !calls_tool || self.prng.chance(350) {
            text.clear();
            let high = if calls_tool { 400 } else { 1100 };
            let size = self.prng.skewed(20, high);
            self.words.push_remark(&mut self.prng, &mut text, size);
            self.out.push_str(r#"{"type":"text","text":"#);
            push_string(&mut self.out, &text);
            self.out.push_str(if calls_tool { "}," } else { "}" });
        }
        let call = calls_tool.then(|| self.tool_call());
        let (input, created) = (self.prng.between(2, 900), self.prng.skewed(20, 4000));
        let output = self.prng.skewed(20, 1800);
        let cached = self.tokens;
        self.tokens = (self.tokens + created + output) % 180_000;
        let price = |tokens: usize, per_million: f64| tokens as f64 * per_million / 1e6;
        let (a, b, c, d) =
            (price(input, 3.0), price(output, 15.0), price(cached, 0.3), price(created, 3.75));
        push_display(
            &mut self.out,
            format_args!(
                r#"],"api":"anthropic-messages","provider":"anthropic","model":"claude-sonnet-4-5","usage":{{"input":{input},"output":{output},"cacheRead":{cached},"cacheWrite":{created},"totalTokens":{},"cost":{{"input":{a},"output":{b},"cacheRead":{c},"cacheWrite":{d},"total":{}}}}},"stopReason":"{}""#,
                input + output + cached + created,
                a + b + c + d,
                if calls_tool { "toolUse" } else { "stop" },
            ),
        );
        self.close_message();
        if let Some((id, name)) = call {
            self.tool_result(&id, name);
        }
    }

    fn tool_call(&mut self) -> (String, &'static str) {
        let id = self.prng.api_id("toolu_");
        let name = match self.prng.below(100) {
            0..=24 => "read",
            25..=58 => "exec",
            59..=89 => "edit",
            90..=93 => "write",
            94..=96 => "web_fetch",
            _ => "browser",
        };
        push_display(
            &mut self.out,
            format_args!(r#"{{"type":"toolCall","id":"{id}","name":"{name}","arguments":{{"#),
        );
        let arguments_from = self.out.len() - 1;
        let mut text = String::new();
        match name {
            "exec" => {
                text.push_str(self.prng.pick(&[
                    "ls -la ",
                    "git status ",
                    "curl -s https://example.test/",
                    "python3 run.py --task ",
                ]));
                text.push_str(self.words.identifier(&mut self.prng));
                if self.prng.chance(300) {
                    text.push_str("\npython3 - <<'EOF'\n");
                    let size = self.prng.skewed(60, 1500);
                    push_material(Material::Code, self.words, &mut self.prng, &mut text, size);
                    text.push_str("\nEOF");
                }
                self.out.push_str(r#""command":"#);
                push_string(&mut self.out, &text);
            }
            "edit" => {
                let file = self.workspace.file(&mut self.prng);
                let size = self.prng.skewed(160, 2700);
                let old = slice_of(file, &mut self.prng, size);
                let size = self.prng.skewed(20, 800);
                self.workspace.push_edited(&mut self.prng, &mut text, old, size);
                self.out.push_str(r#""path":"#);
                push_string(&mut self.out, &file.path);
                self.out.push_str(r#","oldText":"#);
                push_string(&mut self.out, old);
                self.out.push_str(r#","newText":"#);
                push_string(&mut self.out, &text);
            }
            "write" => {
                let size = self.prng.skewed(200, 5200);
                if self.prng.chance(300) {
                    self.words.push_prose(&mut self.prng, &mut text, size);
                } else {
                    push_material(Material::Code, self.words, &mut self.prng, &mut text, size);
                }
                self.out.push_str(r#""path":"#);
                push_string(&mut self.out, &self.workspace.file(&mut self.prng).path);
                self.out.push_str(r#","content":"#);
                push_string(&mut self.out, &text);
            }
            "read" => {
                self.out.push_str(r#""path":"#);
                push_string(&mut self.out, &self.workspace.file(&mut self.prng).path);
            }
            _ => {
                text.push_str("https://example.test/");
                text.push_str(self.words.identifier(&mut self.prng));
                self.out.push_str(r#""url":"#);
                push_string(&mut self.out, &text);
            }
        }
        self.out.push('}');
        if matches!(name, "edit" | "write") && self.prng.chance(20) {
            // A call that was cut off keeps its unparsed text.
            let arguments = self.out[arguments_from..].to_owned();
            self.out.push_str(r#","partialJson":"#);
            push_string(&mut self.out, &arguments);
        }
        self.out.push('}');
        (id, name)
    }

    fn tool_result(&mut self, call_id: &str, name: &str) {
        self.open_message("toolResult");
        push_display(
            &mut self.out,
            format_args!(r#","toolCallId":"{call_id}","toolName":"{name}","content":["#),
        );
        let mut text = String::new();
        match name {
            "read" => {
                let file = self.workspace.file(&mut self.prng);
                let size = self.prng.skewed(1_000, 20_000);
                text.push_str(slice_of(file, &mut self.prng, size));
            }
            "exec" => {
                let size = self.prng.skewed(30, 2_200);
                self.workspace.push_output(&mut self.prng, &mut text, size);
            }
            "web_fetch" | "browser" => {
                let size = self.prng.skewed(300, 5_000);
                self.words.push_prose(&mut self.prng, &mut text, size);
            }
            _ => {
                text.push_str("Successfully replaced text in ");
                text.push_str(&self.workspace.file(&mut self.prng).path);
            }
        }
        self.out.push_str(r#"{"type":"text","text":"#);
        push_string(&mut self.out, &text);
        self.out.push('}');
        if name == "browser" && self.prng.chance(12) {
            self.out.push(',');
            self.image();
        }
        self.out.push(']');
        match name {
            "exec" => {
                self.out.push_str(r#","details":{"status":"completed","exitCode":0,"exitSignal":null,"exitReason":"exit","durationMs":104"#);
                // The runtime stores a second copy of some commands' output.
                if self.prng.chance(250) {
                    self.out.push_str(r#","aggregated":"#);
                    push_string(&mut self.out, &text);
                }
                push_display(
                    &mut self.out,
                    format_args!(r#","cwd":"{}"}}"#, self.workspace.folder),
                );
            }
            "edit" => {
                self.out.push_str(r#","details":{"diff":""#);
                let size = self.prng.skewed(100, 1600);
                text.clear();
                push_material(Material::Diff, self.words, &mut self.prng, &mut text, size / 2);
                let file = self.workspace.file(&mut self.prng);
                text.push_str(slice_of(file, &mut self.prng, size));
                push_escaped(&mut self.out, &text);
                self.out.push_str(r#"","firstChangedLine":12}"#);
            }
            _ => {}
        }
        let is_error = self.prng.chance(50);
        push_display(&mut self.out, format_args!(r#","isError":{is_error}"#));
        self.close_message();
    }

    fn compaction(&mut self) {
        self.compact_at = self.out.len() + 700_000;
        let mut summary = String::new();
        self.words.push_prose(&mut self.prng, &mut summary, 3000);
        let mut fields = String::from(r#","summary":"#);
        push_string(&mut fields, &summary);
        push_display(
            &mut fields,
            format_args!(
                r#","firstKeptEntryId":"{}","tokensBefore":{},"details":{{"readFiles":[],"modifiedFiles":[]}}"#,
                self.kept_from, self.tokens
            ),
        );
        self.entry("compaction", &fields);
    }

    fn open_message(&mut self, role: &str) {
        let time = self.clock.tick(&mut self.prng, 9000);
        self.open_entry("message", &time);
        push_display(&mut self.out, format_args!(r#","message":{{"role":"{role}""#));
    }

    fn close_message(&mut self) {
        push_display(&mut self.out, format_args!(",\"timestamp\":{}}}}}\n", self.clock.now_ms));
    }

    fn entry(&mut self, kind: &str, fields: &str) {
        let time = self.clock.tick(&mut self.prng, 900);
        self.open_entry(kind, &time);
        self.out.push_str(fields);
        self.out.push_str("}\n");
    }

    /// Starts an entry below the last one and makes it the parent of the next.
    fn open_entry(&mut self, kind: &str, time: &str) {
        let mut id = String::new();
        self.prng.push_hex(&mut id, 8);
        push_display(&mut self.out, format_args!(r#"{{"type":"{kind}","id":"{id}","parentId":"#));
        match &self.parent {
            Some(parent) => push_display(&mut self.out, format_args!(r#""{parent}""#)),
            None => self.out.push_str("null"),
        }
        push_display(&mut self.out, format_args!(r#","timestamp":"{time}""#));
        self.parent = Some(id);
    }
}
