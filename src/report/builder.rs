//! Folds records into a report.

use sha2::{Digest as _, Sha256};

use super::{
    CheckHistory, CheckPlace, Report, ReportedChanges, ReportedDiff, ReportedEdit, ReportedGate,
    ReportedItem, ReportedMoment, ReportedOutcome, ReportedRun, ReportedSession, ReportedStage,
    ReportedTurn, ReportedUsage, RunMark, StageKind, TurnOutcome, VERSION, Verification, outcome,
};
use crate::{
    engine::{
        SessionState,
        conversation::{ChangedLines, ToolCall, TurnUsage, WorktreeChanges},
        event::{
            CheckOutcome, Event, GateEvent, HookEvent, HookFinished, PendingEvent, PipelineEvent,
            PromptSent, RetryEvent, SessionEvent, StopEvent, TurnEvent, VerifyEvent,
        },
        hooks::{
            point::HookPoint,
            verdict::{BuiltinStatus, RunEnd, Verdict},
        },
        ids::TurnId,
        pending::ItemState,
        policy::MODEL,
        protect::PROTECT,
        session::delivery::CHANGED_LATE,
        submit::kind::{PipelineKind, PipelineOutcome},
        time::{TimeSpan, UnixTime},
        verify::{
            CheckKind,
            base_tests::{CleanRun, CleanRunResult},
            test_guard::TestComparison,
        },
    },
    journal::Record,
    present::{
        describe::{EventContext, EventTone, describe},
        gate_words::{GateFigures, choice_words},
        session_chip::IdleTime,
        text::{plain, plain_line},
    },
};

/// How much of the agent's words a turn keeps, in bytes.
const ANSWER: usize = 16 << 10;
/// The longest diff of one edit, in bytes.
const EDIT: usize = 64 << 10;
/// The longest reason in a line, in characters.
const LINE: usize = 300;
/// How many bytes of a digest are shown.
const DIGEST_BYTES: usize = 8;

#[derive(Default)]
pub struct ReportBuilder {
    state: Option<SessionState>,
    context: EventContext,
    idle: IdleTime,
    stages: Vec<StageInProgress>,
    pub(super) checks: Vec<CheckHistory>,
    pub(super) gates: Vec<ReportedGate>,
    pub(super) items: Vec<ReportedItem>,
    models: Vec<String>,
    /// The warning about work that no check has seen.
    pub(super) changed_late: Option<String>,
    /// The checks that an actor disabled, in sentences.
    pub(super) disabled: Vec<String>,
    /// Files that agents must not change and that were changed.
    pub(super) tampered: Vec<String>,
    tests: Option<TestComparison>,
    lines: Option<ChangedLines>,
    end: Option<RecordedEnd>,
    pull_request: Option<String>,
    is_merged: bool,
    resumed: usize,
    records: u64,
    last: UnixTime,
}

/// A stage, and the moment from which its time is counted.
struct StageInProgress {
    stage: ReportedStage,
    /// How long no process had run the session by then.
    idle: TimeSpan,
}

/// The end of the session.
pub(super) struct RecordedEnd {
    at: UnixTime,
    pub(super) reason: String,
    pub(super) checks: Vec<CheckOutcome>,
}

impl ReportBuilder {
    /// Adds the next record.
    pub fn take(&mut self, record: &Record) {
        let (at, event) = (record.at, &record.event);
        self.records += 1;
        self.last = at;
        self.idle.take(at, event);
        match (&mut self.state, event) {
            (Some(state), event) => state.apply(at, event),
            (None, Event::Session(SessionEvent::Started(began))) => {
                self.state = Some(SessionState::new(&record.session, (**began).clone(), at));
            }
            (None, _) => return,
        }
        if let Event::Session(event) = event {
            self.session(at, event);
        } else if let Event::Turn(event) = event {
            self.turn(at, event);
        } else if let Event::Hook(event) = event {
            self.hook(at, event);
        } else if let Event::Stop(event) = event {
            self.rule(at, event);
        } else if let Event::Gate(event) = event {
            self.gate(at, event);
        } else if let Event::Pending(event) = event {
            self.pending(event);
        } else if let Event::Retry(RetryEvent::Counted { .. }) = event {
            self.stage(at).retries += 1;
        } else if let Event::Verify(VerifyEvent::Tampered(found)) = event {
            self.tampered.extend(found.tampered.iter().cloned());
        } else if let Event::Verify(VerifyEvent::TestsCompared(found)) = event {
            self.tests = Some(found.clone());
        } else if let Event::Pipeline(event) = event {
            self.pipeline(event);
        }
        self.moment(at, event);
        self.context.follow(event);
    }

