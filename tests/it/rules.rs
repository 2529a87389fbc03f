//! Rule checks, with real commands and files.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use creel::{
    engine::{
        effect::{HookFacts, RuleJob},
        hooks::verdict::RunEnd,
        ids::RunId,
        policy::{CoverageFormat, FileRequirement, PatternTarget, RuleCheck, RuleSpec},
        stop::context::RuleCheckResult,
        time::TimeSpan,
    },
    hooks::{HookWorkspace, rules::check},
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Memory, alive_with_mark, eventually, folder, fresh_mark, pid_in, project::Project,
};

fn place(dir: &Path) -> HookWorkspace {
    HookWorkspace {
        cwd: dir.join("project"),
        session_dir: dir.join("session"),
        session_id: "demo-1".into(),
        journal: dir.join("session/journal.jsonl"),
        mark: fresh_mark(),
    }
}

fn job(check: RuleCheck) -> RuleJob {
    RuleJob {
        run: RunId(7),
        rule: RuleSpec {
            name: "checked".into(),
            check,
            timeout: TimeSpan::secs(60),
            enabled: true,
        },
        output_limit: 16_384,
        facts: HookFacts {
            session: "demo".into(),
            iteration: Some(3),
            agent_output: Some("I am done.\nAll 12 tests pass.".into()),
            ..HookFacts::default()
        },
    }
}

fn command(command: &str) -> RuleCheck {
    RuleCheck::Command {
        command: command.into(),
        expected_exit: 0,
        folder: None,
        env: BTreeMap::new(),
    }
}

async fn checked(job: RuleJob, dir: &Path) -> RuleCheckResult {
    fs::create_dir_all(dir.join("project")).expect("a folder");
    check(
        job,
        &place(dir),
        &mut Memory::default(),
        &CancellationToken::new(),
    )
    .await
}

async fn finding(check: RuleCheck, dir: &Path) -> (bool, String) {
    let result = checked(job(check), dir).await;
    (result.passed, result.message)
}

#[tokio::test]
async fn a_command_passes_with_the_code_that_is_expected() {
    let dir = folder();
    let passes = checked(job(command("echo fine")), dir.path()).await;
    assert_eq!(
        (passes.passed, passes.message.as_str()),
        (true, "echo fine: exit 0")
    );
    assert_eq!(
        (passes.end, passes.file.as_deref()),
        (Some(RunEnd::Exit(0)), Some("outputs/run-7.log"))
    );
    let fails = checked(
        job(command("echo one test failed; echo why >&2; exit 101")),
        dir.path(),
    )
    .await;
    assert!(!fails.passed);
    let expected =
        "echo one test failed; echo why >&2; exit 101: exit 101, expected 0\none test failed\nwhy";
    assert_eq!(fails.message, expected);
    let three = RuleCheck::Command {
        command: "exit 3".into(),
        expected_exit: 3,
        folder: None,
        env: BTreeMap::new(),
    };
    assert_eq!(
        finding(three, dir.path()).await,
        (true, "exit 3: exit 3".into())
    );
}

#[tokio::test]
async fn a_command_gets_its_session_and_its_variables() {
    let dir = folder();
    fs::create_dir_all(dir.path().join("project/web")).expect("a folder");
    let all = RuleCheck::Command {
        command:
            "pwd | grep -q /web$ && echo $CI {{iteration}} $CREEL_POINT $CREEL_HOOK && cat && false"
                .into(),
        expected_exit: 0,
        folder: Some("web".into()),
        env: [("CI".to_owned(), "yes".to_owned())].into(),
    };
    let (passed, message) = finding(all, dir.path()).await;
    assert!(
        !passed && message.contains("\nyes 3 rule checked\n{"),
        "{message}"
    );
    assert!(
        message.contains("\"hook_event_name\":\"rule\"") && message.contains("All 12 tests pass."),
        "{message}"
    );
}

