//! Keys of the tasks pane and of the form of a task.

use crossterm::event::KeyEvent;

use crate::{
    engine::{
        gate::{Gate, kind::GateChoice},
        ids::GateId,
        input::{GateAnswer, SessionCommand},
        tasks::{
            command::{TaskCommand, TaskCompletion},
            graph::Task,
        },
    },
    present::{
        task_view::{ProposalFormError, as_yaml, read_form, with_mistakes},
        text::plain,
    },
    tui::{
        keymap::TaskKey,
        modals::{
            Modal,
            editor::{EditorModal, EditorPurpose},
            question::remove_question,
            task_form::{TaskForm, TaskFormResult},
            viewer::ViewerModal,
        },
        model::{ScreenModel, SentDraft},
        request::{OutsideText, ScreenRequest},
        stream::SearchHit,
        task_board::{TaskRow, details},
        theme::ThemeRole,
        update::hook::{moved, next_fit},
    },
};

pub(super) fn on_task_key(model: &mut ScreenModel, key: TaskKey) {
    match key {
        TaskKey::Open => open(model),
        TaskKey::Add if model.is_live() => {
            if let Some(state) = &model.session {
                let form = TaskForm::new(state.plan(), &state.tasks.graph);
                model.lay_over(Modal::TaskForm(Box::new(form)));
            }
        }
        TaskKey::Filter => {
            model.board.next_filter();
        }
        TaskKey::Tree => {
            model.board.turn();
        }
        TaskKey::Add
        | TaskKey::Edit
        | TaskKey::Start
        | TaskKey::Ready
        | TaskKey::Complete
        | TaskKey::Block
        | TaskKey::Mark
        | TaskKey::Depend
        | TaskKey::Remove => {
            if let Some(task) = task_to_change(model) {
                change(model, key, task);
            }
        }
    }
}

/// The keys that change the selected task.
fn change(model: &mut ScreenModel, key: TaskKey, task: Task) {
    match key {
        TaskKey::Edit => {
            if let Some(state) = &model.session {
                let form = TaskForm::of(&task, state.plan(), &state.tasks.graph);
                model.lay_over(Modal::TaskForm(Box::new(form)));
            }
        }
        TaskKey::Start => ask(
            model,
            TaskCommand::Start {
                id: task.id,
                context: None,
            },
        ),
        TaskKey::Ready => ask(model, TaskCommand::MakeReady { id: task.id }),
        // Asks for the result. A completed task accepts none, so creel does not let the user write
        // one.
        TaskKey::Complete if task.is_open() => write(model, EditorPurpose::Done(task.id), ""),
        TaskKey::Complete => {
            let text = format!("Task {} is completed", plain(&task.id));
            model.say(ThemeRole::Warning, text);
        }
        TaskKey::Block => {
            let reason = task.reason.unwrap_or_default();
            write(model, EditorPurpose::Block(task.id), &reason);
        }
        TaskKey::Mark => {
            let marked = model.board.marked.as_ref() == Some(&task.id);
            model.board.marked = (!marked).then_some(task.id);
        }
        TaskKey::Depend => depend(model, task),
        TaskKey::Remove => {
            let question = model.graph().map(|graph| remove_question(graph, &task));
            if let Some(question) = question {
                model.lay_over(Modal::Remove(Box::new(question)));
            }
        }
        TaskKey::Open | TaskKey::Add | TaskKey::Filter | TaskKey::Tree => {}
    }
}

fn open(model: &mut ScreenModel) {
    let Some(state) = model.chosen_task().map(|task| task.state) else {
        return none(model);
    };
    let (title, text) = chosen_text(model).unwrap_or_default();
    model.lay_over(Modal::Viewer(Box::new(ViewerModal::new(
        title,
        &text,
        state.name(),
    ))));
}

/// The id of the selected task, and its details.
fn chosen_text(model: &ScreenModel) -> Option<(String, String)> {
    let task = model.chosen_task()?;
    Some((
        plain(&task.id),
        details::text(model.graph()?, task, model.moment()),
    ))
}

pub(super) fn text_of_chosen(model: &ScreenModel) -> String {
    chosen_text(model).map(|(_, text)| text).unwrap_or_default()
}

fn none(model: &mut ScreenModel) {
    model.say(ThemeRole::Faint, "there is no task here");
}

fn write(model: &mut ScreenModel, purpose: EditorPurpose, text: &str) {
    model.lay_over(Modal::Editor(Box::new(EditorModal::new(purpose, text))));
}

fn ask(model: &mut ScreenModel, command: TaskCommand) {
    model.request(ScreenRequest::Command(SessionCommand::Task {
        task: command,
    }));
}

