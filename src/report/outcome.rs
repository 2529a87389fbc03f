//! The head of a report: how the session ended in one sentence, and what a reader must not overlook.
//!
//! # Invariants
//! - Only a complete session whose checks all passed is called verified.

use super::{
    CheckHistory, CheckPlace, Report, ReportedGate, ReportedOutcome, RunMark, StageKind,
    Verification,
    builder::{RecordedEnd, ReportBuilder},
};
use crate::{
    engine::{
        SessionState,
        event::{Actor, ActorKind, CheckOutcome, CheckRunResult, IterationOutcome, SessionOutcome},
        gate::kind::{GateChoice, GateKind},
        hooks::point::HookPoint,
        pending::ItemState,
        session::phase::LoopEnd,
        verify::test_guard::TestComparison,
    },
    present::{
        end_card::outcome_sentence,
        session_chip::doing,
        text::{counted, listed, plain, plain_line, sentence_case, some_names},
    },
};

/// The longest name in a sentence, in characters.
const NAME: usize = 60;
/// The longest sentence about a test, in characters.
const SENTENCE: usize = 300;
/// How many names a sentence has.
const NAMED: usize = 5;

/// The actor behind a decision.
pub(super) fn actor(by: &Actor) -> String {
    let claimed = if by.claimed { ", a claimed name" } else { "" };
    let name = |text: &str| plain_line(text, NAME);
    match (&by.user, &by.host) {
        (Some(user), Some(host)) => {
            format!(
                "{} on {} ({}{claimed})",
                name(user),
                name(host),
                by.by.name()
            )
        }
        (Some(one), None) | (None, Some(one)) => {
            format!("{} ({}{claimed})", name(one), by.by.name())
        }
        (None, None) => match by.by {
            ActorKind::Tui => "the user at the screen",
            ActorKind::Cli => "the user on the command line",
            ActorKind::Mcp => "an MCP client",
            ActorKind::Nats => "a user on another machine",
            ActorKind::Agent | ActorKind::OtherSession => "the agent",
            ActorKind::Hook => "a hook",
            ActorKind::Policy => "creel, as the config says",
            ActorKind::Timeout => "creel, after the gate's timeout",
        }
        .to_owned(),
    }
}

/// How a gate was answered, in a sentence.
pub(super) fn answer(gate: &ReportedGate) -> String {
    let (Some(answer), Some(by)) = (&gate.answer, &gate.by) else {
        return format!("Gate {}: not answered", gate.gate);
    };
    format!("Gate {} answered by {by}: {answer}", gate.gate)
}

/// Whether the answer accepted what a check or a guard had not.
pub(super) fn is_override(gate: &ReportedGate) -> bool {
    let Some(choice) = gate.choice else {
        return false;
    };
    match choice {
        GateChoice::Ignore | GateChoice::Disable | GateChoice::Skip | GateChoice::Complete => true,
        GateChoice::Merge => gate.about == GateKind::Merge,
        GateChoice::Approve
        | GateChoice::Edit
        | GateChoice::Continue
        | GateChoice::Send
        | GateChoice::Message
        | GateChoice::Retry
        | GateChoice::Wait
        | GateChoice::Switch
        | GateChoice::Escalate
        | GateChoice::Fail
        | GateChoice::Stop
        | GateChoice::AllowOnce
        | GateChoice::AllowAlways
        | GateChoice::AllowEdits
        | GateChoice::RejectOnce
        | GateChoice::RejectAlways
        | GateChoice::Answer
        | GateChoice::Decline
        | GateChoice::Leave
        | GateChoice::Cancel
        | GateChoice::Abort => false,
    }
}

pub(super) fn outcome(
    report: &Report,
    state: &SessionState,
    records: &ReportBuilder,
    end: Option<&RecordedEnd>,
) -> ReportedOutcome {
    let verification = verification(report, state, end);
    let ended = state.phase.outcome();
    let sentence = match (ended, &state.ending) {
        (Some(outcome), ending) => {
            let reason = end.map(|end| end.reason.clone());
            let known = || ending.as_ref().map(|ending| plain(ending.explanation()));
            let reason = reason.or_else(known).unwrap_or_default();
            let is_late = records.changed_late.is_some();
            closed(report, outcome, (verification, is_late), &reason)
        }
        (None, Some(ending)) if ending.outcome == SessionOutcome::Complete => {
            done(report, verification, state)
        }
        (None, _) => open(state),
    };
    ReportedOutcome {
        outcome: ended,
        verification,
        sentence,
        cautions: cautions(report, state, records),
    }
}

