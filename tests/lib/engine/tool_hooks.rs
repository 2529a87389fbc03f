//! Hooks of tool calls: what they decide about a request, and what they tell the agent about a
//! call that has ended.

use creel::engine::{
    self,
    conversation::{
        AgentPermissionRequest, AgentUpdate, FileLocation, PermissionAnswer, PermissionSource,
        StopReason, ToolCall, ToolKind, ToolStatus, TurnEnd,
    },
    event::{
        ActorKind, Event, GateEvent, HookEvent, PromptReason, SessionOutcome, StopTiming,
        TurnEvent, UserPresence,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::{
        claude::{ClaudeEvent, ClaudeHandler},
        point::HookPoint,
        tool_hooks::unnamed,
        tool_matcher::{ClaudeToolEvent, ToolMatcher},
        verdict::{HookDecision, HookReply, RunEnd},
    },
    input::{GateAnswer, Input, SessionCommand},
    policy::{
        AgentFacts, AgentSpec, HookFailurePolicy, PermissionPolicy, PermissionRule, ServicePolicy,
        SessionPlan, ToolHookLevel, ToolHookSupport,
    },
    refusal::Refusal,
};

use crate::support::{
    samples::{self, until},
    world::{
        Answer, DONE, Ran, Script, World, blocks, breaks, exits, passes, permission_request, prints,
    },
};

/// A session with this hook at `pre_tool`, whose agent works.
fn guarded(runs: impl Into<Vec<Ran>>, change: impl FnOnce(&mut SessionPlan)) -> World {
    works(
        Script::new()
            .hook(HookPoint::PreTool, "guard", runs)
            .plan(change),
    )
}

fn works(script: Script) -> World {
    let script = script
        .plan(native)
        .agent([Answer::Says("Working."), DONE])
        .attended(&[(GateKind::Permission, GateChoice::AllowOnce)]);
    until(World::begin(script), |world| world.turn.is_some())
}

/// creel adds its own hook to the agent.
fn native(plan: &mut SessionPlan) {
    let level = ToolHookLevel::Native;
    plan.agent_spec = AgentSpec::Acp {
        command: "agent".into(),
        mode: None,
        files: ServicePolicy::default(),
        terminals: ServicePolicy::default(),
        known: AgentFacts {
            tool_hooks: Some(ToolHookSupport {
                level,
                ..ToolHookSupport::default()
            }),
            ..AgentFacts::default()
        },
    };
}

fn call(kind: ToolKind, title: &str, files: &[&str]) -> ToolCall {
    let place = |path: &&str| FileLocation {
        path: (*path).into(),
        line: None,
    };
    ToolCall {
        call: format!("call {title}"),
        title: title.into(),
        kind: Some(kind),
        locations: files.iter().map(place).collect(),
        ..ToolCall::default()
    }
}

fn edit(file: &str) -> ToolCall {
    call(ToolKind::Edit, "edit", &[file])
}

fn says(permission: PermissionPolicy, reason: &str) -> Ran {
    let reply = HookReply {
        permission: Some(permission),
        reason: Some(reason.into()),
        ..HookReply::default()
    };
    Ran {
        reply: Some(reply),
        ..passes()
    }
}

fn asks(world: &mut World, tool: ToolCall) {
    samples::asks(world, tool, samples::usual_options());
    world.settle();
}

/// The agent asks, and the hook answers.
fn decided(world: &mut World, tool: ToolCall) -> Option<PermissionAnswer> {
    let before = world.permitted.len();
    asks(world, tool);
    while !world.jobs.is_empty() {
        world.finish_hook(0);
        world.settle();
    }
    world
        .permitted
        .get(before)
        .map(|(_, answer)| answer.clone())
}

fn selected(id: &str) -> PermissionAnswer {
    PermissionAnswer::Selected(id.into())
}

fn asked_user(world: &World) -> Option<&str> {
    let gate = world.state.permissions().gate_for_a_person()?;
    Some(&gate.reason)
}

fn allow_all(plan: &mut SessionPlan) {
    plan.gates.permissions = PermissionPolicy::Allow;
}

fn rule(action: PermissionPolicy) -> impl FnOnce(&mut SessionPlan) {
    move |plan| {
        plan.access.permissions.push(PermissionRule {
            kinds: vec![ToolKind::Edit],
            paths: Vec::new(),
            action,
        });
    }
}

#[test]
fn a_hook_denies_what_a_rule_allows_and_the_agent_reads_why_with_the_next_prompt() {
    let mut world = guarded([blocks("no edits on Friday")], allow_all);
    assert_eq!(decided(&mut world, edit("a.rs")), Some(selected("no")));
    let answered = world.events.iter().find_map(|event| match event {
        Event::Gate(GateEvent::Answered { choice, by, .. }) => Some((*choice, by.by)),
        _ => None,
    });
    assert_eq!(answered, Some((GateChoice::RejectOnce, ActorKind::Hook)));
    let reason = world.events.iter().find_map(|event| match event {
        Event::Gate(GateEvent::Opened { reason, .. }) => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(
        reason.as_deref(),
        Some(
            "the agent asks for permission (change): edit; the hook `guard` denies it: no edits on Friday"
        )
    );
    let world = world.run();
    let told = world.events.iter().any(|event| {
        matches!(event, Event::Turn(TurnEvent::PromptSent(prompt))
            if prompt.reason == PromptReason::Iteration && prompt.text.contains("no edits on Friday"))
    });
    assert!(told);
}

#[test]
fn a_hook_allows_what_you_would_be_asked_about() {
    let mut world = guarded([says(PermissionPolicy::Allow, "a test file")], |_| {});
    assert_eq!(
        decided(&mut world, edit("tests/a.rs")),
        Some(selected("once"))
    );
    assert_eq!(asked_user(&world), None);
}

#[test]
fn a_hook_without_a_decision_leaves_the_request_to_the_rules_and_to_you() {
    let mut world = guarded([passes()], allow_all);
    assert_eq!(decided(&mut world, edit("a.rs")), Some(selected("once")));
    let mut world = guarded([passes()], |_| {});
    assert_eq!(decided(&mut world, edit("a.rs")), None);
    assert_eq!(
        asked_user(&world),
        Some("the agent asks for permission (change): edit")
    );
}

#[test]
fn a_hook_that_fails_decides_nothing_and_you_are_asked_even_where_a_rule_allows() {
    let unreadable = Ran {
        reply: Some(HookReply::unreadable("bad")),
        ..passes()
    };
    let signal = Ran {
        end: RunEnd::Signal(9),
        ..passes()
    };
    for run in [
        breaks(),
        exits(1, "", "oops"),
        exits(127, "", ""),
        unreadable,
        signal,
    ] {
        let mut world = guarded([run.clone()], allow_all);
        assert_eq!(decided(&mut world, edit("a.rs")), None, "{run:?}");
        assert!(asked_user(&world).is_some(), "{run:?}");
    }
    let asks = says(PermissionPolicy::Ask, "look at this");
    let mut world = guarded([asks], allow_all);
    assert_eq!(decided(&mut world, edit("a.rs")), None);
    assert_eq!(
        asked_user(&world),
        Some(
            "the agent asks for permission (change): edit; the hook `guard` leaves it to you: look at this"
        )
    );
}

#[test]
fn the_config_can_say_what_a_failure_means() {
    for (policy, answer) in [
        (HookFailurePolicy::Ignore, Some(selected("once"))),
        (HookFailurePolicy::Block, Some(selected("no"))),
        (HookFailurePolicy::Escalate, None),
    ] {
        let script = Script::new().plan(allow_all);
        let script = script.hook_with(HookPoint::PreTool, "guard", [breaks()], |spec| {
            spec.on_failure = Some(policy);
        });
        assert_eq!(
            decided(&mut works(script), edit("a.rs")),
            answer,
            "{policy:?}"
        );
    }
}

#[test]
fn deny_beats_ask_and_ask_beats_allow() {
    use PermissionPolicy::{Allow, Ask, Deny};
    for (decisions, answer) in [
        ([Allow, Deny], Some(selected("no"))),
        ([Deny, Ask], Some(selected("no"))),
        ([Ask, Allow], None),
        ([Allow, Allow], Some(selected("once"))),
    ] {
        let [one, two] = decisions.map(|decision| says(decision, "so"));
        let script = Script::new().hook(HookPoint::PreTool, "one", [one]).hook(
            HookPoint::PreTool,
            "two",
            [two],
        );
        assert_eq!(
            decided(&mut works(script), edit("a.rs")),
            answer,
            "{decisions:?}"
        );
    }
}

#[test]
fn no_hook_allows_what_a_rule_denies_or_asks_about() {
    let allows = || [says(PermissionPolicy::Allow, "fine")];
    let mut world = guarded(allows(), rule(PermissionPolicy::Deny));
    assert_eq!(decided(&mut world, edit("a.rs")), Some(selected("no")));
    let ran = |world: &World| {
        world
            .events
            .iter()
            .any(|event| matches!(event, Event::Hook(HookEvent::Started { .. })))
    };
    assert!(!ran(&world), "the rule has decided");
    let mut world = guarded(allows(), rule(PermissionPolicy::Ask));
    assert_eq!(decided(&mut world, edit("a.rs")), None);
    assert!(ran(&world) && asked_user(&world).is_some());
}

#[test]
fn no_hook_allows_a_change_to_guarded_files_or_one_that_it_cannot_see() {
    let allows = || [says(PermissionPolicy::Allow, "fine")];
    let protects = |plan: &mut SessionPlan| plan.access.protect = vec!["tests/**".into()];
    for file in [
        ".git/config",
        ".creel/x",
        "creel.yaml",
        "tests/a.rs",
        "src/../.git/hooks/x",
    ] {
        let mut world = guarded(allows(), protects);
        assert_eq!(decided(&mut world, edit(file)), None, "{file}");
        assert!(asked_user(&world).is_some(), "{file}");
    }
    let mut world = guarded(allows(), |_| {});
    assert_eq!(
        decided(&mut world, call(ToolKind::Edit, "Edit files", &[])),
        None
    );
    let mut world = guarded(allows(), allow_all);
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let ask = permission_request(world.asking.1, edit("a.rs"), samples::usual_options());
    world.input(Input::PermissionAsked {
        turn,
        ask: Box::new(AgentPermissionRequest {
            shortened: true,
            ..ask
        }),
    });
    world.settle();
    world.finish_hook(0);
    world.settle();
    assert!(
        asked_user(&world).is_some(),
        "the hook saw only a part of it"
    );
}

#[test]
fn a_matcher_selects_the_calls_of_a_hook() {
    let script = |matcher: ToolMatcher| {
        Script::new().hook_with(HookPoint::PreTool, "guard", [blocks("no")], |spec| {
            spec.matcher = Some(matcher.into());
        })
    };
    let bash = ToolMatcher {
        text: Some("Bash".into()),
        claude: Some(ClaudeToolEvent::PreToolUse),
        ..ToolMatcher::default()
    };
    let mut world = works(script(bash).plan(allow_all));
    assert_eq!(decided(&mut world, edit("a.rs")), Some(selected("once")));
    let rm = call(ToolKind::Execute, "rm -rf /", &[]);
    assert_eq!(decided(&mut world, rm), Some(selected("no")));
}

#[test]
fn requests_are_answered_in_their_order_while_hooks_of_later_ones_run() {
    let script = Script::new().hook_with(HookPoint::PreTool, "guard", [blocks("no")], |spec| {
        spec.matcher = Some(Box::new(ToolMatcher {
            paths: vec!["first".into()],
            ..ToolMatcher::default()
        }));
    });
    let mut world = works(script.plan(allow_all));
    asks(&mut world, edit("first"));
    asks(&mut world, edit("second"));
    assert_eq!((world.permitted.len(), world.jobs.len()), (0, 1));
    world.finish_hook(0);
    world.settle();
    let answers: Vec<_> = world
        .permitted
        .iter()
        .map(|(_, answer)| answer.clone())
        .collect();
    assert_eq!(
        answers,
        ["no", "once"].map(|id| PermissionAnswer::Selected(id.into()))
    );
}

#[test]
fn files_that_creel_serves_are_requests_too() {
    let mut world = guarded([blocks("no")], allow_all);
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let ask = permission_request(world.asking.1, edit("a.rs"), samples::usual_options());
    world.input(Input::PermissionAsked {
        turn,
        ask: Box::new(AgentPermissionRequest {
            source: PermissionSource::Service,
            ..ask
        }),
    });
    world.settle();
    assert_eq!(world.permitted, []);
    world.finish_hook(0);
    world.settle();
    assert_eq!(
        world.permitted.last().map(|(_, answer)| answer.clone()),
        Some(selected("no"))
    );
}

#[test]
fn the_hooks_of_a_request_end_with_its_turn_and_decide_nothing_later() {
    let mut world = guarded([says(PermissionPolicy::Allow, "late")], |_| {});
    asks(&mut world, edit("a.rs"));
    asks(&mut world, edit("b.rs"));
    let turn = world.turn.take().expect("the agent works").0;
    world.input(Input::TurnEnded {
        turn,
        end: TurnEnd::new(StopReason::Cancelled),
    });
    assert_eq!(world.cancelled.len(), 1, "the running hook is cut");
    world.finish_hook(0);
    assert_eq!((world.permitted.len(), world.jobs.len()), (0, 0));
    assert!(!world.state.tool_hooks.is_busy());
}

#[test]
fn a_stop_ends_hooks_of_tool_calls_and_starts_no_other() {
    let script = Script::new()
        .hook(HookPoint::PreTool, "guard", [passes()])
        .hook(HookPoint::PostTool, "format", [passes()])
        .hook(HookPoint::PostTool, "lint", [passes()]);
    let mut world = works(script);
    ends(&mut world, "c1", ToolStatus::Completed);
    asks(&mut world, edit("a.rs"));
    assert_eq!(world.jobs.len(), 2);
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    assert_eq!(world.cancelled.len(), 2);
    while !world.jobs.is_empty() {
        world.finish_hook(0);
        world.settle();
    }
    assert!(!world.state.tool_hooks.is_busy());
}

#[test]
fn a_resumed_session_forgets_the_requests_of_the_killed_one() {
    let mut world = guarded([blocks("no")], |_| {});
    asks(&mut world, edit("a.rs"));
    let mut world = World::from_events(world.script.clone(), &world.events).resume();
    world.settle();
    assert!(!world.state.tool_hooks.is_busy());
    assert!(world.run().state.phase.outcome().is_some());
}

fn ends(world: &mut World, id: &str, status: ToolStatus) {
    let turn = world.turn.as_ref().expect("the agent works").0;
    let tool = ToolCall {
        call: id.into(),
        status,
        ..edit("a.rs")
    };
    world.input(Input::Agent {
        turn,
        update: AgentUpdate::ToolUpdated(tool),
    });
    world.settle();
}

#[test]
fn a_call_that_ended_has_its_hooks_once_and_their_output_reaches_the_next_prompt() {
    let script = Script::new().piped(HookPoint::PostTool, "lint", [prints("3 warnings")]);
    let mut world = works(script);
    ends(&mut world, "c1", ToolStatus::InProgress);
    assert_eq!(world.jobs.len(), 0);
    ends(&mut world, "c1", ToolStatus::Completed);
    ends(&mut world, "c1", ToolStatus::Completed);
    ends(&mut world, "c2", ToolStatus::Failed);
    assert_eq!(world.jobs.len(), 1, "one at a time");
    assert_eq!(
        world.jobs[0]
            .facts
            .tool
            .as_ref()
            .map(|tool| tool.call.clone()),
        Some("c1".into())
    );
    world.finish_hook(0);
    world.settle();
    world.finish_hook(0);
    world.settle();
    assert!(world.jobs.is_empty());
    let world = world.run();
    let prompt = world.events.iter().rev().find_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) => Some(prompt.text.clone()),
        _ => None,
    });
    assert_eq!(prompt.expect("a prompt").matches("3 warnings").count(), 2);
}

