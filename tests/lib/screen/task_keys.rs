//! Keys of the tasks pane: the screen before, the input, the screen after, and the requests to the
//! session.

use expect_test::expect;
use serde_json::{Value, json};

use crate::support::{
    samples,
    screen::Screen,
    task_samples::{self, add, depend, planned, tell},
    world::World,
};
use creel::{
    engine::{
        event::Event,
        input::SessionCommand,
        tasks::{
            command::{NewTask, TaskChanges, TaskCommand, TaskCompletion},
            graph::TaskDescriptionChanges,
        },
    },
    tui::{
        modals::Modal,
        request::{OutsideText, ScreenEvent, ScreenRequest},
    },
};

const WIDE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (80, 24);

/// The text in the editor.
fn editor(screen: &Screen) -> String {
    let Some(Modal::Editor(editor)) = screen.model.modals.last() else {
        panic!("nothing is being written")
    };
    editor.text()
}

/// What the form of a task has in its fields.
fn form(screen: &Screen) -> String {
    let Some(Modal::TaskForm(form)) = screen.model.modals.last() else {
        panic!("no form is open")
    };
    form.text()
}

fn asked(command: TaskCommand) -> Vec<ScreenRequest> {
    vec![ScreenRequest::Command(SessionCommand::Task {
        task: command,
    })]
}

fn toast(screen: &Screen) -> &str {
    screen.model.toast.as_ref().map_or("", |toast| &toast.text)
}

fn on_tasks(world: &World) -> Screen {
    let mut screen = Screen::of(world, SMALL);
    screen.press("5");
    screen
}

fn chosen(screen: &Screen) -> String {
    screen
        .model
        .chosen_task()
        .map(|task| task.id.clone())
        .unwrap_or_default()
}

fn in_view(screen: &Screen) -> String {
    let rows = screen.model.task_rows().expect("there is a session");
    (0..rows.len())
        .filter_map(|n| rows.get(n))
        .map(|row| format!("{}{}\n", row.branch, row.task.id))
        .collect()
}

