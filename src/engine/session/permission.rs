//! What an agent asks leave for.
//!
//! Owns the requests that wait, what was said once and for all, and what the rules say before anybody is asked. Does not
//! show anything: a request becomes a gate like any other, see [`super::gate`].
//!
//! # Invariants
//! - A request is answered once: by a rule, by a person, or by the end of its turn.
//! - One request is asked about at a time, in the order in which they came.
//! - No rule that allows fits a file that it does not name, however the file is spelled.

use std::{borrow::Cow, collections::VecDeque};

use super::{
    GateAbout, State,
    gate::{About, Choice, Gate},
};
use crate::engine::{
    Step,
    conversation::{OptionKind, PermissionAnswer, PermissionAsk, PermissionOption, ToolCall, ToolKind},
    effect::Effect,
    event::{Actor, By, Event},
    ids::TurnId,
    policy::{PermissionRule, Permissions},
};

/// The requests of the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asks {
    /// Those that wait, oldest first; the first one is the open gate's.
    pub waiting: VecDeque<PermissionAsk>,
    /// What was answered once and for all.
    pub remembered: Vec<Remembered>,
}

/// An answer for this session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    kind: Option<ToolKind>,
    title: String,
    allowed: bool,
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

    /// The option that an answer takes: the one that is named, or the first of its kind.
    pub fn option(&self, choice: Choice, named: Option<&str>) -> Option<&PermissionOption> {
        let mut fitting = self.options.iter().filter(|option| option.kind.choice() == choice);
        match named {
            Some(id) => fitting.find(|option| option.id == id),
            None => fitting.next(),
        }
    }

    /// How to say yes or no without a person: rather once than always.
    fn standing(&self, allow: bool) -> Option<Choice> {
        let wanted =
            if allow { [Choice::AllowOnce, Choice::AllowAlways] } else { [Choice::RejectOnce, Choice::RejectAlways] };
        let offered = wanted.into_iter().find(|choice| self.option(*choice, None).is_some());
        // An agent that offers no way to say no is told that its turn is over.
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
    pub(super) fn answered(&mut self, choice: Choice) {
        let Some(ask) = self.waiting.pop_front() else { return };
        if matches!(choice, Choice::AllowAlways | Choice::RejectAlways) {
            let allowed = choice == Choice::AllowAlways;
            self.remembered.push(Remembered { kind: ask.tool.kind, title: ask.tool.title, allowed });
        }
    }

    fn remembers(&self, tool: &ToolCall) -> Option<bool> {
        let same = |known: &&Remembered| known.kind == tool.kind && known.title == tool.title;
        self.remembered.iter().rev().find(same).map(|known| known.allowed)
    }
}