/// The agent works with a hook after calls, and reports these.
fn reported(calls: &[ToolCall]) -> World {
    let mut world = works(Script::new().hook(HookPoint::PostTool, "note", [passes()]));
    let turn = world.turn.as_ref().expect("the agent works").0;
    for call in calls {
        let update = AgentUpdate::ToolUpdated(call.clone());
        world.input(Input::Agent { turn, update });
        world.settle();
        runs_all(&mut world);
    }
    world
}

#[test]
fn what_creel_does_as_a_part_of_a_call_has_no_hooks_of_its_own() {
    let agents = |status| ToolCall {
        status,
        input: Some(serde_json::json!({ "command": "touch a" }).to_string()),
        ..call(ToolKind::Execute, "shell", &[])
    };
    let served = |title: &str| ToolCall {
        call: "terminal-1".into(),
        status: ToolStatus::Completed,
        served: true,
        ..call(ToolKind::Execute, title, &[])
    };
    let (begun, ended) = (
        agents(ToolStatus::InProgress),
        agents(ToolStatus::Completed),
    );
    for line in [
        "touch a",
        "/bin/bash -c touch a",
        "/bin/bash -c cd '/p' && touch a",
    ] {
        let world = reported(&[begun.clone(), served(line), ended.clone()]);
        assert_eq!(hook_runs(&world), 1, "{line}");
    }
    let world = reported(&[begun.clone(), served("touch b"), ended]);
    assert_eq!(hook_runs(&world), 2, "it is not a part of the call");
    assert_eq!(hook_runs(&reported(&[served("touch a")])), 1);
    let other = ToolCall {
        served: false,
        ..served("touch a")
    };
    assert_eq!(hook_runs(&reported(&[begun, other])), 1, "another call");
}

