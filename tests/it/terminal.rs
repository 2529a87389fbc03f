//! The screen in a real terminal: keys in, a picture out, and the restored terminal afterwards.

use std::{fs, io::Read as _, os::unix::fs::PermissionsExt as _, process::Command};

use creel::tui::terminal::TerminalScreen;
use ratatui::widgets::Widget as _;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{
    notifications::{install, install_creel},
    support::{
        lives,
        project::{Project, eventually_in, until},
        terminal::{Cells, Shown, Terminal},
    },
};

const WIDE: Cells = (120, 40);
const SMALL: Cells = (80, 24);

/// A turn that lasts until the file `go` exists.
const UNTIL_GO: &str = "  - { say: '<promise>COMPLETE</promise>', run: 'echo $$ > turn; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
/// A turn after which the agent has nothing more to do.
pub(crate) const COMPLETE: &str = "  - say: <promise>COMPLETE</promise>\n";

/// A project with a scripted agent.
pub(crate) fn scripted(rest: &str, turns: &str) -> Project {
    Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}"
    ))
    .file(
        "scenario.yaml",
        &format!("turns:\n{turns}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n"),
    )
}

/// Waits until the gate accepts answers.
#[track_caller]
pub(crate) fn await_gate(terminal: &Terminal, title: &str) {
    terminal.wait_for(title, |shown| shown.has(title) && shown.has("enter answer"));
}

/// Leaves a session that has ended.
#[track_caller]
pub(crate) fn leave(terminal: &mut Terminal, outcome: &str) -> i32 {
    let word = match outcome {
        "cancelled" => "STOPPED".to_owned(),
        "unverified" => "NOT VERIFIED".to_owned(),
        other => other.to_uppercase(),
    };
    terminal.wait_for_status(&word);
    terminal.press("q");
    let code = terminal.end();
    terminal.is_as_it_was();
    code
}

// What agents and hooks can reach

#[test]
fn agents_and_hooks_have_no_terminal_to_type_into_or_to_wait_at() {
    let look = |file: &str| {
        format!("if (: </dev/tty) 2>/dev/null; then echo yes >{file}; else echo no >{file}; fi")
    };
    let hooks = format!(
        "hooks: {{ post_iteration: [{{ name: asks, command: {:?} }}, {{ name: program, exec: [./ask] }}] }}\n",
        look("hook")
    );
    let turn = format!(
        "  - {{ say: '<promise>COMPLETE</promise>', run: {:?} }}\n",
        look("agent")
    );
    let project = scripted(&hooks, &turn).file("ask", &format!("#!/bin/sh\n{}\n", look("program")));
    fs::set_permissions(
        project.root().join("ask"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("a file");
    let mut terminal = Terminal::run(&project, SMALL);
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert_eq!(
        ["agent", "hook", "program"].map(|file| project.read(file)),
        ["no\n"; 3]
    );
}

// The demo

#[test]
fn the_demo_can_be_watched_from_start_to_end_by_keyboard_on_a_wide_screen() {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &["demo", "--fast"], WIDE);
    await_gate(&terminal, "Finished. ");
    terminal.press("enter");
    terminal.wait_for_status("COMPLETE");
    terminal.wait_for("all panes", |shown| {
        ["Stream", "Hooks", "Pending", "Retries", "Tasks"]
            .iter()
            .all(|p| shown.has(p))
    });
    terminal.press("esc");
    terminal.wait_for_text("Two words, as it should be");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert!(
        terminal
            .text()
            .contains("Session complete after 1 iteration"),
        "{}",
        terminal.text()
    );
}

#[test]
fn the_demo_can_be_watched_from_start_to_end_by_keyboard_on_a_small_screen() {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &["demo", "--fast"], SMALL);
    terminal.wait_for_text(" 1 Stream  2 Hooks");
    await_gate(&terminal, "Finished. ");
    terminal.press("enter");
    terminal.wait_for_status("COMPLETE");
    terminal.press("2");
    terminal.wait_for_text("✗✗✓");
    terminal.press("3 enter");
    terminal.wait_for_text("✓ word count");
    terminal.press("4");
    terminal.wait_for_text("errors 0 of ");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert!(
        terminal
            .text()
            .contains("Session complete after 1 iteration"),
        "{}",
        terminal.text()
    );
}

