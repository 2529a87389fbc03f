//! Markdown: checklists, and plans whose tasks are headings.
//!
//! Owns where a task begins and ends, and what of the text belongs to it. A nested task is a part of
//! the one above it, which waits for it.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::{
    engine::tasks::command::NewTask,
    task_files::{
        FileTask, FileTaskState, TaskFile, TaskFileError, TaskFormat, in_sequence, slug, unused_id,
    },
};

/// The line that says that the list below it has the task's deliverables.
const DELIVERABLES: &str = "Deliverables:";
/// The columns of a tab.
const TAB: usize = 4;

static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX~/>!?-])\](?:[ \t]+(.*))?$")
        .expect("a valid pattern")
});
static TASK_HEADING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^###[ \t]+(?:Task|Iteration)[ \t]+([^:]+?)[ \t]*:[ \t]*(.*)$")
        .expect("a valid pattern")
});
static HEADING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(#{1,6})[ \t]").expect("a valid pattern"));
static NOTE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[ \t]*<!-- creel (\{.*\}) -->[ \t]*$").expect("a valid pattern"));

/// What a checklist of creel says about a task in a comment, which readers of Markdown do not show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ChecklistNote {
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) after: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<u8>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) labels: Vec<String>,
    /// The parent, where nesting does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    /// The goal, where the visible text cannot be read as this goal again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) goal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) deliverables: Vec<String>,
}

/// A line that can be a part of a list.
struct ListLine<'a> {
    number: usize,
    indent: usize,
    whole: &'a str,
    /// Whether it is in a code block or a comment.
    is_literal: bool,
    item: Option<ListItem<'a>>,
}

/// A line with a box.
struct ListItem<'a> {
    mark: Range<usize>,
    state: FileTaskState,
    text: &'a str,
}

/// The list as far as it has been read.
#[derive(Default)]
struct ChecklistReader {
    tasks: Vec<FileTask>,
    /// The task of the last box and those above it, with their indentation.
    open: Vec<(usize, usize)>,
    /// The lines of each task below its first. None: its comment has the whole task.
    bodies: Vec<Option<Vec<String>>>,
}

pub(super) fn read(text: &str) -> Result<TaskFile, TaskFileError> {
    let lines = lines(text);
    let is_plan = lines
        .iter()
        .any(|line| !line.is_literal && TASK_HEADING.is_match(line.whole));
    let tasks = if is_plan {
        read_plan(&lines)
    } else {
        read_list(&lines)?
    };
    if tasks.is_empty() {
        return Err(TaskFileError::NoChecklist);
    }
    Ok(TaskFile {
        format: TaskFormat::Markdown,
        tasks,
        note: is_plan.then_some(
            "each task waits for the one before it, as in a plan with `### Task N:` headings",
        ),
    })
}

/// The lines with their boxes. Boxes in code blocks and comments are none.
fn lines(text: &str) -> Vec<ListLine<'_>> {
    let (mut lines, mut start) = (Vec::new(), 0);
    let (mut fence, mut is_comment): (Option<&str>, bool) = (None, false);
    for (number, whole) in text.split_inclusive('\n').enumerate() {
        let line = whole.trim_end_matches(['\n', '\r']);
        let trimmed = line.trim_start();
        let is_literal = fence.is_some() || is_comment;
        let item = if is_literal {
            None
        } else {
            list_item(line, start)
        };
        match fence {
            Some(opened) if trimmed.starts_with(opened) => fence = None,
            Some(_) => {}
            None => {
                fence = ["```", "~~~"]
                    .into_iter()
                    .find(|mark| trimmed.starts_with(mark));
            }
        }
        if fence.is_none() && item.is_none() {
            is_comment = (is_comment || trimmed.starts_with("<!--")) && !trimmed.contains("-->");
        }
        lines.push(ListLine {
            number: number + 1,
            indent: indent_of(line),
            whole: line,
            is_literal,
            item,
        });
        start += whole.len();
    }
    lines
}

fn list_item(line: &str, start: usize) -> Option<ListItem<'_>> {
    let found = ITEM.captures(line)?;
    let mark = found.get(2)?;
    let state = match mark.as_str() {
        " " => FileTaskState::Open,
        "x" | "X" => FileTaskState::Done,
        _ => FileTaskState::Deferred,
    };
    Some(ListItem {
        mark: start + mark.start()..start + mark.end(),
        state,
        text: found.get(3).map_or("", |text| text.as_str().trim_end()),
    })
}

fn indent_of(line: &str) -> usize {
    let blank = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    blank.map(|c| if c == '\t' { TAB } else { 1 }).sum()
}

