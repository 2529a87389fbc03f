//! Evaluates the stop hooks in order: which one is next, and what follows from their verdicts.
//!
//! Also owns the built-in stop hooks, and those that are registered while the session runs.
//! Registered hooks are data, so the journal restores them after a restart. Only presets can be
//! registered: creel never runs a command that an agent wrote.
//!
//! # Invariants
//! - Of the hooks that decide, the first one that completes or escalates counts, and no later one
//!   is evaluated. Otherwise the last verdict counts.
//! - Hooks that agents registered can turn complete into continue or escalate, and continue into
//!   escalate; never the reverse.
//! - Hooks that are disabled, or whose conditions are not met, are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    engine::{
        event::ActorKind,
        policy::{StopHook, StopHookCondition, StopHookKind, StopPreset},
        stop::{
            context::{AgentContext, Promise},
            decision::{StopAction, StopResult},
        },
    },
    text::plural,
};

#[derive(Debug, Clone, PartialEq)]
pub struct StopHookInput<'a> {
    /// The hook's name in records.
    pub id: &'a str,
    pub hook: &'a StopHook,
    /// The context of its task.
    pub context: &'a AgentContext,
    pub weight: VerdictWeight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictWeight {
    Decides,
    /// It can only make the decision stricter, because an agent registered it.
    OnlyStricter,
}

impl StopHookInput<'_> {
    /// Whether the hook is evaluated after the verdict so far.
    fn is_asked(&self, latest: Option<StopAction>) -> bool {
        match (self.weight, latest) {
            (VerdictWeight::Decides, latest) => {
                matches!(latest, None | Some(StopAction::Continue))
            }
            (VerdictWeight::OnlyStricter, latest) => {
                latest != Some(StopAction::Escalate) && !self.has_nothing_to_judge()
            }
        }
    }

    /// Without rules, a hook for validation rules would veto every completion.
    fn has_nothing_to_judge(&self) -> bool {
        self.hook.judge == StopHookKind::Preset(StopPreset::Validation)
            && self.context.validation_results.is_empty()
    }

    /// Whether its verdict replaces the verdict so far.
    fn prevails(&self, action: StopAction) -> bool {
        match (self.weight, action) {
            (VerdictWeight::Decides, _)
            | (VerdictWeight::OnlyStricter, StopAction::Continue | StopAction::Escalate) => true,
            (VerdictWeight::OnlyStricter, StopAction::Complete) => false,
        }
    }
}

/// The outcome of all stop hooks together.
#[derive(Debug, Clone, PartialEq)]
pub struct StopVerdict {
    /// The hook that decided.
    pub hook: String,
    pub result: StopResult,
    /// The task that the hook belongs to.
    pub task: String,
    /// All evaluated hooks with their results.
    pub asked: Vec<(String, StopResult)>,
    /// The checkpoint data in order, each with its hook.
    pub keep: Vec<(String, Value)>,
    /// Whether creel tells the agent that it has not done anything yet.
    pub idle: bool,
    /// The open tasks that the agent is reminded of.
    pub open_tasks: Vec<String>,
}

