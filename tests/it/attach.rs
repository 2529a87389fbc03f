//! Sessions in the background, and attached screens.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
};

use crate::support::{
    lives,
    project::{Project, Ran, until},
    terminal::{Cells, Terminal},
};
use creel::{journal::SessionsDir, sessions::session_client::RemoteUpdates};
use rustix::process::{Pid, Signal, kill_process};

const WIDE: Cells = (120, 40);

/// A session with pending output, which opens a gate at its end.
const HELD: &str =
    "hooks: { post_iteration: [{ name: a, command: 'echo red', pipe_output: true }] }";
const COMPLETE: &str = "  - say: '<promise>COMPLETE</promise>'\n";
/// A turn that lasts until the file `go` exists.
const UNTIL_GO: &str = "  - { say: 'working on it', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";

/// A project with a scripted agent.
fn scripted(rest: &str, turns: &str) -> Project {
    Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}"
    ))
    .file(
        "scenario.yaml",
        &format!("turns:\n{turns}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n"),
    )
}

pub(crate) struct Background {
    pub(crate) project: Project,
    pub(crate) pid: i32,
}

impl Background {
    #[track_caller]
    pub(crate) fn start(project: Project) -> Self {
        let Ran { code, out, err } = project.creel(&["run", "--detach", "--trust", "-s", "s"]);
        assert_eq!((code, out.as_str()), (0, "s\n"), "{err}");
        Self::of(project)
    }

    /// The session `s`, which is already running.
    #[track_caller]
    pub(crate) fn of(project: Project) -> Self {
        let pid = project
            .read(".creel/sessions/s/pid")
            .trim()
            .parse()
            .expect("a number");
        Self { project, pid }
    }

