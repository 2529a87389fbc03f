//! The tools for the loops of a self-driven agent: it starts one, has each iteration evaluated, and
//! continues or completes it.

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tool::{McpTool, ToolDescription, ToolEffect};
use crate::{
    engine::{
        input::SessionCommand,
        stop::{
            agent_loop::{EvaluationRequest, LoopCommand, RuleCheckMode},
            context::{AgentDraft, Promise},
        },
    },
    mcp::session::{PooledConnection, ToolError, other_answer},
    protocol::{
        ReplyData, SessionQuery, SessionRequestError,
        view::{JudgementView, LoopView, RuleView},
    },
};

/// The hint for a loop that does not exist.
const UNKNOWN: &str = "start one with iteration_start, and use its id";
/// The default limit of a loop.
const MAX_ITERATIONS: u32 = 10;

pub(super) fn tools() -> Vec<McpTool> {
    vec![
        McpTool::new(START, start),
        McpTool::new(VALIDATE, validate),
        McpTool::new(NEXT, next),
        McpTool::new(COMPLETE, complete),
    ]
}

const START: ToolDescription = ToolDescription {
    name: "iteration_start",
    title: "Start a loop over a task",
    description: "Start to work on a task in iterations of your own. Returns the `iterationId` for the other iteration \
                  tools. After each iteration call iteration_validate and follow its completionSignal: COMPLETE, call \
                  iteration_complete; CONTINUE, call iteration_next and continue; ESCALATE, stop: the user has to \
                  decide. Register what decides with hook_register before.",
    touch: ToolEffect::Anew,
};
const VALIDATE: ToolDescription = ToolDescription {
    name: "iteration_validate",
    title: "Evaluate an iteration",
    description: "Evaluate this iteration: creel checks the project's validation rules, then asks the task's stop \
                  hooks. Pass your last message as agentOutput; promises count only there. This takes as long as the \
                  rules do, tests included.",
    touch: ToolEffect::Anew,
};
const NEXT: ToolDescription = ToolDescription {
    name: "iteration_next",
    title: "Start the next iteration",
    description: "Start the next iteration of a loop whose last one ended with CONTINUE.",
    touch: ToolEffect::Anew,
};
const COMPLETE: ToolDescription = ToolDescription {
    name: "iteration_complete",
    title: "End a loop",
    description: "End a loop. With COMPLETE its task is completed; with BLOCKED or ESCALATE the task is blocked, and \
                  the user has to decide.",
    touch: ToolEffect::Once,
};

/// A loop to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IterationStartInput {
    /// The task's id, or the session's name.
    #[serde(alias = "task_id")]
    task_id: String,
    /// The maximum number of iterations. Default: 10.
    #[serde(default, alias = "max_iterations")]
    #[schemars(range(min = 1))]
    max_iterations: Option<u32>,
    /// The promises that count: COMPLETE, ESCALATE, BLOCKED. Default: all of them.
    #[serde(default, alias = "completion_promises")]
    completion_promises: Vec<String>,
}

/// Your work in an iteration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct IterationWorkInput {
    /// The loop's id, from `iteration_start`.
    #[serde(alias = "iteration_id")]
    iteration_id: String,
    /// Your last message.
    #[serde(default, alias = "agent_output")]
    agent_output: String,
    /// The files that you changed.
    #[serde(default, alias = "files_modified")]
    files_modified: Vec<String>,
    /// Your draft.
    #[serde(default, alias = "draft_content")]
    draft_content: Option<String>,
    /// The kind of draft.
    #[serde(default, alias = "draft_type")]
    draft_type: Option<String>,
    /// Data for a checkpoint, whatever the decision; `executionPhase` in it names the current
    /// phase.
    #[serde(default, alias = "checkpoint_data")]
    checkpoint_data: Option<Map<String, Value>>,
}

/// A loop to continue.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IterationNextInput {
    /// The loop's id, from `iteration_start`.
    #[serde(alias = "iteration_id")]
    iteration_id: String,
    /// Data for a checkpoint of the last iteration.
    #[serde(default, alias = "checkpoint_data")]
    checkpoint_data: Option<Map<String, Value>>,
}

