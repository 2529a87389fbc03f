//! The rows of the hooks pane: runs with their live output, past runs, and hooks that have not run.

use std::collections::VecDeque;

use crate::{
    engine::{
        SessionState,
        event::{Event, HookEvent, HookFinished, StopEvent},
        hooks::{
            point::HookPoint,
            resolve::HookRef,
            verdict::{RunEnd, Verdict},
        },
        ids::RunId,
        policy::{HookSpec, RuleSpec, StopHook},
        time::{TimeSpan, UnixTime},
    },
    journal::Record,
    present::text::{plain, plain_line},
    socket::running_output::SHOWN,
};

/// How many runs are listed.
const LISTED: usize = 500;
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
    /// The last part of its output while it runs.
    pub live: String,
    /// How many bytes of its output were read or skipped. None until the output before this screen was read.
    heard: Option<u64>,
    /// An incomplete character or escape sequence at the end of the output.
    rest: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunSubject {
    Hook,
    /// A rule of the stop decision.
    Rule,
}

/// The listed runs, oldest first.
#[derive(Debug, Clone, Default)]
pub struct RunList {
    list: VecDeque<RunEntry>,
}

impl RunList {
    pub fn newest_first(&self) -> impl Iterator<Item = &RunEntry> {
        self.list.iter().rev()
    }

    /// The newest run that has not ended.
    pub fn running(&self) -> Option<&RunEntry> {
        self.newest_first().find(|run| run.ended.is_none())
    }

