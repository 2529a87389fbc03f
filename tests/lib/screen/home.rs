//! The home screen: its frames and its keys.

use std::{fs, path::Path};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use expect_test::{expect, expect_file};
use ratatui::{buffer::Buffer, layout::Rect};

use crate::support::screen::{frame_of, styles_of};
use creel::{
    config::{MotionMode, ThemeName},
    engine::{
        budget::CostTotal,
        event::{SessionOutcome, StopTiming},
        gate::kind::GateKind,
        queue::{QueueCounts, QueuedTask, QueuedTaskState, task_spec::TaskSpec},
        tasks::graph::TaskDescription,
        time::{TimeSpan, UnixTime},
    },
    present::{
        describe::EventTone,
        session_chip::CurrentActivity,
        session_list::{ListedSession, ListedState},
        style::SignSet,
    },
    protocol::WorkerOrder,
    queue::backend::QueueTaskKey,
    sessions::{
        BlockedTaskKey, QueueKey, SessionChange, SessionKey,
        queue_feed::{QueueSummary, summary_of_fleet},
    },
    tui::{
        home::{
            HomeRequest, TaskDecision,
            model::{HomeModel, HomeScope, WorkerBoard},
            preview::PreviewLine,
            update::{HomeEvent, update},
            view,
        },
        keymap::Keymap,
        theme::ScreenTheme,
    },
    worktrees::merge_report::MergeReport,
};

/// Columns and rows.
type Cells = (u16, u16);

const SIZES: [Cells; 4] = [(60, 16), (80, 24), (120, 40), (200, 50)];
const MINUTE: i64 = 60_000;
/// 14:44 on some day.
const NOW: i64 = 1_000_000 * 86_400 + 14 * 60 * MINUTE + 44 * MINUTE;

fn key(name: &str) -> SessionKey {
    SessionKey::Here(format!("/home/me/src/x/.creel/sessions/{name}").into())
}

fn session(name: &str, project: &str, minutes: i64, state: ListedState) -> SessionChange {
    let changed = UnixTime(
        NOW - if matches!(state, ListedState::Runs { .. }) {
            0
        } else {
            minutes * MINUTE
        },
    );
    let listed = ListedSession {
        retries: if name == "docs" { (2, 5) } else { (0, 5) },
        agent: "claude".into(),
        goal: goal(name).into(),
        iteration: 2,
        max_iterations: 10,
        started: Some(UnixTime(NOW - minutes * MINUTE - 192_000)),
        state,
        ..ListedSession::unread(name, project, changed)
    };
    SessionChange::Seen(key(name), Box::new(listed))
}

fn goal(name: &str) -> &'static str {
    match name {
        "fix-parser" => "Fix the parser: nested lists lose their last item",
        "docs" => "Write the manual, with an example for each command",
        "add-cli" => "Add a command line",
        _ => "",
    }
}

fn runs(activity: CurrentActivity) -> ListedState {
    ListedState::Runs {
        activity,
        reason: String::new(),
    }
}

fn asks(minutes: i64) -> ListedState {
    let activity = CurrentActivity::NeedsUser {
        gate: GateKind::RetryLimit,
        since: UnixTime(NOW - minutes * MINUTE),
    };
    ListedState::Runs {
        activity,
        reason: "case_4 … left: 1, right: 0".into(),
    }
}

fn works() -> ListedState {
    let since = Some(UnixTime(NOW - 72_000));
    runs(CurrentActivity::Works {
        since,
        last_update: since,
        silent: false,
        step: None,
        then: None,
    })
}

fn ended(outcome: SessionOutcome, reason: &str) -> ListedState {
    ListedState::Ended {
        outcome,
        reason: reason.into(),
    }
}

