//! The records behind a story, byte for byte.

use std::ops::ControlFlow;

use super::{Choice, Story, choice};
use crate::Result;
use crate::base::ids::{EntryId, GenerationId};
use crate::truth::chunks::RecordReader;
use crate::truth::tails;

impl Story<'_> {
    /// Hands the bytes of every record that would be told to `each`, piece by piece, until it has
    /// enough. A record ends as it does in the agent's file: with a newline, unless it is the last.
    pub fn raw(
        &self,
        choice: &Choice,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut reader = RecordReader::new(self.conn);
        // Whoever names an entry gets its record, also where a newer version has taken its place.
        if let Some(name) = &choice.entry
            && let Some(seq) = choice::find_entry(self.conn, self.row, name)?.seq()
        {
            return reader.stream(seq, &mut |part| Ok(each(part).is_continue()));
        }
        let mut last = None;
        let mut failed = Ok(());
        self.tell(choice, &mut |item| {
            let seq = choice::seq_of(item.entry);
            // The other entries of a welded line are in the same record.
            if seq.is_some() && seq == last {
                return ControlFlow::Continue(());
            }
            last = seq;
            let mut flow = ControlFlow::Continue(());
            let read = match seq {
                Some(seq) => reader.stream(seq, &mut |part| {
                    flow = each(part);
                    Ok(flow.is_continue())
                }),
                None => {
                    let generation = GenerationId(EntryId(item.entry).0.saturating_neg());
                    tails::stream(self.conn, generation, &mut |part| {
                        if flow.is_continue() {
                            flow = each(part);
                        }
                        Ok(())
                    })
                }
            };
            if let Err(error) = read {
                failed = Err(error);
                return ControlFlow::Break(());
            }
            flow
        })?;
        failed
    }
}
