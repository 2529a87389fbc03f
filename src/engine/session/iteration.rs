//! The current iteration: its number, the files that it changed, and whether its checks passed.
//!
//! Does not decide whether it was the last one: see [`crate::engine::stop`].

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::{FileContent, WorktreeChanges},
    event::{Event, IterationOutcome, SessionEvent},
    hooks::{dispatch::HookDispatch, point::HookPoint, verdict::Verdict},
    output::EngineOutput,
    policy::SessionPlan,
    stop::agent_loop::{AgentLoop, StopEvaluation},
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationState {
    /// The current one, or the last.
    pub current: u32,
    /// Whether the current one is in progress.
    pub open: bool,
    /// The turns that answered only messages of the agent or a hook: each counts as an iteration.
    pub messages: u32,
    /// The files that the current iteration changed.
    pub files: Vec<String>,
    /// The contents of these files, as far as creel saw them.
    pub contents: BTreeMap<String, FileContent>,
    pub activity: IterationActivity,
    /// The files that any iteration changed.
    #[serde(default)]
    pub all_files: SessionFiles,
    /// Whether the agent has changed a file or a task in this session, as far as creel knows.
    #[serde(default)]
    pub worked: bool,
    /// How the last completed one ended.
    pub last: Option<IterationOutcome>,
    /// The check that the last forced one did not pass, with its reason.
    pub forced_past: Option<String>,
    /// A raised limit, given when the session was resumed.
    pub raised_limit: Option<u32>,
}

/// The files that the session's turns changed, and the commit before the first of these turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFiles {
    since: Option<String>,
    names: BTreeSet<String>,
    /// Whether there are more than the records name, or more than creel keeps.
    has_more: bool,
    /// Whether creel did not see what a turn changed: it was interrupted, or the folder could not be
    /// surveyed.
    #[serde(default)]
    has_unseen: bool,
    /// Whether that was before `since`, so that it may not be the first commit.
    #[serde(default)]
    is_late: bool,
}

/// How many names [`SessionFiles`] keeps.
const FILES_MAX: usize = 5_000;

impl SessionFiles {
    pub(crate) fn add(&mut self, work: &WorktreeChanges) {
        if self.since.is_none() {
            self.since = work.before.clone().or_else(|| work.commit.clone());
        }
        self.names.extend(work.files_modified.iter().cloned());
        self.has_more |= work.more_modified > 0 || self.names.len() > FILES_MAX;
        if self.has_more {
            self.names.clear();
        }
    }

    /// Keeps in mind that a turn may have changed any file.
    pub(crate) fn add_unseen(&mut self) {
        self.has_unseen = true;
        self.is_late |= self.since.is_none();
    }

    /// Whether a turn that creel did not see may have committed something before the known commit.
    pub fn may_miss_commits(&self) -> bool {
        self.is_late && self.since.is_some()
    }

    /// Like [`Self::has`], and true for every file if creel did not see what a turn changed.
    pub fn may_have(&self, name: &str) -> bool {
        self.has_unseen || self.has(name)
    }

    /// Whether a turn has changed this file, or a file in this folder if the name ends with `/`. If
    /// there are too many to remember, each may be one of them.
    pub fn has(&self, name: &str) -> bool {
        let from = (Bound::Included(name), Bound::Unbounded);
        let mut names = self.names.range::<str, _>(from);
        let found = names
            .next()
            .is_some_and(|first| first == name || (name.ends_with('/') && first.starts_with(name)));
        self.has_more || found
    }

    /// The commit before the first turn. None outside a repository.
    pub fn since(&self) -> Option<&str> {
        self.since.as_deref()
    }

    pub fn is_empty(&self) -> bool {
        !self.has_more && !self.has_unseen && self.names.is_empty()
    }

    /// All of them. None if there are none, too many, or some that creel did not see.
    pub fn names(&self) -> Option<impl Iterator<Item = &str>> {
        self.seen_names().filter(|_| !self.has_unseen)
    }

