//! Answers the requests of one caller.

use std::sync::Arc;
use std::time::Duration;

use quipu_ledger::query;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::problem::Problem;
use crate::readers::Readers;
use crate::settings::Settings;
use crate::tools::{self, Caller, Object, ToolCall};

/// The scheme and the beginning of the address of a session.
const SESSION: &str = "quipu://session/";

/// The number of sessions that are listed as resources. `sessions` lists all.
const RESOURCES: usize = 20;

/// The longest time of one call.
const MAX_CALL_TIME: Duration = Duration::from_secs(30);

/// The field in which Claude Code names the call of a tool that it is answering.
const CALL_ID: &str = "claudecode/toolUseId";

/// The server as one caller sees it.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    pub(crate) settings: Arc<Settings>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) caller: Caller,
}

impl Handler {
    /// Reads an answer from one snapshot, on a thread that may block.
    async fn read(
        &self,
        context: &RequestContext<RoleServer>,
        answer: impl FnOnce(&ToolCall<'_>) -> Result<String, Problem> + Send + 'static,
    ) -> Result<String, Problem> {
        let settings = Arc::clone(&self.settings);
        let mut caller = self.caller.clone();
        if let Some(client) = context.client_info() {
            caller.client = Some(client.name.clone());
        }
        let call_id = context.meta.get(CALL_ID).and_then(|id| id.as_str()).map(str::to_owned);
        let read = Arc::clone(&self.readers).run(move |reader, freshness| {
            if let Some(id) = call_id
                && let Some(session) = query::session_of_call(&reader.ledger, &id)?
            {
                caller.session = Some(session);
            }
            answer(&ToolCall {
                ledger: &reader.ledger,
                freshness: &freshness,
                settings: &settings,
                caller: &caller,
            })
        });
        tokio::select! {
            read = tokio::time::timeout(MAX_CALL_TIME, read) => {
                read.unwrap_or_else(|_| Err(Problem::too_slow()))
            }
            // Dropping the reading ends its query.
            () = context.ct.cancelled() => Err(Problem::too_slow()),
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("quipu", env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.caller.tools().map(|tool| {
            let schema: JsonObject = (tool.options)();
            Tool::new(tool.name, tool.description, Arc::new(schema)).with_annotations(
                ToolAnnotations::new().read_only(!tool.writes).destructive(false).open_world(false),
            )
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.caller.tools().find(|tool| tool.name == request.name) else {
            return Err(ErrorData::invalid_params("no tool has this name", None));
        };
        let given: Object = request.arguments.unwrap_or_default();
        let answered =
            self.read(&context, move |call| Ok((tool.answer)(call, given)?.finish())).await;
        Ok(match answered {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.sentence())]),
        }
        .into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.read(&context, |call| {
            let names = tools::newest(call, RESOURCES)?;
            serde_json::to_string(&names).map_err(|_| Problem::failed())
        });
        let names = listed.await.map_err(|problem| error(&problem))?;
        let names: Vec<(String, String)> = serde_json::from_str(&names).unwrap_or_default();
        let resources = names.into_iter().map(|(id, title)| {
            let resource = Resource::new(format!("{SESSION}{}", encoded(&id)), id);
            resource.with_title(title).with_mime_type("text/markdown")
        });
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new(format!("{SESSION}{{id}}"), "session")
            .with_description("A past session, from its beginning, at most 64 KB")
            .with_mime_type("text/markdown");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || ErrorData::resource_not_found("no resource has this address", None);
        let id = request.uri.strip_prefix(SESSION).and_then(decoded).ok_or_else(unknown)?;
        let text = self.read(&context, move |call| Ok(tools::resource(call, &id)?.finish())).await;
        let text = text.map_err(|problem| match problem.is_about_name() {
            true => unknown(),
            false => error(&problem),
        })?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type("text/markdown");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn error(problem: &Problem) -> ErrorData {
    ErrorData::internal_error(problem.sentence(), None)
}

/// Returns an id as a part of an address.
fn encoded(id: &str) -> String {
    id.bytes().fold(String::with_capacity(id.len()), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
}

/// Returns the id that [`encoded`] was given.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        match byte {
            b'%' => {
                let digit = |digit: Option<u8>| char::from(digit?).to_digit(16);
                let (high, low) = (digit(left.next())?, digit(left.next())?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_address() {
        for id in ["640ab4c7-d010", "a/b", "agent:main:x", "ä %"] {
            assert_eq!(decoded(&encoded(id)).as_deref(), Some(id));
        }
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
