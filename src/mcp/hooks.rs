//! The tools for stop hooks, which an agent registers to decide whether its work on a task is done.

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    iterations::{IterationWorkInput, judge},
    tool::{McpTool, ToolDescription, ToolEffect},
};
use crate::{
    engine::{
        input::SessionCommand,
        policy::StopPreset,
        stop::{agent_loop::RuleCheckMode, chain::StopHookRegistration},
    },
    mcp::session::{PooledConnection, ToolError, other_answer},
    protocol::{ReplyData, SessionQuery, view::StopHookView},
};

pub(super) fn tools() -> Vec<McpTool> {
    vec![
        McpTool::new(REGISTER, register),
        McpTool::new(EVALUATE, evaluate),
        McpTool::new(LIST, list),
        McpTool::new(CLEAR, clear),
    ]
}

const REGISTER: ToolDescription = ToolDescription {
    name: "hook_register",
    title: "Register a stop hook",
    description: "Register a hook that decides after each iteration whether the work on a task is complete, continues, \
                  or needs the user: `default` looks at promises (<promise>COMPLETE</promise>, ESCALATE, BLOCKED), \
                  then at the validation rules; `validation` at the rules only; `promise` at promises only. creel asks \
                  several hooks of a task in this order; the first that does not say `continue` decides. Use the \
                  session's name as taskId for the whole session.",
    touch: ToolEffect::Anew,
};
const EVALUATE: ToolDescription = ToolDescription {
    name: "hook_evaluate",
    title: "Ask the stop hooks",
    description: "Ask the stop hooks of a loop's task about this iteration, with the last results of the validation \
                  rules. Usually you want iteration_validate instead: it checks the rules first.",
    touch: ToolEffect::Anew,
};
const LIST: ToolDescription = ToolDescription {
    name: "hook_list",
    title: "List stop hooks",
    description: "List the stop hooks of a task, in the order in which creel asks them.",
    touch: ToolEffect::Looks,
};
const CLEAR: ToolDescription = ToolDescription {
    name: "hook_clear",
    title: "Clear stop hooks",
    description: "Remove all stop hooks of a task. Do so when you are done with it.",
    touch: ToolEffect::Once,
};

/// A hook to register.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HookRegisterInput {
    /// The task's id, or the session's name.
    #[serde(alias = "task_id")]
    task_id: String,
    /// What the hook looks at.
    #[serde(default, alias = "hook_type")]
    hook_type: HookType,
    /// Notes of yours about the hook.
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// What a hook looks at.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum HookType {
    /// Promises, then rules.
    #[default]
    Default,
    /// Rules only.
    Validation,
    /// Promises only.
    Promise,
}

impl From<HookType> for StopPreset {
    fn from(hook: HookType) -> Self {
        match hook {
            HookType::Default => Self::Default,
            HookType::Validation => Self::Validation,
            HookType::Promise => Self::Promise,
        }
    }
}

/// A hook that was registered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HookRegisterOutput {
    /// Its id.
    hook_id: String,
    /// The task.
    task_id: String,
    /// What it looks at: `default`, `validation` or `promise`.
    hook_type: String,
    /// Whether creel asks it.
    enabled: bool,
    /// Your notes.
    metadata: Map<String, Value>,
}

/// The decision.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HookEvaluateOutput {
    /// The hook that decided; `default`, if none is registered.
    hook_id: String,
    /// The task.
    task_id: String,
    /// The evaluated iteration.
    iteration: u32,
    /// `complete`, `continue` or `escalate`.
    action: String,
    /// The reason.
    reason: String,
    /// What to do next.
    next_prompt: Option<String>,
    /// Whether creel stored a checkpoint.
    checkpoint_created: bool,
    /// Other output of the hook.
    metadata: Map<String, Value>,
}

/// A task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HookTaskInput {
    /// The task's id, or the session's name.
    #[serde(alias = "task_id")]
    task_id: String,
}

/// The hooks of a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HookListOutput {
    /// The task.
    task_id: String,
    /// The number of hooks.
    hook_count: usize,
    /// The hooks, in the order in which creel asks them.
    hooks: Vec<HookListEntry>,
}

/// A hook.
#[derive(Debug, Serialize, JsonSchema)]
struct HookListEntry {
    /// Its id.
    id: String,
    /// Whether creel asks it.
    enabled: bool,
    /// Your notes, with what it looks at as `type`.
    metadata: Map<String, Value>,
}

/// The result.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HookClearOutput {
    /// The task.
    task_id: String,
    /// How many hooks creel removed.
    hooks_cleared: usize,
}

async fn register(
    line: &mut PooledConnection,
    wanted: HookRegisterInput,
) -> Result<HookRegisterOutput, ToolError> {
    let HookRegisterInput {
        task_id: task,
        hook_type,
        metadata,
    } = wanted;
    let hook = StopHookRegistration {
        task,
        preset: hook_type.into(),
        metadata,
    };
    let ReplyData::StopHooks(registered) =
        line.reply(SessionCommand::RegisterStopHook(hook)).await?
    else {
        return Err(other_answer());
    };
    let StopHookView {
        id,
        task,
        preset,
        enabled,
        metadata,
    } = registered.into_iter().next().ok_or_else(other_answer)?;
    Ok(HookRegisterOutput {
        hook_id: id,
        task_id: task,
        hook_type: preset,
        enabled,
        metadata,
    })
}

async fn evaluate(
    line: &mut PooledConnection,
    work: IterationWorkInput,
) -> Result<HookEvaluateOutput, ToolError> {
    let (about, judged) = judge(line, work, RuleCheckMode::AsLast).await?;
    Ok(HookEvaluateOutput {
        hook_id: judged.hook,
        task_id: about.task,
        iteration: judged.iteration,
        action: judged.action.name().to_owned(),
        reason: judged.reason,
        next_prompt: judged.next_prompt,
        checkpoint_created: judged.checkpoint_created,
        metadata: judged.metadata,
    })
}

async fn list(
    line: &mut PooledConnection,
    HookTaskInput { task_id }: HookTaskInput,
) -> Result<HookListOutput, ToolError> {
    let request = SessionQuery::StopHookList {
        task: Some(task_id.clone()),
    };
    let ReplyData::StopHooks(hooks) = line.reply(request).await? else {
        return Err(other_answer());
    };
    let hooks: Vec<HookListEntry> = hooks.into_iter().map(HookListEntry::of).collect();
    Ok(HookListOutput {
        task_id,
        hook_count: hooks.len(),
        hooks,
    })
}

impl HookListEntry {
    fn of(view: StopHookView) -> Self {
        let mut metadata = view.metadata;
        metadata.insert("type".into(), view.preset.into());
        Self {
            id: view.id,
            enabled: view.enabled,
            metadata,
        }
    }
}

async fn clear(
    line: &mut PooledConnection,
    HookTaskInput { task_id }: HookTaskInput,
) -> Result<HookClearOutput, ToolError> {
    let ReplyData::Cleared(hooks_cleared) = line
        .reply(SessionCommand::ClearStopHooks {
            task: task_id.clone(),
        })
        .await?
    else {
        return Err(other_answer());
    };
    Ok(HookClearOutput {
        task_id,
        hooks_cleared,
    })
}
