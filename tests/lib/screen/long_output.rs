//! Output that is too long to keep: every place counts its lines alike, and the viewer shows all of
//! it.

use crate::support::{
    samples,
    screen::Screen,
    world::{Answer, Ran, Script, World, blocks},
};
use creel::{
    engine::{
        event::{Event, HookEvent, RetryEvent},
        gate::kind::{GateChoice, GateKind},
        hooks::point::HookPoint,
    },
    process::{
        output::{self, OutputCapture, SpoolFile},
        run::OutputStream,
    },
    text::printed_lines,
    tui::{
        modals::viewer::{RunOutput, ViewerModal},
        request::{ScreenEvent, ScreenRequest},
    },
};

const LINES: usize = 100_101;
const SMALL: (u16, u16) = (80, 24);

/// What creel keeps of an output of [`LINES`] lines, captured like the output of this run. The
/// times in it change.
fn kept(run: usize) -> &'static str {
    let mut capture = OutputCapture::new(
        16 * 1024,
        Some((
            std::env::temp_dir().join("creel-unused"),
            format!("outputs/run-{run}.log"),
        )),
        0,
    );
    for n in 1..=LINES {
        capture.push(
            OutputStream::Stderr,
            format!("line {n} of the log\n").as_bytes(),
        );
    }
    Box::leak(capture.finish().stderr.into_boxed_str())
}

fn long_run(run: usize) -> Ran {
    blocks(kept(run))
}

/// A hook that prints too much, three times, up to the retry limit.
fn at_the_limit() -> World {
    let mut world = samples::at_gate(
        Script::new()
            .hook(
                HookPoint::Stop,
                "tests",
                [long_run(1), long_run(2), long_run(3)],
            )
            .plan(|plan| plan.max_hook_retries = 2)
            .agent([Answer::Says("I think that it works.")])
            .attended(&[(GateKind::RetryLimit, GateChoice::Continue)]),
    );
    for event in &mut world.events {
        if let Event::Hook(HookEvent::Finished(finished)) = event {
            finished.omitted_bytes = 1_000_000;
            finished.file = Some("outputs/run.log".to_owned());
        }
    }
    world
}

#[test]
fn the_kept_text_says_how_many_lines_were_left_out() {
    let text = kept(1);
    assert_eq!(printed_lines(text), LINES);
    assert!(text.lines().count() < 2_000, "{}", text.lines().count());
    assert!(
        text.contains(" lines, ") && text.contains(" left out"),
        "{text}"
    );
}

#[test]
fn identical_long_runs_count_as_no_progress() {
    let world = at_the_limit();
    let counted: Vec<bool> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Retry(RetryEvent::Counted { no_progress, .. }) => Some(*no_progress),
            _ => None,
        })
        .collect();
    assert_eq!(counted, [false, true]);
}

#[test]
fn no_equality_is_claimed_for_output_that_was_left_out() {
    let mut screen = Screen::of(&at_the_limit(), SMALL).armed();
    let frame = screen.frame();
    assert_eq!(
        frame.lines().filter(|line| line.contains(" = ║")).count(),
        0,
        "{frame}"
    );
    screen.press("esc 4");
    let frame = screen.frame();
    assert!(
        frame.contains("▌ 2  00:00  ") && !frame.contains("00:00  = "),
        "{frame}"
    );
    screen.press("enter");
    let frame = screen.frame();
    assert!(
        frame.contains("No differences in what creel kept; it left out a part of the output"),
        "{frame}"
    );
}

#[test]
fn the_stream_and_the_gate_count_the_same_lines() {
    let mut screen = Screen::of(&at_the_limit(), SMALL).armed();
    let gate = screen.frame();
    assert!(gate.contains("–100,101 of 100,101"), "{gate}");
    for _ in 0..400 {
        screen.press("page-up");
        if screen.frame().contains(" left out") {
            break;
        }
    }
    let gate = screen.frame();
    assert!(gate.contains(" lines left out, see the"), "{gate}");
    screen.press("esc k k k k");
    let stream = screen.frame();
    assert!(
        stream.contains("… 100,089 more lines"),
        "12 lines are shown:\n{stream}"
    );
}

#[test]
fn enter_opens_the_whole_output_in_the_viewer() {
    let mut screen = Screen::of(&at_the_limit(), SMALL).armed();
    screen.press("esc");
    let mut cursor = || {
        screen.press("E");
        screen
            .model
            .frame
            .lines
            .first()
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    while !cursor().contains("stop: tests blocked") {}
    let opened = screen.press("enter");
    let [ScreenRequest::ReadOutput(RunOutput { file, reason, .. })] = opened.as_slice() else {
        panic!("{opened:?}")
    };
    assert_eq!(file.as_deref(), Some("outputs/run.log"));
    assert!(reason.is_some(), "it failed");
    assert_eq!(
        screen.press("enter"),
        [],
        "it was closed, and opens again in the stream first"
    );
    assert!(screen.frame().contains("more lines"), "{}", screen.frame());
}

#[test]
fn enter_and_a_click_open_a_running_hook_from_the_stream() {
    let world = samples::hook_runs();
    let run = world.jobs[0].run;
    for by_click in [false, true] {
        let mut screen = Screen::of(&world, SMALL);
        let opened = if by_click {
            screen.click_on("stop: cargo test")
        } else {
            screen.press("enter")
        };
        let [
            ScreenRequest::ReadOutput(RunOutput {
                live, reason: None, ..
            }),
        ] = opened.as_slice()
        else {
            panic!("{opened:?}")
        };
        assert_eq!(*live, Some(run));
    }
}

#[test]
fn the_viewer_of_a_failed_run_opens_at_the_reason() {
    let text: String = (1..=300)
        .map(|n| {
            if n == 120 {
                "error: no such value\n".into()
            } else {
                format!("line {n}\n")
            }
        })
        .collect();
    let opened = |reason: &str, earlier: &str| {
        let mut screen = Screen::of(&samples::works(), SMALL);
        let viewer = ViewerModal::coloured("run 1", &text, "")
            .followed_by(earlier)
            .opened_at(reason.to_owned());
        screen.send(ScreenEvent::Read(viewer));
        screen.frame()
    };
    let frame = opened("error: no such value", "");
    assert!(
        frame
            .lines()
            .nth(3)
            .is_some_and(|line| line.contains("error: no such value")),
        "{frame}"
    );
    assert!(frame.contains("line 118 of 300"), "{frame}");
    let frame = opened("something else", "\n── run 1 ──\nolder");
    assert!(
        frame.contains("line 300") && !frame.contains("older"),
        "the end of this run:\n{frame}"
    );
    assert!(
        frame.contains(" of 300"),
        "the earlier runs do not count:\n{frame}"
    );
}

#[test]
fn the_end_of_an_output_is_known_after_its_file_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("outputs/turn-1.log");
    let mut spool = SpoolFile::new(file.clone(), "turn-1.log".into(), 10);
    assert!(!spool.is_full());
    spool.write(b"0123456789abc");
    assert!(spool.is_full());
    assert_eq!(output::live_end(&file), None);
    output::keep_live_end(&file, 30, b"torn\nlast lines\nend").expect("written");
    output::keep_live_end(&file, 31, b"torn\nlast lines\nend!").expect("written");
    assert_eq!(
        output::live_end(&file),
        Some((31, b"last lines\nend!".to_vec()))
    );
    output::remove_live_end(&file);
    output::remove_live_end(&file);
    assert_eq!(output::live_end(&file), None);
}
