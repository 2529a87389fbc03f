//! The part of the plan for sessions in a git worktree of their own.

use serde::{Deserialize, Serialize};

use crate::engine::{
    policy::{HookAction, HookFailurePolicy, HookSpec},
    time::TimeSpan,
};

/// The branch of a session, if the config has no template for it.
pub const WORKTREE_BRANCH: &str = "creel/{{session}}";
/// How long a setup command can take. Installing dependencies can be slow.
const SETUP_TIMEOUT: TimeSpan = TimeSpan::secs(1_800);
/// Before the hooks of the config, whose lowest priority is 0.
const SETUP_PRIORITY: i64 = -1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorktreePlan {
    /// The branch to start from. None: the remote's default branch, or the current branch without a
    /// remote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The folder of all worktrees. None: `.creel/worktrees`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The template of the branch's name.
    pub branch: String,
    /// Commands that prepare a new worktree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Ignored files and folders of the project that a new worktree gets too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
    pub keep: WorktreeRetention,
}

/// When the folder of a worktree stays after its session. One with changes always stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeRetention {
    Always,
    /// Unless the session is complete.
    #[default]
    OnFailure,
    Never,
}

impl Default for WorktreePlan {
    fn default() -> Self {
        Self {
            base: None,
            folder: None,
            branch: WORKTREE_BRANCH.to_owned(),
            setup: Vec::new(),
            copy: Vec::new(),
            keep: WorktreeRetention::default(),
        }
    }
}

impl WorktreePlan {
    /// The setup commands as hooks at the start of the session, so that they are shown, recorded,
    /// and run again after a kill. If one fails, creel asks the user: an agent in a half-prepared
    /// folder wastes its turns.
    pub fn setup_hooks(&self) -> Vec<HookSpec> {
        let hook = |(at, command): (usize, &String)| HookSpec {
            timeout: SETUP_TIMEOUT,
            priority: SETUP_PRIORITY,
            on_failure: Some(HookFailurePolicy::Escalate),
            ..HookSpec::new(
                format!("setup {}", at + 1),
                HookAction::Command(command.clone()),
            )
        };
        self.setup.iter().enumerate().map(hook).collect()
    }

    /// The branch of a session.
    pub fn branch_of(&self, session: &str) -> String {
        self.branch.replace("{{session}}", session)
    }
}

impl WorktreeRetention {
    /// Whether the folder can go when the session has ended like that.
    pub const fn lets_go(self, is_complete: bool) -> bool {
        match self {
            Self::Always => false,
            Self::OnFailure => is_complete,
            Self::Never => true,
        }
    }
}
