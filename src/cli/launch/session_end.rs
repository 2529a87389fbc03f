//! The last words about a session that this process ran, and its exit code.

use std::{fs, io, path::Path};

use crate::{
    cli::{
        arguments::ConfigArgs,
        error::{put, say},
        record_formatter::{HookOutputMode, RecordFormatter},
        target,
    },
    engine::{
        SessionState,
        effect::ExitReason,
        event::{SessionOutcome, StopTiming},
        gate::{
            Gate,
            kind::{GateChoice, GateKind},
        },
        submit::kind::{PipelineKind, PipelineOutcome},
    },
    journal::{self, SessionDir},
    present::{
        end_card::{AFTER_DEMO, EndCard, EndTally},
        hook_stats::HookTallies,
        style::ColourMode,
        text::plain,
    },
    runtime::RuntimeExit,
};

/// In bytes.
const CARD_JOURNAL: u64 = 16 << 20;

/// Exit codes that other programs rely on.
const NEEDS_USER: u8 = 4;
const INTERRUPTED: u8 = 130;

/// What the exit code of a session reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCodeSource {
    /// How the session ended.
    Session,
    /// How the submit or merge went that the session was started or resumed for.
    Pipeline(PipelineKind),
    /// How the session of `creel plan` ended, which then queues its tasks.
    Proposal,
}

impl ExitCodeSource {
    /// Which commands the card at the end names.
    pub(crate) const fn next_commands(self) -> NextCommands {
        match self {
            Self::Session | Self::Pipeline(_) => NextCommands::OfSession,
            Self::Proposal => NextCommands::Unnamed,
        }
    }

    /// Tells the user how the session or its pipeline ended, and what to do next.
    pub(crate) fn farewell(self, folder: &SessionDir, left: &RuntimeExit, elsewhere: &str) {
        match self {
            Self::Proposal => farewell(folder, left, elsewhere),
            Self::Session => {
                farewell(folder, left, elsewhere);
                if left.state.proposal.is_approved && left.leave == ExitReason::Ended {
                    let name = &folder.name;
                    say(&format!(
                        "creel: the approved tasks are not queued yet; queue them with `creel plan --session {name} --yes`{elsewhere}"
                    ));
                }
            }
            Self::Pipeline(pipeline) => farewell_to_pipeline(folder, left, pipeline),
        }
    }

    pub(crate) fn exit_code(self, left: &RuntimeExit) -> u8 {
        match self {
            Self::Session | Self::Proposal => exit_code(left),
            Self::Pipeline(_) => pipeline_code(left),
        }
    }
}

/// The same for a session whose folder is removed: it cannot be resumed.
pub(crate) fn farewell_without_folder(left: &RuntimeExit) {
    match left.leave {
        ExitReason::NeedsUser => {
            say(&format!(
                "creel: the session needs you: {}\n  run it on a terminal, without --headless",
                why(left)
            ));
        }
        ExitReason::Ended => {}
    }
}

/// Prints the last line of the session, so that it stays in the terminal after the screen has
/// closed.
pub(crate) fn print_last_record(folder: &SessionDir, next: NextCommands) {
    let mut narrator = RecordFormatter::new(
        ColourMode::for_stream(&io::stdout()),
        HookOutputMode::Recorded,
    );
    if let (Ok(state), Some(end)) = (
        journal::fold(&folder.journal()),
        journal::last_end(&folder.journal()),
    ) {
        narrator.continue_after(&state);
        let _ = put(&narrator.tell(&end));
        print_card(folder, &state, next);
    }
}

/// Which commands the card at the end names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextCommands {
    /// Those that do something with the session. The message after the card names those that
    /// continue it.
    OfSession,
    AfterDemo,
    /// All but `creel show`, which has just printed the session.
    AfterShow,
    /// None: `creel plan` continues.
    Unnamed,
}

/// Prints what the session took, what did not pass, what was not sent, and the next command. The
/// line before it says how the session ended. creel does not read a very long journal again for
/// that.
pub(crate) fn print_card(folder: &SessionDir, state: &SessionState, next: NextCommands) {
    let journal = folder.journal();
    if fs::metadata(&journal).map_or(true, |file| file.len() > CARD_JOURNAL) {
        return;
    }
    let (mut tally, mut hooks) = (EndTally::default(), HookTallies::default());
    let read = journal::read(&journal, |record| {
        tally.take(record.at, &record.event);
        hooks.take(&record.event);
    });
    if let (Ok(_), Some(card)) = (read, tally.card(state, &hooks)) {
        let next = match next {
            NextCommands::AfterDemo => Some(AFTER_DEMO.to_owned()),
            NextCommands::Unnamed => None,
            NextCommands::OfSession => (!is_continued(state)).then(|| card.next.join(" · ")),
            NextCommands::AfterShow => {
                let others: Vec<&str> = card.next.iter().skip(1).map(String::as_str).collect();
                (!others.is_empty()).then(|| others.join(" · "))
            }
        };
        let next = next.map(|next| EndCard::line("next", &next));
        let _ = put(&card
            .lines()
            .into_iter()
            .chain(next)
            .map(|line| format!("  {line}\n"))
            .collect::<String>());
    }
}

