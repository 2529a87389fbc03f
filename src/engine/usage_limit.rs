//! Usage limits: which agent works while another one is limited, and how long the session waits.
//!
//! Owns the wait for a reset and the switch to another agent. Does not decide which failures are usage limits: the
//! agents report that.
//!
//! # Invariants
//! - A turn that reached a limit is sent again unchanged. It uses up no iteration and does not count as an error.
//! - An agent that reaches limits repeatedly waits longer each time, and then creel asks the user: no session waits for
//!   ever.
//! - The agent that takes over gets a summary of the work so far.

pub(crate) mod apply;
pub mod event;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::UsageLimit,
    event::{Actor, Event, LimitAction, LimitReached, SessionStarted, UsageLimitEvent, UserPresence},
    gate::{
        Gate, SessionGates,
        kind::{GateChoice, GateKind},
        subject::GateSubject,
    },
    output::EngineOutput,
    policy::{BackoffPolicy, SessionPlan, UsageLimitPolicy},
    refusal::Refusal,
    retry::wait_for,
    time::{TimeSpan, UnixTime},
};

/// The wait where the agent does not report a reset time, unless the config has its own backoff.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { base: TimeSpan::secs(30), factor: 2.0, max: TimeSpan::secs(30 * 60), jitter: 0.1 };
/// After this many limits without a successful turn in between, creel asks the user.
const MOST_IN_A_ROW: u32 = 40;
/// How many changed files the handover lists.
const FILES_TOLD: usize = 50;
/// How much of the last message the handover contains.
const SUMMARY_MAX: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageLimitState {
    /// The agent that works instead of the session's own.
    pub standing_in: Option<String>,
    /// When each agent's limit resets.
    pub(crate) resets: BTreeMap<String, UnixTime>,
    /// How many turns in a row reached a limit.
    pub(crate) in_a_row: u32,
    /// The limit that the next prompt waits for.
    pub hold: Option<UsageLimitWait>,
    /// The agent whose work another one continues with its next prompt.
    pub(crate) handed_over: Option<String>,
    /// The end of the agent's message in the last turn that did not fail.
    summary: String,
    /// The files that were changed in this session, at most [`FILES_TOLD`].
    files: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimitWait {
    pub agent: String,
    /// None if unknown.
    pub resets_at: Option<UnixTime>,
    /// When the session sends the turn again.
    pub until: UnixTime,
    /// Whether the user has to decide.
    pub asks: bool,
}

impl UsageLimitState {
    /// A turn ended without a failure.
    pub(crate) fn turn_ended(&mut self, said: &str, files: &[String]) {
        self.in_a_row = 0;
        let said = said.trim();
        said[said.ceil_char_boundary(said.len().saturating_sub(SUMMARY_MAX))..].clone_into(&mut self.summary);
        for file in files {
            if self.files.len() < FILES_TOLD && !self.files.contains(file) {
                self.files.push(file.clone());
            }
        }
    }

    /// The end of the agent's message in the last turn that did not fail.
    pub(crate) fn last_message(&self) -> &str {
        &self.summary
    }

    /// A prompt was sent, including the handover if there was one.
    pub(crate) fn prompt_sent(&mut self) {
        self.hold = None;
        self.handed_over = None;
    }

    fn is_limited(&self, agent: &str, now: UnixTime) -> bool {
        self.resets.get(agent).is_some_and(|resets| now < *resets)
    }
}

const HANDOVER: &str = "[Handover: you continue the work of another agent,";
const HANDOVER_END: &str = "\nThe work may be half done: look at the files before you continue.";

/// Removes a handover from a prompt: the next agent gets its own.
pub(crate) fn without_handover(text: &str) -> &str {
    let after = text.starts_with(HANDOVER).then(|| text.split_once(HANDOVER_END)).flatten();
    after.map_or(text, |(_, rest)| rest.trim_start_matches('\n'))
}

/// Which agent works, and how long the session waits for one.
#[derive(Debug, Clone, Copy)]
pub struct AgentChoice<'a> {
    pub(crate) began: &'a SessionStarted,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) presence: UserPresence,
    pub(crate) limits: &'a UsageLimitState,
    pub(crate) gates: &'a SessionGates,
}

