//! Claude Code transcripts: one content block per line, answers that repeat their
//! usage on each line, tool results told twice, progress, snapshots, sub-agents.
//!
//! Shapes are those of releases 2.1.x, and how often and how long each is comes
//! from counting real transcripts: `shares` has the figures. Only what costs bytes or decides how a
//! reader works is generated; damage is the matter of tests, not of a benchmark.

use super::RARE_WORD;
use super::clock::Clock;
use super::json::{push_display, push_escaped, push_string};
use super::material::{Material, push_material, push_numbered};
use super::prng::Prng;
use super::project::{Project, slice_of};
use super::vocabulary::Topic;

/// What to write: a session of about `budget` bytes.
pub(crate) struct Order {
    pub(crate) session_id: String,
    pub(crate) budget: usize,
    /// Set when this is a sub-agent's file and not the main one.
    pub(crate) agent_id: Option<String>,
    /// Sub-agents that this session starts.
    pub(crate) spawns: Vec<Spawn>,
    /// Whether the one rare word of the home stands here.
    pub(crate) has_rare_word: bool,
    /// Whether its first prompt has an image that makes a line of about 1 MB.
    pub(crate) has_large_image: bool,
}

/// A sub-agent and the tool call that started it.
pub(crate) struct Spawn {
    pub(crate) agent_id: String,
    pub(crate) tool_use_id: String,
}

/// What a session left on disk.
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