/// Whether the user can continue the session, as [`farewell`] says.
fn is_continued(state: &SessionState) -> bool {
    state.refuse_resume(None).is_none() || state.phase.outcome() == Some(SessionOutcome::Limit)
}

/// How to name the project in a hint. Empty if the current folder is in it.
pub(crate) fn elsewhere(root: &Path) -> String {
    let here = target::sessions_of(&ConfigArgs::default()).is_ok_and(|(here, _)| here == root);
    if here {
        String::new()
    } else {
        format!(" in {}", root.display())
    }
}

/// Why the session waits for the user.
fn why(left: &RuntimeExit) -> String {
    left.state
        .gates
        .open
        .as_ref()
        .map_or_else(|| "a gate".into(), |gate| plain(&gate.reason))
}

fn farewell(folder: &SessionDir, left: &RuntimeExit, elsewhere: &str) {
    let name = &folder.name;
    if let Some(copy) = &left.rescued {
        say(&format!(
            "creel: the journal was deleted while the session ran; a copy is in {}",
            copy.display()
        ));
        return;
    }
    match left.leave {
        ExitReason::NeedsUser => {
            let why = why(left);
            let gate = left.state.gates.open.as_ref().map(Gate::kind);
            let advice = if gate == Some(GateKind::Permission) {
                "\n  or decide in advance with `gates.permissions: allow` or `deny`, or with rules in `permissions:`"
            } else if gate == Some(GateKind::Question) {
                "\n  or let the agent decide such questions itself with `gates.questions: decline`"
            } else {
                ""
            };
            say(&format!(
                "creel: the session needs you: {why}\n  continue with `creel resume {name}`{elsewhere}{}{advice}",
                answer_at_once(&left.state)
            ));
        }
        // The outcome alone is not enough: the user may have interrupted the end.
        ExitReason::Ended if left.state.refuse_resume(None).is_none() => {
            say(&format!(
                "creel: see what happened with `creel show {name}`, continue with `creel resume {name}`{elsewhere}{}",
                answer_at_once(&left.state)
            ));
        }
        ExitReason::Ended if left.state.phase.outcome() == Some(SessionOutcome::Limit) => {
            say(&format!(
                "creel: continue with `creel resume {name} --max-iterations N`{elsewhere}"
            ));
        }
        ExitReason::Ended => {}
    }
}

/// How to answer the gate at which the session ended, in one command.
fn answer_at_once(state: &SessionState) -> String {
    let choices: Vec<&str> = state
        .choices_on_resume()
        .into_iter()
        .map(GateChoice::name)
        .collect();
    if choices.is_empty() {
        return String::new();
    }
    format!(
        "\n  or answer at once with `creel resume {} --answer CHOICE`: {}",
        state.name,
        choices.join(", ")
    )
}

/// Explains a submit or a merge that did not finish.
fn farewell_to_pipeline(folder: &SessionDir, left: &RuntimeExit, pipeline: PipelineKind) {
    let last = left.state.pipelines.last.as_deref();
    if let Some(last) = last.filter(|last| last.outcome != PipelineOutcome::Done) {
        let (why, name) = (plain(&last.reason), pipeline.name());
        say(&format!(
            "creel: {why}\n  nothing is lost; try again with `creel {name} {}`",
            folder.name
        ));
    }
}

fn pipeline_code(left: &RuntimeExit) -> u8 {
    let Some(last) = left
        .state
        .pipelines
        .last
        .as_deref()
        .filter(|_| left.leave == ExitReason::Ended)
    else {
        return exit_code(left);
    };
    match last.outcome {
        PipelineOutcome::Done => 0,
        PipelineOutcome::Failed if last.waits_for_a_person() => NEEDS_USER,
        PipelineOutcome::Failed => 1,
        PipelineOutcome::Cancelled => INTERRUPTED,
    }
}

fn exit_code(left: &RuntimeExit) -> u8 {
    if left.leave == ExitReason::NeedsUser {
        return NEEDS_USER;
    }
    let interrupted = left.state.steering.stop == Some(StopTiming::Now);
    match left.state.phase.outcome() {
        Some(SessionOutcome::Forced | SessionOutcome::Unverified | SessionOutcome::Cancelled)
            if interrupted =>
        {
            INTERRUPTED
        }
        Some(SessionOutcome::Complete) => 0,
        Some(SessionOutcome::Failed | SessionOutcome::Aborted) | None => 1,
        Some(SessionOutcome::Limit) => 3,
        Some(SessionOutcome::Escalated) => NEEDS_USER,
        Some(SessionOutcome::Forced | SessionOutcome::Unverified) => 5,
        Some(SessionOutcome::Cancelled) => INTERRUPTED,
    }
}
