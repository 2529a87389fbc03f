//! The tools about stop hooks: what an agent registers to decide whether its work on a task is done.

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    iterations::{Work, judge},
    reach::{Line, other_answer},
    tool::{About, Tool, Touch, Trouble},
};
use crate::{
    engine::{
        policy::Preset,
        stop::{loops::Rules, registry::Registration},
    },
    socket::{
        message::{Request, Told},
        stop_view::StopHookView,
    },
};

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::new(REGISTER, register), Tool::new(EVALUATE, evaluate), Tool::new(LIST, list), Tool::new(CLEAR, clear)]
}

const REGISTER: About = About {
    name: "hook_register",
    title: "Register a stop hook",
    description: "Register what decides after each iteration whether the work on a task is complete, goes on, or needs a \
                  person: `default` looks at promises (<promise>COMPLETE</promise>, ESCALATE, BLOCKED), then at the \
                  validation rules; `validation` at the rules only; `promise` at promises only. Several hooks of a task are \
                  asked in this order; the first that does not say `continue` decides. Use the session's name as taskId \
                  for the whole session.",
    touch: Touch::Anew,
};
const EVALUATE: About = About {
    name: "hook_evaluate",
    title: "Ask the stop hooks",
    description: "Ask the stop hooks of a loop's task about this iteration, with what the validation rules said last. Usually \
                  iteration_validate is what you want: it checks the rules first.",
    touch: Touch::Anew,
};
const LIST: About = About {
    name: "hook_list",
    title: "List stop hooks",
    description: "The stop hooks that are registered for a task, in the order in which they are asked.",
    touch: Touch::Looks,
};
const CLEAR: About = About {
    name: "hook_clear",
    title: "Clear stop hooks",
    description: "Take all stop hooks of a task away. Do so when you are done with it.",
    touch: Touch::Once,
};

/// A hook to be registered.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Register {
    /// The task's id, or the session's name.
    #[serde(alias = "task_id")]
    task_id: String,
    /// What it looks at.
    #[serde(default, alias = "hook_type")]
    hook_type: HookType,
    /// Whatever you want to know of it later.
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

impl From<HookType> for Preset {
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
struct Registered {
    /// Its id.
    hook_id: String,
    /// The task.
    task_id: String,
    /// What it looks at: `default`, `validation` or `promise`.
    hook_type: String,
    /// Whether it is asked.
    enabled: bool,
    /// What was given.
    metadata: Map<String, Value>,
}

/// What was decided.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Evaluated {
    /// The hook that decided; `default`, if none is registered.
    hook_id: String,
    /// The task.
    task_id: String,
    /// The iteration that was judged.
    iteration: u32,
    /// `complete`, `continue` or `escalate`.
    action: String,
    /// Why.
    reason: String,
    /// What to do next.
    next_prompt: Option<String>,
    /// Whether a checkpoint was kept.
    checkpoint_created: bool,
    /// What else the hook said.
    metadata: Map<String, Value>,
}

/// Whose hooks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Whose {
    /// The task's id, or the session's name.
    #[serde(alias = "task_id")]
    task_id: String,
}

/// The hooks of a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Listed {
    /// The task.
    task_id: String,
    /// How many there are.
    hook_count: usize,
    /// In the order in which they are asked.
    hooks: Vec<Hook>,
}

/// A hook.
#[derive(Debug, Serialize, JsonSchema)]
struct Hook {
    /// Its id.
    id: String,
    /// Whether it is asked.
    enabled: bool,
    /// What was given, and what it looks at as `type`.
    metadata: Map<String, Value>,
}

/// What was cleared.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Cleared {
    /// The task.
    task_id: String,
    /// How many hooks it had.
    hooks_cleared: usize,
}

async fn register(line: &mut Line, wanted: Register) -> Result<Registered, Trouble> {
    let Register { task_id: task, hook_type, metadata } = wanted;
    let hook = Registration { task, preset: hook_type.into(), metadata };
    let Told::StopHooks(registered) = line.told(&Request::StopHookRegister { hook }).await? else {
        return Err(other_answer());
    };
    let StopHookView { id, task, preset, enabled, metadata } =
        registered.into_iter().next().ok_or_else(other_answer)?;
    Ok(Registered { hook_id: id, task_id: task, hook_type: preset, enabled, metadata })
}

async fn evaluate(line: &mut Line, work: Work) -> Result<Evaluated, Trouble> {
    let (about, judged) = judge(line, work, Rules::AsLast).await?;
    Ok(Evaluated {
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

async fn list(line: &mut Line, Whose { task_id }: Whose) -> Result<Listed, Trouble> {
    let request = Request::StopHookList { task: Some(task_id.clone()) };
    let Told::StopHooks(hooks) = line.told(&request).await? else { return Err(other_answer()) };
    let hooks: Vec<Hook> = hooks.into_iter().map(Hook::of).collect();
    Ok(Listed { task_id, hook_count: hooks.len(), hooks })
}

impl Hook {
    fn of(view: StopHookView) -> Self {
        let mut metadata = view.metadata;
        metadata.insert("type".into(), view.preset.into());
        Self { id: view.id, enabled: view.enabled, metadata }
    }
}

async fn clear(line: &mut Line, Whose { task_id }: Whose) -> Result<Cleared, Trouble> {
    let Told::Cleared(hooks_cleared) = line.told(&Request::StopHooksClear { task: task_id.clone() }).await? else {
        return Err(other_answer());
    };
    Ok(Cleared { task_id, hooks_cleared })
}
