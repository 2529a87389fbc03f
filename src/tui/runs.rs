//! The runs of hooks and rules, by hook: with their live output while they run, and how they ended.
//!
//! # Invariants
//! - Only the last runs of each hook are kept.

use std::collections::VecDeque;

use crate::{
    engine::{
        SessionState,
        event::{Event, HookEvent, HookFinished, StopEvent},
        gate::{Gate, subject::GateSubject},
        hooks::{
            point::HookPoint,
            verdict::{RunEnd, Verdict},
        },
        ids::RunId,
        time::{TimeSpan, UnixTime},
    },
    journal::Record,
    present::text::{first_line, plain, plain_line},
    socket::session_mirror::SHOWN,
    text::{is_shortened, same_text, telling_line},
    tui::{ansi::only_colours, theme::ThemeRole},
};

/// How many runs of a hook are kept.
const LISTED: usize = 20;
/// How many hooks are kept. Hooks of tasks can have a name each.
const HOOKS: usize = 200;
/// In bytes. creel does not wait for the end of a longer escape sequence.
const LONGEST_SEQUENCE: usize = 256;

#[derive(Debug, Clone)]
pub struct RunEntry {
    pub run: RunId,
    pub point: HookPoint,
    pub kind: RunSubject,
    /// The hook's or rule's name in the plan; [`RunEntry::name`] is for the screen.
    pub hook: String,
    pub iteration: u32,
    /// How many retries preceded it.
    pub attempt: u32,
    pub started: UnixTime,
    /// None while it runs.
    pub ended: Option<Box<HookFinished>>,
    /// The line of its output that says most about how it ended. Empty while it runs.
    pub reason: String,
    /// The last part of its output while it runs, with its colours.
    pub live: String,
    /// How many bytes of its output were read or skipped. None until the output before this screen
    /// was read.
    read_bytes: Option<u64>,
    /// An incomplete character or escape sequence at the end of the output.
    rest: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunSubject {
    Hook,
    /// A rule of the stop decision.
    Rule,
}

/// The last runs of one hook or rule.
#[derive(Debug, Clone)]
pub struct HookRuns {
    pub point: HookPoint,
    pub kind: RunSubject,
    /// The name in the plan.
    pub hook: String,
    /// Oldest first.
    list: VecDeque<RunEntry>,
}

impl HookRuns {
    pub fn newest_first(&self) -> impl Iterator<Item = &RunEntry> {
        self.list.iter().rev()
    }

    /// The last runs, oldest first.
    pub fn last(&self, count: usize) -> impl Iterator<Item = &RunEntry> {
        self.list.iter().skip(self.list.len().saturating_sub(count))
    }
}

/// The last runs of all hooks, in the order in which the hooks first ran.
#[derive(Debug, Clone, Default)]
pub struct RunList {
    hooks: VecDeque<HookRuns>,
}

impl RunList {
    pub fn hooks(&self) -> impl Iterator<Item = &HookRuns> {
        self.hooks.iter()
    }

    pub fn of(&self, point: HookPoint, kind: RunSubject, hook: &str) -> Option<&HookRuns> {
        self.nth(self.place_of(point, kind, hook)?)
    }

    pub fn nth(&self, nth: usize) -> Option<&HookRuns> {
        self.hooks.get(nth)
    }

    pub fn place_of(&self, point: HookPoint, kind: RunSubject, hook: &str) -> Option<usize> {
        self.hooks
            .iter()
            .position(|runs| runs.point == point && runs.kind == kind && runs.hook == hook)
    }

    fn all(&self) -> impl Iterator<Item = &RunEntry> {
        self.hooks.iter().flat_map(|runs| &runs.list)
    }

    /// The newest run that has not ended.
    pub fn running(&self) -> Option<&RunEntry> {
        self.all()
            .filter(|run| run.ended.is_none())
            .max_by_key(|run| (run.started, run.run))
    }

    /// The last run of a hook that has ended, whatever its point.
    pub fn last_ended(&self, hook: &str) -> Option<&RunEntry> {
        let ended = self
            .all()
            .filter(|run| run.hook == hook && run.ended.is_some());
        ended.max_by_key(|run| (run.started, run.run))
    }

    /// The newest run.
    pub fn newest(&self) -> Option<&RunEntry> {
        self.all().max_by_key(|run| (run.started, run.run))
    }

