//! The gate with the tasks that an agent proposes, on the screen.

use crate::{
    engine::proposal_gate::{TWO, asks},
    support::{screen::Screen, world::*},
};
use creel::{
    engine::input::SessionCommand,
    tui::request::{ScreenEvent, ScreenRequest},
};

/// A proposal of many tasks, each after the one before.
fn many() -> World {
    let task = |n: usize| {
        let after = if n == 0 {
            String::new()
        } else {
            format!("\"task-{}\"", (n - 1) / 4)
        };
        format!(
            "{{\"id\": \"task-{n}\", \"goal\": \"Write part {n}, with its tests.\", \"depends_on\": [{after}]}}"
        )
    };
    let tasks = (0..40).map(task).collect::<Vec<_>>().join(", ");
    asks(&[Box::leak(
        format!("{{\"tasks\": [{tasks}]}}").into_boxed_str(),
    )])
}

#[test]
fn a_long_tree_scrolls_while_all_answers_stay_visible() {
    let world = many();
    for size in [(60, 16), (80, 24), (120, 40)] {
        let mut screen = Screen::of(&world, size).armed();
        let first = screen.frame();
        assert!(first.contains("task-0: Write part 0"), "{first}");
        let mut last = first;
        for _ in 0..40 {
            for label in [
                "Approve these tasks",
                "Edit the tasks…",
                "Write to the agent…",
                "Queue nothing",
            ] {
                assert!(last.contains(label), "no `{label}` at {size:?}:\n{last}");
            }
            screen.press("page-down");
            last = screen.frame();
        }
        // In the order of the tree, the last one of the last branch.
        assert!(
            last.contains("task-16: ") || last.contains("└ task-19"),
            "{last}"
        );
        assert!(last.contains("PgUp more"), "{last}");
    }
}

#[test]
fn a_change_that_the_session_refuses_comes_back_to_the_editor() {
    let world = asks(&[TWO]);
    let mut screen = Screen::of(&world, (80, 24)).armed();
    screen.press("2");
    assert!(
        screen.frame().contains("goal: \"Write the parser.\""),
        "{}",
        screen.frame()
    );
    screen.press("end enter");
    screen.type_text("- { id: first, goal: Look around. }");
    let requests = screen.press("ctrl-s");
    let [ScreenRequest::Command(command)] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert!(
        !screen.frame().contains("The proposed tasks"),
        "{}",
        screen.frame()
    );
    screen.send(ScreenEvent::Refused(
        command.clone(),
        "these tasks cannot be queued".into(),
    ));
    let frame = screen.frame();
    assert!(
        frame.contains("The proposed tasks") && frame.contains("{ id: first, goal: Look around. }"),
        "{frame}"
    );
    // And one that is accepted is in the tree.
    let mut world = world;
    world.command(command.clone());
    assert!(world.refused.is_empty(), "{:?}", world.refused);
    let mut screen = Screen::of(&world, (80, 24)).armed();
    assert!(
        screen.frame().contains("The changed proposal has 3 tasks"),
        "{}",
        screen.frame()
    );
    assert!(
        screen.frame().contains("first: Look around."),
        "{}",
        screen.frame()
    );
}

#[test]
fn a_change_with_mistakes_stays_in_the_editor_which_names_them() {
    let world = asks(&[TWO]);
    let mut screen = Screen::of(&world, (80, 24)).armed();
    // The key that edits an item elsewhere.
    screen.press("e end enter");
    screen.type_text("- { id: a, goal: Go., depends_on: [b], type: art }");
    assert_eq!(screen.press("ctrl-s"), []);
    let frame = screen.frame();
    for text in [
        "# This cannot be queued yet:",
        "# task `a` has the type `art`; the types are: `code`",
        "# task `a` depends on `b`, which is not in the list",
        "- { id: a, goal: Go., depends_on: [b], type: art }",
    ] {
        assert!(frame.contains(text), "no `{text}`:\n{frame}");
    }
    // Nothing is lost by one press.
    screen.press("esc");
    assert!(
        screen.frame().contains("esc again discards the change"),
        "{}",
        screen.frame()
    );
}

#[test]
fn a_past_gate_of_a_proposal_cannot_be_answered_or_edited() {
    let world = asks(&[TWO]);
    let mut screen = Screen::replay(&world, (80, 24), world.events.len());
    for key in ["1", "2", "e"] {
        assert_eq!(screen.press(key), [], "{}", screen.frame());
        assert!(!screen.frame().contains("ctrl-s"), "{}", screen.frame());
    }
}

#[test]
fn the_tasks_can_be_changed_in_the_users_editor() {
    let mut screen = Screen::of(&asks(&[TWO]), (80, 24)).armed();
    let requests = screen.press("E");
    let [ScreenRequest::EditOutside(what, before)] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert!(before.starts_with("tasks:\n- id: \"parser\"\n"), "{before}");
    let edited = |text: &str| ScreenEvent::Edited {
        what: what.clone(),
        before: before.clone(),
        text: text.to_owned(),
    };
    let sent = screen.send(edited("tasks: [{ id: all, goal: Do it. }]"));
    assert!(
        matches!(
            sent.as_slice(),
            [ScreenRequest::Command(SessionCommand::AnswerGate(_))]
        ),
        "{sent:?}"
    );
    assert_eq!(screen.send(edited("tasks: []")), []);
    assert!(
        screen.frame().contains("# there are no tasks"),
        "{}",
        screen.frame()
    );
}
