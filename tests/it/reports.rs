//! Reports of real sessions, and whether their journals are as creel wrote them.

use std::{fs, process::Command};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    nats::NatsServer,
    project::{Project, Ran},
};

const CHECKED: &str = "prompt: Write the greeting\nagents: { demo: { script: play.yaml } }\n\
    checks: [{ name: tests, command: 'test -s greeting.txt || { echo no greeting; exit 1; }' }]\n";
const PLAY: &str = "turns:\n  - say: I look around. <promise>COMPLETE</promise>\n\
    \x20 - say: Done. <promise>COMPLETE</promise>\n    run: 'echo hello > greeting.txt'\n";

fn checked() -> Project {
    Project::with(CHECKED).file("play.yaml", PLAY)
}

/// A session whose agent does not end its turn.
fn hanging() -> Project {
    Project::with(CHECKED).file("play.yaml", "turns:\n  - hang: true\n")
}

fn git(project: &Project, args: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let mut command = Command::new("git");
    let ran = command
        .args(identity)
        .args(args)
        .current_dir(project.root());
    let ran = ran.output().expect("git starts");
    assert!(
        ran.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

fn ended(project: &Project) -> Ran {
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ran
}

#[test]
fn a_report_says_first_how_the_session_ended_in_every_form() {
    let project = checked();
    ended(&project);
    let text = project.creel(&["report"]);
    assert_eq!(text.code, 0, "{}", text.err);
    let first =
        "**✓ Complete and verified: <code>tests</code> passed on the work as it is at the end";
    assert!(text.out.starts_with(first), "{}", text.out);
    assert!(
        text.out
            .contains("| <code>tests</code> | ✗✓ | passed | check |"),
        "{}",
        text.out
    );
    assert!(text.out.contains("no greeting"), "{}", text.out);

    let json = project.creel(&["report", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["outcome"]["verification"], "verified");
    assert_eq!(json["checks"][0]["runs"][0]["result"], "blocked");
    assert_eq!(json["usage"]["cost"], Value::Null);
    assert!(
        json["session"]["creel"]
            .as_str()
            .is_some_and(|it| it.starts_with("0.")),
        "{json}"
    );

    let page = project.creel(&["report", "--format", "html", "-o", "report.html"]);
    assert_eq!((page.code, page.out.as_str()), (0, ""), "{}", page.err);
    let page = project.read("report.html");
    assert!(
        page.contains("Complete and verified: <code>tests</code> passed"),
        "{page}"
    );
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));

    let nowhere = project.creel(&["report", "-o", "gone/report.html"]);
    assert_eq!(nowhere.code, 1, "{}", nowhere.err);
    assert!(
        nowhere.err.contains("cannot write gone/report.html"),
        "{}",
        nowhere.err
    );
}

#[test]
fn a_report_shows_the_commits_of_the_session() {
    let project = Project::with(CHECKED).file(
        "play.yaml",
        "turns:\n  - say: Done. <promise>COMPLETE</promise>\n    run: 'echo hello > greeting.txt; git add greeting.txt; \
         git -c user.name=t -c user.email=t@example.com commit -qm greet'\n",
    );
    git(&project, &["init", "-q"]);
    git(&project, &["add", "creel.yaml", "play.yaml"]);
    git(&project, &["commit", "-qm", "start"]);
    ended(&project);
    let report: Value =
        serde_json::from_str(&project.creel(&["report", "--json"]).out).expect("JSON");
    let diff = report["changes"]["diff"]["text"].as_str();
    assert!(
        diff.is_some_and(|diff| diff.contains("+hello")),
        "{report:#}"
    );
    assert_eq!(
        report["changes"]["files"],
        serde_json::json!(["greeting.txt"])
    );
}

#[test]
fn a_session_that_runs_or_was_killed_has_a_report() {
    let project = hanging();
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let report = || project.creel(&["report"]);
    let running = report();
    assert!(
        running
            .out
            .starts_with("**▸ Not finished: iteration 1 of at most"),
        "{}{}",
        running.out,
        running.err
    );
    let verified = project.creel(&["verify"]);
    assert_eq!(verified.code, 0, "{}", verified.out);
    assert!(
        verified.out.contains("intact so far, and the session runs"),
        "{}",
        verified.out
    );
    session.signal(Signal::KILL);
    session.end();
    let stopped = report().out;
    assert!(stopped.starts_with("**▸ Not finished"), "{stopped}");
    assert!(
        stopped.contains("The session is stopped: no creel runs it."),
        "{stopped}"
    );
    let verified = project.creel(&["verify"]);
    assert_eq!(verified.code, 1, "{}", verified.out);
    assert!(
        verified.out.contains("the end is not on record"),
        "{}",
        verified.out
    );
}

#[test]
fn what_the_last_hooks_change_is_named() {
    let ends = "hooks: { session_end: [{ name: last, command: 'echo broken > greeting.txt' }] }\n";
    let project = Project::with(&format!("{CHECKED}{ends}")).file("play.yaml", PLAY);
    ended(&project);
    let report = project.creel(&["report", "--json"]).out;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(
        report["outcome"]["sentence"],
        "Complete and verified: `tests` passed before the hooks at the end changed the work."
    );
    assert_eq!(
        report["outcome"]["cautions"][0],
        "Changed after the last check, while the session ended: greeting.txt."
    );
}

#[test]
fn a_changed_journal_is_found() {
    let project = checked();
    ended(&project);
    let verified = project.creel(&["verify"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    assert!(verified.out.contains(": intact. "), "{}", verified.out);
    let journal = project.journal();
    let whole = fs::read_to_string(&journal).expect("a journal");
    let forged = whole.replace("\"verdict\":\"block\"", "\"verdict\":\"pass\"");
    assert_ne!(forged, whole);
    fs::write(&journal, forged).expect("space");
    let report = project.creel(&["report"]);
    let head = "Not verified: the journal was changed after creel wrote it. It says: ";
    assert!(report.out.contains(head), "{}", report.out);
    let sums: Value = serde_json::from_str(&project.creel(&["stats", "--json"]).out).expect("JSON");
    assert_eq!(sums["total"]["verified"], 0, "{sums}");
    let verified = project.creel(&["verify", "--json"]);
    assert_eq!(verified.code, 1, "{}", verified.err);
    let json: Value = serde_json::from_str(&verified.out).expect("JSON");
    assert_eq!(
        (&json["intact"], &json["finding"]["kind"]),
        (&false.into(), &"changed".into())
    );
    let cut: Vec<&str> = whole.split_inclusive('\n').collect();
    fs::write(&journal, cut[..cut.len() - 2].concat()).expect("space");
    let verified = project.creel(&["verify"]);
    assert_eq!(verified.code, 1, "{}", verified.out);
    assert!(
        verified.out.contains("The end was cut off"),
        "{}",
        verified.out
    );
}

#[test]
fn a_server_has_the_report_and_the_proof_of_a_session() {
    let server = NatsServer::start();
    let (url, here, there) = (server.url(), checked(), Project::new());
    let ran = here.creel(&[
        "run",
        "--headless",
        "--trust",
        "-s",
        "s",
        "--nats",
        url.as_str(),
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let elsewhere = |verb: &str| there.creel(&[verb, "s", "--nats", url.as_str()]);
    let report = elsewhere("report");
    assert!(
        report.out.contains("**✓ Complete and verified: ")
            && report.out.contains("| <code>tests</code> | ✗✓ | passed"),
        "{}{}",
        report.out,
        report.err
    );
    let verified = elsewhere("verify");
    assert!(
        verified.code == 0 && verified.out.contains(": intact. "),
        "{}{}",
        verified.out,
        verified.err
    );
}
