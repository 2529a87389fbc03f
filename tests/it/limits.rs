//! Usage limits: the session waits for the reset, or another agent takes over; nothing is counted,
//! and nothing is lost.

use serde_json::{Value, json};

use crate::support::{
    peer::Peer,
    project::{Project, Ran, Started, until},
};

const DONE: &str = "<promise>COMPLETE</promise>";
const SOON: &str = "You've hit your session limit. Try again in 1s.";
const LATER: &str = "You've hit your usage limit. Try again in 2 hours.";

/// Agents with these turns; the first is the session's own.
fn project(rest: &str, agents: &[(&str, Value)]) -> Project {
    let entries = agents
        .iter()
        .map(|(name, _)| format!("{name}: {{ script: {name}.yaml }}"));
    let entries = entries.collect::<Vec<_>>().join(", ");
    let own = agents[0].0;
    let config = format!(
        "prompt: GOAL\ninstructions: none\nagent: {own}\nagents: {{ {entries} }}\nmax_iterations: 3\nmax_consecutive_errors: 1\n{rest}\n"
    );
    agents
        .iter()
        .fold(Project::with(&config), |project, (name, turns)| {
            project.file(
                &format!("{name}.yaml"),
                &json!({ "turns": turns }).to_string(),
            )
        })
}

fn with_errors(most: u32, project: Project) -> Project {
    let config = project.read("creel.yaml");
    project.write(
        "creel.yaml",
        &config.replace("errors: 1", &format!("errors: {most}")),
    );
    project
}

#[track_caller]
fn completes(project: &Project) -> Ran {
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (0, Some("complete")),
        "{}{}",
        ran.out,
        ran.err
    );
    ran
}

fn actions(project: &Project) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    project
        .kind("limit_reached")
        .iter()
        .map(|reached| (text(&reached["agent"]), text(&reached["action"])))
        .collect()
}

fn switches(project: &Project) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    project
        .kind("agent_switched")
        .iter()
        .map(|switch| (text(&switch["from"]), text(&switch["to"])))
        .collect()
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn the_session_waits_for_the_reset_and_sends_the_same_turn_again() {
    let turns = json!([{ "fail": SOON }, { "fail": SOON }, { "say": DONE }]);
    let project = project("", &[("a", turns)]);
    let ran = completes(&project);
    assert!(
        ran.out
            .contains("`a` reached its usage limit. The session resumes at "),
        "{}",
        ran.out
    );
    assert_eq!(project.prompts(), vec![pair("iteration", "GOAL"); 3]);
    assert_eq!(actions(&project), vec![pair("a", "wait"); 2]);
    assert_eq!(project.kind("iteration_started").len(), 1);
    let sent = project.kind("prompt_sent");
    for (reached, sent) in project.kind("limit_reached").iter().zip(&sent[1..]) {
        assert!(
            sent["at"].as_str() >= reached["resets_at"].as_str(),
            "{reached} {sent}"
        );
    }
}

#[test]
fn the_items_of_the_turn_are_sent_with_it_again() {
    let rest =
        "hooks: { session_start: [{ name: facts, command: 'echo facts', pipe_output: true }] }";
    let project = project(rest, &[("a", json!([{ "fail": SOON }, { "say": DONE }]))]);
    completes(&project);
    let texts: Vec<String> = project
        .prompts()
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert!(
        texts[0].contains("facts") && texts[0] == texts[1],
        "{texts:?}"
    );
    assert_eq!(project.kind("delivered").len(), 1);
}

