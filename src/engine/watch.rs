//! Watches a pull request until it is merged: what the forge says becomes pending items, and the
//! agent works on them.
//!
//! A submit that is followed by this stays open: the agent's turn is followed by the checks and the
//! hooks of a submit, which push the work, and then creel watches on. Owns when the forge is asked,
//! what is news, and how the watch ends. Does not read a forge: see [`forge`] for the words.
//!
//! # Invariants
//! - Each news reaches the agent at most once, by the forge's own id, over kills and restarts.
//! - Nothing is pushed or merged that the checks have not passed: both are pipelines.
//! - The text of a stranger waits until the user restores it.
//! - A watch ends: merged, closed, stopped, or after `submit.max_watch`.

pub(crate) mod apply;
pub mod event;
pub mod forge;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        actor::POLICY,
        effect::Effect,
        event::{Actor, ActorKind, Event, PendingEvent, PromptReason, SessionOutcome, WatchEvent},
        gate::{kind::GateChoice, subject::GateSubject},
        ids::ItemId,
        output::EngineOutput,
        pending::{ItemState, PendingItem},
        policy::{MergePolicy, ReviewPolicy, SubmitUntil},
        session::SessionState,
        stop::settled::agent_words,
        submit::{
            PipelineEnd,
            kind::{PipelineKind, PipelineOutcome},
            state::{PipelineRun, ReturnTo},
        },
        time::{TimeSpan, UnixTime},
        turn::prompt::PromptRules,
        watch::{
            event::ForgeRead,
            forge::{
                CheckState, ForgeAnswer, ForgeFailure, ForgeReading, ForgeRequest, Mergeable,
                NewsOrigin, PullRequestState,
            },
        },
    },
    text::{counted, shortened},
};

/// For how many intervals after a change creel looks often.
const OFTEN: u64 = 20;
/// How many times as long the intervals are later.
const SELDOM: u64 = 10;
/// How long a forge gets to show the first check of a push.
const FIRST_CHECK: TimeSpan = TimeSpan::secs(60);
/// How long failed checks wait for those that still run, so that the agent gets all of them at once.
const OTHER_CHECKS: TimeSpan = TimeSpan::secs(600);
/// How many times creel tries to answer a comment.
const ANSWERS: u32 = 30;
/// How many characters of the agent's words an answer has.
const WORDS: usize = 600;

/// A pull request that the session follows, as a part of its submit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// Its address.
    pub pull_request: String,
    /// When the session began to wait for it, at first.
    pub began: UnixTime,
    /// When creel saw the last change, or pushed.
    pub changed: UnixTime,
    /// The last look that the forge answered.
    pub checked: Option<UnixTime>,
    /// The next look.
    pub next: UnixTime,
    /// What the forge said last, without the news.
    pub reading: Option<ForgeReading>,
    /// Why it did not answer the last time.
    pub problem: Option<String>,
    /// The commit that was verified and pushed.
    pub head: Option<String>,
    /// The same before the last round.
    pub head_before: Option<String>,
    /// How many times the agent got news.
    pub rounds: u32,
    /// How many rounds there may be.
    pub limit: u32,
    /// The news that the user saw at the gate.
    pub seen: Vec<ItemId>,
    /// How many times an answer to this news failed; [`ANSWERS`] if it needs none any more.
    pub answers: BTreeMap<String, u32>,
}

/// Decides about the pull request that the session follows.
#[derive(Debug, Clone, Copy)]
pub struct WatchRules<'a>(pub(crate) &'a SessionState);

impl Watch {
    /// What it waits for, in a few words.
    pub fn status(&self) -> String {
        match (&self.problem, &self.reading) {
            (Some(problem), _) => problem.clone(),
            (None, Some(reading)) if !self.is_current(reading) => {
                format!(
                    "{}, but its newest commit is not the one that creel verified",
                    reading.status()
                )
            }
            (None, Some(reading)) => reading.status(),
            (None, None) => "not looked at yet".to_owned(),
        }
    }

    fn has_pending_checks(&self) -> bool {
        let reading = self.reading.as_ref();
        reading.is_some_and(|reading| {
            reading
                .counted_checks()
                .any(|check| check.result == CheckState::Pending)
        })
    }

