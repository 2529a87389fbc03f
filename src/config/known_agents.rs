//! Agents that need no entry in the config.

use std::{
    env,
    ffi::OsStr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::engine::policy::AgentSpec;

/// One agent that creel knows how to run.
#[derive(Debug, Clone, Copy)]
pub struct KnownAgent {
    /// What it is called in the config.
    pub name: &'static str,
    /// How it is run.
    command: &'static str,
}

/// All of them; the first that is installed is taken when the config names none.
pub const KNOWN_AGENTS: [KnownAgent; 7] = [
    KnownAgent { name: "claude", command: "claude -p" },
    KnownAgent { name: "codex", command: "codex exec --full-auto -" },
    KnownAgent { name: "gemini", command: "gemini -p {{prompt}}" },
    KnownAgent { name: "opencode", command: "opencode run {{prompt}}" },
    KnownAgent { name: "aider", command: "aider --yes --message {{prompt}}" },
    KnownAgent { name: "goose", command: "goose run -i -" },
    KnownAgent { name: "qwen", command: "qwen -p {{prompt}}" },
];

impl KnownAgent {
    /// The agent of that name.
    pub fn named(name: &str) -> Option<Self> {
        KNOWN_AGENTS.into_iter().find(|agent| agent.name == name)
    }

    /// How to run it.
    pub fn spec(self) -> AgentSpec {
        AgentSpec::command(self.command)
    }

    /// The program that has to be installed.
    pub fn program(self) -> &'static str {
        self.command.split(' ').next().unwrap_or(self.command)
    }

    /// Whether its program is in one of the folders of `PATH`.
    pub fn is_installed(self) -> bool {
        self.is_in(&env::var_os("PATH").unwrap_or_default())
    }

    pub(super) fn is_in(self, path: &OsStr) -> bool {
        find_program(self.program(), path).is_some()
    }
}

fn find_program(program: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