fn verification(report: &Report, state: &SessionState, end: Option<&RecordedEnd>) -> Verification {
    let has_passed = |result| result == CheckRunResult::Passed;
    let all_passed = |checks: &[CheckOutcome]| {
        !checks.is_empty() && checks.iter().all(|it| has_passed(it.result))
    };
    // The end is decided before the session ends: a submit may follow.
    let is_done = |ending: &LoopEnd| ending.outcome == SessionOutcome::Complete;
    let Some(outcome) = state.phase.outcome() else {
        let current = state.verification().outcomes();
        return if !state.ending.as_ref().is_some_and(is_done) {
            Verification::Open
        } else if current.is_empty() {
            Verification::NoChecks
        } else if all_passed(&current) {
            Verification::Verified
        } else {
            Verification::Open
        };
    };
    if outcome != SessionOutcome::Complete {
        return Verification::NotVerified;
    }
    let recorded = end.map_or(&[][..], |end| &end.checks);
    let is_checked = report.checks.iter().any(|check| check.counts);
    match (recorded, is_checked) {
        ([], false) => Verification::NoChecks,
        ([], true) => Verification::NotRecorded,
        (checks, _) if all_passed(checks) => Verification::Verified,
        _ => Verification::NotVerified,
    }
}

fn closed(
    report: &Report,
    outcome: SessionOutcome,
    (verification, is_late): (Verification, bool),
    reason: &str,
) -> String {
    let whole = || full_stop(&outcome_sentence(outcome, reason));
    match (outcome, verification) {
        (SessionOutcome::Complete, Verification::Verified) => {
            let which = counted_checks(report);
            let with_base = report.tests.as_ref().and_then(TestComparison::with_base);
            let with_base = with_base.map(|text| plain_line(&text, SENTENCE));
            let with_base = with_base.map(|text| format!(" {}", full_stop(&sentence_case(&text))));
            let when = if is_late {
                "before the hooks at the end changed the work"
            } else {
                "on the work as it is at the end"
            };
            format!(
                "Complete and verified: {which} passed {when}.{}",
                with_base.unwrap_or_default()
            )
        }
        (SessionOutcome::Complete, Verification::NoChecks) => {
            full_stop(&format!("Complete, but not checked: {reason}"))
        }
        (SessionOutcome::Complete, Verification::NotRecorded) => format!(
            "{} This journal does not record which checks had passed on the final work.",
            whole()
        ),
        (SessionOutcome::Complete, Verification::NotVerified | Verification::Open) => {
            format!("{} Not every check passed on the final work.", whole())
        }
        (SessionOutcome::Forced, _) => full_stop(&format!("Not verified: {}", of_forced(reason))),
        (
            SessionOutcome::Unverified
            | SessionOutcome::Limit
            | SessionOutcome::Escalated
            | SessionOutcome::Aborted
            | SessionOutcome::Failed
            | SessionOutcome::Cancelled,
            _,
        ) => whole(),
    }
}

/// The checks that count, in a sentence.
fn counted_checks(report: &Report) -> String {
    let counts = report.checks.iter().filter(|check| check.counts);
    let names: Vec<String> = counts.map(named).collect();
    if names.len() > NAMED {
        format!("all {} checks", names.len())
    } else {
        listed(&names)
    }
}

/// The loop has ended as complete, and the session has not.
fn done(report: &Report, verification: Verification, state: &SessionState) -> String {
    let still_open = format!(
        "The session is still open: {}.",
        plain_line(&doing(state), 200)
    );
    match verification {
        Verification::Verified => {
            let which = counted_checks(report);
            format!("Verified: {which} passed on the work as it is now. {still_open}")
        }
        Verification::NoChecks => {
            format!("Done, but not checked: no checks are configured. {still_open}")
        }
        Verification::NotVerified | Verification::NotRecorded | Verification::Open => {
            format!("Done, and not every check has passed on the work as it is now. {still_open}")
        }
    }
}

fn of_forced(reason: &str) -> String {
    if reason.is_empty() {
        "forced: the work was accepted although a check blocked it".to_owned()
    } else {
        format!("forced: {reason}")
    }
}

fn open(state: &SessionState) -> String {
    let iteration = state.iterations.current;
    let of = format!(
        "iteration {iteration} of at most {}",
        state.max_iterations()
    );
    if let Some(gate) = &state.gates.open {
        let reason = plain_line(&gate.reason, 200);
        return format!("Not finished: it waits for a decision in {of}: {reason}");
    }
    if iteration == 0 {
        return "Not finished: the first iteration has not started.".to_owned();
    }
    format!("Not finished: {of}; {}.", plain_line(&doing(state), 200))
}

fn full_stop(sentence: &str) -> String {
    let sentence = sentence.trim_end();
    if sentence.ends_with(['.', '!', '?', '…']) {
        sentence.to_owned()
    } else {
        format!("{sentence}.")
    }
}

fn named(check: &CheckHistory) -> String {
    format!("`{}`", plain_line(&check.name, NAME))
}

fn cautions(report: &Report, state: &SessionState, records: &ReportBuilder) -> Vec<String> {
    let mut all = Vec::new();
    let is_closed = state.phase.outcome().is_some() || state.ending.is_some();
    if is_closed {
        all.extend(report.checks.iter().filter_map(not_passed));
    }
    all.extend(changed_late(records));
    all.extend(forced(report));
    all.extend(records.disabled.iter().cloned());
    all.extend(without_effect(report, state));
    all.extend(
        report
            .gates
            .iter()
            .filter(|gate| is_override(gate))
            .map(|gate| {
                let about = gate.about.name().replace('_', " ");
                format!("{} ({about}).", answer(gate))
            }),
    );
    if !records.tampered.is_empty() {
        let mut files: Vec<String> = records
            .tampered
            .iter()
            .map(|it| plain_line(it, NAME))
            .collect();
        files.dedup();
        let files = some_names(&files, NAMED);
        all.push(format!(
            "Files changed that agents must not change: {files}."
        ));
    }
    all.extend(weaker_tests(report));
    all.extend(skipped_runs(report));
    all.extend(not_sent(report).filter(|_| is_closed));
    all
}

