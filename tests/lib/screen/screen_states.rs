//! Every state of a session, as the header shows it: one chip per state, at every size and in every
//! theme.

use expect_test::expect_file;

use crate::support::{
    frame_sheet::{SIZES, sheet},
    samples,
    screen::Screen,
    task_samples,
    world::World,
};
use creel::{
    config::{MotionMode, ThemeName},
    engine::{
        event::{Event, SessionEvent, SessionOutcome},
        gate::kind::GateKind,
        ids::TurnId,
    },
    present::{
        session_chip::ChipRole,
        style::{SPINNER, SignSet},
    },
    tui::{theme::ScreenTheme, view},
};

/// A state with the chip that it shows, some milliseconds after the last record.
struct ShownState {
    name: &'static str,
    world: World,
    later: u64,
    chip: &'static str,
    role: ChipRole,
}

impl ShownState {
    fn screen(&self, size: (u16, u16), theme: ScreenTheme) -> Screen {
        let mut screen = Screen::in_looks(&self.world, size, theme);
        screen.later(self.later);
        screen
    }
}

/// A session that ended in this way.
fn ended(outcome: SessionOutcome, because: &str) -> World {
    let mut world = samples::ended();
    for event in &mut world.events {
        if let Event::Session(SessionEvent::Ended {
            outcome: ended,
            reason,
            ..
        }) = event
        {
            (*ended, *reason) = (outcome, because.to_owned());
        }
    }
    world
}

/// The states of a session in which no gate is open and that has not ended.
fn running_states() -> Vec<ShownState> {
    let state = |name, world, later, chip, role| ShownState {
        name,
        world,
        later,
        chip,
        role,
    };
    vec![
        state(
            "working",
            samples::first_turn(),
            12_000,
            "WORKING 0:14",
            ChipRole::Working,
        ),
        state(
            "quiet",
            samples::first_turn(),
            40_000,
            "WORKING 0:42 · quiet 40s",
            ChipRole::Working,
        ),
        state(
            "hook-runs",
            samples::hook_runs(),
            12_000,
            "▸ cargo test 12s of 60s",
            ChipRole::Hook,
        ),
        state(
            "sent-back",
            samples::sent_back_twice(),
            2_000,
            "WORKING 0:02",
            ChipRole::Working,
        ),
        state(
            "tasks",
            task_samples::planned(),
            2_000,
            "WORKING 0:",
            ChipRole::Working,
        ),
        state(
            "talkative",
            samples::talkative(),
            2_000,
            "WORKING 0:",
            ChipRole::Working,
        ),
        state(
            "submit-repair",
            samples::repair(),
            2_000,
            "WORKING 0:",
            ChipRole::Working,
        ),
        state(
            "backoff",
            samples::backoff(),
            0,
            "⏳ retry in 18s",
            ChipRole::Waiting,
        ),
        state(
            "usage-limit",
            samples::limited(),
            0,
            "⏳ limit resets 01:00",
            ChipRole::Waiting,
        ),
        state(
            "workflow",
            samples::workflow(),
            2_000,
            "WORKING 0:",
            ChipRole::Working,
        ),
        state("paused", samples::paused(), 0, "⏸ PAUSED", ChipRole::Paused),
        state(
            "watching",
            samples::watching(),
            20_000,
            "◷ WAITING FOR REVIEW · checked 20s ago",
            ChipRole::Waiting,
        ),
    ]
}

/// One state for each kind of gate.
fn gates() -> Vec<ShownState> {
    let scene = |kind| match kind {
        GateKind::FinalDelivery => (
            "gate-final-delivery",
            samples::final_delivery(),
            "◆ NEEDS YOU: final delivery",
        ),
        GateKind::Delivery => (
            "gate-delivery",
            samples::delivery(),
            "◆ NEEDS YOU: delivery",
        ),
        GateKind::Review => ("gate-review", samples::news(), "◆ NEEDS YOU: review"),
        GateKind::RetryLimit => (
            "gate-retry-limit",
            samples::retry_limit(),
            "◆ NEEDS YOU: retry limit",
        ),
        GateKind::Escalation => (
            "gate-escalation",
            samples::escalation(),
            "◆ NEEDS YOU: escalation",
        ),
        GateKind::Errors => ("gate-errors", samples::errors(), "◆ NEEDS YOU: errors"),
        GateKind::BrokenHook => (
            "gate-broken-hook",
            samples::broken_hook(),
            "◆ NEEDS YOU: broken hook",
        ),
        GateKind::Permission => (
            "gate-permission",
            samples::permission(),
            "◆ NEEDS YOU: permission",
        ),
        GateKind::Question => (
            "gate-question",
            samples::question(),
            "◆ NEEDS YOU: question",
        ),
        GateKind::Budget => ("gate-budget", samples::budget(), "◆ NEEDS YOU: budget"),
        GateKind::UsageLimit => (
            "gate-usage-limit",
            samples::usage_limit(),
            "◆ NEEDS YOU: usage limit",
        ),
        GateKind::Tampered => (
            "gate-tampered",
            samples::tampered(),
            "◆ NEEDS YOU: tampered",
        ),
        GateKind::Submit => ("gate-submit", samples::submit_held(), "◆ NEEDS YOU: submit"),
        GateKind::Merge => ("gate-merge", samples::merge_held(), "◆ NEEDS YOU: merge"),
        GateKind::Proposal => (
            "gate-proposal",
            samples::proposal(),
            "◆ NEEDS YOU: proposal",
        ),
    };
    // Each gate accepts answers by then.
    let state = |kind| {
        let (name, world, chip) = scene(kind);
        ShownState {
            name,
            world,
            later: 600,
            chip,
            role: ChipRole::NeedsUser,
        }
    };
    let prompt = ShownState {
        name: "gate-prompt",
        world: samples::prompt_kept_back(),
        ..state(GateKind::Escalation)
    };
    let tests = ShownState {
        name: "gate-weaker-tests",
        world: samples::weaker_tests(),
        ..state(GateKind::Tampered)
    };
    GateKind::ALL
        .into_iter()
        .map(state)
        .chain([prompt, tests])
        .collect()
}

