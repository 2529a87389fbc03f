//! The tools for the loops of a self-driven agent: it starts one, has each iteration evaluated, and continues or
//! completes it.

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tool::{McpTool, ToolDescription, ToolEffect, ToolError};
use crate::{
    engine::{
        input::SessionCommand,
        stop::{
            context::AgentDraft,
            loop_command::{EvaluationRequest, LoopCommand, RuleCheckMode},
            promise::Promise,
        },
    },
    mcp::connection_pool::{PooledConnection, other_answer},
    socket::{
        client::SessionRequestError,
        message::ReplyData,
        query::SessionQuery,
        stop_view::{JudgementView, LoopView, RuleView},
    },
};

/// The hint for a loop that does not exist.
const UNKNOWN: &str = "start one with iteration_start, and use the id that it gives";
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
    title: "Begin a loop over a task",
    description: "Begin to work on a task in iterations of your own. Gives the `iterationId` that the other iteration tools take. \
                  After each iteration call iteration_validate and do what its completionSignal says: COMPLETE, call \
                  iteration_complete; CONTINUE, call iteration_next and go on; ESCALATE, stop: a person has to look. Register \
                  what decides with hook_register before.",
    touch: ToolEffect::Anew,
};
const VALIDATE: ToolDescription = ToolDescription {
    name: "iteration_validate",
    title: "Have an iteration judged",
    description: "Have this iteration's work judged: the project's validation rules are checked, then the task's stop hooks are \
                  asked. Give what you said last as agentOutput; promises count only there. This takes as long as the \
                  rules do, tests included.",
    touch: ToolEffect::Anew,
};
const NEXT: ToolDescription = ToolDescription {
    name: "iteration_next",
    title: "Go on with the next iteration",
    description: "Begin the next iteration of a loop whose last one was judged to go on.",
    touch: ToolEffect::Anew,
};
const COMPLETE: ToolDescription = ToolDescription {
    name: "iteration_complete",
    title: "End a loop",
    description: "End a loop. With COMPLETE its task is completed; with BLOCKED or ESCALATE the task is blocked, for a person to \
                  look at.",
    touch: ToolEffect::Once,
};

/// A loop to begin.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IterationStartInput {
    /// The task's id, or the session's name.
    #[serde(alias = "task_id")]
    task_id: String,
    /// How many iterations there may be. By default 10.
    #[serde(default, alias = "max_iterations")]
    #[schemars(range(min = 1))]
    max_iterations: Option<u32>,
    /// The promises that count: COMPLETE, ESCALATE, BLOCKED. By default all of them.
    #[serde(default, alias = "completion_promises")]
    completion_promises: Vec<String>,
}

/// What was done in an iteration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct IterationWorkInput {
    /// The loop's id, from `iteration_start`.
    #[serde(alias = "iteration_id")]
    iteration_id: String,
    /// What you said last.
    #[serde(default, alias = "agent_output")]
    agent_output: String,
    /// The files that you changed.
    #[serde(default, alias = "files_modified")]
    files_modified: Vec<String>,
    /// What you have drafted.
    #[serde(default, alias = "draft_content")]
    draft_content: Option<String>,
    /// What sort of draft it is.
    #[serde(default, alias = "draft_type")]
    draft_type: Option<String>,
    /// What is to be kept, whatever is decided; `executionPhase` in it says what you are at.
    #[serde(default, alias = "checkpoint_data")]
    checkpoint_data: Option<Map<String, Value>>,
}

/// Which loop goes on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IterationNextInput {
    /// The loop's id, from `iteration_start`.
    #[serde(alias = "iteration_id")]
    iteration_id: String,
    /// What is to be kept of the iteration that is over.
    #[serde(default, alias = "checkpoint_data")]
    checkpoint_data: Option<Map<String, Value>>,
}

/// Which loop ends, and how.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IterationCompleteInput {
    /// The loop's id, from `iteration_start`.
    #[serde(alias = "iteration_id")]
    iteration_id: String,
    /// COMPLETE, ESCALATE or BLOCKED. By default COMPLETE.
    #[serde(default, alias = "completion_promise")]
    completion_promise: Option<String>,
}

/// A loop that began.
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
    /// How many there may be.
    max_iterations: u32,
    /// The promises that count.
    completion_promises: Vec<String>,
}