    fn pipeline(&mut self, event: &PipelineEvent) {
        let PipelineEvent::Ended {
            pipeline,
            outcome,
            pull_request,
            merged,
            ..
        } = event
        else {
            return;
        };
        if pull_request.is_some() {
            self.pull_request.clone_from(pull_request);
        }
        let is_merge = *pipeline == PipelineKind::Merge || merged.is_some();
        self.is_merged |= is_merge && *outcome == PipelineOutcome::Done;
    }

    fn begin_stage(&mut self, kind: StageKind, iteration: u32, at: UnixTime) {
        self.close_stage();
        let stage = ReportedStage {
            kind,
            iteration,
            at,
            took_ms: TimeSpan::default(),
            outcome: None,
            retries: 0,
            turns: Vec::new(),
            moments: Vec::new(),
            files: Vec::new(),
            more_files: 0,
            commit_before: None,
            commit_after: None,
            diff: ReportedDiff::default(),
        };
        let idle = self.idle.total();
        self.stages.push(StageInProgress { stage, idle });
    }

    /// Counts the time of the current stage up to the last record.
    fn close_stage(&mut self) {
        let (last, idle) = (self.last, self.idle.total());
        if let Some(current) = self.stages.last_mut() {
            let not_run = idle.0.saturating_sub(current.idle.0);
            let took = last.since(current.stage.at).0.saturating_sub(not_run);
            current.stage.took_ms = TimeSpan(took);
        }
    }

    fn stage(&mut self, at: UnixTime) -> &mut ReportedStage {
        if self.stages.is_empty() {
            self.begin_stage(StageKind::Start, 0, at);
        }
        let current = self.stages.last_mut();
        &mut current.expect("a stage has begun").stage
    }

    fn session(&mut self, at: UnixTime, event: &SessionEvent) {
        if let SessionEvent::IterationStarted { iteration } = event {
            self.begin_stage(StageKind::Iteration, *iteration, at);
        } else if let SessionEvent::IterationCompleted { outcome, iteration } = event {
            let mut stages = self.stages.iter_mut().rev();
            let own = stages.find(|one| {
                one.stage.iteration == *iteration && one.stage.kind == StageKind::Iteration
            });
            if let Some(own) = own {
                own.stage.outcome = Some(*outcome);
            }
        } else if let SessionEvent::LoopEnded { .. } = event {
            let iteration = self.stage(at).iteration;
            self.begin_stage(StageKind::End, iteration, at);
        } else if let SessionEvent::Ended {
            reason,
            lines,
            checks,
            ..
        } = event
        {
            self.lines = lines.or(self.lines);
            self.end = Some(RecordedEnd {
                at,
                reason: plain(reason).replace('\n', " "),
                checks: checks.clone(),
            });
        } else if let SessionEvent::Warning { text } = event {
            if text.starts_with(CHANGED_LATE) {
                self.changed_late = Some(text.clone());
            }
        } else if let SessionEvent::Resumed { .. } = event {
            self.changed_late = None;
            self.resumed += 1;
            self.end = None;
        }
    }

