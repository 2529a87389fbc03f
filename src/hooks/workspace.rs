//! Where a hook runs, and where its output goes.
//!
//! Does not run anything: see [`super::run_hook`].
//!
//! # Invariants
//! - All output of a hook is forwarded as it comes, without secrets; the file of it is in the session's
//!   folder.

use std::path::PathBuf;

use crate::{
    engine::ids::RunId,
    process::{
        self,
        output::{CapturedOutput, OutputCapture},
        run::{OutputStream, ProcessGroup, ProcessObserver},
        secrets,
    },
    text::StreamMask,
};

#[derive(Debug, Clone)]
pub struct HookWorkspace {
    pub cwd: PathBuf,
    /// Output goes into `outputs` inside it.
    pub session_dir: PathBuf,
    pub session_id: String,
    pub journal: PathBuf,
    /// The mark of the session's processes. Each run adds its number.
    pub mark: String,
}

impl HookWorkspace {
    pub(super) fn output_file(&self, run: RunId) -> PathBuf {
        self.session_dir.join(run.output_file())
    }

    /// The variable with the project's folder. A check in a clean worktree must not find the way back to
    /// the work.
    pub(super) fn project(&self) -> Option<(String, String)> {
        if self.cwd.starts_with(&self.session_dir) {
            let folder = self.cwd.to_str()?.to_owned();
            return Some(("CREEL_PROJECT".to_owned(), folder));
        }
        process::project_variable(&self.session_dir)
    }

    /// The same as a path that agents can use. The folder of a session in a worktree is in the main
    /// project.
    pub(super) fn output_file_from_project(&self, run: RunId) -> String {
        process::output::path_from(&self.cwd, &self.output_file(run))
    }
}

/// Stores the output and forwards it.
pub(super) struct OutputTee<'a> {
    capture: OutputCapture,
    watch: &'a mut dyn ProcessObserver,
    stdout: StreamMask,
    stderr: StreamMask,
}

impl<'a> OutputTee<'a> {
    pub(super) fn new(
        run: RunId,
        limit: usize,
        place: &HookWorkspace,
        watch: &'a mut dyn ProcessObserver,
    ) -> Self {
        let file = (place.output_file(run), place.output_file_from_project(run));
        Self {
            capture: OutputCapture::new(limit, Some(file), process::output::FILE_CAP),
            watch,
            stdout: secrets::stream(),
            stderr: secrets::stream(),
        }
    }

    /// The output, and the file with all of it, if there is one.
    pub(super) fn finish(mut self, run: RunId) -> (CapturedOutput, Option<String>) {
        let rests = [
            (OutputStream::Stdout, self.stdout.finish()),
            (OutputStream::Stderr, self.stderr.finish()),
        ];
        for (stream, rest) in rests.iter().filter(|(_, rest)| !rest.is_empty()) {
            self.capture.push(*stream, rest);
            self.watch.output(*stream, rest);
        }
        let captured = self.capture.finish();
        if let Some(note) = &captured.file_note {
            tracing::warn!(run = run.0, "{note}");
        }
        let file = captured.file_written.then(|| run.output_file());
        (captured, file)
    }
}

impl ProcessObserver for OutputTee<'_> {
    fn started(&mut self, group: ProcessGroup) {
        self.watch.started(group);
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let mask = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let masked = mask.push(bytes);
        if !masked.is_empty() {
            self.capture.push(stream, &masked);
            self.watch.output(stream, &masked);
        }
    }
}
