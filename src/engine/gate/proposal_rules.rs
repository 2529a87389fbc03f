//! The tasks that an agent proposes for the queue, at the gate where the user decides about them.
//!
//! Owns when the gate opens, the user's changes, and what was approved. What makes a proposal valid
//! is in [`crate::engine::queue::task_proposal`]. Does not queue tasks: `creel plan` does.
//!
//! # Invariants
//! - The gate opens only for a valid proposal, and only for a user that is present.
//! - A change is valid, and it is recorded before the answer: after a kill, the gate shows the
//!   changed tasks.
//! - A new prompt discards change and approval, because its answer is a new proposal.

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        event::{Actor, Event, GateEvent, SessionStarted, UserPresence},
        gate::{Gate, SessionGates, kind::GateChoice, subject::GateSubject},
        output::EngineOutput,
        queue::task_proposal::{ProposalMistake, ProposedTask, TaskProposal},
        refusal::Refusal,
        turn::TurnState,
    },
    text::{counted, some_names},
};

/// How many tasks the reason names.
const NAMED: usize = 10;
pub(crate) const EDITED: &str = "the changed proposal has";

/// What the user has done with the tasks that an agent proposes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalState {
    /// The tasks as the user has changed them.
    pub edited: Option<TaskProposal>,
    /// Whether the user has approved the tasks.
    pub is_approved: bool,
}

impl ProposalState {
    /// The proposed tasks: as the user has changed them, or else as the agent's answer has them.
    pub fn of_answer(&self, agent_text: &str) -> Result<TaskProposal, ProposalMistake> {
        self.edited
            .clone()
            .map_or_else(|| TaskProposal::in_answer(agent_text), Ok)
    }
}

/// The context in which a proposal becomes a gate.
#[derive(Debug, Clone, Copy)]
pub struct ProposalRules<'a> {
    pub(crate) began: &'a SessionStarted,
    pub(crate) presence: UserPresence,
    pub(crate) turns: &'a TurnState,
    pub(crate) gates: &'a SessionGates,
    pub(crate) proposal: &'a ProposalState,
}

impl ProposalRules<'_> {
    /// Opens the gate. None if the user has nothing to decide.
    pub(crate) fn ask(self) -> Option<EngineOutput> {
        let types = &self
            .began
            .plan
            .proposal
            .as_ref()
            .filter(|_| self.presence == UserPresence::Attended)?
            .types;
        let proposal = self.proposal.of_answer(&self.turns.agent_text).ok()?;
        let is_valid = proposal.mistakes(types).is_empty();
        is_valid.then(|| {
            let is_edited = self.proposal.edited.is_some();
            let reason = reason(
                if is_edited {
                    EDITED
                } else {
                    "the agent proposes"
                },
                &proposal.tasks,
            );
            self.gates
                .open_gate(GateSubject::Proposal(proposal), reason)
        })
    }

    /// The change that an answer carries. Other gates have none.
    pub(crate) fn edited(
        self,
        gate: &Gate,
        choice: GateChoice,
        by: &Actor,
        text: Option<&str>,
    ) -> Result<Option<Event>, Refusal> {
        let Some(before) = gate.subject.proposal() else {
            return Ok(None);
        };
        let text = text.filter(|text| !text.trim().is_empty());
        let text = match (choice, text) {
            (GateChoice::Approve | GateChoice::Edit, Some(text)) => text,
            (GateChoice::Edit, None) => {
                return Err(Refusal::BadProposal(vec![ProposalMistake::Empty]));
            }
            (_, _) => return Ok(None),
        };
        let proposal =
            TaskProposal::in_answer(text).map_err(|mistake| Refusal::BadProposal(vec![mistake]))?;
        let types = self
            .began
            .plan
            .proposal
            .as_ref()
            .map(|plan| plan.types.clone())
            .unwrap_or_default();
        let mistakes = proposal.mistakes(&types);
        if !mistakes.is_empty() {
            return Err(Refusal::BadProposal(mistakes));
        }
        let tasks = proposal.tasks;
        let event = || {
            Event::Gate(GateEvent::ProposalEdited {
                gate: gate.id,
                tasks: tasks.clone(),
                by: by.clone(),
                reason: Some(reason(EDITED, &tasks)),
            })
        };
        Ok((tasks != before.tasks).then(event))
    }

    /// What the agent reads of the user's message, with what it cannot know: the user's changes,
    /// and if it has no conversation, its own proposal and the request. Other gates add nothing.
    pub(crate) fn message(self, gate: &Gate, text: String) -> String {
        let Some(proposal) = gate.subject.proposal() else {
            return text;
        };
        let forgets = self.began.plan.agent_spec.forgets();
        let tasks = serde_json::to_string_pretty(proposal).unwrap_or_default();
        let tasks = match (self.proposal.edited.is_some(), forgets) {
            (true, _) => Some(format!(
                "This is about the proposal as the user has changed it:\n\n{tasks}"
            )),
            (false, true) => Some(format!("This is about your proposal:\n\n{tasks}")),
            (false, false) => None,
        };
        let request =
            forgets.then(|| format!("It was made for this request:\n\n{}", self.began.prompt));
        let form =
            "Answer with the whole proposal again, in the form that was asked for.".to_owned();
        [Some(text), tasks, request, Some(form)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n\n")
    }
}

pub(crate) fn reason(begins: &str, tasks: &[ProposedTask]) -> String {
    let names: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    format!(
        "{begins} {}: {}",
        counted(tasks.len(), "task"),
        some_names(&names, NAMED)
    )
}
