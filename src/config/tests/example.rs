//! The example and the schema match the table.

use std::{collections::BTreeSet, env, fs, path::Path};

use serde_json::json;

use super::{good, read, schema_check::objections};
use crate::config::{
    Settings, json_schema,
    keys::ROOT,
    node::camel,
    shape::{MapShape, ValueType},
};

fn example() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config.example.yaml"))
        .expect("the example")
}

fn shapes_of(ty: &ValueType, found: &mut Vec<&'static MapShape>) {
    match ty {
        ValueType::Object(shape) => shapes_below(shape, found),
        ValueType::List(inner) | ValueType::Map(inner) => shapes_of(inner, found),
        ValueType::Either(alternatives) => {
            alternatives.iter().for_each(|ty| shapes_of(ty, found));
        }
        ValueType::Bool
        | ValueType::Integer(..)
        | ValueType::Number(..)
        | ValueType::Duration(_)
        | ValueType::Text
        | ValueType::SomeText
        | ValueType::OneOf(_)
        | ValueType::BoolOr(_)
        | ValueType::Anything => {}
    }
}

fn shapes_below(shape: &'static MapShape, found: &mut Vec<&'static MapShape>) {
    if found.iter().all(|other| other.name != shape.name) {
        found.push(shape);
        shape
            .fields
            .iter()
            .for_each(|field| shapes_of(&field.ty, found));
    }
}

fn all_shapes() -> Vec<&'static MapShape> {
    let mut found = Vec::new();
    shapes_below(&ROOT, &mut found);
    found
}

#[test]
fn the_example_says_what_an_empty_config_says() {
    let neutral = |settings: Settings| Settings {
        path: None,
        documents: Vec::new(),
        ..settings
    };
    assert_eq!(neutral(good(&example())), Settings::default());
    assert_eq!(neutral(good("")), Settings::default());
    assert_eq!(neutral(good("# nothing\n")), Settings::default());
    assert_eq!(neutral(good("{}")), Settings::default());
}

#[test]
fn the_example_shows_every_key_and_its_default() {
    let example = example();
    let words: BTreeSet<&str> = example
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
        .collect();
    for shape in all_shapes() {
        for field in shape.fields {
            assert!(
                words.contains(field.name),
                "the example does not show `{}` of `{}`",
                field.name,
                shape.name
            );
        }
    }
    let value: serde_json::Value = serde_yaml::from_str(&example).expect("YAML");
    for field in ROOT.fields {
        let (
            Some(default),
            ValueType::Bool | ValueType::Integer(..) | ValueType::Duration(_) | ValueType::OneOf(_),
        ) = (field.default.node(), field.ty)
        else {
            continue;
        };
        assert_eq!(value[field.name], default.to_json(), "`{}`", field.name);
    }
}

#[test]
fn every_key_is_described_in_one_sentence_and_shapes_have_names_of_their_own() {
    let mut names = BTreeSet::new();
    for shape in all_shapes() {
        assert!(names.insert(shape.name), "`{}` is there twice", shape.name);
        for field in shape.fields {
            assert!(
                field.doc.ends_with('.') && field.doc.len() > 10,
                "`{}` of `{}`",
                field.name,
                shape.name
            );
        }
    }
}

#[test]
fn the_schema_accepts_the_example_and_other_spellings() {
    let value: serde_json::Value = serde_yaml::from_str(&example()).expect("YAML");
    assert_eq!(objections(&json_schema(), &value), [""; 0]);
    let value = json!({ "maxHookRetries": 2, "hooks": { "Stop": [{ "command": "x", "pipeOutput": true }] } });
    assert_eq!(objections(&json_schema(), &value), [""; 0]);
}

#[test]
fn the_schema_and_the_loader_refuse_the_same_mistakes() {
    for wrong in [
        json!({ "max_iteration": 3 }),
        json!({ "max_iterations": 0 }),
        json!({ "max_iterations": "many" }),
        json!({ "context": "stale" }),
        json!({ "hooks": { "stops": [] } }),
        json!({ "hooks": { "stop": [{ "name": "x" }] } }),
        json!({ "hooks": { "stop": [{ "command": "x", "timeout": -1 }] } }),
        json!({ "hooks": { "stop": [7] } }),
        json!({ "gates": { "delivery": true } }),
        json!({ "stop": { "rules": [{ "name": "x", "type": "magic" }] } }),
        json!({ "nats": { "tls": true } }),
        json!({ "otel": { "headers": {} } }),
        json!([]),
    ] {
        assert_ne!(objections(&json_schema(), &wrong), [""; 0], "{wrong}");
        assert!(read(&wrong.to_string()).is_err(), "{wrong}");
    }
}

#[test]
fn spellings_are_what_other_tools_write() {
    assert_eq!(camel("max_hook_retries"), "maxHookRetries");
    for key in ["max_hook_retries", "maxHookRetries", "MaxHookRetries"] {
        assert_eq!(good(&format!("{key}: 2")).base_plan.max_hook_retries, 2);
    }
}

#[test]
fn the_printed_schema_is_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/config.schema.json");
    let printed = serde_json::to_string_pretty(&json_schema()).expect("JSON") + "\n";
    if env::var_os("UPDATE_ASSETS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        fs::write(&path, &printed).expect("the file");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == printed,
        "run the tests with UPDATE_ASSETS=1 to write assets/config.schema.json again"
    );
}
