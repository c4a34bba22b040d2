//! One session: its entries, its tree, and what a model sees of it.

use std::ops::ControlFlow;

use quipu_ledger::ids::EntryId;
use quipu_ledger::query::{self, Choice, Story};
use quipu_ledger::store::{CompactionSettings, headroom_of, meta_of};
use quipu_ledger::wire::{ModelContext, ShownEntry};
use quipu_transcript::entry::Role;
use quipu_transcript::prices::Prices;
use quipu_transcript::story::{StoryDetail, StoryItem, Tools};
use serde::Deserialize;

use crate::answer::{Answer, ListBuilder};
use crate::call::{Call, Page};
use crate::problem::Problem;

/// The options of the entries of a session. They are those of `quipu show`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryOptions {
    #[serde(default)]
    full: bool,
    #[serde(default)]
    thinking: bool,
    tools: Option<ToolOption>,
    #[serde(default)]
    compactions: bool,
    branch: Option<String>,
    turn: Option<u64>,
    entry: Option<String>,
    around: Option<String>,
    context: Option<u64>,
    #[serde(default)]
    prompts: bool,
    last: Option<u64>,
    role: Option<RoleOption>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolOption {
    Names,
    Inputs,
    Full,
}

impl ToolOption {
    /// Returns the parts of tool calls to show.
    pub(super) fn tools(self) -> Tools {
        match self {
            ToolOption::Names => Tools::Names,
            ToolOption::Inputs => Tools::Inputs,
            ToolOption::Full => Tools::Full,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RoleOption {
    User,
    Assistant,
    Tool,
}

/// The number of entries on either side of `around` if the request has no `context`.
const AROUND: u64 = 3;

/// The direction of a page, and the entry next to which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    After(i64),
    Before(i64),
}

impl EntryOptions {
    fn detail(&self) -> StoryDetail {
        // A single entry is shown in full.
        let is_full = self.full || self.entry.is_some();
        let default = if is_full { StoryDetail::FULL } else { StoryDetail::DEFAULT };
        StoryDetail {
            thinking: default.thinking || self.thinking,
            compactions: default.compactions || self.compactions,
            tools: self.tools.map_or(default.tools, ToolOption::tools),
            ..default
        }
    }

    fn choice(&self, place: Place, prices: &Prices) -> Choice {
        let is_start = place == Place::Start;
        Choice {
            detail: self.detail(),
            role: self.role.as_ref().map(|role| match role {
                RoleOption::User => Role::User,
                RoleOption::Assistant => Role::Assistant,
                RoleOption::Tool => Role::Tool,
            }),
            turn: self.turn,
            last: match place {
                Place::Start => self.last,
                Place::After(_) => None,
                Place::Before(_) => Some(self.limit() as u64),
            },
            branch: self.branch.clone(),
            entry: self.entry.clone(),
            at: self.around.clone().filter(|_| is_start),
            around: self.context.unwrap_or(AROUND),
            after: match place {
                Place::After(entry) => Some(entry),
                Place::Start | Place::Before(_) => None,
            },
            before: match place {
                Place::Before(entry) => Some(entry),
                Place::Start | Place::After(_) => None,
            },
            prices: Some(prices.clone()),
        }
    }

    fn limit(&self) -> usize {
        Page { limit: self.limit, cursor: None }.limit()
    }

    /// Returns the place where the page begins.
    fn place(&self, call: &Call<'_>) -> Result<Place, Problem> {
        let Some(cursor) = &self.cursor else { return Ok(Place::Start) };
        let position = call.list().position(cursor)?;
        let entry = |digits: &str| digits.parse().map_err(|_| Problem::bad_cursor());
        match (position.strip_prefix('a'), position.strip_prefix('b')) {
            (Some(digits), _) => Ok(Place::After(entry(digits)?)),
            (_, Some(digits)) => Ok(Place::Before(entry(digits)?)),
            (None, None) => Err(Problem::bad_cursor()),
        }
    }
}

/// The entries of one page.
struct Entries {
    list: ListBuilder,
    /// The first and the last entry of the page, by their numbers in the ledger.
    ends: Option<(i64, i64)>,
    /// True if entries follow that did not fit.
    is_cut: bool,
    failed: Option<Problem>,
}

impl Entries {
    fn add(&mut self, item: &StoryItem<'_>, detail: StoryDetail) -> ControlFlow<()> {
        let line = EntryId(item.entry).seq();
        // A page never ends inside a line: the next one begins with the line after it.
        let is_same_line = self.ends.is_some_and(|(_, last)| EntryId(last).seq() == line);
        if self.list.is_full() && !is_same_line {
            self.is_cut = true;
            return ControlFlow::Break(());
        }
        if let Err(problem) = self.list.push(&ShownEntry::of(item, detail)) {
            self.failed = Some(problem);
            return ControlFlow::Break(());
        }
        // The last line may still change, so no page begins next to it.
        if !item.is_provisional {
            let first = self.ends.map_or(item.entry, |(first, _)| first);
            self.ends = Some((first, item.entry));
        }
        ControlFlow::Continue(())
    }
}

/// Answers like `quipu show`, page by page.
pub(crate) fn entries(call: &Call<'_>) -> Result<Answer, Problem> {
    let asked: EntryOptions = call.options()?;
    let place = asked.place(call)?;
    let story = Story::open(call.ledger, call.session()?)?;
    let choice = asked.choice(place, &call.settings.prices);
    let at = choice.at.as_deref().map(|name| story.entry(name)).transpose()?;
    let limit = match place {
        // Results of tools are not counted when a page is read backwards.
        Place::Before(_) => usize::MAX,
        Place::Start | Place::After(_) => asked.limit(),
    };
    let mut page =
        Entries { list: ListBuilder::new(limit), ends: None, is_cut: false, failed: None };
    story.each_item(&choice, &mut |item| {
        if asked.prompts && !item.is_asked() {
            return ControlFlow::Continue(());
        }
        let detail = if at == Some(item.entry) { StoryDetail::FULL } else { choice.detail };
        page.add(item, detail)
    })?;
    if let Some(problem) = page.failed {
        return Err(problem);
    }
    let list = call.list();
    let has_more = page.is_cut || at.is_some() || matches!(place, Place::Before(_));
    let has_earlier = place != Place::Start || choice.last.is_some() || at.is_some();
    let next = page.ends.filter(|_| has_more).map(|(_, last)| list.cursor(&format!("a{last}")));
    let previous =
        page.ends.filter(|_| has_earlier).map(|(first, _)| list.cursor(&format!("b{first}")));
    page.list.finish_between(previous, next, call.freshness)
}

/// Answers like `quipu tree`.
pub(crate) fn tree(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        limit: Option<usize>,
        cursor: Option<String>,
    }
    let Options { limit, cursor } = call.options()?;
    let lines = query::tree_of(call.ledger, call.session()?)?;
    call.page(&lines, &Page { limit, cursor })
}

/// Answers like `quipu session context --json`.
pub(crate) fn context(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        leaf: Option<String>,
        budget: Option<u64>,
    }
    let Options { leaf, budget } = call.options()?;
    let seen = query::context_of(call.ledger, call.session()?, leaf.as_deref())?;
    let (seen, size) = match budget {
        Some(budget) => {
            let (seen, size) = seen.fit(budget);
            (seen, Some(size))
        }
        None => (seen, None),
    };
    call.object(&ModelContext {
        context_tokens: size.map(|size| size.tokens),
        shortened_results: size.map(|size| size.shortened),
        ..ModelContext::of(&seen.context)
    })
}

/// Answers like `quipu session headroom --json`.
pub(crate) fn headroom(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        window: Option<u64>,
    }
    let Options { window } = call.options()?;
    if window == Some(0) {
        return Err(Problem::bad_request("`window` is at least 1"));
    }
    let settings = CompactionSettings { window, ..call.settings.compaction.clone() };
    call.object(&headroom_of(call.ledger, call.session()?, &settings)?)
}

/// Answers like `quipu session meta`: the metadata alone, because its fields are the agent's.
pub(crate) fn meta(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {}
    let Options {} = call.options()?;
    Answer::json(&meta_of(call.ledger, call.session()?)?)
}
