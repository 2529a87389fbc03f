//! The actor behind a command, and what the session's own agent and hooks may not do.

use serde_json::{Value, json};

use crate::support::{
    acp_agent,
    project::{Project, until},
};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

/// A session whose agent runs this in its turn and promises completion, while its test never
/// passes.
fn judged(run: &str, more: &str) -> Project {
    let config = format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nmax_iterations: 1\nmax_hook_retries: 0\n\
         hooks: {{ stop: [{{ name: tests, command: 'exit 2' }}] }}\n{more}\n"
    );
    let turns = json!({ "turns": [{ "run": run, "say": "<promise>COMPLETE</promise>" }] });
    Project::with(&config)
        .file("scenario.yaml", &turns.to_string())
        .file("tasks.md", "- [ ] Translate it\n")
}

/// Runs creel in the shell of an agent or a hook, and writes its exit code and output to `code` and
/// `told`.
fn try_it(arguments: &str) -> String {
    format!("'{CREEL}' {arguments} >told 2>&1; echo $? >code")
}

fn refusal(project: &Project) -> String {
    assert_eq!(project.read("code"), "1\n", "{}", project.read("told"));
    project.read("told")
}

#[test]
fn an_agent_cannot_switch_off_the_test_that_judges_it() {
    let project = judged(&try_it("hooks disable tests"), "");
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (5, Some("forced")),
        "{}{}",
        ran.out,
        ran.err
    );
    let told = refusal(&project);
    assert!(
        told.contains("the agent may not run, cancel, enable or disable hooks"),
        "{told}"
    );
    assert!(told.contains("agent_may: [hooks]"), "{told}");
    assert!(project.kind("hook_disabled").is_empty());
}

#[test]
fn an_agent_is_recognised_without_its_environment_and_in_its_own_unix_session() {
    let project = judged(
        &format!(
            "env -i HOME=\"$HOME\" setsid sh -c {}",
            quoted(&try_it("pause -s s"))
        ),
        "",
    );
    project.run();
    assert!(refusal(&project).contains("the agent may not pause the session"));
    assert!(project.kind("paused").is_empty());
}

#[test]
fn an_agent_cannot_trust_the_config_that_it_changed() {
    let change = "sed -i 's/exit 2/touch pwned/' creel.yaml";
    let project = judged(&format!("{change}; {}", try_it("trust")), "");
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(refusal(&project).contains("cannot decide what creel trusts"));
    assert_eq!(
        project.creel(&["run", "--headless", "-s", "t"]).code,
        2,
        "the user is asked about the change"
    );
    assert!(!project.root().join("pwned").exists());
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn an_agent_that_joins_the_process_group_of_creel_is_still_the_agent() {
    if std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: no shell can join another process group, and python3 is not installed");
        return;
    }
    let join =
        "import os,subprocess,time\ntime.sleep(0.3)\nos.setpgid(0, os.getpgid(os.getppid()))\n";
    let call =
        format!("r = subprocess.run(['{CREEL}', 'pause', '-s', 's'], capture_output=True)\n");
    let keep =
        "open('told','wb').write(r.stderr)\nopen('code','w').write(str(r.returncode)+'\\n')\n";
    let run = "( env -i HOME=\"$HOME\" PATH=\"$PATH\" python3 join.py & ); until [ -e code ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
    let project = judged(run, "").file("join.py", &format!("{join}{call}{keep}"));
    project.run();
    assert!(refusal(&project).contains("the agent may not pause the session"));
}

/// The ways in which an agent can start a program, with and without traces of its own session.
const DISGUISES: [&str; 4] = [
    "",
    "env -u CREEL_MARK",
    "env -i HOME=\"$HOME\" PATH=\"$PATH\"",
    "env -i setsid",
];

