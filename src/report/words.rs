//! The words that the forms for people share. Each form makes them safe for itself.

use super::{
    CheckHistory, CheckPlace, Report, ReportedChanges, ReportedItem, ReportedRun, ReportedStage,
    ReportedTurn, TurnOutcome, Verification,
};
use crate::{
    engine::{
        event::{CheckRunResult, IterationOutcome, SessionOutcome, UserPresence},
        pending::ItemState,
        time::UnixTime,
        verify::test_guard::TestComparison,
    },
    present::{
        describe::prompt_name,
        text::{counted, listed, readable_size, short_span},
        usage,
    },
    text::{TestCounts, shortened},
};

pub(super) const UNKNOWN: &str = "unknown";
/// How much of a run's end is said, in characters.
const END: usize = 200;

/// How a run ended and how long it took, what it ran, and what of its output is missing.
pub(super) fn run_facts(run: &ReportedRun, at: Option<String>) -> String {
    let omitted = (run.omitted_bytes > 0)
        .then(|| format!("{} are not on record", readable_size(run.omitted_bytes)));
    let facts = [
        Some(shortened(&run.end, END)),
        Some(short_span(run.took_ms)),
        at,
        run.tests.map(ran_tests),
        omitted,
    ];
    let facts = facts.into_iter().flatten().filter(|fact| !fact.is_empty());
    facts.collect::<Vec<String>>().join(" · ")
}

fn ran_tests(counts: TestCounts) -> String {
    let TestCounts {
        passed,
        failed,
        skipped,
        partial,
    } = counts;
    let others = [(failed, "failed"), (skipped, "skipped")];
    let others = others
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!(", {number} {what}"));
    let stopped = if partial { ", maybe not all" } else { "" };
    format!(
        "{} passed{}{stopped}",
        counted(passed, "test"),
        others.collect::<String>()
    )
}

/// What a run in a clean worktree ran with. Empty for all others.
pub(super) fn ran_with(run: &ReportedRun) -> String {
    let with = run.tests_of.map(|of| format!(", {}", of.words()));
    with.unwrap_or_default()
}

/// How the head looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadTone {
    Good,
    Warning,
    Bad,
    Open,
}

pub(super) fn tone(report: &Report) -> HeadTone {
    let is_weaker = |found: &TestComparison| !found.findings.is_empty();
    if report.outcome.verification == Verification::Verified
        && report.tests.as_ref().is_some_and(is_weaker)
    {
        return HeadTone::Warning;
    }
    match (report.outcome.verification, report.outcome.outcome) {
        (Verification::Verified, _) => HeadTone::Good,
        (Verification::NoChecks | Verification::NotRecorded, _)
        | (
            _,
            Some(SessionOutcome::Complete | SessionOutcome::Forced | SessionOutcome::Unverified),
        ) => HeadTone::Warning,
        (
            _,
            Some(
                SessionOutcome::Limit
                | SessionOutcome::Escalated
                | SessionOutcome::Aborted
                | SessionOutcome::Failed
                | SessionOutcome::Cancelled,
            ),
        ) => HeadTone::Bad,
        (Verification::Open | Verification::NotVerified, None) => HeadTone::Open,
    }
}

pub(super) const fn sign(tone: HeadTone) -> &'static str {
    match tone {
        HeadTone::Good => "✓",
        HeadTone::Warning => "⚠",
        HeadTone::Bad => "✗",
        HeadTone::Open => "▸",
    }
}

/// A sentence in parts: text, and the names in backticks.
pub(super) fn parts(sentence: &str) -> Vec<(bool, &str)> {
    if !sentence.matches('`').count().is_multiple_of(2) {
        return vec![(false, sentence)];
    }
    let parts = sentence.split('`').enumerate();
    parts
        .map(|(n, part)| (n % 2 == 1, part))
        .filter(|(_, part)| !part.is_empty())
        .collect()
}

pub(super) fn tokens(known: Option<u64>) -> String {
    known.map_or_else(|| UNKNOWN.to_owned(), usage::tokens)
}

/// A cost, and the part of it that creel estimated.
pub(super) fn cost(known: Option<f64>, estimated: Option<f64>) -> String {
    let estimated = estimated.unwrap_or(0.0);
    known.map_or_else(
        || UNKNOWN.to_owned(),
        |known| usage::amount(known, estimated, false),
    )
}

