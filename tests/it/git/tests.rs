//! `run_tests`.

use std::fs;

use creel::engine::{
    effect::SubmissionFacts,
    hooks::verdict::{BuiltinStatus, RunEnd},
    time::TimeSpan,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Memory, eventually,
    repo::{Repo, failure, job, skipped, success},
};

/// A program that prints how it was called.
const RECORDER: &str = "#!/bin/sh\necho called: $(basename \"$0\") \"$@\"\n";

fn with(command: &str) -> SubmissionFacts {
    SubmissionFacts {
        test_command: Some(command.into()),
        ..SubmissionFacts::default()
    }
}

#[tokio::test]
async fn each_kind_of_project_has_its_test_command() {
    let projects: [(&[(&str, &str)], &str); 8] = [
        (&[("Cargo.toml", ""), ("Makefile", "test:\n")], "cargo test"),
        (
            &[("package.json", r#"{"scripts":{"test":"jest"}}"#)],
            "npm test",
        ),
        (
            &[
                ("package.json", r#"{"scripts":{"test":"jest"}}"#),
                ("yarn.lock", ""),
            ],
            "yarn test",
        ),
        (&[("pytest.ini", "")], "pytest"),
        (
            &[
                ("pyproject.toml", "[tool.pytest.ini_options]\n"),
                ("go.mod", ""),
            ],
            "pytest",
        ),
        (&[("go.mod", "module x\n")], "go test ./..."),
        (
            &[("Makefile", "all:\n\tcc\ncheck test: all\n\t./run\n")],
            "make test",
        ),
        (
            &[
                (
                    "package.json",
                    r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#,
                ),
                ("go.mod", ""),
            ],
            "go test ./...",
        ),
    ];
    for (files, expected) in projects {
        let repo = Repo::without_remote();
        for program in ["cargo", "npm", "yarn", "pytest", "go", "make"] {
            repo.program(program, RECORDER);
        }
        for (name, text) in files {
            fs::write(repo.work.join(name), text).expect("a file");
        }
        let result = repo.run("run_tests").await;
        assert_eq!(success(&result).message, format!("`{expected}` passed"));
        assert!(
            result.stdout.contains(&format!("called: {expected}")),
            "{}",
            result.stdout
        );
    }
}

#[tokio::test]
async fn missing_tests_are_reported_and_no_failure() {
    let repo = Repo::without_remote();
    fs::write(
        repo.work.join("Makefile"),
        "TEST := test\nall:\n\ttest: x\n",
    )
    .expect("a file");
    assert!(skipped(&repo.run("run_tests").await).starts_with("no tests were found"));
    fs::write(repo.work.join("conftest.py"), "").expect("a file");
    repo.program("pytest", "#!/bin/sh\nexit 5\n");
    assert_eq!(
        skipped(&repo.run("run_tests").await),
        "`pytest` found no tests"
    );
}

#[tokio::test]
async fn a_missing_test_program_is_reported() {
    let mut repo = Repo::without_remote();
    repo.bare_path();
    fs::write(repo.work.join("go.mod"), "").expect("a file");
    let result = repo.run("run_tests").await;
    let (message, remediation) = failure(&result);
    assert_eq!(
        message,
        "there is a go.mod but no `go` on the PATH: install it, or set `test_command`"
    );
    assert_eq!(remediation, None, "no agent can help that");
}

#[tokio::test]
async fn a_failure_goes_to_the_agent_with_the_end_of_the_output() {
    let repo = Repo::without_remote();
    let command = "seq 1 9000; printf '\\033[31mred: \\303\\274 broke\\033[0m\\n'; exit 7";
    let result = repo.run_with("run_tests", with(command)).await;
    let (message, remediation) = failure(&result);
    let prompt = remediation.expect("a prompt");
    assert!(message.ends_with("failed (exit 7)"), "{message}");
    assert!(
        prompt.contains("\n9000\n") && prompt.contains("\nred: ü broke\n"),
        "{prompt}"
    );
    assert!(
        !prompt.contains("\n1\n2\n") && prompt.len() < 12_000,
        "only the end: {} bytes",
        prompt.len()
    );
    assert!(prompt.contains("outputs/run-3.log"), "{prompt}");
    let all = fs::read_to_string(repo.at("session/outputs/run-3.log")).expect("all of it");
    assert!(all.contains("\n1\n2\n") && all.contains("\n9000\n"));
}

#[tokio::test]
async fn hanging_tests_are_ended_and_reported_to_the_agent() {
    let repo = Repo::without_remote();
    let mut job = job(
        "run_tests",
        with("echo test seven; echo $$ > pid; sleep 1000"),
    );
    job.hook.timeout = TimeSpan::secs(4);
    let result = repo
        .run_job(&job, &mut Memory::default(), &CancellationToken::new())
        .await;
    assert_eq!(result.end, RunEnd::TimedOut);
    let outcome = result.outcome.expect("an outcome");
    assert_eq!(outcome.status, BuiltinStatus::Failure);
    assert!(
        outcome.message.contains("did not end within 4 s"),
        "{}",
        outcome.message
    );
    assert!(
        outcome
            .remediation
            .is_some_and(|prompt| prompt.contains("\ntest seven\n"))
    );
    let pid = crate::support::pid_in(&repo.work.join("pid")).await;
    assert!(!crate::support::lives(pid));
}

#[tokio::test]
async fn output_is_shown_while_the_tests_run() {
    let repo = Repo::without_remote();
    let job = job(
        "run_tests",
        with("echo half way; while [ ! -e go ]; do sleep 0.02; done"),
    );
    let mut memory = Memory::default();
    let (seen, cancel) = (memory.clone(), CancellationToken::new());
    let (result, ()) = tokio::join!(repo.run_job(&job, &mut memory, &cancel), async {
        eventually("live output", || seen.stdout().contains("half way\n")).await;
        fs::write(repo.work.join("go"), "").expect("a file");
    });
    assert_eq!(result.end, RunEnd::Exit(0));
    assert_eq!(seen.groups().len(), 1, "a later creel can find it");
}

#[tokio::test]
async fn tests_do_not_see_the_repository_of_an_outer_git_hook() {
    let repo = Repo::without_remote();
    let result = repo
        .run_with(
            "run_tests",
            with("test -z \"$GIT_TERMINAL_PROMPT$GIT_EDITOR\""),
        )
        .await;
    success(&result);
}
