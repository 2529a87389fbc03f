//! Permission requests: the agent's own, and those for the files and commands that creel serves to it.
//!
//! Owns the requests that wait, the answers that creel remembers, and what the rules decide before the user is asked.
//! Does not show anything: a request becomes a gate like any other, see [`super::gate`].
//!
//! # Invariants
//! - A request is answered once: by a rule, by the user, or by the end of its turn.
//! - One request is asked about at a time, in the order in which they came.
//! - creel answers requests for its own MCP tools itself; the user is never asked about them.
//! - creel never selects an agent's "always" option where the agent offers "once": what the agent then stops asking about
//!   is the agent's choice, and creel would not hear of it. creel remembers the answer itself.

mod memory;
mod rules;

use std::collections::VecDeque;

use super::{
    GateAbout, State,
    gate::{About, Choice, Gate},
};
use crate::engine::{
    Step,
    conversation::{AskSource, OptionKind, PermissionAnswer, PermissionAsk, PermissionOption, ToolCall, ToolKind},
    effect::Effect,
    event::{Actor, By, Event},
    ids::TurnId,
    policy::Permissions,
};
use memory::{RememberedAnswer, covers, remembered};
use rules::first_that_fits;

/// The requests of the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asks {
    /// Those that wait, oldest first; the first one is the open gate's.
    pub waiting: VecDeque<PermissionAsk>,
    /// The user's "always" answers.
    pub remembered: Vec<RememberedAnswer>,
    /// What was allowed in this turn.
    granted: Vec<ToolCall>,
}

/// An answer that the user can choose, in words that say what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedAnswer {
    /// The agent's own name of the option.
    pub id: String,
    /// What it says.
    pub name: String,
    /// What it means.
    pub choice: Choice,
}

impl OptionKind {
    /// Whether the agent may.
    pub const fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }

    /// The answer that takes such an option.
    pub const fn choice(self) -> Choice {
        match self {
            Self::AllowOnce => Choice::AllowOnce,
            Self::AllowAlways => Choice::AllowAlways,
            Self::RejectOnce => Choice::RejectOnce,
            Self::RejectAlways => Choice::RejectAlways,
        }
    }
}

impl PermissionAsk {
    /// The answers that a person can give, in the agent's order.
    pub fn choices(&self) -> Vec<Choice> {
        let mut choices: Vec<Choice> = Vec::new();
        for option in &self.options {
            if !choices.contains(&option.kind.choice()) {
                choices.push(option.kind.choice());
            }
        }
        choices.push(Choice::Cancel);
        choices
    }

    /// The answers to show. "Always" is creel's own answer and means less than most agents' options of that kind, so it is
    /// offered once and in creel's words, unless the agent offers nothing else.
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

    /// For an "always" answer that creel remembers itself: its label, and the option that the agent gets instead.
    fn kept_by_creel(&self, choice: Choice) -> Option<(&'static str, &PermissionOption)> {
        let (name, once) = if choice == Choice::AllowAlways {
            ("Always allow this exact request", Choice::AllowOnce)
        } else if choice == Choice::RejectAlways {
            ("Always reject this exact request", Choice::RejectOnce)
        } else {
            return None;
        };
        self.option(once, None).map(|option| (name, option))
    }

    /// The option that creel selects for an answer.
    fn selected(&self, choice: Choice, named: Option<&str>) -> Option<&PermissionOption> {
        self.kept_by_creel(choice).map(|(_, once)| once).or_else(|| self.option(choice, named))
    }

    /// The option that an answer takes: the one that is named, or the first of its kind.
    pub fn option(&self, choice: Choice, named: Option<&str>) -> Option<&PermissionOption> {
        let mut fitting = self.options.iter().filter(|option| option.kind.choice() == choice);
        match named {
            Some(id) => fitting.find(|option| option.id == id),
            None => fitting.next(),
        }
    }

    /// How creel answers by itself: once, if the agent offers that.
    fn standing(&self, allow: bool) -> Option<Choice> {
        let wanted =
            if allow { [Choice::AllowOnce, Choice::AllowAlways] } else { [Choice::RejectOnce, Choice::RejectAlways] };
        let offered = wanted.into_iter().find(|choice| self.option(*choice, None).is_some());
        // If the agent offers no way to refuse, its turn ends.
        offered.or((!allow).then_some(Choice::Cancel))
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
        format!("the agent asks for permission ({verb}): {}", self.tool.title)
    }
}

impl Asks {
    /// A gate was answered: the request goes, and perhaps the answer stays.
    pub(super) fn answered(&mut self, choice: Choice, agent: &str) {
        let Some(ask) = self.waiting.pop_front() else { return };
        if matches!(choice, Choice::AllowAlways | Choice::RejectAlways) {
            self.remembered.extend(RememberedAnswer::new(agent, &ask, choice == Choice::AllowAlways));
        }
        if matches!(choice, Choice::AllowOnce | Choice::AllowAlways) {
            self.granted.push(ask.tool);
        }
    }

