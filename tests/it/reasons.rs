//! The reason that a session shows for a blocked stop: the line that says what failed, from either
//! stream.

use std::{fs, path::Path};

use creel::engine::{
    conversation::{AgentUpdate, ToolCall, ToolStatus},
    hooks::point::HookPoint,
};

use crate::support::{
    project::Project,
    samples,
    screen::Screen,
    world::{Script, exits},
};
use creel::text::telling_line;

const STDOUT: &str = include_str!("../fixtures/hook_output/cargo_test.stdout.txt");
const STDERR: &str = include_str!("../fixtures/hook_output/cargo_test.stderr.txt");
const FAILED: &str = "assertion `left == right` failed (src/lib.rs:17:9)";

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

/// A session whose only stop hook prints the output of `cargo test || exit 2` to these streams.
fn tested(streams: &str) -> Project {
    let config = format!(
        "prompt: GOAL\nmax_hook_retries: 1\non_limit: escalate\nagents: {{ demo: {{ script: scenario.yaml }} }}\n\
         hooks: {{ stop: [{{ name: tests, command: '{streams}; exit 2' }}] }}\n"
    );
    Project::with(&config)
        .file(
            "scenario.yaml",
            "turns:\n  - say: <promise>COMPLETE</promise>\n",
        )
        .file("out.txt", STDOUT)
        .file("err.txt", STDERR)
}

#[test]
fn lines_records_and_gates_show_the_test_that_failed_and_the_agent_gets_everything() {
    for streams in [
        "cat err.txt >&2; cat out.txt",
        "cat err.txt out.txt",
        "cat err.txt out.txt >&2",
    ] {
        let project = tested(streams);
        let ran = project.run();
        assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
        assert_eq!(
            project.kind("retry_counted")[0]["reason"],
            FAILED,
            "{streams}"
        );
        let gate = format!("tests still fails after 1 retry: {FAILED}");
        assert_eq!(project.kind("gate_opened")[0]["reason"], gate.as_str());
        for told in [
            format!("↻ Retry 1 of 1: {FAILED}\n"),
            format!("◆ Gate 1: {gate}\n"),
        ] {
            assert!(ran.out.contains(&told), "{told}{}", ran.out);
        }
        let feedback = project.kind("prompt_sent")[1]["text"]
            .as_str()
            .expect("a text")
            .to_owned();
        assert!(feedback.starts_with("[Hook feedback]: "), "{feedback}");
        for line in STDOUT.lines().chain(STDERR.lines()) {
            assert!(
                feedback.contains(line.trim()),
                "{line:?} is not in {feedback}"
            );
        }
    }
}

#[test]
fn what_the_agent_says_before_and_after_a_tool_call_is_not_one_word() {
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

#[test]
fn the_screen_shows_the_test_that_failed_in_the_stream_the_retries_and_the_gate() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [exits(2, STDOUT, STDERR)])
        .attended(&[]);
    let world = samples::at_gate(script.plan(|plan| plan.max_hook_retries = 2));
    let mut screen = Screen::of(&world, (150, 200)).armed();
    let gate = screen.frame();
    assert!(
        gate.contains("still fails after 2 retries: assertion `left == right` failed"),
        "{gate}"
    );
    screen.press("esc");
    for row in ["↻ Retry 2 of 2", "▌ 2  00:00  = ", "◆ Gate 1"] {
        assert!(
            screen.row(row).contains("assertion `left == right` failed"),
            "{}",
            screen.frame()
        );
    }
}
