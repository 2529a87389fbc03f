//! Permission requests: the agent's own, and those for the files and commands that creel serves to
//! it.
//!
//! Owns the waiting requests, the answers that creel remembers, and the rules' decisions before the
//! user is asked. Does not show anything: a request becomes a gate like any other, see
//! [`super::gate`].
//!
//! # Invariants
//! - A request is answered once: by a rule, by hooks, by the user, or by the end of its turn.
//! - The user is asked about one request at a time, in the order in which they arrived.
//! - creel answers requests for its own MCP tools itself; the user is never asked about them.
//! - No hook allows what a rule denies or asks about, or a change to guarded files.
//! - Questions to the user wait in the same queue; no rule about permissions answers one, only the
//!   hooks of `on_question` do.
//! - An answer reaches the agent once, after the hooks that see answers.
//! - creel never selects an agent's "always" option where the agent offers "once": the agent would
//!   then decide itself which requests to skip, and creel would not see them. creel remembers the
//!   answer itself.

pub(crate) mod rules;
pub mod tool_call;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::engine::{
    actor::{HOOK, POLICY},
    conversation::{
        AgentPermissionRequest, PermissionAnswer, PermissionOption, PermissionOptionKind,
        PermissionSource, ToolCall, ToolKind,
    },
    effect::Effect,
    event::{
        Actor, ActorKind, Event, GateEvent, PromptSent, SessionStarted, TurnEvent, UserPresence,
    },
    gate::{
        Gate, SessionGates,
        kind::{GateChoice, GateKind, PermissionChoice},
        subject::GateSubject,
    },
    hooks::{
        claude_tools::may_change_files,
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        tool_hooks::{AnsweredQuestion, ToolDecision, ToolRules, due},
    },
    ids::{GateId, PermissionId, TurnId},
    output::EngineOutput,
    permission::{
        rules::{
            ProjectFiles, RememberedAnswer, covers, first_that_fits, is_project_edit, remembered,
        },
        tool_call::{files, has_command, kind},
    },
    policy::{PermissionPolicy, SessionPlan},
    question::{AgentQuestion, QuestionAnswer, UNATTENDED},
    refusal::Refusal,
    session::phase::Phase,
    steering::ControlState,
    turn::event::StoppedByHook,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionState {
    /// Oldest first; the first one belongs to the open gate.
    pub waiting: VecDeque<AgentPermissionRequest>,
    /// The user's "always" answers.
    pub remembered: Vec<RememberedAnswer>,
    /// The agents that may edit every file of the project.
    editors: Vec<String>,
    /// The tool calls that were allowed in this turn.
    granted: Vec<ToolCall>,
    /// The requests of the agent's own hook that the user allowed in this turn.
    #[serde(default)]
    allowed_before: Vec<PermissionId>,
    /// Whether the turn was cancelled: nothing that the agent still asks is answered.
    #[serde(default)]
    is_cancelled: bool,
    /// The questions of this turn that creel declined, because no user was there.
    pub(crate) unanswered: Vec<String>,
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
    pub(crate) fn choices(&self, project: ProjectFiles<'_>) -> Vec<GateChoice> {
        if self.question().is_some() {
            return GateKind::Question.choices();
        }
        let mut choices: Vec<GateChoice> = Vec::new();
        for option in &self.options {
            if !choices.contains(&option.kind.choice()) {
                choices.push(option.kind.choice());
            }
        }
        let is_allowed =
            |choice: &GateChoice| matches!(choice, GateChoice::AllowOnce | GateChoice::AllowAlways);
        if choices.contains(&GateChoice::AllowOnce) && is_project_edit(&self.tool, project) {
            let after = choices.iter().rposition(is_allowed).map_or(0, |n| n + 1);
            choices.insert(after, GateChoice::AllowEdits);
        }
        choices.push(GateChoice::Cancel);
        choices
    }

    /// The answers to show. "Always" is creel's own answer and narrower than most agents' options
    /// of that kind, so it is offered once and with creel's label, unless the agent offers nothing
    /// else. So is an answer about all edits, if the gate offers it.
    pub fn offers(&self, gate: &Gate) -> Vec<OfferedAnswer> {
        if let Some(question) = self.question() {
            let choice = GateChoice::Answer;
            let offers = question.offers().into_iter();
            return offers
                .map(|(id, name)| OfferedAnswer { id, name, choice })
                .collect();
        }
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
        if gate.choices.contains(&GateChoice::AllowEdits) {
            let allows = |offer: &OfferedAnswer| {
                matches!(
                    offer.choice,
                    GateChoice::AllowOnce | GateChoice::AllowAlways
                )
            };
            let after = offers.iter().rposition(allows).map_or(0, |n| n + 1);
            let once = self.option(GateChoice::AllowOnce, None);
            let edits = once.map(|once| OfferedAnswer {
                id: once.id.clone(),
                name: "Allow all edits in this project".to_owned(),
                choice: GateChoice::AllowEdits,
            });
            offers.splice(after..after, edits);
        }
        offers
    }

    /// The question that the request is, instead of one for a permission.
    pub fn question(&self) -> Option<&AgentQuestion> {
        if let PermissionSource::Question(question) = &self.source {
            Some(question)
        } else {
            None
        }
    }

    /// Whether an answer is one of [`Self::offers`] and nothing else.
    pub fn is_offered(&self, choice: GateChoice) -> bool {
        match self.question() {
            Some(asked) => {
                choice == GateChoice::Answer && !asked.fields.is_empty() && !asked.takes_text()
            }
            None => self.option(choice, None).is_some(),
        }
    }

    /// The text of an answer, in the form in which it is recorded: the id of an option, or the
    /// answer to a question.
    pub(crate) fn checked(
        &self,
        gate: GateId,
        choice: GateChoice,
        text: Option<String>,
    ) -> Result<Option<String>, Refusal> {
        if let Some(question) = self.question() {
            if choice != GateChoice::Answer {
                return Ok(None);
            }
            let content = question.content(text.as_deref());
            return match content {
                Ok(content) => Ok(Some(serde_json::Value::Object(content).to_string())),
                Err(error) => Err(Refusal::BadAnswer {
                    gate,
                    why: error.to_string(),
                }),
            };
        }
        match text {
            Some(named) if self.option(choice, Some(&named)).is_none() => {
                let options = self.options.iter();
                let known = options.filter(|option| option.kind.choice() == choice);
                let known = known.map(|option| option.id.clone()).collect();
                let option = named;
                Err(Refusal::NoSuchOption {
                    gate,
                    choice,
                    option,
                    known,
                })
            }
            text => Ok(text),
        }
    }

    /// What is recorded of an answer, and what the agent gets. None: its turn is cancelled.
    pub(crate) fn answer(
        &self,
        choice: GateChoice,
        named: Option<&str>,
        by: &Actor,
    ) -> Option<(Option<String>, PermissionAnswer)> {
        let selected = |id: String| (Some(id.clone()), PermissionAnswer::Selected(id));
        match self.question() {
            Some(_) if choice == GateChoice::Answer => named.map(str::to_owned).map(selected),
            Some(question) if choice == GateChoice::Decline => {
                let unattended = is_unattended(by);
                let words = question.unattended().filter(|_| unattended);
                let words = words.map(|words| serde_json::Value::Object(words).to_string());
                let declined = PermissionAnswer::Declined { unattended };
                Some((None, words.map_or(declined, PermissionAnswer::Selected)))
            }
            Some(_) => None,
            None => self
                .selected(choice, named)
                .map(|option| selected(option.id.clone())),
        }
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
        let kind = if choice == GateChoice::AllowEdits {
            GateChoice::AllowOnce
        } else {
            choice
        };
        let mut fitting = self
            .options
            .iter()
            .filter(|option| option.kind.choice() == kind);
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
        if let Some(question) = self.question() {
            return format!("the agent asks: {}", question.message);
        }
        let verb = match kind(&self.tool) {
            ToolKind::Read => "read",
            ToolKind::Edit => "change",
            ToolKind::Delete => "delete",
            ToolKind::Move => "move",
            ToolKind::Search => "search",
            ToolKind::Execute => "run",
            ToolKind::Fetch => "fetch",
            ToolKind::SwitchMode => "switch to",
            ToolKind::Think | ToolKind::Other => "use a tool",
        };
        format!(
            "the agent asks for permission ({verb}): {}",
            self.tool.title
        )
    }
}

impl PermissionState {
    /// Removes the answered request, and remembers an "always" answer.
    pub(crate) fn answered(&mut self, choice: PermissionChoice, agent: &str, by: &Actor) {
        if choice == PermissionChoice::Cancel {
            return self.waiting.clear();
        }
        let Some(ask) = self.waiting.pop_front() else {
            return;
        };
        if let Some(question) = ask.question() {
            if choice == PermissionChoice::RejectOnce && is_unattended(by) {
                self.unanswered.push(question.message.clone());
            }
            return;
        }
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
        if choice == PermissionChoice::AllowEdits {
            self.editors.push(agent.to_owned());
        }
        if matches!(
            choice,
            PermissionChoice::AllowOnce
                | PermissionChoice::AllowAlways
                | PermissionChoice::AllowEdits
        ) {
            if ask.source == PermissionSource::Hook {
                self.allowed_before.push(ask.ask);
            }
            self.granted.push(ask.tool);
        }
    }

