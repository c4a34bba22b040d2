//! The description of all routes: OpenAPI 3.1.
//!
//! The shapes of answers are the schemas of [`quipu_ledger::wire`]. The options of each route are
//! listed here; a test compares the list with what the route accepts.

mod operations;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use quipu_ledger::wire::schema::{Shape, deny_other_fields, fresh};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use operations::OPERATIONS;

/// The statuses of problems that any route may answer with, and what each means.
const PROBLEMS: &[(&str, &str)] = &[
    ("400", "The request cannot be understood"),
    ("401", "A valid token is needed"),
    ("403", "The request is not allowed"),
    ("404", "Nothing has this name"),
    ("405", "The method is not allowed here"),
    ("409", "The session has another leaf, or it exists already"),
    ("413", "The request is too large"),
    ("415", "The body is not JSON"),
    ("422", "The request cannot be carried out"),
    ("429", "There are too many requests"),
    ("500", "The server failed"),
    ("503", "The ledger cannot be read now, or the answer takes too long"),
];

/// One method of one route.
struct Operation {
    method: &'static str,
    path: &'static str,
    /// What it does, in a few words.
    summary: &'static str,
    /// The options in the address.
    options: &'static [(&'static str, Kind)],
    body: Body,
    answer: Answered,
}

/// The kind of value of an option.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// A text without which there is no answer.
    Needed,
    /// A text or `null`, which has a meaning.
    NeededOrNull,
    Number,
    Flag,
    OneOf(&'static [&'static str]),
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
enum Body {
    None,
    /// An object with these fields and no other.
    Fields(&'static [(&'static str, Kind)]),
    /// An object whose fields are the agent's.
    Any,
    /// An entry, or a list of them.
    Entries,
}

/// The body of a successful answer.
enum Answered {
    /// One object.
    Object(&'static [Shape]),
    /// A page of a list. Each item has one of the shapes.
    List(&'static [Shape]),
    /// A list with the sum of its items.
    Sums(Shape),
    /// Rows of a query, which may have been cut.
    Rows,
    /// An object whose fields are not known.
    Any,
    /// Content of these types.
    Content(&'static [&'static str]),
}

/// The fields of a page.
#[derive(Serialize, JsonSchema)]
struct Page {
    /// The items.
    items: Vec<Value>,
    /// The number of all items, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// The cursor of the page after this one; `null` on the last page.
    next: Option<String>,
    /// The cursor of the page before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
}

/// The fields of a list with a sum.
#[derive(Serialize, JsonSchema)]
struct Sums {
    /// The items.
    items: Vec<Value>,
    /// The sum.
    total: Value,
}

/// The fields of the answer to a query.
#[derive(Serialize, JsonSchema)]
struct Rows {
    /// The rows, each with its columns.
    items: Vec<Map<String, Value>>,
    /// True if there are more rows.
    is_cut: bool,
}

/// Answers with the description.
pub(crate) fn document(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {}
    let Options {} = call.options()?;
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    Answer::json(DOCUMENT.get_or_init(describe))
}

/// Returns the method and the path of each operation, its options, and the fields of its body.
#[cfg(test)]
pub(crate) fn listed() -> impl Iterator<Item = (&'static str, &'static str, Names, Option<Names>)> {
    let names = |all: &'static [(&'static str, Kind)]| all.iter().map(|(name, _)| *name).collect();
    OPERATIONS.iter().map(move |it| {
        let fields = match it.body {
            Body::Fields(fields) => Some(names(fields)),
            Body::None | Body::Any | Body::Entries => None,
        };
        (it.method, it.path, names(it.options), fields)
    })
}

#[cfg(test)]
type Names = std::collections::BTreeSet<&'static str>;

fn describe() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in OPERATIONS {
        let described = operation.describe(&mut generator);
        paths.entry(operation.path).or_default().insert(operation.method.to_owned(), described);
    }
    let mut schemas = generator.take_definitions(true);
    for schema in schemas.values_mut() {
        if let Ok(schema) = <&mut Schema>::try_from(schema) {
            RecursiveTransform(deny_other_fields).transform(schema);
        }
    }
    schemas.insert("Problem".to_owned(), problem());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "quipu",
            "summary": "The permanent ledger of AI-agent sessions",
            "description": "docs/http.md describes every route and option.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    });
    describe_pairs(&mut document);
    document
}

/// Describes a pair of equal shapes as a list of two: programs that read OpenAPI 3.0 too do not know
/// `prefixItems`.
fn describe_pairs(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(describe_pairs),
        Value::Object(fields) => {
            if let Some(shapes) = fields.remove("prefixItems") {
                fields.insert("items".to_owned(), shapes.get(0).cloned().unwrap_or_default());
            }
            fields.values_mut().for_each(describe_pairs);
        }
        _ => {}
    }
}

