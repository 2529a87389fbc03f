//! Stores changes of proposed tasks, and carries out the answer about them.

use super::proposal_rules::{EDITED, reason};
use crate::{
    engine::{
        event::SessionOutcome,
        gate::{Gate, response::ProposalAnswer, subject::GateSubject},
        hooks::apply::hold_what_stop_hooks_piped,
        queue::task_proposal::{ProposedTask, TaskProposal},
        session::{
            SessionState,
            phase::{LoopEnd, Phase},
        },
        turn::DuePrompt,
    },
    text::counted,
};

pub(crate) fn proposal_edited(session: &mut SessionState, tasks: &[ProposedTask]) {
    let proposal = TaskProposal {
        tasks: tasks.to_vec(),
    };
    if let Some(gate) = session
        .gates
        .open
        .as_mut()
        .filter(|gate| gate.subject.proposal().is_some())
    {
        gate.reason = reason(EDITED, tasks);
        gate.subject = GateSubject::Proposal(proposal.clone());
    }
    session.proposal.edited = Some(proposal);
}

pub(crate) fn proposal_answered(session: &mut SessionState, answer: ProposalAnswer, gate: Gate) {
    match answer {
        ProposalAnswer::Approve => {
            session.proposal.is_approved = true;
            let approved = counted(
                gate.subject
                    .proposal()
                    .map_or(0, |proposal| proposal.tasks.len()),
                "task",
            );
            complete(session, &format!("the user approved {approved}"));
        }
        ProposalAnswer::Leave => complete(session, "the user queued none of the proposed tasks"),
        ProposalAnswer::Send => {
            hold_what_stop_hooks_piped(session);
            session.phase = Phase::Due(DuePrompt::Message);
        }
        // A change has a record of its own, and the gate stays open.
        ProposalAnswer::Edit => session.gates.open = Some(gate),
    }
}

fn complete(session: &mut SessionState, reason: &str) {
    hold_what_stop_hooks_piped(session);
    session.phase = Phase::Exit(LoopEnd::offering(SessionOutcome::Complete, reason));
}
