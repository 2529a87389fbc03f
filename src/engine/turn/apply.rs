//! Applies the events of turns to the state.

use crate::engine::{
    budget::ConversationUsage,
    conversation::{ConversationMode, PermissionSource, StopReason},
    event::{AfterTurn, FinalDeliveryMode, IterationOutcome, PromptReason, PromptSent, TurnEvent},
    gate::proposal_rules::ProposalState,
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        side_jobs::BesideFailure,
    },
    pending::ItemState,
    policy::{MODEL, PermissionPolicy},
    protect::apply::{forbidden_changes, unseen_changes},
    retry::RetryWait,
    session::{SessionState, phase::Phase},
    stop::apply::{unseen, work_done},
    submit::apply::{gatekeeper_answered, keep_review_dispatch},
    time::{TimeSpan, UnixTime},
    turn::{DuePrompt, MODELS_NOTE, OfferedModels, REFUSED, SILENCE, SOME_MODELS_NOTE},
    usage_limit::without_handover,
    watch::apply::turn_of_a_watch_sent,
};

pub(crate) fn apply_turn(session: &mut SessionState, at: UnixTime, event: &TurnEvent) {
    session.turns.silent = matches!(event, TurnEvent::AgentNoted { what, .. } if what == SILENCE);
    match event {
        TurnEvent::PromptSent(prompt) => {
            session.account.turn_began = at;
            unseen_changes(session, prompt);
            prompt_sent(session, prompt);
        }
        TurnEvent::AgentSaid { text, .. } => session.turns.hear(text),
        TurnEvent::ToolCalled { tool, .. } => session.turns.act(tool),
        TurnEvent::ToolUpdated { tool, by_hook, .. } => {
            session.turns.follow(tool);
            if *by_hook || session.tool_hooks.reported(&tool.call).is_some() {
                session.tool_hooks.report(tool);
            }
        }
        // A gatekeeper has a conversation of its own.
        TurnEvent::AgentUsed { .. }
        | TurnEvent::ConversationOpened { .. }
        | TurnEvent::AgentNoted { .. }
            if session.phase.gatekeeper_works() => {}
        TurnEvent::AgentUsed { context, .. } => session.turns.context = Some(*context),
        TurnEvent::ConversationOpened {
            conversation, turn, ..
        } => {
            if session.turns.conversation.as_ref() != Some(conversation) {
                session.account.conversation = ConversationUsage::default();
                session.turns.own_model = None;
            }
            session.turns.conversation = Some(conversation.clone());
            session.turns.opened_in = Some(*turn);
            session.turns.context = None;
        }
        TurnEvent::PermissionAsked { ask, .. } => {
            if ask.source == PermissionSource::Hook {
                session.tool_hooks.ask_before(ask);
            }
            session.requests.waiting.push_back((**ask).clone());
        }
        TurnEvent::ToolDecided { ask, action, .. } => {
            let mut waiting = session.requests.waiting.iter();
            if let Some(known) = waiting.find(|known| known.ask == *ask) {
                let is_denied = *action == Some(PermissionPolicy::Deny);
                session.tool_hooks.answered(&known.tool.call, is_denied);
            }
            session.requests.waiting.retain(|known| known.ask != *ask);
            session.tool_hooks.forget_request(*ask);
        }
        TurnEvent::QuestionAnswered { ask, content, .. } => {
            let question = session.tool_hooks.take_answer(*ask);
            if let Some(question) = question.filter(|_| content.is_some()) {
                let unanswered = &mut session.requests.unanswered;
                unanswered.retain(|message| *message != question.message);
            }
        }
        TurnEvent::Cancelling { stopped_by, .. } => {
            session.requests.cancel();
            session.tool_hooks.forget_requests();
            let asks = stopped_by.as_deref().map(BesideFailure::stopped);
            session.side.failures.extend(asks);
        }
        TurnEvent::Ended {
            stop_reason,
            spent,
            work,
            forbidden,
            next,
            ..
        } => {
            session.account.book(at, *spent);
            // A reviewer's turn is measured like everything else that should change no files.
            if !session.phase.gatekeeper_works() {
                session.verify.turn_ended(work.as_deref());
            }
            work_done(session, work.as_deref());
            if *stop_reason == StopReason::EndTurn && !session.phase.gatekeeper_works() {
                let files = work
                    .as_deref()
                    .map(|work| &*work.files_modified)
                    .unwrap_or_default();
                session.limits.turn_ended(&session.turns.agent_text, files);
            }
            forbidden_changes(session, forbidden);
            session.requests.waiting.clear();
            session.tool_hooks.forget_requests();
            turn_stopped(session, *stop_reason, *next);
        }
        TurnEvent::Failed {
            error,
            cause,
            retry_after_ms,
            spent,
            work,
            forbidden,
            next,
            ..
        } => {
            session.account.book(at, *spent);
            session.turns.last_cause = *cause;
            forbidden_changes(session, forbidden);
            session.requests.waiting.clear();
            session.tool_hooks.forget_requests();
            if !session.phase.gatekeeper_works() {
                session.verify.turn_ended(work.as_deref());
            }
            if work.is_some() {
                work_done(session, work.as_deref());
            } else {
                session.iterations.activity.unknown_work = true;
                unseen(session);
            }
            if *next == Some(AfterTurn::Again) {
                send_again(session);
            } else {
                turn_failed(session, error, *retry_after_ms, *next);
            }
        }
        TurnEvent::AgentNoted { what, text, .. } if what == MODEL => {
            let turns = &mut session.turns;
            turns.model = Some(text.clone());
            turns.reported_model.clone_from(&turns.model);
            turns.own_model.get_or_insert_with(|| text.clone());
        }
        TurnEvent::AgentNoted { what, text, .. }
            if what == MODELS_NOTE || what == SOME_MODELS_NOTE =>
        {
            let offered = OfferedModels {
                names: text.lines().map(str::to_owned).collect(),
                is_complete: what == MODELS_NOTE,
            };
            let agent = session.agent_choice().agent().to_owned();
            session.turns.models.insert(agent, offered);
        }
        TurnEvent::AgentThought { .. }
        | TurnEvent::AgentPlanned { .. }
        | TurnEvent::AgentNoted { .. } => {}
    }
}