    /// A new turn begins.
    pub(super) fn next_turn(&mut self) {
        self.granted.clear();
    }
}

impl State {
    pub(crate) fn on_permission_asked(&self, turn: TurnId, ask: Box<PermissionAsk>) -> Step {
        let Some(iteration) = self.awaited(turn).filter(|_| !self.interrupted()) else {
            let cancel = Effect::AnswerPermission { ask: ask.ask, answer: PermissionAnswer::Cancelled };
            return Step::stale(turn).then(cancel);
        };
        match self.answered_at_once(&ask) {
            Some(option) => {
                let answer = PermissionAnswer::Selected(option.to_owned());
                Step::default().then(Effect::AnswerPermission { ask: ask.ask, answer })
            }
            None => Step::record(Event::PermissionAsked { iteration, turn, ask }),
        }
    }

    /// The option for a request that needs no gate: one for creel's own tools, and one for a file or a command of creel's
    /// services that is already decided. The tool call itself is on record in both cases.
    fn answered_at_once<'a>(&self, ask: &'a PermissionAsk) -> Option<&'a str> {
        let allow = match ask.source {
            AskSource::Agent => None,
            AskSource::CreelTool => Some(true),
            AskSource::Service => self.served(ask),
        };
        let choice = allow.and_then(|allow| ask.standing(allow))?;
        ask.option(choice, None).map(|option| option.id.as_str())
    }

    /// Whether creel does something for the agent, if that is decided without the user.
    fn served(&self, ask: &PermissionAsk) -> Option<bool> {
        let ruled = first_that_fits(&self.plan().permissions, &self.began.cwd, &ask.tool);
        // A gate for each file that an agent reads would be unusable; a rule can still ask for one.
        let reads = ask.tool.kind == Some(ToolKind::Read) && ruled.is_none();
        let granted =
            || !ask.shortened && self.asks.granted.iter().any(|known| covers(known, &ask.tool, &self.began.cwd));
        match ruled.unwrap_or(self.plan().gates.permissions) {
            Permissions::Allow => Some(true),
            Permissions::Deny => Some(false),
            Permissions::Ask if reads || granted() => Some(true),
            Permissions::Ask => remembered(&self.asks.remembered, self.asking_agent(), ask),
        }
    }

    /// The agent whose turn it is.
    pub(super) fn asking_agent(&self) -> &str {
        let reviewer = self.turn_in_flight().and_then(|prompt| prompt.agent.as_deref());
        reviewer.unwrap_or(&self.began.agent)
    }

    /// The oldest request becomes a gate.
    pub(super) fn proceed_asks(&self) -> Step {
        let Some(ask) = self.asks.waiting.front() else { return Step::default() };
        self.open_gate(About::Permission, ask.reason(), GateAbout::ask(ask))
    }

    /// The request that a gate is about.
    pub fn asked_at(&self, gate: &Gate) -> Option<&PermissionAsk> {
        self.asks.waiting.iter().find(|ask| Some(ask.ask) == gate.ask)
    }

    /// The answer that is known before the user is asked.
    pub(super) fn standing_permission(&self, ask: &PermissionAsk) -> Option<Choice> {
        let ruled = first_that_fits(&self.plan().permissions, &self.began.cwd, &ask.tool);
        let said = match ruled.unwrap_or(self.plan().gates.permissions) {
            Permissions::Allow => Some(true),
            Permissions::Deny => Some(false),
            Permissions::Ask => remembered(&self.asks.remembered, self.asking_agent(), ask),
        };
        said.and_then(|allow| ask.standing(allow))
    }

    /// An answer to the agent. `cancel` ends the turn.
    pub(super) fn permitted(&self, gate: &Gate, choice: Choice, by: &Actor, named: Option<&str>) -> Step {
        let ask = self.asked_at(gate);
        let option = ask.and_then(|ask| ask.selected(choice, named)).map(|option| option.id.clone());
        let step = Step::record(Event::GateAnswered { gate: gate.id, choice, by: by.clone(), option: option.clone() });
        match (ask, option, self.turn_in_flight()) {
            (Some(ask), Some(option), _) => {
                step.then(Effect::AnswerPermission { ask: ask.ask, answer: PermissionAnswer::Selected(option) })
            }
            (_, None, Some(prompt)) => {
                let step = match by.by {
                    By::Policy | By::Timeout => step,
                    By::Tui | By::Cli | By::Mcp | By::Nats | By::Agent | By::Hook => {
                        self.hold_cancelled(by, prompt, step)
                    }
                };
                step.then(Effect::CancelTurn(prompt.turn))
            }
            (None, Some(_), _) | (_, None, None) => step,
        }
    }

    /// The end of a turn answers what still waits.
    pub(crate) fn unasked(&self, by: &Actor) -> Step {
        let gate = self.gates.open.as_ref().filter(|gate| gate.about == About::Permission);
        gate.map_or_else(Step::default, |gate| {
            Step::record(Event::GateAnswered { gate: gate.id, choice: Choice::Cancel, by: by.clone(), option: None })
        })
    }
}
