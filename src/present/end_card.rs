//! The card at the end of a session: how it ended and why, what it took, what did not pass, and
//! what was not sent.
//!
//! Owns the wording and the order of the facts. [`EndTally`] is a fold over records.

use std::collections::BTreeSet;

use super::{
    hook_stats::HookTallies,
    session_chip::outcome_words,
    text::{counted, plain, plain_line, sentence_case, short_span, some_names},
};
use crate::{
    engine::{
        SessionState,
        conversation::{ChangedFileLines, ChangedLines},
        event::{Event, RetryEvent, SessionEvent, SessionOutcome, TurnEvent},
        hooks::point::HookPoint,
        pending::{ItemState, PendingItems},
        time::UnixTime,
    },
    present::{session_chip::IdleTime, usage},
};

/// How many hooks or items a line names.
const NAMED: usize = 4;
/// The longest name in a line, in characters.
const NAME: usize = 40;
/// How many changed files have a line, and how long their paths are.
const FILES: usize = 6;
const PATH: usize = 60;
/// The name of a fact that belongs to the one above it.
pub const FILE: &str = "";

/// What the card counts.
#[derive(Debug, Default)]
pub struct EndTally {
    retries: usize,
    files: BTreeSet<String>,
    /// Changed files that the records count but do not name.
    more_files: usize,
    /// The lines in those files, as the session counted them at its end.
    lines: Option<ChangedLines>,
    by_file: Vec<ChangedFileLines>,
    /// Whether `creel submit` could work when the session ended.
    submittable: bool,
    idle: IdleTime,
    end: Option<(UnixTime, String)>,
    /// The hook that still blocked when its retries were used up.
    blocked_by: Option<String>,
}

/// What a user may want to do after a demo, whose folder is gone.
pub const AFTER_DEMO: &str = "creel init · creel run";

impl EndTally {
    /// Counts a record.
    pub fn take(&mut self, at: UnixTime, event: &Event) {
        self.idle.take(at, event);
        if let Event::Retry(RetryEvent::Counted { .. }) = event {
            self.retries += 1;
        } else if let Event::Retry(RetryEvent::LimitReached { hook, .. }) = event {
            self.blocked_by = Some(plain_line(hook, NAME));
        } else if let Event::Turn(TurnEvent::Ended {
            work: Some(work), ..
        }) = event
        {
            self.files.extend(work.files_modified.iter().cloned());
            self.more_files = self.more_files.max(work.more_modified);
        } else if let Event::Session(SessionEvent::Ended {
            reason,
            lines,
            files,
            submittable,
            ..
        }) = event
        {
            self.by_file.clone_from(files);
            self.end = Some((at, reason.clone()));
            self.submittable = *submittable;
            self.lines = lines.or(self.lines);
        }
    }

    /// The card, if the session has ended.
    pub fn card(&self, state: &SessionState, hooks: &HookTallies) -> Option<EndCard> {
        let outcome = state.phase.outcome()?;
        let (at, reason) = self.end.as_ref()?;
        let reason = plain(reason).replace('\n', " ");
        let head = self.head(outcome, &reason);
        let mut facts = vec![("took", self.took(state, *at))];
        let used = usage::suffix(state.account.used);
        facts.extend(
            (!used.is_empty()).then(|| ("used", used.trim_start_matches(" · ").to_owned())),
        );
        let never: Vec<String> = never_passed(hooks);
        let undelivered = not_sent(&state.pending);
        let files = self.files.len() + self.more_files;
        let lists = [
            (
                "never passed",
                (!never.is_empty()).then(|| some_names(&never, NAMED)),
            ),
            ("changed", self.changed(files)),
            (
                "not sent",
                (!undelivered.is_empty()).then(|| some_names(&undelivered, NAMED)),
            ),
        ];
        facts.extend(
            lists
                .into_iter()
                .filter_map(|(name, fact)| Some((name, fact?))),
        );
        let changed = facts.iter().position(|(name, _)| *name == "changed");
        if let Some(at) = changed {
            let files = self.files(files).into_iter();
            let after = facts.split_off(at + 1);
            facts.extend(files.map(|file| (FILE, file)));
            facts.extend(after);
        }
        Some(EndCard {
            head,
            facts,
            next: next(state, outcome, self.submittable),
        })
    }

    /// The files that turns changed, or if the session counted lines, what differs from the commit
    /// before the session. What was uncommitted by then is not on record, so files without a
    /// difference may have changed all the same.
    fn changed(&self, files: usize) -> Option<String> {
        match self.lines {
            Some(lines) if lines.files == 0 => (files > 0).then(|| {
                format!(
                    "{}, now as in the commit before the session",
                    counted(files, "file")
                )
            }),
            Some(ChangedLines {
                added,
                removed,
                files,
            }) => Some(format!("+{added} −{removed} in {}", counted(files, "file"))),
            None => (files > 0).then(|| counted(files, "file")),
        }
    }

