//! Pairs calls with their results for rendering.
//!
//! Agents write the calls of an answer first and all results after them. A rendering buffers calls
//! until another kind of item comes, so that each is shown with its result. Beyond [`MAX_CALLS`] or
//! [`MAX_BYTES`], the buffered calls are shown at once.

use crate::story::{Outcome, Piece, StoryCall, StoryResult, Tools};

use super::clean::line;
use super::{input, words};

/// Maximum number of buffered calls; it bounds memory.
const MAX_CALLS: usize = 256;

/// Maximum size of buffered inputs and results, in bytes; it bounds memory.
const MAX_BYTES: usize = 8 << 20;

/// The printed form of a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    id: Option<String>,
    /// The tool's name, on one line.
    pub(super) name: String,
    /// The one-line summary of the call.
    pub(super) about: Option<String>,
    pub(super) input: Option<String>,
    pub(super) result: Option<String>,
    pub(super) outcome: Option<Outcome>,
    /// The session of the sub-agent that it started.
    pub(super) subagent: Option<String>,
    /// Further remarks.
    pub(super) notes: Vec<String>,
}

/// Calls that wait for their results.
#[derive(Debug, Default)]
pub(super) struct Calls {
    waiting: Vec<Call>,
    size: usize,
}

impl Calls {
    /// Adds a call or a result; returns the calls that are ready to be shown.
    pub(super) fn add(&mut self, piece: &Piece<'_>, tools: Tools) -> Vec<Call> {
        match piece {
            Piece::Call(call) => {
                let ready = if self.waiting.len() >= MAX_CALLS { self.flush() } else { Vec::new() };
                let call = Call::of(call, tools);
                self.size += call.input.as_ref().map_or(0, String::len);
                self.waiting.push(call);
                ready
            }
            Piece::Result(result) => {
                let size = if tools == Tools::Full { result.text.len() } else { 0 };
                let at = self.waiting.iter().position(|call| call.is_answered_by(result));
                match at {
                    Some(at) => {
                        self.size += size;
                        self.waiting[at].answer(result, tools);
                        if self.size > MAX_BYTES { self.flush() } else { Vec::new() }
                    }
                    None => {
                        // Its call was shown earlier, or does not exist.
                        let mut ready = self.flush();
                        if tools == Tools::Full || result.is_orphan {
                            ready.push(Call::answered(result, tools));
                        }
                        ready
                    }
                }
            }
            _ => self.flush(),
        }
    }

    /// Returns all buffered calls, in order.
    pub(super) fn flush(&mut self) -> Vec<Call> {
        self.size = 0;
        std::mem::take(&mut self.waiting)
    }
}

impl Call {
    fn of(call: &StoryCall<'_>, tools: Tools) -> Call {
        let mut notes = Vec::new();
        if call.is_partial {
            notes.push("cut off while it was being written".to_owned());
        }
        Call {
            id: call.id.as_deref().map(str::to_owned),
            name: name(&call.name),
            about: call.about.as_deref().filter(|_| tools > Tools::Names).map(line),
            input: call
                .input
                .as_ref()
                .filter(|_| tools >= Tools::Inputs)
                .map(|input| input::pretty(input.get())),
            result: None,
            outcome: call.outcome,
            subagent: call.subagent.as_deref().map(line),
            notes,
        }
    }

    /// Returns a result whose call is not in the buffer.
    fn answered(result: &StoryResult<'_>, tools: Tools) -> Call {
        let mut call = Call {
            name: name(result.name.as_deref().unwrap_or_default()),
            about: result.about.as_deref().filter(|_| tools > Tools::Names).map(line),
            ..Call::default()
        };
        call.notes
            .push(if result.is_orphan { "result without a call" } else { "result" }.to_owned());
        call.answer(result, tools);
        call
    }

    fn is_answered_by(&self, result: &StoryResult<'_>) -> bool {
        self.id.is_some() && self.id.as_deref() == result.call_id.as_deref()
    }

    fn answer(&mut self, result: &StoryResult<'_>, tools: Tools) {
        if self.outcome.is_none() || result.outcome == Outcome::Failed {
            self.outcome = Some(result.outcome);
        }
        if result.images > 0 {
            self.notes.push(words::count(result.images.into(), "image"));
        }
        if tools == Tools::Full {
            let text = self.result.get_or_insert_default();
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&result.text);
            if let Some(file) = &result.output_file {
                self.notes.push(format!("full output in {}", line(file)));
            }
        }
    }
}

fn name(name: &str) -> String {
    let name = line(name);
    if name.is_empty() { "(no name)".to_owned() } else { name }
}