/// A loop to end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IterationCompleteInput {
    /// The loop's id, from `iteration_start`.
    #[serde(alias = "iteration_id")]
    iteration_id: String,
    /// COMPLETE, ESCALATE or BLOCKED. Default: COMPLETE.
    #[serde(default, alias = "completion_promise")]
    completion_promise: Option<String>,
}

/// A loop that started.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IterationStartOutput {
    /// The loop's id.
    iteration_id: String,
    /// The task.
    task_id: String,
    /// The current iteration, from 1.
    iteration: u32,
    /// The same.
    iteration_number: u32,
    /// The maximum number of iterations.
    max_iterations: u32,
    /// The promises that count.
    completion_promises: Vec<String>,
}

/// The decision about an iteration.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IterationValidateOutput {
    /// The loop's id.
    iteration_id: String,
    /// The task.
    task_id: String,
    /// The evaluated iteration.
    iteration: u32,
    /// The same.
    iteration_number: u32,
    /// What to do: COMPLETE, CONTINUE or ESCALATE.
    completion_signal: String,
    /// The same: `complete`, `continue` or `escalate`.
    action: String,
    /// The reason.
    reason: String,
    /// What to improve.
    feedback: Option<String>,
    /// What to do next.
    next_prompt: Option<String>,
    /// Whether all validation rules pass; also true without rules.
    validation_passed: bool,
    /// The result of each rule.
    validation_results: Vec<RuleResultOutput>,
    /// The hook that decided; `default`, if none is registered.
    hook_id: String,
    /// Whether creel stored a checkpoint.
    checkpoint_created: bool,
}

/// The result of a rule.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RuleResultOutput {
    /// The rule.
    rule_name: String,
    /// Whether it passes.
    passed: bool,
    /// What the rule found.
    message: String,
}

/// A loop that continues.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IterationNextOutput {
    /// The loop's id.
    iteration_id: String,
    /// The task.
    task_id: String,
    /// The iteration that starts.
    iteration: u32,
    /// The same.
    iteration_number: u32,
    /// The maximum number of iterations.
    max_iterations: u32,
    /// How many iterations can follow.
    remaining: u32,
}

/// A loop that ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IterationCompleteOutput {
    /// The loop's id.
    iteration_id: String,
    /// The task.
    task_id: String,
    /// The state of the task: `completed` or `blocked`.
    status: String,
    /// The number of iterations.
    iterations: u32,
    /// The promise that ended it.
    completion_promise: String,
}

async fn start(
    line: &mut PooledConnection,
    wanted: IterationStartInput,
) -> Result<IterationStartOutput, ToolError> {
    let IterationStartInput {
        task_id: task,
        max_iterations,
        completion_promises,
    } = wanted;
    let promises = completion_promises
        .iter()
        .map(|text| promise(START.name, text))
        .collect::<Result<_, _>>()?;
    let max_iterations = max_iterations.unwrap_or(MAX_ITERATIONS);
    let about = about(
        line,
        LoopCommand::Start {
            task,
            max_iterations,
            promises,
        },
    )
    .await?;
    let promises = if about.promises.is_empty() {
        Promise::ALL.to_vec()
    } else {
        about.promises
    };
    Ok(IterationStartOutput {
        iteration_id: about.id,
        task_id: about.task,
        iteration: about.iteration,
        iteration_number: about.iteration,
        max_iterations: about.max_iterations,
        completion_promises: promises.iter().map(ToString::to_string).collect(),
    })
}

async fn validate(
    line: &mut PooledConnection,
    work: IterationWorkInput,
) -> Result<IterationValidateOutput, ToolError> {
    let (about, judged) = judge(line, work, RuleCheckMode::Check).await?;
    Ok(IterationValidateOutput {
        iteration_id: about.id,
        task_id: about.task,
        iteration: judged.iteration,
        iteration_number: judged.iteration,
        completion_signal: judged.action.name().to_uppercase(),
        action: judged.action.name().to_owned(),
        reason: judged.reason,
        feedback: judged.next_prompt.clone(),
        next_prompt: judged.next_prompt,
        validation_passed: judged.rules.iter().all(|rule| rule.passed),
        validation_results: judged.rules.into_iter().map(RuleResultOutput::of).collect(),
        hook_id: judged.hook,
        checkpoint_created: judged.checkpoint_created,
    })
}

