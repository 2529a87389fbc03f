//! The contents of the project's files in the latest iterations, and which files the agent keeps
//! rewriting.
//!
//! # Invariants
//! - A file that was committed has no history: committed work counts as finished.
//! - A file that grows to new content, or is written again unchanged, is not rewritten. A file that
//!   returns to the content of an earlier iteration is, even if the change only appends.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::engine::{conversation::FileContent, stored_form::is_default};

/// How many iterations the history covers.
const REMEMBERED: usize = 20;

#[derive(Debug, Clone, Copy)]
pub enum ChangedFiles<'a> {
    /// With their contents, as creel saw them.
    Seen(&'a BTreeMap<String, FileContent>),
    /// Only the names, as an agent reported them.
    Named(&'a [String]),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHistory {
    /// The digests of the files that each of the latest iterations changed, newest last.
    past: VecDeque<BTreeMap<String, Option<String>>>,
}

/// In how many consecutive iterations the agent rewrote a file, by file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileStreaks {
    #[serde(skip_serializing_if = "is_default")]
    pub rewritten: BTreeMap<String, u32>,
    /// Files that returned to content of an earlier iteration.
    #[serde(skip_serializing_if = "is_default")]
    pub returned: BTreeMap<String, u32>,
}

impl FileHistory {
    /// Which files one more iteration rewrites.
    pub fn streaks(&self, changed: ChangedFiles<'_>, before: &FileStreaks) -> FileStreaks {
        let mut after = FileStreaks::default();
        let contents = match changed {
            ChangedFiles::Seen(contents) => contents,
            ChangedFiles::Named(names) => {
                let longer = |name: &String| (name.clone(), next(&before.rewritten, name));
                after.rewritten = names.iter().map(longer).collect();
                return after;
            }
        };
        for (name, content) in in_work(contents) {
            let mut earlier = self
                .past
                .iter()
                .rev()
                .filter_map(|iteration| iteration.get(name));
            if earlier.next() == Some(&content.digest) {
                continue;
            }
            let returned = earlier.any(|digest| *digest == content.digest);
            if returned || !content.appended {
                let times = next(&before.rewritten, name);
                after.rewritten.insert(name.clone(), times);
            }
            if returned {
                let times = next(&before.returned, name);
                after.returned.insert(name.clone(), times);
            }
        }
        after
    }

    pub fn store(&mut self, changed: ChangedFiles<'_>) {
        let ChangedFiles::Seen(contents) = changed else {
            self.past.clear();
            return;
        };
        for (name, _) in contents.iter().filter(|(_, content)| content.committed) {
            self.past
                .iter_mut()
                .for_each(|iteration| drop(iteration.remove(name)));
        }
        let digests =
            in_work(contents).map(|(name, content)| (name.clone(), content.digest.clone()));
        self.past.push_back(digests.collect());
        while self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
    }
}

fn in_work(
    contents: &BTreeMap<String, FileContent>,
) -> impl Iterator<Item = (&String, &FileContent)> {
    contents.iter().filter(|(_, content)| !content.committed)
}

fn next(streaks: &BTreeMap<String, u32>, name: &str) -> u32 {
    streaks.get(name).map_or(1, |times| times.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(digest: &str) -> FileContent {
        FileContent {
            digest: Some(digest.to_owned()),
            ..FileContent::default()
        }
    }

    /// How often `f` returned and was rewritten, in a row, after iterations with these contents.
    fn streaks(iterations: impl IntoIterator<Item = Option<FileContent>>) -> (u32, u32) {
        let (mut history, mut streaks) = (FileHistory::default(), FileStreaks::default());
        for content in iterations {
            let contents = content.map(|content| ("f".to_owned(), content));
            let contents = contents.into_iter().collect();
            streaks = history.streaks(ChangedFiles::Seen(&contents), &streaks);
            history.store(ChangedFiles::Seen(&contents));
        }
        let times = |of: &BTreeMap<String, u32>| of.values().max().copied().unwrap_or(0);
        (times(&streaks.returned), times(&streaks.rewritten))
    }

    #[test]
    fn a_file_returns_if_it_had_the_content_before_the_last_one() {
        let of = |text: &str| {
            streaks(
                text.chars()
                    .map(|c| (c != ' ').then(|| seen(&c.to_string()))),
            )
        };
        assert_eq!(of("ABA"), (1, 3));
        assert_eq!(of("ABABAB"), (4, 6));
        assert_eq!(of("ABCDEF"), (0, 6), "new content each time");
        assert_eq!(of("AAAAAA"), (0, 0), "written again without a change");
        assert_eq!(
            of("ABAB AB"),
            (2, 2),
            "an iteration that leaves it alone begins the count again"
        );
        assert_eq!(of("ABCA"), (1, 4));
    }

    #[test]
    fn a_file_that_is_removed_and_written_again_returns() {
        let gone = FileContent::default();
        assert_eq!(
            streaks([seen("A"), gone.clone(), seen("A"), gone].map(Some)),
            (2, 4)
        );
    }

    #[test]
    fn appends_and_commits_never_count() {
        let appended = |digest: &str| FileContent {
            appended: true,
            ..seen(digest)
        };
        let committed = |digest: &str| FileContent {
            committed: true,
            ..seen(digest)
        };
        assert_eq!(
            streaks([seen("A"), appended("B"), appended("C")].map(Some)),
            (0, 0)
        );
        assert_eq!(
            streaks([seen("A"), seen("B"), committed("A"), committed("B")].map(Some)),
            (0, 0)
        );
        assert_eq!(
            streaks([seen("A"), seen("B"), committed("C"), seen("A")].map(Some)),
            (0, 1)
        );
    }

    #[test]
    fn an_append_that_restores_earlier_content_is_a_return() {
        // "ab" begins with "a": each way back looks like an append, and is not new.
        let shorter = || seen("a");
        let longer = || FileContent {
            appended: true,
            ..seen("ab")
        };
        assert_eq!(
            streaks([shorter(), longer()].map(Some)),
            (0, 0),
            "new content"
        );
        assert_eq!(
            streaks(
                [
                    shorter(),
                    longer(),
                    shorter(),
                    longer(),
                    shorter(),
                    longer()
                ]
                .map(Some)
            ),
            (4, 4)
        );
        let grown = FileContent {
            appended: true,
            ..seen("abc")
        };
        assert_eq!(
            streaks([shorter(), longer(), shorter(), longer(), grown].map(Some)),
            (0, 0),
            "it grows again"
        );
    }

    #[test]
    fn the_history_is_bounded() {
        let name = |n: usize| format!("f{n}");
        let mut history = FileHistory::default();
        for n in 0..100 {
            history.store(ChangedFiles::Seen(&BTreeMap::from([(name(n), seen("A"))])));
        }
        assert_eq!(history.past.len(), REMEMBERED);
    }
}
