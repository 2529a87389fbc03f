//! Watches a pull request until it is merged: what the forge says becomes pending items, and the
//! agent works on them.
//!
//! A submit that is followed by this stays open: the agent's turn is followed by the checks and the
//! hooks of a submit, which push the work, and then creel watches on. Owns when the forge is asked,
//! what is news, and how the watch ends. Does not read a forge: see [`forge`] for the words.
//!
//! # Invariants
//! - Each news reaches the agent at most once, by the forge's own id, over kills and restarts.
//! - Nothing is pushed or merged that the checks have not passed: both are pipelines. Nor does the
//!   agent work while the forge is asked, because that can move the branch.
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
        gate::{
            Gate,
            kind::{GateChoice, GateKind},
            subject::GateSubject,
        },
        hooks::point::HookPoint,
        ids::ItemId,
        output::EngineOutput,
        pending::{ItemState, PendingItem},
        policy::{MergePolicy, ReviewPolicy, SubmitUntil},
        session::{SessionState, phase::Phase},
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
                NewsOrigin, NewsSource, PullRequestState,
            },
        },
    },
    text::{counted, shortened},
};

/// For how many intervals after a change creel looks often.
const OFTEN: u64 = 20;
/// How many times as long the intervals are later.
const SELDOM: u64 = 10;
/// How long nothing may change before a pull request is ready, unless the forge itself says which
/// checks it needs: more of them can come late, and so can a place in the merge queue.
const LATE_CHECKS: TimeSpan = TimeSpan::secs(60);
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
    /// Whether that was after the last push.
    #[serde(default)]
    pub is_known: bool,
    /// What the forge said last, without the news.
    pub reading: Option<ForgeReading>,
    /// Why it did not answer the last time.
    pub problem: Option<String>,
    /// The commit that was verified and pushed.
    pub head: Option<String>,
    /// The same before the last round.
    pub head_before: Option<String>,
    /// Whether the agent got news since creel pushed last.
    #[serde(default)]
    pub in_round: bool,
    /// What creel answers to the news of the last round.
    #[serde(default)]
    pub answer: Option<String>,
    /// What blocked the last submit or merge.
    #[serde(default)]
    pub held: Option<String>,
    /// How many times the agent got news.
    pub rounds: u32,
    /// How many rounds there may be.
    pub limit: u32,
    /// The news that the user saw at the gate.
    pub seen: Vec<ItemId>,
    /// How many times an answer to this news failed; [`ANSWERS`] if it needs none any more.
    pub answers: BTreeMap<String, u32>,
    /// The last commit that was submitted without a turn: see [`ForgeReading::to_verify`].
    #[serde(default)]
    pub submitted: Option<String>,
    /// The last commit that creel tried to merge.
    #[serde(default)]
    pub merge_tried: Option<String>,
    /// The commit that waits although something is red, because the user wants that.
    #[serde(default)]
    pub accepted: Option<String>,
}

/// What the session asks the user about its pull request.
struct WatchQuestion {
    subject: GateSubject,
    reason: String,
    choices: Vec<GateChoice>,
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
    fn is_ready(&self, now: UnixTime, every: TimeSpan) -> bool {
        let Some(reading) = &self.reading else {
            return false;
        };
        let names_checks = reading.checks.iter().any(|check| check.required);
        let patience = TimeSpan((every.0 * 2).min(LATE_CHECKS.0));
        let is_settled = now >= self.changed.after(patience);
        let noticed = (names_checks && !self.is_merge_tried()) || is_settled;
        let open = reading.state == PullRequestState::Open && !reading.is_draft && !reading.queued;
        let clean = reading.mergeable == Mergeable::Clean;
        self.problem.is_none()
            && self.is_current(reading)
            && !reading.unpushed
            && reading.is_green()
            && noticed
            && reading.is_approved()
            && open
            && clean
    }

    /// Whether the branch has a commit that no turn made and that is to be verified and pushed.
    fn has_to_verify(&self) -> bool {
        let commit = self.reading.as_ref().and_then(|it| it.to_verify.as_ref());
        commit.is_some() && self.submitted.as_ref() != commit && self.head.as_ref() != commit
    }

    /// Whether the work of the last round could not be submitted at once.
    const fn has_to_resubmit(&self) -> bool {
        self.in_round && self.is_known && self.held.is_some()
    }