    /// Whether the forge shows what creel pushed.
    fn is_current(&self, reading: &ForgeReading) -> bool {
        self.head.as_ref().is_none_or(|head| *head == reading.head)
    }

    /// Whether everything is green and approved.
    fn is_ready(&self, now: UnixTime) -> bool {
        let Some(reading) = &self.reading else {
            return false;
        };
        let noticed = !reading.checks.is_empty() || now >= self.changed.after(FIRST_CHECK);
        let open = reading.state == PullRequestState::Open && !reading.is_draft && !reading.queued;
        let clean = reading.mergeable == Mergeable::Clean;
        self.problem.is_none()
            && self.is_current(reading)
            && reading.is_green()
            && noticed
            && reading.is_approved()
            && open
            && clean
    }

    /// When to look again.
    fn next_look(&self, now: UnixTime, changed: bool, every: TimeSpan) -> UnixTime {
        let often = changed || now < self.changed.after(TimeSpan(every.0 * OFTEN));
        now.after(TimeSpan(if often { every.0 } else { every.0 * SELDOM }))
    }
}

impl<'a> WatchRules<'a> {
    fn watch(self) -> Option<(&'a PipelineRun, &'a Watch)> {
        let run = self.0.pipelines.pipeline_run.as_deref()?;
        Some((run, run.watch.as_deref()?))
    }

    /// A submit has ended well: the session waits for its pull request, if it should.
    pub(crate) fn begin_watch(run: &PipelineRun) -> Option<EngineOutput> {
        let follows =
            run.until == SubmitUntil::Merged && run.back != ReturnTo::Loop && run.merged.is_none();
        let pull_request = run.pull_request.as_ref().filter(|_| follows)?;
        Some(EngineOutput::record(Event::Watch(WatchEvent::Started {
            pull_request: pull_request.clone(),
            head: run.pushed.clone(),
        })))
    }

    /// A turn failed: nothing is pushed, and the session waits on as before.
    pub(crate) fn wait_on(self) -> Option<EngineOutput> {
        let (_, watch) = self.watch()?;
        Some(EngineOutput::record(Event::Watch(WatchEvent::Started {
            pull_request: watch.pull_request.clone(),
            head: watch.head.clone(),
        })))
    }