    fn turn(&mut self, at: UnixTime, event: &TurnEvent) {
        if let TurnEvent::PromptSent(prompt) = event {
            self.prompt(at, prompt);
        } else if let TurnEvent::AgentSaid { turn, text, .. } = event {
            if let Some(turn) = self.turn_of(*turn) {
                append_answer(&mut turn.answer, text);
            }
        } else if let TurnEvent::ToolCalled { turn, tool, .. } = event {
            if let Some(turn) = self.turn_of(*turn) {
                turn.tool_calls += 1;
                edited(turn, tool);
            }
        } else if let TurnEvent::ToolUpdated { turn, tool, .. } = event {
            if let Some(turn) = self.turn_of(*turn) {
                edited(turn, tool);
            }
        } else if let TurnEvent::AgentNoted { what, text, .. } = event {
            if what == MODEL {
                self.model(text);
            }
        } else if let TurnEvent::Ended {
            turn,
            stop_reason,
            spent,
            work,
            forbidden,
            ..
        } = event
        {
            if let Some(turn) = self.turn_of(*turn) {
                turn.stop_reason = Some(*stop_reason);
                ended(turn, at, TurnOutcome::Ended, *spent);
            }
            self.work(at, work.as_deref());
            self.tampered.extend(forbidden.tampered.iter().cloned());
            self.protected(at, &forbidden.protected);
        } else if let TurnEvent::Failed {
            turn,
            error,
            spent,
            work,
            forbidden,
            ..
        } = event
        {
            if let Some(turn) = self.turn_of(*turn) {
                turn.error = Some(plain(error));
                ended(turn, at, TurnOutcome::Failed, *spent);
            }
            self.work(at, work.as_deref());
            self.tampered.extend(forbidden.tampered.iter().cloned());
        }
    }

    fn prompt(&mut self, at: UnixTime, prompt: &PromptSent) {
        if let Some(model) = &prompt.model {
            self.model(model);
        }
        let carried = |item: &&mut ReportedItem| prompt.items.contains(&item.item);
        for item in self.items.iter_mut().filter(carried) {
            item.turns.push(prompt.turn);
        }
        let turn = ReportedTurn {
            turn: prompt.turn,
            at,
            reason: prompt.reason,
            agent: prompt.agent.as_deref().map(plain),
            model: prompt.model.as_deref().map(plain),
            conversation: prompt.conversation,
            prompt: plain(&prompt.text),
            items: prompt.items.clone(),
            end: TurnOutcome::Open,
            stop_reason: None,
            error: None,
            took_ms: None,
            tokens: None,
            cost: None,
            cost_estimated: None,
            token_kinds: None,
            tool_calls: 0,
            answer: String::new(),
            edits: Vec::new(),
        };
        self.stage(at).turns.push(turn);
    }

    fn model(&mut self, name: &str) {
        let name = plain_line(name, LINE);
        if !self.models.contains(&name) {
            self.models.push(name);
        }
    }

    fn turn_of(&mut self, id: TurnId) -> Option<&mut ReportedTurn> {
        let stages = self.stages.iter_mut().rev();
        let mut turns = stages.flat_map(|one| one.stage.turns.iter_mut().rev());
        turns.find(|turn| turn.turn == id)
    }

    fn work(&mut self, at: UnixTime, work: Option<&WorktreeChanges>) {
        let Some(work) = work else {
            return;
        };
        let stage = self.stage(at);
        let files = work
            .files_modified
            .iter()
            .map(|file| plain_line(file, LINE));
        stage.files.extend(files);
        stage.more_files = stage.more_files.max(work.more_modified);
        let before = work.before.as_ref().or(work.commit.as_ref());
        stage.commit_before = stage.commit_before.take().or_else(|| before.cloned());
        stage.commit_after = work.commit.clone().or(stage.commit_after.take());
    }

    fn protected(&mut self, at: UnixTime, changed: &[String]) {
        let guards = self
            .state
            .as_ref()
            .is_some_and(|state| !state.plan().access.protect.is_empty());
        if !guards {
            return;
        }
        let passed = changed.is_empty();
        let run = ReportedRun {
            run: None,
            iteration: self.stage(at).iteration,
            at,
            result: if passed {
                RunMark::Passed
            } else {
                RunMark::Blocked
            },
            end: String::new(),
            took_ms: TimeSpan::default(),
            reason: (!passed).then(|| "protected files changed".to_owned()),
            output: changed.iter().map(|file| plain(file) + "\n").collect(),
            omitted_bytes: 0,
            tests: None,
            tests_of: None,
        };
        self.history(CheckPlace::Protect, PROTECT).runs.push(run);
    }