    /// Whether creel has tried to merge this commit.
    fn is_merge_tried(&self) -> bool {
        let head = self.reading.as_ref().map(|reading| &reading.head);
        head.is_some() && self.merge_tried.as_ref() == head
    }

    /// When to look again.
    fn next_look(&self, now: UnixTime, changed: bool, every: TimeSpan) -> UnixTime {
        let often = changed || now < self.changed.after(TimeSpan(every.0 * OFTEN));
        now.after(TimeSpan(if often { every.0 } else { every.0 * SELDOM }))
    }
}

impl WatchQuestion {
    /// Whether an open gate asks this. A gate about news asks about all of it.
    fn is_at(&self, gate: &Gate) -> bool {
        let asks_about_all = self
            .subject
            .items()
            .iter()
            .all(|item| gate.subject.items().contains(item));
        let asks_the_same = if gate.kind() == GateKind::Review {
            asks_about_all
        } else {
            self.reason == gate.reason && self.choices == gate.choices
        };
        self.subject.kind() == gate.kind() && asks_the_same
    }
}

impl<'a> WatchRules<'a> {
    fn watch(self) -> Option<(&'a PipelineRun, &'a Watch)> {
        let run = self.0.pipelines.pipeline_run.as_deref()?;
        Some((run, run.watch.as_deref()?))
    }

    /// A submit has ended well: the session waits for its pull request, if it should.
    pub(crate) fn begin_watch(self, run: &PipelineRun) -> Option<EngineOutput> {
        let follows =
            run.until == SubmitUntil::Merged && run.back != ReturnTo::Loop && run.merged.is_none();
        let pull_request = run.pull_request.as_ref().filter(|_| follows)?;
        let round = run.watch.as_deref().filter(|watch| watch.in_round);
        Some(Self::started(WatchEvent::Started {
            pull_request: pull_request.clone(),
            head: run.pushed.clone(),
            answer: round.map(|watch| self.answer_of(watch, run.pushed.as_ref())),
            held: None,
        }))
    }

    /// A resumed session waits for its pull request as before: what has happened since is news. None
    /// if the agent was at work.
    pub(crate) fn resume_watch(self, run: &PipelineRun) -> Option<EngineOutput> {
        let pipelines = &self.0.pipelines;
        let is_first = run.until == SubmitUntil::Merged && run.steps.is_empty();
        let left = pipelines.left_watch.as_deref()?;
        let waited = pipelines.watched().is_some() && is_first && run.watch.is_none();
        let waits = waited && !left.in_round && run.pull_request.is_none() && left.head.is_some();
        waits.then(|| Self::waits_on(left, None))
    }

    /// A turn failed: the session keeps waiting as before.
    pub(crate) fn wait_on(self) -> Option<EngineOutput> {
        let (_, watch) = self.watch()?;
        Some(Self::waits_on(watch, None))
    }

    /// A hook blocks the submit or the merge, and the agent cannot repair that: the session keeps
    /// waiting. A submit is tried once more, because a forge can fail for a moment. None if the user
    /// decides.
    pub(crate) fn wait_after(self, pipeline: PipelineKind, why: &str) -> Option<EngineOutput> {
        let (_, watch) = self.watch()?;
        let asks = pipeline == PipelineKind::Submit && watch.held.is_some();
        let waits = || Self::waits_on(watch, Some(why.to_owned()));
        (!asks).then(waits)
    }

    fn waits_on(watch: &Watch, held: Option<String>) -> EngineOutput {
        Self::started(WatchEvent::Started {
            pull_request: watch.pull_request.clone(),
            head: watch.head.clone(),
            answer: None,
            held,
        })
    }

    fn started(event: WatchEvent) -> EngineOutput {
        EngineOutput::record(Event::Watch(event))
    }

