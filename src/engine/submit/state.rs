//! The state of a pipeline: its checks, its repairs, its review, and where the session continues
//! afterwards.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::ConversationMode,
    event::{Actor, ActorKind, PromptSent, SessionOutcome},
    gate::kind::{GateChoice, GateKind},
    hooks::{dispatch::HookDispatch, point::HookPoint},
    ids::RunId,
    policy::SubmitUntil,
    session::event::ResumeAnswer,
    submit::kind::{GatekeeperReview, PipelineKind, PipelineOutcome},
    time::UnixTime,
    watch::Watch,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineState {
    /// The pipeline in progress.
    pub pipeline_run: Option<Box<PipelineRun>>,
    /// The pipeline that was requested but has not begun.
    pub wanted: Option<PipelineKind>,
    /// Whether the end of this loop was followed by a submit.
    pub followed: bool,
    pub last: Option<Box<FinishedPipeline>>,
    /// The pull request that the session does not wait for any more.
    #[serde(default)]
    pub left_watch: Option<Box<Watch>>,
    /// Set by `resume`, for the pipeline that starts again.
    #[serde(default)]
    pub again: Option<PipelineAgain>,
}

/// A pipeline that starts again. The agent repairs nothing before its gate asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineAgain {
    /// The user's answer, in case the gate opens again.
    pub answer: Option<ResumeAnswer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineRun {
    pub pipeline: PipelineKind,
    /// How many times a failed check was sent to the agent for repair.
    pub used: u32,
    /// Whether the agent was asked to repair something, by a check or by the user.
    pub repaired: bool,
    /// Whether the agent may have asked a question with its last repair, which no user has
    /// answered.
    #[serde(default)]
    pub unheard: bool,
    /// The hooks known so far, in order.
    pub steps: Vec<PipelineStep>,
    /// The checks that the user skipped.
    pub skipped: BTreeSet<String>,
    /// The session's own checks that the user accepted as they are.
    #[serde(default)]
    pub waived: BTreeSet<String>,
    /// Whether all checks have passed.
    pub passed: bool,
    /// The actor that ended the pipeline after a failure, and the reason of the failure.
    pub left: Option<(Actor, String)>,
    /// The last message of a built-in hook.
    pub message: Option<String>,
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
    /// The commit that was pushed.
    #[serde(default)]
    pub pushed: Option<String>,
    /// When the submit is over.
    #[serde(default)]
    pub until: SubmitUntil,
    /// The pull request that the session waits for.
    #[serde(default)]
    pub watch: Option<Box<Watch>>,
    /// Where the session continues afterwards.
    pub back: ReturnTo,
}

/// One hook of a pipeline, as shown to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineStep {
    pub point: HookPoint,
    pub hook: String,
    pub state: PipelineStepState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnTo {
    Loop,
    End,
    /// Nowhere: the session had already ended with this outcome.
    Ended(SessionOutcome),
    /// Nowhere: the session exists only for the pipeline.
    PipelineOnly,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Whether a question of the agent may have ended it.
    #[serde(default)]
    pub unheard: bool,
    /// Whether it was left while its pull request was not merged.
    #[serde(default)]
    pub left_open: bool,
}

impl PipelineRun {
    pub(super) fn left_by(&self) -> Option<&Actor> {
        self.left.as_ref().map(|(by, _)| by)
    }
}

impl PipelineState {
    pub fn is_open(&self) -> bool {
        self.pipeline_run.is_some()
    }

    /// The pull request that the session waits for.
    pub fn watch(&self) -> Option<&Watch> {
        self.pipeline_run.as_deref()?.watch.as_deref()
    }

    /// The pull request that is the session's own, also if the session was left while it was open.
    pub(crate) fn watched(&self) -> Option<String> {
        let left_open = self.last.as_deref().is_some_and(|last| last.left_open);
        let left = self.left_watch.as_deref().filter(|_| left_open);
        let watch = self.watch().or(left)?;
        Some(watch.pull_request.clone())
    }

    /// Whether the session's own agent works in this turn for a pull request that the session
    /// follows.
    pub(crate) fn is_turn_of_a_watch(&self, prompt: &PromptSent) -> bool {
        self.watch().is_some() && prompt.agent.is_none()
    }

    pub(crate) fn watch_mut(&mut self) -> Option<&mut Watch> {
        self.pipeline_run.as_deref_mut()?.watch.as_deref_mut()
    }
}

impl PipelineState {
    /// The review of this dispatch's run.
    pub(crate) fn review_of(&self, dispatch: &HookDispatch) -> Option<&ReviewRun> {
        let running = dispatch.running.as_ref()?;
        self.pipeline_run
            .as_ref()?
            .review
            .as_deref()
            .filter(|review| review.run == running.run)
    }

