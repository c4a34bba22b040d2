//! Masks secrets in a story.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Redactor;
use crate::entry::{Compaction, RawJson, Sender};
use crate::story::{
    CALL_COLUMNS, CustomState, ItemKind, LabelChange, Piece, Rewind, StoryCall, StoryItem,
    StoryResult, about,
};

impl Redactor {
    /// Returns a story item with secrets masked.
    pub fn mask_item<'i>(&mut self, item: &'i StoryItem<'_>) -> StoryItem<'i> {
        StoryItem {
            id: self.option(item.id.as_deref()),
            parent: self.owned(item.parent.as_deref()),
            type_name: self.mask(&item.type_name),
            kind: self.kind(&item.kind),
            role: item.role,
            time: item.time,
            turn: item.turn,
            model: self.option(item.model.as_deref()),
            provider: self.option(item.provider.as_deref()),
            api: self.option(item.api.as_deref()),
            stop_reason: self.option(item.stop_reason.as_deref()),
            usage: item.usage,
            counted: item.counted,
            custom: item.custom.as_ref().map(|custom| CustomState {
                custom_type: self.mask(&custom.custom_type),
                data: custom.data.as_ref().map(|data| self.raw(data)),
            }),
            label: item.label.as_ref().map(|change| LabelChange {
                target: self.mask(&change.target),
                label: self.option(change.label.as_deref()),
            }),
            thinking_level: self.option(item.thinking_level.as_deref()),
            pieces: self.pieces(&item.pieces),
            rewind: item.rewind.as_ref().map(|rewind| Rewind {
                to_turn: rewind.to_turn,
                to: self.owned(rewind.to.as_deref()),
                is_within_turn: rewind.is_within_turn,
                last_turn: rewind.last_turn,
            }),
            entry: item.entry,
            folded: item.folded,
            is_prompt: item.is_prompt,
            is_automatic: item.is_automatic,
            sender: item.sender.as_ref().map(|sender| Sender {
                name: self.owned(sender.name.as_deref()),
                channel: self.owned(sender.channel.as_deref()),
                message_id: self.owned(sender.message_id.as_deref()),
            }),
            is_error: item.is_error,
            is_interrupt: item.is_interrupt,
            is_queued: item.is_queued,
            is_relayed: item.is_relayed,
            is_provisional: item.is_provisional,
            is_absent: item.is_absent,
            missing_parent: self.owned(item.missing_parent.as_deref()),
            oversize: item.oversize,
        }
    }

    fn kind<'i>(&mut self, kind: &'i ItemKind<'_>) -> ItemKind<'i> {
        match kind {
            ItemKind::Message => ItemKind::Message,
            ItemKind::Compaction(compaction) => ItemKind::Compaction(Compaction {
                summary: self.mask(&compaction.summary),
                first_kept: self.option(compaction.first_kept.as_deref()),
                compacted_count: compaction.compacted_count,
                tokens_before: compaction.tokens_before,
                tokens_after: compaction.tokens_after,
                trigger: self.option(compaction.trigger.as_deref()),
                read_files: self.all(&compaction.read_files),
                modified_files: self.all(&compaction.modified_files),
            }),
            ItemKind::BranchSummary { summary, from } => ItemKind::BranchSummary {
                summary: self.mask(summary),
                from: self.option(from.as_deref()),
            },
            ItemKind::Reset { reason } => {
                ItemKind::Reset { reason: self.option(reason.as_deref()) }
            }
            ItemKind::Note => ItemKind::Note,
        }
    }