#[test]
fn in_the_permission_demo_one_request_is_allowed_and_another_is_not() {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &["demo", "permission", "--fast", "--keep"], SMALL);
    await_gate(&terminal, "Edit greeting.txt");
    terminal.wait_for("the change and the answers", |shown| {
        [
            "-hello",
            "+Hello, world.",
            "1  Yes",
            "2  Always allow this exact request",
            "3  Allow all edits in this project",
            "4  No",
            "5  Cancel the turn",
        ]
        .iter()
        .all(|text| shown.has(text))
    });
    terminal.press("enter");
    await_gate(&terminal, "rm notes.txt");
    terminal.press("down down");
    terminal.wait_for_text("▌3  No ");
    terminal.press("enter");
    terminal.wait_for_text("✗ Rejected: rm notes.txt · “No”");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert!(
        terminal.text().contains(" · 12.4k tokens · $0.07: "),
        "{}",
        terminal.text()
    );
    let folder = fs::read_dir(project.root())
        .expect("a folder")
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let folder = folder
        .into_iter()
        .find(|path| path.join("creel.yaml").exists())
        .expect("it was kept");
    let journal =
        fs::read_to_string(folder.join(".creel/sessions/demo/journal.jsonl")).expect("a journal");
    let answers: Vec<[String; 3]> = journal
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a record"))
        .filter(|record| record["kind"] == "gate_answered")
        .map(|record| {
            ["choice", "option", "by"]
                .map(|field| record[field].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    assert_eq!(
        answers,
        [["allow_once", "once", "tui"], ["reject_once", "no", "tui"]]
    );
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
    assert_eq!(read("greeting.txt"), "Hello, world.\nHow do you do?\n");
    assert!(
        read("notes.txt").contains("the only notes"),
        "it was not removed"
    );
}

// A very long answer

#[test]
fn the_end_of_a_very_long_answer_is_followed_and_what_was_omitted_is_counted() {
    let agent = "yes 'one of very many lines that only fill the screen' | head -c 1600000; echo; echo THE END SO FAR; \
                 until [ -e more ]; do sleep 0.02; done; echo THE NEW END; \
                 until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done; echo \"<promise>COMPLETE</promise>\"";
    let project =
        Project::with("prompt: GOAL\nagent: a\nagents: { a: { command: 'sh agent.sh' } }\n")
            .file("agent.sh", agent);
    let mut terminal = Terminal::run(&project, WIDE);
    terminal.wait_for_text("THE END SO FAR");
    project.write("more", "");
    terminal.wait_for_text("THE NEW END");
    terminal.press("page-up");
    terminal.press("end");
    terminal.wait_for_text("THE NEW END");
    assert!(project.kind("turn_ended").is_empty(), "the turn goes on");
    // Above the live end, the stream says how much is missing.
    terminal.press("/");
    terminal.type_text("omitted");
    terminal.press("enter");
    terminal.wait_for("how much is missing", |shown| {
        shown.has(" kB of this answer omitted; it continues:")
    });
    project.write("go", "");
    assert_eq!(leave(&mut terminal, "complete"), 0);
}

// The final delivery

pub(crate) const TWO_HELD: &str = "hooks: { post_iteration: [{ name: a, command: 'echo red', pipe_output: true }, \
                        { name: b, command: 'echo blue', pipe_output: true }] }";

/// Answers the final delivery of two items, and returns the last prompt.
#[track_caller]
fn deliver(variables: &[(&str, &str)], answer: impl FnOnce(&Terminal)) -> (Project, String) {
    let project = scripted(TWO_HELD, COMPLETE);
    let mut terminal = Terminal::run_with(&project, variables);
    await_gate(&terminal, "Finished. ");
    answer(&terminal);
    assert_eq!(leave(&mut terminal, "complete"), 0);
    let prompts = project.prompts();
    let last = prompts
        .into_iter()
        .next_back()
        .filter(|(reason, _)| reason == "final_delivery");
    (project, last.map(|(_, text)| text).unwrap_or_default())
}

#[test]
fn approving_all_sends_all() {
    let (_, prompt) = deliver(&[], |terminal| terminal.press("enter"));
    assert!(
        prompt.contains("red") && prompt.contains("blue"),
        "{prompt}"
    );
}

#[test]
fn approving_some_sends_only_those() {
    let (project, prompt) = deliver(&[], |terminal| {
        terminal.press("down space");
        terminal.wait_for("one that is left out", |shown| {
            shown.has("☑ a") && shown.has("☐ b")
        });
        terminal.press("enter");
    });
    assert!(
        prompt.contains("red") && !prompt.contains("blue"),
        "{prompt}"
    );
    assert_eq!(project.kind("pending_skipped")[0]["item"], 2);
}

#[test]
fn an_edited_item_is_sent_as_edited() {
    let (project, prompt) = deliver(&[], |terminal| {
        terminal.press("e");
        terminal.wait_for_text("ctrl-s save");
        terminal.type_text(" as a cherry");
        terminal.wait_for_text("red as a cherry");
        terminal.press("ctrl-s");
        terminal.wait_for_text("☑~a");
        terminal.press("enter");
    });
    assert!(
        prompt.contains("red as a cherry") && prompt.contains("blue"),
        "{prompt}"
    );
    assert_eq!(project.kind("pending_edited")[0]["by"], "tui");
}

#[test]
fn skipping_sends_nothing() {
    let (project, prompt) = deliver(&[], |terminal| terminal.press("2"));
    assert_eq!(prompt, "");
    assert_eq!(project.kind("pending_skipped").len(), 2);
    assert_eq!(project.kind("gate_answered")[0]["choice"], "skip");
}

#[test]
fn the_users_editor_has_the_terminal_while_it_runs() {
    let tools = tempfile::tempdir().expect("a folder");
    let editor = tools.path().join("my editor");
    let text = "#!/bin/sh\nprintf 'what shall it be? '\nread -r line\nprintf '%s\\n' \"$line\" >> \"$2\"\n[ \"$1\" = -w ]\n";
    fs::write(&editor, text).expect("a file");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let editor = format!("'{}' -w", editor.display());
    let (_, prompt) = deliver(&[("EDITOR", &editor)], |terminal| {
        terminal.press("E");
        terminal.wait_for_text("what shall it be?");
        terminal.is_as_it_was();
        terminal.type_text("as a brick\r");
        terminal.wait_for_text("☑~a");
        terminal.press("enter");
    });
    assert!(prompt.contains("red\nas a brick"), "{prompt}");
}

/// An editor that writes its process id to `editor` and waits for a line, in its own folder.
fn waiting_editor() -> (tempfile::TempDir, String) {
    let tools = tempfile::tempdir().expect("a folder");
    let editor = tools.path().join("editor");
    let pid = tools.path().join("pid");
    let text = format!(
        "#!/bin/sh\necho $$ > '{}'\nprintf 'what shall it be? '\nread -r line\n",
        pid.display()
    );
    fs::write(&editor, text).expect("a file");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let command = editor.display().to_string();
    (tools, command)
}

#[test]
fn an_interrupt_in_the_users_editor_does_not_end_the_session() {
    let (_tools, editor) = waiting_editor();
    let (_, prompt) = deliver(&[("EDITOR", &editor)], |terminal| {
        terminal.press("E");
        terminal.wait_for_text("what shall it be?");
        terminal.press("ctrl-c");
        terminal.wait_for_text("the text is unchanged");
        terminal.press("enter");
    });
    assert!(prompt.contains("red"), "{prompt}");
}

#[test]
fn a_signal_ends_the_users_editor_and_the_session() {
    for signal in [Signal::TERM, Signal::HUP] {
        let (tools, editor) = waiting_editor();
        // Also with a shell in between: creel has not started the editor itself.
        let editor = format!("echo 'as a brick' >> \"$1\" && {editor}");
        let project = scripted(TWO_HELD, COMPLETE);
        let mut terminal = Terminal::run_with(&project, &[("EDITOR", &editor)]);
        await_gate(&terminal, "Finished. ");
        terminal.press("E");
        terminal.wait_for_text("what shall it be?");
        let pid: i32 = eventually_in(&tools.path().join("pid"))
            .parse()
            .expect("a number");
        terminal.signal(signal);
        assert_eq!(terminal.end(), 130);
        terminal.is_as_it_was();
        assert!(!lives(pid));
        assert_eq!(project.outcome().as_deref(), Some("cancelled"));
        is_reported_once(&terminal, &project);
    }
}

/// The user's text is in a file, and nothing was written over its name on the terminal.
#[track_caller]
fn is_reported_once(terminal: &Terminal, project: &Project) {
    let files = fs::read_dir(project.root())
        .expect("a folder")
        .filter_map(|file| Some(file.ok()?.path()));
    let kept: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    let [kept] = &kept[..] else {
        panic!("{kept:?}")
    };
    assert!(
        fs::read_to_string(kept)
            .expect("a text")
            .ends_with("red\nas a brick\n")
    );
    let bytes = terminal.bytes();
    let last = |text: &str| {
        bytes
            .windows(text.len())
            .rposition(|window| window == text.as_bytes())
    };
    let told = last(&format!("your text is in {}", kept.display()));
    assert!(
        told.is_some() && told > last("\u{1b}[?1049l"),
        "{}",
        terminal.text()
    );
    assert!(
        terminal
            .text()
            .replace('\n', "")
            .contains(&kept.display().to_string()),
        "{}",
        terminal.text()
    );
}

// The retry limit

/// A check that fails until the third turn, with one retry.
pub(crate) const STUBBORN: &str = "max_hook_retries: 1\nretry: { base: 1ms, max: 1ms }\n\
                        hooks: { stop: [{ name: check, command: '[ -e ok ] || { echo not yet >&2; exit 2; }' }] }";
pub(crate) const LATE: &str = "  - say: <promise>COMPLETE</promise>\n  - say: <promise>COMPLETE</promise>\n\
                    \x20 - { say: '<promise>COMPLETE</promise>', run: 'touch ok' }\n";

/// Answers the retry limit gate; returns the project and the exit code.
#[track_caller]
fn at_the_limit(answer: impl FnOnce(&Terminal), outcome: &str) -> (Project, i32) {
    let project = scripted(STUBBORN, LATE);
    let mut terminal = Terminal::run(&project, WIDE);
    await_gate(&terminal, "still fails after");
    assert!(terminal.text().contains("not yet"), "{}", terminal.text());
    answer(&terminal);
    let code = leave(&mut terminal, outcome);
    // The same facts stay in the terminal when the screen is gone.
    let text = terminal.text();
    assert!(
        text.contains("  took ") && text.contains(" · 1 iteration · "),
        "{text}"
    );
    assert!(
        !["forced", "aborted"].contains(&outcome) || text.contains("never passed  check"),
        "{text}"
    );
    assert_eq!(project.outcome().as_deref(), Some(outcome));
    (project, code)
}

#[track_caller]
fn assert_answered(project: &Project, choice: &str) {
    let answered = &project.kind("gate_answered")[0];
    assert_eq!(
        (&answered["choice"], &answered["by"]),
        (&choice.into(), &"tui".into())
    );
}

#[test]
fn at_the_retry_limit_the_user_can_continue() {
    let (project, code) = at_the_limit(|terminal| terminal.press("enter"), "complete");
    assert_answered(&project, "continue");
    let reasons: Vec<String> = project
        .prompts()
        .into_iter()
        .map(|(reason, _)| reason)
        .collect();
    assert_eq!(
        (code, reasons),
        (
            0,
            vec!["iteration".into(), "feedback".into(), "feedback".into()]
        )
    );
}

#[test]
fn at_the_retry_limit_the_user_can_send_a_message() {
    let (project, code) = at_the_limit(
        |terminal| {
            terminal.press("w");
            terminal.wait_for_text("Your own message to the agent");
            terminal.type_text("look at the file ok");
            terminal.press("ctrl-s");
        },
        "complete",
    );
    assert_answered(&project, "send");
    let (reason, text) = project.prompts().pop().expect("a prompt");
    assert_eq!((code, reason.as_str()), (0, "message"));
    assert!(text.contains("look at the file ok"), "{text}");
}

#[test]
fn at_the_retry_limit_the_user_can_ignore_the_hook() {
    let (project, code) =
        at_the_limit(|terminal| terminal.press("down down enter enter"), "forced");
    assert_answered(&project, "ignore");
    assert_eq!((code, project.prompts().len()), (5, 2));
}

#[test]
fn at_the_retry_limit_the_user_can_disable_the_hook() {
    let (project, code) = at_the_limit(|terminal| terminal.press("4 4"), "unverified");
    assert_answered(&project, "disable");
    assert_eq!(project.kind("hook_disabled")[0]["hook"], "check");
    assert_eq!((code, project.prompts().len()), (5, 2));
}

/// Clicks on the first cell of a text.
pub(crate) fn click_on(terminal: &Terminal, text: &str) {
    terminal.wait_for_text(text);
    let shown = terminal.text();
    let (row, line) = shown
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(text))
        .expect("it is visible");
    let column = line.split(text).next().unwrap_or_default().chars().count();
    terminal.type_text(&format!(
        "\u{1b}[<0;{};{}M\u{1b}[<0;{0};{1}m",
        column + 1,
        row + 1
    ));
}

#[test]
fn at_the_retry_limit_the_user_can_answer_by_mouse() {
    let (project, code) = at_the_limit(
        |terminal| {
            click_on(terminal, "Accept as it is");
            terminal.wait_for_text("again accepts it as it is");
            click_on(terminal, "Accept as it is");
        },
        "forced",
    );
    assert_answered(&project, "ignore");
    assert_eq!(code, 5);
}

#[test]
fn a_final_delivery_is_answered_by_mouse_and_by_letter() {
    let (_, prompt) = deliver(&[], |terminal| click_on(terminal, "Send the ticked items"));
    assert!(
        prompt.contains("red") && prompt.contains("blue"),
        "{prompt}"
    );
    let (_, prompt) = deliver(&[], |terminal| terminal.press("n"));
    assert_eq!(prompt, "");
}

/// A hook that prints very much, then waits for `go` and blocks.
const FLOOD: &str = "max_hook_retries: 0\nhooks: { stop: [{ name: flood, timeout: 10m, command: 'seq 1 100000; \
                     until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done; echo the end; exit 2' }] }";

#[test]
fn a_viewer_follows_a_flood_from_its_first_line_and_announces_a_gate() {
    let project = scripted(FLOOD, COMPLETE);
    let mut terminal = Terminal::run(&project, WIDE);
    terminal.wait_for_status("▸ flood");
    terminal.press("2 enter");
    terminal.wait_for("all of it, live", |shown| {
        shown.has("● live · 100,000 lines · ") && shown.has("100000")
    });
    terminal.press("home");
    terminal.wait_for("the first line", |shown| {
        shown.has("line 1 of 100,000 · G follows · ")
    });
    terminal.press("/");
    terminal.type_text("54321");
    terminal.press("enter");
    terminal.wait_for_text("line 54,321 of 100,000");
    terminal.press("G");
    terminal.wait_for_text("● live · 100,000 lines · ");
    project.write("go", "");
    terminal.wait_for("the end, and the gate", |shown| {
        shown.has("exit 2 · 100,001 lines · ")
            && shown.has("the end")
            && shown.has("◆ flood blocks the turn")
            && shown.has("g answer")
    });
    assert!(project.kind("gate_answered").is_empty());
    terminal.press("g");
    await_gate(&terminal, "flood blocks the turn, and it has no retries");
    terminal.press("3 3");
    terminal.wait_for("the viewer again", |shown| {
        shown.has("w wrap") && !shown.has("blocks the turn")
    });
    terminal.press("esc");
    assert_eq!(leave(&mut terminal, "forced"), 5);
}

#[test]
fn at_the_retry_limit_the_user_can_abort_after_confirming() {
    let (project, code) = at_the_limit(
        |terminal| {
            terminal.press("5");
            terminal.wait_for_text("again aborts the session");
            terminal.press("enter");
        },
        "aborted",
    );
    assert_answered(&project, "abort");
    assert_eq!(code, 1);
}

#[test]
fn keys_typed_while_the_gate_opens_do_not_answer_it() {
    let project = scripted(STUBBORN, UNTIL_GO);
    let mut terminal = Terminal::run(&project, WIDE);
    terminal.wait_for_status("WORKING");
    let gate = |shown: &Shown| shown.has("still fails after");
    project.write("go", "");
    // Elsewhere the key goes to the stream; at the gate it is an answer.
    while !terminal.glance(gate) {
        terminal.press("1");
    }
    terminal.press("1");
    await_gate(&terminal, "still fails after");
    assert_eq!(project.kind("gate_answered").len(), 0);
    terminal.press("esc");
    terminal.wait_for_text("The gate is still open; g shows it");
    terminal.wait_for_status("NEEDS YOU");
    terminal.press("g");
    terminal.wait_for_text("still fails after");
    await_gate(&terminal, "still fails after");
    terminal.press("3 3");
    assert_eq!(leave(&mut terminal, "forced"), 5);
}

// Steering

#[test]
fn a_message_waits_for_the_end_of_the_turn() {
    let project = scripted("", UNTIL_GO);
    let mut terminal = Terminal::run(&project, WIDE);
    terminal.wait_for_status("WORKING");
    terminal.press("m");
    terminal.wait_for_text("Message to the agent, sent when the turn ends");
    terminal.type_text("one\rtwo");
    terminal.press("ctrl-s");
    until("the message is queued", || {
        project.kind("message_queued").len() == 1
    });
    assert_eq!(project.kind("message_queued")[0]["text"], "one\ntwo");
    assert_eq!(project.prompts().len(), 1);
    project.write("go", "");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    let (reason, text) = project.prompts().remove(1);
    assert_eq!(reason, "message");
    assert!(text.contains("one\ntwo"), "{text}");
}

#[test]
fn a_long_burst_of_keys_is_read_to_its_end() {
    let project = scripted("", UNTIL_GO);
    let mut terminal = Terminal::run(&project, SMALL);
    terminal.wait_for_status("WORKING");
    terminal.press("m");
    terminal.wait_for_text("Message to the agent, sent when the turn ends");
    let text = "word ".repeat(600);
    // The text and ctrl-s at once, as a terminal without bracketed paste sends them.
    terminal.type_text(&format!("{text}\u{13}"));
    until("the message is queued", || {
        project.kind("message_queued").len() == 1
    });
    assert_eq!(
        project.kind("message_queued")[0]["text"]
            .as_str()
            .map(str::len),
        Some(text.len())
    );
    project.write("go", "");
    assert_eq!(leave(&mut terminal, "complete"), 0);
}

#[test]
fn a_paused_session_sends_nothing_until_it_is_unpaused() {
    let project = scripted("", &UNTIL_GO.replace("<promise>COMPLETE</promise>", "more"));
    let mut terminal = Terminal::run(&project, WIDE);
    terminal.wait_for_status("WORKING");
    terminal.press("p");
    until("it is asked for", || project.kind("paused").len() == 1);
    project.write("go", "");
    terminal.wait_for_status("PAUSED");
    assert_eq!(project.prompts().len(), 1);
    terminal.press("p");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert_eq!(
        (project.kind("unpaused").len(), project.prompts().len()),
        (1, 2)
    );
}

#[test]
fn a_stop_lets_the_iteration_end() {
    let project = scripted("", &UNTIL_GO.replace("<promise>COMPLETE</promise>", "more"));
    let mut terminal = Terminal::run(&project, WIDE);
    terminal.wait_for_status("WORKING");
    terminal.press("S");
    until("it is asked for", || {
        project.kind("stop_requested").len() == 1
    });
    assert_eq!(project.kind("stop_requested")[0]["how"], "after_iteration");
    project.write("go", "");
    assert_eq!(leave(&mut terminal, "cancelled"), 130);
    assert_eq!(project.kind("iteration_completed")[0]["outcome"], "done");
}

#[test]
fn a_turn_can_be_cancelled() {
    let project = scripted("", UNTIL_GO);
    let mut terminal = Terminal::run(&project, WIDE);
    let pid: i32 = eventually_in(&project.root().join("turn"))
        .parse()
        .expect("a number");
    terminal.wait_for_status("WORKING");
    terminal.press("X");
    terminal.wait_for_text("Cancel the turn?");
    terminal.press("y");
    terminal.wait_for_text("Turn 1 was cancelled");
    project.write("go", "");
    terminal.press("p");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert_eq!(project.kind("turn_ended")[0]["stop_reason"], "cancelled");
    assert!(!lives(pid));
}

#[test]
fn leaving_stops_the_session_and_leaves_nothing_running() {
    let project = scripted(
        "hooks: { session_end: [{ command: 'touch bye' }] }",
        UNTIL_GO,
    );
    let mut terminal = Terminal::run(&project, WIDE);
    let pid: i32 = eventually_in(&project.root().join("turn"))
        .parse()
        .expect("a number");
    terminal.press("q");
    terminal.wait_for_text("The session is still running.");
    terminal.press("y");
    assert_eq!(terminal.end(), 130);
    terminal.is_as_it_was();
    assert_eq!(project.outcome().as_deref(), Some("cancelled"));
    assert!(!lives(pid) && project.root().join("bye").exists());
    assert!(
        terminal.text().contains("Session cancelled"),
        "{}",
        terminal.text()
    );
}

// Scrolling and resizing

/// The numbered lines in view.
fn numbers(shown: &Shown) -> Vec<u32> {
    let text = shown.text();
    let after = text
        .lines()
        .filter_map(|line| line.split_once("row "))
        .filter_map(|(_, rest)| rest.get(..4));
    after.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn new_lines_do_not_move_a_scrolled_view() {
    let flood: String = (1..=2_000).map(|n| format!("      row {n:04}\n")).collect();
    let project = scripted(
        "",
        &format!("  - delay: 1ms\n    say: |\n{flood}      <promise>COMPLETE</promise>\n"),
    );
    let mut terminal = Terminal::run(&project, SMALL);
    terminal.wait_for("some lines", |shown| numbers(shown).last() > Some(&100));
    terminal.press("page-up");
    terminal.wait_for_text("scrolled back");
    let page = terminal.look(numbers);
    terminal.press("page-up");
    terminal.wait_for("the page before", |shown| {
        numbers(shown).first() < page.first()
    });
    let kept = terminal.look(numbers);
    terminal.wait_for_status("COMPLETE");
    assert_eq!(terminal.look(numbers), kept);
    assert!(
        kept.last() < Some(&1_900),
        "the flood was over too soon to show anything: {kept:?}"
    );
    terminal.press("end");
    terminal.wait_for("the end", |shown| {
        numbers(shown).last() == Some(&2_000) && !shown.has("scrolled back")
    });
    assert_eq!(leave(&mut terminal, "complete"), 0);
}

#[test]
fn the_screen_is_right_after_many_resizes() {
    let project = scripted("", COMPLETE);
    let mut terminal = Terminal::run(&project, WIDE);
    // The card, and what can no longer be done, may come a frame later than the outcome.
    let is_over = |shown: &Shown| {
        shown.has("esc close") && shown.has("» Complete") && !shown.has("Press a to add one")
    };
    terminal.wait_for("the last frame", |shown| {
        is_over(shown) && !shown.has("live")
    });
    // A blank that was written looks like one that was not.
    let visible = |shown: &Shown| {
        shown
            .text()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    let before = terminal.look(visible);
    for n in 0..50_u16 {
        terminal.resize((1 + n * 37 % 200, 1 + n * 17 % 60));
    }
    terminal.resize((1, 1));
    terminal.resize(WIDE);
    terminal.wait_for("the same screen", |shown| visible(shown) == before);
    terminal.resize((20, 5));
    terminal.wait_for("a word", |shown| {
        shown.text().trim() == "Terminal too small"
    });
    terminal.resize((10, 1));
    terminal.wait_for("as much of it as fits", |shown| shown.has("Terminal"));
    terminal.resize(WIDE);
    terminal.wait_for("the same screen", |shown| visible(shown) == before);
    assert_eq!(leave(&mut terminal, "complete"), 0);
}

/// What was written, without creel's own titles and its question about the background.
#[track_caller]
fn without_own_sequences(written: &str) -> String {
    let mut parts = written.split("\u{1b}]2;");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (title, after) = part.split_once("\u{1b}\\").expect("a title ends");
        assert!(title.contains(" s · "), "{title:?} is not a title of creel");
        rest.push_str(after);
    }
    rest.replacen("\u{1b}]11;?\u{7}", "", 1)
}

#[test]
fn escape_sequences_of_agents_and_hooks_do_not_reach_the_terminal() {
    let evil = r"\e[3J\e[?5h\e]0;owned\a\e]52;c;b3duZWQ=\a\e]8;;http://owned\e\\x\eP1;2q\e\\\u009b?5h\u009d0;owned\u009c";
    let hook =
        r"printf '\033[3J\033[?5h\033]0;owned\007\033]52;c;b3duZWQ=\007\033P1;2q\033\134red'";
    let rest = format!(
        "ui: {{ notify: false }}\nmax_hook_retries: 0\nhooks:\n  stop: [{{ name: \"a{evil}\", command: \"{}; exit 2\" }}]\n  \
         post_iteration: [{{ command: \"{0}\", pipe_output: true }}]",
        hook.replace('\\', "\\\\")
    );
    let turn = format!(
        "  - {{ think: \"{evil}\", say: \"{evil} said <promise>COMPLETE</promise>\", run: \"{}\" }}\n",
        hook.replace('\\', "\\\\")
    );
    let project = scripted(&rest, &turn);
    let mut terminal = Terminal::run(&project, WIDE);
    await_gate(&terminal, "it has no retries");
    terminal.press("3 3");
    await_gate(&terminal, "Finished. ");
    terminal.press("e");
    terminal.wait_for_text("ctrl-s save");
    terminal.press("ctrl-s");
    await_gate(&terminal, "Finished. ");
    terminal.press("enter");
    // The hook judges the turn of the final delivery, too.
    await_gate(&terminal, "1-5 choose");
    terminal.press("3 3");
    terminal.wait_for_status("FORCED");
    terminal.press("2 enter");
    terminal.wait_for_text("w wrap");
    terminal.press("esc");
    terminal.wait_for("the panes", |shown| !shown.has("w wrap"));
    assert_eq!(leave(&mut terminal, "forced"), 5);
    let written = without_own_sequences(&String::from_utf8_lossy(&terminal.bytes()));
    for never in [
        "\u{1b}[3J",
        "\u{1b}[?5h",
        "\u{1b}]",
        "\u{1b}P",
        "\u{9b}",
        "\u{9d}",
        "\u{7}",
    ] {
        assert!(!written.contains(never), "{never:?} reached the terminal");
    }
}

// Notifications

/// Everything that creel wrote, except its question about the background.
fn without_question(terminal: &Terminal) -> String {
    String::from_utf8_lossy(&terminal.bytes()).replacen("\u{1b}]11;?\u{7}", "", 1)
}

#[test]
fn a_gate_notifies_the_user_unless_the_terminal_has_the_focus() {
    // What a terminal sends when it gets or loses the focus. Some send neither.
    for (reports, is_called) in [("\u{1b}[I", false), ("\u{1b}[O", true), ("", true)] {
        let project = scripted(TWO_HELD, UNTIL_GO);
        let mut terminal = Terminal::run(&project, SMALL);
        eventually_in(&project.root().join("turn"));
        terminal.wait_for_status(" WORKING ");
        terminal.type_text(reports);
        // When the screen shows the effect of a later key, it also knows the focus.
        terminal.press("2");
        terminal.wait_for_text("▌ a  ·");
        project.write("go", "");
        await_gate(&terminal, "Finished. ");
        terminal.press("enter");
        assert_eq!(leave(&mut terminal, "complete"), 0);
        let written = without_question(&terminal);
        assert_eq!(
            written.contains("\u{7}\u{1b}]9;creel needs you: "),
            is_called,
            "{reports:?}"
        );
        assert_eq!(written.contains('\u{7}'), is_called, "{reports:?}");
    }
}

#[test]
fn a_gate_that_was_open_before_the_screen_sends_no_notification() {
    let project = scripted(TWO_HELD, COMPLETE);
    assert_eq!(
        project
            .creel(&["run", "--detach", "--trust", "-s", "s"])
            .code,
        0
    );
    until("the gate", || !project.kind("gate_opened").is_empty());
    let mut terminal = Terminal::open(&project, &["attach"], SMALL);
    await_gate(&terminal, "Finished. ");
    terminal.press("enter");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert!(!without_question(&terminal).contains('\u{7}'));
}

#[test]
fn inside_tmux_the_notification_is_wrapped_for_the_terminal_outside() {
    let project = scripted(TWO_HELD, UNTIL_GO);
    let mut terminal = Terminal::run_with(&project, &[("TMUX", "/tmp/tmux,1,0")]);
    terminal.wait_for_status(" WORKING ");
    project.write("go", "");
    await_gate(&terminal, "Finished. ");
    terminal.press("enter");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    let written = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(written.contains("\u{7}\u{1b}Ptmux;\u{1b}\u{1b}]9;creel needs you: "));
}

#[test]
fn in_wsl_a_gate_is_shown_on_the_windows_desktop() {
    let project = scripted(TWO_HELD, UNTIL_GO);
    install_creel(&project);
    let shown = project.temp_dir().join("shown");
    let kept = shown.display();
    install(
        &project,
        "powershell.exe",
        &format!(
            "#!/bin/sh\nprintf '%s|' \"$1\" \"$WSLENV\" \"$CREEL_NOTICE\" > '{kept}.part'\nmv '{kept}.part' '{kept}'\n"
        ),
    );
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", project.temp_dir().join("bin").display());
    let variables = [
        ("PATH", path.as_str()),
        ("WSL_DISTRO_NAME", "Debian"),
        ("WSLENV", "WT_SESSION"),
        ("SSH_CONNECTION", ""),
    ];
    let mut terminal = Terminal::run_with(&project, &variables);
    terminal.wait_for_status(" WORKING ");
    project.write("go", "");
    await_gate(&terminal, "Finished. ");
    until("the notification", || shown.exists());
    terminal.press("enter");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    let text = fs::read_to_string(&shown).expect("a text");
    assert!(
        text.starts_with("-NoProfile|CREEL_NOTICE:WT_SESSION|creel needs you: "),
        "{text}"
    );
    // The bell, and no sequence that shows the same text again.
    let written = without_question(&terminal);
    assert!(written.contains('\u{7}') && !written.contains("]9;") && !written.contains("]777;"));
}

#[test]
fn a_text_is_copied_with_the_terminals_own_sequence() {
    let project = scripted(TWO_HELD, COMPLETE);
    let mut terminal = Terminal::run(&project, SMALL);
    await_gate(&terminal, "Finished. ");
    terminal.press("esc");
    terminal.wait_for_text("The gate is still open");
    terminal.press("3 y");
    terminal.wait_for_text("Copied ");
    terminal.press("g");
    await_gate(&terminal, "Finished. ");
    terminal.press("enter");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert!(String::from_utf8_lossy(&terminal.bytes()).contains("\u{1b}]52;c;"));
}

#[test]
fn a_users_keys_apply_and_a_conflict_is_reported() {
    let project = scripted("", COMPLETE);
    let keys = |text: &str| {
        let folder = project.config_dir().join("creel");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("keymap.yaml"), text).expect("a file");
    };
    keys("global: { quit: [Q] }");
    let mut terminal = Terminal::run(&project, SMALL);
    terminal.wait_for_status("COMPLETE");
    terminal.wait_for_text("Q leave");
    terminal.press("q Q");
    assert_eq!(terminal.end(), 0);
    keys("global: { zoom: [q], qiut: [x] }");
    let mut terminal = Terminal::open(&project, &["replay", "s"], (120, 24));
    terminal
        .wait_for_text("unknown action `qiut` in `global` and 1 more (`creel check` lists them)");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    let checked = project.creel(&["check"]).out;
    for mistake in [
        "unknown action `qiut` in `global`",
        "`q` in `global` means both `zoom` and `quit`",
    ] {
        assert!(checked.contains(mistake), "{checked}");
    }
}

// The terminal afterwards

#[test]
fn a_signal_stops_the_session_and_restores_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let project = scripted("", UNTIL_GO);
        let mut terminal = Terminal::run(&project, WIDE);
        let pid: i32 = eventually_in(&project.root().join("turn"))
            .parse()
            .expect("a number");
        terminal.wait_for_status("WORKING");
        assert_ne!(terminal.settings(), terminal.before);
        terminal.signal(signal);
        assert_eq!(terminal.end(), 130);
        terminal.is_as_it_was();
        assert_eq!(project.outcome().as_deref(), Some("cancelled"));
        assert!(!lives(pid));
    }
}

