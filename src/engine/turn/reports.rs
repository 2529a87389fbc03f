//! Turns the agent's updates and the end of its turn into records.

use crate::engine::{
    actor::POLICY,
    conversation::{AgentUpdate, StopReason, ToolCall, ToolStatus, TurnEnd, TurnFailure},
    event::{Event, TurnEvent},
    gate::SessionGates,
    hooks::tool_hooks::ToolRules,
    ids::TurnId,
    output::EngineOutput,
    permission::rules::is_part_of,
    refusal::Refusal,
    session::phase::Phase,
    time::UnixTime,
    turn::{AfterTurnRules, TurnState},
    usage_limit::{AgentChoice, Obstructed},
};

/// Shown as the output of a tool call that ended with its turn.
pub(in crate::engine) const CUT_OFF: &str = "interrupted with the turn";

pub(crate) const UNTOLD: &str = "the agent ended its turn without a result for this call";

/// A warning for a turn that ended before the agent was done.
pub(crate) fn cut_short(stop_reason: StopReason) -> Option<&'static str> {
    match stop_reason {
        StopReason::EndTurn | StopReason::Cancelled | StopReason::Refusal => None,
        StopReason::MaxTokens => Some(
            "the agent reached its token limit in the middle of its work. creel evaluates the turn as it is. Give the \
             agent smaller tasks, or raise the limit in its own settings",
        ),
        StopReason::MaxTurnRequests => Some(
            "the agent reached its limit of requests per turn. creel evaluates the turn as it is. Give the agent \
             smaller tasks, or raise the limit in its own settings",
        ),
    }
}

#[derive(Debug, Clone, Copy)]
pub struct TurnRules<'a> {
    pub(crate) phase: &'a Phase,
    pub(crate) turns: &'a TurnState,
    pub(crate) gates: &'a SessionGates,
    pub(crate) agent_choice: AgentChoice<'a>,
    pub(crate) tool_rules: ToolRules<'a>,
    pub(crate) after: AfterTurnRules<'a>,
}

