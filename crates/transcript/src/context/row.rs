//! Reads a line, reduced to the fields that the tree and the choice of messages need.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde::de::IgnoredAny;

use crate::json::{self, Nullable, Oddities, Word, fields, non_empty};

/// A line that holds JSON. Version 1 refers to rows by their index among such lines.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its line number in the session, from 0.
    pub(crate) line: usize,
    pub(crate) id: Option<Box<str>>,
    pub(crate) parent: Parent,
    pub(crate) kind: Kind,
    /// True if it was appended beside the conversation.
    pub(crate) is_side: bool,
}

impl Row {
    /// Returns the row with the ids of its models mapped to another list.
    pub(crate) fn with_models(mut self, places: &[ModelId]) -> Row {
        let model = match &mut self.kind {
            Kind::Message { model, .. } => model.as_mut(),
            Kind::ModelChange(model) => Some(model),
            Kind::Own { model, .. } => model.as_mut(),
            _ => None,
        };
        if let Some(model) = model {
            *model = places.get(*model).copied().unwrap_or_default();
        }
        self
    }

    /// Returns the name of the row for people: its id, or `#` and its line number.
    pub(crate) fn name(&self) -> String {
        match &self.id {
            Some(id) => id.to_string(),
            None => name_of_line(self.line),
        }
    }
}

/// Returns the `#` name of an entry without an id.
pub(crate) fn name_of_line(line: usize) -> String {
    format!("#{}", line + 1)
}

/// Returns the line that a `#` name refers to.
pub(crate) fn line_of(name: &str) -> Option<usize> {
    name.strip_prefix('#')?.parse::<usize>().ok()?.checked_sub(1)
}

/// The parent that a line names.
#[derive(Debug)]
pub(crate) enum Parent {
    Implicit,
    Root,
    Id(Box<str>),
}

/// The type of a line.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The header, with its version.
    Header(Version),
    Message {
        role: Role,
        model: Option<ModelId>,
        is_bare: bool,
    },
    Custom,
    BranchSummary,
    Compaction(Kept),
    Reset(Kept),
    ModelChange(ModelId),
    Thinking(Box<str>),
    Edit(Box<str>),
    /// Entries of the tree that are not shown to a model: labels, state, names.
    State,
    /// Entries like [`Kind::State`] of types that OpenClaw 2026.7.1 does not know: usage.
    Newer,
    Leaf(LeafMove),
    /// An unknown type.
    Unknown,
    /// JSON that is not an object.
    Nothing,
    /// A line of a reader with its own rows.
    Own {
        model: Option<ModelId>,
        row: Box<dyn Any + Send + Sync>,
    },
}

/// A header's version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Version {
    Absent,
    Number(f64),
    /// Not a number, so neither old nor new.
    Word,
}

impl Version {
    /// Returns whether entries have no ids and parents, and follow each other.
    pub(crate) fn is_linear(self) -> bool {
        match self {
            Version::Absent => true,
            Version::Number(number) => number < 2.0,
            Version::Word => false,
        }
    }

    /// Returns whether custom messages have the role name of version 2.
    pub(crate) fn has_hooks(self) -> bool {
        match self {
            Version::Absent => true,
            Version::Number(number) => number < 3.0,
            Version::Word => false,
        }
    }
}

/// Returns the version of the first header. A session without a header is read as version 3.
pub(crate) fn version(rows: &[Row]) -> Version {
    rows.iter()
        .find_map(|row| match row.kind {
            Kind::Header(version) => Some(version),
            _ => None,
        })
        .unwrap_or(Version::Number(3.0))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
    Result,
    System,
    Other,
    /// The message has no role, or the line is not a message.
    Missing,
}

/// The entries that stay after a summary, in all forms that agents write.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) first: Option<Box<str>>,
    /// Index among the lines that hold JSON; version 1.
    pub(crate) first_index: Option<u64>,
    /// The number of messages that do not stay.
    pub(crate) compacted: Option<u64>,
}

/// The target of a `leaf` line. The outer `None` is a field that is missing or odd.
#[derive(Debug)]
pub(crate) struct LeafMove {
    pub(crate) target: Option<Option<Box<str>>>,
    /// The parent of the next line, if the record has it.
    pub(crate) append: Option<Option<Box<str>>>,
    /// True if its mode is known and its append parent is valid.
    pub(crate) is_known: bool,
}

/// A model, with pi's field names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// The provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's name for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// A model's index in [`Models`].
pub(crate) type ModelId = usize;

/// The models of a session, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Models {
    all: Vec<Model>,
    places: HashMap<Model, ModelId>,
}

impl Models {
    pub(crate) fn add(&mut self, provider: Option<&str>, model: Option<&str>) -> ModelId {
        let model =
            Model { provider: provider.map(str::to_owned), model_id: model.map(str::to_owned) };
        if let Some(place) = self.places.get(&model) {
            return *place;
        }
        let place = self.all.len();
        self.all.push(model.clone());
        self.places.insert(model, place);
        place
    }

    /// Adds the models of another list. Returns the new index of each.
    pub(crate) fn join(&mut self, other: &Models) -> Vec<ModelId> {
        let model = |model: &Model| (model.provider.clone(), model.model_id.clone());
        let all = other.all.iter().map(model);
        all.map(|(provider, id)| self.add(provider.as_deref(), id.as_deref())).collect()
    }

