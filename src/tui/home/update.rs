//! Keys and clicks of the home screen. Changes the model and returns requests.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::{
    HomeRequest, TaskDecision,
    model::{HomeModal, HomeModel},
    new_session::{FormResult, NewSessionForm},
    preview::PreviewLine,
    view,
};
use crate::{
    engine::event::StopTiming,
    present::session_list::SessionGroup,
    protocol::WorkerOrder,
    sessions::{
        BlockedTaskKey, QueueKey, SessionChange, SessionKey, queue_feed::QueueSummary,
        stored_session::RemovalPreview,
    },
    tui::{
        keymap::{GlobalKey, HomeKey, KeyAction, KeyContext, ScrollKey, WorkerKey},
        modals::{
            help::HelpModal,
            question::{ChoiceQuestion, OfferedChoice},
        },
        theme::ThemeRole,
    },
};

/// The title of the question before a worker stops.
const STOP_WORKER: &str = "Leave the worker?";
/// How many sessions the wheel moves.
const WHEEL: isize = 3;

/// Whether the help page of the home screen has a key.
const fn is_explained(action: KeyAction) -> bool {
    match action {
        KeyAction::Home(_) | KeyAction::Worker(_) => true,
        KeyAction::Scroll(key) => matches!(
            key,
            ScrollKey::Up
                | ScrollKey::Down
                | ScrollKey::PageUp
                | ScrollKey::PageDown
                | ScrollKey::Top
                | ScrollKey::Bottom
        ),
        KeyAction::Global(key) => {
            matches!(
                key,
                GlobalKey::Help | GlobalKey::Redraw | GlobalKey::Suspend
            )
        }
        KeyAction::Stream(_)
        | KeyAction::Hooks(_)
        | KeyAction::Pending(_)
        | KeyAction::Retries(_)
        | KeyAction::Tasks(_)
        | KeyAction::Gate(_)
        | KeyAction::Viewer(_)
        | KeyAction::Diff(_)
        | KeyAction::Replay(_) => false,
    }
}

/// Something that happened to the home screen.
#[derive(Debug)]
pub enum HomeEvent {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    Resize(u16, u16),
    /// The first report of the watcher.
    AllSessions(Vec<SessionChange>),
    Sessions(Vec<SessionChange>),
    Queue(QueueSummary),
    /// What a removal would delete.
    Removal(RemovalPreview),
    /// The form for a new session, with its places.
    NewSession(Box<NewSessionForm>),
    /// Why nothing was done about this blocked task.
    TaskRefused(String, String),
    /// What happened last in a session.
    Preview(SessionKey, Vec<PreviewLine>),
    /// A message about something that the user asked for.
    Toast(ThemeRole, String),
}

/// Changes the model; returns what is to be done.
pub fn update(model: &mut HomeModel, event: HomeEvent) -> Vec<HomeRequest> {
    match event {
        HomeEvent::Key(key) => {
            model.is_used = true;
            on_key(model, key)
        }
        HomeEvent::Mouse(mouse) => {
            model.is_used = true;
            on_mouse(model, mouse)
        }
        HomeEvent::Paste(text) => {
            match &mut model.modal {
                Some(HomeModal::NewSession(form)) => form.paste(&text),
                Some(HomeModal::Filter) => {
                    model
                        .filter
                        .push_str(text.lines().next().unwrap_or_default());
                    model.arrange();
                }
                Some(HomeModal::Hint(_, hint)) => hint.push_str(&text.replace('\n', " ")),
                Some(HomeModal::Help(_) | HomeModal::Question(_)) | None => {}
            }
            Vec::new()
        }
        HomeEvent::Resize(width, height) => {
            model.size = (width, height);
            model.move_by(0);
            Vec::new()
        }
        HomeEvent::AllSessions(changes) => {
            model.take_all(changes);
            Vec::new()
        }
        HomeEvent::Sessions(changes) => {
            model.take(changes);
            Vec::new()
        }
        HomeEvent::Queue(report) => {
            model.take_queue(report);
            Vec::new()
        }
        HomeEvent::Removal(preview) => {
            model.modal = Some(HomeModal::Question(Box::new(ask_to_remove(preview))));
            Vec::new()
        }
        HomeEvent::NewSession(form) => {
            model.modal = Some(HomeModal::NewSession(form));
            Vec::new()
        }
        HomeEvent::TaskRefused(task, why) => {
            let close = OfferedChoice {
                label: "Close".to_owned(),
                effect: String::new(),
                request: None,
            };
            model.modal = Some(HomeModal::Question(Box::new(ChoiceQuestion {
                title: format!("Nothing was done about task {task}"),
                text: why.lines().map(|line| line.trim().to_owned()).collect(),
                choices: vec![close],
                chosen: 0,
            })));
            Vec::new()
        }
        HomeEvent::Preview(key, lines) => {
            model.take_preview(key, lines);
            Vec::new()
        }
        HomeEvent::Toast(role, text) => {
            model.say(role, text);
            Vec::new()
        }
    }
}

