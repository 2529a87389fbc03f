//! Formats records as lines for people: for sessions without a screen, and for `creel show`.

use std::collections::HashMap;

use crate::{
    engine::{
        SessionState,
        conversation::{StopReason, ToolCall, ToolStatus},
        event::{Event, HookEvent, SessionEvent, TurnEvent},
        ids::RunId,
    },
    journal::Record,
    present::{
        describe::{DetailKind, DetailText, EventContext, EventTone, describe},
        style::{ColourMode, TextRole},
        text::plain,
    },
    runtime::HookOutputChunk,
};

/// How many bytes of a run's live output are shown.
const SHOWN: usize = 64 << 10;

/// Whether the formatter prints the output of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOutputMode {
    /// No: it was already printed live.
    Shown,
    Recorded,
}

/// Formats a session, record by record.
#[derive(Debug)]
pub struct RecordFormatter {
    paint: ColourMode,
    output: HookOutputMode,
    /// Whether the agent's text ended in the middle of a line.
    speaking: bool,
    hook_lines: HashMap<RunId, HookLineBuffer>,
    context: EventContext,
    /// The entries of the plan when it was last printed in full.
    plan: Vec<String>,
    /// The records of tool calls that are not printed yet: their next update has the real title.
    held: Vec<Event>,
    /// The tool call that failed last. Some agents report that twice.
    failed: Option<String>,
}

/// The live output of a run.
#[derive(Debug, Default)]
struct HookLineBuffer {
    /// The line that has no end yet.
    partial: Vec<u8>,
    /// How many bytes were shown.
    shown: usize,
}

impl RecordFormatter {
    pub fn new(paint: ColourMode, output: HookOutputMode) -> Self {
        Self {
            paint,
            output,
            speaking: false,
            hook_lines: HashMap::new(),
            context: EventContext::default(),
            plan: Vec::new(),
            held: Vec::new(),
            failed: None,
        }
    }

    /// Continues after the records that led to a state.
    pub fn continue_after(&mut self, state: &SessionState) {
        self.context = EventContext::of(state);
    }

    /// The lines for a record. Empty for records that only programs need, and for tool calls that
    /// have not begun: their line comes with their next update or before the next other line.
    pub fn tell(&mut self, record: &Record) -> String {
        if let Event::Turn(TurnEvent::AgentSaid { text, .. }) = &record.event {
            return self.rest() + &self.speak(text);
        }
        if let Event::Turn(TurnEvent::ToolCalled { tool, .. }) = &record.event
            && tool.status == ToolStatus::Pending
        {
            self.held.push(record.event.clone());
            return String::new();
        }
        let called = if let Event::Turn(TurnEvent::ToolUpdated { tool, .. }) = &record.event {
            if tool.status == ToolStatus::Failed
                && self.failed.replace(tool.call.clone()).as_ref() == Some(&tool.call)
            {
                return String::new();
            }
            self.release(tool)
        } else {
            None
        };
        if let Event::Turn(TurnEvent::PermissionAsked { ask, .. }) = &record.event
            && let Some(at) = self.held_at(&ask.tool)
        {
            retitle(&mut self.held[at], &ask.tool);
        }
        let ended = if let Event::Hook(HookEvent::Finished(finished)) = &record.event {
            Some(finished.run)
        } else {
            None
        };
        let line = self.line(called.as_ref().unwrap_or(&record.event));
        let held = if called.is_none() && line.is_some() {
            self.rest()
        } else {
            String::new()
        };
        let rest = ended.map(|run| self.rest_of_hook(run)).unwrap_or_default();
        self.follow(&record.event);
        let Some(line) = line else {
            return rest;
        };
        format!("{held}{rest}{}{line}\n", self.line_break())
    }

    /// Whether a tool call is not printed yet.
    pub const fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The lines of the tool calls that are not printed yet.
    pub fn rest(&mut self) -> String {
        let mut lines = String::new();
        for event in std::mem::take(&mut self.held) {
            if let Some(line) = self.line(&event) {
                lines += &format!("{}{line}\n", self.line_break());
            }
        }
        lines
    }

    /// The record of a held call as its update has it. `None` if the call is printed already, or
    /// if the line of the update says the same.
    fn release(&mut self, updated: &ToolCall) -> Option<Event> {
        let mut called = self.held.remove(self.held_at(updated)?);
        retitle(&mut called, updated);
        (updated.status != ToolStatus::Failed).then_some(called)
    }

    fn held_at(&self, tool: &ToolCall) -> Option<usize> {
        self.held.iter().position(|event| {
            matches!(event, Event::Turn(TurnEvent::ToolCalled { tool: held, .. }) if held.call == tool.call)
        })
    }

