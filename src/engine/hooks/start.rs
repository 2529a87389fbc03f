//! Starts hooks with the facts that their point offers, and opens the gates for broken and
//! escalating ones. Also decides on which occasions a hook of Claude Code runs, and what it learns
//! about them. The same for side jobs and `on_gate` hooks.

use crate::engine::{
    conversation::AgentPermissionRequest,
    effect::{
        ClaudeFacts, CleanRunJob, Effect, GateFacts, GateState, HookFacts, HookJob,
        SubmissionFacts, TaskFacts,
    },
    event::{Event, HookEvent, UserPresence},
    gate::{
        Gate,
        kind::GateKind,
        notices::{GateHooks, GateNotice},
        subject::GateSubject,
    },
    hooks::{
        self, HookRef,
        claude::{ClaudeEvent, OUTPUT_LIMIT},
        dispatch::{DispatchCause, DispatchQuestion, FinishedRun, HookDispatch},
        point::{BrokenGate, HookPoint},
        side_jobs::{BesideFailure, SideJob, cut_off},
    },
    output::EngineOutput,
    policy::{AgentSpec, HookAction, HookSpec, PermissionPolicy, SubmitUntil},
    question::AgentQuestion,
    session::{SessionState, phase::Phase},
    submit::{kind::PipelineKind, review::CHANGE_LIMIT, title},
    tasks::graph::Task,
    verify::base_tests::TestSource,
};

/// Announces and starts hooks.
#[derive(Debug, Clone, Copy)]
pub struct HookRules<'a>(pub(crate) &'a SessionState);

impl<'a> HookRules<'a> {
    /// How many times the agent repaired something, at the points of a pipeline.
    pub(crate) fn repairs_at(self, point: HookPoint) -> Option<u32> {
        PipelineKind::of(point).map(|_| {
            self.0
                .pipelines
                .pipeline_run
                .as_ref()
                .map_or(0, |pipeline_run| pipeline_run.used)
        })
    }

    /// The task that the work is about: the one in progress, or else the one that was completed
    /// last.
    pub(crate) fn task_at(self, point: HookPoint) -> Option<TaskFacts> {
        PipelineKind::of(point)?;
        self.task_of_the_work().map(|task| TaskFacts {
            id: task.id.clone(),
            content: task.goal.clone(),
        })
    }

