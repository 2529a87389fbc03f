//! Stores a turn's changes to paths that it must not change, and the user's answers about them.

use crate::engine::{
    conversation::ForbiddenChanges,
    event::PromptSent,
    gate::response::TamperedAnswer,
    hooks::point::HookPoint,
    session::{SessionState, phase::Phase},
    turn::DuePrompt,
    verify::CheckKind,
};

pub(crate) fn unseen_changes(session: &mut SessionState, prompt: &PromptSent) {
    // The changes of an interrupted turn are unknown: the iteration cannot settle.
    session.iterations.signs.unknown_work |= session.unsettled.unseen;
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
    if !reviews {
        session.unsettled.unseen = false;
        session.unsettled.protected.clone_from(&found.protected);
        if found.protected.is_empty() {
            session.verify.checks.retain(|run| run.check.kind != CheckKind::Protect);
        }
        // Stop hooks check the turns of an iteration; turns of a pipeline and of the final delivery have no other
        // check.
        session.unsettled.unjudged = session.ending.is_some() || session.pipelines.is_open();
    }
}

/// The user has seen the changes, whatever the answer.
pub(crate) fn changes_seen(session: &mut SessionState) {
    session.unsettled.tampered.clear();
    if session.unsettled.unjudged {
        session.unsettled.protected.clear();
    }
}

pub(crate) fn tampered_answered(session: &mut SessionState, answer: TamperedAnswer) {
    let at_stop = matches!(&session.phase, Phase::Hooks(dispatch) if dispatch.point == HookPoint::Stop);
    if answer == TamperedAnswer::Send && at_stop {
        session.phase = Phase::Due(DuePrompt::Message);
    }
}
