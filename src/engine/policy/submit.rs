//! The part of the plan for submitting and merging, for task types, and for sessions in a git
//! worktree of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{
    hooks::point::HookPoint,
    policy::{AgentSpec, HookAction, HookFailurePolicy, HookSpec, SessionPlan},
    time::TimeSpan,
};

/// The default timeout of a built-in hook. It is long because a project's tests can be slow.
pub const BUILTIN_TIMEOUT: TimeSpan = TimeSpan::secs(1_800);

/// The built-in hook that merges. It runs after all other hooks of its point, so that nothing
/// merges before a check.
pub const MERGE: &str = "merge_pr";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubmitPlan {
    /// Whether the work is submitted when the session is complete; otherwise only on request.
    pub on_complete: bool,
    /// The branch to merge into. None: detected.
    pub base_branch: Option<String>,
    /// The remote to push branches to. None: detected.
    pub remote: Option<String>,
    /// The command that opens a pull request instead of `gh`.
    pub pr_command: Option<String>,
    /// The command that runs the tests. None: detected.
    pub test_command: Option<String>,
    /// How many times the agent is asked to repair a failed check.
    pub remediation_attempts: u32,
    /// The default hooks of points that the config does not mention.
    pub usual: BTreeMap<HookPoint, Vec<HookSpec>>,
    #[serde(skip_serializing_if = "WatchPlan::is_default")]
    pub watch: WatchPlan,
    #[serde(skip_serializing_if = "MergeQueuePlan::is_default")]
    pub queue: MergeQueuePlan,
}

/// How finished tasks of the queue are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MergeQueuePlan {
    /// How many times a task is sent back before it is blocked.
    pub attempts: u32,
    pub style: MergeStyle,
}

/// What the commits of a finished task become on the base branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeStyle {
    /// They stay as they are, below a merge commit.
    #[default]
    Merge,
    /// One commit.
    Squash,
    /// The same commits on top of the base; one commit if they do not apply one by one.
    Rebase,
}

impl MergeQueuePlan {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for MergeQueuePlan {
    fn default() -> Self {
        Self {
            attempts: 2,
            style: MergeStyle::default(),
        }
    }
}

/// How far a submit goes, and what happens on the way to the merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchPlan {
    pub until: SubmitUntil,
    /// How many times the agent gets news before the user is asked.
    pub rounds: u32,
    /// What happens when everything is green and approved.
    pub merge: MergePolicy,
    /// The accounts with words for the agent: names, `collaborators` for all that may push, or `*`.
    pub reviewers: Vec<String>,
    /// How long the session waits for the merge.
    pub max_watch: TimeSpan,
    /// How often creel looks after a change; later ten times as seldom.
    pub poll: TimeSpan,
}

impl WatchPlan {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for WatchPlan {
    fn default() -> Self {
        Self {
            until: SubmitUntil::PullRequest,
            rounds: 5,
            merge: MergePolicy::Ask,
            reviewers: vec![COLLABORATORS.to_owned()],
            max_watch: TimeSpan::secs(7 * 24 * 3_600),
            poll: TimeSpan::secs(30),
        }
    }
}

/// Stands for all accounts that may push to the repository.
pub const COLLABORATORS: &str = "collaborators";

/// Where a submit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitUntil {
    #[default]
    PullRequest,
    Merged,
}

/// What happens to a pull request that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergePolicy {
    Ask,
    Auto,
    Never,
}

