//! Starts hooks with the facts that their point offers, and opens the gates for broken and
//! escalating ones.

use crate::engine::{
    effect::{Effect, GateFacts, GateState, HookFacts, HookJob, SubmissionFacts, TaskFacts},
    event::{Event, HookEvent, SessionStarted, UserPresence},
    gate::{Gate, SessionGates, subject::GateSubject},
    hooks::{
        beside::BesideWork,
        dispatch::{DispatchCause, DispatchQuestion, FinishedRun, HookDispatch},
        point::{BrokenGate, HookPoint},
        resolve::{self, HookRef, HookState},
    },
    output::EngineOutput,
    permission::PermissionRules,
    policy::{HookAction, SessionPlan},
    retry::RetryState,
    session::iteration::IterationState,
    submit::{kind::PipelineKind, review::CHANGE_LIMIT, state::PipelineState, title},
    tasks::{SessionTasks, task::Task},
    turn::TurnState,
};

/// The context in which hooks are announced and started.
#[derive(Debug, Clone, Copy)]
pub struct HookRules<'a> {
    pub(crate) name: &'a str,
    pub(crate) began: &'a SessionStarted,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) presence: UserPresence,
    pub(crate) iterations: &'a IterationState,
    pub(crate) turns: &'a TurnState,
    pub(crate) retry: &'a RetryState,
    pub(crate) gates: &'a SessionGates,
    pub(crate) hooks: &'a HookState,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) pipelines: &'a PipelineState,
    pub(crate) permissions: PermissionRules<'a>,
    pub(crate) beside: BesideWork<'a>,
}

impl<'a> HookRules<'a> {
    /// How many times the agent repaired something, at the points of a pipeline.
    pub(crate) fn repairs_at(self, point: HookPoint) -> Option<u32> {
        PipelineKind::of(point).map(|_| {
            self.pipelines
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
        let tasks = self.tasks.graph.tasks();
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
        let goal = task.map_or(&self.began.prompt, |task| &task.goal);
        let deliverables = task.map_or(&[][..], |task| task.deliverables.as_slice());
        let list: String = deliverables
            .iter()
            .map(|deliverable| format!("\n- {deliverable}"))
            .collect();
        let submit = &self.plan.submit;
        Some(Box::new(SubmissionFacts {
            task: self.task_at(point),
            task_type: task
                .and_then(|task| task.kind.clone())
                .or_else(|| self.plan.task_type.clone()),
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
                .pipelines
                .pipeline_run
                .iter()
                .flat_map(|pipeline_run| pipeline_run.reviews.values().cloned())
                .collect(),
            reviewed: self
                .pipelines
                .pipeline_run
                .as_ref()
                .and_then(|pipeline_run| pipeline_run.reviewed.clone()),
            repaired: self
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
        } = self.gates.open.as_ref()?;
        Some(GateFacts {
            gate: *id,
            about: subject.kind(),
            reason: reason.clone(),
            choices: choices.clone(),
            answer_command: match self.presence {
                UserPresence::Attended => format!("creel gate answer -s {} {id}", self.name),
                UserPresence::Unattended => format!("creel resume {} --answer", self.name),
            },
            state: GateState::Opened,
            waits_for_user: self.permissions.gate_for_a_person().is_some(),
            answer: None,
        })
    }

    /// The facts for a hook that starts now: the gate may have closed while an earlier hook was
    /// running.
    pub(crate) fn gate_facts_now(self, facts: &GateFacts) -> GateFacts {
        let is_open = self.gates.open_gate_named(facts.gate).is_some();
        GateFacts {
            waits_for_user: facts.waits_for_user && is_open,
            ..facts.clone()
        }
    }

    /// Records which hooks will run at a point. Empty if there are none.
    pub(crate) fn announce(self, point: HookPoint) -> EngineOutput {
        let hooks = resolve::due(self.plan, self.hooks, point);
        if hooks.is_empty() {
            return EngineOutput::default();
        }
        let iteration = (self.iterations.current > 0).then_some(self.iterations.current);
        EngineOutput::record(Event::Hook(HookEvent::Due {
            point,
            iteration,
            hooks,
            task: None,
            by_hand: false,
        }))
    }

    pub(crate) fn start_hook(self, dispatch: &HookDispatch, hook: &str) -> EngineOutput {
        let Some(spec) = self.plan.hook(dispatch.point, hook) else {
            return EngineOutput::default();
        };
        let run = self.hooks.last_run.next();
        let facts = self.facts(dispatch);
        let attempt = facts.attempt.unwrap_or(0);
        let output_limit = match spec.action {
            HookAction::Gatekeeper(_) => CHANGE_LIMIT,
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Builtin(_) => {
                self.plan.output_limit
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
            iteration: self.iterations.current,
            attempt,
            beside: self
                .beside
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
            DispatchCause::Gate(gate) => facts.gate = Some(Box::new(self.gate_facts_now(gate))),
        }
        HookFacts {
            session: self.name.to_owned(),
            iteration: offered("iteration").then_some(self.iterations.current),
            attempt: offered("attempt")
                .then(|| self.repairs_at(dispatch.point).unwrap_or(self.retry.used)),
            agent_output: (!self.turns.agent_text.is_empty())
                .then(|| self.turns.agent_text.clone()),
            files_modified: self.iterations.files_offered(dispatch.point),
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
                self.presence == UserPresence::Attended && self.hooks.is_broken_again(&hook)
            }
            BrokenGate::Never => false,
        };
        (needs_user && !self.hooks.is_off(&hook)).then_some(last)
    }

    /// The gate for a hook that needs the user, unless the user was already asked.
    pub(crate) fn escalate_failures(self, dispatch: &HookDispatch) -> Option<EngineOutput> {
        let asked = dispatch.was_asked(DispatchQuestion::Escalation)
            || dispatch.point == HookPoint::SessionEnd;
        let failed = dispatch.done.iter().find(|done| {
            done.judgement.escalates
                && !self.hooks.is_off(&HookRef::new(dispatch.point, &done.hook))
        })?;
        let reason = || failed.needs_a_person(dispatch.point);
        (!asked).then(|| {
            self.gates.open_gate(
                GateSubject::Escalation {
                    failed: Some(GateSubject::failed_hook(&failed.hook, failed.run)),
                },
                reason(),
            )
        })
    }
}
