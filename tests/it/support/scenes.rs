//! Sessions at the moments that a person would look at.

use creel::engine::{
    conversation::{AgentUpdate, ToolCall, ToolStatus},
    hooks::point::Point,
    input::Input,
    policy::{Backoff, Delivery, OnFailure},
    session::gate::{About, Choice},
    time::Span,
};

use super::world::*;

const REPORT: &str = "# The parser\n\nI rewrote `parse` in two steps:\n\n- the **lexer** gives tokens with their places, so that every message can name the line and the column\n- the parser reads them\n\n```rust\nfn parse(text: &str) -> Result<Tree, Error> {\n\tlexer(text).collect()\n}\n```\nThe tests come next.";
const RED: &str =
    "test parser::empty ... FAILED\ntest parser::nested ... FAILED\n\n2 failed; 31 passed\nThe empty text is no error.";
const ONE_RED: &str = "test parser::nested ... FAILED\n\n1 failed; 32 passed";
const LINT: &str = "warning: unused variable: `depth`\n --> src/parser.rs:41:9\nwarning: this function is too long\n --> src/parser.rs:80:1";

/// Goes on until something holds.
pub fn until(mut world: World, holds: impl Fn(&World) -> bool) -> World {
    world.settle();
    while !holds(&world) {
        assert!(world.step(), "it never came to that:\n{}", world.story());
    }
    world
}

/// Until a person is asked.
pub fn at_gate(script: Script) -> World {
    until(World::begin(script), |world| world.state.gates.open.is_some())
}

/// The agent does something in its turn.
pub fn agent(world: &mut World, update: AgentUpdate) {
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.input(Input::Agent { turn, update });
}

fn tool(call: &str, title: &str, status: ToolStatus, output: Option<&str>) -> ToolCall {
    ToolCall { call: call.into(), title: title.into(), status, output: output.map(Into::into), ..ToolCall::default() }
}

/// The agent thinks, reads a file, runs a command that fails, and begins another.
pub fn thinks_and_acts(world: &mut World) {
    agent(world, AgentUpdate::Thought("The empty text is a case of its own.\nFirst the lexer.".into()));
    agent(world, AgentUpdate::ToolCalled(tool("a", "Read src/parser.rs", ToolStatus::Pending, None)));
    let read = tool("a", "Read src/parser.rs", ToolStatus::Completed, Some("120 lines"));
    agent(world, AgentUpdate::ToolUpdated(read));
    agent(world, AgentUpdate::ToolCalled(tool("b", "cargo build", ToolStatus::InProgress, None)));
    let failed = tool("b", "cargo build", ToolStatus::Failed, Some("error[E0425]: cannot find value `tree`"));
    agent(world, AgentUpdate::ToolUpdated(failed));
    agent(world, AgentUpdate::ToolCalled(tool("c", "Edit src/parser.rs", ToolStatus::InProgress, None)));
}

/// A session in which everything happens once.
pub fn eventful() -> Script {
    Script::new()
        .piped(Point::SessionStart, "git log", [prints("4f2a1c parser: keep the places")])
        .hook(Point::PreIteration, "disk space", [breaks(), passes()])
        .hook(Point::Stop, "cargo test", [blocks(RED), blocks(ONE_RED), prints("33 passed")])
        .piped(Point::PostIteration, "cargo clippy", [prints(LINT), prints("warning: one is left")])
        .agent([
            Answer::Says(REPORT),
            Answer::Says("The empty text is an empty tree now."),
            Answer::Says("Nested lists, too."),
            Answer::Fails("connection reset by the server"),
            DONE,
        ])
        .attended(&[(About::FinalDelivery, Choice::Approve)])
}

/// In the first turn, with much that the agent does.
pub fn first_turn() -> World {
    let mut world = until(World::begin(eventful()), |world| world.turn.is_some());
    thinks_and_acts(&mut world);
    world
}

/// After the first hook has sent the turn back twice.
pub fn sent_back_twice() -> World {
    until(first_turn(), |world| world.state.retry.used == 2 && world.turn.is_some())
}

/// The loop is over, and output is held.
pub fn final_delivery() -> World {
    until(first_turn(), |world| world.state.gates.open.is_some())
}

/// All over.
pub fn ended() -> World {
    until(final_delivery(), |world| world.state.outcome().is_some())
}

/// A hook runs.
pub fn hook_runs() -> World {
    until(first_turn(), |world| world.jobs.iter().any(|job| job.hook.name == "cargo test"))
}

/// Before a prompt that carries what two hooks printed.
pub fn delivery() -> World {
    at_gate(
        Script::new()
            .piped(Point::SessionStart, "git log", [prints("4f2a1c parser: keep the places")])
            .piped(Point::SessionStart, "cargo clippy", [prints(LINT)])
            .piped(Point::SessionStart, "todo list", [prints("- the lexer\n- the parser")])
            .plan(|plan| plan.gates.delivery = Delivery::Ask)
            .attended(&[(About::Delivery, Choice::Approve)]),
    )
}

/// A stop hook has blocked as often as it may, and said the same twice.
pub fn retry_limit() -> World {
    at_gate(
        Script::new()
            .hook(Point::Stop, "cargo test", [blocks(RED), blocks(ONE_RED), blocks(ONE_RED), blocks(ONE_RED)])
            .plan(|plan| plan.max_hook_retries = 3)
            .agent([Answer::Says("I think that it works."), DONE])
            .attended(&[(About::RetryLimit, Choice::Continue)]),
    )
}

/// A hook wants a person to look.
pub fn escalation() -> World {
    at_gate(
        Script::new()
            .hook_with(Point::SessionStart, "git pull", [exits(1, "", "conflict in src/parser.rs")], |spec| {
                spec.on_failure = Some(OnFailure::Escalate);
            })
            .attended(&[(About::Escalation, Choice::Continue)]),
    )
}

fn failing() -> Script {
    let backoff = Backoff { base: Span::secs(20), factor: 2.0, max: Span::secs(60), jitter: 0.0 };
    Script::new()
        .agent([Answer::Fails("connection reset by the server")])
        .plan(|plan| plan.backoff = Some(backoff))
        .attended(&[(About::Errors, Choice::Continue)])
}

/// Too many turns have failed.
pub fn errors() -> World {
    at_gate(failing())
}

/// A turn has failed, and the session waits before the next.
pub fn backoff() -> World {
    until(World::begin(failing()), |world| world.state.next_wake().is_some() && world.turn.is_none())
}

/// A hook could not do its job twice.
pub fn broken_hook() -> World {
    at_gate(
        Script::new()
            .hook(Point::PreIteration, "disk space", [breaks()])
            .agent([Answer::Says("Working.")])
            .attended(&[(About::BrokenHook, Choice::Disable)]),
    )
}
