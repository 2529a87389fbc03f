//! A task as clients and hooks see it, and proposed tasks as people read them: a tree, and a text
//! for an editor.

use rmcp::schemars::{self, JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::text::plain_line;
use crate::engine::{
    queue::task_proposal::{ProposalLine, ProposedTask, TaskProposal, task_tree},
    tasks::{
        command::TaskRefusal,
        graph::{Task, TaskGraph, TaskState},
    },
    time::UnixTime,
};

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Its name.
    pub id: String,
    /// What is to be reached.
    pub goal: String,
    /// Where it is.
    #[schemars(schema_with = "state_names")]
    pub state: TaskState,
    /// 0 is the highest, 4 the lowest.
    pub priority: u8,
    /// Of which type it is.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Words to find it by.
    pub labels: Vec<String>,
    /// What is to be there in the end.
    pub deliverables: Vec<String>,
    /// What has to be completed before it.
    pub dependencies: Vec<String>,
    /// How many of these are not completed.
    pub open_dependencies: usize,
    /// The tasks that wait for it.
    pub dependents: Vec<String>,
    /// The task that it came from.
    pub parent: Option<String>,
    /// The workers that may do it, if a queue hands it out; empty: any worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<String>>,
    /// What came of it.
    pub result: Option<String>,
    /// What was made.
    pub artifacts: Vec<String>,
    /// Why it is blocked.
    pub reason: Option<String>,
    /// What a worker must know to continue.
    pub required_knowledge: Vec<String>,
    /// When it was added.
    pub created_at: String,
    /// When it was first started.
    pub started_at: Option<String>,
    /// When it was completed.
    pub completed_at: Option<String>,
}

/// The states, for a JSON schema.
pub fn state_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": TaskState::ALL.map(TaskState::name) })
}

/// All tasks, in the order in which they were added.
pub fn all(graph: &TaskGraph) -> Vec<TaskView> {
    graph
        .tasks()
        .into_iter()
        .map(|task| TaskView::of(graph, task))
        .collect()
}

/// The tasks that are handed over to the queue.
pub fn handed(graph: &TaskGraph) -> Vec<TaskView> {
    graph
        .tasks()
        .into_iter()
        .filter(|task| task.queue.is_some())
        .map(|task| TaskView::of(graph, task))
        .collect()
}

/// The task with that id.
pub fn one(graph: &TaskGraph, id: &str) -> Result<TaskView, TaskRefusal> {
    let task = graph
        .get(id)
        .ok_or_else(|| TaskRefusal::NoSuchTask(id.to_owned()))?;
    Ok(TaskView::of(graph, task))
}

impl TaskView {
    fn of(graph: &TaskGraph, task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            goal: task.goal.clone(),
            state: task.state,
            priority: task.priority,
            kind: task.kind.clone(),
            labels: task.labels.clone(),
            deliverables: task.deliverables.clone(),
            dependencies: task.dependencies.iter().cloned().collect(),
            open_dependencies: task.open_dependencies(),
            dependents: graph
                .dependents(&task.id)
                .into_iter()
                .map(|task| task.id.clone())
                .collect(),
            parent: task.parent.clone(),
            queue: task
                .queue
                .as_ref()
                .map(|agents| agents.iter().cloned().collect()),
            result: task.result.clone(),
            artifacts: task.artifacts.clone(),
            reason: task.reason.clone(),
            required_knowledge: task.required_knowledge.clone(),
            created_at: task.created.rfc3339(),
            started_at: task.started.map(UnixTime::rfc3339),
            completed_at: task.completed.map(UnixTime::rfc3339),
        }
    }
}

/// The longest goal in a line of the tree, in characters.
const GOAL: usize = 100;

/// A row of the tree: how far it is indented, with its sign, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRow {
    pub indent: String,
    pub id: String,
    /// What follows the id.
    pub text: String,
}

/// The rows of the tree, with goals in these words.
pub fn tree_rows(tasks: &[ProposedTask], goal: impl Fn(&str) -> String) -> Vec<TreeRow> {
    let row = |line: ProposalLine<'_>| {
        let kind = line
            .task
            .kind
            .as_ref()
            .map(|kind| format!(" ({})", plain_line(kind, GOAL)))
            .unwrap_or_default();
        let after = if line.also_after.is_empty() {
            String::new()
        } else {
            format!(" [also after {}]", line.also_after.join(", "))
        };
        let sign = if line.depth == 0 { "" } else { "└ " };
        TreeRow {
            indent: format!("{}{sign}", "  ".repeat(line.depth)),
            id: plain_line(&line.task.id, GOAL),
            text: format!("{kind}: {}{after}", goal(&line.task.goal)),
        }
    };
    task_tree(tasks).into_iter().map(row).collect()
}