/// The sessions of the target's picture, and some more.
fn sessions() -> Vec<SessionChange> {
    let hook = CurrentActivity::RunsHook {
        hook: "tests".into(),
        since: Some(UnixTime(NOW - 12_000)),
        limit: Some(TimeSpan::secs(60)),
        then: None,
    };
    vec![
        session("fix-parser", "/home/me/src/parser", 12, asks(12)),
        session("docs", "/home/me/src/site", 3, works()),
        session("task-7", "/home/me/src/parser", 33, runs(hook)),
        session(
            "nightly",
            "/home/me/src/site",
            7,
            runs(CurrentActivity::Paused { by: String::new() }),
        ),
        session(
            "add-cli",
            "/home/me/src/parser",
            60,
            ended(SessionOutcome::Complete, "all tests pass"),
        ),
        session(
            "lint",
            "/srv/very/long/path/of/a/project/elsewhere",
            90,
            ended(SessionOutcome::Forced, "fmt"),
        ),
        session(
            "broken",
            "/home/me/src/site",
            2_000,
            ended(SessionOutcome::Failed, "3 turns failed in a row"),
        ),
        session(
            "killed",
            "/home/me/src/site",
            5_000,
            ListedState::Stopped { gate: None },
        ),
        session("unread", "/home/me/src/site", 9_000, ListedState::Unread),
    ]
}

fn stopped() -> ListedState {
    ListedState::Stopped { gate: None }
}

fn dark() -> ScreenTheme {
    ScreenTheme::chosen(ThemeName::Dark, false)
}

fn home_in(size: Cells, theme: ScreenTheme) -> HomeModel {
    let mut model = HomeModel::new(Keymap::standard(), theme, HomeScope::Machine);
    (model.size, model.now, model.home_dir) = (size, UnixTime(NOW), Some("/home/me".into()));
    model
}

fn home(size: Cells) -> HomeModel {
    let mut model = home_in(size, dark());
    update(&mut model, HomeEvent::AllSessions(sessions()));
    model
}

fn draw(model: &mut HomeModel) -> Buffer {
    let area = Rect {
        x: 0,
        y: 0,
        width: model.size.0,
        height: model.size.1,
    };
    let mut buffer = Buffer::empty(area);
    view::prepare(model, area);
    view::draw(model, area, &mut buffer);
    buffer
}

fn frame(model: &mut HomeModel) -> String {
    frame_of(&draw(model))
}

fn press(model: &mut HomeModel, keys: &str) -> Vec<HomeRequest> {
    let code = |key: &str| match key {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "down" => KeyCode::Down,
        "tab" => KeyCode::Tab,
        "right" => KeyCode::Right,
        other => KeyCode::Char(other.chars().next().expect("a key")),
    };
    let keys = keys
        .split(' ')
        .map(|key| KeyEvent::new(code(key), KeyModifiers::NONE));
    keys.flat_map(|key| update(model, HomeEvent::Key(key)))
        .collect()
}

// Frames

#[test]
fn the_frames_of_the_home_screen() {
    let frames = [
        expect_file!["../../frames/home-60.txt"],
        expect_file!["../../frames/home-80.txt"],
        expect_file!["../../frames/home-120.txt"],
        expect_file!["../../frames/home-200.txt"],
    ];
    for (size, expected) in SIZES.into_iter().zip(frames) {
        let mut shown = String::new();
        let mut show = |name: &str, model: &mut HomeModel| {
            shown += &format!("== {name} ==\n{}\n", frame(model));
        };
        show("sessions", &mut home(size));
        let mut model = home(size);
        press(&mut model, "down s");
        show("stop", &mut model);
        press(&mut model, "esc / s i t e");
        show("filter", &mut model);
        press(&mut model, "x x");
        show("filter without a match", &mut model);
        press(&mut model, "esc ?");
        show("keys", &mut model);
        let mut empty = home_in(size, dark());
        update(&mut empty, HomeEvent::AllSessions(Vec::new()));
        show("empty", &mut empty);
        let mut fleet = home_in(size, dark());
        fleet.scope = HomeScope::Fleet;
        let on = |change: SessionChange, host: &str, user: &str| match change {
            SessionChange::Seen(key, listed) => {
                let listed = ListedSession {
                    host: host.into(),
                    user: user.into(),
                    ..*listed
                };
                SessionChange::Seen(key, Box::new(listed))
            }
            removed @ SessionChange::Removed(_) => removed,
        };
        let hosts = [("build-1", "ada"), ("laptop", "grace")]
            .into_iter()
            .cycle();
        let all = sessions()
            .into_iter()
            .zip(hosts)
            .map(|(one, (host, user))| on(one, host, user));
        update(&mut fleet, HomeEvent::AllSessions(all.collect()));
        show("fleet", &mut fleet);
        let mut queued = home(size);
        update(&mut queued, HomeEvent::Queue(blocked_task()));
        queued.move_to(0);
        show("queue", &mut queued);
        press(&mut queued, "a");
        show("blocked task", &mut queued);
        press(&mut queued, "2 u s e");
        show("hint", &mut queued);
        expected.assert_eq(&shown);
    }
}