    pub(crate) fn get(&self, place: ModelId) -> Option<&Model> {
        self.all.get(place)
    }
}

fields! {
    struct Line<'a> {
        "type" => type_name: Cow<'a, str>,
        "id" => id: Word<'a>,
        "parentId" => parent: Nullable<Word<'a>>,
        "message" => message: MessageHead<'a>,
        "role" => role: Cow<'a, str>,
        "version" => version: Word<'a>,
        "provider" => provider: Cow<'a, str>,
        "modelId" => model_id: Cow<'a, str>,
        "model" => model: Cow<'a, str>,
        "thinkingLevel" => thinking_level: Cow<'a, str>,
        "firstKeptEntryId" => first_kept: Word<'a>,
        "firstKeptEntryIndex" => first_kept_index: u64,
        "compactedCount" => compacted: u64,
        "targetId" => target: Nullable<Word<'a>>,
        "appendParentId" => append_parent: Nullable<Word<'a>>,
        "appendMode" => append_mode: Nullable<Cow<'a, str>>,
    }
}

fields! {
    struct MessageHead<'a> {
        "role" => role: Cow<'a, str>,
        "provider" => provider: Cow<'a, str>,
        "model" => model: Cow<'a, str>,
    }
}

/// Decodes a line of a pi or OpenClaw session.
pub(crate) fn read(line: &str, number: usize, models: &mut Models) -> Option<Row> {
    let json = clean(line);
    if json.is_empty() {
        return None;
    }
    let Ok(mut line) = json::object::<Line<'_>>(json.as_bytes(), &mut Oddities::default()) else {
        let is_json = serde_json::from_str::<IgnoredAny>(json).is_ok();
        return is_json.then_some(Row {
            line: number,
            id: None,
            parent: Parent::Implicit,
            kind: Kind::Nothing,
            is_side: false,
        });
    };
    let parent = match line.parent.take() {
        None => Parent::Implicit,
        Some(Nullable(id)) => boxed(id).map_or(Parent::Root, Parent::Id),
    };
    let mode = line.append_mode.take();
    let is_side = matches!(&mode, Some(Nullable(Some(mode))) if mode == "side");
    let id = boxed(line.id.take());
    let kind = line.kind(mode.is_none() || is_side, models);
    Some(Row { line: number, id, parent, kind, is_side })
}

/// Returns a line without spaces and byte-order marks around its JSON.
pub(crate) fn clean(line: &str) -> &str {
    line.trim_start_matches('\u{feff}').trim()
}

impl Line<'_> {
    fn kind(self, is_mode_known: bool, models: &mut Models) -> Kind {
        let type_name = self.type_name.as_deref().unwrap_or_default();
        match type_name {
            "session" => Kind::Header(match self.version {
                None => Version::Absent,
                Some(Word(word)) => word.trim().parse().map_or(Version::Word, Version::Number),
            }),
            "message" => message(self.message.unwrap_or_default(), false, models),
            "" if self.role.is_some() => {
                let head =
                    MessageHead { role: self.role, provider: self.provider, model: self.model };
                message(head, true, models)
            }
            "custom_message" => Kind::Custom,
            "branch_summary" => Kind::BranchSummary,
            "compaction" => Kind::Compaction(Kept {
                first: boxed(self.first_kept),
                first_index: self.first_kept_index,
                compacted: self.compacted,
            }),
            "reset" => Kind::Reset(Kept { first: boxed(self.first_kept), ..Kept::default() }),
            "model_change" => Kind::ModelChange(
                models.add(self.provider.as_deref(), self.model_id.or(self.model).as_deref()),
            ),
            "thinking_level_change" => {
                Kind::Thinking(self.thinking_level.unwrap_or_default().into())
            }
            "context_edit" => match boxed(self.target.and_then(|target| target.0)) {
                Some(target) => Kind::Edit(target),
                None => Kind::Newer,
            },
            "leaf" => {
                let place = |field: Option<Nullable<Word<'_>>>| {
                    field.and_then(|Nullable(id)| match id {
                        None => Some(None),
                        id => boxed(id).map(Some),
                    })
                };
                let has_append = self.append_parent.is_some();
                let append = place(self.append_parent);
                Kind::Leaf(LeafMove {
                    target: place(self.target),
                    is_known: is_mode_known && (append.is_some() || !has_append),
                    append,
                })
            }
            "custom" | "label" | "session_info" => Kind::State,
            "usage" => Kind::Newer,
            name if name.starts_with("custom:") => Kind::Newer,
            _ => Kind::Unknown,
        }
    }
}

fn message(head: MessageHead<'_>, is_bare: bool, models: &mut Models) -> Kind {
    let role = match non_empty(head.role).as_deref() {
        None => Role::Missing,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("toolResult") => Role::Result,
        Some("system") => Role::System,
        Some(_) => Role::Other,
    };
    let model = (role == Role::Assistant)
        .then(|| models.add(head.provider.as_deref(), head.model.as_deref()));
    Kind::Message { role, model, is_bare }
}

fn boxed(word: Option<Word<'_>>) -> Option<Box<str>> {
    non_empty(word.map(|word| word.0)).map(Into::into)
}
