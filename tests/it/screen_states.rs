//! Every state of a session, as the header shows it: one chip per state, at every size and in every theme.

use creel::{
    config::{MotionMode, ThemeName},
    engine::{
        conversation::{TurnFailure, UsageLimit},
        event::{Event, SessionEvent, SessionOutcome},
        input::{Input, SessionCommand},
        time::TimeSpan,
    },
    present::{
        session_chip::ChipRole,
        signs::{SPINNER, SignSet},
    },
    tui::{theme::ScreenTheme, view},
};
use expect_test::expect_file;

use crate::support::{scenes, screen::Screen, world::World};

const SIZES: [(u16, u16); 4] = [(60, 16), (80, 24), (120, 40), (200, 50)];

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
        screen.press("esc");
        screen.later(self.later);
        screen
    }
}

/// A session that ended in this way.
fn ended(outcome: SessionOutcome) -> World {
    let mut world = scenes::ended();
    for event in &mut world.events {
        if let Event::Session(SessionEvent::Ended { outcome: ended, .. }) = event {
            *ended = outcome;
        }
    }
    world
}

fn paused() -> World {
    let mut world = scenes::first_turn();
    world.command(SessionCommand::Pause);
    scenes::until(world, |world| world.turn.is_none() && world.jobs.is_empty())
}

/// The agent has reached a usage limit.
fn limited() -> World {
    let mut world = scenes::works();
    let (turn, _) = world.turn.take().expect("the agent works");
    let limit = Some(UsageLimit { resets_in: Some(TimeSpan::secs(3_600)) });
    world.input(Input::TurnFailed { turn, failure: TurnFailure { limit, ..TurnFailure::new("429") } });
    scenes::until(world, |world| world.state.limits.hold.is_some())
}

fn states() -> Vec<ShownState> {
    let state = |name, world, later, chip, role| ShownState { name, world, later, chip, role };
    vec![
        state("the agent works", scenes::first_turn(), 12_000, "WORKING 0:14", ChipRole::Working),
        state("the agent is quiet", scenes::first_turn(), 40_000, "WORKING 0:42 · quiet 40s", ChipRole::Working),
        state("a hook runs", scenes::hook_runs(), 12_000, "▸ cargo test 12s / 60s", ChipRole::Hook),
        state("a backoff", scenes::backoff(), 0, "⏳ retry in 18s", ChipRole::Waiting),
        state("a usage limit", limited(), 0, "⏳ limit resets 01:00", ChipRole::Waiting),
        state("paused", paused(), 0, "⏸ PAUSED", ChipRole::Paused),
        state("needs the user", scenes::retry_limit(), 0, "◆ NEEDS YOU: retry limit", ChipRole::NeedsUser),
        state("complete", ended(SessionOutcome::Complete), 0, "✓ COMPLETE 0:", ChipRole::Complete),
        state("forced", ended(SessionOutcome::Forced), 0, "⚠ FORCED 0:", ChipRole::Forced),
        state("failed", ended(SessionOutcome::Failed), 0, "✗ FAILED 0:", ChipRole::Failed),
        state("stopped", ended(SessionOutcome::Cancelled), 0, "■ STOPPED 0:", ChipRole::Stopped),
        state("limit", ended(SessionOutcome::Limit), 0, "⊘ LIMIT 0:", ChipRole::Limit),
    ]
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
            assert!(header.contains(state.chip), "{} at {size:?} shows no `{}`:\n{frame}", state.name, state.chip);
            assert!(header.contains("iteration "), "{} at {size:?}:\n{frame}", state.name);
            let session = screen.model.session.as_ref().expect("a session");
            assert_eq!(view::chip(&screen.model, session).role, state.role, "{}", state.name);
        }
    }
}

