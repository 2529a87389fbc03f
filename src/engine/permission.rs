//! Permission requests: the agent's own, and those for the files and commands that creel serves to
//! it.
//!
//! Owns the waiting requests, the answers that creel remembers, and the rules' decisions before the
//! user is asked. Does not show anything: a request becomes a gate like any other, see
//! [`super::gate`].
//!
//! # Invariants
//! - A request is answered once: by a rule, by the user, or by the end of its turn.
//! - The user is asked about one request at a time, in the order in which they arrived.
//! - creel answers requests for its own MCP tools itself; the user is never asked about them.
//! - creel never selects an agent's "always" option where the agent offers "once": the agent would
//!   then decide itself which requests to skip, and creel would not see them. creel remembers the
//!   answer itself.

mod remembered_answers;
mod rules;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::{
        AgentPermissionRequest, PermissionAnswer, PermissionOption, PermissionOptionKind,
        PermissionSource, ToolCall, ToolKind,
    },
    effect::Effect,
    event::{Event, SessionStarted, TurnEvent, UserPresence},
    gate::{
        Gate, SessionGates,
        kind::{GateChoice, PermissionChoice},
        subject::GateSubject,
    },
    ids::TurnId,
    output::EngineOutput,
    permission::{
        remembered_answers::{RememberedAnswer, covers, remembered},
        rules::first_that_fits,
    },
    policy::{PermissionPolicy, SessionPlan},
    session::phase::Phase,
    steering::ControlState,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionState {
    /// Oldest first; the first one belongs to the open gate.
    pub waiting: VecDeque<AgentPermissionRequest>,
    /// The user's "always" answers.
    pub remembered: Vec<RememberedAnswer>,
    /// The tool calls that were allowed in this turn.
    granted: Vec<ToolCall>,
}

/// An answer that the user can choose, with a label that describes its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedAnswer {
    /// The agent's id of the option.
    pub id: String,
    pub name: String,
    pub choice: GateChoice,
}

impl PermissionOptionKind {
    pub const fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }

    /// The answer that selects such an option.
    pub const fn choice(self) -> GateChoice {
        match self {
            Self::AllowOnce => GateChoice::AllowOnce,
            Self::AllowAlways => GateChoice::AllowAlways,
            Self::RejectOnce => GateChoice::RejectOnce,
            Self::RejectAlways => GateChoice::RejectAlways,
        }
    }
}

impl AgentPermissionRequest {
    /// The answers that the user can give, in the agent's order.
    pub fn choices(&self) -> Vec<GateChoice> {
        let mut choices: Vec<GateChoice> = Vec::new();
        for option in &self.options {
            if !choices.contains(&option.kind.choice()) {
                choices.push(option.kind.choice());
            }
        }
        choices.push(GateChoice::Cancel);
        choices
    }

    /// The answers to show. "Always" is creel's own answer and narrower than most agents' options
    /// of that kind, so it is offered once and with creel's label, unless the agent offers nothing
    /// else.
    pub fn offers(&self) -> Vec<OfferedAnswer> {
        let mut offers: Vec<OfferedAnswer> = Vec::new();
        for PermissionOption { id, name, kind } in &self.options {
            let choice = kind.choice();
            let own = self.kept_by_creel(choice).map(|(name, _)| name);
            if own.is_some() && offers.iter().any(|offer| offer.choice == choice) {
                continue;
            }
            offers.push(OfferedAnswer {
                id: id.clone(),
                name: own.map_or_else(|| name.clone(), str::to_owned),
                choice,
            });
        }
        offers
    }

    /// For an "always" answer that creel remembers itself: its label, and the option that creel
    /// selects instead.
    fn kept_by_creel(&self, choice: GateChoice) -> Option<(&'static str, &PermissionOption)> {
        let (name, once) = if choice == GateChoice::AllowAlways {
            ("Always allow this exact request", GateChoice::AllowOnce)
        } else if choice == GateChoice::RejectAlways {
            ("Always reject this exact request", GateChoice::RejectOnce)
        } else {
            return None;
        };
        self.option(once, None).map(|option| (name, option))
    }