    /// Counted from the newest.
    pub fn nth(&self, nth: usize) -> Option<&RunEntry> {
        self.newest_first().nth(nth)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Applies a record.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other records are about no run")]
    pub fn take(&mut self, record: &Record) {
        match &record.event {
            Event::Hook(HookEvent::Started { run, point, hook, iteration, attempt, .. }) => {
                self.begin(RunEntry {
                    iteration: *iteration,
                    attempt: *attempt,
                    ..RunEntry::new(*run, *point, hook, record.at)
                });
            }
            Event::Stop(StopEvent::RuleStarted { run, rule, iteration, .. }) => {
                let began = RunEntry::new(*run, HookPoint::StopDecision, rule, record.at);
                self.begin(RunEntry { iteration: *iteration, kind: RunSubject::Rule, ..began });
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
        self.list.push_back(run);
        if self.list.len() > LISTED {
            self.list.pop_front();
        }
    }

    fn end(&mut self, finished: Box<HookFinished>) {
        if let Some(run) = self.list.iter_mut().rev().find(|run| run.run == finished.run) {
            run.ended = Some(finished);
            run.live = String::new();
        }
    }

    pub fn knows(&self, run: RunId) -> bool {
        self.list.iter().rev().any(|known| known.run == run)
    }

    /// Running hooks of which the earlier output was not read yet.
    pub fn unheard(&self) -> Vec<RunId> {
        let unheard = |run: &&RunEntry| run.ended.is_none() && run.heard.is_none();
        self.newest_first().filter(unheard).map(|run| run.run).collect()
    }

    /// Sets the output of a running hook so far: `printed` bytes, of which `end` is the last part.
    pub fn catch_up(&mut self, run: RunId, printed: u64, end: &[u8]) {
        if let Some(run) = self.unended(run) {
            run.hear(end);
            run.heard = Some(printed);
        }
    }

    /// Adds output of a running hook that begins at byte `at`. Bytes that are already known are skipped.
    pub fn overhear(&mut self, run: RunId, at: u64, bytes: &[u8]) {
        let Some(run) = self.unended(run) else { return };
        let heard = run.heard.unwrap_or(0);
        let known = usize::try_from(heard.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        run.hear(&bytes[known..]);
        run.heard = Some(heard.max(at + bytes.len() as u64));
    }

    fn unended(&mut self, run: RunId) -> Option<&mut RunEntry> {
        self.list.iter_mut().rev().find(|known| known.run == run && known.ended.is_none())
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
            live: String::new(),
            heard: None,
            rest: Vec::new(),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let rest = self.rest.split_off(whole(&self.rest));
        self.live.push_str(&plain(&String::from_utf8_lossy(&self.rest)));
        self.rest = rest;
        if self.live.len() > SHOWN {
            let cut = self.live.ceil_char_boundary(self.live.len() - SHOWN / 2);
            self.live.drain(..cut);
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum HookRow<'a> {
    Ran(&'a RunEntry),
    /// A hook without a listed run.
    Waits(HookPoint, &'a HookSpec),
    /// A stop decision hook without a listed run; presets never run.
    Decides(&'a StopHook),
    /// A rule without a listed check.
    Rule(&'a RuleSpec),
}

impl HookRow<'_> {
    pub fn hook(&self) -> HookRef {
        match self {
            Self::Ran(run) => HookRef::new(run.point, &run.hook),
            Self::Waits(point, spec) => HookRef::new(*point, &spec.name),
            Self::Decides(hook) => HookRef::new(HookPoint::StopDecision, &hook.name),
            Self::Rule(rule) => HookRef::new(HookPoint::StopDecision, &rule.name),
        }
    }

    /// The name, for the screen.
    pub fn name(&self) -> String {
        match self {
            Self::Ran(run) => run.name(),
            Self::Waits(_, spec) => plain_line(&spec.name, 80),
            Self::Decides(hook) => plain_line(&hook.name, 80),
            Self::Rule(rule) => plain_line(&rule.name, 80),
        }
    }
}

/// All rows: the runs, newest first, then the other hooks in the order of a session.
#[derive(Debug)]
pub struct HookRows<'a> {
    runs: &'a RunList,
    waiting: Vec<HookRow<'a>>,
}

/// Identifies a row by its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookRowId {
    Run(RunId),
    Hook(HookRef),
}

impl<'a> HookRows<'a> {
    pub fn new(runs: &'a RunList, state: Option<&'a SessionState>) -> Self {
        let planned = state.into_iter().flat_map(|state| {
            let at =
                |point: HookPoint| state.plan().hooks_at(point).iter().map(move |spec| HookRow::Waits(point, spec));
            let registered = state.stop.registered.iter().map(|known| &known.hook);
            let deciding = state.plan().stop.said().iter().chain(registered).map(HookRow::Decides);
            let rules = state.plan().stop.rules.iter().map(HookRow::Rule);
            HookPoint::ALL.into_iter().flat_map(at).chain(rules).chain(deciding)
        });
        let is_listed = |row: &HookRow<'_>| {
            let (hook, kind) =
                (row.hook(), if matches!(row, HookRow::Rule(_)) { RunSubject::Rule } else { RunSubject::Hook });
            runs.list.iter().any(|run| run.point == hook.point && run.hook == hook.hook && run.kind == kind)
        };
        Self { runs, waiting: planned.filter(|row| !is_listed(row)).collect() }
    }

    pub fn len(&self) -> usize {
        self.runs.len() + self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn nth(&self, nth: usize) -> Option<HookRow<'a>> {
        let waits = || self.waiting.get(nth.checked_sub(self.runs.len())?).copied();
        self.runs.nth(nth).map(HookRow::Ran).or_else(waits)
    }

    pub fn id(&self, nth: usize) -> Option<HookRowId> {
        self.nth(nth).map(|row| match row {
            HookRow::Ran(run) => HookRowId::Run(run.run),
            HookRow::Waits(..) | HookRow::Decides(_) | HookRow::Rule(_) => HookRowId::Hook(row.hook()),
        })
    }

    /// The current position of a row. For a hook that has started, the position of its run.
    pub fn find(&self, id: &HookRowId) -> Option<usize> {
        match id {
            HookRowId::Run(ticket) => self.runs.newest_first().position(|run| run.run == *ticket),
            HookRowId::Hook(hook) => (0..self.len()).find(|n| self.nth(*n).is_some_and(|row| row.hook() == *hook)),
        }
    }
}

/// A checked rule in the form of a finished run.
fn checked(event: &Event) -> Option<HookFinished> {
    let Event::Stop(StopEvent::RuleChecked { run, rule, iteration, passed, message, took_ms, end, file, .. }) = event
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
        verdict: if *passed { Verdict::Pass } else { Verdict::Fail },
        stdout: message.clone(),
        stderr: String::new(),
        omitted_bytes: 0,
        piped: false,
        reply: None,
        decision: None,
        file: file.clone(),
        outcome: None,
        judged: None,
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
    let escape = bytes[tail..cut].iter().rposition(|byte| *byte == 0x1b).map(|at| tail + at);
    match escape {
        // If a letter after it is swallowed, the sequence is incomplete.
        Some(at) if plain(&format!("{}x", String::from_utf8_lossy(&bytes[at..cut]))).is_empty() => at,
        Some(_) | None if bytes[..cut].ends_with(b"\r") => cut - 1,
        Some(_) | None => cut,
    }
}

impl RunEntry {
    /// The name, for the screen.
    pub fn name(&self) -> String {
        plain_line(&self.hook, 80)
    }

    /// How long it took, or has taken so far.
    pub fn took(&self, now: UnixTime) -> TimeSpan {
        self.ended.as_ref().map_or_else(|| now.since(self.started), |finished| finished.took_ms)
    }
}
