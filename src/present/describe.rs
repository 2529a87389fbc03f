//! The wording of every event: one line with its sign and its tone, and the text under it.
//!
//! The lines of sessions without a screen, `creel show` and the stream of the screen all use it.
//! They own their layout: indentation, colours, and which details they show.
//!
//! # Invariants
//! - Every machine has one function that matches all of its events, so a new event needs a wording
//!   to compile.
//! - The text has no control characters: see [`super::text::plain`].

mod detail;
mod stop;
mod tasks;
mod turn;

pub use detail::{DetailKind, DetailText, details};
pub use stop::pipeline_result;
pub use turn::prompt_name;

use super::{
    gate_words::{answer_origin, answer_words, not_sent, not_sent_at_the_end},
    session_chip::outcome_words,
    text::{
        brief_span, counted, listed, plain_line, plural, readable_size, sentence_case, short_span,
        some_names,
    },
};
use crate::{
    engine::{
        SessionState,
        budget::UsageTotals,
        event::{
            ActorKind, AutomationEvent, Event, GateEvent, HookEvent, HookFinished,
            IterationOutcome, PendingEvent, RetryEvent, SessionEvent, SessionOutcome,
            SteeringEvent, StopTiming, TurnEvent, UsageLimitEvent, VerifyEvent,
        },
        gate::{event::GateGrants, kind::GateKind},
        hooks::verdict::{RunEnd, Verdict},
        ids::{GateId, ItemId},
        verify::{
            AfterPass, WorkChangedBy,
            base_tests::{CleanRun, CleanRunResult},
        },
    },
    present::{
        describe::turn::TurnPermissions,
        usage::{self, limit_reached},
    },
};

/// The longest name or title in a line, in characters.
const NAME: usize = 100;
/// The longest reason, error or warning in a line, in characters.
const SENTENCE: usize = 300;

/// An event as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The mark before the text. Empty if there is none.
    pub sign: &'static str,
    pub tone: EventTone,
    /// One line.
    pub text: String,
    pub detail: Vec<DetailText>,
}

/// The meaning of a line, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventTone {
    Plain,
    Heading,
    Passed,
    Failed,
    /// Something did not work, and the session continues.
    Problem,
    Warning,
    /// The user decides or has decided.
    Question,
    /// Something has begun.
    Active,
    /// Less important.
    Quiet,
}

impl EventTone {
    /// Whether something went wrong.
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Failed | Self::Problem)
    }
}

impl Described {
    pub(super) fn new(sign: &'static str, tone: EventTone, text: impl Into<String>) -> Self {
        Self {
            sign,
            tone,
            text: text.into(),
            detail: Vec::new(),
        }
    }

    /// The sign and the text.
    pub fn headline(&self) -> String {
        if self.sign.is_empty() {
            self.text.clone()
        } else {
            format!("{} {}", self.sign, self.text)
        }
    }
}

/// Facts from earlier events that the wording of an event needs.
#[derive(Debug, Default)]
pub struct EventContext {
    /// The project's folder.
    project: String,
    /// What the session is for.
    goal: String,
    permissions: TurnPermissions,
    /// The gate that opened last.
    gate: Option<(GateId, GateKind)>,
    /// The warning that a hook which has just failed to run would cause, as far as its line has it.
    broken: Option<String>,
    iteration: UsageTotals,
    session: UsageTotals,
}

impl EventContext {
    /// The facts from all events that led to a state.
    pub fn of(state: &SessionState) -> Self {
        Self {
            project: state.began.cwd.clone(),
            goal: state.began.prompt.clone(),
            permissions: TurnPermissions::of(state),
            gate: state.gates.open.as_ref().map(|gate| (gate.id, gate.kind())),
            broken: None,
            iteration: state.account.iteration,
            session: state.account.used,
        }
    }

    /// Remembers an event, after it has been described.
    pub fn follow(&mut self, event: &Event) {
        self.permissions.follow(event);
        self.broken = if let Event::Hook(HookEvent::Finished(run)) = event {
            Some(format!(
                "hook `{}` at {}: {}",
                run.hook,
                run.point,
                run.end.describe()
            ))
        } else {
            None
        };
        if let Event::Gate(GateEvent::Opened { gate, about, .. }) = event {
            self.gate = Some((*gate, *about));
        } else if let Event::Session(SessionEvent::Started(began)) = event {
            self.project.clone_from(&began.cwd);
            self.goal.clone_from(&began.prompt);
        } else if let Event::Session(SessionEvent::IterationStarted { .. }) = event {
            self.iteration = UsageTotals::default();
        } else if let Event::Turn(
            TurnEvent::Ended { spent, .. } | TurnEvent::Failed { spent, .. },
        ) = event
        {
            self.iteration.add(*spent);
            self.session.add(*spent);
        }
    }
}