    /// Applies a record.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other records are about no run"
    )]
    pub fn take(&mut self, record: &Record) {
        match &record.event {
            Event::Hook(HookEvent::Started {
                run,
                point,
                hook,
                iteration,
                attempt,
                tests_of,
                ..
            }) => {
                // It is no run of the check itself, whose row shows whether the work passed.
                let hook = match tests_of {
                    Some(of) => &format!("{hook} {}", of.words()),
                    None => hook,
                };
                self.begin(RunEntry {
                    iteration: *iteration,
                    attempt: *attempt,
                    ..RunEntry::new(*run, *point, hook, record.at)
                });
            }
            Event::Stop(StopEvent::RuleStarted {
                run,
                rule,
                iteration,
                ..
            }) => {
                let began = RunEntry::new(*run, HookPoint::StopDecision, rule, record.at);
                self.begin(RunEntry {
                    iteration: *iteration,
                    kind: RunSubject::Rule,
                    ..began
                });
            }
            Event::Hook(HookEvent::Finished(finished)) => self.end(finished.clone()),
            Event::Stop(StopEvent::RuleChecked { .. }) => {
                if let Some(finished) = checked(&record.event) {
                    self.end(Box::new(finished));
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, run: RunEntry) {
        let at = self
            .place_of(run.point, run.kind, &run.hook)
            .unwrap_or_else(|| {
                if self.hooks.len() >= HOOKS {
                    self.hooks.pop_front();
                }
                let (point, kind, hook) = (run.point, run.kind, run.hook.clone());
                self.hooks.push_back(HookRuns {
                    point,
                    kind,
                    hook,
                    list: VecDeque::new(),
                });
                self.hooks.len() - 1
            });
        let list = &mut self.hooks[at].list;
        list.push_back(run);
        if list.len() > LISTED {
            list.pop_front();
        }
    }

    fn end(&mut self, finished: Box<HookFinished>) {
        if let Some(run) = self.find(|run| run.run == finished.run) {
            run.reason = telling_line(&[&finished.stdout, &finished.stderr]).unwrap_or_default();
            run.ended = Some(finished);
            run.live = String::new();
        }
    }

    fn find(&mut self, wanted: impl Fn(&RunEntry) -> bool) -> Option<&mut RunEntry> {
        self.hooks
            .iter_mut()
            .flat_map(|runs| runs.list.iter_mut().rev())
            .find(|run| wanted(run))
    }

    pub fn get(&self, run: RunId) -> Option<&RunEntry> {
        self.all().find(|known| known.run == run)
    }

    pub fn knows(&self, run: RunId) -> bool {
        self.all().any(|known| known.run == run)
    }

    /// Running hooks of which the earlier output was not read yet.
    pub fn unread(&self) -> Vec<RunId> {
        let unread = |run: &&RunEntry| run.ended.is_none() && run.read_bytes.is_none();
        self.all().filter(unread).map(|run| run.run).collect()
    }

    /// Sets the output of a running hook so far: `printed` bytes, of which `end` is the last part.
    pub fn catch_up(&mut self, run: RunId, printed: u64, end: &[u8]) {
        if let Some(run) = self.unended(run) {
            run.append(end);
            run.read_bytes = Some(printed);
        }
    }

    /// Adds output of a running hook that begins at byte `at`. Bytes that are already known are
    /// skipped.
    pub fn add_output(&mut self, run: RunId, at: u64, bytes: &[u8]) {
        let Some(run) = self.unended(run) else { return };
        let read_bytes = run.read_bytes.unwrap_or(0);
        let known = usize::try_from(read_bytes.saturating_sub(at))
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        run.append(&bytes[known..]);
        run.read_bytes = Some(read_bytes.max(at + bytes.len() as u64));
    }

    fn unended(&mut self, run: RunId) -> Option<&mut RunEntry> {
        self.find(|known| known.run == run && known.ended.is_none())
    }
}

impl RunEntry {
    fn new(run: RunId, point: HookPoint, hook: &str, started: UnixTime) -> Self {
        Self {
            run,
            point,
            kind: RunSubject::Hook,
            hook: hook.to_owned(),
            iteration: 0,
            attempt: 0,
            started,
            ended: None,
            reason: String::new(),
            live: String::new(),
            read_bytes: None,
            rest: Vec::new(),
        }
    }

    /// The name, for the screen.
    pub fn name(&self) -> String {
        plain_line(&self.hook, 80)
    }

    /// What it printed: stdout, then stderr; while it runs, its live output. With its colours.
    pub fn output(&self) -> String {
        self.ended.as_ref().map_or_else(
            || self.live.clone(),
            |finished| format!("{}{}", finished.stdout, finished.stderr),
        )
    }

    /// Whether it has ended and did not pass.
    pub fn has_failed(&self) -> bool {
        self.ended
            .as_ref()
            .is_some_and(|finished| finished.verdict != Verdict::Pass)
    }

    /// Its sign, and the role of the sign.
    pub fn sign(&self) -> (&'static str, ThemeRole) {
        match self.ended.as_ref().map(|finished| finished.verdict) {
            None => ("▸", ThemeRole::Running),
            Some(Verdict::Pass) => ("✓", ThemeRole::Good),
            Some(Verdict::Block) => ("✗", ThemeRole::Bad),
            Some(Verdict::Fail) => ("!", ThemeRole::Warning),
        }
    }

    /// How long it took, or has taken so far.
    pub fn took(&self, now: UnixTime) -> TimeSpan {
        self.ended
            .as_ref()
            .map_or_else(|| now.since(self.started), |finished| finished.took_ms)
    }

    fn append(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let rest = self.rest.split_off(whole(&self.rest));
        self.live
            .push_str(&only_colours(&String::from_utf8_lossy(&self.rest)));
        self.rest = rest;
        if self.live.len() > SHOWN {
            let cut = self.live.ceil_char_boundary(self.live.len() - SHOWN / 2);
            self.live.drain(..cut);
        }
    }
}

/// A checked rule in the form of a finished run.
fn checked(event: &Event) -> Option<HookFinished> {
    let Event::Stop(StopEvent::RuleChecked {
        run,
        rule,
        iteration,
        passed,
        message,
        took_ms,
        end,
        file,
        ..
    }) = event
    else {
        return None;
    };
    Some(HookFinished {
        run: *run,
        point: HookPoint::StopDecision,
        hook: rule.clone(),
        iteration: *iteration,
        end: end.clone().unwrap_or(RunEnd::Exit(i32::from(!passed))),
        took_ms: *took_ms,
        verdict: if *passed {
            Verdict::Pass
        } else {
            Verdict::Fail
        },
        stdout: message.clone(),
        stderr: String::new(),
        omitted_bytes: 0,
        piped: false,
        reply: None,
        decision: None,
        file: file.clone(),
        outcome: None,
        tests_of: None,
        judged: None,
        tests: None,
        again: false,
    })
}

/// How many bytes can be shown: a character or an escape sequence at the end may be incomplete.
fn whole(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(LONGEST_SEQUENCE);
    let cut = match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    };
    let escape = bytes[tail..cut]
        .iter()
        .rposition(|byte| *byte == 0x1b)
        .map(|at| tail + at);
    match escape {
        // If a letter after it is swallowed, the sequence is incomplete.
        Some(at) if plain(&format!("{}x", String::from_utf8_lossy(&bytes[at..cut]))).is_empty() => {
            at
        }
        Some(_) | None if bytes[..cut].ends_with(b"\r") => cut - 1,
        Some(_) | None => cut,
    }
}

/// The longest reason that is kept, in characters.
const REASON: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryAttempt {
    /// When the hook blocked.
    pub at: UnixTime,
    /// The retry counter after this attempt.
    pub used: u32,
    /// The hook that blocked.
    pub hook: String,
    /// One line.
    pub reason: String,
    /// The full text that the agent got.
    pub feedback: String,
    /// Whether the whole feedback is the same as last time.
    pub is_repeated: bool,
}

/// One run of the hook that a gate is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRun {
    /// From 1.
    pub number: u32,
    /// When it began.
    pub at: UnixTime,
    pub reason: String,
    /// With its colours.
    pub text: String,
    /// Only times, ids or temporary paths differ from the run before.
    pub same: bool,
}

