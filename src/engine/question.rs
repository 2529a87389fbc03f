//! Questions of the agent: a form to fill in, or a page to open.
//!
//! A question waits like a permission request, and is answered at a gate. Owns the form, how your
//! text becomes an answer to it, and what the agent gets in an unattended session.
//!
//! # Invariants
//! - An answer that does not fit the form is refused, and the refusal says what would fit.
//! - An answer is never made up: a field that you leave out gets its default, or stays out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an agent gets that asks in an unattended session.
pub const UNATTENDED: &str =
    "No user is there to answer. Decide yourself, and say in your answer what you assumed.";

/// What to decide without the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionPolicy {
    /// Decline, and say to the agent that no user is there.
    #[default]
    Decline,
    /// Wait for the user: an unattended session ends with what it has.
    Escalate,
}

impl QuestionPolicy {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(crate) const fn is_default(&self) -> bool {
        matches!(self, Self::Decline)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentQuestion {
    pub message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<QuestionField>,
    /// A page that you should open. Your answer is that you have done so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionField {
    /// The agent's name for it.
    pub name: String,
    /// The label to show. The agent's name if it has none.
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "type")]
    pub kind: FieldKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<FieldOption>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The agent's name of the field that takes your own words instead of an option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    #[default]
    Text,
    Number,
    Integer,
    Boolean,
    /// One of the options.
    One,
    /// Any number of the options.
    Many,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldOption {
    /// What the agent gets.
    pub value: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl AgentQuestion {
    /// The answers to choose from, with what they say, if the question is one choice.
    pub fn offers(&self) -> Vec<(String, String)> {
        match self.fields.as_slice() {
            [field] if field.kind == FieldKind::One => {
                let options = field.options.iter();
                options
                    .map(|option| (option.value.clone(), option.line()))
                    .collect()
            }
            [field] if field.kind == FieldKind::Boolean => [("yes", "Yes"), ("no", "No")]
                .map(|(id, name)| (id.into(), name.into()))
                .into(),
            _ => Vec::new(),
        }
    }

    /// Whether an answer in your own words is possible.
    pub fn takes_text(&self) -> bool {
        match self.fields.as_slice() {
            [] => false,
            [field] => match field.kind {
                FieldKind::One => field.other.is_some() || field.options.is_empty(),
                FieldKind::Boolean => false,
                FieldKind::Text | FieldKind::Number | FieldKind::Integer | FieldKind::Many => true,
            },
            _ => true,
        }
    }

    /// A text to begin an answer with: empty for one field, otherwise a line for each.
    pub fn form(&self) -> String {
        if let [field] = self.fields.as_slice() {
            return field.default.as_ref().map(shown).unwrap_or_default();
        }
        let lines = self.fields.iter().map(|field| {
            let default = field.default.as_ref().map(shown).unwrap_or_default();
            let hints: String = field
                .hints()
                .iter()
                .map(|hint| format!("# {hint}\n"))
                .collect();
            format!("{hints}{}: {default}\n", field.title)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Everything that you need to know for an answer: the fields with their options, and the page.
    pub fn details(&self) -> Vec<String> {
        let is_choice = !self.offers().is_empty();
        let fields = self.fields.iter().flat_map(|field| {
            let title = (self.fields.len() > 1).then(|| format!("{}:", field.title));
            let hints = if is_choice {
                field.description.iter().cloned().collect()
            } else {
                field.hints()
            };
            title.into_iter().chain(hints)
        });
        fields.chain(self.url.clone()).collect()
    }

    /// The content of an answer, for the agent. The error says what would fit.
    pub(crate) fn content(&self, text: Option<&str>) -> Result<Map<String, Value>, String> {
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        let mut content = Map::new();
        match text {
            _ if self.fields.is_empty() => return Ok(content),
            None => {}
            Some(text) => match (serde_json::from_str::<Value>(text), self.fields.as_slice()) {
                (Ok(Value::Object(given)), _) => {
                    for (name, value) in given {
                        self.field(&name)?.fill(&mut content, &shown(&value))?;
                    }
                }
                (_, [field]) => field.fill(&mut content, text)?,
                (_, _) => {
                    for (name, value) in lines(text)? {
                        self.field(&name)?.fill(&mut content, &value)?;
                    }
                }
            },
        }
        for field in &self.fields {
            let other = field.other.as_deref().unwrap_or_default();
            if content.contains_key(&field.name) || content.contains_key(other) {
                continue;
            }
            if let Some(default) = &field.default {
                content.insert(field.name.clone(), default.clone());
            } else if field.required {
                return Err(format!("`{}` is missing: {}", field.title, field.fitting()));
            }
        }
        if content.is_empty() {
            let fitting = self.fields.iter().map(|field| match self.fields.len() {
                1 => field.fitting(),
                _ => format!("{}: {}", field.title, field.fitting()),
            });
            return Err(format!(
                "the answer is empty; {}",
                fitting.collect::<Vec<_>>().join("; ")
            ));
        }
        Ok(content)
    }

    /// The answer in an unattended session, if the form has room for words.
    pub(crate) fn unattended(&self) -> Option<Map<String, Value>> {
        let others: Option<Vec<&String>> = self
            .fields
            .iter()
            .map(|field| field.other.as_ref())
            .collect();
        let others = others.filter(|others| !others.is_empty())?;
        let filled = |name: &String| (name.clone(), Value::from(UNATTENDED));
        Some(others.into_iter().map(filled).collect())
    }

    fn field(&self, name: &str) -> Result<&QuestionField, String> {
        let same = |known: &str| known.eq_ignore_ascii_case(name.trim());
        let mut fields = self.fields.iter();
        fields
            .find(|field| same(&field.name) || same(&field.title))
            .ok_or_else(|| {
                let titles: Vec<&str> = self.fields.iter().map(|it| it.title.as_str()).collect();
                format!(
                    "there is no field `{name}`; the fields are {}",
                    titles.join(", ")
                )
            })
    }
}

impl QuestionField {
    /// Adds a value to an answer.
    fn fill(&self, content: &mut Map<String, Value>, text: &str) -> Result<(), String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let wrong = || format!("`{text}` does not fit: {}", self.fitting());
        let value = match self.kind {
            FieldKind::Text => Value::from(text),
            FieldKind::Integer => Value::from(text.parse::<i64>().map_err(|_| wrong())?),
            FieldKind::Number => Value::from(text.parse::<f64>().map_err(|_| wrong())?),
            FieldKind::Boolean => Value::from(yes_or_no(text).ok_or_else(wrong)?),
            FieldKind::One => match (self.option(text), &self.other) {
                (Some(value), _) => Value::from(value),
                (None, Some(other)) => {
                    content.insert(other.clone(), Value::from(text));
                    return Ok(());
                }
                (None, None) => return Err(wrong()),
            },
            FieldKind::Many => {
                let parts = text.split([',', '\n']).map(str::trim);
                let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
                let unknown = parts.iter().filter(|part| self.option(part).is_none());
                let unknown: Vec<&str> = unknown.copied().collect();
                match &self.other {
                    None if !unknown.is_empty() => return Err(wrong()),
                    Some(other) if !unknown.is_empty() => {
                        content.insert(other.clone(), Value::from(unknown.join(", ")));
                    }
                    Some(_) | None => {}
                }
                let known: Vec<&str> = parts.iter().filter_map(|part| self.option(part)).collect();
                if known.is_empty() {
                    return Ok(());
                }
                Value::from(known)
            }
        };
        content.insert(self.name.clone(), value);
        Ok(())
    }

    /// The value of an option: by its value, its title, or its number.
    fn option(&self, text: &str) -> Option<&str> {
        let by_name = self.options.iter().find(|option| {
            option.value.eq_ignore_ascii_case(text) || option.title.eq_ignore_ascii_case(text)
        });
        let by_number = || {
            let number = text.parse::<usize>().ok()?.checked_sub(1)?;
            self.options.get(number)
        };
        by_name
            .or_else(by_number)
            .map(|option| option.value.as_str())
    }

    /// What an answer can be.
    fn fitting(&self) -> String {
        let options = || {
            let titles = self.options.iter().map(|option| option.title.as_str());
            let own = self.other.as_ref().map(|_| "your own words");
            titles.chain(own).collect::<Vec<_>>().join(", ")
        };
        match self.kind {
            FieldKind::Text => "write a text".into(),
            FieldKind::Number => "write a number".into(),
            FieldKind::Integer => "write a whole number".into(),
            FieldKind::Boolean => "write yes or no".into(),
            FieldKind::One => format!("choose one of {}", options()),
            FieldKind::Many => format!("choose some of {}, with commas between", options()),
        }
    }

    /// What it is about, and its options with their numbers.
    fn hints(&self) -> Vec<String> {
        let options = self.options.iter().zip(1_usize..);
        let options = options.map(|(option, n)| format!("  {n}  {}", option.line()));
        let kind = match self.kind {
            FieldKind::Text => None,
            FieldKind::Number
            | FieldKind::Integer
            | FieldKind::Boolean
            | FieldKind::One
            | FieldKind::Many => Some(self.fitting()),
        };
        self.description
            .iter()
            .cloned()
            .chain(kind)
            .chain(options)
            .collect()
    }
}

impl FieldOption {
    fn line(&self) -> String {
        match &self.description {
            Some(description) => format!("{}: {description}", self.title),
            None => self.title.clone(),
        }
    }
}

/// The lines of a filled form: `title: value`, where a value can go on in the next lines.
fn lines(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.split_once(':'), all.last_mut()) {
            (Some((name, value)), _) => all.push((name.trim().to_owned(), value.trim().to_owned())),
            (None, Some((_, value))) => {
                value.push('\n');
                value.push_str(line.trim());
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => return Err("write each answer as `field: answer`".into()),
        }
    }
    Ok(all)
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" | "on" => Some(true),
        "no" | "n" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// A value as you would write it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Null => String::new(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// The content of an answer as a person would read it.
pub fn content_shown(content: &str) -> String {
    let fields: Map<String, Value> = serde_json::from_str(content).unwrap_or_default();
    fields.values().map(shown).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn option(value: &str) -> FieldOption {
        FieldOption {
            value: value.to_lowercase(),
            title: value.into(),
            description: None,
        }
    }

    fn field(name: &str, kind: FieldKind, options: &[&str]) -> QuestionField {
        QuestionField {
            name: name.into(),
            title: name.to_uppercase(),
            kind,
            options: options.iter().map(|value| option(value)).collect(),
            ..QuestionField::default()
        }
    }

    fn question(fields: Vec<QuestionField>) -> AgentQuestion {
        AgentQuestion {
            message: "Which?".into(),
            fields,
            url: None,
        }
    }

    fn answer(question: &AgentQuestion, text: &str) -> Result<Value, String> {
        question.content(Some(text)).map(Value::Object)
    }

    #[test]
    fn one_choice_is_answered_by_value_title_or_number_and_nothing_else_fits() {
        let asked = question(vec![field("db", FieldKind::One, &["Postgres", "SQLite"])]);
        for text in ["postgres", "Postgres", "1", r#"{"db": "postgres"}"#] {
            assert_eq!(
                answer(&asked, text),
                Ok(json!({"db": "postgres"})),
                "{text}"
            );
        }
        let refused = answer(&asked, "3").expect_err("no such option");
        assert_eq!(refused, "`3` does not fit: choose one of Postgres, SQLite");
        assert!(asked.content(None).is_err() && !asked.takes_text());
        assert_eq!(asked.offers().len(), 2);
    }

    #[test]
    fn own_words_go_to_the_field_that_takes_them() {
        let mut one = field("db", FieldKind::One, &["Postgres"]);
        one.other = Some("db_custom".into());
        let mut many = field("os", FieldKind::Many, &["Linux", "macOS"]);
        many.other = Some("os_custom".into());
        let asked = question(vec![one.clone()]);
        assert_eq!(answer(&asked, "DuckDB"), Ok(json!({"db_custom": "DuckDB"})));
        assert!(asked.takes_text());
        assert_eq!(
            asked.unattended().map(Value::Object),
            Some(json!({"db_custom": UNATTENDED}))
        );
        let asked = question(vec![one, many]);
        assert_eq!(
            answer(&asked, "# a hint\nDB: 1\n\nOS: linux, 2, BSD\n"),
            Ok(json!({"db": "postgres", "os": ["linux", "macos"], "os_custom": "BSD"}))
        );
        assert!(answer(&asked, "CPU: arm").is_err_and(|why| why.contains("DB, OS")));
        assert!(answer(&asked, "just words").is_err());
        assert!(asked.form().contains("#   1  Linux\n"), "{}", asked.form());
        assert!(
            answer(&asked, &asked.form()).is_err(),
            "nothing is filled in"
        );
    }

    #[test]
    fn numbers_and_switches_have_their_types_and_defaults_fill_gaps() {
        let mut port = field("port", FieldKind::Integer, &[]);
        port.default = Some(json!(80));
        let mut name = field("name", FieldKind::Text, &[]);
        name.required = true;
        let asked = question(vec![port, field("tls", FieldKind::Boolean, &[]), name]);
        assert_eq!(
            answer(&asked, "tls: yes\nname: a: b\nand c"),
            Ok(json!({"port": 80, "tls": true, "name": "a: b\nand c"}))
        );
        assert_eq!(
            answer(&asked, "tls: no"),
            Err("`NAME` is missing: write a text".into())
        );
        assert!(answer(&asked, "port: eighty").is_err_and(|why| why.contains("whole number")));
        assert_eq!(asked.unattended(), None, "no words fit into a port");
    }

    #[test]
    fn a_page_needs_no_text() {
        let asked = AgentQuestion {
            message: "Log in".into(),
            fields: Vec::new(),
            url: Some("http://localhost/login".into()),
        };
        assert_eq!(asked.content(None), Ok(Map::new()));
        assert!(!asked.takes_text());
        assert_eq!(asked.details(), ["http://localhost/login"]);
    }
}