#[test]
fn the_agent_of_another_session_is_no_person() {
    let waits = "until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
    let watched = judged(waits, "");
    let mut session = watched.start();
    session.wait_for("prompt_sent");
    for disguise in DISGUISES {
        let there = watched.root().display().to_string();
        let call = format!(
            "cd {}; {disguise} '{CREEL}' hooks disable tests -s s",
            quoted(&there)
        );
        let other = judged(&format!("({call}) >told 2>&1; echo $? >code"), "");
        other.run();
        assert!(
            refusal(&other).contains("the agent of another session may not"),
            "{disguise}"
        );
    }
    // An orphan has creel as its parent, and no mark.
    let there = quoted(&watched.root().display().to_string());
    let orphan = format!(
        "(cd {there}; sleep 0.3; '{CREEL}' hooks disable tests >$D/told 2>&1; echo $? >$D/code) &"
    );
    let start = format!(
        "env -i HOME=\"$HOME\" PATH=\"$PATH\" D=\"$PWD\" sh -c {}",
        quoted(&orphan)
    );
    let other = judged(
        &format!("{start}; until [ -e code ] || [ ! -e creel.yaml ]; do sleep 0.02; done"),
        "",
    );
    other.run();
    assert!(refusal(&other).contains("the agent of another session may not"));
    watched.write("go", "");
    session.end();
    assert!(
        watched.kind("hook_disabled").is_empty(),
        "{:?}",
        watched.kind("hook_disabled")
    );
}