/// The wording of an event. `None` for events that only programs need, and for the agent's own
/// text, which is shown as it is.
pub fn describe(event: &Event, context: &EventContext) -> Option<Described> {
    let described = match event {
        Event::Session(event) => session(event, context),
        Event::Hook(event) => hook(event),
        Event::Pending(event) => Some(pending(event)),
        Event::Turn(event) => turn::turn(event, context),
        Event::UsageLimit(event) => Some(usage_limit(event)),
        Event::Retry(event) => Some(retry(event)),
        Event::Gate(event) => gate(event, context),
        Event::Stop(event) => stop::stop(event),
        Event::Task(event) => Some(tasks::task(&event.news())),
        Event::Automation(event) => automation(event),
        Event::Workflow(event) => tasks::workflow(event),
        Event::Pipeline(event) => Some(stop::pipeline(event)),
        Event::Steering(event) => Some(steering(event)),
        Event::Verify(event) => verify(event),
        Event::Watch(event) => stop::watch(event),
        Event::Unknown => None,
    }?;
    Some(Described {
        detail: details(event),
        ..described
    })
}

fn verify(event: &VerifyEvent) -> Option<Described> {
    let (tone, text) = match event {
        VerifyEvent::WorkChanged { unknown: true, .. } => (
            EventTone::Warning,
            "creel cannot tell what changed: the checks have to run again".to_owned(),
        ),
        VerifyEvent::WorkChanged {
            by, files, more, ..
        } => {
            let whose = match by {
                WorkChangedBy::Checks => "The checks",
                WorkChangedBy::Others => "A hook or you",
            };
            let more = if *more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            (
                EventTone::Quiet,
                format!("{whose} changed {}{more}", some_names(files, 3)),
            )
        }
        VerifyEvent::Tampered(found) => {
            let changed = (!found.tampered.is_empty()).then(|| {
                format!(
                    "Changed since the last turn: {}",
                    some_names(&found.tampered, 3)
                )
            });
            let parts: Vec<String> = changed
                .into_iter()
                .chain(found.unchecked.iter().cloned())
                .collect();
            (EventTone::Warning, parts.join("; "))
        }
        VerifyEvent::TestsCompared(found) => {
            let parts: Vec<String> = found
                .summary()
                .into_iter()
                .chain(found.undecided.iter().cloned())
                .chain(found.with_base())
                .map(|part| sentence_case(&part))
                .collect();
            if parts.is_empty() {
                return None;
            }
            let tone = if found.findings.is_empty() {
                EventTone::Quiet
            } else {
                EventTone::Warning
            };
            (tone, sentence(&parts.join(". ")))
        }
        VerifyEvent::Started {
            hooks,
            rules,
            tests_of,
        } => {
            let names: Vec<String> = hooks.iter().chain(rules).map(|check| name(check)).collect();
            let names = listed(&names);
            let text = match tests_of {
                Some(of) => format!("Running {names} again {}", of.words()),
                None => format!("The work changed since the last check: running {names} again"),
            };
            (EventTone::Active, text)
        }
        VerifyEvent::Ended {
            next: AfterPass::Iteration,
            feedback,
        } => {
            let check = feedback
                .as_ref()
                .map_or_else(|| "a check".to_owned(), |feedback| name(&feedback.check));
            (
                EventTone::Warning,
                format!("Not done yet: {check} fails, so the agent gets another iteration"),
            )
        }
        VerifyEvent::Ended {
            next: AfterPass::Back,
            ..
        }
        | VerifyEvent::DeliveryChecked { .. } => return None,
    };
    Some(Described::new("", tone, text))
}

