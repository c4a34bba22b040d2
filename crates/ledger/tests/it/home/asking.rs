//! Queries to a home's ledger: searches, with a fixed clock, and stories of sessions.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use quipu_ledger::Ledger;
use quipu_ledger::query::{Choice, Story};
use quipu_ledger::search::{Fts5Access, SearchRequest};
use quipu_ledger::wire::{SearchAnswer, SearchWork};
use quipu_transcript::search::query::{self, Query, QueryError};
use quipu_transcript::story::StoryItem;

use super::Home;

/// Parses a query as a person types it.
pub(crate) fn parse(text: &str) -> Result<Query, QueryError> {
    query::parse(text, &"2026-11-16T08:30:00[UTC]".parse().unwrap())
}

/// Returns a search request for a query as a person types it.
#[track_caller]
pub(crate) fn request(text: &str) -> SearchRequest {
    SearchRequest { query: parse(text).unwrap(), ..SearchRequest::default() }
}

impl Home {
    /// Searches by reading the index's pages and through plain FTS5, and asserts that both agree.
    #[track_caller]
    pub(crate) fn search(&self, request: &SearchRequest) -> SearchAnswer {
        let [direct, plain] = [Fts5Access::Direct, Fts5Access::Plain].map(|access| {
            let mut ledger = self.open();
            ledger.force_fts5_access(access);
            quipu_ledger::search::search(&ledger, request).unwrap()
        });
        // Terms that no row holds are read from pages only.
        let answer = |answer: &SearchAnswer| {
            let work = SearchWork { terms: 0, ..answer.work };
            format!("{:?}", SearchAnswer { work, ..answer.clone() })
        };
        assert_eq!(answer(&direct), answer(&plain), "{request:?}");
        direct
    }

    /// Returns what `each` makes of the items of a session's story.
    #[track_caller]
    pub(crate) fn items_of<T>(
        &self,
        session: &str,
        choice: &Choice,
        mut each: impl FnMut(&StoryItem<'_>) -> T,
    ) -> Vec<T> {
        let ledger = self.open();
        let mut items_of = Vec::new();
        Story::find(&ledger, session)
            .unwrap()
            .each_item(choice, &mut |item| {
                items_of.push(each(item));
                ControlFlow::Continue(())
            })
            .unwrap();
        items_of
    }

    /// Counts the steps that SQLite takes for a query.
    pub(crate) fn steps<T>(&self, ask: impl FnOnce(&Ledger) -> T) -> (T, u64) {
        let mut ledger = self.open();
        let steps = ledger.count_steps().unwrap();
        let answer = ask(&ledger);
        (answer, steps.load(Ordering::Relaxed))
    }
}
