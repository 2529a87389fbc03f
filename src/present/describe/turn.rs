//! The wording of a turn: the prompt, what the agent does, and how the turn ended.

use super::{Described, EventTone, name, sentence};
use crate::{
    engine::{
        conversation::{StopReason, ToolCall, ToolStatus, TurnUsage},
        event::{PromptReason, PromptSent, TurnEvent},
    },
    present::{
        text::{counted, prompt_line, readable_size},
        tool_calls,
        usage_totals::UsageTotals,
    },
};

pub(super) fn turn(event: &TurnEvent, project: &str) -> Option<Described> {
    Some(match event {
        TurnEvent::PromptSent(sent) => prompt(sent),
        TurnEvent::ToolCalled { tool: call, .. } | TurnEvent::ToolUpdated { tool: call, .. } => tool(call, project),
        TurnEvent::AgentPlanned { entries, .. } => {
            Described::new("≡", EventTone::Active, tool_calls::plan_line(entries))
        }
        TurnEvent::AgentNoted { what, text, .. } => {
            Described::new("·", EventTone::Quiet, format!("{}: {}", name(what), sentence(text)))
        }
        TurnEvent::ConversationOpened { conversation, .. } => {
            Described::new("·", EventTone::Quiet, format!("conversation {}", name(conversation)))
        }
        TurnEvent::PermissionAsked { ask, .. } => {
            let text = format!("permission request: {}", tool_calls::line(&ask.tool, project));
            Described::new("?", EventTone::Question, text)
        }
        TurnEvent::Ended { stop_reason, spent, .. } => ended(*stop_reason, *spent)?,
        TurnEvent::Failed { error, spent, .. } => {
            let used = UsageTotals::from(*spent).suffix();
            Described::new("✗", EventTone::Failed, format!("turn failed{used}: {}", sentence(error)))
        }
        TurnEvent::AgentSaid { .. } | TurnEvent::AgentThought { .. } | TurnEvent::AgentUsed { .. } => return None,
    })
}

/// The name of a prompt that is sent for this reason.
pub const fn prompt_name(reason: PromptReason) -> &'static str {
    match reason {
        PromptReason::Iteration => "prompt",
        PromptReason::Feedback => "feedback",
        PromptReason::Recovery => "recovery prompt",
        PromptReason::FinalDelivery => "final delivery",
        PromptReason::Message => "message",
        PromptReason::Remediation => "remediation",
        PromptReason::Gatekeeper => "review",
    }
}

fn prompt(sent: &PromptSent) -> Described {
    let what = prompt_name(sent.reason);
    let agent = sent.agent.as_ref().map(|agent| format!(" by {}", name(agent))).unwrap_or_default();
    let size = readable_size(sent.text.len() as u64);
    let items = match sent.items.len() {
        0 => String::new(),
        count => format!(" · {}", counted(count, "pending item")),
    };
    let text = format!("{what}{agent} · {size}{items}: {}", prompt_line(sent, super::NAME));
    Described::new("→", EventTone::Active, text)
}

fn tool(call: &ToolCall, project: &str) -> Described {
    let (sign, tone, failed) = match call.status {
        ToolStatus::Pending | ToolStatus::InProgress => ("⚙", EventTone::Active, ""),
        ToolStatus::Completed => ("✓", EventTone::Passed, ""),
        ToolStatus::Failed => ("✗", EventTone::Failed, " · failed"),
    };
    Described::new(sign, tone, format!("{}{failed}", tool_calls::line(call, project)))
}

/// How a turn ended. None for an ordinary end without usage figures.
fn ended(reason: StopReason, spent: TurnUsage) -> Option<Described> {
    let used = UsageTotals::from(spent);
    let text = match reason {
        StopReason::EndTurn => {
            return used.words().map(|used| Described::new("", EventTone::Quiet, format!("turn ended · {used}")));
        }
        StopReason::Cancelled => "turn cancelled",
        StopReason::MaxTokens => "turn ended: the agent reached its token limit",
        StopReason::MaxTurnRequests => "turn ended: the agent reached its request limit",
        StopReason::Refusal => "turn ended: the agent refused",
    };
    Some(Described::new("", EventTone::Warning, format!("{text}{}", used.suffix())))
}