    fn history(&mut self, kind: CheckPlace, name: &str) -> &mut CheckHistory {
        let name = plain_line(name, LINE);
        let known = self.checks.iter();
        let place = known
            .clone()
            .position(|check| check.kind == kind && check.name == name);
        let place = place.unwrap_or_else(|| {
            self.checks.push(CheckHistory {
                kind,
                name,
                command: None,
                counts: false,
                result: None,
                runs: Vec::new(),
                clean_runs: Vec::new(),
            });
            self.checks.len() - 1
        });
        &mut self.checks[place]
    }

    fn hook(&mut self, at: UnixTime, event: &HookEvent) {
        if let HookEvent::Finished(finished) = event {
            if let Some(kind) = place(finished.point) {
                let run = hook_run(at, finished);
                let history = self.history(kind, &finished.hook);
                match run.tests_of {
                    Some(_) => history.clean_runs.push(run),
                    None => history.runs.push(run),
                }
            }
        } else if let HookEvent::Disabled { point, hook, by } = event
            && place(*point).is_some()
        {
            let hook = plain_line(hook, LINE);
            let by = outcome::actor(by);
            self.disabled
                .push(format!("`{hook}` at {point} was disabled by {by}."));
        } else if let HookEvent::Enabled { point, hook, by } = event
            && place(*point).is_some()
        {
            let hook = plain_line(hook, LINE);
            let by = outcome::actor(by);
            self.disabled
                .push(format!("`{hook}` at {point} was enabled again by {by}."));
        }
    }

    fn rule(&mut self, at: UnixTime, event: &StopEvent) {
        let StopEvent::RuleChecked {
            run,
            rule,
            iteration,
            passed,
            message,
            took_ms,
            end,
            ..
        } = event
        else {
            return;
        };
        let verdict = if *passed {
            Verdict::Pass
        } else {
            Verdict::Block
        };
        let run = ReportedRun {
            run: Some(*run),
            iteration: *iteration,
            at,
            result: mark(end.as_ref(), verdict),
            end: end.as_ref().map(RunEnd::describe).unwrap_or_default(),
            took_ms: *took_ms,
            reason: (!passed).then(|| plain_line(message, LINE)),
            output: plain(message),
            omitted_bytes: 0,
            tests: None,
            tests_of: None,
        };
        self.history(CheckPlace::Rule, rule).runs.push(run);
    }

    fn gate(&mut self, at: UnixTime, event: &GateEvent) {
        if let GateEvent::Opened {
            gate,
            about,
            reason,
            ..
        } = event
        {
            self.gates.push(ReportedGate {
                gate: *gate,
                about: *about,
                reason: plain(reason),
                opened: at,
                answered: None,
                choice: None,
                answer: None,
                by: None,
            });
        } else if let GateEvent::Answered {
            gate, choice, by, ..
        } = event
        {
            let mut gates = self.gates.iter_mut().rev();
            if let Some(known) = gates.find(|known| known.gate == *gate) {
                let label = choice_words(known.about, *choice, GateFigures::default()).label;
                known.answered = Some(at);
                known.choice = Some(*choice);
                known.answer = Some(label.trim_end_matches('…').to_owned());
                known.by = Some(outcome::actor(by));
            }
        }
    }

    fn pending(&mut self, event: &PendingEvent) {
        if let PendingEvent::Added {
            item,
            point,
            hook,
            iteration,
            text,
            ..
        } = event
        {
            self.items.push(ReportedItem {
                item: *item,
                point: *point,
                hook: plain_line(hook, LINE),
                iteration: *iteration,
                state: ItemState::Pending,
                edited: false,
                turns: Vec::new(),
                text: plain(text),
            });
        } else if let PendingEvent::Edited { item, text, .. } = event
            && let Some(known) = self.items.iter_mut().rev().find(|it| it.item == *item)
        {
            known.text = plain(text);
        }
    }

