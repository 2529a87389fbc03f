//! What a session, or one of its iterations, changed: as a patch, as far as the contents before and
//! after are known.
//!
//! Owns what is compared with what. A file that has no known content is named, with the edits that
//! the agent reported, and never guessed.
//!
//! # Invariants
//! - A content counts only if git has it in a commit of the session, or if the digest that the
//!   session recorded is the one of the file.
//! - A worktree belongs to its session alone. In a folder that others use too, only the files that
//!   the session's turns changed are shown.

mod contents;
mod patch;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{Report, ReportedStage, StageKind, TurnOutcome};
use crate::present::text::{plain_line, some_names};
use contents::{ComparedRepository, FileVersion, FileVersions, in_folder};

/// The version of the JSON form.
const VERSION: u32 = 1;
/// How many names a note has, and how long one is.
const NAMED: usize = 10;
const NAME: usize = 200;
/// How much of a commit's name a note has.
const COMMIT: usize = 12;
/// In how many later commits a content is looked for.
const COMMITS: usize = 50;

const UNSEEN: &str =
    "creel did not see all that a turn changed: it was interrupted, or has not ended.";

/// Which changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffPart {
    Session,
    Iteration(u32),
}

/// Where the session's files and commits are.
#[derive(Debug, Clone, Copy)]
pub enum DiffPlace<'a> {
    /// The session ran on this machine, in this project.
    Here(&'a Path),
    /// It ran on another machine, and this folder can be a clone of its project.
    Elsewhere(&'a Path),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionDiff {
    v: u32,
    session: String,
    iteration: Option<u32>,
    /// The commit before.
    from: Option<String>,
    /// The commit after. None: the files as they are in the folder, or nothing to compare.
    to: Option<String>,
    pub files: Vec<ChangedFile>,
    /// How many files the records do not name.
    pub more_files: usize,
    /// What a reader must know about it, one sentence each.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    pub path: String,
    pub source: DiffSource,
    /// None if it is not known, or if the file is not text.
    pub added: Option<usize>,
    pub removed: Option<usize>,
    /// The patch, or the edits that the agent reported.
    #[serde(skip)]
    pub text: String,
}

/// What a change follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffSource {
    /// The contents before and after.
    Contents,
    /// The edits that the agent reported, as far as it did.
    AgentEdits,
    /// Only the name is on record, or the file is too large.
    NameOnly,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the session has no iteration {asked}{}", last_words(*.last))]
pub struct NoSuchIteration {
    asked: u32,
    last: u32,
}

fn last_words(last: u32) -> String {
    match last {
        0 => "; none has started".to_owned(),
        last => format!("; the last one is {last}"),
    }
}

/// What was compared.
#[derive(Default)]
struct ComparedFiles {
    from: Option<String>,
    to: Option<String>,
    before: FileVersions,
    after: FileVersions,
    /// Changed files whose content before or after is not known.
    unknown: BTreeSet<String>,
    /// Whether git named the files, and not the records.
    is_complete: bool,
    notes: Vec<String>,
}

struct DiffContext<'a> {
    report: &'a Report,
    repository: ComparedRepository,
    /// The folder with the session's files, if it still exists.
    folder: Option<PathBuf>,
}

/// What the session changed.
pub fn session_diff(
    report: &Report,
    part: DiffPart,
    place: DiffPlace<'_>,
) -> Result<SessionDiff, NoSuchIteration> {
    let context = DiffContext::of(report, place);
    let (iteration, stages) = match part {
        DiffPart::Session => (None, report.stages.iter().collect()),
        DiffPart::Iteration(asked) => (Some(asked), stages_of(report, asked)?),
    };
    let compared = match part {
        DiffPart::Session => context.whole(),
        DiffPart::Iteration(_) => context.of_stages(&stages),
    };
    let more_files = stages.iter().map(|stage| stage.more_files).max();
    Ok(compared.finish(report, iteration, &stages, more_files.unwrap_or(0)))
}

