//! The records of a story, byte for byte.
//!
//! The bytes are never changed.

use std::ops::ControlFlow;

use super::{Choice, Story, choice};
use crate::Result;
use crate::base::ids::{EntryId, GenerationId};
use crate::truth::chunks::RecordReader;
use crate::truth::tails;

impl Story<'_> {
    /// Passes the bytes of every record that the story would show to `each`, in parts, until it
    /// stops. A record ends as in the agent's file: with a newline, unless it is the last one.
    pub fn raw(
        &self,
        choice: &Choice,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut reader = RecordReader::new(self.conn);
        // An entry that is chosen by name is returned even if a newer version replaced it.
        if let Some(name) = &choice.entry
            && let Some(seq) = choice::find_entry(self.conn, self.row, name)?.seq()
        {
            return reader.stream(seq, &mut |part| Ok(each(part).is_continue()));
        }
        let mut last = None;
        let mut failed = Ok(());
        self.each_item(choice, &mut |item| {
            let seq = choice::seq_of(item.entry);
            // The other entries of a line with several JSON values are in the same record.
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