    /// Adds a line to the timeline, unless a turn, an item or a gate shows the event.
    fn moment(&mut self, at: UnixTime, event: &Event) {
        let is_shown = match event {
            Event::Turn(_) | Event::Pending(_) | Event::Automation(_) | Event::Unknown => false,
            Event::Session(event) => !matches!(
                event,
                SessionEvent::IterationStarted { .. }
                    | SessionEvent::IterationCompleted { .. }
                    | SessionEvent::ProcessStarted { .. }
            ),
            Event::Hook(event) => !matches!(event, HookEvent::Started { .. }),
            Event::Stop(event) => !matches!(event, StopEvent::RuleStarted { .. }),
            Event::UsageLimit(_)
            | Event::Retry(_)
            | Event::Gate(_)
            | Event::Task(_)
            | Event::Workflow(_)
            | Event::Pipeline(_)
            | Event::Steering(_)
            | Event::Verify(_)
            | Event::Watch(_) => true,
        };
        if !is_shown {
            return;
        }
        let answer = if let Event::Gate(GateEvent::Answered { gate, .. }) = event {
            let known = self.gates.iter().rev().find(|known| known.gate == *gate);
            known.map(|known| (outcome::answer(known), outcome::is_override(known)))
        } else {
            None
        };
        let moment = if let Some((text, is_bad)) = answer {
            ReportedMoment {
                at,
                sign: "◆",
                text,
                is_bad,
            }
        } else if let Some(described) = describe(event, &self.context) {
            ReportedMoment {
                at,
                sign: described.sign,
                text: described.text,
                is_bad: described.tone.is_error() || described.tone == EventTone::Warning,
            }
        } else {
            return;
        };
        self.stage(at).moments.push(moment);
    }

    /// The report. None without the beginning of a session.
    pub fn finish(mut self) -> Option<Report> {
        self.close_stage();
        let state = self.state.take()?;
        self.complete_checks(&state);
        for item in &mut self.items {
            let known = state.pending.get(item.item);
            item.state = known.map_or(item.state, |known| known.state);
            item.edited = known.is_some_and(|known| known.edited);
        }
        let stages: Vec<ReportedStage> = std::mem::take(&mut self.stages)
            .into_iter()
            .map(|one| ReportedStage {
                files: each_once(one.stage.files),
                ..one.stage
            })
            .collect();
        let changes = changes(&stages, &state, self.lines);
        let end = self.end.as_ref().map(|end| end.at);
        let mut usage = usage(&stages, &state);
        usage.running_ms = self.idle.running(state.started, end.unwrap_or(self.last));
        let mut report = Report {
            v: VERSION,
            outcome: ReportedOutcome {
                outcome: state.phase.outcome(),
                verification: Verification::Open,
                sentence: String::new(),
                cautions: Vec::new(),
            },
            session: self.facts(&state, end),
            goal: plain(&state.began.prompt),
            checks: std::mem::take(&mut self.checks),
            stages,
            gates: std::mem::take(&mut self.gates),
            items: std::mem::take(&mut self.items),
            changes,
            usage,
            tests: self.tests.take(),
        };
        report.outcome = outcome::outcome(&report, &state, &self, self.end.as_ref());
        Some(report)
    }

    fn facts(&self, state: &SessionState, ended: Option<UnixTime>) -> ReportedSession {
        let began = &state.began;
        let worktree = began.worktree.as_ref();
        let last = state.pipelines.last.as_deref();
        let pull_request = last.and_then(|last| last.pull_request.clone());
        ReportedSession {
            name: state.name.clone(),
            id: began.id.clone(),
            agent: plain_line(&began.agent, LINE),
            models: self.models.clone(),
            task_type: state.plan().task_type.clone(),
            branch: worktree.map(|worktree| plain_line(&worktree.branch, LINE)),
            pull_request: self.pull_request.clone().or(pull_request),
            is_merged: self.is_merged,
            user: began.user.as_deref().map(|user| plain_line(user, LINE)),
            presence: state.presence,
            creel: (!began.creel.is_empty()).then(|| plain_line(&began.creel, LINE)),
            config_digest: digest(state),
            config_files: state.plan().access.config_files.clone(),
            started: state.started,
            ended,
            resumed: self.resumed,
            records: self.records,
        }
    }

