//! Stores the open gate, and carries out its answer.

use crate::engine::{
    event::{Actor, ActorKind, FinalDeliveryMode, GateEvent, IterationOutcome, SessionOutcome},
    gate::{
        Gate,
        event::GateGrants,
        kind::{
            BrokenHookAnswer, BudgetAnswer, DeliveryAnswer, ErrorsAnswer, EscalationAnswer,
            GateChoice, GateKind, GateResponse, ProposalAnswer, RetryLimitAnswer,
        },
        subject::{GateSubject, RecordedSubject},
    },
    hooks::{
        apply::queue_unsent_output,
        dispatch::{DispatchQuestion, HookDispatch},
    },
    protect::apply::{changes_answered, tampered_answered},
    queue::task_proposal::{ProposedTask, TaskProposal},
    session::{
        SessionState,
        phase::{AskedGate, LoopEnd, Phase},
    },
    stop::apply::looked_at,
    submit::apply::pipeline_answered,
    time::UnixTime,
    turn::{DuePrompt, apply::leave_turn},
    usage_limit::apply::limit_answered_by_user,
    verify::CheckAcceptance,
};

pub(crate) fn apply_gate(session: &mut SessionState, at: UnixTime, event: &GateEvent) {
    match event {
        GateEvent::Opened {
            gate,
            about,
            reason,
            hook,
            run,
            point,
            items,
            ask,
            choices,
            tasks,
        } => {
            session.gates.last = *gate;
            // Journals of earlier versions do not name the run.
            let run = run.or_else(|| session.side.next_failure_of(hook.as_deref()?, *about));
            let data = RecordedSubject {
                hook: hook.as_deref(),
                run,
                point: *point,
                items,
                ask: *ask,
                tasks,
            };
            let (subject, reason, choices) = (
                GateSubject::recorded(*about, &data),
                reason.clone(),
                choices.clone(),
            );
            session.gates.open = Some(Gate {
                id: *gate,
                subject,
                reason,
                choices,
                opened: at,
            });
        }
        GateEvent::ProposalEdited { tasks, reason, .. } => {
            proposal_edited(session, tasks, reason.as_deref().unwrap_or_default());
        }
        GateEvent::Answered {
            choice, by, grants, ..
        } => {
            let grants = grants.as_deref().cloned().unwrap_or_default();
            gate_answered(session, at, *choice, by, &grants);
        }
    }
}

