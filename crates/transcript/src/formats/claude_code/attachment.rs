//! Decodes the payload of an `attachment` line: what Claude Code gave the model beside a prompt.
//!
//! More than 80 kinds are known, and releases add to them, so there is no list of their text
//! fields: every string counts, except images, ids and what another string repeats.

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess};

use super::line::PromptOrigin;
use crate::entry::Block;
use crate::json::{self, Key, Lenient, Oddities, Value, non_empty};
use crate::message::Content;

/// Kinds whose texts are only shown as fields of their records: the vendor's own prompt and lists
/// of tools, which repeat in every session and would fill the search index.
const LEFT_OUT: &[&str] = &[
    "agent_listing_delta",
    "deferred_tools_delta",
    "mcp_instructions_delta",
    "prompt_snapshot",
    "skill_listing",
];

/// Fields without text for people: types, ids, and images in base64.
const NO_TEXT: &[&str] =
    &["type", "base64", "data", "uuid", "toolUseID", "hookEvent", "contentHash", "renderedRole"];

/// The payload of an `attachment` line.
#[derive(Debug, Default)]
pub(super) struct Attachment<'a> {
    pub(super) type_name: Option<Cow<'a, str>>,
    pub(super) prompt: Option<Content<'a>>,
    pub(super) command_mode: Option<Cow<'a, str>>,
    pub(super) origin: Option<PromptOrigin<'a>>,
    /// The text that the model was given, if the record has it.
    rendered: Strings,
    /// All other strings.
    strings: Strings,
}

impl Attachment<'_> {
    /// Returns the texts as a block; `None` if there are none.
    pub(super) fn into_block(self) -> Option<Block<'static>> {
        let kind = non_empty(self.type_name).unwrap_or_default();
        if LEFT_OUT.contains(&&*kind) {
            return None;
        }
        let mut text = String::new();
        for string in self.rendered.0.into_iter().chain(self.strings.0) {
            // Names of files are repeated in several forms, and the rendered text repeats the rest.
            if string.trim().is_empty() || text.contains(string.trim()) {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&string);
        }
        let label = Cow::Owned(kind.into_owned());
        (!text.is_empty()).then_some(Block::Attached { label, text: Cow::Owned(text) })
    }
}

impl<'de> Lenient<'de> for Attachment<'de> {
    // Extensions write any value here, so no type is an oddity.
    fn from_text(text: &str) -> Option<Self> {
        Some(Attachment { strings: Strings(vec![text.to_owned()]), ..Attachment::default() })
    }

    fn from_bool(_value: bool) -> Option<Self> {
        Some(Self::default())
    }

    fn from_number(_number: json::Number) -> Option<Self> {
        Some(Self::default())
    }

    fn from_list<A: SeqAccess<'de>>(list: A, odd: &mut Oddities) -> Result<Option<Self>, A::Error> {
        let strings = Strings::from_list(list, odd)?.unwrap_or_default();
        Ok(Some(Attachment { strings, ..Attachment::default() }))
    }

    fn from_object<A: MapAccess<'de>>(
        mut object: A,
        _odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut this = Attachment::default();
        let odd = &mut Oddities::default();
        while let Some(key) = object.next_key_seed(Key)? {
            match &*key {
                "type" => this.type_name = object.next_value_seed(Value::new("type", odd))?,
                "prompt" => this.prompt = object.next_value_seed(Value::new("prompt", odd))?,
                "commandMode" => {
                    this.command_mode = object.next_value_seed(Value::new("commandMode", odd))?;
                }
                "origin" => this.origin = object.next_value_seed(Value::new("origin", odd))?,
                "rendered" => {
                    let strings = object.next_value_seed(Value::new("rendered", odd))?;
                    this.rendered = strings.unwrap_or_default();
                }
                key => this.strings.field(key, &mut object, odd)?,
            }
        }
        Ok(Some(this))
    }
}

/// All strings of a JSON value, in order.
#[derive(Debug, Default)]
struct Strings(Vec<String>);

impl Strings {
    /// Adds the strings of a field's value.
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        object: &mut A,
        odd: &mut Oddities,
    ) -> Result<(), A::Error> {
        if NO_TEXT.contains(&key) {
            return json::skip_value(object);
        }
        let found: Option<Strings> = object.next_value_seed(Value::new("attachment", odd))?;
        self.0.extend(found.into_iter().flat_map(|found| found.0));
        Ok(())
    }
}

impl<'de> Lenient<'de> for Strings {
    fn from_text(text: &str) -> Option<Self> {
        Some(Strings(vec![text.to_owned()]))
    }

    fn from_bool(_value: bool) -> Option<Self> {
        Some(Self::default())
    }

    fn from_number(_number: json::Number) -> Option<Self> {
        Some(Self::default())
    }

    fn from_list<A: SeqAccess<'de>>(
        mut list: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut all = Strings::default();
        while let Some(found) = list.next_element_seed(Value::<Strings>::new("attachment", odd))? {
            all.0.extend(found.into_iter().flat_map(|found| found.0));
        }
        Ok(Some(all))
    }

    fn from_object<A: MapAccess<'de>>(
        mut object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut all = Strings::default();
        while let Some(key) = object.next_key_seed(Key)? {
            all.field(&key, &mut object, odd)?;
        }
        Ok(Some(all))
    }
}