    /// The turn was cancelled.
    pub(crate) fn cancel(&mut self) {
        self.waiting.clear();
        self.is_cancelled = true;
    }

    pub(crate) fn next_turn(&mut self) {
        self.is_cancelled = false;
        self.granted.clear();
        self.allowed_before.clear();
    }

    /// What the next prompt says about these questions.
    pub(crate) fn unanswered_note(&self) -> Option<String> {
        let asked = self.unanswered.iter();
        let asked: Vec<String> = asked.map(|question| format!("“{question}”")).collect();
        let note = format!(
            "[Question]: you asked {}. {UNATTENDED}",
            asked.join(" and ")
        );
        (!asked.is_empty()).then_some(note)
    }
}

/// The answers to the agent's own hook.
#[derive(Debug, Clone, Copy)]
pub struct HookAnswer;

impl HookAnswer {
    /// The option that allows the call.
    pub const ALLOW: &'static str = "allow";

    pub(crate) fn options() -> Vec<PermissionOption> {
        let option = |id: &str, name: &str, kind| PermissionOption {
            id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        vec![
            option(Self::ALLOW, "Allow", PermissionOptionKind::AllowOnce),
            option("deny", "Deny", PermissionOptionKind::RejectOnce),
        ]
    }
}

/// Why a call is denied whose hook was killed.
const GONE: &str = "the agent's hook ended before it had an answer";

/// Whether an answer was given without a person.
fn is_unattended(by: &Actor) -> bool {
    matches!(by.by, ActorKind::Policy | ActorKind::Timeout)
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
    /// The agent that works for the session now.
    pub(crate) agent: &'a str,
    pub(crate) tool_rules: ToolRules<'a>,
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
            .filter(|_| !self.steering.interrupted() && !self.requests.is_cancelled)
        else {
            let cancel = Effect::AnswerPermission {
                ask: ask.ask,
                answer: PermissionAnswer::Cancelled,
            };
            return EngineOutput::stale(turn).then(cancel);
        };
        let earlier = self.tool_rules.tools.asked_before(&ask, &self.began.cwd);
        let mut hooks = self.hooks_of(&ask);
        // No hook runs twice for a call that it has seen whole.
        hooks.retain(|hook| !earlier.is_some_and(|(_, seen)| seen.contains(hook)));
        let ask = Box::new(AgentPermissionRequest {
            earlier: earlier.map(|(ask, _)| ask),
            ..*ask
        });
        if let Some(option) = self.answered_at_once(&ask).filter(|_| hooks.is_empty()) {
            let answer = PermissionAnswer::Selected(option.to_owned());
            return EngineOutput::default().then(Effect::AnswerPermission {
                ask: ask.ask,
                answer,
            });
        }
        let point = match ask.question() {
            Some(_) => HookPoint::OnQuestion,
            None => HookPoint::PreTool,
        };
        let hooks_due =
            (!hooks.is_empty()).then(|| due(point, iteration, hooks, Some(ask.ask), None));
        let asked = Event::Turn(TurnEvent::PermissionAsked {
            iteration,
            turn,
            ask,
        });
        let step = EngineOutput::record(asked);
        hooks_due.into_iter().fold(step, EngineOutput::and)
    }

