//! `creel doctor`: what works, what does not, and what to do.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::Value;

use crate::support::{
    nats::NatsServer,
    project::{Project, Ran},
};

const CONFIG: &str = "agent: demo\nagents: { demo: { script: s.yaml } }\nchecks: [\"true\"]\n";

fn project() -> Project {
    let project = Project::with(CONFIG).file("s.yaml", "turns: []\n");
    assert_eq!(project.creel(&["trust"]).code, 0);
    project
}

/// creel without the agents of this machine.
fn doctor(project: &Project, args: &[&str], change: impl FnOnce(&mut Command)) -> (u8, Value) {
    let mut command = project.command(&[&["doctor", "--json"], args].concat());
    command
        .env("PATH", "/usr/bin:/bin")
        .env_remove("LC_ALL")
        .env("LANG", "C.UTF-8");
    change(&mut command);
    let Ran { code, out, err } = Ran::of(&command.output().expect("creel starts"));
    let report: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!(report["ok"], code == 0);
    (u8::try_from(code).expect("an exit code"), report)
}

/// The findings of an area as `state: text`.
fn of(report: &Value, area: &str) -> Vec<String> {
    let findings = report["findings"].as_array().expect("a list").iter();
    let found = findings.filter(|finding| finding["area"] == area);
    found
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap_or_default();
            assert!(
                finding["state"] == "works" || !text("advice").is_empty(),
                "{finding}"
            );
            format!("{}: {}", text("state"), text("text"))
        })
        .collect()
}

#[test]
fn what_works_is_listed_and_the_exit_code_is_0() {
    let project = project();
    let (code, report) = doctor(&project, &[], |_| {});
    assert_eq!(code, 0, "{report:#}");
    let config = project
        .root()
        .canonicalize()
        .expect("the folder")
        .join("creel.yaml");
    assert_eq!(
        of(&report, "config"),
        [format!("works: {} is valid and trusted", config.display())]
    );
    assert_eq!(of(&report, "agents"), ["works: this project uses demo"]);
    assert_eq!(of(&report, "nats"), [""; 0]);
    let git = of(&report, "git");
    assert!(
        git[0].starts_with("works: git ")
            && git[2].starts_with("limited: this folder is no repository"),
        "{git:?}"
    );
    let storage = of(&report, "storage");
    assert_eq!(storage.len(), 2, "{storage:?}");
    assert!(
        fs::read_dir(project.state_dir().join("creel"))
            .expect("the folder")
            .all(|entry| {
                !entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .contains("doctor")
            })
    );
    let shown = project.creel(&["doctor"]);
    assert!(shown.out.contains("\n✓ config         "), "{}", shown.out);
    assert!(shown.err.starts_with("creel: everything"), "{}", shown.err);
}

#[test]
fn a_server_is_tried() {
    let (project, server) = (project(), NatsServer::start());
    let (code, report) = doctor(&project, &["--nats", &server.url()], |_| {});
    assert_eq!(code, 0, "{report:#}");
    let nats = of(&report, "nats");
    assert!(
        nats[0].starts_with("works: nats://") && nats[0].ends_with(" ms, with JetStream"),
        "{nats:?}"
    );
}

#[test]
fn what_is_broken_says_what_to_do_and_the_exit_code_is_1() {
    let project = project();
    let (code, report) = doctor(&project, &["--nats", "nats://127.0.0.1:1"], |_| {});
    assert_eq!(code, 1);
    assert!(
        of(&report, "nats")[0].starts_with("broken: nats://127.0.0.1:1"),
        "{report:#}"
    );

    project.write("state", "not a folder");
    let (code, report) = doctor(&project, &[], |command| {
        command.env("XDG_STATE_HOME", project.root().join("state"));
    });
    assert_eq!(code, 1);
    assert!(
        of(&report, "storage")[0].starts_with("broken: state folder "),
        "{report:#}"
    );

    project.write("creel.yaml", "agnt: demo\n");
    let (code, report) = doctor(&project, &[], |_| {});
    assert_eq!(code, 1);
    assert!(
        of(&report, "config")[0].contains("did you mean `agent`"),
        "{report:#}"
    );

    project.write("creel.yaml", "checks: [\"true\"]\n");
    let (code, report) = doctor(&project, &[], |_| {});
    assert_eq!(code, 1);
    assert!(
        of(&report, "agents")[0].starts_with("broken: no agent found"),
        "{report:#}"
    );
    assert!(
        of(&report, "config")[0].contains("You have not trusted it yet"),
        "{report:#}"
    );
    let shown = Ran::of(
        &project
            .command(&["doctor"])
            .env("PATH", "/usr/bin:/bin")
            .output()
            .expect("creel starts"),
    );
    assert_eq!(
        (shown.code, shown.err.as_str()),
        (1, "creel: 1 problem to solve first\n"),
        "{}",
        shown.out
    );
}

#[test]
fn an_agents_version_and_login_are_shown_without_starting_its_work() {
    let project = project();
    let codex = project.root().join("bin/codex");
    project.write(
        "bin/codex",
        "#!/bin/sh\n[ \"$1\" = --version ] || touch started\necho codex-cli 0.166.0\n",
    );
    fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{}:/usr/bin:/bin", project.root().join("bin").display());
    let (_, report) = doctor(&project, &[], |command| {
        command
            .env("PATH", &path)
            .env_remove("OPENAI_API_KEY")
            .env_remove("CODEX_API_KEY");
    });
    let agents = of(&report, "agents");
    assert!(
        agents[0].starts_with("limited: codex 0.166.0; creel sees no login"),
        "{agents:?}"
    );
    let (_, report) = doctor(&project, &[], |command| {
        command.env("PATH", &path).env("OPENAI_API_KEY", "sk-x");
    });
    let seen = "works: codex 0.166.0, logged in as far as creel can see ($OPENAI_API_KEY)";
    assert_eq!(of(&report, "agents")[0], seen);
    assert!(!project.root().join("started").exists());
}

#[test]
fn a_program_that_hangs_does_not_delay_the_report() {
    let project = project();
    project.write("bin/git", "#!/bin/sh\nexec sleep 1000\n");
    let git = project.root().join("bin/git");
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{}:/usr/bin:/bin", project.root().join("bin").display());
    let (code, report) = doctor(&project, &[], |command| {
        command.env("PATH", &path);
    });
    assert_eq!(code, 1);
    let found = of(&report, "git");
    assert!(
        found[0].starts_with("broken: git fails: no answer")
            || found[0].starts_with("broken: no result"),
        "{found:?}"
    );
}
