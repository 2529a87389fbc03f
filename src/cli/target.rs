//! Which project and which session a command is about, and how to reach them. Owns the project's
//! folder, its config, and the user's own files.
//!
//! Some verbs are only for a person: an agent or a hook is refused, unless the config of its
//! session allows the verb. A running session decides about the commands to it, so none are refused
//! here.
//!
//! Of the sessions of this machine, a command is about the one that is named, the one whose agent
//! or hook asks, or the only one that runs.
//!
//! Exit codes: 0 done, 1 refused by the session, 2 wrong usage, or no such session runs.

pub mod remote_sessions;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use super::error::{CliError, CliResult};
use crate::{
    cli::{
        arguments::{ConfigArgs, SessionArgs},
        error::say,
        target::remote_sessions::NatsServerConnection,
    },
    config::{self, SessionServers, Settings, nats::NatsConfig, paths, trust::TrustStore},
    engine::{actor::UserCommand, refusal::Refusal},
    journal::{self, JournalError, SessionDir, SessionsDir},
    process::process_table::ProcessTable,
    protocol::{ClientKind, ReplyData, SessionRequest, process_origin},
    sessions::{session_client::request_once, session_store::ProjectList},
    text::nearest,
    worktrees::{self, ProjectRepository},
};

/// Refuses the command if an agent or a hook gives it. What creel cannot find out is refused.
pub(crate) fn require_person(command: UserCommand) -> CliResult<()> {
    let Some((actor, files)) = process_origin::supervisor_of_this_process() else {
        return Ok(());
    };
    let journals = journals_of(files);
    let allows = |journal: &PathBuf| {
        journal::fold(journal)
            .is_ok_and(|state| command.is_allowed_by(&state.plan().access.agent_may))
    };
    if !journals.is_empty() && journals.iter().all(allows) {
        return Ok(());
    }
    Err(CliError::refused(Refusal::NotAllowed { actor, command }))
}

/// The journals of the sessions that the supervising process runs.
fn journals_of(files: Vec<PathBuf>) -> Vec<PathBuf> {
    if ProcessTable::of_system() == ProcessTable::Absent {
        let [project, session] =
            ["CREEL_PROJECT", "CREEL_SESSION"].map(|name| std::env::var(name).unwrap_or_default());
        return vec![
            SessionsDir::of(Path::new(&project))
                .folder(&session)
                .journal(),
        ];
    }
    files
        .into_iter()
        .filter(|file| file.file_name().is_some_and(|name| name == "journal.jsonl"))
        .collect()
}

pub(crate) fn here() -> CliResult<PathBuf> {
    std::env::current_dir()
        .map_err(|error| CliError::usage(format!("cannot use the current folder: {error}")))
}

/// Names the queue that a project has on a server: as given, else as the config says, else by the
/// repository's first commit.
pub(crate) fn name_queue(nats: &mut NatsConfig, given: Option<&str>, root: &Path) -> CliResult<()> {
    nats.queue = given.map(str::to_owned).or(nats.queue.take());
    if nats.queue.is_none() {
        let found = ProjectRepository::root_commit(root).map_err(|why| {
            CliError::usage(format!(
                "creel does not know which project's queue you mean: {why}\n  name it with `nats.queue` in the config, or \
                 with `creel task … --queue=NAME`"
            ))
        });
        nats.queue = Some(found?);
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) root: PathBuf,
    pub(crate) settings: Settings,
}

impl Project {
    /// The project of the named or found config. Without one, the current folder.
    pub(crate) fn load(args: &ConfigArgs) -> CliResult<Self> {
        let here = here()?;
        let Some(path) = args
            .config
            .clone()
            .map(|path| here.join(path))
            .or_else(|| paths::find(&here))
        else {
            refuse_links(&here)?;
            let settings = config::without_config(paths::agents_file().as_deref())?;
            return Ok(Self {
                root: here,
                settings,
            });
        };
        // Before reading the config, which can be in this folder.
        refuse_links(&paths::project_root(&path))?;
        let settings = config::load(&path, paths::agents_file().as_deref())?;
        if !settings.warnings.is_empty() {
            say(&config::render(&settings.warnings));
        }
        let root = paths::project_root(&path);
        let root = root.canonicalize().unwrap_or(root);
        Ok(Self { root, settings })
    }

