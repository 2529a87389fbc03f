//! The agent's requests to creel: permission requests, reading and writing files, running commands.
//!
//! # Invariants
//! - Every request is answered once: served, refused with a reason, or cancelled with the turn.
//! - creel reads, writes and runs nothing that the engine has not allowed, and writes nothing that
//!   the guard protects.
//! - Each file access and command becomes a tool call, so that the user sees it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agent_client_protocol::{
    Error,
    v1::{Responder, schema as s},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connection::{AcpEvent, AcpServiceRequest, DecidedRequest};
use super::{
    files::{GuardedProjectDir, ReplacedText, ServedFileError},
    questions,
    terminals::{self, AcpTerminals, TerminalEnvironment},
    translate::{self, AcpConversation, EditPlaces},
};
use crate::{
    agents::{
        AgentObserver, AgentWorkspace, LONG_MAX, PendingAnswer, PermissionRequest, environment,
        limited, mcp_tools::ToolServer,
    },
    engine::{
        conversation::{
            AgentUpdate, FileLocation, PermissionAnswer, PermissionOption, PermissionOptionKind,
            PermissionSource, ToolCall, ToolKind, ToolStatus,
        },
        policy::{AgentFacts, ServicePolicy},
    },
    process::trace_context::TracedWork,
    text::counted,
};

/// The protocol's error code for a missing resource.
const NOT_FOUND: i32 = -32002;
/// The option that allows a request to creel.
const ALLOW: &str = "allow_once";
/// The error that the agent gets for a refused request.
const DENIED: &str = "permission denied: the user or creel's config (`gates.permissions`, `permissions:`) does not allow this";
/// The error for a request that had no decision when its turn ended.
const OVER: &str = "cancelled: the turn ended before the user allowed this";

/// The content of a request. Owned, because requests cannot be shared between threads.
enum ServiceSubject {
    Read(PathBuf, Option<u32>),
    Write(PathBuf, String),
    /// The tool call to show, and whether parts of the command were cut.
    Run(Box<ToolCall>, bool),
}

impl ServiceSubject {
    fn of(wanted: &AcpServiceRequest) -> Option<Self> {
        match wanted {
            AcpServiceRequest::Read(request, _) => {
                Some(Self::Read(request.path.clone(), request.line))
            }
            AcpServiceRequest::Write(request, _) => {
                Some(Self::Write(request.path.clone(), request.content.clone()))
            }
            AcpServiceRequest::CreateTerminal(request, _) => {
                let (call, shortened) = terminals::described(request);
                Some(Self::Run(Box::new(call), shortened))
            }
            AcpServiceRequest::TerminalOutput(..)
            | AcpServiceRequest::WaitForTerminal(..)
            | AcpServiceRequest::KillTerminal(..)
            | AcpServiceRequest::ReleaseTerminal(..)
            | AcpServiceRequest::Ask(..) => None,
        }
    }
}

enum ServiceRefusal {
    /// The config turns the service off.
    Declined,
    /// creel never does this for an agent.
    Refused(Box<ToolCall>, ServedFileError),
}

pub(super) struct AcpServices {
    files: ServicePolicy,
    commands: ServicePolicy,
    place: AgentWorkspace,
    /// Whether the agent gets creel's own tools.
    offers_tools: bool,
    project_dir: GuardedProjectDir,
    terminals: AcpTerminals,
    /// The agent's tool calls.
    pub(super) book: AcpConversation,
    served: u32,
    /// Whether a permission request was refused in this turn, or a question declined.
    refused: Arc<AtomicBool>,
}

impl AcpServices {
    pub(super) fn new(
        files: ServicePolicy,
        commands: ServicePolicy,
        place: &AgentWorkspace,
        known: &AgentFacts,
    ) -> Self {
        Self {
            offers_tools: ToolServer::of(place, known).is_some(),
            files,
            commands,
            project_dir: GuardedProjectDir::new(&place.cwd, place.guard.clone()),
            place: place.clone(),
            terminals: AcpTerminals::default(),
            book: AcpConversation::default(),
            served: 0,
            refused: Arc::default(),
        }
    }

