//! The samples of JSON in the book are what creel reads and prints, and its drawing names hook
//! points that exist.

use std::collections::BTreeSet;

use creel::engine::hooks::point::HookPoint;
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    book::{CodeBlock, blocks, pages},
    support::{
        peer::Peer,
        project::{Project, lines},
    },
};

/// The samples of JSON on a page: each block is one value, or one value a line.
fn samples(page: &str) -> Vec<Value> {
    let read = |block: CodeBlock| match serde_json::from_str(&block.text) {
        Ok(value) => vec![value],
        Err(_) => lines(&block.text),
    };
    blocks(page)
        .into_iter()
        .filter(|block| block.language == "json")
        .flat_map(read)
        .collect()
}

fn fields(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn every_json_of_the_book_is_json() {
    assert!(
        pages()
            .iter()
            .map(|(_, page)| samples(page).len())
            .sum::<usize>()
            >= 6
    );
}

#[test]
fn hooks_get_and_give_what_their_page_shows() {
    let page = samples(include_str!("../../docs/reference-hooks.md"));
    let [input, reply] = page.as_slice() else {
        panic!("two samples: {page:?}")
    };
    let project = Project::with(
        "prompt: GOAL\nagent: sh\nmax_iterations: 1\nmax_hook_retries: 1\n\
         agents: { sh: { command: 'mkdir -p src; echo x > src/parser.rs; printf Done' } }\n\
         hooks: { stop: [{ name: tests, command: '[ -e input.json ] || cat > input.json; cat reply.json' }] }\n",
    );
    project.write("reply.json", &reply.to_string());
    project.run();
    let got: Value = serde_json::from_str(&project.read("input.json")).expect("JSON");
    assert_eq!(fields(&got), fields(input));
    for name in [
        "hook_event_name",
        "hook",
        "iteration",
        "attempt",
        "stop_hook_active",
        "agent_output",
        "files_modified",
    ] {
        assert_eq!(got[name], input[name], "{name}");
    }
    let finished = &project.kind("hook_finished")[0];
    assert_eq!(finished["verdict"], "block");
    let prompts = project.prompts();
    let feedback = &prompts[1].1;
    let found = |key: &str| feedback.find(reply[key].as_str().expect("a text"));
    assert!(
        found("reason").is_some() && found("reason") < found("additionalContext"),
        "{feedback}"
    );

    let records = samples(include_str!("../../docs/reference-records.md"));
    let [record] = records.as_slice() else {
        panic!("one sample: {records:?}")
    };
    assert_eq!(finished["kind"], record["kind"]);
    assert!(fields(finished).is_superset(&fields(record)), "{finished}");
}

#[test]
fn a_refusal_looks_like_the_sample_on_its_page() {
    let page = samples(include_str!("../../docs/refusals.md"));
    let [sample] = page.as_slice() else {
        panic!("one sample: {page:?}")
    };
    let project =
        Project::with("prompt: GOAL\nagent: sh\nagents: { sh: { command: 'exec sleep 60' } }\n");
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let mut peer = Peer::of(&project);
    let pause = json!({"v": 1, "do": "pause"}).to_string();
    assert_eq!(peer.ask(&pause)["ok"], true);
    assert_eq!(peer.ask(&pause), *sample);
    session.kill();
}

#[test]
fn the_drawing_of_the_lifecycle_names_hook_points_that_exist() {
    let drawing = include_str!("../../docs/lifecycle.svg");
    let name = Regex::new("[a-z]+_[a-z_]+").expect("a regular expression");
    let text = Regex::new(">([^<]+)</text>").expect("a regular expression");
    let texts: Vec<&str> = text
        .captures_iter(drawing)
        .filter_map(|found| Some(found.get(1)?.as_str()))
        .collect();
    let named: Vec<&str> = texts
        .iter()
        .flat_map(|text| name.find_iter(text))
        .map(|found| found.as_str())
        .collect();
    assert!(named.len() >= 7, "{named:?}");
    for name in named {
        assert!(
            HookPoint::named(name).is_some(),
            "there is no hook point {name}"
        );
    }
}
