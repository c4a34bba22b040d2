//! Generates tool calls, their progress lines and their results.

use super::super::json::{push_display, push_escaped, push_string};
use super::super::material::{Material, push_material, push_numbered};
use super::super::project::slice_of;
use super::{Call, Session, Spawn};

impl Session<'_> {
    pub(super) fn tool_input(&mut self, name: &str) {
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
                let old = slice_of(file, &mut self.prng, 700);
                push_string(&mut self.written.lines, old);
                let size = self.prng.skewed(20, 600);
                self.project.push_edited(&mut self.prng, &mut text, old, size);
                self.push(r#","new_string":"#);
                push_string(&mut self.written.lines, &text);
                self.push(r#","replace_all":false"#);
            }
            "Write" => {
                let size = self.prng.skewed(400, 6600);
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

    pub(super) fn todos(&mut self) {
        self.push("[");
        let count = self.prng.between(2, 6);
        for i in 0..count {
            if i > 0 {
                self.push(",");
            }
            let mut task = String::new();
            self.words.push_phrase(&mut self.prng, &mut task, 7);
            let status = self.prng.pick(&["pending", "in_progress", "completed"]);
            self.push(&format!(
                r#"{{"content":"{task}","status":"{status}","activeForm":"Working on: {task}"}}"#
            ));
        }
        self.push("]");
    }

    /// Writes the lines between a call and its result.
    pub(super) fn progress(&mut self, call: &Call) {
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

    pub(super) fn tool_result(&mut self, call: &Call, spawn: Option<&Spawn>) {
        // `shown` is the result that the model received; `copy` is `toolUseResult`, already JSON.
        let mut shown = String::new();
        let mut copy = String::new();
        match call.name {
            "Read" if self.prng.chance(6) => return self.image_result(call),
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

    pub(super) fn edit_result(&mut self, shown: &mut String, copy: &mut String) {
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

    pub(super) fn image_result(&mut self, call: &Call) {
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

    /// Moves a large output into a file next to the transcript; returns the text that replaces it.
    pub(super) fn persist_output(&mut self, call: &Call, mut output: String) -> String {
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
}
