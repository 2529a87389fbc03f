//! A tool: its name, its schemas, and the code behind it.
//!
//! Owns how arguments are parsed and how results are returned. The tools themselves are in the
//! files beside this one.
//!
//! # Invariants
//! - Wrong arguments never reach the session. They are an error of the call (`invalid_params`),
//!   while a refusal of the session is a result of the tool.

use std::{pin::Pin, sync::Arc};

use rmcp::{
    ErrorData,
    handler::server::tool::{schema_for_input, schema_for_output},
    model::{CallToolResult, ContentBlock, JsonObject, Tool as Described, ToolAnnotations},
    schemars::JsonSchema,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    mcp::session::{PooledConnection, SessionConnectionPool, ToolError},
    protocol::LONGEST_REQUEST,
};

/// The most bytes that the arguments of a call can have, as JSON: they must fit into a request of
/// the socket.
const MOST: usize = LONGEST_REQUEST - 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolEffect {
    Looks,
    /// It changes something, but a second call changes nothing more.
    Once,
    /// It changes something with each call.
    Anew,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ToolDescription {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) touch: ToolEffect,
}

type ToolCallback = dyn Fn(
        Arc<SessionConnectionPool>,
        JsonObject,
    ) -> Pin<Box<dyn Future<Output = Result<Value, ToolError>> + Send>>
    + Send
    + Sync;