impl State {
    pub(crate) fn on_permission_asked(&self, turn: TurnId, ask: Box<PermissionAsk>) -> Step {
        let Some(iteration) = self.awaited(turn).filter(|_| !self.interrupted()) else {
            let cancel = Effect::AnswerPermission { ask: ask.ask, answer: PermissionAnswer::Cancelled };
            return Step::stale(turn).then(cancel);
        };
        Step::record(Event::PermissionAsked { iteration, turn, ask })
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

    /// What is known before anybody is asked.
    pub(super) fn standing_permission(&self, ask: &PermissionAsk) -> Option<Choice> {
        let ruled = first_that_fits(&self.plan().permissions, &self.began.cwd, &ask.tool);
        let said = match ruled.unwrap_or(self.plan().gates.permissions) {
            Permissions::Allow => Some(true),
            Permissions::Deny => Some(false),
            Permissions::Ask => self.asks.remembers(&ask.tool),
        };
        said.and_then(|allow| ask.standing(allow))
    }

    /// An answer to the agent. Whoever does not answer ends the turn.
    pub(super) fn permitted(&self, gate: &Gate, choice: Choice, by: &Actor, named: Option<&str>) -> Step {
        let ask = self.asked_at(gate);
        let option = ask.and_then(|ask| ask.option(choice, named)).map(|option| option.id.clone());
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

/// What the config says beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<PermissionRule>);

impl Rules {
    /// What the first rule that fits says about something that an agent wants to do.
    pub fn says(&self, cwd: &str, tool: &ToolCall) -> Option<Permissions> {
        first_that_fits(&self.0, cwd, tool)
    }
}

fn first_that_fits(rules: &[PermissionRule], cwd: &str, tool: &ToolCall) -> Option<Permissions> {
    rules.iter().find(|rule| fits(rule, cwd, tool)).map(|rule| rule.action)
}

/// A rule that denies fits if one of the files does; any other only if all of them do, and there is one.
fn fits(rule: &PermissionRule, cwd: &str, tool: &ToolCall) -> bool {
    let kind = tool.kind.unwrap_or(ToolKind::Other);
    if !rule.kinds.is_empty() && !rule.kinds.contains(&kind) {
        return false;
    }
    if rule.paths.is_empty() {
        return true;
    }
    let mut files = tool.locations.iter().map(|location| within(cwd, &location.path));
    let named = |file: Cow<'_, str>| rule.paths.iter().any(|pattern| fast_glob::glob_match(pattern, file.as_ref()));
    match rule.action {
        Permissions::Deny => files.any(named),
        Permissions::Allow | Permissions::Ask => !tool.locations.is_empty() && files.all(named),
    }
}

/// A file's name relative to the project, without detours; one outside keeps its whole name.
fn within<'a>(cwd: &str, file: &'a str) -> Cow<'a, str> {
    let whole = if file.starts_with('/') { file.to_owned() } else { format!("{cwd}/{file}") };
    let plain = straight(&whole);
    let root = straight(cwd);
    match plain.strip_prefix(&root).and_then(|rest| rest.strip_prefix('/')) {
        Some(rest) => Cow::Owned(rest.to_owned()),
        None => Cow::Owned(plain),
    }
}

fn straight(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::conversation::Location;

    fn tool(kind: ToolKind, files: &[&str]) -> ToolCall {
        let locations = files.iter().map(|path| Location { path: (*path).to_owned(), line: None }).collect();
        ToolCall { kind: Some(kind), locations, ..ToolCall::default() }
    }

    fn rule(kinds: &[ToolKind], paths: &[&str], action: Permissions) -> PermissionRule {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        PermissionRule { kinds: kinds.to_vec(), paths, action }
    }

    #[test]
    fn a_rule_fits_by_kind_and_by_file_however_the_file_is_spelled() {
        let sources = rule(&[ToolKind::Edit], &["src/**"], Permissions::Allow);
        let fits = |files: &[&str]| fits(&sources, "/project", &tool(ToolKind::Edit, files));
        assert!(fits(&["/project/src/main.rs"]));
        assert!(fits(&["src/a/b.rs", "/project/./src/c.rs"]));
        assert!(!fits(&["/project/src/../Cargo.toml"]));
        assert!(!fits(&["src/../../elsewhere/src/main.rs"]));
        assert!(!fits(&["/project-2/src/main.rs"]));
        assert!(!fits(&["src/main.rs", "/etc/passwd"]), "all files must fit to be allowed");
        assert!(!fits(&[]), "no file is named");
        assert!(!super::fits(&sources, "/project", &tool(ToolKind::Read, &["src/main.rs"])));
    }

    #[test]
    fn one_file_is_enough_to_be_denied() {
        let secrets = rule(&[], &["**/.env", ".env"], Permissions::Deny);
        let fits = |files: &[&str]| fits(&secrets, "/project", &tool(ToolKind::Read, files));
        assert!(fits(&["src/main.rs", "/project/.env"]));
        assert!(fits(&["deploy/.env"]));
        assert!(!fits(&["src/main.rs"]));
    }
}