    /// The mistakes of the config, as JSON.
    pub(crate) fn mistakes(args: &ConfigArgs) -> CliResult<Option<Vec<serde_json::Value>>> {
        let here = here()?;
        let path = args
            .config
            .clone()
            .map(|path| here.join(path))
            .or_else(|| paths::find(&here));
        let errors =
            path.and_then(|path| config::load(&path, paths::agents_file().as_deref()).err());
        Ok(errors.map(|errors| errors.diagnostics.iter().map(as_json).collect()))
    }

    /// The same, for commands that need a config.
    pub(crate) fn load_existing(args: &ConfigArgs) -> CliResult<Self> {
        let project = Self::load(args)?;
        if project.settings.path.is_none() {
            return Err(CliError::usage(
                "no config in this folder or above; write one with `creel init`",
            ));
        }
        Ok(project)
    }

    /// Whether the user has trusted the config as it is.
    pub(crate) fn is_trusted(&self) -> bool {
        let place = self.config_place();
        trust_store().is_ok_and(|store| store.trusts(&place, &self.settings.documents))
    }

    /// The servers in the current config, since a journal contains no login. The config may have
    /// changed since the session started, so it must be trusted as it is now.
    pub(crate) fn trusted_servers(self) -> SessionServers {
        let servers = &self.settings.servers;
        let silent = match (&servers.nats, &servers.otel) {
            (None, None) => return SessionServers::default(),
            (Some(_), None) => "does not publish to NATS",
            (None, Some(_)) => "sends nothing to the OpenTelemetry collector",
            (Some(_), Some(_)) => "sends nothing to NATS and the OpenTelemetry collector",
        };
        if self.is_trusted() {
            return self.settings.servers;
        }
        say(&format!(
            "creel: the config has changed since you trusted it, so creel {silent}; trust it with `creel trust`"
        ));
        SessionServers::default()
    }

    /// The canonical path of the config, under which it is trusted.
    pub(crate) fn config_place(&self) -> PathBuf {
        let path = self.settings.path.as_deref().unwrap_or(&self.root);
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    }
}

fn as_json(mistake: &config::diagnostic::Diagnostic) -> serde_json::Value {
    serde_json::json!({
        "file": mistake.source.name,
        "line": mistake.place.map(|place| place.line),
        "column": mistake.place.map(|place| place.column),
        "message": mistake.message,
        "hint": mistake.hint,
    })
}

/// The project of these sessions, or with `all` every project in which the user has run creel.
pub(crate) fn projects_of(args: &ConfigArgs, all: bool) -> CliResult<Vec<PathBuf>> {
    let (root, _) = sessions_of(args)?;
    let mut projects = vec![root];
    if all {
        projects.extend(ProjectList::of(&state_dir()?).projects());
        projects.sort();
        projects.dedup();
    }
    Ok(projects)
}

/// The sessions of the project that the config names, otherwise those of the current folder.
pub(crate) fn sessions_of(args: &ConfigArgs) -> CliResult<(PathBuf, SessionsDir)> {
    let here = here()?;
    let config = args
        .config
        .as_ref()
        .map(|path| here.join(path))
        .or_else(|| paths::find(&here));
    let root = config.map_or_else(
        || nearest_with_sessions(&here),
        |config| paths::project_root(&config),
    );
    let root = root.canonicalize().unwrap_or(root);
    // In the worktree of a session, the user means the project's sessions.
    let root = worktrees::inventory::project_of(&root).unwrap_or(root);
    Ok((root.clone(), refuse_links(&root)?))
}

