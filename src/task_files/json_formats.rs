//! JSON: `prd.json`, GitHub issues, beads, and creel's own tasks.

use std::ops::Range;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::{
    engine::tasks::{
        command::NewTask,
        graph::{LOWEST, TaskState},
    },
    task_files::{FileTask, FileTaskState, TaskFile, TaskFileError, TaskFormat, in_sequence},
};

/// Which format a text has.
pub(super) fn format_of(text: &str) -> Result<TaskFormat, TaskFileError> {
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    if !looks_like_json {
        return Ok(TaskFormat::Markdown);
    }
    let values = values(text, TaskFormat::Json)?;
    let of_object = |value: &Value| {
        let has = |key: &str| value.get(key).is_some();
        if has("userStories") {
            Some(TaskFormat::Prd)
        } else if has("goal") {
            Some(TaskFormat::Json)
        } else if has("number") && has("title") {
            Some(TaskFormat::Github)
        } else if has("id") && has("title") || has("_type") {
            Some(TaskFormat::Beads)
        } else {
            None
        }
    };
    match values.first() {
        // A list without entries has no tasks, whatever it lists.
        None => Ok(TaskFormat::Json),
        Some(first) => of_object(first).ok_or(TaskFileError::Unknown),
    }
}

pub(super) fn read(text: &str, format: TaskFormat) -> Result<TaskFile, TaskFileError> {
    let (tasks, note) = match format {
        TaskFormat::Prd => prd(text)?,
        TaskFormat::Github => (each(text, format, |entry| Some(issue(entry)))?, None),
        TaskFormat::Beads => (above_their_parts(each(text, format, bead)?), None),
        TaskFormat::Json | TaskFormat::Markdown => {
            (each(text, format, |entry| Some(own(entry)))?, None)
        }
    };
    Ok(TaskFile {
        format,
        tasks,
        note,
    })
}

/// The entries of a list, or the objects of a text with one in each line.
fn values(text: &str, format: TaskFormat) -> Result<Vec<Value>, TaskFileError> {
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.map_err(|error| unreadable(format, &error))?;
        if let Value::Array(list) = value {
            values.extend(list);
        } else {
            values.push(value);
        }
    }
    Ok(values)
}

fn unreadable(format: TaskFormat, reason: &dyn std::fmt::Display) -> TaskFileError {
    TaskFileError::Unreadable {
        format,
        reason: reason.to_string(),
    }
}

fn each<T: DeserializeOwned>(
    text: &str,
    format: TaskFormat,
    task: impl Fn(T) -> Option<FileTask>,
) -> Result<Vec<FileTask>, TaskFileError> {
    let read = |(at, value): (usize, Value)| {
        serde_json::from_value(value)
            .map_err(|error| unreadable(format, &format!("entry {}: {error}", at + 1)))
    };
    let all: Result<Vec<T>, _> = values(text, format)?
        .into_iter()
        .enumerate()
        .map(read)
        .collect();
    Ok(all?.into_iter().filter_map(task).collect())
}

/// The parts of a text that are not empty, as paragraphs.
fn paragraphs<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let parts = parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

/// A text, which other tools may leave out or set to `null`.
fn text_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn list_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

// prd.json

#[derive(Deserialize)]
struct PrdFile<'a> {
    #[serde(borrow, rename = "userStories")]
    stories: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrdStory<'a> {
    id: String,
    title: String,
    #[serde(default, deserialize_with = "text_or_none")]
    description: String,
    #[serde(default, deserialize_with = "list_or_none")]
    acceptance_criteria: Vec<String>,
    #[serde(default)]
    priority: Value,
    #[serde(borrow, default)]
    passes: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "list_or_none")]
    labels: Vec<String>,
    depends_on: Option<Vec<String>>,
    #[serde(default, deserialize_with = "text_or_none")]
    notes: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    parent: Option<String>,
}

fn prd(text: &str) -> Result<(Vec<FileTask>, Option<&'static str>), TaskFileError> {
    let cannot = |reason: &dyn std::fmt::Display| unreadable(TaskFormat::Prd, reason);
    let file: PrdFile<'_> = serde_json::from_str(text).map_err(|error| cannot(&error))?;
    let (mut stories, mut names_dependencies) = (Vec::new(), false);
    for (at, raw) in file.stories.iter().enumerate() {
        let story: PrdStory<'_> = serde_json::from_str(raw.get())
            .map_err(|error| cannot(&format!("story {}: {error}", at + 1)))?;
        names_dependencies |= story.depends_on.is_some();
        stories.push((
            rank(&story.priority),
            story_task(text, story).map_err(|why| cannot(&why))?,
        ));
    }
    let note = if names_dependencies {
        None
    } else {
        // ralph works on one story at a time, in this order.
        stories.sort_by_key(|(rank, _)| rank.unwrap_or(u64::MAX));
        Some(
            "each story waits for the one before it: the file has no `dependsOn`, and ralph works in the order of priorities",
        )
    };
    let mut tasks: Vec<FileTask> = stories.into_iter().map(|(_, task)| task).collect();
    if !names_dependencies {
        in_sequence(&mut tasks);
    }
    let note = note.filter(|_| tasks.len() > 1);
    Ok((tasks, note))
}