pub(crate) fn prompt_sent(session: &mut SessionState, prompt: &PromptSent) {
    session.turns.last = prompt.turn;
    session.proposal = ProposalState::default();
    session.side.chained = 0;
    if prompt.agent.is_none() {
        session.requests.unanswered.clear();
        session.limits.prompt_sent();
        if prompt.conversation == ConversationMode::New {
            (session.turns.reported_model, session.turns.own_model) = (None, None);
        }
        let reported = session.turns.reported_model.clone();
        session.turns.model = prompt.model.clone().or(reported);
    }
    session.turns.is_begun |= prompt.agent.is_none();
    session.turns.agent_text.clear();
    session.turns.acted_since = false;
    session.requests.next_turn();
    session.tool_hooks.next_turn();
    session.turns.ended_call = None;
    session.turns.ended_calls.clear();
    session.turns.prompt.clone_from(&prompt.text);
    session.turns.open_calls.clear();
    let again = is_sent_again(session, prompt);
    if !again && prompt.agent.is_none() && session.phase.held_prompt().is_none() {
        session.turns.read = None;
    }
    let by_person = session.steering.person_speaks_in(prompt.messages);
    if prompt.reason == PromptReason::Message && !by_person && !again {
        session.iterations.messages += 1;
    }
    // The items of a turn that a message replaces were not delivered.
    leave_turn(session);
    if prompt.reopens {
        session.ending = None;
        session.iterations.begin_work();
    }
    session
        .pending
        .set_state(&prompt.items, ItemState::InFlight);
    session.retry.wait = RetryWait::No;
    if prompt.reason == PromptReason::Gatekeeper {
        session.pipelines.gatekeeper_asked(prompt.conversation);
    }
    match prompt.reason {
        PromptReason::Iteration | PromptReason::FinalDelivery | PromptReason::News => {
            session.retry.reset();
        }
        PromptReason::Message if by_person => session.retry.reset(),
        PromptReason::Message
        | PromptReason::Feedback
        | PromptReason::Recovery
        | PromptReason::Remediation
        | PromptReason::Gatekeeper => {}
    }
    if prompt.reason != PromptReason::Gatekeeper {
        turn_of_a_watch_sent(session, prompt.reason, again);
    }
    session.phase = Phase::Turn(Box::new(prompt.clone()));
}

/// Whether a prompt is that of an interrupted turn.
pub(crate) fn is_sent_again(session: &SessionState, prompt: &PromptSent) -> bool {
    let read = session.turns.read.as_ref();
    if session.phase.held_prompt().is_some() {
        return read.is_some_and(|read| read.again);
    }
    let contains = |text: &str| prompt.text.contains(text);
    matches!(&session.phase, Phase::Due(DuePrompt::Again(before) | DuePrompt::Cancelled(before))
        if contains(&before.text) || read.is_some_and(|read| contains(without_handover(&read.text))))
}

fn turn_stopped(session: &mut SessionState, reason: StopReason, next: Option<AfterTurn>) {
    match reason {
        StopReason::Refusal => turn_failed(session, REFUSED, None, next),
        StopReason::Cancelled => turn_cancelled(session, next),
        StopReason::MaxTokens if session.phase.gatekeeper_works() => {
            gatekeeper_answered(
                session,
                Some("it ran into its token limit before it was done"),
            );
        }
        StopReason::MaxTurnRequests if session.phase.gatekeeper_works() => {
            gatekeeper_answered(
                session,
                Some("it used all the requests of its turn before it was done"),
            );
        }
        StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests => {
            turn_ended(session, next);
        }
    }
}

