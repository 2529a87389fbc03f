//! How the records of pipelines change the state.

use super::{Back, Course, Finished, Pipeline, PipelineOutcome, Pipelines, Progress, StepState, errand_outcome};
use crate::engine::{
    event::{Actor, DeliverRest, Event, HookFinished, Outcome, Presence},
    hooks::{
        point::Point,
        verdict::{BuiltinOutcome, BuiltinStatus, Verdict},
    },
    session::{
        Phase, State,
        gate::{Choice, Gate},
        turn::Due,
    },
    time::At,
};

impl State {
    pub(in crate::engine) fn apply_pipeline(&mut self, at: At, event: &Event) {
        if let Event::PipelineRequested { pipeline, .. } = event {
            self.pipelines.wanted = Some(*pipeline);
        } else if let Event::PipelineStarted { pipeline, presence } = event {
            self.pipeline_started(*pipeline, *presence);
        } else if let Event::RemediationCounted { used, .. } = event {
            self.remediation_counted(*used);
        } else if let Event::ReviewStarted { run, change, commit, .. } = event {
            self.review_started(at, *run, change, commit.as_deref());
        } else if let Event::Reviewed { said, .. } = event {
            self.reviewed(said);
        } else if let Event::PipelineEnded { outcome, reason, .. } = event {
            self.pipeline_ended(*outcome, reason);
        }
    }

    fn pipeline_started(&mut self, pipeline: Pipeline, presence: Presence) {
        let back = match &self.phase {
            Phase::Delivering => Back::End,
            Phase::Ended(outcome) => Back::Ended(*outcome),
            Phase::Errand(_) => Back::Errand,
            Phase::Hooks(_)
            | Phase::Due(_)
            | Phase::Turn(_)
            | Phase::Judging(_)
            | Phase::Settled(_)
            | Phase::Between
            | Phase::Escalated(_)
            | Phase::Exit(_)
            | Phase::Pipeline => Back::Loop,
        };
        if let Back::Ended(_) = back {
            self.presence = presence;
            self.steering.stop = None;
            self.steering.paused = false;
            self.processes.clear();
        }
        self.pipelines.followed |= back == Back::End;
        self.pipelines.wanted = None;
        self.pipelines.course = Some(Box::new(Course::new(pipeline, back)));
        self.phase = Phase::Pipeline;
    }

    fn remediation_counted(&mut self, used: u32) {
        let text = self.remediation();
        if let Some(course) = &mut self.pipelines.course {
            course.used = used;
            course.repaired = true;
        }
        if let Some(text) = text {
            self.phase = Phase::Due(Due::Remediation(text));
        }
    }

    /// What a person, or the policy, says about a check that failed.
    pub(in crate::engine) fn pipeline_answered(&mut self, choice: Choice, by: &Actor, gate: &Gate) {
        let Some(course) = &mut self.pipelines.course else { return };
        match (choice, gate.hook.as_deref(), &mut self.phase) {
            (Choice::Send, _, _) => {
                course.repaired = true;
                self.phase = Phase::Due(Due::Message);
            }
            (Choice::Skip, Some(hook), Phase::Hooks(dispatch)) => {
                dispatch.done.retain(|done| done.hook != hook);
                course.skipped.insert(hook.to_owned());
                course.mark(dispatch.point, hook, StepState::Skipped);
            }
            (Choice::Leave, _, _) => {
                course.left = Some((by.clone(), gate.reason.clone()));
                self.phase = Phase::Pipeline;
            }
            (_, _, _) => self.phase = Phase::Pipeline,
        }
    }

    fn pipeline_ended(&mut self, outcome: PipelineOutcome, reason: &str) {
        let Some(course) = self.pipelines.course.take() else { return };
        let left = course.left_by().map(|actor| actor.by);
        let Course { pipeline, pull_request, merged, steps, back, .. } = *course;
        let reason = reason.to_owned();
        let finished = Finished { pipeline, outcome, by: left, reason, pull_request, merged, steps };
        if let (Back::End, true, Some(ending)) = (back, finished.waits_for_a_person(), &mut self.ending) {
            ending.outcome = Outcome::Escalated;
            ending.reason.clone_from(&finished.reason);
        }
        self.pipelines.last = Some(Box::new(finished));
        if matches!(self.phase, Phase::Exit(_)) {
            return;
        }
        self.phase = match back {
            Back::Loop => Phase::Between,
            Back::End => Phase::Delivering,
            Back::Ended(before) => Phase::Ended(before),
            Back::Errand => Phase::Ended(errand_outcome(outcome, left)),
        };
    }