/// What was decided about an iteration.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IterationValidateOutput {
    /// The loop's id.
    iteration_id: String,
    /// The task.
    task_id: String,
    /// The iteration that was judged.
    iteration: u32,
    /// The same.
    iteration_number: u32,
    /// What to do: COMPLETE, CONTINUE or ESCALATE.
    completion_signal: String,
    /// The same: `complete`, `continue` or `escalate`.
    action: String,
    /// Why.
    reason: String,
    /// What has to be better.
    feedback: Option<String>,
    /// What to do next.
    next_prompt: Option<String>,
    /// Whether all validation rules hold; also where there are none.
    validation_passed: bool,
    /// What each of them said.
    validation_results: Vec<RuleResultOutput>,
    /// The hook that decided; `default`, if none is registered.
    hook_id: String,
    /// Whether a checkpoint was kept.
    checkpoint_created: bool,
}

/// What a rule said.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RuleResultOutput {
    /// The rule.
    rule_name: String,
    /// Whether it holds.
    passed: bool,
    /// What was found.
    message: String,
}

/// A loop that goes on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IterationNextOutput {
    /// The loop's id.
    iteration_id: String,
    /// The task.
    task_id: String,
    /// The iteration that begins.
    iteration: u32,
    /// The same.
    iteration_number: u32,
    /// How many there may be.
    max_iterations: u32,
    /// How many may come after this one.
    remaining: u32,
}

/// A loop that is over.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IterationCompleteOutput {
    /// The loop's id.
    iteration_id: String,
    /// The task.
    task_id: String,
    /// What became of it: `completed` or `blocked`.
    status: String,
    /// How many iterations there were.
    iterations: u32,
    /// The promise that ended it.
    completion_promise: String,
}

async fn start(line: &mut PooledConnection, wanted: IterationStartInput) -> Result<IterationStartOutput, ToolError> {
    let IterationStartInput { task_id: task, max_iterations, completion_promises } = wanted;
    let promises = completion_promises.iter().map(|text| promise(START.name, text)).collect::<Result<_, _>>()?;
    let max_iterations = max_iterations.unwrap_or(MAX_ITERATIONS);
    let about = about(line, LoopCommand::Start { task, max_iterations, promises }).await?;
    let promises = if about.promises.is_empty() { Promise::ALL.to_vec() } else { about.promises };
    Ok(IterationStartOutput {
        iteration_id: about.id,
        task_id: about.task,
        iteration: about.iteration,
        iteration_number: about.iteration,
        max_iterations: about.max_iterations,
        completion_promises: promises.iter().map(ToString::to_string).collect(),
    })
}

async fn validate(line: &mut PooledConnection, work: IterationWorkInput) -> Result<IterationValidateOutput, ToolError> {
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
        Self { rule_name: rule.rule, passed: rule.passed, message: rule.message }
    }
}

async fn next(
    line: &mut PooledConnection,
    IterationNextInput { iteration_id: id, checkpoint_data }: IterationNextInput,
) -> Result<IterationNextOutput, ToolError> {
    let about = about(line, LoopCommand::Next { id, checkpoint: checkpoint_data.map(Value::Object) }).await?;
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
    let IterationCompleteInput { iteration_id: id, completion_promise } = wanted;
    let promised = completion_promise.map(|text| promise(COMPLETE.name, &text)).transpose()?;
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
    let IterationWorkInput { iteration_id: id, agent_output: said, files_modified: files, .. } = work;
    let about = match line.ask(SessionQuery::LoopShow { id: id.clone() }).await {
        Ok(Some(ReplyData::AgentLoop(about))) => about,
        Ok(_) => return Err(other_answer()),
        Err(SessionRequestError::Refused(why)) => return Err(ToolError::Job(format!("{why}\n{UNKNOWN}"))),
        Err(error) => return Err(error.into()),
    };
    let draft_type = work.draft_type;
    let draft = work.draft_content.map(|draft_content| AgentDraft { draft_content, draft_type });
    let checkpoint = work.checkpoint_data.map(Value::Object);
    let asked = EvaluationRequest { id, said, files, draft, checkpoint, rules };
    let request = SessionCommand::Loop { about: LoopCommand::Judge(Box::new(asked)) };
    let ReplyData::Judged(judged) = line.told_in_time(request).await? else { return Err(other_answer()) };
    Ok((*about, *judged))
}

async fn about(line: &mut PooledConnection, command: LoopCommand) -> Result<LoopView, ToolError> {
    let ReplyData::AgentLoop(about) = line.told(SessionCommand::Loop { about: command }).await? else {
        return Err(other_answer());
    };
    Ok(*about)
}

fn promise(tool: &str, text: &str) -> Result<Promise, ToolError> {
    let known = || Promise::ALL.map(Promise::word).join(", ");
    Promise::named(text)
        .ok_or_else(|| ToolError::Arguments(format!("{tool}: `{text}` is no promise; there are: {}", known())))
}