    /// The option that creel selects for an answer.
    pub(crate) fn selected(
        &self,
        choice: GateChoice,
        named: Option<&str>,
    ) -> Option<&PermissionOption> {
        self.kept_by_creel(choice)
            .map(|(_, once)| once)
            .or_else(|| self.option(choice, named))
    }

    /// The option of an answer: the named one, or the first of its kind.
    pub fn option(&self, choice: GateChoice, named: Option<&str>) -> Option<&PermissionOption> {
        let mut fitting = self
            .options
            .iter()
            .filter(|option| option.kind.choice() == choice);
        match named {
            Some(id) => fitting.find(|option| option.id == id),
            None => fitting.next(),
        }
    }

    /// creel's automatic answer: "once", if the agent offers that.
    fn automatic_choice(&self, allow: bool) -> Option<GateChoice> {
        let wanted = if allow {
            [GateChoice::AllowOnce, GateChoice::AllowAlways]
        } else {
            [GateChoice::RejectOnce, GateChoice::RejectAlways]
        };
        let offered = wanted
            .into_iter()
            .find(|choice| self.option(*choice, None).is_some());
        // If the agent offers no way to refuse, its turn is cancelled.
        offered.or((!allow).then_some(GateChoice::Cancel))
    }

    fn reason(&self) -> String {
        let verb = match self.tool.kind {
            Some(ToolKind::Read) => "read",
            Some(ToolKind::Edit) => "change",
            Some(ToolKind::Delete) => "delete",
            Some(ToolKind::Move) => "move",
            Some(ToolKind::Search) => "search",
            Some(ToolKind::Execute) => "run",
            Some(ToolKind::Fetch) => "fetch",
            Some(ToolKind::SwitchMode) => "switch to",
            Some(ToolKind::Think | ToolKind::Other) | None => "use a tool",
        };
        format!(
            "the agent asks for permission ({verb}): {}",
            self.tool.title
        )
    }
}

impl PermissionState {
    /// Removes the answered request, and remembers an "always" answer.
    pub(crate) fn answered(&mut self, choice: PermissionChoice, agent: &str) {
        if choice == PermissionChoice::Cancel {
            return self.waiting.clear();
        }
        let Some(ask) = self.waiting.pop_front() else {
            return;
        };
        if matches!(
            choice,
            PermissionChoice::AllowAlways | PermissionChoice::RejectAlways
        ) {
            self.remembered.extend(RememberedAnswer::new(
                agent,
                &ask,
                choice == PermissionChoice::AllowAlways,
            ));
        }
        if matches!(
            choice,
            PermissionChoice::AllowOnce | PermissionChoice::AllowAlways
        ) {
            self.granted.push(ask.tool);
        }
    }

    pub(crate) fn next_turn(&mut self) {
        self.granted.clear();
    }
}

/// The context in which requests are answered: by the rules, by a remembered answer, or by a gate.
#[derive(Debug, Clone, Copy)]
pub struct PermissionRules<'a> {
    pub(crate) began: &'a SessionStarted,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) presence: UserPresence,
    pub(crate) phase: &'a Phase,
    pub(crate) gates: &'a SessionGates,
    pub(crate) requests: &'a PermissionState,
    pub(crate) steering: &'a ControlState,
}