/// The selected task, if the session is live. If there is none, the screen says so.
fn task_to_change(model: &mut ScreenModel) -> Option<Task> {
    if !model.is_live() {
        return None;
    }
    let chosen = model.chosen_task().cloned();
    if chosen.is_none() {
        none(model);
    }
    chosen
}

/// Makes a task wait for the marked one, or removes that dependency.
fn depend(model: &mut ScreenModel, task: Task) {
    let Some(on) = model.marked_task().map(|task| task.id.clone()) else {
        let mark = model.look.keymap.key(TaskKey::Mark);
        model.say(
            ThemeRole::Faint,
            format!("first mark the task that it should depend on, with {mark}"),
        );
        return;
    };
    let (waits, id) = (task.dependencies.contains(&on), task.id);
    ask(
        model,
        if waits {
            TaskCommand::Undepend { id, on }
        } else {
            TaskCommand::Depend { id, on }
        },
    );
}

pub(super) fn on_form_key(model: &mut ScreenModel, key: KeyEvent) {
    let Some(Modal::TaskForm(form)) = model.modals.last_mut() else {
        return;
    };
    match form.key(key) {
        TaskFormResult::Stays => {}
        TaskFormResult::Closed => {
            model.modals.pop();
        }
        TaskFormResult::EditOutside(text) => {
            model.request(ScreenRequest::EditOutside(OutsideText::TaskField, text));
        }
        TaskFormResult::Save => save(model),
    }
}

/// Sends the form, unless it has a mistake. It comes back if the session refuses it.
fn save(model: &mut ScreenModel) {
    let Some(graph) = model.session.as_ref().map(|state| &state.tasks.graph) else {
        return;
    };
    let Some(Modal::TaskForm(form)) = model.modals.last_mut() else {
        return;
    };
    if !form.check(graph) {
        return;
    }
    let commands = form.commands(graph);
    if commands.is_empty() {
        return model.say(
            ThemeRole::Warning,
            "you changed nothing; press esc to leave",
        );
    }
    if let Some(Modal::TaskForm(form)) = model.modals.pop() {
        let draft = SentDraft::Task(form);
        model.drafts.sent.keep(commands.clone(), draft);
    }
    model.request(match <[SessionCommand; 1]>::try_from(commands) {
        Ok([command]) => ScreenRequest::Command(command),
        Err(commands) => ScreenRequest::InOrder(commands),
    });
}

pub(super) fn done(id: &str, text: &str) -> SessionCommand {
    let result = Some(text.trim())
        .filter(|text| !text.is_empty())
        .map(str::to_owned);
    SessionCommand::Task {
        task: TaskCommand::Complete(TaskCompletion {
            id: id.to_owned(),
            result,
            ..TaskCompletion::default()
        }),
    }
}

pub(super) fn block(id: &str, text: &str) -> SessionCommand {
    let (id, reason) = (id.to_owned(), text.trim().to_owned());
    SessionCommand::Task {
        task: TaskCommand::Block {
            id,
            reason,
            required_knowledge: Vec::new(),
        },
    }
}

pub(super) fn scroll(model: &mut ScreenModel, by: isize) {
    let Some(rows) = model.task_rows() else {
        return;
    };
    let at = moved(model.board.position(rows), by, rows.len());
    let id = rows.get(at).map(|row| row.task.id.clone());
    model.board.choose(id, at);
}

pub(super) fn search(model: &mut ScreenModel, query: &str, forward: bool) -> Option<SearchHit> {
    let query = query.to_lowercase();
    let rows = model.task_rows()?;
    let fits = |n: usize| {
        rows.get(n)
            .is_some_and(|row| words(row).to_lowercase().contains(&query))
    };
    let (at, hit) = next_fit(model.board.position(rows), rows.len(), forward, fits)?;
    let id = rows.get(at).map(|row| row.task.id.clone());
    model.board.choose(id, at);
    Some(hit)
}

/// The text that a search looks at.
fn words(row: TaskRow<'_>) -> String {
    let task = row.task;
    format!(
        "{} {} {} {}",
        task.id,
        task.goal,
        task.labels.join(" "),
        task.reason.as_deref().unwrap_or_default()
    )
}

/// The tasks as the editor shows them.
pub(super) fn proposal_form(gate: &Gate) -> String {
    gate.subject
        .proposal()
        .map(|proposal| as_yaml(&proposal.tasks))
        .unwrap_or_default()
}

/// The command that changes the tasks.
pub(super) fn edited_proposal(
    gate: GateId,
    text: &str,
) -> Result<SessionCommand, ProposalFormError> {
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
pub(super) fn corrected_proposal(model: &ScreenModel, text: &str) -> Option<String> {
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
