//! What the user has done with the tasks that an agent proposes.

use serde::{Deserialize, Serialize};

use crate::engine::queue::task_proposal::{ProposalMistake, TaskProposal};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalState {
    /// The tasks as the user has changed them.
    pub edited: Option<TaskProposal>,
    /// Whether the user has approved the tasks.
    pub is_approved: bool,
}

impl ProposalState {
    /// The proposed tasks: as the user has changed them, or else as the agent's answer has them.
    pub fn of_answer(&self, said: &str) -> Result<TaskProposal, ProposalMistake> {
        self.edited
            .clone()
            .map_or_else(|| TaskProposal::in_answer(said), Ok)
    }
}