fn not_passed(check: &CheckHistory) -> Option<String> {
    let name = named(check);
    match check.result? {
        CheckRunResult::Passed => None,
        CheckRunResult::Failed => Some(format!("{name} did not pass.")),
        CheckRunResult::Broken => Some(format!("{name} could not run.")),
        CheckRunResult::Disabled => Some(format!("{name} was disabled and proves nothing.")),
        CheckRunResult::NotRun => Some(format!(
            "{name} did not run on the work as it is at the end."
        )),
    }
}

/// What hooks changed after the checks had passed, in a sentence.
fn changed_late(records: &ReportBuilder) -> Option<String> {
    let warning = records.changed_late.as_ref()?;
    Some(full_stop(&sentence_case(&plain_line(warning, SENTENCE))))
}

fn forced(report: &Report) -> Option<String> {
    let is_forced = |stage: &&super::ReportedStage| {
        stage.kind == StageKind::Iteration && stage.outcome == Some(IterationOutcome::Forced)
    };
    let forced = report.stages.iter().filter(is_forced);
    let numbers: Vec<String> = forced.map(|stage| stage.iteration.to_string()).collect();
    let (noun, were) = match numbers.len() {
        0 => return None,
        1 => ("Iteration", "was"),
        _ => ("Iterations", "were"),
    };
    let numbers = some_names(&numbers, NAMED);
    Some(format!(
        "{noun} {numbers} {were} forced: accepted although a check blocked."
    ))
}

/// Checks that the config has and that prove nothing.
fn without_effect(report: &Report, state: &SessionState) -> Vec<String> {
    let plan = state.plan();
    let hooks = plan.hooks_at(HookPoint::Stop);
    let is_off = |spec: &&crate::engine::policy::HookSpec| {
        !spec.enabled && !state.hooks.is_enabled(HookPoint::Stop, spec)
    };
    let off = hooks.iter().filter(is_off).map(|spec| &spec.name);
    let rules = plan.stop.rules.iter().filter(|rule| !rule.enabled);
    let off = off.chain(rules.map(|rule| &rule.name));
    let mut all: Vec<String> = off
        .map(|name| format!("`{}` is disabled in the config.", plain_line(name, NAME)))
        .collect();
    let advisory = hooks.iter().filter(|spec| spec.is_advisory());
    for spec in advisory {
        let name = plain_line(&spec.name, NAME);
        let known = report.checks.iter();
        let known = known.filter(|check| check.kind == CheckPlace::Stop);
        let last = known
            .filter(|check| check.name == name)
            .find_map(|check| check.runs.last());
        let last = last.map_or("it did not run", |run| match run.result {
            RunMark::Passed => "it passed the last time",
            RunMark::Blocked
            | RunMark::Failed
            | RunMark::TimedOut
            | RunMark::NotStarted
            | RunMark::Skipped
            | RunMark::Cut => "it did not pass the last time",
        });
        all.push(format!("`{name}` is advisory and blocks nothing: {last}."));
    }
    all
}

/// Signs of weakened tests, and what creel could not compare.
fn weaker_tests(report: &Report) -> Vec<String> {
    let Some(found) = &report.tests else {
        return Vec::new();
    };
    let signs = found
        .findings
        .iter()
        .map(|finding| format!("The tests may be weaker: {}", finding.describe()));
    let open = found.undecided.iter().map(|why| sentence_case(why));
    signs
        .chain(open)
        .map(|text| full_stop(&plain_line(&text, SENTENCE)))
        .collect()
}

fn skipped_runs(report: &Report) -> Vec<String> {
    let checks = report.checks.iter();
    let last = checks.filter_map(|check| Some((check, check.runs.last()?)));
    let skipped = last.filter(|(_, run)| run.result == RunMark::Skipped);
    skipped
        .map(|(check, run)| {
            let why = run.reason.as_deref().map(sentence_case).unwrap_or_default();
            full_stop(&format!("{} was skipped. {why}", named(check)))
        })
        .collect()
}

fn not_sent(report: &Report) -> Option<String> {
    let left = |state| {
        report
            .items
            .iter()
            .filter(|item| item.state == state)
            .count()
    };
    let skipped = left(ItemState::Skipped);
    let all = left(ItemState::Pending) + left(ItemState::InFlight) + skipped;
    let skipped = if skipped > 0 {
        format!(", {skipped} of them skipped")
    } else {
        String::new()
    };
    let was = if all == 1 { "was" } else { "were" };
    (all > 0).then(|| {
        let items = counted(all, "item");
        format!("{items} of hook output {was} not sent to the agent{skipped}.")
    })
}