impl GateRun {
    /// The runs of the hook since its retries began, newest first. Empty at other gates.
    pub fn list(
        gate: &Gate,
        state: &SessionState,
        runs: &RunList,
        attempts: &[RetryAttempt],
    ) -> Vec<Self> {
        let GateSubject::RetryLimit { hook } = &gate.subject else {
            return Vec::new();
        };
        let known = runs.of(HookPoint::Stop, RunSubject::Hook, hook);
        let ended = known
            .into_iter()
            .flat_map(HookRuns::newest_first)
            .filter(|run| run.ended.is_some());
        let mut list: Vec<Self> = Vec::new();
        let mut later: Option<&RunEntry> = None;
        for run in ended {
            // A higher count belongs to an earlier message, which has its own retries.
            if run.iteration != state.iterations.current
                || later.is_some_and(|later| run.attempt > later.attempt)
            {
                break;
            }
            list.push(Self::of_run(run));
            later = Some(run);
        }
        if list.is_empty() {
            list = Self::without_runs(gate, state, attempts);
        }
        for n in 1..list.len() {
            // What was left out of a long output can differ.
            let is_known = !is_shortened(&list[n].text) && !is_shortened(&list[n - 1].text);
            list[n - 1].same = is_known && same_text(&list[n].text, &list[n - 1].text);
        }
        list
    }

    fn of_run(run: &RunEntry) -> Self {
        let reason = first_line(&run.reason, REASON);
        Self {
            number: run.attempt + 1,
            at: run.started,
            reason,
            text: run.output(),
            same: false,
        }
    }

    /// creel itself blocked the turns, because of protected paths: the feedback is all that there
    /// is.
    fn without_runs(gate: &Gate, state: &SessionState, attempts: &[RetryAttempt]) -> Vec<Self> {
        let now = state
            .phase
            .dispatch()
            .and_then(|dispatch| state.retries().feedback(dispatch))
            .map(|feedback| Self {
                number: state.retry.used + 1,
                at: gate.opened,
                reason: plain_line(&feedback.reason, REASON),
                text: feedback.text,
                same: false,
            });
        let before = attempts.iter().rev().map(|attempt| Self {
            number: attempt.used,
            at: attempt.at,
            reason: plain_line(&attempt.reason, REASON),
            text: attempt.feedback.clone(),
            same: false,
        });
        now.into_iter().chain(before).collect()
    }
}