/// The state of a process, as the kernel abbreviates it.
fn process_state(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')
        .map(|(_, rest)| rest.trim_start().chars().take(1).collect())
}

#[test]
fn the_screen_is_the_same_after_a_suspension() {
    let line = "x".repeat(72);
    let project = scripted(
        "",
        &format!("  - say: \"{line}\\n<promise>COMPLETE</promise>\"\n"),
    );
    let creel = project.command(&["run", "--trust", "-s", "s"]);
    // As in an interactive shell: only there is a program stopped instead of ignoring the signal.
    let job = format!(
        "set -m; '{}' run --trust -s s; echo back in the shell; read -r line; fg; read -r line; fg; echo code $?",
        creel.get_program().display()
    );
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(job).current_dir(project.root());
    for (name, value) in creel.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut terminal = Terminal::start(shell, WIDE);
    terminal.wait_for_status("COMPLETE");
    // A blank that was drawn looks like a cell that was not.
    let visible = |shown: &Shown| {
        shown
            .text()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    let before = terminal.look(visible);
    terminal.press("ctrl-z");
    terminal.wait_for_text("back in the shell");
    terminal.is_as_it_was();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", terminal.pid()))
        .expect("a shell");
    assert_eq!(
        process_state(children.trim()).as_deref(),
        Some("T"),
        "{children}"
    );
    terminal.press("enter");
    terminal.wait_for("the same screen", |shown| visible(shown) == before);
    assert_ne!(terminal.settings(), terminal.before);
    terminal.press("ctrl-z");
    terminal.wait_for("the shell", |shown| !shown.screen().alternate_screen());
    until("it is stopped", || {
        process_state(children.trim()).as_deref() == Some("T")
    });
    terminal.resize(SMALL);
    terminal.press("enter");
    terminal.wait_for("the other size", |shown| {
        shown.has(" 1 Stream ") && shown.has(&format!("┃  ▎ {line}"))
    });
    terminal.press("q");
    terminal.end();
    terminal.is_as_it_was();
    assert!(terminal.text().contains("code 0"), "{}", terminal.text());
}

#[test]
fn a_stop_signal_to_either_process_stops_both_and_the_shell_continues_them() {
    for target in ["the parent", "the session", "both"] {
        let project = scripted("", UNTIL_GO);
        let creel = project.command(&[]);
        // The shell says when it has the terminal, and continues the job when a line is typed.
        let job = "set -m; \"$0\" run --trust -s s; echo back in the shell; read -r line; fg; echo code $?";
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(job)
            .arg(creel.get_program())
            .current_dir(project.root());
        shell
            .envs(
                creel
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env_remove("CREEL_SESSION");
        let mut terminal = Terminal::start(shell, WIDE);
        terminal.wait_for_status("WORKING");
        let session = project.read(".creel/sessions/s/pid").trim().to_owned();
        let parent = fs::read_to_string(format!("/proc/{0}/task/{0}/children", terminal.pid()))
            .expect("a shell");
        let parent = parent.trim().to_owned();
        assert_ne!(parent, session);
        let [of_parent, of_session] = [&parent, &session]
            .map(|pid| Pid::from_raw(pid.parse().expect("a number")).expect("a process"));
        match target {
            "the parent" => kill_process(of_parent, Signal::TSTP),
            "the session" => kill_process(of_session, Signal::TSTP),
            _ => kill_process_group(of_parent, Signal::TSTP),
        }
        .expect("it is there");
        terminal.wait_for_text("back in the shell");
        terminal.is_as_it_was();
        let are = |wanted: fn(&str) -> bool| {
            [&parent, &session]
                .iter()
                .all(|pid| process_state(pid).is_some_and(|state| wanted(&state)))
        };
        until("both are stopped", || are(|state| state == "T"));
        terminal.press("enter");
        terminal.wait_for_status("WORKING");
        assert_ne!(terminal.settings(), terminal.before);
        until("both run again", || are(|state| state != "T"));
        project.write("go", "");
        terminal.wait_for_status("COMPLETE");
        terminal.press("q");
        terminal.end();
        assert!(
            terminal.text().contains("code 0"),
            "{target}: {}",
            terminal.text()
        );
    }
}

// A panic. It must come from creel's own code, so these tests run the screen in a process of their
// own and panic there. What becomes of the session when its process dies is tested with killed
// processes.

/// Names the screen that [`screen_that_panics`] opens: a thread of it panics, or another one.
const PANIC_IN: &str = "CREEL_TEST_PANIC_IN";

/// The process that panics: this test program, which runs only [`screen_that_panics`].
fn screen_that_panics_in(thread: &str) -> Terminal {
    let mut program = Command::new(std::env::current_exe().expect("this test"));
    program
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "terminal::screen_that_panics",
        ])
        .env(PANIC_IN, thread);
    Terminal::start(program, WIDE)
}

