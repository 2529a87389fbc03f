//! Submitting and merging: checks in order, repairs by the agent in between, and the hooks that follow.
//!
//! One state machine for both; they differ only in [`PipelineKind`]. Owns the transitions of a pipeline. Does not know
//! what a check does: see [`super::hooks`] for the runs, and [`review`] for reviews by agents.
//!
//! # Invariants
//! - A pipeline ends: the agent repairs at most as often as the plan allows, and beyond that only if the user agrees.
//! - The hooks after a pipeline's checks run only when every check has passed or the user skipped it; a check before a
//!   merge cannot be skipped.
//! - Whatever fails, the work stays where it is.
//! - The commit that is submitted or merged after a review is the commit that was reviewed: a repair is reviewed again,
//!   then `merge_pr` pushes it to the pull request.

pub mod review;

pub(crate) mod apply;

use std::collections::{BTreeMap, BTreeSet};

use review::ReviewRun;
use serde::{Deserialize, Serialize};

use super::{
    EngineOutput,
    effect::{Effect, ExitReason},
    event::{Actor, ActorKind, Event, HookEvent, PipelineEvent, SessionEvent, SessionOutcome, UserPresence},
    hooks::{
        dispatch::{FinishedRun, HookDispatch},
        point::HookPoint,
        resolve,
        verdict::Verdict,
    },
    session::gate::GateKind,
    wording::shortened,
};
use crate::engine::{
    event::{HookFinished, SessionStarted},
    hooks::resolve::HookState,
    ids::RunId,
    policy::SessionPlan,
    refusal::Refusal,
    session::{
        gate::{GateDetails, SessionGates},
        iteration::IterationState,
        phase::{LoopEnd, Phase},
        prompt::PromptRules,
        side_jobs::BesideWork,
        steering::ControlState,
        turn::TurnState,
    },
    submit::review::GatekeeperReview,
    time::UnixTime,
};