/// A queue in which one task needs the user. Its session is on this machine.
fn blocked_task() -> QueueSummary {
    let key = BlockedTaskKey {
        queue: QueueKey::Project("/home/me/src/parser".into()),
        key: QueueTaskKey::own("9"),
        task: "9".to_owned(),
        session: Some("/home/me/src/parser/.creel/sessions/task-9".into()),
    };
    let order = TaskSpec {
        id: "9".to_owned(),
        description: TaskDescription {
            goal: "Upgrade to 3.0".to_owned(),
            ..TaskDescription::default()
        },
        ..TaskSpec::default()
    };
    let task = QueuedTask::new(order, UnixTime(NOW));
    let why = "tests still fails after 5 retries: src/api.rs:41";
    let listed = ListedSession::blocked_task(&task, "/home/me/src/parser", why);
    QueueSummary {
        counts: QueueCounts {
            waiting: 1,
            ready: 9,
            active: 3,
            blocked: 1,
            unmerged: 2,
        },
        blocked: vec![(SessionKey::Task(key), listed)],
        ..QueueSummary::default()
    }
}

#[test]
fn a_blocked_task_is_decided_on_the_home_screen() {
    let mut model = home((80, 24));
    update(&mut model, HomeEvent::Queue(blocked_task()));
    let at = model
        .rows()
        .iter()
        .position(|row| row.session.name == "task 9");
    model.move_to(at.expect("the blocked task needs the user"));
    let Some(SessionKey::Task(task)) = model.chosen().map(|row| (*row.key).clone()) else {
        panic!("the cursor is on the task");
    };
    let decide = |decision| vec![HomeRequest::Task(task.clone(), decision)];
    let session = task.session.clone().expect("it is here");
    assert_eq!(
        press(&mut model, "enter"),
        [HomeRequest::Replay(SessionKey::Here(session))]
    );
    assert_eq!(press(&mut model, "r"), decide(TaskDecision::Start(None)));
    assert_eq!(press(&mut model, "a 1"), decide(TaskDecision::Start(None)));
    let hint = Some("use tabs".to_owned());
    let keys = "a 2 u s e enter";
    assert_eq!(
        press(&mut model, keys),
        decide(TaskDecision::Start(Some("use".to_owned())))
    );
    press(&mut model, "a 2");
    update(&mut model, HomeEvent::Paste("use\ntabs".to_owned()));
    assert_eq!(
        press(&mut model, "enter"),
        decide(TaskDecision::Start(hint))
    );
    assert_eq!(press(&mut model, "a 3"), decide(TaskDecision::Done));
    assert_eq!(press(&mut model, "a 4"), decide(TaskDecision::Remove));
    assert_eq!(press(&mut model, "a 5 a 2 u esc s x"), []);
    // Sessions and tasks arrive in any order, and a task that is decided goes.
    update(&mut model, HomeEvent::AllSessions(sessions()));
    assert!(model.chosen_task().is_some());
    update(&mut model, HomeEvent::Queue(QueueSummary::default()));
    assert!(!model.has_queue() && model.chosen_task().is_none());
}

#[test]
fn the_styles_of_the_home_screen() {
    let themes = [
        (dark(), expect_file!["../../frames/home-styles-dark.txt"]),
        (
            ScreenTheme::chosen(ThemeName::Light, false),
            expect_file!["../../frames/home-styles-light.txt"],
        ),
        (
            ScreenTheme::chosen(ThemeName::Dark, true),
            expect_file!["../../frames/home-styles-plain.txt"],
        ),
    ];
    for (theme, expected) in themes {
        let mut model = home_in((120, 40), theme);
        update(&mut model, HomeEvent::AllSessions(sessions()));
        expected.assert_eq(&styles_of(&draw(&mut model)));
    }
}

