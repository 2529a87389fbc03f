//! The events of stop decisions: rules, decisions, checkpoints, registered hooks, and loops of the
//! agent.
//!
//! A checkpoint is data that a hook or the agent saves during the work, with the state of the
//! repository.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engine::{
    actor::Actor,
    hooks::verdict::RunEnd,
    ids::RunId,
    policy::StopHook,
    stop::{
        agent_loop::EvaluationRequest, context::Promise, decision::StopAction, guard::GuardStreaks,
    },
    time::{TimeSpan, UnixTime},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum StopEvent {
    /// These rules are about to be checked.
    #[serde(rename = "rules_due")]
    RulesDue {
        iteration: u32,
        rules: Vec<String>,
        /// The agent's own loop. None: the session's own iteration.
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    #[serde(rename = "rule_started")]
    RuleStarted {
        run: RunId,
        rule: String,
        iteration: u32,
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    #[serde(rename = "rule_checked")]
    RuleChecked {
        run: RunId,
        rule: String,
        iteration: u32,
        passed: bool,
        message: String,
        took_ms: TimeSpan,
        /// None if the rule has no command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<RunEnd>,
        /// The file with the command's whole output, relative to the session's folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    #[serde(rename = "stop_decided")]
    Decided(Box<StopDecided>),
    #[serde(rename = "checkpoint")]
    CheckpointKept(Box<Checkpoint>),
    #[serde(rename = "stop_hook_registered")]
    HookRegistered {
        hook_id: String,
        task: String,
        hook: Box<StopHook>,
        metadata: Map<String, Value>,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "stop_hooks_cleared")]
    HooksCleared {
        task: String,
        hooks: Vec<String>,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "agent_loop_started")]
    LoopStarted {
        loop_id: String,
        task: String,
        max_iterations: u32,
        promises: Vec<Promise>,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "agent_loop_advanced")]
    LoopAdvanced {
        loop_id: String,
        iteration: u32,
        #[serde(flatten)]
        by: Actor,
    },
    /// An agent requested an evaluation of its own loop.
    #[serde(rename = "judgement_asked")]
    JudgementAsked {
        iteration: u32,
        #[serde(flatten)]
        asked: Box<EvaluationRequest>,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "agent_loop_ended")]
    LoopEnded {
        loop_id: String,
        task: String,
        iterations: u32,
        promise: Promise,
        #[serde(flatten)]
        by: Actor,
    },
    /// The agent reported that the session is complete; the stop hooks evaluate that.
    #[serde(rename = "completion_promised")]
    CompletionPromised {
        reason: String,
        #[serde(flatten)]
        by: Actor,
    },
}

impl StopEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "rules_due",
        "rule_started",
        "rule_checked",
        "stop_decided",
        "checkpoint",
        "stop_hook_registered",
        "stop_hooks_cleared",
        "agent_loop_started",
        "agent_loop_advanced",
        "judgement_asked",
        "agent_loop_ended",
        "completion_promised",
    ];
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopDecided {
    pub iteration: u32,
    pub hook: String,
    pub action: StopAction,
    pub reason: String,
    /// Text for the agent's next prompt.
    pub next_prompt: Option<String>,
    /// The task that the hook evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The tasks that the decision blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
    /// All evaluated hooks with their verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<(String, StopAction)>,
    /// Other data of the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The agent's own loop. None: the session's own iteration.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The decision for people: why the session is complete, or the agent's own words when it asks.
    #[serde(default, rename = "said", skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Whether the next prompt tells the agent that it has not done anything yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// The open tasks that the next prompt reminds the agent of, because it said that it is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_tasks: Vec<String>,
    /// What repeats itself, for the guards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaks: Option<GuardStreaks>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub checkpoint: u32,
    /// The task's id, or the session's name if it is about no task.
    pub task: String,
    pub iteration: u32,
    /// The hook that saved it. None: the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    pub data: Value,
    /// The commit that was checked out. None outside a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Files with uncommitted changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirty: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedCheckpoint {
    pub at: UnixTime,
    pub checkpoint: Checkpoint,
}

/// A checkpoint that has no number yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCheckpoint {
    pub task: String,
    pub iteration: u32,
    pub hook: Option<String>,
    pub data: Value,
}

impl Checkpoint {
    /// The agent's phase, if the data contains one.
    pub fn phase(&self) -> Option<&str> {
        self.data
            .get("executionPhase")
            .or_else(|| self.data.get("execution_phase"))?
            .as_str()
    }

    /// The checkpoint as text for the agent.
    pub fn for_agent(&self) -> String {
        let commit = self
            .commit
            .as_deref()
            .map(|commit| format!(" · commit {commit}"))
            .unwrap_or_default();
        format!(
            "[Checkpoint {} · iteration {}{commit}]\n{}",
            self.checkpoint, self.iteration, self.data
        )
    }
}
