//! What is done for an agent that asks for it: leave, files, commands.
//!
//! # Invariants
//! - Every question is answered once: served, declined with a reason, or cancelled with the turn.
//! - What is read, written or run is passed on as a tool call, so that a person sees it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agent_client_protocol::{
    Error,
    v1::{Responder, schema as s},
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    files::{FileError, Served},
    link::{FromAgent, Wanted},
    serves,
    terminals::{Site, Terminals},
    translate::{self, Book},
};
use crate::{
    agents::{
        AgentPlace, PermissionRequest, Updates, environment,
        tool::{LONG_MAX, limited},
    },
    engine::{
        conversation::{AgentUpdate, Location, PermissionAnswer, ToolCall, ToolKind, ToolStatus},
        policy::{Permissions, Service},
    },
};

/// The protocol's number for something that is not there.
const NOT_FOUND: i32 = -32002;

/// What is done for an agent.
pub(super) struct Services {
    files: Service,
    commands: Service,
    place: AgentPlace,
    premises: Served,
    terminals: Terminals,
    /// What is known of its tool calls.
    pub(super) book: Book,
    served: u32,
    /// Whether something that it asked leave for was refused in this turn.
    refused: Arc<AtomicBool>,
}

impl Services {
    pub(super) fn new(files: Service, commands: Service, place: &AgentPlace) -> Self {
        Self {
            files,
            commands,
            premises: Served::new(&place.cwd),
            place: place.clone(),
            terminals: Terminals::default(),
            book: Book::default(),
            served: 0,
            refused: Arc::default(),
        }
    }

    /// A new turn.
    pub(super) fn next_turn(&mut self) {
        self.book.next_turn();
        self.refused = Arc::default();
    }

    /// Whether the agent was refused something in this turn.
    pub(super) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// What the agent is told that it can ask for.
    pub(super) fn capabilities(&self) -> s::ClientCapabilities {
        let files = serves(self.files);
        s::ClientCapabilities::new()
            .fs(s::FileSystemCapabilities::new().read_text_file(files).write_text_file(files))
            .terminal(serves(self.commands))
    }

    /// The agent is gone, or its turn was cut short: its commands end.
    pub(super) fn end_all(&mut self) {
        self.terminals.end_all();
    }

    /// Passes a request for leave on, and the answer back.
    pub(super) async fn ask(
        &mut self,
        request: s::RequestPermissionRequest,
        responder: Responder<s::RequestPermissionResponse>,
        updates: &mut dyn Updates,
        stop: &CancellationToken,
    ) {
        let tool = self.book.asked(request.tool_call);
        let options = translate::options(request.options);
        let noes: Vec<String> = options.iter().filter(|o| !o.kind.allows()).map(|o| o.id.clone()).collect();
        let refused = self.refused.clone();
        let (sender, answer) = oneshot::channel();
        if !stop.is_cancelled() {
            updates.permission(PermissionRequest { tool, options, answer: sender }).await;
        }
        let stop = stop.clone();
        tokio::spawn(async move {
            let answer = tokio::select! {
                biased;
                answer = answer => answer.unwrap_or(PermissionAnswer::Cancelled),
                () = stop.cancelled() => PermissionAnswer::Cancelled,
            };
            let outcome = match answer {
                PermissionAnswer::Selected(id) => {
                    refused.fetch_or(noes.contains(&id), Ordering::Relaxed);
                    s::RequestPermissionOutcome::Selected(s::SelectedPermissionOutcome::new(id))
                }
                PermissionAnswer::Cancelled => s::RequestPermissionOutcome::Cancelled,
            };
            // An agent that is gone needs no answer.
            let _ = responder.respond(s::RequestPermissionResponse::new(outcome));
        });
    }

    /// Reads, writes or runs something.
    pub(super) async fn serve(&mut self, wanted: Wanted, updates: &mut dyn Updates, news: &mpsc::Sender<FromAgent>) {
        let answered = match wanted {
            Wanted::Read(request, responder) => {
                let read = self.read(&request, updates).await;
                responder.respond_with_result(read.map(s::ReadTextFileResponse::new))
            }
            Wanted::Write(request, responder) => {
                let written = self.write(&request, updates).await;
                responder.respond_with_result(written.map(|()| s::WriteTextFileResponse::new()))
            }
            Wanted::CreateTerminal(request, responder) => {
                let created = self.create(request, updates, news).await;
                responder.respond_with_result(created.map(s::CreateTerminalResponse::new))
            }
            Wanted::TerminalOutput(request, responder) => {
                responder.respond_with_result(self.terminals.output(&request.terminal_id).map_err(refused))
            }
            Wanted::WaitForTerminal(request, responder) => match self.terminals.end(&request.terminal_id) {
                Err(why) => responder.respond_with_error(refused(why)),
                Ok(end) => {
                    tokio::spawn(async move { responder.respond(s::WaitForTerminalExitResponse::new(end.await)) });
                    Ok(())
                }
            },
            Wanted::KillTerminal(request, responder) => {
                let killed = self.terminals.kill(&request.terminal_id).map_err(refused);
                responder.respond_with_result(killed.map(|()| s::KillTerminalResponse::new()))
            }
            Wanted::ReleaseTerminal(request, responder) => {
                let released = self.terminals.release(&request.terminal_id).map_err(refused);
                responder.respond_with_result(released.map(|()| s::ReleaseTerminalResponse::new()))
            }
        };
        if let Err(error) = answered {
            tracing::debug!("an answer did not reach the agent: {error}");
        }
    }