#[test]
fn a_call_that_was_denied_has_no_hooks_after_it() {
    let denied = |decide: fn(&mut World)| {
        let script = Script::new()
            .hook(HookPoint::PreTool, "guard", [blocks("no")])
            .hook(HookPoint::PostTool, "note", [passes()]);
        let mut world = works(script);
        decide(&mut world);
        runs_all(&mut world);
        let turn = world.turn.as_ref().expect("the agent works").0;
        let tool = ToolCall {
            status: ToolStatus::Failed,
            ..rm()
        };
        let update = AgentUpdate::ToolUpdated(tool);
        world.input(Input::Agent { turn, update });
        world.settle();
        runs_all(&mut world);
        hook_runs(&world)
    };
    assert_eq!(denied(|world| asks(world, rm())), 1);
    assert_eq!(denied(|world| announces(world, rm())), 1);
}

#[test]
fn a_hook_for_failed_calls_does_not_see_the_others() {
    let script = Script::new().hook_with(HookPoint::PostTool, "note", [passes()], |spec| {
        spec.matcher = Some(Box::new(ToolMatcher {
            claude: Some(ClaudeToolEvent::PostToolUseFailure),
            ..ToolMatcher::default()
        }));
    });
    let mut world = works(script);
    ends(&mut world, "c1", ToolStatus::Completed);
    assert_eq!(world.jobs.len(), 0);
    ends(&mut world, "c2", ToolStatus::Failed);
    assert_eq!(world.jobs.len(), 1);
}