    pub(crate) fn task_of_the_work(self) -> Option<&'a Task> {
        let tasks = self.0.tasks.graph.tasks();
        let mut active = tasks.iter().filter(|task| task.is_worked_on_here());
        let only = active.next().filter(|_| active.next().is_none());
        only.or_else(|| {
            tasks
                .iter()
                .max_by_key(|task| task.completed)
                .filter(|task| task.completed.is_some())
        })
        .copied()
    }

    pub(crate) fn submission_at(self, point: HookPoint) -> Option<Box<SubmissionFacts>> {
        PipelineKind::of(point)?;
        let task = self.task_of_the_work();
        let goal = task.map_or(&self.0.began.prompt, |task| &task.goal);
        let deliverables = task.map_or(&[][..], |task| task.deliverables.as_slice());
        let list: String = deliverables
            .iter()
            .map(|deliverable| format!("\n- {deliverable}"))
            .collect();
        let submit = &self.0.plan().submit;
        Some(Box::new(SubmissionFacts {
            task: self.task_at(point),
            task_type: task
                .and_then(|task| task.kind.clone())
                .or_else(|| self.0.plan().task_type.clone()),
            title: title(goal),
            body: if list.is_empty() {
                goal.clone()
            } else {
                format!("{goal}\n{list}")
            },
            evidence: self.0.plan().evidence,
            base_branch: submit.base_branch.clone(),
            pr_command: submit.pr_command.clone(),
            test_command: submit.test_command.clone(),
            remote: submit.remote.clone(),
            reviews: self
                .0
                .pipelines
                .pipeline_run
                .iter()
                .flat_map(|pipeline_run| pipeline_run.reviews.values().cloned())
                .collect(),
            reviewed: self
                .0
                .pipelines
                .pipeline_run
                .as_ref()
                .and_then(|pipeline_run| pipeline_run.reviewed.clone()),
            repaired: self
                .0
                .pipelines
                .pipeline_run
                .as_ref()
                .is_some_and(|pipeline_run| pipeline_run.repaired),
            agent: self.0.agent_choice().agent().to_owned(),
            pull_request: self.pull_request(),
            files: self.0.iterations.all_files.clone(),
            until_merged: self
                .0
                .pipelines
                .pipeline_run
                .as_ref()
                .is_some_and(|pipeline_run| pipeline_run.until == SubmitUntil::Merged),
            watched: self.0.pipelines.watched(),
            opens_request: point == HookPoint::BeforeSubmit
                && self
                    .0
                    .plan()
                    .hooks_or_usual(point)
                    .iter()
                    .any(HookSpec::opens_request),
        }))
    }

    /// The pull request of the work, of this pipeline or the one before.
    fn pull_request(self) -> Option<String> {
        let pipelines = &self.0.pipelines;
        let now = pipelines.pipeline_run.as_deref();
        let before = || pipelines.last.as_deref()?.pull_request.clone();
        now.and_then(|run| run.pull_request.clone()).or_else(before)
    }

    /// The facts about the open gate.
    pub(crate) fn open_gate_facts(self) -> Option<GateFacts> {
        let Gate {
            id,
            subject,
            reason,
            choices,
            ..
        } = self.0.gates.open.as_ref()?;
        // A notification can show what to choose from.
        let asked = self.0.gates.open.as_ref();
        let asked = asked.and_then(|gate| self.0.permissions().asked_at(gate));
        let question = asked.and_then(AgentPermissionRequest::question);
        let details = question.map_or_else(Vec::new, AgentQuestion::lines_to_read);
        let lines: Vec<String> = [reason.clone()].into_iter().chain(details).collect();
        Some(GateFacts {
            gate: *id,
            about: subject.kind(),
            reason: lines.join("\n"),
            choices: choices.clone(),
            answer_command: match self.0.presence {
                UserPresence::Attended => format!("creel gate answer -s {} {id}", self.0.name),
                UserPresence::Unattended => format!("creel resume {} --answer", self.0.name),
            },
            state: GateState::Opened,
            waits_for_user: self.0.permissions().gate_for_a_person().is_some(),
            answer: None,
        })
    }

    /// The facts for a hook that starts now: the gate may have closed while an earlier hook was
    /// running.
    pub(crate) fn gate_facts_now(self, facts: &GateFacts) -> GateFacts {
        let is_open = self.0.gates.open_gate_named(facts.gate).is_some();
        GateFacts {
            waits_for_user: facts.waits_for_user && is_open,
            ..facts.clone()
        }
    }

    /// The names of the hooks that run when a point is reached now, in order.
    pub(crate) fn due(self, point: HookPoint, cause: &DispatchCause) -> Vec<String> {
        let mut hooks = hooks::due(self.0.plan(), &self.0.hooks, point);
        hooks.retain(|name| {
            let spec = self.0.plan().hook(point, name);
            spec.is_none_or(|spec| self.starts(spec, cause))
        });
        hooks
    }

    /// Records which hooks will run at a point. Empty if there are none.
    pub(crate) fn announce(self, point: HookPoint, cause: &DispatchCause) -> EngineOutput {
        let hooks = self.due(point, cause);
        if hooks.is_empty() {
            return EngineOutput::default();
        }
        let iteration = (self.0.iterations.current > 0).then_some(self.0.iterations.current);
        EngineOutput::record(Event::Hook(HookEvent::Due {
            point,
            iteration,
            hooks,
            task: None,
            by_hand: false,
            ask: None,
            prompt: None,
            answer: None,
        }))
    }

    pub(crate) fn start_hook(self, dispatch: &HookDispatch, hook: &str) -> EngineOutput {
        let Some(spec) = self.0.plan().hook(dispatch.point, hook) else {
            return EngineOutput::default();
        };
        let run = self.0.hooks.last_run.next();
        let facts = self.claude_facts(spec, dispatch);
        let attempt = facts.attempt.unwrap_or(0);
        let output_limit = match spec.action {
            HookAction::Gatekeeper(_) => CHANGE_LIMIT,
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Builtin(_) => {
                let limit = self.0.plan().output_limit;
                let is_claudes = spec.claude.is_some();
                if is_claudes {
                    limit.min(OUTPUT_LIMIT)
                } else {
                    limit
                }
            }
        };
        let job = HookJob {
            run,
            point: dispatch.point,
            hook: spec.clone(),
            output_limit,
            facts,
            clean: dispatch.tests_of().map(|of| Box::new(self.clean_run(of))),
        };
        EngineOutput::record(Event::Hook(HookEvent::Started {
            run,
            point: dispatch.point,
            hook: hook.to_owned(),
            iteration: self.0.iterations.current,
            attempt,
            beside: self
                .0
                .beside()
                .dispatches_beside()
                .any(|beside| beside == dispatch),
            of: None,
            tests_of: dispatch.tests_of(),
        }))
        .then(Effect::RunHook(Box::new(job)))
    }

    /// Where a check runs with these test files.
    fn clean_run(self, of: TestSource) -> CleanRunJob {
        let worktree = self.0.plan().worktree.clone().unwrap_or_default();
        let files = &self.0.iterations.all_files;
        CleanRunJob {
            of,
            base: files
                .since()
                .filter(|_| !files.may_miss_commits())
                .map(str::to_owned),
            copy: worktree.copy,
            setup: worktree.setup,
        }
    }

    pub(crate) fn facts(self, dispatch: &HookDispatch) -> HookFacts {
        let offered =
            |name| crate::engine::hooks::template::offered(dispatch.point).contains(&name);
        let mut facts = HookFacts::default();
        match &dispatch.cause {
            DispatchCause::ByHand if dispatch.point == HookPoint::OnGate => {
                facts.gate = self.open_gate_facts().map(Box::new);
            }
            DispatchCause::Lifecycle
            | DispatchCause::ByHand
            | DispatchCause::Verification
            | DispatchCause::CleanRun(_) => {
                facts.task = self.task_at(dispatch.point);
            }
            DispatchCause::Error(error) => facts.error = Some(error.clone()),
            DispatchCause::Prompt(prompt) => facts.prompt = Some(prompt.clone()),
            DispatchCause::Task(task) => facts.task = Some(task.clone()),
            DispatchCause::Tool(tool) if tool.question.is_some() => {
                facts.question.clone_from(&tool.question);
            }
            DispatchCause::Tool(tool) => {
                facts.tool = Some(tool.call.clone().into());
                facts.whole_input_of = tool.ask.filter(|_| tool.whole);
            }
            DispatchCause::Gate(gate) => facts.gate = Some(Box::new(self.gate_facts_now(gate))),
            DispatchCause::Resumed => {}
        }
        HookFacts {
            session: self.0.name.clone(),
            iteration: offered("iteration").then_some(self.0.iterations.current),
            attempt: offered("attempt")
                .then(|| self.repairs_at(dispatch.point).unwrap_or(self.0.retry.used)),
            agent_output: (!self.0.turns.agent_text.is_empty())
                .then(|| self.0.turns.agent_text.clone()),
            files_modified: self.0.iterations.files_offered(dispatch.point),
            submission: self.submission_at(dispatch.point),
            ..facts
        }
    }

    /// The hook that just broke, if the user has to decide about it: a check that cannot start, at
    /// once; another hook that broke for at least the second time in a row, if the session is
    /// attended.
    pub(crate) fn broken_again(self, dispatch: &'a HookDispatch) -> Option<&'a FinishedRun> {
        let last = dispatch.done.last().filter(|done| done.judgement.broken)?;
        let hook = HookRef::new(dispatch.point, &last.hook);
        let needs_user = match dispatch.point.rules().broken_gate {
            BrokenGate::AtOnce => !last.advisory,
            BrokenGate::Repeated => {
                self.0.presence == UserPresence::Attended && self.0.hooks.is_broken_again(&hook)
            }
            BrokenGate::Never => false,
        };
        (needs_user && !self.0.hooks.is_off(&hook)).then_some(last)
    }

    /// The gate for a hook that needs the user, unless the user was already asked.
    pub(crate) fn escalate_failures(self, dispatch: &HookDispatch) -> Option<EngineOutput> {
        let asked = dispatch.was_asked(DispatchQuestion::Escalation)
            || dispatch.point == HookPoint::SessionEnd;
        let is_on = |hook: &str| !self.0.hooks.is_off(&HookRef::new(dispatch.point, hook));
        let mut escalating = dispatch
            .done
            .iter()
            .filter(|done| done.judgement.escalates && is_on(&done.hook));
        let first = escalating.next().filter(|_| !asked)?;
        let reasons: Vec<String> = [first]
            .into_iter()
            .chain(escalating)
            .map(|done| done.needs_a_person(dispatch.point))
            .collect();
        let subject = GateSubject::Escalation {
            failed: Some(GateSubject::failed_hook(&first.hook, first.run)),
        };
        Some(self.0.gates.open_gate(subject, reasons.join("; ")))
    }
}