    async fn read(&mut self, request: &s::ReadTextFileRequest, updates: &mut dyn Updates) -> Result<String, Error> {
        let call = self.call(ToolKind::Read, &request.path, request.line);
        self.permit_file(&call, &request.path)?;
        let (premises, path, line, limit) = (self.premises.clone(), request.path.clone(), request.line, request.limit);
        let read = off_the_loop(move || premises.read(&path, line, limit)).await;
        tell(call, read.as_ref().map(|text| (None, Some(size(text)))), updates).await;
        read.map_err(|error| not_served(&error))
    }

    async fn write(&mut self, request: &s::WriteTextFileRequest, updates: &mut dyn Updates) -> Result<(), Error> {
        let call = self.call(ToolKind::Edit, &request.path, None);
        self.permit_file(&call, &request.path)?;
        let (premises, path, text) = (self.premises.clone(), request.path.clone(), request.content.clone());
        let written = off_the_loop(move || premises.write(&path, &text)).await;
        let shown = written.as_ref().map(|diff| (Some(limited(diff, LONG_MAX)), None));
        tell(call, shown, updates).await;
        written.map(drop).map_err(|error| not_served(&error))
    }

    async fn create(
        &mut self,
        request: s::CreateTerminalRequest,
        updates: &mut dyn Updates,
        news: &mpsc::Sender<FromAgent>,
    ) -> Result<s::TerminalId, Error> {
        let call = ToolCall { kind: Some(ToolKind::Execute), ..ToolCall::default() };
        self.permit(self.commands, &call)?;
        let site = Site {
            premises: self.premises.clone(),
            env: environment(&self.place).into_iter().collect(),
            mark: self.place.mark.clone(),
            news: news.clone(),
        };
        let (id, update) = self.terminals.create(request, &site).map_err(refused)?;
        updates.update(update).await;
        Ok(id)
    }

    /// Whether it may be done at all: the config may say no to the service, and to this file.
    fn permit(&self, service: Service, call: &ToolCall) -> Result<(), Error> {
        if !serves(service) {
            return Err(Error::method_not_found());
        }
        match self.place.rules.says(&self.place.cwd.display().to_string(), call) {
            Some(Permissions::Deny) => Err(refused("the person's rules (`permissions:`) deny it".into())),
            Some(Permissions::Allow | Permissions::Ask) | None => Ok(()),
        }
    }

    /// The same for a file: by its name, and by where a link leads.
    fn permit_file(&self, call: &ToolCall, path: &Path) -> Result<(), Error> {
        self.permit(self.files, call)?;
        let path = self.premises.leads_to(path);
        self.permit(self.files, &ToolCall { locations: vec![Location { path, line: None }], ..call.clone() })
    }

    fn call(&mut self, kind: ToolKind, path: &Path, line: Option<u32>) -> ToolCall {
        self.served += 1;
        let path = path.strip_prefix(&self.place.cwd).unwrap_or(path).display().to_string();
        ToolCall {
            call: format!("file-{}", self.served),
            title: format!("{} {path}", if kind == ToolKind::Read { "read" } else { "write" }),
            kind: Some(kind),
            locations: vec![Location { path, line }],
            ..ToolCall::default()
        }
    }
}

/// What is shown of a file that was served: what changed, what came back.
type Shown = (Option<String>, Option<String>);

async fn tell(call: ToolCall, shown: Result<Shown, &FileError>, updates: &mut dyn Updates) {
    let call = match shown {
        Ok((diff, output)) => ToolCall { status: ToolStatus::Completed, diff, output, ..call },
        Err(error) => ToolCall { status: ToolStatus::Failed, output: Some(error.to_string()), ..call },
    };
    updates.update(AgentUpdate::ToolCalled(call)).await;
}

fn size(text: &str) -> String {
    format!("{} lines, {} bytes", text.lines().count(), text.len())
}

/// Disks can be slow, and the agent is not the only one who waits.
async fn off_the_loop<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let gone = |error: tokio::task::JoinError| FileError::Io { path: "file".into(), error: error.into() };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(gone(error)))
}

fn not_served(error: &FileError) -> Error {
    match error {
        FileError::Missing(_) => Error::new(NOT_FOUND, error.to_string()),
        FileError::Outside { .. }
        | FileError::NotAFile(_)
        | FileError::TooLarge { .. }
        | FileError::NotText(_)
        | FileError::Io { .. } => refused(error.to_string()),
    }
}

/// The reason is in the message: that is what agents read.
fn refused(why: String) -> Error {
    Error::new(i32::from(Error::invalid_params().code), why)
}
