//! Applies the events of pipelines to the state.

use super::{
    FinishedPipeline, PipelineKind, PipelineOutcome, PipelineRun, PipelineState, PipelineStep, PipelineStepState,
    ReturnTo, errand_outcome,
};
use crate::engine::{
    event::{Actor, FinalDeliveryMode, HookFinished, PipelineEvent, SessionOutcome, UserPresence},
    hooks::{
        point::HookPoint,
        verdict::{BuiltinOutcome, BuiltinStatus, Verdict},
    },
    session::{
        Phase, SessionState,
        gate::{Gate, GateChoice},
        turn::DuePrompt,
    },
    time::UnixTime,
};

impl SessionState {
    pub(in crate::engine) fn apply_pipeline(&mut self, at: UnixTime, event: &PipelineEvent) {
        match event {
            PipelineEvent::Requested { pipeline, .. } => self.pipelines.wanted = Some(*pipeline),
            PipelineEvent::Started { pipeline, presence } => self.pipeline_started(*pipeline, *presence),
            PipelineEvent::RemediationCounted { used, .. } => self.remediation_counted(*used),
            PipelineEvent::ReviewStarted { run, change, commit, .. } => {
                self.review_started(at, *run, change, commit.as_deref());
            }
            PipelineEvent::Reviewed { said, .. } => self.reviewed(said),
            PipelineEvent::Ended { outcome, reason, .. } => self.pipeline_ended(*outcome, reason),
        }
    }

    fn pipeline_started(&mut self, pipeline: PipelineKind, presence: UserPresence) {
        let back = match &self.phase {
            Phase::Delivering => ReturnTo::End,
            Phase::Ended(outcome) => ReturnTo::Ended(*outcome),
            Phase::Errand(_) => ReturnTo::Errand,
            Phase::Hooks(_)
            | Phase::Due(_)
            | Phase::Turn(_)
            | Phase::Judging(_)
            | Phase::Settled(_)
            | Phase::Between
            | Phase::Escalated(_)
            | Phase::Exit(_)
            | Phase::Pipeline => ReturnTo::Loop,
        };
        if let ReturnTo::Ended(_) = back {
            self.presence = presence;
            self.steering.stop = None;
            self.steering.paused = false;
            self.processes.clear();
        }
        self.pipelines.followed |= back == ReturnTo::End;
        self.pipelines.wanted = None;
        self.pipelines.course = Some(Box::new(PipelineRun::new(pipeline, back)));
        self.phase = Phase::Pipeline;
    }

    fn remediation_counted(&mut self, used: u32) {
        let text = self.remediation();
        if let Some(course) = &mut self.pipelines.course {
            course.used = used;
            course.repaired = true;
        }
        if let Some(text) = text {
            self.phase = Phase::Due(DuePrompt::Remediation(text));
        }
    }

    /// The answer of the user or the policy to a failed check.
    pub(in crate::engine) fn pipeline_answered(&mut self, choice: GateChoice, by: &Actor, gate: &Gate) {
        let Some(course) = &mut self.pipelines.course else { return };
        match (choice, gate.hook.as_deref(), &mut self.phase) {
            (GateChoice::Send, _, _) => {
                course.repaired = true;
                self.phase = Phase::Due(DuePrompt::Message);
            }
            (GateChoice::Skip, Some(hook), Phase::Hooks(dispatch)) => {
                dispatch.done.retain(|done| done.hook != hook);
                course.skipped.insert(hook.to_owned());
                course.mark(dispatch.point, hook, PipelineStepState::Skipped);
            }
            (GateChoice::Leave, _, _) => {
                course.left = Some((by.clone(), gate.reason.clone()));
                self.phase = Phase::Pipeline;
            }
            (_, _, _) => self.phase = Phase::Pipeline,
        }
    }

    fn pipeline_ended(&mut self, outcome: PipelineOutcome, reason: &str) {
        let Some(course) = self.pipelines.course.take() else { return };
        let left = course.left_by().map(|actor| actor.by);
        let PipelineRun { pipeline, pull_request, merged, steps, back, .. } = *course;
        let reason = reason.to_owned();
        let finished = FinishedPipeline { pipeline, outcome, by: left, reason, pull_request, merged, steps };
        if let (ReturnTo::End, true, Some(ending)) = (back, finished.waits_for_a_person(), &mut self.ending) {
            ending.outcome = SessionOutcome::Escalated;
            ending.reason.clone_from(&finished.reason);
        }
        self.pipelines.last = Some(Box::new(finished));
        if matches!(self.phase, Phase::Exit(_)) {
            return;
        }
        self.phase = match back {
            ReturnTo::Loop => Phase::Between,
            ReturnTo::End => Phase::Delivering,
            ReturnTo::Ended(before) => Phase::Ended(before),
            ReturnTo::Errand => Phase::Ended(errand_outcome(outcome, left)),
        };
    }

