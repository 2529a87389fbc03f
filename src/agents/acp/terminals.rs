//! Commands that creel runs for an agent.
//!
//! Owns the commands, the part of their output that the agent wants, and their end. Each is a
//! process like a hook's: see [`crate::process::run`].
//!
//! # Invariants
//! - A command that was released, or whose agent is gone, is ended with everything that it started.
//! - The stored output is bounded.

use std::{
    collections::HashMap,
    ffi::OsString,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_client_protocol::v1::schema as s;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::connection::AcpEvent;
use super::files::{GuardedProjectDir, ServedFileError};
use crate::{
    agents::{INPUT_MAX, NOTE_MAX, is_recorded_in_part, limited},
    engine::conversation::{AgentUpdate, ToolCall, ToolKind, ToolStatus},
    process::{
        output::{TailBuffer, torn_start},
        run::{self, OutputStream, ProcessEnd, ProcessGroup, ProcessObserver, ProcessSpec},
        secrets,
    },
    text::StreamMask,
};

/// Bytes of output to store by default.
const KEPT: usize = 1 << 20;
/// Bytes of output to store at most, whatever the agent asks for.
const KEPT_MAX: usize = 8 << 20;
/// Bytes of output in the tool call.
const SHOWN: usize = 4 << 10;

#[derive(Debug)]
pub(super) enum TerminalEvent {
    Started(ProcessGroup),
    Ended(ToolCall),
}

#[derive(Debug, Default)]
pub(super) struct AcpTerminals {
    all: HashMap<String, AcpTerminal>,
    last: u32,
}

#[derive(Debug)]
struct AcpTerminal {
    printed: SharedTerminalBuffer,
    ended: watch::Receiver<Option<s::TerminalExitStatus>>,
    cancel: CancellationToken,
}

/// Dropping a terminal ends its command.
impl Drop for AcpTerminal {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Cheap to clone.
#[derive(Debug, Clone)]
struct SharedTerminalBuffer(Arc<Mutex<TerminalBuffer>>);

#[derive(Debug)]
struct TerminalBuffer {
    ring: TailBuffer,
    total: u64,
}

impl SharedTerminalBuffer {
    fn kept(&self) -> MutexGuard<'_, TerminalBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.ring.push(bytes);
        kept.total += bytes.len() as u64;
    }

    /// The text, and whether its beginning is missing.
    fn text(&self) -> (String, bool) {
        let kept = self.kept();
        let mut bytes = kept.ring.bytes();
        let truncated = kept.total > bytes.len() as u64;
        if truncated {
            bytes.drain(..torn_start(&bytes));
        }
        (String::from_utf8_lossy(&bytes).into_owned(), truncated)
    }
}

#[derive(Debug, Clone)]
pub(super) struct TerminalEnvironment {
    pub(super) project_dir: GuardedProjectDir,
    pub(super) env: Vec<(String, String)>,
    /// Variables of creel that its commands do not get.
    pub(super) unset: Vec<OsString>,
    pub(super) mark: String,
    pub(super) news: mpsc::Sender<AcpEvent>,
}

impl AcpTerminals {
    /// Ends all commands. Their names are not reused, because a command can need a moment to end.
    pub(super) fn end_all(&mut self) {
        self.all.clear();
    }

    /// Starts a command. Returns its id and the update to show.
    pub(super) fn create(
        &mut self,
        request: s::CreateTerminalRequest,
        site: &TerminalEnvironment,
    ) -> Result<(s::TerminalId, AgentUpdate), TerminalError> {
        let cwd = site.project_dir.folder(request.cwd.as_deref())?;
        self.last += 1;
        let name = format!("terminal-{}", self.last);
        let line = command_line(&request.command, &request.args);
        let call = ToolCall {
            call: name.clone(),
            title: limited(&readable(&request.command, &request.args), NOTE_MAX),
            status: ToolStatus::InProgress,
            kind: Some(ToolKind::Execute),
            served: true,
            ..ToolCall::default()
        };
        let wanted = request
            .output_byte_limit
            .map_or(KEPT, |limit| usize::try_from(limit).unwrap_or(KEPT_MAX));
        let ring = TailBuffer::new(wanted.clamp(1, KEPT_MAX));
        let printed = SharedTerminalBuffer(Arc::new(Mutex::new(TerminalBuffer { ring, total: 0 })));
        let given = request
            .env
            .into_iter()
            .map(|variable| (variable.name, variable.value));
        let spec = ProcessSpec {
            command: line,
            cwd,
            env: site.env.iter().cloned().chain(given).collect(),
            stdin: Vec::new(),
            timeout: None,
            grace: run::GRACE,
            unset: site.unset.clone(),
            mark: format!("{}/{name}", site.mark),
        };
        let (end, ended) = watch::channel(None);
        let cancel = CancellationToken::new();
        tokio::spawn(run(
            spec,
            call.clone(),
            printed.clone(),
            end,
            cancel.clone(),
            site.news.clone(),
        ));
        self.all.insert(
            name.clone(),
            AcpTerminal {
                printed,
                ended,
                cancel,
            },
        );
        Ok((s::TerminalId::new(name), AgentUpdate::ToolCalled(call)))
    }

    pub(super) fn output(
        &self,
        id: &s::TerminalId,
    ) -> Result<s::TerminalOutputResponse, TerminalError> {
        let terminal = self.find(id)?;
        let (text, truncated) = terminal.printed.text();
        let status = terminal.ended.borrow().clone();
        Ok(s::TerminalOutputResponse::new(text, truncated).exit_status(status))
    }

    /// Resolves when the command has ended.
    pub(super) fn end(
        &self,
        id: &s::TerminalId,
    ) -> Result<impl Future<Output = s::TerminalExitStatus> + Send + use<>, TerminalError> {
        let mut ended = self.find(id)?.ended.clone();
        Ok(async move {
            let known = ended
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|status| status.clone());
            known.unwrap_or_default()
        })
    }

    pub(super) fn kill(&self, id: &s::TerminalId) -> Result<(), TerminalError> {
        self.find(id).map(|terminal| terminal.cancel.cancel())
    }

    pub(super) fn release(&mut self, id: &s::TerminalId) -> Result<(), TerminalError> {
        self.all
            .remove(&*id.0)
            .map(drop)
            .ok_or_else(|| TerminalError::Unknown(id.clone()))
    }

    fn find(&self, id: &s::TerminalId) -> Result<&AcpTerminal, TerminalError> {
        self.all
            .get(&*id.0)
            .ok_or_else(|| TerminalError::Unknown(id.clone()))
    }
}

