//! The form of a task: of a new one, or of changes to one.
//!
//! Owns its fields, their mistakes, and the commands that it comes to. Which tasks are possible is
//! for the engine to say: its rules check the form before it is sent.
//!
//! # Invariants
//! - What the user has written is never discarded without a question.
//! - A form with a mistake sends nothing.
//! - A change sends only the fields that the user has changed.

mod drawing;
mod fields;

use std::collections::BTreeSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fields::{FieldInput, TaskFormField};

use crate::{
    engine::{
        input::SessionCommand,
        policy::SessionPlan,
        tasks::{
            command::{NewTask, TaskChanges, TaskCommand, TaskRefusal, is_name},
            graph::{Task, TaskDescriptionChanges, TaskGraph},
            task_rules::{can_come_from, can_depend, known},
        },
    },
    present::text::{plain, sentence_case},
    text::nearest,
};

/// What a field of the form is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskField {
    Title,
    Description,
    Type,
    Priority,
    DependsOn,
    Labels,
    Deliverables,
    Parent,
    Agent,
    Id,
}

impl TaskField {
    const fn name(self) -> &'static str {
        match self {
            Self::Title => "Title",
            Self::Description => "Description",
            Self::Type => "Type",
            Self::Priority => "Priority",
            Self::DependsOn => "Depends on",
            Self::Labels => "Labels",
            Self::Deliverables => "Deliverables",
            Self::Parent => "Parent",
            Self::Agent => "Agent",
            Self::Id => "Id",
        }
    }

    /// What belongs into an empty field.
    const fn placeholder(self) -> &'static str {
        match self {
            Self::Title => "what should be done",
            Self::Description => "more for the agent (optional)",
            Self::Type => "a type of the config, such as feature",
            Self::DependsOn => "ids of tasks to be completed first",
            Self::Labels => "words, separated by commas",
            Self::Deliverables => "one per line; two spaces continue a line",
            Self::Parent => "id of the task that it came from",
            Self::Id => "creel chooses one",
            Self::Priority | Self::Agent => "",
        }
    }

    /// Whether its text has ids of tasks.
    const fn names_tasks(self) -> bool {
        match self {
            Self::DependsOn | Self::Parent => true,
            Self::Title
            | Self::Description
            | Self::Type
            | Self::Priority
            | Self::Labels
            | Self::Deliverables
            | Self::Agent
            | Self::Id => false,
        }
    }
}

/// The choices of the priority, from 0.
const PRIORITIES: [&str; 5] = ["0 highest", "1 high", "2 normal", "3 low", "4 lowest"];
const NO_TYPE: &str = "none";
const THIS_SESSION: &str = "this session";
const ANY_WORKER: &str = "any worker of the queue";
/// Before the agent's name.
const WORKER_WITH: &str = "a worker of the queue with ";

/// What a key did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskFormResult {
    Stays,
    Closed,
    Save,
    /// The text of the field with the focus belongs into the user's editor.
    EditOutside(String),
}

#[derive(Debug)]
pub struct TaskForm {
    /// The task that it changes. None: a new one.
    id: Option<String>,
    fields: Vec<TaskFormField>,
    focus: usize,
    asked_to_leave: bool,
    /// It was sent, and the session did not say whether it accepted it.
    in_doubt: bool,
    /// The open tasks with their titles, for suggestions.
    tasks: Vec<(String, String)>,
}

impl TaskForm {
    /// The form of a new task.
    pub fn new(plan: &SessionPlan, graph: &TaskGraph) -> Self {
        let agents: BTreeSet<&String> = plan
            .task_types
            .values()
            .flatten()
            .chain([&plan.agent])
            .collect();
        let agents = agents
            .into_iter()
            .map(|name| format!("{WORKER_WITH}{name}"));
        let agents = [THIS_SESSION, ANY_WORKER]
            .map(str::to_owned)
            .into_iter()
            .chain(agents);
        let fields = vec![
            TaskFormField::line(TaskField::Title, ""),
            TaskFormField::lines(TaskField::Description, ""),
            type_field(plan, graph, None),
            priority_field(2),
            TaskFormField::line(TaskField::DependsOn, ""),
            TaskFormField::line(TaskField::Labels, ""),
            TaskFormField::lines(TaskField::Deliverables, ""),
            TaskFormField::line(TaskField::Parent, ""),
            TaskFormField::choice(TaskField::Agent, agents.collect(), 0),
            TaskFormField::line(TaskField::Id, ""),
        ];
        Self::with(None, fields, graph)
    }