impl TurnRules<'_> {
    pub(crate) fn on_agent(self, turn: TurnId, update: AgentUpdate) -> EngineOutput {
        let Some(iteration) = self.phase.awaited(turn) else {
            return EngineOutput::stale(turn);
        };
        let tools = self.tool_rules.tools;
        let update = if let AgentUpdate::ToolCalled(tool) | AgentUpdate::ToolUpdated(tool) = &update
            && tools.reported(&tool.call).is_some()
        {
            match tools.more_about(tool.clone()) {
                Some(more) => AgentUpdate::ToolUpdated(more),
                None => return EngineOutput::default(),
            }
        } else {
            update
        };
        let ended = match &update {
            // What the agent says about a call whose end its hook has reported includes the end.
            AgentUpdate::ToolCalled(tool) | AgentUpdate::ToolUpdated(tool) => {
                let due = self.tool_rules.of_ended_call(iteration, tool);
                due.filter(|_| !self.is_part_of_a_call(tool))
            }
            AgentUpdate::Message(_)
            | AgentUpdate::Thought(_)
            | AgentUpdate::Planned(_)
            | AgentUpdate::Used(_)
            | AgentUpdate::Opened(_)
            | AgentUpdate::Noted { .. }
            | AgentUpdate::Warned(_) => None,
        };
        let step = EngineOutput::record(match update {
            AgentUpdate::Message(text) => Event::Turn(TurnEvent::AgentSaid {
                iteration,
                turn,
                text,
            }),
            AgentUpdate::Thought(text) => Event::Turn(TurnEvent::AgentThought {
                iteration,
                turn,
                text,
            }),
            AgentUpdate::ToolCalled(tool) => Event::Turn(TurnEvent::ToolCalled {
                iteration,
                turn,
                tool,
            }),
            AgentUpdate::ToolUpdated(tool) => Event::Turn(TurnEvent::ToolUpdated {
                iteration,
                turn,
                tool,
                by_hook: false,
            }),
            AgentUpdate::Planned(entries) => Event::Turn(TurnEvent::AgentPlanned {
                iteration,
                turn,
                entries,
            }),
            AgentUpdate::Used(context) => Event::Turn(TurnEvent::AgentUsed {
                iteration,
                turn,
                context,
            }),
            AgentUpdate::Opened(conversation) => Event::Turn(TurnEvent::ConversationOpened {
                iteration,
                turn,
                conversation,
            }),
            AgentUpdate::Noted { what, text } => Event::Turn(TurnEvent::AgentNoted {
                iteration,
                turn,
                what,
                text,
            }),
            AgentUpdate::Warned(text) => Event::warning(text),
        });
        ended.into_iter().fold(step, EngineOutput::and)
    }

    /// Whether creel did it for a call that is still open: the hooks after it run when that call ends.
    fn is_part_of_a_call(self, tool: &ToolCall) -> bool {
        let mut open = self.turns.open_calls.values();
        let cwd = self.tool_rules.cwd;
        tool.served && open.any(|call| !call.served && is_part_of(tool, call, cwd))
    }

    /// The hook that creel added to the agent reports the end of a call that the agent has begun. The
    /// agent's own report counts more: this one only adds an output to it, and what the agent reports
    /// later corrects this one. The agent's shell could run the hook, too.
    pub(crate) fn on_tool_ended(self, call: ToolCall) -> EngineOutput {
        let Some(prompt) = self.phase.turn_in_flight() else {
            return EngineOutput::refuse(Refusal::NoTurn);
        };
        let (iteration, turn) = (prompt.iteration, prompt.turn);
        let tools = self.tool_rules.tools;
        let adds_output = |known: &&ToolCall| {
            known.call == call.call && known.output.is_none() && call.output.is_some()
        };
        let ended = self.turns.ended_call.as_ref().filter(adds_output);
        // The agent has reported it already.
        let is_known = tools.reported(&call.call).is_some() || self.turns.has_ended(&call.call);
        if is_known && ended.is_none() {
            return EngineOutput::default();
        }
        let open = self.turns.open_calls.get(&call.call);
        let status = ended.map_or(call.status, |known| known.status);
        let Some(begun) = open.or(ended).cloned() else {
            return EngineOutput::default();
        };
        let tool = ToolCall {
            status,
            output: call.output.or(begun.output),
            input: begun.input.or(call.input),
            ..begun
        };
        let hooks = self.tool_rules.of_ended_call(iteration, &tool);
        let step = EngineOutput::record(Event::Turn(TurnEvent::ToolUpdated {
            iteration,
            turn,
            tool,
            by_hook: true,
        }));
        hooks.into_iter().fold(step, EngineOutput::and)
    }

    pub(crate) fn on_turn_ended(self, turn: TurnId, end: TurnEnd) -> EngineOutput {
        let Some(iteration) = self.phase.awaited(turn) else {
            return EngineOutput::stale(turn);
        };
        let TurnEnd {
            stop_reason,
            spent,
            work,
            forbidden,
        } = end;
        let (status, why) = match stop_reason {
            StopReason::EndTurn => (ToolStatus::Completed, UNTOLD),
            StopReason::MaxTokens
            | StopReason::MaxTurnRequests
            | StopReason::Refusal
            | StopReason::Cancelled => (ToolStatus::Failed, CUT_OFF),
        };
        let closed = self
            .close_calls(status, why)
            .fold(self.gates.unasked(&POLICY), EngineOutput::and);
        let step = closed.and(Event::Turn(TurnEvent::Ended {
            iteration,
            turn,
            stop_reason,
            spent,
            work,
            forbidden,
            next: self.after.ended(stop_reason),
        }));
        let step = self
            .tool_rules
            .cancel_requests()
            .fold(step, EngineOutput::then);
        // The review itself reports that it was cut short.
        match cut_short(stop_reason).filter(|_| !self.phase.gatekeeper_works()) {
            Some(why) => step.and(Event::warning(why)),
            None => step,
        }
    }

    pub(crate) fn on_turn_failed(
        self,
        turn: TurnId,
        failure: TurnFailure,
        now: UnixTime,
    ) -> EngineOutput {
        let Some(iteration) = self.phase.awaited(turn) else {
            return EngineOutput::stale(turn);
        };
        let TurnFailure {
            message: error,
            cause,
            retry_after: retry_after_ms,
            limit,
            silent,
            spent,
            forbidden,
            work,
        } = failure;
        let closed = self
            .close_calls(ToolStatus::Failed, CUT_OFF)
            .fold(self.gates.unasked(&POLICY), EngineOutput::and);
        let limit = limit.filter(|_| !self.phase.gatekeeper_works());
        let reviews = self.phase.gatekeeper_works();
        let Obstructed {
            mut events,
            resends: mut usage_limit,
        } = limit
            .map(|limit| self.agent_choice.reached_limit(limit, now))
            .unwrap_or_default();
        // What the server asks for was decided above, and no wait is longer than the user allows.
        let retry_after_ms = retry_after_ms.filter(|_| usage_limit || limit.is_none());
        let retry_after_ms =
            retry_after_ms.map(|wait| wait.min(self.agent_choice.plan.limits.max_wait));
        if !usage_limit && !reviews {
            let usage_limit_event = self.agent_choice.after_failure(&error, now);
            usage_limit = usage_limit_event.is_some();
            let silent = silent && usage_limit_event.is_none();
            events.extend(usage_limit_event.or_else(|| {
                silent
                    .then(|| self.agent_choice.after_silence(now))
                    .flatten()
            }));
        }
        let forbidden = *forbidden;
        let failed = Event::Turn(TurnEvent::Failed {
            iteration,
            turn,
            error,
            cause,
            retry_after_ms,
            usage_limit,
            spent,
            work,
            forbidden,
            next: self.after.failed(usage_limit),
        });
        let step = events
            .into_iter()
            .fold(closed.and(failed), EngineOutput::and);
        self.tool_rules
            .cancel_requests()
            .fold(step, EngineOutput::then)
    }

    /// Ends every open tool call of the current turn: no call outlives its turn.
    pub(crate) fn close_calls(
        self,
        status: ToolStatus,
        why: &'static str,
    ) -> impl Iterator<Item = Event> {
        let calls = self
            .phase
            .turn_in_flight()
            .map(|prompt| (prompt.iteration, prompt.turn, &self.turns.open_calls));
        calls.into_iter().flat_map(move |(iteration, turn, calls)| {
            calls.values().map(move |call| {
                let output = call.output.clone().or_else(|| Some(why.to_owned()));
                Event::Turn(TurnEvent::ToolUpdated {
                    iteration,
                    turn,
                    tool: ToolCall {
                        status,
                        output,
                        ..call.clone()
                    },
                    by_hook: false,
                })
            })
        })
    }
}
