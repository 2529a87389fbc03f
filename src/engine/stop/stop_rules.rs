//! Evaluates an iteration step by step: rules, then stop hooks in order, then the guards, then the
//! decision.
//!
//! The same steps evaluate the session's own iteration and one of an agent loop. [`super::chain`]
//! merges the verdicts, [`super::agent_loop`] is the state in between.

use serde_json::{Value, json};

use crate::engine::{
    actor::POLICY,
    effect::{Effect, HookFacts, HookJob, RuleJob, TaskFacts},
    event::{Event, HookEvent, HookFinished, StopDecided, StopEvent},
    hooks::{
        HookState,
        point::HookPoint,
        verdict::{RunEnd, RunResult, Verdict},
    },
    ids::RunId,
    output::EngineOutput,
    policy::{HookAction, HookSpec, RuleSpec, SessionPlan, StopHook, StopHookKind, StopPreset},
    session::{iteration::IterationState, phase::Phase},
    steering::ControlState,
    stop::{
        StopState,
        agent_loop::{AgentLoop, StopEvaluation},
        chain::{self, NextStep, StopHookInput, VerdictWeight},
        context::{AgentContext, CompletionPromise, Promise, RuleCheckResult, RuleOutcome},
        decision::{StopAction, StopResult},
        event::NewCheckpoint,
        guard::{ChangedFiles, GuardState, GuardStreaks, IterationFacts},
        loop_rules::LoopRules,
        settled::{NOTHING_DONE, SETTLED, agent_words},
    },
    tasks::{
        SessionTasks, command::TaskCommand, graph::Task, record::ChangeOrigin,
        task_rules::TaskRules,
    },
    time::UnixTime,
    turn::TurnState,
};

pub(crate) fn blocked_why(result: &StopResult) -> String {
    if result.reason.trim().is_empty() {
        "the user has to decide".into()
    } else {
        result.reason.clone()
    }
}

/// Parses a command's answer.
pub(crate) fn answered(result: &RunResult) -> Result<StopResult, StopAnswerError> {
    if result.end != RunEnd::Exit(0) {
        let output = result.stderr.trim().to_owned();
        return Err(StopAnswerError::HookFailed {
            end: result.end.describe(),
            output,
        });
    }
    let Some(answer) = result.answer.as_deref() else {
        return Err(StopAnswerError::TooLong);
    };
    let value: Value = serde_json::from_str(answer.trim()).map_err(StopAnswerError::NotJson)?;
    serde_json::from_value(value).map_err(StopAnswerError::Malformed)
}

/// The shape of an answer, for a hook that gave another.
pub(crate) const ANSWER_SHAPE: &str =
    r#"{"action": "complete" | "continue" | "escalate", "reason": "…"}"#;

/// Why a stop hook's output is no decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopAnswerError {
    #[error("{end}{}{output}", if output.is_empty() { "" } else { ": " })]
    HookFailed { end: String, output: String },
    #[error("its answer is too long")]
    TooLong,
    #[error("its answer is not JSON ({0}). It must be {ANSWER_SHAPE}")]
    NotJson(serde_json::Error),
    #[error("its answer is wrong ({0}). It must be {ANSWER_SHAPE}")]
    Malformed(serde_json::Error),
}

#[derive(Debug, Clone, Copy)]
pub struct StopRules<'a> {
    pub(crate) name: &'a str,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) phase: &'a Phase,
    pub(crate) iterations: &'a IterationState,
    pub(crate) turns: &'a TurnState,
    pub(crate) hooks: &'a HookState,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) stop: &'a StopState,
    pub(crate) steering: &'a ControlState,
    pub(crate) task_rules: TaskRules<'a>,
    pub(crate) agent_loops: LoopRules<'a>,
}

impl<'a> StopRules<'a> {
    /// All evaluations in progress, each with its agent loop. None: the session's own iteration.
    pub(crate) fn judgements(self) -> impl Iterator<Item = (Option<&'a str>, &'a StopEvaluation)> {
        let loops = self.stop.loops.iter();
        let beside =
            loops.filter_map(|known| Some((Some(known.id.as_str()), known.judging.as_ref()?)));
        self.phase
            .judging_here()
            .map(|judging| (None, judging))
            .into_iter()
            .chain(beside)
    }

