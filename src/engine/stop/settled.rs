//! Iterations without work: all checks passed, and the agent changed nothing and promised nothing.
//!
//! If the session has changed something before, the work is done: the iteration has *settled*. If
//! it has not, nothing is *done*: creel tells the agent once, and then asks the user, because a
//! plan or a question is no work. Owns the conditions. The config's reaction is
//! [`StopPlan::settled`](crate::engine::policy::StopPlan).
//!
//! Also reminds an agent that says it is done of its open tasks, once per set of them.
//!
//! # Invariants
//! - Without any check, an iteration never settles.
//! - Only a check that passed counts: not one that broke, failed without blocking, or was disabled.
//! - While a message waits for the agent or tasks are open, an iteration does not settle.
//! - A hook that the agent registered can still ask to continue.

use std::collections::BTreeSet;

use crate::{
    engine::{
        event::IterationOutcome,
        policy::{OpenTasksPolicy, SettledPolicy},
        session::iteration::StopHookSummary,
        stop::{
            agent_loop::StopEvaluation,
            chain::StopVerdict,
            context::Promise,
            decision::{StopAction, StopResult},
            stop_rules::StopRules,
        },
        tasks::{
            SessionTasks,
            graph::{Task, TaskState},
        },
        time::UnixTime,
    },
    text::{counted, shortened},
};

/// The hook names in decisions about iterations without work.
pub(crate) const SETTLED: &str = "settled";
pub(crate) const NOTHING_DONE: &str = "nothing_done";
const REASON: &str = "All checks pass and the agent changed nothing";
const HINT: &str = "[Nothing changed]: the checks pass, but you have not changed any file in this session yet. Start with the \
    goal below. If you need a decision first, ask your question and end with the tag for escalation; if nothing \
    has to change, say so and end with the tag for completion.";
/// The longest part of a message that a gate shows, in characters.
const WORDS: usize = 600;

/// The end of the agent's message in its own words, without promises. None if there are none.
pub(crate) fn agent_words(agent_text: &str) -> Option<String> {
    let plain = Promise::removed_from(agent_text);
    let paragraphs: Vec<&str> = plain
        .split("\n\n")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    let last = paragraphs.last()?;
    // A short last paragraph is often a sign-off.
    let words = match paragraphs.as_slice() {
        [.., before, last] if last.chars().count() < 20 => format!("{before}\n{last}"),
        _ => (*last).to_owned(),
    };
    Some(shortened(&words, WORDS))
}

impl StopRules<'_> {
    /// The decision about an iteration without work, if the hooks want to continue, or if only
    /// rules want to complete a session in which nothing was done.
    pub(crate) fn settle(
        self,
        judging: &StopEvaluation,
        verdict: StopVerdict,
        now: UnixTime,
    ) -> StopVerdict {
        let of_agent = self
            .stop
            .registered
            .iter()
            .any(|known| known.id == verdict.hook);
        let policy = self.plan.stop.settled;
        if of_agent || policy == SettledPolicy::Continue || !self.is_without_work(judging, now) {
            return verdict;
        }
        match verdict.result.action {
            StopAction::Escalate => verdict,
            StopAction::Complete
                if self.iterations.worked || !self.plan.stop.listed().is_empty() =>
            {
                verdict
            }
            StopAction::Continue if self.iterations.worked => {
                let action = if policy == SettledPolicy::Ask {
                    StopAction::Escalate
                } else {
                    StopAction::Complete
                };
                verdict.overruled_by(SETTLED, StopResult::new(action, REASON))
            }
            StopAction::Complete | StopAction::Continue => self.nothing_done(verdict),
        }
    }

    fn nothing_done(self, verdict: StopVerdict) -> StopVerdict {
        if self.stop.idle {
            let result = StopResult::new(
                StopAction::Escalate,
                "Two iterations in a row changed nothing",
            );
            return verdict.overruled_by(NOTHING_DONE, result);
        }
        let result =
            StopResult::new(StopAction::Continue, "Nothing has been changed yet").telling(HINT);
        StopVerdict {
            idle: true,
            ..verdict.overruled_by(NOTHING_DONE, result)
        }
    }

    fn is_without_work(self, judging: &StopEvaluation, now: UnixTime) -> bool {
        let activity = &self.iterations.activity;
        let checked = match activity.stop_hooks {
            StopHookSummary::NotPassed => false,
            StopHookSummary::Passed => true,
            StopHookSummary::None => !judging.results.is_empty(),
        };
        let changed =
            activity.changed_a_task || activity.unknown_work || !self.iterations.files.is_empty();
        let accepted = self.iterations.last == Some(IterationOutcome::Done);
        let promised = !self
            .promises_made(None, &self.turns.agent_text, now)
            .is_empty();
        let asked_for_more = !self.steering.messages.is_empty();
        let open = self.plan.stop.open_tasks == OpenTasksPolicy::Continue
            && !self.tasks.open_here().is_empty();
        checked
            && accepted
            && !asked_for_more
            && judging.results.iter().all(|rule| rule.passed)
            && !changed
            && !promised
            && !open
    }

    /// Complete over a red rule is not believed: the next prompt has the rule's message.
    pub(crate) fn doubt(judging: &StopEvaluation, verdict: StopVerdict) -> StopVerdict {
        let completes = verdict.result.action == StopAction::Complete;
        let Some(feedback) =
            crate::engine::verify::PassFeedback::of_rules(&judging.results).filter(|_| completes)
        else {
            return verdict;
        };
        let reason = format!(
            "the rule `{}` fails, so the work is not complete: {}",
            feedback.check, feedback.reason
        );
        let hook = verdict.hook.clone();
        verdict.overruled_by(
            &hook,
            StopResult::new(StopAction::Continue, reason).telling(feedback.text),
        )
    }
}

