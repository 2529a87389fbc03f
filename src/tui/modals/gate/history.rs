//! The runs behind a retry limit: what each one printed, and whether it differs from the run
//! before.

use crate::{
    engine::{
        SessionState,
        gate::{Gate, subject::GateSubject},
        hooks::point::HookPoint,
        time::UnixTime,
    },
    present::text::{first_line, plain_line},
    text::{is_shortened, same_text},
    tui::{
        model::RetryAttempt,
        runs::{HookRuns, RunEntry, RunList, RunSubject},
        view::coloured_run_text,
    },
};

/// The longest reason that is kept, in characters.
const REASON: usize = 120;

/// One run of the hook that a gate is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRun {
    /// From 1.
    pub(super) number: u32,
    /// When it began.
    pub(super) at: UnixTime,
    pub(super) reason: String,
    /// With its colours.
    pub(super) text: String,
    /// Only times, ids or temporary paths differ from the run before.
    pub(super) same: bool,
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
            text: coloured_run_text(run),
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
