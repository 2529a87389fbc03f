//! The wording of a turn: the prompt, what the agent does, its permission requests, and how the turn
//! ended.

use std::collections::BTreeMap;

use crate::{
    engine::{
        SessionState,
        budget::UsageTotals,
        conversation::{
            PermissionOption, PermissionSource, StopReason, ToolCall, ToolStatus, TurnUsage,
        },
        event::{Actor, Event, GateEvent, PromptReason, PromptSent, TurnEvent},
        gate::kind::{GateChoice, GateKind, GateResponse, PermissionChoice},
        ids::{GateId, PermissionId},
        policy::{MODEL, PermissionPolicy},
        question::content_shown,
        turn::{MODELS_NOTE, SOME_MODELS_NOTE},
    },
    present::{
        describe::{Described, EventContext, EventTone, name, sentence},
        gate_words::answer_origin,
        text::{counted, plain_line, prompt_line, readable_size, sentence_case},
        tool_calls, usage,
    },
};

pub(super) fn turn(event: &TurnEvent, context: &EventContext) -> Option<Described> {
    let project = &context.project;
    Some(match event {
        TurnEvent::PromptSent(sent) => prompt(sent, &context.goal),
        TurnEvent::ToolCalled { tool: call, .. } | TurnEvent::ToolUpdated { tool: call, .. } => {
            tool(call, project)
        }
        TurnEvent::AgentPlanned { entries, .. } => {
            Described::new("≡", EventTone::Active, tool_calls::plan_line(entries))
        }
        // The header shows the model. Journals of earlier versions have the rest.
        TurnEvent::AgentNoted { what, .. }
            if [
                MODEL,
                MODELS_NOTE,
                SOME_MODELS_NOTE,
                "commands",
                "title",
                "settings",
            ]
            .contains(&what.as_str()) =>
        {
            return None;
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
            let text = match ask.question() {
                None if ask.source == PermissionSource::Hook => {
                    format!("Before a call: {}", tool_calls::line(&ask.tool, project))
                }
                Some(asked) => format!("Question: {}", plain_line(&asked.message, LINE)),
                None => format!(
                    "Permission request: {}",
                    tool_calls::line(&ask.tool, project)
                ),
            };
            Described::new("?", EventTone::Question, text)
        }
        TurnEvent::ToolDecided { action, reason, .. } => decided(*action, reason.as_deref()),
        TurnEvent::QuestionAnswered { hook, content, .. } => {
            let hook = hook.as_ref()?;
            let what = match content {
                Some(answer) => format!("changed the answer: {}", plain_line(answer, LINE)),
                None => "declined the question".to_owned(),
            };
            let text = format!("Hook `{}` {what}", plain_line(hook, LINE));
            Described::new("·", EventTone::Quiet, text)
        }
        TurnEvent::Cancelling { .. } => {
            Described::new("·", EventTone::Quiet, "Cancelling the turn".to_owned())
        }
        TurnEvent::Ended {
            stop_reason, spent, ..
        } => ended(*stop_reason, *spent)?,
        // The wait for the reset follows: it is planned.
        TurnEvent::Failed {
            usage_limit: true,
            error,
            spent,
            ..
        } => {
            let used = usage::suffix(UsageTotals::from(*spent));
            let text = format!("Turn stopped at a limit{used}: {}", sentence(error));
            Described::new("◷", EventTone::Quiet, text)
        }
        TurnEvent::Failed { error, spent, .. } => {
            let used = usage::suffix(UsageTotals::from(*spent));
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
        PromptReason::News => "News of the pull request",
    }
}

fn prompt(sent: &PromptSent, goal: &str) -> Described {
    let what = prompt_name(sent.reason);
    let agent = sent
        .agent
        .as_ref()
        .map(|agent| format!(" to {}", name(agent)))
        .unwrap_or_default();
    let model = sent
        .model
        .as_ref()
        .map(|model| format!(" · {}", name(model)))
        .unwrap_or_default();
    let size = readable_size(sent.text.len() as u64);
    let items = match sent.items.len() {
        0 => String::new(),
        count => format!(" · with {}", counted(count, "pending item")),
    };
    // The retry before it has said what the feedback is about.
    let about = match sent.reason {
        PromptReason::Feedback => String::new(),
        // The output of hooks comes before the goal.
        PromptReason::Iteration if !goal.trim().is_empty() && sent.text.contains(goal.trim()) => {
            format!(": {}", plain_line(goal.trim(), super::NAME))
        }
        PromptReason::Iteration
        | PromptReason::Recovery
        | PromptReason::FinalDelivery
        | PromptReason::Message
        | PromptReason::Remediation
        | PromptReason::News
        | PromptReason::Gatekeeper => format!(": {}", prompt_line(sent, super::NAME)),
    };
    Described::new(
        "→",
        EventTone::Active,
        format!("{what} sent{agent}{model} · {size}{items}{about}"),
    )
}

/// What the hooks decided about a call that the agent is about to make.
fn decided(action: Option<PermissionPolicy>, reason: Option<&str>) -> Described {
    let (sign, tone, verb) = match action {
        Some(PermissionPolicy::Allow) => ("✓", EventTone::Passed, "Allowed"),
        Some(PermissionPolicy::Deny) => ("✗", EventTone::Warning, "Denied"),
        Some(PermissionPolicy::Ask) | None => ("·", EventTone::Quiet, "Not decided by hooks"),
    };
    let reason = reason.map(|reason| format!(": {}", sentence(reason)));
    Described::new(sign, tone, format!("{verb}{}", reason.unwrap_or_default()))
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
            return usage::words(used)
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
        format!("{text}{}", usage::suffix(used)),
    ))
}