    /// Those that creel saw. None if there are none, or too many.
    pub fn seen_names(&self) -> Option<impl Iterator<Item = &str>> {
        let is_complete = !self.has_more && !self.names.is_empty();
        is_complete.then(|| self.names.iter().map(String::as_str))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationActivity {
    /// The verdicts of the stop hooks on its last turn.
    pub stop_hooks: StopHookSummary,
    /// Whether the agent changed a task.
    pub changed_a_task: bool,
    /// Whether creel could not see a turn's changes to the project's files.
    pub unknown_work: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopHookSummary {
    /// No stop hooks ran.
    #[default]
    None,
    Passed,
    NotPassed,
}

impl StopHookSummary {
    pub(crate) fn of(dispatch: &HookDispatch) -> Self {
        let passed = |verdict: Verdict, broken: bool| verdict == Verdict::Pass && !broken;
        let mut counted = dispatch
            .done
            .iter()
            .filter(|done| !done.advisory)
            .peekable();
        if counted.peek().is_none() {
            Self::None
        } else if counted.all(|done| passed(done.judgement.verdict, done.judgement.broken)) {
            Self::Passed
        } else {
            Self::NotPassed
        }
    }
}

impl IterationState {
    pub fn limit(&self, plan: &SessionPlan) -> u32 {
        self.raised_limit.unwrap_or(plan.max_iterations)
    }

    /// Starts the agent's work. Its earlier work has already been evaluated.
    pub(crate) fn begin_work(&mut self) {
        self.open = true;
        self.last = None;
        self.files.clear();
        self.contents.clear();
        self.activity = IterationActivity::default();
    }

    pub fn used(&self) -> u32 {
        self.current.saturating_add(self.messages)
    }
}

impl IterationState {
    pub(crate) fn complete_iteration(&self, outcome: IterationOutcome) -> EngineOutput {
        EngineOutput::record(Event::Session(SessionEvent::IterationCompleted {
            iteration: self.current,
            outcome,
        }))
    }

    pub(crate) fn judged_iteration(&self, about: Option<&AgentLoop>) -> u32 {
        about.map_or(self.current, |about| about.iteration)
    }

    pub(crate) fn judged_files<'a>(&'a self, judging: &'a StopEvaluation) -> &'a [String] {
        judging
            .asked
            .as_ref()
            .map_or(&self.files, |asked| &asked.files)
    }

    /// The files that the iteration changed, at the points after the agent's work.
    pub(crate) fn files_offered(&self, point: HookPoint) -> Option<Vec<String>> {
        matches!(point, HookPoint::Stop | HookPoint::PostIteration).then(|| self.files.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(files: &[&str], more: usize) -> WorktreeChanges {
        WorktreeChanges {
            files_modified: files.iter().map(|&file| file.to_owned()).collect(),
            more_modified: more,
            commit: Some("after".into()),
            ..WorktreeChanges::default()
        }
    }

    fn names(files: &SessionFiles) -> Option<Vec<&str>> {
        files.names().map(Iterator::collect)
    }

    #[test]
    fn the_files_of_all_turns_are_kept_until_they_are_too_many() {
        let mut files = SessionFiles::default();
        assert!(files.is_empty() && !files.has("a"));
        assert_eq!((files.since(), names(&files)), (None, None));
        let first = WorktreeChanges {
            before: Some("first".into()),
            ..changed(&["b", "a"], 0)
        };
        files.add(&first);
        files.add(&changed(&["a", "c"], 0));
        assert!(!files.is_empty() && files.has("a") && !files.has("d"));
        let mut below = SessionFiles::default();
        below.add(&changed(&["src/a.rs", "srcs"], 0));
        assert!(below.has("src/") && !below.has("src") && !below.has("tests/"));
        assert_eq!(
            (files.since(), names(&files)),
            (Some("first"), Some(vec!["a", "b", "c"]))
        );
        files.add(&changed(&["d"], 1));
        assert!(!files.is_empty() && files.has("e"), "each may be one");
        assert_eq!(names(&files), None);
        files.add(&changed(&["f"], 0));
        assert_eq!(names(&files), None, "it stays so");
    }

    #[test]
    fn so_many_names_are_kept() {
        let many: Vec<String> = (0..FILES_MAX).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut files = SessionFiles::default();
        files.add(&changed(&many, 0));
        assert_eq!(names(&files).map(|names| names.len()), Some(FILES_MAX));
        files.add(&changed(&["one more"], 0));
        assert_eq!(names(&files), None);
    }
}