/// The agent's own hook asks about a call, and creel's hooks run.
fn announces(world: &mut World, call: ToolCall) {
    world.asking.1 = world.asking.1.next();
    let (ask, call) = (world.asking.1, Box::new(call));
    world.input(Input::Command {
        by: ActorKind::Agent.into(),
        command: SessionCommand::DecideTool {
            ask,
            call,
            arguments: None,
            shortened: false,
            whole: true,
            digest: None,
        },
    });
    world.settle();
}

fn runs_all(world: &mut World) {
    while !world.jobs.is_empty() {
        world.finish_hook(0);
        world.settle();
    }
}

fn last_answer(world: &World) -> Option<PermissionAnswer> {
    world.permitted.last().map(|(_, answer)| answer.clone())
}

fn rm() -> ToolCall {
    let command = serde_json::json!({ "command": "rm -rf build" });
    ToolCall {
        call: "toolu_1".into(),
        name: Some("Bash".into()),
        input: Some(command.to_string()),
        ..call(ToolKind::Execute, "rm -rf build", &[])
    }
}

fn hook_runs(world: &World) -> usize {
    let started = |event: &&Event| matches!(event, Event::Hook(HookEvent::Started { .. }));
    world.events.iter().filter(started).count()
}

#[test]
fn the_agents_own_hook_gets_the_reason_of_a_denial_at_once_and_no_prompt_repeats_it() {
    let mut world = guarded([blocks("no rm")], allow_all);
    announces(&mut world, rm());
    assert_eq!(world.permitted, [], "it waits for the hook");
    runs_all(&mut world);
    let reason = "the hook `guard` denies it: no rm".to_owned();
    assert_eq!(last_answer(&world), Some(PermissionAnswer::Refused(reason)));
    let world = world.run();
    let repeats = world.events.iter().any(|event| {
        matches!(event, Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.text.contains("no rm"))
    });
    assert!(!repeats && hook_runs(&world) == 1);
}