/// The tool call to show for a command, and whether parts of the command were cut.
pub(super) fn described(request: &s::CreateTerminalRequest) -> (ToolCall, bool) {
    let line = readable(&request.command, &request.args);
    let env: Map<String, Value> = request
        .env
        .iter()
        .map(|it| (it.name.clone(), it.value.clone().into()))
        .collect();
    let mut input = json!({ "command": request.command });
    if !request.args.is_empty() {
        input["args"] = json!(request.args);
    }
    if let Some(cwd) = &request.cwd {
        input["cwd"] = json!(cwd);
    }
    if !env.is_empty() {
        input["env"] = env.into();
    }
    let input = format!("{input:#}");
    let shortened = is_recorded_in_part(&line, NOTE_MAX) || is_recorded_in_part(&input, INPUT_MAX);
    let call = ToolCall {
        call: "command".to_owned(),
        title: limited(&line, NOTE_MAX),
        kind: Some(ToolKind::Execute),
        input: Some(limited(&input, INPUT_MAX)),
        served: true,
        ..ToolCall::default()
    };
    (call, shortened)
}

/// Why the agent cannot use a terminal.
#[derive(Debug, thiserror::Error)]
pub(super) enum TerminalError {
    #[error("there is no terminal {0}")]
    Unknown(s::TerminalId),
    #[error(transparent)]
    Folder(#[from] ServedFileError),
}

/// A program with arguments, or a whole shell command line, which many agents send.
fn command_line(command: &str, args: &[String]) -> String {
    if args.is_empty() {
        return command.to_owned();
    }
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let words = std::iter::once(command).chain(args.iter().map(String::as_str));
    format!("exec {}", words.map(quoted).collect::<Vec<_>>().join(" "))
}

fn readable(command: &str, args: &[String]) -> String {
    std::iter::once(command)
        .chain(args.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ")
}

async fn run(
    spec: ProcessSpec,
    call: ToolCall,
    printed: SharedTerminalBuffer,
    end: watch::Sender<Option<s::TerminalExitStatus>>,
    cancel: CancellationToken,
    news: mpsc::Sender<AcpEvent>,
) {
    let mut watch = TerminalObserver {
        printed: printed.clone(),
        started: Some(news.clone()),
        mask: secrets::stream(),
    };
    let ended = run::run(spec, &mut watch, &cancel).await;
    printed.push(&watch.mask.finish());
    let (text, _) = printed.text();
    let (status, ending) = match &ended {
        ProcessEnd::Exit(0) => (ToolStatus::Completed, String::new()),
        ProcessEnd::Exit(code) => (ToolStatus::Failed, format!("exit {code}")),
        ProcessEnd::Signal(signal) => (ToolStatus::Failed, format!("killed by signal {signal}")),
        ProcessEnd::Cancelled | ProcessEnd::TimedOut => {
            (ToolStatus::Failed, "stopped by the agent".into())
        }
        ProcessEnd::SpawnFailed(why) => (ToolStatus::Failed, why.clone()),
    };
    let start = text.ceil_char_boundary(text.len().saturating_sub(SHOWN));
    let output = [text[start..].trim_end(), &ending]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>();
    let call = ToolCall {
        status,
        output: Some(output.join("\n")).filter(|text| !text.is_empty()),
        ..call
    };
    let _ = end.send(Some(exit_status(&ended)));
    // The receiver is gone if the agent is gone.
    let _ = news
        .send(AcpEvent::Terminal(TerminalEvent::Ended(call)))
        .await;
}

fn exit_status(ended: &ProcessEnd) -> s::TerminalExitStatus {
    let status = s::TerminalExitStatus::new();
    match ended {
        ProcessEnd::Exit(code) => status.exit_code(u32::try_from(*code).unwrap_or(1)),
        ProcessEnd::Signal(signal) => status.signal(signal.to_string()),
        ProcessEnd::Cancelled | ProcessEnd::TimedOut => status.signal("TERM".to_owned()),
        ProcessEnd::SpawnFailed(_) => status.exit_code(127),
    }
}

/// Stores the end of the output.
struct TerminalObserver {
    printed: SharedTerminalBuffer,
    started: Option<mpsc::Sender<AcpEvent>>,
    /// Both streams are one text.
    mask: StreamMask,
}

impl ProcessObserver for TerminalObserver {
    fn started(&mut self, group: ProcessGroup) {
        if let Some(news) = self.started.take() {
            // An observer must not block, so another task waits for room in the queue.
            tokio::spawn(async move {
                news.send(AcpEvent::Terminal(TerminalEvent::Started(group)))
                    .await
            });
        }
    }

    fn output(&mut self, _: OutputStream, bytes: &[u8]) {
        self.printed.push(&self.mask.push(bytes));
    }
}