#[tokio::test]
async fn a_command_that_cannot_be_judged_has_not_passed_and_says_what_to_do() {
    let dir = folder();
    let (passed, message) = finding(command("no-such-program-anywhere"), dir.path()).await;
    assert!(!passed);
    let expected = "no-such-program-anywhere: exit 127, expected 0: the command was not found; install it or correct the rule\n";
    assert!(message.starts_with(expected), "{message}");
    let mut slow = job(command("echo begun; sleep 1000"));
    slow.rule.timeout = TimeSpan::secs(3);
    let slow = checked(slow, dir.path()).await;
    assert_eq!((slow.passed, slow.end), (false, Some(RunEnd::TimedOut)));
    let expected = "echo begun; sleep 1000: timed out after 3 s: make it faster, or give the rule a longer `timeout`\nbegun";
    assert_eq!(slow.message, expected);
    let killed = checked(job(command("kill -9 $$")), dir.path()).await;
    assert_eq!(
        killed.message,
        "kill -9 $$: ended by signal 9, expected exit 0"
    );
    let nowhere = RuleCheck::Command {
        command: "true".into(),
        expected_exit: 0,
        folder: Some("web".into()),
        env: BTreeMap::new(),
    };
    let expected = "true: web is missing: make the folder, or correct the rule";
    assert_eq!(finding(nowhere, dir.path()).await, (false, expected.into()));
}

#[tokio::test]
async fn much_output_is_cut_in_the_message_and_complete_in_the_file() {
    let dir = folder();
    let flood = checked(job(command("seq 100000; exit 1")), dir.path()).await;
    assert!(
        flood.message.len() < 5_000 && flood.message.ends_with("\n100000"),
        "{}",
        flood.message
    );
    assert!(
        flood.message.contains(&format!(
            "all of it: {}/session/outputs/run-7.log",
            dir.path().display()
        )),
        "{}",
        flood.message
    );
    let whole = fs::read_to_string(dir.path().join("session/outputs/run-7.log")).expect("the file");
    assert_eq!(whole.lines().count(), 100_000);
}

#[tokio::test]
async fn a_cancel_ends_the_command_and_all_that_it_started() {
    let dir = folder();
    let place = place(dir.path());
    fs::create_dir_all(&place.cwd).expect("a folder");
    let (cancel, mut memory) = (CancellationToken::new(), Memory::default());
    let job = job(command(
        "sh -c 'echo $$ > deep; exec sleep 1000' & sleep 1000",
    ));
    let (result, ()) = tokio::join!(check(job, &place, &mut memory, &cancel), async {
        pid_in(&place.cwd.join("deep")).await;
        cancel.cancel();
    });
    assert_eq!((result.passed, result.end), (false, Some(RunEnd::Cut)));
    eventually("all are gone", || {
        alive_with_mark(&format!("{}/run-7", place.mark)).is_empty()
    })
    .await;
}

fn pattern(pattern: &str, file: Option<&str>, must_match: bool) -> RuleCheck {
    let target = file.map_or(PatternTarget::AgentOutput, |file| {
        PatternTarget::File(file.into())
    });
    RuleCheck::ContentPattern {
        pattern: pattern.into(),
        target,
        must_match,
    }
}

#[tokio::test]
async fn a_pattern_is_looked_for_in_the_last_message_or_in_a_file() {
    let dir = folder();
    let project = dir.path().join("project");
    fs::create_dir_all(&project).expect("a folder");
    fs::write(
        project.join("main.rs"),
        "fn main() {\n    // TODO: later\n}\n",
    )
    .expect("a file");
    let finding = async |check| finding(check, dir.path()).await;
    let fine = |text: &str| (true, text.to_owned());
    let not = |text: &str| (false, text.to_owned());
    assert_eq!(
        finding(pattern("[0-9]+ tests pass", None, true)).await,
        fine("the last message, line 2: matches [0-9]+ tests pass")
    );
    assert_eq!(
        finding(pattern("failed", None, true)).await,
        not("the last message: nothing matches failed")
    );
    assert_eq!(
        finding(pattern("failed", None, false)).await,
        fine("the last message: nothing matches failed, as required")
    );
    assert_eq!(
        finding(pattern("TODO|FIXME", Some("main.rs"), false)).await,
        not("main.rs, line 2: matches TODO|FIXME, which must not match: // TODO: later")
    );
    assert_eq!(
        finding(pattern("x", Some("lib.rs"), false)).await,
        not("lib.rs is missing: write it, or correct the rule")
    );
}