#[test]
fn a_call_that_no_hook_decides_continues_by_the_agents_own_rules_without_a_gate() {
    let mut world = guarded([passes()], |_| {});
    announces(&mut world, rm());
    runs_all(&mut world);
    assert_eq!(last_answer(&world), Some(PermissionAnswer::Undecided));
    assert_eq!(asked_user(&world), None);
    let script = Script::new().hook_with(HookPoint::PreTool, "guard", [blocks("no")], |spec| {
        spec.matcher = Some(Box::new(ToolMatcher {
            names: vec!["Edit".into()],
            ..ToolMatcher::default()
        }));
    });
    let mut world = works(script);
    announces(&mut world, rm());
    assert_eq!(last_answer(&world), Some(PermissionAnswer::Undecided));
    let asked = |event: &Event| matches!(event, Event::Turn(TurnEvent::PermissionAsked { .. }));
    assert!(!world.events.iter().any(asked), "no hook is for it");
}

#[test]
fn a_hook_allows_a_call_unless_a_rule_denies_or_asks_about_it() {
    let allows = || [says(PermissionPolicy::Allow, "fine")];
    let announced = |change: fn(&mut SessionPlan), call: ToolCall| {
        let mut world = guarded(allows(), change);
        announces(&mut world, call);
        runs_all(&mut world);
        last_answer(&world)
    };
    assert_eq!(announced(|_| {}, rm()), Some(selected("allow")));
    let asks = |plan: &mut SessionPlan| rule(PermissionPolicy::Ask)(plan);
    assert_eq!(
        announced(asks, edit("a.rs")),
        Some(PermissionAnswer::Undecided)
    );
    let denies = |plan: &mut SessionPlan| rule(PermissionPolicy::Deny)(plan);
    assert_eq!(
        announced(denies, edit("a.rs")),
        Some(PermissionAnswer::Undecided)
    );
    assert_eq!(
        announced(|_| {}, edit(".git/config")),
        Some(PermissionAnswer::Undecided)
    );
}

#[test]
fn a_hook_that_asks_or_fails_opens_a_gate_whose_answer_is_the_agents() {
    for run in [says(PermissionPolicy::Ask, "look"), exits(1, "", "oops")] {
        let mut world = guarded([run], allow_all);
        announces(&mut world, rm());
        runs_all(&mut world);
        assert!(asked_user(&world).is_some() && world.permitted.is_empty());
        let gate = world.state.gates.open.as_ref().expect("a gate").id;
        world.command(SessionCommand::AnswerGate(GateAnswer {
            gate,
            choice: GateChoice::AllowOnce,
            text: None,
            items: None,
        }));
        world.settle();
        assert_eq!(last_answer(&world), Some(selected("allow")));
        // The agent asks as well: neither the hook nor the user is asked again.
        asks(&mut world, rm());
        assert_eq!(last_answer(&world), Some(selected("once")));
        assert_eq!((hook_runs(&world), asked_user(&world)), (1, None));
    }
}

#[test]
fn a_call_that_was_decided_is_not_asked_about_a_second_time() {
    let mut world = guarded([passes()], allow_all);
    announces(&mut world, rm());
    runs_all(&mut world);
    asks(&mut world, rm());
    assert_eq!(
        (last_answer(&world), hook_runs(&world)),
        (Some(selected("once")), 1)
    );
    // The same id with another command is another call.
    let mut world = guarded([passes(), blocks("no")], allow_all);
    announces(&mut world, rm());
    runs_all(&mut world);
    let other = serde_json::json!({ "command": "rm -rf /" });
    let other = ToolCall {
        input: Some(other.to_string()),
        ..rm()
    };
    asks(&mut world, other);
    runs_all(&mut world);
    assert_eq!(
        (last_answer(&world), hook_runs(&world)),
        (Some(selected("no")), 2)
    );
}

#[test]
fn a_call_without_an_id_is_recognized_by_what_it_does() {
    let runs = |asked: ToolCall| {
        let mut world = guarded([passes(), passes()], allow_all);
        let call = unnamed(world.asking.1.next());
        announces(&mut world, ToolCall { call, ..rm() });
        runs_all(&mut world);
        asks(&mut world, asked);
        runs_all(&mut world);
        hook_runs(&world)
    };
    assert_eq!(runs(rm()), 1);
    let other = serde_json::json!({ "command": "rm -rf /" });
    let other = ToolCall {
        input: Some(other.to_string()),
        ..rm()
    };
    assert_eq!(runs(other), 2, "another command");
    assert_eq!(runs(edit("a.rs")), 2, "it may be another call");
}

#[test]
fn only_the_sessions_own_agent_may_ask_and_only_in_its_turn() {
    let world = guarded([passes()], |_| {});
    for by in [
        ActorKind::Cli,
        ActorKind::Tui,
        ActorKind::Hook,
        ActorKind::OtherSession,
        ActorKind::Nats,
        ActorKind::Mcp,
    ] {
        for command in [
            SessionCommand::DecideTool {
                ask: world.asking.1.next(),
                call: Box::new(rm()),
                arguments: None,
                shortened: false,
                whole: true,
                digest: None,
            },
            SessionCommand::ToolEnded {
                call: Box::new(rm()),
            },
        ] {
            let step = engine::decide(
                &world.state,
                world.now,
                Input::Command {
                    by: by.into(),
                    command,
                },
            );
            assert_eq!(step.refusal, Some(Refusal::NotTheAgent), "{by:?}");
        }
    }
    let script = Script::new().hook(HookPoint::SessionStart, "prepare", [passes()]);
    let script = script.hook(HookPoint::PreTool, "guard", [passes()]);
    let world = World::begin(script.plan(native));
    assert!(world.turn.is_none(), "the agent has no prompt yet");
    let command = SessionCommand::DecideTool {
        ask: world.asking.1.next(),
        call: Box::new(rm()),
        arguments: None,
        shortened: false,
        whole: true,
        digest: None,
    };
    let by = ActorKind::Agent.into();
    let step = engine::decide(&world.state, world.now, Input::Command { by, command });
    assert_eq!(step.refusal, Some(Refusal::NoTurn));
}