/// The longest title or name of an option in a line, in characters.
const LINE: usize = 100;

/// The requests of the current turn.
#[derive(Debug, Default)]
pub struct TurnPermissions {
    asked: BTreeMap<PermissionId, (String, Vec<PermissionOption>)>,
    /// The open gate, and the request that it is about.
    at: Option<(GateId, PermissionId)>,
}

impl TurnPermissions {
    /// The requests that still wait in a state.
    pub fn of(state: &SessionState) -> Self {
        let asked = state
            .requests
            .waiting
            .iter()
            .map(|ask| (ask.ask, (ask.tool.title.clone(), ask.options.clone())));
        let gate = state.gates.open.as_ref();
        Self {
            asked: asked.collect(),
            at: gate.and_then(|gate| Some((gate.id, gate.subject.ask()?))),
        }
    }

    pub fn follow(&mut self, event: &Event) {
        if let Event::Turn(TurnEvent::PermissionAsked { ask, .. }) = event {
            self.asked
                .insert(ask.ask, (ask.tool.title.clone(), ask.options.clone()));
        } else if let Event::Gate(GateEvent::Opened {
            gate,
            ask: Some(ask),
            ..
        }) = event
        {
            self.at = Some((*gate, *ask));
        } else if let Event::Turn(TurnEvent::PromptSent(_)) = event {
            *self = Self::default();
        }
    }

    /// The answer to a request, as text. `None` if the gate is about something else.
    pub fn answered(
        &self,
        gate: GateId,
        choice: GateChoice,
        by: &Actor,
        option: Option<&str>,
    ) -> Option<Described> {
        let (_, ask) = self.at.filter(|(at, _)| *at == gate)?;
        let (title, options) = self.asked.get(&ask)?;
        let short = |text: &str| plain_line(text, LINE);
        if let Some(GateResponse::Permission(answer)) = GateKind::Question.response(choice)
            && answer != PermissionChoice::Cancel
        {
            let (sign, tone, verb) = match option {
                Some(_) => ("✓", EventTone::Passed, "Answered"),
                None => ("✗", EventTone::Warning, "Not answered"),
            };
            let content = option.map(|content| format!(" · “{}”", short(&content_shown(content))));
            let text = format!("{verb}: {}{}", short(title), content.unwrap_or_default());
            return Some(Described::new(sign, tone, text + &answer_origin(by)));
        }
        let Some(GateResponse::Permission(answer)) = GateKind::Permission.response(choice) else {
            return None;
        };
        let (sign, tone, verb) = match answer {
            PermissionChoice::AllowOnce => ("✓", EventTone::Passed, "Allowed"),
            PermissionChoice::AllowAlways => ("✓", EventTone::Passed, "Always allowed"),
            PermissionChoice::AllowEdits => ("✓", EventTone::Passed, "All edits allowed"),
            PermissionChoice::RejectOnce => ("✗", EventTone::Warning, "Rejected"),
            PermissionChoice::RejectAlways => ("✗", EventTone::Warning, "Always rejected"),
            PermissionChoice::Cancel => ("-", EventTone::Quiet, "Cancelled with the turn"),
        };
        let taken = options
            .iter()
            .find(|known| Some(known.id.as_str()) == option);
        let taken = taken
            .map(|option| format!(" · “{}”", short(&option.name)))
            .unwrap_or_default();
        Some(Described::new(
            sign,
            tone,
            format!("{verb}: {}{taken}{}", short(title), answer_origin(by)),
        ))
    }
}
