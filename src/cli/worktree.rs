//! `creel worktree`: lists, opens and removes the worktrees of sessions.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::Command,
};

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    cli::{
        arguments::{ConfigArgs, worktree_name},
        error::{CliError, CliResult, json, print, say},
        target,
    },
    journal::{self, SessionsDir},
    present::{
        tables::{self, WorktreeRow},
        text::plain,
    },
    worktrees::{
        ProjectRepository, WorktreeError,
        inventory::OwnedWorktree,
        removal::{BranchFate, BranchRemoval, RemovalOutcome},
    },
};

/// The worktrees of sessions.
#[derive(Debug, Args)]
pub struct WorktreeArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: WorktreeCommand,
}

/// What to do with worktrees.
#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    /// List the worktrees of this project's sessions.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Which project.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Open a shell in a worktree. Without a terminal, print its folder: `cd "$(creel worktree open
    /// NAME)"`.
    Open {
        /// The worktree.
        #[arg(value_parser = worktree_name)]
        name: String,
        /// Which project.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Remove worktrees, and their branches if another branch has all their commits. Keeps those
    /// with changes.
    Remove {
        /// The worktrees.
        #[arg(required = true, value_parser = worktree_name)]
        names: Vec<String>,
        /// Which project.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Remove all worktrees that no running session uses and that have no changes, and list what
    /// stays.
    Prune {
        /// Only list what would be removed.
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// Which project.
        #[command(flatten)]
        config: ConfigArgs,
    },
}

impl WorktreeCommand {
    pub(super) const fn removes(&self) -> bool {
        match self {
            Self::Remove { .. } | Self::Prune { dry_run: false, .. } => true,
            Self::List { .. } | Self::Open { .. } | Self::Prune { dry_run: true, .. } => false,
        }
    }
}

pub(super) fn worktree(command: &WorktreeCommand) -> CliResult {
    match command {
        WorktreeCommand::List {
            json: as_json,
            config,
        } => list(&ProjectWorktrees::of(config)?, *as_json),
        WorktreeCommand::Open { name, config } => open(&ProjectWorktrees::of(config)?, name),
        WorktreeCommand::Remove { names, config } => remove(&ProjectWorktrees::of(config)?, names),
        WorktreeCommand::Prune { dry_run, config } => {
            prune(&ProjectWorktrees::of(config)?, *dry_run)
        }
    }
}

/// The repository of the project, and its sessions.
struct ProjectWorktrees {
    repository: ProjectRepository,
    sessions: SessionsDir,
}

#[derive(Debug, Serialize)]
struct ListedWorktree {
    name: String,
    path: PathBuf,
    branch: Option<String>,
    session: Option<String>,
    /// `running`, an outcome, `stopped`, or `gone` if there is no such session.
    state: String,
    /// What would be lost with the folder.
    unsaved: Option<String>,
    missing: bool,
}

impl ProjectWorktrees {
    fn of(config: &ConfigArgs) -> CliResult<Self> {
        let (root, sessions) = target::sessions_of(config)?;
        Ok(Self {
            repository: ProjectRepository::of(&root)?,
            sessions,
        })
    }

    /// The running session that works there.
    fn user<'a>(&self, worktree: &'a OwnedWorktree) -> Option<&'a str> {
        let session = worktree.session.as_deref()?;
        journal::running(&self.sessions.folder(session)).map(|_| session)
    }

    /// Removes a worktree, and its branch if creel created that one and it is merged.
    fn remove(&self, worktree: &OwnedWorktree) -> CliResult<RemovalOutcome> {
        let folder = worktree
            .session
            .as_deref()
            .map(|session| self.sessions.folder(session));
        let state = folder.and_then(|folder| journal::fold(&folder.journal()).ok());
        let created = state.and_then(|state| Some(state.began.worktree.as_ref()?.branch.clone()));
        let branch = created
            .as_deref()
            .map_or(BranchRemoval::Keep, BranchRemoval::IfMerged);
        Ok(self.repository.remove(worktree, branch)?)
    }

    /// The state of its session, in one word.
    fn state(&self, worktree: &OwnedWorktree) -> String {
        let Some(session) = worktree.session.as_deref() else {
            return "gone".to_owned();
        };
        if self.user(worktree).is_some() {
            return "running".to_owned();
        }
        let folder = self.sessions.folder(session);
        match journal::fold(&folder.journal()) {
            Ok(state) => state
                .phase
                .outcome()
                .map_or("stopped", |outcome| outcome.name())
                .to_owned(),
            Err(_) => "gone".to_owned(),
        }
    }
}

