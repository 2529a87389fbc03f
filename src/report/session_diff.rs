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
mod history;
mod patch;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use history::WorkHistory;

use crate::{
    engine::ids::TurnId,
    present::text::{plain_line, some_names},
};
use contents::{ComparedRepository, FileVersion, FileVersions, in_folder};
use history::{DiffedSession, WorkTurn};

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
    Turn(TurnId),
}

/// Where the session's files and commits are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffPlace {
    /// The session ran on this machine, in this project.
    Here(PathBuf),
    /// It ran on another machine, and this folder can be a clone of its project.
    Elsewhere(PathBuf),
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

impl SessionDiff {
    /// How many lines were added and removed. None if anything about the changes is not known.
    pub fn counted_lines(&self) -> Option<(usize, usize)> {
        if self.more_files > 0 || !self.notes.is_empty() {
            return None;
        }
        let mut files = self.files.iter();
        files.try_fold((0, 0), |(added, removed), file| {
            let is_known = file.source == DiffSource::Contents;
            Some((
                added + file.added.filter(|_| is_known)?,
                removed + file.removed?,
            ))
        })
    }
}

#[cfg(test)]
impl SessionDiff {
    /// The diff of a session without a commit, for tests of its forms.
    pub(crate) fn of_files(files: Vec<ChangedFile>) -> Self {
        Self {
            v: VERSION,
            session: "s".to_owned(),
            iteration: None,
            from: None,
            to: None,
            files,
            more_files: 0,
            notes: Vec::new(),
        }
    }
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
pub enum NoSuchPart {
    #[error("the session has no iteration {asked}{}", last_words(*.last))]
    Iteration { asked: u32, last: u32 },
    #[error("the session has no turn {0}")]
    Turn(TurnId),
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
    history: &'a WorkHistory,
    session: &'a DiffedSession,
    repository: ComparedRepository,
    /// The folder with the session's files, if it still exists.
    folder: Option<PathBuf>,
}

/// What the session changed.
pub fn session_diff(
    history: &WorkHistory,
    part: DiffPart,
    place: &DiffPlace,
) -> Result<SessionDiff, NoSuchPart> {
    let turns = turns_of(history, part)?;
    let context = DiffContext::of(history, place);
    let (iteration, compared) = match part {
        DiffPart::Session => (None, context.whole()),
        DiffPart::Iteration(number) => (Some(number), context.of_turns(turns.clone())),
        DiffPart::Turn(_) => (None, context.of_turns(turns.clone())),
    };
    Ok(compared.finish(history, iteration, &history.turns[turns]))
}

/// The turns of a part, which follow each other.
fn turns_of(history: &WorkHistory, part: DiffPart) -> Result<Range<usize>, NoSuchPart> {
    let with = |wanted: &dyn Fn(&WorkTurn) -> bool| {
        let first = history.turns.iter().position(wanted)?;
        let last = history.turns.iter().rposition(wanted)?;
        Some(first..last + 1)
    };
    match part {
        DiffPart::Session => Ok(0..history.turns.len()),
        DiffPart::Turn(turn) => with(&|own| own.turn == turn).ok_or(NoSuchPart::Turn(turn)),
        DiffPart::Iteration(asked) => {
            let last = history.iterations;
            if asked == 0 || asked > last {
                return Err(NoSuchPart::Iteration { asked, last });
            }
            Ok(with(&|own| own.iteration == Some(asked)).unwrap_or(0..0))
        }
    }
}

/// The names of the files that these turns changed.
fn names_of<'a>(turns: impl IntoIterator<Item = &'a WorkTurn>) -> BTreeSet<String> {
    let names = turns.into_iter().flat_map(|turn| &turn.left.names);
    names.cloned().collect()
}

/// What the last turn that changed a file left of it. The outer None: no digest is on record.
fn digests_of<'a>(
    turns: impl IntoIterator<Item = &'a WorkTurn>,
) -> BTreeMap<&'a str, Option<&'a str>> {
    let mut digests = BTreeMap::new();
    for turn in turns {
        for name in &turn.left.names {
            digests.remove(name.as_str());
        }
        for (name, digest) in &turn.left.digests {
            digests.insert(name.as_str(), digest.as_deref());
        }
    }
    digests
}

fn has_unseen_turn(turns: &[WorkTurn]) -> bool {
    turns.iter().any(|turn| !turn.is_seen)
}

/// The commit that was checked out before these turns, as far as one of them names it.
fn commit_before(turns: &[WorkTurn]) -> Option<&str> {
    turns.iter().find_map(|turn| turn.commit_before.as_deref())
}