    /// The agent's own hook asks about a call that the agent is about to make. The rules are not for
    /// it: the agent asks by itself where they matter.
    pub(crate) fn on_tool_hook(self, request: Box<AgentPermissionRequest>) -> EngineOutput {
        let ask = request.ask;
        let prompt = self.phase.turn_in_flight();
        let Some(prompt) = prompt.filter(|_| !self.steering.interrupted()) else {
            return EngineOutput::refuse(Refusal::NoTurn);
        };
        if self.requests.is_cancelled {
            let answer = PermissionAnswer::Cancelled;
            return EngineOutput::default().then(Effect::AnswerPermission { ask, answer });
        }
        let hooks = self.tool_rules.of_request(&request);
        if hooks.is_empty() {
            return EngineOutput::default().then(Effect::AnswerPermission {
                ask,
                answer: PermissionAnswer::Undecided,
            });
        }
        let (iteration, turn) = (prompt.iteration, prompt.turn);
        let hooks_due = due(HookPoint::PreTool, iteration, hooks, Some(ask), None);
        EngineOutput::record(Event::Turn(TurnEvent::PermissionAsked {
            iteration,
            turn,
            ask: request,
        }))
        .and(hooks_due)
    }

    /// The turn is being cancelled: no request is answered, and no hook of one continues.
    pub(crate) fn cancel_calls(self, prompt: &PromptSent, step: EngineOutput) -> EngineOutput {
        if !self.plan.has_tool_hooks() || self.requests.is_cancelled {
            return step;
        }
        self.end_calls(step.and(Event::Turn(TurnEvent::Cancelling {
            iteration: prompt.iteration,
            turn: prompt.turn,
            stopped_by: None,
        })))
    }