fn list(found: &ProjectWorktrees, as_json: bool) -> CliResult {
    let mut listed = Vec::new();
    for worktree in found.repository.worktrees()? {
        let unsaved = worktree
            .unsaved(&found.repository)?
            .map(|unsaved| unsaved.in_words());
        let state = found.state(&worktree);
        let OwnedWorktree {
            name,
            path,
            branch,
            session,
            is_missing: missing,
            head: _,
        } = worktree;
        listed.push(ListedWorktree {
            name,
            path,
            branch,
            session,
            state,
            unsaved,
            missing,
        });
    }
    if as_json {
        return json(&listed);
    }
    if listed.is_empty() {
        say("creel: no worktrees; start a session in one with `creel run --worktree`");
        return Ok(0);
    }
    let row = |listed: &ListedWorktree| WorktreeRow {
        name: listed.name.clone(),
        branch: plain(listed.branch.as_deref().unwrap_or_default()),
        session: listed.session.clone().unwrap_or_default(),
        state: listed.state.clone(),
        contents: match (listed.missing, &listed.unsaved) {
            (true, None) => "its folder is gone".to_owned(),
            (true, Some(unsaved)) => format!("its folder is gone; {unsaved}"),
            (false, Some(unsaved)) => unsaved.clone(),
            (false, None) => "clean".to_owned(),
        },
    };
    print(&tables::worktree_table(
        &listed.iter().map(row).collect::<Vec<_>>(),
    ))
}

fn open(found: &ProjectWorktrees, name: &str) -> CliResult {
    let worktree = found.repository.worktree(name)?;
    let folder: PathBuf = worktree
        .path
        .join(&found.repository.prefix)
        .components()
        .collect();
    if worktree.is_missing {
        return Err(CliError::usage(format!(
            "the folder {} is gone; `creel resume` checks it out again, and `creel worktree prune` forgets it",
            folder.display()
        )));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return print(&format!("{}\n", folder.display()));
    }
    let shell = std::env::var_os("SHELL")
        .filter(|shell| !shell.is_empty())
        .unwrap_or_else(|| "sh".into());
    say(&format!(
        "creel: a shell in {}; leave it with `exit`",
        folder.display()
    ));
    let status = Command::new(&shell)
        .current_dir(&folder)
        .status()
        .map_err(|error| {
            CliError::failed(format!(
                "cannot start {}: {error}\n  set SHELL to your shell",
                shell.display()
            ))
        })?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}

fn remove(found: &ProjectWorktrees, names: &[String]) -> CliResult {
    let mut code = 0;
    for name in names {
        let worktree = found.repository.worktree(name)?;
        if let Some(session) = found.user(&worktree) {
            let (name, session) = (name.clone(), session.to_owned());
            return Err(WorktreeError::InUse { name, session }.into());
        }
        match found.remove(&worktree)? {
            RemovalOutcome::Removed(fate) => say(&removed(name, &fate)),
            RemovalOutcome::Kept(unsaved) => {
                code = 1;
                let why = unsaved.in_words();
                say(&format!(
                    "creel: `{name}` stays: it has {why}\n  save or delete that in {}, then try again",
                    worktree.path.display()
                ));
            }
        }
    }
    Ok(code)
}

fn removed(name: &str, fate: &BranchFate) -> String {
    match fate {
        BranchFate::Stays(branch) => {
            format!("creel: removed `{name}`; its branch `{branch}` stays")
        }
        BranchFate::Deleted(branch) => {
            format!("creel: removed `{name}` and its merged branch `{branch}`")
        }
        BranchFate::Unknown => format!("creel: removed `{name}`"),
    }
}

fn prune(found: &ProjectWorktrees, dry_run: bool) -> CliResult {
    if !dry_run {
        let _alone = found.repository.lock()?;
        found.repository.clear_after_kills()?;
    }
    let all = found.repository.worktrees()?;
    if all.is_empty() {
        say("creel: no worktrees");
    }
    for worktree in all {
        let name = &worktree.name;
        if let Some(session) = found.user(&worktree) {
            say(&format!(
                "creel: `{name}` stays: session `{session}` works there"
            ));
            continue;
        }
        if dry_run {
            say(&match worktree.unsaved(&found.repository)? {
                Some(unsaved) => {
                    format!("creel: `{name}` would stay: it has {}", unsaved.in_words())
                }
                None => format!("creel: `{name}` would go"),
            });
            continue;
        }
        match found.remove(&worktree)? {
            RemovalOutcome::Removed(fate) => say(&removed(name, &fate)),
            RemovalOutcome::Kept(unsaved) => say(&format!(
                "creel: `{name}` stays: it has {}",
                unsaved.in_words()
            )),
        }
    }
    Ok(0)
}
