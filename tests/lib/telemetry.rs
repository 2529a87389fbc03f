//! Sessions as traces and metrics: stories of earlier journals, and what holds for random sessions.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use proptest::prelude::*;

use crate::{
    engine::invariants::{a_script, happen, run_out, what_happens},
    support::{
        journals::fixtures,
        screen::records,
        world::{DONE, Script, World, passes, random_cases},
    },
};
use creel::{
    engine::{
        conversation::{TokenKinds, TurnUsage},
        event::{Event, SessionEvent, TurnEvent},
        hooks::point::HookPoint,
        policy::HookAction,
    },
    journal::Record,
    otel::{
        context_of,
        metrics::SessionMetrics,
        otlp,
        spans::{SessionTrace, TraceSpan},
    },
    process::trace_context::{SpanId, TracedWork},
};

/// All spans of a journal in the order in which they end, and its metrics.
fn spans(records: &[Record]) -> (Vec<TraceSpan>, Vec<SessionMetrics>) {
    let first = records.first().expect("a record");
    let Event::Session(SessionEvent::Started(began)) = &first.event else {
        panic!("a journal begins with its session");
    };
    let context = context_of(&began.id, began.trace.as_deref());
    let mut trace = SessionTrace::new(context, &first.session, began, first.at);
    let spans: Vec<TraceSpan> = records.iter().flat_map(|it| trace.see(it)).collect();
    let mut sums = SessionMetrics::since(first.at);
    let metrics = spans.iter().filter_map(|span| sums.see(span)).collect();
    (spans, metrics)
}

fn journal(name: &str) -> Vec<Record> {
    let (_, path) = fixtures()
        .into_iter()
        .find(|(known, _)| known == name)
        .expect("it is there");
    let text = std::fs::read_to_string(path).expect("a journal");
    let records = text
        .lines()
        .map(|line| Record::from_line(line).expect("a record"));
    records.collect()
}

/// One line per span: below its parent, in the order in which they began.
fn tree(spans: &[TraceSpan]) -> String {
    fn lines(all: &[TraceSpan], parent: Option<SpanId>, depth: usize, text: &mut String) {
        let known = |id: SpanId| all.iter().any(|span| span.id == id);
        let mut below: Vec<&TraceSpan> = all
            .iter()
            .filter(|span| span.parent.filter(|id| known(*id)) == parent)
            .collect();
        below.sort_by_key(|span| span.start);
        for span in below {
            let attributes: Vec<String> = span
                .attributes
                .iter()
                .map(|(name, value)| {
                    let value = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    format!("{name}={value}")
                })
                .collect();
            let error = span.error.as_ref().map(|why| format!(" ✗ {why}"));
            *text += &format!(
                "{}{}{} · {}\n",
                "  ".repeat(depth),
                span.name,
                error.unwrap_or_default(),
                attributes.join(" ")
            );
            lines(all, Some(span.id), depth + 1, text);
        }
    }
    let mut text = String::new();
    lines(spans, None, 0, &mut text);
    text
}