    /// A line for each of the files with most changes, if the session counted them.
    fn files(&self, all: usize) -> Vec<String> {
        let shown = self.by_file.iter().take(FILES);
        let width =
            |file: &ChangedFileLines| format!("+{} −{}", file.added, file.removed).chars().count();
        let width = shown.clone().map(width).max().unwrap_or(0);
        let line = |file: &ChangedFileLines| {
            let counts = format!("+{} −{}", file.added, file.removed);
            format!("{counts:width$}  {}", plain_line(&file.path, PATH))
        };
        let mut lines: Vec<String> = shown.map(line).collect();
        let all = self.lines.map_or(all, |lines| lines.files);
        let more = all.saturating_sub(lines.len());
        if more > 0 && !lines.is_empty() {
            lines.push(format!("and {}", counted(more, "more file")));
        }
        lines
    }

    fn head(&self, outcome: SessionOutcome, reason: &str) -> String {
        // Journals of earlier versions do not name the check in the reason.
        let blocked_by = self
            .blocked_by
            .as_deref()
            .filter(|hook| !reason.contains(hook));
        if let Some(hook) = blocked_by.filter(|_| outcome == SessionOutcome::Forced) {
            return format!("Forced: the last iteration was accepted although {hook} blocked it");
        }
        outcome_sentence(outcome, reason)
    }

    fn took(&self, state: &SessionState, at: UnixTime) -> String {
        let time = short_span(self.idle.running(state.started, at));
        let iterations = counted(state.iterations.current, "iteration");
        let retries = match self.retries {
            0 => String::new(),
            n => format!(" · {}", counted(n, "retry")),
        };
        format!("{time} · {iterations}{retries}")
    }
}

/// The items that the agent has not received, also those that the user decided not to send.
fn not_sent(pending: &PendingItems) -> Vec<String> {
    let left = pending
        .items()
        .iter()
        .filter(|item| item.state != ItemState::Delivered);
    let named = left.map(|item| {
        let skipped = if item.state == ItemState::Skipped {
            " (skipped)"
        } else {
            ""
        };
        format!("{}{skipped}", plain_line(&item.source.hook, NAME))
    });
    named.collect()
}

/// The checks that ran and never passed.
fn never_passed(hooks: &HookTallies) -> Vec<String> {
    let is_check = |point| {
        matches!(
            point,
            HookPoint::Stop
                | HookPoint::StopDecision
                | HookPoint::BeforeSubmit
                | HookPoint::BeforeMerge
        )
    };
    let stats = hooks
        .stats()
        .into_iter()
        .filter(|stats| is_check(stats.point) && stats.runs > 0 && stats.passed == 0);
    stats.map(|stats| plain_line(&stats.hook, NAME)).collect()
}

/// How a session ended, in a few lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndCard {
    /// The outcome and the reason, in one sentence.
    pub head: String,
    /// A name and a fact per line.
    pub facts: Vec<(&'static str, String)>,
    /// Commands that the user may want next.
    pub next: Vec<String>,
}

impl EndCard {
    /// The lines after the head.
    pub fn lines(&self) -> Vec<String> {
        self.facts
            .iter()
            .map(|(name, fact)| Self::line(name, fact))
            .collect()
    }

    pub fn line(name: &str, fact: &str) -> String {
        format!("{name:13} {fact}")
    }
}

/// How a session ended and why, in one sentence.
pub fn outcome_sentence(outcome: SessionOutcome, reason: &str) -> String {
    let end = outcome_words(outcome).word;
    match reason {
        "" => end.to_owned(),
        // The reason says it in full: "stopped at 3 iterations: tests still fails".
        reason if reason.to_lowercase().starts_with(&end.to_lowercase()) => sentence_case(reason),
        reason => format!("{end}: {reason}"),
    }
}

fn next(state: &SessionState, outcome: SessionOutcome, can_submit: bool) -> Vec<String> {
    let name = &state.name;
    let again = if outcome == SessionOutcome::Limit {
        Some(format!("creel resume {name} --max-iterations N"))
    } else {
        state
            .refuse_resume(None)
            .is_none()
            .then(|| format!("creel resume {name}"))
    };
    let submits =
        outcome == SessionOutcome::Complete && can_submit && state.pipelines.last.is_none();
    let submit = submits.then(|| format!("creel submit {name}"));
    // What was queued is not in the records of the session; `creel plan` queues no task twice.
    let asked = state
        .plan()
        .proposal
        .as_ref()
        .filter(|_| outcome == SessionOutcome::Complete);
    let without_asking = if state.proposal.is_approved {
        " --yes"
    } else {
        ""
    };
    let queue = asked.map(|_| format!("creel plan --session {name}{without_asking}"));
    [queue, Some(format!("creel show {name}")), again, submit]
        .into_iter()
        .flatten()
        .collect()
}
