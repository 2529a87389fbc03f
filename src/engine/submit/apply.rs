//! Applies the events of pipelines to the state.

use super::outcome_of_pipeline;
use crate::engine::{
    event::{Actor, ActorKind, HookFinished, PipelineEvent, SessionOutcome, UserPresence},
    gate::{Gate, kind::PipelineAnswer},
    hooks::{
        point::HookPoint,
        verdict::{BuiltinOutcome, BuiltinStatus, Verdict},
    },
    policy::SubmitUntil,
    session::{
        SessionState,
        phase::{LoopEnd, Phase},
    },
    submit::{
        kind::{PipelineKind, PipelineOutcome},
        state::{FinishedPipeline, PipelineRun, PipelineState, PipelineStepState, ReturnTo},
    },
    time::UnixTime,
    turn::DuePrompt,
};

pub(crate) fn apply_pipeline(session: &mut SessionState, at: UnixTime, event: &PipelineEvent) {
    match event {
        PipelineEvent::Requested { pipeline, .. } => session.pipelines.wanted = Some(*pipeline),
        PipelineEvent::Started {
            pipeline,
            presence,
            until_merged,
        } => pipeline_started(session, *pipeline, *presence, *until_merged),
        PipelineEvent::RemediationCounted { used, text, .. } => {
            remediation_counted(session, *used, text.clone());
        }
        PipelineEvent::ReviewStarted {
            run,
            change,
            commit,
            ..
        } => {
            session
                .pipelines
                .review_started(at, *run, change, commit.as_deref());
        }
        PipelineEvent::Reviewed { review, .. } => session.pipelines.reviewed(review),
        PipelineEvent::Ended {
            outcome,
            reason,
            by,
            merged,
            ends,
            ..
        } => {
            let by = by.as_ref().map(|actor| actor.by);
            pipeline_ended(session, *outcome, reason, by, merged.as_ref(), *ends);
        }
    }
}

fn pipeline_started(
    session: &mut SessionState,
    pipeline: PipelineKind,
    presence: UserPresence,
    until_merged: bool,
) {
    // What the session waits for is ready: the merge belongs to the same submit.
    if let Some(run) = session
        .pipelines
        .pipeline_run
        .as_mut()
        .filter(|run| run.watch.is_some())
    {
        run.pipeline = pipeline;
        run.steps.clear();
        if let Some(watch) = run.watch.as_mut() {
            let reading = watch.reading.as_ref();
            match pipeline {
                PipelineKind::Submit => {
                    watch.submitted = reading.and_then(|reading| reading.to_verify.clone());
                }
                PipelineKind::Merge => {
                    watch.merge_tried = reading.map(|reading| reading.head.clone());
                }
            }
        }
        if pipeline == PipelineKind::Submit {
            run.submit_anew();
        }
        session.pipelines.wanted = None;
        session.phase = Phase::Pipeline;
        return;
    }
    let back = match &session.phase {
        Phase::Delivering => ReturnTo::End,
        Phase::Ended(outcome) => ReturnTo::Ended(*outcome),
        Phase::PipelineOnly(_) => ReturnTo::PipelineOnly,
        Phase::Hooks(_)
        | Phase::Due(_)
        | Phase::Turn(_)
        | Phase::Judging(_)
        | Phase::Settled(_)
        | Phase::Between
        | Phase::Escalated(_)
        | Phase::Exit(_)
        | Phase::Watching
        | Phase::Pipeline => ReturnTo::Loop,
    };
    if let ReturnTo::Ended(_) = back {
        session.presence = presence;
        session.steering.stop = None;
        session.steering.paused = false;
        session.processes.clear();
        session.verify.forget_the_work();
    }
    session.pipelines.followed |= back == ReturnTo::End;
    session.pipelines.wanted = None;
    let used = if session.pipelines.again.is_some() {
        session.plan().submit.remediation_attempts
    } else {
        0
    };
    let unheard = session.pipelines.again.is_some()
        && session
            .pipelines
            .last
            .as_deref()
            .is_some_and(|last| last.pipeline == pipeline && last.unheard);
    session.pipelines.pipeline_run = Some(Box::new(PipelineRun {
        used,
        unheard,
        until: if until_merged {
            SubmitUntil::Merged
        } else {
            SubmitUntil::PullRequest
        },
        ..PipelineRun::new(pipeline, back)
    }));
    session.phase = Phase::Pipeline;
}

fn remediation_counted(session: &mut SessionState, used: u32, text: Option<String>) {
    if let Some(pipeline_run) = &mut session.pipelines.pipeline_run {
        pipeline_run.used = used;
        pipeline_run.repaired = true;
        pipeline_run.unheard = true;
    }
    if let Some(text) = text {
        session.phase = Phase::Due(DuePrompt::Remediation(text));
    }
}

