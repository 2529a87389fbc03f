//! A project of its own for each measurement.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    measure::Result,
    terminal::{TerminalProgram, at_home},
};

/// `CREEL_BIN`, or the creel that was built with the benchmarks.
pub(crate) fn creel() -> PathBuf {
    std::env::var_os("CREEL_BIN").map_or_else(|| env!("CARGO_BIN_EXE_creel").into(), PathBuf::from)
}

/// A project with a config, and a home of its own.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new(agent: &str) -> Result<Self> {
        let project = Self::empty()?;
        fs::write(
            project.path().join("creel.yaml"),
            format!(
                "prompt: x\nagent: demo\nstop: {{ settled: continue }}\nagents: {{ demo: {{ command: {agent} }} }}\n"
            ),
        )?;
        Ok(project)
    }

    /// A project without files.
    pub(crate) fn empty() -> Result<Self> {
        let project = Self {
            folder: tempfile::tempdir()?,
        };
        fs::create_dir(project.path())?;
        Ok(project)
    }

    /// The user's home.
    pub(crate) fn home(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn on_screen(&self, args: &[&str]) -> Result<TerminalProgram> {
        TerminalProgram::start(
            at_home(&creel(), &self.path(), self.folder.path())
                .args(["run", "--trust"])
                .args(args),
        )
    }
}