fn session(event: &SessionEvent, context: &EventContext) -> Option<Described> {
    Some(match event {
        SessionEvent::Started(began) => {
            let origin = match (&began.fork, &began.from) {
                (Some(session), _) => format!(" · fork of {}", name(session)),
                (None, Some(id)) => format!(" · continues conversation {}", name(id)),
                (None, None) => String::new(),
            };
            Described::new(
                "",
                EventTone::Heading,
                format!(
                    "Session started · agent {} · up to {}{origin}",
                    name(&began.agent),
                    counted(began.max_iterations, "iteration")
                ),
            )
        }
        SessionEvent::Resumed { cut, paused, .. } => {
            let again = match cut.as_slice() {
                [] => String::new(),
                cut => format!(" · running again: {}", sentence(&cut.join(", "))),
            };
            let paused = if *paused {
                " · still paused: unpause to continue"
            } else {
                ""
            };
            Described::new(
                "",
                EventTone::Heading,
                format!("Session resumed{again}{paused}"),
            )
        }
        SessionEvent::IterationStarted { iteration } => {
            Described::new("━━", EventTone::Heading, format!("Iteration {iteration}"))
        }
        SessionEvent::IterationCompleted { iteration, outcome } => {
            let (sign, tone, ended) = match outcome {
                IterationOutcome::Done => ("✓", EventTone::Passed, "done"),
                IterationOutcome::Failed => ("✗", EventTone::Failed, "failed"),
                IterationOutcome::Forced => ("!", EventTone::Warning, "forced"),
            };
            Described::new(
                sign,
                tone,
                format!(
                    "Iteration {iteration} {ended}{}",
                    usage::suffix(context.iteration)
                ),
            )
        }
        SessionEvent::Ended {
            outcome,
            iterations,
            reason,
            ..
        } => {
            let tone = if *outcome == SessionOutcome::Complete {
                EventTone::Passed
            } else {
                EventTone::Warning
            };
            let (end, count, used) = (
                outcome_words(*outcome).line,
                counted(*iterations, "iteration"),
                usage::suffix(context.session),
            );
            Described::new(
                "",
                tone,
                format!("{end} after {count}{used}: {}", sentence(reason)),
            )
        }
        // The line of the run says it already.
        SessionEvent::Warning { text } if context.broken.as_deref() == Some(text) => return None,
        SessionEvent::Warning { text } => {
            Described::new("!", EventTone::Warning, sentence_case(&sentence(text)))
        }
        SessionEvent::LoopEnded { .. } | SessionEvent::ProcessStarted { .. } => return None,
    })
}

fn hook(event: &HookEvent) -> Option<Described> {
    Some(match event {
        HookEvent::Started {
            point,
            hook,
            tests_of,
            ..
        } => {
            let with = tests_of.map(|of| format!(" {}", of.words()));
            let text = format!("{point}: {}{}", name(hook), with.unwrap_or_default());
            Described::new("▸", EventTone::Active, text)
        }
        HookEvent::Finished(finished) => hook_finished(finished),
        HookEvent::Disabled {
            point, hook, by, ..
        } => {
            let by = answer_origin(by);
            let text = format!(
                "Hook `{}` at {point} disabled for this session{by}",
                name(hook)
            );
            Described::new("", EventTone::Warning, text)
        }
        HookEvent::Enabled {
            point, hook, by, ..
        } => {
            let text = format!(
                "Hook `{}` at {point} enabled again{}",
                name(hook),
                answer_origin(by)
            );
            Described::new("", EventTone::Plain, text)
        }
        HookEvent::Due { .. } | HookEvent::Requested { .. } => return None,
    })
}

/// A run in a clean worktree, which is no result of the check.
fn clean_run(finished: &HookFinished, run: &CleanRun) -> Described {
    let (sign, tone, result) = match &run.result {
        CleanRunResult::Passed => ("✓", EventTone::Passed, "passed".to_owned()),
        CleanRunResult::Failed { why } => ("!", EventTone::Problem, format!("failed: {why}")),
        CleanRunResult::Undecided { why } => {
            ("!", EventTone::Problem, format!("cannot be decided: {why}"))
        }
        CleanRunResult::Unneeded => {
            let why = "was not run: no test file differs from the base commit";
            ("-", EventTone::Quiet, why.to_owned())
        }
    };
    let (point, hook, with) = (finished.point, name(&finished.hook), run.of.words());
    let took = match run.result {
        CleanRunResult::Unneeded => String::new(),
        CleanRunResult::Passed
        | CleanRunResult::Failed { .. }
        | CleanRunResult::Undecided { .. } => format!(" · {}", brief_span(finished.took_ms)),
    };
    let text = format!("{point}: {hook} {with} {}{took}", name(&result));
    Described::new(sign, tone, text)
}

fn hook_finished(finished: &HookFinished) -> Described {
    if let Some(run) = &finished.tests_of {
        return clean_run(finished, run);
    }
    let HookFinished {
        point,
        hook,
        end,
        took_ms,
        verdict,
        piped,
        ..
    } = finished;
    let (sign, tone, result) = match verdict {
        Verdict::Pass => ("✓", EventTone::Passed, "passed"),
        Verdict::Block => ("✗", EventTone::Failed, "blocked"),
        Verdict::Fail if *end == RunEnd::Cut => ("!", EventTone::Problem, "was interrupted"),
        Verdict::Fail => ("!", EventTone::Problem, "failed"),
    };
    let how = if *end == RunEnd::Cut {
        String::new()
    } else {
        format!(" · {} · {}", name(&end.describe()), brief_span(*took_ms))
    };
    let piped = if *piped { " · piped" } else { "" };
    Described::new(
        sign,
        tone,
        format!("{point}: {} {result}{how}{piped}", name(hook)),
    )
}

