//! Tasks as text for a terminal: a table of many, or the details of one.

use unicode_width::UnicodeWidthStr as _;

use super::{
    task_view::TaskView,
    text::{plain, plain_line},
};

/// The longest goal in a line of the table, in characters.
const GOAL: usize = 60;

/// One line per task, below a heading.
pub fn table(tasks: &[TaskView]) -> String {
    columns(
        ["ID", "STATE", "PRIORITY", "GOAL", "DEPENDS ON"],
        tasks.iter().map(row),
    )
}

/// Rows below a heading, with aligned columns.
pub fn columns<const N: usize>(
    heading: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = std::iter::once(heading.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    rows.iter().map(|row| line(row, widths)).collect()
}

fn row(task: &TaskView) -> [String; 5] {
    [
        short(&task.id),
        task.state.name().to_owned(),
        task.priority.to_string(),
        short(&task.goal),
        task.dependencies.join(", "),
    ]
}

fn line<const N: usize>(row: &[String; N], widths: [usize; N]) -> String {
    let padded =
        |(cell, width): (&String, usize)| format!("{cell}{}", " ".repeat(width - cell.width()));
    let cells: Vec<String> = row.iter().zip(widths).map(padded).collect();
    cells.join("  ").trim_end().to_owned() + "\n"
}

pub(super) fn short(text: &str) -> String {
    plain_line(text, GOAL)
}

/// All details of a task, one per line.
pub fn whole(task: &TaskView) -> String {
    let list = |all: &[String]| all.join(", ");
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = [
        ("task", format!("{} ({})", task.id, task.state.name())),
        ("goal", task.goal.clone()),
        ("priority", task.priority.to_string()),
        ("type", some(&task.kind)),
        ("labels", list(&task.labels)),
        ("deliverables", task.deliverables.join("\n")),
        ("depends on", list(&task.dependencies)),
        (
            "queue",
            task.queue
                .as_deref()
                .map(|agents| {
                    if agents.is_empty() {
                        "for all agents".into()
                    } else {
                        list(agents)
                    }
                })
                .unwrap_or_default(),
        ),
        ("needed by", list(&task.dependents)),
        ("parent", some(&task.parent)),
        ("blocked", some(&task.reason)),
        ("needs", task.required_knowledge.join("\n")),
        ("result", some(&task.result)),
        ("artifacts", task.artifacts.join("\n")),
        ("added", task.created_at.clone()),
        ("started", some(&task.started_at)),
        ("completed", some(&task.completed_at)),
    ];
    facts(lines)
}

/// Named values, one per line. Empty ones are left out.
pub(super) fn facts<const N: usize>(lines: [(&str, String); N]) -> String {
    let said = lines
        .into_iter()
        .filter(|(_, text)| !text.trim().is_empty());
    said.map(|(name, text)| format!("{name:12}  {}\n", indented(&text)))
        .collect()
}

/// Indents all lines after the first.
fn indented(text: &str) -> String {
    plain(text)
        .trim_end()
        .replace('\n', &format!("\n{:14}", ""))
}