fn stages_of(report: &Report, asked: u32) -> Result<Vec<&ReportedStage>, NoSuchIteration> {
    let all = report.stages.iter();
    let mut all = all.filter(|stage| stage.kind == StageKind::Iteration);
    let last = all.clone().map(|stage| stage.iteration).max().unwrap_or(0);
    let found: Vec<&ReportedStage> = all
        .by_ref()
        .filter(|stage| stage.iteration == asked)
        .collect();
    if found.is_empty() {
        return Err(NoSuchIteration { asked, last });
    }
    Ok(found)
}

/// The names of the files that these stages changed.
fn names_of<'a>(stages: impl IntoIterator<Item = &'a ReportedStage>) -> BTreeSet<String> {
    let names = stages.into_iter().flat_map(|stage| &stage.left.names);
    names.cloned().collect()
}

/// What the last turn that changed a file left of it. The outer None: no digest is on record.
fn digests_of<'a>(
    stages: impl IntoIterator<Item = &'a ReportedStage>,
) -> BTreeMap<&'a str, Option<&'a str>> {
    let mut digests = BTreeMap::new();
    for stage in stages {
        for name in &stage.left.names {
            digests.remove(name.as_str());
        }
        for (name, digest) in &stage.left.digests {
            digests.insert(name.as_str(), digest.as_deref());
        }
    }
    digests
}

/// Whether creel did not see what a turn changed: it has not ended, it was interrupted, or the folder
/// could not be surveyed.
fn has_unseen_turn<'a>(stages: impl IntoIterator<Item = &'a ReportedStage>) -> bool {
    let is_open = |turn: &super::ReportedTurn| turn.end == TurnOutcome::Open;
    let mut stages = stages.into_iter();
    stages.any(|stage| stage.left.has_unseen || stage.turns.iter().any(is_open))
}

impl<'a> DiffContext<'a> {
    fn of(report: &'a Report, place: DiffPlace<'_>) -> Self {
        let session = &report.session;
        let (project, folder) = match (place, &session.worktree) {
            (DiffPlace::Elsewhere(clone), _) => (clone, None),
            (DiffPlace::Here(project), Some(worktree)) => {
                // Without its own `.git` file, git would use the repository around it.
                let link = Path::new(&worktree.path).join(".git");
                let is_there = link.symlink_metadata().is_ok();
                (project, is_there.then(|| PathBuf::from(&session.cwd)))
            }
            (DiffPlace::Here(project), None) => {
                let folder = PathBuf::from(&session.cwd);
                (project, folder.is_dir().then_some(folder))
            }
        };
        let repository = ComparedRepository::at(folder.as_deref().unwrap_or(project));
        Self {
            report,
            repository,
            folder,
        }
    }

    /// The commit, if git has it. Otherwise a note says why nothing can be compared.
    fn known(&self, commit: Option<&str>) -> Result<String, String> {
        let Some(commit) = commit else {
            return Err("The journal names no commit, so no contents can be compared.".to_owned());
        };
        let is_name = commit.len() >= COMMIT && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_name && self.repository.has_commit(commit) {
            return Ok(commit.to_owned());
        }
        let shown = plain_line(commit, COMMIT);
        Err(format!(
            "Git does not have the commit {shown} here, so no contents can be compared."
        ))
    }

    fn whole(&self) -> ComparedFiles {
        let changes = &self.report.changes;
        let all = &self.report.stages;
        let from = match self.known(changes.commit_before.as_deref()) {
            Ok(from) => from,
            Err(note) => return ComparedFiles::unknown(names_of(all), note),
        };
        let has_unseen_turn = has_unseen_turn(all);
        let has_ended = self.report.outcome.outcome.is_some();
        let worktree = self.report.session.worktree.as_ref();
        let compared = match &self.folder {
            Some(folder) if worktree.is_some() => self.since(&from, folder),
            Some(folder) if has_unseen_turn && !has_ended => {
                self.since(&from, folder).map(|mut found| {
                    let note = "creel has not seen yet what a turn changed: these are all differences from the commit before the session.";
                    found.notes.push(note.to_owned());
                    found
                })
            }
            Some(folder) => self.in_shared_folder(&from, folder),
            None => {
                let tip = worktree.and_then(|worktree| self.repository.tip(&worktree.branch));
                let after = changes.commit_after.clone();
                tip.or(after).and_then(|to| self.between(&from, &to))
            }
        };
        let note = || "Git cannot compare the commits here.".to_owned();
        let mut compared =
            compared.unwrap_or_else(|| ComparedFiles::unknown(names_of(all), note()));
        compared.from = Some(from);
        if has_unseen_turn && !compared.is_complete {
            compared.notes.push(UNSEEN.to_owned());
        }
        compared
    }