#[test]
fn an_end_that_the_agents_own_hook_reports_is_recorded_once() {
    let script = Script::new().hook(HookPoint::PostTool, "lint", [passes()]);
    let mut world = works(script);
    let turn = world.turn.as_ref().expect("the agent works").0;
    let reports = |world: &mut World, tool: ToolCall| {
        let update = AgentUpdate::ToolUpdated(tool);
        world.input(Input::Agent { turn, update });
        world.settle();
    };
    let ends = |world: &mut World| {
        let ended = ToolCall {
            status: ToolStatus::Completed,
            output: Some("gone".into()),
            ..rm()
        };
        let (by, call) = (ActorKind::Agent.into(), Box::new(ended));
        let command = SessionCommand::ToolEnded { call };
        world.input(Input::Command { by, command });
        world.settle();
    };
    reports(&mut world, rm());
    ends(&mut world);
    ends(&mut world);
    let completed = ToolCall {
        status: ToolStatus::Completed,
        ..rm()
    };
    reports(&mut world, completed.clone());
    let recorded = world.events.iter().filter(|event| {
        matches!(event, Event::Turn(TurnEvent::ToolUpdated { tool, .. }) if tool.status == ToolStatus::Completed)
    });
    assert_eq!(recorded.count(), 1);
    // A change that only the agent reports adds to it.
    reports(
        &mut world,
        ToolCall {
            diff: Some("+x".into()),
            ..completed
        },
    );
    runs_all(&mut world);
    assert_eq!(hook_runs(&world), 1);
    assert!(world.state.turns.open_calls.is_empty());
    let last = world.state.turns.ended_call.as_ref().expect("a call");
    assert_eq!(
        (last.output.as_deref(), last.diff.as_deref()),
        (Some("gone"), Some("+x"))
    );
}

#[test]
fn a_hook_that_got_the_whole_of_a_long_call_decides_it() {
    let mut world = guarded([passes()], allow_all);
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let ask = permission_request(world.asking.1, edit("a.rs"), samples::usual_options());
    let ask = Box::new(AgentPermissionRequest {
        shortened: true,
        whole: true,
        ..ask
    });
    world.input(Input::PermissionAsked { turn, ask });
    world.settle();
    runs_all(&mut world);
    assert_eq!(last_answer(&world), Some(selected("once")));
}

/// The call of [`rm`], announced in another way.
fn other_than_rm() -> [ToolCall; 6] {
    let input = |input: serde_json::Value| Some(input.to_string());
    let read = ToolCall {
        name: Some("Read".into()),
        kind: Some(ToolKind::Read),
        input: input(serde_json::json!({})),
        ..rm()
    };
    [
        read,
        ToolCall {
            kind: Some(ToolKind::Read),
            ..rm()
        },
        ToolCall {
            name: Some("Read".into()),
            ..rm()
        },
        ToolCall {
            input: None,
            ..rm()
        },
        ToolCall {
            input: input(serde_json::json!({})),
            ..rm()
        },
        ToolCall {
            input: input(
                serde_json::json!({ "command": "rm -rf build", "run_in_background": true }),
            ),
            ..rm()
        },
    ]
}

#[test]
fn a_hook_runs_again_unless_it_saw_the_same_tool_with_the_same_whole_input() {
    for announced in other_than_rm() {
        let mut world = guarded([passes(), blocks("no rm")], allow_all);
        announces(&mut world, announced.clone());
        runs_all(&mut world);
        asks(&mut world, rm());
        runs_all(&mut world);
        assert_eq!(
            (last_answer(&world), hook_runs(&world)),
            (Some(selected("no")), 2),
            "{announced:?}"
        );
    }
    // A request without arguments says nothing that could be the same.
    let mut world = guarded([passes(), blocks("no")], allow_all);
    let silent = ToolCall {
        input: None,
        ..rm()
    };
    announces(&mut world, silent.clone());
    runs_all(&mut world);
    asks(&mut world, silent);
    runs_all(&mut world);
    assert_eq!(last_answer(&world), Some(selected("no")));
}

#[test]
fn what_the_user_allowed_is_only_the_call_that_was_shown() {
    for announced in other_than_rm() {
        let asks_first = [says(PermissionPolicy::Ask, "look"), passes()];
        let mut world = guarded(asks_first, |_| {});
        announces(&mut world, announced.clone());
        runs_all(&mut world);
        allows(&mut world);
        asks(&mut world, rm());
        runs_all(&mut world);
        assert!(asked_user(&world).is_some(), "{announced:?}");
    }
}

fn allows(world: &mut World) {
    let gate = world.state.gates.open.as_ref().expect("a gate").id;
    world.command(SessionCommand::AnswerGate(GateAnswer {
        gate,
        choice: GateChoice::AllowOnce,
        text: None,
        items: None,
    }));
    world.settle();
}

