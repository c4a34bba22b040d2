//! JSON Schemas of the shapes. OpenAPI 3.1 uses the same kind of schema (2020-12).
//!
//! Describes what is written, never what is read: a field that is always there is required, also if
//! its value may be `null`.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use super::Fresh;

/// Returns the schema of one shape. The shapes that it contains are added to the generator.
pub type Shape = fn(&mut SchemaGenerator) -> Schema;

/// Returns the schema of a type.
pub fn plain<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// Returns the schema of a type that is printed with how current it is.
pub fn fresh<T: JsonSchema + 'static>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = Fresh::<'static, T>::json_schema(generator);
    if let Some(description) = T::json_schema(generator).get("description") {
        schema.insert("description".to_owned(), description.clone());
    }
    schema
}

/// Returns the schema of a document that is one of several shapes.
///
/// ```
/// use quipu_ledger::wire::schema::{document, fresh};
///
/// let schema = document("sessions", &[fresh::<quipu_ledger::wire::Session>]);
/// assert_eq!(schema["properties"]["bytes"]["type"], "integer");
/// assert_eq!(schema["additionalProperties"], false);
/// ```
pub fn document(title: &str, shapes: &[Shape]) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schemas: Vec<Schema> = shapes.iter().map(|shape| shape(&mut generator)).collect();
    let mut schema = match (schemas.pop(), schemas.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            let any = schemas.into_iter().chain(last).map(Value::from).collect();
            Schema::from(Map::from_iter([("anyOf".to_owned(), Value::Array(any))]))
        }
    };
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), definitions.into());
    }
    RecursiveTransform(deny_other_fields).transform(&mut schema);
    let mut document = Map::new();
    let dialect = generator.settings().meta_schema.as_deref().unwrap_or_default();
    document.insert("$schema".to_owned(), dialect.into());
    document.insert("title".to_owned(), title.into());
    document.extend(schema.ensure_object().clone().into_iter().filter(|(key, _)| key != "title"));
    document.into()
}

/// Refuses fields that the schema of an object does not list.
pub fn deny_other_fields(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}
