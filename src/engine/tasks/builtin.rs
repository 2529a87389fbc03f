//! The built-in automation hooks: pure functions from an event and the graph to actions.

use serde_json::{Map, Value, json};

use super::{
    command::{ActionType, AutomationAction},
    graph::{Task, TaskGraph, TaskState},
    record::{TaskEventKind, TaskRecordRef},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinAutomation {
    /// Creates a review task for an agent's work.
    CreateReviewTask,
    /// Marks tasks as ready when their last dependency is completed.
    CheckDependencySatisfaction,
    /// Adds labels by words in the goal.
    LabelByKeyword,
    /// Logs how long an agent worked on a task.
    TrackAgentTasks,
}

/// The defaults of a built-in hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutomationPreset {
    pub name: &'static str,
    /// Lower runs first.
    pub priority: i64,
    pub events: &'static [TaskEventKind],
    pub enabled: bool,
}

/// Labels, and the words in a goal that suggest them. Whole words are compared, in lower case.
pub const KEYWORDS: [(&str, &[&str]); 7] = [
    (
        "bug",
        &["bug", "bugs", "crash", "fix", "broken", "regression"],
    ),
    ("test", &["test", "tests", "testing", "coverage"]),
    (
        "docs",
        &["docs", "document", "documentation", "readme", "changelog"],
    ),
    (
        "research",
        &["research", "investigate", "explore", "compare", "evaluate"],
    ),
    (
        "refactor",
        &[
            "refactor",
            "refactoring",
            "restructure",
            "rename",
            "simplify",
        ],
    ),
    (
        "performance",
        &[
            "performance",
            "slow",
            "faster",
            "optimize",
            "optimise",
            "benchmark",
        ],
    ),
    (
        "security",
        &["security", "vulnerability", "vulnerabilities", "cve"],
    ),
];

impl BuiltinAutomation {
    /// In the order in which they run.
    pub const ALL: [Self; 4] = [
        Self::CreateReviewTask,
        Self::CheckDependencySatisfaction,
        Self::LabelByKeyword,
        Self::TrackAgentTasks,
    ];

    pub const fn preset(self) -> AutomationPreset {
        use TaskEventKind::{TaskCompleted, TaskCreated, TaskStarted};
        let (name, priority, events, enabled): (_, _, &[TaskEventKind], _) = match self {
            Self::CreateReviewTask => ("auto-create-review-task", 10, &[TaskCompleted], true),
            Self::CheckDependencySatisfaction => {
                ("check-dependency-satisfaction", 20, &[TaskCompleted], true)
            }
            Self::LabelByKeyword => ("auto-label-by-keyword", 30, &[TaskCreated], false),
            Self::TrackAgentTasks => (
                "track-agent-task-lifecycle",
                50,
                &[TaskCreated, TaskStarted, TaskCompleted],
                true,
            ),
        };
        AutomationPreset {
            name,
            priority,
            events,
            enabled,
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|builtin| builtin.preset().name == name)
    }

    /// The one event that it reacts to, whatever else it subscribes to.
    pub const fn speaks_at(self) -> TaskEventKind {
        match self {
            Self::CreateReviewTask | Self::CheckDependencySatisfaction | Self::TrackAgentTasks => {
                TaskEventKind::TaskCompleted
            }
            Self::LabelByKeyword => TaskEventKind::TaskCreated,
        }
    }

    pub fn actions(self, news: &TaskRecordRef<'_>, graph: &TaskGraph) -> Vec<AutomationAction> {
        let Some(task) = graph
            .get(news.task)
            .filter(|_| news.what.kind() == Some(self.speaks_at()))
        else {
            return Vec::new();
        };
        match self {
            Self::CreateReviewTask => review(task).into_iter().collect(),
            Self::CheckDependencySatisfaction => graph
                .dependents(&task.id)
                .into_iter()
                .flat_map(|d| satisfied(d, task))
                .collect(),
            Self::LabelByKeyword => label(task).into_iter().collect(),
            Self::TrackAgentTasks => metrics(task).into_iter().collect(),
        }
    }
}

fn review(task: &Task) -> Option<AutomationAction> {
    if !task.has_label("agent") || task.has_label("review") {
        return None;
    }
    let labels: Vec<&str> = ["review"]
        .into_iter()
        .chain(task.labels.iter().map(String::as_str))
        .collect();
    Some(AutomationAction::new(
        ActionType::CreateTask,
        json!({
            "goal": format!("Review: {}", task.goal),
            "deliverables": ["Review completed", "Feedback provided"],
            "labels": labels,
            "priority": task.priority,
            "parentTaskId": task.id,
        }),
    ))
}

fn satisfied(dependent: &Task, completed: &Task) -> Vec<AutomationAction> {
    if dependent.state != TaskState::Created || dependent.open_dependencies() > 0 {
        return Vec::new();
    }
    let ready = json!({ "taskId": dependent.id, "action": "transition_to_ready" });
    let event = json!({
        "type": TaskEventKind::DependencySatisfied.name(),
        "nodeId": dependent.id,
        "data": { "dependentTaskId": dependent.id, "completedTaskId": completed.id },
    });
    vec![
        AutomationAction::new(ActionType::UpdateTask, ready),
        AutomationAction::new(ActionType::Log, event),
    ]
}

fn label(task: &Task) -> Option<AutomationAction> {
    let goal = task.goal.to_lowercase();
    let words: Vec<&str> = goal.split(|c: char| !c.is_alphanumeric()).collect();
    let found = KEYWORDS
        .iter()
        .filter(|(_, keywords)| keywords.iter().any(|keyword| words.contains(keyword)));
    let labels: Vec<&str> = found
        .map(|(label, _)| *label)
        .filter(|label| !task.has_label(label))
        .collect();
    (!labels.is_empty()).then(|| {
        let payload =
            json!({ "taskId": task.id, "action": "add_labels", "payload": { "labels": labels } });
        AutomationAction::new(ActionType::UpdateTask, payload)
    })
}

fn metrics(task: &Task) -> Option<AutomationAction> {
    let duration = task
        .started
        .zip(task.completed)
        .map(|(started, completed)| completed.since(started).0);
    let data: Map<String, Value> = [
        ("goal", json!(task.goal)),
        ("labels", json!(task.labels)),
        ("priority", json!(task.priority)),
        ("durationMs", json!(duration)),
        ("deliverables", json!(task.deliverables)),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    let event = json!({ "type": "agent_metrics", "nodeId": task.id, "data": data });
    task.has_label("agent")
        .then(|| AutomationAction::new(ActionType::Log, event))
}
