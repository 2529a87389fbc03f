//! Workflows in the plan.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HookSpec;

/// Steps that automation hooks can start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub description: Option<String>,
    pub steps: Vec<WorkflowStep>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStep {
    /// Unique in the workflow.
    pub name: String,
    pub action: StepAction,
    pub on_success: StepTransition,
    pub on_failure: StepTransition,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    /// Succeeds if the command exits with 0.
    Command(HookSpec),
    /// The same parameters as the action of that name.
    CreateTask(Value),
    /// The same parameters as the action of that name.
    UpdateTask(Value),
    /// Succeeds if the condition is true.
    Condition(StepCondition),
    /// Runs several steps in parallel; succeeds if all do.
    Parallel(Vec<WorkflowStep>),
    Noop,
}

/// A condition on the results of earlier steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCondition {
    /// A text with placeholders.
    pub value: String,
    /// The text must be equal to this.
    pub equals: Option<String>,
    /// The text must contain this.
    pub contains: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepTransition {
    /// The next step in the config, or the end.
    Following,
    Step(String),
    End,
}

impl Workflow {
    /// The index of the step that follows. None: the end.
    pub fn after(&self, at: usize, next: &StepTransition) -> Option<usize> {
        match next {
            StepTransition::Following => Some(at + 1),
            StepTransition::Step(name) => self.steps.iter().position(|step| step.name == *name),
            StepTransition::End => None,
        }
    }
}

impl WorkflowStep {
    /// The steps to run: this one, or the parts of a parallel step.
    pub fn parts(&self) -> &[Self] {
        if let StepAction::Parallel(parts) = &self.action {
            parts
        } else {
            std::slice::from_ref(self)
        }
    }
}

impl StepCondition {
    pub fn holds(&self, text: &str) -> bool {
        let equal = self.equals.as_ref().is_none_or(|expected| text == expected);
        equal
            && self
                .contains
                .as_ref()
                .is_none_or(|part| text.contains(part.as_str()))
    }
}
