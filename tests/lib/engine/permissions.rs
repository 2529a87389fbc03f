//! Permission requests: what creel remembers, and what it answers itself.

use creel::engine::{
    conversation::{
        AgentPermissionRequest, FileLocation, PermissionAnswer, PermissionOption,
        PermissionOptionKind, PermissionSource, ToolCall, ToolKind,
    },
    gate::kind::{GateChoice, GateKind},
    input::{GateAnswer, Input, SessionCommand},
    policy::{PermissionPolicy, PermissionRule},
};

use serde_json::json;

use crate::support::{
    samples::{self, until},
    world::{Answer, Script, World, permission_request},
};

/// A session whose agent works, and whose user always allows everything.
fn works(change: impl FnOnce(&mut creel::engine::policy::SessionPlan)) -> World {
    let script = Script::new()
        .agent([Answer::Says("Working.")])
        .plan(change)
        .attended(&[(GateKind::Permission, GateChoice::AllowAlways)]);
    until(World::begin(script), |world| world.turn.is_some())
}

fn codex_edit(path: &str) -> ToolCall {
    let locations = vec![FileLocation {
        path: path.into(),
        line: None,
    }];
    ToolCall {
        title: "Edit files".into(),
        kind: Some(ToolKind::Edit),
        locations,
        ..ToolCall::default()
    }
}

/// Sends a request and lets the user answer; returns the gate, if one opened, and the agent's
/// answer.
fn asked(world: &mut World, tool: ToolCall, choice: GateChoice) -> (Option<u64>, PermissionAnswer) {
    samples::asks(world, tool, samples::usual_options());
    let gate = answered(world, choice);
    (gate, world.permitted.last().expect("an answer").1.clone())
}

fn answered(world: &mut World, choice: GateChoice) -> Option<u64> {
    world.settle();
    let gate = world
        .state
        .permissions()
        .gate_for_a_person()
        .map(|gate| gate.id)?;
    world.command(SessionCommand::AnswerGate(GateAnswer {
        gate,
        choice,
        text: None,
        items: None,
    }));
    world.settle();
    Some(gate.0)
}

fn selected(id: &str) -> PermissionAnswer {
    PermissionAnswer::Selected(id.into())
}

#[test]
fn an_always_answer_applies_to_the_same_request_and_to_nothing_else() {
    let mut world = works(|_| {});
    let first = asked(
        &mut world,
        codex_edit("/project/greet.py"),
        GateChoice::AllowAlways,
    );
    assert_eq!(
        first.1,
        selected("once"),
        "the agent itself must go on asking"
    );
    assert!(first.0.is_some());
    let again = asked(
        &mut world,
        codex_edit("/project/greet.py"),
        GateChoice::RejectOnce,
    );
    assert_eq!(
        again,
        (None, selected("once")),
        "creel answers the same request itself"
    );
    let input = |text: &str| Some(text.to_owned());
    let others = [
        codex_edit("/project/.github/workflows/release.yml"),
        codex_edit("/home/user/.ssh/authorized_keys"),
        ToolCall {
            title: "Edit".into(),
            ..codex_edit("/project/greet.py")
        },
        ToolCall {
            kind: Some(ToolKind::Delete),
            ..codex_edit("/project/greet.py")
        },
        ToolCall {
            input: input("{\"replace_all\": true}"),
            ..codex_edit("/project/greet.py")
        },
        ToolCall {
            locations: Vec::new(),
            ..codex_edit("/project/greet.py")
        },
    ];
    for tool in others {
        let other = asked(&mut world, tool.clone(), GateChoice::RejectOnce);
        assert!(other.0.is_some(), "creel did not ask about {tool:?}");
        assert_eq!(other.1, selected("no"));
    }
}

#[test]
fn a_request_that_creel_cannot_tell_from_another_is_asked_about_every_time() {
    let mut world = works(|_| {});
    let unclear = ToolCall {
        locations: Vec::new(),
        ..codex_edit("x")
    };
    for _ in 0..2 {
        assert!(
            asked(&mut world, unclear.clone(), GateChoice::AllowAlways)
                .0
                .is_some(),
            "no file is named"
        );
    }
    for _ in 0..2 {
        let turn = world.turn.as_ref().expect("the agent works").0;
        world.asking.1 = world.asking.1.next();
        let ask = permission_request(world.asking.1, codex_edit("a.py"), samples::usual_options());
        world.input(Input::PermissionAsked {
            turn,
            ask: Box::new(AgentPermissionRequest {
                shortened: true,
                ..ask
            }),
        });
        assert!(
            answered(&mut world, GateChoice::AllowAlways).is_some(),
            "only a part of it is known"
        );
    }
}

