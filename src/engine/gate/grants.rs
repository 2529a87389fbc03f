//! What the user grants by continuing at a limit, decided once, before the answer is recorded.

use std::collections::BTreeMap;

use crate::engine::{
    event::GateGrants,
    gate::{
        kind::GateChoice,
        response::{BudgetAnswer, GateResponse, RetryLimitAnswer},
    },
    session::SessionState,
};

/// What this answer to the open gate grants. None if it grants nothing.
pub(crate) fn granted(session: &SessionState, choice: GateChoice) -> Option<GateGrants> {
    let answer = session.gates.open.as_ref()?.kind().response(choice)?;
    if answer == GateResponse::RetryLimit(RetryLimitAnswer::Continue) {
        Some(retries(session))
    } else if answer == GateResponse::Budget(BudgetAnswer::Continue) {
        let budgets = Some(session.account.next_grant(&session.plan().budget));
        Some(GateGrants { budgets, ..GateGrants::default() })
    } else {
        None
    }
}

/// Each limit that was reached is granted again, at least 1, or the grant would have no effect.
fn retries(session: &SessionState) -> GateGrants {
    let (rules, used) = (session.retries(), session.retry.used);
    let feedback = session.phase.dispatch().and_then(|dispatch| rules.feedback(dispatch));
    let hooks: BTreeMap<String, u32> = feedback
        .iter()
        .flat_map(|feedback| &feedback.blocked)
        .filter(|hook| rules.own_limit(hook).is_some_and(|limit| limit <= used))
        .filter_map(|hook| Some((hook.clone(), rules.own_retries(hook)?.max(1))))
        .collect();
    let max = session.plan().max_hook_retries;
    let whole_session = hooks.is_empty() || session.retry.limit(max) <= used;
    GateGrants { retries: whole_session.then_some(max.max(1)), hooks, budgets: None }
}
