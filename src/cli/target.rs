//! Which project and which session a command is about, and how to reach them. Owns the project's
//! folder, its config, and the user's own files.
//!
//! Some verbs are only for a person: an agent or a hook is refused, unless the config of its
//! session allows the verb. A running session decides about the commands to it, so none are refused
//! here.

pub mod local_sessions;
pub mod remote_sessions;

use std::path::{Path, PathBuf};

use super::error::{CliError, CliResult};
use crate::{
    cli::{arguments::ConfigArgs, error::say},
    config::{self, Settings, nats::NatsConfig, paths, trust::TrustStore},
    engine::{actor::UserCommand, refusal::Refusal},
    journal::{self, SessionsDir},
    process::process_table::ProcessTable,
    protocol::process_origin,
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

    /// The server in the current config, since a journal contains no login. The config may have
    /// changed since the session started, so it must be trusted as it is now.
    pub(crate) fn trusted_nats(self) -> Option<NatsConfig> {
        let trusted = self.is_trusted();
        if self.settings.nats.is_some() && !trusted {
            say(
                "creel: the config has changed since you trusted it, so creel does not publish to NATS; trust it with \
                 `creel trust`",
            );
        }
        self.settings.nats.filter(|_| trusted)
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
