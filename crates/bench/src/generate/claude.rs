//! Generates Claude Code transcripts: one content block per line, answers that repeat their usage
//! on each line, tool results stored twice, progress, snapshots, sub-agents.
//!
//! The shapes are those of releases 2.1.x. Their frequencies and lengths were counted in real
//! transcripts; `shares` has the figures. Only lines that cost bytes or change a reader's work are
//! generated; damage belongs to tests, not to a benchmark.

mod tools;

use super::RARE_WORD;
use super::clock::Clock;
use super::json::{push_display, push_escaped, push_string};
use super::material::{Material, push_material};
use super::prng::Prng;
use super::project::Project;
use super::vocabulary::Topic;

/// The session to generate, of about `budget` bytes.
pub(crate) struct Order {
    pub(crate) session_id: String,
    pub(crate) budget: usize,
    /// Set for a sub-agent's file, absent for a main one.
    pub(crate) agent_id: Option<String>,
    /// Sub-agents that this session starts.
    pub(crate) spawns: Vec<Spawn>,
    /// True if this session holds the one rare word of the home.
    pub(crate) has_rare_word: bool,
    /// True if its first prompt has an image that makes a line of about 1 MB.
    pub(crate) has_large_image: bool,
}

/// A sub-agent and the tool call that started it.
pub(crate) struct Spawn {
    pub(crate) agent_id: String,
    pub(crate) tool_use_id: String,
}

/// The generated files of a session.
pub(crate) struct Written {
    /// The transcript.
    pub(crate) lines: String,
    /// Outputs too large for a line: name below `tool-results/`, and text.
    pub(crate) tool_results: Vec<(String, String)>,
    /// The session's lines of `history.jsonl`.
    pub(crate) history: String,
}

/// Writes one session.
pub(crate) fn write_session(order: &Order, project: &Project<'_>, prng: Prng) -> Written {
    let mut session = Session::new(order, project, prng);
    let mut spawns = order.spawns.iter();
    session.first_lines();
    loop {
        session.turn(spawns.next());
        if session.size() >= order.budget {
            break;
        }
    }
    for spawn in spawns {
        session.turn(Some(spawn));
    }
    session.written
}

/// Returns the text of a sub-agent's `agent-<id>.meta.json`.
pub(crate) fn meta_json(spawn: &Spawn) -> String {
    format!(
        r#"{{"agentType":"general-purpose","description":"look into it","toolUseId":"{}","spawnDepth":1}}"#,
        spawn.tool_use_id
    )
}

/// Returns the line that the append measurement adds: a prompt with a word that occurs only there.
pub(crate) fn appended_line(session_id: &str, word: &str, prng: &mut Prng) -> String {
    let time = Clock::new(prng).iso();
    format!(
        r#"{{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/home/dev/work","sessionId":"{session_id}","version":"2.1.17","gitBranch":"main","type":"user","message":{{"role":"user","content":"please look at {word} once more"}},"uuid":"{}","timestamp":"{time}"}}{}"#,
        prng.uuid(),
        '\n'
    )
}

struct Session<'a> {
    order: &'a Order,
    words: &'a Topic<'a>,
    project: &'a Project<'a>,
    prng: Prng,
    clock: Clock,
    written: Written,
    /// The fields that every line with a `parentUuid` repeats, from `isSidechain` to `slug`.
    common: String,
    parent: Option<String>,
    rare_word_due: bool,
    large_image_due: bool,
    tokens_cached: usize,
    n_progress: usize,
}

/// One answer of the model, streamed as several lines.
struct Answer {
    message_id: String,
    request_id: String,
    tokens_in: usize,
    tokens_created: usize,
    tokens_out: usize,
}

/// A call of a tool, kept until its result is written.
struct Call {
    id: String,
    name: &'static str,
    /// Uuid of the line with the call, which the result repeats.
    asked_by: String,
}

