//! The wording of a turn: the prompt, what the agent does, and how the turn ended.

use super::{Described, EventTone, name, sentence};
use crate::{
    engine::{
        conversation::{StopReason, ToolCall, ToolStatus, TurnUsage},
        event::{PromptReason, PromptSent, TurnEvent},
    },
    present::{
        text::{counted, prompt_line, readable_size, sentence_case},
        tool_calls,
        usage_totals::UsageTotals,
    },
};

pub(super) fn turn(event: &TurnEvent, project: &str) -> Option<Described> {
    Some(match event {
        TurnEvent::PromptSent(sent) => prompt(sent),
        TurnEvent::ToolCalled { tool: call, .. } | TurnEvent::ToolUpdated { tool: call, .. } => {
            tool(call, project)
        }
        TurnEvent::AgentPlanned { entries, .. } => {
            Described::new("≡", EventTone::Active, tool_calls::plan_line(entries))
        }
        TurnEvent::AgentNoted { what, text, .. } => Described::new(
            "·",
            EventTone::Quiet,
            format!("{}: {}", sentence_case(&name(what)), sentence(text)),
        ),
        TurnEvent::ConversationOpened { conversation, .. } => Described::new(
            "·",
            EventTone::Quiet,
            format!("Conversation opened: {}", name(conversation)),
        ),
        TurnEvent::PermissionAsked { ask, .. } => {
            let text = format!(
                "Permission request: {}",
                tool_calls::line(&ask.tool, project)
            );
            Described::new("?", EventTone::Question, text)
        }
        TurnEvent::Ended {
            stop_reason, spent, ..
        } => ended(*stop_reason, *spent)?,
        TurnEvent::Failed { error, spent, .. } => {
            let used = UsageTotals::from(*spent).suffix();
            Described::new(
                "✗",
                EventTone::Failed,
                format!("Turn failed{used}: {}", sentence(error)),
            )
        }
        TurnEvent::AgentSaid { .. }
        | TurnEvent::AgentThought { .. }
        | TurnEvent::AgentUsed { .. } => return None,
    })
}

/// The name of a prompt that is sent for this reason, in sentence case.
pub const fn prompt_name(reason: PromptReason) -> &'static str {
    match reason {
        PromptReason::Iteration => "Prompt",
        PromptReason::Feedback => "Feedback",
        PromptReason::Recovery => "Recovery prompt",
        PromptReason::FinalDelivery => "Final delivery",
        PromptReason::Message => "Message",
        PromptReason::Remediation => "Repair prompt",
        PromptReason::Gatekeeper => "Review prompt",
    }
}

fn prompt(sent: &PromptSent) -> Described {
    let what = prompt_name(sent.reason);
    let agent = sent
        .agent
        .as_ref()
        .map(|agent| format!(" to {}", name(agent)))
        .unwrap_or_default();
    let size = readable_size(sent.text.len() as u64);
    let items = match sent.items.len() {
        0 => String::new(),
        count => format!(" · with {}", counted(count, "pending item")),
    };
    // The retry before it has said what the feedback is about.
    let about = match sent.reason {
        PromptReason::Feedback => String::new(),
        PromptReason::Iteration
        | PromptReason::Recovery
        | PromptReason::FinalDelivery
        | PromptReason::Message
        | PromptReason::Remediation
        | PromptReason::Gatekeeper => format!(": {}", prompt_line(sent, super::NAME)),
    };
    Described::new(
        "→",
        EventTone::Active,
        format!("{what} sent{agent} · {size}{items}{about}"),
    )
}

fn tool(call: &ToolCall, project: &str) -> Described {
    let (sign, tone, failed) = match call.status {
        ToolStatus::Pending | ToolStatus::InProgress => ("⚙", EventTone::Active, ""),
        ToolStatus::Completed => ("✓", EventTone::Passed, ""),
        ToolStatus::Failed => ("✗", EventTone::Failed, " · failed"),
    };
    Described::new(
        sign,
        tone,
        format!("{}{failed}", tool_calls::line(call, project)),
    )
}

/// How a turn ended. None for an ordinary end without usage figures.
fn ended(reason: StopReason, spent: TurnUsage) -> Option<Described> {
    let used = UsageTotals::from(spent);
    let text = match reason {
        StopReason::EndTurn => {
            return used
                .words()
                .map(|used| Described::new("", EventTone::Quiet, format!("Turn ended · {used}")));
        }
        StopReason::Cancelled => "Turn cancelled",
        StopReason::MaxTokens => "Turn ended: the agent reached its token limit",
        StopReason::MaxTurnRequests => "Turn ended: the agent reached its request limit",
        StopReason::Refusal => "Turn ended: the agent refused to continue",
    };
    Some(Described::new(
        "",
        EventTone::Warning,
        format!("{text}{}", used.suffix()),
    ))
}
