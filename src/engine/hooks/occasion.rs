//! On which occasions a hook of Claude Code runs, and what it learns about them.

use crate::engine::{
    effect::{ClaudeFacts, GateFacts, GateState, HookFacts},
    gate::kind::GateKind,
    hooks::{
        claude::ClaudeEvent,
        dispatch::{DispatchCause, HookDispatch},
        start::HookRules,
    },
    policy::{AgentSpec, HookSpec, PermissionPolicy},
};

/// The notification of a gate. None if it does not wait for the user.
fn notification_of(gate: &GateFacts) -> Option<&'static str> {
    (gate.state == GateState::Opened && gate.waits_for_user).then_some(match gate.about {
        GateKind::Permission => "permission_prompt",
        GateKind::Question => "elicitation_dialog",
        GateKind::FinalDelivery
        | GateKind::Delivery
        | GateKind::Review
        | GateKind::RetryLimit
        | GateKind::Escalation
        | GateKind::Errors
        | GateKind::BrokenHook
        | GateKind::Budget
        | GateKind::UsageLimit
        | GateKind::Tampered
        | GateKind::Submit
        | GateKind::Merge
        | GateKind::Proposal => "idle_prompt",
    })
}

impl HookRules<'_> {
    /// Whether a hook runs on this occasion. Only hooks of Claude Code select occasions.
    pub(crate) fn starts(self, spec: &HookSpec, cause: &DispatchCause) -> bool {
        let Some(handler) = &spec.claude else {
            return *cause != DispatchCause::Resumed;
        };
        if handler.is_left_to(self.0.agent_choice().agent()) {
            return false;
        }
        match (handler.event, cause, self.word(handler.event, cause)) {
            // It closed, or the config answers it.
            (ClaudeEvent::Notification, DispatchCause::Gate(_), None) => false,
            (_, _, word) => handler.selects(word),
        }
    }

    /// What a matcher of the event compares.
    fn word(self, event: ClaudeEvent, cause: &DispatchCause) -> Option<&'static str> {
        match event {
            ClaudeEvent::SessionStart if *cause == DispatchCause::Resumed => Some("resume"),
            ClaudeEvent::SessionStart => Some("startup"),
            ClaudeEvent::StopFailure => Some(self.0.turns.last_cause.name()),
            ClaudeEvent::Notification => match cause {
                DispatchCause::Gate(gate) => notification_of(gate),
                DispatchCause::Lifecycle
                | DispatchCause::Error(_)
                | DispatchCause::Task(_)
                | DispatchCause::Tool(_)
                | DispatchCause::ByHand
                | DispatchCause::Resumed
                | DispatchCause::Verification => None,
            },
            ClaudeEvent::SessionEnd => Some("other"),
            ClaudeEvent::UserPromptSubmit
            | ClaudeEvent::Stop
            | ClaudeEvent::TaskCompleted
            | ClaudeEvent::Tool(_) => None,
        }
    }

    /// The facts that only Claude Code's hooks get.
    pub(crate) fn claude_facts(self, spec: &HookSpec, dispatch: &HookDispatch) -> HookFacts {
        let facts = self.facts(dispatch);
        let Some(handler) = &spec.claude else {
            return facts;
        };
        let prompt =
            (handler.event == ClaudeEvent::UserPromptSubmit).then(|| self.0.prompts().preview());
        HookFacts {
            claude: Some(Box::new(ClaudeFacts {
                word: self.word(handler.event, &dispatch.cause).map(str::to_owned),
                permission_mode: self.permission_mode().to_owned(),
                prompt,
            })),
            ..facts
        }
    }

    /// In Claude Code's words: the agent's own mode, else what creel answers.
    fn permission_mode(self) -> &'static str {
        let plan = self.0.plan();
        let AgentSpec::Acp { mode, known, .. } = &plan.agent_spec else {
            return "acceptEdits";
        };
        let mode = mode.as_ref().or(known.options.get("mode"));
        let own = mode.and_then(|mode| MODES.into_iter().find(|known| known == mode));
        own.unwrap_or(match plan.gates.permissions {
            PermissionPolicy::Ask => "default",
            PermissionPolicy::Allow => "bypassPermissions",
            PermissionPolicy::Deny => "dontAsk",
        })
    }
}

const MODES: [&str; 6] = [
    "default",
    "plan",
    "acceptEdits",
    "auto",
    "dontAsk",
    "bypassPermissions",
];
