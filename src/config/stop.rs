//! Reads `stop.hooks` into the hooks that decide whether the session is complete.
//!
//! Owns what the keys of a stop hook mean together, and the names. Does not run the hooks: see
//! [`crate::engine::stop`].
//!
//! # Invariants
//! - Every hook has a unique name, including the parts of groups: its answer is stored under that
//!   name.

use std::collections::BTreeMap;

use super::{
    advice,
    diagnostic::{quoted, suggest},
    fields::ConfigFields,
    hooks::check_placeholders,
    keys::{STOP_ACTION, STOP_ALL, STOP_ANY, STOP_COMMAND, STOP_PRESET, STOP_WHEN},
    node::{ConfigNode, NodeKind},
    report::DiagnosticReport,
    shape::MapShape,
};
use crate::engine::{
    hooks::{point::HookPoint, template},
    policy::{StopHook, StopHookCondition, StopHookKind, StopPreset},
    stop::decision::{StopAction, StopResult},
};

/// `rules` are the names that conditions can use.
pub(super) fn hooks(
    report: &mut DiagnosticReport,
    items: &[ConfigNode],
    rules: &[&str],
) -> Vec<StopHook> {
    let mut reader = StopHookReader {
        report,
        rules,
        taken: Vec::new(),
    };
    items.iter().filter_map(|node| reader.hook(node)).collect()
}

struct StopHookReader<'a> {
    report: &'a mut DiagnosticReport,
    rules: &'a [&'a str],
    /// The names in use.
    taken: Vec<String>,
}

