//! Usage limits: which agent works while another one is limited, and how long the session waits.
//!
//! Owns the wait for a reset and the switch to another agent. Does not decide which failures are
//! usage limits: the agents report that.
//!
//! # Invariants
//! - A turn that reached a limit, or could not reach its server, is sent again unchanged. It uses
//!   up no iteration and does not count as an error.
//! - The waits since the last turn that ended well have a sum, and the sum has a bound: no session
//!   waits for ever. Beyond it, creel asks about a limit, and a turn that cannot reach its server
//!   fails.
//! - The agent that takes over gets a summary of the work so far.

pub(crate) mod apply;
pub mod event;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        conversation::{LimitCause, UsageLimit},
        event::{
            Actor, Event, LimitAction, LimitReached, SessionStarted, UsageLimitEvent, UserPresence,
        },
        gate::{
            Gate, SessionGates,
            kind::{GateChoice, GateKind},
            subject::GateSubject,
        },
        output::EngineOutput,
        policy::{AgentSpec, BackoffPolicy, OutagePlan, SessionPlan, UsageLimitPolicy},
        refusal::Refusal,
        retry::wait_for,
        time::{TimeSpan, UnixTime},
    },
    text::first_line,
};

/// The wait where the agent does not report a reset time, unless the config has its own backoff.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    base: TimeSpan::secs(30),
    factor: 2.0,
    max: TimeSpan::secs(30 * 60),
    jitter: 0.1,
};
/// After this many limits in a row, no wait is shorter than [`BACKOFF`]'s first.
const SHORT_WAITS: u32 = 10;
/// How long an agent without credit gets no turn, unless the user says otherwise.
pub(crate) const NEVER: TimeSpan = TimeSpan::secs(365 * 24 * 60 * 60);
/// After this many waits for its server, another agent takes the turn.
const OUTAGES_BEFORE_SWITCH: u32 = 5;
/// How long an agent that was silent, or a fallback that failed, gets no turn.
const AGENT_PAUSE: TimeSpan = TimeSpan::secs(60 * 60);
/// How much of an error a reason shows, in characters.
const ERROR_SHOWN: usize = 200;
/// How many turns in a row may change files and then not reach their server. Whatever ends them,
/// they are paid for.
const PAID_OUTAGES: u32 = 3;
/// How many changed files the handover lists.
const FILES_LISTED: usize = 50;
/// How much of the last message the handover contains.
const SUMMARY_MAX: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageLimitState {
    /// The agent that works instead of the session's own.
    pub stand_in: Option<String>,
    /// When each agent's limit resets.
    pub(crate) resets: BTreeMap<String, UnixTime>,
    /// How many turns in a row reached a limit.
    pub(crate) in_a_row: u32,
    /// How many turns in a row did not reach their server.
    #[serde(default)]
    outages: u32,
    /// How many of them had changed files by then.
    #[serde(default)]
    paid_outages: u32,
    /// How long the session has waited since the last turn that ended well.
    #[serde(default)]
    pub(crate) waited: TimeSpan,
    /// The limit that the next prompt waits for.
    pub hold: Option<UsageLimitWait>,
    /// The agent whose work another one continues with its next prompt.
    pub(crate) handed_over: Option<String>,
    /// The end of the agent's message in the last turn that did not fail.
    summary: String,
    /// The files that were changed in this session, at most [`FILES_LISTED`].
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
    pub waits_for_user: bool,
    #[serde(default)]
    pub cause: LimitCause,
}

impl UsageLimitState {
    /// A turn ended without a failure.
    pub(crate) fn turn_ended(&mut self, agent_text: &str, files: &[String]) {
        (self.in_a_row, self.outages, self.paid_outages, self.waited) =
            (0, 0, 0, TimeSpan::default());
        let agent_text = agent_text.trim();
        agent_text[agent_text.ceil_char_boundary(agent_text.len().saturating_sub(SUMMARY_MAX))..]
            .clone_into(&mut self.summary);
        for file in files {
            if self.files.len() < FILES_LISTED && !self.files.contains(file) {
                self.files.push(file.clone());
            }
        }
    }