    pub(super) fn next_turn(&mut self) {
        self.book.next_turn();
        self.refused = Arc::default();
    }

    pub(super) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// The services that creel offers to the agent.
    pub(super) fn capabilities(&self) -> s::ClientCapabilities {
        let files = serves(self.files);
        s::ClientCapabilities::new()
            .fs(s::FileSystemCapabilities::new()
                .read_text_file(files)
                .write_text_file(files))
            .terminal(serves(self.commands))
            .elicitation(questions::capabilities())
            .session(
                s::ClientSessionCapabilities::new()
                    .notices(s::NoticeCapabilities::default())
                    .compaction(s::CompactionCapabilities::default())
                    .config_options(
                        s::SessionConfigOptionsCapabilities::new()
                            .boolean(s::BooleanConfigOptionCapabilities::new()),
                    ),
            )
    }

    /// Ends the agent's commands, because it is gone or its turn was cancelled.
    pub(super) fn end_all(&mut self) {
        self.terminals.end_all();
    }

    /// Forwards a permission request to the engine, and the answer to the agent.
    pub(super) async fn ask(
        &mut self,
        request: s::RequestPermissionRequest,
        responder: Responder<s::RequestPermissionResponse>,
        updates: &mut dyn AgentObserver,
        stop: &CancellationToken,
    ) {
        let mut call = request.tool_call;
        let edits = self.place_edits(&mut call).await;
        let (mut tool, details, was_announced) = self.book.asked(call, edits);
        let places = tool.locations.iter().map(|place| place.path.as_str());
        let named = places.chain(tool.files.iter().map(String::as_str));
        let linked = named.filter_map(|file| {
            let file = file.strip_prefix("file://").unwrap_or(file);
            let is_path = !file.starts_with(['~', '$']) && !file.contains("://");
            self.led_to(Path::new(file)).1.filter(|_| is_path)
        });
        let linked: Vec<String> = linked.collect();
        tool.files.extend(linked);
        if was_announced {
            updates.update(AgentUpdate::ToolCalled(tool.clone())).await;
        }
        let own = self.offers_tools && details.is_own_tool(&tool);
        let (source, shortened) = (
            if own {
                PermissionSource::CreelTool
            } else {
                PermissionSource::Agent
            },
            details.shortened,
        );
        let options = translate::options(request.options);
        let noes: Vec<String> = options
            .iter()
            .filter(|o| !o.kind.allows())
            .map(|o| o.id.clone())
            .collect();
        let refused = self.refused.clone();
        let answer = PendingAnswer::ask(updates, stop, |answer| PermissionRequest {
            tool,
            options,
            source,
            shortened,
            whole: details.whole,
            answer,
        });
        let answer = answer.await;
        tokio::spawn(async move {
            let outcome = match answer.wait().await {
                PermissionAnswer::Selected(id) => {
                    refused.fetch_or(noes.contains(&id), Ordering::Relaxed);
                    s::RequestPermissionOutcome::Selected(s::SelectedPermissionOutcome::new(id))
                }
                PermissionAnswer::Declined { .. }
                | PermissionAnswer::Refused(_)
                | PermissionAnswer::Undecided
                | PermissionAnswer::Cancelled => s::RequestPermissionOutcome::Cancelled,
            };
            // An agent that is gone needs no answer.
            let _ = responder.respond(s::RequestPermissionResponse::new(outcome));
        });
    }

