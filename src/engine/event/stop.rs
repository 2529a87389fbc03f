//! Rules, stop decisions, and the loops that an agent drives itself.

use crate::engine::{
    actor::Actor,
    hooks::verdict::RunEnd,
    ids::RunId,
    policy::StopHook,
    stop::{StopAction, agent_loop::EvaluationRequest, checkpoint::Checkpoint, promise::Promise},
    time::TimeSpan,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Rules, stop decisions, and the loops that an agent drives itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum StopEvent {
    /// These rules are about to be checked.
    #[serde(rename = "rules_due")]
    RulesDue {
        iteration: u32,
        rules: Vec<String>,
        /// The loop that it is about; the main line, if none.
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
        /// How its command ended, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<RunEnd>,
        /// The file with all that its command printed, relative to the session's folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    #[serde(rename = "stop_decided")]
    Decided(Box<StopDecided>),
    #[serde(rename = "checkpoint")]
    CheckpointKept(Box<Checkpoint>),
    /// A stop hook was registered for a task, or for the session.
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
    /// An agent leads a loop of its own over a task.
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
    /// An agent wants to know whether its work is done.
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
    /// The agent says that the session is complete; the stop hooks judge that.
    #[serde(rename = "completion_promised")]
    CompletionPromised {
        reason: String,
        #[serde(flatten)]
        by: Actor,
    },
}

/// What was decided about an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopDecided {
    /// The iteration.
    pub iteration: u32,
    /// Who decided.
    pub hook: String,
    /// What.
    pub action: StopAction,
    /// Why.
    pub reason: String,
    /// What the agent is told with its next prompt.
    pub next_prompt: Option<String>,
    /// The task that the hook judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The tasks that are blocked by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
    /// Everybody who was asked, with what they said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<(String, StopAction)>,
    /// What else the hook said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The agent's own loop that it is about; the main line, if none.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}