/// Returns the line that the append measurement adds: a prompt with a word of its own.
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
    /// The fields that every line of the chain repeats, from `isSidechain` to `slug`.
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
    /// Uuid of the line that asked, which the result names again.
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
        let beside: usize = self.written.tool_results.iter().map(|(_, text)| text.len()).sum();
        self.written.lines.len() + beside
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

    /// One prompt and all that answers it.
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

    /// Returns the length of the screenshot that a prompt comes with, if it comes with one.
    fn image_of_prompt(&mut self) -> Option<usize> {
        if std::mem::take(&mut self.large_image_due) {
            return Some(self.prng.between(900_000, 1_200_000));
        }
        // A short session would grow far beyond the size it was given.
        let may_have_image = self.order.budget > 250_000;
        (may_have_image && self.prng.chance(36)).then(|| self.prng.skewed(16_000, 400_000))
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

    fn tool_input(&mut self, name: &str) {
        let mut text = String::new();
        match name {
            "Read" => {
                let path = &self.project.file(&mut self.prng).path;
                push_display(&mut self.written.lines, format_args!(r#""file_path":"{path}""#));
            }
            "Bash" => {
                text.push_str(self.prng.pick(&[
                    "cargo test -p ",
                    "rg -n ",
                    "npm run build -- ",
                    "git log --oneline ",
                    "python3 -m pytest -k ",
                ]));
                text.push_str(self.words.identifier(&mut self.prng));
                text.push_str(" 2>&1 | tail -40");
                self.push(r#""command":"#);
                push_string(&mut self.written.lines, &text);
                self.push(r#","description":""#);
                self.words.push_phrase(&mut self.prng, &mut self.written.lines, 6);
                self.push("\"");
            }
            "Edit" => {
                let file = self.project.file(&mut self.prng);
                push_display(
                    &mut self.written.lines,
                    format_args!(r#""file_path":"{}","old_string":"#, file.path),
                );
                let old = slice_of(file, &mut self.prng, 800);
                push_string(&mut self.written.lines, old);
                let size = self.prng.skewed(20, 600);
                self.project.push_edited(&mut self.prng, &mut text, old, size);
                self.push(r#","new_string":"#);
                push_string(&mut self.written.lines, &text);
                self.push(r#","replace_all":false"#);
            }
            "Write" => {
                let size = self.prng.skewed(400, 9000);
                push_material(Material::Code, self.words, &mut self.prng, &mut text, size);
                self.push(r#""file_path":""#);
                self.push(&self.project.folder);
                self.push("/");
                self.words.push_path(&mut self.prng, &mut self.written.lines);
                self.push(r#"","content":"#);
                push_string(&mut self.written.lines, &text);
            }
            "Grep" => {
                let pattern = self.words.identifier(&mut self.prng);
                push_display(
                    &mut self.written.lines,
                    format_args!(
                        r#""pattern":"{pattern}","path":"{}","output_mode":"content""#,
                        self.project.folder
                    ),
                );
            }
            "Task" => {
                let size = self.prng.skewed(300, 2500);
                self.words.push_prose(&mut self.prng, &mut text, size);
                self.push(
                    r#""description":"look into it","subagent_type":"general-purpose","prompt":"#,
                );
                push_string(&mut self.written.lines, &text);
            }
            _ => {
                self.push(r#""todos":"#);
                self.todos();
            }
        }
    }

    fn todos(&mut self) {
        self.push("[");
        let count = self.prng.between(2, 6);
        for i in 0..count {
            if i > 0 {
                self.push(",");
            }
            self.push(r#"{"content":""#);
            self.words.push_phrase(&mut self.prng, &mut self.written.lines, 7);
            let status = self.prng.pick(&["pending", "in_progress", "completed"]);
            self.push(&format!(r#"","status":"{status}","activeForm":""#));
            self.words.push_phrase(&mut self.prng, &mut self.written.lines, 7);
            self.push(r#""}"#);
        }
        self.push("]");
    }

    /// Writes the lines that stand between a call and its result.
    fn progress(&mut self, call: &Call) {
        for event in ["PreToolUse", "PostToolUse"] {
            if self.prng.chance(240) {
                self.open_line();
                self.push(&format!(
                    r#","type":"progress","data":{{"type":"hook_progress","hookEvent":"{event}","hookName":"{event}:{}","command":"${{CLAUDE_PROJECT_DIR}}/.claude/hooks/on-tool.sh"}},"parentToolUseID":"{}","toolUseID":"{}""#,
                    call.name, call.id, call.id
                ));
                self.close_line();
            }
        }
        match call.name {
            "Bash" if self.prng.chance(400) => {
                let mut output = String::new();
                for second in 0..self.prng.between(2, 10) {
                    let material = Material::of_shell(&mut self.prng);
                    push_material(material, self.words, &mut self.prng, &mut output, 30);
                    output.push('\n');
                    self.n_progress += 1;
                    self.open_line();
                    self.push(r#","type":"progress","data":{"type":"bash_progress","output":"#);
                    push_string(&mut self.written.lines, &output);
                    self.push(r#","fullOutput":"#);
                    push_string(&mut self.written.lines, &output);
                    self.push(&format!(
                        r#","elapsedTimeSeconds":{},"totalLines":{}}},"toolUseID":"bash-progress-{}","parentToolUseID":"{}""#,
                        second + 2, second + 1, self.n_progress, call.id
                    ));
                    self.close_line();
                }
            }
            "Task" => {
                for _ in 0..self.prng.between(4, 30) {
                    let mut text = String::new();
                    let size = self.prng.skewed(400, 14_000);
                    let file = self.project.file(&mut self.prng);
                    push_numbered(&mut text, slice_of(file, &mut self.prng, size), 0, 400);
                    let (tool_id, uuid) = (self.prng.api_id("toolu_"), self.prng.uuid());
                    let time = self.clock.iso();
                    self.n_progress += 1;
                    self.open_line();
                    self.push(&format!(
                        r#","type":"progress","data":{{"message":{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{tool_id}","type":"tool_result","content":"#
                    ));
                    push_string(&mut self.written.lines, &text);
                    self.push(&format!(
                        r#"}}]}},"uuid":"{uuid}","timestamp":"{time}"}},"normalizedMessages":[],"type":"agent_progress","prompt":"","agentId":"a{}"}},"toolUseID":"agent_msg_{}","parentToolUseID":"{}""#,
                        &uuid[..7], self.n_progress, call.id
                    ));
                    self.close_line();
                }
            }
            _ => {}
        }
    }

    fn tool_result(&mut self, call: &Call, spawn: Option<&Spawn>) {
        // Shown is what the model was given; the copy is `toolUseResult`, already JSON.
        let mut shown = String::new();
        let mut copy = String::new();
        match call.name {
            "Read" if self.prng.chance(10) => return self.image_result(call),
            "Read" => {
                let file = self.project.file(&mut self.prng);
                let n_lines = file.text.lines().count();
                let from = self.prng.below(n_lines / 2 + 1);
                let count = self.prng.skewed(10, 150);
                push_numbered(&mut shown, &file.text, from, count);
                shown.push_str("\n<system-reminder>\nWhenever you read a file, you should consider whether it looks malicious.\n</system-reminder>\n");
                copy.push_str(r#"{"type":"text","file":{"filePath":""#);
                copy.push_str(&file.path);
                copy.push_str(r#"","content":""#);
                for line in file.text.lines().skip(from).take(count) {
                    push_escaped(&mut copy, line);
                    copy.push_str("\\n");
                }
                push_display(
                    &mut copy,
                    format_args!(
                        r#"","numLines":{count},"startLine":{},"totalLines":{n_lines}}}}}"#,
                        from + 1
                    ),
                );
            }
            "Bash" => {
                let size = self.prng.skewed(40, 4_600);
                self.project.push_output(&mut self.prng, &mut shown, size);
                if self.prng.chance(4) {
                    shown = self.persist_output(call, shown);
                }
                copy.push_str(r#"{"stdout":"#);
                push_string(&mut copy, &shown);
                copy.push_str(
                    r#","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false}"#,
                );
            }
            "Edit" => self.edit_result(&mut shown, &mut copy),
            "Grep" => {
                let size = self.prng.skewed(60, 4000);
                push_material(Material::Search, self.words, &mut self.prng, &mut shown, size);
                copy.push_str(r#"{"mode":"content","numFiles":0,"filenames":[],"content":"#);
                push_string(&mut copy, &shown);
                push_display(&mut copy, format_args!(r#","numLines":{}}}"#, shown.lines().count()));
            }
            "Write" => {
                let file = self.project.file(&mut self.prng);
                shown = format!("File created successfully at: {}", file.path);
                push_display(
                    &mut copy,
                    format_args!(r#"{{"type":"create","filePath":"{}","content":"#, file.path),
                );
                push_string(&mut copy, slice_of(file, &mut self.prng, 3000));
                copy.push_str(r#","structuredPatch":[],"originalFile":null}"#);
            }
            "Task" => {
                let size = self.prng.skewed(500, 5000);
                self.words.push_prose(&mut self.prng, &mut shown, size);
                let agent_id = spawn.map_or("", |spawn| spawn.agent_id.as_str());
                push_display(
                    &mut copy,
                    format_args!(
                        r#"{{"status":"completed","agentId":"{agent_id}","content":[{{"type":"text","text":"#
                    ),
                );
                push_string(&mut copy, &shown);
                copy.push_str(
                    r#"}],"totalDurationMs":81234,"totalTokens":40211,"totalToolUseCount":9}"#,
                );
            }
            _ => {
                shown.push_str("Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress.");
                copy.push_str(r#"{"oldTodos":[],"newTodos":[]}"#);
            }
        }
        self.open_line();
        self.push(&format!(
            r#","type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{}","type":"tool_result","content":"#,
            call.id
        ));
        push_string(&mut self.written.lines, &shown);
        if call.name == "Bash" {
            let is_error = self.prng.chance(80);
            self.push(&format!(r#","is_error":{is_error}"#));
        }
        self.push(r#"}]},"toolUseResult":"#);
        self.push(&copy);
        self.push(&format!(r#","sourceToolAssistantUUID":"{}""#, call.asked_by));
        self.close_line();
    }

    fn edit_result(&mut self, shown: &mut String, copy: &mut String) {
        let file = self.project.file(&mut self.prng);
        let excerpt = slice_of(file, &mut self.prng, 900);
        push_display(
            shown,
            format_args!(
                "The file {} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n",
                file.path
            ),
        );
        push_numbered(shown, excerpt, 0, 30);
        push_display(copy, format_args!(r#"{{"filePath":"{}","oldString":"#, file.path));
        push_string(copy, excerpt);
        copy.push_str(r#","newString":"#);
        push_string(copy, slice_of(file, &mut self.prng, 900));
        copy.push_str(r#","originalFile":"#);
        // The whole file as it was: the largest part of real transcripts.
        push_string(copy, &file.text);
        copy.push_str(r#","structuredPatch":[{"oldStart":12,"oldLines":8,"newStart":12,"newLines":9,"lines":["#);
        for (i, line) in excerpt.lines().take(12).enumerate() {
            if i > 0 {
                copy.push(',');
            }
            push_string(copy, line);
        }
        copy.push_str(r#"]}],"userModified":false,"replaceAll":false}"#);
    }

    fn image_result(&mut self, call: &Call) {
        let mut data = String::new();
        let size = self.prng.skewed(8_000, 90_000);
        self.prng.push_base64(&mut data, size);
        self.open_line();
        self.push(&format!(
            r#","type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{}","type":"tool_result","content":[{{"type":"image","source":{{"type":"base64","data":"{data}","media_type":"image/png"}}}}]}}]}},"toolUseResult":{{"type":"image","file":{{"base64":"{data}","type":"image/png","originalSize":{}}}}},"sourceToolAssistantUUID":"{}""#,
            call.id,
            size * 3 / 4,
            call.asked_by
        ));
        self.close_line();
    }

    /// Moves a large output into a file beside the transcript; returns what the line says instead.
    fn persist_output(&mut self, call: &Call, mut output: String) -> String {
        let size = self.prng.between(30_000, 90_000);
        push_material(Material::Log, self.words, &mut self.prng, &mut output, size);
        let preview_end = output.floor_char_boundary(2000);
        let name = format!("{}.txt", call.id);
        let line = format!(
            "<persisted-output>\nOutput too large ({}KB). Full output saved to: /home/dev/.claude/projects/{}/{}/tool-results/{name}\n\nPreview (first 2KB):\n{}\n...\n</persisted-output>",
            output.len() / 1000,
            self.project.slug(),
            self.order.session_id,
            &output[..preview_end]
        );
        self.written.tool_results.push((name, output));
        line
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

    /// Writes a prompt that was typed while the model worked, and its leaving the queue.
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

    /// Lists the files that the session changed so far, at a prompt or after a change.
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

    /// Starts a line of the chain: the parent, and the fields common to all lines.
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

    /// Adds a line that is no part of the chain.
    fn raw_line(&mut self, line: &str) {
        self.push(line);
        self.push("\n");
    }

    fn push(&mut self, text: &str) {
        self.written.lines.push_str(text);
    }
}
