//! What a workflow is told to do.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HookSpec;

/// Steps that automation hooks can start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// What it is for.
    pub description: Option<String>,
    /// What it does.
    pub steps: Vec<WorkflowStep>,
}

/// One step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStep {
    /// What it is called; unique in the workflow.
    pub name: String,
    /// What it does.
    pub action: StepAction,
    /// What follows when it went well.
    pub on_success: StepTransition,
    /// What follows when it failed.
    pub on_failure: StepTransition,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    /// Run a command; it goes well if it exits with 0.
    Command(HookSpec),
    /// Add a task, as the action does.
    CreateTask(Value),
    /// Change a task, as the action does.
    UpdateTask(Value),
    /// Look at what an earlier step said; it goes well if that is so.
    Condition(StepCondition),
    /// Several steps at once; it goes well if all do.
    Parallel(Vec<WorkflowStep>),
    /// Nothing.
    Noop,
}

/// Something that may be so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCondition {
    /// A text with placeholders.
    pub value: String,
    /// What it must be.
    pub equals: Option<String>,
    /// What it must hold.
    pub contains: Option<String>,
}

/// What follows a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepTransition {
    /// The step that is written below it, or the end.
    Following,
    /// The step of that name.
    Step(String),
    /// Nothing.
    End,
}

impl Workflow {
    /// Where that leads from a step; nowhere at the end.
    pub fn after(&self, at: usize, next: &StepTransition) -> Option<usize> {
        match next {
            StepTransition::Following => Some(at + 1),
            StepTransition::Step(name) => self.steps.iter().position(|step| step.name == *name),
            StepTransition::End => None,
        }
    }
}

impl WorkflowStep {
    /// What is to be done for it: itself, or several steps at once.
    pub fn parts(&self) -> &[Self] {
        if let StepAction::Parallel(parts) = &self.action { parts } else { std::slice::from_ref(self) }
    }
}

impl StepCondition {
    /// Whether it is so, of that text.
    pub fn holds(&self, text: &str) -> bool {
        let equal = self.equals.as_ref().is_none_or(|expected| text == expected);
        equal && self.contains.as_ref().is_none_or(|part| text.contains(part.as_str()))
    }
}