    /// Masks pieces. Consecutive pieces of one kind are one text: a secret may continue in the next
    /// one.
    fn pieces<'i>(&mut self, pieces: &'i [Piece<'_>]) -> Vec<Piece<'i>> {
        let mut masked = Vec::with_capacity(pieces.len());
        for run in pieces.chunk_by(|a, b| {
            text(a).is_some()
                && text(b).is_some()
                && std::mem::discriminant(a) == std::mem::discriminant(b)
        }) {
            if run.len() == 1 {
                masked.extend(run.iter().map(|piece| self.piece(piece)));
                continue;
            }
            let texts: Vec<&'i str> = run.iter().filter_map(text).collect();
            let texts = self.mask_parts(&texts);
            masked.extend(run.iter().zip(texts).map(|(piece, text)| match piece {
                Piece::Thinking(_) => Piece::Thinking(text),
                Piece::Attached { label, gist, .. } => Piece::Attached {
                    label: Cow::Borrowed(label),
                    text,
                    gist: self.cut(gist.as_deref()),
                },
                Piece::Pasted { label, .. } => Piece::Pasted { label: Cow::Borrowed(label), text },
                _ => Piece::Words(text),
            }));
        }
        masked
    }

    fn piece<'i>(&mut self, piece: &'i Piece<'_>) -> Piece<'i> {
        match piece {
            Piece::Words(words) => Piece::Words(self.mask(words)),
            Piece::Attached { label, text, gist } => Piece::Attached {
                label: self.mask(label),
                text: self.mask(text),
                gist: self.cut(gist.as_deref()),
            },
            Piece::Pasted { label, text } => {
                Piece::Pasted { label: self.mask(label), text: self.mask(text) }
            }
            Piece::Thinking(words) => Piece::Thinking(self.mask(words)),
            Piece::Call(call) => Piece::Call(self.call(call)),
            Piece::Result(result) => Piece::Result(self.result(result)),
            Piece::Image { media_type } => {
                Piece::Image { media_type: self.option(media_type.as_deref()) }
            }
            Piece::Other(name) => Piece::Other(self.mask(name)),
        }
    }

    fn call<'i>(&mut self, call: &'i StoryCall<'_>) -> StoryCall<'i> {
        let name = self.mask(&call.name);
        let input = call.input.as_ref().map(|input| self.raw(input));
        // The summary of the call was cut, perhaps in the middle of a secret.
        let columns = CALL_COLUMNS.saturating_sub(name.chars().count() + 1);
        let about = match (&call.about, &input) {
            (Some(_), Some(input)) => about(&name, input.get(), columns),
            (about, _) => about.as_deref().map(|about| self.mask_cut(about).into_owned()),
        };
        StoryCall {
            id: self.option(call.id.as_deref()),
            name,
            about,
            input,
            is_partial: call.is_partial,
            outcome: call.outcome,
            exit_code: call.exit_code,
            subagent: self.owned(call.subagent.as_deref()),
        }
    }

    fn result<'i>(&mut self, result: &'i StoryResult<'_>) -> StoryResult<'i> {
        StoryResult {
            call_id: self.option(result.call_id.as_deref()),
            name: self.option(result.name.as_deref()),
            about: self.cut(result.about.as_deref()),
            text: self.mask(&result.text),
            outcome: result.outcome,
            output_file: self.option(result.output_file.as_deref()),
            images: result.images,
            is_orphan: result.is_orphan,
        }
    }

    fn raw<'i>(&mut self, raw: &'i RawJson<'_>) -> RawJson<'i> {
        let json: &'i str = raw.get();
        match self.mask_json(json) {
            Cow::Borrowed(_) => match raw {
                RawJson::Borrowed(raw) => RawJson::Borrowed(raw),
                RawJson::Owned(raw) => RawJson::Borrowed(raw),
            },
            // The masked text is still JSON.
            Cow::Owned(masked) => match RawValue::from_string(masked) {
                Ok(masked) => RawJson::Owned(masked),
                Err(_) => RawJson::Borrowed(RawValue::NULL),
            },
        }
    }

    fn option<'i>(&mut self, text: Option<&'i str>) -> Option<Cow<'i, str>> {
        text.map(|text| self.mask(text))
    }

    /// Masks a text that was perhaps cut in the middle of a secret.
    fn cut(&mut self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.mask_cut(text).into_owned())
    }

    fn owned(&mut self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.mask(text).into_owned())
    }

    fn all(&mut self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.mask(text).into_owned()).collect()
    }
}

fn text<'i>(piece: &'i Piece<'_>) -> Option<&'i str> {
    match piece {
        Piece::Words(text)
        | Piece::Thinking(text)
        | Piece::Attached { text, .. }
        | Piece::Pasted { text, .. } => Some(text),
        _ => None,
    }
}
