//! What a session did, for people and programs that did not watch it: the outcome first, then the
//! checks, the decisions, the changes and the costs.
//!
//! Owns the [`Report`], which [`builder`] folds from records, the words of its head ([`outcome`]),
//! and its forms: Markdown, HTML and JSON. The words of single events are those of
//! [`crate::present`].
//!
//! # Invariants
//! - A report follows from the records alone, after any prefix of a journal. Only the text of
//!   changes comes from git ([`changes`]). If git does not have it, the report says why.
//! - What was forced, skipped, disabled or not checked is said at the top.
//! - A number that the agent did not report is unknown, never 0.
//! - Text of agents and hooks stays text in every form.

mod builder;
pub mod changes;
mod chart;
mod html;
mod markdown;
mod outcome;
pub mod session_diff;
pub mod stats;
mod words;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use builder::ReportBuilder;
pub use html::html;
pub use markdown::{MARKDOWN_LIMIT, MarkdownPart, markdown};

use crate::{
    engine::{
        conversation::{ChangedLines, ConversationMode, StopReason, TokenKinds},
        event::{CheckRunResult, IterationOutcome, PromptReason, SessionOutcome, UserPresence},
        gate::kind::{GateChoice, GateKind},
        hooks::point::HookPoint,
        ids::{GateId, ItemId, RunId, TurnId},
        pending::ItemState,
        time::{TimeSpan, UnixTime, as_rfc3339, rfc3339_or_none},
        verify::{base_tests::TestSource, test_guard::TestComparison},
    },
    journal::{self, JournalError, SessionDir, chain, session_dir::PRIVATE_FILE},
    text::TestCounts,
};

/// The version of the JSON form.
const VERSION: u32 = 1;

/// The file of the page in the session's folder.
const PAGE: &str = "report.html";

/// The JSON Schema of a report.
pub const SCHEMA: &str = include_str!("../assets/report.schema.json");

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub v: u32,
    pub outcome: ReportedOutcome,
    pub session: ReportedSession,
    pub goal: String,
    pub checks: Vec<CheckHistory>,
    /// Oldest first.
    pub stages: Vec<ReportedStage>,
    pub gates: Vec<ReportedGate>,
    pub items: Vec<ReportedItem>,
    pub changes: ReportedChanges,
    pub usage: ReportedUsage,
    /// The tests at the end, compared with those at the start. None if they were not compared.
    pub tests: Option<TestComparison>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedOutcome {
    /// None if the session has not ended.
    pub outcome: Option<SessionOutcome>,
    pub verification: Verification,
    /// How it ended and why.
    pub sentence: String,
    /// What a reader must not overlook, one sentence each.
    pub cautions: Vec<String>,
}

/// What the checks prove about the work as it is at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verification {
    /// Every check that counts passed.
    Verified,
    NotVerified,
    /// There was nothing to check.
    NoChecks,
    /// The journal is from an earlier creel, which did not record it.
    NotRecorded,
    /// The session has not ended.
    Open,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedSession {
    pub name: String,
    pub id: String,
    pub agent: String,
    /// As far as creel or the agent named them, in the order of their first use.
    pub models: Vec<String>,
    pub task_type: Option<String>,
    pub branch: Option<String>,
    pub pull_request: Option<String>,
    /// Whether its change was merged.
    #[serde(skip)]
    pub(crate) is_merged: bool,
    /// The user that started it.
    #[serde(skip)]
    pub(crate) user: Option<String>,
    pub presence: UserPresence,
    /// The version that started it. None in journals of earlier versions.
    pub creel: Option<String>,
    /// The beginning of the SHA-256 of the plan, as this creel writes it.
    pub config_digest: String,
    pub config_files: Vec<String>,
    #[serde(with = "as_rfc3339")]
    pub started: UnixTime,
    #[serde(with = "rfc3339_or_none")]
    pub ended: Option<UnixTime>,
    /// How often it was resumed.
    pub resumed: usize,
    pub records: u64,
}