    /// Everything in the folder that differs from a commit.
    fn since(&self, from: &str, folder: &Path) -> Option<ComparedFiles> {
        let mut names = self.repository.changed(from, None)?;
        names.extend(self.repository.untracked()?);
        Some(ComparedFiles {
            before: self.repository.in_commit(from, &names)?,
            after: on_disk(folder, &names),
            is_complete: true,
            ..ComparedFiles::default()
        })
    }

    /// The difference of two commits, and the files that were in none at the end.
    fn between(&self, from: &str, to: &str) -> Option<ComparedFiles> {
        let mut names = self.repository.changed(from, Some(to))?;
        let recorded = names_of(&self.report.stages);
        names.extend(recorded.iter().cloned());
        let after = self.repository.in_commit(to, &names)?;
        let digests = digests_of(&self.report.stages);
        let dirty = self.last_dirty();
        let is_elsewhere = |name: &&String| {
            let is_dirty = dirty.is_none_or(|dirty| dirty.contains(*name));
            let differs = |digest: Option<&str>| {
                let version = after.get(*name).unwrap_or(&FileVersion::Absent);
                !version.has_digest(digest)
            };
            is_dirty && digests.get(name.as_str()).copied().is_none_or(differs)
        };
        let unknown = recorded.iter().filter(is_elsewhere).cloned().collect();
        Some(ComparedFiles {
            to: Some(to.to_owned()),
            before: self.repository.in_commit(from, &names)?,
            after,
            unknown,
            is_complete: true,
            ..ComparedFiles::default()
        })
    }

    /// The files with uncommitted changes after the last turn.
    fn last_dirty(&self) -> Option<&BTreeSet<String>> {
        let stages = self.report.stages.iter().rev();
        let mut known = stages.filter(|stage| stage.commit_after.is_some());
        known.next().and_then(|stage| stage.left.dirty.as_ref())
    }

    /// The session's files in a folder that others use too. What was committed in the session's time
    /// is in its last commit; the rest is in the folder, and can have changed since.
    fn in_shared_folder(&self, from: &str, folder: &Path) -> Option<ComparedFiles> {
        let names = names_of(&self.report.stages);
        let last = self.known(self.report.changes.commit_after.as_deref()).ok();
        let dirty = self.last_dirty();
        let is_committed =
            |name: &&String| last.is_some() && dirty.is_some_and(|dirty| !dirty.contains(*name));
        let (committed, loose): (BTreeSet<String>, BTreeSet<String>) =
            names.iter().cloned().partition(|name| is_committed(&name));
        let mut after = on_disk(folder, &loose);
        let digests = digests_of(&self.report.stages);
        let changed_later = loose.iter().filter(|name| {
            let digest = digests.get(name.as_str());
            digest.is_some_and(|digest| !after[*name].has_digest(*digest))
        });
        let notes = later_note(changed_later).into_iter().collect();
        if let Some(last) = &last {
            after.extend(self.repository.in_commit(last, &committed)?);
        }
        Some(ComparedFiles {
            to: last.filter(|_| loose.is_empty()),
            before: self.repository.in_commit(from, &names)?,
            after,
            notes,
            ..ComparedFiles::default()
        })
    }

    /// What an iteration changed. Its uncommitted files count if their contents are found again.
    fn of_stages(&self, stages: &[&ReportedStage]) -> ComparedFiles {
        let mut compared = self.of_known(stages);
        if has_unseen_turn(stages.iter().copied()) {
            compared.notes.push(UNSEEN.to_owned());
        }
        compared
    }