fn story_task(text: &str, story: PrdStory<'_>) -> Result<FileTask, String> {
    let (title, description) = (story.title.trim(), story.description.trim());
    // An exported goal that is not a title and paragraphs is the whole description.
    let goal = if description.starts_with(title) {
        description
    } else {
        ""
    };
    let goal = if goal.is_empty() {
        paragraphs([title, description])
    } else {
        goal.to_owned()
    };
    let passes = match story.passes.map(RawValue::get) {
        None | Some("false" | "null") => false,
        Some("true") => true,
        Some(other) => {
            return Err(format!(
                "story `{}`: `passes` is true or false, not {other}",
                story.id
            ));
        }
    };
    let mark = story
        .passes
        .filter(|_| !passes)
        .and_then(|raw| place_in(text, raw.get()));
    Ok(FileTask {
        task: NewTask {
            id: Some(story.id),
            goal: paragraphs([goal.as_str(), story.notes.trim()]),
            deliverables: story.acceptance_criteria,
            labels: story.labels,
            priority: rank(&story.priority).map(|rank| {
                u8::try_from(rank.saturating_sub(1)).map_or(LOWEST, |rank| rank.min(LOWEST))
            }),
            kind: story.kind,
            parent: story.parent,
            dependencies: story.depends_on.unwrap_or_default(),
            queue: None,
        },
        state: if passes {
            FileTaskState::Done
        } else {
            FileTaskState::Open
        },
        origin: None,
        marks: mark.into_iter().collect(),
    })
}

