//! Decodes the content of a message (a string, a block or a list) and the answers of tools.

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess};

use crate::entry::{Block, RawJson, ToolCall, ToolResult};
use crate::json::{Lenient, Oddities, Present, Value, Word, fields, non_empty};

/// The content of a message: a string, one block, or a list of both.
#[derive(Debug, Default)]
pub(crate) struct Content<'a>(pub(crate) Vec<Block<'a>>);

impl<'de> Lenient<'de> for Content<'de> {
    fn from_text(text: &str) -> Option<Self> {
        Some(Content(vec![Block::Text(Cow::Owned(text.to_owned()))]))
    }

    fn from_borrowed(text: &'de str) -> Option<Self> {
        Some(Content(vec![Block::Text(Cow::Borrowed(text))]))
    }

    fn from_list<A: SeqAccess<'de>>(
        mut list: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut blocks = Vec::new();
        while let Some(block) =
            list.next_element_seed(Value::<Piece<'de>>::new("content[]", odd))?
        {
            blocks.extend(block.map(|piece| piece.0));
        }
        Ok(Some(Content(blocks)))
    }

    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        Ok(Piece::from_object(object, odd)?.map(|piece| Content(vec![piece.0])))
    }
}

/// One element of a content list.
struct Piece<'a>(Block<'a>);

impl<'de> Lenient<'de> for Piece<'de> {
    fn from_text(text: &str) -> Option<Self> {
        Some(Piece(Block::Text(Cow::Owned(text.to_owned()))))
    }

    fn from_borrowed(text: &'de str) -> Option<Self> {
        Some(Piece(Block::Text(Cow::Borrowed(text))))
    }

    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        Ok(BlockFields::from_object(object, odd)?.map(|fields| Piece(fields.into_block())))
    }
}

fields! {
    /// All fields of the known block types.
    struct BlockFields<'a> {
        "type" => type_name: Cow<'a, str>,
        "text" => text: Cow<'a, str>,
        "thinking" => thinking: Cow<'a, str>,
        "name" => name: Cow<'a, str>,
        "toolName" => tool_name: Cow<'a, str>,
        "id" => id: Word<'a>,
        "call_id" => call_id: Word<'a>,
        "toolCallId" => tool_call_id_camel: Word<'a>,
        "toolUseId" => tool_use_id_camel: Word<'a>,
        "tool_call_id" => tool_call_id: Word<'a>,
        "tool_use_id" => tool_use_id: Word<'a>,
        "arguments" => arguments: RawJson<'a>,
        "input" => input: RawJson<'a>,
        "partialJson" => partial_json: Present,
        "partialArgs" => partial_args: Present,
        "content" => content: ResultBody<'a>,
        "output" => output: ResultBody<'a>,
        "is_error" => is_error: bool,
        "isError" => is_error_camel: bool,
        "source" => source: ImageSource<'a>,
        "mimeType" => mime_type: Cow<'a, str>,
        "media_type" => media_type: Cow<'a, str>,
    }
}

impl<'a> BlockFields<'a> {
    fn into_block(mut self) -> Block<'a> {
        let type_name = self.type_name.take().unwrap_or_default();
        match &*type_name {
            "text" | "output_text" | "input_text" => Block::Text(self.text.unwrap_or_default()),
            "thinking" => Block::Thinking(self.thinking.or(self.text).unwrap_or_default()),
            "redacted_thinking" => Block::Thinking(Cow::Borrowed("")),
            "tool_use" | "toolCall" | "toolUse" | "tool_call" | "functionCall"
            | "function_call" | "server_tool_use" | "mcp_tool_use" => {
                Block::ToolCall(self.into_call())
            }
            "image" | "input_image" | "image_url" => Block::Image {
                media_type: non_empty(self.source.and_then(|source| source.0))
                    .or(non_empty(self.media_type))
                    .or(non_empty(self.mime_type)),
            },
            name if is_result(name) => Block::ToolResult(self.into_result()),
            // Some writers leave the type out of their text blocks.
            "" if self.text.is_some() => Block::Text(self.text.unwrap_or_default()),
            _ => Block::Other(type_name),
        }
    }

    fn into_call(self) -> ToolCall<'a> {
        // An OpenAI function call has both: `id` is the item's id, `call_id` is the id that results
        // repeat.
        let is_openai = self.call_id.is_some();
        let id = if is_openai { first_id([self.call_id, self.id]) } else { first_id([self.id]) };
        ToolCall {
            id: id.or_else(|| {
                first_id([
                    self.tool_call_id_camel,
                    self.tool_use_id_camel,
                    self.tool_call_id,
                    self.tool_use_id,
                ])
            }),
            name: self.name.or(self.tool_name).unwrap_or_default(),
            input: self.arguments.or(self.input),
            is_partial: self.partial_json.is_some() || self.partial_args.is_some(),
        }
    }

    fn into_result(self) -> ToolResult<'a> {
        let mut body = self.content.or(self.output).unwrap_or_default();
        if body.text.is_empty()
            && let Some(text) = self.text
        {
            body.push(text);
        }
        ToolResult {
            call_id: first_id([
                self.tool_use_id,
                self.tool_call_id,
                self.tool_use_id_camel,
                self.tool_call_id_camel,
                self.call_id,
                self.id,
            ]),
            name: non_empty(self.tool_name.or(self.name)),
            text: body.text,
            is_error: self.is_error.or(self.is_error_camel).unwrap_or(body.is_error),
            output_file: None,
            images: body.images,
        }
    }
}

