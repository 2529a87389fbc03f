//! Which agent is chosen, and what is known about it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use expect_test::expect;

use super::{super::PlanRequest, errors_in, good};
use crate::{
    config::{
        ConfigErrors, Settings,
        agents::{KnownAgents, how_to_install},
        load, without_config,
    },
    engine::policy::{
        AgentFacts, AgentSpec, OutputFormat, ServicePolicy, SessionPlan, ToolHookLevel,
        ToolHookSupport, ToolPassing, UsageScope,
    },
};

struct Programs(tempfile::TempDir);

impl Programs {
    fn new(names: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for name in names {
            let file = dir.path().join(name);
            fs::write(&file, "").expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
        }
        Self(dir)
    }

    fn path(&self) -> OsString {
        self.0.path().as_os_str().to_owned()
    }
}

fn with_table(table: &str) -> Result<Settings, ConfigErrors> {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("agents.yaml");
    fs::write(&file, table).expect("a file");
    without_config(Some(&file)).map_err(|mut errors| {
        for diagnostic in &mut errors.diagnostics {
            let name = diagnostic
                .source
                .name
                .replace(&dir.path().display().to_string(), "DIR");
            diagnostic.source = std::sync::Arc::new(crate::config::diagnostic::SourceFile {
                name,
                text: diagnostic.source.text.clone(),
            });
        }
        errors
    })
}

