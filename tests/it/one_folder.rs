//! Two sessions in one folder: creel refuses the second one, or asks on a terminal.

use std::process::{Child, Stdio};

use crate::support::{
    git_project::{git, repository},
    project::{Project, Ran, Started, until},
    terminal::Terminal,
};

const SIZE: (u16, u16) = (120, 40);
/// A config whose agent works until the file `go` exists in the project's folder.
const CONFIG: &str = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n";
const UNTIL_GO: &str = "turns: []\notherwise: { say: '<promise>COMPLETE</promise>', run: 'until [ -e \"$CREEL_PROJECT/go\" ] || \
                        [ ! -e \"$CREEL_PROJECT/creel.yaml\" ]; do sleep 0.02; done' }\n";

fn project() -> Project {
    Project::with(CONFIG).file("scenario.yaml", UNTIL_GO)
}

fn git_project() -> Project {
    let project = repository(CONFIG);
    project.write("scenario.yaml", UNTIL_GO);
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "-m", "scenario"]);
    project
}

/// The project with its session `s`, whose agent works.
fn running(project: Project) -> (Project, Started) {
    let mut session = project.start();
    session.wait_for("prompt_sent");
    (project, session)
}

fn run<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--headless", "--trust", "-s", name], more].concat()
}

impl Project {
    fn has_session(&self, name: &str) -> bool {
        self.root().join(".creel/sessions").join(name).exists()
    }

    fn started(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("creel starts")
    }

    /// Whether the agent of a session works.
    fn works(&self, name: &str) -> bool {
        let status = self.creel(&["status", "-s", name]);
        status.out.contains("doing      the agent works")
    }

    /// Lets all agents finish.
    fn go(&self) {
        self.write("go", "");
    }
}

fn ended(child: Child) -> Ran {
    Ran::of(&child.wait_with_output().expect("it ended"))
}