#[test]
fn a_fallback_agent_gets_the_turn_at_once_and_a_summary_of_the_work() {
    let own = json!([{ "say": "I wrote a.txt.", "run": "echo 1 > a.txt" }, { "fail": LATER }]);
    let other = json!([{ "say": DONE }]);
    let project = project("limits: { fallback: [b] }", &[("a", own), ("b", other)]);
    let ran = completes(&project);
    assert!(ran.out.contains("Switched from `a` to `b`"), "{}", ran.out);
    assert_eq!(
        (actions(&project), switches(&project)),
        (vec![pair("a", "switch")], vec![pair("a", "b")])
    );
    let told = &project.prompts()[2].1;
    for part in [
        "[Handover: you continue the work of another agent, `a`.]",
        "I wrote a.txt.",
        "a.txt",
        "GOAL",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert_eq!(project.kind("prompt_sent")[2]["conversation"], "new");
    assert_eq!(
        project.kind("iteration_started").len(),
        2,
        "the turn is sent again in its iteration"
    );
}

#[test]
fn the_sessions_own_agent_works_again_in_the_next_iteration_after_its_reset() {
    let own = json!([{ "fail": SOON }, { "say": DONE }]);
    let other = json!([{ "say": "half", "run": "sleep 1.2" }]);
    let project = project("limits: { fallback: [b] }", &[("a", own), ("b", other)]);
    completes(&project);
    assert_eq!(switches(&project), [pair("a", "b"), pair("b", "a")]);
    assert_eq!(project.kind("iteration_started").len(), 2);
}

#[test]
fn agents_on_the_command_line_are_fallbacks_in_that_order() {
    let agents = [
        ("a", json!([{ "fail": LATER }])),
        ("b", json!([{ "fail": LATER }])),
        ("c", json!([{ "say": DONE }])),
    ];
    let project = project("", &agents);
    let ran = project.creel(&[
        "run",
        "--headless",
        "--trust",
        "-s",
        "s",
        "--agent",
        "a,b,c",
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(switches(&project), [pair("a", "b"), pair("b", "c")]);
    let ran = project.creel(&[
        "run",
        "--headless",
        "--trust",
        "-s",
        "t",
        "--agent",
        "a,missing-agent",
    ]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("missing-agent"), "{}", ran.err);
}

#[test]
fn when_all_agents_are_limited_the_first_reset_counts() {
    let own = json!([{ "fail": LATER }]);
    let other = json!([{ "fail": SOON }, { "say": DONE }]);
    let project = project("limits: { fallback: [b] }", &[("a", own), ("b", other)]);
    completes(&project);
    assert_eq!(actions(&project), [pair("a", "switch"), pair("b", "wait")]);
    assert_eq!(switches(&project), [pair("a", "b")]);
}

#[test]
fn each_agent_gets_one_handover_and_the_note_once() {
    let agents = [
        (
            "a",
            json!([{ "say": "one", "run": "echo 1 > x" }, { "fail": SOON }, { "say": DONE }]),
        ),
        ("b", json!([{ "fail": SOON }, { "fail": SOON }])),
    ];
    let project = project("context: keep\nlimits: { fallback: [b] }", &agents);
    let config = project
        .read("creel.yaml")
        .replace("instructions: none", "instructions: Report the end.");
    project.write("creel.yaml", &config);
    completes(&project);
    let prompts: Vec<String> = project
        .prompts()
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert!(
        prompts
            .iter()
            .all(|text| text.matches("[Handover").count() <= 1),
        "{prompts:#?}"
    );
    let taken_over: Vec<&String> = prompts
        .iter()
        .filter(|text| text.contains("[Handover"))
        .collect();
    assert!(
        taken_over.len() >= 2
            && taken_over
                .iter()
                .all(|text| text.matches("Report the end.").count() == 1)
    );
}

#[test]
fn a_fallback_agent_that_cannot_continue_a_conversation_gets_prompts_that_stand_on_their_own() {
    let config = "\
prompt: GOAL
instructions: Report the end.
agent: a
agents: { a: { script: a.yaml }, b: { command: 'sh b.sh' } }
limits: { fallback: [b] }
hooks: { stop: [{ name: tests, command: 'test -e two || exit 2' }] }
";
    let turns = json!([{ "say": "I wrote a.txt.", "run": "echo 1 > a.txt" }, { "fail": LATER }]);
    let project = Project::with(config).file("a.yaml", &json!({ "turns": turns }).to_string()).file(
        "b.sh",
        "if test -e one; then touch two; else touch one; fi; echo 'I go on.'; echo '<promise>COMPLETE</promise>'",
    );
    completes(&project);
    let sent = project.kind("prompt_sent");
    let facts: Vec<_> = sent
        .iter()
        .map(|sent| [&sent["reason"], &sent["conversation"]])
        .collect();
    assert_eq!(
        facts,
        [
            ["iteration", "new"],
            ["feedback", "same"],
            ["feedback", "new"],
            ["feedback", "new"]
        ]
    );
    let texts: Vec<String> = project
        .prompts()
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert!(
        !texts[1].contains("GOAL"),
        "`a` continues its conversation: {}",
        texts[1]
    );
    assert!(
        texts[2].starts_with("[Handover: ")
            && texts[2].contains("What `a` said last:\nI wrote a.txt."),
        "{}",
        texts[2]
    );
    assert!(
        texts[3].starts_with("[Hook feedback]: check `tests` failed"),
        "{}",
        texts[3]
    );
    assert!(
        texts[3].contains("- You said at the end: I go on."),
        "{}",
        texts[3]
    );
    for text in &texts[2..] {
        assert_eq!(
            (
                text.matches("GOAL").count(),
                text.matches("Report the end.").count()
            ),
            (1, 1),
            "{text}"
        );
        assert!(text.ends_with("\n\nReport the end."), "{text}");
    }
}

#[test]
fn once_the_limit_has_reset_an_unattended_session_continues() {
    let turns = json!([{ "fail": SOON }, { "say": DONE }]);
    let project = project("limits: { on_usage_limit: ask }", &[("a", turns)]);
    assert_eq!(project.run().code, 4);
    let until_reset = project.kind("limit_reached")[0]["until"].clone();
    until("the reset", || {
        Some(creel::runtime::now().rfc3339().as_str()) >= until_reset.as_str()
    });
    let ran = project.creel(&["resume", "s"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn with_fail_a_limit_is_an_error_like_any_other_and_on_record() {
    let project = project(
        "limits: { on_usage_limit: fail }",
        &[("a", json!([{ "fail": SOON }]))],
    );
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (1, Some("failed")),
        "{}{}",
        ran.out,
        ran.err
    );
    assert_eq!(actions(&project), [pair("a", "fail")]);
    let agents = [
        ("a", json!([{ "fail": SOON }])),
        ("b", json!([{ "say": DONE }])),
    ];
    completes(&self::project(
        "limits: { on_usage_limit: fail, fallback: [b] }",
        &agents,
    ));
}

const SHORT: &str = "outage: { base: 0.02, max: 0.1, total: 0.4 }";

#[test]
fn a_server_that_is_down_for_a_while_costs_nothing() {
    let down = [
        "529 Overloaded",
        "503 Service Unavailable",
        "connect ECONNREFUSED 127.0.0.1:443",
        "connection reset",
    ];
    let turns: Vec<Value> = down
        .iter()
        .map(|said| json!({ "fail": said }))
        .chain([json!({ "say": DONE })])
        .collect();
    let project = project(&format!("limits: {{ {SHORT} }}"), &[("a", json!(turns))]);
    let ran = completes(&project);
    assert!(
        ran.out
            .contains("`a` does not reach its server. The session resumes at "),
        "{}",
        ran.out
    );
    assert_eq!(project.prompts(), vec![pair("iteration", "GOAL"); 5]);
    assert_eq!(project.kind("iteration_started").len(), 1);
    let waits = project.kind("outage_reported");
    assert!(
        waits.iter().all(|wait| wait["action"] == "wait") && waits.len() == 4,
        "{waits:?}"
    );
    assert!(actions(&project).is_empty());
}

#[test]
fn a_server_that_stays_away_fails_the_turn_and_the_session_ends() {
    let turns: Vec<Value> = (0..60)
        .map(|_| json!({ "fail": "502 Bad Gateway" }))
        .collect();
    let project = project(&format!("limits: {{ {SHORT} }}"), &[("a", json!(turns))]);
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (1, Some("failed")),
        "{}{}",
        ran.out,
        ran.err
    );
    let tries = project.kind("turn_failed").len();
    assert!((5..30).contains(&tries), "{tries}");
}

#[test]
fn a_fallback_agent_takes_over_from_a_server_that_stays_away() {
    let turns: Vec<Value> = (0..60)
        .map(|_| json!({ "fail": "529 Overloaded" }))
        .collect();
    let agents = [("a", json!(turns)), ("b", json!([{ "say": DONE }]))];
    let project = project(
        "limits: { outage: { base: 0.01, max: 0.02 }, fallback: [b] }",
        &agents,
    );
    completes(&project);
    assert_eq!(switches(&project), [pair("a", "b")]);
    assert_eq!(project.kind("outage_reported").len(), 6);
}

#[test]
fn an_agent_without_credit_hands_over_or_asks() {
    let broke = json!([{ "fail": "Credit balance is too low" }, { "say": DONE }]);
    let alone = project("", &[("a", broke.clone())]);
    let ran = alone.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let gate = &alone.kind("gate_opened")[0];
    assert_eq!(
        (&gate["about"], &gate["choices"]),
        (&json!("usage_limit"), &json!(["retry", "abort"]))
    );
    assert!(
        gate["reason"]
            .as_str()
            .is_some_and(|why| why.contains("no credit")),
        "{gate}"
    );
    let paid = alone.creel(&["resume", "s", "--headless", "--answer", "retry"]);
    assert_eq!(paid.code, 0, "{}{}", paid.out, paid.err);
    let project = project(
        "limits: { fallback: [b] }",
        &[("a", broke), ("b", json!([{ "say": DONE }]))],
    );
    completes(&project);
    assert_eq!(switches(&project), [pair("a", "b")]);
    assert_eq!(project.kind("limit_reached")[0]["cause"], "no_credit");
}

#[test]
fn the_sum_of_waits_is_bounded_and_used_up_before_anyone_is_asked() {
    let turns: Vec<Value> = (0..60)
        .map(|_| json!({ "fail": "Rate limit reached. Try again in 0.2s." }))
        .collect();
    let project = project("limits: { max_wait: 1.5 }", &[("a", json!(turns))]);
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let acts: Vec<String> = actions(&project)
        .into_iter()
        .map(|(_, action)| action)
        .collect();
    assert_eq!(acts, ["wait", "wait", "wait", "ask"]);
    let ms = |record: &Value, key: &str| {
        record[key]
            .as_str()
            .and_then(|at| at.parse::<jiff::Timestamp>().ok())
    };
    let waits = project.kind("limit_reached");
    let waits = waits
        .iter()
        .take(3)
        .filter_map(|one| Some(ms(one, "until")?.duration_since(ms(one, "at")?)));
    let sum: i128 = waits.map(|wait| wait.as_millis()).sum();
    assert!((1_490..=1_510).contains(&sum), "{sum}");
}

#[test]
fn a_silent_agent_is_shown_and_the_fallback_takes_the_next_turn() {
    let agents = [
        ("a", json!([{ "hang": true }])),
        ("b", json!([{ "say": DONE }])),
    ];
    let rest = "turn_timeout: 3\nlimits: { silence: 0.5, fallback: [b] }";
    let project = with_errors(2, project(rest, &agents));
    let session = project.start();
    until("it is silent", || !project.kind("agent_noted").is_empty());
    assert_eq!(project.kind("agent_noted")[0]["what"], "silence");
    let told = project.creel(&["status"]).out;
    assert!(told.contains("silent for more than 500 ms"), "{told}");
    assert_eq!(session.end().code, 0);
    assert_eq!(switches(&project), [pair("a", "b")]);
    assert_eq!(project.kind("agent_noted").len(), 1);
}

#[test]
fn failed_recovery_turns_count_as_failed_turns() {
    let turns: Vec<Value> = (0..9).map(|_| json!({ "fail": "broken" })).collect();
    let rest = "hooks: { on_error: [{ command: 'echo look at this', pipe_output: true }] }";
    let project = with_errors(3, project(rest, &[("a", json!(turns))]));
    let ran = project.run();
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert_eq!(project.kind("turn_failed").len(), 3);
}

#[test]
fn a_session_that_is_resumed_into_a_wait_says_so() {
    let own = json!([{ "fail": "Usage limit reached. Try again in 3s." }, { "say": DONE }]);
    let project = project("", &[("a", own)]);
    let session = project.start();
    until("it waits", || !project.kind("limit_reached").is_empty());
    session.kill();
    let ran = project.creel(&["resume", "s", "--headless"]);
    assert!(
        ran.code == 0 && ran.err.contains("creel: Usage limit: resumes at "),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_wait_that_is_too_long_needs_the_user() {
    for rest in [
        "limits: { max_wait: 1h }",
        "limits: { on_usage_limit: ask }",
    ] {
        let project = project(rest, &[("a", json!([{ "fail": LATER }]))]);
        let ran = project.run();
        assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
        let gate = &project.kind("gate_opened")[0];
        assert_eq!(
            (&gate["about"], &gate["choices"]),
            (&json!("usage_limit"), &json!(["wait", "retry", "abort"]))
        );
        let reason = gate["reason"].as_str().expect("a reason");
        assert!(
            reason.starts_with("`a` reached its usage limit, and it resets in "),
            "{reason}"
        );
    }
}

#[test]
fn the_user_can_try_again_or_switch_at_the_gate() {
    for (choice, agent) in [("retry", "a"), ("switch", "b")] {
        let turns = json!([{ "fail": "Weekly limit reached. Resets in 20h." }, { "say": DONE }]);
        let agents = [
            ("a", turns),
            (
                "b",
                json!([{ "fail": "Usage limit reached. Resets in 30h." }, { "say": DONE }]),
            ),
        ];
        let project = project("limits: { fallback: [b] }", &agents);
        assert_eq!(
            project
                .creel(&["run", "--detach", "--trust", "-s", "s"])
                .code,
            0
        );
        until("the gate is open", || {
            !project.kind("gate_opened").is_empty()
        });
        assert_eq!(
            project.kind("gate_opened")[0]["choices"],
            json!(["wait", "retry", "switch", "abort"])
        );
        // `b` works now: before, both were limited.
        let answered = project.creel(&["gate", "answer", "1", choice]);
        assert_eq!(answered.code, 0, "{}", answered.err);
        until("it is over", || project.outcome().is_some());
        assert_eq!(project.outcome().as_deref(), Some("complete"));
        let last = switches(&project).last().cloned();
        let back = if agent == "a" {
            pair("a", "b")
        } else {
            pair("b", "a")
        };
        assert_eq!(last, Some(back), "{choice}");
    }
}

#[test]
fn a_waiting_session_says_until_when_and_a_command_makes_it_retry_now() {
    let own = json!([{ "fail": LATER }, { "say": DONE }]);
    let project = project("", &[("a", own)]);
    let session = project.start();
    until("it waits", || !project.kind("limit_reached").is_empty());
    let status = project.tells(&["status", "--json"]);
    assert_eq!(status["usage_limit"]["agent"], "a");
    assert_eq!(
        status["usage_limit"]["until"],
        project.kind("limit_reached")[0]["until"]
    );
    let told = project.creel(&["status"]).out;
    assert!(
        told.contains("waits for the usage limit of `a` to reset")
            && told.contains("resumes    at "),
        "{told}"
    );
    let listed = project.creel(&["sessions"]).out;
    assert!(listed.contains("Usage limit resets "), "{listed}");
    let refused = Peer::of(&project).ask(r#"{"v":1,"do":"switch_agent"}"#);
    assert!(
        refused["error"]
            .as_str()
            .is_some_and(|why| why.contains("no other agent")),
        "{refused}"
    );
    assert_eq!(
        Peer::of(&project).ask(r#"{"v":1,"do":"retry_now"}"#)["ok"],
        true
    );
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_session_that_should_stop_does_not_wait_for_the_reset() {
    let project = project("", &[("a", json!([{ "fail": LATER }, { "say": DONE }]))]);
    let session = project.start();
    until("it waits", || !project.kind("limit_reached").is_empty());
    assert_eq!(project.creel(&["stop"]).code, 0);
    session.end();
    assert_eq!(project.kind("prompt_sent").len(), 1);
    assert!(project.outcome().is_some());
}

#[test]
fn kill_and_resume_keep_the_time() {
    let own = json!([{ "fail": "Usage limit reached. Try again in 3s." }, { "say": DONE }]);
    let project = project("", &[("a", own)]);
    let session = project.start();
    until("it waits", || !project.kind("limit_reached").is_empty());
    session.kill();
    let ran = project.creel(&["resume", "s"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let (reached, sent) = (
        &project.kind("limit_reached")[0],
        &project.kind("prompt_sent")[1],
    );
    assert!(
        sent["at"].as_str() >= reached["until"].as_str(),
        "{reached} {sent}"
    );
    assert_eq!(project.kind("limit_reached").len(), 1);
}

#[test]
fn a_session_that_was_paused_while_it_waited_is_still_paused_after_a_kill() {
    let project = project(
        "",
        &[(
            "a",
            json!([{ "fail": "Usage limit reached. Try again in 60s." }]),
        )],
    );
    let mut session = project.start();
    session.wait_for("limit_reached");
    assert_eq!(project.creel(&["pause"]).code, 0);
    session.kill();
    let mut resumed = Started::of(project.command(&["resume", "--json", "--attended", "s"]));
    assert_eq!(resumed.wait_for("session_resumed")["paused"], true);
    assert_eq!(project.creel(&["stop", "--now"]).code, 0);
    assert_eq!(resumed.end().code, 130);
}

#[test]
fn a_session_that_was_paused_in_a_turn_and_killed_is_still_paused() {
    // It is paused during the turn: the limit resets too soon for a command.
    let turns = json!([{ "run": "until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done", "fail": SOON }, { "say": DONE }]);
    let project = project("", &[("a", turns)]);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    assert_eq!(project.creel(&["pause"]).code, 0);
    project.write("go", "");
    session.wait_for("limit_reached");
    session.kill();
    let mut resumed = Started::of(project.command(&["resume", "--json", "--attended", "s"]));
    assert_eq!(resumed.wait_for("session_resumed")["paused"], true);
    let reset = project.kind("limit_reached")[0]["until"]
        .as_str()
        .and_then(|until| until.parse().ok());
    let reset: jiff::Timestamp = reset.expect("a time");
    until("the limit has reset", || jiff::Timestamp::now() > reset);
    until("the session answers", || {
        project.creel(&["pause"]).err.contains("already paused")
    });
    assert_eq!(
        project.kind("prompt_sent").len(),
        1,
        "nothing is sent while it is paused"
    );
    assert_eq!(project.creel(&["unpause"]).code, 0);
    assert_eq!(resumed.end().code, 0);
    assert_eq!(project.kind("prompt_sent").len(), 2);
}

#[test]
fn a_fallback_agent_continues_its_work_after_a_kill() {
    let own = json!([{ "fail": LATER }]);
    let other = json!([{ "say": "half", "run": "touch half; until [ -e go ]; do sleep 0.02; done" }, { "say": DONE }]);
    let project = project("limits: { fallback: [b] }", &[("a", own), ("b", other)]);
    let session = project.start();
    until("b works", || project.root().join("half").exists());
    session.kill();
    project.write("go", "");
    let ran = project.creel(&["resume", "s"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(switches(&project), [pair("a", "b")]);
}

#[test]
fn a_limit_that_no_agent_explains_is_waited_out_longer_each_time_and_then_the_user_is_asked() {
    let turns: Vec<Value> = (0..60)
        .map(|_| json!({ "fail": "429 Too Many Requests" }))
        .collect();
    let project = project(
        "retry: { backoff: exponential, base: 0.01, factor: 1.1, max: 0.1 }\nlimits: { max_wait: 0.3 }",
        &[("a", json!(turns))],
    );
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert_eq!(project.kind("gate_opened")[0]["about"], "usage_limit");
    assert!(project.kind("limit_reached").len() > 5);
}

#[test]
fn a_fallback_agent_that_does_not_work_is_replaced() {
    let agents = [
        ("a", json!([{ "fail": SOON }, { "say": DONE }])),
        ("b", json!([{ "fail": "Not logged in" }])),
    ];
    let project = project("limits: { fallback: [b] }", &agents);
    let ran = completes(&project);
    assert!(ran.out.contains("`b` failed: Not logged in"), "{}", ran.out);
    assert_eq!(switches(&project), [pair("a", "b"), pair("b", "a")]);
}

#[test]
fn with_fail_nothing_waits_for_the_reset() {
    let project = project(
        "limits: { on_usage_limit: fail }",
        &[("a", json!([{ "fail": LATER }, { "fail": LATER }]))],
    );
    let project = with_errors(2, project);
    let ran = project.run();
    assert_eq!(
        (ran.code, project.kind("backoff_started").len()),
        (1, 0),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn turns_that_change_files_and_then_miss_a_server_are_not_repeated_for_ever() {
    let turn = json!({ "run": "echo more >> work.txt", "fail": "psql: connection refused" });
    let turns: Vec<Value> = (0..40).map(|_| turn.clone()).collect();
    let project = project(
        "limits: { outage: { base: 0.01, max: 0.02 } }",
        &[("a", json!(turns))],
    );
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (1, Some("failed")),
        "{}{}",
        ran.out,
        ran.err
    );
    assert_eq!(project.read("work.txt").lines().count(), 4);
}

#[test]
fn an_agent_that_ends_its_turn_with_an_error_was_not_silent() {
    let config = "prompt: GOAL\nagent: a\nmax_consecutive_errors: 2\nagents: { a: { command: sh a.sh }, b: { command: echo b } }\n\
                  limits: { silence: 0.1, fallback: [b] }\nmax_iterations: 1\n";
    let project = Project::with(config).file(
        "a.sh",
        "cat >/dev/null; sleep 0.5; echo 'patch did not apply' >&2; exit 1",
    );
    project.run();
    assert!(switches(&project).is_empty(), "{:?}", switches(&project));
}

/// Two agents that share a list of stories. Each call either does the next story or reaches a
/// limit.
const NIGHT: &str = r#"
cat > /dev/null
calls=$(($(cat ../$1.calls 2>/dev/null || echo 0) + 1)); echo $calls > ../$1.calls
case "$1 $calls" in
    "a 3") echo "You've hit your session limit. Resets in 2s." >&2; exit 1;;
    "b 1") echo "You've hit your usage limit. Try again in 3s." >&2; exit 1;;
    "a 7") echo "You've hit your weekly limit. Resets in 3 days." >&2; exit 1;;
    "b 4") echo "429 Too Many Requests. Please try again in 5s." >&2; exit 1;;
esac
story=$(($(wc -l < stories.txt) + 1))
echo "story $story" >> stories.txt
git add -A; git -c user.name=n -c user.email=e commit -qm "story $story"
echo "Story $story is done."
[ $story -lt 12 ] || echo "<promise>COMPLETE</promise>"
"#;

#[test]
fn a_night_in_fast_motion() {
    let config = "prompt: Do the stories.\nagent: a\nmax_iterations: 12\nmax_consecutive_errors: 1\n\
                  agents: { a: { command: sh night.sh a }, b: { command: sh night.sh b } }\n\
                  limits: { fallback: [b], max_wait: 1h }\nhooks: { stop: [{ command: 'git diff --quiet' }] }\n";
    let project = Project::with(config)
        .file("night.sh", NIGHT)
        .file("stories.txt", "")
        .file(".gitignore", ".creel\n");
    let git = std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(project.root())
        .status();
    assert!(git.expect("git").success());
    let session = project.start();
    until("the rate limit", || {
        project.kind("limit_reached").len() == 4
    });
    session.kill();
    let ran = project.creel(&["resume", "s"]);
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (0, Some("complete")),
        "{}{}",
        ran.out,
        ran.err
    );
    let stories: Vec<String> = (1..=12).map(|n| format!("story {n}")).collect();
    assert_eq!(
        project.read("stories.txt").lines().collect::<Vec<_>>(),
        stories
    );
    assert_eq!(
        project.kind("iteration_started").len(),
        12,
        "limits use up no iteration"
    );
    let limited: Vec<String> = actions(&project)
        .into_iter()
        .map(|(agent, _)| agent)
        .collect();
    assert_eq!(limited, ["a", "b", "a", "b"]);
    assert_eq!(
        switches(&project),
        [pair("a", "b"), pair("b", "a"), pair("a", "b")]
    );
}

/// One call of an agent at night: trouble, or the next story.
const WORSE_NIGHT: &str = r#"
cat > /dev/null
calls=$(($(cat ../$1.calls 2>/dev/null || echo 0) + 1)); echo $calls > ../$1.calls
case "$1 $calls" in
    "a 2") echo "API Error: 529 Overloaded" >&2; exit 1;;
    "a 3") echo "connect ECONNREFUSED 127.0.0.1:443" >&2; exit 1;;
    "a 5" | "a 6") exec sleep 100;;
    "b 2") echo "insufficient_quota: check your billing details" >&2; exit 1;;
    "c 1") exec sleep 100;;
    "c 3") echo "You've hit your usage limit. Try again in 2s." >&2; exit 1;;
esac
story=$(($(wc -l < stories.txt) + 1))
echo "story $story" >> stories.txt
echo "Story $story is done."
[ $story -lt 6 ] || echo "<promise>COMPLETE</promise>"
"#;

#[test]
fn a_night_with_outages_limits_a_silent_agent_and_no_credit_killed_in_each() {
    let config = "prompt: Do the stories.\nagent: a\nmax_iterations: 8\nmax_consecutive_errors: 2\nturn_timeout: 4\n\
                  agents: { a: { command: sh night.sh a }, b: { command: sh night.sh b }, c: { command: sh night.sh c } }\n\
                  limits: { fallback: [b, c], outage: { base: 1 }, silence: 0.5 }\nchecks: ['test -f stories.txt']\n";
    let project = Project::with(config)
        .file("night.sh", WORSE_NIGHT)
        .file("stories.txt", "");
    let calls =
        |agent: &str| std::fs::read_to_string(project.root().join(format!("../{agent}.calls")));
    let count = |kind: &str| project.kind(kind).len();
    let mut session = project.start();
    let again = |session: Started| {
        session.kill();
        Started::of(project.command(&["resume", "s", "--headless"]))
    };
    until("the server is down", || count("outage_reported") == 1);
    session = again(session);
    until("the agent is silent", || count("agent_noted") == 1);
    session = again(session);
    until("no credit, and the third agent works", || {
        calls("c").is_ok()
    });
    session = again(session);
    until("a limit", || count("limit_reached") == 2);
    session = again(session);
    let ran = session.end();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (0, Some("complete")),
        "{}{}",
        ran.out,
        ran.err
    );
    let stories: Vec<String> = (1..=6).map(|n| format!("story {n}")).collect();
    assert_eq!(
        project.read("stories.txt").lines().collect::<Vec<_>>(),
        stories
    );
    // Each call beyond the stories is one that was refused, silent or killed: none was paid for
    // twice.
    let calls = ["a", "b", "c"].map(|agent| calls(agent).expect("calls").trim().to_owned());
    assert_eq!(calls, ["6", "2", "5"]);
    assert_eq!(switches(&project), [pair("a", "b"), pair("b", "c")]);
}