/// The notification of a gate. None if it does not wait for the user.
fn notification_of(gate: &GateFacts) -> Option<&'static str> {
    (gate.state == GateState::Opened && gate.waits_for_user).then_some(match gate.about {
        GateKind::Permission => "permission_prompt",
        GateKind::Question => "elicitation_dialog",
        GateKind::FinalDelivery
        | GateKind::Delivery
        | GateKind::Review
        | GateKind::RetryLimit
        | GateKind::Escalation
        | GateKind::Errors
        | GateKind::BrokenHook
        | GateKind::Budget
        | GateKind::UsageLimit
        | GateKind::Tampered
        | GateKind::Submit
        | GateKind::Merge
        | GateKind::Proposal => "idle_prompt",
    })
}

impl HookRules<'_> {
    /// Whether a hook runs on this occasion. Only hooks of Claude Code select occasions.
    pub(crate) fn starts(self, spec: &HookSpec, cause: &DispatchCause) -> bool {
        let Some(handler) = &spec.claude else {
            return *cause != DispatchCause::Resumed;
        };
        if handler.is_left_to(self.0.agent_choice().agent()) {
            return false;
        }
        match (handler.event, cause, self.word(handler.event, cause)) {
            // It closed, or the config answers it.
            (ClaudeEvent::Notification, DispatchCause::Gate(_), None) => false,
            (_, _, word) => handler.selects(word),
        }
    }

    /// What a matcher of the event compares.
    fn word(self, event: ClaudeEvent, cause: &DispatchCause) -> Option<&'static str> {
        match event {
            ClaudeEvent::SessionStart if *cause == DispatchCause::Resumed => Some("resume"),
            ClaudeEvent::SessionStart => Some("startup"),
            ClaudeEvent::StopFailure => Some(self.0.turns.last_cause.name()),
            ClaudeEvent::Notification => match cause {
                DispatchCause::Gate(gate) => notification_of(gate),
                DispatchCause::Lifecycle
                | DispatchCause::Error(_)
                | DispatchCause::Prompt(_)
                | DispatchCause::Task(_)
                | DispatchCause::Tool(_)
                | DispatchCause::ByHand
                | DispatchCause::Resumed
                | DispatchCause::CleanRun(_)
                | DispatchCause::Verification => None,
            },
            ClaudeEvent::SessionEnd => Some("other"),
            ClaudeEvent::UserPromptSubmit
            | ClaudeEvent::Stop
            | ClaudeEvent::TaskCompleted
            | ClaudeEvent::Elicitation
            | ClaudeEvent::ElicitationResult
            | ClaudeEvent::Tool(_) => None,
        }
    }

    /// The facts that only Claude Code's hooks get.
    pub(crate) fn claude_facts(self, spec: &HookSpec, dispatch: &HookDispatch) -> HookFacts {
        let facts = self.facts(dispatch);
        let Some(handler) = &spec.claude else {
            return facts;
        };
        // By hand, and in a plan of an earlier version, it runs before there is a prompt.
        let prompt = (handler.event == ClaudeEvent::UserPromptSubmit).then(|| {
            let waits = facts.prompt.as_ref().map(|prompt| prompt.text.clone());
            waits.unwrap_or_else(|| self.0.prompts().preview())
        });
        HookFacts {
            claude: Some(Box::new(ClaudeFacts {
                word: self.word(handler.event, &dispatch.cause).map(str::to_owned),
                permission_mode: self.permission_mode().to_owned(),
                prompt,
            })),
            ..facts
        }
    }

    /// In Claude Code's words: the agent's own mode, else what creel answers.
    fn permission_mode(self) -> &'static str {
        let plan = self.0.plan();
        let AgentSpec::Acp { mode, known, .. } = &plan.agent_spec else {
            return "acceptEdits";
        };
        let mode = mode.as_ref().or(known.options.get("mode"));
        let own = mode.and_then(|mode| MODES.into_iter().find(|known| known == mode));
        own.unwrap_or(match plan.gates.permissions {
            PermissionPolicy::Ask => "default",
            PermissionPolicy::Allow => "bypassPermissions",
            PermissionPolicy::Deny => "dontAsk",
        })
    }
}

