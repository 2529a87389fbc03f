//! What the user grants by continuing at a limit, decided once, before the answer is recorded.

use std::collections::BTreeMap;

use crate::{
    engine::{
        event::{CheckRunResult, GateGrants},
        gate::kind::{
            BudgetAnswer, EscalationAnswer, GateChoice, GateResponse, PipelineAnswer,
            ProposalAnswer, RetryLimitAnswer,
        },
        session::SessionState,
        verify::{CheckRef, rules::CheckStatus},
    },
    text::counted,
};

/// What this answer to the open gate grants. None if it grants nothing.
pub(crate) fn granted(session: &SessionState, choice: GateChoice) -> Option<GateGrants> {
    let answer = session.gates.open.as_ref()?.kind().response(choice)?;
    if answer == GateResponse::RetryLimit(RetryLimitAnswer::Continue) {
        Some(retries(session))
    } else if answer == GateResponse::Budget(BudgetAnswer::Continue) {
        let budgets = Some(session.account.next_grant(&session.plan().budget));
        Some(GateGrants {
            budgets,
            ..GateGrants::default()
        })
    } else if answer == GateResponse::RetryLimit(RetryLimitAnswer::Ignore) {
        let feedback = session
            .phase
            .dispatch()
            .and_then(|dispatch| session.retries().feedback(dispatch));
        let blocked = feedback
            .map(|feedback| feedback.blocked)
            .unwrap_or_default();
        Some(GateGrants {
            accepted: checks_named(session, |name| blocked.contains(name)),
            ..GateGrants::default()
        })
    } else if answer == GateResponse::Escalation(EscalationAnswer::Complete) {
        let rules = session.verification();
        // After `resume` the last result counts, as the gate shows it.
        let was_red = |check: &CheckRef| {
            session
                .verify
                .run_of(check)
                .is_some_and(|run| run.result != CheckRunResult::Passed)
        };
        let is_red = |check: &CheckRef| match rules.status(check) {
            CheckStatus::Failed(_) | CheckStatus::Broken(_) | CheckStatus::Accepted(_) => true,
            CheckStatus::Stale => was_red(check),
            CheckStatus::Passed | CheckStatus::Disabled => false,
        };
        let accepted = rules.counted().into_iter().filter(is_red).collect();
        Some(GateGrants {
            accepted,
            ..GateGrants::default()
        })
    } else if answer == GateResponse::Pipeline(PipelineAnswer::Skip) {
        let hook = session.gates.open.as_ref()?.subject.hook()?;
        let in_the_list = session
            .phase
            .dispatch()
            .is_some_and(|dispatch| dispatch.done.iter().any(|done| done.hook == hook));
        let accepted = if in_the_list {
            Vec::new()
        } else {
            checks_named(session, |name| name == hook)
        };
        Some(GateGrants {
            accepted,
            ..GateGrants::default()
        })
    } else if let GateResponse::Proposal(answer) = answer {
        let proposal = session.gates.open.as_ref()?.subject.proposal();
        let tasks = proposal.map_or(0, |proposal| proposal.tasks.len());
        let ending = match answer {
            ProposalAnswer::Approve => format!("the user approved {}", counted(tasks, "task")),
            ProposalAnswer::Leave => "the user queued none of the proposed tasks".to_owned(),
            ProposalAnswer::Send | ProposalAnswer::Edit => return None,
        };
        Some(GateGrants {
            ending: Some(ending),
            ..GateGrants::default()
        })
    } else {
        None
    }
}

fn checks_named(session: &SessionState, is_meant: impl Fn(&String) -> bool) -> Vec<CheckRef> {
    session
        .verification()
        .counted()
        .into_iter()
        .filter(|check| is_meant(&check.name))
        .collect()
}

/// Each limit that was reached is granted again, at least 1, or the grant would have no effect.
fn retries(session: &SessionState) -> GateGrants {
    let (rules, used) = (session.retries(), session.retry.used);
    let feedback = session
        .phase
        .dispatch()
        .and_then(|dispatch| rules.feedback(dispatch));
    let hooks: BTreeMap<String, u32> = feedback
        .iter()
        .flat_map(|feedback| &feedback.blocked)
        .filter(|hook| rules.own_limit(hook).is_some_and(|limit| limit <= used))
        .filter_map(|hook| Some((hook.clone(), rules.own_retries(hook)?.max(1))))
        .collect();
    let max = session.plan().max_hook_retries;
    let whole_session = hooks.is_empty() || session.retry.limit(max) <= used;
    GateGrants {
        retries: whole_session.then_some(max.max(1)),
        hooks,
        ..GateGrants::default()
    }
}