#[test]
fn a_hook_denies_a_call_that_the_user_allowed_when_another_hook_asked() {
    let late = |decision: Ran| {
        let script = Script::new()
            .hook(
                HookPoint::PreTool,
                "asker",
                [says(PermissionPolicy::Ask, "look")],
            )
            .hook(HookPoint::PreTool, "secrets", [decision]);
        let mut world = works(script.plan(allow_all));
        let (point, hook) = (Some(HookPoint::PreTool), "secrets".to_owned());
        world.command(SessionCommand::DisableHook {
            point,
            hook: hook.clone(),
        });
        announces(&mut world, rm());
        runs_all(&mut world);
        allows(&mut world);
        world.command(SessionCommand::EnableHook { point, hook });
        asks(&mut world, rm());
        runs_all(&mut world);
        world
    };
    let denied = late(blocks("a secret"));
    assert_eq!(last_answer(&denied), Some(selected("no")));
    let asked = late(says(PermissionPolicy::Ask, "look here, too"));
    assert!(asked_user(&asked).is_some());
    assert_eq!(last_answer(&late(passes())), Some(selected("once")));
}

#[test]
fn an_agent_without_creels_hook_cannot_announce_calls() {
    let script = Script::new().hook(HookPoint::PreTool, "guard", [passes()]);
    let world = until(World::begin(script), |world| world.turn.is_some());
    for command in [
        SessionCommand::DecideTool {
            ask: world.asking.1.next(),
            call: Box::new(rm()),
            arguments: None,
            shortened: false,
            whole: true,
            digest: None,
        },
        SessionCommand::ToolEnded {
            call: Box::new(rm()),
        },
    ] {
        let by = ActorKind::Agent.into();
        let step = engine::decide(&world.state, world.now, Input::Command { by, command });
        assert_eq!(step.refusal, Some(Refusal::NotTheAgent));
    }
}

/// The agent reports a call over its protocol.
fn reports(world: &mut World, tool: ToolCall) {
    let turn = world.turn.as_ref().expect("the agent works").0;
    let update = AgentUpdate::ToolUpdated(tool);
    world.input(Input::Agent { turn, update });
    world.settle();
}

/// The agent's own hook, or a process that pretends to be it, reports the end of a call.
fn hook_ends(world: &mut World, call: ToolCall) {
    let (by, call) = (ActorKind::Agent.into(), Box::new(call));
    let command = SessionCommand::ToolEnded { call };
    world.input(Input::Command { by, command });
    world.settle();
}

fn ended(status: ToolStatus, output: &str) -> ToolCall {
    ToolCall {
        status,
        output: Some(output.into()),
        ..rm()
    }
}

fn recorded_ends(world: &World) -> Vec<(ToolStatus, Option<&str>)> {
    let ends = world.events.iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::ToolUpdated { tool, .. }) if tool.status != ToolStatus::Pending => {
            Some((tool.status, tool.output.as_deref()))
        }
        _ => None,
    });
    ends.collect()
}

#[test]
fn what_the_agent_reports_about_a_call_beats_what_its_hook_reported() {
    let script = Script::new().hook(HookPoint::PostTool, "lint", [passes(), passes()]);
    let mut world = works(script);
    reports(&mut world, rm());
    hook_ends(
        &mut world,
        ended(ToolStatus::Completed, "all 40 tests passed"),
    );
    let failed = ended(ToolStatus::Failed, "exit 1");
    reports(&mut world, failed.clone());
    reports(&mut world, failed);
    runs_all(&mut world);
    assert_eq!(
        recorded_ends(&world),
        [
            (ToolStatus::Completed, Some("all 40 tests passed")),
            (ToolStatus::Failed, Some("exit 1"))
        ]
    );
    assert_eq!(hook_runs(&world), 2, "the hooks see how it really ended");
    // Without a reason of its own, the output of the hook's report is not its reason.
    let mut world = works(Script::new());
    reports(&mut world, rm());
    hook_ends(&mut world, ended(ToolStatus::Completed, "all fine"));
    let silent = ToolCall {
        status: ToolStatus::Failed,
        ..rm()
    };
    reports(&mut world, silent.clone());
    assert_eq!(
        recorded_ends(&world).last(),
        Some(&(ToolStatus::Failed, None))
    );
    // The other way round, the hook only adds an output.
    let mut world = works(Script::new());
    reports(&mut world, rm());
    reports(&mut world, silent);
    hook_ends(&mut world, ended(ToolStatus::Completed, "all fine"));
    assert_eq!(
        recorded_ends(&world).last(),
        Some(&(ToolStatus::Failed, Some("all fine")))
    );
}

#[test]
fn the_end_of_a_call_that_the_agent_never_began_is_not_recorded() {
    let script = Script::new().hook(HookPoint::PostTool, "lint", [passes()]);
    let mut world = works(script);
    hook_ends(&mut world, ended(ToolStatus::Completed, "released"));
    assert_eq!((recorded_ends(&world).len(), hook_runs(&world)), (0, 0));
}

#[test]
fn after_a_cancellation_no_call_is_let_through_and_no_hook_starts() {
    let mut world = guarded([passes(), passes(), passes()], allow_all);
    announces(&mut world, rm());
    announces(
        &mut world,
        ToolCall {
            call: "toolu_2".into(),
            ..rm()
        },
    );
    assert_eq!((world.jobs.len(), world.permitted.len()), (1, 0));
    world.command(SessionCommand::CancelTurn);
    world.settle();
    let cancelled = |world: &World| {
        let mut answers = world.permitted.iter().map(|(_, answer)| answer);
        answers.all(|answer| *answer == PermissionAnswer::Cancelled)
    };
    assert!(world.permitted.len() == 2 && cancelled(&world));
    announces(&mut world, rm());
    asks(&mut world, rm());
    runs_all(&mut world);
    assert!(
        world.permitted.len() == 4 && cancelled(&world),
        "{:?}",
        world.permitted
    );
    assert_eq!(hook_runs(&world), 1);
}