    /// Whether a run is a review: it has no process that a killed creel could have left behind.
    pub(crate) fn is_under_review(&self, dispatch: &HookDispatch) -> bool {
        self.review_of(dispatch).is_some()
    }

    pub(crate) fn review_started(
        &mut self,
        at: UnixTime,
        run: RunId,
        change: &str,
        commit: Option<&str>,
    ) {
        if let Some(pipeline_run) = &mut self.pipeline_run {
            // A second review may see another commit. The first one is kept, so that the difference
            // is noticed.
            pipeline_run.reviewed = pipeline_run.reviewed.take().or(commit.map(str::to_owned));
            let change = change.to_owned();
            let review = ReviewRun {
                run,
                change,
                began: at,
                reviews: Vec::new(),
                answer: None,
                unclear: None,
                conversation_lost: false,
                dispatch: None,
            };
            pipeline_run.review = Some(Box::new(review));
        }
    }

    pub(crate) fn reviewed(&mut self, given: &GatekeeperReview) {
        let Some(pipeline_run) = &mut self.pipeline_run else {
            return;
        };
        let text = format!(
            "{} by {}: {}",
            given.verdict.name(),
            given.gatekeeper,
            given.reason
        );
        pipeline_run.reviews.insert(given.gatekeeper.clone(), text);
        if let Some(review) = &mut pipeline_run.review {
            review.answer = None;
            review.unclear = None;
            review.reviews.push(given.clone());
        }
    }

    /// The session was resumed: the conversations of gatekeepers are gone.
    pub(crate) fn review_resumed(&mut self) {
        if let Some(review) = self
            .pipeline_run
            .as_mut()
            .and_then(|pipeline_run| pipeline_run.review.as_deref_mut())
        {
            review.conversation_lost = true;
        }
    }

    /// A gatekeeper gets a prompt. If it has answered already, its answer had no verdict.
    pub(crate) fn gatekeeper_asked(&mut self, conversation: ConversationMode) {
        if let Some(review) = self
            .pipeline_run
            .as_mut()
            .and_then(|pipeline_run| pipeline_run.review.as_deref_mut())
        {
            review.unclear = review
                .answer
                .take()
                .and_then(Result::ok)
                .or(review.unclear.take());
            review.conversation_lost &= conversation == ConversationMode::Same;
        }
    }

    /// Lists the hooks of a pipeline for display.
    pub(crate) fn steps_due(&mut self, point: HookPoint, hooks: &[String]) {
        let Some(pipeline_run) = self
            .pipeline_run
            .as_mut()
            .filter(|pipeline_run| PipelineKind::of(point) == Some(pipeline_run.pipeline))
        else {
            return;
        };
        pipeline_run.passed = point == pipeline_run.pipeline.after();
        pipeline_run.reviewed = None;
        let skipped: Vec<PipelineStep> = pipeline_run
            .steps
            .iter()
            .filter(|step| step.point == point && step.state == PipelineStepState::Skipped)
            .cloned()
            .collect();
        pipeline_run
            .steps
            .retain(|step| pipeline_run.passed && step.point != point);
        let waiting = hooks.iter().map(|hook| PipelineStep {
            point,
            hook: hook.clone(),
            state: PipelineStepState::Waiting,
        });
        pipeline_run
            .steps
            .extend(skipped.into_iter().chain(waiting));
    }
}

impl FinishedPipeline {
    /// Whether it failed while no user could decide.
    pub fn waits_for_a_person(&self) -> bool {
        self.outcome == PipelineOutcome::Failed
            && matches!(self.by, Some(ActorKind::Policy | ActorKind::Timeout))
    }

    /// The answers to its gate.
    pub(crate) fn choices(&self) -> Vec<GateChoice> {
        let kind = match self.pipeline {
            PipelineKind::Submit => GateKind::Submit,
            PipelineKind::Merge => GateKind::Merge,
        };
        let of_a_watch = [GateChoice::Merge, GateChoice::Wait];
        let of_a_watch = of_a_watch.into_iter().filter(|_| self.left_open);
        of_a_watch.chain(kind.choices()).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewRun {
    pub run: RunId,
    pub change: String,
    pub began: UnixTime,
    /// The reviews so far, in order.
    pub reviews: Vec<GatekeeperReview>,
    /// The last answer until it is parsed, or why there is none.
    pub(crate) answer: Option<Result<String, String>>,
    /// The current gatekeeper's answer without a verdict, once it was asked again.
    #[serde(default)]
    pub(crate) unclear: Option<String>,
    /// Whether the current gatekeeper's conversation ended with the creel process that it ran in.
    #[serde(default)]
    pub(crate) conversation_lost: bool,
    /// The dispatch of the point, while a gatekeeper works.
    pub(crate) dispatch: Option<HookDispatch>,
}
