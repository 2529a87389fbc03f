//! From `stop.hooks` to the hooks that decide whether the session is complete.
//!
//! Owns what the keys of a stop hook mean together, and their names. Does not ask anybody: see [`crate::engine::stop`].
//!
//! # Invariants
//! - Every hook has a name of its own, parts of groups included: its answer is kept under it.

use std::collections::BTreeMap;

use super::{
    diagnostic::{quoted, suggest},
    fields::Fields,
    hooks::check_placeholders,
    node::{Kind, Node},
    report::Report,
    shape::{STOP_ACTION, STOP_ALL, STOP_ANY, STOP_COMMAND, STOP_PRESET, STOP_WHEN, Shape},
};
use crate::engine::{
    hooks::{point::Point, template},
    policy::{Judge, Preset, StopHook, When},
    stop::{Action, StopResult},
};

/// Reads the stop hooks of a list; `rules` are the names that conditions can speak of.
pub(super) fn hooks(report: &mut Report, items: &[Node], rules: &[&str]) -> Vec<StopHook> {
    let mut reader = Reader { report, rules, taken: Vec::new() };
    items.iter().filter_map(|node| reader.hook(node)).collect()
}

struct Reader<'a> {
    report: &'a mut Report,
    rules: &'a [&'a str],
    /// The names that are given.
    taken: Vec<String>,
}

impl Reader<'_> {
    fn hook(&mut self, node: &Node) -> Option<StopHook> {
        let (shape, judge, unnamed) = match &node.kind {
            Kind::Text(name) => {
                let preset = Preset::named(name)?;
                return Some(StopHook { name: self.name(None, preset.name(), node)?, ..StopHook::preset(preset) });
            }
            Kind::Map(_) if node.get("command").is_some() => self.command(node)?,
            Kind::Map(_) if node.get("action").is_some() => fixed(node)?,
            Kind::Map(_) if node.get("all").is_some() => (&STOP_ALL, Judge::All(self.parts(node, "all")), "all".into()),
            Kind::Map(_) if node.get("any").is_some() => (&STOP_ANY, Judge::Any(self.parts(node, "any")), "any".into()),
            Kind::Map(_) => {
                let preset = Preset::named(node.get("preset")?.text()?)?;
                (&STOP_PRESET, Judge::Preset(preset), preset.name().to_owned())
            }
            Kind::Null | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::List(_) => return None,
        };
        let fields = Fields::of(shape, Some(node));
        let name = self.name(fields.some_text("name"), &unnamed, node)?;
        let when = self.when(&fields.below("when", &STOP_WHEN));
        Some(StopHook { name, judge, when, enabled: fields.bool("enabled") })
    }

    fn parts(&mut self, node: &Node, key: &str) -> Vec<StopHook> {
        let Some(list) = node.get(key) else { return Vec::new() };
        if list.items().is_empty() {
            self.report.error(list.at, format!("`{key}` has nobody to ask"));
        }
        list.items().iter().filter_map(|part| self.hook(part)).collect()
    }

    fn command(&mut self, node: &Node) -> Option<(&'static Shape, Judge, String)> {
        let fields = Fields::of(&STOP_COMMAND, Some(node));
        let (at, command) = (node.get("command")?.at, fields.some_text("command")?);
        check_placeholders(self.report, "a stop hook", template::offered(Point::StopDecision), &command, at);
        Some((&STOP_COMMAND, Judge::Command { command: command.clone(), timeout: fields.duration("timeout") }, command))
    }

    /// The given name, which nobody else may have; or one that is made, with a number where it is taken.
    fn name(&mut self, given: Option<String>, unnamed: &str, node: &Node) -> Option<String> {
        let name = match given {
            Some(given) if self.taken.contains(&given) => {
                let at = node.get("name").map_or(node.at, |name| name.at);
                let hint = "give one of them another `name`".to_owned();
                self.report.error_hint(at, format!("another stop hook is called {}", quoted(&given)), hint);
                return None;
            }
            Some(given) => given,
            None => {
                let numbered = (2..).map(|n| format!("{unnamed} ({n})"));
                let mut names = std::iter::once(unnamed.to_owned()).chain(numbered);
                names.find(|name| !self.taken.contains(name))?
            }
        };
        self.taken.push(name.clone());
        Some(name)
    }

    fn when(&mut self, when: &Fields<'_>) -> When {
        let texts = |key| {
            let items = when.given(key).map(Node::items).unwrap_or_default();
            items.iter().filter_map(|node| node.text().map(str::to_owned)).collect()
        };
        let (files, labels) = (texts("files"), texts("labels"));
        let (from, to) = self.iterations(when.given("iteration"));
        let rules = when.given("rules").map(Node::entries).unwrap_or_default();
        let mut said = BTreeMap::new();
        for (key, node) in rules {
            if !self.rules.contains(&key.name.as_str()) {
                let hint = suggest(&key.name, self.rules.iter().copied(), "there are the rules");
                self.report.error_hint(key.at, format!("there is no rule {}", quoted(&key.name)), hint);
            }
            said.insert(key.name.clone(), node.text() == Some("passed"));
        }
        When { from, to, files, rules: said, labels }
    }

    /// `5`, `3..5`, `3..` or `..5`.
    fn iterations(&mut self, given: Option<&Node>) -> (Option<u32>, Option<u32>) {
        let Some(node) = given else { return (None, None) };
        let text = match &node.kind {
            Kind::Int(n) => n.to_string(),
            Kind::Text(text) => text.replace(' ', ""),
            Kind::Null | Kind::Bool(_) | Kind::Float(_) | Kind::List(_) | Kind::Map(_) => return (None, None),
        };
        let (from, to) = text.split_once("..").unwrap_or((&text, &text));
        let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        match (bound(from), bound(to)) {
            (Some(None), Some(None)) | (None, _) | (_, None) => {
                let message = format!("{} is no range of iterations", quoted(&text));
                self.report.error_hint(node.at, message, "write `5`, `3..5`, `3..` or `..5`".to_owned());
            }
            (Some(Some(from)), Some(Some(to))) if from > to => {
                self.report.error(node.at, "this range ends before it begins".to_owned());
            }
            (Some(from), Some(to)) => return (from, to),
        }
        (None, None)
    }
}

fn fixed(node: &Node) -> Option<(&'static Shape, Judge, String)> {
    let fields = Fields::of(&STOP_ACTION, Some(node));
    let action: Action = fields.maybe_one_of("action")?;
    let reason = fields.some_text("reason").unwrap_or_else(|| format!("the config says so: {}", word(action)));
    let result = StopResult {
        next_prompt: fields.some_text("next_prompt"),
        checkpoint_data: fields.given("checkpoint").map(Node::to_json),
        ..StopResult::new(action, reason)
    };
    let unnamed = fields.some_text("reason").unwrap_or_else(|| word(action).to_owned());
    Some((&STOP_ACTION, Judge::Fixed(result), unnamed))
}

const fn word(action: Action) -> &'static str {
    match action {
        Action::Complete => "complete",
        Action::Continue => "continue",
        Action::Escalate => "escalate",
    }
}