    /// Counts a turn that has to be sent again.
    fn reached(&mut self, cause: LimitCause, changed_files: bool) {
        match cause {
            LimitCause::Outage => {
                self.outages += 1;
                self.paid_outages += u32::from(changed_files);
            }
            // The server answered.
            LimitCause::Usage | LimitCause::NoCredit => {
                (self.in_a_row, self.outages) = (self.in_a_row + 1, 0);
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

/// What follows from a limit or an outage.
#[derive(Debug, Default)]
pub(crate) struct Obstructed {
    pub(crate) events: Vec<Event>,
    /// Whether the same turn is sent again. Otherwise it has failed.
    pub(crate) resends: bool,
}

const HANDOVER: &str = "[Handover: you continue the work of another agent,";
const HANDOVER_END: &str = "\nThe work may be half done: look at the files before you continue.";

/// Removes a handover from a prompt: the next agent gets its own.
pub(crate) fn without_handover(text: &str) -> &str {
    let after = text
        .starts_with(HANDOVER)
        .then(|| text.split_once(HANDOVER_END))
        .flatten();
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
        self.limits.stand_in.as_deref().unwrap_or(&self.plan.agent)
    }

    /// How that agent runs. None if the plan does not have it.
    pub(crate) fn spec(self) -> Option<&'a AgentSpec> {
        let Some(name) = &self.limits.stand_in else {
            return Some(&self.plan.agent_spec);
        };
        let mut others = self.plan.limits.fallback.iter();
        others
            .find(|other| other.name == *name)
            .map(|other| &other.spec)
    }

    /// All agents of the session, its own first.
    pub(crate) fn agents(self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.plan.agent.as_str()).chain(self.fallbacks())
    }

    pub(crate) fn fallbacks(self) -> impl Iterator<Item = &'a str> {
        self.plan
            .limits
            .fallback
            .iter()
            .map(|agent| agent.name.as_str())
    }

