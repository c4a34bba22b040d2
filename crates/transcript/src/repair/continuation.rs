//! Writes the lines of a repaired path.
//!
//! Messages are written as the context has them: edits are applied, and results follow their calls.
//! All other entries are copied as they are, except that ids in them name the copies. Labels are
//! left out: they stay with the originals.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::json;

use super::COPY_FIELD;
use super::find::{ChangeKind, PathLine, PathLineKind, Repair};
use crate::context::messages::{self, Maker};
use crate::context::pairing::{self, Place};
use crate::context::{Message, row, written};
use crate::json::object::Object;
use crate::record::DECODE_LIMIT;
use crate::time::Timestamp;

/// The custom type of the entry with which a continuation begins.
const NOTE_TYPE: &str = "quipu.repair";

/// The place where the repaired path is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Into the same session, from the first entry that changes. Copies have new ids.
    Branch,
    /// Into a new session, as a whole. Copies keep their ids.
    Session,
}

/// The lines of a repaired path.
#[derive(Debug)]
pub struct Continuation {
    /// The entry that the first line follows; `None` if it begins a new tree.
    pub after: Option<String>,
    /// The lines, each with its newline. Each follows the one before it.
    pub lines: Vec<String>,
    /// The id of the last line.
    pub last: Option<String>,
}

/// Returns an id that no entry of the session has.
pub type NewId<'a, E> = dyn FnMut() -> Result<String, E> + 'a;

impl Repair {
    /// Returns the lines that [`Repair::continuation`] needs as a whole.
    pub fn lines_to_copy(&self, copies: Copies) -> Vec<usize> {
        let from = self.from(copies);
        let is_edit =
            |one: &PathLine| one.is_shown && matches!(one.kind, PathLineKind::Edit { .. });
        let path = self.path.iter().enumerate();
        path.filter(|(place, one)| *place >= from || is_edit(one))
            .map(|(_, one)| one.line)
            .collect()
    }

    /// Returns the lines of the repaired path. `text` has those of [`Repair::lines_to_copy`].
    pub fn continuation<'a, E>(
        &self,
        copies: Copies,
        text: &dyn Fn(usize) -> Option<&'a str>,
        new_id: &mut NewId<'_, E>,
        now: Timestamp,
    ) -> Result<Continuation, E> {
        let from = self.from(copies);
        let before = from.checked_sub(1).and_then(|place| self.path.get(place));
        let after = before.and_then(|one| one.id.as_deref()).map(str::to_owned);
        let mut work = Work {
            repair: self,
            copies,
            from,
            text,
            new_id,
            now: now.to_iso(),
            results: HashMap::new(),
            place_of: vec![0; self.messages.len()],
            edits: HashMap::new(),
            applied: HashSet::new(),
            taken: HashSet::new(),
            copy_of: HashMap::new(),
            made: vec![None; self.path.len()],
            done: Continuation { after: after.clone(), lines: Vec::new(), last: after },
        };
        work.prepare();
        work.note()?;
        for one in self.path.iter().take(from) {
            for message in one.first..one.end {
                work.results_of(message)?;
            }
        }
        for (place, one) in self.path.iter().enumerate().skip(from) {
            work.copy(place, one)?;
        }
        Ok(work.done)
    }

    /// Returns the position on the path of the first entry that is copied.
    fn from(&self, copies: Copies) -> usize {
        match copies {
            Copies::Branch => self.first,
            Copies::Session => 0,
        }
    }
}

struct Work<'r, 'a, E> {
    repair: &'r Repair,
    copies: Copies,
    from: usize,
    text: &'r dyn Fn(usize) -> Option<&'a str>,
    new_id: &'r mut NewId<'r, E>,
    now: String,
    /// The results that follow each message, and errors in place of missing ones.
    results: HashMap<usize, Vec<&'r Place>>,
    /// For each message, the position of its entry on the path.
    place_of: Vec<usize>,
    /// The edits in effect, by the id of the entry that they change. True if they remove it.
    edits: HashMap<String, bool>,
    /// The ids of entries whose copies are written as they were edited.
    applied: HashSet<&'r str>,
    /// The ids of the copies.
    taken: HashSet<String>,
    /// The copy of each entry, by its id.
    copy_of: HashMap<&'r str, String>,
    /// The id of the copy of each entry, by its position on the path.
    made: Vec<Option<String>>,
    done: Continuation,
}

impl<'r, 'a, E> Work<'r, 'a, E> {
    fn prepare(&mut self) {
        let repair = self.repair;
        let mut caller = 0;
        for place in &repair.order.places {
            match place {
                Place::Message(message) => caller = *message,
                other => self.results.entry(caller).or_default().push(other),
            }
        }
        for (place, one) in repair.path.iter().enumerate() {
            for at in self.place_of.get_mut(one.first..one.end).into_iter().flatten() {
                *at = place;
            }
            if let (PathLineKind::Message { .. } | PathLineKind::Shown, Some(id)) =
                (&one.kind, one.id.as_deref())
                && place >= self.from
                && one.is_shown
            {
                self.applied.insert(id);
            }
            if let (PathLineKind::Edit { target }, true) = (&one.kind, one.is_shown) {
                let edit = self.object(one);
                let replacement = edit.as_ref().and_then(|edit| edit.get("replacement"));
                let removes = replacement.is_some_and(|value| value.get() == "null");
                self.edits.insert(target.to_string(), removes);
            }
        }
    }