fn runs(settings: &Settings, name: &str, path: &OsStr) -> String {
    match settings.plan_with(
        PlanRequest {
            agent: Some(name),
            ..PlanRequest::default()
        },
        path,
    ) {
        Ok(plan) => plan
            .agent_spec
            .command_line()
            .unwrap_or_default()
            .to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_agent_runs_over_acp_if_that_is_installed_then_as_a_command_and_otherwise_creel_says_how_to_install_it()
 {
    let settings = Settings::default();
    let both = Programs::new(&["codex", "codex-acp"]);
    assert_eq!(runs(&settings, "codex", &both.path()), "codex-acp");
    let one = Programs::new(&["codex"]);
    let plan = settings
        .plan_with(
            PlanRequest {
                agent: Some("codex"),
                ..PlanRequest::default()
            },
            &one.path(),
        )
        .expect("a plan");
    let AgentSpec::Command {
        command,
        continue_command,
        format,
        known,
        ..
    } = plan.agent_spec
    else {
        panic!("one process a turn")
    };
    assert!(command.starts_with("codex exec --json"), "{command}");
    assert!(continue_command.is_some_and(|command| command.contains("resume {{conversation}}")));
    assert_eq!(format, OutputFormat::Codex);
    assert!(
        known
            .login
            .is_some_and(|login| login.contains("codex login"))
    );
    expect_test::expect![[r#"
        the agent `codex` is not installed: creel did not find `codex-acp` or `codex` on PATH
          install it: npm install -g @agentclientprotocol/codex-acp
          or: npm install -g @openai/codex
          or describe an agent under `agents:`, choose another with `--agent NAME`, or try `creel demo`"#]]
    .assert_eq(&runs(&settings, "codex", OsStr::new("")));
}

#[test]
fn where_none_is_named_an_agent_that_speaks_the_protocol_goes_first() {
    let settings = Settings::default();
    let taken = |programs: &[&str]| {
        let programs = Programs::new(programs);
        settings
            .plan_with(PlanRequest::default(), &programs.path())
            .expect("a plan")
            .agent
    };
    assert_eq!(taken(&["codex", "claude"]), "claude");
    assert_eq!(taken(&["codex", "claude", "opencode"]), "opencode");
    assert_eq!(taken(&["codex-acp", "claude", "opencode"]), "codex");
}

#[test]
fn a_program_counts_only_in_a_folder_with_a_whole_path() {
    let here = std::env::current_dir().expect("a folder");
    let programs = Programs::new(&["claude"]);
    let up = "../".repeat(here.components().count());
    let relative = format!(
        "{up}{}",
        programs
            .0
            .path()
            .strip_prefix("/")
            .expect("a whole path")
            .display()
    );
    assert!(Path::new(&relative).join("claude").exists());
    assert!(runs(&Settings::default(), "claude", OsStr::new(&relative)).contains("not installed"));
}

#[test]
fn a_users_table_adds_agents_and_changes_known_ones() {
    let settings = with_table(
        "mine:\n  title: My agent\n  ways:\n    - { command: 'env A=1 my-agent', program: my-agent, tty: true }\n\
         claude: { login: ask Bob }\n\
         codex:\n  ways: [{ acp: codex-wrapper }]\n",
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    let programs = Programs::new(&["my-agent", "claude", "codex-acp", "codex-wrapper"]);
    assert_eq!(
        runs(&settings, "mine", &programs.path()),
        "env A=1 my-agent"
    );
    assert_eq!(runs(&settings, "codex", &programs.path()), "codex-wrapper");
    assert!(runs(&settings, "claude", &programs.path()).starts_with("claude -p"));
    let login = |name: &str| {
        settings
            .known
            .named(name)
            .and_then(|agent| agent.ways[0].login())
    };
    assert_eq!(login("claude"), Some("ask Bob"));
    assert!(
        login("codex").is_some_and(|login| login.contains("codex login")),
        "what is left out is as it was"
    );
    assert_eq!(
        settings.known.names().take(4).collect::<Vec<_>>(),
        ["mine", "claude", "codex", "gemini"]
    );
}

#[test]
fn mistakes_in_a_users_table_have_their_places() {
    let table = "\
clade: { login: x }
mine:
  ways:
    - { acp: x, format: claude }
    - { program: y }
    - { command: 'x {{promt}}', error_pattern: '(' }
yours: { ways: [], titel: x }
theirs: { ways: { acp: x } }
";
    expect_test::expect![[r#"
        DIR/agents.yaml:1:1: the agent `clade` has no command
        1 | clade: { login: x }
          | ^^^^^ did you mean `claude`? An agent of your own needs `ways`
        DIR/agents.yaml:4:25: `format` is only for `command`
        4 |     - { acp: x, format: claude }
          |                         ^^^^^^ remove it, or remove `acp`
        DIR/agents.yaml:5:7: the agent `mine` has no command
        5 |     - { program: y }
          |       ^ keep one of `acp` and `command`
        DIR/agents.yaml:6:21: an agent has no `{{promt}}`
        6 |     - { command: 'x {{promt}}', error_pattern: '(' }
          |                     ^^^^^^^^^ did you mean `{{prompt}}`?
        DIR/agents.yaml:6:48: `(` is not a regular expression: unclosed group
        6 |     - { command: 'x {{promt}}', error_pattern: '(' }
          |                                                ^^^
        DIR/agents.yaml:7:16: the agent `yours` has no command
        7 | yours: { ways: [], titel: x }
          |                ^ add `ways`, a list of `acp: …` and `command: …`
        DIR/agents.yaml:7:20: unknown key `titel`
        7 | yours: { ways: [], titel: x }
          |                    ^^^^^ did you mean `title`?
        DIR/agents.yaml:8:17: `ways` must be a list, not a map
        8 | theirs: { ways: { acp: x } }
          |                 ^ begin each item with `- `"#]]
    .assert_eq(&with_table(table).expect_err("mistakes").to_string());
    expect_test::expect![[r#"
        DIR/agents.yaml:1:1: a table of agents is a map from names to agents, not a list
        1 | - claude
          | ^ such as `my-agent: { ways: [{ command: my-agent }] }`"#]]
    .assert_eq(&with_table("- claude\n").expect_err("a mistake").to_string());
    expect_test::expect![[r#"
        DIR/agents.yaml:1:9: unclosed bracket '{'
        1 | claude: {
          |         ^ check the quotes, the brackets and the indentation here"#]]
    .assert_eq(
        &with_table("claude: {\n")
            .expect_err("a mistake")
            .to_string(),
    );
    assert_eq!(with_table("# nothing\n"), Ok(Settings::default()));
}

#[test]
fn mistakes_in_the_config_and_in_the_table_are_reported_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("creel.yaml"), "agent: mine\ncontxt: keep\n").expect("a file");
    fs::write(dir.path().join("agents.yaml"), "mine: { wyas: [] }\n").expect("a file");
    let errors = load(
        &dir.path().join("creel.yaml"),
        Some(&dir.path().join("agents.yaml")),
    )
    .expect_err("mistakes");
    let errors_in = errors.to_string();
    assert!(
        errors_in.contains("agents.yaml:1:9: unknown key `wyas`")
            && errors_in.contains("creel.yaml:2:1"),
        "{errors_in}"
    );
    assert!(!errors_in.contains("there is no agent"), "{errors_in}");
    let none = load(
        &dir.path().join("creel.yaml"),
        Some(&dir.path().join("missing.yaml")),
    )
    .expect_err("mistakes");
    assert!(none.to_string().contains("unknown agent `mine`"), "{none}");
}

#[test]
fn an_entry_that_runs_a_known_program_is_known_in_what_it_does_not_say() {
    let settings = good(
        "agents:\n  a: { command: qwen --yolo, login: ask Bob }\n  b: { command: my-agent }\n  c: { acp: claude-code-acp }\n",
    );
    let facts = |name: &str| settings.agents[name].facts().expect("facts").clone();
    let known = KnownAgents::built_in();
    let qwen = known
        .by_program("qwen")
        .and_then(|way| way.spec.facts())
        .expect("facts")
        .clone();
    let (tools, flags) = (facts("a").tools, facts("a").flags);
    assert_eq!(flags["model"], "--model {{value}}");
    let by_option = |tools: &ToolPassing| matches!(tools, ToolPassing::Options(options) if options.starts_with("--mcp-config"));
    assert!(
        tools.as_ref().is_some_and(by_option),
        "those of the same kind count: {tools:?}"
    );
    assert_eq!(
        facts("a"),
        AgentFacts {
            login: Some("ask Bob".into()),
            tools,
            flags,
            ..qwen
        }
    );
    assert_eq!(facts("b"), AgentFacts::default());
    assert!(facts("c").install.is_some());
    let AgentSpec::Command { format, .. } = &settings.agents["a"] else {
        panic!("one process a turn")
    };
    assert_eq!(
        *format,
        OutputFormat::Text,
        "what it prints, the entry has to say"
    );
}

#[test]
fn the_keys_of_an_agent_reach_its_spec() {
    let settings = good(
        "agents:\n  a: { acp: x, mode: plan, files: decline, error_pattern: '^E', usage: conversation, install: i, login: l, mcp: false, list_tools: true, tools: --x, options: { model: m, fast: true }, flags: { fast: '--fast {{value}}' }, env: ['X_*'], own_hooks: [.claude/settings.json], tool_hooks: { level: sees } }\n  \
         b: { command: y, continue_command: z, format: gemini, tty: true }\n",
    );
    let known = AgentFacts {
        install: Some("i".into()),
        login: Some("l".into()),
        error_pattern: Some("^E".into()),
        limit_pattern: None,
        usage: Some(UsageScope::Conversation),
        mcp: Some(false),
        list_tools: Some(true),
        tools: Some(ToolPassing::Options("--x".into())),
        own_hooks: vec![".claude/settings.json".to_owned()],
        tool_hooks: Some(ToolHookSupport {
            level: ToolHookLevel::Sees,
            ..ToolHookSupport::default()
        }),
        env: vec!["X_*".into()],
        options: [
            ("model".to_owned(), "m".to_owned()),
            ("fast".to_owned(), "true".to_owned()),
        ]
        .into(),
        flags: [("fast".to_owned(), "--fast {{value}}".to_owned())].into(),
    };
    assert!(
        !known.lists_tools(),
        "an agent without the tools needs no list of them"
    );
    let a = AgentSpec::Acp {
        command: "x".into(),
        mode: Some("plan".into()),
        files: ServicePolicy::Decline,
        terminals: ServicePolicy::Serve,
        known,
    };
    let b = AgentSpec::Command {
        command: "y".into(),
        continue_command: Some("z".into()),
        format: OutputFormat::Gemini,
        tty: true,
        known: AgentFacts::default(),
    };
    assert_eq!(
        settings.agents.into_iter().collect::<Vec<_>>(),
        [("a".to_owned(), a), ("b".to_owned(), b)]
    );
}

#[test]
fn every_known_agent_has_instructions_to_install_it_and_to_log_in() {
    for agent in KnownAgents::built_in().iter() {
        for way in &agent.ways {
            assert!(way.login().is_some(), "{}", agent.name);
        }
        let lines = how_to_install(agent.ways.iter());
        assert!(!lines.is_empty(), "{}", agent.name);
        for line in lines {
            // With the longest name in front, a line of `creel agents` still fits a terminal.
            assert!(line.len() <= 60, "{}: {line}", agent.name);
        }
    }
}

#[test]
fn the_table_that_creel_reads_is_the_one_that_is_written() {
    let (written, file) = (
        KnownAgents::written(),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/agents.json"),
    );
    let printed = serde_json::to_string_pretty(&written).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_ASSETS").is_some() {
        fs::write(&file, &printed).expect("the table is written");
    }
    let kept = fs::read_to_string(&file).expect("the table is there");
    assert!(
        kept == printed,
        "run the tests with UPDATE_ASSETS=1 to write assets/agents.json again"
    );
    assert_eq!(
        serde_json::from_str::<KnownAgents>(&kept).expect("a table"),
        written
    );
}

#[test]
fn every_pattern_of_the_built_in_table_is_a_regular_expression() {
    for agent in KnownAgents::built_in().iter() {
        for facts in agent.ways.iter().filter_map(|way| way.spec.facts()) {
            for pattern in [&facts.error_pattern, &facts.limit_pattern]
                .into_iter()
                .flatten()
            {
                assert!(
                    regex::Regex::new(pattern).is_ok(),
                    "{}: {pattern}",
                    agent.name
                );
            }
        }
    }
}

#[test]
fn a_key_that_does_not_go_with_the_way_an_agent_is_run_is_a_mistake() {
    let text = "\
agents:
  a: { acp: x, format: claude, tty: true, continue_command: y }
  b: { command: x, mode: plan, files: serve, terminals: maybe }
  c: { script: play.yaml, login: x }
  d: { command: x, error_pattern: '[a-', format: cluade, tty: yes }
";
    expect_test::expect![[r#"
        creel.yaml:2:24: `format` is only for `command`
        2 |   a: { acp: x, format: claude, tty: true, continue_command: y }
          |                        ^^^^^^ remove it, or remove `acp`
        creel.yaml:2:37: `tty` is only for `command`
        2 |   a: { acp: x, format: claude, tty: true, continue_command: y }
          |                                     ^^^^ remove it, or remove `acp`
        creel.yaml:2:61: `continue_command` is only for `command`
        2 |   a: { acp: x, format: claude, tty: true, continue_command: y }
          |                                                             ^ remove it, or remove `acp`
        creel.yaml:3:26: `mode` is only for `acp`
        3 |   b: { command: x, mode: plan, files: serve, terminals: maybe }
          |                          ^^^^ remove it, or remove `command`
        creel.yaml:3:39: `files` is only for `acp`
        3 |   b: { command: x, mode: plan, files: serve, terminals: maybe }
          |                                       ^^^^^ remove it, or remove `command`
        creel.yaml:3:57: `terminals` is only for `acp`
        3 |   b: { command: x, mode: plan, files: serve, terminals: maybe }
          |                                                         ^^^^^ remove it, or remove `command`
        creel.yaml:3:57: `terminals` must be one of `serve`, `decline`, not `maybe`
        3 |   b: { command: x, mode: plan, files: serve, terminals: maybe }
          |                                                         ^^^^^
        creel.yaml:4:16: the script `play.yaml` cannot be read: it does not exist
        4 |   c: { script: play.yaml, login: x }
          |                ^^^^^^^^^ paths are relative to the config's folder
        creel.yaml:4:34: `login` is only for `acp` and `command`
        4 |   c: { script: play.yaml, login: x }
          |                                  ^ remove it, or remove `script`
        creel.yaml:5:35: `[a-` is not a regular expression: unclosed character class
        5 |   d: { command: x, error_pattern: '[a-', format: cluade, tty: yes }
          |                                   ^^^^^
        creel.yaml:5:50: `format` must be one of `text`, `claude`, `codex`, `gemini`, `opencode`, not `cluade`
        5 |   d: { command: x, error_pattern: '[a-', format: cluade, tty: yes }
          |                                                  ^^^^^^ did you mean `claude`?
        creel.yaml:5:63: `tty` must be `true` or `false`, not text
        5 | …: { command: x, error_pattern: '[a-', format: cluade, tty: yes }
          |                                                             ^^^ did you mean `true`?"#]]
    .assert_eq(&errors_in(text));
}

fn plan_of(
    text: &str,
    model: Option<&str>,
    task_type: Option<&str>,
) -> Result<SessionPlan, String> {
    let wanted = PlanRequest {
        task_type,
        model,
        ..PlanRequest::default()
    };
    good(text)
        .plan_with(wanted, OsStr::new(""))
        .map_err(|error| error.to_string())
}

#[test]
fn the_model_is_that_of_the_command_line_or_the_type_or_the_agent_or_the_config() {
    let text = "model: a\nagents: { x: { acp: x, options: { model: b } } }\n\
        task_types: { t: { model: c } }\nretries: [{ after: 2, model: d }]\n";
    let plan = |model, task_type| plan_of(text, model, task_type).expect("a plan").models;
    assert_eq!(plan(None, None).model.as_deref(), Some("b"));
    assert_eq!(plan(None, Some("t")).model.as_deref(), Some("c"));
    assert_eq!(plan(Some("e"), Some("t")).model.as_deref(), Some("e"));
    let models = plan(None, None);
    assert_eq!((models.after(1), models.after(2)), (Some("b"), Some("d")));
    let without = plan_of("model: a\nagents: { x: { acp: x } }\n", None, None);
    assert_eq!(without.expect("a plan").models.model.as_deref(), Some("a"));
}

#[test]
fn a_command_needs_a_flag_for_each_option() {
    let error =
        plan_of("model: a\nagents: { x: { command: x } }\n", None, None).expect_err("a mistake");
    expect![[r#"
        creel does not know how to pass `model` to the agent `x`
          add `flags: { model: "--model {{value}}" }` to the agent's entry, or remove it"#]]
    .assert_eq(&error);
    let text = "agents:\n  x: { command: x, options: { model: a, effort: high }, flags: { model: '-m {{value}}' } }\n";
    expect![[r#"
        creel.yaml:2:41: creel does not know how to pass `effort` to this command
        2 |   x: { command: x, options: { model: a, effort: high }, flags: { model: '-m {{value}}' } }
          |                                         ^^^^^^ it has `model`; add `flags: { effort: "--effort {{value}}" }` for another"#]].assert_eq(&errors_in(text));
    let text = "agents:\n  x: { command: x, flags: { model: '-m {{valve}}' } }\n";
    expect![[r#"
        creel.yaml:2:40: a flag has no `{{valve}}`
        2 |   x: { command: x, flags: { model: '-m {{valve}}' } }
          |                                        ^^^^^^^^^ did you mean `{{value}}`?"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn an_entry_can_change_an_agent_that_creel_knows() {
    let settings = good("agents: { claude: { options: { model: opus, fast: true } } }\n");
    assert!(settings.agents.is_empty());
    assert_eq!(settings.described().collect::<Vec<_>>(), ["claude"]);
    let programs = Programs::new(&["claude-agent-acp"]);
    let plan = settings
        .plan_with(PlanRequest::default(), &programs.path())
        .expect("a plan");
    assert_eq!(plan.agent, "claude");
    assert_eq!(plan.models.model.as_deref(), Some("opus"));
    let facts = plan.agent_spec.facts().expect("facts");
    assert_eq!(facts.options["fast"], "true");
    assert!(facts.login.is_some(), "the rest stays");
    expect![[r#"
        creel.yaml:1:27: `mode` needs `acp` in the same entry
        1 | agents: { claude: { mode: plan } }
          |                           ^^^^ add the command of `claude`, or remove it"#]]
    .assert_eq(&errors_in("agents: { claude: { mode: plan } }\n"));
    expect![[r#"
        creel.yaml:1:11: the agent `cluade` has no command
        1 | agents: { cluade: { options: { model: opus } } }
          |           ^^^^^^ keep one of `acp`, `command` and `script`"#]]
    .assert_eq(&errors_in(
        "agents: { cluade: { options: { model: opus } } }\n",
    ));
}