#[test]
fn lasting_facts_are_visible_at_every_size() {
    let mut world = scenes::sent_back_twice();
    world.command(crate::support::world::completes("7", "Write the lexer"));
    for size in SIZES {
        let frame = Screen::of(&world, size).frame();
        for fact in ["WORKING", "iteration 1/20", "●●○○○", "cargo test"] {
            assert!(frame.contains(fact), "no `{fact}` at {size:?}:\n{frame}");
        }
    }
    let frame = Screen::of(&scenes::delivery(), (60, 16)).frame();
    assert!(frame.contains("3 pending"), "{frame}");
    let tasks = crate::support::task_scenes::planned();
    for size in SIZES {
        let frame = Screen::of(&tasks, size).frame();
        assert!(frame.contains("1/7"), "no tasks at {size:?}:\n{frame}");
    }
}

#[test]
fn the_frames_of_every_state() {
    let frames = [
        expect_file!["../frames/states-60.txt"],
        expect_file!["../frames/states-80.txt"],
        expect_file!["../frames/states-120.txt"],
        expect_file!["../frames/states-200.txt"],
    ];
    for (size, expected) in SIZES.into_iter().zip(frames) {
        let frame = |state: &ShownState| format!("== {} ==\n{}\n", state.name, state.screen(size, dark()).frame());
        expected.assert_eq(&states().iter().map(frame).collect::<String>());
    }
}

#[test]
fn the_styles_of_every_state() {
    let themes = [
        (dark(), expect_file!["../frames/states-styles-dark.txt"]),
        (ScreenTheme::chosen(ThemeName::Light, false), expect_file!["../frames/states-styles-light.txt"]),
        (ScreenTheme::chosen(ThemeName::Dark, true), expect_file!["../frames/states-styles-plain.txt"]),
    ];
    for (theme, expected) in themes {
        let styles = |state: &ShownState| {
            let styles = state.screen((80, 24), theme.clone()).styles();
            format!("== {} ==\n{}\n", state.name, styles.lines().take(12).collect::<Vec<_>>().join("\n"))
        };
        expected.assert_eq(&states().iter().map(styles).collect::<String>());
    }
}

#[test]
fn the_spinner_moves_four_times_a_second_and_only_a_few_cells_with_it() {
    for (world, role) in [(scenes::first_turn(), "WORKING"), (scenes::hook_runs(), "cargo test")] {
        let mut screen = Screen::of(&world, (120, 40));
        let ahead = (1_000 - screen.model.now.0.rem_euclid(1_000)).unsigned_abs();
        let start = screen.later(ahead).model.now;
        let mut before = screen.draw();
        for step in 1..=8 {
            let tick = screen.model.next_tick().expect("something works");
            assert_eq!(tick.since(start).0, 250 * step, "{role}");
            screen.model.now = tick;
            let after = screen.draw();
            let changed = before.content.iter().zip(&after.content).filter(|(a, b)| a != b).count();
            assert!((1..=6).contains(&changed), "{changed} cells changed\n{}", screen.frame());
            before = after;
        }
    }
}

#[test]
fn with_reduced_motion_nothing_spins_and_clocks_change_once_per_second() {
    let mut screen = Screen::of(&scenes::first_turn(), (120, 40));
    screen.model.motion = MotionMode::Reduced;
    let start = screen.model.now;
    assert_eq!(screen.model.next_tick().map(|tick| tick.0.rem_euclid(1_000)), Some(0));
    let before = screen.frame();
    screen.model.now = creel::engine::time::UnixTime(start.0 + 250);
    assert_eq!(screen.frame(), before);
}

#[test]
fn a_state_that_needs_the_user_and_an_end_stand_still() {
    for world in [scenes::retry_limit(), scenes::ended(), paused()] {
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
        screen.model.signs = SignSet::AsciiOnly;
        let frame = screen.frame();
        assert!(frame.is_ascii(), "{}:\n{frame}", state.name);
        assert!(!frame.contains('?') || frame.contains("? keys"), "{}:\n{frame}", state.name);
    }
    assert!(SPINNER.iter().all(|sign| SignSet::Ascii.shown(sign).is_ascii()));
}