#[test]
fn a_session_that_was_killed_and_resumed_is_one_trace() {
    expect![[r#"
        creel session s ✗ limit · creel.session.name=s creel.session.id=1a1e388c3a7-224 creel.project=project gen_ai.agent.name=own creel.outcome=limit creel.iterations=2
          hook facts · creel.hook.name=facts creel.hook.point=session_start creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
          iteration 1 · creel.iteration=1 creel.outcome=done
            turn 1 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=1 creel.turn.reason=iteration creel.turn.stop_reason=end_turn
            check tests ✗ block · creel.hook.name=tests creel.hook.point=stop creel.hook.attempt=0 creel.hook.verdict=block process.exit.code=2
            turn 2 ✗ cut · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=2 creel.turn.reason=feedback
              execute_tool execute ✗ failed · gen_ai.operation.name=execute_tool gen_ai.tool.name=execute gen_ai.tool.call.id=turn-2/1 creel.tool.kind=execute
            turn 3 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=3 creel.turn.reason=feedback creel.turn.stop_reason=end_turn
              execute_tool execute · gen_ai.operation.name=execute_tool gen_ai.tool.name=execute gen_ai.tool.call.id=turn-3/1 creel.tool.kind=execute
            check tests ✗ block · creel.hook.name=tests creel.hook.point=stop creel.hook.attempt=1 creel.hook.verdict=block process.exit.code=2
            turn 4 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=4 creel.turn.reason=feedback creel.turn.stop_reason=end_turn
              execute_tool execute · gen_ai.operation.name=execute_tool gen_ai.tool.name=execute gen_ai.tool.call.id=turn-4/1 creel.tool.kind=execute
            check tests · creel.hook.name=tests creel.hook.point=stop creel.hook.attempt=2 creel.hook.verdict=pass process.exit.code=0
            hook lint · creel.hook.name=lint creel.hook.point=post_iteration creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
          iteration 2 · creel.iteration=2 creel.outcome=done
            turn 5 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=5 creel.turn.reason=iteration creel.turn.stop_reason=end_turn
            check tests · creel.hook.name=tests creel.hook.point=stop creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
            hook lint · creel.hook.name=lint creel.hook.point=post_iteration creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
          gate final_delivery · creel.gate.kind=final_delivery creel.gate.choice=approve creel.gate.by=policy
          turn 6 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=6 creel.turn.reason=final_delivery creel.turn.stop_reason=end_turn
          creel session s · creel.session.name=s creel.session.id=1a1e388c3a7-224 creel.project=project gen_ai.agent.name=own creel.outcome=complete creel.iterations=3
            iteration 3 · creel.iteration=3 creel.outcome=done
              turn 7 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=7 creel.turn.reason=iteration creel.turn.stop_reason=end_turn
              check tests · creel.hook.name=tests creel.hook.point=stop creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
              hook lint · creel.hook.name=lint creel.hook.point=post_iteration creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
            gate final_delivery · creel.gate.kind=final_delivery creel.gate.choice=approve creel.gate.by=policy
            turn 8 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=8 creel.turn.reason=final_delivery creel.turn.stop_reason=end_turn
    "#]].assert_eq(&tree(&spans(&journal("resumed")).0));
}

#[test]
fn submits_reviews_and_permissions_have_spans() {
    expect![[r#"
        creel session s · creel.session.name=s creel.session.id=1a1e3890834-419 creel.project=project gen_ai.agent.name=own creel.outcome=complete creel.iterations=1
          iteration 1 · creel.iteration=1 creel.outcome=done
            turn 1 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=1 creel.turn.reason=iteration creel.turn.stop_reason=end_turn
              execute_tool execute · gen_ai.operation.name=execute_tool gen_ai.tool.name=execute gen_ai.tool.call.id=turn-1/1 creel.tool.kind=execute
          hook rebase_on_main · creel.hook.name=rebase_on_main creel.hook.point=before_submit creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
          hook run_tests ✗ block · creel.hook.name=run_tests creel.hook.point=before_submit creel.hook.attempt=0 creel.hook.verdict=block process.exit.code=1
          turn 2 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=2 creel.turn.reason=remediation creel.turn.stop_reason=end_turn
            execute_tool execute · gen_ai.operation.name=execute_tool gen_ai.tool.name=execute gen_ai.tool.call.id=turn-2/1 creel.tool.kind=execute
          hook rebase_on_main · creel.hook.name=rebase_on_main creel.hook.point=before_submit creel.hook.attempt=1 creel.hook.verdict=pass process.exit.code=0
          hook run_tests · creel.hook.name=run_tests creel.hook.point=before_submit creel.hook.attempt=1 creel.hook.verdict=pass process.exit.code=0
          hook gatekeeper: critic ✗ block · creel.hook.name=gatekeeper: critic creel.hook.point=before_submit creel.hook.attempt=1 creel.hook.verdict=block process.exit.code=1
          turn 3 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=critic creel.turn=3 creel.turn.reason=gatekeeper creel.turn.stop_reason=end_turn
          turn 4 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=4 creel.turn.reason=remediation creel.turn.stop_reason=end_turn
            execute_tool execute · gen_ai.operation.name=execute_tool gen_ai.tool.name=execute gen_ai.tool.call.id=turn-4/1 creel.tool.kind=execute
          hook rebase_on_main · creel.hook.name=rebase_on_main creel.hook.point=before_submit creel.hook.attempt=2 creel.hook.verdict=pass process.exit.code=0
          hook run_tests · creel.hook.name=run_tests creel.hook.point=before_submit creel.hook.attempt=2 creel.hook.verdict=pass process.exit.code=0
          hook gatekeeper: critic ✗ block · creel.hook.name=gatekeeper: critic creel.hook.point=before_submit creel.hook.attempt=2 creel.hook.verdict=block process.exit.code=1
          turn 5 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=critic creel.turn=5 creel.turn.reason=gatekeeper creel.turn.stop_reason=end_turn
          gate submit · creel.gate.kind=submit creel.gate.choice=send creel.gate.by=cli
          turn 6 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=6 creel.turn.reason=message creel.turn.stop_reason=end_turn
          hook rebase_on_main · creel.hook.name=rebase_on_main creel.hook.point=before_submit creel.hook.attempt=2 creel.hook.verdict=pass process.exit.code=0
          hook run_tests · creel.hook.name=run_tests creel.hook.point=before_submit creel.hook.attempt=2 creel.hook.verdict=pass process.exit.code=0
          hook gatekeeper: critic · creel.hook.name=gatekeeper: critic creel.hook.point=before_submit creel.hook.attempt=2 creel.hook.verdict=pass process.exit.code=0
          turn 7 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=critic creel.turn=7 creel.turn.reason=gatekeeper creel.turn.stop_reason=end_turn
          hook create_pr · creel.hook.name=create_pr creel.hook.point=before_submit creel.hook.attempt=2 creel.hook.verdict=pass process.exit.code=0
          hook note · creel.hook.name=note creel.hook.point=after_submit creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
          gate final_delivery · creel.gate.kind=final_delivery creel.gate.choice=approve creel.gate.by=cli
          turn 8 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=8 creel.turn.reason=final_delivery creel.turn.stop_reason=end_turn
    "#]].assert_eq(&tree(&spans(&journal("submit")).0));
    expect![[r#"
        creel session s · creel.session.name=s creel.session.id=1a1e3889ca8-7f25 creel.project=project gen_ai.agent.name=own creel.outcome=complete creel.iterations=2
          iteration 1 · creel.iteration=1 creel.outcome=done
            turn 1 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=1 creel.turn.reason=iteration gen_ai.conversation.id=session-1 creel.turn.stop_reason=end_turn
              gate permission · creel.gate.kind=permission creel.gate.choice=allow_once creel.gate.by=policy
              gate permission · creel.gate.kind=permission creel.gate.choice=reject_once creel.gate.by=policy
              gate permission · creel.gate.kind=permission creel.gate.choice=allow_always creel.gate.by=cli
              gate permission · creel.gate.kind=permission creel.gate.choice=allow_once creel.gate.by=policy
              gate permission · creel.gate.kind=permission creel.gate.choice=reject_once creel.gate.by=cli
              gate permission · creel.gate.kind=permission creel.gate.choice=allow_once creel.gate.by=cli
              execute_tool edit · gen_ai.operation.name=execute_tool gen_ai.tool.name=edit gen_ai.tool.call.id=file-1 creel.tool.kind=edit
          iteration 2 · creel.iteration=2 creel.outcome=done
            turn 2 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=own creel.turn=2 creel.turn.reason=iteration gen_ai.conversation.id=session-2 creel.turn.stop_reason=end_turn
              gate permission · creel.gate.kind=permission creel.gate.choice=allow_once creel.gate.by=cli
              execute_tool execute · gen_ai.operation.name=execute_tool gen_ai.tool.name=execute gen_ai.tool.call.id=terminal-1 creel.tool.kind=execute
    "#]].assert_eq(&tree(&spans(&journal("permissions")).0));
}

#[test]
fn spans_and_metrics_are_written_as_otlp_has_them() {
    let records = journal("forced");
    let (spans, metrics) = spans(&records);
    let context = context_of("id", None);
    let last = spans.last().expect("a session");
    expect![[r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"creel"}},{"key":"service.version","value":{"stringValue":"0.2.0"}}]},"scopeSpans":[{"scope":{"name":"creel","version":"0.2.0"},"spans":[{"traceId":"736d6451e5c6c65d8eb8e1d14f9f1230","spanId":"644628423e7541dc","name":"creel session s","kind":1,"startTimeUnixNano":"1794818732310000000","endTimeUnixNano":"1794818732350000000","attributes":[{"key":"creel.session.name","value":{"stringValue":"s"}},{"key":"creel.session.id","value":{"stringValue":"1a1e3887113-7bf2"}},{"key":"creel.project","value":{"stringValue":"project"}},{"key":"gen_ai.agent.name","value":{"stringValue":"own"}},{"key":"creel.outcome","value":{"stringValue":"forced"}},{"key":"creel.iterations","value":{"intValue":"1"}}],"status":{"code":2,"message":"forced"}}]}]}]}"#]]
    .assert_eq(&otlp::traces(&context, std::slice::from_ref(last)).to_string());
    let sums: Vec<String> = metrics
        .iter()
        .flat_map(|metrics| {
            let counts = metrics.counts.iter().flat_map(|(kind, all)| {
                all.iter()
                    .map(move |(key, n)| format!("{} {key:?} {n}", kind.name))
            });
            let times = metrics.durations.iter().flat_map(|(kind, all)| {
                all.iter().map(move |(key, times)| {
                    format!("{} {key:?} {} in {}", kind.name, times.count, times.sum)
                })
            });
            counts.chain(times).collect::<Vec<_>>()
        })
        .collect();
    expect![[r#"
        creel.hook.runs [("creel.hook.point", "session_end"), ("creel.hook.name", "bye"), ("creel.hook.verdict", "fail")] 1
        creel.hook.runs [("creel.hook.point", "stop"), ("creel.hook.name", "tests"), ("creel.hook.verdict", "block")] 3
        creel.iterations [("creel.outcome", "forced")] 1
        creel.sessions [("creel.project", "project"), ("gen_ai.agent.name", "own"), ("creel.outcome", "forced")] 1
        creel.turns [("gen_ai.agent.name", "own")] 4
        creel.turns.cost_unknown [("gen_ai.agent.name", "own")] 4
        creel.hook.duration [("creel.hook.point", "session_end"), ("creel.hook.name", "bye"), ("creel.hook.verdict", "fail")] 1 in 0.004
        creel.hook.duration [("creel.hook.point", "stop"), ("creel.hook.name", "tests"), ("creel.hook.verdict", "block")] 3 in 0.018000000000000002
        creel.turn.duration [("gen_ai.agent.name", "own")] 4 in 0.002"#]].assert_eq(&sums.join("\n"));
    let mut few = metrics[0].clone();
    few.counts = few.counts.into_iter().take(1).collect();
    few.durations = few.durations.into_iter().take(1).collect();
    expect![[r#"{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"creel"}},{"key":"service.version","value":{"stringValue":"0.2.0"}}]},"scopeMetrics":[{"scope":{"name":"creel","version":"0.2.0"},"metrics":[{"name":"creel.hook.runs","unit":"{run}","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{"attributes":[{"key":"creel.hook.point","value":{"stringValue":"session_end"}},{"key":"creel.hook.name","value":{"stringValue":"bye"}},{"key":"creel.hook.verdict","value":{"stringValue":"fail"}}],"startTimeUnixNano":"1794818732310000000","timeUnixNano":"1794818732350000000","asInt":"1"},{"attributes":[{"key":"creel.hook.point","value":{"stringValue":"stop"}},{"key":"creel.hook.name","value":{"stringValue":"tests"}},{"key":"creel.hook.verdict","value":{"stringValue":"block"}}],"startTimeUnixNano":"1794818732310000000","timeUnixNano":"1794818732350000000","asInt":"3"}]}},{"name":"creel.hook.duration","unit":"s","histogram":{"aggregationTemporality":1,"dataPoints":[{"attributes":[{"key":"creel.hook.point","value":{"stringValue":"session_end"}},{"key":"creel.hook.name","value":{"stringValue":"bye"}},{"key":"creel.hook.verdict","value":{"stringValue":"fail"}}],"startTimeUnixNano":"1794818732310000000","timeUnixNano":"1794818732350000000","count":"1","sum":0.004,"bucketCounts":["1","0","0","0","0","0","0","0","0","0","0"],"explicitBounds":[0.1,0.5,1.0,5.0,10.0,30.0,60.0,300.0,600.0,1800.0]},{"attributes":[{"key":"creel.hook.point","value":{"stringValue":"stop"}},{"key":"creel.hook.name","value":{"stringValue":"tests"}},{"key":"creel.hook.verdict","value":{"stringValue":"block"}}],"startTimeUnixNano":"1794818732310000000","timeUnixNano":"1794818732350000000","count":"3","sum":0.018000000000000002,"bucketCounts":["3","0","0","0","0","0","0","0","0","0","0"],"explicitBounds":[0.1,0.5,1.0,5.0,10.0,30.0,60.0,300.0,600.0,1800.0]}]}}]}]}]}"#]]
    .assert_eq(&otlp::metrics(&few).to_string());
}

#[test]
fn tokens_follow_the_convention_and_a_command_is_no_name() {
    let command = "API_KEY=geheim ./check --fast";
    let script = Script::new()
        .hook_with(HookPoint::Stop, command, [passes()], |spec| {
            spec.action = HookAction::Command(command.into());
        })
        .hook_with(
            HookPoint::PostIteration,
            "bin/lint --all",
            [passes()],
            |spec| {
                spec.action = HookAction::Exec(vec!["bin/lint".into(), "--all".into()]);
            },
        )
        .agent([DONE]);
    let mut records = records(&World::begin(script).run());
    for record in &mut records {
        if let Event::Turn(TurnEvent::Ended { spent, .. }) = &mut record.event {
            *spent = TurnUsage {
                tokens: Some(100),
                token_kinds: Some(TokenKinds {
                    input: 10,
                    output: 20,
                    cache_read: 65,
                    cache_write: 5,
                }),
                cost: None,
                cost_estimated: Some(0.25),
            };
        }
    }
    let (spans, _) = spans(&records);
    expect![[r#"
        creel session story · creel.session.name=story creel.session.id=id creel.project=project gen_ai.agent.name=demo creel.outcome=complete creel.iterations=1
          iteration 1 · creel.iteration=1 creel.outcome=done
            turn 1 · gen_ai.operation.name=invoke_agent gen_ai.agent.name=demo creel.turn=1 creel.turn.reason=iteration creel.turn.stop_reason=end_turn creel.usage.tokens=100 gen_ai.usage.input_tokens=80 gen_ai.usage.output_tokens=20 gen_ai.usage.cache_read.input_tokens=65 gen_ai.usage.cache_creation.input_tokens=5 creel.usage.cost_estimated=0.25
            check command · creel.hook.name=command creel.hook.point=stop creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
            hook lint · creel.hook.name=lint creel.hook.point=post_iteration creel.hook.attempt=0 creel.hook.verdict=pass process.exit.code=0
    "#]].assert_eq(&tree(&spans));
    assert!(
        !otlp::traces(&context_of("id", None), &spans)
            .to_string()
            .contains("geheim")
    );
}

proptest! {
    #![proptest_config(random_cases(200))]
    #[test]
    fn every_span_has_its_own_id_a_known_parent_and_no_text_of_the_agent(
        script in a_script(),
        happenings in what_happens(),
    ) {
        let mut world = World::begin(script);
        world.settle();
        for what in happenings {
            world = happen(world, what);
        }
        world = run_out(world);
        let records = records(&world);
        let (spans, metrics) = spans(&records);
        let ids: BTreeSet<SpanId> = spans.iter().map(|span| span.id).collect();
        prop_assert_eq!(ids.len(), spans.len());
        for span in &spans {
            prop_assert!(span.start <= span.end);
            let is_first = span.work == TracedWork::Session(0);
            prop_assert_eq!(span.parent.is_none(), is_first);
            prop_assert!(span.parent.is_none_or(|parent| ids.contains(&parent)), "{}", tree(&spans));
        }
        let turns: BTreeMap<u64, usize> = records.iter().fold(BTreeMap::new(), |mut all, record| {
            if let Event::Turn(TurnEvent::PromptSent(sent)) = &record.event {
                *all.entry(sent.turn.0).or_default() += 1;
            }
            all
        });
        let traced = spans.iter().filter(|span| matches!(span.work, TracedWork::Turn(_))).count();
        prop_assert_eq!(turns.values().sum::<usize>(), traced);
        let ends = records
            .iter()
            .filter(|record| matches!(record.event, Event::Session(SessionEvent::Ended { .. })))
            .count();
        prop_assert_eq!((metrics.len(), ends > 0), (ends, true));
        let text = spans.iter().map(|span| format!("{:?}", span.attributes)).collect::<String>();
        prop_assert!(!text.contains("promise") && !text.contains("GOAL"), "{}", text);
    }
}
