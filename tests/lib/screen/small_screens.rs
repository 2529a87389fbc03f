//! What a screen of 60 columns and 16 rows must not lose.

use crate::support::{samples, screen::Screen, world::World};
use creel::{
    engine::{
        event::{Event, SessionEvent},
        gate::kind::GateChoice,
        ids::GateId,
        input::{GateAnswer, SessionCommand},
    },
    tui::request::CloseBehavior,
};

const TINY: (u16, u16) = (60, 16);

/// The session after the user chose not to send the last item.
fn ends_without_sending() -> World {
    let mut world = samples::final_delivery();
    let answer = GateAnswer {
        gate: GateId(1),
        choice: GateChoice::Skip,
        text: None,
        items: None,
    };
    world.command(SessionCommand::AnswerGate(answer));
    samples::until(world, |world| world.state.phase.outcome().is_some())
}

#[test]
fn a_permission_gate_shows_the_change_and_the_way_to_the_rest_of_it() {
    let mut screen = Screen::of(&samples::permission(), TINY).armed();
    let frame = screen.frame();
    let changed = frame
        .lines()
        .filter(|line| line.contains("║ -  ") || line.contains("║ +  "))
        .count();
    assert!(changed >= 2, "{frame}");
    assert!(screen.row("enter answer").contains("PgDn more"), "{frame}");
    let answers = ["1  Yes", "2  Always allow", "3  No", "4  Cancel"];
    assert!(
        answers.iter().all(|answer| frame.contains(answer)),
        "{frame}"
    );
    assert!(
        screen.row("1  Yes").contains("Allow once"),
        "the effect of the chosen answer: {frame}"
    );
}

#[test]
fn every_gate_shows_some_of_its_text() {
    let gates = [
        samples::retry_limit,
        samples::submit_held,
        samples::errors,
        samples::tampered,
        samples::delivery,
        samples::proposal,
    ] as [fn() -> World; 6];
    for scene in gates {
        let mut screen = Screen::of(&scene(), TINY).armed();
        let frame = screen.frame();
        let hints = screen.row("enter answer");
        let is_cut = frame
            .lines()
            .any(|line| line.contains("╝") && line.contains(" of "));
        assert_eq!(
            is_cut,
            hints.contains("PgDn more") || hints.contains("PgUp more"),
            "{frame}"
        );
    }
}

#[test]
fn the_end_card_is_there_and_says_what_matters() {
    let mut world = ends_without_sending();
    for event in &mut world.events {
        if let Event::Session(SessionEvent::Ended { lines, .. }) = event {
            *lines = Some(creel::engine::conversation::ChangedLines {
                added: 120,
                removed: 14,
                files: 6,
            });
        }
    }
    let mut screen = Screen::of(&world, TINY);
    screen.model.link.tie = CloseBehavior::Loose;
    let frame = screen.frame();
    for words in [
        "Complete: ",
        "took ",
        "changed ",
        "+120 −14 in 6 files",
        "not sent",
        "next ",
        "creel show story",
    ] {
        assert!(frame.contains(words), "no `{words}`:\n{frame}");
    }
    assert!(
        !frame
            .lines()
            .any(|line| line.contains("creel") && line.contains('…')),
        "no half command:\n{frame}"
    );
    let mut tiny = Screen::of(&world, (40, 12));
    assert!(tiny.frame().contains("Complete: "), "{}", tiny.frame());
}

#[test]
fn the_end_card_lists_what_the_user_decided_not_to_send() {
    for size in [TINY, (80, 24), (120, 40)] {
        let mut screen = Screen::of(&ends_without_sending(), size);
        assert!(
            screen.row("not sent").contains("cargo clippy (skipped)"),
            "{}",
            screen.frame()
        );
    }
}

#[test]
fn the_footer_has_the_keys_of_the_end_card() {
    for size in [TINY, (80, 24), (120, 40)] {
        for close in ["esc", "enter"] {
            let mut screen = Screen::of(&ends_without_sending(), size);
            let footer =
                |screen: &mut Screen| screen.frame().lines().last().unwrap_or_default().to_owned();
            assert!(
                footer(&mut screen).starts_with(" esc close  "),
                "{}",
                screen.frame()
            );
            assert!(
                !footer(&mut screen).contains("enter open"),
                "{}",
                screen.frame()
            );
            screen.press(close);
            assert!(!screen.frame().contains("took "), "{}", screen.frame());
            assert!(
                footer(&mut screen).starts_with(" enter open"),
                "{}",
                screen.frame()
            );
        }
    }
}