    /// Resumes an interrupted pipeline. Returns whether the pipeline sets the phase in which the session continues.
    pub(in crate::engine) fn pipeline_resumed(&mut self) -> bool {
        if self.pipelines.is_open() {
            return true;
        }
        let over =
            matches!(self.phase, Phase::Ended(_)) || self.ending.as_ref().is_some_and(|ending| ending.interrupted);
        let unfinished = |last: &FinishedPipeline| last.outcome != PipelineOutcome::Done;
        if over && self.pipelines.last.as_deref().is_some_and(unfinished) {
            self.pipelines.followed = false;
        }
        if let (Some(pipeline), Phase::Ended(_)) = (self.began.errand, &self.phase) {
            self.ending = None;
            self.phase = Phase::Errand(pipeline);
            return true;
        }
        let outside = self.is_led_from_outside();
        let held = over && self.pipelines.last.as_deref().is_some_and(FinishedPipeline::waits_for_a_person);
        let Some(ending) = self.ending.as_mut().filter(|ending| held && ending.outcome == SessionOutcome::Escalated)
        else {
            return false;
        };
        // The work was complete, and only the submit had failed: only the submit is repeated.
        ending.outcome = SessionOutcome::Complete;
        ending.delivery = if outside { FinalDeliveryMode::No } else { FinalDeliveryMode::Offer };
        self.phase = Phase::Delivering;
        true
    }

    /// Lists the hooks of a pipeline for display.
    pub(in crate::engine) fn steps_due(&mut self, point: HookPoint, hooks: &[String]) {
        let Some(course) =
            self.pipelines.course.as_mut().filter(|course| PipelineKind::of(point) == Some(course.pipeline))
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

impl PipelineRun {
    fn new(pipeline: PipelineKind, back: ReturnTo) -> Self {
        Self {
            pipeline,
            used: 0,
            repaired: false,
            steps: Vec::new(),
            skipped: std::collections::BTreeSet::new(),
            passed: false,
            left: None,
            said: None,
            pull_request: None,
            merged: None,
            reviews: std::collections::BTreeMap::new(),
            reviewed: None,
            review: None,
            back,
        }
    }

    fn mark(&mut self, point: HookPoint, hook: &str, state: PipelineStepState) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.point == point && step.hook == hook) {
            step.state = state;
        }
    }
}

impl PipelineState {
    pub(in crate::engine) fn step_started(&mut self, point: HookPoint, hook: &str) {
        if let Some(course) = &mut self.course {
            course.mark(point, hook, PipelineStepState::Running);
        }
    }

    pub(in crate::engine) fn review_cut(&mut self, finished: &HookFinished) {
        let review = self.course.as_ref().and_then(|course| course.review.as_deref());
        if review.is_some_and(|review| review.run == finished.run) {
            self.step_finished(finished);
        }
    }

    pub(in crate::engine) fn step_finished(&mut self, finished: &HookFinished) {
        let Some(course) =
            self.course.as_mut().filter(|course| PipelineKind::of(finished.point) == Some(course.pipeline))
        else {
            return;
        };
        course.review = None;
        let state = match (&finished.outcome, finished.verdict) {
            _ if finished.again => PipelineStepState::Waiting,
            (Some(BuiltinOutcome { status: BuiltinStatus::Skip, .. }), Verdict::Pass) => PipelineStepState::Idle,
            (_, Verdict::Pass) => PipelineStepState::Passed,
            (_, Verdict::Block | Verdict::Fail) => PipelineStepState::Failed,
        };
        course.mark(finished.point, &finished.hook, state);
        let Some(outcome) = &finished.outcome else { return };
        course.said = Some(outcome.message.clone());
        course.pull_request = outcome.pull_request.clone().or(course.pull_request.take());
        course.merged = outcome.merged.clone().or(course.merged.take());
    }
}