impl StopHookReader<'_> {
    fn hook(&mut self, node: &ConfigNode) -> Option<StopHook> {
        let (shape, judge, unnamed) = match &node.kind {
            NodeKind::Text(name) => {
                let preset = StopPreset::named(name)?;
                let hook = StopHook {
                    name: self.name(None, preset.name(), node)?,
                    ..StopHook::preset(preset)
                };
                return Some(self.advised(hook, node));
            }
            NodeKind::Map(_) if node.get("command").is_some() => self.command(node)?,
            NodeKind::Map(_) if node.get("action").is_some() => fixed(node)?,
            NodeKind::Map(_) if node.get("all").is_some() => (
                &STOP_ALL,
                StopHookKind::All(self.parts(node, "all")),
                "all".into(),
            ),
            NodeKind::Map(_) if node.get("any").is_some() => (
                &STOP_ANY,
                StopHookKind::Any(self.parts(node, "any")),
                "any".into(),
            ),
            NodeKind::Map(_) => {
                let preset = StopPreset::named(node.get("preset")?.text()?)?;
                (
                    &STOP_PRESET,
                    StopHookKind::Preset(preset),
                    preset.name().to_owned(),
                )
            }
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Int(_)
            | NodeKind::Float(_)
            | NodeKind::List(_) => {
                return None;
            }
        };
        let fields = ConfigFields::of(shape, Some(node));
        let name = self.name(fields.some_text("name"), &unnamed, node)?;
        let when = self.when(&fields.below("when", &STOP_WHEN));
        Some(self.advised(
            StopHook {
                name,
                judge,
                when,
                enabled: fields.bool("enabled"),
            },
            node,
        ))
    }

    fn advised(&mut self, hook: StopHook, node: &ConfigNode) -> StopHook {
        if hook.enabled
            && hook.judge == StopHookKind::Preset(StopPreset::Validation)
            && self.rules.is_empty()
        {
            advice::about_validation(self.report, node.at);
        }
        hook
    }

    fn parts(&mut self, node: &ConfigNode, key: &str) -> Vec<StopHook> {
        let Some(list) = node.get(key) else {
            return Vec::new();
        };
        if list.items().is_empty() {
            self.report.error(list.at, format!("`{key}` is empty"));
        }
        list.items()
            .iter()
            .filter_map(|part| self.hook(part))
            .collect()
    }

    fn command(&mut self, node: &ConfigNode) -> Option<(&'static MapShape, StopHookKind, String)> {
        let fields = ConfigFields::of(&STOP_COMMAND, Some(node));
        let (at, command) = (node.get("command")?.at, fields.some_text("command")?);
        check_placeholders(
            self.report,
            "a stop hook",
            template::offered(HookPoint::StopDecision),
            &command,
            at,
        );
        Some((
            &STOP_COMMAND,
            StopHookKind::Command {
                command: command.clone(),
                timeout: fields.duration("timeout"),
            },
            command,
        ))
    }

    /// The configured name, which must be unique, or a generated one, with a number if it is in
    /// use.
    fn name(&mut self, given: Option<String>, unnamed: &str, node: &ConfigNode) -> Option<String> {
        let name = match given {
            Some(given) if self.taken.contains(&given) => {
                let at = node.get("name").map_or(node.at, |name| name.at);
                let hint = "give one of them another `name`".to_owned();
                self.report.error_hint(
                    at,
                    format!("another stop hook has the name {}", quoted(&given)),
                    hint,
                );
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

    fn when(&mut self, when: &ConfigFields<'_>) -> StopHookCondition {
        let texts = |key| {
            let items = when.given(key).map(ConfigNode::items).unwrap_or_default();
            items
                .iter()
                .filter_map(|node| node.text().map(str::to_owned))
                .collect()
        };
        let (files, labels) = (texts("files"), texts("labels"));
        let (from, to) = self.iterations(when.given("iteration"));
        let rules = when
            .given("rules")
            .map(ConfigNode::entries)
            .unwrap_or_default();
        let mut said = BTreeMap::new();
        for (key, node) in rules {
            if !self.rules.contains(&key.name.as_str()) {
                let hint = suggest(
                    &key.name,
                    self.rules.iter().copied(),
                    "choose from the rules",
                );
                self.report
                    .error_hint(key.at, format!("unknown rule {}", quoted(&key.name)), hint);
            }
            said.insert(key.name.clone(), node.text() == Some("passed"));
        }
        StopHookCondition {
            from,
            to,
            files,
            rules: said,
            labels,
        }
    }

    /// Parses `5`, `3..5`, `3..` or `..5`.
    fn iterations(&mut self, given: Option<&ConfigNode>) -> (Option<u32>, Option<u32>) {
        let Some(node) = given else {
            return (None, None);
        };
        let text = match &node.kind {
            NodeKind::Int(n) => n.to_string(),
            NodeKind::Text(text) => text.replace(' ', ""),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Float(_)
            | NodeKind::List(_)
            | NodeKind::Map(_) => {
                return (None, None);
            }
        };
        let (from, to) = text.split_once("..").unwrap_or((&text, &text));
        let bound = |text: &str| {
            if text.is_empty() {
                Some(None)
            } else {
                text.parse().ok().map(Some)
            }
        };
        match (bound(from), bound(to)) {
            (Some(None), Some(None)) | (None, _) | (_, None) => {
                let message = format!("{} is not a range of iterations", quoted(&text));
                self.report.error_hint(
                    node.at,
                    message,
                    "write `5`, `3..5`, `3..` or `..5`".to_owned(),
                );
            }
            (Some(Some(from)), Some(Some(to))) if from > to => {
                self.report
                    .error(node.at, "this range ends before it begins".to_owned());
            }
            (Some(from), Some(to)) => return (from, to),
        }
        (None, None)
    }
}

fn fixed(node: &ConfigNode) -> Option<(&'static MapShape, StopHookKind, String)> {
    let fields = ConfigFields::of(&STOP_ACTION, Some(node));
    let action: StopAction = fields.maybe_one_of("action")?;
    let reason = fields
        .some_text("reason")
        .unwrap_or_else(|| format!("the config says so: {}", word(action)));
    let result = StopResult {
        next_prompt: fields.some_text("next_prompt"),
        checkpoint_data: fields.given("checkpoint").map(ConfigNode::to_json),
        ..StopResult::new(action, reason)
    };
    let unnamed = fields
        .some_text("reason")
        .unwrap_or_else(|| word(action).to_owned());
    Some((&STOP_ACTION, StopHookKind::Fixed(result), unnamed))
}

const fn word(action: StopAction) -> &'static str {
    match action {
        StopAction::Complete => "complete",
        StopAction::Continue => "continue",
        StopAction::Escalate => "escalate",
    }
}