/// The answer of the user or the policy to a failed check.
pub(crate) fn pipeline_answered(
    session: &mut SessionState,
    answer: PipelineAnswer,
    by: &Actor,
    gate: &Gate,
) {
    let rounds = session.plan().submit.watch.rounds;
    let Some(pipeline_run) = &mut session.pipelines.pipeline_run else {
        return;
    };
    session.pipelines.again = None;
    pipeline_run.unheard &= answer == PipelineAnswer::Leave;
    match answer {
        PipelineAnswer::Send => {
            if let Some(watch) = &mut pipeline_run.watch {
                watch.limit = watch.limit.max(watch.rounds + 1);
            }
            (pipeline_run.repaired, pipeline_run.unheard) = (true, true);
            // While the session waits for its pull request, the message is sent after the call to
            // the forge in progress.
            if session.phase != Phase::Watching {
                session.phase = Phase::Due(DuePrompt::Message);
            }
        }
        PipelineAnswer::Skip => {
            let (Some(hook), Phase::Hooks(dispatch)) = (gate.subject.hook(), &mut session.phase)
            else {
                return;
            };
            // A check of the session, not a hook of the pipeline.
            if !dispatch.done.iter().any(|done| done.hook == hook) {
                pipeline_run.waived.insert(hook.to_owned());
                return;
            }
            dispatch.done.retain(|done| done.hook != hook);
            pipeline_run.skipped.insert(hook.to_owned());
            pipeline_run.mark(dispatch.point, hook, PipelineStepState::Skipped);
        }
        PipelineAnswer::Leave => {
            pipeline_run.left = Some((by.clone(), gate.reason.clone()));
            session.phase = Phase::Pipeline;
        }
        PipelineAnswer::Merge => session.pipelines.wanted = Some(PipelineKind::Merge),
        PipelineAnswer::Wait => {
            if let Some(watch) = session.pipelines.watch_mut() {
                let reading = watch.reading.as_ref();
                watch.accepted = reading.map(|reading| reading.head.clone());
            }
        }
        PipelineAnswer::Retry if session.phase == Phase::Watching => {
            if let Some(watch) = session.pipelines.watch_mut() {
                watch.limit = watch.rounds + rounds;
            }
        }
        PipelineAnswer::Retry => {
            session.verify.forget_the_work();
            session.phase = Phase::Pipeline;
        }
    }
}

fn pipeline_ended(
    session: &mut SessionState,
    outcome: PipelineOutcome,
    reason: &str,
    by: Option<ActorKind>,
    merged: Option<&String>,
    ends: Option<SessionOutcome>,
) {
    let Some(pipeline_run) = session.pipelines.pipeline_run.take() else {
        return;
    };
    session.verify.pass = None;
    let left = pipeline_run.left_by().map(|actor| actor.by).or(by);
    let PipelineRun {
        pipeline,
        pull_request,
        steps,
        back,
        unheard,
        watch,
        ..
    } = *pipeline_run;
    let reason = reason.to_owned();
    let finished = FinishedPipeline {
        pipeline,
        outcome,
        by: left,
        reason,
        pull_request,
        merged: merged.cloned(),
        steps,
        unheard,
        left_open: watch.is_some()
            && matches!(
                ends,
                Some(
                    SessionOutcome::Cancelled
                        | SessionOutcome::Escalated
                        | SessionOutcome::Aborted
                        | SessionOutcome::Failed
                )
            ),
    };
    session.pipelines.again = None;
    let escalates = finished
        .waits_for_a_person()
        .then_some(SessionOutcome::Escalated);
    if let (ReturnTo::End, Some(outcome), Some(ending)) =
        (back, ends.or(escalates), &mut session.ending)
    {
        let before = LoopEnd {
            interrupted: false,
            ..ending.clone()
        };
        ending.before = Some(Box::new(before));
        ending.outcome = outcome;
        ending.reason.clone_from(&finished.reason);
    }
    session.pipelines.last = Some(Box::new(finished));
    session.pipelines.left_watch = watch.or(session.pipelines.left_watch.take());
    if matches!(session.phase, Phase::Exit(_)) {
        return;
    }
    session.phase = match back {
        ReturnTo::Loop => Phase::Between,
        ReturnTo::End => Phase::Delivering,
        ReturnTo::Ended(before) => Phase::Ended(before),
        ReturnTo::PipelineOnly => {
            Phase::Ended(ends.unwrap_or_else(|| outcome_of_pipeline(outcome, left)))
        }
    };
}