#[test]
fn every_size_shows_what_needs_the_user_and_what_runs() {
    for size in SIZES {
        let frame = frame(&mut home(size));
        for fact in [
            "1 needs you",
            "NEEDS YOU",
            "◆ fix-parser",
            "Retry limit",
            "since 14:32",
            "2/10",
            "Working 1:12",
        ] {
            assert!(frame.contains(fact), "no `{fact}` at {size:?}:\n{frame}");
        }
    }
}

#[test]
fn without_unicode_every_sign_is_ascii() {
    let mut model = home((120, 40));
    model.look.signs = SignSet::AsciiOnly;
    let frame = frame(&mut model);
    assert!(frame.is_ascii(), "{frame}");
}

// Motion

#[test]
fn only_running_sessions_move() {
    let mut model = home((120, 40));
    assert_eq!(model.next_tick(), Some(UnixTime(NOW + 250)));
    model.look.motion = MotionMode::Reduced;
    assert_eq!(model.next_tick(), Some(UnixTime(NOW + 1_000)));
    let before = frame(&mut model);
    model.now = UnixTime(NOW + 250);
    assert_eq!(
        frame(&mut model),
        before,
        "with reduced motion nothing spins"
    );
    let resting = sessions().into_iter().filter(|change| match change {
        SessionChange::Seen(_, listed) => !listed.has_clock(),
        SessionChange::Removed(_) => false,
    });
    let mut model = home_in((120, 40), dark());
    update(&mut model, HomeEvent::AllSessions(resting.collect()));
    assert_eq!(
        model.next_tick(),
        None,
        "a session at a gate or at its end draws nothing"
    );
    let before = frame(&mut model);
    model.now = UnixTime(NOW + 10 * MINUTE);
    assert_eq!(frame(&mut model), before);
}

// Keys

#[test]
fn the_cursor_stays_on_its_session_when_the_order_changes() {
    let mut model = home((80, 24));
    let chosen = |model: &HomeModel| {
        model
            .chosen()
            .map(|row| row.session.name.clone())
            .unwrap_or_default()
    };
    press(&mut model, "down");
    assert_eq!((chosen(&model).as_str(), model.position()), ("docs", 1));
    update(
        &mut model,
        HomeEvent::Sessions(vec![session("nightly", "/home/me/src/site", 7, asks(1))]),
    );
    assert_eq!((chosen(&model).as_str(), model.position()), ("docs", 2));
    let over = ended(SessionOutcome::Complete, "done");
    update(
        &mut model,
        HomeEvent::Sessions(vec![session("docs", "/home/me/src/site", 0, over)]),
    );
    assert_eq!((chosen(&model).as_str(), model.position()), ("docs", 3));
    update(
        &mut model,
        HomeEvent::Sessions(vec![SessionChange::Removed(key("docs"))]),
    );
    assert_eq!(
        (chosen(&model).as_str(), model.position()),
        ("add-cli", 3),
        "the next one takes its place"
    );
}

#[test]
fn keys_do_what_the_footer_says_and_nothing_else() {
    let mut model = home((120, 40));
    assert!(frame(&mut model).contains(
        "enter open  a answer  n new session  s stop  / filter  o report  ? keys  q quit"
    ));
    assert_eq!(
        press(&mut model, "enter"),
        [HomeRequest::Attach(key("fix-parser"))]
    );
    assert_eq!(
        press(&mut model, "a"),
        [HomeRequest::Attach(key("fix-parser"))]
    );
    assert_eq!(
        press(&mut model, "o"),
        [HomeRequest::Report(key("fix-parser"))]
    );
    assert_eq!(press(&mut model, "x"), []);
    assert!(frame(&mut model).contains("fix-parser is running: stop it first"));
    assert_eq!(
        press(&mut model, "s 2"),
        [HomeRequest::Stop(key("fix-parser"), StopTiming::Now)]
    );
    assert_eq!(
        press(&mut model, "s enter"),
        [HomeRequest::Stop(
            key("fix-parser"),
            StopTiming::AfterIteration
        )]
    );
    assert_eq!(press(&mut model, "s 3"), []);
    assert_eq!(press(&mut model, "down a"), []);
    assert!(frame(&mut model).contains("docs does not need you"));
    assert_eq!(
        press(&mut model, "G k enter"),
        [HomeRequest::Replay(key("killed"))]
    );
    assert_eq!(press(&mut model, "q"), [HomeRequest::Quit]);
    assert_eq!(
        press(&mut model, "n"),
        [HomeRequest::PrepareNew(Some(key("killed")))]
    );
}