fn on_key(model: &mut HomeModel, key: KeyEvent) -> Vec<HomeRequest> {
    model.toast = None;
    let contexts = [
        KeyContext::Worker,
        KeyContext::Home,
        KeyContext::Scroll,
        KeyContext::Global,
    ];
    let own = if model.worker.is_some() {
        &contexts[..]
    } else {
        &contexts[1..]
    };
    let action = model.look.keymap.action(key, own);
    match &mut model.modal {
        Some(HomeModal::Help(help)) => {
            let closes = key.code == KeyCode::Esc
                || matches!(
                    action,
                    Some(KeyAction::Global(GlobalKey::Help) | KeyAction::Home(HomeKey::Quit))
                );
            if closes {
                model.modal = None;
            } else if let Some(action) = action {
                help.key(action, usize::from(model.size.1.saturating_sub(2)));
            }
            Vec::new()
        }
        Some(HomeModal::Question(_)) => on_question_key(model, key, action),
        Some(HomeModal::NewSession(form)) => match form.key(key) {
            FormResult::Stays => Vec::new(),
            FormResult::Closed => {
                model.modal = None;
                Vec::new()
            }
            FormResult::Start(start) => {
                model.modal = None;
                vec![HomeRequest::Start(start)]
            }
        },
        Some(HomeModal::Filter) => on_filter_key(model, key),
        Some(HomeModal::Hint(..)) => on_hint_key(model, key),
        None => match action {
            Some(action) => perform(model, action),
            // Escape takes back what narrows the list.
            None if key.code == KeyCode::Esc && !model.filter.is_empty() => {
                model.filter.clear();
                model.arrange();
                Vec::new()
            }
            None => Vec::new(),
        },
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
fn on_question_key(
    model: &mut HomeModel,
    key: KeyEvent,
    action: Option<KeyAction>,
) -> Vec<HomeRequest> {
    let Some(HomeModal::Question(question)) = &mut model.modal else {
        return Vec::new();
    };
    let number = match key.code {
        KeyCode::Esc => {
            model.modal = None;
            return Vec::new();
        }
        KeyCode::Enter => question.chosen + 1,
        KeyCode::Char(c) if c.is_ascii_digit() => {
            usize::try_from(c.to_digit(10).unwrap_or(0)).unwrap_or(0)
        }
        // The same key again.
        _ if action == Some(HomeKey::Quit.into()) && question.title == STOP_WORKER => 2,
        _ => {
            let by = isize::from(action == Some(ScrollKey::Down.into()))
                - isize::from(action == Some(ScrollKey::Up.into()));
            question.move_by(by);
            return Vec::new();
        }
    };
    answer(model, number)
}

/// Gives the answer with this number, from 1.
fn answer(model: &mut HomeModel, number: usize) -> Vec<HomeRequest> {
    let Some(HomeModal::Question(question)) = &model.modal else {
        return Vec::new();
    };
    let Some(choice) = question.numbered(number).cloned() else {
        return Vec::new();
    };
    model.modal = None;
    if let Some(HomeRequest::AskForHint(task)) = choice.request {
        model.modal = Some(HomeModal::Hint(task, String::new()));
        return Vec::new();
    }
    if let (Some(HomeRequest::Order(WorkerOrder::Finish)), Some(worker)) =
        (&choice.request, &mut model.worker)
    {
        worker.finishes = true;
    }
    choice.request.into_iter().collect()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
fn on_hint_key(model: &mut HomeModel, key: KeyEvent) -> Vec<HomeRequest> {
    let Some(HomeModal::Hint(task, hint)) = &mut model.modal else {
        return Vec::new();
    };
    let control = key
        .modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match key.code {
        KeyCode::Enter => {
            let hint = Some(hint.trim().to_owned()).filter(|hint| !hint.is_empty());
            let request = HomeRequest::Task(task.clone(), TaskDecision::Start(hint));
            model.modal = None;
            return vec![request];
        }
        KeyCode::Esc => model.modal = None,
        KeyCode::Char('c') if control => model.modal = None,
        KeyCode::Char('u') if control => hint.clear(),
        KeyCode::Backspace => {
            hint.pop();
        }
        KeyCode::Char(c) if !control => hint.push(c),
        _ => {}
    }
    Vec::new()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
fn on_filter_key(model: &mut HomeModel, key: KeyEvent) -> Vec<HomeRequest> {
    let control = key
        .modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match key.code {
        KeyCode::Enter => model.modal = None,
        KeyCode::Esc => {
            model.modal = None;
            model.filter.clear();
        }
        KeyCode::Backspace => {
            model.filter.pop();
        }
        KeyCode::Char('u') if control => model.filter.clear(),
        KeyCode::Char('c') if control => model.modal = None,
        KeyCode::Char(c) if !control => model.filter.push(c),
        KeyCode::Up => model.move_by(-1),
        KeyCode::Down => model.move_by(1),
        _ => {}
    }
    model.arrange();
    Vec::new()
}

/// Does what a key means. A key that does nothing for the session under the cursor says why.
fn perform(model: &mut HomeModel, action: KeyAction) -> Vec<HomeRequest> {
    match action {
        KeyAction::Home(key) => return on_home_key(model, key),
        KeyAction::Worker(key) => return on_worker_key(model, key),
        KeyAction::Scroll(key) => {
            if let Some(by) = key.rows(model.height().saturating_sub(1)) {
                model.move_by(by);
            }
        }
        KeyAction::Global(GlobalKey::Help) => {
            let mut places = vec![KeyContext::Home, KeyContext::Scroll, KeyContext::Global];
            let quit = (
                HomeKey::Quit.into(),
                "leave; asks what becomes of the worker and its sessions",
            );
            let is_worker = model.worker.is_some();
            if is_worker {
                places.insert(0, KeyContext::Worker);
            }
            let help = HelpModal::only(places, is_explained);
            model.modal = Some(HomeModal::Help(if is_worker {
                help.with_words(quit)
            } else {
                help
            }));
        }
        KeyAction::Global(GlobalKey::Redraw) => return vec![HomeRequest::Redraw],
        KeyAction::Global(GlobalKey::Suspend) => return vec![HomeRequest::Suspend],
        // The other actions belong to the screen of a session.
        KeyAction::Global(_)
        | KeyAction::Stream(_)
        | KeyAction::Hooks(_)
        | KeyAction::Pending(_)
        | KeyAction::Retries(_)
        | KeyAction::Tasks(_)
        | KeyAction::Gate(_)
        | KeyAction::Viewer(_)
        | KeyAction::Diff(_)
        | KeyAction::Replay(_) => {}
    }
    Vec::new()
}

fn on_home_key(model: &mut HomeModel, key: HomeKey) -> Vec<HomeRequest> {
    let chosen = model.chosen().map(|row| {
        (
            (*row.key).clone(),
            row.session.name.clone(),
            row.session.group(),
        )
    });
    let is_useful = model.useful_keys().contains(&key);
    let (session, name, group) = match (key, chosen) {
        (HomeKey::Filter, _) => {
            model.modal = Some(HomeModal::Filter);
            return Vec::new();
        }
        (HomeKey::Quit, _) if model.worker.is_some() => {
            model.modal = Some(HomeModal::Question(Box::new(ask_to_stop_worker())));
            return Vec::new();
        }
        (HomeKey::Quit, _) => return vec![HomeRequest::Quit],
        (HomeKey::Demo, _) => return vec![HomeRequest::Demo],
        (HomeKey::Init, _) if model.has_config => {
            model.say(ThemeRole::Warning, "This folder already has a config");
            return Vec::new();
        }
        (HomeKey::Init, _) => return vec![HomeRequest::Init],
        (HomeKey::New, near) => {
            return vec![HomeRequest::PrepareNew(near.map(|(session, ..)| session))];
        }
        (_, Some(chosen)) => chosen,
        (_, None) => return Vec::new(),
    };
    if let SessionKey::Task(task) = session {
        return on_task_key(model, key, task);
    }
    let refusal = match key {
        HomeKey::Open if group == SessionGroup::Ended => return vec![HomeRequest::Replay(session)],
        HomeKey::Open => return vec![HomeRequest::Attach(session)],
        HomeKey::Answer if is_useful => return vec![HomeRequest::Attach(session)],
        HomeKey::Answer => format!("{name} does not need you"),
        HomeKey::Stop if is_useful => {
            let question = ask_to_stop(&name, |how| HomeRequest::Stop(session.clone(), how));
            model.modal = Some(HomeModal::Question(Box::new(question)));
            return Vec::new();
        }
        HomeKey::Stop => format!("{name} is not running"),
        HomeKey::Resume if is_useful => return vec![HomeRequest::Resume(session)],
        HomeKey::Resume if group == SessionGroup::Ended => {
            format!("{name} has ended: nothing to resume")
        }
        HomeKey::Resume => format!("{name} is already running"),
        HomeKey::Report if is_useful => return vec![HomeRequest::Report(session)],
        HomeKey::Report => format!("creel makes the report where {name} runs"),
        HomeKey::Remove if is_useful => return vec![HomeRequest::PrepareRemoval(session)],
        HomeKey::Remove => format!("{name} is running: stop it first"),
        HomeKey::Filter | HomeKey::Quit | HomeKey::Demo | HomeKey::Init | HomeKey::New => {
            return Vec::new();
        }
    };
    model.say(ThemeRole::Warning, refusal);
    Vec::new()
}

/// A key of the worker's screen.
fn on_worker_key(model: &mut HomeModel, key: WorkerKey) -> Vec<HomeRequest> {
    if !model.worker_keys().contains(&key) {
        let why = match key {
            WorkerKey::Hint | WorkerKey::Retry => "Choose a blocked task first",
            WorkerKey::Merge if model.worker.as_ref().is_some_and(|worker| worker.merges) => {
                "This worker merges by itself what is finished"
            }
            WorkerKey::Merge => "Nothing is waiting to be merged",
            WorkerKey::Pause | WorkerKey::Drain => "The worker ends already",
        };
        model.say(ThemeRole::Warning, why);
        return Vec::new();
    }
    let task = model.chosen_task().cloned();
    let Some(worker) = &mut model.worker else {
        return Vec::new();
    };
    match (key, task) {
        (WorkerKey::Pause, _) => {
            worker.is_paused = !worker.is_paused;
            let order = if worker.is_paused {
                WorkerOrder::Pause
            } else {
                WorkerOrder::Unpause
            };
            vec![HomeRequest::Order(order)]
        }
        (WorkerKey::Drain, _) => {
            worker.drains = true;
            // Paused, it would never work off the queue.
            worker.is_paused = false;
            model.say(
                ThemeRole::Good,
                "The worker ends when the queue has no task left for it",
            );
            vec![HomeRequest::Order(WorkerOrder::Drain)]
        }
        (WorkerKey::Merge, _) => {
            model.say(ThemeRole::Faint, "Merging what is finished…");
            vec![HomeRequest::Merge]
        }
        (WorkerKey::Hint, Some(task)) => {
            model.modal = Some(HomeModal::Hint(task, String::new()));
            Vec::new()
        }
        (WorkerKey::Retry, Some(task)) => {
            vec![HomeRequest::Task(task, TaskDecision::Start(None))]
        }
        (WorkerKey::Hint | WorkerKey::Retry, None) => Vec::new(),
    }
}

/// A key on the row of a blocked task.
fn on_task_key(model: &mut HomeModel, key: HomeKey, task: BlockedTaskKey) -> Vec<HomeRequest> {
    let name = &task.task;
    match key {
        HomeKey::Open | HomeKey::Report => match task.session.clone().map(SessionKey::Here) {
            Some(session) if key == HomeKey::Report => return vec![HomeRequest::Report(session)],
            Some(session) => return vec![HomeRequest::Replay(session)],
            None => model.say(
                ThemeRole::Warning,
                format!("creel does not know where the session of task {name} is"),
            ),
        },
        HomeKey::Answer => {
            model.modal = Some(HomeModal::Question(Box::new(ask_about_task(&task))));
        }
        HomeKey::Resume => return vec![HomeRequest::Task(task, TaskDecision::Start(None))],
        HomeKey::Stop => model.say(ThemeRole::Warning, format!("Task {name} is not running")),
        HomeKey::Remove => model.say(
            ThemeRole::Warning,
            format!("Task {name} waits for your decision: answer it"),
        ),
        HomeKey::Filter | HomeKey::Quit | HomeKey::Demo | HomeKey::Init | HomeKey::New => {}
    }
    Vec::new()
}

fn ask_about_task(task: &BlockedTaskKey) -> ChoiceQuestion<HomeRequest> {
    let decide = |decision| Some(HomeRequest::Task(task.clone(), decision));
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    let mut choices = vec![
        choice(
            "Start it again",
            "a worker takes it",
            decide(TaskDecision::Start(None)),
        ),
        choice(
            "Start it again with a hint",
            "its agent reads what you write",
            Some(HomeRequest::AskForHint(task.clone())),
        ),
    ];
    // The work of a task is on the machine on which the queue is.
    if matches!(task.queue, QueueKey::Project(_)) {
        choices.push(choice(
            "It is done",
            "its branch counts as finished, and tasks that wait for it start",
            decide(TaskDecision::Done),
        ));
    }
    choices.push(choice(
        "Remove it",
        "no task waits for it any longer",
        decide(TaskDecision::Remove),
    ));
    choices.push(choice("Leave it", "", None));
    ChoiceQuestion {
        title: format!("Task {} is blocked", task.task),
        text: Vec::new(),
        choices,
        chosen: 0,
    }
}

fn ask_to_stop_worker() -> ChoiceQuestion<HomeRequest> {
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    ChoiceQuestion {
        title: STOP_WORKER.to_owned(),
        text: Vec::new(),
        choices: vec![
            choice(
                "Finish the running sessions",
                "it takes no further task, then ends",
                Some(HomeRequest::Order(WorkerOrder::Finish)),
            ),
            choice(
                "Stop now",
                "ends its sessions; their tasks go back to the queue",
                Some(HomeRequest::Quit),
            ),
            choice("Stay here", "", None),
        ],
        chosen: 0,
    }
}

fn ask_to_stop(
    name: &str,
    stop: impl Fn(StopTiming) -> HomeRequest,
) -> ChoiceQuestion<HomeRequest> {
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    ChoiceQuestion {
        title: format!("Stop {name}?"),
        text: vec!["You can resume it later.".to_owned()],
        choices: vec![
            choice(
                "Stop after this iteration",
                "the turn finishes first",
                Some(stop(StopTiming::AfterIteration)),
            ),
            choice(
                "Stop now",
                "cancels the turn, runs session_end",
                Some(stop(StopTiming::Now)),
            ),
            choice("Keep it running", "", None),
        ],
        chosen: 0,
    }
}

fn ask_to_remove(preview: RemovalPreview) -> ChoiceQuestion<HomeRequest> {
    let (name, size) = (preview.folder.name.clone(), preview.size());
    let what = format!(
        "creel deletes this folder with the journal and all output of the session ({size}):"
    );
    ChoiceQuestion {
        title: format!("Remove {name}?"),
        text: vec![
            what,
            preview.folder.path.display().to_string(),
            "You cannot undo this. Your project's files, branches and commits stay.".to_owned(),
        ],
        choices: vec![
            OfferedChoice {
                label: "Keep it".to_owned(),
                effect: String::new(),
                request: None,
            },
            OfferedChoice {
                label: "Remove it".to_owned(),
                effect: String::new(),
                request: Some(HomeRequest::Remove(preview.folder)),
            },
        ],
        chosen: 0,
    }
}

fn on_mouse(model: &mut HomeModel, mouse: MouseEvent) -> Vec<HomeRequest> {
    let area = Rect {
        x: 0,
        y: 0,
        width: model.size.0,
        height: model.size.1,
    };
    let clicked = mouse.kind == MouseEventKind::Down(MouseButton::Left);
    let wheel = match mouse.kind {
        MouseEventKind::ScrollUp => -WHEEL,
        MouseEventKind::ScrollDown => WHEEL,
        MouseEventKind::Down(_)
        | MouseEventKind::Up(_)
        | MouseEventKind::Drag(_)
        | MouseEventKind::Moved
        | MouseEventKind::ScrollLeft
        | MouseEventKind::ScrollRight => 0,
    };
    if let Some(key) = view::key_at(model, area, mouse.column, mouse.row).filter(|_| clicked) {
        return on_key(model, key);
    }
    match &mut model.modal {
        Some(HomeModal::Question(question)) if clicked => {
            let chosen = question.choice_at(area, mouse.column, mouse.row);
            return chosen.map_or_else(Vec::new, |chosen| answer(model, chosen + 1));
        }
        Some(HomeModal::Help(help)) if wheel != 0 => {
            help.key(
                if wheel < 0 {
                    ScrollKey::Up
                } else {
                    ScrollKey::Down
                }
                .into(),
                1,
            );
        }
        Some(HomeModal::Filter) | None if wheel != 0 => model.move_by(wheel),
        Some(HomeModal::Filter) | None if clicked => {
            let is_in_list = view::is_in_list(area, mouse.column);
            let Some(row) = model.row_at(mouse.row).filter(|_| is_in_list) else {
                return Vec::new();
            };
            model.toast = None;
            model.modal = None;
            model.move_to(row);
            return perform(model, KeyAction::Home(HomeKey::Open));
        }
        Some(
            HomeModal::Question(_)
            | HomeModal::Help(_)
            | HomeModal::NewSession(_)
            | HomeModal::Hint(..)
            | HomeModal::Filter,
        )
        | None => {}
    }
    Vec::new()
}