/// The totals: `41.2k tokens`, `at least $0.42: 2 of 5 turns reported no cost`,
/// `≈ $0.42: creel estimated the cost of 2 of 5 turns from their tokens`.
pub(super) fn totals(report: &Report) -> Vec<(&'static str, String)> {
    let used = &report.usage;
    let turns = counted(used.turns, "turn");
    let with_gaps = |known: bool, total: String, gaps: usize, why: Vec<String>| {
        let least = if known && gaps > 0 { "at least " } else { "" };
        let why = if known && !why.is_empty() {
            format!(": {}", why.join(", "))
        } else {
            String::new()
        };
        format!("{least}{total}{why}")
    };
    let gap = |gaps: usize, what: &str| {
        (gaps > 0).then(|| format!("{gaps} of {turns} reported no {what}"))
    };
    let estimated = (used.turns_estimated > 0).then(|| {
        let of = used.turns_estimated;
        format!("creel estimated the cost of {of} of {turns} from their tokens")
    });
    let (tokens, cost) = (tokens(used.tokens), cost(used.cost, used.cost_estimated));
    let (no_tokens, no_cost) = (used.turns_without_tokens, used.turns_without_cost);
    let of_tokens = gap(no_tokens, "tokens").into_iter().collect();
    let of_cost = gap(no_cost, "cost").into_iter().chain(estimated).collect();
    vec![
        (
            "Tokens",
            with_gaps(used.tokens.is_some(), tokens, no_tokens, of_tokens),
        ),
        (
            "Cost",
            with_gaps(used.cost.is_some(), cost, no_cost, of_cost),
        ),
        ("Agents worked", short_span(used.working_ms)),
        ("Session ran", short_span(used.running_ms)),
    ]
}

/// One line with the size of the session.
pub(super) fn summary(report: &Report) -> String {
    let stages = report.stages.iter();
    let iterations = stages
        .clone()
        .map(|stage| stage.iteration)
        .max()
        .unwrap_or(0);
    let retries: u32 = stages.map(|stage| stage.retries).sum();
    let mut parts = vec![
        counted(iterations, "iteration"),
        counted(report.usage.turns, "turn"),
    ];
    if retries > 0 {
        parts.push(counted(retries, "retry"));
    }
    let used = &report.usage;
    let cost = used.cost.map(|cost| {
        let is_partial = used.turns_without_cost > 0;
        usage::amount(cost, used.cost_estimated.unwrap_or(0.0), is_partial)
    });
    let tokens = tokens(used.tokens);
    parts.push(if report.usage.tokens.is_some() {
        tokens
    } else {
        format!("tokens {tokens}")
    });
    parts.push(cost.unwrap_or_else(|| format!("cost {UNKNOWN}")));
    parts.push(short_span(report.usage.running_ms));
    parts.join(" · ")
}

/// The facts of the session, a name and a value each.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let session = &report.session;
    let unknown = || UNKNOWN.to_owned();
    let models = if session.models.is_empty() {
        unknown()
    } else {
        listed(&session.models)
    };
    let presence = match session.presence {
        UserPresence::Attended => "attended",
        UserPresence::Unattended => "unattended: the config answered gates",
    };
    let optional = |name, value: &Option<String>| value.clone().map(|value| (name, value));
    let files: Vec<&str> = session
        .config_files
        .iter()
        .map(|file| file.rsplit('/').next().unwrap_or(file))
        .collect();
    let config = if files.is_empty() {
        format!("digest {}", session.config_digest)
    } else {
        format!("{}, digest {}", listed(&files), session.config_digest)
    };
    let known = [
        ("Session", format!("{} ({})", session.name, session.id)),
        ("Agent", session.agent.clone()),
        ("Model", models),
        ("User", presence.to_owned()),
        ("creel", session.creel.clone().unwrap_or_else(unknown)),
        ("Config", config),
        ("Started", session.started.rfc3339()),
        (
            "Ended",
            session
                .ended
                .map_or_else(|| "not yet".to_owned(), UnixTime::rfc3339),
        ),
        ("Resumed", counted(session.resumed, "time")),
        ("Records", session.records.to_string()),
    ];
    let rest = [
        optional("Task type", &session.task_type),
        optional("Branch", &session.branch),
        optional("Pull request", &session.pull_request),
        optional("Commit before", &report.changes.commit_before),
        optional("Commit after", &report.changes.commit_after),
    ];
    known
        .into_iter()
        .chain(rest.into_iter().flatten())
        .collect()
}

pub(super) const fn check_place(check: &CheckHistory) -> &'static str {
    match (check.kind, check.counts) {
        (CheckPlace::Stop, true) => "check",
        (CheckPlace::Stop, false) => "does not count",
        (CheckPlace::Rule, true) => "rule",
        (CheckPlace::Rule, false) => "rule, does not count",
        (CheckPlace::Protect, _) => "protected files",
        (CheckPlace::BeforeSubmit, _) => "before the submit",
        (CheckPlace::BeforeMerge, _) => "before the merge",
    }
}