#[test]
fn a_session_that_ran_while_the_home_screen_was_closed_is_read_again() {
    let mut model = home((80, 24));
    let mut memory = {
        update(
            &mut model,
            HomeEvent::Sessions(vec![session("docs", "/home/me/src/site", 3, stopped())]),
        );
        model.remember()
    };
    let mut again = home_in((80, 24), dark());
    again.restore(&mut memory);
    let back =
        |name: &str, minutes: i64| session(name, "/home/me/src/site", minutes, ListedState::Unread);
    // One ran until now, the other one has not changed.
    update(
        &mut again,
        HomeEvent::AllSessions(vec![back("docs", 0), back("killed", 5_000)]),
    );
    let unread: Vec<SessionKey> = again.unread_in_view();
    assert_eq!(unread, [key("docs")], "{}", frame(&mut again));
    // Until then it shows what was known, so that no key of the footer moves while the user clicks
    // on it.
    assert!(
        again
            .rows()
            .iter()
            .all(|row| matches!(row.session.state, ListedState::Stopped { .. }))
    );
    // Even if the user leaves the home screen before it is read.
    let mut memory = again.remember();
    let mut later = home_in((80, 24), dark());
    later.now = UnixTime(NOW + 60 * MINUTE);
    later.restore(&mut memory);
    let mut memory = later.remember();
    let mut again = home_in((80, 24), dark());
    again.restore(&mut memory);
    update(
        &mut again,
        HomeEvent::AllSessions(vec![back("docs", 0), back("killed", 5_000)]),
    );
    assert_eq!(again.unread_in_view(), [key("docs")]);
    update(
        &mut again,
        HomeEvent::Sessions(vec![session("docs", "/home/me/src/site", 0, stopped())]),
    );
    assert_eq!(again.unread_in_view(), []);
}

#[test]
fn a_narrow_home_tells_sessions_apart_and_shows_the_goal() {
    let mut model = home_in((60, 16), dark());
    let seen = |name: &str, goal: &str| {
        let SessionChange::Seen(key, listed) = session(name, "/home/me/src/parser", 1, works())
        else {
            unreachable!()
        };
        SessionChange::Seen(
            key,
            Box::new(ListedSession {
                goal: goal.into(),
                ..*listed
            }),
        )
    };
    let all = vec![
        seen(
            "fix-the-parser-of-nested-lists-2",
            "Fix the parser of nested lists",
        ),
        seen("fix-the-parser-of-nested-lists-3", "Write the printer"),
    ];
    update(&mut model, HomeEvent::AllSessions(all));
    let shown = frame(&mut model);
    assert!(
        shown.contains("fix-the-…d-lists-2") && shown.contains("fix-the-…d-lists-3"),
        "{shown}"
    );
    assert!(
        shown.contains("\n ~/src/parser · Fix the parser of nested lists\n"),
        "{shown}"
    );
    press(&mut model, "j");
    assert!(
        frame(&mut model).contains("~/src/parser · Write the printer"),
        "{}",
        frame(&mut model)
    );
    model.size = (120, 40);
    assert!(
        frame(&mut model).contains("│ Write the printer "),
        "{}",
        frame(&mut model)
    );
}