/// What an agent gets for a verb.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    /// It may, in its own session and in others.
    May,
    /// Only in its own session.
    Own(&'static str),
    /// Nowhere.
    Never(&'static str),
}
use Verdict::{May, Never, Own};

/// Every verb, with arguments. `creel` itself has no name.
const VERBS: [(&str, &str, Verdict); 73] = [
    ("", "", May),
    ("run", "--headless --trust -s new", Never("start sessions")),
    ("demo", "--fast --headless", May),
    ("init", "", Never("write the config")),
    ("check", "", May),
    ("config example", "", May),
    ("config path", "", May),
    ("agents", "", May),
    ("resume", "s", Never("start sessions")),
    ("attach", "s", May),
    ("sessions", "", May),
    ("show", "s", May),
    ("report", "s", May),
    ("diff", "s", May),
    ("search", "hello", May),
    ("stats", "", May),
    ("verify", "s", May),
    ("prune", "--keep 0 --yes", Never("delete sessions")),
    ("replay", "s", May),
    ("status", "-s s", May),
    ("pause", "-s s", Never("pause the session")),
    ("unpause", "-s s", Never("unpause the session")),
    ("cancel", "-s s", Never("cancel a turn")),
    ("stop", "-s s", Never("stop the session")),
    ("stop", "-s s --now", Never("stop the session")),
    ("message", "hello -s s", Own("queue messages")),
    ("pending list", "-s s", May),
    ("pending show", "1 -s s", May),
    ("pending skip", "1 -s s", Never("change pending items")),
    ("pending restore", "1 -s s", Never("change pending items")),
    ("pending edit", "1 -s s x", Never("change pending items")),
    ("gate list", "-s s", May),
    ("gate answer", "1 allow_once -s s", Never("answer gates")),
    ("hooks list", "-s s", May),
    ("hooks run", "tests -s s", Never("hooks")),
    ("hooks enable", "tests -s s", Never("hooks")),
    ("hooks disable", "tests -s s", Never("hooks")),
    ("hooks stats", "-s s", May),
    ("checkpoint list", "-s s", May),
    ("checkpoint show", "1 -s s", May),
    ("task add", "Publish --id t -s s", Own("change tasks")),
    ("task list", "-s s", May),
    ("task show", "t -s s", May),
    ("task start", "t -s s", Own("change tasks")),
    ("task update", "t --goal Print -s s", Own("change tasks")),
    ("task depend", "t u -s s", Own("change tasks")),
    ("task block", "t why -s s", Own("change tasks")),
    ("task done", "t -s s", Own("change tasks")),
    ("task remove", "t -s s", Own("change tasks")),
    ("task list", "--queue", May),
    ("task show", "--queue q", May),
    ("task start", "--queue q", Never("change tasks")),
    ("task done", "--queue q", Never("change tasks")),
    ("task block", "--queue q why", Never("change tasks")),
    ("task remove", "--queue q", Never("change tasks")),
    ("import", "tasks.md -s s", Own("change tasks")),
    ("export", "-s s", May),
    ("doctor", "", May),
    ("worker", "--drain", Never("start a worker")),
    ("plan", "goal --yes", Never("start sessions")),
    ("worktree list", "", May),
    ("worktree open", "w", May),
    ("worktree remove", "w", Never("remove worktrees")),
    ("worktree prune", "", Never("remove worktrees")),
    ("mcp", "-s s", May),
    ("submit", "s", Never("submit the work")),
    ("watch", "1", Never("submit the work")),
    ("merge", "s", Never("merge the work")),
    ("merge", "--queue", Never("merge the work")),
    ("trust", "", Never("cannot decide what creel trusts")),
    ("untrust", "", Never("cannot decide what creel trusts")),
    ("hook", "PreToolUse", May),
    ("schema", "", May),
];

/// Verbs that print text which depends on nothing.
const TEXTS: [&str; 3] = ["completions", "man", "help"];

#[test]
fn the_table_of_verbs_has_every_verb() {
    fn verbs(command: &clap::Command, above: &str) -> Vec<String> {
        let mut found = Vec::new();
        for verb in command.get_subcommands() {
            let name = format!("{above}{}", verb.get_name());
            let below = verbs(verb, &format!("{name} "));
            found.extend(if below.is_empty() { vec![name] } else { below });
        }
        found
    }
    let all = verbs(&<creel::cli::Cli as clap::CommandFactory>::command(), "");
    let missing: Vec<&String> = all
        .iter()
        .filter(|verb| {
            !TEXTS.contains(&verb.as_str()) && !VERBS.iter().any(|(name, ..)| name == verb)
        })
        .collect();
    assert!(
        missing.is_empty(),
        "say in VERBS whether agents may use these: {missing:?}"
    );
}

/// Runs every verb in a folder, from the shell of an agent, and writes what each said to `told.N`.
fn all_verbs(folder: &str, disguise: &str) -> String {
    let each = VERBS.iter().enumerate().map(|(i, (verb, arguments, _))| {
        format!(
            "(cd {folder}; {disguise} '{CREEL}' {verb} {arguments}) </dev/null >told.{i} 2>&1; "
        )
    });
    each.collect()
}

/// The verbs whose answer is not the one that the table says.
fn wrong_verdicts(caller: &Project, is_own: bool) -> Vec<String> {
    let wrong = VERBS
        .iter()
        .enumerate()
        .filter_map(|(i, (verb, arguments, verdict))| {
            let told = caller.read(&format!("told.{i}"));
            let refused =
                told.contains("may not") || told.contains("cannot decide what creel trusts");
            let right = match verdict {
                Own(what) if !is_own => {
                    told.contains("the agent of another session may not") && told.contains(what)
                }
                May | Own(_) => !refused,
                Never(what) => refused && told.contains(what),
            };
            (!right).then(|| format!("creel {verb} {arguments}: {told}"))
        });
    wrong.collect()
}

#[test]
fn every_verb_of_an_agent_of_a_hook_and_of_another_session_gets_its_verdict() {
    let waits = "until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
    let watched = judged(waits, "");
    watched.creel(&["task", "add", "--queue", "--id", "q", "Queued"]);
    let mut session = watched.start();
    session.wait_for("prompt_sent");
    let there = quoted(&watched.root().display().to_string());
    for disguise in [
        "",
        "env -i HOME=\"$HOME\" PATH=\"$PATH\" XDG_STATE_HOME=\"$XDG_STATE_HOME\"",
    ] {
        let other = judged(&all_verbs(&there, disguise), "");
        other.creel(&["run", "--headless", "--trust", "-s", "other"]);
        assert_eq!(
            wrong_verdicts(&other, false),
            [""; 0],
            "another session, {disguise}"
        );
    }
    watched.write("go", "");
    session.end();
    let before = |records: Vec<Value>| {
        records
            .iter()
            .filter(|record| record["by"] == "agent")
            .count()
    };
    assert_eq!(
        before(watched.records()),
        0,
        "another session's agent changed it"
    );

    let own = judged(&all_verbs(".", ""), "");
    own.creel(&["task", "add", "--queue", "--id", "q", "Queued"]);
    own.run();
    assert_eq!(wrong_verdicts(&own, true), [""; 0], "its own session");

    let hook = json!(all_verbs(".", "env -u CREEL_MARK"));
    let hooks =
        format!("hooks: {{ post_iteration: [{{ name: tests, command: {hook}, timeout: 60s }}] }}");
    let config = format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nmax_iterations: 1\n{hooks}\n"
    );
    let own = Project::with(&config)
        .file("scenario.yaml", "turns: [{ say: working }]\n")
        .file("tasks.md", "- [ ] Translate it\n");
    own.creel(&["task", "add", "--queue", "--id", "q", "Queued"]);
    own.run();
    assert_eq!(wrong_verdicts(&own, true), [""; 0], "a hook");
}

