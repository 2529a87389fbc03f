//! A described event as a block of the stream: its kind, its style, and whether it is folded.

use super::{BlockBody, BlockFold, BlockKind, StreamBlock};
use crate::{
    engine::{
        event::{Event, HookEvent, PipelineEvent, SessionEvent, TurnEvent},
        time::UnixTime,
    },
    present::describe::{Described, EventTone},
    tui::theme::ThemeRole,
};

pub(super) fn block(kind: BlockKind, at: UnixTime, head: String, role: ThemeRole) -> StreamBlock {
    let (body, spots) = (BlockBody::None, Vec::new());
    StreamBlock {
        kind,
        at,
        head,
        took: String::new(),
        role,
        error: false,
        fold: BlockFold::Open,
        body,
        spots,
        turn: None,
        run: None,
        revision: 0,
    }
}

pub(super) fn event_block(at: UnixTime, event: &Event, described: &Described) -> StreamBlock {
    let kind = kind_of(event);
    let fold = match kind {
        BlockKind::Hook if described.tone.is_error() => BlockFold::End,
        BlockKind::Tool
        | BlockKind::Request
        | BlockKind::Prompt
        | BlockKind::Thought
        | BlockKind::Note
        | BlockKind::Hook => BlockFold::Closed,
        BlockKind::Session
        | BlockKind::Iteration
        | BlockKind::Pipeline
        | BlockKind::Said
        | BlockKind::Plan => BlockFold::Open,
    };
    let error = described.tone.is_error();
    StreamBlock {
        error,
        fold,
        ..block(kind, at, described.headline(), role_of(described.tone))
    }
}

const fn role_of(tone: EventTone) -> ThemeRole {
    match tone {
        EventTone::Plain => ThemeRole::Text,
        EventTone::Active => ThemeRole::Running,
        EventTone::Heading => ThemeRole::Heading,
        EventTone::Passed => ThemeRole::Good,
        EventTone::Failed => ThemeRole::Bad,
        EventTone::Problem | EventTone::Warning => ThemeRole::Warning,
        EventTone::Question => ThemeRole::Gate,
        EventTone::Quiet => ThemeRole::Faint,
    }
}

const fn kind_of(event: &Event) -> BlockKind {
    match event {
        Event::Session(event) => match event {
            SessionEvent::Started(_)
            | SessionEvent::Resumed { .. }
            | SessionEvent::Ended { .. } => BlockKind::Session,
            SessionEvent::IterationStarted { .. } => BlockKind::Iteration,
            SessionEvent::IterationCompleted { .. }
            | SessionEvent::LoopEnded { .. }
            | SessionEvent::Warning { .. }
            | SessionEvent::ProcessStarted { .. } => BlockKind::Note,
        },
        Event::Hook(HookEvent::Started { .. } | HookEvent::Finished(_)) => BlockKind::Hook,
        Event::Turn(event) => match event {
            TurnEvent::PromptSent(_) => BlockKind::Prompt,
            TurnEvent::AgentSaid { .. } => BlockKind::Said,
            TurnEvent::AgentThought { .. } => BlockKind::Thought,
            TurnEvent::ToolCalled { .. } | TurnEvent::ToolUpdated { .. } => BlockKind::Tool,
            TurnEvent::AgentPlanned { .. } => BlockKind::Plan,
            TurnEvent::PermissionAsked { .. } => BlockKind::Request,
            TurnEvent::AgentUsed { .. }
            | TurnEvent::AgentNoted { .. }
            | TurnEvent::ConversationOpened { .. }
            | TurnEvent::Ended { .. }
            | TurnEvent::Failed { .. } => BlockKind::Note,
        },
        Event::Pipeline(PipelineEvent::Started { .. }) => BlockKind::Pipeline,
        Event::Hook(_)
        | Event::Pending(_)
        | Event::UsageLimit(_)
        | Event::Retry(_)
        | Event::Gate(_)
        | Event::Stop(_)
        | Event::Task(_)
        | Event::Automation(_)
        | Event::Workflow(_)
        | Event::Pipeline(_)
        | Event::Steering(_)
        | Event::Verify(_)
        | Event::Unknown => BlockKind::Note,
    }
}