fn ends() -> Vec<ShownState> {
    use SessionOutcome::{Aborted, Cancelled, Complete, Escalated, Failed, Forced, Limit};
    let end = |name, outcome, reason, chip, role| {
        let world = ended(outcome, reason);
        ShownState {
            name,
            world,
            later: 0,
            chip,
            role,
        }
    };
    vec![
        end(
            "end-complete",
            Complete,
            "All checks pass",
            "✓ COMPLETE 0:",
            ChipRole::Complete,
        ),
        end(
            "end-forced",
            Forced,
            "the user accepted the turn",
            "⚠ FORCED 0:",
            ChipRole::Forced,
        ),
        end(
            "end-failed",
            Failed,
            "connection reset by the server",
            "✗ FAILED 0:",
            ChipRole::Failed,
        ),
        end(
            "end-stopped",
            Cancelled,
            "the user stopped it",
            "■ STOPPED 0:",
            ChipRole::Stopped,
        ),
        end("end-limit", Limit, "", "⊘ LIMIT 0:", ChipRole::Limit),
        end(
            "end-escalated",
            Escalated,
            "the design is unclear",
            "✗ ESCALATED 0:",
            ChipRole::Failed,
        ),
        end(
            "end-aborted",
            Aborted,
            "the user aborted it",
            "■ ABORTED 0:",
            ChipRole::Stopped,
        ),
    ]
}

fn states() -> Vec<ShownState> {
    running_states()
        .into_iter()
        .chain(gates())
        .chain(ends())
        .collect()
}

fn dark() -> ScreenTheme {
    ScreenTheme::chosen(ThemeName::Dark, false)
}

#[test]
fn every_state_shows_its_chip_at_every_size() {
    for state in states() {
        for size in SIZES {
            let mut screen = state.screen(size, dark());
            let frame = screen.frame();
            let header = frame.lines().next().unwrap_or_default();
            assert!(
                header.contains(state.chip),
                "{} at {size:?} shows no `{}`:\n{frame}",
                state.name,
                state.chip
            );
            assert!(
                header.contains("iteration "),
                "{} at {size:?}:\n{frame}",
                state.name
            );
            let session = screen.model.session.as_ref().expect("a session");
            assert_eq!(
                view::chip(&screen.model, session).role,
                state.role,
                "{}",
                state.name
            );
        }
    }
}

#[test]
fn lasting_facts_are_visible_at_every_size() {
    let mut world = samples::sent_back_twice();
    world.command(crate::support::world::completes("7", "Write the lexer"));
    for size in SIZES {
        let frame = Screen::of(&world, size).frame();
        for fact in ["WORKING", "iteration 1/20", "●●○○○", "cargo test"] {
            assert!(frame.contains(fact), "no `{fact}` at {size:?}:\n{frame}");
        }
    }
    let frame = Screen::of(&samples::delivery(), (60, 16)).frame();
    assert!(frame.contains("3 pending"), "{frame}");
    let tasks = task_samples::planned();
    for size in SIZES {
        let frame = Screen::of(&tasks, size).frame();
        assert!(frame.contains("1/7"), "no tasks at {size:?}:\n{frame}");
    }
}

#[test]
fn the_frames_and_the_styles_of_every_state() {
    for state in states() {
        let name = format!("../../frames/states/{}.txt", state.name);
        expect_file![name].assert_eq(&sheet(|size, theme| state.screen(size, theme)));
    }
}

/// Makes a screen of a size, in a theme.
type MakeScreen<'a> = dyn Fn((u16, u16), ScreenTheme) -> Screen + 'a;

/// A screen in a theme, after these keys.
fn pressed(world: &World, size: (u16, u16), theme: ScreenTheme, keys: &str) -> Screen {
    let mut screen = Screen::in_looks(world, size, theme).armed();
    screen.press(keys);
    screen
}