    /// A hook stopped the session while the agent worked: the turn ends, then the user is asked.
    pub(crate) fn stop_turn(
        self,
        (iteration, last): (u32, TurnId),
        by: StoppedByHook,
        step: EngineOutput,
    ) -> EngineOutput {
        let prompt = self.phase.turn_in_flight();
        let cancelling = step.and(Event::Turn(TurnEvent::Cancelling {
            iteration,
            turn: prompt.map_or(last, |prompt| prompt.turn),
            stopped_by: Some(Box::new(by)),
        }));
        let cancel = prompt.map(|prompt| Effect::CancelTurn(prompt.turn));
        let ended = self.end_calls(cancelling);
        cancel.into_iter().fold(ended, EngineOutput::then)
    }

    /// Answers the open requests of a turn that is being cancelled, and ends their hooks.
    fn end_calls(self, step: EngineOutput) -> EngineOutput {
        let answers = self.requests.waiting.iter().map(|waiting| {
            let (ask, answer) = (waiting.ask, PermissionAnswer::Cancelled);
            Effect::AnswerPermission { ask, answer }
        });
        let hooks = self.tool_rules.cancel_requests();
        answers.chain(hooks).fold(step, EngineOutput::then)
    }

    /// The agent's own hook no longer waits for an answer about a call: its process is gone. Nothing
    /// is decided about the call, and its gate closes.
    pub(crate) fn on_tool_hook_gone(self, ask: PermissionId) -> EngineOutput {
        let waits = self
            .requests
            .waiting
            .iter()
            .any(|waiting| waiting.ask == ask && waiting.source == PermissionSource::Hook);
        let Some(prompt) = self.phase.turn_in_flight().filter(|_| waits) else {
            return EngineOutput::default();
        };
        let gate = self.gates.open.as_ref();
        let gate = gate.filter(|gate| gate.subject.ask() == Some(ask));
        let closed = gate.map_or_else(EngineOutput::default, |gate| {
            EngineOutput::record(Event::Gate(GateEvent::Answered {
                gate: gate.id,
                choice: GateChoice::RejectOnce,
                by: POLICY,
                option: None,
                grants: None,
            }))
        });
        let gone = closed.and(Event::Turn(TurnEvent::ToolDecided {
            iteration: prompt.iteration,
            turn: prompt.turn,
            ask,
            action: Some(PermissionPolicy::Deny),
            reason: Some(GONE.to_owned()),
        }));
        let answer = PermissionAnswer::Cancelled;
        let gone = gone.then(Effect::AnswerPermission { ask, answer });
        let hooks = self.tool_rules.cancel_request(ask);
        hooks.fold(gone, EngineOutput::then)
    }

    /// Whether these hooks decide a call about which the agent's own hook asks.
    pub(crate) fn is_of_agent_hook(self, dispatch: &HookDispatch) -> bool {
        let DispatchCause::Tool(facts) = &dispatch.cause else {
            return false;
        };
        let is_it = |ask: &AgentPermissionRequest| {
            ask.source == PermissionSource::Hook && Some(ask.ask) == facts.ask
        };
        self.requests.waiting.iter().any(is_it)
    }

