//! All edits of a session as one patch per file.
//!
//! An edit records the replaced text but no line number, so every hunk has line 1; the program
//! `patch` searches for the text.

use std::collections::HashMap;

use quipu_ledger::wire::FilePatch;
use quipu_transcript::story::{Outcome, Piece, StoryItem, edits};
use similar::ChangeTag;

use crate::commands::Context;
use crate::error::Result;
use crate::output::{DiffLine, Style, Text, hunks};
use crate::reading::Reading;

/// Number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// The changes of all files, in the order in which the files were first changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    files: Vec<File>,
    by_path: HashMap<String, usize>,
}

#[derive(Debug)]
struct File {
    path: String,
    hunks: Vec<Hunk>,
    /// The whole content, if the agent wrote it and no edit followed.
    content: Option<String>,
}

#[derive(Debug)]
struct Hunk {
    turn: Option<u64>,
    lines: Vec<DiffLine>,
}

impl Changes {
    /// Adds the edits of an entry, except those that failed.
    pub(super) fn add(&mut self, item: &StoryItem<'_>) {
        for piece in &item.pieces {
            let Piece::Call(call) = piece else { continue };
            let (Some(input), true) = (&call.input, call.outcome != Some(Outcome::Failed)) else {
                continue;
            };
            for edit in edits(input.get()) {
                let file = self.file(&edit.path);
                let before = match &edit.old {
                    Some(old) => old.clone(),
                    None => file.content.take().unwrap_or_default(),
                };
                for lines in hunks(&ended(&before), &ended(&edit.new), CONTEXT_LINES) {
                    file.hunks.push(Hunk { turn: item.turn, lines });
                }
                file.content = edit.old.is_none().then_some(edit.new);
            }
        }
    }

    fn file(&mut self, path: &str) -> &mut File {
        let next = self.files.len();
        let at = *self.by_path.entry(path.to_owned()).or_insert(next);
        if at == next {
            self.files.push(File { path: path.to_owned(), hunks: Vec::new(), content: None });
        }
        &mut self.files[at]
    }

    /// Returns whether there are no changes.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Prints one patch per file.
    pub(super) fn show(&self, context: &mut Context, reading: &Reading) -> Result<()> {
        if context.is_json {
            for file in &self.files {
                let lines = file.lines();
                let patch = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
                let printed = FilePatch { path: &file.path, edits: file.hunks.len(), patch };
                reading.json(context, &printed)?;
            }
            return Ok(());
        }
        context.output.page()?;
        for file in &self.files {
            for (style, line) in file.lines() {
                if context.output.is_seen() {
                    context.output.laid_out(&Text::styled(style, line.replace('\t', "    ")))?;
                } else {
                    // In a pipe it is a patch, tabs included.
                    context.output.exact(format!("{line}\n").as_bytes())?;
                }
            }
        }
        Ok(())
    }
}

impl File {
    /// Returns the lines of the patch.
    fn lines(&self) -> Vec<(Style, String)> {
        let path = self.path.trim_start_matches('/');
        let mut lines =
            vec![(Style::Bold, format!("--- a/{path}")), (Style::Bold, format!("+++ b/{path}"))];
        for hunk in &self.hunks {
            let count = |without| hunk.lines.iter().filter(|line| line.tag != without).count();
            let range = |lines: usize| format!("{},{lines}", usize::from(lines > 0));
            let (old, new) = (range(count(ChangeTag::Insert)), range(count(ChangeTag::Delete)));
            let turn = hunk.turn.map(|turn| format!(" turn {turn}")).unwrap_or_default();
            lines.push((Style::Accent, format!("@@ -{old} +{new} @@{turn}")));
            for line in &hunk.lines {
                let style = match line.tag {
                    ChangeTag::Insert => Style::Good,
                    ChangeTag::Delete => Style::Bad,
                    ChangeTag::Equal => Style::Plain,
                };
                lines.push((style, format!("{}{}", line.sign(), line.text)));
            }
        }
        lines
    }
}

/// Returns a text that ends with a newline, unless it is empty. A patch has whole lines.
fn ended(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with('\n') => text.to_owned(),
        text => format!("{text}\n"),
    }
}