/// The longest title of a pull request, in characters.
const TITLE: usize = 72;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineKind {
    Submit,
    Merge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineOutcome {
    /// Every check passed.
    Done,
    /// A check failed and was not repaired.
    Failed,
    /// The session was stopped first.
    Cancelled,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PipelineState {
    /// The pipeline in progress.
    pub course: Option<Box<PipelineRun>>,
    /// The pipeline that was requested but has not begun.
    pub wanted: Option<PipelineKind>,
    /// Whether the end of this loop was followed by a submit.
    pub followed: bool,
    pub last: Option<Box<FinishedPipeline>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PipelineRun {
    pub pipeline: PipelineKind,
    /// How many times a failed check was sent to the agent for repair.
    pub used: u32,
    /// Whether the agent was asked to repair something, by a check or by the user.
    pub repaired: bool,
    /// The hooks known so far, in order.
    pub steps: Vec<PipelineStep>,
    /// The checks that the user skipped.
    pub skipped: BTreeSet<String>,
    /// Whether all checks have passed.
    pub passed: bool,
    /// The actor that ended the pipeline after a failure, and the reason of the failure.
    pub left: Option<(Actor, String)>,
    /// The last message of a built-in hook.
    pub said: Option<String>,
    /// The URL of the pull request.
    pub pull_request: Option<String>,
    /// The merge commit.
    pub merged: Option<String>,
    /// The reviews, by gatekeeper.
    pub reviews: BTreeMap<String, String>,
    /// The reviewed commit, in this pass over the hooks.
    pub reviewed: Option<String>,
    /// The review in progress.
    pub review: Option<Box<ReviewRun>>,
    /// Where the session continues afterwards.
    pub back: ReturnTo,
}

/// One hook of a pipeline, as shown to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineStep {
    pub point: HookPoint,
    pub hook: String,
    pub state: PipelineStepState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineStepState {
    Waiting,
    Running,
    Passed,
    /// It had nothing to do.
    Idle,
    Failed,
    /// The user skipped it.
    Skipped,
}

/// Where a session continues when a pipeline has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnTo {
    Loop,
    End,
    /// Nowhere: the session had already ended with this outcome.
    Ended(SessionOutcome),
    /// Nowhere: the session exists only for the pipeline.
    Errand,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FinishedPipeline {
    pub pipeline: PipelineKind,
    pub outcome: PipelineOutcome,
    /// The actor that ended it after a failure.
    pub by: Option<ActorKind>,
    pub reason: String,
    /// The URL of the pull request.
    pub pull_request: Option<String>,
    /// The merge commit.
    pub merged: Option<String>,
    pub steps: Vec<PipelineStep>,
}

impl PipelineKind {
    pub const ALL: [Self; 2] = [Self::Submit, Self::Merge];

    /// The name in records and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Merge => "merge",
        }
    }

    /// The point of its checks.
    pub const fn before(self) -> HookPoint {
        match self {
            Self::Submit => HookPoint::BeforeSubmit,
            Self::Merge => HookPoint::BeforeMerge,
        }
    }

    /// The point of the hooks that follow.
    pub const fn after(self) -> HookPoint {
        match self {
            Self::Submit => HookPoint::AfterSubmit,
            Self::Merge => HookPoint::AfterMerge,
        }
    }

    const fn about(self) -> GateKind {
        match self {
            Self::Submit => GateKind::Submit,
            Self::Merge => GateKind::Merge,
        }
    }

    /// The pipeline that a point belongs to.
    pub fn of(point: HookPoint) -> Option<Self> {
        Self::ALL.into_iter().find(|pipeline| pipeline.before() == point || pipeline.after() == point)
    }
}

impl PipelineRun {
    fn left_by(&self) -> Option<&Actor> {
        self.left.as_ref().map(|(by, _)| by)
    }
}

impl PipelineState {
    pub fn is_open(&self) -> bool {
        self.course.is_some()
    }
}

impl FinishedPipeline {
    /// Whether it failed while no user could decide.
    pub fn waits_for_a_person(&self) -> bool {
        self.outcome == PipelineOutcome::Failed && matches!(self.by, Some(ActorKind::Policy | ActorKind::Timeout))
    }
}

/// The first line of a goal, truncated.
pub(crate) fn title(goal: &str) -> String {
    let line = goal.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = line.trim_start_matches('#').trim_start();
    if line.chars().count() <= TITLE {
        return line.to_owned();
    }
    line.chars().take(TITLE - 1).chain(['…']).collect()
}

fn errand_outcome(outcome: PipelineOutcome, left: Option<ActorKind>) -> SessionOutcome {
    match (outcome, left) {
        (PipelineOutcome::Done, _) => SessionOutcome::Complete,
        (PipelineOutcome::Failed, Some(ActorKind::Policy | ActorKind::Timeout)) => SessionOutcome::Escalated,
        (PipelineOutcome::Failed, _) => SessionOutcome::Aborted,
        (PipelineOutcome::Cancelled, _) => SessionOutcome::Cancelled,
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
    let said = failed.message.as_deref().and_then(|message| message.lines().find(|line| !line.trim().is_empty()));
    let line = said.or(failed.judgement.headline.as_deref()).unwrap_or("it failed");
    shortened(line.trim(), 300)
}

/// The next step of a submit or a merge.
#[derive(Debug, Clone, Copy)]
pub struct PipelineRules<'a> {
    pub(crate) began: &'a SessionStarted,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) presence: UserPresence,
    pub(crate) phase: &'a Phase,
    pub(crate) iterations: &'a IterationState,
    pub(crate) turns: &'a TurnState,
    pub(crate) gates: &'a SessionGates,
    pub(crate) hooks: &'a HookState,
    pub(crate) pipelines: &'a PipelineState,
    pub(crate) steering: &'a ControlState,
    pub(crate) ending: &'a Option<LoopEnd>,
    pub(crate) prompts: PromptRules<'a>,
    pub(crate) beside: BesideWork<'a>,
}

impl<'a> PipelineRules<'a> {
    /// An actor requests a submit or a merge of a running session.
    pub(crate) fn want_pipeline(self, pipeline: PipelineKind, by: &Actor) -> EngineOutput {
        match &self.pipelines {
            PipelineState { course: Some(course), .. } => {
                EngineOutput::refuse(Refusal::PipelineRunning(course.pipeline))
            }
            PipelineState { wanted: Some(wanted), .. } => EngineOutput::refuse(Refusal::PipelineRequested(*wanted)),
            PipelineState { .. } if self.ending.is_some() => {
                EngineOutput::refuse(Refusal::PipelineWhileEnding(pipeline))
            }
            PipelineState { .. } => {
                EngineOutput::record(Event::Pipeline(PipelineEvent::Requested { pipeline, by: by.clone() }))
            }
        }
    }

    /// Starts a submit or a merge in a session that has ended.
    pub(crate) fn take_up_pipeline(self, pipeline: PipelineKind, presence: UserPresence) -> EngineOutput {
        if self.phase.outcome().is_none() {
            return EngineOutput::refuse(Refusal::SessionNotEnded);
        }
        EngineOutput::record(Event::Pipeline(PipelineEvent::Started { pipeline, presence }))
    }

    pub(crate) fn begin_pipeline(self, pipeline: PipelineKind) -> EngineOutput {
        EngineOutput::record(Event::Pipeline(PipelineEvent::Started { pipeline, presence: self.presence }))
    }

    /// A requested pipeline begins between two iterations.
    pub(crate) fn begin_between(self) -> Option<EngineOutput> {
        self.pipelines.wanted.map(|pipeline| self.begin_pipeline(pipeline))
    }

    /// Starts or restarts the pipeline's checks.
    pub(crate) fn proceed_pipeline(self) -> EngineOutput {
        let Some(course) = &self.pipelines.course else { return EngineOutput::default() };
        let announced = self.announce_steps(course, course.pipeline.before());
        if announced.is_empty() { self.all_passed(course) } else { announced }
    }

    pub(crate) fn announce_steps(self, course: &PipelineRun, point: HookPoint) -> EngineOutput {
        let mut hooks = resolve::due(self.plan, self.hooks, point);
        hooks.retain(|hook| !course.skipped.contains(hook));
        if hooks.is_empty() {
            return EngineOutput::default();
        }
        let iteration = (self.iterations.current > 0).then_some(self.iterations.current);
        EngineOutput::record(Event::Hook(HookEvent::Due { point, iteration, hooks, task: None, by_hand: false }))
    }

    pub(crate) fn all_passed(self, course: &PipelineRun) -> EngineOutput {
        let announced = self.announce_steps(course, course.pipeline.after());
        if announced.is_empty() { self.end_pipeline(course, PipelineOutcome::Done) } else { announced }
    }

    /// The hooks of one of a pipeline's points have run.
    pub(crate) fn conclude_pipeline(self, dispatch: &HookDispatch) -> EngineOutput {
        let Some(course) = &self.pipelines.course else { return EngineOutput::default() };
        if dispatch.point == course.pipeline.after() {
            return self.end_pipeline(course, PipelineOutcome::Done);
        }
        let Some(failed) = self.failed_check(dispatch) else { return self.all_passed(course) };
        let limit = self.plan.submit.remediation_attempts;
        let reason = why(failed);
        // The agent cannot repair a check that does not run at all.
        let is_for_the_agent = failed.remediation.is_some() && !failed.judgement.broken;
        if is_for_the_agent && !failed.judgement.escalates && course.used < limit {
            let (pipeline, hook, used) = (course.pipeline, failed.hook.clone(), course.used + 1);
            return EngineOutput::record(Event::Pipeline(PipelineEvent::RemediationCounted {
                pipeline,
                used,
                limit,
                hook,
                reason,
            }));
        }
        let reason = format!("the {} is held by `{}`: {reason}", course.pipeline.name(), failed.hook);
        self.gates.open_gate(course.pipeline.about(), reason, GateDetails::hook(&failed.hook))
    }

    /// The check that failed. A check that was disabled since does not count.
    pub(crate) fn failed_check(self, dispatch: &'a HookDispatch) -> Option<&'a FinishedRun> {
        dispatch.held_by(&|hook| self.hooks.is_off(hook))
    }

    /// The instructions for the agent about the failed check, if the agent can repair it.
    pub fn remediation(self) -> Option<String> {
        let course = self.pipelines.course.as_ref()?;
        let failed = self.failed_check(self.phase.dispatch()?)?;
        let text = failed.remediation.as_deref()?;
        let name = course.pipeline.name();
        Some(format!(
            "[Check failed]: the work is to be {}, and `{}` holds it. Repair what it says and commit what belongs to the \
             task; then every check before the {name} runs again.\n\n{text}",
            match course.pipeline {
                PipelineKind::Submit => "submitted",
                PipelineKind::Merge => "merged",
            },
            failed.hook
        ))
    }

    /// An actor stopped the session or left the pipeline, or the session ends for another reason: the pipeline ends
    /// with everything in progress.
    pub(crate) fn abandon_pipeline(self) -> Option<EngineOutput> {
        let course = self.pipelines.course.as_ref()?;
        let leaves = matches!(self.phase, Phase::Exit(_)) || course.left.is_some();
        if !leaves && !self.steering.interrupted() {
            return None;
        }
        if self.phase.turn_in_flight().is_some() {
            return None;
        }
        if let Some(cut) = self.cut_review(course) {
            return Some(cut);
        }
        if self.phase.dispatch().is_some_and(|dispatch| dispatch.running.is_some()) {
            return None;
        }
        let outcome = match (course.passed, &course.left) {
            (true, _) => PipelineOutcome::Done,
            (false, Some(_)) => PipelineOutcome::Failed,
            (false, None) => PipelineOutcome::Cancelled,
        };
        Some(self.end_pipeline(course, outcome))
    }

    pub(crate) fn end_pipeline(self, course: &PipelineRun, outcome: PipelineOutcome) -> EngineOutput {
        if self.beside.end_waits() && matches!(course.back, ReturnTo::Ended(_) | ReturnTo::Errand) {
            return EngineOutput::default();
        }
        let reason = match outcome {
            PipelineOutcome::Done => course.said.clone().unwrap_or_else(|| "every check has passed".into()),
            PipelineOutcome::Failed => course.left.as_ref().map(|(_, why)| why.clone()).unwrap_or_default(),
            PipelineOutcome::Cancelled => "stopped by a person".into(),
        };
        let step = EngineOutput::record(Event::Pipeline(PipelineEvent::Ended {
            pipeline: course.pipeline,
            outcome,
            reason: reason.clone(),
            by: course.left_by().cloned(),
            pull_request: course.pull_request.clone(),
            merged: course.merged.clone(),
        }));
        let (ended, reason) = match course.back {
            ReturnTo::Loop | ReturnTo::End => return step,
            ReturnTo::Ended(before) => (before, self.ending.as_ref().map_or(reason, |ending| ending.reason.clone())),
            ReturnTo::Errand => (errand_outcome(outcome, course.left_by().map(|actor| actor.by)), reason),
        };
        // The pipeline's own record ends the session; this one is for its observers.
        let iterations = self.iterations.current;
        step.and(Event::Session(SessionEvent::Ended { outcome: ended, iterations, reason }))
            .then(Effect::Leave(ExitReason::Ended))
    }

    pub(crate) fn cut_run(self, dispatch: &HookDispatch) -> Option<HookFinished> {
        let running = dispatch.running.as_ref().filter(|_| !self.pipelines.is_under_review(dispatch))?;
        Some(HookFinished::cut(dispatch.point, running))
    }
}

impl PipelineState {
    /// The review of this dispatch's run.
    pub(crate) fn review_of(&self, dispatch: &HookDispatch) -> Option<&ReviewRun> {
        let running = dispatch.running.as_ref()?;
        self.course.as_ref()?.review.as_deref().filter(|review| review.run == running.run)
    }

    /// Whether a run is a review: it has no process that a killed creel could have left behind.
    pub(crate) fn is_under_review(&self, dispatch: &HookDispatch) -> bool {
        self.review_of(dispatch).is_some()
    }

    pub(crate) fn review_started(&mut self, at: UnixTime, run: RunId, change: &str, commit: Option<&str>) {
        if let Some(course) = &mut self.course {
            // A second review may see another commit. The first one is kept, so that the difference is noticed.
            course.reviewed = course.reviewed.take().or(commit.map(str::to_owned));
            let change = change.to_owned();
            let review = ReviewRun { run, change, began: at, said: Vec::new(), heard: None, dispatch: None };
            course.review = Some(Box::new(review));
        }
    }

    pub(crate) fn reviewed(&mut self, said: &GatekeeperReview) {
        let Some(course) = &mut self.course else { return };
        let told = format!("{} by {}: {}", said.verdict.name(), said.gatekeeper, said.reason);
        course.reviews.insert(said.gatekeeper.clone(), told);
        if let Some(review) = &mut course.review {
            review.heard = None;
            review.said.push(said.clone());
        }
    }

    /// Lists the hooks of a pipeline for display.
    pub(crate) fn steps_due(&mut self, point: HookPoint, hooks: &[String]) {
        let Some(course) = self.course.as_mut().filter(|course| PipelineKind::of(point) == Some(course.pipeline))
        else {
            return;
        };
        course.passed = point == course.pipeline.after();
        course.reviewed = None;
        let skipped: Vec<PipelineStep> = course
            .steps
            .iter()
            .filter(|step| step.point == point && step.state == PipelineStepState::Skipped)
            .cloned()
            .collect();
        course.steps.retain(|step| course.passed && step.point != point);
        let waiting =
            hooks.iter().map(|hook| PipelineStep { point, hook: hook.clone(), state: PipelineStepState::Waiting });
        course.steps.extend(skipped.into_iter().chain(waiting));
    }
}