    /// Answers the agent's own hook as soon as all hooks have ended, unless one of them asks the user.
    pub(crate) fn answer_tool_hooks(self) -> EngineOutput {
        let tools = self.tool_rules.tools;
        let is_settled = |ask: &&AgentPermissionRequest| {
            let action = tools.decision(ask).map(|decision| decision.action);
            ask.source == PermissionSource::Hook
                && !tools.is_deciding(ask)
                && action != Some(PermissionPolicy::Ask)
        };
        let settled = self.requests.waiting.iter().find(is_settled);
        let (Some(ask), Some(prompt)) = (settled, self.phase.turn_in_flight()) else {
            return EngineOutput::default();
        };
        let decision = tools.decision(ask);
        let allows = |decision: &&ToolDecision| {
            decision.action == PermissionPolicy::Allow
                && match self.without_hooks(ask) {
                    Some(allow) => allow,
                    None => self.hook_may_allow(ask),
                }
        };
        let denies = |decision: &&ToolDecision| decision.action == PermissionPolicy::Deny;
        let decision = decision.filter(|it| allows(it) || denies(it));
        let (action, reason) = (
            decision.map(|decision| decision.action),
            decision.map(ToolDecision::describe),
        );
        let answer = match action {
            Some(PermissionPolicy::Allow) => {
                PermissionAnswer::Selected(HookAnswer::ALLOW.to_owned())
            }
            Some(PermissionPolicy::Deny) => {
                PermissionAnswer::Refused(reason.clone().unwrap_or_default())
            }
            Some(PermissionPolicy::Ask) | None => PermissionAnswer::Undecided,
        };
        EngineOutput::record(Event::Turn(TurnEvent::ToolDecided {
            iteration: prompt.iteration,
            turn: prompt.turn,
            ask: ask.ask,
            action,
            reason,
        }))
        .then(Effect::AnswerPermission {
            ask: ask.ask,
            answer,
        })
    }

    /// The hooks that decide a request: none, if it is denied without them, or if what creel should
    /// do now is part of a call that they have seen.
    fn hooks_of(self, ask: &AgentPermissionRequest) -> Vec<String> {
        let is_seen = ask.source == PermissionSource::Service && self.is_granted(ask);
        let is_denied = || ask.question().is_none() && self.without_hooks(ask) == Some(false);
        if is_seen || is_denied() {
            return Vec::new();
        }
        self.tool_rules.of_request(ask)
    }

    /// The option for a request that needs no gate: one for creel's own tools, or one for a file or
    /// a command of creel's services that is already decided. The tool call itself is recorded in
    /// both cases.
    pub(crate) fn answered_at_once(self, ask: &AgentPermissionRequest) -> Option<&str> {
        let allow = match &ask.source {
            PermissionSource::Agent | PermissionSource::Question(_) | PermissionSource::Hook => {
                None
            }
            PermissionSource::CreelTool => Some(true),
            PermissionSource::Service => self.served(ask),
        };
        let choice = allow.and_then(|allow| ask.automatic_choice(allow))?;
        ask.option(choice, None).map(|option| option.id.as_str())
    }

    /// Whether creel serves the request, if that is decided without the user.
    pub(crate) fn served(self, ask: &AgentPermissionRequest) -> Option<bool> {
        let ruled = first_that_fits(&self.plan.access.permissions, self.project(), &ask.tool);
        // A gate for each file that an agent reads would be unusable; a rule can still ask for one.
        let reads = ask.tool.kind == Some(ToolKind::Read) && ruled.is_none();
        match ruled.unwrap_or(self.plan.gates.permissions) {
            PermissionPolicy::Allow => Some(true),
            PermissionPolicy::Deny => Some(false),
            PermissionPolicy::Ask if reads || self.is_granted(ask) => Some(true),
            PermissionPolicy::Ask => self.earlier_answer(ask, ruled.is_some()),
        }
    }

    /// Whether a call that was allowed in this turn covers what creel should do now.
    fn is_granted(self, ask: &AgentPermissionRequest) -> bool {
        let mut granted = self.requests.granted.iter();
        !ask.shortened && granted.any(|known| covers(known, &ask.tool, &self.began.cwd))
    }