    /// It has its own process group and session, and no terminal.
    #[track_caller]
    pub(crate) fn has_no_terminal(&self) {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).expect("it runs");
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .expect("a name")
            .1
            .split_whitespace()
            .collect();
        let pid = self.pid.to_string();
        assert_eq!(
            (fields[2], fields[3], fields[4]),
            (pid.as_str(), pid.as_str(), "0")
        );
    }

    #[track_caller]
    pub(crate) fn waits_for(&self, kind: &str) {
        until(kind, || !self.project.kind(kind).is_empty());
    }

    /// Waits for this outcome and for the end of the process.
    #[track_caller]
    pub(crate) fn ends(&self, outcome: &str) {
        until("it has ended", || !lives(self.pid));
        assert_eq!(self.project.outcome().as_deref(), Some(outcome));
    }

    pub(crate) fn attach(&self) -> Terminal {
        Terminal::open(&self.project, &["attach"], WIDE)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Leave nothing running after a failed test.
        if lives(self.pid)
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// Waits until the gate accepts answers.
#[track_caller]
fn await_gate(terminal: &Terminal, title: &str) {
    terminal.wait_for(title, |shown| shown.has(title) && shown.has("enter answer"));
}

#[test]
fn a_background_session_waits_at_its_gates_and_is_answered_from_another_terminal() {
    let session = Background::start(scripted(HELD, COMPLETE));
    session.waits_for("gate_opened");
    assert_eq!(
        session.project.kind("session_started")[0]["presence"],
        "attended"
    );
    let listed = session.project.creel(&["gate", "list"]);
    assert!(
        listed.out.starts_with("1 final delivery: "),
        "{}{}",
        listed.out,
        listed.err
    );
    assert_eq!(
        session
            .project
            .creel(&["gate", "answer", "1", "approve"])
            .code,
        0
    );
    session.ends("complete");
    assert!(session.project.prompts()[1].1.contains("red"));
}

#[test]
fn a_users_message_answers_a_gate() {
    let session = Background::start(scripted("", "  - say: <promise>ESCALATE</promise>\n"));
    session.waits_for("gate_opened");
    let refused = session.project.creel(&["gate", "answer", "1", "send"]);
    assert_eq!(
        (refused.code, refused.err.as_str()),
        (
            1,
            "creel: the message is empty; write it in quotes after the answer\n"
        )
    );
    assert_eq!(
        session
            .project
            .creel(&["gate", "answer", "1", "send", "you may"])
            .code,
        0
    );
    session.ends("complete");
    assert!(session.project.prompts()[1].1.contains("you may"));
}

#[test]
fn a_background_session_has_no_terminal_and_its_own_name() {
    let project = scripted("", UNTIL_GO);
    let ran = project.creel(&["run", "--detach", "--trust"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let name = ran.out.trim_end();
    assert!(
        ran.err.contains(&format!("creel attach {name}")),
        "{}",
        ran.err
    );
    let pid = project
        .read(&format!(".creel/sessions/{name}/pid"))
        .trim()
        .to_owned();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .expect("a name")
        .1
        .split_whitespace()
        .collect();
    assert_eq!(
        (fields[2], fields[3], fields[4]),
        (pid.as_str(), pid.as_str(), "0"),
        "its group, its session, no terminal"
    );
    project.write("go", "");
    until("it ends", || !lives(pid.parse().expect("a number")));
}

#[test]
fn a_background_session_that_cannot_begin_is_reported_at_once() {
    let project = scripted("", COMPLETE);
    assert_eq!(
        project.creel(&["run", "--detach"]).code,
        2,
        "you have not trusted it"
    );
    let broken = Project::with("prompt: GOAL\nagents: { demo: { script: missing.yaml } }\n");
    let ran = broken.creel(&["run", "--detach", "--trust", "-s", "s"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("missing.yaml"), "{}", ran.err);
    let ran = project.creel(&["run", "--detach", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let nowhere = scripted("", COMPLETE).file(".creel/sessions", "a file where a folder should be");
    let ran = nowhere.creel(&["run", "--detach", "--trust", "-s", "s"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains(".creel/sessions"), "{}", ran.err);
}

#[test]
fn a_killed_session_continues_in_the_background() {
    let session = Background::start(scripted(HELD, UNTIL_GO));
    session.waits_for("tool_called");
    kill_process(Pid::from_raw(session.pid).expect("a process"), Signal::KILL)
        .expect("it is there");
    until("it is gone", || !lives(session.pid));
    session.project.write("go", "");
    let ran = session.project.creel(&["resume", "--detach"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "s\n"), "{}", ran.err);
    session.waits_for("gate_opened");
    assert_eq!(
        session.project.creel(&["gate", "answer", "1", "skip"]).code,
        0
    );
    until("it has ended", || {
        session.project.outcome().as_deref() == Some("complete")
    });
}

// Screens

#[test]
fn an_attached_screen_shows_the_whole_session_and_can_answer() {
    let session = Background::start(scripted(HELD, COMPLETE));
    session.waits_for("gate_opened");
    let mut terminal = session.attach();
    await_gate(&terminal, "Finished. ");
    terminal.wait_for_text("red");
    terminal.press("enter");
    terminal.wait_for_status("COMPLETE");
    terminal.wait_for_text("Session started");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
    assert!(
        terminal
            .text()
            .contains("Session complete after 1 iteration"),
        "{}",
        terminal.text()
    );
    session.ends("complete");
    let answered = &session.project.kind("gate_answered")[0];
    assert_eq!(
        (&answered["choice"], &answered["by"]),
        (&"approve".into(), &"tui".into())
    );
}

#[test]
fn leaving_an_attached_screen_leaves_the_session_running() {
    let session = Background::start(scripted("", UNTIL_GO));
    session.waits_for("tool_called");
    let leave: [&dyn Fn(&Terminal); 3] = [
        &|terminal| {
            terminal.press("q");
            terminal.wait_for_text("Leave it running");
            terminal.press("d");
        },
        &|terminal| terminal.signal(Signal::TERM),
        &|terminal| terminal.signal(Signal::HUP),
    ];
    for leave in leave {
        let mut terminal = session.attach();
        terminal.wait_for_status("WORKING");
        leave(&terminal);
        assert_eq!(terminal.end(), 0);
        terminal.is_as_it_was();
        assert!(
            terminal.text().contains("session `s` is still running"),
            "{}",
            terminal.text()
        );
        assert!(lives(session.pid));
    }
    assert!(session.project.kind("stop_requested").is_empty());
    session.project.write("go", "");
    session.ends("complete");
}

#[test]
fn two_screens_show_the_same_session_and_either_can_stop_it() {
    let session = Background::start(scripted("", UNTIL_GO));
    let (mut one, mut two) = (session.attach(), session.attach());
    one.wait_for_status("WORKING");
    two.wait_for_status("WORKING");
    one.press("p");
    two.wait_for_status("pauses after this turn");
    two.press("q");
    two.wait_for_text("Leave it running");
    two.press("y");
    assert_eq!(two.end(), 0);
    one.wait_for_status("STOPPED");
    one.press("q");
    assert_eq!(one.end(), 0);
    one.is_as_it_was();
    session.ends("cancelled");
}

#[test]
fn an_attached_screen_shows_what_a_hook_prints_while_it_runs() {
    let hook = "until [ -e start ] || [ ! -e creel.yaml ]; do sleep 0.02; done; echo halfway there; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
    let session = Background::start(scripted(
        &format!("hooks: {{ stop: [{{ command: '{hook}' }}] }}"),
        COMPLETE,
    ));
    session.waits_for("hook_started");
    let mut terminal = session.attach();
    terminal.wait_for_status("▸ ");
    terminal.press("2 z");
    session.project.write("start", "");
    terminal.wait_for("its output", |shown| {
        shown.has("halfway there") && session.project.kind("hook_finished").is_empty()
    });
    session.project.write("go", "");
    terminal.wait_for_status("COMPLETE");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    session.ends("complete");
}

#[test]
fn an_attached_screen_shows_what_a_running_hook_had_printed_before() {
    let hook = "printf 'one\\ntwo\\n'; until [ -e start ] || [ ! -e creel.yaml ]; do sleep 0.02; done; echo three; \
                until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
    let session = Background::start(scripted(
        &format!("hooks: {{ stop: [{{ command: \"{hook}\" }}] }}"),
        COMPLETE,
    ));
    until("it has printed", || {
        session.project.read(".creel/sessions/s/outputs/run-1.log") == "one\ntwo\n"
    });
    let mut terminal = session.attach();
    terminal.wait_for_status("▸ ");
    terminal.press("2 z");
    terminal.wait_for("what it printed", |shown| {
        shown.has("┃     one") && shown.has("┃     two")
    });
    session.project.write("start", "");
    terminal.wait_for_text("┃     three");
    let shown: Vec<String> = terminal
        .text()
        .lines()
        .filter_map(|line| Some(line.split_once("┃    ")?.1.into()))
        .collect();
    let shown: Vec<&str> = shown
        .iter()
        .filter_map(|line: &String| line.split_whitespace().next().filter(|word| *word != "┃"))
        .collect();
    assert_eq!(shown, ["one", "two", "three"]);
    session.project.write("go", "");
    terminal.wait_for_status("COMPLETE");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    session.ends("complete");
}

#[test]
fn a_second_screen_can_be_attached() {
    let project = scripted(HELD, COMPLETE);
    let mut own = Terminal::run(&project, WIDE);
    await_gate(&own, "Finished. ");
    let mut other = Terminal::open(&project, &["attach", "s"], WIDE);
    await_gate(&other, "Finished. ");
    other.press("2");
    own.wait_for_status("COMPLETE");
    other.wait_for_status("COMPLETE");
    other.press("q");
    assert_eq!(other.end(), 0);
    own.press("q");
    assert_eq!(own.end(), 0);
    assert_eq!(project.kind("pending_skipped").len(), 1);
}

#[test]
fn a_screen_reports_the_death_of_its_session() {
    let session = Background::start(scripted("", UNTIL_GO));
    let mut terminal = session.attach();
    terminal.wait_for_status("WORKING");
    kill_process(Pid::from_raw(session.pid).expect("a process"), Signal::KILL)
        .expect("it is there");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
    assert!(
        terminal
            .text()
            .contains("session `s` is not running any more"),
        "{}",
        terminal.text()
    );
    session.project.write("go", "");
}

#[test]
fn attach_is_refused_without_a_running_session_or_without_a_terminal() {
    let project = scripted("", COMPLETE);
    let ran = project.creel(&["attach"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("a screen needs a terminal"), "{}", ran.err);
    let mut terminal = Terminal::open(&project, &["attach"], WIDE);
    assert_eq!(terminal.end(), 2);
    assert!(
        terminal.text().contains("no session is running"),
        "{}",
        terminal.text()
    );
}

#[test]
fn the_screen_handles_keys_while_the_session_does_not_answer() {
    let session = Background::start(scripted("", UNTIL_GO));
    let mut terminal = Terminal::open(&session.project, &["attach"], WIDE);
    terminal.wait_for_status("WORKING");
    let creel = Pid::from_raw(session.pid).expect("a process");
    kill_process(creel, Signal::STOP).expect("it is there");
    terminal.press("p q");
    terminal.wait_for_text("Leave?");
    // The command arrives when the session continues, and only once.
    kill_process(creel, Signal::CONT).expect("it is there");
    session.waits_for("paused");
    terminal.press("d");
    assert_eq!(terminal.end(), 0);
    assert_eq!(session.project.kind("paused").len(), 1);
    who_leaves_a_silent_session_is_told_what_was_not_sent(&session);
    assert_eq!(session.project.creel(&["stop", "--now"]).code, 0);
    session.ends("cancelled");
}

/// Whether a process is stopped, with all its threads, which stop one by one.
fn is_halted(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .expect("it is there")
        .filter_map(Result::ok);
    let mut stats =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.all(|stat| {
        stat.rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    })
}

#[track_caller]
fn who_leaves_a_silent_session_is_told_what_was_not_sent(session: &Background) {
    let mut terminal = Terminal::open(&session.project, &["attach"], WIDE);
    terminal.wait_for_text("Paused");
    let creel = Pid::from_raw(session.pid).expect("a process");
    kill_process(creel, Signal::STOP).expect("it is there");
    until("it is halted", || is_halted(session.pid));
    terminal.press("p m");
    terminal.wait_for_text("Message to the agent");
    terminal.type_text("Look at the lexer.");
    terminal.press("ctrl-s q");
    terminal.wait_for_text("Leave?");
    terminal.press("d");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
    let text = terminal.text();
    assert!(
        text.contains("creel: not sent: Look at the lexer."),
        "{text}"
    );
    assert!(
        text.contains("the session may have run it or not: unpause"),
        "{text}"
    );
    // What was reported as not sent does not arrive later.
    kill_process(creel, Signal::CONT).expect("it is there");
    session.waits_for("unpaused");
    assert_eq!(session.project.kind("message_queued").len(), 0);
}

/// Runs `creel pending edit 1` with this editor; returns the exit code and the terminal's content.
fn edits(session: &Background, editor: &str) -> (i32, String) {
    let path = session.project.root().join("editor");
    fs::write(&path, format!("#!/bin/sh\n{editor}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = session.project.command(&["pending", "edit", "1"]);
    command
        .env("EDITOR", path)
        .env("TMPDIR", session.project.root());
    let mut terminal = Terminal::start(command, WIDE);
    let code = terminal.end();
    (code, terminal.text().trim().to_owned())
}

/// Files of editors that still exist.
fn sheets(project: &Project) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(project.root())
        .expect("a folder")
        .filter_map(|file| file.ok().map(|file| file.path()));
    files
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect()
}

#[test]
fn a_refused_text_is_kept_and_a_delivered_item_is_not_edited() {
    let waits = "{ pre_iteration: [{ command: 'until [ $CREEL_ITERATION = 1 ] || [ -e on ]; do sleep 0.02; done' }], ";
    let held = HELD.replacen("{ ", waits, 1);
    let project = scripted(
        &held,
        &format!("{UNTIL_GO}{}", UNTIL_GO.replace("-e go ", "-e later ")),
    );
    let session = Background::start(project);
    session.waits_for("prompt_sent");
    session.project.write("go", "");
    session.waits_for("pending_added");
    assert_eq!(
        edits(&session, "true"),
        (0, "creel: you changed nothing".into())
    );
    assert_eq!(
        (
            session.project.kind("pending_edited").len(),
            sheets(&session.project).len()
        ),
        (0, 0)
    );
    // The item is sent to the agent while it is edited.
    let goes = "until [ \"$(grep -c '\"prompt_sent\"' .creel/sessions/s/journal.jsonl)\" = 2 ]; do sleep 0.02; done";
    let editor = format!("stat -c %a \"$1\" > mode; touch on; {goes}; echo 'as a brick' >> \"$1\"");
    let (code, text) = edits(&session, &editor);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("item 1 is already with the agent; your text is in"),
        "{text}"
    );
    let [kept] = &sheets(&session.project)[..] else {
        panic!("{text}")
    };
    assert!(
        fs::read_to_string(kept)
            .expect("a text")
            .ends_with("red\nas a brick\n")
    );
    assert_eq!(session.project.read("mode"), "600\n");
    // Now that this is known, creel does not open the editor.
    assert_eq!(
        edits(&session, "touch opened"),
        (1, "creel: item 1 is already with the agent".into())
    );
    assert!(!session.project.root().join("opened").exists());
    assert_eq!(session.project.creel(&["stop", "--now"]).code, 0);
    session.ends("cancelled");
}

#[test]
fn an_item_is_edited_in_the_users_editor() {
    let project =
        scripted(HELD, COMPLETE).file("editor", "#!/bin/sh\necho 'as a brick' >> \"$1\"\n");
    let editor = project.root().join("editor");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let session = Background::start(project);
    session.waits_for("gate_opened");
    let mut command = session.project.command(&["pending", "edit", "1"]);
    command.env("EDITOR", editor);
    let mut terminal = Terminal::start(command, WIDE);
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    let shown = session.project.creel(&["pending", "show", "1"]);
    assert!(shown.out.ends_with("red\nas a brick\n"), "{}", shown.out);
    assert_eq!(session.project.creel(&["stop", "--now"]).code, 0);
    session.ends("cancelled");
}

#[test]
fn a_disconnected_screen_reconnects_while_the_session_runs() {
    let background = Background::start(scripted("", UNTIL_GO));
    let project = &background.project;
    let folder = SessionsDir::of(&project.root()).folder("s");
    let real = fs::read_to_string(folder.socket_file()).expect("it is told");
    // A proxy between creel and the session closes the first connection that watches.
    let between = project.root().join("between");
    let listener = UnixListener::bind(&between).expect("a socket");
    fs::write(folder.socket_file(), format!("{}\n", between.display())).expect("a file");
    let hang_up = {
        let (folder, real) = (folder.clone(), real.clone());
        move || {
            let mut client = BufReader::new(listener.accept().expect("a client").0);
            let mut session =
                BufReader::new(UnixStream::connect(real.trim_end()).expect("the session"));
            for _ in ["status", "watch"] {
                pass_on(&mut client, &mut session);
                pass_on(&mut session, &mut client);
            }
            fs::write(folder.socket_file(), &real).expect("a file");
        }
    };
    let hang_up = std::thread::spawn(hang_up);
    let mut following = RemoteUpdates::follow(&folder).expect("it runs");
    hang_up.join().expect("both were asked");
    // The proxy has passed on no record.
    until("it has reconnected", || *following.news.borrow() > 0);
    project.write("go", "");
    let tokio = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    tokio.block_on(async { while following.news.changed().await.is_ok() {} });
    let [end] = &project.kind("session_ended")[..] else {
        panic!("it ended")
    };
    assert_eq!(
        end["seq"],
        *following.news.borrow(),
        "the last that was heard of is its end"
    );
}

/// Passes one line on.
fn pass_on(from: &mut BufReader<UnixStream>, to: &mut BufReader<UnixStream>) {
    let mut line = String::new();
    from.read_line(&mut line).expect("a line");
    to.get_mut().write_all(line.as_bytes()).expect("it is read");
}