/// A resumed session submits again what it did not submit before.
pub(crate) fn submit_again(session: &mut SessionState) {
    let over = matches!(session.phase, Phase::Ended(_))
        || session
            .ending
            .as_ref()
            .is_some_and(|ending| ending.interrupted);
    let unfinished = |last: &FinishedPipeline| last.outcome != PipelineOutcome::Done;
    if over
        && !session.pipelines.is_open()
        && session.pipelines.last.as_deref().is_some_and(unfinished)
    {
        session.pipelines.followed = false;
    }
}

impl PipelineRun {
    fn new(pipeline: PipelineKind, back: ReturnTo) -> Self {
        Self {
            pipeline,
            used: 0,
            repaired: false,
            unheard: false,
            steps: Vec::new(),
            skipped: std::collections::BTreeSet::new(),
            waived: std::collections::BTreeSet::new(),
            passed: false,
            left: None,
            message: None,
            pull_request: None,
            merged: None,
            reviews: std::collections::BTreeMap::new(),
            reviewed: None,
            review: None,
            pushed: None,
            until: SubmitUntil::PullRequest,
            watch: None,
            back,
        }
    }

    fn mark(&mut self, point: HookPoint, hook: &str, state: PipelineStepState) {
        if let Some(step) = self
            .steps
            .iter_mut()
            .find(|step| step.point == point && step.hook == hook)
        {
            step.state = state;
        }
    }
}

impl PipelineState {
    pub(in crate::engine) fn step_started(&mut self, point: HookPoint, hook: &str) {
        if let Some(pipeline_run) = &mut self.pipeline_run {
            pipeline_run.mark(point, hook, PipelineStepState::Running);
        }
    }

    pub(in crate::engine) fn review_cut(&mut self, finished: &HookFinished) {
        let review = self
            .pipeline_run
            .as_ref()
            .and_then(|pipeline_run| pipeline_run.review.as_deref());
        if review.is_some_and(|review| review.run == finished.run) {
            self.step_finished(finished);
        }
    }

    pub(in crate::engine) fn step_finished(&mut self, finished: &HookFinished) {
        let Some(pipeline_run) = self
            .pipeline_run
            .as_mut()
            .filter(|pipeline_run| PipelineKind::of(finished.point) == Some(pipeline_run.pipeline))
        else {
            return;
        };
        pipeline_run.review = None;
        let state = match (&finished.outcome, finished.verdict) {
            _ if finished.again => PipelineStepState::Waiting,
            (
                Some(BuiltinOutcome {
                    status: BuiltinStatus::Skip,
                    ..
                }),
                Verdict::Pass,
            ) => PipelineStepState::Idle,
            (_, Verdict::Pass) => PipelineStepState::Passed,
            (_, Verdict::Block | Verdict::Fail) => PipelineStepState::Failed,
        };
        pipeline_run.mark(finished.point, &finished.hook, state);
        let Some(outcome) = &finished.outcome else {
            return;
        };
        pipeline_run.message = Some(outcome.message.clone());
        pipeline_run.pull_request = outcome
            .pull_request
            .clone()
            .or(pipeline_run.pull_request.take());
        pipeline_run.merged = outcome.merged.clone().or(pipeline_run.merged.take());
        if outcome.pull_request.is_some() {
            pipeline_run.pushed = outcome.read.clone().or(pipeline_run.pushed.take());
        }
    }
}

/// A gatekeeper is asked: the dispatch of the point moves into the review until the answer arrives.
pub(crate) fn keep_review_dispatch(session: &mut SessionState) {
    let review = session
        .pipelines
        .pipeline_run
        .as_mut()
        .and_then(|pipeline_run| pipeline_run.review.as_deref_mut());
    if let (Some(review), Phase::Hooks(dispatch)) = (review, &session.phase) {
        review.dispatch = Some(dispatch.clone());
    }
}

/// A gatekeeper's turn has ended; `failed` says why there is no answer. An answer that was cut
/// short does not count, because an objection could have followed.
pub(crate) fn gatekeeper_answered(session: &mut SessionState, failed: Option<&str>) {
    let answer = failed.map_or_else(
        || Ok(session.turns.agent_text.clone()),
        |why| Err(format!("the review failed: {why}")),
    );
    let review = session
        .pipelines
        .pipeline_run
        .as_mut()
        .and_then(|pipeline_run| pipeline_run.review.as_deref_mut());
    let dispatch = review.and_then(|review| {
        review.answer = Some(answer);
        review.dispatch.take()
    });
    session.phase = dispatch.map_or(Phase::Pipeline, Phase::Hooks);
}