    /// Returns the fields of an entry's line.
    fn object(&self, one: &PathLine) -> Option<Object<'a>> {
        Object::read(row::clean((self.text)(one.line)?))
    }

    /// Adds an entry with the list of repairs. No model sees it.
    fn note(&mut self) -> Result<(), E> {
        let mut counts: BTreeMap<ChangeKind, u64> = BTreeMap::new();
        for change in &self.repair.changes {
            *counts.entry(change.kind).or_default() += 1;
        }
        let mut note = Object::default();
        note.put("type", &"custom");
        note.put("customType", &NOTE_TYPE);
        note.put("data", &json!({"leaf": self.repair.leaf, "changes": counts}));
        self.put(note, None).map(drop)
    }

    /// Copies an entry of the path, with the results that follow it.
    fn copy(&mut self, place: usize, one: &'r PathLine) -> Result<(), E> {
        let Some(mut object) = self.object(one) else { return Ok(()) };
        let edit = one.id.as_deref().and_then(|id| self.edits.get(id)).copied();
        match &one.kind {
            PathLineKind::Invalid => return Ok(()),
            PathLineKind::Message { .. } if one.first < one.end => {
                for message in one.first..one.end {
                    self.message(place, one, &object, message)?;
                }
                return Ok(());
            }
            PathLineKind::Message { .. } if one.is_shown && edit == Some(true) => {
                return self.removed(place, one, &object);
            }
            PathLineKind::Message { is_bare: true } => {
                let mut made = Vec::new();
                let text = (self.text)(one.line).unwrap_or_default();
                Maker::default().message(row::clean(text), true, None, &mut made);
                let Some(message) = made.last() else { return Ok(()) };
                object = self.wrapped(&object, message);
            }
            PathLineKind::Shown if one.is_shown && edit == Some(true) => return Ok(()),
            PathLineKind::Shown if one.first < one.end && edit == Some(false) => {
                let message = self.repair.messages.get(one.first);
                let message = message.and_then(|message| Object::read(message.json()));
                if let Some(content) = message.and_then(|mut message| message.take("content"))
                    && object.text("type").as_deref() == Some("custom_message")
                {
                    object.set("content", Cow::Owned(content.into_owned()));
                }
            }
            PathLineKind::Edit { target } => {
                if one.is_shown && self.applied.contains(&**target) {
                    return Ok(());
                }
                if let Some(copy) = self.copy_of.get(&**target) {
                    object.put("targetId", copy);
                }
            }
            PathLineKind::Other if object.text("type").as_deref() == Some("label") => return Ok(()),
            PathLineKind::Message { .. }
            | PathLineKind::Shown
            | PathLineKind::Boundary { .. }
            | PathLineKind::Other => {}
        }
        let id = self.id(one.id.as_deref())?;
        if let PathLineKind::Boundary { first_kept } = one.kind {
            self.keep(place, first_kept, &id, &mut object);
        }
        self.put_as(object, Some(one), &id);
        self.set_made(place, id);
        Ok(())
    }

    /// Lets a compaction or a reset keep the copies of the entries that it keeps.
    fn keep(&self, place: usize, first: Option<usize>, own: &str, object: &mut Object<'_>) {
        match first {
            // The first kept entry is not copied, so its id stays valid.
            Some(first) if first < self.from => {}
            Some(first) => {
                let copies = self.made.get(first..place).unwrap_or_default();
                let first = copies.iter().flatten().next().map_or(own, String::as_str);
                object.take("firstKeptEntryIndex");
                object.put("firstKeptEntryId", &first);
            }
            // In the copy, lines and messages have other numbers.
            None if object.has("firstKeptEntryIndex")
                || object.has("compactedCount") && !object.has("firstKeptEntryId") =>
            {
                object.take("firstKeptEntryIndex");
                object.put("firstKeptEntryId", &own);
            }
            None => {}
        }
    }

    /// Copies a message unless it is a result, with the results that follow it.
    fn message(
        &mut self,
        place: usize,
        one: &'r PathLine,
        object: &Object<'a>,
        message: usize,
    ) -> Result<(), E> {
        let Some(written) = self.repair.messages.get(message) else { return Ok(()) };
        if pairing::is_result(written) {
            return Ok(());
        }
        let written = self.whole(one, message).unwrap_or_else(|| written.clone());
        let id = self.id(one.id.as_deref())?;
        let object = self.with_message(one, object, &written);
        self.put_as(object, Some(one), &id);
        self.set_made(place, id);
        self.results_of(message)
    }

    /// Adds the results that follow a message. Results of an entry that is not copied need no copy
    /// either.
    fn results_of(&mut self, caller: usize) -> Result<(), E> {
        // The time of a message with thousands of calls is read once.
        let mut time = None;
        for place in self.results.remove(&caller).unwrap_or_default() {
            match place {
                Place::Message(_) => {}
                Place::Result { message, call } => {
                    let at = self.place_of.get(*message).copied().unwrap_or_default();
                    let one = self.repair.path.get(at).filter(|_| at >= self.from);
                    let Some(one) = one else { continue };
                    let Some(object) = self.object(one) else { continue };
                    let Some(result) = self.repair.messages.get(*message) else { continue };
                    let result = self.whole(one, *message).unwrap_or_else(|| result.clone());
                    let result = pairing::named(result, call);
                    let id = self.id(one.id.as_deref())?;
                    let object = self.with_message(one, &object, &result);
                    self.put_as(object, Some(one), &id);
                }
                Place::Missing(call) => {
                    let caller = || self.repair.messages.get(caller).and_then(pairing::time_of);
                    let time = time.get_or_insert_with(caller);
                    let Some(missing) = pairing::missing(call, time.as_deref()) else { continue };
                    let mut entry = Object::default();
                    entry.put("type", &"message");
                    entry.put("message", &missing);
                    self.put(entry, None)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the whole message of a line of which the context has only the beginning.
    fn whole(&self, one: &PathLine, message: usize) -> Option<Message> {
        let text = (self.text)(one.line).filter(|text| text.len() > DECODE_LIMIT)?;
        let mut made = Vec::new();
        let is_bare = matches!(one.kind, PathLineKind::Message { is_bare: true });
        Maker::default().message(row::clean(text), is_bare, None, &mut made);
        made.into_iter().nth(message - one.first)
    }

    /// Returns an entry with this message.
    fn with_message(&self, one: &PathLine, object: &Object<'a>, message: &Message) -> Object<'a> {
        if matches!(one.kind, PathLineKind::Message { is_bare: true }) {
            return self.wrapped(object, message);
        }
        let mut object = object.clone();
        if object.get("message").is_none_or(|written| written.get() != message.json()) {
            object.put("message", &message);
        }
        object
    }

    /// Returns an entry for a line that is itself a message.
    fn wrapped(&self, bare: &Object<'_>, message: &Message) -> Object<'static> {
        let time = bare.get("timestamp").and_then(messages::time_of);
        let mut entry = Object::default();
        entry.put("type", &"message");
        entry.put("timestamp", &time.map_or_else(|| self.now.clone(), |at| Timestamp(at).to_iso()));
        entry.put("message", &message);
        entry
    }

    /// Copies a message that an edit removes. Its model stays the one in use.
    fn removed(&mut self, place: usize, one: &'r PathLine, object: &Object<'a>) -> Result<(), E> {
        let id = self.id(one.id.as_deref())?;
        let line = written::removed_line(&id, self.done.last.as_deref(), object);
        self.done.lines.push(line);
        self.done.last = Some(id.clone());
        self.set_made(place, id);
        Ok(())
    }

    /// Returns the id of a copy: its own in a new session, unless it was used before.
    fn id(&mut self, own: Option<&str>) -> Result<String, E> {
        if self.copies == Copies::Session
            && let Some(own) = own
            && self.taken.insert(own.to_owned())
        {
            return Ok(own.to_owned());
        }
        loop {
            let id = (self.new_id)()?;
            if self.taken.insert(id.clone()) {
                return Ok(id);
            }
        }
    }

    fn set_made(&mut self, place: usize, id: String) {
        if let Some(made) = self.made.get_mut(place) {
            made.get_or_insert(id);
        }
    }

    fn put(&mut self, entry: Object<'_>, of: Option<&'r PathLine>) -> Result<String, E> {
        let id = self.id(None)?;
        self.put_as(entry, of, &id);
        Ok(id)
    }

    /// Adds an entry after the last one.
    fn put_as(&mut self, mut entry: Object<'_>, of: Option<&'r PathLine>, id: &str) {
        // A side entry never becomes the leaf.
        entry.take("appendMode");
        entry.put("id", &id);
        entry.put("parentId", &self.done.last);
        // The time of a copied entry is part of the context, so none is made up.
        if of.is_none() {
            entry.put("timestamp", &self.now);
        }
        if let Some(own) = of.and_then(|one| one.id.as_deref()) {
            if self.copies == Copies::Branch && !entry.has(COPY_FIELD) {
                entry.put(COPY_FIELD, &own);
            }
            self.copy_of.insert(own, id.to_owned());
        }
        let line = entry.json().map(|json| format!("{}\n", json.get()));
        self.done.lines.push(line.unwrap_or_default());
        self.done.last = Some(id.to_owned());
    }
}