impl StopVerdict {
    /// The same, with another decision.
    pub(crate) fn overruled_by(self, hook: &str, result: StopResult) -> Self {
        Self {
            hook: hook.to_owned(),
            result,
            ..self
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum NextStep<'a> {
    /// This command has to run first, for the task of this context.
    Ask(&'a StopHook, &'a AgentContext),
    Decided(Box<StopVerdict>),
}

/// The results of commands, by hook name.
pub type StopAnswers = BTreeMap<String, StopResult>;

/// Evaluates the hooks in order, as far as the known answers allow.
pub fn consult<'a>(
    judges: &[StopHookInput<'a>],
    answers: &StopAnswers,
    is_on: &dyn Fn(&StopHook) -> bool,
) -> NextStep<'a> {
    let mut latest: Option<(&StopHookInput<'a>, StopResult)> = None;
    let mut asked = Vec::new();
    let mut keep = Vec::new();
    for judge in judges {
        if !judge.is_asked(latest.as_ref().map(|(_, result)| result.action)) {
            continue;
        }
        match evaluated(judge.hook, judge.context, answers, is_on) {
            None => {}
            Some(Err(command)) => return NextStep::Ask(command, judge.context),
            Some(Ok(StopHookAnswer { result, kept })) => {
                keep.extend(kept);
                asked.push((judge.id.to_owned(), result.clone()));
                if judge.prevails(result.action) {
                    latest = Some((judge, result));
                }
            }
        }
    }
    NextStep::Decided(Box::new(match latest {
        Some((judge, result)) => StopVerdict {
            hook: judge.id.to_owned(),
            result,
            task: judge.context.task_id.clone(),
            asked,
            keep,
            idle: false,
            open_tasks: Vec::new(),
        },
        None => StopVerdict {
            hook: "default".into(),
            result: StopResult::new(StopAction::Continue, "No hooks registered for this task"),
            task: String::new(),
            asked,
            keep,
            idle: false,
            open_tasks: Vec::new(),
        },
    }))
}

/// A hook's result, and the checkpoint data of the hook and its parts.
struct StopHookAnswer {
    result: StopResult,
    kept: Vec<(String, Value)>,
}

/// Evaluates a hook. Returns nothing if the hook is skipped, or the command that has to run first.
fn evaluated<'a>(
    hook: &'a StopHook,
    context: &AgentContext,
    answers: &StopAnswers,
    is_on: &dyn Fn(&StopHook) -> bool,
) -> Option<Result<StopHookAnswer, &'a StopHook>> {
    if !is_on(hook) || !holds(&hook.when, context) {
        return None;
    }
    let own = |result: StopResult| {
        let kept = result
            .checkpoint_data
            .clone()
            .map(|data| (hook.name.clone(), data))
            .into_iter()
            .collect();
        StopHookAnswer { result, kept }
    };
    Some(match &hook.judge {
        StopHookKind::Preset(preset) => Ok(own(judge(*preset, context))),
        StopHookKind::Fixed(result) => Ok(own(result.clone())),
        StopHookKind::Command { .. } => answers.get(&hook.name).cloned().map(own).ok_or(hook),
        StopHookKind::All(parts) => together(GroupMode::All, parts, context, answers, is_on)?,
        StopHookKind::Any(parts) => together(GroupMode::Any, parts, context, answers, is_on)?,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupMode {
    All,
    Any,
}

/// The combined result of a group's parts. None if all of them are skipped.
fn together<'a>(
    how: GroupMode,
    parts: &'a [StopHook],
    context: &AgentContext,
    answers: &StopAnswers,
    is_on: &dyn Fn(&StopHook) -> bool,
) -> Option<Result<StopHookAnswer, &'a StopHook>> {
    let mut results: Vec<StopResult> = Vec::new();
    let mut kept = Vec::new();
    for part in parts {
        match evaluated(part, context, answers, is_on) {
            None => continue,
            Some(Err(command)) => return Some(Err(command)),
            Some(Ok(evaluated)) => {
                kept.extend(evaluated.kept);
                results.push(evaluated.result);
            }
        }
        // Later parts cannot change the result.
        let last = results.last().map(|result| result.action);
        let settled = if how == GroupMode::All {
            StopAction::Escalate
        } else {
            StopAction::Complete
        };
        if last == Some(settled) {
            break;
        }
    }
    let order = match how {
        GroupMode::All => [
            StopAction::Escalate,
            StopAction::Continue,
            StopAction::Complete,
        ],
        GroupMode::Any => [
            StopAction::Complete,
            StopAction::Escalate,
            StopAction::Continue,
        ],
    };
    let action = order
        .into_iter()
        .find(|action| results.iter().any(|result| result.action == *action))?;
    Some(Ok(StopHookAnswer {
        result: merged(action, results),
        kept,
    }))
}

/// Merges the texts of all results with this action, in order.
fn merged(action: StopAction, results: Vec<StopResult>) -> StopResult {
    let saying: Vec<StopResult> = results
        .into_iter()
        .filter(|result| result.action == action)
        .collect();
    let reason = saying
        .iter()
        .map(|result| result.reason.as_str())
        .filter(|reason| !reason.is_empty());
    let reason = reason.collect::<Vec<_>>().join("; ");
    let prompts: Vec<&str> = saying
        .iter()
        .filter_map(|result| result.next_prompt.as_deref())
        .collect();
    let next_prompt = (!prompts.is_empty()).then(|| prompts.join("\n\n"));
    let metadata = saying.iter().find_map(|result| result.metadata.clone());
    StopResult {
        next_prompt,
        metadata,
        ..StopResult::new(action, reason)
    }
}

/// Whether a hook's conditions are met.
pub fn holds(when: &StopHookCondition, context: &AgentContext) -> bool {
    let since = when.from.is_none_or(|from| context.iteration >= from);
    let until = when.to.is_none_or(|to| context.iteration <= to);
    let fits = |file: &String| {
        when.files
            .iter()
            .any(|pattern| fast_glob::glob_match(pattern, file))
    };
    let files = when.files.is_empty() || context.files_modified.iter().any(fits);
    let labels = when.labels.is_empty()
        || when
            .labels
            .iter()
            .any(|label| context.labels.contains(label));
    let rules = when.rules.iter().all(|(name, passed)| {
        context
            .validation_results
            .iter()
            .any(|result| result.rule_name == *name && result.passed == *passed)
    });
    since && until && files && labels && rules
}

pub fn judge(preset: StopPreset, context: &AgentContext) -> StopResult {
    match preset {
        StopPreset::Default => promised(context)
            .or_else(|| validated(context))
            .unwrap_or_else(in_progress),
        StopPreset::Validation => validated(context).unwrap_or_else(|| {
            StopResult::new(StopAction::Continue, "No validation rules to judge by")
        }),
        StopPreset::Promise => promised(context).unwrap_or_else(|| {
            StopResult::new(StopAction::Continue, "No completion promise detected")
        }),
    }
}

/// The reason to continue if nothing speaks for an end.
pub const IN_PROGRESS: &str = "Iteration in progress";

fn in_progress() -> StopResult {
    StopResult::new(StopAction::Continue, IN_PROGRESS)
}

fn promised(context: &AgentContext) -> Option<StopResult> {
    let promise = context.promise()?;
    let how = context
        .completion_promises
        .iter()
        .find(|made| made.promise == promise)
        .map(|made| &*made.content)?;
    let (action, what) = match promise {
        Promise::Complete => (StopAction::Complete, "completion"),
        Promise::Escalate => (StopAction::Escalate, "a need for escalation"),
        Promise::Blocked => (StopAction::Escalate, "that it is blocked"),
    };
    Some(StopResult::new(
        action,
        format!("Agent signaled {what} via {how}"),
    ))
}

/// The decision by the rules. None if there are no rules.
fn validated(context: &AgentContext) -> Option<StopResult> {
    let all = context.validation_results.len();
    let failed: Vec<_> = context.failed().collect();
    match (all, failed.len()) {
        (0, _) => None,
        (1, 0) => Some(StopResult::new(
            StopAction::Complete,
            "The validation rule passed",
        )),
        (all, 0) => Some(StopResult::new(
            StopAction::Complete,
            format!("All {all} validation rules passed"),
        )),
        (all, missed) => {
            let list = failed
                .iter()
                .map(|rule| format!("- {}: {}", rule.rule_name, rule.message));
            let prompt = format!(
                "[Validation failed]\n{}",
                list.collect::<Vec<_>>().join("\n")
            );
            let names = failed
                .iter()
                .map(|rule| rule.rule_name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let rules = plural(all, "rule");
            let reason = format!("{missed} of {all} validation {rules} failed: {names}");
            Some(StopResult::new(StopAction::Continue, reason).telling(prompt))
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredStopHook {
    pub id: String,
    /// The task's id, or the session's name if the hook applies to the whole session.
    pub task: String,
    pub hook: StopHook,
    /// Data of the actor that registered it.
    pub metadata: Map<String, Value>,
    pub by: ActorKind,
}

impl RegisteredStopHook {
    pub fn preset(&self) -> &'static str {
        if let StopHookKind::Preset(preset) = self.hook.judge {
            preset.name()
        } else {
            "custom"
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StopHookRegistration {
    /// The task's id, or the session's name.
    pub task: String,
    pub preset: StopPreset,
    /// Data of the actor that registers it; creel does not use it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}