impl RuleResultOutput {
    fn of(rule: RuleView) -> Self {
        Self {
            rule_name: rule.rule,
            passed: rule.passed,
            message: rule.message,
        }
    }
}

async fn next(
    line: &mut PooledConnection,
    IterationNextInput {
        iteration_id: id,
        checkpoint_data,
    }: IterationNextInput,
) -> Result<IterationNextOutput, ToolError> {
    let about = about(
        line,
        LoopCommand::Next {
            id,
            checkpoint: checkpoint_data.map(Value::Object),
        },
    )
    .await?;
    Ok(IterationNextOutput {
        iteration_id: about.id,
        task_id: about.task,
        iteration: about.iteration,
        iteration_number: about.iteration,
        max_iterations: about.max_iterations,
        remaining: about.max_iterations.saturating_sub(about.iteration),
    })
}

async fn complete(
    line: &mut PooledConnection,
    wanted: IterationCompleteInput,
) -> Result<IterationCompleteOutput, ToolError> {
    let IterationCompleteInput {
        iteration_id: id,
        completion_promise,
    } = wanted;
    let promised = completion_promise
        .map(|text| promise(COMPLETE.name, &text))
        .transpose()?;
    let promise = promised.unwrap_or(Promise::Complete);
    let about = about(line, LoopCommand::Complete { id, promise }).await?;
    let status = match promise {
        Promise::Complete => "completed",
        Promise::Escalate | Promise::Blocked => "blocked",
    };
    Ok(IterationCompleteOutput {
        iteration_id: about.id,
        task_id: about.task,
        status: status.into(),
        iterations: about.iteration,
        completion_promise: promise.to_string(),
    })
}

/// Has an iteration evaluated, and returns the loop as it was before.
pub(super) async fn judge(
    line: &mut PooledConnection,
    work: IterationWorkInput,
    rules: RuleCheckMode,
) -> Result<(LoopView, JudgementView), ToolError> {
    let IterationWorkInput {
        iteration_id: id,
        agent_output: agent_text,
        files_modified: files,
        ..
    } = work;
    let about = match line.ask(SessionQuery::LoopShow { id: id.clone() }).await {
        Ok(Some(ReplyData::AgentLoop(about))) => about,
        Ok(_) => return Err(other_answer()),
        Err(SessionRequestError::Refused(why)) => {
            return Err(ToolError::Job(format!("{why}\n{UNKNOWN}")));
        }
        Err(error) => return Err(error.into()),
    };
    let draft_type = work.draft_type;
    let draft = work.draft_content.map(|draft_content| AgentDraft {
        draft_content,
        draft_type,
    });
    let checkpoint = work.checkpoint_data.map(Value::Object);
    let asked = EvaluationRequest {
        id,
        agent_text,
        files,
        draft,
        checkpoint,
        rules,
    };
    let request = SessionCommand::Loop {
        about: LoopCommand::Judge(Box::new(asked)),
    };
    let ReplyData::Judged(judged) = line.reply(request).await? else {
        return Err(other_answer());
    };
    Ok((*about, *judged))
}

async fn about(line: &mut PooledConnection, command: LoopCommand) -> Result<LoopView, ToolError> {
    let ReplyData::AgentLoop(about) = line.reply(SessionCommand::Loop { about: command }).await?
    else {
        return Err(other_answer());
    };
    Ok(*about)
}

fn promise(tool: &str, text: &str) -> Result<Promise, ToolError> {
    let known = || Promise::ALL.map(Promise::word).join(", ");
    Promise::named(text).ok_or_else(|| {
        ToolError::Arguments(format!(
            "{tool}: `{text}` is not a promise; use one of: {}",
            known()
        ))
    })
}
