//! `creel prune`: deletes ended sessions of the project.
//!
//! # Invariants
//! - A session stays while it runs, waits for your decision, has work that is only in its worktree, or
//!   records that a server lacks, and while its task of the queue is open or not merged.
//! - Nothing is deleted without `--yes` or your answer in a terminal.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::Path,
};

use clap::Args;
use serde::Serialize;

use crate::{
    cli::{
        arguments::ConfigArgs,
        error::{CliError, CliResult, json, print, say},
        target::{self, Project},
    },
    config::duration_of,
    engine::{event::SessionOutcome, queue::QueuedTaskState, time::TimeSpan},
    journal::{self, SessionDir, SessionsDir, record::rfc3339},
    present::{
        session_list::{ListedSession, ListedState},
        text::readable_size,
    },
    queue::ProjectTasks,
    runtime::now,
    sessions::stored_session::{self, RemovalPreview},
    text::counted,
    worktrees::{self, ProjectRepository, WorktreeError},
};

/// Which sessions to delete.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Delete sessions that ended longer ago than this: `30d`, `12h`.
    #[arg(long, value_name = "TIME", value_parser = duration_of)]
    pub older_than: Option<TimeSpan>,
    /// Keep this many of the latest sessions, whatever their age.
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Delete without asking.
    #[arg(long)]
    pub yes: bool,
    /// Which project.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A session that is old enough.
#[derive(Debug, Serialize)]
struct PrunableSession {
    session: String,
    ended: String,
    outcome: SessionOutcome,
    files: usize,
    bytes: u64,
    /// Why it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
    deleted: bool,
    #[serde(skip)]
    preview: RemovalPreview,
}

pub(super) fn prune(args: &PruneArgs) -> CliResult {
    if args.older_than.is_none() && args.keep.is_none() {
        return Err(CliError::usage(
            "say which sessions to delete: `--older-than 30d`, `--keep 20` (all but the latest 20), or both",
        ));
    }
    let (root, sessions) = target::sessions_of(&args.config)?;
    let (mut found, unfinished) = old_sessions(args, &root, &sessions)?;
    let is_asked = io::stdin().is_terminal() && io::stderr().is_terminal() && !args.json;
    if !args.json {
        print(&table(&found))?;
    }
    let (count, bytes) = found
        .iter()
        .filter(|session| session.kept.is_none())
        .fold((0, 0), |(count, bytes), it| (count + 1, bytes + it.bytes));
    let what = format!("{}, {}", counted(count, "session"), readable_size(bytes));
    let is_confirmed = args.yes || (count > 0 && is_asked && a_person_agrees(&what)?);
    let mut code = 0;
    if is_confirmed {
        // The answer can take a while.
        let (still, _) = old_sessions(args, &root, &sessions)?;
        for session in found.iter_mut().filter(|session| session.kept.is_none()) {
            let is_same = |now: &PrunableSession| {
                now.session == session.session && now.ended == session.ended && now.kept.is_none()
            };
            if !still.iter().any(is_same) {
                session.kept = Some("it has changed since it was listed".to_owned());
                code = 1;
                say(&format!(
                    "creel: {} stays: it has changed since it was listed",
                    session.session
                ));
                continue;
            }
            match stored_session::remove(&session.preview.folder) {
                Ok(()) => session.deleted = true,
                Err(error) => {
                    session.kept = Some(error.to_string());
                    code = 1;
                    say(&format!("creel: {error}"));
                }
            }
        }
    }
    if unfinished > 0 {
        let stopped = counted(unfinished, "session");
        say(&format!(
            "creel: {stopped} that did not end stay, because `creel resume` can continue them: see `creel sessions`"
        ));
    }
    if args.json {
        json(&found)?;
    } else if count == 0 {
        say("creel: nothing to delete");
    } else if is_confirmed {
        let deleted = found.iter().filter(|session| session.deleted).count();
        say(&format!("creel: deleted {}", counted(deleted, "session")));
    } else if is_asked {
        say("creel: deleted nothing");
    } else {
        say(&format!(
            "creel: deleted nothing: this only lists {what}. Add --yes to delete them"
        ));
    }
    Ok(code)
}

/// The ended sessions that are old enough, the latest first, and how many as old ones stopped
/// before their end.
fn old_sessions(
    args: &PruneArgs,
    root: &Path,
    sessions: &SessionsDir,
) -> CliResult<(Vec<PrunableSession>, usize)> {
    let failed = |error: io::Error| CliError::failed(format!("cannot list the sessions: {error}"));
    let folders = sessions.list().map_err(failed)?;
    let live = sessions.live_or_starting().map_err(failed)?;
    let live: BTreeSet<String> = live.into_iter().map(|folder| folder.name).collect();
    let rows = stored_session::rows(&folders, &live);
    let mut all: Vec<_> = rows.into_iter().zip(folders).collect();
    all.sort_by_key(|(listed, _)| std::cmp::Reverse(listed.changed));
    let is_old = |listed: &ListedSession| {
        args.older_than
            .is_none_or(|age| now().since(listed.changed) > age)
    };
    let old = all
        .into_iter()
        .skip(args.keep.unwrap_or(0))
        .filter(|(listed, _)| is_old(listed));
    let needs = SessionNeeds::of(root, sessions, &args.config)?;
    let (mut found, mut unfinished) = (Vec::new(), 0);
    for (listed, folder) in old {
        let ListedState::Ended { outcome, .. } = listed.state else {
            unfinished += usize::from(!live.contains(&folder.name));
            continue;
        };
        let preview = RemovalPreview::of(&folder).map_err(failed)?;
        found.push(PrunableSession {
            kept: needs.reason(&folder, outcome),
            session: listed.name,
            ended: rfc3339(listed.changed),
            outcome,
            files: preview.files,
            bytes: preview.bytes,
            deleted: false,
            preview,
        });
    }
    Ok((found, unfinished))
}