    /// A session goes on after death or a stop. Whether it is the pipeline's part to say with what.
    pub(in crate::engine) fn pipeline_resumed(&mut self) -> bool {
        if self.pipelines.is_open() {
            return true;
        }
        let over =
            matches!(self.phase, Phase::Ended(_)) || self.ending.as_ref().is_some_and(|ending| ending.interrupted);
        let unfinished = |last: &Finished| last.outcome != PipelineOutcome::Done;
        if over && self.pipelines.last.as_deref().is_some_and(unfinished) {
            self.pipelines.followed = false;
        }
        if let (Some(pipeline), Phase::Ended(_)) = (self.began.errand, &self.phase) {
            self.ending = None;
            self.phase = Phase::Errand(pipeline);
            return true;
        }
        let outside = self.is_led_from_outside();
        let held = over && self.pipelines.last.as_deref().is_some_and(Finished::waits_for_a_person);
        let Some(ending) = self.ending.as_mut().filter(|ending| held && ending.outcome == Outcome::Escalated) else {
            return false;
        };
        // The work was complete, and only the submit was held: that is what is tried again.
        ending.outcome = Outcome::Complete;
        ending.delivery = if outside { DeliverRest::No } else { DeliverRest::Offer };
        self.phase = Phase::Delivering;
        true
    }

    /// Follows the hooks of a pipeline, for people to see.
    pub(in crate::engine) fn steps_due(&mut self, point: Point, hooks: &[String]) {
        let Some(course) = self.pipelines.course.as_mut().filter(|course| Pipeline::of(point) == Some(course.pipeline))
        else {
            return;
        };
        course.passed = point == course.pipeline.after();
        course.reviewed = None;
        let skipped: Vec<Progress> = course
            .steps
            .iter()
            .filter(|step| step.point == point && step.state == StepState::Skipped)
            .cloned()
            .collect();
        course.steps.retain(|step| course.passed && step.point != point);
        let waiting = hooks.iter().map(|hook| Progress { point, hook: hook.clone(), state: StepState::Waiting });
        course.steps.extend(skipped.into_iter().chain(waiting));
    }
}

impl Course {
    fn new(pipeline: Pipeline, back: Back) -> Self {
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

    fn mark(&mut self, point: Point, hook: &str, state: StepState) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.point == point && step.hook == hook) {
            step.state = state;
        }
    }
}

impl Pipelines {
    pub(in crate::engine) fn step_started(&mut self, point: Point, hook: &str) {
        if let Some(course) = &mut self.course {
            course.mark(point, hook, StepState::Running);
        }
    }

    pub(in crate::engine) fn review_cut(&mut self, finished: &HookFinished) {
        let review = self.course.as_ref().and_then(|course| course.review.as_deref());
        if review.is_some_and(|review| review.run == finished.run) {
            self.step_finished(finished);
        }
    }

    pub(in crate::engine) fn step_finished(&mut self, finished: &HookFinished) {
        let Some(course) = self.course.as_mut().filter(|course| Pipeline::of(finished.point) == Some(course.pipeline))
        else {
            return;
        };
        course.review = None;
        let state = match (&finished.outcome, finished.verdict) {
            _ if finished.again => StepState::Waiting,
            (Some(BuiltinOutcome { status: BuiltinStatus::Skip, .. }), Verdict::Pass) => StepState::Idle,
            (_, Verdict::Pass) => StepState::Passed,
            (_, Verdict::Block | Verdict::Fail) => StepState::Failed,
        };
        course.mark(finished.point, &finished.hook, state);
        let Some(outcome) = &finished.outcome else { return };
        course.said = Some(outcome.message.clone());
        course.pull_request = outcome.pull_request.clone().or(course.pull_request.take());
        course.merged = outcome.merged.clone().or(course.merged.take());
    }
}
