//! The summarisers that a configuration can choose: one list of them, and one file for each that
//! the ledger does not provide.

mod anthropic;
mod command;
mod http;
mod openai;

use std::cell::RefCell;

use quipu_ledger::store::{Digest, Summariser};
use quipu_transcript::compaction::{Question, Request, notes_prompt, prompt};
use quipu_transcript::redact::Redactor;

use crate::config::SummariserConfig;
use crate::error::Result;

/// The kinds of summarisers, by the name in the configuration.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "digest", make: |_| Ok(Box::new(Digest)) },
    Kind { name: "command", make: command::make },
    Kind { name: "openai", make: openai::make },
    Kind { name: "anthropic", make: anthropic::make },
];

/// One kind of summariser.
pub(crate) struct Kind {
    /// The name.
    pub(crate) name: &'static str,
    make: fn(&SummariserConfig) -> Result<Box<dyn Summariser>>,
}

/// Returns the configured summariser; the digest by default.
pub(crate) fn configured(config: &SummariserConfig) -> Result<Box<dyn Summariser>> {
    let name = config.kind.unwrap_or("digest");
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => (kind.make)(config),
        None => Ok(Box::new(Digest)),
    }
}

/// A model that answers prompts.
trait Model {
    fn name(&self) -> &'static str;

    /// Returns the answer, or the reason why there is none. The reason quotes neither the prompt nor
    /// the answer.
    fn ask(&self, prompt: &str, max_tokens: u64) -> Result<String, String>;
}

/// The tokens that notes may have.
const MAX_NOTES_TOKENS: u64 = 4096;

/// A summariser that asks a model. Secrets are masked in what it is given, unless configured.
struct Asks<M> {
    model: M,
    /// One for all questions, so that a secret has the same number in each.
    redactor: Option<RefCell<Redactor>>,
}

impl<M> Asks<M> {
    fn new(model: M, config: &SummariserConfig) -> Asks<M> {
        let redactor = config.redact.unwrap_or(true).then(RefCell::default);
        Asks { model, redactor }
    }
}

impl<M: Model> Summariser for Asks<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn summarise(&self, request: &Request<'_>) -> Result<String, String> {
        let mut redactor = self.redactor.as_ref().map(RefCell::borrow_mut);
        let text = prompt(request, redactor.as_deref_mut());
        self.model.ask(&text, request.max_tokens)
    }

    fn answer(&self, question: &Question<'_>) -> Option<Result<String, String>> {
        let mut redactor = self.redactor.as_ref().map(RefCell::borrow_mut);
        let text = notes_prompt(question, redactor.as_deref_mut());
        Some(self.model.ask(&text, MAX_NOTES_TOKENS))
    }
}
