//! What is left to do after a verb: nothing, or something that needs a session's host or the
//! screen.

use std::path::PathBuf;

use crate::{
    cli::{
        arguments::{NatsArgs, SessionArgs},
        check::CheckReport,
        demo::DemoSession,
        doctor::DoctorReport,
        launch::{
            session_end::ExitCodeSource, shared_folder::SessionNameLock, surface::SessionSurface,
        },
        target::remote_sessions::{NatsServerConnection, RecordedSession},
    },
    config::{SessionServers, UiSettings},
    engine::{
        conversation::FirstConversation, input::Input, policy::SessionPlan,
        submit::kind::PipelineKind, tasks::graph::TaskGraph,
    },
    farm::worker::{ScreenedWorker, ShownWorker},
    journal::{OpenedJournal, SessionDir},
    nats::remote_journal::RemoteJournal,
    sessions::session_client::RemoteUpdates,
    worktrees::PreparedWorktree,
};

pub(crate) enum VerbOutcome {
    /// The command is done, and this is its exit code.
    Done(u8),
    BeginSession(Box<NewSession>),
    ResumeSession(Box<ResumedSession>),
    RunDemo(Box<DemoSession>),
    Attach(AttachedScreen),
    Home(Box<HomeRequestArgs>),
    Replay(Box<ReplayScreen>),
    WriteCast(Box<CastFile>),
    ServeTools(ToolServerRequest),
    PrintCheck(Box<CheckReport>),
    /// The screen knows the mistakes in the user's keymap, and what the terminal shows.
    PrintDoctor(Box<DoctorReport>),
}

/// A running session to show on the screen.
pub(crate) enum AttachedScreen {
    Local(Box<LocalScreen>),
    Remote(Box<RemoteScreen>),
}

/// A session on this machine.
pub(crate) struct LocalScreen {
    pub(crate) folder: SessionDir,
    pub(crate) updates: RemoteUpdates,
    pub(crate) ui: UiSettings,
}

/// A session on another machine.
pub(crate) struct RemoteScreen {
    pub(crate) copy: RemoteJournal,
    pub(crate) server: NatsServerConnection,
    pub(crate) ui: UiSettings,
}

/// A home screen to open.
pub(crate) struct HomeRequestArgs {
    /// Shows the sessions on this NATS server instead of those on this machine.
    pub(crate) nats: NatsArgs,
    /// The project of the current folder.
    pub(crate) root: PathBuf,
    pub(crate) has_config: bool,
    pub(crate) ui: UiSettings,
    /// A worker whose sessions are shown, and nothing else.
    pub(crate) worker: Option<(ScreenedWorker, ShownWorker)>,
}

/// A session to replay on the screen.
pub(crate) struct ReplayScreen {
    pub(crate) session: RecordedSession,
    pub(crate) ui: UiSettings,
}

/// A replay to write as a recording.
pub(crate) struct CastFile {
    pub(crate) session: RecordedSession,
    pub(crate) ui: UiSettings,
    pub(crate) file: PathBuf,
    /// Columns and rows.
    pub(crate) size: (u16, u16),
}

/// The tools to serve on standard input and output.
pub(crate) struct ToolServerRequest {
    /// The session that the tools belong to.
    pub(crate) session: SessionArgs,
    /// A note for the agent.
    pub(crate) note: Option<&'static str>,
}

/// A session to start. The user has trusted its plan.
pub(crate) struct NewSession {
    /// The project's folder.
    pub(crate) root: PathBuf,
    /// The session's folder.
    pub(crate) folder: SessionDir,
    /// Reserves the session's name until it has started.
    pub(crate) turn: Option<SessionNameLock>,
    pub(crate) plan: SessionPlan,
    pub(crate) prompt: String,
    /// The session copies the open ones of these tasks.
    pub(crate) tasks: TaskGraph,
    /// The conversation that it begins with, if not with a new one.
    pub(crate) first: Option<FirstConversation>,
    /// Set if the session only runs this pipeline and has no goal.
    pub(crate) only_pipeline: Option<PipelineKind>,
    /// The task of a queue that it works on.
    pub(crate) order: Option<String>,
    /// Where it works, if not in the project's folder.
    pub(crate) worktree: Option<PreparedWorktree>,
    pub(crate) servers: SessionServers,
    pub(crate) surface: SessionSurface,
    pub(crate) afterwards: FolderRetention,
    pub(crate) sweep: SweepScope,
}

/// A session to resume. The user has trusted its plan.
pub(crate) struct ResumedSession {
    /// Where it works.
    pub(crate) root: PathBuf,
    /// The session's folder.
    pub(crate) folder: SessionDir,
    /// Keeps other sessions from starting in the folder until this one runs.
    pub(crate) turn: Option<SessionNameLock>,
    pub(crate) opened: OpenedJournal,
    /// Why the session is resumed.
    pub(crate) input: Input,
    pub(crate) exit_code: ExitCodeSource,
    pub(crate) servers: SessionServers,
    pub(crate) surface: SessionSurface,
    pub(crate) sweep: SweepScope,
}

/// Whether the session can be viewed and resumed afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderRetention {
    Stays,
    GoesAway,
}

/// Which dead sessions are checked for processes that they left running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepScope {
    /// All sessions of the project.
    Project,
    /// Only the session itself, if it is resumed.
    Session,
}