/// The sessions of docs/home.md.
fn sessions_of_the_book() -> Vec<SessionChange> {
    let mut sessions = sessions();
    sessions.truncate(6);
    let with = |change: SessionChange, more: &dyn Fn(ListedSession) -> ListedSession| match change {
        SessionChange::Seen(key, listed) => SessionChange::Seen(key, Box::new(more(*listed))),
        removed @ SessionChange::Removed(_) => removed,
    };
    let mores: [&dyn Fn(ListedSession) -> ListedSession; 6] = [
        &|listed| ListedSession {
            goal: "Fix the parser: nested lists lose their last item".into(),
            ..listed
        },
        &|listed| ListedSession {
            agent: "codex".into(),
            iteration: 1,
            max_iterations: 5,
            ..listed
        },
        &|listed| ListedSession {
            iteration: 4,
            ..listed
        },
        &|listed| ListedSession {
            iteration: 7,
            max_iterations: 30,
            ..listed
        },
        &|listed| ListedSession {
            cost: CostTotal {
                known: 0.42,
                turns: 1,
                ..CostTotal::default()
            },
            iteration: 3,
            ..listed
        },
        &|listed| ListedSession {
            agent: "gemini".into(),
            iteration: 1,
            max_iterations: 3,
            project: "/home/me/src/site".into(),
            ..listed
        },
    ];
    sessions
        .into_iter()
        .zip(mores)
        .map(|(one, more)| with(one, more))
        .collect()
}

