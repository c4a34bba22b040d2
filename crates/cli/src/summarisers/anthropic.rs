//! A model at a URL that speaks Anthropic's messages API.

use quipu_ledger::store::Summariser;
use serde::Deserialize;
use serde_json::json;

use super::http::{Endpoint, Key};
use super::{Asks, Model};
use crate::config::SummariserConfig;
use crate::error::Result;

/// The address, unless configured.
const URL: &str = "https://api.anthropic.com/v1/messages";

/// The header with the version of the API.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The smallest limit of an answer that is sent, in tokens. The API requires one.
const MIN_TOKENS: u64 = 1024;
/// The largest limit of an answer that is sent, in tokens. Every model that takes long prompts can
/// answer this much.
const MAX_TOKENS: u64 = 8192;

struct Anthropic(Endpoint);

pub(super) fn make(config: &SummariserConfig) -> Result<Box<dyn Summariser>> {
    let endpoint = Endpoint::new("anthropic", URL, Key::Header("x-api-key"), config)?;
    Ok(Box::new(Asks::new(Anthropic(endpoint), config)))
}

/// The part of an answer that is read.
#[derive(Deserialize)]
struct Answer {
    content: Vec<Block>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

impl Model for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn ask(&self, prompt: &str, max_tokens: u64) -> Result<String, String> {
        let question = json!({
            "model": self.0.model,
            "max_tokens": max_tokens.clamp(MIN_TOKENS, MAX_TOKENS),
            "messages": [{"role": "user", "content": prompt}],
        });
        let answer: Answer = self.0.post(&question, &[VERSION])?;
        if answer.stop_reason.as_deref() == Some("max_tokens") {
            return Err("the answer was cut at the model's limit".to_owned());
        }
        let blocks = answer.content.into_iter().filter(|block| block.kind == "text");
        let text: String = blocks.filter_map(|block| block.text).collect();
        match text.is_empty() {
            true => Err("the answer has no text".to_owned()),
            false => Ok(text),
        }
    }
}