    /// Some agents show only the text that an edit replaces. Finds it in its file, so that the user
    /// sees where it is.
    async fn place_edits(&self, call: &mut s::ToolCallUpdate) -> EditPlaces {
        let input = call.fields.raw_input.as_ref();
        let everywhere = input.is_some_and(|input| input["replace_all"] == true);
        let mut places = EditPlaces::Unknown;
        for content in call.fields.content.iter_mut().flatten() {
            let s::ToolCallContent::Diff(diff) = content else {
                continue;
            };
            let old = diff.old_text.clone().filter(|old| !old.is_empty());
            let (Some(old), new) = (old, diff.new_text.clone()) else {
                continue;
            };
            let edit = ReplacedText {
                old,
                new,
                everywhere,
            };
            let (project_dir, path) = (self.project_dir.clone(), diff.path.clone());
            let edited = off_the_loop(move || project_dir.edited(&path, &edit)).await;
            if let Ok(Some((before, after))) = edited {
                (diff.old_text, diff.new_text) = (Some(before), after);
                places = EditPlaces::Known;
            }
        }
        places
    }

    /// Serves a request. The engine decides whether creel reads, writes or runs something.
    pub(super) async fn serve(
        &mut self,
        wanted: AcpServiceRequest,
        updates: &mut dyn AgentObserver,
        news: &mpsc::Sender<AcpEvent>,
        stop: &CancellationToken,
    ) {
        let answered = match wanted {
            AcpServiceRequest::Read(..)
            | AcpServiceRequest::Write(..)
            | AcpServiceRequest::CreateTerminal(..) => {
                return self.request(wanted, updates, news, stop).await;
            }
            AcpServiceRequest::Ask(request, responder) => {
                let refused = self.refused.clone();
                return questions::ask(request, responder, updates, (refused, stop)).await;
            }
            AcpServiceRequest::TerminalOutput(request, responder) => responder
                .respond_with_result(self.terminals.output(&request.terminal_id).map_err(refused)),
            AcpServiceRequest::WaitForTerminal(request, responder) => {
                match self.terminals.end(&request.terminal_id) {
                    Err(why) => responder.respond_with_error(refused(why)),
                    Ok(end) => {
                        tokio::spawn(async move {
                            responder.respond(s::WaitForTerminalExitResponse::new(end.await))
                        });
                        Ok(())
                    }
                }
            }
            AcpServiceRequest::KillTerminal(request, responder) => {
                let killed = self.terminals.kill(&request.terminal_id).map_err(refused);
                responder.respond_with_result(killed.map(|()| s::KillTerminalResponse::new()))
            }
            AcpServiceRequest::ReleaseTerminal(request, responder) => {
                let released = self
                    .terminals
                    .release(&request.terminal_id)
                    .map_err(refused);
                responder.respond_with_result(released.map(|()| s::ReleaseTerminalResponse::new()))
            }
        };
        lost(answered);
    }

    /// Asks the engine for a decision. The agent's other messages and requests continue meanwhile.
    async fn request(
        &mut self,
        wanted: AcpServiceRequest,
        updates: &mut dyn AgentObserver,
        news: &mpsc::Sender<AcpEvent>,
        stop: &CancellationToken,
    ) {
        let subject = ServiceSubject::of(&wanted);
        let (call, shortened) = match self.described(subject).await {
            Ok(described) => described,
            Err(ServiceRefusal::Declined) => return lost(wanted.fail(Error::method_not_found())),
            Err(ServiceRefusal::Refused(call, error)) => {
                let answer = not_served(&error);
                tell(*call, Err(&error), updates).await;
                return lost(wanted.fail(answer));
            }
        };
        let answer = PendingAnswer::ask(updates, stop, |answer| PermissionRequest {
            tool: call.clone(),
            options: own_options(),
            source: PermissionSource::Service,
            shortened,
            whole: None,
            answer,
        });
        let (answer, news) = (answer.await, news.clone());
        tokio::spawn(async move {
            let answer = answer.wait().await;
            // An agent that is gone needs no answer.
            let _ = news
                .send(AcpEvent::Decided(Box::new(DecidedRequest {
                    wanted,
                    call,
                    answer,
                })))
                .await;
        });
    }