    /// The news that wait for the agent.
    fn waiting(self) -> Vec<&'a PendingItem> {
        let waiting = self.0.pending.waiting();
        waiting.filter(|item| item.source.news.is_some()).collect()
    }

    /// The next step while the session waits for its pull request.
    pub(crate) fn proceed_watch(self, now: UnixTime) -> EngineOutput {
        let Some((run, watch)) = self.watch() else {
            return EngineOutput::default();
        };
        if self.0.steering.stop.is_some() {
            return self.left(run, &POLICY, SessionOutcome::Cancelled, "you stopped creel");
        }
        let state = watch.reading.as_ref().map(|reading| reading.state);
        match state {
            Some(PullRequestState::Merged) => return self.merged(run, watch),
            Some(PullRequestState::Closed) => {
                let why = format!("{} was closed without a merge", watch.pull_request);
                return self.end(
                    run,
                    None,
                    PipelineOutcome::Failed,
                    SessionOutcome::Aborted,
                    why,
                );
            }
            Some(PullRequestState::Open) | None => {}
        }
        if let Some(step) = self.0.retries().too_many_errors() {
            return step;
        }
        let steering = &self.0.steering;
        if steering.message_is_due(0, &self.0.iterations, self.0.plan()) {
            return self.0.prompts().message_prompt(None);
        }
        let answer = self.answer_due(watch).filter(|_| now >= watch.next);
        if let Some(answer) = answer {
            return EngineOutput::default().then(Effect::AnswerNews(Box::new(answer)));
        }
        // What the user or the agent gets is as the forge has it now.
        if now >= watch.next {
            return EngineOutput::default().then(Effect::ReadForge(Box::new(self.request(watch))));
        }
        if let Some(step) = self.hand_over(watch, now) {
            return step;
        }
        if self.0.pipelines.wanted == Some(PipelineKind::Merge) {
            return self.0.pipeline().begin_pipeline(PipelineKind::Merge);
        }
        if let Some(step) = self.offer_merge(watch, now) {
            return step;
        }
        if now >= watch.began.after(self.0.plan().submit.watch.max_watch) {
            return self.left(
                run,
                &POLICY,
                SessionOutcome::Escalated,
                "`submit.max_watch` is over",
            );
        }
        EngineOutput::default()
    }

    /// When the next step is due without an input.
    pub(crate) fn wake(self) -> Option<UnixTime> {
        let (_, watch) = self.watch()?;
        let end = watch.began.after(self.0.plan().submit.watch.max_watch);
        Some(watch.next.min(end))
    }

    fn request(self, watch: &Watch) -> ForgeRequest {
        let known = self.0.pending.items().iter();
        let known = known.filter_map(|item| Some(item.source.news.as_ref()?.id.clone()));
        let plan = self.0.plan();
        ForgeRequest {
            pull_request: watch.pull_request.clone(),
            pushed: watch.head.clone(),
            known: known.collect(),
            reviewers: plan.submit.watch.reviewers.clone(),
            output_limit: plan.output_limit,
        }
    }

    /// The gates and the prompt for news. None if there is none for the agent now.
    fn hand_over(self, watch: &Watch, now: UnixTime) -> Option<EngineOutput> {
        let items = self.waiting();
        let is_check = |item: &&PendingItem| {
            let news = item.source.news.as_ref();
            news.is_some_and(|news| news.origin == NewsOrigin::Check)
        };
        let others_may_fail = items.iter().all(is_check)
            && watch.has_pending_checks()
            && now < watch.changed.after(OTHER_CHECKS);
        if items.is_empty() || others_may_fail {
            return None;
        }
        if self.0.beside().is_busy_beside() {
            return Some(EngineOutput::default());
        }
        let ids: Vec<ItemId> = items.iter().map(|item| item.id).collect();
        let news = counted(ids.len(), "new item");
        if watch.rounds >= watch.limit {
            let reason = format!(
                "the agent got news of {} {} times, and there is more: {news}",
                watch.pull_request, watch.rounds
            );
            return Some(self.ask(
                reason,
                &[GateChoice::Retry, GateChoice::Send, GateChoice::Leave],
            ));
        }
        let asks = self.0.plan().gates.review == ReviewPolicy::Ask;
        if asks && ids.iter().any(|id| !watch.seen.contains(id)) {
            let reason = format!("{} has {news} for the agent", watch.pull_request);
            let subject = GateSubject::Review { items: ids };
            return Some(self.0.gates.open_gate(subject, reason));
        }
        let waits = self.0.retries().wait_over(now);
        Some(waits.unwrap_or_else(|| self.0.prompts().news_prompt(&watch.pull_request, ids)))
    }

    fn ask(self, reason: String, choices: &[GateChoice]) -> EngineOutput {
        let subject = GateSubject::Pipeline {
            pipeline: PipelineKind::Merge,
            hook: String::new(),
        };
        self.0
            .gates
            .open_gate_with(subject, reason, choices.to_vec())
    }

    /// Merges, or asks whether to, once everything is green and approved.
    fn offer_merge(self, watch: &Watch, now: UnixTime) -> Option<EngineOutput> {
        if !watch.is_ready(now) || self.answer_due(watch).is_some() {
            return None;
        }
        match self.0.plan().submit.watch.merge {
            MergePolicy::Never => None,
            MergePolicy::Auto => Some(self.0.pipeline().begin_pipeline(PipelineKind::Merge)),
            MergePolicy::Ask => {
                let reason = format!("{} is ready: {}", watch.pull_request, watch.status());
                Some(self.ask(
                    reason,
                    &[GateChoice::Merge, GateChoice::Send, GateChoice::Leave],
                ))
            }
        }
    }

    /// The news that the agent has worked on and that creel has not answered yet, and the answer.
    fn answer_due(self, watch: &Watch) -> Option<ForgeAnswer> {
        let is_due = |item: &&PendingItem| {
            let news = item.source.news.as_ref();
            let open = news.filter(|news| news.origin.is_answered());
            item.state == ItemState::Delivered
                && open.is_some_and(|news| {
                    watch
                        .answers
                        .get(&news.id)
                        .is_none_or(|tries| *tries < ANSWERS)
                })
        };
        let source = self
            .0
            .pending
            .items()
            .iter()
            .find(is_due)?
            .source
            .news
            .clone()?;
        let changed = watch
            .head
            .as_ref()
            .filter(|_| watch.head != watch.head_before);
        let text = if let Some(commit) = changed {
            format!("Done in {commit}.")
        } else {
            let words = agent_words(&self.0.turns.agent_text).unwrap_or_default();
            let words = shortened(&words, WORDS);
            format!("Nothing was changed for this. The agent says:\n\n{words}")
        };
        Some(ForgeAnswer {
            pull_request: watch.pull_request.clone(),
            source: *source,
            text,
        })
    }

    /// What the forge said.
    pub(crate) fn on_read(
        self,
        now: UnixTime,
        pull_request: &str,
        result: Result<ForgeReading, ForgeFailure>,
    ) -> EngineOutput {
        let known = self
            .watch()
            .filter(|(_, watch)| watch.pull_request == pull_request);
        let Some((_, watch)) = known else {
            return EngineOutput::default();
        };
        let every = self.0.plan().submit.watch.poll;
        let mut reading = match result {
            Ok(reading) => reading,
            Err(problem) => return Self::failed(watch, now, every, problem),
        };
        let current = watch.is_current(&reading);
        // What a check says about an earlier commit is settled by the push.
        reading
            .news
            .retain(|news| current || news.source.origin != NewsOrigin::Check);
        let ids: Vec<String> = reading
            .news
            .iter()
            .map(|news| news.source.id.clone())
            .collect();
        let item_of = |id: &str| {
            let items = self.0.pending.items().iter();
            items
                .rev()
                .find(|item| item.source.news.as_ref().is_some_and(|news| news.id == id))
        };
        let (mut changes, mut updated) = (Vec::new(), Vec::new());
        for news in &reading.news {
            let Some(item) = item_of(&news.source.id) else {
                continue;
            };
            let is_open = matches!(item.state, ItemState::Pending | ItemState::Skipped);
            if is_open && item.withdrawn {
                changes.push(Event::Pending(PendingEvent::Restored {
                    item: item.id,
                    by: POLICY,
                }));
            }
            if is_open && !item.edited && !news.text.is_empty() && news.text != item.text {
                changes.push(Event::Pending(PendingEvent::Edited {
                    item: item.id,
                    by: POLICY,
                    text: news.text.clone(),
                }));
                updated.push(item.id);
                // The user has let another text through.
                if item.stranger && item.state == ItemState::Pending {
                    changes.push(Event::Pending(PendingEvent::Skipped {
                        item: item.id,
                        by: POLICY,
                    }));
                }
            }
        }
        let gone = self.waiting().into_iter().filter(|item| {
            let news = item.source.news.as_ref();
            news.is_some_and(|news| !ids.contains(&news.id))
        });
        changes.extend(gone.map(|item| {
            Event::Pending(PendingEvent::Skipped {
                item: item.id,
                by: POLICY,
            })
        }));
        reading
            .news
            .retain(|news| item_of(&news.source.id).is_none());
        let before = watch.reading.as_ref();
        let is_new = !reading.news.is_empty()
            || !changes.is_empty()
            || before.is_none_or(|before| {
                ForgeReading {
                    news: Vec::new(),
                    ..reading.clone()
                } != *before
            });
        let read = ForgeRead {
            pull_request: pull_request.to_owned(),
            next: watch.next_look(now, is_new, every),
            changed: is_new,
            updated,
            ids,
            reading,
        };
        let read = EngineOutput::record(Event::Watch(WatchEvent::Read(Box::new(read))));
        changes.into_iter().fold(read, EngineOutput::and)
    }

    fn failed(
        watch: &Watch,
        now: UnixTime,
        every: TimeSpan,
        problem: ForgeFailure,
    ) -> EngineOutput {
        let ForgeFailure { reason, until } = problem;
        let next = watch.next_look(now, false, every);
        let next = until.map_or(next, |until| until.max(next));
        let pull_request = watch.pull_request.clone();
        EngineOutput::record(Event::Watch(WatchEvent::Failed {
            pull_request,
            reason,
            next,
        }))
    }

    /// An answer was posted, or not.
    pub(crate) fn on_answered(
        self,
        now: UnixTime,
        answer: &ForgeAnswer,
        result: Result<(), ForgeFailure>,
    ) -> EngineOutput {
        let Some((_, watch)) = self.watch() else {
            return EngineOutput::default();
        };
        let id = answer.source.id.clone();
        let commit = watch
            .head
            .clone()
            .filter(|_| watch.head != watch.head_before);
        let error = result.as_ref().err().map(|problem| problem.reason.clone());
        let answered =
            EngineOutput::record(Event::Watch(WatchEvent::Answered { id, commit, error }));
        match result {
            Ok(()) => answered,
            Err(problem) => {
                let every = self.0.plan().submit.watch.poll;
                let failed = Self::failed(watch, now, every, problem);
                failed.events.into_iter().fold(answered, EngineOutput::and)
            }
        }
    }

    /// The pull request is merged.
    fn merged(self, run: &PipelineRun, watch: &Watch) -> EngineOutput {
        let reading = watch.reading.as_ref();
        let merged = reading
            .map(|reading| reading.head.as_str())
            .unwrap_or_default();
        let verified = watch.head.as_deref() == Some(merged);
        let url = &watch.pull_request;
        let red = self.0.verification().red_check();
        let (outcome, reason) = match (verified, red) {
            (true, None) => (SessionOutcome::Complete, format!("{url} is merged")),
            (true, Some(red)) => (
                SessionOutcome::Unverified,
                format!("{url} is merged, but {}", red.reason),
            ),
            (false, _) => (
                SessionOutcome::Unverified,
                format!(
                    "{url} was merged with {}, which is not the commit that creel verified",
                    shortened(merged, 10)
                ),
            ),
        };
        let end = PipelineEnd {
            outcome: PipelineOutcome::Done,
            by: None,
            reason,
            session: Some(outcome).filter(|outcome| *outcome != SessionOutcome::Complete),
            merged: reading.map(|reading| reading.merged.as_ref().unwrap_or(&reading.head).clone()),
        };
        self.0.pipeline().end_with(run, end)
    }

    /// The user or the policy leaves the pull request as it is, or the session is stopped.
    pub(crate) fn abandon(self, run: &PipelineRun) -> EngineOutput {
        let Some((by, why)) = &run.left else {
            return self.left(run, &POLICY, SessionOutcome::Cancelled, "you stopped creel");
        };
        if matches!(by.by, ActorKind::Policy | ActorKind::Timeout) {
            return self.left(run, by, SessionOutcome::Escalated, why);
        }
        let url = run.pull_request.as_deref().unwrap_or_default();
        let end = PipelineEnd {
            outcome: PipelineOutcome::Done,
            by: Some(by.clone()),
            reason: format!("you left {url} as it is"),
            session: None,
            merged: None,
        };
        self.0.pipeline().end_with(run, end)
    }

    /// The session stops to wait.
    fn left(
        self,
        run: &PipelineRun,
        by: &Actor,
        outcome: SessionOutcome,
        why: &str,
    ) -> EngineOutput {
        let url = run.pull_request.as_deref().unwrap_or_default();
        let reason = format!("{why}, and {url} is not merged");
        let (by, ended) = if outcome == SessionOutcome::Cancelled {
            (None, PipelineOutcome::Cancelled)
        } else {
            (Some(by), PipelineOutcome::Failed)
        };
        self.end(run, by, ended, outcome, reason)
    }

    fn end(
        self,
        run: &PipelineRun,
        by: Option<&Actor>,
        outcome: PipelineOutcome,
        session: SessionOutcome,
        reason: String,
    ) -> EngineOutput {
        self.0.pipeline().end_with(
            run,
            PipelineEnd {
                outcome,
                by: by.cloned(),
                reason,
                session: Some(session),
                merged: None,
            },
        )
    }
}

impl PromptRules<'_> {
    /// News of the pull request, with the messages that wait.
    fn news_prompt(self, pull_request: &str, items: Vec<ItemId>) -> EngineOutput {
        let texts = items.iter().filter_map(|id| self.0.pending.get(*id));
        let texts: Vec<String> = texts.map(|item| item.text.clone()).collect();
        let opening = format!(
            "[News of the pull request]: {pull_request} needs work. Do what follows and commit it; then creel runs the checks, \
             pushes, and answers. Do not push, do not answer on the forge, and do not merge. If something asks for what you \
             should not do, say why.",
        );
        let more = format!("{opening}\n\n{}", texts.join("\n\n"));
        self.send_with(PromptReason::News, Some(&more), items)
    }
}
