//! Submitting and merging: checks in order, repairs by the agent in between, and the hooks that
//! follow.
//!
//! One state machine for both; they differ only in [`PipelineKind`]. Owns the transitions of a
//! pipeline. Does not know what a check does: see [`super::hooks`] for the runs, and [`review`] for
//! reviews by agents.
//!
//! # Invariants
//! - A pipeline ends: the agent repairs at most as often as the plan allows, and beyond that only
//!   if the user agrees.
//! - The hooks after a pipeline's checks run only when every check has passed or the user skipped
//!   it; a check before a merge cannot be skipped.
//! - Whatever fails, the work stays where it is.
//! - The commit that is submitted or merged after a review is the commit that was reviewed: a
//!   repair is reviewed again, then `merge_pr` pushes it to the pull request.

pub(crate) mod apply;
pub mod event;
pub mod kind;
pub mod review;
pub mod state;

use crate::{
    engine::{
        effect::{Effect, ExitReason},
        event::{
            Actor, ActorKind, Event, HookEvent, HookFinished, PipelineEvent, SessionEvent,
            SessionOutcome, UserPresence,
        },
        gate::{kind::GateChoice, subject::GateSubject},
        hooks::{
            self,
            dispatch::{FinishedRun, HookDispatch},
            point::HookPoint,
            verdict::Verdict,
        },
        output::EngineOutput,
        policy::{HookAction, HookSpec, SubmitUntil},
        refusal::Refusal,
        session::{
            SessionState,
            phase::{Phase, STOPPED},
        },
        stop::{context::Promise, settled::agent_words},
        submit::{
            kind::{PipelineKind, PipelineOutcome},
            state::{PipelineRun, PipelineState, PipelineStepState, ReturnTo},
        },
        verify::{WorkMeasurement, base_tests::CleanRun, rules::VerificationStep},
    },
    text::shortened,
};

/// The longest title of a pull request, in characters.
const TITLE: usize = 72;

/// The first line of a goal, truncated.
pub(crate) fn title(goal: &str) -> String {
    let line = goal
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let line = line.trim_start_matches('#').trim_start();
    if line.chars().count() <= TITLE {
        return line.to_owned();
    }
    line.chars().take(TITLE - 1).chain(['…']).collect()
}

fn outcome_of_pipeline(outcome: PipelineOutcome, left: Option<ActorKind>) -> SessionOutcome {
    match (outcome, left) {
        (PipelineOutcome::Done, _) => SessionOutcome::Complete,
        (PipelineOutcome::Failed, Some(ActorKind::Policy | ActorKind::Timeout)) => {
            SessionOutcome::Escalated
        }
        (PipelineOutcome::Failed, _) => SessionOutcome::Aborted,
        (PipelineOutcome::Cancelled, _) => SessionOutcome::Cancelled,
    }
}

/// What the agent has to repair before a submit or a merge goes on.
fn repair_prompt(pipeline: PipelineKind, check: &str, text: &str) -> String {
    let name = pipeline.name();
    let done = match pipeline {
        PipelineKind::Submit => "submitted",
        PipelineKind::Merge => "merged",
    };
    format!(
        "[Check failed]: the work is to be {done}, and `{check}` holds it. Repair what it says and commit what belongs to \
         the task; then every check before the {name} runs again.\n\n{text}"
    )
}

impl HookSpec {
    /// Whether it can push or merge. The other built-in hooks only prepare or read the work.
    pub fn can_publish(&self) -> bool {
        match &self.action {
            HookAction::Builtin(call) => {
                !matches!(call.name.as_str(), "rebase_on_main" | "run_tests")
            }
            HookAction::Gatekeeper(_) => false,
            HookAction::Command(_) | HookAction::Exec(_) => true,
        }
    }
}

impl FinishedRun {
    /// Whether it blocks a pipeline.
    pub(super) fn holds(&self) -> bool {
        self.judgement.verdict == Verdict::Block || self.judgement.escalates
    }
}

/// Why a check failed, in a few words.
fn why(failed: &FinishedRun) -> String {
    let output = failed
        .message
        .as_deref()
        .and_then(|message| message.lines().find(|line| !line.trim().is_empty()));
    let line = output
        .or(failed.judgement.headline.as_deref())
        .unwrap_or("it failed");
    shortened(line.trim(), 300)
}