impl<'a> Session<'a> {
    fn new(order: &'a Order, project: &'a Project<'a>, mut prng: Prng) -> Self {
        let clock = Clock::new(&mut prng);
        let agent = match &order.agent_id {
            Some(agent_id) => format!(r#","agentId":"{agent_id}""#),
            None => String::new(),
        };
        let mut pet_name = String::new();
        project.words.push_phrase(&mut prng, &mut pet_name, 3);
        let common = format!(
            r#","isSidechain":{},"userType":"external","cwd":"{}","sessionId":"{}","version":"2.1.17","gitBranch":"{}"{agent},"slug":"{}""#,
            order.agent_id.is_some(),
            project.folder,
            order.session_id,
            project.branch,
            pet_name.replace(' ', "-")
        );
        Self {
            order,
            words: &project.words,
            project,
            prng,
            clock,
            written: Written {
                lines: String::with_capacity(order.budget + 64 * 1024),
                tool_results: Vec::new(),
                history: String::new(),
            },
            common,
            parent: None,
            rare_word_due: order.has_rare_word,
            large_image_due: order.has_large_image,
            tokens_cached: 12_000,
            n_progress: 0,
        }
    }

    fn size(&self) -> usize {
        let outputs: usize = self.written.tool_results.iter().map(|(_, text)| text.len()).sum();
        self.written.lines.len() + outputs
    }

    fn first_lines(&mut self) {
        if self.order.agent_id.is_none() && self.prng.chance(300) {
            let mut title = String::new();
            self.words.push_phrase(&mut self.prng, &mut title, 6);
            let leaf = self.prng.uuid();
            self.raw_line(&format!(
                r#"{{"type":"summary","summary":"{title}","leafUuid":"{leaf}"}}"#
            ));
        }
    }

    /// Writes one prompt and all that answers it.
    fn turn(&mut self, mut spawn: Option<&Spawn>) {
        if self.order.agent_id.is_none() {
            self.file_history_snapshot(false);
        }
        self.prompt();
        for _ in 0..self.prng.between(3, 24) {
            let call = self.answer_with_call(spawn);
            self.progress(&call);
            self.tool_result(&call, spawn.take());
            if matches!(call.name, "Edit" | "Write") && self.prng.chance(600) {
                self.file_history_snapshot(true);
            }
            if self.prng.chance(80) {
                self.queue_operations();
            }
            if self.size() >= self.order.budget {
                break;
            }
        }
        let answer = self.new_answer();
        let size = self.prng.skewed(80, 2400);
        self.text_line(&answer, size, true);
        self.stop_lines();
    }

    fn prompt(&mut self) {
        let mut text = String::new();
        let size = self.prng.skewed(20, 1000);
        self.words.push_prose(&mut self.prng, &mut text, size);
        let image_size = self.image_of_prompt();
        self.open_line();
        self.push(r#","type":"user","message":{"role":"user","content":"#);
        if let Some(image_size) = image_size {
            self.push(r#"[{"type":"text","text":"#);
            push_string(&mut self.written.lines, &text);
            self.push(
                r#"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":""#,
            );
            self.prng.push_base64(&mut self.written.lines, image_size);
            self.push(r#""}}]"#);
        } else {
            push_string(&mut self.written.lines, &text);
        }
        self.push(r#"},"thinkingMetadata":{"level":"high","disabled":false,"triggers":[]},"todos":[],"permissionMode":"default""#);
        self.close_line();
        if self.order.agent_id.is_none() {
            self.written.history.push_str(r#"{"display":"#);
            push_string(&mut self.written.history, &text);
            push_display(
                &mut self.written.history,
                format_args!(
                    "{}{},\"project\":\"{}\",\"sessionId\":\"{}\"}}\n",
                    r#","pastedContents":{},"timestamp":"#,
                    self.clock.now_ms,
                    self.project.folder,
                    self.order.session_id
                ),
            );
        }
    }

    /// Returns the length of a prompt's screenshot, if it has one.
    fn image_of_prompt(&mut self) -> Option<usize> {
        if std::mem::take(&mut self.large_image_due) {
            return Some(self.prng.between(900_000, 1_200_000));
        }
        // A short session would grow far beyond the size it was given.
        let may_have_image = self.order.budget > 250_000;
        (may_have_image && self.prng.chance(1)).then(|| self.prng.skewed(16_000, 400_000))
    }

    fn new_answer(&mut self) -> Answer {
        let created = self.prng.skewed(100, 9000);
        self.tokens_cached = (self.tokens_cached + created) % 160_000;
        Answer {
            message_id: self.prng.api_id("msg_"),
            request_id: self.prng.api_id("req_"),
            tokens_in: self.prng.between(1, 12),
            tokens_created: created,
            tokens_out: self.prng.skewed(40, 2500),
        }
    }

    /// Writes an answer's lines up to the tool call that ends it.
    fn answer_with_call(&mut self, spawn: Option<&Spawn>) -> Call {
        let answer = self.new_answer();
        if self.prng.chance(450) {
            self.thinking_line(&answer);
        }
        if self.prng.chance(300) {
            let size = self.prng.skewed(30, 500);
            self.text_line(&answer, size, false);
        }
        let name = match spawn {
            Some(_) => "Task",
            None => match self.prng.below(100) {
                0..=25 => "Read",
                26..=57 => "Bash",
                58..=75 => "Edit",
                76..=87 => "Grep",
                88..=93 => "Write",
                _ => "TodoWrite",
            },
        };
        let id = match spawn {
            Some(spawn) => spawn.tool_use_id.clone(),
            None => self.prng.api_id("toolu_"),
        };
        self.open_assistant(&answer);
        self.push(&format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{"#));
        self.tool_input(name);
        self.push(r#"},"caller":{"type":"direct"}}"#);
        let asked_by = self.close_assistant(&answer, true, r#""tool_use""#);
        Call { id, name, asked_by }
    }

    fn thinking_line(&mut self, answer: &Answer) {
        self.open_assistant(answer);
        self.push(r#"{"type":"thinking","thinking":""#);
        if !self.prng.chance(250) {
            let size = self.prng.skewed(50, 900);
            let mut text = String::new();
            self.words.push_prose(&mut self.prng, &mut text, size);
            push_escaped(&mut self.written.lines, &text);
        }
        self.push(r#"","signature":"E"#);
        let size = self.prng.skewed(220, 1000);
        self.prng.push_base64(&mut self.written.lines, size);
        self.push(r#"=="}"#);
        self.close_assistant(answer, false, "null");
    }

    fn text_line(&mut self, answer: &Answer, size: usize, is_last: bool) {
        let mut text = String::new();
        self.words.push_prose(&mut self.prng, &mut text, size);
        if std::mem::take(&mut self.rare_word_due) {
            text.push_str(" The odd one is ");
            text.push_str(RARE_WORD);
            text.push('.');
        }
        if is_last && self.prng.chance(150) {
            text.push_str("\n\n```rust\n");
            let size = self.prng.skewed(100, 1000);
            push_material(Material::Code, self.words, &mut self.prng, &mut text, size);
            text.push_str("\n```\n");
        }
        self.open_assistant(answer);
        self.push(r#"{"type":"text","text":"#);
        push_string(&mut self.written.lines, &text);
        self.push("}");
        let stop = if is_last { r#""end_turn""# } else { "null" };
        self.close_assistant(answer, is_last, stop);
    }

    fn stop_lines(&mut self) {
        if self.order.agent_id.is_some() {
            return;
        }
        if self.prng.chance(500) {
            self.stop_hook_summary();
        }
        if self.prng.chance(500) {
            self.open_line();
            let duration = self.prng.skewed(3_000, 600_000);
            self.push(&format!(
                r#","type":"system","subtype":"turn_duration","durationMs":{duration},"isMeta":false"#
            ));
            self.close_line();
        }
        self.clock.now_ms += self.prng.skewed(5_000, 3_600_000) as i64;
    }

    fn stop_hook_summary(&mut self) {
        self.open_line();
        let id = self.prng.uuid();
        self.push(&format!(r#","type":"system","subtype":"stop_hook_summary","hookCount":1,"hookInfos":[{{"command":".claude/hooks/on-stop.sh"}}],"hookErrors":[],"preventedContinuation":false,"stopReason":"","hasOutput":true,"level":"suggestion","toolUseID":"{id}""#));
        self.close_line();
    }

    /// Writes a prompt that was typed while the model worked, and its removal from the queue.
    fn queue_operations(&mut self) {
        let (session_id, time) = (&self.order.session_id, self.clock.iso());
        let mut text = String::new();
        self.words.push_phrase(&mut self.prng, &mut text, 12);
        text.push_str(", ");
        self.words.push_phrase(&mut self.prng, &mut text, 12);
        let head = r#"{"type":"queue-operation","operation":"#;
        let tail = format!(r#","timestamp":"{time}","sessionId":"{session_id}""#);
        self.raw_line(&format!(r#"{head}"enqueue"{tail},"content":"{text}"}}"#));
        let ending = if self.prng.chance(700) { "dequeue" } else { "remove" };
        self.raw_line(&format!(r#"{head}"{ending}"{tail}}}"#));
    }

    /// Writes a snapshot that lists some files of the project, at a prompt or after a change.
    fn file_history_snapshot(&mut self, is_update: bool) {
        let id = self.prng.uuid();
        let time = self.clock.iso();
        let mut line = format!(
            r#"{{"type":"file-history-snapshot","messageId":"{id}","snapshot":{{"messageId":"{id}","trackedFileBackups":{{"#
        );
        for i in 0..self.prng.below(9) {
            if i > 0 {
                line.push(',');
            }
            let file = &self.project.files[i];
            push_string(&mut line, &file.path);
            line.push_str(r#":{"backupFileName":""#);
            self.prng.push_hex(&mut line, 16);
            push_display(
                &mut line,
                format_args!(r#"@v{}","version":{},"backupTime":"{time}"}}"#, i + 1, i + 1),
            );
        }
        push_display(
            &mut line,
            format_args!(r#"}},"timestamp":"{time}"}},"isSnapshotUpdate":{is_update}}}"#),
        );
        self.raw_line(&line);
    }

    fn open_assistant(&mut self, answer: &Answer) {
        self.open_line();
        self.push(&format!(
            r#","message":{{"model":"claude-opus-4-5-20251101","id":"{}","type":"message","role":"assistant","content":["#,
            answer.message_id
        ));
    }

    /// Ends a line of an answer; the last one has the final count of output tokens.
    fn close_assistant(&mut self, answer: &Answer, is_last: bool, stop_reason: &str) -> String {
        let tokens_out = if is_last { answer.tokens_out } else { answer.tokens_out.min(8) };
        self.push(&format!(
            r#"],"stop_reason":{stop_reason},"stop_sequence":null,"usage":{{"input_tokens":{},"cache_creation_input_tokens":{},"cache_read_input_tokens":{},"cache_creation":{{"ephemeral_5m_input_tokens":{},"ephemeral_1h_input_tokens":0}},"output_tokens":{tokens_out},"service_tier":"standard","inference_geo":"not_available"}}}},"requestId":"{}","type":"assistant""#,
            answer.tokens_in, answer.tokens_created, self.tokens_cached, answer.tokens_created, answer.request_id
        ));
        self.close_line()
    }

    /// Starts a line of the chain of `parentUuid`: writes the parent and the common fields.
    fn open_line(&mut self) {
        match &self.parent {
            Some(parent) => push_display(
                &mut self.written.lines,
                format_args!(r#"{{"parentUuid":"{parent}"{}"#, self.common),
            ),
            None => push_display(
                &mut self.written.lines,
                format_args!(r#"{{"parentUuid":null{}"#, self.common),
            ),
        }
    }

    /// Ends a line of the chain and makes it the parent of the next; returns its uuid.
    fn close_line(&mut self) -> String {
        let uuid = self.prng.uuid();
        let time = self.clock.tick(&mut self.prng, 9000);
        self.push(&format!(",\"uuid\":\"{uuid}\",\"timestamp\":\"{time}\"}}\n"));
        self.parent = Some(uuid.clone());
        uuid
    }

    /// Adds a line that is not part of the chain.
    fn raw_line(&mut self, line: &str) {
        self.push(line);
        self.push("\n");
    }

    fn push(&mut self, text: &str) {
        self.written.lines.push_str(text);
    }
}