#[test]
fn an_agent_that_offers_only_always_gets_that() {
    let mut world = works(|_| {});
    let option = |id: &str, kind| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    let options = vec![
        option("for ever", PermissionOptionKind::AllowAlways),
        option("never", PermissionOptionKind::RejectAlways),
    ];
    samples::asks(&mut world, codex_edit("a.py"), options);
    answered(&mut world, GateChoice::AllowAlways);
    assert_eq!(
        world.permitted.last().expect("an answer").1,
        selected("for ever")
    );
}

/// Asks creel to do something for the agent.
fn wants(world: &mut World, tool: ToolCall) -> Option<PermissionAnswer> {
    let options = [
        ("allow_once", PermissionOptionKind::AllowOnce),
        ("allow_always", PermissionOptionKind::AllowAlways),
        ("reject_once", PermissionOptionKind::RejectOnce),
        ("reject_always", PermissionOptionKind::RejectAlways),
    ];
    let option = |(id, kind): (&str, _)| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let (ask, before) = (world.asking.1, world.permitted.len());
    let request = permission_request(ask, tool, options.map(option).to_vec());
    let request = Box::new(AgentPermissionRequest {
        source: PermissionSource::Service,
        ..request
    });
    world.input(Input::PermissionAsked { turn, ask: request });
    world.settle();
    world
        .permitted
        .get(before)
        .map(|(_, answer)| answer.clone())
}

fn write(path: &str) -> ToolCall {
    ToolCall {
        title: format!("write {path}"),
        ..codex_edit(path)
    }
}

fn read(path: &str) -> ToolCall {
    ToolCall {
        title: format!("read {path}"),
        kind: Some(ToolKind::Read),
        ..codex_edit(path)
    }
}

fn run(command: &str) -> ToolCall {
    let input = Some(json!({ "command": command }).to_string());
    ToolCall {
        title: command.into(),
        kind: Some(ToolKind::Execute),
        input,
        ..ToolCall::default()
    }
}

#[test]
fn services_of_creel_are_decided_like_any_request() {
    let (yes, no) = (Some(selected("allow_once")), Some(selected("reject_once")));
    let mut allowed = works(|plan| plan.gates.permissions = PermissionPolicy::Allow);
    let mut denied = works(|plan| plan.gates.permissions = PermissionPolicy::Deny);
    for tool in [write("a"), read("a"), run("ls")] {
        assert_eq!(
            (wants(&mut allowed, tool.clone()), wants(&mut denied, tool)),
            (yes.clone(), no.clone())
        );
    }
    let rule = |path: &str, action| PermissionRule {
        kinds: vec![],
        paths: vec![path.into()],
        action,
    };
    let mut ruled = works(|plan| {
        plan.access.permissions = vec![
            rule(".env", PermissionPolicy::Deny),
            rule("src/**", PermissionPolicy::Allow),
        ];
    });
    assert_eq!(wants(&mut ruled, read(".env")), no);
    assert_eq!(wants(&mut ruled, write("src/a.rs")), yes);
    let mut linked = write("src/a.rs");
    linked.locations.push(FileLocation {
        path: ".env".into(),
        line: None,
    });
    assert_eq!(
        wants(&mut ruled, linked),
        no,
        "a link leads to what is denied"
    );
    assert_eq!(
        wants(&mut ruled, read("b")),
        yes,
        "to read without a rule needs no gate"
    );
    assert_eq!(wants(&mut ruled, write("b")), None, "to write does");
    assert!(
        ruled
            .state
            .permissions()
            .gate_for_a_person()
            .is_some_and(|gate| gate.kind() == GateKind::Permission)
    );
    assert_eq!(answered(&mut ruled, GateChoice::RejectOnce), Some(1));
    assert_eq!(ruled.permitted.last().map(|(_, answer)| answer.clone()), no);
}

#[test]
fn permissions_granted_in_this_turn_are_served_without_another_question() {
    let yes = Some(selected("allow_once"));
    let mut world = works(|_| {});
    assert!(
        asked(
            &mut world,
            codex_edit("/project/greet.py"),
            GateChoice::AllowOnce
        )
        .0
        .is_some()
    );
    assert_eq!(wants(&mut world, write("greet.py")), yes);
    let command = ToolCall {
        title: "ls -la".into(),
        kind: Some(ToolKind::Execute),
        ..ToolCall::default()
    };
    assert!(
        asked(&mut world, command, GateChoice::AllowOnce)
            .0
            .is_some()
    );
    assert_eq!(wants(&mut world, run("ls -la")), yes);
    assert_eq!(wants(&mut world, run("ls -la; rm x")), None);
    answered(&mut world, GateChoice::RejectOnce);
    assert_eq!(wants(&mut world, write("other.py")), None);
    answered(&mut world, GateChoice::AllowAlways);
    assert_eq!(wants(&mut world, write("other.py")), yes);
    let mut world = until(world, |world| {
        world.state.turns.last.0 > 1 && world.turn.is_some()
    });
    assert_eq!(wants(&mut world, write("other.py")), yes, "for good");
    assert_eq!(
        wants(&mut world, write("greet.py")),
        None,
        "the grant ended with its turn"
    );
}
