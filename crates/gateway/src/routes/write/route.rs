//! The session that a message belongs to.

use quipu_ledger::store::bootstrap_of;
use quipu_transcript::routing::{Channel, Chat, Inbound, Thread};
use serde::Deserialize;

use super::Work;
use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::given::Given;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    channel: String,
    #[serde(default = "direct")]
    chat: String,
    peer: String,
    sender: Option<String>,
    account: Option<String>,
    thread: Option<String>,
    topic: Option<String>,
    agent: Option<String>,
    text: String,
    cwd: Option<String>,
}

fn direct() -> String {
    Chat::Direct.as_str().to_owned()
}

/// Finds or creates the session of a message, like `quipu session route`.
pub(crate) fn route(given: Given) -> Result<Work, Problem> {
    given.refuse_conditions()?;
    let asked: Body = given.body()?;
    if asked.thread.is_some() && asked.topic.is_some() {
        return Err(Problem::bad_request("a message has a `thread` or a `topic`, not both"));
    }
    let bad = |error: &dyn std::error::Error| Problem::bad_request(error.to_string());
    let inbound = Inbound {
        agent: given.agent_id(asked.agent.as_deref())?,
        channel: Channel::parse(&asked.channel).map_err(|error| bad(&error))?,
        account: asked.account,
        chat: Chat::parse(&asked.chat)
            .ok_or_else(|| Problem::bad_request("`chat` is direct, group, channel or room"))?,
        peer: asked.peer,
        sender: asked.sender.unwrap_or_default(),
        thread: match (asked.topic, asked.thread) {
            (Some(topic), _) => Some(Thread::Topic(topic)),
            (None, thread) => thread.map(Thread::Thread),
        },
        text: asked.text,
    };
    Work::on_thread(move |store| {
        let settings = &given.shared.settings;
        let now = jiff::Timestamp::now().as_millisecond();
        let (rules, zone) = (&settings.routing, &settings.zone);
        let routed = store.route_in(asked.cwd.as_deref(), rules, &inbound, now, zone)?;
        // Only a folder that the configuration names is looked at, never one that a request names.
        let workspace = settings.compaction.workspaces.get(inbound.agent.as_str());
        let bootstrap = match workspace {
            Some(workspace) if routed.starts => bootstrap_of(workspace)?,
            _ => Vec::new(),
        };
        Answer::json(&routed.message(bootstrap))
    })
}