/// What is known about a check at the end.
pub(super) fn check_result(check: &CheckHistory) -> &'static str {
    match check.result {
        Some(CheckRunResult::Passed) => "passed",
        Some(CheckRunResult::Failed) => "did not pass",
        Some(CheckRunResult::Broken) => "could not run",
        Some(CheckRunResult::Disabled) => "disabled",
        Some(CheckRunResult::NotRun) => "not run on the final work",
        None => check
            .runs
            .last()
            .map_or("did not run", |run| run.result.words()),
    }
}

pub(super) fn signs(check: &CheckHistory) -> String {
    if check.runs.is_empty() {
        return "–".to_owned();
    }
    check.runs.iter().map(|run| run.result.sign()).collect()
}

pub(super) const fn stage_outcome(stage: &ReportedStage) -> &'static str {
    match stage.outcome {
        Some(IterationOutcome::Done) => "done",
        Some(IterationOutcome::Failed) => "failed",
        Some(IterationOutcome::Forced) => "FORCED",
        None => "–",
    }
}

/// What the turns of a stage used, in words. Unknown parts make the sum unknown.
pub(super) fn stage_usage(stage: &ReportedStage) -> (String, String) {
    let ended = || {
        let turns = stage.turns.iter();
        turns.filter(|turn| turn.end != TurnOutcome::Open)
    };
    if stage.turns.is_empty() {
        return ("–".to_owned(), "–".to_owned());
    }
    if ended().next().is_none() {
        return (UNKNOWN.to_owned(), UNKNOWN.to_owned());
    }
    let counts: Vec<u64> = ended().filter_map(|turn| turn.tokens).collect();
    let costs: Vec<f64> = ended().filter_map(|turn| turn.cost).collect();
    let estimated = ended().filter_map(|turn| turn.cost_estimated).sum();
    let turns = ended().count();
    let of_tokens = match counts.len() {
        0 => UNKNOWN.to_owned(),
        some => {
            let least = if some < turns { "≥ " } else { "" };
            format!("{least}{}", usage::tokens(counts.iter().sum()))
        }
    };
    let of_cost = match costs.len() {
        0 => UNKNOWN.to_owned(),
        some => usage::amount(costs.iter().sum(), estimated, some < turns),
    };
    (of_tokens, of_cost)
}

/// `Turn 3 · Feedback · 12 tokens · $0.01 · 4s`.
pub(super) fn turn_line(turn: &ReportedTurn) -> String {
    let mut parts = vec![
        format!("Turn {}", turn.turn),
        prompt_name(turn.reason).to_owned(),
    ];
    parts.extend(turn.agent.as_ref().map(|agent| format!("to {agent}")));
    parts.extend(turn.model.clone());
    match turn.end {
        TurnOutcome::Ended => {}
        TurnOutcome::Failed => parts.push("failed".to_owned()),
        TurnOutcome::Open => parts.push("no end on record".to_owned()),
    }
    if turn.end != TurnOutcome::Open {
        let with = |name: &str, known: bool, words: String| {
            if known {
                words
            } else {
                format!("{name} {words}")
            }
        };
        parts.push(with("tokens", turn.tokens.is_some(), tokens(turn.tokens)));
        let cost = cost(turn.cost, turn.cost_estimated);
        parts.push(with("cost", turn.cost.is_some(), cost));
    }
    parts.extend(turn.took_ms.map(short_span));
    if turn.tool_calls > 0 {
        parts.push(counted(turn.tool_calls, "tool call"));
    }
    parts.join(" · ")
}

pub(super) fn item_state(item: &ReportedItem) -> String {
    let edited = if item.edited { ", edited" } else { "" };
    let state = match item.state {
        ItemState::Pending => "not sent".to_owned(),
        ItemState::InFlight => "in a prompt whose turn has not ended".to_owned(),
        ItemState::Skipped => "skipped, not sent".to_owned(),
        ItemState::Delivered => {
            let turn = item.turns.last();
            turn.map_or_else(|| "sent".to_owned(), |turn| format!("sent in turn {turn}"))
        }
    };
    format!("{state}{edited}")
}

/// What changed, in one line.
pub(super) fn changes(changes: &ReportedChanges) -> String {
    let files = changes.files.len() + changes.more_files;
    match changes.lines {
        Some(lines) => format!(
            "+{} −{} in {}, compared with the commit before the session",
            lines.added,
            lines.removed,
            counted(lines.files, "file")
        ),
        None if files == 0 => "No changed files are on record.".to_owned(),
        None => counted(files, "file"),
    }
}
