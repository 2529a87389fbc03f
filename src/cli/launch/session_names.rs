//! Names for new sessions that no other session has.

use std::path::Path;

use crate::{
    journal::{SessionDir, SessionsDir},
    present::local_time::local_now,
};

/// How many names to try one after the other.
const IN_ORDER: u64 = 16;

/// The folder of that name, or a free one with a number added: the first one, if there are only a
/// few.
pub(crate) fn first_free(sessions: &SessionsDir, name: &str) -> SessionDir {
    let is_free = |folder: &SessionDir| !folder.exists();
    if let Some(folder) = sessions
        .numbered(name)
        .take(usize::try_from(IN_ORDER).unwrap_or(1))
        .find(is_free)
    {
        return folder;
    }
    // Doubles the number until one is free, then halves the distance to one that is taken: this
    // stays quick after thousands of sessions.
    let numbered = |number: u64| sessions.folder(&format!("{name}-{number}"));
    let (mut taken, mut free) = (IN_ORDER, 2 * IN_ORDER);
    while !is_free(&numbered(free)) {
        (taken, free) = (free, free.saturating_mul(2));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if is_free(&numbered(middle)) {
            free = middle;
        } else {
            taken = middle;
        }
    }
    numbered(free)
}

/// A name from the folder and the time.
pub(crate) fn dated_name(root: &Path) -> String {
    let folder = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let plain: String = folder
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .take(40)
        .collect();
    let folder = plain.trim_matches('-');
    dated(if folder.is_empty() { "session" } else { folder })
}

/// A name with the time added.
pub(crate) fn dated(name: &str) -> String {
    format!("{name}-{}", local_now().strftime("%Y%m%d-%H%M%S"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_is_free_however_many_sessions_have_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        for _ in 0..100 {
            let folder = first_free(&sessions, "s");
            assert!(!folder.exists());
            fs::create_dir_all(&folder.path).expect("a folder");
            fs::write(folder.journal(), "{}\n").expect("a journal");
        }
        let taken: Vec<String> = sessions
            .numbered("s")
            .take(100)
            .map(|folder| folder.name)
            .collect();
        assert!(
            taken.iter().all(|name| sessions.folder(name).exists()),
            "no number was skipped"
        );
    }
}