    /// The next step of an evaluation, for an agent loop or for the session's own iteration.
    pub(crate) fn proceed_judging(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        now: UnixTime,
    ) -> EngineOutput {
        let iteration = self.iterations.judged_iteration(about);
        let of = about.map(|about| about.id.clone());
        let Some(queue) = &judging.rules else {
            let rules: Vec<String> = self.rules().map(|rule| rule.name.clone()).collect();
            if !rules.is_empty() {
                return EngineOutput::record(Event::Stop(StopEvent::RulesDue {
                    iteration,
                    rules,
                    of,
                }));
            }
            return self.ask_hooks(about, judging, now);
        };
        if let Some(rule) = queue.front() {
            return self.check(about, judging, rule);
        }
        if judging.runs().next().is_some() {
            return EngineOutput::default();
        }
        self.ask_hooks(about, judging, now)
    }

    pub(crate) fn rules(self) -> impl Iterator<Item = &'a RuleSpec> {
        self.plan.stop.rules.iter().filter(|rule| rule.enabled)
    }

    pub(crate) fn check(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        name: &str,
    ) -> EngineOutput {
        let run = self.hooks.last_run.next();
        let (iteration, of) = (
            self.iterations.judged_iteration(about),
            about.map(|about| about.id.clone()),
        );
        let started = EngineOutput::record(Event::Stop(StopEvent::RuleStarted {
            run,
            rule: name.to_owned(),
            iteration,
            of,
        }));
        let Some(rule) = self.plan.stop.rules.iter().find(|rule| rule.name == name) else {
            return started;
        };
        let facts = self.judged_facts(about, judging);
        let job = RuleJob {
            run,
            rule: rule.clone(),
            output_limit: self.plan.output_limit,
            facts,
        };
        started.then(Effect::CheckRule(Box::new(job)))
    }

    pub(crate) fn judged_facts(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
    ) -> HookFacts {
        let task = about.and_then(|about| self.tasks.graph.get(&about.task));
        let agent_text = judging
            .asked
            .as_ref()
            .map_or(&self.turns.agent_text, |asked| &asked.agent_text);
        HookFacts {
            session: self.name.to_owned(),
            iteration: Some(self.iterations.judged_iteration(about)),
            task: task.map(|task| TaskFacts {
                id: task.id.clone(),
                content: task.goal.clone(),
            }),
            agent_output: (!agent_text.is_empty()).then(|| agent_text.clone()),
            files_modified: Some(self.iterations.judged_files(judging).to_vec()),
            ..HookFacts::default()
        }
    }

    pub(crate) fn ask_hooks(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        now: UnixTime,
    ) -> EngineOutput {
        let asked = self.hooks_to_ask(about, judging, now);
        // In the agent's own loop, the agent's hooks decide about the agent's task.
        let of_a_task = about.filter(|about| !self.is_about_the_session(about));
        let weight = |hook: &StopHook| match of_a_task {
            None if self
                .stop
                .registered
                .iter()
                .any(|known| known.id == hook.name) =>
            {
                VerdictWeight::OnlyStricter
            }
            None | Some(_) => VerdictWeight::Decides,
        };
        let inputs: Vec<StopHookInput<'_>> = asked
            .iter()
            .map(|(hook, context)| StopHookInput {
                id: &hook.name,
                hook,
                context,
                weight: weight(hook),
            })
            .collect();
        match chain::consult(&inputs, &judging.answers, &|hook| {
            self.hooks.stop_hook_is_on(hook)
        }) {
            NextStep::Ask(hook, context) => self.start_stop_hook(about, judging, hook, context),
            NextStep::Decided(verdict) => self.conclude_judging(about, judging, *verdict, now),
        }
    }

    pub(crate) fn start_stop_hook(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        hook: &StopHook,
        context: &AgentContext,
    ) -> EngineOutput {
        let StopHookKind::Command { command, timeout } = &hook.judge else {
            return EngineOutput::default();
        };
        let run = self.hooks.last_run.next();
        let (point, iteration) = (
            HookPoint::StopDecision,
            self.iterations.judged_iteration(about),
        );
        let facts = HookFacts {
            validation_results: Some(json!(context.validation_results)),
            context: Some(json!(context)),
            ..self.judged_facts(about, judging)
        };
        let spec = HookSpec {
            timeout: *timeout,
            ..HookSpec::new(hook.name.clone(), HookAction::Command(command.clone()))
        };
        let (name, of, beside) = (
            hook.name.clone(),
            about.map(|about| about.id.clone()),
            about.is_some(),
        );
        let job = HookJob {
            run,
            point,
            hook: spec,
            output_limit: self.plan.output_limit,
            facts,
            clean: None,
        };
        EngineOutput::record(Event::Hook(HookEvent::Started {
            run,
            point,
            hook: name,
            iteration,
            attempt: 0,
            beside,
            of,
            tests_of: None,
        }))
        .then(Effect::RunHook(Box::new(job)))
    }

    pub(crate) fn conclude_judging(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        verdict: chain::StopVerdict,
        now: UnixTime,
    ) -> EngineOutput {
        let iteration = self.iterations.judged_iteration(about);
        let verdict = self.overruled(about, judging, verdict, now);
        let explanation = if about.is_some() {
            None
        } else {
            self.explanation_of(&verdict)
        };
        let chain::StopVerdict {
            hook,
            result,
            task,
            asked,
            keep,
            idle,
            open_tasks,
        } = verdict;
        let own_task = about
            .map(|about| about.task.clone())
            .or(Some(task.clone()).filter(|task| !task.is_empty()));
        let subject = own_task.unwrap_or_else(|| self.name.to_owned());
        let own = judging
            .asked
            .as_ref()
            .and_then(|asked| asked.checkpoint.clone())
            .map(|data| (None, data));
        let keep = own
            .into_iter()
            .chain(keep.into_iter().map(|(hook, data)| (Some(hook), data)));
        let keep = keep.map(|(hook, data)| NewCheckpoint {
            task: subject.clone(),
            iteration,
            hook,
            data,
        });
        let mut events = self.agent_loops.keep(keep);
        events.extend(self.contradiction(about, judging, now));
        let blocked = if result.action == StopAction::Escalate {
            self.to_block(about, &task)
        } else {
            Vec::new()
        };
        for id in blocked.iter().filter(|id| !self.tasks.is_blocked(id)) {
            let block = TaskCommand::Block {
                id: id.clone(),
                reason: blocked_why(&result),
                required_knowledge: Vec::new(),
            };
            events.extend(self.task_rules.task_event(block, ChangeOrigin::by(POLICY)));
        }
        let StopResult {
            action,
            reason,
            next_prompt,
            metadata,
            ..
        } = result;
        let asked = asked
            .into_iter()
            .map(|(hook, result)| (hook, result.action))
            .collect();
        let of = about.map(|about| about.id.clone());
        let task = Some(task).filter(|task| !task.is_empty() && *task != self.name);
        events.push(Event::Stop(StopEvent::Decided(Box::new(StopDecided {
            iteration,
            hook,
            action,
            reason,
            next_prompt,
            task,
            blocked,
            asked,
            metadata,
            of,
            explanation,
            idle,
            open_tasks,
            streaks: None,
        }))));
        events
            .into_iter()
            .fold(EngineOutput::default(), EngineOutput::and)
    }

    /// A decision in the words of people: why the session is complete, or what the agent asks.
    fn explanation_of(self, verdict: &chain::StopVerdict) -> Option<String> {
        let promises = Promise::made_in(&self.turns.agent_text, &self.turns.prompt);
        let is_question =
            promises.contains(&Promise::Escalate) || promises.contains(&Promise::Blocked);
        match verdict.result.action {
            StopAction::Complete
                if promises.contains(&Promise::Complete) || self.stop.promised.is_some() =>
            {
                let nothing = if self.iterations.worked {
                    ""
                } else {
                    " and that nothing had to change"
                };
                Some(format!("the agent says it is done{nothing}"))
            }
            StopAction::Complete if verdict.hook == SETTLED => {
                Some("the agent changed nothing more".into())
            }
            StopAction::Complete => Some(String::new()),
            StopAction::Escalate if is_question && self.stop.escalated.is_none() => {
                agent_words(&self.turns.agent_text)
            }
            StopAction::Escalate if verdict.hook == NOTHING_DONE => {
                let words = agent_words(&self.turns.agent_text)?;
                let is_question = words.contains('?');
                Some(if is_question {
                    words
                } else {
                    format!("the agent has changed nothing so far, and says: {words}")
                })
            }
            StopAction::Continue | StopAction::Escalate => None,
        }
    }

    /// The decision about a question of the agent after the loop. None if it asks nothing.
    pub(crate) fn escalated_by_the_agent(self) -> Option<EngineOutput> {
        let promises = Promise::made_in(&self.turns.agent_text, &self.turns.prompt);
        let promise = promises
            .into_iter()
            .next()
            .filter(|promise| *promise != Promise::Complete)?;
        let what = if promise == Promise::Blocked {
            "that it is blocked"
        } else {
            "a need for escalation"
        };
        let reason = format!("Agent signaled {what} via {}", promise.tag());
        let result = StopResult::new(StopAction::Escalate, reason.clone());
        let blocked = self.to_block(None, "");
        let mut events = Vec::new();
        for id in &blocked {
            let block = TaskCommand::Block {
                id: id.clone(),
                reason: blocked_why(&result),
                required_knowledge: Vec::new(),
            };
            events.extend(self.task_rules.task_event(block, ChangeOrigin::by(POLICY)));
        }
        events.push(Event::Stop(StopEvent::Decided(Box::new(StopDecided {
            iteration: self.iterations.current,
            hook: StopPreset::Promise.name().to_owned(),
            action: StopAction::Escalate,
            reason,
            next_prompt: None,
            task: None,
            blocked,
            asked: Vec::new(),
            metadata: None,
            of: None,
            explanation: agent_words(&self.turns.agent_text),
            idle: false,
            open_tasks: Vec::new(),
            streaks: None,
        }))));
        Some(
            events
                .into_iter()
                .fold(EngineOutput::default(), EngineOutput::and),
        )
    }

    /// Overrides the hooks' verdict. In the session's own iteration, an escalated agent loop or a
    /// settled iteration overrides it; everywhere, a guard can override continue.
    pub(crate) fn overruled(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        verdict: chain::StopVerdict,
        now: UnixTime,
    ) -> chain::StopVerdict {
        if let Some(about) = about {
            let is_last = about.iteration >= about.max_iterations;
            let seen = || about.guards.with(judging.facts(&judging.results));
            return if is_last {
                verdict
            } else {
                self.guarded(verdict, seen, &judging.results)
            };
        }
        if let Some((hook, task, reason)) = &self.stop.escalated {
            let result = StopResult::new(StopAction::Escalate, reason.clone());
            return chain::StopVerdict {
                hook: hook.clone(),
                task: task.clone(),
                result,
                ..verdict
            };
        }
        let verdict = self.settle(judging, Self::doubt(judging, verdict), now);
        let verdict = self.remind_of_tasks(verdict);
        let is_last = self.iterations.current >= self.iterations.limit(self.plan);
        if is_last {
            return verdict;
        }
        self.guarded(
            verdict,
            || {
                self.stop
                    .guards
                    .after(self.iteration_facts(&judging.results))
            },
            &judging.results,
        )
    }

    /// What repeats itself, in the session's own iteration or in that loop of the agent. None
    /// outside of iterations.
    pub(crate) fn streaks(self, of: Option<&str>) -> Option<GuardStreaks> {
        if let Some(id) = of {
            let known = self.stop.loops.iter().find(|known| known.id == id)?;
            let judging = known.judging.as_ref()?;
            return Some(known.guards.streaks(judging.facts(&judging.results)));
        }
        let results = self
            .phase
            .judging_here()
            .map_or(&[][..], |judging| &judging.results);
        Some(self.stop.guards.streaks(self.iteration_facts(results)))
    }

    /// The facts for the guards, from the session's own iteration.
    pub(crate) fn iteration_facts(self, results: &'a [RuleOutcome]) -> IterationFacts<'a> {
        let files = ChangedFiles::Seen(&self.iterations.contents);
        IterationFacts {
            rules: results,
            files,
            message: &self.turns.agent_text,
        }
    }

    /// The verdict, unless it is continue and a guard finds that the work makes no progress.
    pub(crate) fn guarded(
        self,
        verdict: chain::StopVerdict,
        seen: impl FnOnce() -> GuardState,
        results: &[RuleOutcome],
    ) -> chain::StopVerdict {
        if verdict.result.action != StopAction::Continue {
            return verdict;
        }
        match seen().alarm(&self.plan.stop, results) {
            Some(alarm) => {
                let result = StopResult::new(StopAction::Escalate, alarm.reason);
                chain::StopVerdict {
                    hook: alarm.guard.into(),
                    result,
                    ..verdict
                }
            }
            None => verdict,
        }
    }

    /// A warning if the agent made several promises at once.
    pub(crate) fn contradiction(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        now: UnixTime,
    ) -> Option<Event> {
        let agent_text = judging
            .asked
            .as_ref()
            .map_or(&self.turns.agent_text, |asked| &asked.agent_text);
        let made = self.promises_made(about, agent_text, now);
        let [first, others @ ..] = made.as_slice() else {
            return None;
        };
        let others = others
            .iter()
            .map(|made| made.promise.word())
            .collect::<Vec<_>>()
            .join(" and ");
        (!others.is_empty()).then(|| {
            Event::warning(format!(
                "the agent promised {} and {others} together; creel uses {0}",
                first.promise
            ))
        })
    }

    /// The tasks that an escalation blocks: its own task if that is open, else all tasks in
    /// progress. Tasks of the queue are left out. An agent loop's escalation blocks at most the
    /// loop's own task, also when the session's own evaluation handles it.
    pub(crate) fn to_block(self, about: Option<&AgentLoop>, task: &str) -> Vec<String> {
        let own = about.map_or(task, |about| &about.task);
        let can_be_blocked = |task: &Task| task.is_open() && !task.is_elsewhere();
        if self.tasks.graph.get(own).is_some_and(can_be_blocked) {
            return vec![own.to_owned()];
        }
        let of_a_loop = about.is_some() || self.stop.escalated.is_some();
        let active = self
            .tasks
            .graph
            .tasks()
            .into_iter()
            .filter(|task| task.is_worked_on_here());
        if of_a_loop {
            Vec::new()
        } else {
            active.map(|task| task.id.clone()).collect()
        }
    }

    pub(crate) fn on_rule_checked(self, run: RunId, result: RuleCheckResult) -> EngineOutput {
        let found = self.judgements().find_map(|(of, judging)| {
            let checking = judging
                .checking
                .iter()
                .find(|checking| checking.run == run)?;
            Some((of, checking.hook.clone()))
        });
        let Some((of, rule)) = found else {
            return EngineOutput::stale(run);
        };
        let iteration = self
            .iterations
            .judged_iteration(of.and_then(|id| self.stop.agent_loop(id)));
        let RuleCheckResult {
            passed,
            message,
            took,
            end,
            file,
        } = result;
        let of = of.map(str::to_owned);
        EngineOutput::record(Event::Stop(StopEvent::RuleChecked {
            run,
            rule,
            iteration,
            passed,
            message,
            took_ms: took,
            end,
            file,
            of,
        }))
    }

    /// Whether a stop evaluation waits for this run of a stop hook.
    pub(crate) fn awaits_stop_hook(self, run: RunId) -> bool {
        self.judgements().any(|(_, judging)| {
            judging
                .running
                .as_ref()
                .is_some_and(|running| running.run == run)
        })
    }

    pub(crate) fn on_stop_hook_finished(self, run: RunId, result: RunResult) -> EngineOutput {
        let Some(cut) = self.cut_stop_hooks().find(|cut| cut.run == run) else {
            return EngineOutput::stale(run);
        };
        let decision = answered(&result);
        let verdict = if decision.is_ok() {
            Verdict::Pass
        } else {
            Verdict::Fail
        };
        let decision = Some(Box::new(
            decision.unwrap_or_else(|why| StopResult::failed(&why.to_string())),
        ));
        EngineOutput::record(Event::Hook(HookEvent::Finished(Box::new(HookFinished {
            end: result.end,
            took_ms: result.took,
            verdict,
            stdout: result.stdout,
            stderr: result.stderr,
            omitted_bytes: result.omitted_bytes,
            file: result.file,
            decision,
            again: false,
            ..cut
        }))))
    }

    /// The running commands as cut, because creel itself died.
    pub(crate) fn cut_stop_hooks(self) -> impl Iterator<Item = HookFinished> {
        self.judgements().filter_map(|(of, judging)| {
            let running = judging.running.as_ref()?;
            let iteration = self
                .iterations
                .judged_iteration(of.and_then(|id| self.stop.agent_loop(id)));
            Some(HookFinished {
                iteration,
                ..HookFinished::cut(HookPoint::StopDecision, running)
            })
        })
    }

    /// Whether a loop is about the whole session and creel runs the agent. Then the config's hooks
    /// decide, and hooks that the agent registered can only be stricter.
    pub(crate) fn is_about_the_session(self, about: &AgentLoop) -> bool {
        about.task == self.name && !self.plan.is_led_from_outside()
    }

    pub(crate) fn proceed_loops(self, now: UnixTime) -> EngineOutput {
        let judged = self
            .stop
            .loops
            .iter()
            .filter_map(|known| Some((known, known.judging.as_ref()?)));
        let mut steps =
            judged.map(|(known, judging)| self.proceed_judging(Some(known), judging, now));
        steps.find(|step| !step.is_empty()).unwrap_or_default()
    }
}