#[test]
fn a_second_session_in_a_folder_is_refused_and_the_ways_out_are_named() {
    let (project, session) = running(project());
    let Ran { code, out, err } = project.creel(&run("two", &[]));
    assert_eq!((code, out.as_str()), (2, ""));
    expect_test::expect![[r#"
        creel: session `s` is already running in this folder, and the agents would change the same files
          add --force to run beside it; --worktree, for a folder and a branch of its own, needs a git repository
    "#]]
    .assert_eq(&err);
    assert!(!project.has_session("two"));
    project.go();
    assert_eq!(session.end().code, 0);
    assert_eq!(
        project.creel(&run("two", &[])).code,
        0,
        "the first one has ended"
    );
}

#[test]
fn a_forced_session_runs_beside_the_others_and_gets_a_name_of_its_own() {
    let project =
        Project::with(&format!("session: nightly\n{CONFIG}")).file("scenario.yaml", UNTIL_GO);
    let names = ["nightly", "nightly-2", "nightly-3"];
    let mut sessions = Vec::new();
    for name in names {
        sessions.push(project.started(&["run", "--headless", "--trust", "--force"]));
        until("it works", || project.works(name));
    }
    let refused = project.creel(&["run", "--headless"]);
    assert!(
        refused
            .err
            .contains("sessions `nightly`, `nightly-2` and `nightly-3` are already running"),
        "{}",
        refused.err
    );
    project.go();
    let codes: Vec<i32> = sessions
        .into_iter()
        .map(|session| ended(session).code)
        .collect();
    assert_eq!((refused.code, codes), (2, vec![0, 0, 0]));
}

#[test]
fn of_sessions_that_start_at_the_same_time_one_runs() {
    let project = project();
    let mut all: Vec<Child> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| project.started(&run(name, &[])))
        .collect();
    let mut over = Vec::new();
    until("three are refused", || {
        over.extend(all.extract_if(.., |child| child.try_wait().expect("a process").is_some()));
        over.len() == 3
    });
    project.go();
    let mut ran: Vec<Ran> = over.into_iter().chain(all).map(ended).collect();
    ran.sort_by_key(|ran| ran.code);
    assert_eq!(
        ran.iter().map(|ran| ran.code).collect::<Vec<_>>(),
        [0, 2, 2, 2]
    );
    assert!(
        ran[1..]
            .iter()
            .all(|ran| ran.err.contains("is already running in this folder"))
    );
}

#[test]
fn sessions_in_worktrees_of_their_own_are_not_in_the_way() {
    let project = git_project();
    let tree = project.started(&run("tree", &["--worktree"]));
    until("it works", || project.works("tree"));
    let (project, session) = running(project);
    let refused = project.creel(&run("two", &[]));
    assert!(
        refused
            .err
            .contains("session `s` is already running in this folder"),
        "{}",
        refused.err
    );
    assert!(
        refused.err.contains(
            "add --worktree for a folder and a branch of its own, or --force to run beside it"
        ),
        "{}",
        refused.err
    );
    let second = project.started(&run("two", &["--worktree"]));
    until("it works", || project.works("two"));
    let mut inside = project.command(&run("three", &[]));
    let inside = inside
        .current_dir(project.root().join(".creel/worktrees/two"))
        .output()
        .expect("creel starts");
    assert!(
        Ran::of(&inside)
            .err
            .contains("session `two` is already running in this folder"),
        "{inside:?}"
    );
    project.go();
    assert_eq!(
        (ended(tree).code, session.end().code, ended(second).code),
        (0, 0, 0)
    );
}

#[test]
fn a_session_in_the_background_counts_and_a_killed_one_does_not() {
    let (project, session) = running(project());
    session.kill();
    let detached = ["run", "--detach", "--trust", "-s", "back"];
    assert_eq!(project.creel(&detached).out, "back\n");
    let refused = project.creel(&["run", "--detach", "-s", "two"]);
    assert!(
        refused
            .err
            .contains("session `back` is already running in this folder"),
        "{}",
        refused.err
    );
    let refused = (refused.code, project.creel(&["resume", "s", "--headless"]));
    assert_eq!((refused.0, refused.1.code), (2, 2));
    expect_test::expect![[r#"
        creel: session `back` is already running in this folder, and the agents would change the same files
          stop it with `creel stop -s back`, or add --force to run beside it
    "#]]
    .assert_eq(&refused.1.err);
    let resumed = project.started(&["resume", "s", "--headless", "--force"]);
    until("it works", || project.works("s"));
    project.go();
    assert_eq!(ended(resumed).code, 0);
    until("the other one has ended", || {
        project.creel(&["status", "-s", "back"]).code == 2
    });
}

#[test]
fn a_worker_works_beside_a_session() {
    let (project, session) = running(project());
    assert_eq!(
        project
            .creel(&["task", "add", "--queue", "Do it", "--id", "one"])
            .code,
        0
    );
    let worker = project.started(&["worker", "--drain", "--trust"]);
    until("it works", || project.works("task-one"));
    project.go();
    assert_eq!((ended(worker).code, session.end().code), (0, 0));
}

// On a terminal

const QUESTION: &str = "[b]eside it anyway";

fn asked(project: &Project, args: &[&str]) -> Terminal {
    let terminal = Terminal::open(project, args, SIZE);
    terminal.wait_for_text(QUESTION);
    terminal
}

#[test]
fn on_a_terminal_creel_asks_and_you_can_leave() {
    let (project, session) = running(project());
    let mut terminal = asked(&project, &["run", "-s", "two"]);
    let text = terminal.text();
    assert!(
        text.contains("session `s` is already running in this folder"),
        "{text}"
    );
    assert!(
        !text.contains("[w]orktree"),
        "there is no git repository: {text}"
    );
    terminal.press("x enter");
    terminal.wait_for("the question again", |shown| {
        shown.text().matches(QUESTION).count() == 2
    });
    terminal.press("enter");
    assert_eq!(terminal.end(), 2);
    assert!(
        terminal.text().contains("nothing has run") && !project.has_session("two"),
        "{}",
        terminal.text()
    );
    project.go();
    assert_eq!(session.end().code, 0);
}

#[test]
fn on_a_terminal_you_can_run_beside_it() {
    let (project, session) = running(project());
    let mut terminal = asked(&project, &["run", "-s", "two"]);
    terminal.press("b enter");
    terminal.wait_for_status("two");
    project.go();
    assert_eq!(session.end().code, 0);
    terminal.wait_for_status("COMPLETE");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn on_a_terminal_you_can_run_in_a_worktree_in_the_background_too() {
    let (project, session) = running(git_project());
    let mut terminal = asked(&project, &["run", "--detach", "-s", "two", "fix"]);
    assert!(
        terminal.text().contains("in its own git [w]orktree"),
        "{}",
        terminal.text()
    );
    terminal.press("w enter");
    assert_eq!(terminal.end(), 0);
    until("it works", || project.works("two"));
    assert!(
        project
            .root()
            .join(".creel/worktrees/two/scenario.yaml")
            .exists()
    );
    let shown = project.creel(&["show", "two", "--json"]).out;
    assert!(shown.contains("\"prompt\":\"fix\""), "{shown}");
    project.go();
    assert_eq!(session.end().code, 0);
    until("it has ended", || {
        project.creel(&["status", "-s", "two"]).code == 2
    });
}

#[test]
fn unattended_sessions_do_not_ask() {
    let (project, session) = running(project());
    let mut terminal = Terminal::open(&project, &["run", "--headless", "-s", "two"], SIZE);
    assert_eq!(terminal.end(), 2);
    assert!(
        terminal
            .text()
            .contains("is already running in this folder"),
        "{}",
        terminal.text()
    );
    project.go();
    assert_eq!(session.end().code, 0);
}

#[test]
fn on_a_terminal_a_resumed_session_asks_too() {
    let (project, session) = running(project());
    session.kill();
    let other = project.started(&run("other", &[]));
    until("it works", || project.works("other"));
    let mut terminal = asked(&project, &["resume", "s"]);
    assert!(
        !terminal.text().contains("[w]orktree"),
        "{}",
        terminal.text()
    );
    terminal.press("b enter");
    terminal.wait_for_status("s");
    project.go();
    terminal.wait_for_status("COMPLETE");
    terminal.press("q");
    assert_eq!((terminal.end(), ended(other).code), (0, 0));
}