    /// The form of changes to a task.
    pub fn of(task: &Task, plan: &SessionPlan, graph: &TaskGraph) -> Self {
        let goal = plain(&task.goal);
        let (title, more) = goal.split_once('\n').unwrap_or((&goal, ""));
        let ids: Vec<&str> = task.dependencies.iter().map(String::as_str).collect();
        let labels: Vec<String> = task.labels.iter().map(|label| one_line(label)).collect();
        let deliverables: Vec<String> = task
            .deliverables
            .iter()
            .map(|what| plain(what.trim()).lines().collect::<Vec<_>>().join("\n  "))
            .collect();
        let fields = vec![
            TaskFormField::line(TaskField::Title, title.trim()),
            TaskFormField::lines(TaskField::Description, more.trim_end()),
            type_field(plan, graph, task.kind.as_deref()),
            priority_field(usize::from(task.priority)),
            TaskFormField::line(TaskField::DependsOn, &ids.join(", ")),
            TaskFormField::line(TaskField::Labels, &labels.join(", ")),
            TaskFormField::lines(TaskField::Deliverables, &deliverables.join("\n")),
            TaskFormField::line(
                TaskField::Parent,
                task.parent.as_deref().unwrap_or_default(),
            ),
        ];
        Self::with(Some(task.id.clone()), fields, graph)
    }

    fn with(id: Option<String>, fields: Vec<TaskFormField>, graph: &TaskGraph) -> Self {
        let tasks = graph
            .tasks()
            .into_iter()
            .filter(|task| task.is_open() && id.as_ref() != Some(&task.id))
            .map(|task| {
                (
                    task.id.clone(),
                    one_line(task.goal.lines().next().unwrap_or("")),
                )
            })
            .collect();
        Self {
            id,
            fields,
            focus: 0,
            asked_to_leave: false,
            in_doubt: false,
            tasks,
        }
    }