    fn of_known(&self, stages: &[&ReportedStage]) -> ComparedFiles {
        let names = names_of(stages.iter().copied());
        let commits = self.report.stages.iter();
        let ends = |stage: &&ReportedStage| stages.iter().any(|own| std::ptr::eq(*own, *stage));
        let Some(first) = commits.clone().position(|stage| ends(&stage)) else {
            return ComparedFiles::default();
        };
        let past = &self.report.stages[..first];
        let from = stages
            .iter()
            .find_map(|stage| stage.commit_before.as_deref());
        let to = stages
            .iter()
            .rev()
            .find_map(|stage| stage.commit_after.as_deref());
        let both = self
            .known(from)
            .and_then(|from| Ok((from, self.known(to)?)));
        let (from, to) = match both {
            Ok(both) => both,
            Err(note) => return ComparedFiles::unknown(names, note),
        };
        let versions = self.repository.in_commit(&from, &names);
        let versions = versions.zip(self.repository.in_commit(&to, &names));
        let Some((mut before, mut after)) = versions else {
            let note = "Git cannot compare the commits here.".to_owned();
            return ComparedFiles::unknown(names, note);
        };
        drop_unproved(&mut before, past);
        drop_unproved(&mut after, stages.iter().copied());
        let digests = digests_of(stages.iter().copied());
        let last = stages.last().map_or(first, |last| {
            let place = commits.clone().position(|stage| std::ptr::eq(stage, *last));
            place.unwrap_or(first)
        });
        self.find_later(
            &mut after,
            &digests,
            &names,
            &self.report.stages[last + 1..],
        );
        let is_unknown = |name: &&String| !before.contains_key(*name) || !after.contains_key(*name);
        let unknown = names.iter().filter(is_unknown).cloned().collect();
        ComparedFiles {
            from: Some(from),
            to: Some(to),
            before,
            after,
            unknown,
            ..ComparedFiles::default()
        }
    }

    /// Looks for the missing contents, by their digests, in the folder and in later commits.
    fn find_later(
        &self,
        after: &mut FileVersions,
        digests: &BTreeMap<&str, Option<&str>>,
        names: &BTreeSet<String>,
        later: &[ReportedStage],
    ) {
        let missing = |after: &FileVersions| -> BTreeSet<String> {
            let missing = names.iter().filter(|name| !after.contains_key(*name));
            let known = missing.filter(|name| digests.contains_key(name.as_str()));
            known.cloned().collect()
        };
        let keep = |after: &mut FileVersions, found: FileVersions| {
            let is_right = |name: &str, version: &FileVersion| {
                digests
                    .get(name)
                    .is_some_and(|digest| version.has_digest(*digest))
            };
            after.extend(
                found
                    .into_iter()
                    .filter(|(name, version)| is_right(name, version)),
            );
        };
        if let Some(folder) = &self.folder {
            let found = on_disk(folder, &missing(after));
            keep(after, found);
        }
        let worktree = self.report.session.worktree.as_ref();
        let tip = worktree.and_then(|worktree| self.repository.tip(&worktree.branch));
        let commits = later
            .iter()
            .flat_map(|stage| [&stage.commit_before, &stage.commit_after])
            .flatten()
            .cloned()
            .chain(tip);
        let mut seen = BTreeSet::new();
        for commit in commits
            .filter(|commit| seen.insert(commit.clone()))
            .take(COMMITS)
        {
            let wanted = missing(after);
            if wanted.is_empty() {
                return;
            }
            if let Some(found) = self
                .known(Some(&commit))
                .ok()
                .and_then(|commit| self.repository.in_commit(&commit, &wanted))
            {
                keep(after, found);
            }
        }
    }
}

