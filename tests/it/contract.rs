//! What is true for every agent, whatever its kind.

use std::path::Path;

use creel::{
    agents::{Agent, AgentHistory, TurnRequest, kinds::start},
    engine::{conversation::StopReason, policy::AgentSpec, time::TimeSpan},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{
    acp_agent, eventually, folder,
    listener::{TurnRecorder, again, ended, failure, place, request, turn},
    lives, pid_in,
};

/// What an agent does in its turn.
#[derive(Clone, Copy)]
enum Act {
    Says(&'static str),
    /// Fails, with this word in the error.
    Fails(&'static str),
    /// Starts a child that writes its process id to `child.pid`, says `ready`, and never ends.
    Hangs,
}

type Kind = (&'static str, fn(&Path, &[Act]) -> AgentSpec);

/// The kinds of agents, each with a function that configures it.
const KINDS: [Kind; 3] = [("acp", acp), ("command", command), ("scripted", scripted)];

fn acp(dir: &Path, acts: &[Act]) -> AgentSpec {
    let turns: Vec<Value> = acts
        .iter()
        .map(|act| match act {
            Act::Says(text) => json!([{"say": text}]),
            Act::Fails(why) => json!([{"error": {"code": -32603, "message": why}}]),
            Act::Hangs => json!([
                {"spawn": "echo $$ > child.pid; exec sleep 1000"}, {"wait_file": "child.pid"}, {"say": "ready"}, {"hang": true},
            ]),
        })
        .collect();
    let script = json!({"turns": turns, "state_file": "acp-state.json"});
    std::fs::write(dir.join("acp.json"), script.to_string()).expect("a script");
    AgentSpec::acp(format!(
        "'{}' '{}'",
        acp_agent().display(),
        dir.join("acp.json").display()
    ))
}

/// One process per turn: a file counts the turns.
fn command(_: &Path, acts: &[Act]) -> AgentSpec {
    let lines: String = acts
        .iter()
        .enumerate()
        .map(|(n, act)| match act {
            Act::Says(text) => format!("{n}) printf '%s' '{text}' ;;\n"),
            Act::Fails(why) => format!("{n}) echo '{why}' >&2; exit 1 ;;\n"),
            Act::Hangs => format!(
                "{n}) sh -c 'echo $$ > child.pid; exec sleep 1000' & printf ready; sleep 1000 ;;\n"
            ),
        })
        .collect();
    AgentSpec::command(format!(
        "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; case $n in\n{lines}esac"
    ))
}

fn scripted(_: &Path, acts: &[Act]) -> AgentSpec {
    let turns: Vec<Value> = acts
        .iter()
        .map(|act| match act {
            Act::Says(text) => json!({"say": text}),
            Act::Fails(why) => json!({"fail": why}),
            Act::Hangs => json!({"say": "ready", "run": "sh -c 'echo $$ > child.pid; exec sleep 1000' & sleep 1000"}),
        })
        .collect();
    AgentSpec::Scripted {
        script: json!({"turns": turns}).to_string(),
    }
}

fn begin(kind: Kind, dir: &Path, acts: &[Act]) -> Box<dyn Agent> {
    start(&kind.1(dir, acts), place(dir), AgentHistory::default()).expect("an agent")
}

#[tokio::test]
async fn text_arrives_unchanged() {
    for kind in KINDS {
        let dir = folder();
        let text = "Zeile 1\nünï €  <promise>COMPLETE</promise>\n\ttab";
        let mut agent = begin(kind, dir.path(), &[Act::Says(text), Act::Says("two")]);
        let (end, recorder) = turn(&mut *agent, request("go")).await;
        assert_eq!(
            (end, recorder.text().as_str()),
            (Ok(ended(StopReason::EndTurn)), text),
            "{}",
            kind.0
        );
        assert_eq!(
            turn(&mut *agent, again("and")).await.1.text(),
            "two",
            "{}",
            kind.0
        );
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn a_failure_has_a_message_and_the_next_turn_works() {
    for kind in KINDS {
        let dir = folder();
        let mut agent = begin(
            kind,
            dir.path(),
            &[Act::Fails("reactor meltdown"), Act::Says("fine")],
        );
        let message = failure(&mut *agent, request("go")).await;
        assert!(
            message.contains("reactor meltdown"),
            "{}: {message}",
            kind.0
        );
        assert_eq!(
            turn(&mut *agent, request("again")).await.1.text(),
            "fine",
            "{}",
            kind.0
        );
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn a_cancelled_turn_is_no_failure_and_leaves_no_process() {
    for kind in KINDS {
        let dir = folder();
        let mut agent = begin(kind, dir.path(), &[Act::Hangs, Act::Says("fine")]);
        let (cancel, mut recorder) = (CancellationToken::new(), TurnRecorder::default());
        let listening = recorder.clone();
        let (end, child) = tokio::join!(agent.turn(request("go"), &mut recorder, &cancel), async {
            let child = pid_in(&dir.path().join("child.pid")).await;
            eventually("it is ready", || listening.text() == "ready").await;
            cancel.cancel();
            child
        });
        assert_eq!(end, Ok(ended(StopReason::Cancelled)), "{}", kind.0);
        assert_eq!(
            turn(&mut *agent, request("again")).await.1.text(),
            "fine",
            "{}",
            kind.0
        );
        agent.shutdown().await;
        assert!(!lives(child), "{}", kind.0);
    }
}

#[tokio::test]
async fn a_turn_that_is_too_long_fails_and_the_next_one_works() {
    for kind in KINDS {
        let dir = folder();
        let mut agent = begin(kind, dir.path(), &[Act::Hangs, Act::Says("fine")]);
        let (end, _) = turn(
            &mut *agent,
            TurnRequest {
                timeout: TimeSpan::secs(4),
                ..request("go")
            },
        )
        .await;
        let message = end.expect_err("a failure").message;
        assert!(message.contains("turn_timeout"), "{}: {message}", kind.0);
        let child = pid_in(&dir.path().join("child.pid")).await;
        assert_eq!(
            turn(&mut *agent, request("again")).await.1.text(),
            "fine",
            "{}",
            kind.0
        );
        agent.shutdown().await;
        assert!(!lives(child), "{}", kind.0);
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_it_begins_does_nothing() {
    for kind in KINDS {
        let dir = folder();
        let mut agent = begin(kind, dir.path(), &[Act::Says("never")]);
        let (cancel, mut recorder) = (CancellationToken::new(), TurnRecorder::default());
        cancel.cancel();
        let end = agent.turn(request("go"), &mut recorder, &cancel).await;
        assert_eq!(
            (end, recorder.text().as_str()),
            (Ok(ended(StopReason::Cancelled)), ""),
            "{}",
            kind.0
        );
        agent.shutdown().await;
    }
}
