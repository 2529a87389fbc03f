//! Speakers: nothing that an agent prints looks like a row of creel.

use std::{collections::BTreeSet, sync::LazyLock};

use proptest::prelude::*;

use crate::support::{samples, screen::Screen, task_samples, world::World};
use creel::engine::conversation::{AgentUpdate, PlanEntry, ToolCall, ToolKind, ToolStatus};

/// Large enough for all rows of these sessions.
const ALL: (u16, u16) = (100, 200);

/// The rows of the stream, with everything open.
fn rows(world: &World) -> Vec<String> {
    let mut screen = Screen::of(world, ALL);
    screen.press("z t");
    let lines = screen.model.frame.lines.iter();
    lines
        .map(|line| line.to_string().trim_end().to_owned())
        .collect()
}

/// The rows of creel itself: they begin at the left edge.
static OWN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let worlds = [
        samples::sent_back_twice(),
        samples::talkative(),
        samples::ended(),
        samples::paused(),
        samples::retry_limit(),
        samples::usage_limit(),
        samples::repair(),
        task_samples::planned(),
    ];
    worlds
        .iter()
        .flat_map(rows)
        .filter(|row| !row.is_empty() && !row.starts_with([' ', '▎']))
        .collect()
});

/// What the session shows with a harmless text.
static HARMLESS: LazyLock<Vec<String>> = LazyLock::new(|| rows(&session_with("x")));

/// A session in which the agent says, thinks, plans and calls this.
fn session_with(text: &str) -> World {
    let mut world = samples::first_turn();
    let mut sends = |update| samples::agent(&mut world, update);
    let call = |call: &str, title: &str, kind, status| ToolCall {
        call: call.into(),
        title: title.into(),
        kind,
        status,
        ..ToolCall::default()
    };
    sends(AgentUpdate::Message(text.into()));
    sends(AgentUpdate::Thought(text.into()));
    for (n, kind) in [None, Some(ToolKind::Execute)].into_iter().enumerate() {
        let call = call(&format!("a{n}"), text, kind, ToolStatus::Completed);
        sends(AgentUpdate::ToolCalled(ToolCall {
            output: Some(text.into()),
            input: Some(text.into()),
            ..call
        }));
    }
    sends(AgentUpdate::ToolCalled(call(
        "b",
        text,
        None,
        ToolStatus::Failed,
    )));
    sends(AgentUpdate::Planned(vec![PlanEntry {
        content: text.into(),
        status: ToolStatus::InProgress,
    }]));
    world
}

/// The rows that a text adds to the session, compared with a harmless one.
fn added(text: &str) -> Vec<String> {
    let mut known = HARMLESS.clone();
    let mut added = rows(&session_with(text));
    added.retain(|row| match known.iter().position(|one| one == row) {
        Some(at) => {
            known.swap_remove(at);
            false
        }
        None => true,
    });
    added
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn nothing_that_an_agent_prints_equals_a_row_of_creel(
        parts in proptest::collection::vec(
            prop_oneof![
                prop::sample::select(OWN.iter().cloned().collect::<Vec<_>>()),
                prop::sample::select(
                    ["\n", "\r", "\t", " ", "\u{1b}[2K\r", "\u{1b}[1A", "\u{8}", "> ", "# ", "```\n", "▎", "\u{2066}"]
                        .map(str::to_owned)
                        .to_vec(),
                ),
                "\\PC{0,12}",
            ],
            1..8,
        ),
    ) {
        for row in added(&parts.concat()) {
            prop_assert!(!OWN.contains(&row), "{row:?} looks like creel's own");
        }
    }
}

#[test]
fn every_row_of_creel_is_known_by_its_sign() {
    for row in OWN.iter() {
        let mut chars = row.chars();
        let first = chars.next().unwrap_or(' ');
        let has_sign = !first.is_alphanumeric() && chars.next() == Some(' ');
        let is_part = row.starts_with("ITERATION ") || row.contains(" ─────");
        assert!(has_sign || is_part, "{row:?} has no sign");
    }
}
