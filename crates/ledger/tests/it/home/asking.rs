//! Questions to a home's ledger: searches, always at the same time, and what is told of a session.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use quipu_ledger::wire::SearchAnswer;
use quipu_ledger::{Choice, Fts5Access, Ledger, SearchRequest, Story};
use quipu_transcript::search::query::{self, Query, QueryError};
use quipu_transcript::story::StoryItem;

use super::Home;

/// Reads what a person types.
pub(crate) fn parse(text: &str) -> Result<Query, QueryError> {
    query::parse(text, &"2026-11-16T08:30:00[UTC]".parse().unwrap())
}

/// A search for what a person types.
#[track_caller]
pub(crate) fn request(text: &str) -> SearchRequest {
    SearchRequest { query: parse(text).unwrap(), ..SearchRequest::default() }
}

impl Home {
    /// Searches by reading the index's pages and through plain FTS5: both say the same.
    #[track_caller]
    pub(crate) fn search(&self, request: &SearchRequest) -> SearchAnswer {
        let [direct, plain] = [Fts5Access::Direct, Fts5Access::Plain].map(|access| {
            let mut ledger = self.open();
            ledger.force_fts5_access(access);
            quipu_ledger::search(&ledger, request).unwrap()
        });
        assert_eq!(format!("{direct:?}"), format!("{plain:?}"), "{request:?}");
        direct
    }

    /// What `each` makes of the items that are told of a session.
    #[track_caller]
    pub(crate) fn told<T>(
        &self,
        session: &str,
        choice: &Choice,
        mut each: impl FnMut(&StoryItem<'_>) -> T,
    ) -> Vec<T> {
        let ledger = self.open();
        let mut told = Vec::new();
        Story::find(&ledger, session)
            .unwrap()
            .tell(choice, &mut |item| {
                told.push(each(item));
                ControlFlow::Continue(())
            })
            .unwrap();
        told
    }

    /// How many steps SQLite takes to answer.
    pub(crate) fn steps<T>(&self, ask: impl FnOnce(&Ledger) -> T) -> (T, u64) {
        let mut ledger = self.open();
        let steps = ledger.count_steps().unwrap();
        let answer = ask(&ledger);
        (answer, steps.load(Ordering::Relaxed))
    }
}
