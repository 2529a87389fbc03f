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

/// How many commas of a list are looked at for one option.
const MOST_COMMAS: usize = 16;

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

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswer {
    /// The filled form, as a JSON object. None: declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Whether it was declined because no user is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
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

/// Why a text is no answer. Says what would fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("`{given}` does not fit: {fitting}")]
    DoesNotFit { given: String, fitting: String },
    #[error("`{field}` is missing: {fitting}")]
    Missing { field: String, fitting: String },
    #[error("the answer is empty; {0}")]
    Empty(String),
    #[error("there is no field `{name}`; the fields are {fields}")]
    NoSuchField { name: String, fields: String },
    #[error("write each answer as `field: answer`")]
    NoField,
}

impl AgentQuestion {
    /// The answers to choose from, with what they say, if the question is one choice. A value that
    /// looks like the number of another option is answered by its own number.
    pub fn offers(&self) -> Vec<(String, String)> {
        match self.fields.as_slice() {
            [field] if field.kind == FieldKind::One => {
                let options = field.options.iter().zip(1_usize..);
                let answer = |(option, n): (&FieldOption, usize)| {
                    let is_clear = field.option(&option.value) == Some(&option.value);
                    let number = || n.to_string();
                    let answer = is_clear.then(|| option.value.clone());
                    (answer.unwrap_or_else(number), option.line())
                };
                options.map(answer).collect()
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
            return field.default_shown();
        }
        let lines = self.fields.iter().map(|field| {
            let hints = field.hints();
            let hints = hints.iter().flat_map(|hint| hint.lines());
            let hints: String = hints.map(|hint| format!("# {hint}\n")).collect();
            // A line of a default must not look like the next field.
            let default = field.default_shown().replace('\n', "\n  ");
            format!("{hints}{}: {default}\n", self.label(field))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The question in lines, for a notification: what to choose from, or the fields.
    pub(crate) fn lines_to_read(&self) -> Vec<String> {
        let choices = self.offers().into_iter().map(|(_, line)| line);
        let choices = choices
            .zip(1_usize..)
            .map(|(line, n)| format!("{n}  {line}"));
        choices.chain(self.details()).collect()
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

    /// The content of an answer, for the agent.
    pub(crate) fn content(&self, text: Option<&str>) -> Result<Map<String, Value>, AnswerError> {
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        let mut content = Map::new();
        match text {
            _ if self.fields.is_empty() => return Ok(content),
            None => {}
            Some(text) => match (serde_json::from_str::<Value>(text), self.fields.as_slice()) {
                (Ok(Value::Object(given)), _) => {
                    for (name, value) in given {
                        self.field(&name)?.fill_json(&mut content, &value)?;
                    }
                }
                (_, [field]) => field.fill(&mut content, text)?,
                (_, _) => {
                    for (field, value) in self.lines(text)? {
                        field.fill(&mut content, &value)?;
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
                return Err(AnswerError::Missing {
                    field: field.title.clone(),
                    fitting: field.fitting(),
                });
            }
        }
        if content.is_empty() {
            let fitting = self.fields.iter().map(|field| match self.fields.len() {
                1 => field.fitting(),
                _ => format!("{}: {}", field.title, field.fitting()),
            });
            return Err(AnswerError::Empty(fitting.collect::<Vec<_>>().join("; ")));
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

    fn field(&self, name: &str) -> Result<&QuestionField, AnswerError> {
        let same = |known: &str| known.eq_ignore_ascii_case(name.trim());
        let by_name = self.fields.iter().find(|field| same(&field.name));
        let by_title = || self.fields.iter().find(|field| same(&field.title));
        by_name.or_else(by_title).ok_or_else(|| self.no_field(name))
    }

    fn no_field(&self, name: &str) -> AnswerError {
        let labels: Vec<&str> = self.fields.iter().map(|it| self.label(it)).collect();
        AnswerError::NoSuchField {
            name: name.to_owned(),
            fields: labels.join(", "),
        }
    }

    /// What a line about a field begins with: its title, if that is unique and fits into a line.
    fn label<'a>(&self, field: &'a QuestionField) -> &'a str {
        let is_taken = |other: &QuestionField| {
            let title = &field.title;
            other.name != field.name
                && [&other.title, &other.name]
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(title))
        };
        let is_line = field.title.trim() == field.title
            && !field.title.is_empty()
            && !field.title.starts_with('#')
            && !field.title.contains('\n');
        if is_line && !self.fields.iter().any(is_taken) {
            &field.title
        } else {
            &field.name
        }
    }

    /// The filled lines of a form: `label: value`, where a value can go on in the next lines. A line
    /// is about a field only if it begins with a known label.
    fn lines(&self, text: &str) -> Result<Vec<(&QuestionField, String)>, AnswerError> {
        let labels = self.fields.iter().flat_map(|field| {
            let all = [self.label(field), field.name.as_str()];
            all.map(|label| (label, field))
        });
        let mut labels: Vec<(&str, &QuestionField)> = labels.collect();
        labels.sort_by_key(|(label, _)| std::cmp::Reverse(label.len()));
        let about = |line: &str| {
            labels.iter().find_map(|(label, field)| {
                let (begins, rest) = line.split_at_checked(label.len())?;
                let value = rest.trim_start().strip_prefix(':')?;
                let is_same = begins.eq_ignore_ascii_case(label);
                is_same.then(|| (*field, value.trim().to_owned()))
            })
        };
        let mut all: Vec<(&QuestionField, String)> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match (about(line), all.last_mut()) {
                (Some(begun), _) => all.push(begun),
                (None, Some((_, value))) => {
                    value.push('\n');
                    value.push_str(line.trim());
                }
                (None, None) if line.trim().is_empty() => {}
                (None, None) => {
                    let name = line.split_once(':').map(|(name, _)| name.trim());
                    return Err(name.map_or(AnswerError::NoField, |name| self.no_field(name)));
                }
            }
        }
        Ok(all)
    }
}

impl QuestionField {
    /// Adds a value to an answer, exactly as it was given.
    pub(crate) fn fill_json(
        &self,
        content: &mut Map<String, Value>,
        value: &Value,
    ) -> Result<(), AnswerError> {
        let wrong = || self.does_not_fit(&shown(value));
        match (self.kind, value) {
            (_, Value::Null) => {}
            (FieldKind::Text, Value::String(text)) => {
                content.insert(self.name.clone(), Value::from(text.as_str()));
            }
            (FieldKind::One, Value::String(text)) => {
                match (self.named(text), &self.other) {
                    (Some(value), _) => content.insert(self.name.clone(), Value::from(value)),
                    (None, Some(other)) => content.insert(other.clone(), Value::from(text.clone())),
                    (None, None) => return self.fill(content, text),
                };
            }
            (FieldKind::Many, Value::Array(values)) => {
                let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
                let texts = texts.ok_or_else(wrong)?;
                let option = |text: &&str| self.named(text).is_some();
                let (known, own): (Vec<&str>, Vec<&str>) = texts.into_iter().partition(option);
                let known: Vec<&str> = known.iter().filter_map(|text| self.named(text)).collect();
                self.fill_many(content, &known, &own).ok_or_else(wrong)?;
            }
            (_, Value::Array(_) | Value::Object(_)) | (FieldKind::Text, _) => return Err(wrong()),
            (_, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
                return self.fill(content, &shown(value));
            }
        }
        Ok(())
    }

    /// None if the words beside the options do not fit.
    fn fill_many(
        &self,
        content: &mut Map<String, Value>,
        known: &[&str],
        own: &[&str],
    ) -> Option<()> {
        if !own.is_empty() {
            let other = self.other.clone()?;
            content.insert(other, Value::from(own.join(", ")));
        }
        if !known.is_empty() {
            content.insert(self.name.clone(), Value::from(known));
        }
        Some(())
    }

    fn does_not_fit(&self, given: &str) -> AnswerError {
        AnswerError::DoesNotFit {
            given: given.to_owned(),
            fitting: self.fitting(),
        }
    }

    /// Adds what you wrote to an answer.
    fn fill(&self, content: &mut Map<String, Value>, text: &str) -> Result<(), AnswerError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let wrong = || self.does_not_fit(text);
        let value = match self.kind {
            FieldKind::Text => Value::from(text),
            FieldKind::Integer => Value::from(text.parse::<i64>().map_err(|_| wrong())?),
            FieldKind::Number => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                Value::from(number.ok_or_else(wrong)?)
            }
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
                let (known, own) = self.split(text);
                return self.fill_many(content, &known, &own).ok_or_else(wrong);
            }
        };
        content.insert(self.name.clone(), value);
        Ok(())
    }

    /// The values of the options in a list, and the other words. An option can contain a comma.
    fn split<'a>(&'a self, text: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
        let (mut known, mut own) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let mut rest = line.trim();
            while !rest.is_empty() {
                let ends = rest.match_indices(',').map(|(at, _)| at);
                let ends: Vec<usize> = ends.chain([rest.len()]).take(MOST_COMMAS).collect();
                let longest = ends.iter().rev().find_map(|end| {
                    let value = self.option(rest[..*end].trim())?;
                    Some((*end, value))
                });
                let end = longest.map_or(ends[0], |(end, _)| end);
                let part = rest[..end].trim();
                match longest {
                    Some((_, value)) => known.push(value),
                    None if part.is_empty() => {}
                    None => own.push(part),
                }
                rest = rest[end..].trim_start_matches(',').trim();
            }
        }
        (known, own)
    }

