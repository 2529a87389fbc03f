//! The line of an output that says what failed, and the agent's own words around tool calls.

use std::{fs, path::Path};

use creel::{
    engine::conversation::{AgentUpdate, ToolCall, ToolStatus},
    text::telling_line,
};

use crate::support::samples;

/// The outputs of real tools, each with the line that says what is wrong, and the place of it if
/// another line has that. Where two lines would do, the table has "acceptable" for the second best.
#[test]
fn of_the_output_of_real_tools_the_line_that_says_what_is_wrong_is_shown() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hook_output");
    let expected = fs::read_to_string(folder.join("expected.tsv")).expect("a table");
    let (mut wrong, mut acceptable) = (Vec::new(), 0);
    for row in expected.lines() {
        let mut cells = row.split('\t');
        let (name, line, place) = (
            cells.next().expect("a name"),
            cells.next().expect("a line"),
            cells.next(),
        );
        acceptable += usize::from(cells.next() == Some("acceptable"));
        let output = fs::read_to_string(folder.join(format!("{name}.txt"))).expect(name);
        let shown = telling_line(&[&output]).expect("a line");
        let has_place =
            place.is_none_or(|place| place.is_empty() || shown.ends_with(&format!("({place})")));
        if !shown.starts_with(line) || !has_place {
            wrong.push(format!("{name}\n  {row}\n  {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        expected.lines().count() >= 150 && acceptable <= 2,
        "{acceptable}"
    );
}

#[test]
fn text_before_and_after_a_tool_call_is_not_joined() {
    let mut world = samples::works();
    let call = ToolCall {
        call: "a".into(),
        title: "Read a.rs".into(),
        ..ToolCall::default()
    };
    samples::agent(&mut world, AgentUpdate::Message("I look at it.".into()));
    samples::agent(&mut world, AgentUpdate::ToolCalled(call.clone()));
    samples::agent(
        &mut world,
        AgentUpdate::ToolUpdated(ToolCall {
            status: ToolStatus::Completed,
            ..call.clone()
        }),
    );
    samples::agent(&mut world, AgentUpdate::Message("It is ".into()));
    // An update of a tool call can arrive in the middle of a sentence.
    samples::agent(
        &mut world,
        AgentUpdate::ToolUpdated(ToolCall {
            status: ToolStatus::Completed,
            ..call
        }),
    );
    samples::agent(&mut world, AgentUpdate::Message("fine.\n".into()));
    assert_eq!(
        world.state.turns.agent_text,
        "I look at it.\n\nIt is fine.\n"
    );
}