    /// Adds the checks that never ran, and what each one proves at the end.
    fn complete_checks(&mut self, state: &SessionState) {
        let rules = state.verification();
        let mut results = rules.outcomes();
        let recorded = self.end.as_ref().map(|end| &end.checks);
        if let Some(recorded) = recorded.filter(|checks| !checks.is_empty()) {
            results.clone_from(recorded);
        }
        for check in rules.counted() {
            let kind = match check.kind {
                CheckKind::Protect => CheckPlace::Protect,
                CheckKind::Hook => CheckPlace::Stop,
                CheckKind::Rule => CheckPlace::Rule,
            };
            let result = results.iter().find(|known| known.name == check.name);
            let result = result.map(|known| known.result);
            let history = self.history(kind, &check.name);
            history.counts = true;
            history.result = result;
        }
        for check in &mut self.checks {
            let point = match check.kind {
                CheckPlace::Stop => HookPoint::Stop,
                CheckPlace::BeforeSubmit => HookPoint::BeforeSubmit,
                CheckPlace::BeforeMerge => HookPoint::BeforeMerge,
                CheckPlace::Rule | CheckPlace::Protect => continue,
            };
            let spec = state.plan().hook(point, &check.name);
            check.command = spec.map(|spec| plain(&spec.action.describe()));
        }
    }
}

/// Which kind of check a hook at this point is, if it is one.
const fn place(point: HookPoint) -> Option<CheckPlace> {
    if matches!(point, HookPoint::Stop) {
        Some(CheckPlace::Stop)
    } else if matches!(point, HookPoint::BeforeSubmit) {
        Some(CheckPlace::BeforeSubmit)
    } else if matches!(point, HookPoint::BeforeMerge) {
        Some(CheckPlace::BeforeMerge)
    } else {
        None
    }
}

fn mark(end: Option<&RunEnd>, verdict: Verdict) -> RunMark {
    match (end, verdict) {
        (Some(RunEnd::TimedOut), _) => RunMark::TimedOut,
        (Some(RunEnd::SpawnFailed(_)), _) => RunMark::NotStarted,
        (Some(RunEnd::Cut), _) => RunMark::Cut,
        (Some(RunEnd::Exit(_) | RunEnd::Signal(_)) | None, Verdict::Pass) => RunMark::Passed,
        (Some(RunEnd::Exit(_) | RunEnd::Signal(_)) | None, Verdict::Block) => RunMark::Blocked,
        (Some(RunEnd::Exit(_) | RunEnd::Signal(_)) | None, Verdict::Fail) => RunMark::Failed,
    }
}

fn hook_run(at: UnixTime, finished: &HookFinished) -> ReportedRun {
    let outcome = finished.outcome.as_ref();
    let is_unneeded = |run: &CleanRun| run.result == CleanRunResult::Unneeded;
    let is_skipped = outcome.is_some_and(|outcome| outcome.status == BuiltinStatus::Skip)
        || finished.tests_of.as_deref().is_some_and(is_unneeded);
    let result = if is_skipped {
        RunMark::Skipped
    } else {
        mark(Some(&finished.end), finished.verdict)
    };
    let (stdout, stderr) = (plain(&finished.stdout), plain(&finished.stderr));
    let gap = if stdout.is_empty() || stdout.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let judged = finished.judged.as_ref();
    let headline = judged.and_then(|judged| judged.headline.as_deref());
    let message = outcome.map(|outcome| outcome.message.as_str());
    let reason = headline.or(message).filter(|_| result != RunMark::Passed);
    ReportedRun {
        run: Some(finished.run),
        iteration: finished.iteration,
        at,
        result,
        end: plain_line(&finished.end.describe(), LINE),
        took_ms: finished.took_ms,
        reason: reason.map(|reason| plain_line(reason, LINE)),
        output: format!("{stdout}{gap}{stderr}"),
        omitted_bytes: finished.omitted_bytes,
        tests: finished.tests,
        tests_of: finished.tests_of.as_ref().map(|run| run.of),
    }
}