impl<'a> PermissionRules<'a> {
    /// The gate that waits for the user: not one that a rule or a policy is about to answer.
    pub fn gate_for_a_person(self) -> Option<&'a Gate> {
        let ruled = |gate: &Gate| {
            self.asked_at(gate)
                .and_then(|ask| self.automatic_permission(ask))
                .is_some()
        };
        let settled = |gate: &Gate| gate.automatic_answer(self.plan, self.presence).is_some();
        self.gates
            .open
            .as_ref()
            .filter(|gate| !ruled(gate) && !settled(gate))
    }

    /// Whether the open gate is a permission request that a rule answers: you have answered it
    /// already.
    pub(crate) fn is_ruled_permission(self) -> bool {
        let gate = self.gates.open.as_ref();
        gate.and_then(|gate| self.asked_at(gate))
            .and_then(|ask| self.automatic_permission(ask))
            .is_some()
    }

    pub(crate) fn on_permission_asked(
        self,
        turn: TurnId,
        ask: Box<AgentPermissionRequest>,
    ) -> EngineOutput {
        let Some(iteration) = self
            .phase
            .awaited(turn)
            .filter(|_| !self.steering.interrupted())
        else {
            let cancel = Effect::AnswerPermission {
                ask: ask.ask,
                answer: PermissionAnswer::Cancelled,
            };
            return EngineOutput::stale(turn).then(cancel);
        };
        match self.answered_at_once(&ask) {
            Some(option) => {
                let answer = PermissionAnswer::Selected(option.to_owned());
                EngineOutput::default().then(Effect::AnswerPermission {
                    ask: ask.ask,
                    answer,
                })
            }
            None => EngineOutput::record(Event::Turn(TurnEvent::PermissionAsked {
                iteration,
                turn,
                ask,
            })),
        }
    }

    /// The option for a request that needs no gate: one for creel's own tools, or one for a file or
    /// a command of creel's services that is already decided. The tool call itself is recorded in
    /// both cases.
    pub(crate) fn answered_at_once(self, ask: &AgentPermissionRequest) -> Option<&str> {
        let allow = match ask.source {
            PermissionSource::Agent => None,
            PermissionSource::CreelTool => Some(true),
            PermissionSource::Service => self.served(ask),
        };
        let choice = allow.and_then(|allow| ask.automatic_choice(allow))?;
        ask.option(choice, None).map(|option| option.id.as_str())
    }

    /// Whether creel serves the request, if that is decided without the user.
    pub(crate) fn served(self, ask: &AgentPermissionRequest) -> Option<bool> {
        let ruled = first_that_fits(&self.plan.access.permissions, &self.began.cwd, &ask.tool);
        // A gate for each file that an agent reads would be unusable; a rule can still ask for one.
        let reads = ask.tool.kind == Some(ToolKind::Read) && ruled.is_none();
        let granted = || {
            !ask.shortened
                && self
                    .requests
                    .granted
                    .iter()
                    .any(|known| covers(known, &ask.tool, &self.began.cwd))
        };
        match ruled.unwrap_or(self.plan.gates.permissions) {
            PermissionPolicy::Allow => Some(true),
            PermissionPolicy::Deny => Some(false),
            PermissionPolicy::Ask if reads || granted() => Some(true),
            PermissionPolicy::Ask => {
                remembered(&self.requests.remembered, self.asking_agent(), ask)
            }
        }
    }

    /// The agent of the current turn.
    pub(crate) fn asking_agent(self) -> &'a str {
        let reviewer = self
            .phase
            .turn_in_flight()
            .and_then(|prompt| prompt.agent.as_deref());
        reviewer.unwrap_or(&self.began.agent)
    }

    /// Opens a gate for the oldest request.
    pub(crate) fn open_next_request(self) -> EngineOutput {
        let Some(ask) = self.requests.waiting.front() else {
            return EngineOutput::default();
        };
        self.gates.open_gate_with(
            GateSubject::Permission { ask: ask.ask },
            ask.reason(),
            ask.choices(),
        )
    }

    /// The request that a gate is about.
    pub fn asked_at(self, gate: &Gate) -> Option<&'a AgentPermissionRequest> {
        self.requests
            .waiting
            .iter()
            .find(|ask| Some(ask.ask) == gate.subject.ask())
    }

    /// The answer that is known before the user is asked.
    pub(crate) fn automatic_permission(self, ask: &AgentPermissionRequest) -> Option<GateChoice> {
        let ruled = first_that_fits(&self.plan.access.permissions, &self.began.cwd, &ask.tool);
        let decided = match ruled.unwrap_or(self.plan.gates.permissions) {
            PermissionPolicy::Allow => Some(true),
            PermissionPolicy::Deny => Some(false),
            PermissionPolicy::Ask => {
                remembered(&self.requests.remembered, self.asking_agent(), ask)
            }
        };
        decided.and_then(|allow| ask.automatic_choice(allow))
    }
}