/// The sessions of a project. Fails if its `.creel` is a link.
pub(crate) fn refuse_links(root: &Path) -> CliResult<SessionsDir> {
    let sessions = SessionsDir::of(root);
    match sessions.refuse_links() {
        Ok(()) => Ok(sessions),
        Err(error) => Err(CliError::usage(error.to_string())),
    }
}

/// Sessions can run without a config. Then their folder shows where the project is.
fn nearest_with_sessions(here: &Path) -> PathBuf {
    here.ancestors()
        .find(|folder| folder.join(".creel/sessions").is_dir())
        .unwrap_or(here)
        .to_owned()
}

pub(crate) fn trust_store() -> CliResult<TrustStore> {
    state_dir().map(|dir| TrustStore::new(&dir))
}

/// Where creel stores what outlives a session.
pub(crate) fn state_dir() -> CliResult<PathBuf> {
    paths::state_dir().ok_or_else(|| CliError::failed("no home folder: set HOME or XDG_STATE_HOME"))
}

/// A session that appears to run. Connecting to it shows whether it does.
pub(crate) fn running(args: &SessionArgs) -> CliResult<SessionDir> {
    let (root, _) = sessions_of(&args.config)?;
    running_if_any(args)?
        .ok_or_else(|| none_running(&root, "list the past sessions with `creel sessions`"))
}

/// The same; nothing, if none is named and none runs.
pub(crate) fn running_if_any(args: &SessionArgs) -> CliResult<Option<SessionDir>> {
    let (_, sessions) = sessions_of(&args.config)?;
    match named(args, &sessions)? {
        Some(folder) => Ok(Some(folder)),
        None => the_only(&sessions),
    }
}

/// The session that is named, running or not; otherwise the only one that runs.
pub(crate) fn named_or_running(args: &SessionArgs) -> CliResult<SessionDir> {
    let (_, sessions) = sessions_of(&args.config)?;
    match named(args, &sessions)? {
        Some(folder) => Ok(folder),
        None => running_or_past(args),
    }
}

/// The only session that runs, for a command that can also tell about a past one.
pub(crate) fn running_or_past(args: &SessionArgs) -> CliResult<SessionDir> {
    let (root, _) = sessions_of(&args.config)?;
    let advice = "name a past session with `--session NAME`; `creel sessions` lists them";
    running_if_any(args)?.ok_or_else(|| none_running(&root, advice))
}

/// The session that is named, running or not.
pub(crate) fn named(args: &SessionArgs, sessions: &SessionsDir) -> CliResult<Option<SessionDir>> {
    match &args.session {
        Some(name) => called(name, &args.config, sessions).map(Some),
        None => own(&args.config, sessions).map(existing).transpose(),
    }
}

/// The session of this name: one of these, or else the one whose agent or hook asks.
pub(crate) fn called(
    name: &str,
    config: &ConfigArgs,
    sessions: &SessionsDir,
) -> CliResult<SessionDir> {
    let here = sessions.folder(name);
    let own = own(config, sessions).filter(|own| own.name == name && !here.exists());
    existing(own.unwrap_or(here))
}

/// The session whose agent or hook asks. It may have gone to another folder: what tells it the
/// session tells the project, too. A project that does not have it, such as one that was moved,
/// hides none that is here.
fn own(config: &ConfigArgs, here: &SessionsDir) -> Option<SessionDir> {
    let name = std::env::var("CREEL_SESSION")
        .ok()
        .filter(|name| !name.is_empty())?;
    let project = std::env::var_os("CREEL_PROJECT")
        .filter(|root| !root.is_empty() && config.config.is_none());
    let there = project
        .map(|root| SessionsDir::of(Path::new(&root)).folder(&name))
        .filter(SessionDir::exists);
    Some(there.unwrap_or_else(|| here.folder(&name)))
}