#[test]
fn the_frames_and_the_styles_of_what_lies_over_the_panes() {
    let tasks = task_samples::planned();
    let with_mistakes = |mut screen: Screen| {
        screen.type_text("Write the manual");
        screen.press("tab tab tab tab");
        screen.type_text("task_1, tsk_5");
        screen.press("ctrl-s");
        screen
    };
    let first = samples::first_turn();
    let limit = samples::retry_limit();
    let of = |world, keys| move |size, theme| pressed(world, size, theme, keys);
    let states: [(&str, &MakeScreen<'_>); 9] = [
        ("task-new", &|size, theme| {
            with_mistakes(pressed(&tasks, size, theme, "5 a"))
        }),
        ("task-change", &of(&tasks, "5 j e tab tab tab right")),
        (
            "task-details",
            &of(&tasks, "5 j enter shift-down shift-down"),
        ),
        ("help", &of(&first, "?")),
        ("palette", &of(&first, ":")),
        ("quit", &of(&first, "q")),
        ("message", &of(&first, "m")),
        ("gate-write", &of(&limit, "2")),
        ("gate-confirm", &of(&limit, "3")),
    ];
    for (name, state) in states {
        let name = format!("../../frames/states/over-{name}.txt");
        expect_file![name].assert_eq(&sheet(state));
    }
}

#[test]
fn a_gate_that_the_policy_answered_does_not_look_like_one_for_the_user() {
    let world = samples::retry_limit_by_policy();
    let frames = sheet(|size, theme| pressed(&world, size, theme, "esc G"));
    assert!(!frames.contains("NEEDS YOU"), "{frames}");
    expect_file!["../../frames/states/gate-by-policy.txt"].assert_eq(&frames);
}

#[test]
fn the_end_of_an_answer_that_is_too_long_for_the_journal_is_shown() {
    let world = samples::first_turn();
    let frames = sheet(|size, theme| {
        let mut screen = Screen::in_looks(&world, size, theme);
        let end = b"and the last of the nested lists is read, too.";
        let now = screen.model.now;
        let stream = &mut screen.model.stream;
        assert!(stream.show_live_end(TurnId(1), now, 90_000_000, end));
        screen
    });
    expect_file!["../../frames/states/beyond-the-journal.txt"].assert_eq(&frames);
}

#[test]
fn a_replay_at_every_size() {
    let world = samples::ended();
    let frames = sheet(|size, theme| {
        let mut screen = Screen::replay(&world, size, 60);
        screen.model.look.theme = theme;
        screen
    });
    expect_file!["../../frames/states/replay.txt"].assert_eq(&frames);
}

#[test]
fn the_spinner_moves_four_times_a_second_and_only_a_few_cells_with_it() {
    for (world, role) in [
        (samples::first_turn(), "WORKING"),
        (samples::hook_runs(), "cargo test"),
    ] {
        let mut screen = Screen::of(&world, (120, 40));
        let ahead = (1_000 - screen.model.now.0.rem_euclid(1_000)).unsigned_abs();
        let start = screen.later(ahead).model.now;
        let mut before = screen.draw();
        for step in 1..=8 {
            let tick = screen.model.next_tick().expect("something works");
            assert_eq!(tick.since(start).0, 250 * step, "{role}");
            screen.model.now = tick;
            let after = screen.draw();
            let changed = before
                .content
                .iter()
                .zip(&after.content)
                .filter(|(a, b)| a != b)
                .count();
            assert!(
                (1..=6).contains(&changed),
                "{changed} cells changed\n{}",
                screen.frame()
            );
            before = after;
        }
    }
}

#[test]
fn with_reduced_motion_nothing_spins_and_clocks_change_once_per_second() {
    let mut screen = Screen::of(&samples::first_turn(), (120, 40));
    screen.model.look.motion = MotionMode::Reduced;
    let start = screen.model.now;
    assert_eq!(
        screen
            .model
            .next_tick()
            .map(|tick| tick.0.rem_euclid(1_000)),
        Some(0)
    );
    let before = screen.frame();
    screen.model.now = creel::engine::time::UnixTime(start.0 + 250);
    assert_eq!(screen.frame(), before);
}

#[test]
fn a_state_that_needs_the_user_and_an_end_stand_still() {
    for scene in [samples::retry_limit, samples::ended, samples::paused] {
        let world = scene();
        let mut screen = Screen::of(&world, (120, 40)).armed();
        assert_eq!(screen.model.next_tick(), None);
        let before = screen.frame();
        screen.later(3_600_000);
        assert_eq!(screen.frame(), before);
    }
}

#[test]
fn without_unicode_every_sign_is_ascii() {
    for state in states() {
        let mut screen = state.screen((120, 40), dark());
        screen.model.look.signs = SignSet::AsciiOnly;
        let frame = screen.frame();
        assert!(frame.is_ascii(), "{}:\n{frame}", state.name);
        // A sign without an ASCII form would be a question mark, as are letters that are not ASCII.
        if state.name == "tasks" {
            continue;
        }
        let known = frame
            .replace("? keys", "")
            .replace("? Pe", "")
            .replace("? Qu", "");
        assert!(!known.contains('?'), "{}:\n{frame}", state.name);
    }
    assert!(
        SPINNER
            .iter()
            .all(|sign| SignSet::Ascii.shown(sign).is_ascii())
    );
}