fn turn_ended(session: &mut SessionState, next: Option<AfterTurn>) {
    let (Some(prompt), Some(next)) = (session.phase.turn_that_ended(), next) else {
        return;
    };
    if next == AfterTurn::Review {
        return gatekeeper_answered(session, None);
    }
    session.turns.first = None;
    // A recovery that succeeds does not show whether the work progresses: it does not reset the
    // count.
    if prompt.reason != PromptReason::Recovery {
        session.retry.errors = 0;
    }
    session.pending.deliver(&prompt.items);
    session.steering.forget_messages(prompt.messages);
    if prompt.reason == PromptReason::Iteration {
        session.turns.next_prompt = None;
    }
    if let Some(ending) = &mut session.ending {
        // The approval does not cover items that arrive from now on.
        ending.approved = None;
        ending.deliveries += u32::from(prompt.reason == PromptReason::FinalDelivery);
    }
    session.phase = phase_after(next, prompt, None);
}

fn turn_cancelled(session: &mut SessionState, next: Option<AfterTurn>) {
    let (Some(prompt), Some(next)) = (session.phase.turn_that_ended(), next) else {
        return;
    };
    if next == AfterTurn::Review {
        return gatekeeper_answered(session, Some("it was cancelled"));
    }
    // The items of a turn that the user cancelled stay with it, because it may be sent again.
    let kept = if next == AfterTurn::Cancelled {
        ItemState::InFlight
    } else {
        ItemState::Pending
    };
    session.pending.set_state(&prompt.items, kept);
    if let Some(ending) = session
        .ending
        .as_mut()
        .filter(|_| next == AfterTurn::Delivery)
    {
        ending.delivery = FinalDeliveryMode::No;
    }
    session.phase = phase_after(next, prompt, None);
}

fn turn_failed(
    session: &mut SessionState,
    error: &str,
    retry_after: Option<TimeSpan>,
    next: Option<AfterTurn>,
) {
    let (Some(prompt), Some(next)) = (session.phase.turn_that_ended(), next) else {
        return;
    };
    if next == AfterTurn::Review {
        return gatekeeper_answered(session, Some(error));
    }
    session.pending.set_state(&prompt.items, ItemState::Pending);
    // A pipeline has its own count of repairs.
    if !session.pipelines.is_open() || session.pipelines.watch().is_some() {
        session.retry.errors += 1;
    }
    session.retry.wait = RetryWait::Due {
        nth: session.retry.errors,
        at_least: retry_after.unwrap_or_default(),
    };
    session.turns.last_error = Some(error.to_owned());
    session.phase = phase_after(next, prompt, Some(error));
}

fn phase_after(next: AfterTurn, prompt: Box<PromptSent>, error: Option<&str>) -> Phase {
    match next {
        AfterTurn::StopHooks => Phase::Hooks(HookDispatch::reached(
            HookPoint::Stop,
            DispatchCause::Lifecycle,
        )),
        AfterTurn::OnError => {
            let cause = DispatchCause::Error(error.unwrap_or_default().to_owned());
            Phase::Hooks(HookDispatch::reached(HookPoint::OnError, cause))
        }
        AfterTurn::Message => Phase::Due(DuePrompt::Message),
        AfterTurn::Again => Phase::Due(DuePrompt::Again(prompt)),
        AfterTurn::Cancelled => Phase::Due(DuePrompt::Cancelled(prompt)),
        AfterTurn::IterationFailed => Phase::Settled(IterationOutcome::Failed),
        AfterTurn::Pipeline | AfterTurn::Review => Phase::Pipeline,
        AfterTurn::Delivery => Phase::Delivering,
    }
}

/// The session leaves its phase. A prompt that was about to be sent is not sent, and a review
/// that was about to ask a gatekeeper keeps its dispatch, so that its run can be ended.
pub(crate) fn leave_turn(session: &mut SessionState) {
    keep_review_dispatch(session);
    if let Some(prompt) = session.phase.waiting_prompt() {
        session.pending.set_state(&prompt.items, ItemState::Pending);
    }
}

/// Schedules the turn that reached a usage limit again, without the handover to the agent that
/// reached it.
fn send_again(session: &mut SessionState) {
    let Some(mut prompt) = session.phase.turn_that_ended() else {
        return;
    };
    let text = without_handover(&prompt.text).to_owned();
    prompt.text = text;
    session.phase = Phase::Due(DuePrompt::Again(prompt));
}
