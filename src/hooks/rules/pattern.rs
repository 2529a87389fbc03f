//! Rules about patterns in a text.

use std::{borrow::Cow, path::Path};

use regex::Regex;

use super::{RuleFinding, barred, shown};
use crate::{engine::policy::PatternTarget, process::project_dir::ProjectDir};

/// Larger files are not searched.
const READ_MAX: u64 = 8 << 20;

/// Why the file of a rule cannot be searched, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UnreadableFile(String);

/// The text to search: `said`, or the content of a file.
pub(super) fn text<'a>(
    target: &PatternTarget,
    said: &'a str,
    premises: &ProjectDir,
) -> Result<Cow<'a, str>, UnreadableFile> {
    match target {
        PatternTarget::AgentOutput => Ok(Cow::Borrowed(said)),
        PatternTarget::File(file) => {
            let bytes = premises
                .read(Path::new(file), READ_MAX)
                .map_err(|why| UnreadableFile(barred(file, &why, "write it")))?;
            Ok(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}

/// Whether the text contains the pattern if `must_match`, or does not contain it otherwise.
pub(super) fn judge(
    pattern: &str,
    text: &str,
    target: &PatternTarget,
    must_match: bool,
) -> RuleFinding {
    let regex = Regex::new(pattern).map_err(|_| {
        format!(
            "{} is not a regular expression: correct the rule",
            shown(pattern)
        )
    })?;
    let place = match target {
        PatternTarget::AgentOutput => "the last message".to_owned(),
        PatternTarget::File(file) => shown(file),
    };
    let wanted = shown(pattern);
    match (regex.find(text), must_match) {
        (Some(found), true) => Ok(format!(
            "{place}, line {}: matches {wanted}",
            line_of(text, found.start())
        )),
        (None, true) => Err(format!("{place}: nothing matches {wanted}")),
        (None, false) => Ok(format!("{place}: nothing matches {wanted}, as required")),
        (Some(found), false) => {
            let (line, what) = (line_of(text, found.start()), around(text, found.start()));
            Err(format!(
                "{place}, line {line}: matches {wanted}, which must not match: {what}"
            ))
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The line of a match, shortened.
fn around(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    // In a very long line, as in minified files, start at the match.
    let start = if at - start > super::NAME_SHOWN / 2 {
        at
    } else {
        start
    };
    shown(text[start..].lines().next().unwrap_or_default())
}