/// The session of this name; without a name the one whose agent or hook asks, otherwise the one
/// that changed last.
pub(crate) fn called_or_latest(name: Option<&str>, config: &ConfigArgs) -> CliResult<SessionDir> {
    let (root, sessions) = sessions_of(config)?;
    if let Some(name) = name {
        return called(name, config, &sessions);
    }
    if let Some(own) = own(config, &sessions) {
        return existing(own);
    }
    sessions
        .latest()
        .map_err(|error| CliError::failed(format!("cannot list the sessions: {error}")))?
        .ok_or_else(|| {
            CliError::usage(format!(
                "no sessions in {}; start one with `creel run`",
                root.display()
            ))
        })
}

fn existing(folder: SessionDir) -> CliResult<SessionDir> {
    if folder.exists() {
        Ok(folder)
    } else {
        Err(missing(&folder))
    }
}

/// Says that a session does not exist, and which one the user probably meant.
pub(crate) fn missing(folder: &SessionDir) -> CliError {
    let others = SessionsDir::around(folder).list().unwrap_or_default();
    let error = CliError::from(JournalError::Missing(folder.name.clone()));
    match nearest(&folder.name, others.iter().map(|other| other.name.as_str())) {
        Some(near) => CliError::usage(format!(
            "session `{}` does not exist here\n  did you mean `{near}`?",
            folder.name
        )),
        None => error,
    }
}

/// All that run.
pub(crate) fn all_running(sessions: &SessionsDir) -> CliResult<Vec<SessionDir>> {
    let all = sessions
        .live()
        .map_err(|error| CliError::failed(format!("cannot list the sessions: {error}")))?;
    Ok(all
        .into_iter()
        .filter(|folder| journal::running(folder).is_some())
        .collect())
}

fn the_only(sessions: &SessionsDir) -> CliResult<Option<SessionDir>> {
    let mut running = all_running(sessions)?;
    match (running.pop(), running.len()) {
        (only, 0) => Ok(only),
        (last, _) => {
            let names = running
                .iter()
                .chain(&last)
                .map(|folder| format!("\n  {}", folder.name));
            Err(CliError::usage(format!(
                "several sessions are running; choose one with --session:{}",
                names.collect::<String>()
            )))
        }
    }
}

/// Says that no session runs, and what to do: this, or start the first one.
fn none_running(root: &Path, advice: &str) -> CliError {
    let advice = if SessionsDir::of(root).has_any() {
        advice
    } else {
        "start one with `creel run`"
    };
    CliError::usage(format!(
        "no session is running in {}\n  {advice}",
        root.display()
    ))
}

/// Asks the session for something; there is nothing to print.
pub(crate) fn ask(session: &SessionArgs, request: impl Into<SessionRequest>) -> CliResult {
    reply_to(session, request)?;
    Ok(0)
}

/// The same, of the session in this folder.
pub(crate) fn ask_in(folder: &SessionDir, request: impl Into<SessionRequest>) -> CliResult {
    request_once(folder, ClientKind::Cli, request)?;
    Ok(0)
}

/// Sends a request and returns the reply.
pub(crate) fn reply_to(
    session: &SessionArgs,
    request: impl Into<SessionRequest>,
) -> CliResult<Option<ReplyData>> {
    if let Some(server) = NatsServerConnection::named(&session.nats, &session.config)? {
        return server.reply_to(session, request);
    }
    let folder = running(session)?;
    Ok(request_once(&folder, ClientKind::Cli, request)?)
}

/// An answer to another question than the one that was asked.
pub(crate) fn other_answer() -> CliError {
    CliError::failed(
        "creel does not understand the session's answer; another version of creel may run this session",
    )
}

/// A text from the command line; `-` means standard input.
pub(crate) fn given(text: &str) -> CliResult<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    let stdin = std::io::stdin().read_to_string(&mut read);
    stdin.map_err(|error| CliError::usage(format!("cannot read standard input: {error}")))?;
    Ok(read.strip_suffix('\n').map(str::to_owned).unwrap_or(read))
}
