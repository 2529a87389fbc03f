//! The options that an agent offers for a conversation, such as its model: which one a name in the
//! config means, which of its values, and what the user reads about them.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the protocol's enums grow, and what is new must not be an error"
)]

use agent_client_protocol::v1::schema as s;
use serde::Deserialize as _;
use serde_json::Value;

use crate::engine::policy::MODEL;

/// An option as the user reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedOption {
    /// The name for the config.
    pub name: String,
    /// What the agent calls it.
    pub title: String,
    /// The value that it has without creel.
    pub current: String,
    pub values: Vec<OfferedValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedValue {
    /// The name for the config.
    pub name: String,
    /// What the agent calls it.
    pub title: String,
}

/// All options that creel can set.
pub(super) fn offered(options: &[s::SessionConfigOption]) -> Vec<OfferedOption> {
    let each = options.iter().filter_map(|option| {
        let (current, values) = match &option.kind {
            s::SessionConfigKind::Select(select) => {
                (select.current_value.to_string(), values(select))
            }
            s::SessionConfigKind::Boolean(flag) => (
                flag.current_value.to_string(),
                ["true", "false"].map(OfferedValue::plain).into(),
            ),
            // A kind that creel does not know yet.
            _ => return None,
        };
        Some(OfferedOption {
            name: name_of(options, option),
            title: option.name.clone(),
            current,
            values,
        })
    });
    each.collect()
}

impl OfferedValue {
    fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: name.to_owned(),
        }
    }
}

fn values(select: &s::SessionConfigSelect) -> Vec<OfferedValue> {
    let one = |value: &s::SessionConfigSelectOption| OfferedValue {
        name: value.value.to_string(),
        title: value.name.clone(),
    };
    match &select.options {
        s::SessionConfigSelectOptions::Ungrouped(all) => all.iter().map(one).collect(),
        s::SessionConfigSelectOptions::Grouped(groups) => groups
            .iter()
            .flat_map(|group| group.options.iter().map(one))
            .collect(),
        _ => Vec::new(),
    }
}

/// Whether an option has this value. Some agents have a value that they do not list.
pub(super) fn has(options: &[s::SessionConfigOption], (name, value): (&str, &str)) -> bool {
    find(options, name).is_some_and(|option| match &option.kind {
        s::SessionConfigKind::Select(select) => {
            let current = &*select.current_value.0;
            value == current || value_id(select, value).is_some_and(|id| id == current)
        }
        s::SessionConfigKind::Boolean(flag) => value.parse() == Ok(flag.current_value),
        _ => false,
    })
}

/// The value of the agent's model, if it offers several.
pub(super) fn model(options: &[s::SessionConfigOption]) -> Option<String> {
    let option = find(options, MODEL)?;
    offered(std::slice::from_ref(option))
        .pop()
        .map(|model| model.current)
}

/// Why an option cannot be set, with what the agent offers instead.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OptionError {
    #[error("the agent has no option `{name}`. {}", listed(.offered))]
    NoSuchOption { name: String, offered: Vec<String> },
    #[error("the agent's option `{name}` has no value `{value}`. It has {}", .offered.join(", "))]
    NoSuchValue {
        name: String,
        value: String,
        offered: Vec<String>,
    },
    #[error("creel does not know how to set the option `{0}`")]
    UnknownKind(String),
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "It offers no options".to_owned(),
        names => format!("It offers {}", names.join(", ")),
    }
}

/// The request that sets an option.
pub(super) fn request(
    session: &s::SessionId,
    options: &[s::SessionConfigOption],
    (name, value): (&str, &str),
) -> Result<s::SetSessionConfigOptionRequest, OptionError> {
    let Some(option) = find(options, name) else {
        return Err(OptionError::NoSuchOption {
            name: name.to_owned(),
            offered: offered(options).into_iter().map(|all| all.name).collect(),
        });
    };
    let value: s::SessionConfigOptionValue = match &option.kind {
        s::SessionConfigKind::Select(select) => value_id(select, value)
            .ok_or_else(|| wrong_value(name, value, &values(select)))?
            .as_str()
            .into(),
        s::SessionConfigKind::Boolean(_) => value
            .parse::<bool>()
            .map_err(|_| wrong_value(name, value, &["true", "false"].map(OfferedValue::plain)))?
            .into(),
        _ => {
            return Err(OptionError::UnknownKind(name.to_owned()));
        }
    };
    let (session, id) = (session.clone(), option.id.clone());
    Ok(s::SetSessionConfigOptionRequest::new(session, id, value))
}

/// Notes the agent's answer to a request: all options, or nothing.
pub(super) fn note_answer(
    options: &mut Option<Vec<s::SessionConfigOption>>,
    request: &s::SetSessionConfigOptionRequest,
    answer: &Value,
) {
    if let Ok(all) = s::SetSessionConfigOptionResponse::deserialize(answer) {
        *options = Some(all.config_options);
        return;
    }
    let mut options = options.iter_mut().flatten();
    let Some(option) = options.find(|it| it.id == request.config_id) else {
        return;
    };
    match (&mut option.kind, &request.value) {
        (s::SessionConfigKind::Select(select), s::SessionConfigOptionValue::ValueId { value }) => {
            select.current_value = value.clone();
        }
        (s::SessionConfigKind::Boolean(flag), s::SessionConfigOptionValue::Boolean { value }) => {
            flag.current_value = *value;
        }
        _ => {}
    }
}