/// Priorities count from 1. Some tools write words.
fn rank(priority: &Value) -> Option<u64> {
    match priority {
        Value::Number(number) => number.as_u64(),
        Value::String(word) => match word.to_lowercase().as_str() {
            "critical" => Some(1),
            "high" => Some(2),
            "medium" => Some(3),
            "low" => Some(4),
            _ => None,
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Where a part of a text is in it.
fn place_in(text: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let place = start..start + part.len();
    (text.get(place.clone()) == Some(part)).then_some(place)
}

// GitHub

#[derive(Deserialize)]
struct GithubIssue {
    number: u64,
    title: String,
    #[serde(default, deserialize_with = "text_or_none")]
    body: String,
    #[serde(default, deserialize_with = "list_or_none")]
    labels: Vec<IssueLabel>,
    #[serde(default, deserialize_with = "text_or_none")]
    state: String,
    #[serde(default, alias = "html_url", deserialize_with = "text_or_none")]
    url: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum IssueLabel {
    Whole { name: String },
    Name(String),
}

fn issue(issue: GithubIssue) -> FileTask {
    let GithubIssue {
        number,
        title,
        body,
        labels,
        state,
        url,
    } = issue;
    let title = format!("Issue #{number}: {}", title.trim());
    let is_closed = state.eq_ignore_ascii_case("closed") || state.eq_ignore_ascii_case("merged");
    FileTask {
        task: NewTask {
            id: Some(number.to_string()),
            goal: paragraphs([title.as_str(), &body.replace("\r\n", "\n"), &url]),
            labels: labels
                .into_iter()
                .map(|label| match label {
                    IssueLabel::Whole { name } | IssueLabel::Name(name) => name,
                })
                .collect(),
            ..NewTask::default()
        },
        state: if is_closed {
            FileTaskState::Done
        } else {
            FileTaskState::Open
        },
        origin: repository_of(&url),
        marks: Vec::new(),
    }
}

/// `OWNER/NAME` of `https://github.com/OWNER/NAME/issues/1`.
fn repository_of(url: &str) -> Option<String> {
    let (before, _) = url.rsplit_once("/issues/")?;
    let mut words = before.rsplit('/');
    let (name, owner) = (words.next()?, words.next()?);
    Some(format!("{owner}/{name}"))
}

// beads

#[derive(Deserialize)]
struct Bead {
    #[serde(default, deserialize_with = "text_or_none")]
    id: String,
    #[serde(default, deserialize_with = "text_or_none")]
    title: String,
    #[serde(default, deserialize_with = "text_or_none")]
    description: String,
    #[serde(default, deserialize_with = "text_or_none")]
    design: String,
    #[serde(default, deserialize_with = "text_or_none")]
    acceptance_criteria: String,
    #[serde(default, deserialize_with = "text_or_none")]
    notes: String,
    #[serde(default, deserialize_with = "text_or_none")]
    status: String,
    priority: Option<u8>,
    #[serde(default, deserialize_with = "text_or_none")]
    issue_type: String,
    #[serde(default, deserialize_with = "list_or_none")]
    labels: Vec<String>,
    #[serde(default, deserialize_with = "list_or_none")]
    dependencies: Vec<BeadLink>,
    /// What the line is about. beads keeps other things in the same file, too.
    #[serde(default, rename = "_type", deserialize_with = "text_or_none")]
    record: String,
    is_template: Option<bool>,
}

#[derive(Deserialize)]
struct BeadLink {
    /// `bd show` has the whole other bead in its place.
    #[serde(alias = "id")]
    depends_on_id: String,
    #[serde(
        default,
        rename = "type",
        alias = "dependency_type",
        alias = "dep_type"
    )]
    kind: Option<String>,
}

fn bead(bead: Bead) -> Option<FileTask> {
    let is_other = !matches!(bead.record.as_str(), "" | "issue");
    if is_other || bead.status == "tombstone" || bead.is_template == Some(true) {
        return None;
    }
    let titled = |title: &str, text: &str| {
        let text = text.trim();
        if text.is_empty() {
            String::new()
        } else {
            format!("{title}:\n{text}")
        }
    };
    let (design, notes) = (titled("Design", &bead.design), titled("Notes", &bead.notes));
    let mut labels = bead.labels;
    if !matches!(bead.issue_type.as_str(), "" | "task") {
        labels.push(bead.issue_type);
    }
    let kind_of = |link: &BeadLink| link.kind.clone().unwrap_or_else(|| "blocks".to_owned());
    let is_parent = |link: &&BeadLink| kind_of(link) == "parent-child";
    let parent = bead.dependencies.iter().find(is_parent);
    let waits = |link: &&BeadLink| {
        matches!(
            kind_of(link).as_str(),
            "blocks" | "conditional-blocks" | "waits-for"
        )
    };
    let dependencies = bead.dependencies.iter().filter(waits);
    let criteria = bead.acceptance_criteria.lines().map(|line| {
        let line = line.trim().trim_start_matches(['-', '*', '+']).trim_start();
        let line = ["[ ]", "[x]"]
            .into_iter()
            .find_map(|mark| line.strip_prefix(mark))
            .unwrap_or(line);
        line.trim().to_owned()
    });
    Some(FileTask {
        task: NewTask {
            id: Some(bead.id),
            goal: paragraphs([bead.title.as_str(), &bead.description, &design, &notes]),
            deliverables: criteria.filter(|line| !line.is_empty()).collect(),
            labels,
            priority: bead.priority.map(|priority| priority.min(LOWEST)),
            kind: None,
            parent: parent.map(|link| link.depends_on_id.clone()),
            dependencies: dependencies
                .map(|link| link.depends_on_id.clone())
                .collect(),
            queue: None,
        },
        state: match bead.status.as_str() {
            "closed" => FileTaskState::Done,
            "deferred" | "pinned" => FileTaskState::Deferred,
            _ => FileTaskState::Open,
        },
        origin: Some("beads".to_owned()),
        marks: Vec::new(),
    })
}

/// An epic is done when its parts are.
fn above_their_parts(mut tasks: Vec<FileTask>) -> Vec<FileTask> {
    for at in 0..tasks.len() {
        let (id, parent) = (tasks[at].id().to_owned(), tasks[at].task.parent.clone());
        let above = tasks
            .iter_mut()
            .find(|task| parent.as_deref() == Some(task.id()));
        if let Some(above) = above.filter(|above| !above.task.dependencies.contains(&id)) {
            above.task.dependencies.push(id);
        }
    }
    tasks
}

// creel

#[derive(Deserialize)]
struct OwnTask {
    #[serde(flatten)]
    task: NewTask,
    state: Option<TaskState>,
    #[serde(default)]
    agents: Vec<String>,
}

fn own(own: OwnTask) -> FileTask {
    let OwnTask {
        mut task,
        state,
        agents,
    } = own;
    if !agents.is_empty() {
        task.queue = Some(agents.into_iter().collect());
    }
    let is_done = state == Some(TaskState::Completed);
    FileTask {
        task,
        state: if is_done {
            FileTaskState::Done
        } else {
            FileTaskState::Open
        },
        ..FileTask::default()
    }
}