#[test]
fn a_call_that_waits_for_the_user_is_answered_when_the_turn_is_cancelled() {
    let mut world = guarded([says(PermissionPolicy::Ask, "look")], allow_all);
    announces(&mut world, rm());
    runs_all(&mut world);
    assert!(asked_user(&world).is_some());
    world.command(SessionCommand::CancelTurn);
    world.settle();
    assert_eq!(last_answer(&world), Some(PermissionAnswer::Cancelled));
    assert_eq!(asked_user(&world), None);
}

#[test]
fn a_call_whose_hook_was_killed_leaves_its_gate_and_the_next_one_is_asked_about() {
    let look = || says(PermissionPolicy::Ask, "look");
    let mut world = guarded([look(), look()], allow_all);
    announces(&mut world, rm());
    let first = world.asking.1;
    let second = ToolCall {
        call: "toolu_2".into(),
        ..rm()
    };
    announces(&mut world, second);
    runs_all(&mut world);
    let gate = world.state.gates.open.as_ref().expect("a gate").id;
    world.input(Input::ToolHookGone(first));
    world.settle();
    let next = world.state.gates.open.as_ref().expect("a gate");
    assert!(next.id != gate && next.subject.ask() == Some(world.asking.1));
    // While its hooks run, they end with it.
    let mut world = guarded([passes(), passes()], allow_all);
    announces(&mut world, rm());
    world.input(Input::ToolHookGone(world.asking.1));
    world.settle();
    runs_all(&mut world);
    assert!(asked_user(&world).is_none() && world.state.requests.waiting.is_empty());
    // It is answered, so nothing is left to withdraw.
    announces(&mut world, rm());
    runs_all(&mut world);
    let records = world.events.len();
    world.input(Input::ToolHookGone(world.asking.1));
    assert_eq!(world.events.len(), records);
}

/// A hook that stops the session while the agent works: the turn ends, the agent does not read
/// why, and you are asked once, whenever creel is killed.
#[test]
fn a_hook_of_a_call_can_stop_the_session() {
    let stops = HookReply {
        stops: true,
        reason: Some("enough for today".into()),
        decision: Some(HookDecision::Block),
        ..HookReply::default()
    };
    let stops = Ran {
        reply: Some(stops),
        ..passes()
    };
    for (point, of_claude) in [
        (HookPoint::PreTool, false),
        (HookPoint::PreTool, true),
        (HookPoint::PostTool, false),
        (HookPoint::PostTool, true),
    ] {
        let event = match point {
            HookPoint::PreTool => ClaudeToolEvent::PreToolUse,
            _ => ClaudeToolEvent::PostToolUse,
        };
        let script = Script::new().hook_with(point, "guard", [stops.clone(), passes()], |spec| {
            let handler = ClaudeHandler::new(ClaudeEvent::Tool(event));
            spec.claude = of_claude.then(|| Box::new(handler));
        });
        let script = script
            .agent([Answer::Says("Working."), DONE])
            .attended(&[(GateKind::Escalation, GateChoice::Continue)]);
        let mut world = until(World::begin(script.clone()), |world| world.turn.is_some());
        asks(&mut world, edit("a.rs"));
        if point == HookPoint::PostTool {
            world.command(SessionCommand::AnswerGate(GateAnswer {
                gate: world.state.gates.open.as_ref().expect("a gate").id,
                choice: GateChoice::AllowOnce,
                text: None,
                items: None,
            }));
            let turn = world.turn.as_ref().expect("a turn").0;
            let tool = ToolCall {
                status: ToolStatus::Completed,
                ..edit("a.rs")
            };
            let update = AgentUpdate::ToolUpdated(tool);
            world.input(Input::Agent { turn, update });
            world.permitted.clear();
        }
        world.finish_hook(0);
        assert!(world.turn_cancelled, "{point}: {}", world.story());
        if point == HookPoint::PreTool {
            let answers: Vec<_> = world.permitted.iter().map(|(_, answer)| answer).collect();
            assert_eq!(answers, [&PermissionAnswer::Cancelled]);
        }
        let stopped = world.events.len();
        world.finish_turn();
        let gate = world.state.gates.open.clone().expect("a gate");
        assert_eq!(
            gate.reason,
            format!("the hook `guard` at {point} stopped the session: enough for today")
        );
        let gates = |world: &World| {
            let is_it = |event: &&Event| matches!(event, Event::Gate(GateEvent::Opened { about, .. }) if *about == GateKind::Escalation);
            world.events.iter().filter(is_it).count()
        };
        for kept in stopped..=world.events.len() {
            let killed = World::from_events(script.clone(), &world.events[..kept]).resume();
            assert_eq!(gates(&killed), 1, "{point} {kept}: {}", killed.story());
            assert!(
                !killed.story().contains("enough for today\""),
                "{}",
                killed.story()
            );
            assert!(killed.state.phase.outcome().is_some());
        }
        let unattended = Script {
            presence: UserPresence::Unattended,
            ..script
        };
        let left = World::from_events(unattended, &world.events[..stopped]).resume();
        assert_eq!(left.state.phase.outcome(), Some(SessionOutcome::Escalated));
        let world = world.run();
        assert_eq!(gates(&world), 1, "{}", world.story());
        let told = |event: &Event| matches!(event, Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.text.contains("enough"));
        assert!(!world.events.iter().any(told), "{}", world.story());
    }
}