    /// The tool call to show, with everything that the decision depends on.
    async fn described(
        &mut self,
        subject: Option<ServiceSubject>,
    ) -> Result<(ToolCall, bool), ServiceRefusal> {
        let Some(subject) = subject else {
            return Err(ServiceRefusal::Declined);
        };
        let service = if matches!(subject, ServiceSubject::Run(..)) {
            self.commands
        } else {
            self.files
        };
        if !serves(service) {
            return Err(ServiceRefusal::Declined);
        }
        match subject {
            ServiceSubject::Read(path, line) => Ok((self.call(ToolKind::Read, &path, line), false)),
            ServiceSubject::Write(path, text) => {
                let call = self.call(ToolKind::Edit, &path, None);
                let project_dir = self.project_dir.clone();
                match off_the_loop(move || project_dir.preview(&path, &text)).await {
                    Ok(diff) => Ok((
                        ToolCall {
                            diff: Some(limited(&diff, LONG_MAX)),
                            ..call
                        },
                        false,
                    )),
                    Err(error) => Err(ServiceRefusal::Refused(Box::new(call), error)),
                }
            }
            ServiceSubject::Run(call, shortened) => Ok((*call, shortened)),
        }
    }

    /// Reads, writes or runs, or tells the agent about the refusal.
    pub(super) async fn carry_out(
        &mut self,
        decided: DecidedRequest,
        updates: &mut dyn AgentObserver,
        news: &mpsc::Sender<AcpEvent>,
    ) {
        let DecidedRequest {
            wanted,
            call,
            answer,
        } = decided;
        let allowed = matches!(&answer, PermissionAnswer::Selected(id) if id == ALLOW);
        if !allowed {
            self.refused
                .fetch_or(answer != PermissionAnswer::Cancelled, Ordering::Relaxed);
            let why = if answer == PermissionAnswer::Cancelled {
                OVER
            } else {
                DENIED
            };
            let call = ToolCall {
                status: ToolStatus::Failed,
                diff: None,
                output: Some(why.to_owned()),
                ..call
            };
            updates.update(AgentUpdate::ToolCalled(call)).await;
            return lost(wanted.fail(refused(why.to_owned())));
        }
        lost(match wanted {
            AcpServiceRequest::Read(request, responder) => {
                let read = self.read(call, request, updates).await;
                responder.respond_with_result(read.map(s::ReadTextFileResponse::new))
            }
            AcpServiceRequest::Write(request, responder) => {
                let written = self.write(call, request, updates).await;
                responder.respond_with_result(written.map(|()| s::WriteTextFileResponse::new()))
            }
            AcpServiceRequest::CreateTerminal(request, responder) => {
                let created = self.create(request, updates, news).await;
                responder.respond_with_result(created.map(s::CreateTerminalResponse::new))
            }
            // These need no decision.
            AcpServiceRequest::TerminalOutput(..)
            | AcpServiceRequest::WaitForTerminal(..)
            | AcpServiceRequest::KillTerminal(..)
            | AcpServiceRequest::ReleaseTerminal(..)
            | AcpServiceRequest::Ask(..) => Ok(()),
        });
    }

    async fn read(
        &mut self,
        call: ToolCall,
        request: s::ReadTextFileRequest,
        updates: &mut dyn AgentObserver,
    ) -> Result<String, Error> {
        let project_dir = self.project_dir.clone();
        let read =
            off_the_loop(move || project_dir.read(&request.path, request.line, request.limit))
                .await;
        tell(
            call,
            read.as_ref().map(|text| (None, Some(size(text)))),
            updates,
        )
        .await;
        read.map_err(|error| not_served(&error))
    }

    async fn write(
        &mut self,
        call: ToolCall,
        request: s::WriteTextFileRequest,
        updates: &mut dyn AgentObserver,
    ) -> Result<(), Error> {
        let project_dir = self.project_dir.clone();
        let written =
            off_the_loop(move || project_dir.write(&request.path, &request.content)).await;
        let shown = written
            .as_ref()
            .map(|diff| (Some(limited(diff, LONG_MAX)), None));
        tell(call, shown, updates).await;
        written.map(drop).map_err(|error| not_served(&error))
    }