    /// Marks the form as possibly delivered.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        Self {
            in_doubt: true,
            ..self
        }
    }

    /// What the user has written in a field. Empty if the form does not have it.
    pub fn value(&self, name: TaskField) -> String {
        self.fields
            .iter()
            .find(|field| field.name == name)
            .map(TaskFormField::value)
            .unwrap_or_default()
    }

    /// The fields with a text, as lines.
    pub fn text(&self) -> String {
        self.fields
            .iter()
            .filter(|field| !field.value().trim().is_empty())
            .map(|field| format!("{}: {}\n", field.name.name(), field.value()))
            .collect()
    }

    pub fn is_changed(&self) -> bool {
        self.fields.iter().any(TaskFormField::is_changed)
    }

    /// Handles a key.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the terminal library's enum grows"
    )]
    pub fn key(&mut self, key: KeyEvent) -> TaskFormResult {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let asked = std::mem::take(&mut self.asked_to_leave);
        match key.code {
            KeyCode::Esc if asked || !self.is_changed() => return TaskFormResult::Closed,
            KeyCode::Esc => self.asked_to_leave = true,
            KeyCode::Char('s') if control => return TaskFormResult::Save,
            KeyCode::Tab => self.move_focus(1),
            KeyCode::BackTab => self.move_focus(-1),
            KeyCode::Char('o') if control => {
                if let Some(FieldInput::Lines(_)) = self.focused().map(|field| &field.input) {
                    let text = self.focused().map(TaskFormField::value).unwrap_or_default();
                    return TaskFormResult::EditOutside(text);
                }
            }
            KeyCode::Right if self.accept_suggestion() => {}
            _ => {
                let moved = self
                    .fields
                    .get_mut(self.focus)
                    .map_or(0, |field| field.key(key));
                self.move_focus(moved);
            }
        }
        TaskFormResult::Stays
    }

    pub fn paste(&mut self, text: &str) {
        self.asked_to_leave = false;
        if let Some(field) = self.fields.get_mut(self.focus) {
            field.paste(&plain(text));
        }
    }

    /// Puts the text of the user's editor into the field that it came from.
    pub fn edited_outside(&mut self, text: &str) {
        self.asked_to_leave = false;
        if let Some(field) = self.fields.get_mut(self.focus) {
            field.set(&plain(text));
        }
    }

    fn focused(&self) -> Option<&TaskFormField> {
        self.fields.get(self.focus)
    }

    fn move_focus(&mut self, by: isize) {
        let count = self.fields.len().max(1);
        self.focus = (self.focus + count).saturating_add_signed(by) % count;
    }

    /// The tasks that can complete the last word of the field with the focus.
    fn suggestions(&self) -> Vec<&(String, String)> {
        let Some(field) = self.focused().filter(|field| field.name.names_tasks()) else {
            return Vec::new();
        };
        let value = field.value();
        let named: Vec<&str> = value.split(',').map(str::trim).collect();
        let (before, last) = match named.split_last() {
            Some((last, before)) if field.name == TaskField::DependsOn => (before, *last),
            Some(_) | None => (&[][..], value.trim()),
        };
        let begun = last.to_lowercase();
        let fits = |(id, title): &&(String, String)| {
            let is_new = !before.contains(&id.as_str()) && id != last;
            is_new
                && (id.to_lowercase().starts_with(&begun) || title.to_lowercase().contains(&begun))
        };
        self.tasks.iter().filter(fits).collect()
    }

    /// At the end of a field with ids, the key for the right completes the last one. Returns whether
    /// it did.
    fn accept_suggestion(&mut self) -> bool {
        let Some(id) = self.suggestions().first().map(|(id, _)| id.clone()) else {
            return false;
        };
        let Some(field) = self
            .fields
            .get_mut(self.focus)
            .filter(|field| field.is_at_the_end())
        else {
            return false;
        };
        let value = field.value();
        let others = value
            .rsplit_once(',')
            .filter(|_| field.name == TaskField::DependsOn);
        let before = others.map(|(before, _)| format!("{}, ", before.trim_end()));
        let before = before.unwrap_or_default();
        field.set(&format!("{before}{id}"));
        true
    }

    /// Looks for mistakes, and moves to the first one. Returns whether there is none.
    pub fn check(&mut self, graph: &TaskGraph) -> bool {
        let mistakes: Vec<Option<String>> = self
            .fields
            .iter()
            .map(|field| self.mistake(field, graph))
            .collect();
        let first = mistakes.iter().position(Option::is_some);
        for (field, mistake) in self.fields.iter_mut().zip(mistakes) {
            field.mistake = mistake.map(|text| sentence_case(&text));
        }
        self.focus = first.unwrap_or(self.focus);
        first.is_none()
    }

    fn mistake(&self, field: &TaskFormField, graph: &TaskGraph) -> Option<String> {
        let value = field.value();
        let value = value.trim();
        let task = self.id.as_deref().and_then(|id| graph.get(id));
        // What the task has already is possible.
        if task.is_some() && !field.is_changed() {
            return None;
        }
        match field.name {
            TaskField::Title if value.is_empty() => Some("a task needs a title".to_owned()),
            TaskField::Type | TaskField::Parent if value.is_empty() && task.is_some() => {
                Some("you can change it, but not remove it".to_owned())
            }
            TaskField::DependsOn => several(value).into_iter().find_map(|on| match task {
                Some(task) if task.dependencies.contains(&on) => None,
                Some(task) => can_depend(graph, task, &on)
                    .err()
                    .map(|why| self.words(&why)),
                None => known(graph, &on).err().map(|why| self.words(&why)),
            }),
            TaskField::Parent if !value.is_empty() => match task {
                Some(task) => can_come_from(graph, task, value)
                    .err()
                    .map(|why| self.words(&why)),
                None => known(graph, value).err().map(|why| self.words(&why)),
            },
            TaskField::Id if !value.is_empty() && !is_name(value) => Some(
                TaskRefusal::BadName {
                    name: value.to_owned(),
                    what: "a task",
                }
                .to_string(),
            ),
            TaskField::Id => graph
                .get(value)
                .map(|task| TaskRefusal::Exists(task.id.clone()).to_string()),
            TaskField::Title
            | TaskField::Description
            | TaskField::Type
            | TaskField::Priority
            | TaskField::Labels
            | TaskField::Deliverables
            | TaskField::Parent
            | TaskField::Agent => None,
        }
    }

    /// Why a field is wrong.
    fn words(&self, why: &TaskRefusal) -> String {
        if let TaskRefusal::NoSuchTask(id) = why {
            let similar = nearest(id, self.tasks.iter().map(|(id, _)| id.as_str()));
            let hint = similar.map(|id| format!("; did you mean {id}?"));
            format!("there is no task {id}{}", hint.unwrap_or_default())
        } else if let TaskRefusal::DependencyCycle { id, way, .. } = why {
            format!("that would be a cycle: {id} → {}", way.join(" → "))
        } else if let TaskRefusal::DependsOnItself(_) = why {
            "a task cannot depend on itself".to_owned()
        } else if let TaskRefusal::ParentCycle { parent, .. } = why {
            format!("the parent cannot be below the task, as {parent} is")
        } else {
            why.to_string()
        }
    }

    /// What the form asks of the session. Nothing if nothing has changed.
    pub fn commands(&self, graph: &TaskGraph) -> Vec<SessionCommand> {
        let commands = match &self.id {
            None => vec![TaskCommand::Add(self.new_task())],
            Some(id) => self.changes(id, graph.get(id)),
        };
        let command = |task| SessionCommand::Task { task };
        commands.into_iter().map(command).collect()
    }

    fn new_task(&self) -> NewTask {
        let some = |name| Some(self.value(name).trim().to_owned()).filter(|text| !text.is_empty());
        let agent = self.value(TaskField::Agent);
        let queue = match agent.strip_prefix(WORKER_WITH) {
            Some(name) => Some(BTreeSet::from([name.to_owned()])),
            None => (agent == ANY_WORKER).then(BTreeSet::new),
        };
        NewTask {
            id: some(TaskField::Id),
            goal: self.goal(),
            deliverables: self.deliverables(),
            labels: several(&self.value(TaskField::Labels)),
            priority: self.priority(),
            kind: some(TaskField::Type),
            parent: some(TaskField::Parent),
            dependencies: several(&self.value(TaskField::DependsOn)),
            queue,
        }
    }

    fn goal(&self) -> String {
        let title = self.value(TaskField::Title);
        let more = self.value(TaskField::Description);
        if more.trim().is_empty() {
            title.trim().to_owned()
        } else {
            format!("{}\n{}", title.trim(), more.trim_end())
        }
    }

    /// Each deliverable; a line that begins with two spaces continues the one above.
    fn deliverables(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for line in self.value(TaskField::Deliverables).lines() {
            if let (Some(more), Some(last)) = (line.strip_prefix("  "), found.last_mut()) {
                last.push('\n');
                last.push_str(more);
            } else if !line.trim().is_empty() {
                found.push(line.trim().to_owned());
            }
        }
        found
            .into_iter()
            .map(|what| what.trim_end().to_owned())
            .collect()
    }

    /// None if the user has not chosen one.
    fn priority(&self) -> Option<u8> {
        let value = self.value(TaskField::Priority);
        let number = value.split(' ').next().and_then(|word| word.parse().ok());
        number.filter(|_| self.has_changed(TaskField::Priority))
    }

    fn has_changed(&self, name: TaskField) -> bool {
        self.fields
            .iter()
            .any(|field| field.name == name && field.is_changed())
    }

    fn changes(&self, id: &str, task: Option<&Task>) -> Vec<TaskCommand> {
        let changed = |name| self.has_changed(name);
        let text = |name: TaskField| changed(name).then(|| self.value(name).trim().to_owned());
        let goal = changed(TaskField::Title) || changed(TaskField::Description);
        let description = TaskDescriptionChanges {
            goal: goal.then(|| self.goal()),
            deliverables: changed(TaskField::Deliverables).then(|| self.deliverables()),
            labels: changed(TaskField::Labels).then(|| several(&self.value(TaskField::Labels))),
            priority: self.priority(),
            kind: text(TaskField::Type),
            parent: text(TaskField::Parent),
        };
        let update =
            (description != TaskDescriptionChanges::default()).then(|| TaskCommand::Update {
                id: id.to_owned(),
                changes: TaskChanges {
                    description,
                    ..TaskChanges::default()
                },
            });
        let wanted: BTreeSet<String> = several(&self.value(TaskField::DependsOn))
            .into_iter()
            .collect();
        let has = task
            .map(|task| task.dependencies.clone())
            .unwrap_or_default();
        let edge = |on: &String| (id.to_owned(), on.clone());
        let no_longer = has.difference(&wanted).map(edge);
        let new = wanted.difference(&has).map(edge);
        let edges = no_longer
            .map(|(id, on)| TaskCommand::Undepend { id, on })
            .chain(new.map(|(id, on)| TaskCommand::Depend { id, on }))
            .filter(|_| changed(TaskField::DependsOn));
        update.into_iter().chain(edges).collect()
    }
}