#[test]
fn an_agent_may_start_what_the_config_of_its_session_allows() {
    let inner = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n";
    for (may, code) in [("[gate]", "1\n"), ("[run]", "0\n"), ("[worker]", "0\n")] {
        let call =
            format!("(cd inner; '{CREEL}' run --headless -s inner) >told 2>&1; echo $? >code");
        let outer = judged(&call, &format!("agent_may: {may}"))
            .file("inner/creel.yaml", inner)
            .file(
                "inner/scenario.yaml",
                "turns: [{ say: '<promise>COMPLETE</promise>' }]\n",
            );
        assert_eq!(
            outer.creel(&["trust", "--config", "inner/creel.yaml"]).code,
            0
        );
        outer.run();
        assert_eq!(outer.read("code"), code, "{may}: {}", outer.read("told"));
    }
}

#[test]
fn an_agent_trusts_nothing_whatever_the_project_and_its_environment() {
    let other = judged("true", "");
    for disguise in DISGUISES {
        for verb in ["trust", "untrust"] {
            let there = other.root().display().to_string();
            let call = format!("cd {}; {disguise} '{CREEL}' {verb}", quoted(&there));
            let project = judged(&format!("({call}) >told 2>&1; echo $? >code"), "");
            project.run();
            assert!(
                refusal(&project).contains("cannot decide what creel trusts"),
                "{disguise} {verb}"
            );
        }
    }
}

#[test]
fn a_hook_may_not_act_as_the_user_either() {
    let hooks = format!(
        "hooks: {{ post_iteration: [{{ name: sly, command: {} }}] }}",
        json!(try_it("stop --now"))
    );
    let config = format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nmax_iterations: 1\n{hooks}\n"
    );
    let project = Project::with(&config).file("scenario.yaml", "turns: [{ say: working }]\n");
    project.run();
    assert!(refusal(&project).contains("a hook may not stop the session"));
    assert!(project.kind("stop_requested").is_empty());
}

#[test]
fn the_config_can_allow_a_command_to_agents() {
    let project = judged(&try_it("hooks disable tests"), "agent_may: [hooks]");
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (5, Some("unverified")),
        "{}{}",
        ran.out,
        ran.err
    );
    let [disabled] = &project.kind("hook_disabled")[..] else {
        panic!("one hook was switched off")
    };
    assert_eq!(
        (&disabled["by"], disabled.get("user")),
        (&json!("agent"), None)
    );
}

