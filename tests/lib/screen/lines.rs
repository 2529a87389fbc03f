//! Sessions as lines: the output without a screen.

use creel::{
    cli::record_formatter::{HookOutputMode, RecordFormatter},
    engine::{
        conversation::{AgentUpdate, ToolCall, ToolKind, ToolStatus, TurnUsage},
        event::{Event, SessionEvent},
        gate::kind::{GateChoice, GateKind},
    },
    present::style::ColourMode,
};
use expect_test::expect;

use crate::support::{
    samples,
    screen::records,
    world::{Answer, DONE, Script, World},
};

fn lines(world: &World) -> String {
    let mut narrator = RecordFormatter::new(ColourMode::Plain, HookOutputMode::Recorded);
    let told: String = records(world)
        .iter()
        .map(|record| narrator.tell(record))
        .collect();
    told + &narrator.rest()
}

#[test]
fn the_agents_actions_are_printed_with_their_files() {
    let mut world = samples::works();
    samples::uses_tools(&mut world);
    expect![[r#"
        Session started · agent demo · up to 20 iterations
        ━━ Iteration 1
          → Prompt sent · 4 bytes: GOAL
          ⚙ ◎ Read the parser · src/parser.rs:41
          ⚙ ✎ Edit src/parser.rs  +4 −2 · src/parser.rs:38, /tmp/notes.md
          ⚙ $ cargo test --lib parser
          ✗ $ cargo test --lib parser · failed
    "#]]
    .assert_eq(&lines(&world));
}

#[test]
fn a_call_that_has_not_begun_is_printed_with_the_title_of_its_next_update() {
    use ToolStatus::{Completed, Failed, InProgress, Pending};
    let call = |id: &str, title: &str, status| ToolCall {
        call: id.into(),
        title: title.into(),
        status,
        kind: Some(ToolKind::Execute),
        ..ToolCall::default()
    };
    let mut world = samples::works();
    let mut sends = |update| samples::agent(&mut world, update);
    sends(AgentUpdate::ToolCalled(call("a", "Terminal", Pending)));
    sends(AgentUpdate::ToolCalled(call("b", "Terminal", Pending)));
    sends(AgentUpdate::Thought("What next?".into()));
    sends(AgentUpdate::ToolUpdated(call("a", "cargo test", Pending)));
    sends(AgentUpdate::ToolUpdated(call("b", "cargo fmt", Failed)));
    sends(AgentUpdate::ToolUpdated(call("b", "cargo fmt", Failed)));
    sends(AgentUpdate::ToolUpdated(call("a", "cargo test", Completed)));
    sends(AgentUpdate::ToolCalled(call("c", "Terminal", Pending)));
    sends(AgentUpdate::Message("I run the lints.\n".into()));
    sends(AgentUpdate::ToolUpdated(call(
        "c",
        "cargo clippy",
        InProgress,
    )));
    sends(AgentUpdate::ToolCalled(call("d", "Terminal", Pending)));
    samples::asks(
        &mut world,
        call("d", "rm -r target", Pending),
        samples::usual_options(),
    );
    samples::agent(
        &mut world,
        AgentUpdate::ToolCalled(call("e", "make", Pending)),
    );
    expect![[r#"
        Session started · agent demo · up to 20 iterations
        ━━ Iteration 1
          → Prompt sent · 4 bytes: GOAL
          ⚙ $ cargo test
          ✗ $ cargo fmt · failed
          ⚙ $ Terminal
          I run the lints.
          ⚙ $ rm -r target
          ? Permission request: $ rm -r target
          ⚙ $ make
    "#]]
    .assert_eq(&lines(&world));
}

#[test]
fn a_start_names_the_conversation_that_it_continues() {
    let mut started = records(&samples::works()).swap_remove(0);
    let mut line = |from: Option<&str>, fork: Option<&str>| {
        if let Event::Session(SessionEvent::Started(began)) = &mut started.event {
            began.from = from.map(Into::into);
            began.fork = fork.map(Into::into);
        }
        RecordFormatter::new(ColourMode::Plain, HookOutputMode::Recorded).tell(&started)
    };
    expect![[r#"
        Session started · agent demo · up to 20 iterations · continues conversation c-1
        Session started · agent demo · up to 20 iterations · fork of friday
    "#]]
    .assert_eq(&(line(Some("c-1"), None) + &line(Some("c-1"), Some("friday"))));
}

#[test]
fn a_plan_is_printed_in_full_when_it_has_changed() {
    use ToolStatus::{Completed, InProgress, Pending};
    let mut world = samples::works();
    samples::agent(
        &mut world,
        samples::plan(&[("The lexer", InProgress), ("The parser", Pending)]),
    );
    samples::agent(
        &mut world,
        samples::plan(&[("The lexer", Completed), ("The parser", InProgress)]),
    );
    samples::agent(
        &mut world,
        samples::plan(&[("The lexer", Completed), ("The tests", Pending)]),
    );
    samples::agent(
        &mut world,
        AgentUpdate::Noted {
            what: "mode".into(),
            text: "plan".into(),
        },
    );
    expect![[r#"
        Session started · agent demo · up to 20 iterations
        ━━ Iteration 1
          → Prompt sent · 4 bytes: GOAL
          ≡ Plan: 0 of 2 done · now: The lexer
            ▸ The lexer
            ☐ The parser
          ≡ Plan: 1 of 2 done · now: The parser
          ≡ Plan: 1 of 2 done
            ☑ The lexer
            ☐ The tests
          · Mode: plan
    "#]]
    .assert_eq(&lines(&world));
}

#[test]
fn permission_requests_and_answers_are_printed_in_the_agents_words() {
    let person = [
        (GateKind::Permission, GateChoice::AllowAlways),
        (GateKind::Permission, GateChoice::RejectOnce),
    ];
    let script = Script::new()
        .agent([Answer::Asks(&["a.rs", "b.rs"]), DONE])
        .attended(&person);
    let world = World::begin(script).run();
    expect![[r#"
        Session started · agent demo · up to 20 iterations
        ━━ Iteration 1
          → Prompt sent · 4 bytes: GOAL
          ? Permission request: ✎ Edit a.rs
          ? Permission request: ✎ Edit b.rs
          ✓ Always allowed: Edit a.rs · “yes”
          ✗ Rejected: Edit b.rs · “no”
          Working.
          ✓ Iteration 1 done
          Next iteration: the agent has not said that it is done
        ━━ Iteration 2
          → Prompt sent · 4 bytes: GOAL
          All done. <promise>COMPLETE</promise>
          ✓ Iteration 2 done
          Decision: complete · the agent says it is done
        Session complete after 2 iterations: no checks are configured, and the agent says it is done
    "#]]
    .assert_eq(&lines(&world));
}

#[test]
fn usage_is_printed_for_each_iteration_and_at_the_end() {
    let mut world = samples::until(World::begin(Script::new()), |world| world.turn.is_some());
    samples::spends(
        &mut world,
        TurnUsage {
            tokens: Some(12_345),
            cost: Some(0.04),
            ..TurnUsage::UNKNOWN
        },
    );
    world = samples::until(world, |world| world.turn.is_some());
    samples::spends(
        &mut world,
        TurnUsage {
            cost: Some(0.5),
            ..TurnUsage::UNKNOWN
        },
    );
    world = samples::until(world, |world| world.turn.is_some()).run();
    let told: String = lines(&world)
        .lines()
        .filter(|line| {
            line.contains("done") || line.contains("used") || line.starts_with("Session")
        })
        .map(|line| format!("{line}\n"))
        .collect();
    expect![[r#"
        Session started · agent demo · up to 20 iterations
          ✓ Iteration 1 done · 12.3k tokens · $0.04
          Next iteration: the agent has not said that it is done
          ✓ Iteration 2 done · $0.50
          Next iteration: the agent has not said that it is done
          All done. <promise>COMPLETE</promise>
          ✓ Iteration 3 done
          Decision: complete · the agent says it is done
        Session complete after 3 iterations · 12.3k tokens · ≥ $0.54: no checks are configured, and the agent says it is done
    "#]]
    .assert_eq(&told);
}