impl Default for SubmitPlan {
    fn default() -> Self {
        Self {
            on_complete: false,
            base_branch: None,
            remote: None,
            pr_command: None,
            test_command: None,
            remediation_attempts: 1,
            watch: WatchPlan::default(),
            queue: MergeQueuePlan::default(),
            usual: BTreeMap::from([
                (
                    HookPoint::BeforeSubmit,
                    vec![HookSpec::builtin("create_pr")],
                ),
                (HookPoint::BeforeMerge, vec![HookSpec::merge()]),
            ]),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SerializedBuiltinCall", into = "SerializedBuiltinCall")]
pub struct BuiltinCall {
    pub name: String,
    pub options: BuiltinOptions,
}

/// The options of a built-in hook. Options that are not set come from `submit:`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuiltinOptions {
    /// The command that `run_tests` runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// A built-in hook in a record: only its name, as in older records, or its name and its options.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SerializedBuiltinCall {
    Name(String),
    WithOptions {
        name: String,
        #[serde(flatten)]
        options: BuiltinOptions,
    },
}

impl From<SerializedBuiltinCall> for BuiltinCall {
    fn from(written: SerializedBuiltinCall) -> Self {
        match written {
            SerializedBuiltinCall::Name(name) => Self {
                name,
                options: BuiltinOptions::default(),
            },
            SerializedBuiltinCall::WithOptions { name, options } => Self { name, options },
        }
    }
}

impl From<BuiltinCall> for SerializedBuiltinCall {
    fn from(BuiltinCall { name, options }: BuiltinCall) -> Self {
        if options == BuiltinOptions::default() {
            Self::Name(name)
        } else {
            Self::WithOptions { name, options }
        }
    }
}

impl From<&str> for BuiltinCall {
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            options: BuiltinOptions::default(),
        }
    }
}

impl BuiltinCall {
    /// The hook with its options, to show to the user: `run_tests: make check`.
    pub fn describe(&self) -> String {
        let BuiltinOptions {
            command,
            base_branch,
            remote,
        } = &self.options;
        let goes_to = [("base branch", base_branch), ("remote", remote)];
        let goes_to = goes_to
            .into_iter()
            .filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)));
        let parts: Vec<String> = command.iter().cloned().chain(goes_to).collect();
        if parts.is_empty() {
            self.name.clone()
        } else {
            format!("{}: {}", self.name, parts.join(", "))
        }
    }
}

/// An agent that reviews changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gatekeeper {
    /// The agent's name in the config.
    pub agent: String,
    pub spec: AgentSpec,
    /// The instructions for the review. None: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

impl HookSpec {
    /// A built-in hook with default settings.
    pub fn builtin(name: &str) -> Self {
        Self {
            timeout: BUILTIN_TIMEOUT,
            ..Self::new(name, HookAction::Builtin(name.into()))
        }
    }

    /// Whether it is the merge itself, whatever its name.
    pub fn is_merge(&self) -> bool {
        matches!(&self.action, HookAction::Builtin(call) if call.name == MERGE)
    }

    /// Whether it opens a pull request.
    pub fn opens_request(&self) -> bool {
        matches!(&self.action, HookAction::Builtin(call) if call.name == "create_pr")
    }

    /// The merge itself, after all other hooks.
    pub fn merge() -> Self {
        Self {
            priority: i64::MAX,
            ..Self::builtin(MERGE)
        }
    }
}

impl SessionPlan {
    /// The configured hooks of a point, or else its defaults.
    pub fn hooks_or_usual(&self, point: HookPoint) -> &[HookSpec] {
        let usual = || self.submit.usual.get(&point).map_or(&[][..], Vec::as_slice);
        self.hooks.get(&point).map_or_else(usual, Vec::as_slice)
    }

    /// Why the session's agent is not allowed to work on tasks of a type. None if it is.
    pub fn refuses_type(&self, kind: &str) -> Option<TypeNotAllowed> {
        let allowed = self.task_types.get(kind)?;
        (!allowed.contains(&self.agent)).then(|| TypeNotAllowed::new(&self.agent, kind, allowed))
    }
}

/// The message that an agent is not allowed to work on a type of task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the agent `{agent}` may not work on tasks of type `{kind}`. Agents for this type: {}",
    quoted(allowed)
)]
pub struct TypeNotAllowed {
    agent: String,
    kind: String,
    allowed: Vec<String>,
}

impl TypeNotAllowed {
    pub fn new(agent: &str, kind: &str, allowed: &[String]) -> Self {
        Self {
            agent: agent.to_owned(),
            kind: kind.to_owned(),
            allowed: allowed.to_vec(),
        }
    }
}

fn quoted(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

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
