//! Sessions as lines: the output without a screen.

use creel::{
    cli::record_formatter::{HookOutputMode, RecordFormatter},
    engine::{
        conversation::{AgentUpdate, ToolStatus, TurnUsage},
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
    records(world)
        .iter()
        .map(|record| narrator.tell(record))
        .collect()
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
        },
    );
    world = samples::until(world, |world| world.turn.is_some());
    samples::spends(
        &mut world,
        TurnUsage {
            tokens: None,
            cost: Some(0.5),
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
        Session complete after 3 iterations · 12.3k tokens · $0.54: no checks are configured, and the agent says it is done
    "#]]
    .assert_eq(&told);
}