fn pending(event: &PendingEvent) -> Described {
    match event {
        PendingEvent::Added {
            item,
            hook,
            news: Some(_),
            skipped,
            ..
        } => {
            let (tone, what) = if *skipped {
                let why = "from an account that may not push: restore it to let it through";
                (EventTone::Warning, why)
            } else {
                (EventTone::Plain, "for the agent")
            };
            let text = format!("Item {item}: {} · {what}", name(hook));
            Described::new("+", tone, text)
        }
        PendingEvent::Added {
            item, hook, bytes, ..
        } => {
            let size = readable_size(*bytes as u64);
            Described::new(
                "+",
                EventTone::Quiet,
                format!("Item {item} from `{}` is pending · {size}", name(hook)),
            )
        }
        PendingEvent::Skipped { item, by } => Described::new(
            "-",
            EventTone::Quiet,
            format!("Item {item} skipped{}", answer_origin(by)),
        ),
        PendingEvent::Restored { item, by } => Described::new(
            "+",
            EventTone::Quiet,
            format!("Item {item} restored{}", answer_origin(by)),
        ),
        PendingEvent::Edited { item, by, .. } => Described::new(
            "~",
            EventTone::Quiet,
            format!("Item {item} edited{}", answer_origin(by)),
        ),
        PendingEvent::Delivered { items } => {
            let what = plural(items.len(), "item");
            let ids = items
                .iter()
                .map(ItemId::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            Described::new("✓", EventTone::Passed, format!("Delivered {what} {ids}"))
        }
    }
}

fn usage_limit(event: &UsageLimitEvent) -> Described {
    match event {
        UsageLimitEvent::Reached(reached) | UsageLimitEvent::Outage(reached) => {
            Described::new("◷", EventTone::Warning, limit_reached(reached))
        }
        UsageLimitEvent::AgentSwitched {
            from, to, reason, ..
        } => {
            let text = format!(
                "Switched from `{}` to `{}`: {}",
                name(from),
                name(to),
                sentence(reason)
            );
            Described::new("⇄", EventTone::Warning, text)
        }
        UsageLimitEvent::WaitSkipped { by } => Described::new(
            "◷",
            EventTone::Quiet,
            format!("Wait skipped{}", answer_origin(by)),
        ),
    }
}

fn retry(event: &RetryEvent) -> Described {
    match event {
        RetryEvent::Counted {
            used,
            limit,
            reason,
            no_progress,
            ..
        } => {
            let same = if *no_progress { " · no progress" } else { "" };
            Described::new(
                "↻",
                EventTone::Warning,
                format!("Retry {used} of {limit}{same}: {}", sentence(reason)),
            )
        }
        RetryEvent::LimitReached { used, hook, .. } => {
            let text = match used {
                0 => format!("{} failed, and it has no retries", name(hook)),
                used => format!(
                    "Retry limit reached: {} still fails after {}",
                    name(hook),
                    counted(*used, "retry")
                ),
            };
            Described::new("↻", EventTone::Failed, text)
        }
        RetryEvent::BackoffStarted { wait_ms, .. } => {
            let text = match wait_ms.0 {
                0..1_000 => "Waiting a moment before the next attempt".to_owned(),
                _ => format!("Waiting {} before the next attempt", short_span(*wait_ms)),
            };
            Described::new("◷", EventTone::Quiet, text)
        }
    }
}

fn gate(event: &GateEvent, context: &EventContext) -> Option<Described> {
    Some(match event {
        // The permission request itself has been shown already.
        GateEvent::Opened {
            about: GateKind::Permission,
            ..
        } => return None,
        GateEvent::Opened {
            about,
            reason,
            items,
            ..
        } => {
            let text = match (about, items.len()) {
                (GateKind::FinalDelivery, sent @ 1..) => not_sent_at_the_end(sent),
                (GateKind::Delivery, sent @ 1..) => not_sent(sent),
                // Many begin with the name of a hook, which stays as it is.
                (_, _) if reason.starts_with("the ") => sentence_case(&sentence(reason)),
                (_, _) => sentence(reason),
            };
            Described::new("◆", EventTone::Question, text)
        }
        GateEvent::ProposalEdited { tasks, by, .. } => {
            let tasks = counted(tasks.len(), "task");
            Described::new(
                "✎",
                EventTone::Question,
                format!("Proposal changed: {tasks}{}", answer_origin(by)),
            )
        }
        GateEvent::Answered {
            gate,
            choice,
            by,
            option,
            grants,
        } => context
            .permissions
            .answered(*gate, *choice, by, option.as_deref())
            .unwrap_or_else(|| {
                let retries = grants.as_deref().and_then(GateGrants::most_retries);
                let kind = context
                    .gate
                    .filter(|(id, _)| id == gate)
                    .map(|(_, kind)| kind);
                // What creel decided by policy needs no look.
                let tone = if by.by == ActorKind::Policy {
                    EventTone::Quiet
                } else {
                    EventTone::Question
                };
                Described::new("◆", tone, answer_words(kind, *choice, retries, by))
            }),
    })
}

fn automation(event: &AutomationEvent) -> Option<Described> {
    match event {
        AutomationEvent::HookError { data, .. } => {
            let text = format!(
                "Hook `{}` failed: {}",
                name(&data.hook_name),
                sentence(&data.error)
            );
            Some(Described::new("!", EventTone::Problem, text))
        }
        AutomationEvent::Due { .. } | AutomationEvent::Decided { .. } => None,
    }
}

fn steering(event: &SteeringEvent) -> Described {
    let (sign, tone, text, by) = match event {
        SteeringEvent::Paused {
            turn: Some(turn),
            by,
        } => {
            let then = "send a message to replace it, or unpause to send it again";
            (
                "⏸",
                EventTone::Warning,
                format!("Paused. Turn {turn} was cancelled: {then}"),
                by,
            )
        }
        SteeringEvent::Paused { turn: None, by } => {
            ("⏸", EventTone::Warning, "Paused".to_owned(), by)
        }
        SteeringEvent::Unpaused { by } => ("▸", EventTone::Plain, "Resumed".to_owned(), by),
        SteeringEvent::MessageQueued { text, by } => {
            let speaker = match by.by {
                ActorKind::Tui | ActorKind::Cli => "you",
                ActorKind::Mcp
                | ActorKind::Nats
                | ActorKind::Agent
                | ActorKind::Hook
                | ActorKind::OtherSession
                | ActorKind::Policy
                | ActorKind::Timeout => "message",
            };
            let text = format!("{speaker}: {}", sentence(text));
            ("›", EventTone::Plain, text, by)
        }
        SteeringEvent::ModelChosen { model, agent, by } => {
            let model = model.as_deref().map_or("as planned".to_owned(), name);
            let of = agent.as_ref().map(|agent| format!(" of {}", name(agent)));
            let text = format!("Model{}: {model}", of.unwrap_or_default());
            ("·", EventTone::Plain, text, by)
        }
        SteeringEvent::StopRequested { how, by } => {
            let text = match how {
                StopTiming::AfterIteration => "Stopping after this iteration",
                StopTiming::Now => "Stopping now",
            };
            ("■", EventTone::Warning, text.to_owned(), by)
        }
    };
    Described::new(sign, tone, format!("{text}{}", answer_origin(by)))
}

fn name(text: &str) -> String {
    plain_line(text, NAME)
}

fn sentence(text: &str) -> String {
    plain_line(text, SENTENCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        conversation::{ForbiddenChanges, TurnUsage},
        hooks::claude::FailureCause,
        ids::TurnId,
    };

    #[test]
    fn an_error_of_several_lines_is_one_line_with_detail() {
        let error = "\u{1b}[31mconnection lost\u{1b}[0m\nafter 3 attempts";
        let event = Event::Turn(TurnEvent::Failed {
            iteration: 1,
            turn: TurnId(1),
            cause: FailureCause::Unknown,
            error: error.into(),
            retry_after_ms: None,
            usage_limit: false,
            spent: TurnUsage {
                tokens: Some(12),
                ..TurnUsage::UNKNOWN
            },
            work: None,
            forbidden: ForbiddenChanges::default(),
            next: None,
        });
        let described = describe(&event, &EventContext::default()).expect("a wording");
        assert_eq!(
            described.headline(),
            "✗ Turn failed · 12 tokens: connection lost…"
        );
        assert_eq!(described.detail, [DetailText::words(error)]);
    }

    #[test]
    fn a_warning_of_several_lines_is_shown_once() {
        let event = Event::warning("hook `x` at stop says: one\ntwo\nthree".to_owned());
        let described = describe(&event, &EventContext::default()).expect("a wording");
        assert_eq!(described.headline(), "! Hook `x` at stop says: one…");
        assert_eq!(described.detail, [DetailText::words("two\nthree")]);
    }
}