/// Returns whether a block of this type is a tool's answer. Each server tool has its own type name
/// for it (`web_search_tool_result`).
pub(crate) fn is_result(type_name: &str) -> bool {
    matches!(type_name, "toolResult" | "function_call_output") || type_name.ends_with("tool_result")
}

/// Returns the first id that is present and not empty.
pub(super) fn first_id<'a, const N: usize>(ids: [Option<Word<'a>>; N]) -> Option<Cow<'a, str>> {
    ids.into_iter().flatten().map(|id| id.0).find(|id| !id.is_empty())
}

/// The answer of a tool: a string, or a list of texts, images and references.
#[derive(Debug, Default)]
pub(crate) struct ResultBody<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) images: u32,
    pub(super) is_error: bool,
}

impl<'a> ResultBody<'a> {
    /// Adds a piece of text on a new line.
    pub(super) fn push(&mut self, piece: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = piece;
        } else if !piece.is_empty() {
            let text = self.text.to_mut();
            text.push('\n');
            text.push_str(&piece);
        }
    }

    fn add(&mut self, piece: ResultPiece<'a>) {
        match piece.type_name.as_deref().unwrap_or_default() {
            "image" | "input_image" | "image_url" => self.images = self.images.saturating_add(1),
            name if name.ends_with("_error") => self.is_error = true,
            _ => {}
        }
        let pieces = [piece.text, piece.title, piece.url, piece.tool_name, piece.error_code];
        pieces.into_iter().flatten().for_each(|text| self.push(text));
    }
}

impl<'de> Lenient<'de> for ResultBody<'de> {
    fn from_text(text: &str) -> Option<Self> {
        Some(ResultBody { text: Cow::Owned(text.to_owned()), ..Self::default() })
    }

    fn from_borrowed(text: &'de str) -> Option<Self> {
        Some(ResultBody { text: Cow::Borrowed(text), ..Self::default() })
    }

    fn from_list<A: SeqAccess<'de>>(
        mut list: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut body = Self::default();
        let key = "content[].content[]";
        while let Some(piece) =
            list.next_element_seed(Value::<ResultElement<'de>>::new(key, odd))?
        {
            match piece {
                Some(ResultElement::Text(text)) => body.push(text),
                Some(ResultElement::Piece(piece)) => body.add(*piece),
                None => {}
            }
        }
        Ok(Some(body))
    }

    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut body = Self::default();
        if let Some(piece) = ResultPiece::from_object(object, odd)? {
            body.add(piece);
        }
        Ok(Some(body))
    }
}

/// One element of a tool result's list.
enum ResultElement<'a> {
    Text(Cow<'a, str>),
    Piece(Box<ResultPiece<'a>>),
}

impl<'de> Lenient<'de> for ResultElement<'de> {
    fn from_text(text: &str) -> Option<Self> {
        Some(ResultElement::Text(Cow::Owned(text.to_owned())))
    }

    fn from_borrowed(text: &'de str) -> Option<Self> {
        Some(ResultElement::Text(Cow::Borrowed(text)))
    }

    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        Ok(ResultPiece::from_object(object, odd)?
            .map(|piece| ResultElement::Piece(Box::new(piece))))
    }
}

fields! {
    /// A piece of a tool result: text, an image, a tool reference, a web search hit, an error.
    struct ResultPiece<'a> {
        "type" => type_name: Cow<'a, str>,
        "text" => text: Cow<'a, str>,
        "title" => title: Cow<'a, str>,
        "url" => url: Cow<'a, str>,
        "tool_name" => tool_name: Cow<'a, str>,
        "error_code" => error_code: Cow<'a, str>,
    }
}

/// The source of an image; only its media type is kept.
#[derive(Debug)]
pub(crate) struct ImageSource<'a>(Option<Cow<'a, str>>);

fields! {
    struct ImageSourceFields<'a> {
        "media_type" => media_type: Cow<'a, str>,
        "mimeType" => mime_type: Cow<'a, str>,
    }
}

impl<'de> Lenient<'de> for ImageSource<'de> {
    // A bare string is a URL, or the source of something other than an image.
    fn from_text(_text: &str) -> Option<Self> {
        Some(ImageSource(None))
    }

    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        Ok(ImageSourceFields::from_object(object, odd)?
            .map(|source| ImageSource(source.media_type.or(source.mime_type))))
    }
}