    /// The first other agent that is not limited.
    pub(crate) fn next_agent(self, now: UnixTime) -> Option<&'a str> {
        self.agents()
            .find(|name| *name != self.agent() && !self.limits.is_limited(name, now))
    }

    /// Handles a usage limit or an outage that the current turn met.
    pub(crate) fn reached_limit(self, limit: UsageLimit, now: UnixTime) -> Obstructed {
        if limit.cause == LimitCause::Outage {
            self.in_outage(limit, now)
        } else {
            self.at_limit(limit, now)
        }
    }

    /// How much longer the session may wait without asking.
    fn wait_left(self) -> TimeSpan {
        TimeSpan(
            self.plan
                .limits
                .max_wait
                .0
                .saturating_sub(self.limits.waited.0),
        )
    }

    fn at_limit(self, limit: UsageLimit, now: UnixTime) -> Obstructed {
        let UsageLimit { resets_in, cause } = limit;
        let plan = &self.plan.limits;
        let agent = self.agent().to_owned();
        let nth = self.limits.in_a_row + 1;
        let left = self.wait_left();
        let backoff = wait_for(
            self.plan.backoff.as_ref().unwrap_or(&BACKOFF),
            nth,
            self.began.seed,
        );
        let backoff = if nth > SHORT_WAITS {
            backoff.max(BACKOFF.base)
        } else {
            backoff
        };
        let backoff = if left.is_zero() {
            backoff
        } else {
            backoff.min(left)
        };
        // A reported reset time that was wrong is not trusted again.
        let wait = match resets_in {
            _ if cause == LimitCause::NoCredit => NEVER,
            Some(resets_in) if nth <= 2 => resets_in,
            Some(resets_in) => resets_in.max(backoff),
            None => backoff,
        };
        let (resets_at, until) = (resets_in.map(|span| now.after(span)), now.after(wait));
        let reached = |action, until| {
            let reached = LimitReached {
                agent: agent.clone(),
                resets_at,
                until,
                action,
                cause,
            };
            Event::UsageLimit(UsageLimitEvent::Reached(Box::new(reached)))
        };
        if let Some(to) = self.next_agent(now) {
            let what = if cause == LimitCause::NoCredit {
                "has no credit left"
            } else {
                "reached its usage limit"
            };
            let switched = self.switched_to(to, format!("`{agent}` {what}"));
            return Obstructed {
                events: vec![reached(LimitAction::Switch, until), switched],
                resends: true,
            };
        }
        if plan.on_usage_limit == UsageLimitPolicy::Fail {
            return Obstructed {
                events: vec![reached(LimitAction::Fail, until)],
                resends: false,
            };
        }
        // All agents are limited; the first one whose limit resets gets the turn.
        let others = self
            .agents()
            .filter(|name| *name != agent)
            .filter_map(|name| self.limits.resets.get(name));
        let until = others.copied().chain([until]).min().unwrap_or(until);
        let needs_user = plan.on_usage_limit == UsageLimitPolicy::Ask
            || until.since(now) > left
            || left.is_zero();
        let action = if needs_user {
            LimitAction::Ask
        } else {
            LimitAction::Wait
        };
        Obstructed {
            events: vec![reached(action, until)],
            resends: true,
        }
    }

    /// A wait, or the next agent if the server stays away. If it stays away for too long, the turn
    /// has failed.
    fn in_outage(self, limit: UsageLimit, now: UnixTime) -> Obstructed {
        let OutagePlan { base, max, total } = self.plan.limits.outage;
        let agent = self.agent().to_owned();
        let policy = BackoffPolicy {
            base,
            factor: 2.0,
            max,
            jitter: 0.1,
        };
        let wait = wait_for(&policy, self.limits.outages + 1, self.began.seed);
        let left = self
            .wait_left()
            .0
            .min(total.0.saturating_sub(self.limits.waited.0));
        let wait = TimeSpan(wait.max(limit.resets_in.unwrap_or_default()).0.min(left));
        let is_over = left == 0 || self.limits.paid_outages >= PAID_OUTAGES;
        let is_long = self.limits.outages >= OUTAGES_BEFORE_SWITCH || is_over;
        let next = self.next_agent(now).filter(|_| is_long);
        let (action, until) = match next {
            Some(_) => (LimitAction::Switch, now.after(max)),
            None if is_over => return Obstructed::default(),
            None => (LimitAction::Wait, now.after(wait)),
        };
        let reached = LimitReached {
            agent: agent.clone(),
            resets_at: None,
            until,
            action,
            cause: limit.cause,
        };
        let reached = Event::UsageLimit(UsageLimitEvent::Outage(Box::new(reached)));
        let switched =
            next.map(|to| self.switched_to(to, format!("`{agent}` does not reach its server")));
        Obstructed {
            events: [reached].into_iter().chain(switched).collect(),
            resends: true,
        }
    }

    fn switched_to(self, to: &str, reason: String) -> Event {
        let (from, to) = (self.agent().to_owned(), to.to_owned());
        Event::UsageLimit(UsageLimitEvent::AgentSwitched {
            from,
            to,
            reason,
            until: None,
            by: None,
        })
    }

    /// A fallback agent that fails is put aside: the session's own agent, or another one, gets the
    /// turn.
    pub(crate) fn after_failure(self, error: &str, now: UnixTime) -> Option<Event> {
        // Without a limit, the user chose this agent.
        let own_was_limited = self.limits.resets.contains_key(&self.plan.agent);
        let from = self.limits.stand_in.clone().filter(|_| own_was_limited)?;
        let to = self.next_agent(now).unwrap_or(&self.plan.agent).to_owned();
        let reason = format!("`{from}` failed: {}", first_line(error, ERROR_SHOWN));
        Some(switched(from, to, reason, now))
    }

    /// The fallback takes the turn after one in which the agent said nothing for too long.
    pub(crate) fn after_silence(self, now: UnixTime) -> Option<Event> {
        let (from, to) = (self.agent().to_owned(), self.next_agent(now)?.to_owned());
        let reason = format!(
            "`{from}` sent nothing for {} and did not end its turn",
            self.plan.limits.silence
        );
        Some(switched(from, to, reason, now))
    }

    pub(crate) fn limit_gate(self, now: UnixTime) -> Option<EngineOutput> {
        let hold = self
            .limits
            .hold
            .as_ref()
            .filter(|hold| hold.waits_for_user)?;
        let mut choices = GateKind::UsageLimit.choices();
        choices.retain(|choice| *choice != GateChoice::Switch || self.another_agent(now).is_some());
        if hold.cause == LimitCause::NoCredit {
            choices.retain(|choice| *choice != GateChoice::Wait);
            let reason = format!(
                "`{}` has no credit left: add some and retry, or switch to another agent",
                hold.agent
            );
            return Some(
                self.gates
                    .open_gate_with(GateSubject::UsageLimit, reason, choices),
            );
        }
        let when = hold.resets_at.map_or_else(
            || {
                format!(
                    "it does not say when that resets; creel would try again in {}",
                    hold.until.since(now)
                )
            },
            |at| format!("it resets in {}", at.since(now)),
        );
        let reason = format!("`{}` reached its usage limit, and {when}", hold.agent);
        Some(
            self.gates
                .open_gate_with(GateSubject::UsageLimit, reason, choices),
        )
    }

    /// The answer to the gate of a limit that has reset since, when unattended.
    pub(crate) fn limit_has_reset(self, gate: &Gate, now: UnixTime) -> Option<GateChoice> {
        let unattended =
            self.presence == UserPresence::Unattended && gate.kind() == GateKind::UsageLimit;
        let is_over = self
            .limits
            .hold
            .as_ref()
            .is_some_and(|hold| now >= hold.until);
        (unattended && is_over).then_some(GateChoice::Wait)
    }

    /// The agent for a switch by the user: one that is not limited, or else any other.
    pub(crate) fn another_agent(self, now: UnixTime) -> Option<&'a str> {
        self.next_agent(now)
            .or_else(|| self.agents().find(|name| *name != self.agent()))
    }

    /// The user switches agents, at a gate or while the session waits.
    pub(crate) fn switch_agent(
        self,
        to: Option<&str>,
        by: &Actor,
        now: UnixTime,
    ) -> Result<Event, Refusal> {
        let from = self.agent().to_owned();
        let to = match to {
            Some(to) if to == from => return Err(Refusal::AgentWorksAlready(from)),
            Some(to) => self.agents().find(|name| *name == to).ok_or_else(|| {
                let known: Vec<String> = self
                    .agents()
                    .filter(|name| *name != from)
                    .map(str::to_owned)
                    .collect();
                if known.is_empty() {
                    Refusal::NoFallbackAgent
                } else {
                    Refusal::UnknownFallbackAgent {
                        agent: to.to_owned(),
                        known,
                    }
                }
            })?,
            None => self.another_agent(now).ok_or(Refusal::NoFallbackAgent)?,
        };
        Ok(Event::UsageLimit(UsageLimitEvent::AgentSwitched {
            from,
            to: to.to_owned(),
            reason: "the user switched agents".into(),
            until: None,
            by: Some(by.clone()),
        }))
    }

    /// Handles a command while the session waits for a reset.
    pub(crate) fn while_limited(
        self,
        step: impl FnOnce(&UsageLimitWait) -> Result<Event, Refusal>,
    ) -> EngineOutput {
        let Some(hold) = &self.limits.hold else {
            return EngineOutput::refuse(Refusal::NoUsageLimit);
        };
        let gate = self
            .gates
            .open
            .as_ref()
            .filter(|gate| gate.kind() == GateKind::UsageLimit);
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
        let stand_in = self.limits.stand_in.clone()?;
        let own = &self.plan.agent;
        (!self.limits.is_limited(own, now)).then(|| {
            let reason = format!("`{own}` can work again");
            EngineOutput::record(Event::UsageLimit(UsageLimitEvent::AgentSwitched {
                from: stand_in,
                to: own.clone(),
                reason,
                until: None,
                by: None,
            }))
        })
    }

    /// After a wait, another agent may be the one whose limit has reset.
    pub(crate) fn switch_after_wait(self, now: UnixTime) -> Option<EngineOutput> {
        let hold = self
            .limits
            .hold
            .as_ref()
            .filter(|hold| !hold.waits_for_user && now >= hold.until)?;
        if !self.limits.is_limited(&hold.agent, now) {
            return None;
        }
        let to = self.next_agent(now)?.to_owned();
        let reason = format!("`{to}` can work again");
        Some(EngineOutput::record(self.switched_to(&to, reason)))
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

/// The agent `to` takes over, and `from` is not used for a while.
fn switched(from: String, to: String, reason: String, now: UnixTime) -> Event {
    Event::UsageLimit(UsageLimitEvent::AgentSwitched {
        from,
        to,
        reason,
        until: Some(now.after(AGENT_PAUSE)),
        by: None,
    })
}