impl StopRules<'_> {
    /// The hooks to evaluate, each with its context. In an agent loop, the hooks that were
    /// registered for its task; otherwise those of the config, then those that were registered for
    /// the session or for an open task.
    pub(crate) fn hooks_to_ask<'a>(
        &'a self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        now: UnixTime,
    ) -> Vec<(&'a StopHook, AgentContext)> {
        let context = |task: &str| self.agent_context(about, judging, task, now);
        let registered = self.stop.registered.iter();
        if let Some(about) = about.filter(|about| !self.is_about_the_session(about)) {
            let own = registered.filter(|known| known.task == about.task);
            return own
                .map(|known| (&known.hook, context(&known.task)))
                .collect();
        }
        let current = self
            .tasks
            .graph
            .tasks()
            .into_iter()
            .find(|task| task.is_worked_on_here());
        let current = current.map_or(self.name, |task| &task.id);
        let configured = self
            .plan
            .stop
            .hooks
            .iter()
            .map(|hook| (hook, context(current)));
        let is_open = |task: &str| self.tasks.graph.get(task).is_some_and(Task::is_open);
        let wanted = registered.filter(|known| known.task == self.name || is_open(&known.task));
        configured
            .chain(wanted.map(|known| (&known.hook, context(&known.task))))
            .collect()
    }

    pub(crate) fn agent_context(
        self,
        about: Option<&AgentLoop>,
        judging: &StopEvaluation,
        task: &str,
        now: UnixTime,
    ) -> AgentContext {
        let asked = judging.asked.as_deref();
        let agent_text = asked.map_or(self.turns.agent_text.as_str(), |asked| &asked.agent_text);
        let rank = |name: &str| {
            self.plan
                .stop
                .rules
                .iter()
                .position(|rule| rule.name == name)
        };
        let mut results = judging.results.clone();
        results.sort_by_key(|result| rank(&result.rule_name));
        let phase = self
            .stop
            .checkpoints
            .iter()
            .rev()
            .find(|kept| kept.checkpoint.task == task);
        AgentContext {
            task_id: task.to_owned(),
            iteration: self.iterations.judged_iteration(about),
            execution_phase: phase
                .and_then(|kept| kept.checkpoint.phase())
                .map(str::to_owned),
            files_modified: self.iterations.judged_files(judging).to_vec(),
            validation_results: results,
            completion_promises: self.promises_made(about, agent_text, now),
            agent_output: (!agent_text.is_empty()).then(|| agent_text.to_owned()),
            draft: asked.and_then(|asked| asked.draft.clone()),
            labels: self
                .tasks
                .graph
                .get(task)
                .map(|task| task.labels.clone())
                .unwrap_or_default(),
        }
    }

    /// The agent's promises, from its message or, for the session, from a tool call.
    pub(crate) fn promises_made(
        self,
        about: Option<&AgentLoop>,
        agent_text: &str,
        now: UnixTime,
    ) -> Vec<CompletionPromise> {
        let counts = |promise: &Promise| {
            about.is_none_or(|about| about.promises.is_empty() || about.promises.contains(promise))
        };
        let prompt = if about.is_some() {
            ""
        } else {
            &self.turns.prompt
        };
        let made = |promise: Promise, content: String| CompletionPromise {
            promise,
            detected: true,
            content,
            detected_at: now.rfc3339(),
        };
        let spoken = Promise::made_in(agent_text, prompt)
            .into_iter()
            .filter(counts);
        let mut all: Vec<_> = spoken.map(|promise| made(promise, promise.tag())).collect();
        let is_promised = all.iter().any(|spoken| spoken.promise == Promise::Complete);
        if let Some(why) = self
            .stop
            .promised
            .as_ref()
            .filter(|_| about.is_none() && !is_promised)
        {
            let content = if why.is_empty() {
                "session_complete".into()
            } else {
                format!("session_complete: {why}")
            };
            all.insert(0, made(Promise::Complete, content));
        }
        all
    }
}