#[test]
#[ignore = "runs in a terminal, as a part of the next tests"]
fn screen_that_panics() {
    let Ok(thread) = std::env::var(PANIC_IN) else {
        return;
    };
    let mut screen =
        TerminalScreen::open(true, Some("/where/the/log/is".into())).expect("a terminal");
    let mut show = |text: &str| {
        screen
            .draw(|frame| text.render(frame.area(), frame.buffer_mut()))
            .expect("it is shown");
    };
    show("before the panic");
    assert_ne!(thread, "its own", "the screen broke");
    std::thread::spawn(|| panic!("something else broke"))
        .join()
        .expect_err("it panicked");
    show("after the panic ");
    std::io::stdin().read_exact(&mut [0]).expect("a key");
}

#[test]
fn after_a_panic_of_the_screen_the_terminal_is_restored_and_the_message_names_the_log() {
    let mut terminal = screen_that_panics_in("its own");
    assert_eq!(terminal.end(), 101);
    terminal.is_as_it_was();
    let text = terminal.text().replace('\n', "");
    assert!(text.contains("the screen broke"), "{text}");
    assert!(text.contains("see its log in /where/the/log/is"), "{text}");
}

#[test]
fn a_panic_of_another_thread_leaves_the_screen_alone() {
    let mut terminal = screen_that_panics_in("another");
    terminal.wait_for_text("after the panic");
    assert!(!String::from_utf8_lossy(&terminal.bytes()).contains("something else broke"));
    assert!(terminal.look(|shown| shown.screen().alternate_screen()));
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
}