    /// The value of an option, by its number as shown, its value or its title.
    fn option(&self, text: &str) -> Option<&str> {
        let number = text.parse::<usize>().ok();
        let by_number = number.and_then(|number| self.options.get(number.checked_sub(1)?));
        by_number
            .map(|option| option.value.as_str())
            .or_else(|| self.named(text))
    }

    /// The value of an option, by its value or its title.
    fn named(&self, text: &str) -> Option<&str> {
        let mut options = self.options.iter();
        let exact = options.find(|option| option.value == text);
        let similar = || {
            self.options.iter().find(|option| {
                option.value.eq_ignore_ascii_case(text) || option.title.eq_ignore_ascii_case(text)
            })
        };
        exact.or_else(similar).map(|option| option.value.as_str())
    }

    /// The default as you would write it: what is chosen by its title, each in a line.
    fn default_shown(&self) -> String {
        let written = |value: &Value| {
            let text = shown(value);
            let mut options = self.options.iter().zip(1_usize..);
            let chosen = options.find(|(option, _)| option.value == text);
            match chosen {
                Some((option, _)) if self.option(&option.title) == Some(&option.value) => {
                    option.title.clone()
                }
                Some((_, number)) => number.to_string(),
                None => text,
            }
        };
        match &self.default {
            Some(Value::Array(values)) => values.iter().map(written).collect::<Vec<_>>().join("\n"),
            Some(value) => written(value),
            None => String::new(),
        }
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
        question
            .content(Some(text))
            .map(Value::Object)
            .map_err(|why| why.to_string())
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

    fn systems(names: &[&str]) -> AgentQuestion {
        question(vec![field("os", FieldKind::Many, names)])
    }

    #[test]
    fn an_option_with_a_comma_is_one_option_in_json_in_text_and_as_a_default() {
        let mut asked = systems(&["Linux, BSD", "macOS", "Linux"]);
        let both = Ok(json!({"os": ["linux, bsd", "macos"]}));
        for text in [
            r#"{"os": ["Linux, BSD", "macOS"]}"#,
            "linux, bsd, macos",
            "Linux, BSD\nmacOS",
            "1, 2",
        ] {
            assert_eq!(answer(&asked, text), both, "{text}");
        }
        let apart = Ok(json!({"os": ["linux", "macos"]}));
        assert_eq!(answer(&asked, "linux, macos"), apart);
        assert!(answer(&asked, r#"{"os": ["Linux, BSD, macOS"]}"#).is_err());
        asked.fields[0].default = Some(json!(["linux, bsd", "macos"]));
        assert_eq!(answer(&asked, &asked.form()), both);
        asked.fields.push(field("other", FieldKind::Text, &[]));
        assert_eq!(answer(&asked, &asked.form()), both);
    }

    #[test]
    fn the_number_that_is_shown_chooses_that_option_also_among_numbers() {
        let asked = question(vec![field("n", FieldKind::One, &["0", "1", "2"])]);
        for (text, value) in [("1", "0"), ("3", "2"), ("0", "0"), (r#"{"n": "1"}"#, "1")] {
            assert_eq!(answer(&asked, text), Ok(json!({"n": value})), "{text}");
        }
        let offers = asked.offers();
        for ((text, _), value) in offers.iter().zip(["0", "1", "2"]) {
            assert_eq!(answer(&asked, text), Ok(json!({"n": value})), "{text}");
        }
    }

    #[test]
    fn only_a_line_that_begins_with_a_known_title_is_about_a_field() {
        let mut page = field("p", FieldKind::Text, &[]);
        page.title = "Page: which?".into();
        let mut short = field("short", FieldKind::Text, &[]);
        short.title = "Page".into();
        let asked = question(vec![page, short]);
        assert_eq!(
            answer(&asked, "Page: which?: see\nhttp://localhost/: b\nPage: c"),
            Ok(json!({"p": "see\nhttp://localhost/: b", "short": "c"}))
        );
    }

    #[test]
    fn a_default_or_a_hint_cannot_fill_another_field() {
        let mut first = field("first", FieldKind::Text, &[]);
        first.default = Some(json!("a\nSECOND: no\n# no"));
        first.description = Some("why\nSECOND: no".into());
        let asked = question(vec![first, field("second", FieldKind::Text, &[])]);
        assert_eq!(
            answer(&asked, &asked.form()),
            Ok(json!({"first": "a\nSECOND: no\n# no"}))
        );
    }

    #[test]
    fn a_number_is_finite_and_a_text_from_json_stays_as_it_is() {
        let asked = question(vec![field("n", FieldKind::Number, &[])]);
        for text in ["NaN", "inf", "-infinity", "1e999"] {
            assert!(answer(&asked, text).is_err(), "{text}");
        }
        assert_eq!(answer(&asked, "1.5"), Ok(json!({"n": 1.5})));
        let asked = question(vec![field("t", FieldKind::Text, &[])]);
        let text = r#"{"t": " x, y "}"#;
        assert_eq!(answer(&asked, text), Ok(json!({"t": " x, y "})));
    }

    #[test]
    fn fields_with_the_same_title_are_named_in_the_form() {
        let mut fields = ["a", "b"].map(|name| field(name, FieldKind::Text, &[]));
        for field in &mut fields {
            field.title = "Other".into();
        }
        let asked = question(fields.into());
        assert_eq!(asked.form(), "a: \n\nb: \n");
        assert_eq!(
            answer(&asked, "a: 1\nb: 2"),
            Ok(json!({"a": "1", "b": "2"}))
        );
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