impl<'a> AgentChoice<'a> {
    /// The agent that currently works.
    pub fn agent(self) -> &'a str {
        self.limits.standing_in.as_deref().unwrap_or(&self.plan.agent)
    }

    /// All agents of the session, its own first.
    pub(crate) fn agents(self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.plan.agent.as_str()).chain(self.fallbacks())
    }

    pub(crate) fn fallbacks(self) -> impl Iterator<Item = &'a str> {
        self.plan.limits.fallback.iter().map(|agent| agent.name.as_str())
    }

    /// The first other agent that is not limited.
    pub(crate) fn next_agent(self, now: UnixTime) -> Option<&'a str> {
        self.agents().find(|name| *name != self.agent() && !self.limits.is_limited(name, now))
    }

    /// Handles a usage limit that the current turn reached. `None`: the turn fails like any other.
    pub(crate) fn reached_limit(self, limit: UsageLimit, now: UnixTime) -> Option<Vec<Event>> {
        let plan = &self.plan.limits;
        let agent = self.agent().to_owned();
        let nth = self.limits.in_a_row + 1;
        let backoff = wait_for(self.plan.backoff.as_ref().unwrap_or(&BACKOFF), nth, self.began.seed);
        // A reported reset time that was wrong is not trusted again.
        let wait = match limit.resets_in {
            Some(resets_in) if nth <= 2 => resets_in,
            Some(resets_in) => resets_in.max(backoff),
            None => backoff,
        };
        let (resets_at, until) = (limit.resets_in.map(|span| now.after(span)), now.after(wait));
        let reached = |action, until| {
            Event::UsageLimit(UsageLimitEvent::Reached(Box::new(LimitReached {
                agent: agent.clone(),
                resets_at,
                until,
                action,
            })))
        };
        let too_often = nth > MOST_IN_A_ROW;
        if let Some(to) = self.next_agent(now).filter(|_| !too_often) {
            let reason = format!("`{agent}` reached its usage limit");
            let switched = Event::UsageLimit(UsageLimitEvent::AgentSwitched {
                from: agent.clone(),
                to: to.to_owned(),
                reason,
                by: None,
            });
            return Some(vec![reached(LimitAction::Switch, until), switched]);
        }
        if plan.on_usage_limit == UsageLimitPolicy::Fail {
            return None;
        }
        // All agents are limited; the first one whose limit resets gets the turn.
        let others = self.agents().filter(|name| *name != agent).filter_map(|name| self.limits.resets.get(name));
        let until = others.copied().chain([until]).min().unwrap_or(until);
        let asks = plan.on_usage_limit == UsageLimitPolicy::Ask || until.since(now) > plan.max_wait || too_often;
        Some(vec![reached(if asks { LimitAction::Ask } else { LimitAction::Wait }, until)])
    }

    pub(crate) fn limit_gate(self, now: UnixTime) -> Option<EngineOutput> {
        let hold = self.limits.hold.as_ref().filter(|hold| hold.asks)?;
        let mut choices = GateKind::UsageLimit.choices();
        choices.retain(|choice| *choice != GateChoice::Switch || self.another_agent(now).is_some());
        let when = hold.resets_at.map_or_else(
            || format!("it does not say when that resets; creel would try again in {}", hold.until.since(now)),
            |at| format!("it resets in {}", at.since(now)),
        );
        let reason = format!("`{}` reached its usage limit, and {when}", hold.agent);
        Some(self.gates.open_gate_with(GateSubject::UsageLimit, reason, choices))
    }

    /// The answer to the gate of a limit that has reset since, when unattended.
    pub(crate) fn limit_has_reset(self, gate: &Gate, now: UnixTime) -> Option<GateChoice> {
        let unattended = self.presence == UserPresence::Unattended && gate.kind() == GateKind::UsageLimit;
        let is_over = self.limits.hold.as_ref().is_some_and(|hold| now >= hold.until);
        (unattended && is_over).then_some(GateChoice::Wait)
    }

    /// The agent for a switch by the user: one that is not limited, or else any other.
    pub(crate) fn another_agent(self, now: UnixTime) -> Option<&'a str> {
        self.next_agent(now).or_else(|| self.agents().find(|name| *name != self.agent()))
    }

    /// The user switches agents, at a gate or while the session waits.
    pub(crate) fn switch_agent(self, to: Option<&str>, by: &Actor, now: UnixTime) -> Result<Event, Refusal> {
        let from = self.agent().to_owned();
        let to = match to {
            Some(to) if to == from => return Err(Refusal::AgentWorksAlready(from)),
            Some(to) => self.agents().find(|name| *name == to).ok_or_else(|| {
                let known: Vec<String> = self.agents().filter(|name| *name != from).map(str::to_owned).collect();
                if known.is_empty() {
                    Refusal::NoFallbackAgent
                } else {
                    Refusal::UnknownFallbackAgent { agent: to.to_owned(), known }
                }
            })?,
            None => self.another_agent(now).ok_or(Refusal::NoFallbackAgent)?,
        };
        Ok(Event::UsageLimit(UsageLimitEvent::AgentSwitched {
            from,
            to: to.to_owned(),
            reason: "the user switched agents".into(),
            by: Some(by.clone()),
        }))
    }

    /// Handles a command while the session waits for a reset.
    pub(crate) fn while_limited(self, step: impl FnOnce(&UsageLimitWait) -> Result<Event, Refusal>) -> EngineOutput {
        let Some(hold) = &self.limits.hold else {
            return EngineOutput::refuse(Refusal::NoUsageLimit);
        };
        let gate = self.gates.open.as_ref().filter(|gate| gate.kind() == GateKind::UsageLimit);
        if let Some(gate) = gate {
            return EngineOutput::refuse(Refusal::UsageLimitGate(gate.id));
        }
        match step(hold) {
            Ok(event) => EngineOutput::record(event),
            Err(why) => EngineOutput::refuse(why),
        }
    }

    /// The session's own agent takes over again before a new iteration, once its limit has reset.
    pub(crate) fn switch_back(self, now: UnixTime) -> Option<EngineOutput> {
        let standing_in = self.limits.standing_in.clone()?;
        let own = &self.plan.agent;
        (!self.limits.is_limited(own, now)).then(|| {
            let reason = format!("the usage limit of `{own}` has reset");
            EngineOutput::record(Event::UsageLimit(UsageLimitEvent::AgentSwitched {
                from: standing_in,
                to: own.clone(),
                reason,
                by: None,
            }))
        })
    }

    /// After a wait, another agent may be the one whose limit has reset.
    pub(crate) fn switch_after_wait(self, now: UnixTime) -> Option<EngineOutput> {
        let hold = self.limits.hold.as_ref().filter(|hold| !hold.asks && now >= hold.until)?;
        if !self.limits.is_limited(&hold.agent, now) {
            return None;
        }
        let to = self.next_agent(now)?.to_owned();
        let reason = format!("the usage limit of `{to}` has reset");
        Some(EngineOutput::record(Event::UsageLimit(UsageLimitEvent::AgentSwitched {
            from: self.agent().to_owned(),
            to,
            reason,
            by: None,
        })))
    }

    /// The handover that precedes the next agent's prompt.
    pub(crate) fn handover(self, prompt: &str) -> Option<String> {
        let from = self.limits.handed_over.as_ref()?;
        let mut text = format!("{HANDOVER} `{from}`.]");
        if !prompt.contains(&self.began.prompt) {
            text += &format!("\nThe goal of the whole work:\n{}", self.began.prompt);
        }
        if !self.limits.summary.is_empty() {
            text += &format!("\nWhat `{from}` said last:\n{}", self.limits.summary);
        }
        if !self.limits.files.is_empty() {
            text += &format!("\nFiles changed so far: {}", self.limits.files.join(", "));
        }
        text += HANDOVER_END;
        Some(text)
    }
}