    /// What the user has said about such a request. A rule that asks is about edits, too.
    fn earlier_answer(self, ask: &AgentPermissionRequest, is_ruled: bool) -> Option<bool> {
        let agent = self.asking_agent();
        let edits = || {
            let may_edit = self.requests.editors.iter().any(|editor| editor == agent);
            (may_edit && !is_ruled && is_project_edit(&ask.tool, self.project())).then_some(true)
        };
        remembered(&self.requests.remembered, agent, ask).or_else(edits)
    }

    const fn project(self) -> ProjectFiles<'a> {
        ProjectFiles {
            cwd: self.began.cwd.as_str(),
            config: self.plan.access.config_files.as_slice(),
        }
    }

    /// The agent of the current turn.
    pub(crate) fn asking_agent(self) -> &'a str {
        let reviewer = self
            .phase
            .turn_in_flight()
            .and_then(|prompt| prompt.agent.as_deref());
        reviewer.unwrap_or(self.agent)
    }

    /// Opens a gate for the oldest request.
    pub(crate) fn open_next_request(self) -> EngineOutput {
        let tools = self.tool_rules.tools;
        let first = self.requests.waiting.front();
        let Some(ask) = first.filter(|ask| !tools.is_deciding(ask)) else {
            return EngineOutput::default();
        };
        let subject = match ask.question() {
            Some(_) => GateSubject::Question { ask: ask.ask },
            None => GateSubject::Permission { ask: ask.ask },
        };
        let reason = match self.hook_decision_words(ask) {
            Some(decided) => format!("{}; {decided}", ask.reason()),
            None => ask.reason(),
        };
        self.gates
            .open_gate_with(subject, reason, ask.choices(self.project()))
    }

    /// What hooks decided about a request, or why their answer to it cannot be used.
    pub fn hook_decision_words(self, ask: &AgentPermissionRequest) -> Option<String> {
        let decision = self.tool_rules.tools.decision(ask)?;
        let unusable = ask
            .question()
            .and_then(|question| decision.content(question)?.err());
        Some(match unusable {
            Some(error) => format!(
                "the hook `{}` leaves it to you, because its answer cannot be used: {error}",
                decision.hook
            ),
            None => decision.describe(),
        })
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
        if ask.question().is_some() {
            return self.answer_of_hooks(ask).map(|(choice, _)| choice);
        }
        if ask.source == PermissionSource::Hook {
            return None;
        }
        let by_user = ask
            .earlier
            .is_some_and(|it| self.requests.allowed_before.contains(&it));
        let tools = self.tool_rules.tools;
        let by_hook = if by_user {
            tools.decision_besides_answered(ask)
        } else {
            tools.decision(ask)
        };
        let allow = match (self.without_hooks(ask), by_hook.map(|hook| hook.action)) {
            (Some(false), _) | (_, Some(PermissionPolicy::Deny)) => Some(false),
            (_, Some(PermissionPolicy::Ask)) => None,
            (None | Some(true), _) if by_user => Some(true),
            (None, Some(PermissionPolicy::Allow)) => self.hook_may_allow(ask).then_some(true),
            (decided, Some(PermissionPolicy::Allow) | None) => decided,
        };
        allow.and_then(|allow| ask.automatic_choice(allow))
    }

    /// The answer of hooks to a question, and its content. None if the user is asked: also if their
    /// answer does not fit the form.
    pub(crate) fn answer_of_hooks(
        self,
        ask: &AgentPermissionRequest,
    ) -> Option<(GateChoice, Option<String>)> {
        let decision = self.tool_rules.tools.decision(ask)?;
        match decision.content(ask.question()?)? {
            Ok(Some(content)) => Some((GateChoice::Answer, Some(content))),
            Ok(None) => Some((GateChoice::Decline, None)),
            Err(_) => None,
        }
    }

    /// The record that starts the hooks that see the answer to a question before the agent gets it.
    pub(crate) fn answer_waits(
        self,
        ask: &AgentPermissionRequest,
        answer: &PermissionAnswer,
    ) -> Option<Event> {
        ask.question()?;
        let prompt = self.phase.turn_in_flight()?;
        let given = match answer {
            PermissionAnswer::Selected(content) => QuestionAnswer {
                content: Some(content.clone()),
                unattended: false,
            },
            PermissionAnswer::Declined { unattended } => QuestionAnswer {
                content: None,
                unattended: *unattended,
            },
            PermissionAnswer::Refused(_)
            | PermissionAnswer::Undecided
            | PermissionAnswer::Cancelled => return None,
        };
        let hooks = self.tool_rules.of_question(&ask.tool, true);
        (!hooks.is_empty()).then(|| {
            due(
                HookPoint::OnQuestion,
                prompt.iteration,
                hooks,
                Some(ask.ask),
                Some(given),
            )
        })
    }

    /// Gives the agent an answer that hooks have seen. One of a hook that does not fit the form
    /// changes nothing but says so.
    pub(crate) fn answer_question(self) -> EngineOutput {
        let (
            Some(AnsweredQuestion {
                ask,
                question,
                given,
                decision,
            }),
            Some(prompt),
        ) = (
            self.tool_rules.tools.next_answer(),
            self.phase.turn_in_flight(),
        )
        else {
            return EngineOutput::default();
        };
        let changed = decision
            .as_ref()
            .and_then(|decision| Some((&decision.hook, decision.content(question)?)));
        let stays = || (None, given.content.clone(), given.unattended);
        let ((hook, content, unattended), warning) = match changed {
            Some((hook, Ok(content))) => ((Some(hook.clone()), content, false), None),
            Some((hook, Err(error))) => {
                let point = HookPoint::OnQuestion;
                let why = format!("its answer cannot be used: {error}. The answer stays as it was");
                (
                    stays(),
                    Some(Event::warning(format!("hook `{hook}` at {point}: {why}"))),
                )
            }
            None => (stays(), None),
        };
        let answer = match content.clone() {
            Some(content) => PermissionAnswer::Selected(content),
            None => PermissionAnswer::Declined { unattended },
        };
        let answered = EngineOutput::record(Event::Turn(TurnEvent::QuestionAnswered {
            iteration: prompt.iteration,
            turn: prompt.turn,
            ask: *ask,
            content,
            hook,
        }));
        let step = warning.into_iter().fold(answered, EngineOutput::and);
        step.then(Effect::AnswerPermission { ask: *ask, answer })
    }

    /// The actor of the answer that is known before the user is asked: a hook or the rules. An agent
    /// without a way to refuse has its turn cancelled, as for a rule.
    pub(crate) fn answers_for_the_user(self, ask: &AgentPermissionRequest) -> Actor {
        if ask.question().is_some() {
            return HOOK;
        }
        let by_hook = self.tool_rules.tools.decision(ask);
        let decides = by_hook.is_some_and(|hook| match hook.action {
            PermissionPolicy::Deny => true,
            PermissionPolicy::Allow => self.without_hooks(ask).is_none(),
            PermissionPolicy::Ask => false,
        });
        let cancels = self.automatic_permission(ask) == Some(GateChoice::Cancel);
        if decides && !cancels { HOOK } else { POLICY }
    }

    /// The answer of the rules and of the user's earlier answers.
    fn without_hooks(self, ask: &AgentPermissionRequest) -> Option<bool> {
        if ask.source == PermissionSource::Service {
            return self.served(ask);
        }
        let ruled = first_that_fits(&self.plan.access.permissions, self.project(), &ask.tool);
        match ruled.unwrap_or(self.plan.gates.permissions) {
            PermissionPolicy::Allow => Some(true),
            PermissionPolicy::Deny => Some(false),
            PermissionPolicy::Ask => self.earlier_answer(ask, ruled.is_some()),
        }
    }

    /// Whether a hook can allow a request that you would be asked about: not if a rule says that you
    /// are asked, if the hook saw only a part of it, or if it may change files of creel or git or
    /// under `protect:`.
    fn hook_may_allow(self, ask: &AgentPermissionRequest) -> bool {
        let project = self.project();
        let asks = first_that_fits(&self.plan.access.permissions, project, &ask.tool).is_some();
        let files = files(&ask.tool, project.cwd);
        let is_guarded = |file: &String| {
            let protects = |pattern: &String| fast_glob::glob_match(pattern, file);
            project.owns(file) || self.plan.access.protect.iter().any(protects)
        };
        let is_safe = !may_change_files(kind(&ask.tool))
            || (!files.is_empty() && !has_command(&ask.tool) && !files.iter().any(is_guarded));
        !asks && !ask.is_cut_for_hooks() && is_safe
    }
}
