//! Texts of terminals, tools and agents: made plain, compared, shortened, searched.
//!
//! A leaf: it knows nothing of sessions, and is as pure as the engine, which uses it.

mod comparable;
mod diff;
mod headline;
mod plain;
mod unquoted;
mod wording;

pub use comparable::{OmittedOutput, is_shortened, printed_lines};
pub use comparable::{comparable_text, same_text};
pub use diff::{LineChange, diff_groups, line_changes, unified_diff, whole_lines};
pub use headline::{looks_like_failure, telling_line};
pub use plain::{CarriageReturnMode, PlainTextFilter, plain_text};
pub(crate) use unquoted::{LetterCase, UnquotedText, fence_after, open_fence};
pub use wording::{
    bulleted, command_line, counted, first_line, listed, plural, shell_word, shortened, some_names,
};

/// The nearest known name, if the difference is small enough for a typing mistake.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = wrong;
    let wrong = wrong.to_lowercase().replace('-', "_");
    let length = wrong.chars().count();
    let tolerated = |name: &str| name.chars().count().max(3) / 3;
    known
        .into_iter()
        // Comparing lengths first is cheap and excludes most names.
        .filter(|name| name.chars().count().abs_diff(length) <= tolerated(name))
        .map(|name| {
            (
                strsim::osa_distance(&wrong, &name.to_lowercase().replace('-', "_")),
                name,
            )
        })
        // If every letter differs, the user did not mean this name.
        .filter(|(distance, name)| *distance <= tolerated(name) && *distance < name.chars().count())
        // Of two names that differ in capitals, the one that is written in the same way.
        .min_by_key(|(distance, name)| (*distance, strsim::osa_distance(written, name)))
        .map(|(_, name)| name)
}