/// The types of the config and of the other tasks, or a text if there are none.
fn type_field(plan: &SessionPlan, graph: &TaskGraph, kind: Option<&str>) -> TaskFormField {
    let tasks = graph.tasks();
    let used = tasks.iter().filter_map(|task| task.kind.as_deref());
    let names: BTreeSet<String> = plan
        .task_types
        .keys()
        .map(String::as_str)
        .chain(used)
        .map(one_line)
        .collect();
    if plan.task_types.is_empty() {
        return TaskFormField::line(TaskField::Type, &one_line(kind.unwrap_or_default()));
    }
    // A type cannot be removed from a task.
    let none = kind.is_none().then(|| NO_TYPE.to_owned());
    let names: Vec<String> = none.into_iter().chain(names).collect();
    let at = kind.and_then(|kind| names.iter().position(|name| *name == one_line(kind)));
    TaskFormField::choice(TaskField::Type, names, at.unwrap_or(0))
}

fn priority_field(chosen: usize) -> TaskFormField {
    let names = PRIORITIES.map(str::to_owned).to_vec();
    TaskFormField::choice(TaskField::Priority, names, chosen)
}

fn one_line(text: &str) -> String {
    plain(text).lines().collect::<Vec<_>>().join(" ")
}

/// The words between commas.
fn several(value: &str) -> Vec<String> {
    value
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
