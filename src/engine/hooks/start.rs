//! Starts hooks with the facts that their point offers, and opens the gates for broken and
//! escalating ones.

use crate::engine::{
    conversation::AgentPermissionRequest,
    effect::{Effect, GateFacts, GateState, HookFacts, HookJob, SubmissionFacts, TaskFacts},
    event::{Event, HookEvent, UserPresence},
    gate::{Gate, subject::GateSubject},
    hooks::{
        dispatch::{DispatchCause, DispatchQuestion, FinishedRun, HookDispatch},
        point::{BrokenGate, HookPoint},
        resolve::{self, HookRef},
    },
    output::EngineOutput,
    policy::HookAction,
    question::AgentQuestion,
    session::SessionState,
    submit::{kind::PipelineKind, review::CHANGE_LIMIT, title},
    tasks::task::Task,
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
        }))
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
        let mut hooks = resolve::due(self.0.plan(), &self.0.hooks, point);
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
                self.0.plan().output_limit
            }
        };
        let job = HookJob {
            run,
            point: dispatch.point,
            hook: spec.clone(),
            output_limit,
            facts,
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
        }))
        .then(Effect::RunHook(Box::new(job)))
    }

    pub(crate) fn facts(self, dispatch: &HookDispatch) -> HookFacts {
        let offered =
            |name| crate::engine::hooks::template::offered(dispatch.point).contains(&name);
        let mut facts = HookFacts::default();
        match &dispatch.cause {
            DispatchCause::ByHand if dispatch.point == HookPoint::OnGate => {
                facts.gate = self.open_gate_facts().map(Box::new);
            }
            DispatchCause::Lifecycle | DispatchCause::ByHand | DispatchCause::Verification => {
                facts.task = self.task_at(dispatch.point);
            }
            DispatchCause::Error(error) => facts.error = Some(error.clone()),
            DispatchCause::Task(task) => facts.task = Some(task.clone()),
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
        let failed = dispatch.done.iter().find(|done| {
            done.judgement.escalates
                && !self
                    .0
                    .hooks
                    .is_off(&HookRef::new(dispatch.point, &done.hook))
        })?;
        let reason = || failed.needs_a_person(dispatch.point);
        (!asked).then(|| {
            self.0.gates.open_gate(
                GateSubject::Escalation {
                    failed: Some(GateSubject::failed_hook(&failed.hook, failed.run)),
                },
                reason(),
            )
        })
    }
}