/// A check, and every time that it ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckHistory {
    pub kind: CheckPlace,
    pub name: String,
    /// The command or the built-in hook. None for rules and protected paths.
    pub command: Option<String>,
    /// Whether the work is not verified until it passes.
    pub counts: bool,
    /// What is known about the work as it is at the end. None for checks that do not count.
    pub result: Option<CheckRunResult>,
    pub runs: Vec<ReportedRun>,
    /// Its runs in clean worktrees, which are no results of it: see `tests: base`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clean_runs: Vec<ReportedRun>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckPlace {
    Stop,
    Rule,
    Protect,
    BeforeSubmit,
    BeforeMerge,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedRun {
    /// None for protected paths, which creel compares itself.
    pub run: Option<RunId>,
    pub iteration: u32,
    #[serde(with = "as_rfc3339")]
    pub at: UnixTime,
    pub result: RunMark,
    /// How it ended: `exit 1`.
    pub end: String,
    pub took_ms: TimeSpan,
    /// Why it did not pass, in one line.
    pub reason: Option<String>,
    /// Shortened, as it is on record.
    pub output: String,
    pub omitted_bytes: u64,
    /// The tests that it ran, if its output says how many.
    pub tests: Option<TestCounts>,
    /// Set for a run in a clean worktree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests_of: Option<TestSource>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMark {
    Passed,
    Blocked,
    Failed,
    TimedOut,
    NotStarted,
    Skipped,
    Cut,
}

impl RunMark {
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Blocked | Self::Failed => "✗",
            Self::TimedOut => "◷",
            Self::NotStarted => "!",
            Self::Skipped => "⊘",
            Self::Cut => "–",
        }
    }

    pub const fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::NotStarted => "could not start",
            Self::Skipped => "skipped",
            Self::Cut => "interrupted",
        }
    }
}

/// An iteration, or what happened before the first or after the last one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedStage {
    pub kind: StageKind,
    pub iteration: u32,
    #[serde(with = "as_rfc3339")]
    pub at: UnixTime,
    /// Without the time in which no process ran the session.
    pub took_ms: TimeSpan,
    pub outcome: Option<IterationOutcome>,
    pub retries: u32,
    pub turns: Vec<ReportedTurn>,
    pub moments: Vec<ReportedMoment>,
    /// The files that its turns changed.
    pub files: Vec<String>,
    pub more_files: usize,
    pub commit_before: Option<String>,
    pub commit_after: Option<String>,
    pub diff: ReportedDiff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    Start,
    Iteration,
    End,
}