fn gate_answered(
    session: &mut SessionState,
    at: UnixTime,
    choice: GateChoice,
    by: &Actor,
    grants: &GateGrants,
) {
    let Some(gate) = session.gates.open.take() else {
        return;
    };
    let Some(answer) = gate.kind().response(choice) else {
        return;
    };
    let acceptance = CheckAcceptance {
        retries: session.retry.used,
        by_policy: matches!(by.by, ActorKind::Policy | ActorKind::Timeout),
    };
    if gate.subject == GateSubject::Tampered {
        changes_answered(session, answer, acceptance);
    }
    if answer == GateResponse::End(SessionOutcome::Escalated) {
        leave_at_gate(session, gate);
        return;
    }
    let of_a_loop = session.phase.is_of_a_loop(&gate);
    if of_a_loop {
        session.stop.blocked = session
            .stop
            .escalated
            .take()
            .map(|(_, task, _)| task)
            .into_iter()
            .collect();
    }
    let beside = session.side.asked(gate.subject.run(), answer);
    for check in &grants.accepted {
        session.verify.accept(check, acceptance);
    }
    match answer {
        GateResponse::End(outcome) => {
            leave_turn(session);
            session.verify.pass = None;
            session.phase.exit(outcome, &gate.reason);
        }
        GateResponse::Delivery(DeliveryAnswer::Approve | DeliveryAnswer::Skip) => {
            delivery_answered(session, &gate);
        }
        GateResponse::RetryLimit(answer) => limit_answered(session, answer, &gate.reason, grants),
        GateResponse::Escalation(EscalationAnswer::Complete) => {
            leave_turn(session);
            queue_unsent_output(session);
            session.verify.pass = None;
            session.phase = Phase::Exit(LoopEnd::offering(
                SessionOutcome::Complete,
                "you accepted the work",
            ));
        }
        // What the main line does next is not about a hook beside it.
        GateResponse::Escalation(EscalationAnswer::Continue | EscalationAnswer::Message)
            if beside => {}
        GateResponse::Escalation(EscalationAnswer::Continue | EscalationAnswer::Message) => {
            if matches!(session.phase, Phase::Escalated(_)) {
                // A question of the last turn, after the loop, leads back into the loop.
                session.ending = None;
                session.phase = Phase::Between;
                looked_at(session);
            } else if of_a_loop {
                looked_at(session);
            } else if answer == GateResponse::Escalation(EscalationAnswer::Message)
                && session.message_replaces_prompt()
                && let Some(held) = session.phase.held_prompt()
            {
                // Your message is sent instead, and the held prompt is not. What hooks gave for it
                // is not lost.
                session.steering.replace_messages(held.messages);
                queue_unsent_output(session);
                leave_turn(session);
                session.phase = Phase::Due(DuePrompt::Message);
            } else {
                session.phase.ask_once(DispatchQuestion::Escalation);
            }
        }
        GateResponse::Errors(ErrorsAnswer::Continue | ErrorsAnswer::Send) => {
            session.retry.errors = 0;
        }
        GateResponse::BrokenHook(BrokenHookAnswer::Retry) if !beside => {
            session
                .phase
                .run_again(gate.subject.hook().unwrap_or_default());
        }
        // The hook's own record disables it, and a task's hook is queued again above.
        GateResponse::BrokenHook(BrokenHookAnswer::Retry | BrokenHookAnswer::Disable) => {}
        GateResponse::Permission(choice) => {
            let agent = session.permissions().asking_agent().to_owned();
            // The next prompt goes to the session's agent, not to the reviewer that asked.
            let of_session = session
                .phase
                .gatekeeper_works()
                .then(|| session.requests.unanswered.clone());
            if let Some(ask) = session.requests.waiting.front() {
                let is_denied = choice.denies();
                session.tool_hooks.answered(&ask.tool.call, is_denied);
            }
            session.requests.answered(choice, &agent, by);
            if let Some(of_session) = of_session {
                session.requests.unanswered = of_session;
            }
        }
        GateResponse::UsageLimit(answer) => limit_answered_by_user(session, at, answer),
        GateResponse::Budget(BudgetAnswer::Continue) => session.account.grant(grants.budgets),
        GateResponse::Budget(BudgetAnswer::Stop) => {
            leave_turn(session);
            budget_stopped(session, by, &gate);
        }
        GateResponse::Tampered(answer) => tampered_answered(session, answer),
        GateResponse::Pipeline(answer) => pipeline_answered(session, answer, by, &gate),
        GateResponse::Proposal(answer) => {
            proposal_answered(session, answer, gate, grants.ending.as_deref());
        }
    }
}

/// No user is there to answer. The session ends, and what the gate is about waits for `resume`.
fn leave_at_gate(session: &mut SessionState, gate: Gate) {
    let reason = gate.reason.clone();
    let (phase, pass, in_iteration) = (
        session.phase.clone(),
        session.verify.pass.take(),
        session.iterations.open,
    );
    let pipeline_run = session.pipelines.pipeline_run.clone();
    leave_turn(session);
    let asked = Some(Box::new(AskedGate {
        gate,
        phase,
        pass,
        in_iteration,
        pipeline_run,
    }));
    session.phase = Phase::Exit(LoopEnd {
        asked,
        ..LoopEnd::undelivered(SessionOutcome::Escalated, &reason)
    });
}