fn each_once(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

/// Keeps the end of what the agent said.
fn append_answer(answer: &mut String, text: &str) {
    answer.push_str(&plain(text));
    if answer.len() > 2 * ANSWER {
        let start = answer.ceil_char_boundary(answer.len() - ANSWER);
        *answer = format!("…{}", &answer[start..]);
    }
}

fn edited(turn: &mut ReportedTurn, tool: &ToolCall) {
    let Some(diff) = &tool.diff else {
        return;
    };
    let diff = plain(diff);
    let short = diff.floor_char_boundary(EDIT.min(diff.len()));
    let edit = ReportedEdit {
        call: tool.call.clone(),
        title: plain_line(&tool.title, LINE),
        diff: diff[..short].to_owned(),
    };
    match turn.edits.iter_mut().find(|known| known.call == edit.call) {
        Some(known) => *known = edit,
        None => turn.edits.push(edit),
    }
}

fn ended(turn: &mut ReportedTurn, at: UnixTime, end: TurnOutcome, spent: TurnUsage) {
    turn.end = end;
    turn.took_ms = Some(at.since(turn.at));
    turn.tokens = spent.tokens;
    turn.cost = spent.known_cost();
    turn.cost_estimated = spent.estimated_part();
    turn.token_kinds = spent.token_kinds;
}

fn digest(state: &SessionState) -> String {
    let plan = serde_json::to_vec(state.plan()).unwrap_or_default();
    let hash = Sha256::digest(plan);
    let bytes = hash.iter().take(DIGEST_BYTES);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn changes(
    stages: &[ReportedStage],
    state: &SessionState,
    lines: Option<ChangedLines>,
) -> ReportedChanges {
    let files = stages.iter().flat_map(|stage| stage.files.iter().cloned());
    let base = state.began.worktree.as_ref();
    let base = base.map(|worktree| worktree.commit.clone());
    let first = || stages.iter().find_map(|stage| stage.commit_before.clone());
    let last = stages.iter().rev();
    ReportedChanges {
        files: each_once(files.collect()),
        more_files: stages
            .iter()
            .map(|stage| stage.more_files)
            .max()
            .unwrap_or(0),
        lines,
        commit_before: base.or_else(first),
        commit_after: last.clone().find_map(|stage| stage.commit_after.clone()),
        diff: ReportedDiff::default(),
    }
}

/// The numbers of all turns. The sums are those of the budget.
fn usage(stages: &[ReportedStage], state: &SessionState) -> ReportedUsage {
    let turns = stages.iter().flat_map(|stage| &stage.turns);
    let ended = turns.filter(|turn| turn.end != TurnOutcome::Open);
    let without = |has: fn(&ReportedTurn) -> bool| ended.clone().filter(|turn| !has(turn)).count();
    let used = state.account.used;
    let turns = ended.clone().count();
    let turns_estimated = turns - without(|turn| turn.cost_estimated.is_some());
    let turns_without_tokens = without(|turn| turn.tokens.is_some());
    let turns_without_cost = without(|turn| turn.cost.is_some());
    ReportedUsage {
        tokens: (turns_without_tokens < turns).then_some(used.tokens),
        cost: (turns_without_cost < turns).then_some(used.cost.known),
        cost_estimated: (turns_estimated > 0).then_some(used.cost.estimated),
        turns,
        turns_estimated,
        turns_without_tokens,
        turns_without_cost,
        working_ms: state.account.time,
        running_ms: TimeSpan::default(),
    }
}
