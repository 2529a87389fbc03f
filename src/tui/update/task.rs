//! Keys of the tasks: how they are looked at, and what is asked of the session for them.

use crossterm::event::{KeyCode, KeyEvent};

use super::{
    Ask, lay_over,
    pane::{is_live, moved, next_fit},
};
use crate::{
    control::text::plain,
    engine::{
        input::Command,
        tasks::{
            command::{Completion, TaskChanges, TaskCommand},
            task::Task,
        },
    },
    tui::{
        board::{Row, details, form},
        keymap::Action,
        modals::{
            Modal,
            editor::{EditorModal, Purpose},
            remove::RemoveModal,
            viewer::ViewerModal,
        },
        model::Model,
        theme::Role,
    },
};

pub(super) fn on_task(model: &mut Model, action: Action) -> Vec<Ask> {
    match action {
        Action::TaskTree => model.board.turn(),
        Action::FilterTasks => model.board.next_filter(),
        Action::OpenTask => return open(model),
        _ if !is_live(model) => {}
        Action::AddTask => return write(model, Purpose::NewTask, ""),
        _ => return change(model, action),
    }
    Vec::new()
}

fn open(model: &mut Model) -> Vec<Ask> {
    let Some(state) = model.chosen_task().map(|task| task.state) else { return none(model) };
    let (title, text) = chosen_text(model).unwrap_or_default();
    lay_over(model, Modal::Viewer(ViewerModal::new(title, &text, state.name())))
}

/// The name of the chosen task, and all that is known of it.
fn chosen_text(model: &Model) -> Option<(String, String)> {
    let task = model.chosen_task()?;
    Some((plain(&task.id), details::text(model.graph()?, task, model.moment())))
}

pub(super) fn text_of_chosen(model: &Model) -> String {
    chosen_text(model).map(|(_, text)| text).unwrap_or_default()
}

fn none(model: &mut Model) -> Vec<Ask> {
    model.say(Role::Faint, "there is no task here");
    Vec::new()
}

fn write(model: &mut Model, purpose: Purpose, text: &str) -> Vec<Ask> {
    lay_over(model, Modal::Editor(Box::new(EditorModal::new(purpose, text))))
}

fn ask(command: TaskCommand) -> Vec<Ask> {
    vec![Ask::Command(Command::Task(command))]
}

/// Something is asked about the chosen task.
fn change(model: &mut Model, action: Action) -> Vec<Ask> {
    let Some(task) = model.chosen_task() else { return none(model) };
    let id = task.id.clone();
    match action {
        Action::StartTask => ask(TaskCommand::Start { id, context: None }),
        Action::ReadyTask => ask(TaskCommand::MakeReady { id }),
        // Here and not only when the result is written: nobody should write one in vain.
        Action::CompleteTask if !task.is_open() => {
            model.say(Role::Warning, format!("{} is completed", plain(&id)));
            Vec::new()
        }
        Action::CompleteTask => write(model, Purpose::Done(id), ""),
        Action::EditTask => {
            let before = plain(&form::write(task));
            write(model, Purpose::ChangeTask { id, before: before.clone() }, &before)
        }
        Action::BlockTask => {
            let reason = task.reason.clone().unwrap_or_default();
            write(model, Purpose::Block(id), &reason)
        }
        Action::DependTask => depend(model, id),
        Action::RemoveTask => {
            let question = model.graph().map(|graph| RemoveModal::new(graph, task));
            question.map_or_else(Vec::new, |question| lay_over(model, Modal::Remove(question)))
        }
        _ => {
            let marked = model.board.marked.as_ref() == Some(&id);
            model.board.marked = (!marked).then_some(id);
            Vec::new()
        }
    }
}

/// Lets a task wait for the marked one, or no longer.
fn depend(model: &mut Model, id: String) -> Vec<Ask> {
    let Some(on) = model.marked_task().map(|task| task.id.clone()) else {
        let mark = model.keymap.key(Action::MarkTask);
        model.say(Role::Faint, format!("{mark} marks the task that it is to wait for"));
        return Vec::new();
    };
    let waits = model.chosen_task().is_some_and(|task| task.dependencies.contains(&on));
    ask(if waits { TaskCommand::Undepend { id, on } } else { TaskCommand::Depend { id, on } })
}

/// A task was written down.
pub(super) fn add(text: &str) -> Result<Command, String> {
    form::read(text).map(|task| Command::Task(TaskCommand::Add(task)))
}

/// A task was written down otherwise.
pub(super) fn changed(id: &str, before: &str, text: &str) -> Result<Command, String> {
    let changes = form::changes(before, text)?;
    if changes == TaskChanges::default() {
        return Err("nothing is changed; esc leaves it as it is".into());
    }
    Ok(Command::Task(TaskCommand::Update { id: id.to_owned(), changes }))
}

pub(super) fn done(id: &str, text: &str) -> Command {
    let result = Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
    Command::Task(TaskCommand::Complete(Completion { id: id.to_owned(), result, ..Completion::default() }))
}

pub(super) fn block(id: &str, text: &str) -> Command {
    let (id, reason) = (id.to_owned(), text.trim().to_owned());
    Command::Task(TaskCommand::Block { id, reason, required_knowledge: Vec::new() })
}

pub(super) fn on_remove_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let Some(Modal::Remove(question)) = model.modals.last() else { return Vec::new() };
    let id = question.task.clone();
    match key.code {
        KeyCode::Char('y') => {
            model.modals.pop();
            ask(TaskCommand::Remove { id })
        }
        KeyCode::Esc | KeyCode::Char('n' | 'q') => {
            model.modals.pop();
            Vec::new()
        }
        _ => Vec::new(),
    }
}

pub(super) fn scroll(model: &mut Model, by: isize) {
    let Some(rows) = model.task_rows() else { return };
    let at = moved(model.board.position(rows), by, rows.len());
    let id = rows.get(at).map(|row| row.task.id.clone());
    model.board.choose(id, at);
}

pub(super) fn search(model: &mut Model, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let Some(rows) = model.task_rows() else { return false };
    let fits = |n: usize| rows.get(n).is_some_and(|row| words(row).to_lowercase().contains(&query));
    let Some(at) = next_fit(model.board.position(rows), rows.len(), forward, fits) else { return false };
    let id = rows.get(at).map(|row| row.task.id.clone());
    model.board.choose(id, at);
    true
}

/// What a task is found by.
fn words(row: Row<'_>) -> String {
    let Task { id, goal, labels, reason, .. } = row.task;
    format!("{id} {goal} {} {}", labels.join(" "), reason.as_deref().unwrap_or_default())
}