/// What still needs sessions that have ended.
struct SessionNeeds {
    /// What worktrees have, by their names: several sessions can work in one.
    unsaved: BTreeMap<String, String>,
    /// Why the queue needs the session of a run, if it does, by the mark of the run.
    runs: BTreeMap<String, Option<String>>,
    unsent: BTreeSet<String>,
    /// Whether tasks can be in the queue of a server, which is not asked.
    has_server: bool,
}

impl SessionNeeds {
    /// What cannot be found out is an error: nothing is deleted then.
    fn of(root: &Path, sessions: &SessionsDir, config: &ConfigArgs) -> CliResult<Self> {
        let repository = match ProjectRepository::of(root) {
            Ok(repository) => Some(repository),
            // There are no worktrees and no branches.
            Err(WorktreeError::NoRepository(_) | WorktreeError::NoGit)
                if !worktrees::may_have_git(root) =>
            {
                None
            }
            Err(error) => return Err(error.into()),
        };
        let unsent = sessions.unsent().map_err(|error| {
            CliError::failed(format!("cannot read which records were sent: {error}"))
        })?;
        let settings = Project::load(config).map(|project| project.settings);
        Ok(Self {
            unsaved: repository
                .as_ref()
                .map_or(Ok(BTreeMap::new()), unsaved_work)?,
            runs: runs_of_the_queue(root, repository.as_ref())?,
            unsent: unsent.into_iter().map(|folder| folder.name).collect(),
            has_server: settings.map_or(true, |settings| settings.servers.nats.is_some()),
        })
    }

    fn reason(&self, folder: &SessionDir, outcome: SessionOutcome) -> Option<String> {
        if outcome == SessionOutcome::Escalated {
            return Some("it waits for your decision".to_owned());
        }
        if self.unsent.contains(&folder.name) {
            return Some("the server may lack some of its records".to_owned());
        }
        let began = match journal::fold(&folder.journal()) {
            Ok(state) => state.began,
            Err(error) => return Some(error.to_string()),
        };
        let worktree = began.worktree.as_ref();
        if let Some(unsaved) = worktree.and_then(|it| self.unsaved.get(&it.name)) {
            return Some(unsaved.clone());
        }
        let run = began.order?;
        let elsewhere = || "its task can be in the queue of the server".to_owned();
        match self.runs.get(&run) {
            Some(reason) => reason.clone(),
            None => self.has_server.then(elsewhere),
        }
    }
}

fn unsaved_work(repository: &ProjectRepository) -> CliResult<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for worktree in repository.worktrees()? {
        if let Some(unsaved) = worktree.unsaved(repository)? {
            let why = format!("its worktree has {}", unsaved.in_words());
            found.insert(worktree.name, why);
        }
    }
    Ok(found)
}

/// Why the queue needs the sessions of its runs. A completed task needs them until its branch is
/// merged or gone.
fn runs_of_the_queue(
    root: &Path,
    repository: Option<&ProjectRepository>,
) -> CliResult<BTreeMap<String, Option<String>>> {
    let tasks = ProjectTasks::of(root).now();
    let tasks =
        tasks.map_err(|error| CliError::failed(format!("cannot read the queue: {error}")))?;
    let mut found = BTreeMap::new();
    for task in tasks {
        let is_there = match (&task.branch, repository) {
            (Some(branch), Some(repository)) => repository.branch(branch)?.is_some(),
            (Some(_), None) | (None, _) => false,
        };
        let why = match task.state {
            QueuedTaskState::Removed => None,
            QueuedTaskState::Completed { .. } => {
                (task.merged.is_none() && is_there).then_some("is not merged yet")
            }
            QueuedTaskState::Created
            | QueuedTaskState::Ready
            | QueuedTaskState::Active { .. }
            | QueuedTaskState::Blocked { .. } => Some("is open"),
        };
        let reason = why.map(|why| format!("its task `{}` of the queue {why}", task.order.id));
        found.extend(task.all_marks().map(|run| (run, reason.clone())));
    }
    Ok(found)
}

fn table(found: &[PrunableSession]) -> String {
    let width = found.iter().map(|it| it.session.len()).max().unwrap_or(0);
    let row = |it: &PrunableSession| {
        let day = it.ended.split('T').next().unwrap_or_default();
        let why = it.kept.as_ref().map(|why| format!("  stays: {why}"));
        format!(
            "{:width$}  {day}  {:10}  {:>8}{}\n",
            it.session,
            it.outcome.name(),
            readable_size(it.bytes),
            why.unwrap_or_default()
        )
    };
    found.iter().map(row).collect()
}

fn a_person_agrees(what: &str) -> CliResult<bool> {
    let _ = write!(io::stderr(), "\nDelete {what}? [y/N] ");
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CliError::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