/// How a pipeline ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PipelineEnd {
    pub(crate) outcome: PipelineOutcome,
    pub(crate) by: Option<Actor>,
    pub(crate) reason: String,
    /// How the session ends because of it. None: as it would without a submit.
    pub(crate) session: Option<SessionOutcome>,
    /// The merge commit.
    pub(crate) merged: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub struct PipelineRules<'a>(pub(crate) &'a SessionState);

impl<'a> PipelineRules<'a> {
    /// An actor requests a submit or a merge of a running session.
    pub(crate) fn want_pipeline(self, pipeline: PipelineKind, by: &Actor) -> EngineOutput {
        match &self.0.pipelines {
            PipelineState { wanted: None, .. }
                if self.0.phase == Phase::Watching && pipeline == PipelineKind::Merge =>
            {
                EngineOutput::record(Event::Pipeline(PipelineEvent::Requested {
                    pipeline,
                    by: by.clone(),
                }))
            }
            PipelineState {
                pipeline_run: Some(pipeline_run),
                ..
            } => EngineOutput::refuse(Refusal::PipelineRunning(pipeline_run.pipeline)),
            PipelineState {
                wanted: Some(wanted),
                ..
            } => EngineOutput::refuse(Refusal::PipelineRequested(*wanted)),
            PipelineState { .. } if self.0.ending.is_some() => {
                EngineOutput::refuse(Refusal::PipelineWhileEnding(pipeline))
            }
            PipelineState { .. } => {
                EngineOutput::record(Event::Pipeline(PipelineEvent::Requested {
                    pipeline,
                    by: by.clone(),
                }))
            }
        }
    }

    /// Starts a submit or a merge in a session that has ended.
    pub(crate) fn take_up_pipeline(
        self,
        pipeline: PipelineKind,
        until_merged: bool,
        presence: UserPresence,
    ) -> EngineOutput {
        if self.0.phase.outcome().is_none() {
            return EngineOutput::refuse(Refusal::SessionNotEnded);
        }
        EngineOutput::record(Event::Pipeline(PipelineEvent::Started {
            pipeline,
            presence,
            until_merged: self.waits_for_merge(pipeline) || until_merged,
        }))
    }

    pub(crate) fn begin_pipeline(self, pipeline: PipelineKind) -> EngineOutput {
        EngineOutput::record(Event::Pipeline(PipelineEvent::Started {
            pipeline,
            presence: self.0.presence,
            until_merged: self.waits_for_merge(pipeline),
        }))
    }

    /// Whether the plan wants the session to wait until the pull request is merged.
    fn waits_for_merge(self, pipeline: PipelineKind) -> bool {
        pipeline == PipelineKind::Submit && self.0.plan().submit.watch.until == SubmitUntil::Merged
    }

    /// A requested pipeline begins between two iterations.
    pub(crate) fn begin_between(self) -> Option<EngineOutput> {
        self.0
            .pipelines
            .wanted
            .map(|pipeline| self.begin_pipeline(pipeline))
    }

    /// Starts or restarts the pipeline's checks.
    pub(crate) fn proceed_pipeline(self) -> EngineOutput {
        let Some(pipeline_run) = &self.0.pipelines.pipeline_run else {
            return EngineOutput::default();
        };
        if let Some(question) = self.question(pipeline_run) {
            return question;
        }
        if let Some(waits) = self.0.watch_rules().resume_watch(pipeline_run) {
            return waits;
        }
        let announced = self.announce_steps(pipeline_run, pipeline_run.pipeline.before());
        if announced.is_empty() {
            self.all_passed(pipeline_run)
        } else {
            announced
        }
    }

