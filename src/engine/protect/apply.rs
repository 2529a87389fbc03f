//! Stores a turn's changes to paths that it must not change, and the user's answers about them.

use crate::engine::{
    conversation::ForbiddenChanges,
    event::PromptSent,
    gate::kind::{GateResponse, TamperedAnswer},
    hooks::point::HookPoint,
    protect::PROTECT,
    session::{SessionState, phase::Phase},
    turn::DuePrompt,
    verify::{CheckAcceptance, CheckKind, CheckRef, test_guard::TestComparison},
};

pub(crate) fn unseen_changes(session: &mut SessionState, prompt: &PromptSent) {
    // The changes of an interrupted turn are unknown: the iteration cannot settle.
    session.iterations.activity.unknown_work |= session.unsettled.unseen;
    session.unsettled.unseen |= prompt.agent.is_none();
}

/// Records the changes of a turn. A gatekeeper's turn is not checked for protected paths.
pub(crate) fn forbidden_changes(session: &mut SessionState, found: &ForbiddenChanges) {
    let reviews = session.phase.gatekeeper_works();
    for name in &found.tampered {
        if !session.unsettled.tampered.contains(name) {
            session.unsettled.tampered.push(name.clone());
        }
    }
    session.unsettled.between = false;
    session.unsettled.unchecked.clone_from(&found.unchecked);
    if !reviews {
        session.unsettled.undo = false;
        session.unsettled.unseen = false;
        session.unsettled.asked = false;
        session.unsettled.protected.clone_from(&found.protected);
        // What was accepted is what later turns are compared with, so they cannot show that it was
        // undone.
        if found.protected.is_empty() {
            session
                .verify
                .checks
                .retain(|run| run.check.kind != CheckKind::Protect || run.accepted.is_some());
        }
        // Stop hooks check the turns of an iteration; turns of a pipeline and of the final delivery
        // have no other check.
        session.unsettled.unjudged = session.ending.is_some() || session.pipelines.is_open();
    }
}

/// Records changes while no turn was in progress.
pub(crate) fn changes_between(session: &mut SessionState, found: &ForbiddenChanges) {
    session.unsettled.between = true;
    session.unsettled.asked = false;
    session
        .unsettled
        .tampered
        .extend(found.tampered.iter().cloned());
    session.unsettled.unchecked.clone_from(&found.unchecked);
}

/// Keeps the findings about tests, and those that the user decides about.
pub(crate) fn tests_compared(session: &mut SessionState, found: &TestComparison) {
    session.verify.tests.last = Some((session.verify.version, found.clone()));
    session.unsettled.tests = if found.asks {
        session.unsettled.asked = false;
        found.findings.clone()
    } else {
        Vec::new()
    };
}

/// The gate about the changes has an answer. Only the user's `ignore` accepts protected paths that
/// no stop hook checks. If the session ends here, it asks again when it is resumed.
pub(crate) fn changes_answered(
    session: &mut SessionState,
    answer: GateResponse,
    acceptance: CheckAcceptance,
) {
    let unjudged = session.unsettled.unjudged && !session.unsettled.protected.is_empty();
    let GateResponse::Tampered(answer) = answer else {
        session.unsettled.asked = true;
        return;
    };
    let tampered = !std::mem::take(&mut session.unsettled.tampered).is_empty();
    let unchecked = !std::mem::take(&mut session.unsettled.unchecked).is_empty();
    let weakened = std::mem::take(&mut session.unsettled.tests);
    match answer {
        TamperedAnswer::Ignore => session.verify.tests.accepted.extend(weakened),
        // The answer can change nothing: creel compares again all the same.
        TamperedAnswer::Send => session.verify.tests.last = None,
    }
    match answer {
        TamperedAnswer::Ignore if unjudged || unchecked => {
            session
                .verify
                .accept(&CheckRef::new(CheckKind::Protect, PROTECT), acceptance);
            session.unsettled.blind |= unchecked;
            if unjudged {
                session.unsettled.protected.clear();
            }
        }
        TamperedAnswer::Ignore => {}
        TamperedAnswer::Send => {
            session.unsettled.undo = tampered;
            session.unsettled.asked = unjudged;
        }
    }
}

pub(crate) fn tampered_answered(session: &mut SessionState, answer: TamperedAnswer) {
    let at_stop =
        matches!(&session.phase, Phase::Hooks(dispatch) if dispatch.point == HookPoint::Stop);
    if answer == TamperedAnswer::Send && at_stop {
        session.phase = Phase::Due(DuePrompt::Message);
    }
}