#[test]
fn the_list_in_the_book_is_a_frame() {
    let mut model = home_in((110, 13), dark());
    update(&mut model, HomeEvent::AllSessions(sessions_of_the_book()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/home.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once("```text\n").expect("the list");
    let (_, after) = rest.split_once("```\n").expect("its end");
    let written = format!(
        "{before}```text\n{}\n```\n{after}",
        frame(&mut model).trim_end()
    );
    if std::env::var_os("UPDATE_ASSETS").is_some() {
        fs::write(&path, &written).expect("it is ours");
    }
    assert!(
        written == page,
        "run the tests with UPDATE_ASSETS=1 to write docs/home.md again"
    );
}

#[test]
fn the_home_screen_of_a_worker_says_so_and_what_quitting_does() {
    let mut model = home((80, 24));
    model.worker = Some(WorkerBoard {
        jobs: 3,
        agents: vec!["claude".to_owned(), "codex".to_owned()],
        ..WorkerBoard::default()
    });
    let shown = frame(&mut model);
    assert!(shown.starts_with(" worker · 3 jobs"), "{shown}");
    assert!(shown.contains("a answer  p pause  d drain"), "{shown}");
    press(&mut model, "?");
    let help = frame(&mut model);
    assert!(
        help.contains("leave; asks what becomes of the worker"),
        "{help}"
    );
    assert!(!help.contains("sessions keep running"), "{help}");
    assert_eq!(
        model.farewell(),
        None,
        "the worker says itself how it ended"
    );
}

/// A worker with tasks in every state.
fn worker(size: Cells) -> HomeModel {
    let mut model = home(size);
    model.worker = Some(WorkerBoard {
        jobs: 3,
        agents: vec!["claude".to_owned(), "codex".to_owned()],
        started: UnixTime(NOW - 4_080_000),
        ..WorkerBoard::default()
    });
    let task = |id: &str, state: QueuedTaskState| QueuedTask {
        state,
        branch: Some(format!("creel/task-{id}")),
        ..QueuedTask::new(
            TaskSpec {
                id: id.to_owned(),
                description: TaskDescription {
                    goal: format!("Goal of {id}"),
                    ..TaskDescription::default()
                },
                ..TaskSpec::default()
            },
            UnixTime(NOW),
        )
    };
    let done = |at: &str| QueuedTaskState::Completed {
        result: None,
        by: None,
        completed_at: at.to_owned(),
    };
    let tasks = [
        task("t1", QueuedTaskState::Ready),
        task("t2", QueuedTaskState::Created),
        task("t3", done("2026-01-01T00:00:00Z")),
        QueuedTask {
            merged: Some("4f2c1aab00".to_owned()),
            ..task("t4", done("2026-01-01T00:00:01Z"))
        },
    ];
    let queue = "shop".to_owned();
    let report = summary_of_fleet(tasks.iter().map(|task| (&queue, task)));
    update(&mut model, HomeEvent::Queue(report));
    model
}

/// A worker whose merge queue tests these tasks.
fn merging(size: Cells, tested: &[&str]) -> HomeModel {
    let mut model = worker(size);
    let queue = "shop".to_owned();
    let done = QueuedTaskState::Completed {
        result: None,
        by: None,
        completed_at: "2026-01-01T00:00:00Z".to_owned(),
    };
    let task = |id: &str| QueuedTask {
        branch: Some(format!("creel/task-{id}")),
        state: done.clone(),
        ..QueuedTask::new(
            TaskSpec {
                id: id.to_owned(),
                description: TaskDescription {
                    goal: format!("Goal of {id}"),
                    ..TaskDescription::default()
                },
                ..TaskSpec::default()
            },
            UnixTime(NOW),
        )
    };
    let tasks = ["t3", "t5", "t6"].map(task);
    let mut report = summary_of_fleet(tasks.iter().map(|task| (&queue, task)));
    report.tested.push(MergeReport {
        tasks: tested.iter().map(|id| (*id).to_owned()).collect(),
        number: 1,
        checks: 2,
        check: "cargo test".to_owned(),
        since: UnixTime(NOW - 42_000),
    });
    update(&mut model, HomeEvent::Queue(report));
    model
}

#[test]
fn the_screen_of_a_worker_shows_what_the_merge_queue_tests() {
    let shown = |tested: &[&str]| {
        let mut model = merging((80, 24), tested);
        assert!(model.next_tick().is_some());
        let frame = frame(&mut model);
        let rows = frame.lines().skip_while(|row| !row.starts_with(" MERGE"));
        // Every row begins with an empty column.
        rows.take(4)
            .map(|row| format!("{}\n", row.strip_prefix(' ').unwrap_or(row)))
            .collect::<String>()
    };
    expect![[r#"
         MERGE  2
          ⠋ t3 + t5  cargo test                  testing together, 1 of 2 checks   0:42
          ⇄ t6  Goal of t6                                           waits to be merged
         ENDED  5
         MERGE  3
          ⠋ t3  Goal of t3                                testing, 1 of 2 checks   0:42
          ⇄ t5  Goal of t5                                           waits to be merged
          ⇄ t6  Goal of t6                                           waits to be merged
         MERGE  4
          ⠋ the base branch  cargo test                   testing, 1 of 2 checks   0:42
          ⇄ t3  Goal of t3                                           waits to be merged
          ⇄ t5  Goal of t5                                           waits to be merged
    "#]]
    .assert_eq(&(shown(&["t3", "t5"]) + &shown(&["t3"]) + &shown(&[])));
}

#[test]
fn the_screen_of_a_worker_shows_its_tasks_by_state() {
    let mut sheet = String::new();
    for size in [(60, 16), (80, 24), (120, 35), (200, 50)] {
        sheet += &format!("== {}x{} ==\n{}", size.0, size.1, frame(&mut worker(size)));
        let mut merging = merging(size, &["t3", "t5"]);
        sheet += &format!("-- merging --\n{}", frame(&mut merging));
    }
    expect_file!["../../frames/worker.txt"].assert_eq(&sheet);
}

#[test]
fn a_worker_is_paused_drained_and_left() {
    let mut model = worker((120, 35));
    let order = |order| vec![HomeRequest::Order(order)];
    assert_eq!(press(&mut model, "p"), order(WorkerOrder::Pause));
    assert!(frame(&mut model).contains("⏸ paused"));
    assert_eq!(press(&mut model, "p"), order(WorkerOrder::Unpause));
    assert_eq!(press(&mut model, "d"), order(WorkerOrder::Drain));
    assert_eq!(press(&mut model, "d"), [], "it does so already");
    assert_eq!(press(&mut model, "m"), [HomeRequest::Merge]);
    assert_eq!(press(&mut model, "q"), []);
    let question = frame(&mut model);
    assert!(
        question.contains("Finish the running sessions"),
        "{question}"
    );
    assert_eq!(press(&mut model, "3"), []);
    press(&mut model, "q");
    assert_eq!(press(&mut model, "2"), [HomeRequest::Quit]);
    press(&mut model, "q");
    assert_eq!(press(&mut model, "1"), order(WorkerOrder::Finish));
    assert!(frame(&mut model).contains("finishes its sessions"));
    assert_eq!(press(&mut model, "p"), [], "it ends");
}

#[test]
fn a_wide_screen_shows_what_happened_last_in_the_selected_session() {
    let mut model = home((160, 30));
    let key = model.preview_to_read().expect("a session is selected");
    assert_eq!(model.preview_to_read(), None, "it is being read");
    let line = |text: &str, tone| PreviewLine {
        text: text.to_owned(),
        tone,
    };
    let lines = vec![
        line("I'll look at the failing test first.", EventTone::Plain),
        line("✗ stop: tests blocked · exit 2", EventTone::Failed),
    ];
    update(&mut model, HomeEvent::Preview(key, lines));
    assert_eq!(model.preview_to_read(), None, "nothing has changed");
    expect_file!["../../frames/home-preview-160.txt"].assert_eq(&frame(&mut model));
    for (size, expected) in [
        ((120, 40), expect_file!["../../frames/home-preview-120.txt"]),
        ((200, 50), expect_file!["../../frames/home-preview-200.txt"]),
    ] {
        let mut model = home(size);
        let key = model.preview_to_read().expect("a session is selected");
        let lines = vec![line(
            "I'll look at the failing test first.",
            EventTone::Plain,
        )];
        update(&mut model, HomeEvent::Preview(key, lines));
        expected.assert_eq(&frame(&mut model));
    }
    press(&mut model, "j");
    assert!(!frame(&mut model).contains("failing test"));
    assert!(model.preview_to_read().is_some());
    let mut small = home((100, 30));
    assert_eq!(small.preview_to_read(), None);
}

#[test]
fn leaving_says_what_happens_to_running_sessions() {
    assert_eq!(
        home((80, 24)).farewell().as_deref(),
        Some("4 sessions keep running; `creel` shows them again")
    );
    assert_eq!(home_in((80, 24), dark()).farewell(), None);
}

#[test]
fn a_filter_narrows_the_list_and_escape_takes_it_back() {
    let mut model = home((80, 24));
    press(&mut model, "/ p a r s e r enter");
    let names: Vec<&str> = model
        .rows()
        .iter()
        .map(|row| row.session.name.as_str())
        .collect();
    assert_eq!(names, ["fix-parser", "task-7", "add-cli"]);
    press(&mut model, "esc");
    assert_eq!(model.rows().len(), sessions().len());
}

#[test]
fn a_click_opens_the_session_under_it_and_the_wheel_moves_the_cursor() {
    let mut model = home((80, 24));
    let mouse = |kind, row| MouseEvent {
        kind,
        column: 10,
        row,
        modifiers: KeyModifiers::NONE,
    };
    let row = frame(&mut model)
        .lines()
        .position(|line| line.contains("docs"))
        .expect("it is there");
    let row = u16::try_from(row).expect("a row");
    let click = mouse(MouseEventKind::Down(MouseButton::Left), row);
    assert_eq!(
        update(&mut model, HomeEvent::Mouse(click)),
        [HomeRequest::Attach(key("docs"))]
    );
    let heading = mouse(MouseEventKind::Down(MouseButton::Left), 1);
    assert_eq!(update(&mut model, HomeEvent::Mouse(heading)), []);
    update(
        &mut model,
        HomeEvent::Mouse(mouse(MouseEventKind::ScrollDown, 3)),
    );
    assert_eq!(model.position(), 4);
}

#[test]
fn a_long_list_scrolls_with_its_cursor() {
    let many = (0..100).map(|n| {
        session(
            &format!("s-{n:03}"),
            "/p",
            n,
            ended(SessionOutcome::Complete, ""),
        )
    });
    for size in SIZES {
        let mut model = home_in(size, dark());
        update(&mut model, HomeEvent::AllSessions(many.clone().collect()));
        for _ in 0..100 {
            let name = model.chosen().expect("a session").session.name.clone();
            let frame = frame(&mut model);
            assert!(
                frame
                    .lines()
                    .any(|line| line.starts_with('▌') && line.contains(&name)),
                "{name}:\n{frame}"
            );
            press(&mut model, "down");
        }
        press(&mut model, "<");
        assert!(
            frame(&mut model).contains(" ENDED"),
            "the heading is visible again"
        );
    }
}