    async fn create(
        &mut self,
        request: s::CreateTerminalRequest,
        updates: &mut dyn AgentObserver,
        news: &mpsc::Sender<AcpEvent>,
    ) -> Result<s::TerminalId, Error> {
        let site = TerminalEnvironment {
            project_dir: self.project_dir.clone(),
            env: environment(&self.place, TracedWork::Session(0))
                .into_iter()
                .collect(),
            unset: self.place.unset(),
            mark: self.place.mark.clone(),
            news: news.clone(),
        };
        let (id, update) = self.terminals.create(request, &site).map_err(refused)?;
        updates.update(update).await;
        Ok(id)
    }

    /// Lists the agent's path and, for a link, its target: rules apply to both.
    /// A path as the user reads it, and where links on the way lead.
    fn led_to(&self, path: &Path) -> (String, Option<String>) {
        let real = self.project_dir.leads_to(path);
        let path = path.strip_prefix(&self.place.cwd).unwrap_or(path);
        let path = path.display().to_string();
        let linked = (real != path).then_some(real);
        (path, linked)
    }

    fn call(&mut self, kind: ToolKind, path: &Path, line: Option<u32>) -> ToolCall {
        self.served += 1;
        let (path, linked) = self.led_to(path);
        let linked = linked.map(|path| FileLocation { path, line: None });
        ToolCall {
            call: format!("file-{}", self.served),
            title: format!(
                "{} {path}",
                if kind == ToolKind::Read {
                    "read"
                } else {
                    "write"
                }
            ),
            kind: Some(kind),
            locations: std::iter::once(FileLocation { path, line })
                .chain(linked)
                .collect(),
            served: true,
            ..ToolCall::default()
        }
    }
}

/// The diff and the output to show for a file.
type FileCallResult = (Option<String>, Option<String>);

async fn tell(
    call: ToolCall,
    shown: Result<FileCallResult, &ServedFileError>,
    updates: &mut dyn AgentObserver,
) {
    let call = match shown {
        Ok((diff, output)) => ToolCall {
            status: ToolStatus::Completed,
            diff,
            output,
            ..call
        },
        Err(error) => ToolCall {
            status: ToolStatus::Failed,
            output: Some(error.to_string()),
            ..call
        },
    };
    updates.update(AgentUpdate::ToolCalled(call)).await;
}

/// The options for a request to creel.
fn own_options() -> Vec<PermissionOption> {
    let option = |id: &str, name: &str, kind| PermissionOption {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    vec![
        option(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
        option(
            "allow_always",
            "Always allow",
            PermissionOptionKind::AllowAlways,
        ),
        option("reject_once", "Reject", PermissionOptionKind::RejectOnce),
        option(
            "reject_always",
            "Always reject",
            PermissionOptionKind::RejectAlways,
        ),
    ]
}

fn lost(answered: Result<(), Error>) {
    if let Err(error) = answered {
        tracing::debug!("an answer did not reach the agent: {error}");
    }
}

fn size(text: &str) -> String {
    format!(
        "{}, {}",
        counted(text.lines().count(), "line"),
        counted(text.len(), "byte")
    )
}

fn serves(service: ServicePolicy) -> bool {
    service == ServicePolicy::Serve
}

/// Runs disk access on another thread, because a slow disk must not delay the session.
async fn off_the_loop<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ServedFileError> + Send + 'static,
) -> Result<T, ServedFileError> {
    let gone = |error: tokio::task::JoinError| ServedFileError::Io {
        path: "file".into(),
        error: error.into(),
    };
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(gone(error)))
}

fn not_served(error: &ServedFileError) -> Error {
    match error {
        ServedFileError::Missing(_) => Error::new(NOT_FOUND, error.to_string()),
        ServedFileError::Outside { .. }
        | ServedFileError::NotAFile(_)
        | ServedFileError::TooLarge { .. }
        | ServedFileError::NotText(_)
        | ServedFileError::Guarded { .. }
        | ServedFileError::Io { .. } => refused(error.to_string()),
    }
}

/// The reason is in the message, because agents read only that.
fn refused(why: impl std::fmt::Display) -> Error {
    Error::new(i32::from(Error::invalid_params().code), why.to_string())
}