impl ReportedStage {
    pub fn title(&self) -> String {
        match self.kind {
            StageKind::Start => "Before the first iteration".to_owned(),
            StageKind::Iteration => format!("Iteration {}", self.iteration),
            StageKind::End => "After the last iteration".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedTurn {
    pub turn: TurnId,
    #[serde(with = "as_rfc3339")]
    pub at: UnixTime,
    pub reason: PromptReason,
    /// The reviewing agent, if it is not the session's own.
    pub agent: Option<String>,
    pub model: Option<String>,
    pub conversation: ConversationMode,
    pub prompt: String,
    pub items: Vec<ItemId>,
    pub end: TurnOutcome,
    pub stop_reason: Option<StopReason>,
    pub error: Option<String>,
    pub took_ms: Option<TimeSpan>,
    pub tokens: Option<u64>,
    /// In dollars: what the agent reported, otherwise what creel estimated.
    pub cost: Option<f64>,
    /// The part of the cost that creel estimated.
    pub cost_estimated: Option<f64>,
    pub token_kinds: Option<TokenKinds>,
    pub tool_calls: usize,
    /// The end of what the agent said.
    pub answer: String,
    /// The edits that the agent reported.
    pub edits: Vec<ReportedEdit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    Ended,
    Failed,
    /// Its end is not on record.
    Open,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedEdit {
    #[serde(skip)]
    call: String,
    pub title: String,
    pub diff: String,
}

/// A line of the timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedMoment {
    #[serde(with = "as_rfc3339")]
    pub at: UnixTime,
    pub sign: &'static str,
    pub text: String,
    /// Whether something went wrong, or a decision was made against a check.
    pub is_bad: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedGate {
    pub gate: GateId,
    pub about: GateKind,
    pub reason: String,
    #[serde(with = "as_rfc3339")]
    pub opened: UnixTime,
    #[serde(with = "rfc3339_or_none")]
    pub answered: Option<UnixTime>,
    pub choice: Option<GateChoice>,
    /// What the choice does, in words.
    pub answer: Option<String>,
    /// The person or the policy that answered.
    pub by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedItem {
    pub item: ItemId,
    pub point: HookPoint,
    pub hook: String,
    pub iteration: u32,
    pub state: ItemState,
    pub edited: bool,
    /// The turns whose prompts had it.
    pub turns: Vec<TurnId>,
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReportedChanges {
    pub files: Vec<String>,
    pub more_files: usize,
    /// Compared with the commit before the session. None if the session did not count them.
    pub lines: Option<ChangedLines>,
    pub commit_before: Option<String>,
    pub commit_after: Option<String>,
    pub diff: ReportedDiff,
}

/// The text of a change, or why it is not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedDiff {
    Text(String),
    NotAvailable(String),
}

impl Default for ReportedDiff {
    fn default() -> Self {
        Self::NotAvailable("the journal names the changed files only".to_owned())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ReportedUsage {
    /// None: the agent reported none.
    pub tokens: Option<u64>,
    /// In dollars. None: the agent reported none, and creel could not estimate any.
    pub cost: Option<f64>,
    /// The part of the cost that creel estimated.
    pub cost_estimated: Option<f64>,
    pub turns: usize,
    /// How many of them have an estimated cost.
    pub turns_estimated: usize,
    /// How many of them came without a number.
    pub turns_without_tokens: usize,
    pub turns_without_cost: usize,
    /// How long agents worked.
    pub working_ms: TimeSpan,
    /// How long the session ran.
    pub running_ms: TimeSpan,
}

/// Writes the page of a session into its folder, for its user only. Returns the file.
pub fn write_page(folder: &SessionDir) -> Result<PathBuf, String> {
    let mut report = Report::read(&folder.journal()).map_err(|error| error.to_string())?;
    changes::read(&mut report, folder.project());
    let (page, draft) = (folder.path.join(PAGE), folder.path.join("report.html.new"));
    let write = || -> io::Result<()> {
        // Whatever has this name, creel writes a new file.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(&draft)?;
        file.write_all(html(&report).as_bytes())?;
        fs::rename(&draft, &page)
    };
    match write() {
        Ok(()) => Ok(page),
        Err(error) => Err(format!("{}: {error}", page.display())),
    }
}

impl Report {
    /// The report of a journal.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let mut builder = ReportBuilder::default();
        let disorder = journal::read(path, |record| builder.take(&record))?;
        let mut report = builder
            .finish()
            .ok_or_else(|| JournalError::NotASession(path.to_owned()))?;
        if let Some(disorder) = disorder {
            let caution = format!(
                "The journal is damaged: record {} comes where record {} belongs. Records are missing, repeated or out of order.",
                disorder.found, disorder.expected
            );
            report.outcome.cautions.insert(0, caution);
        }
        report.doubt(chain::later_change(path));
        Ok(report)
    }

    /// A journal that was changed proves nothing.
    fn doubt(&mut self, changed: Option<u64>) {
        let Some(line) = changed else { return };
        let outcome = &mut self.outcome;
        outcome.sentence = format!(
            "Not verified: the journal was changed after creel wrote it. It says: {}",
            outcome.sentence
        );
        outcome.verification = Verification::NotVerified;
        let caution = format!(
            "Line {line} of the journal is not as creel wrote it, so nothing in this report is certain: see `creel verify`."
        );
        outcome.cautions.insert(0, caution);
    }

    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("a report has no keys that are not text") + "\n"
    }
}
