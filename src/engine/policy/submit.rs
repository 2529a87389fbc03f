//! What is told beforehand about submitting and merging, and about the types of tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AgentSpec, HookAction, HookSpec, RetryOptions, SessionPlan};
use crate::engine::{hooks::point::HookPoint, time::TimeSpan};

/// How long a hook that creel brings along may take: a project's tests can take their time.
pub const BUILTIN_TIMEOUT: TimeSpan = TimeSpan::secs(1_800);

/// The built-in hook that merges. It runs after all other hooks of its point, so that nothing merges past a check.
pub const MERGE: &str = "merge_pr";

/// What is said about submitting and merging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubmitPlan {
    /// Whether the work is submitted when the session is complete; otherwise only when somebody asks for it.
    pub on_complete: bool,
    /// What the work is to be merged into; found, if unsaid.
    pub base_branch: Option<String>,
    /// Where branches are pushed to; found, if unsaid.
    pub remote: Option<String>,
    /// What opens a pull request instead of `gh`.
    pub pr_command: Option<String>,
    /// What runs the tests; found, if unsaid.
    pub test_command: Option<String>,
    /// How often the agent may repair what blocked.
    pub remediation_attempts: u32,
    /// The hooks of points about which nothing is said.
    pub usual: BTreeMap<HookPoint, Vec<HookSpec>>,
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
            usual: BTreeMap::from([
                (HookPoint::BeforeSubmit, vec![HookSpec::builtin("create_pr")]),
                (HookPoint::BeforeMerge, vec![HookSpec::merge()]),
            ]),
        }
    }
}

/// A built-in hook, and what the config says about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SerializedBuiltinCall", into = "SerializedBuiltinCall")]
pub struct BuiltinCall {
    /// Which one.
    pub name: String,
    /// What differs from the rest of the config.
    pub options: BuiltinOptions,
}

/// The options of a built-in hook. Those that are not set are taken from `submit:`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuiltinOptions {
    /// What `run_tests` runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The branch that the work goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    /// The remote that the work goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// A built-in hook in a record: its name alone, as records always had it, or its name and its options.
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
            SerializedBuiltinCall::Name(name) => Self { name, options: BuiltinOptions::default() },
            SerializedBuiltinCall::WithOptions { name, options } => Self { name, options },
        }
    }
}

impl From<BuiltinCall> for SerializedBuiltinCall {
    fn from(BuiltinCall { name, options }: BuiltinCall) -> Self {
        if options == BuiltinOptions::default() { Self::Name(name) } else { Self::WithOptions { name, options } }
    }
}

impl From<&str> for BuiltinCall {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), options: BuiltinOptions::default() }
    }
}

impl BuiltinCall {
    /// The hook with its options, for a person: `run_tests: make check`.
    pub fn describe(&self) -> String {
        let BuiltinOptions { command, base_branch, remote } = &self.options;
        let goes_to = [("base branch", base_branch), ("remote", remote)];
        let goes_to = goes_to.into_iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)));
        let said: Vec<String> = command.iter().cloned().chain(goes_to).collect();
        if said.is_empty() { self.name.clone() } else { format!("{}: {}", self.name, said.join(", ")) }
    }
}

/// An agent that reviews changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gatekeeper {
    /// The agent's name in the config.
    pub agent: String,
    /// How to run it.
    pub spec: AgentSpec,
    /// What it is told to look at; the usual words, if unsaid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

impl HookSpec {
    /// A hook that creel brings along, as it is when nothing more is said.
    pub fn builtin(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            action: HookAction::Builtin(name.into()),
            timeout: BUILTIN_TIMEOUT,
            pipe_output: false,
            priority: 100,
            enabled: true,
            on_failure: None,
            retry: RetryOptions::default(),
        }
    }

    /// Whether it is the merge itself, whatever it is called.
    pub fn is_merge(&self) -> bool {
        matches!(&self.action, HookAction::Builtin(call) if call.name == MERGE)
    }

    /// The merge itself, after everything else.
    pub fn merge() -> Self {
        Self { priority: i64::MAX, ..Self::builtin(MERGE) }
    }
}

impl SessionPlan {
    /// The hooks of a point, or else those that are usual there.
    pub fn hooks_or_usual(&self, point: HookPoint) -> &[HookSpec] {
        let usual = || self.submit.usual.get(&point).map_or(&[][..], Vec::as_slice);
        self.hooks.get(&point).map_or_else(usual, Vec::as_slice)
    }

    /// Why the session's agent may not work on tasks of a type, if it may not.
    pub fn refuses_type(&self, kind: &str) -> Option<String> {
        let allowed = self.task_types.get(kind)?;
        (!allowed.contains(&self.agent)).then(|| not_allowed(&self.agent, kind, allowed))
    }
}

/// Says who may work on a type of task, to somebody who may not.
pub fn not_allowed(agent: &str, kind: &str, allowed: &[String]) -> String {
    let names: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
    format!("the agent `{agent}` may not work on tasks of type `{kind}`; those who may: {}", names.join(", "))
}