/// The tree, one line for each task.
pub fn tree_lines(tasks: &[ProposedTask]) -> Vec<String> {
    let rows = tree_rows(tasks, |goal| plain_line(goal, GOAL));
    rows.into_iter()
        .map(|TreeRow { indent, id, text }| format!("{indent}{id}{text}"))
        .collect()
}

/// The tree as a text.
pub fn tree(tasks: &[ProposedTask]) -> String {
    tree_lines(tasks)
        .into_iter()
        .map(|line| line + "\n")
        .collect()
}

/// The tasks for an editor. A text in quotes is the same in JSON and in YAML.
pub fn as_yaml(tasks: &[ProposedTask]) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let task = |task: &ProposedTask| {
        let ProposedTask {
            id,
            goal,
            depends_on,
            kind,
            priority,
        } = task;
        let after: Vec<String> = depends_on.iter().map(|on| quoted(on)).collect();
        let kind = kind
            .as_ref()
            .map(|kind| format!("  type: {}\n", quoted(kind)))
            .unwrap_or_default();
        format!(
            "- id: {}\n  goal: {}\n  depends_on: [{}]\n{kind}  priority: {priority}\n",
            quoted(id),
            quoted(goal),
            after.join(", ")
        )
    };
    format!("tasks:\n{}", tasks.iter().map(task).collect::<String>())
}

/// The text in an editor is not a list of tasks, for this reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProposalFormError(pub String);

/// The tasks in the text of an editor: YAML or JSON.
pub fn read_form(text: &str) -> Result<TaskProposal, ProposalFormError> {
    serde_yaml::from_str(text).map_err(|error| {
        let error = error.without_snippet();
        let (reason, at) = (
            error.to_string(),
            error
                .location()
                .and_then(|at| usize::try_from(at.line()).ok()),
        );
        // Numbers of lines would be wrong below the notes about mistakes.
        let line = at
            .and_then(|line| text.lines().nth(line.checked_sub(1)?))
            .map(|line| plain_line(line, GOAL));
        let reason = reason.split(" at line ").next().unwrap_or_default();
        ProposalFormError(line.map_or_else(
            || reason.to_owned(),
            |line| format!("{reason}, at `{}`", line.trim()),
        ))
    })
}

/// The text of an editor with what is wrong with it in its first lines, in place of all other
/// comments.
pub fn with_mistakes(text: &str, mistakes: &[String]) -> String {
    let notes = mistakes
        .iter()
        .map(|mistake| format!("# {}\n", mistake.replace('\n', " ")));
    let kept = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"));
    notes
        .chain(kept)
        .fold("# This cannot be queued yet:\n".to_owned(), |text, line| {
            text + &line
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Vec<ProposedTask> {
        let text = r#"{"tasks": [
            {"id": "test", "goal": "Test: \"all\" of it.\nTwice.", "depends_on": ["parser", "printer"], "type": "qa"},
            {"id": "parser", "goal": "Write it.", "priority": 0}, {"id": "printer", "goal": "Write it, # too."}]}"#;
        TaskProposal::in_answer(text).expect("a proposal").tasks
    }

    #[test]
    fn the_text_for_an_editor_is_read_back_as_the_same_tasks() {
        assert_eq!(
            read_form(&as_yaml(&tasks())).expect("a proposal").tasks,
            tasks()
        );
        let json = serde_json::to_string(&TaskProposal { tasks: tasks() }).expect("JSON");
        assert_eq!(read_form(&json).expect("JSON is YAML").tasks, tasks());
    }

    #[test]
    fn a_text_that_cannot_be_read_names_the_line() {
        let reason = |text: &str| read_form(text).expect_err("it cannot be read").to_string();
        assert_eq!(
            reason("# a note\ntasks\n- id: a"),
            "expected mapping start, at `tasks`"
        );
        assert_eq!(
            reason("tasks:\n- id: a\n"),
            "missing field `goal`, at `- id: a`"
        );
        let unknown = reason("tasks:\n- id: a\n  goal: g\n  after: b\n");
        assert!(
            unknown.starts_with("unknown field `after`, ") && unknown.ends_with(", at `after: b`"),
            "{unknown}"
        );
    }

    #[test]
    fn mistakes_replace_those_of_the_last_time() {
        let first = with_mistakes("tasks: []\n", &["there are no tasks".to_owned()]);
        assert_eq!(
            first,
            "# This cannot be queued yet:\n# there are no tasks\ntasks: []\n"
        );
        assert_eq!(
            with_mistakes(&first, &["one\ntwo".to_owned()]),
            "# This cannot be queued yet:\n# one two\ntasks: []\n"
        );
    }

    #[test]
    fn each_task_is_below_the_first_that_it_waits_for() {
        assert_eq!(
            tree(&tasks()),
            "parser: Write it.\n  └ test (qa): Test: \"all\" of it.… [also after printer]\nprinter: Write it, # too.\n"
        );
    }
}