fn hinted(screen: &mut Screen) -> String {
    screen
        .frame()
        .lines()
        .last()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[test]
fn the_list_is_sorted_by_priority_and_the_tree_shows_parents() {
    let mut screen = on_tasks(&planned());
    expect![[r#"
        task_5
        parser
        task_3
        task_2
        task_4
        task_6
        task_1
    "#]]
    .assert_eq(&in_view(&screen));
    screen.press("t");
    expect![[r#"
        parser
        ├─ task_1
        ├─ task_2
        ├─ task_3
        └─ task_4
        task_5
        └─ task_6
    "#]]
    .assert_eq(&in_view(&screen));
    screen.press("t");
    assert!(in_view(&screen).starts_with("task_5"));
}

#[test]
fn filters_go_around_and_a_tree_closes_its_gaps() {
    let mut screen = on_tasks(&planned());
    screen.press("t");
    let mut after = |keys| {
        screen.press(keys);
        format!(
            "{}: {}\n",
            screen
                .row("1/7 · tree")
                .trim_matches(['┏', '━', '┓'])
                .trim(),
            in_view(&screen).trim_end().replace('\n', " ")
        )
    };
    expect![[r#"
        1/7 · tree · only open: parser ├─ task_2 ├─ task_3 └─ task_4 task_5 └─ task_6
        1/7 · tree · only ready: task_5
        1/7 · tree · only blocked: task_3
        1/7 · tree · only done: task_1
        1/7 · tree: parser ├─ task_1 ├─ task_2 ├─ task_3 └─ task_4 task_5 └─ task_6
    "#]]
    .assert_eq(&["f", "f", "f", "f", "f"].map(&mut after).concat());
}

#[test]
fn every_task_has_one_row_whatever_the_dependencies() {
    let mut world = samples::first_turn();
    for n in 1..=40 {
        add(&mut world, &format!("Step {n}"), |task| {
            if n > 1 {
                task.dependencies.push(format!("task_{}", n - 1));
            }
        });
    }
    add(&mut world, "All", |task| task.id = Some("all".into()));
    for n in 1..=40 {
        let changes = TaskChanges {
            description: TaskDescriptionChanges {
                parent: Some("all".into()),
                ..TaskDescriptionChanges::default()
            },
            ..Default::default()
        };
        tell(
            &mut world,
            TaskCommand::Update {
                id: format!("task_{n}"),
                changes,
            },
        );
        depend(&mut world, "all", &format!("task_{n}"));
    }
    let mut screen = on_tasks(&world);
    screen.press("t");
    assert_eq!(screen.model.task_rows().map(|rows| rows.len()), Some(41));
    assert!(in_view(&screen).starts_with("all\n├─ task_1\n"));
}

#[test]
fn the_selected_task_stays_selected_and_its_row_if_it_is_removed() {
    let mut world = planned();
    let mut screen = on_tasks(&world);
    screen.press("j");
    assert_eq!(chosen(&screen), "parser");
    add(&mut world, "Something urgent", |task| {
        task.priority = Some(0);
    });
    screen.see(&world);
    assert_eq!(chosen(&screen), "parser");
    screen.press("end k");
    assert_eq!(chosen(&screen), "task_6");
    screen.press("j j j");
    assert_eq!(chosen(&screen), "task_1");
    tell(
        &mut world,
        TaskCommand::Remove {
            id: "task_1".into(),
        },
    );
    screen.see(&world);
    assert_eq!(chosen(&screen), "task_6");
    screen.click_on("Read nested lists");
    assert_eq!(chosen(&screen), "task_2");
}

#[test]
fn tasks_are_searched_by_name_goal_label_and_reason() {
    let mut screen = on_tasks(&planned());
    let mut found = |text: &str| {
        screen.press("/");
        screen.type_text(text);
        screen.press("enter");
        chosen(&screen)
    };
    assert_eq!(
        [
            found("NESTED"),
            found("docs"),
            found("does not limit"),
            found("task_6")
        ],
        ["task_2", "task_4", "task_3", "task_6"]
    );
    assert_eq!(found("nowhere"), "task_6");
    assert_eq!(toast(&screen), "Not found: nowhere");
}

#[test]
fn a_task_is_started_and_done() {
    let mut screen = on_tasks(&planned());
    assert_eq!(
        screen.press("s"),
        asked(TaskCommand::Start {
            id: "task_5".into(),
            context: None
        })
    );
    let done = |result: Option<&str>| {
        let result = result.map(str::to_owned);
        asked(TaskCommand::Complete(TaskCompletion {
            id: "task_5".into(),
            result,
            ..TaskCompletion::default()
        }))
    };
    assert_eq!(screen.press("c"), []);
    assert!(
        screen
            .frame()
            .contains("task_5 is done. What is the result?")
    );
    assert_eq!(
        screen.press("ctrl-s"),
        done(None),
        "there may be nothing to say"
    );
    screen.press("c");
    screen.type_text("12 MB a second");
    assert_eq!(screen.press("ctrl-s"), done(Some("12 MB a second")));
    assert_eq!(screen.press("end c"), []);
    assert_eq!(toast(&screen), "Task task_1 is completed");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn a_task_that_was_blocked_can_be_made_ready() {
    let mut screen = on_tasks(&planned());
    screen.press("j j");
    assert_eq!(chosen(&screen), "task_3");
    assert_eq!(
        screen.press("u"),
        asked(TaskCommand::MakeReady {
            id: "task_3".into()
        })
    );
}

#[test]
fn the_title_the_priority_and_the_labels_of_a_task_are_changed() {
    let mut screen = on_tasks(&planned());
    screen.press("j e");
    expect![[r#"
        Title: Rewrite the parser
        Type: feature
        Priority: 1 high
        Depends on: task_1, task_2, task_3
        Labels: core, agent
        Deliverables: src/parser.rs without the old recursion
        tests for empty and nested lists
    "#]]
    .assert_eq(&form(&screen));
    assert_eq!(screen.press("ctrl-s"), []);
    assert_eq!(toast(&screen), "You changed nothing; press esc to leave");
    screen.type_text(" by hand");
    screen.press("tab tab tab left");
    screen.press("tab tab");
    screen.type_text(", slow");
    let changes = TaskChanges {
        description: TaskDescriptionChanges {
            goal: Some("Rewrite the parser by hand".into()),
            priority: Some(0),
            labels: Some(vec!["core".into(), "agent".into(), "slow".into()]),
            ..TaskDescriptionChanges::default()
        },
        ..TaskChanges::default()
    };
    assert_eq!(
        screen.press("ctrl-s"),
        asked(TaskCommand::Update {
            id: "parser".into(),
            changes
        })
    );
}

#[test]
fn a_task_with_a_deliverable_of_several_lines_is_changed() {
    let mut world = samples::first_turn();
    add(&mut world, "Parse\n\nby hand", |task| {
        task.deliverables = ["src/parser.rs\n\nand its tests", "a page: about it"]
            .map(String::from)
            .to_vec();
        task.labels = vec!["in two\nlines".into()];
    });
    let mut screen = on_tasks(&world);
    screen.press("e");
    let written = "Title: Parse\nDescription: \nby hand\nPriority: 2 normal\nLabels: in two lines\n\
                   Deliverables: src/parser.rs\n  \n  and its tests\na page: about it\n";
    assert_eq!(form(&screen), written);
    screen.press("tab tab tab tab tab tab up ctrl-e");
    screen.type_text("!");
    let deliverables = ["src/parser.rs\n\nand its tests!", "a page: about it"]
        .map(String::from)
        .to_vec();
    let changes = TaskChanges {
        description: TaskDescriptionChanges {
            deliverables: Some(deliverables),
            ..TaskDescriptionChanges::default()
        },
        ..TaskChanges::default()
    };
    assert_eq!(
        screen.press("ctrl-s"),
        asked(TaskCommand::Update {
            id: "task_1".into(),
            changes
        })
    );
}

#[test]
fn dependencies_change_in_the_form_too() {
    let mut screen = on_tasks(&planned());
    screen.press("j e tab tab tab tab ctrl-a ctrl-k");
    screen.type_text("task_1, measure");
    assert!(screen.frame().contains("→ task_5 Measure 1 MB of brackets"));
    screen.press("right");
    assert!(form(&screen).contains("Depends on: task_1, task_5\n"));
    let id = || "parser".to_owned();
    let command = |task| SessionCommand::Task { task };
    let asks = screen.press("ctrl-s");
    let commands = vec![
        command(TaskCommand::Undepend {
            id: id(),
            on: "task_2".into(),
        }),
        command(TaskCommand::Undepend {
            id: id(),
            on: "task_3".into(),
        }),
        command(TaskCommand::Depend {
            id: id(),
            on: "task_5".into(),
        }),
    ];
    assert_eq!(asks, [ScreenRequest::InOrder(commands.clone())]);
    screen.send(ScreenEvent::Accepted(commands[0].clone()));
    screen.send(ScreenEvent::Refused(
        commands[1].clone(),
        "there is no task task_3".into(),
    ));
    assert!(form(&screen).contains("Depends on: task_1, task_5\n"));
}

#[test]
fn a_mistake_is_shown_at_its_field_until_it_is_corrected() {
    let mut screen = on_tasks(&planned());
    screen.press("j e tab tab tab tab");
    screen.type_text(", task_4, tsk_5");
    assert_eq!(screen.press("ctrl-s"), []);
    assert!(
        screen
            .frame()
            .contains("✗ That would be a cycle: parser → task_4 → parser"),
        "{}",
        screen.frame()
    );
    screen.press("ctrl-a ctrl-k");
    assert!(!screen.frame().contains('✗'), "{}", screen.frame());
    screen.type_text("task_1, task_2, task_3, tsk_5");
    assert_eq!(screen.press("ctrl-s"), []);
    assert!(
        screen
            .frame()
            .contains("✗ There is no task tsk_5; did you mean task_5?"),
        "{}",
        screen.frame()
    );
    assert_eq!(toast(&screen), "");
}

#[test]
fn keys_and_clicks_move_between_the_fields() {
    let mut screen = Screen::of(&planned(), (120, 40));
    screen.press("5 a");
    let mut at = |keys: &str| {
        screen.press(keys);
        let row = screen.row("║▌");
        let row = row.split("║▌").nth(1).unwrap_or_default().trim();
        row.split("  ").next().unwrap_or_default().to_owned()
    };
    let fields = [
        at("tab"),
        at("down"),
        at("enter"),
        at("shift-tab"),
        at("up"),
        at("up shift-tab"),
    ];
    assert_eq!(
        fields,
        [
            "Description",
            "Type",
            "Priority",
            "Type",
            "Description",
            "Id"
        ]
    );
    screen.click_on("Priority");
    screen.press("4");
    assert!(screen.row("Priority").contains("‹ 4 lowest ›"));
    screen.click_on("Priority");
    assert!(screen.row("Priority").contains("‹ 0 highest ›"));
}

#[test]
fn a_text_of_the_form_is_written_in_the_users_editor() {
    let mut screen = on_tasks(&planned());
    screen.press("a");
    screen.type_text("Lex");
    screen.press("tab");
    screen.type_text("by");
    assert_eq!(
        screen.press("ctrl-o"),
        [ScreenRequest::EditOutside(
            OutsideText::TaskField,
            "by".into()
        )]
    );
    screen.send(ScreenEvent::Edited {
        what: OutsideText::TaskField,
        before: "by".into(),
        text: "by hand\nand fast".into(),
    });
    assert_eq!(
        form(&screen),
        "Title: Lex\nDescription: by hand\nand fast\nPriority: 2 normal\nAgent: this session\n"
    );
}

#[test]
fn a_refused_change_reason_or_result_is_shown_again() {
    for (keys, text) in [
        ("e", " priority: 1"),
        ("B", "no disk"),
        ("c", "12 MB a second"),
        ("a", "Lex"),
    ] {
        let mut screen = on_tasks(&planned());
        screen.press(keys);
        screen.type_text(text);
        let asks = screen.press("ctrl-s");
        assert!(screen.model.modals.is_empty(), "{keys}");
        let [ScreenRequest::Command(command)] = &asks[..] else {
            panic!("{keys}: {asks:?}")
        };
        let written = |screen: &Screen| match screen.model.modals.last() {
            Some(Modal::TaskForm(form)) => form.text(),
            _ => editor(screen),
        };
        screen.send(ScreenEvent::Refused(
            command.clone(),
            "there is no task task_5".into(),
        ));
        assert!(written(&screen).contains(text), "{keys}");
        assert_eq!(toast(&screen), "There is no task task_5");
        assert_eq!(screen.press("ctrl-s"), asks, "{keys}: it can be sent again");
        screen.send(ScreenEvent::Unanswered(
            command.clone(),
            "it does not answer".into(),
        ));
        assert!(written(&screen).contains(text), "{keys}");
        assert!(
            screen.frame().contains("the session may have it"),
            "{keys}: {}",
            screen.frame()
        );
        assert_eq!(screen.press("ctrl-s"), asks, "{keys}: it can be sent again");
        screen.press("j");
        assert!(
            screen.model.modals.is_empty(),
            "{keys}: what was taken does not come back"
        );
    }
}

#[test]
fn a_task_is_blocked_with_a_reason() {
    let mut screen = on_tasks(&planned());
    assert_eq!(screen.press("B"), []);
    assert!(screen.frame().contains("Why is task_5 blocked?"));
    screen.type_text("no disk is large enough");
    let block = |id: &str, reason: &str| TaskCommand::Block {
        id: id.into(),
        reason: reason.into(),
        required_knowledge: Vec::new(),
    };
    assert_eq!(
        screen.press("ctrl-s"),
        asked(block("task_5", "no disk is large enough"))
    );
    screen.press("j j B");
    screen.type_text("!");
    assert_eq!(
        screen.press("ctrl-s"),
        asked(block("task_3", "the spec does not limit the depth!"))
    );
}

#[test]
fn a_task_is_written_down_and_added() {
    let mut screen = on_tasks(&samples::first_turn());
    screen.press("a");
    screen.type_text("Write the lexer");
    let goal = "Write the lexer".to_owned();
    assert_eq!(
        screen.press("ctrl-s"),
        asked(TaskCommand::Add(NewTask {
            goal: goal.clone(),
            ..NewTask::default()
        }))
    );
    screen.press("a");
    screen.type_text("Write the lexer");
    screen.press("tab");
    screen.type_text("It reads tokens.");
    screen.press("tab");
    screen.type_text("feature");
    screen.press("tab left tab tab");
    screen.type_text("core, new");
    screen.press("tab");
    screen.type_text("src/lexer.rs");
    screen.press("tab tab right tab");
    screen.type_text("lexer");
    assert_eq!(
        screen.press("ctrl-s"),
        asked(TaskCommand::Add(NewTask {
            id: Some("lexer".into()),
            goal: "Write the lexer\nIt reads tokens.".into(),
            deliverables: vec!["src/lexer.rs".into()],
            labels: vec!["core".into(), "new".into()],
            priority: Some(1),
            kind: Some("feature".into()),
            queue: Some(std::collections::BTreeSet::new()),
            ..NewTask::default()
        }))
    );
    assert_eq!(screen.model.drafts.unsent, "", "a task is no message");
}

#[test]
fn a_form_with_mistakes_is_not_lost() {
    let mut screen = on_tasks(&samples::first_turn());
    screen.press("a shift-tab");
    screen.type_text("my id");
    assert_eq!(screen.press("ctrl-s"), []);
    assert!(
        screen.frame().contains("✗ a task needs a title"),
        "{}",
        screen.frame()
    );
    screen.type_text("Write the lexer");
    assert_eq!(screen.press("ctrl-s"), []);
    assert!(
        screen
            .frame()
            .contains("✗ `my id` is not a valid name for a task"),
        "{}",
        screen.frame()
    );
    screen.press("esc");
    assert!(
        screen.frame().contains("esc again discards the task"),
        "what was written is thrown away only when asked for twice"
    );
    screen.press("esc");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn one_task_is_marked_and_others_wait_for_it() {
    let mut world = planned();
    let mut screen = on_tasks(&world);
    assert_eq!(screen.press("D"), []);
    assert_eq!(
        toast(&screen),
        "First mark the task that it should depend on, with v"
    );
    assert_eq!(screen.press("v j"), []);
    assert!(screen.row("task_5").contains("marked"));
    let edge = || ("parser".to_owned(), "task_5".to_owned());
    let (id, on) = edge();
    assert_eq!(screen.press("D"), asked(TaskCommand::Depend { id, on }));
    depend(&mut world, "parser", "task_5");
    screen.see(&world);
    let (id, on) = edge();
    assert_eq!(screen.press("D"), asked(TaskCommand::Undepend { id, on }));
    screen.press("k v");
    assert_eq!(screen.model.board.marked, None);
}

#[test]
fn removing_asks_once_more() {
    let mut screen = on_tasks(&planned());
    screen.press("j");
    assert_eq!(screen.press("R R enter esc"), []);
    assert!(screen.model.modals.is_empty());
    assert_eq!(
        screen.press("R y"),
        asked(TaskCommand::Remove {
            id: "parser".into()
        })
    );
    assert!(screen.model.modals.is_empty());
}

#[test]
fn the_details_of_a_task_are_shown_and_copied() {
    let mut screen = on_tasks(&planned());
    screen.press("j");
    let [ScreenRequest::Copy(text)] = &screen.press("y")[..] else {
        panic!("it is copied")
    };
    expect![[r#"
        Rewrite the parser

        state         ○ created
        priority      1 (0 is the highest, 4 the lowest)
        type          feature
        labels        core, agent
        deliverables  src/parser.rs without the old recursion
                      tests for empty and nested lists
        depends on    ✓ task_1 Write the lexer
                      ▸ task_2 Read nested lists
                      ! task_3 Limit the depth
        needed by     ○ task_4 Tell the users what is different
        led to        ✓ task_1 Write the lexer
                      ▸ task_2 Read nested lists
                      ! task_3 Limit the depth
        added         1970-01-01 00:00:06 UTC, 6.8 s ago
    "#]]
    .assert_eq(text);
    screen.press("enter");
    assert!(matches!(screen.model.modals.last(), Some(Modal::Viewer(_))));
    assert!(screen.frame().contains("tests for empty and nested lists"));
}

#[test]
fn a_queued_task_says_so() {
    let mut world = samples::first_turn();
    let agents = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let task = |goal: &str, queue| {
        TaskCommand::Add(NewTask {
            goal: goal.into(),
            queue,
            ..NewTask::default()
        })
    };
    tell(&mut world, task("Translate the manual", agents(&[])));
    tell(
        &mut world,
        task("Draw the pictures", agents(&["codex", "claude"])),
    );
    let mut screen = on_tasks(&world);
    assert!(
        screen
            .frame()
            .contains("Translate the manual · for the queue"),
        "{}",
        screen.frame()
    );
    let [ScreenRequest::Copy(text)] = &screen.press("y")[..] else {
        panic!("it is copied")
    };
    assert!(text.contains("queue         for all agents"), "{text}");
    screen.press("j");
    let [ScreenRequest::Copy(text)] = &screen.press("y")[..] else {
        panic!("it is copied")
    };
    assert!(text.contains("queue         for claude, codex"), "{text}");
}

#[test]
fn the_hints_name_only_what_can_be_done_with_the_task() {
    let world = planned();
    let mut screen = on_tasks(&world);
    let mut hints = |keys| {
        screen.press(keys);
        format!("{keys}: {}\n", hinted(&mut screen))
    };
    let all = ["5", "j", "v k", "end", "home f f f f f"]
        .map(&mut hints)
        .concat();
    let mut past = Screen::replay(&world, SMALL, world.events.len());
    past.press("5");
    let mut none = on_tasks(&samples::first_turn());
    expect![[r#"
        5: enter open  a add  s start  c done  e edit  f filter  t tree  ? keys  q leave
        j: enter open  a add  c done  e edit  f filter  t tree  B block  ? keys  q leave
        v k: enter open  a add  s start  c done  e edit  f filter  t tree  ? keys  q leave
        end: enter open  a add  e edit  f filter  t tree  v mark  p pause  ? keys  q leave
        home f f f f f: enter open  a add  s start  c done  e edit  f filter  t tree  ? keys  q leave
        past: enter open  f filter  t tree  space play  right step  ? keys  q leave
        none: a add  m message  p pause  d changes  / search  tab pane  ? keys  q leave
    "#]]
    .assert_eq(&format!("{all}past: {}\nnone: {}\n", hinted(&mut past), hinted(&mut none)));
}

#[test]
fn tasks_in_a_replay_are_shown_and_not_changed() {
    let world = planned();
    let mut past = Screen::replay(&world, SMALL, world.events.len());
    past.press("5");
    for key in ["a", "s", "c", "B", "v", "D", "R", "u"] {
        assert_eq!(past.press(key), []);
        assert_eq!(toast(&past), "This is a replay: you cannot control it");
        assert!(past.model.modals.is_empty() && past.model.board.marked.is_none());
    }
    past.press("t f enter");
    assert!(matches!(past.model.modals.last(), Some(Modal::Viewer(_))));
}

#[test]
fn the_palette_adds_a_task() {
    let mut screen = Screen::of(&samples::first_turn(), WIDE);
    screen.press(":");
    screen.type_text("add a task");
    screen.press("enter");
    assert!(screen.frame().contains("╔ New task ═"));
}

#[test]
fn hook_statistics_are_shown() {
    let mut screen = Screen::of(&samples::ended(), SMALL);
    screen.press("2 s y");
    let [ScreenRequest::Copy(table)] = &screen.press("y")[..] else {
        panic!("it is copied")
    };
    expect![[r#"
        POINT           RUNS  PASS    P50    P95  RETRIES  PIPED  HOOK
        session_start      1  100%  1.2 s  1.2 s        0     30  git log
        pre_iteration      3   67%  1.2 s  1.2 s        0      0  disk space
        stop               5   60%  1.2 s  1.2 s        2      0  cargo test
        post_iteration     2  100%  1.2 s  1.2 s        0    136  cargo clippy

        COMPLETE  CONTINUE  ESCALATE  STOP HOOK
               1         1         0  default"#]]
    .assert_eq(table);
    let mut none = Screen::of(&samples::works(), SMALL);
    none.press("2 s");
    assert_eq!(toast(&none), "No hook has run yet");
}

/// An event from its JSON.
fn recorded(kind: &str, data: &Value) -> Event {
    let record = json!({ "kind": kind, "task": "task_1", "data": data });
    Event::read(kind, &record.to_string()).expect("a record")
}

#[test]
fn every_event_of_a_task_has_a_line_in_the_stream() {
    let mut world = planned();
    depend(&mut world, "task_5", "task_2");
    tell(
        &mut world,
        TaskCommand::Undepend {
            id: "task_5".into(),
            on: "task_2".into(),
        },
    );
    let changes = TaskChanges {
        description: TaskDescriptionChanges {
            priority: Some(1),
            ..TaskDescriptionChanges::default()
        },
        ..Default::default()
    };
    tell(
        &mut world,
        TaskCommand::Update {
            id: "task_5".into(),
            changes,
        },
    );
    tell(
        &mut world,
        TaskCommand::Remove {
            id: "task_6".into(),
        },
    );
    let satisfied = json!({ "dependentTaskId": "task_1", "completedTaskId": "task_2" });
    let failed =
        json!({ "actionType": "create_task", "error": "a task needs a goal", "payload": {} });
    world.events.extend([
        recorded("dependency_satisfied", &satisfied),
        recorded(
            "agent_metrics",
            &json!({ "goal": "Write the lexer", "durationMs": 9_000_000 }),
        ),
        recorded("agent_metrics", &json!({ "tokens": 1200, "files": 3 })),
        recorded("action_error", &failed),
        recorded(
            "hook_error",
            &json!({ "hookName": "plan on", "error": "no JSON in its last line" }),
        ),
    ]);
    let mut screen = Screen::of(&world, (100, 60));
    screen.press("z");
    let lines = screen
        .model
        .frame
        .lines
        .iter()
        .map(|line| format!("{}\n", line.to_string().trim_end()));
    let about_tasks: String = lines
        .skip_while(|line| !line.starts_with("+ Task added: Rewrite"))
        .collect();
    expect![[r#"
        + Task added: Rewrite the parser · parser
        + Task added: Write the lexer · task_1
        + Task added: Read nested lists · task_2
        · Task task_2 now depends on task_1
        + Task added: Limit the depth · task_3
        · Task parser now depends on task_1
        · Task parser now depends on task_2
        · Task parser now depends on task_3
        + Task added: Tell the users what is different · task_4
        · Task task_4 now depends on parser
        + Task added: Measure 1 MB of brackets · task_5
        + Task added: Publish 日本語 examples · task_6
        · Task task_6 now depends on task_4
        · Task task_6 now depends on task_5
        ▸ Task task_1 started
        ✓ Task task_1 completed: tokens with their places
        ▸ Task task_2 started
        ! Task task_3 is blocked: the spec does not limit the depth
        · Task task_5 now depends on task_2
        · Task task_5 no longer depends on task_2
        · Task task_5 has no open dependencies
        ~ Task task_5 changed: priority 1
        - Task task_6 removed
        · Task task_1 has no open dependencies
        · Task task_1 took 2h 30m
        · Task task_1 metrics: tokens 1200 · files 3
        ! Action `create_task` failed: a task needs a goal
        ! Hook `plan on` failed: no JSON in its last line
    "#]]
    .assert_eq(&about_tasks);
}

#[test]
fn no_control_character_of_a_task_reaches_a_cell() {
    const NASTY: &str = "a\x1b[31mb\x1b]0;title\x07c\u{9b}2Jd\x08\x00e\rf\u{7f}";
    let mut world = samples::first_turn();
    for goal in [NASTY, "other"] {
        let nasty = || vec![NASTY.to_owned()];
        let task = NewTask {
            goal: goal.into(),
            labels: nasty(),
            deliverables: nasty(),
            ..NewTask::default()
        };
        tell(&mut world, TaskCommand::Add(task));
    }
    depend(&mut world, "task_2", "task_1");
    let reason = NASTY.to_owned();
    tell(
        &mut world,
        TaskCommand::Block {
            id: "task_1".into(),
            reason,
            required_knowledge: Vec::new(),
        },
    );
    for keys in ["1", "5", "5 t", "5 enter", "5 B", "5 R", "5 a"] {
        let mut screen = Screen::of(&world, WIDE);
        screen.press(keys);
        let buffer = screen.draw();
        assert!(
            buffer
                .content
                .iter()
                .all(|cell| !cell.symbol().chars().any(char::is_control)),
            "{keys}"
        );
        assert!(
            !screen.frame().contains("[31m"),
            "{keys}\n{}",
            screen.frame()
        );
    }
}

#[test]
fn many_tasks_are_drawn_at_once() {
    let mut world = samples::first_turn();
    for n in 1..=300 {
        add(&mut world, &format!("Step {n}"), |task| {
            task.labels.push("many".into());
        });
    }
    task_samples::start(&mut world, "task_300");
    let mut screen = on_tasks(&world);
    screen.press("end");
    assert_eq!(chosen(&screen), "task_300");
    assert!(screen.row("task_300").contains("active"));
    screen.press("page-up home");
    assert_eq!(chosen(&screen), "task_1");
}
