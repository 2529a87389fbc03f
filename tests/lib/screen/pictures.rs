//! The pictures of the README and the book: they exist, a forge shows them, and they use today's
//! words. Make them again with `cargo run --example pictures`.

use std::{fs, path::Path};

use creel::{
    engine::gate::kind::{GateChoice, GateKind},
    present::gate_words::{GateFigures, choice_words},
    tui::model::Pane,
};
use quick_xml::{Reader, events::Event};

use crate::support::{samples, screen::Screen};

/// The text of a picture.
#[track_caller]
fn words(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("assets/pictures")
        .join(name);
    let svg = fs::read_to_string(&file).expect("a picture");
    assert!(
        svg.len() < 400_000,
        "{name} is too large for a README: {} bytes",
        svg.len()
    );
    let mut reader = Reader::from_str(&svg);
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(tag) | Event::Empty(tag) => {
                let tag = tag.name().as_ref().to_owned();
                assert!(
                    ["svg", "style", "g", "rect", "text"].contains(&tag.as_str()),
                    "{name} has <{tag}>"
                );
            }
            Event::Eof => break,
            _ => {}
        }
    }
    without_spaces(
        &svg.split('<')
            .filter_map(|tag| tag.split_once('>'))
            .map(|(_, text)| text)
            .collect::<String>(),
    )
}

/// A change of colour ends a piece of text, together with the spaces at its end.
fn without_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[track_caller]
fn has(name: &str, wanted: &str) {
    assert!(
        words(name).contains(&without_spaces(wanted)),
        "{name} has no `{wanted}`: make it again with `cargo run --example pictures`"
    );
}

#[test]
fn pictures_of_gates_have_the_answers_that_creel_offers() {
    for (name, kind) in [
        ("gate.svg", GateKind::FinalDelivery),
        ("retry-limit.svg", GateKind::RetryLimit),
    ] {
        let choices = kind
            .choices()
            .into_iter()
            .filter(|choice| *choice != GateChoice::Continue);
        for choice in choices {
            has(
                name,
                &choice_words(kind, choice, GateFigures::default()).label,
            );
        }
    }
    has("permission.svg", "The agent asks for permission");
    for choice in GateKind::Escalation.choices() {
        has(
            "decision.svg",
            &choice_words(GateKind::Escalation, choice, GateFigures::default()).label,
        );
    }
}

#[test]
fn each_part_of_the_concepts_has_a_picture() {
    let page = include_str!("../../../docs/concepts.md");
    for part in [
        "The lifecycle",
        "Hook points",
        "Pending output",
        "Retries",
        "Gates",
        "Decisions",
    ] {
        let section = page
            .split(&format!("\n## {part}\n"))
            .nth(1)
            .expect("the section");
        let section = section.split("\n## ").next().expect("a section");
        assert!(section.contains(".svg)"), "{part} has no picture");
    }
}

#[test]
fn the_moving_picture_explains_itself_in_todays_words() {
    let screen = Screen::of(&samples::sent_back_twice(), (80, 24));
    let mut model = screen.model;
    model.hint.mode = creel::config::HintMode::Always;
    let hint = model.hint().expect("a hint").replace("cargo test", "tests");
    assert!(hint.contains("Retry 2 of 5"), "{hint}");
    has("demo.svg", &hint);
    for pane in Pane::ALL {
        has("demo.svg", &format!("{} {}", pane.number(), pane.title()));
        has("stream.svg", &format!("{} {}", pane.number(), pane.title()));
    }
    has("demo.svg", "@keyframes");
}

#[test]
fn the_pictures_of_the_book_are_small_and_follow_the_readers_colors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/pictures");
    for name in [
        "home.svg",
        "worker.svg",
        "worktrees.svg",
        "pull-request-merged.svg",
    ] {
        let svg = fs::read_to_string(folder.join(name)).expect("a picture");
        assert!(svg.len() < 150_000, "{name}: {} bytes", svg.len());
        has(name, "@keyframes");
    }
    has("home.svg", "NEEDS YOU");
    has("home.svg", "ctrl-s send");
    has("worker.svg", "waits to be merged");
    has("worktrees.svg", "creel worktree list");
    has("pull-request-merged.svg", "is ready to be merged");
    for entry in fs::read_dir(folder).expect("the pictures") {
        let path = entry.expect("an entry").path();
        let is_svg = path.extension().is_some_and(|it| it == "svg");
        let text = fs::read(&path).expect("a picture");
        assert!(
            !is_svg || String::from_utf8_lossy(&text).contains("prefers-color-scheme:light"),
            "{}",
            path.display()
        );
    }
}