/// Each box is a task.
fn read_list(lines: &[ListLine<'_>]) -> Result<Vec<FileTask>, TaskFileError> {
    let mut list = ChecklistReader::default();
    for line in lines {
        match &line.item {
            Some(item) => list.begin(line, item)?,
            None => list.add_line(line),
        }
    }
    Ok(list.end())
}

impl ChecklistReader {
    fn begin(&mut self, line: &ListLine<'_>, item: &ListItem<'_>) -> Result<(), TaskFileError> {
        // A nested list is at least two columns further to the right.
        self.open.retain(|(indent, _)| indent + 2 <= line.indent);
        let above = self.open.last().map(|(_, at)| *at);
        let (text, note) = note_of(item.text).map_err(|reason| TaskFileError::Unreadable {
            format: TaskFormat::Markdown,
            reason: format!("line {}: {reason}", line.number),
        })?;
        let id = note
            .id
            .clone()
            .unwrap_or_else(|| unused_id(&slug(text), &self.tasks));
        if let Some(above) = above {
            self.tasks[above].task.dependencies.push(id.clone());
        }
        let has_body = note.goal.is_none();
        let parent = above.map(|above| self.tasks[above].id().to_owned());
        self.tasks.push(FileTask {
            task: NewTask {
                id: Some(id),
                goal: note.goal.unwrap_or_else(|| text.to_owned()),
                deliverables: note.deliverables,
                labels: note.labels,
                priority: note.priority,
                kind: note.kind,
                parent: note.parent.or(parent),
                dependencies: note.after,
                queue: None,
            },
            state: item.state,
            origin: None,
            marks: open_mark(item),
        });
        self.bodies.push(has_body.then(Vec::new));
        self.open.push((line.indent, self.tasks.len() - 1));
        Ok(())
    }

    /// What is indented below a box belongs to it.
    fn add_line(&mut self, line: &ListLine<'_>) {
        let text = line.whole.trim_start();
        if !text.is_empty() {
            self.open.retain(|(indent, _)| indent + 2 <= line.indent);
        }
        let Some((indent, at)) = self.open.last() else {
            return;
        };
        if let Some(body) = &mut self.bodies[*at] {
            let blank = " ".repeat(line.indent.saturating_sub(indent + 2));
            body.push(format!("{blank}{text}"));
        }
    }

    fn end(mut self) -> Vec<FileTask> {
        for (task, body) in self.tasks.iter_mut().zip(self.bodies) {
            add_body(&mut task.task, &body.unwrap_or_default());
        }
        self.tasks
    }
}

fn open_mark(item: &ListItem<'_>) -> Vec<Range<usize>> {
    let is_open = item.state == FileTaskState::Open;
    is_open.then(|| item.mark.clone()).into_iter().collect()
}

/// The text of a box, and what creel's comment behind it says.
fn note_of(text: &str) -> Result<(&str, ChecklistNote), String> {
    let Some(found) = NOTE.captures(text) else {
        return Ok((text, ChecklistNote::default()));
    };
    let whole = found.get(0).map_or(text.len(), |whole| whole.start());
    let note = serde_json::from_str(&found[1]).map_err(|error| {
        format!("the comment `<!-- creel … -->` is not as creel writes it: {error}")
    })?;
    Ok((&text[..whole], note))
}

/// Adds the lines below a task to its goal, and the list at their end to its deliverables.
fn add_body(task: &mut NewTask, body: &[String]) {
    let body = body.join("\n");
    let body = body.trim_end();
    let (text, list) = match body.rsplit_once(DELIVERABLES) {
        Some((text, list))
            if text.trim_end_matches(' ').ends_with('\n') || text.trim().is_empty() =>
        {
            (text, bullets(list))
        }
        Some(_) | None => (body, None),
    };
    let text = if list.is_some() { text } else { body };
    if !text.trim().is_empty() {
        task.goal = format!("{}\n{}", task.goal, text.trim_end());
    }
    if task.deliverables.is_empty() {
        task.deliverables = list.unwrap_or_default();
    }
}

/// The entries of a list, if the text is nothing else.
fn bullets(text: &str) -> Option<Vec<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let list: Option<Vec<String>> = lines
        .map(|line| line.strip_prefix("- ").map(|entry| entry.trim().to_owned()))
        .collect();
    list.filter(|list| !list.is_empty())
}

/// Each `### Task` heading is a task, and the open boxes below it are what it has to produce.
fn read_plan(lines: &[ListLine<'_>]) -> Vec<FileTask> {
    let mut tasks: Vec<FileTask> = Vec::new();
    let mut bodies: Vec<Vec<String>> = Vec::new();
    let mut boxes: Vec<usize> = Vec::new();
    let mut is_within = false;
    for line in lines {
        let heading = HEADING.captures(line.whole).filter(|_| !line.is_literal);
        let of_task = TASK_HEADING
            .captures(line.whole)
            .filter(|_| !line.is_literal);
        if let Some(found) = of_task {
            let (number, title) = (&found[1], found[2].trim());
            let goal = if title.is_empty() {
                format!("Task {number}")
            } else {
                title.to_owned()
            };
            tasks.push(FileTask {
                task: NewTask {
                    id: Some(unused_id(&format!("task-{}", slug(number)), &tasks)),
                    goal,
                    ..NewTask::default()
                },
                ..FileTask::default()
            });
            bodies.push(Vec::new());
            boxes.push(0);
            is_within = true;
        } else if heading.is_some_and(|heading| heading[1].len() <= 3) {
            is_within = false;
        } else if let (true, Some(task), Some(body), Some(boxes)) = (
            is_within,
            tasks.last_mut(),
            bodies.last_mut(),
            boxes.last_mut(),
        ) {
            let Some(item) = &line.item else {
                let is_rule = line.whole.len() >= 3 && line.whole.chars().all(|c| c == '-');
                body.push(if is_rule {
                    String::new()
                } else {
                    line.whole.to_owned()
                });
                continue;
            };
            *boxes += 1;
            task.marks.extend(open_mark(item));
            if item.state != FileTaskState::Done {
                task.task.deliverables.push(item.text.to_owned());
            }
        }
    }
    for ((task, body), boxes) in tasks.iter_mut().zip(bodies).zip(boxes) {
        if boxes > 0 && task.task.deliverables.is_empty() {
            task.state = FileTaskState::Done;
        }
        let body = body.join("\n");
        if !body.trim().is_empty() {
            task.task.goal = format!("{}\n\n{}", task.task.goal, body.trim());
        }
    }
    in_sequence(&mut tasks);
    tasks
}
