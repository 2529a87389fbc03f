//! The input of stop hooks: the agent's message, its changes, the results of the rules; and which hooks are evaluated.

use serde::Serialize;

use super::promise::Promise;
use crate::engine::{
    policy::StopHook,
    stop::{
        agent_loop::AgentLoop,
        evaluation::{StopEvaluation, StopRules},
    },
    tasks::task::Task,
    time::UnixTime,
};

/// The agent's work in an iteration. The field names are shared with other agent tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentContext {
    /// The task's id, or the session's name if the work is about no task.
    pub task_id: String,
    /// From 1.
    pub iteration: u32,
    /// From the last checkpoint.
    pub execution_phase: Option<String>,
    pub files_modified: Vec<String>,
    pub validation_results: Vec<RuleOutcome>,
    pub completion_promises: Vec<CompletionPromise>,
    /// The agent's last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_output: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub draft: Option<AgentDraft>,
    /// The labels of the task.
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleOutcome {
    pub rule_name: String,
    pub passed: bool,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPromise {
    #[serde(rename = "type")]
    pub promise: Promise,
    /// Always true: only promises that were made are listed.
    pub detected: bool,
    /// The text of the promise.
    pub content: String,
    pub detected_at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDraft {
    pub draft_content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_type: Option<String>,
}

impl AgentContext {
    /// The strongest promise.
    pub fn promise(&self) -> Option<Promise> {
        self.completion_promises.iter().map(|made| made.promise).min()
    }

    /// The rules that failed.
    pub fn failed(&self) -> impl Iterator<Item = &RuleOutcome> {
        self.validation_results.iter().filter(|result| !result.passed)
    }
}

impl StopRules<'_> {
    /// The hooks to evaluate, each with its context. In an agent loop, the hooks that were registered for its task;
    /// otherwise those of the config, then those that were registered for the session or for an open task.
    pub(crate) fn seats<'a>(
        &'a self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        now: UnixTime,
    ) -> Vec<(&'a StopHook, AgentContext)> {
        let context = |task: &str| self.agent_context(about, judging, task, now);
        let registered = self.stop.registered.iter();
        if let Some(about) = about.filter(|about| !self.is_about_the_session(about)) {
            let own = registered.filter(|known| known.task == about.task);
            return own.map(|known| (&known.hook, context(&known.task))).collect();
        }
        let current = self.tasks.graph.tasks().into_iter().find(|task| task.is_worked_on_here());
        let current = current.map_or(self.name, |task| &task.id);
        let configured = self.plan.stop.hooks.iter().map(|hook| (hook, context(current)));
        let is_open = |task: &str| self.tasks.graph.get(task).is_some_and(Task::is_open);
        let wanted = registered.filter(|known| known.task == self.name || is_open(&known.task));
        configured.chain(wanted.map(|known| (&known.hook, context(&known.task)))).collect()
    }

    pub(crate) fn agent_context(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        task: &str,
        now: UnixTime,
    ) -> AgentContext {
        let asked = judging.asked.as_deref();
        let said = asked.map_or(self.turns.said.as_str(), |asked| &asked.said);
        let rank = |name: &str| self.plan.stop.rules.iter().position(|rule| rule.name == name);
        let mut results = judging.results.clone();
        results.sort_by_key(|result| rank(&result.rule_name));
        let phase = self.stop.checkpoints.iter().rev().find(|kept| kept.checkpoint.task == task);
        AgentContext {
            task_id: task.to_owned(),
            iteration: self.iterations.judged_iteration(about),
            execution_phase: phase.and_then(|kept| kept.checkpoint.phase()).map(str::to_owned),
            files_modified: self.iterations.judged_files(judging).to_vec(),
            validation_results: results,
            completion_promises: self.promises_made(about, said, now),
            agent_output: (!said.is_empty()).then(|| said.to_owned()),
            draft: asked.and_then(|asked| asked.draft.clone()),
            labels: self.tasks.graph.get(task).map(|task| task.labels.clone()).unwrap_or_default(),
        }
    }

    /// The agent's promises, from its message or, for the session, from a tool call.
    pub(crate) fn promises_made(self, about: Option<&AgentLoop>, said: &str, now: UnixTime) -> Vec<CompletionPromise> {
        let counts =
            |promise: &Promise| about.is_none_or(|about| about.promises.is_empty() || about.promises.contains(promise));
        let prompt = if about.is_some() { "" } else { &self.turns.prompt };
        let made = |promise: Promise, content: String| CompletionPromise {
            promise,
            detected: true,
            content,
            detected_at: now.rfc3339(),
        };
        let spoken = Promise::made_in(said, prompt).into_iter().filter(counts);
        let mut all: Vec<_> = spoken.map(|promise| made(promise, promise.tag())).collect();
        let is_said = all.iter().any(|spoken| spoken.promise == Promise::Complete);
        if let Some(why) = self.stop.promised.as_ref().filter(|_| about.is_none() && !is_said) {
            let content = if why.is_empty() { "session_complete".into() } else { format!("session_complete: {why}") };
            all.insert(0, made(Promise::Complete, content));
        }
        all
    }
}