/// The hook name in decisions about open tasks.
const OPEN_TASKS: &str = "open_tasks";

impl SessionTasks {
    /// The tasks that the session's agent still has to do: ready, active, or waiting for such a
    /// task. Tasks of the queue and tasks that automation created are not its own.
    pub fn open_here(&self) -> Vec<&Task> {
        let own = |task: &&Task| !task.is_elsewhere() && !self.automated.contains(&task.id);
        let all: Vec<&Task> = self.graph.tasks().into_iter().filter(own).collect();
        let mut open: BTreeSet<&str> = BTreeSet::new();
        loop {
            let before = open.len();
            for task in &all {
                let waits_for_one = || {
                    task.dependencies
                        .iter()
                        .any(|on| open.contains(on.as_str()))
                };
                let is_open = match task.state {
                    TaskState::Ready | TaskState::Active => true,
                    TaskState::Created => waits_for_one(),
                    TaskState::Blocked | TaskState::Completed => false,
                };
                if is_open {
                    open.insert(&task.id);
                }
            }
            if open.len() == before {
                return all
                    .into_iter()
                    .filter(|task| open.contains(task.id.as_str()))
                    .collect();
            }
        }
    }

    /// The list of the open tasks for a prompt. None if there are none.
    pub(crate) fn open_list(&self) -> Option<String> {
        let open = self.open_here();
        let lines: Vec<String> = open.into_iter().map(list_entry).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// A task with everything that it is about. Its further lines are indented.
fn list_entry(task: &Task) -> String {
    let mut text = task.goal.trim_end().to_owned();
    if !task.deliverables.is_empty() {
        text += "\nDeliverables:";
        text.extend(task.deliverables.iter().map(|entry| format!("\n- {entry}")));
    }
    let text = text.replace('\n', "\n  ").replace("\n  \n", "\n\n");
    format!("- {} ({}): {text}", task.id, task.state.name())
}

impl StopRules<'_> {
    /// Turns complete into continue if the session has open tasks that the agent was not reminded
    /// of.
    pub(crate) fn remind_of_tasks(self, verdict: StopVerdict) -> StopVerdict {
        let open: Vec<String> = self
            .tasks
            .open_here()
            .iter()
            .map(|task| task.id.clone())
            .collect();
        let was_reminded = open.is_empty() || open == self.stop.reminded;
        let is_last = self.iterations.used() >= self.iterations.limit(self.plan);
        let completes = verdict.result.action == StopAction::Complete;
        if !completes
            || was_reminded
            || is_last
            || self.plan.stop.open_tasks == OpenTasksPolicy::Ignore
        {
            return verdict;
        }
        let are = if open.len() == 1 { "is" } else { "are" };
        let count = format!("{} of this session {are} open", counted(open.len(), "task"));
        let list = self.tasks.open_list().unwrap_or_default();
        let prompt = format!(
            "[Open tasks]: you said that you are done, but {count}. Complete each one with \
             `creel task done ID` when it is done, block it with its reason, or remove it:\n{list}"
        );
        let result = StopResult::new(
            StopAction::Continue,
            format!("the agent says it is done, but {count}"),
        );
        StopVerdict {
            open_tasks: open,
            ..verdict.overruled_by(OPEN_TASKS, result.telling(prompt))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_agent_are_its_last_paragraph_without_the_promise() {
        let agent_text =
            "I looked at it.\n\nShould I delete /v1/users?\n<promise>ESCALATE</promise>";
        assert_eq!(
            agent_words(agent_text).as_deref(),
            Some("Should I delete /v1/users?")
        );
        assert_eq!(
            agent_words("HTML or PDF?\n\nThanks!").as_deref(),
            Some("HTML or PDF?\nThanks!")
        );
        assert_eq!(agent_words("<promise>BLOCKED</promise>"), None);
    }
}