// Replay, trust

#[test]
fn a_past_session_can_be_watched_again() {
    let project = scripted(STUBBORN, LATE);
    assert_eq!(project.run().code, 5);
    let records = project.records().len();
    let mut terminal = Terminal::open(&project, &["replay", "s"], WIDE);
    terminal.wait_for_status("replay ");
    terminal.press("space");
    // The replay may have ended before it was paused; then the jumps go back first.
    terminal.wait_for_status("paused");
    for _ in 0..records {
        terminal.press("h");
    }
    terminal.wait_for("the beginning", |shown| {
        shown.has("Session started") && !shown.has("ITERATION 1")
    });
    terminal.press("l l l");
    terminal.wait_for_text("ITERATION 1");
    terminal.press("]");
    terminal.wait_for_status("iteration 1/");
    terminal.press("e");
    terminal.wait_for_text("stop: check blocked");
    terminal.press("e e");
    terminal.wait_for_text("Retry limit reached");
    terminal.press("h");
    terminal.wait_for("a step back", |shown| !shown.has("Retry limit reached"));
    terminal.press("+ + + + + + + + space");
    terminal.wait_for_status("FORCED");
    terminal.wait_for_status("paused");
    terminal.press("m");
    terminal.wait_for_text("This is a replay");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
    assert_eq!(project.records().len(), records);
}

#[test]
fn a_new_config_runs_nothing_before_the_user_has_agreed() {
    let project = scripted(
        "hooks: { session_start: [{ command: 'touch ran' }] }",
        COMPLETE,
    );
    let mut terminal = Terminal::open(&project, &["run", "-s", "s"], WIDE);
    terminal.wait_for_text("[y/N]");
    assert!(
        terminal.text().contains("session_start: touch ran"),
        "{}",
        terminal.text()
    );
    terminal.press("n enter");
    assert_eq!(terminal.end(), 2);
    assert!(
        terminal.text().contains("nothing has run"),
        "{}",
        terminal.text()
    );
    assert!(!project.root().join("ran").exists());
    let mut terminal = Terminal::open(&project, &["run", "-s", "s"], WIDE);
    terminal.wait_for_text("[y/N]");
    terminal.press("y enter");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    assert!(project.root().join("ran").exists());
}