#[tokio::test]
async fn all_or_any_of_the_files_must_exist() {
    let dir = folder();
    fs::create_dir_all(dir.path().join("project/docs")).expect("a folder");
    fs::write(dir.path().join("project/README.md"), "").expect("a file");
    let files = |files: &[&str], need| RuleCheck::FileExistence {
        files: files.iter().map(|&file| file.into()).collect(),
        need,
    };
    let finding = async |names: &[&str], need| finding(files(names, need), dir.path()).await;
    assert_eq!(
        finding(&["README.md", "docs"], FileRequirement::All).await,
        (true, "2 of 2 exist".into())
    );
    assert_eq!(
        finding(&["README.md", "a", "b/c"], FileRequirement::All).await,
        (false, "missing: a, b/c (1 of 3 exist)".into())
    );
    assert_eq!(
        finding(&["a", "README.md"], FileRequirement::Any).await,
        (true, "1 of 2 exist".into())
    );
    assert_eq!(
        finding(&["a", "b"], FileRequirement::Any).await,
        (false, "one of these files must exist: a, b".into())
    );
}

#[tokio::test]
async fn nothing_outside_of_the_project_counts_whatever_links_there_are() {
    let dir = folder();
    let (project, outside) = (dir.path().join("project"), dir.path().join("outside"));
    fs::create_dir_all(&project).expect("a folder");
    fs::create_dir_all(&outside).expect("a folder");
    fs::write(
        outside.join("lcov.info"),
        "SF:a\nLF:1\nLH:1\nend_of_record\n",
    )
    .expect("a file");
    symlink(outside.join("lcov.info"), project.join("lcov.info")).expect("a link");
    symlink(&outside, project.join("out")).expect("a link");
    let away = |name: &str| {
        let expected =
            format!("{name} leads out of the project folder; a rule reads only files in it");
        (false, expected)
    };
    let lcov = |file: &str| RuleCheck::Coverage {
        file: file.into(),
        format: CoverageFormat::Lcov,
        minimum: 1.0,
    };
    assert_eq!(
        finding(lcov("lcov.info"), dir.path()).await,
        away("lcov.info")
    );
    assert_eq!(
        finding(lcov("out/lcov.info"), dir.path()).await,
        away("out/lcov.info")
    );
    assert_eq!(
        finding(pattern("SF", Some("lcov.info"), true), dir.path()).await,
        away("lcov.info")
    );
    let there = RuleCheck::FileExistence {
        files: vec!["lcov.info".into(), "out".into()],
        need: FileRequirement::Any,
    };
    let expected = "one of these files must exist: lcov.info (leads out of the project folder), out (leads out \
                of the project folder)";
    assert_eq!(finding(there, dir.path()).await, (false, expected.into()));
    let run = RuleCheck::Command {
        command: "true".into(),
        expected_exit: 0,
        folder: Some("out".into()),
        env: BTreeMap::new(),
    };
    assert_eq!(
        finding(run, dir.path()).await.1,
        format!("true: {}", away("out").1)
    );
}

#[test]
fn check_lists_the_rules_of_the_given_type() {
    let project = Project::with(
        "agents: { demo: { script: s.yaml } }
max_iterations: 9
stop: { rules: [{ name: usual, type: command, command: 'true' }] }
task_types: { hotfix: { max_iterations: 3, stop: { rules: [{ name: quick, type: command, command: 'true' }] } } }
",
    )
    .file("s.yaml", "turns: []\n");
    let check = |args: &[&str]| {
        let ran = project.creel(&[&["check"], args].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    assert!(check(&[]).contains("1. usual: ") && !check(&[]).contains("1. quick: "));
    assert!(
        check(&["-t", "hotfix"]).contains("1. quick: ")
            && !check(&["-t", "hotfix"]).contains("1. usual: ")
    );
    let json: serde_json::Value =
        serde_json::from_str(&check(&["-t", "hotfix", "--json"])).expect("JSON");
    assert_eq!(
        (
            &json["plan"]["stop"]["rules"][0]["name"],
            &json["plan"]["max_iterations"]
        ),
        (&"quick".into(), &3.into())
    );
}
