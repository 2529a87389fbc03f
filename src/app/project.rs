//! The project of a command: its folder, its config, and the user's own files.

use std::path::{Path, PathBuf};

use super::{AppError, AppResult, say};
use crate::{
    cli::ConfigArgs,
    config::{self, Settings, paths, trust::TrustStore},
    journal::SessionsDir,
};

pub(super) fn here() -> AppResult<PathBuf> {
    std::env::current_dir().map_err(|error| AppError::usage(format!("the current folder cannot be used: {error}")))
}

#[derive(Debug)]
pub(super) struct Project {
    pub(super) root: PathBuf,
    pub(super) settings: Settings,
}

impl Project {
    /// The project of the named or found config. Without one, the current folder.
    pub(super) fn load(args: &ConfigArgs) -> AppResult<Self> {
        let here = here()?;
        let Some(path) = args.config.clone().map(|path| here.join(path)).or_else(|| paths::find(&here)) else {
            refuse_links(&here)?;
            let settings = config::without_config(paths::agents_file().as_deref())?;
            return Ok(Self { root: here, settings });
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
    pub(super) fn mistakes(args: &ConfigArgs) -> AppResult<Option<Vec<serde_json::Value>>> {
        let here = here()?;
        let path = args.config.clone().map(|path| here.join(path)).or_else(|| paths::find(&here));
        let errors = path.and_then(|path| config::load(&path, paths::agents_file().as_deref()).err());
        Ok(errors.map(|errors| errors.diagnostics.iter().map(as_json).collect()))
    }

    /// The same, for commands that need a config.
    pub(super) fn load_existing(args: &ConfigArgs) -> AppResult<Self> {
        let project = Self::load(args)?;
        if project.settings.path.is_none() {
            return Err(AppError::usage("there is no config here or above; `creel init` writes one"));
        }
        Ok(project)
    }

    /// The canonical path of the config, under which it is trusted.
    pub(super) fn config_place(&self) -> PathBuf {
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
pub(super) fn sessions_of(args: &ConfigArgs) -> AppResult<(PathBuf, SessionsDir)> {
    let here = here()?;
    let config = args.config.as_ref().map(|path| here.join(path)).or_else(|| paths::find(&here));
    let root = config.map_or_else(|| nearest_with_sessions(&here), |config| paths::project_root(&config));
    let root = root.canonicalize().unwrap_or(root);
    Ok((root.clone(), refuse_links(&root)?))
}

/// The sessions of a project. Fails if its `.creel` is a link.
pub(super) fn refuse_links(root: &Path) -> AppResult<SessionsDir> {
    let sessions = SessionsDir::of(root);
    match sessions.refuse_links() {
        Ok(()) => Ok(sessions),
        Err(error) => Err(AppError::usage(error.to_string())),
    }
}

/// Sessions can run without a config. Then their folder shows where the project is.
fn nearest_with_sessions(here: &Path) -> PathBuf {
    here.ancestors().find(|folder| folder.join(".creel/sessions").is_dir()).unwrap_or(here).to_owned()
}

pub(super) fn trust_store() -> AppResult<TrustStore> {
    state_dir().map(|dir| TrustStore::new(&dir))
}

/// Where creel stores what outlives a session.
pub(super) fn state_dir() -> AppResult<PathBuf> {
    paths::state_dir().ok_or_else(|| AppError::failed("there is no home folder: set HOME or XDG_STATE_HOME"))
}