/// Removes the contents of files that had uncommitted changes after these stages, unless the digest
/// shows that the commit has them.
fn drop_unproved<'a>(
    versions: &mut FileVersions,
    stages: impl IntoIterator<Item = &'a ReportedStage>,
) {
    let stages: Vec<&ReportedStage> = stages.into_iter().collect();
    let digests = digests_of(stages.iter().copied());
    let known = |stage: &&&ReportedStage| stage.commit_after.is_some();
    // Before the first turn, the files are taken to be as in the commit.
    let Some(last) = stages.iter().rev().find(known) else {
        return;
    };
    versions.retain(|name, version| {
        let dirty = last.left.dirty.as_ref();
        let is_clean = dirty.is_some_and(|dirty| !dirty.contains(name));
        let digest = digests.get(name.as_str());
        is_clean || digest.is_some_and(|digest| version.has_digest(*digest))
    });
}

fn on_disk(folder: &Path, names: &BTreeSet<String>) -> FileVersions {
    let read = |name: &String| (name.clone(), in_folder(folder, name));
    names.iter().map(read).collect()
}

fn later_note<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let names: Vec<String> = names.map(|name| plain_line(name, NAME)).collect();
    let names = (!names.is_empty()).then(|| some_names(&names, NAMED))?;
    Some(format!(
        "Changed again after the session's last turn, and shown as in the folder now: {names}."
    ))
}

impl ComparedFiles {
    fn unknown(names: BTreeSet<String>, note: String) -> Self {
        Self {
            unknown: names,
            notes: vec![note],
            ..Self::default()
        }
    }

    fn finish(
        mut self,
        report: &Report,
        iteration: Option<u32>,
        stages: &[&ReportedStage],
        more_files: usize,
    ) -> SessionDiff {
        let mut files = Vec::new();
        for (name, before) in &self.before {
            let Some(after) = self
                .after
                .get(name)
                .filter(|_| !self.unknown.contains(name))
            else {
                continue;
            };
            if let Some(patch) = patch::patch(name, before, after) {
                files.push(ChangedFile {
                    path: name.clone(),
                    source: DiffSource::Contents,
                    added: patch.lines.map(|(added, _)| added),
                    removed: patch.lines.map(|(_, removed)| removed),
                    text: patch.text,
                });
            } else if before != after || before == &FileVersion::NotComparable {
                self.unknown.insert(name.clone());
            }
        }
        let edits: Vec<ChangedFile> = self
            .unknown
            .iter()
            .map(|name| reported_edits(name, stages))
            .collect();
        self.notes.extend(unknown_notes(&edits));
        files.extend(edits);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        SessionDiff {
            v: VERSION,
            session: report.session.name.clone(),
            iteration,
            from: self.from,
            to: self.to,
            files,
            more_files: if self.is_complete { 0 } else { more_files },
            notes: self.notes,
        }
    }
}

/// The edits of a file that the agent reported.
fn reported_edits(name: &str, stages: &[&ReportedStage]) -> ChangedFile {
    let is_it = |line: &str| {
        let path = line.strip_prefix("+++ ").map(str::trim_end);
        path.and_then(|path| path.strip_suffix(name))
            .is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let turns = stages.iter().flat_map(|stage| &stage.turns);
    let edits = turns.flat_map(|turn| &turn.edits);
    let text: String = edits
        .filter(|edit| edit.diff.lines().any(is_it))
        .map(|edit| format!("{}\n", edit.diff.trim_end()))
        .collect();
    let source = if text.is_empty() {
        DiffSource::NameOnly
    } else {
        DiffSource::AgentEdits
    };
    ChangedFile {
        path: name.to_owned(),
        source,
        added: None,
        removed: None,
        text,
    }
}

fn unknown_notes(edits: &[ChangedFile]) -> Vec<String> {
    let of = |source: DiffSource| -> Option<String> {
        let names = edits.iter().filter(|edit| edit.source == source);
        let names: Vec<String> = names.map(|edit| plain_line(&edit.path, NAME)).collect();
        (!names.is_empty()).then(|| some_names(&names, NAMED))
    };
    let reported = of(DiffSource::AgentEdits).map(|names| {
        format!("Not in a commit, so only the edits that the agent reported are known: {names}.")
    });
    let named = of(DiffSource::NameOnly)
        .map(|names| format!("Changed, but creel does not have the contents to compare: {names}."));
    reported.into_iter().chain(named).collect()
}
