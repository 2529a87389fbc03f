//! Clients of `creel mcp`: one with the protocol's library, and one that sends anything.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use rmcp::{
    RoleClient, ServiceError, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResult, JsonObject},
    service::RunningService,
    transport::TokioChildProcess,
};
use serde_json::{Value, json};

use super::project::Project;

/// A client that follows the protocol.
pub(crate) struct Tools(RunningService<RoleClient, ()>);

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// The tool's output.
    Done(Value),
    /// The tool's error.
    Failed(String),
    /// The call was wrong: code and message.
    Wrong(i32, String),
}

impl Tools {
    /// A client of the session that `creel mcp` finds.
    pub(crate) async fn of(project: &Project) -> Self {
        Self::with(project, &["mcp"], &[]).await
    }

    pub(crate) async fn with(project: &Project, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = tokio::process::Command::from(project.command(args));
        command.envs(variables.iter().copied());
        let server = TokioChildProcess::new(command).expect("it starts");
        Self(().serve(server).await.expect("it says hello"))
    }

    pub(crate) fn peer(&self) -> &rmcp::Peer<RoleClient> {
        self.0.peer()
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> Said {
        call(self.peer(), tool, arguments).await
    }

    /// A call that succeeds.
    #[track_caller]
    pub(crate) fn does(&self, tool: &'static str, arguments: Value) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        async move {
            match self.call(tool, arguments).await {
                Said::Done(told) => told,
                other => panic!("{place}: {tool}: {other:?}"),
            }
        }
    }

    /// A call that the session refuses, with its message.
    #[track_caller]
    pub(crate) fn fails(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        async move {
            match self.call(tool, arguments).await {
                Said::Failed(why) => why,
                other => panic!("{place}: {tool}: {other:?}"),
            }
        }
    }

    /// A call that is wrong, with its message.
    #[track_caller]
    pub(crate) fn rejects(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        async move {
            match self.call(tool, arguments).await {
                Said::Wrong(-32602, why) => why,
                other => panic!("{place}: {tool}: {other:?}"),
            }
        }
    }

    pub(crate) async fn close(self) {
        self.0.cancel().await.expect("it ends");
    }
}

pub(crate) async fn call(
    peer: &rmcp::Peer<RoleClient>,
    tool: &'static str,
    arguments: Value,
) -> Said {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    let arguments: JsonObject = arguments;
    match peer
        .call_tool(CallToolRequestParams::new(tool).with_arguments(arguments))
        .await
    {
        Ok(result) if result.is_error == Some(true) => Said::Failed(text(&result)),
        Ok(result) => Said::Done(
            result
                .structured_content
                .expect("every tool tells structured content"),
        ),
        Err(ServiceError::McpError(error)) => Said::Wrong(error.code.0, error.message.into_owned()),
        Err(error) => panic!("{tool}: {error}"),
    }
}

fn text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts
        .map(|text| text.text.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A client that sends anything.
pub(crate) struct Raw {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Raw {
    /// Starts a server, and sends nothing.
    pub(crate) fn of(project: &Project) -> Self {
        Self::start(project, &["mcp"])
    }

    fn start(project: &Project, args: &[&str]) -> Self {
        let mut command = project.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Self {
            child,
            stdin,
            stdout,
        }
    }

    /// The same, after the handshake.
    pub(crate) fn greeted(project: &Project) -> Self {
        Self::with(project, &["mcp"])
    }

    /// The same, with more arguments.
    pub(crate) fn with(project: &Project, args: &[&str]) -> Self {
        let mut raw = Self::start(project, args);
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}});
        let answer = raw.ask(0, "initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "creel");
        raw.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        raw
    }

    pub(crate) fn line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .expect("it reads");
    }

    pub(crate) fn send(&mut self, id: u32, method: &str, params: &Value) {
        self.line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
    }

    pub(crate) fn ask(&mut self, id: u32, method: &str, params: &Value) -> Value {
        self.send(id, method, params);
        let answer = self.answer().expect("an answer");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn call(&mut self, id: u32, tool: &str, arguments: &Value) -> Value {
        self.ask(
            id,
            "tools/call",
            &json!({"name": tool, "arguments": arguments}),
        )
    }

    /// The next message. None at the end.
    pub(crate) fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("JSON"))
    }

    /// Calls a tool that succeeds, and returns its output.
    #[track_caller]
    pub(crate) fn does(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.call(7, tool, arguments);
        assert_ne!(answer["result"]["isError"], true, "{tool}: {answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Closes its output, and reads until the server has ended.
    pub(crate) fn hang_up(mut self) -> (Vec<Value>, i32) {
        drop(self.stdin.take());
        let rest = std::iter::from_fn(|| self.answer()).collect();
        (
            rest,
            self.child.wait().expect("it ended").code().unwrap_or(-1),
        )
    }

    /// Closes both streams without a goodbye.
    pub(crate) fn die(mut self) -> Child {
        drop(self.stdin.take());
        drop(self.stdout);
        self.child
    }
}