fn commit_after(turns: &[WorkTurn]) -> Option<&str> {
    let mut latest = turns.iter().rev();
    latest.find_map(|turn| turn.commit_after.as_deref())
}

/// The files with uncommitted changes after these turns.
fn last_dirty(turns: &[WorkTurn]) -> Option<&BTreeSet<String>> {
    let mut known = turns
        .iter()
        .rev()
        .filter(|turn| turn.commit_after.is_some());
    known.next().and_then(|turn| turn.left.dirty.as_ref())
}

impl<'a> DiffContext<'a> {
    fn of(history: &'a WorkHistory, place: &DiffPlace) -> Self {
        let session = &history.session;
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
            history,
            session,
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

    /// The commit before the session. None if no record names it.
    fn first_commit(&self) -> Option<&str> {
        let base = self.session.worktree.as_ref();
        let base = base.map(|worktree| worktree.commit.as_str());
        base.or_else(|| commit_before(&self.history.turns))
    }

    fn whole(&self) -> ComparedFiles {
        let all = &self.history.turns;
        let has_open_turn = self.history.open_turn().is_some();
        // Before the end of its first turn, no record names a commit.
        let is_first = self.first_commit().is_none() && has_open_turn;
        let is_first = is_first && self.folder.is_some();
        let head = is_first.then(|| self.repository.head()).flatten();
        let from = match self.known(self.first_commit().or(head.as_deref())) {
            Ok(from) => from,
            Err(note) => return ComparedFiles::unknown(self.names_with_edits(all), note),
        };
        let has_unseen_turn = has_unseen_turn(all);
        let worktree = self.session.worktree.as_ref();
        let compared = match &self.folder {
            Some(folder) if worktree.is_some() => self.since(&from, folder),
            Some(folder) if has_unseen_turn && !self.history.has_ended => {
                self.since(&from, folder).map(|mut found| {
                    let note = "creel has not seen yet what a turn changed: these are all differences from the commit before the session.";
                    found.notes.push(note.to_owned());
                    found
                })
            }
            Some(folder) => self.in_shared_folder(&from, folder),
            None => {
                let tip = worktree.and_then(|worktree| self.repository.tip(&worktree.branch));
                let after = commit_after(all).map(str::to_owned);
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

    /// The names of the files that these turns changed, also those that only an open turn's edits
    /// name.
    fn names_with_edits(&self, turns: &[WorkTurn]) -> BTreeSet<String> {
        let mut names = names_of(turns);
        for turn in turns.iter().filter(|turn| turn.is_open) {
            for edit in self.history.edits_of(turn) {
                let paths = edit.lines().filter_map(edited_path);
                let inside = |path: &str| {
                    let own = path.strip_prefix(self.session.cwd.as_str());
                    own.unwrap_or(path).trim_start_matches('/').to_owned()
                };
                names.extend(paths.map(inside));
            }
        }
        names
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
        let recorded = names_of(&self.history.turns);
        names.extend(recorded.iter().cloned());
        let after = self.repository.in_commit(to, &names)?;
        let digests = digests_of(&self.history.turns);
        let dirty = last_dirty(&self.history.turns);
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

    /// The session's files in a folder that others use too. What was committed in the session's time
    /// is in its last commit; the rest is in the folder, and can have changed since.
    fn in_shared_folder(&self, from: &str, folder: &Path) -> Option<ComparedFiles> {
        let names = names_of(&self.history.turns);
        let last = self.known(commit_after(&self.history.turns)).ok();
        let dirty = last_dirty(&self.history.turns);
        let is_committed =
            |name: &&String| last.is_some() && dirty.is_some_and(|dirty| !dirty.contains(*name));
        let (committed, loose): (BTreeSet<String>, BTreeSet<String>) =
            names.iter().cloned().partition(|name| is_committed(&name));
        let mut after = on_disk(folder, &loose);
        let digests = digests_of(&self.history.turns);
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

    /// What these turns changed. Their uncommitted files count if their contents are found again.
    fn of_turns(&self, range: Range<usize>) -> ComparedFiles {
        let (past, rest) = self.history.turns.split_at(range.start);
        let (own, later) = rest.split_at(range.len());
        let names = self.names_with_edits(own);
        let open = self.history.open_turn();
        if open.is_some()
            && own.last().map(|last| last.turn) == open
            && let Some(folder) = &self.folder
            && let Some(found) = self.of_open_turns((past, own), folder)
        {
            return found;
        }
        if own.is_empty() {
            return ComparedFiles::default();
        }
        let mut compared = self.of_ended_turns((past, own, later), names);
        if has_unseen_turn(own) {
            compared.notes.push(UNSEEN.to_owned());
        }
        compared
    }

    fn of_ended_turns(
        &self,
        (past, own, later): (&[WorkTurn], &[WorkTurn], &[WorkTurn]),
        names: BTreeSet<String>,
    ) -> ComparedFiles {
        let both = self
            .known(commit_before(own))
            .and_then(|from| Ok((from, self.known(commit_after(own))?)));
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
        drop_unproved(&mut after, own);
        let digests = digests_of(own);
        self.find_later(&mut after, &digests, &names, later);
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

    /// What turns changed of which the last one has not ended: the files as they are in the folder
    /// now, without those that are as the turns before left them.
    fn of_open_turns(
        &self,
        (past, own): (&[WorkTurn], &[WorkTurn]),
        folder: &Path,
    ) -> Option<ComparedFiles> {
        let recorded = commit_before(own).or_else(|| commit_after(past));
        let from = match recorded.or_else(|| self.first_commit()) {
            Some(commit) => self.known(Some(commit)).ok()?,
            None => self.repository.head()?,
        };
        let mut names = self.repository.changed(&from, None)?;
        names.extend(self.repository.untracked()?);
        let mut after = on_disk(folder, &names);
        let left = digests_of(past);
        after.retain(|name, version| {
            let digest = left.get(name.as_str());
            digest.is_none_or(|digest| !version.has_digest(*digest))
        });
        let mut before = self.repository.in_commit(&from, &names)?;
        drop_unproved(&mut before, past);
        // What was uncommitted before, the user may have changed: only the agent's word counts.
        let reported = self.names_with_edits(own);
        after.retain(|name, _| before.contains_key(name) || reported.contains(name));
        let unknown = after.keys().filter(|name| !before.contains_key(*name));
        let note = "The turn has not ended: these are all differences since it began.";
        let is_first = past.is_empty() && self.session.worktree.is_none();
        let note = if is_first {
            "The first turn has not ended: these are all differences from the last commit."
        } else {
            note
        };
        Some(ComparedFiles {
            unknown: unknown.cloned().collect(),
            from: Some(from),
            before,
            after,
            notes: vec![note.to_owned()],
            is_complete: true,
            to: None,
        })
    }

    /// Looks for the missing contents, by their digests, in the folder and in later commits.
    fn find_later(
        &self,
        after: &mut FileVersions,
        digests: &BTreeMap<&str, Option<&str>>,
        names: &BTreeSet<String>,
        later: &[WorkTurn],
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
        let worktree = self.session.worktree.as_ref();
        let tip = worktree.and_then(|worktree| self.repository.tip(&worktree.branch));
        let commits = later
            .iter()
            .flat_map(|turn| [&turn.commit_before, &turn.commit_after])
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

/// Removes the contents of files that had uncommitted changes after these turns, unless the digest
/// shows that the commit has them.
fn drop_unproved(versions: &mut FileVersions, turns: &[WorkTurn]) {
    // Before the first turn, the files are taken to be as in the commit.
    if turns.iter().all(|turn| turn.commit_after.is_none()) {
        return;
    }
    let (digests, dirty) = (digests_of(turns), last_dirty(turns));
    versions.retain(|name, version| {
        let is_clean = dirty.is_some_and(|dirty| !dirty.contains(name));
        let digest = digests.get(name.as_str());
        is_clean || digest.is_some_and(|digest| version.has_digest(*digest))
    });
}

/// The file that a line of a diff names.
fn edited_path(line: &str) -> Option<&str> {
    let path = line.strip_prefix("+++ ")?.trim_end();
    let path = path.strip_prefix("b/").unwrap_or(path);
    (path != "/dev/null").then_some(path)
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
        history: &WorkHistory,
        iteration: Option<u32>,
        turns: &[WorkTurn],
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
            .map(|name| reported_edits(name, history, turns))
            .collect();
        self.notes.extend(unknown_notes(&edits));
        files.extend(edits);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let more_files = turns.iter().map(|turn| turn.more_files).max().unwrap_or(0);
        SessionDiff {
            v: VERSION,
            session: history.session.name.clone(),
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
fn reported_edits(name: &str, history: &WorkHistory, turns: &[WorkTurn]) -> ChangedFile {
    let is_it = |line: &str| {
        let path = line.strip_prefix("+++ ").map(str::trim_end);
        path.and_then(|path| path.strip_suffix(name))
            .is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let edits = turns.iter().flat_map(|turn| history.edits_of(turn));
    let text: String = edits
        .filter(|edit| edit.lines().any(is_it))
        .map(|edit| format!("{}\n", edit.trim_end()))
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