const MODES: [&str; 6] = [
    "default",
    "plan",
    "acceptEdits",
    "auto",
    "dontAsk",
    "bypassPermissions",
];

#[derive(Debug, Clone, Copy)]
pub struct SideRules<'a>(pub(crate) &'a SessionState);

impl SideRules<'_> {
    /// The gate for the escalation of an agent loop, if no stop evaluation follows that could
    /// handle it: the turn failed, or the session's loop has ended.
    pub(crate) fn take_up_a_loop(self) -> Option<EngineOutput> {
        let (_, _, reason) = self.0.stop.escalated.as_ref()?;
        Some(
            self.0
                .gates
                .open_gate(GateSubject::Escalation { failed: None }, reason.clone()),
        )
    }

    pub(crate) fn proceed_gate_hooks(self) -> EngineOutput {
        let GateHooks {
            waiting, dispatch, ..
        } = &self.0.gate_hooks;
        match (dispatch, waiting.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| {
                    self.0.hook_rules().start_hook(dispatch, hook)
                })
            }
            (None, Some(notice)) => {
                let (hooks, by_hand) = match notice {
                    GateNotice::Changed(facts) => {
                        let cause = DispatchCause::Gate(facts.clone());
                        let rules = self.0.hook_rules();
                        (rules.due(HookPoint::OnGate, &cause), false)
                    }
                    GateNotice::ByHand(wanted) => {
                        let known = self.0.plan().hook(HookPoint::OnGate, wanted);
                        (
                            known.map(|spec| spec.name.clone()).into_iter().collect(),
                            true,
                        )
                    }
                };
                let iteration =
                    (self.0.iterations.current > 0).then_some(self.0.iterations.current);
                EngineOutput::record(Event::Hook(HookEvent::Due {
                    point: HookPoint::OnGate,
                    iteration,
                    hooks,
                    task: None,
                    by_hand,
                    ask: None,
                    prompt: None,
                    answer: None,
                }))
            }
            (Some(_) | None, _) => EngineOutput::default(),
        }
    }

    /// The gate for a hook that stopped the session while the agent worked, unless the session ends
    /// anyway.
    pub(crate) fn ask_about_a_stop(self) -> Option<EngineOutput> {
        let phase = &self.0.phase;
        let ends = match phase {
            Phase::Exit(ending) => !ending.ends_well(),
            Phase::Ended(_) => true,
            Phase::Hooks(_)
            | Phase::Due(_)
            | Phase::Turn(_)
            | Phase::Settled(_)
            | Phase::Between
            | Phase::Judging(_)
            | Phase::Escalated(_)
            | Phase::Pipeline
            | Phase::PipelineOnly(_)
            | Phase::Watching
            | Phase::Delivering => {
                let ending = self.0.ending.as_ref();
                phase.is_ending() || ending.is_some_and(|ending| !ending.ends_well())
            }
        };
        if ends || phase.is_in_flight() {
            return None;
        }
        self.ask_about(|failure| failure.point.is_in_turn())
    }

    /// The gate for a failed hook beside the lifecycle.
    pub(crate) fn ask_about_failure(self) -> Option<EngineOutput> {
        self.ask_about(|_| true)
    }

    fn ask_about(self, is_meant: impl Fn(&BesideFailure) -> bool) -> Option<EngineOutput> {
        let hook_of = |failure: &BesideFailure| HookRef::new(failure.point, &failure.hook);
        let matters = |failure: &BesideFailure| {
            let is_still_broken = || {
                self.0.presence == UserPresence::Attended
                    && self.0.hooks.is_broken_again(&hook_of(failure))
            };
            failure.broken_for.is_none() || is_still_broken()
        };
        let mut waiting = self
            .0
            .side
            .failures
            .iter()
            .filter(|failure| is_meant(failure) && !self.0.hooks.is_off(&hook_of(failure)));
        let failure = waiting.find(|failure| matters(failure))?;
        Some(
            self.0
                .gates
                .open_gate(failure.subject(), failure.reason.clone()),
        )
    }

    pub(crate) fn proceed_side(self) -> EngineOutput {
        if self.0.beside().task_hooks_wait() {
            return EngineOutput::default();
        }
        match (&self.0.side.dispatch, self.0.side.queue.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| {
                    self.0.hook_rules().start_hook(dispatch, hook)
                })
            }
            (None, Some(job)) => {
                // Recorded even if no hook is left: the record removes the job from the queue.
                let (point, hooks, task) = match job {
                    SideJob::Task { task, depth } if self.0.side.is_cut(*depth) => {
                        return EngineOutput::record(Event::warning(cut_off(&task.id, *depth)))
                            .and(Event::Hook(HookEvent::Due {
                                point: HookPoint::OnTaskComplete,
                                iteration: Some(self.0.iterations.current),
                                hooks: Vec::new(),
                                task: Some(task.id.clone()),
                                by_hand: false,
                                ask: None,
                                prompt: None,
                                answer: None,
                            }));
                    }
                    SideJob::Task { task, .. } => {
                        let point = HookPoint::OnTaskComplete;
                        (
                            point,
                            hooks::due(self.0.plan(), &self.0.hooks, point),
                            Some(task.id.clone()),
                        )
                    }
                    SideJob::Again(task, again) => {
                        let point = HookPoint::OnTaskComplete;
                        let mut hooks = hooks::due(self.0.plan(), &self.0.hooks, point);
                        hooks.retain(|hook| hook == again);
                        (point, hooks, Some(task.id.clone()))
                    }
                    SideJob::Resumed(hook) => {
                        let point = HookPoint::SessionStart;
                        let mut hooks = self.0.hook_rules().due(point, &DispatchCause::Resumed);
                        hooks.retain(|due| due == hook);
                        (point, hooks, None)
                    }
                    SideJob::ByHand(HookRef { point, hook }) => {
                        let runs = self.0.beside().runs_beside(*point, hook);
                        (
                            *point,
                            runs.then(|| hook.clone()).into_iter().collect(),
                            None,
                        )
                    }
                };
                let (iteration, by_hand) = (Some(self.0.iterations.current), task.is_none());
                EngineOutput::record(Event::Hook(HookEvent::Due {
                    point,
                    iteration,
                    hooks,
                    task,
                    by_hand,
                    ask: None,
                    prompt: None,
                    answer: None,
                }))
            }
            (Some(_) | None, _) => EngineOutput::default(),
        }
    }
}
