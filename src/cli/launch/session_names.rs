//! Names for new sessions that no other session has.

use std::path::Path;

use crate::{
    journal::{SessionDir, SessionsDir},
    present::local_time::local_now,
};

/// The folder of that name, or the first free one with a number added.
pub(crate) fn first_free(sessions: &SessionsDir, name: &str) -> SessionDir {
    let mut all = numbered(sessions, name);
    all.find(|folder| !folder.exists()).expect("numbers do not end before sessions do")
}

/// The folder of that name, then those with a number added.
pub(crate) fn numbered(sessions: &SessionsDir, name: &str) -> impl Iterator<Item = SessionDir> {
    let more = (2..).map(move |n| sessions.folder(&format!("{name}-{n}")));
    std::iter::once(sessions.folder(name)).chain(more)
}

/// A name from the folder and the time.
pub(crate) fn dated_name(root: &Path) -> String {
    let folder = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String =
        folder.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(40).collect();
    let folder = plain.trim_matches('-');
    dated(if folder.is_empty() { "session" } else { folder })
}

/// A name with the time added.
pub(crate) fn dated(name: &str) -> String {
    format!("{name}-{}", local_now().strftime("%Y%m%d-%H%M%S"))
}