/// Returns the schema of problems.
fn problem() -> Value {
    json!({
        "type": "object",
        "description": "A problem (RFC 9457).",
        "properties": {
            "type": {"type": "string", "description": "Its stable name: `quipu:not-found`."},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "candidates": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["type", "title", "status", "detail"],
    })
}

impl Operation {
    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        let in_path = self.path.split('/').filter_map(|part| {
            let name = part.strip_prefix('{')?.strip_suffix('}')?;
            Some(json!({
                "name": name, "in": "path", "required": true,
                "schema": {"type": "string", "minLength": 1}, "example": "last",
            }))
        });
        let in_query = self.options.iter().map(|(name, kind)| {
            json!({
                "name": name, "in": "query", "schema": kind.schema(),
                "required": matches!(kind, Kind::Needed),
            })
        });
        let mut responses = Map::new();
        let content = self.answer.content(generator);
        let success = json!({"description": self.summary, "content": content});
        responses.insert("200".to_owned(), success);
        for (status, meaning) in PROBLEMS {
            let schema = json!({"$ref": "#/components/schemas/Problem"});
            let content = json!({"application/problem+json": {"schema": schema}});
            let described = json!({"description": meaning, "content": content});
            responses.insert((*status).to_owned(), described);
        }
        let mut described = json!({
            "summary": self.summary,
            "operationId": self.id(),
            "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
            "responses": responses,
        });
        if let Some(schema) = self.body.schema() {
            let content = json!({"application/json": {"schema": schema}});
            described["requestBody"] = json!({"required": true, "content": content});
        }
        described
    }

    /// Returns a name that no other operation has: `get_sessions_id_tree`.
    fn id(&self) -> String {
        let path = self.path.trim_start_matches("/v1/").replace(['/', '.'], "_");
        format!("{}_{}", self.method, path.replace(['{', '}'], ""))
    }
}

impl Body {
    fn schema(self) -> Option<Value> {
        let any = json!({"type": "object"});
        match self {
            Body::None => None,
            Body::Any => Some(any),
            Body::Entries => Some(json!({"anyOf": [any, {"type": "array", "items": any}]})),
            Body::Fields(fields) => {
                let properties: Map<String, Value> =
                    fields.iter().map(|(name, kind)| ((*name).to_owned(), kind.schema())).collect();
                let required: Vec<&str> = fields
                    .iter()
                    .filter(|(_, kind)| matches!(kind, Kind::Needed | Kind::NeededOrNull))
                    .map(|(name, _)| *name)
                    .collect();
                Some(json!({
                    "type": "object", "properties": properties, "required": required,
                    "additionalProperties": false,
                }))
            }
        }
    }
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Kind::Text => json!({"type": "string"}),
            Kind::Needed => json!({"type": "string", "minLength": 1}),
            Kind::NeededOrNull => json!({"type": ["string", "null"]}),
            Kind::Number => json!({"type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::OneOf(values) => json!({"type": "string", "enum": values}),
        }
    }
}

impl Answered {
    fn content(&self, generator: &mut SchemaGenerator) -> Value {
        let mut any = |shapes: &[Shape]| -> Value {
            let mut schemas: Vec<Value> = shapes
                .iter()
                .map(|shape| {
                    let mut schema = shape(generator);
                    RecursiveTransform(deny_other_fields).transform(&mut schema);
                    schema.into()
                })
                .collect();
            match schemas.len() {
                1 => schemas.remove(0),
                _ => json!({"anyOf": schemas}),
            }
        };
        let schema = match self {
            Answered::Object(shapes) => any(shapes),
            Answered::List(shapes) => {
                let item = any(shapes);
                let mut page = any(&[fresh::<Page>]);
                page["properties"]["items"]["items"] = item;
                page
            }
            Answered::Sums(shape) => {
                let item = any(&[*shape]);
                let mut sums = any(&[fresh::<Sums>]);
                sums["properties"]["items"]["items"] = item.clone();
                sums["properties"]["total"] = item;
                sums
            }
            Answered::Rows => any(&[fresh::<Rows>]),
            Answered::Any => json!({"type": "object"}),
            Answered::Content(types) => {
                let content = types.iter().map(|kind| {
                    let schema = match *kind {
                        "application/json" => json!({}),
                        _ => json!({"type": "string"}),
                    };
                    ((*kind).to_owned(), json!({"schema": schema}))
                });
                return Value::Object(content.collect());
            }
        };
        json!({"application/json": {"schema": schema}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;
    use crate::routes::write::WRITES;

    #[test]
    fn every_route_is_described() {
        let read = ROUTES.iter().map(|route| ("get".to_owned(), route.path));
        let written = WRITES.iter().map(|it| (it.method.as_str().to_lowercase(), it.path));
        let mut routes: Vec<(String, &str)> = read.chain(written).collect();
        let described = OPERATIONS.iter().map(|it| (it.method.to_owned(), it.path));
        let mut described: Vec<(String, &str)> = described.collect();
        routes.sort();
        described.sort();
        assert_eq!(described, routes);
    }

    #[test]
    fn names_are_unique_and_references_lead_somewhere() {
        let document = describe();
        let mut ids: Vec<String> = OPERATIONS.iter().map(Operation::id).collect();
        ids.sort();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