fn wrong_value(name: &str, value: &str, offered: &[OfferedValue]) -> OptionError {
    OptionError::NoSuchValue {
        name: name.to_owned(),
        value: value.to_owned(),
        offered: offered.iter().map(|value| value.name.clone()).collect(),
    }
}

/// The option of this name: by its id, otherwise by what it is for, otherwise by its title.
fn find<'a>(
    options: &'a [s::SessionConfigOption],
    name: &str,
) -> Option<&'a s::SessionConfigOption> {
    let by_id = options.iter().find(|option| &*option.id.0 == name);
    let by_purpose = || options.iter().find(|option| is_for(option, name));
    let by_title = || {
        options
            .iter()
            .find(|option| option.name.eq_ignore_ascii_case(name))
    };
    by_id.or_else(by_purpose).or_else(by_title)
}

/// Whether an option is what a name means that is the same for every agent.
fn is_for(option: &s::SessionConfigOption, name: &str) -> bool {
    let Some(category) = &option.category else {
        return false;
    };
    match name {
        "model" => *category == s::SessionConfigOptionCategory::Model,
        "effort" => match category {
            s::SessionConfigOptionCategory::ThoughtLevel => true,
            s::SessionConfigOptionCategory::Other(category) => category == "thinking",
            _ => false,
        },
        "mode" => *category == s::SessionConfigOptionCategory::Mode,
        _ => false,
    }
}

/// The name of an option for the config: the one that means the same for every agent, if it has
/// one.
fn name_of(options: &[s::SessionConfigOption], option: &s::SessionConfigOption) -> String {
    let common = ["model", "effort", "mode"]
        .into_iter()
        .find(|name| find(options, name).is_some_and(|found| found.id == option.id));
    common.map_or_else(|| option.id.to_string(), str::to_owned)
}

/// The id of a value: as written, or in other letters, or by its title.
fn value_id(select: &s::SessionConfigSelect, wanted: &str) -> Option<String> {
    let all = values(select);
    let exact = all.iter().find(|value| value.name == wanted);
    let similar = || {
        all.iter().find(|value| {
            value.name.eq_ignore_ascii_case(wanted) || value.title.eq_ignore_ascii_case(wanted)
        })
    };
    exact.or_else(similar).map(|value| value.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Vec<s::SessionConfigOption> {
        let models = vec![
            s::SessionConfigSelectOption::new("opus[1m]", "Opus"),
            s::SessionConfigSelectOption::new("haiku", "Haiku 4.5"),
        ];
        let levels = vec![
            s::SessionConfigSelectOption::new("low", "Low"),
            s::SessionConfigSelectOption::new("high", "High"),
        ];
        vec![
            s::SessionConfigOption::select("model", "Model", "haiku", models)
                .category(s::SessionConfigOptionCategory::Model),
            s::SessionConfigOption::select("thinking", "Thinking", "low", levels)
                .category(s::SessionConfigOptionCategory::ThoughtLevel),
            s::SessionConfigOption::boolean("fast", "Fast mode", false),
        ]
    }

    fn set(name: &str, value: &str) -> Result<String, OptionError> {
        let request = request(&s::SessionId::new("1"), &options(), (name, value))?;
        let value = match request.value {
            s::SessionConfigOptionValue::Boolean { value } => value.to_string(),
            s::SessionConfigOptionValue::ValueId { value } => value.to_string(),
            other => format!("{other:?}"),
        };
        Ok(format!("{} = {value}", request.config_id))
    }

    #[test]
    fn an_option_is_found_by_its_id_or_its_purpose_or_its_title() {
        assert_eq!(set("model", "opus[1m]"), Ok("model = opus[1m]".into()));
        assert_eq!(set("model", "Opus"), Ok("model = opus[1m]".into()));
        assert_eq!(set("effort", "high"), Ok("thinking = high".into()));
        assert_eq!(set("fast mode", "true"), Ok("fast = true".into()));
    }

    #[test]
    fn what_is_set_already_is_known_by_any_of_its_names() {
        for (name, value) in [
            ("model", "haiku"),
            ("Model", "Haiku 4.5"),
            ("fast", "false"),
        ] {
            assert!(has(&options(), (name, value)), "{name}");
        }
        assert!(!has(&options(), ("model", "Opus")) && !has(&options(), ("fast", "true")));
    }

    #[test]
    fn an_agent_can_have_a_value_that_it_does_not_list() {
        let models = vec![s::SessionConfigSelectOption::new("a", "A")];
        let option = s::SessionConfigOption::select("model", "Model", "of-its-own", models);
        let (options, own) = ([option], ("model", "of-its-own"));
        assert!(has(&options, own) && request(&s::SessionId::new("1"), &options, own).is_err());
    }

    #[test]
    fn a_wrong_name_or_value_is_answered_with_the_right_ones() {
        let error = set("model", "gpt-9").expect_err("a mistake").to_string();
        assert_eq!(
            error,
            "the agent's option `model` has no value `gpt-9`. It has opus[1m], haiku"
        );
        let error = set("colour", "red").expect_err("a mistake").to_string();
        assert_eq!(
            error,
            "the agent has no option `colour`. It offers model, effort, fast"
        );
        let none = request(&s::SessionId::new("1"), &[], ("model", "opus"))
            .expect_err("a mistake")
            .to_string();
        assert_eq!(
            none,
            "the agent has no option `model`. It offers no options"
        );
        let error = set("fast", "maybe").expect_err("a mistake").to_string();
        assert_eq!(
            error,
            "the agent's option `fast` has no value `maybe`. It has true, false"
        );
    }
}
