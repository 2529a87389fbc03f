//! The proposed tasks of a gate in the editor.

use crate::{
    engine::{
        gate::{Gate, kind::GateChoice},
        ids::GateId,
        input::{GateAnswer, SessionCommand},
    },
    present::proposals::{ProposalFormError, as_yaml, read_form, with_mistakes},
    tui::model::ScreenModel,
};

/// The tasks as the editor shows them.
pub(super) fn form(gate: &Gate) -> String {
    gate.subject
        .proposal()
        .map(|proposal| as_yaml(&proposal.tasks))
        .unwrap_or_default()
}

/// The command that changes the tasks.
pub(super) fn edited(gate: GateId, text: &str) -> Result<SessionCommand, ProposalFormError> {
    let proposal = read_form(text)?;
    let text =
        serde_json::to_string(&proposal).map_err(|error| ProposalFormError(error.to_string()))?;
    Ok(SessionCommand::AnswerGate(GateAnswer {
        gate,
        choice: GateChoice::Edit,
        text: Some(text),
        items: None,
    }))
}

/// The text with its mistakes in the first lines. None if it has none.
pub(super) fn corrected(model: &ScreenModel, text: &str) -> Option<String> {
    let plan = model
        .session
        .as_ref()
        .and_then(|state| state.plan().proposal.as_ref());
    let types = plan.map(|plan| plan.types.clone()).unwrap_or_default();
    let mistakes = match read_form(text) {
        Ok(proposal) => proposal
            .mistakes(&types)
            .iter()
            .map(ToString::to_string)
            .collect(),
        Err(error) => vec![error.to_string()],
    };
    (!mistakes.is_empty()).then(|| with_mistakes(text, &mistakes))
}
