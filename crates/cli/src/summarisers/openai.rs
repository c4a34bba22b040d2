//! A model at a URL that speaks OpenAI's chat completions API, as Ollama, llama.cpp and vLLM do
//! too.

use quipu_ledger::store::Summariser;
use serde::Deserialize;
use serde_json::json;

use super::http::{Endpoint, Key};
use super::{Asks, Model};
use crate::config::SummariserConfig;
use crate::error::Result;

/// The address, unless configured.
const URL: &str = "https://api.openai.com/v1/chat/completions";

struct OpenAi(Endpoint);

pub(super) fn make(config: &SummariserConfig) -> Result<Box<dyn Summariser>> {
    let endpoint = Endpoint::new("openai", URL, Key::Bearer, config)?;
    Ok(Box::new(Asks::new(OpenAi(endpoint), config)))
}

/// The part of an answer that is read.
#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

impl Model for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn ask(&self, prompt: &str, _max_tokens: u64) -> Result<String, String> {
        // No token limit is sent: servers differ in its name, and the prompt states one in words.
        let question = json!({
            "model": self.0.model,
            "messages": [{"role": "user", "content": prompt}],
            "stream": false,
        });
        let answer: Answer = self.0.post(&question, &[])?;
        let first = answer.choices.into_iter().next().ok_or("the answer has no text")?;
        if first.finish_reason.as_deref() == Some("length") {
            return Err("the answer was cut at the model's limit".to_owned());
        }
        first.message.content.ok_or_else(|| "the answer has no text".to_owned())
    }
}