/// The code behind a tool: an `async fn(&mut PooledConnection, I) -> Result<O, ToolError>`.
pub(super) trait ToolHandler<'a, I, O>:
    Fn(&'a mut PooledConnection, I) -> Self::Doing
{
    type Doing: Future<Output = Result<O, ToolError>> + Send + 'a;
}

impl<'a, I, O, F, D> ToolHandler<'a, I, O> for F
where
    F: Fn(&'a mut PooledConnection, I) -> D,
    D: Future<Output = Result<O, ToolError>> + Send + 'a,
{
    type Doing = D;
}

pub(super) struct McpTool {
    described: Described,
    perform: Box<ToolCallback>,
}

impl McpTool {
    pub(super) fn new<I, O, W>(about: ToolDescription, work: W) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + 'static,
        W: for<'a> ToolHandler<'a, I, O> + Copy + Send + Sync + 'static,
    {
        let ToolDescription {
            name,
            title,
            description,
            touch,
        } = about;
        let input = clean(schema_for_input::<I>().expect("arguments are an object"));
        let described = Described::new(name, description, input)
            .with_title(title)
            .with_raw_output_schema(clean(schema_for_output::<O>()))
            .with_annotations(touch.annotations());
        Self {
            described,
            perform: Box::new(move |reach, arguments| {
                Box::pin(perform(name, work, reach, arguments))
            }),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.described.name
    }

    pub(super) fn described(&self) -> Described {
        self.described.clone()
    }

    /// Runs the tool. In a task of its own, so that the client gets an answer even after a panic.
    pub(super) async fn call(
        &self,
        reach: &Arc<SessionConnectionPool>,
        arguments: JsonObject,
    ) -> Result<CallToolResult, ErrorData> {
        let done = tokio::spawn((self.perform)(Arc::clone(reach), arguments)).await;
        match done {
            Ok(Ok(data)) => Ok(CallToolResult::structured(data)),
            Ok(Err(ToolError::Job(why))) => {
                Ok(CallToolResult::error(vec![ContentBlock::text(why)]))
            }
            Ok(Err(ToolError::Arguments(why))) => Err(ErrorData::invalid_params(why, None)),
            Err(panic) => Err(ErrorData::internal_error(
                format!("{} failed: {panic}", self.name()),
                None,
            )),
        }
    }
}

impl ToolEffect {
    fn annotations(self) -> ToolAnnotations {
        let all = ToolAnnotations::new().open_world(false);
        match self {
            Self::Looks => all.read_only(true).destructive(false).idempotent(true),
            Self::Once => all.read_only(false).destructive(false).idempotent(true),
            Self::Anew => all.read_only(false).destructive(false).idempotent(false),
        }
    }
}

/// Removes the formats of numbers (`uint`, `double`): JSON Schema has none, and clients that check
/// formats refuse the tool.
fn clean(schema: Arc<JsonObject>) -> Arc<JsonObject> {
    fn walk(schema: &mut Value) {
        match schema {
            Value::Object(all) => {
                if all.get("format").is_some_and(Value::is_string) {
                    all.remove("format");
                }
                all.values_mut().for_each(walk);
            }
            Value::Array(all) => all.iter_mut().for_each(walk),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut schema = Arc::unwrap_or_clone(schema);
    schema.values_mut().for_each(walk);
    Arc::new(schema)
}

async fn perform<I, O, W>(
    name: &str,
    work: W,
    reach: Arc<SessionConnectionPool>,
    arguments: JsonObject,
) -> Result<Value, ToolError>
where
    I: DeserializeOwned,
    O: Serialize,
    W: for<'a> ToolHandler<'a, I, O>,
{
    let input = read::<I>(name, &arguments)?;
    let _room = reach.room().await;
    let mut line = reach.line().await?;
    let output = work(&mut line, input).await?;
    reach.keep(line);
    Ok(serde_json::to_value(output).expect("answers have no keys that are not text"))
}

/// Parses the arguments, or says what is wrong with them.
fn read<I: DeserializeOwned>(tool: &str, arguments: &JsonObject) -> Result<I, ToolError> {
    let bytes = serde_json::to_vec(arguments).map_or(0, |text| text.len());
    if bytes > MOST {
        let largest = arguments
            .iter()
            .max_by_key(|(_, value)| length(value))
            .map_or("", |(name, _)| name);
        return Err(ToolError::Arguments(format!(
            "{tool}: the arguments are too long ({bytes} B; the limit is {MOST} B). `{largest}` is the longest: write \
             it to a file, and pass the file's name"
        )));
    }
    I::deserialize(arguments)
        .map_err(|why| ToolError::Arguments(format!("{tool}: {}", place::<I>(arguments, &why))))
}

/// The approximate length of a value, in bytes.
fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(length).sum(),
        Value::Object(all) => all
            .iter()
            .map(|(name, value)| name.len() + length(value))
            .sum(),
    }
}

/// The error message with the argument that causes it: the one without which the error would be
/// different.
fn place<I: DeserializeOwned>(arguments: &JsonObject, why: &serde_json::Error) -> String {
    let why = why.to_string();
    let is_it = |name: &&String| {
        let mut others = arguments.clone();
        others.remove(*name);
        I::deserialize(&others)
            .err()
            .is_none_or(|other| other.to_string() != why)
    };
    match arguments.keys().find(is_it) {
        Some(name) if !why.contains(&format!("`{name}`")) => format!("`{name}`: {why}"),
        Some(_) | None => why,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Args {
        #[serde(alias = "task_id")]
        task_id: String,
        #[serde(default)]
        labels: Vec<String>,
    }

    fn wrong(arguments: Value) -> String {
        let Value::Object(arguments) = arguments else {
            panic!("not an object")
        };
        match read::<Args>("t", &arguments) {
            Err(ToolError::Arguments(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_bad_argument_is_reported_with_its_place() {
        assert_eq!(wrong(json!({})), "t: missing field `taskId`");
        assert_eq!(
            wrong(json!({"taskId": 5, "labels": []})),
            "t: `taskId`: invalid type: integer `5`, expected a string"
        );
        assert_eq!(
            wrong(json!({"taskId": "a", "labels": [1]})),
            "t: `labels`: invalid type: integer `1`, expected a string"
        );
        assert!(
            wrong(json!({"taskId": "a", "label": "x"}))
                .starts_with("t: unknown field `label`, expected one of `taskId`")
        );
    }

    #[test]
    fn both_spellings_are_read() {
        for name in ["taskId", "task_id"] {
            let arguments = JsonObject::from_iter([(name.to_owned(), json!("a"))]);
            assert_eq!(
                read("t", &arguments),
                Ok(Args {
                    task_id: "a".into(),
                    labels: Vec::new()
                })
            );
        }
    }

    #[test]
    fn a_request_that_is_too_long_is_refused_before_it_is_read() {
        let why = wrong(json!({"taskId": "x", "labels": ["y".repeat(10 << 20)]}));
        assert!(
            why.contains("the limit is 1047552 B). `labels` is the longest"),
            "{why}"
        );
    }
}