    /// The answer to the comments that the agent has worked on.
    fn answer_of(self, watch: &Watch, pushed: Option<&String>) -> String {
        let changed = pushed.filter(|_| pushed != watch.head_before.as_ref());
        changed.map_or_else(
            || {
                let words = agent_words(&self.0.turns.agent_text).unwrap_or_default();
                let words = shortened(&words, WORDS);
                format!("Nothing was changed for this. The agent says:\n\n{words}")
            },
            |commit| format!("Done in {commit}."),
        )
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
        let is_over = now >= self.end_of(watch);
        let state = watch.reading.as_ref().map(|reading| reading.state);
        match state {
            Some(PullRequestState::Merged) => {
                let verified = watch
                    .reading
                    .as_ref()
                    .is_some_and(|it| watch.is_current(it));
                let answer = self.answer_due(watch);
                return match answer.filter(|_| verified && watch.problem.is_none()) {
                    Some(answer) => EngineOutput::default().then(answer.into()),
                    None => self.merged(run),
                };
            }
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
        // What the user or the agent gets is as the forge has it now.
        if let Some(call) = self.call_due(watch, now) {
            return call;
        }
        if let Some(step) = self.0.retries().too_many_errors() {
            return step;
        }
        let steering = &self.0.steering;
        if steering.message_is_due(0, &self.0.iterations, self.0.plan()) {
            return self.0.prompts().message_prompt(None);
        }
        if let Some(question) = self.question(watch, now).filter(|_| !is_over) {
            return self.ask(question);
        }
        if let Some(step) = self.hand_over(watch, now).filter(|_| !is_over) {
            return step;
        }
        if watch.has_to_verify() || watch.has_to_resubmit() {
            return self.0.pipeline().begin_pipeline(PipelineKind::Submit);
        }
        let merges_by_itself = self.0.plan().submit.watch.merge == MergePolicy::Auto
            && self.is_ready_to_merge(watch, now);
        if merges_by_itself || self.0.pipelines.wanted == Some(PipelineKind::Merge) {
            return self.0.pipeline().begin_pipeline(PipelineKind::Merge);
        }
        if is_over {
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
        Some(watch.next.min(self.end_of(watch)))
    }

    fn end_of(self, watch: &Watch) -> UnixTime {
        watch.began.after(self.0.plan().submit.watch.max_watch)
    }

    /// Keeps looking while a gate about the pull request is open, and closes it when its reason is gone.
    /// Empty if the gate waits for its answer.
    pub(crate) fn proceed_at_gate(self, now: UnixTime) -> EngineOutput {
        let Some((gate, watch)) = self.own_gate() else {
            return EngineOutput::default();
        };
        if self.0.steering.stop.is_some() || now >= self.end_of(watch) {
            return self.0.gates.withdraw(&POLICY);
        }
        if let Some(call) = self.call_due(watch, now) {
            return call;
        }
        if self.question(watch, now).is_some_and(|it| it.is_at(gate)) {
            return EngineOutput::default();
        }
        self.0.gates.withdraw(&POLICY)
    }

    /// When the next look is due at a gate about the pull request.
    pub(crate) fn wake_at_gate(self) -> Option<UnixTime> {
        let (_, watch) = self.own_gate()?;
        Some(watch.next.min(self.end_of(watch)))
    }

    /// The open gate, if it is about the pull request.
    fn own_gate(self) -> Option<(&'a Gate, &'a Watch)> {
        let gate = self.0.gates.open.as_ref()?;
        let (_, watch) = self.watch()?;
        let is_own = self.0.phase == Phase::Watching
            && !self.0.steering.paused
            && matches!(gate.kind(), GateKind::Review | GateKind::Merge);
        is_own.then_some((gate, watch))
    }

    /// The call to the forge that comes before everything else. Nothing is answered before creel
    /// knows what became of the pull request while the agent worked.
    fn call_due(self, watch: &Watch, now: UnixTime) -> Option<EngineOutput> {
        let is_due = now >= watch.next;
        let answer = self.answer_due(watch).filter(|_| watch.is_known);
        let call = match answer {
            Some(answer) if is_due || watch.problem.is_none() => answer.into(),
            _ if is_due => Effect::ReadForge(Box::new(self.request(watch))),
            _ => return None,
        };
        Some(EngineOutput::default().then(call))
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
            remote: plan.submit.remote.clone(),
            output_limit: plan.output_limit,
        }
    }

    /// The news that the agent can have now: failed checks wait for those that still run.
    fn ready_news(self, watch: &Watch, now: UnixTime) -> Vec<ItemId> {
        let items = self.waiting();
        let is_check = |item: &&PendingItem| {
            let news = item.source.news.as_ref();
            news.is_some_and(|news| news.origin == NewsOrigin::Check)
        };
        let others_may_fail = items.iter().all(is_check)
            && watch.has_pending_checks()
            && now < watch.changed.after(OTHER_CHECKS);
        if others_may_fail {
            return Vec::new();
        }
        items.iter().map(|item| item.id).collect()
    }

    /// The prompt for news. None if there is none for the agent now.
    fn hand_over(self, watch: &Watch, now: UnixTime) -> Option<EngineOutput> {
        let items = self.ready_news(watch, now);
        if items.is_empty() {
            return None;
        }
        if self.0.beside().is_busy_beside() {
            return Some(EngineOutput::default());
        }
        let waits = self.0.retries().wait_over(now);
        Some(waits.unwrap_or_else(|| self.0.prompts().news_prompt(&watch.pull_request, items)))
    }

    /// What the user has to decide now.
    fn question(self, watch: &Watch, now: UnixTime) -> Option<WatchQuestion> {
        let url = &watch.pull_request;
        let about_the_merge = |reason, choices: &[GateChoice]| WatchQuestion {
            subject: GateSubject::Pipeline {
                pipeline: PipelineKind::Merge,
                hook: String::new(),
            },
            reason,
            choices: choices.to_vec(),
        };
        let items = self.ready_news(watch, now);
        let news = counted(items.len(), "new item");
        if !items.is_empty() && watch.rounds >= watch.limit {
            let reason = format!(
                "the agent got news of {url} {}, and there is more: {news}",
                counted(watch.rounds as usize, "time")
            );
            let choices = [GateChoice::Retry, GateChoice::Send, GateChoice::Leave];
            return Some(about_the_merge(reason, &choices));
        }
        let asks = self.0.plan().gates.review == ReviewPolicy::Ask;
        if asks && items.iter().any(|id| !watch.seen.contains(id)) {
            let subject = GateSubject::Review { items };
            let choices = subject.kind().choices();
            return Some(WatchQuestion {
                subject,
                reason: format!("{url} has {news} for the agent"),
                choices,
            });
        }
        if let Some(what) = self.stays_red(watch) {
            let reason = format!("{url}: {what}, and the agent changed nothing for it");
            let choices = [GateChoice::Wait, GateChoice::Send, GateChoice::Leave];
            return Some(about_the_merge(reason, &choices));
        }
        let was_tried = watch.is_merge_tried();
        let asks = match self.0.plan().submit.watch.merge {
            MergePolicy::Never => false,
            MergePolicy::Auto => was_tried,
            MergePolicy::Ask => true,
        };
        let wanted = self.0.pipelines.wanted.is_some();
        if !asks || wanted || !self.is_ready(watch, now) {
            return None;
        }
        let reason = match &watch.held {
            Some(why) if was_tried => format!("{url} is ready, but it was not merged: {why}"),
            _ if was_tried => format!("{url} is ready, but the forge has not merged it"),
            _ => format!("{url} is ready: {}", watch.status()),
        };
        let choices = [GateChoice::Merge, GateChoice::Send, GateChoice::Leave];
        Some(about_the_merge(reason, &choices))
    }

    fn ask(self, question: WatchQuestion) -> EngineOutput {
        let WatchQuestion {
            subject,
            reason,
            choices,
        } = question;
        self.0.gates.open_gate_with(subject, reason, choices)
    }

    /// What keeps it from being merged although the agent had its turn for it. None while something
    /// can still change by itself, and if the user wants to wait.
    fn stays_red(self, watch: &Watch) -> Option<String> {
        let reading = watch.reading.as_ref()?;
        let can_change = !watch.is_current(reading)
            || reading.queued
            || watch.has_pending_checks()
            || watch.has_to_verify()
            || watch.has_to_resubmit()
            || !self.waiting().is_empty()
            || watch.accepted.as_ref() == Some(&reading.head);
        if can_change {
            return None;
        }
        let had = |is_about: &dyn Fn(&NewsSource) -> bool| {
            let items = self.0.pending.items().iter();
            let mut had = items.filter(|item| item.state == ItemState::Delivered);
            had.any(|item| item.source.news.as_deref().is_some_and(is_about))
        };
        let failed = reading.counted_checks().find(|check| {
            let is_it =
                |news: &NewsSource| news.origin == NewsOrigin::Check && news.title == check.name;
            check.result == CheckState::Failed && had(&is_it)
        });
        if let Some(check) = failed {
            return Some(format!("`{}` failed", check.name));
        }
        let lacks_the_base = matches!(reading.mergeable, Mergeable::Conflict | Mergeable::Behind);
        // Its id ends with the commit that it is about.
        let is_it = |news: &NewsSource| {
            news.origin == NewsOrigin::Conflict && news.id.ends_with(&reading.head)
        };
        (lacks_the_base && had(&is_it)).then(|| match reading.mergeable {
            Mergeable::Behind => "it still lacks the newest base".to_owned(),
            Mergeable::Clean | Mergeable::Conflict | Mergeable::Unknown => {
                "it still conflicts with its base".to_owned()
            }
        })
    }

    /// Whether everything is green, approved and answered.
    fn is_ready(self, watch: &Watch, now: UnixTime) -> bool {
        watch.is_ready(now, self.0.plan().submit.watch.poll)
            && self.waiting().is_empty()
            && self.answer_due(watch).is_none()
            && !watch.has_to_resubmit()
    }

    fn is_ready_to_merge(self, watch: &Watch, now: UnixTime) -> bool {
        self.is_ready(watch, now) && !watch.is_merge_tried()
    }

    /// The news that the agent has worked on and that creel has not answered yet, and the answer.
    fn answer_due(self, watch: &Watch) -> Option<ForgeAnswer> {
        if watch.in_round {
            return None;
        }
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
        let items = self.0.pending.items().iter();
        let mut due = items
            .filter(is_due)
            .filter_map(|item| item.source.news.as_deref());
        let source = due.next()?.clone();
        // One answer for all comments of a thread.
        let same = |other: &&NewsSource| other.thread.is_some() && other.thread == source.thread;
        let also = due.filter(same).map(|other| other.id.clone()).collect();
        let text = watch.answer.clone();
        let text = text.unwrap_or_else(|| self.answer_of(watch, watch.head.as_ref()));
        Some(ForgeAnswer {
            pull_request: watch.pull_request.clone(),
            source,
            also,
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
        // What the user approves is what the gate has shown.
        let gate = self.own_gate().map(|(gate, _)| gate.subject.items());
        let is_outdated = gate.is_some_and(|shown| updated.iter().any(|it| shown.contains(it)));
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
        let read = changes.into_iter().fold(read, EngineOutput::and);
        if is_outdated {
            let closed = self.0.gates.withdraw(&POLICY);
            return closed.events.into_iter().fold(read, EngineOutput::and);
        }
        read
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
        let also = answer.also.clone();
        let answered = WatchEvent::Answered {
            id,
            also,
            commit,
            error,
        };
        let answered = EngineOutput::record(Event::Watch(answered));
        match result {
            Ok(()) => answered,
            Err(problem) => {
                let every = self.0.plan().submit.watch.poll;
                let failed = Self::failed(watch, now, every, problem);
                failed.events.into_iter().fold(answered, EngineOutput::and)
            }
        }
    }

    /// The pull request is merged: the hooks after a merge run, and then the session ends.
    fn merged(self, run: &PipelineRun) -> EngineOutput {
        let announced = self.0.pipeline().announce_steps(run, HookPoint::AfterMerge);
        if announced.is_empty() {
            self.end_merged()
        } else {
            announced
        }
    }

    pub(crate) fn end_merged(self) -> EngineOutput {
        let Some((run, watch)) = self.watch() else {
            return EngineOutput::default();
        };
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
            if let Phase::Exit(end) = &self.0.phase
                && end.outcome != SessionOutcome::Cancelled
            {
                return self.left(run, &POLICY, end.outcome, &end.reason);
            }
            return self.left(run, &POLICY, SessionOutcome::Cancelled, "you stopped creel");
        };
        if matches!(by.by, ActorKind::Policy | ActorKind::Timeout) {
            return self.left(run, by, SessionOutcome::Escalated, why);
        }
        let url = run.pull_request.as_deref().unwrap_or_default();
        let end = PipelineEnd {
            outcome: PipelineOutcome::Failed,
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
        let reason = if why.contains(url) {
            format!("{why}; it is not merged")
        } else {
            format!("{why}, and {url} is not merged")
        };
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

impl From<ForgeAnswer> for Effect {
    fn from(answer: ForgeAnswer) -> Self {
        Self::AnswerNews(Box::new(answer))
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
