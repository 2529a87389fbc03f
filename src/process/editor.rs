//! Edits a text in the user's own editor.
//!
//! # Invariants
//! - The file is new and readable by the user only. No link is followed.
//! - The file is removed if its text was used or is unchanged. Otherwise it stays and creel prints
//!   its path, so the user's text is not lost.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::{Command, ExitStatus},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::process::Signal;

use super::signals::{ShutdownSignals, SuspendSignal, stop_job};
use crate::process::{children, process_table, run::GRACE, sweep};

/// How many file names to try if some exist already.
const NAMES: usize = 100;

#[derive(Debug)]
pub struct EditorFile {
    path: PathBuf,
    /// The text before the user edited it.
    before: String,
    /// From `VISUAL` or `EDITOR`.
    editor: String,
}

impl EditorFile {
    /// Writes the text to a new file.
    pub fn new(text: &str) -> Result<Self, EditorError> {
        let named = ["VISUAL", "EDITOR"]
            .iter()
            .find_map(|name| std::env::var(name).ok());
        let (path, mut file) = new_file().map_err(EditorError::NoFile)?;
        // End with a newline, as editors would add one.
        let sheet = Self {
            path,
            before: format!("{text}\n"),
            editor: named.unwrap_or_else(|| "vi".into()),
        };
        file.write_all(sheet.before.as_bytes()).map_err(|error| {
            sheet.remove();
            EditorError::NoFile(error)
        })?;
        Ok(sheet)
    }

    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The command that opens the file. The terminal must be free.
    pub fn command(&self) -> Command {
        // A shell parses the editor's command line, which can have options. The file is a separate
        // argument, never part of that text.
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{} \"$1\"", self.editor))
            .arg("sh")
            .arg(&self.path);
        command
    }

    /// Opens the file and waits for the editor. A shutdown signal ends the editor too and is
    /// returned, except an interrupt, which is for the editor because it has the terminal. creel
    /// and the editor stop together.
    pub async fn edited(
        &self,
        signals: &mut ShutdownSignals,
        stop: &mut SuspendSignal,
    ) -> (io::Result<ExitStatus>, Option<Signal>) {
        let mark = format!(
            "{}/{}",
            sweep::EDITOR,
            self.path.file_name().unwrap_or_default().to_string_lossy()
        );
        let mut command = tokio::process::Command::from(self.command());
        command.env(sweep::MARK, sweep::marked(&mark));
        let (mut editor, _entry) = match children::start(&mark, || command.spawn()) {
            Ok(started) => started,
            Err(error) => return (Err(error), None),
        };
        if let Some(pid) = editor.id() {
            process_table::let_go(pid);
        }
        loop {
            let signal = tokio::select! {
                ended = editor.wait() => return (ended, None),
                signal = signals.next() => signal,
                () = stop.next() => {
                    if let Err(error) = stop_job() {
                        tracing::warn!("creel cannot suspend itself: {error}");
                    }
                    continue;
                }
            };
            if signal != Signal::INT {
                if sweep::end_all(&mark, &[], GRACE).await == 0 {
                    // Without a list of processes, no marked one is found. An editor that exited
                    // already is fine too.
                    let _ = editor.start_kill();
                }
                return (editor.wait().await, Some(signal));
            }
        }
    }

    /// The text after the editor has ended. Does not remove the file.
    pub fn read(&self, ended: io::Result<ExitStatus>) -> Result<String, EditorError> {
        let text = fs::read_to_string(&self.path);
        let unchanged = text.as_ref().is_ok_and(|text| *text == self.before);
        let why = match (ended, text) {
            (Ok(status), Ok(text)) if status.success() => {
                return Ok(text.trim_end_matches('\n').to_owned());
            }
            (Ok(status), Err(error)) if status.success() => EditorError::Unreadable(error),
            (Ok(status), _) => EditorError::Failed {
                editor: self.editor.clone(),
                status,
            },
            (Err(error), _) => EditorError::NotStarted {
                editor: self.editor.clone(),
                error,
            },
        };
        if unchanged {
            self.remove();
            return Err(EditorError::Unchanged(Box::new(why)));
        }
        if self.path.exists() {
            Err(EditorError::Kept {
                why: Box::new(why),
                file: self.path.clone(),
            })
        } else {
            Err(why)
        }
    }

    /// Adds the path of the file to a message, if the file exists.
    pub fn kept(&self, why: &str) -> String {
        if self.path.exists() {
            format!("{why}; your text is in {}", self.path.display())
        } else {
            why.to_owned()
        }
    }

    pub fn remove(&self) {
        // A file that cannot be removed does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a new file that only the user can read.
fn new_file() -> io::Result<(PathBuf, File)> {
    let stamp = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let stem = format!("creel-{}-{stamp}", std::process::id());
    let mut tried = (0..NAMES).map(|n| {
        let path = std::env::temp_dir().join(format!("{stem}-{n}.md"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok((path, file))
    });
    let taken = |opened: &io::Result<_>| {
        opened
            .as_ref()
            .is_err_and(|e: &io::Error| e.kind() == io::ErrorKind::AlreadyExists)
    };
    tried
        .find(|opened| !taken(opened))
        .unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
}

/// Why a text could not be edited in the user's editor.
#[derive(Debug, thiserror::Error)]
pub enum EditorError {
    #[error("cannot start an editor: {0}")]
    NoFile(io::Error),
    #[error("cannot read the editor's file: {0}")]
    Unreadable(io::Error),
    #[error("the editor `{editor}` failed ({status})")]
    Failed { editor: String, status: ExitStatus },
    #[error("cannot start the editor `{editor}`: {error}; set EDITOR")]
    NotStarted { editor: String, error: io::Error },
    #[error("{0}; the text is unchanged")]
    Unchanged(Box<Self>),
    #[error("{why}; your text is in {}", file.display())]
    Kept { why: Box<Self>, file: PathBuf },
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _};

    use super::*;

    fn ended(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn the_file_is_for_nobody_else_and_gone_when_it_was_taken() {
        let sheet = EditorFile::new("red").expect("a file");
        let mode = fs::metadata(&sheet.path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&sheet.path, "red\nas a brick\n").expect("it is ours");
        assert_eq!(sheet.read(Ok(ended(0))).expect("a text"), "red\nas a brick");
        sheet.remove();
        assert!(!sheet.path.exists());
    }

    #[test]
    fn a_text_that_was_not_accepted_is_kept() {
        let edited = |written: &[u8], code| {
            let sheet = EditorFile::new("red").expect("a file");
            fs::write(&sheet.path, written).expect("it is ours");
            let why = sheet
                .read(Ok(ended(code)))
                .expect_err("it is not taken")
                .to_string();
            let named = why.contains(&sheet.path.display().to_string());
            let left = fs::read(&sheet.path).ok();
            sheet.remove();
            (named, left.is_some_and(|left| left == written))
        };
        assert_eq!(edited(b"gr\xfcn", 0), (true, true), "it cannot be read");
        assert_eq!(edited(b"green", 1), (true, true), "the editor failed");
        assert_eq!(
            edited(b"red\n", 1),
            (false, false),
            "there is nothing to keep"
        );
    }
}