/// The answer covers only the items that the user has seen, not those added while the gate was
/// open.
fn delivery_answered(session: &mut SessionState, gate: &Gate) {
    let items = gate.subject.items();
    if let Some(watch) = session
        .pipelines
        .watch_mut()
        .filter(|_| gate.kind() == GateKind::Review)
    {
        watch.seen = items.to_vec();
    } else if gate.kind() == GateKind::FinalDelivery {
        let approved = session
            .pending
            .waiting_ids()
            .into_iter()
            .filter(|id| items.contains(id))
            .collect();
        if let Some(ending) = &mut session.ending {
            ending.approved = Some(approved);
            ending.seen = items.to_vec();
        }
    } else if let Phase::Hooks(dispatch) = &mut session.phase {
        dispatch.seen = items.to_vec();
    }
}

fn limit_answered(
    session: &mut SessionState,
    answer: RetryLimitAnswer,
    reason: &str,
    grants: &GateGrants,
) {
    match answer {
        RetryLimitAnswer::Ignore => {
            session.iterations.forced_past = Some(reason.to_owned());
            session.unsettled.accept_protected();
            queue_unsent_output(session);
            let after_the_loop = session.ending.is_some();
            session.phase = if after_the_loop {
                Phase::Delivering
            } else {
                Phase::Settled(IterationOutcome::Forced)
            };
        }
        RetryLimitAnswer::Send => {
            queue_unsent_output(session);
            session.phase = Phase::Due(DuePrompt::Message);
        }
        RetryLimitAnswer::Continue => {
            session.retry.grant(grants);
            session.phase.forget_limit();
            // The user may have repaired the work before `resume`.
            if let Phase::Hooks(dispatch) = &mut session.phase
                && session.verify.is_stale(&dispatch.done)
            {
                *dispatch = HookDispatch::reached(dispatch.point, dispatch.cause.clone());
            }
        }
        // Without the hook the turn is judged again.
        RetryLimitAnswer::Disable => session.phase.forget_limit(),
    }
}

/// An actor answered `stop` at the gate. A submit or a merge is left as it is. A loop that is still
/// running ends here; after the loop, only the end of the session is left.
fn budget_stopped(session: &mut SessionState, by: &Actor, gate: &Gate) {
    if let Some(ending) = &mut session.ending {
        ending.delivery = FinalDeliveryMode::No;
    }
    if let Some(pipeline_run) = &mut session.pipelines.pipeline_run {
        pipeline_run.left = Some((by.clone(), gate.reason.clone()));
    } else if session.ending.is_some() {
        session.phase = Phase::Delivering;
    } else {
        session.phase = Phase::Exit(LoopEnd::undelivered(SessionOutcome::Limit, &gate.reason));
    }
}

fn proposal_edited(session: &mut SessionState, tasks: &[ProposedTask], reason: &str) {
    let proposal = TaskProposal {
        tasks: tasks.to_vec(),
    };
    let gate = session.gates.open.as_mut();
    if let Some(gate) = gate.filter(|gate| gate.subject.proposal().is_some()) {
        reason.clone_into(&mut gate.reason);
        gate.subject = GateSubject::Proposal(proposal.clone());
    }
    session.proposal.edited = Some(proposal);
}

fn proposal_answered(
    session: &mut SessionState,
    answer: ProposalAnswer,
    gate: Gate,
    ending: Option<&str>,
) {
    session.proposal.is_approved |= answer == ProposalAnswer::Approve;
    match answer {
        ProposalAnswer::Approve | ProposalAnswer::Leave => {
            queue_unsent_output(session);
            let reason = ending.unwrap_or_default();
            session.phase = Phase::Exit(LoopEnd::offering(SessionOutcome::Complete, reason));
        }
        ProposalAnswer::Send => {
            queue_unsent_output(session);
            session.phase = Phase::Due(DuePrompt::Message);
        }
        // A change has a record of its own, and the gate stays open.
        ProposalAnswer::Edit => session.gates.open = Some(gate),
    }
}