    /// The gate for a question that the agent asked instead of a repair, or with it.
    fn question(self, pipeline_run: &PipelineRun) -> Option<EngineOutput> {
        let needs_user = |promise: &Promise| *promise != Promise::Complete;
        let promises = Promise::made_in(&self.0.turns.agent_text, &self.0.turns.prompt);
        if !pipeline_run.unheard || !promises.iter().any(needs_user) {
            return None;
        }
        let pipeline = pipeline_run.pipeline;
        let hook = pipeline_run
            .steps
            .iter()
            .find(|step| step.state == PipelineStepState::Failed);
        let subject = GateSubject::Pipeline {
            pipeline,
            hook: hook.map(|step| step.hook.clone()).unwrap_or_default(),
        };
        let words = agent_words(&self.0.turns.agent_text).unwrap_or_default();
        let choices = subject
            .kind()
            .choices()
            .into_iter()
            .filter(|choice| *choice != GateChoice::Skip)
            .collect();
        Some(self.0.gates.open_gate_with(
            subject,
            format!("the agent asks about the {}: {words}", pipeline.name()),
            choices,
        ))
    }

    pub(crate) fn announce_steps(
        self,
        pipeline_run: &PipelineRun,
        point: HookPoint,
    ) -> EngineOutput {
        let mut hooks = hooks::due(self.0.plan(), &self.0.hooks, point);
        hooks.retain(|hook| !pipeline_run.skipped.contains(hook));
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

    pub(crate) fn all_passed(self, pipeline_run: &PipelineRun) -> EngineOutput {
        // The hooks after a submit run once, and not after each push; those after a merge not while
        // the forge's queue has it.
        let is_again = pipeline_run.watch.is_some() && pipeline_run.merged.is_none();
        let announced = self.announce_steps(pipeline_run, pipeline_run.pipeline.after());
        if announced.is_empty() || is_again {
            self.ended_well(pipeline_run)
        } else {
            announced
        }
    }

    /// Everything has passed: the session waits for the merge, or the pipeline ends.
    fn ended_well(self, pipeline_run: &PipelineRun) -> EngineOutput {
        if let Some(waits) = self.0.watch_rules().begin_watch(pipeline_run) {
            return waits;
        }
        // Without anything to submit, nothing waits to be merged.
        let has_submitted = pipeline_run
            .steps
            .iter()
            .any(|step| step.state == PipelineStepState::Passed);
        let cannot_wait = pipeline_run.until == SubmitUntil::Merged
            && pipeline_run.back != ReturnTo::Loop
            && pipeline_run.pull_request.is_none()
            && pipeline_run.merged.is_none();
        if has_submitted && cannot_wait {
            let pipeline = pipeline_run.pipeline;
            let subject = GateSubject::Pipeline {
                pipeline,
                hook: String::new(),
            };
            let reason = "the session should wait for the merge, but no hook before the submit said \
                          which pull request it is";
            let choices = [GateChoice::Retry, GateChoice::Send, GateChoice::Leave];
            return self
                .0
                .gates
                .open_gate_with(subject, reason.to_owned(), choices.to_vec());
        }
        self.end_pipeline(pipeline_run, PipelineOutcome::Done)
    }

    /// The hooks of one of a pipeline's points have run.
    pub(crate) fn conclude_pipeline(
        self,
        dispatch: &HookDispatch,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        let Some(pipeline_run) = &self.0.pipelines.pipeline_run else {
            return EngineOutput::default();
        };
        if dispatch.point == pipeline_run.pipeline.after() {
            return self.ended_well(pipeline_run);
        }
        if dispatch.point == HookPoint::AfterMerge {
            return self.0.watch_rules().end_merged();
        }
        let Some(failed) = self.failed_check(dispatch) else {
            // The last steps may have changed the work, too.
            return self
                .verify_work(pipeline_run, measured)
                .unwrap_or_else(|| self.all_passed(pipeline_run));
        };
        let limit = self.0.plan().submit.remediation_attempts;
        let reason = why(failed);
        // The agent cannot repair a check that does not run at all.
        let is_for_the_agent = failed.remediation.is_some() && !failed.judgement.broken;
        if is_for_the_agent && !failed.judgement.escalates && pipeline_run.used < limit {
            let (pipeline, hook, used) = (
                pipeline_run.pipeline,
                failed.hook.clone(),
                pipeline_run.used + 1,
            );
            return EngineOutput::record(Event::Pipeline(PipelineEvent::RemediationCounted {
                pipeline,
                used,
                limit,
                hook,
                reason,
                text: self.remediation(),
            }));
        }
        let reason = format!(
            "`{1}` blocks the {0}: {reason}",
            pipeline_run.pipeline.name(),
            failed.hook
        );
        let watch = self.0.watch_rules();
        if let Some(waits) = watch.wait_after(pipeline_run.pipeline, &reason) {
            return waits;
        }
        let (pipeline, hook) = (pipeline_run.pipeline, failed.hook.clone());
        self.0
            .gates
            .open_gate(GateSubject::Pipeline { pipeline, hook }, reason)
    }

    /// The check that failed. A check that was disabled since does not count.
    pub(crate) fn failed_check(self, dispatch: &'a HookDispatch) -> Option<&'a FinishedRun> {
        dispatch.held_by(&|hook| self.0.hooks.is_off(hook))
    }

    /// The instructions for the agent about the failed check, if the agent can repair it.
    pub fn remediation(self) -> Option<String> {
        let pipeline_run = self.0.pipelines.pipeline_run.as_ref()?;
        let failed = self.failed_check(self.0.phase.dispatch()?)?;
        Some(repair_prompt(
            pipeline_run.pipeline,
            &failed.hook,
            failed.remediation.as_deref()?,
        ))
    }

    /// Whatever changed the work since the session's checks last ran, they run again before a hook
    /// that can publish it. None if the hook can start.
    pub(crate) fn verify_before(
        self,
        dispatch: &HookDispatch,
        hook: &str,
        measured: Option<&WorkMeasurement>,
    ) -> Option<EngineOutput> {
        let pipeline_run = self
            .0
            .pipelines
            .pipeline_run
            .as_ref()
            .filter(|pipeline_run| dispatch.point == pipeline_run.pipeline.before())?;
        let publishes = self.0.plan().hook(dispatch.point, hook)?.can_publish();
        if publishes {
            self.verify_work(pipeline_run, measured)
        } else {
            None
        }
    }

    /// The next step towards verified work: the checks, a repair by the agent, or a gate. None if
    /// it is verified.
    fn verify_work(
        self,
        pipeline_run: &PipelineRun,
        measured: Option<&WorkMeasurement>,
    ) -> Option<EngineOutput> {
        let verification = self.0.verification();
        if let VerificationStep::Next(step) = verification.proceed(measured, &pipeline_run.waived) {
            return Some(step);
        }
        let open = verification.open(&pipeline_run.waived).into_iter().next();
        let Some((check, status)) = open else {
            return self.0.test_rules().compare(measured);
        };
        let (pipeline, limit) = (
            pipeline_run.pipeline,
            self.0.plan().submit.remediation_attempts,
        );
        let feedback = verification.feedback_about(&check, &status);
        if let Some(feedback) = feedback.filter(|_| pipeline_run.used < limit) {
            let (used, reason) = (pipeline_run.used + 1, shortened(&feedback.reason, 300));
            let text = Some(repair_prompt(pipeline, &check.name, &feedback.text));
            let hook = check.name;
            let counted = PipelineEvent::RemediationCounted {
                pipeline,
                used,
                limit,
                hook,
                reason,
                text,
            };
            return Some(EngineOutput::record(Event::Pipeline(counted)));
        }
        let why = verification.describe(&check, &status);
        let reason = format!(
            "the work is not verified, so the {} waits: {why}",
            pipeline.name()
        );
        Some(self.0.gates.open_gate(
            GateSubject::Pipeline {
                pipeline,
                hook: check.name,
            },
            reason,
        ))
    }

    /// An actor stopped the session or left the pipeline, or the session ends for another reason:
    /// the pipeline ends with everything in progress.
    pub(crate) fn abandon_pipeline(self) -> Option<EngineOutput> {
        let pipeline_run = self.0.pipelines.pipeline_run.as_ref()?;
        let leaves = matches!(self.0.phase, Phase::Exit(_)) || pipeline_run.left.is_some();
        if !leaves && !self.0.steering.interrupted() {
            return None;
        }
        if self.0.phase.turn_in_flight().is_some() {
            return None;
        }
        if let Some(cut) = self.cut_review(pipeline_run) {
            return Some(cut);
        }
        if self
            .0
            .phase
            .dispatch()
            .is_some_and(|dispatch| dispatch.running.is_some())
        {
            return None;
        }
        if pipeline_run.watch.is_some() && pipeline_run.merged.is_none() {
            return Some(self.0.watch_rules().abandon(pipeline_run));
        }
        let outcome = match (pipeline_run.passed, &pipeline_run.left) {
            (_, Some(_)) => PipelineOutcome::Failed,
            (true, None) => PipelineOutcome::Done,
            (false, None) => PipelineOutcome::Cancelled,
        };
        Some(self.end_pipeline(pipeline_run, outcome))
    }

    pub(crate) fn end_pipeline(
        self,
        pipeline_run: &PipelineRun,
        outcome: PipelineOutcome,
    ) -> EngineOutput {
        let reason = match outcome {
            PipelineOutcome::Done => pipeline_run
                .message
                .clone()
                .unwrap_or_else(|| "every check has passed".into()),
            PipelineOutcome::Failed => pipeline_run
                .left
                .as_ref()
                .map(|(_, why)| why.clone())
                .unwrap_or_default(),
            PipelineOutcome::Cancelled => {
                if let Phase::Exit(ending) = &self.0.phase {
                    ending.reason.clone()
                } else {
                    STOPPED.into()
                }
            }
        };
        let end = PipelineEnd {
            outcome,
            by: pipeline_run.left_by().cloned(),
            reason,
            session: None,
            merged: pipeline_run.merged.clone(),
        };
        self.end_with(pipeline_run, end)
    }

    pub(crate) fn end_with(self, pipeline_run: &PipelineRun, end: PipelineEnd) -> EngineOutput {
        if self.0.beside().end_waits()
            && matches!(
                pipeline_run.back,
                ReturnTo::Ended(_) | ReturnTo::PipelineOnly
            )
        {
            return EngineOutput::default();
        }
        let PipelineEnd {
            outcome,
            by,
            reason,
            session,
            merged,
        } = end;
        let is_merged = merged.is_some() && outcome == PipelineOutcome::Done;
        let step = EngineOutput::record(Event::Pipeline(PipelineEvent::Ended {
            pipeline: pipeline_run.pipeline,
            outcome,
            reason: reason.clone(),
            by: by.clone(),
            pull_request: pipeline_run.pull_request.clone(),
            merged,
            ends: session,
        }));
        let (ended, reason) = match pipeline_run.back {
            ReturnTo::Loop | ReturnTo::End => return step,
            ReturnTo::Ended(_) | ReturnTo::PipelineOnly if session.is_some() => {
                (session.unwrap_or(SessionOutcome::Unverified), reason)
            }
            ReturnTo::Ended(before) => {
                let red = self
                    .0
                    .verification()
                    .red_check()
                    .filter(|_| before == SessionOutcome::Complete);
                let as_before = || {
                    let Some(ending) = self.0.ending.as_ref() else {
                        return (before, reason);
                    };
                    // An earlier wait for the merge ended the session. Now it is merged.
                    match ending.before.as_deref().filter(|_| is_merged) {
                        Some(end) => (end.outcome, format!("{}; {reason}", end.explanation())),
                        None => (before, ending.explanation().to_owned()),
                    }
                };
                red.map_or_else(as_before, |red| (SessionOutcome::Unverified, red.reason))
            }
            ReturnTo::PipelineOnly => (
                outcome_of_pipeline(outcome, by.map(|actor| actor.by)),
                reason,
            ),
        };
        // The pipeline's own record ends the session; this one is for its observers.
        let iterations = self.0.iterations.current;
        step.and(Event::Session(SessionEvent::Ended {
            outcome: ended,
            iterations,
            reason,
            lines: None,
            files: Vec::new(),
            submittable: false,
            checks: self.0.verification().outcomes(),
        }))
        .then(Effect::Leave(ExitReason::Ended))
    }

    pub(crate) fn cut_run(self, dispatch: &HookDispatch) -> Option<HookFinished> {
        let running = dispatch
            .running
            .as_ref()
            .filter(|_| !self.0.pipelines.is_under_review(dispatch))?;
        let tests_of = dispatch.tests_of().map(CleanRun::cut).map(Box::new);
        Some(HookFinished {
            tests_of,
            ..HookFinished::cut(dispatch.point, running)
        })
    }
}