    /// Ends the line of the agent's text, if it is still open.
    fn line_break(&mut self) -> &'static str {
        if std::mem::take(&mut self.speaking) {
            "\n"
        } else {
            ""
        }
    }

    fn follow(&mut self, event: &Event) {
        self.context.follow(event);
        if let Event::Turn(TurnEvent::AgentPlanned { entries, .. }) = event {
            self.plan = entries.iter().map(|entry| entry.content.clone()).collect();
        }
    }

    /// Formats live output of a hook: whole lines, up to a limit.
    pub fn overhear(&mut self, live: &HookOutputChunk) -> String {
        let buffer = self.hook_lines.entry(live.run).or_default();
        if buffer.shown > SHOWN {
            return String::new();
        }
        buffer.partial.extend_from_slice(&live.bytes);
        let whole = buffer
            .partial
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let lines: Vec<u8> = buffer.partial.drain(..whole).collect();
        buffer.shown += lines.len()
            + if buffer.partial.len() > SHOWN {
                SHOWN
            } else {
                0
            };
        let too_much = buffer.shown > SHOWN;
        let text = String::from_utf8_lossy(&lines[..lines.len().min(SHOWN)]).into_owned();
        let mut out = if lines.is_empty() {
            String::new()
        } else {
            self.quoted_at_line_start(&text)
        };
        if live.gap {
            out += &self.quoted_at_line_start(
                "… output omitted: the hook prints faster than creel can show it",
            );
        }
        if too_much {
            out += &self.quoted_at_line_start(
                "… more output omitted: `creel show` prints the end, the output file has all of it",
            );
        }
        out
    }

    /// The last line of a hook, if it had no newline.
    fn rest_of_hook(&mut self, run: RunId) -> String {
        let rest = self
            .hook_lines
            .remove(&run)
            .map(|buffer| buffer.partial)
            .unwrap_or_default();
        if rest.is_empty() || rest.len() > SHOWN {
            return String::new();
        }
        self.quoted_at_line_start(&String::from_utf8_lossy(&rest))
    }

    fn quoted_at_line_start(&mut self, text: &str) -> String {
        let held = self.rest();
        format!("{held}{}{}", self.line_break(), self.quoted(text))
    }

    fn speak(&mut self, text: &str) -> String {
        let mut out = String::new();
        for piece in plain(text).split_inclusive('\n') {
            if !self.speaking {
                out.push_str("  ");
            }
            out.push_str(piece);
            self.speaking = !piece.ends_with('\n');
        }
        out
    }

    fn quoted(&self, text: &str) -> String {
        plain(text)
            .lines()
            .map(|line| self.paint.paint(TextRole::Faint, format!("    │ {line}")) + "\n")
            .collect()
    }

    fn line(&self, event: &Event) -> Option<String> {
        let described = describe(event, &self.context).filter(|_| !is_screen_only(event))?;
        let indent = if starts_at_margin(event) { "" } else { "  " };
        let head = format!("{indent}{}", described.headline());
        let mut lines = role_of(described.tone)
            .map_or_else(|| head.clone(), |role| self.paint.paint(role, &head));
        if self.shows_detail(event) {
            for detail in &described.detail {
                lines.push('\n');
                lines.push_str(self.detail(detail).trim_end());
            }
        }
        Some(lines)
    }

    /// Whether the lines include the text under an event. Prompts and tool calls would be too long.
    fn shows_detail(&self, event: &Event) -> bool {
        if let Event::Turn(TurnEvent::AgentPlanned { entries, .. }) = event {
            // The agent sends the plan again whenever an entry is done.
            return !entries.iter().map(|entry| &entry.content).eq(&self.plan);
        }
        let hook_output =
            matches!(event, Event::Hook(_)) && self.output == HookOutputMode::Recorded;
        hook_output
            || matches!(
                event,
                Event::Turn(TurnEvent::Failed { .. }) | Event::Session(_) | Event::Gate(_)
            )
    }

    fn detail(&self, detail: &DetailText) -> String {
        match detail.kind {
            DetailKind::Plan => {
                let entry = |line| self.paint.paint(TextRole::Faint, format!("    {line}")) + "\n";
                detail.text.lines().map(entry).collect()
            }
            DetailKind::Words | DetailKind::Change | DetailKind::Arguments | DetailKind::Output => {
                self.quoted(&detail.text)
            }
        }
    }
}

/// Gives a recorded call what a later record knows of it; it has still not begun.
fn retitle(called: &mut Event, later: &ToolCall) {
    if let Event::Turn(TurnEvent::ToolCalled { tool, .. }) = called {
        tool.clone_from(later);
        tool.status = ToolStatus::Pending;
    }
}

/// Whether only the screen shows an event: the lines say the same with the tool call, the iteration
/// or the session.
const fn is_screen_only(event: &Event) -> bool {
    if let Event::Turn(TurnEvent::ToolUpdated { tool, .. }) = event {
        return !matches!(tool.status, ToolStatus::Failed);
    }
    matches!(
        event,
        Event::Turn(
            TurnEvent::ConversationOpened { .. }
                | TurnEvent::Ended {
                    stop_reason: StopReason::EndTurn,
                    ..
                }
        )
    )
}

/// Whether the line of an event is not indented, because it begins or ends a part of the session.
const fn starts_at_margin(event: &Event) -> bool {
    matches!(
        event,
        Event::Session(
            SessionEvent::Started(_)
                | SessionEvent::Resumed { .. }
                | SessionEvent::IterationStarted { .. }
                | SessionEvent::Ended { .. }
        )
    )
}

const fn role_of(tone: EventTone) -> Option<TextRole> {
    match tone {
        EventTone::Plain => None,
        EventTone::Heading => Some(TextRole::Heading),
        EventTone::Passed => Some(TextRole::Good),
        EventTone::Failed => Some(TextRole::Bad),
        EventTone::Problem | EventTone::Warning | EventTone::Question => Some(TextRole::Warning),
        EventTone::Active | EventTone::Quiet => Some(TextRole::Faint),
    }
}