#[test]
fn an_agent_may_queue_one_message_per_turn_and_work_on_tasks() {
    let run = format!(
        "'{CREEL}' message first && '{CREEL}' task add Publish --id publish && '{CREEL}' task done publish && {}",
        try_it("message second")
    );
    let project = judged(&run, "");
    project.run();
    assert!(refusal(&project).contains("the agent may not queue more than one message per turn"));
    let by = |kind: &str| {
        project
            .kind(kind)
            .iter()
            .map(|record| record["by"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(by("message_queued"), ["agent"]);
    assert_eq!(
        (by("task_created"), by("task_completed")),
        (vec![json!("agent")], vec![json!("agent")])
    );
}

#[test]
fn an_agent_cannot_answer_its_own_permission_request() {
    let answer = try_it("gate answer 1 allow_once -s s");
    let script = json!({"turns": [[
        {"spawn": format!("until '{CREEL}' gate list -s s --json | grep -q permission; do sleep 0.05; done; {answer}; touch tried")},
        {"ask": {"tool": {"toolCallId": "x", "title": "rm -rf /", "kind": "execute"}}},
        {"say": "{outcome}"},
    ]]});
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\n",
        acp_agent().display()
    );
    let project = Project::with(&config).file("script.json", &script.to_string());
    let ran = project.creel(&["run", "--detach", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    until("the agent tried", || project.root().join("tried").exists());
    assert!(refusal(&project).contains("the agent may not answer gates"));
    assert!(project.kind("gate_answered").is_empty());
    assert_eq!(
        project
            .creel(&["gate", "answer", "1", "reject_once", "-s", "s"])
            .code,
        0
    );
    let [answered] = &project.kind("gate_answered")[..] else {
        panic!("one answer")
    };
    assert_eq!(answered["by"], "cli");
    assert!(person(answered), "{answered}");
    project.creel(&["stop", "--now", "-s", "s"]);
    until("it is over", || project.outcome().is_some());
}

#[test]
fn a_users_command_is_recorded_and_shown_with_user_and_host() {
    let project =
        Project::with("prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\ngates: { delivery: ask }\n").file(
            "scenario.yaml",
            "turns: [{ run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done', say: ok }]\n",
        );
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let said = project
        .command(&["message", "look at the tests", "-s", "s"])
        .env("USER", "ada")
        .output()
        .expect("it ran");
    assert!(said.status.success());
    let [queued] = &project.kind("message_queued")[..] else {
        panic!("one message")
    };
    assert!(queued["by"] == "cli" && person(queued), "{queued}");
    project.creel(&["stop", "--now", "-s", "s"]);
    session.end();
}

/// Whether a record names the user and the machine of the command.
fn person(record: &Value) -> bool {
    [&record["user"], &record["host"]]
        .iter()
        .all(|name| name.as_str().is_some_and(|name| !name.is_empty()))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn show_and_sessions_say_who_paused_wrote_and_switched_hooks() {
    let run = format!("'{CREEL}' message look && '{CREEL}' hooks disable tests && '{CREEL}' pause");
    let waits = "until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
    let project = judged(&format!("{run}; {waits}"), "agent_may: [hooks, pause]");
    let mut session = project.start();
    session.wait_for("paused");
    let shown = project.creel(&["show", "s"]).out;
    for line in [
        "› message: look · by the agent",
        "disabled for this session · by the agent",
        "Paused · by the agent",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    project.creel(&["unpause", "-s", "s"]);
    project.creel(&["pause", "-s", "s"]);
    let shown = project.creel(&["show", "s"]).out;
    assert!(
        shown.contains("Resumed · on the command line")
            && shown.contains("Paused · on the command line"),
        "{shown}"
    );
    project.write("go", "");
    session.wait_for("turn_ended");
    until("the list says it", || {
        project
            .creel(&["sessions"])
            .out
            .contains("Paused · on the command line")
    });
    project.creel(&["stop", "--now", "-s", "s"]);
    session.end();
}
