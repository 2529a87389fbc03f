//! Options that an agent gets on its command line.

use std::collections::BTreeMap;

use crate::engine::{
    hooks::template::{self, TemplateError},
    policy::{AgentFacts, MODEL},
};

/// Why an option cannot be on the command line.
#[derive(Debug, thiserror::Error)]
pub(super) enum FlagError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The agent could read it as another option.
    #[error(
        "{value:?} cannot be the value of the option `{name}` on a command line. Correct the config, or `--model`"
    )]
    Value { name: String, value: String },
}

/// Adds options to a shell command line. An assignment goes in front of the command, everything
/// else after it.
pub(super) fn with_options(command: &str, options: &str) -> String {
    let name = options.split('=').next().unwrap_or_default();
    let assigns =
        options.contains('=') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if assigns {
        format!("{options} {command}")
    } else {
        format!("{command} {options}")
    }
}

/// Adds the flags of the agent's options to a command line for the shell, and their values to its
/// variables. The values are data: no value can change the command. Skips options without a flag.
pub(super) fn with_flags(
    known: &AgentFacts,
    model: Option<&str>,
    command: &str,
    env: &mut BTreeMap<String, String>,
) -> Result<String, FlagError> {
    let mut options = known.options.clone();
    options.extend(model.map(|model| (MODEL.to_owned(), model.to_owned())));
    let mut command = command.to_owned();
    for (number, (name, value)) in (1..).zip(options) {
        let Some(flag) = known.flags.get(&name) else {
            continue;
        };
        if value.trim().is_empty() || value.starts_with('-') || value.contains(char::is_control) {
            return Err(FlagError::Value { name, value });
        }
        let placeholder = format!("option_{number}");
        let flag = flag.replace("{{value}}", &format!("{{{{{placeholder}}}}}"));
        command = with_options(&command, &template::expand(&flag)?);
        env.insert(template::variable(&placeholder), value);
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(all: [(&str, &str); N]) -> BTreeMap<String, String> {
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn values_are_variables_and_flags_go_where_they_belong() {
        let known = AgentFacts {
            options: texts([("effort", "high"), ("model", "small"), ("colour", "red")]),
            flags: texts([
                ("effort", "-c 'effort=\"{{value}}\"'"),
                ("model", "AGENT_MODEL={{value}}"),
            ]),
            ..AgentFacts::default()
        };
        for other_option in ["--yolo", " ", "a\nb"] {
            let refused = with_flags(&known, Some(other_option), "agent", &mut BTreeMap::new());
            assert!(
                matches!(refused, Err(FlagError::Value { .. })),
                "{other_option:?}"
            );
        }
        let mut env = BTreeMap::new();
        let line = with_flags(&known, Some("x; rm -rf /"), "agent -p", &mut env).expect("a line");
        let effort = template::variable("option_2");
        let model = template::variable("option_3");
        assert_eq!(
            line,
            format!("AGENT_MODEL=\"${{{model}-}}\" agent -p -c 'effort=\"'\"${{{effort}-}}\"'\"'")
        );
        assert_eq!(env[&effort], "high");
        assert_eq!(env[&model], "x; rm -rf /");
    }
}
