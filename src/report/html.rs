//! A report as one HTML page, for people. It has no script and fetches nothing.
//!
//! # Invariants
//! - Text of others is escaped where it is written, by [`text`]. A policy in the page forbids everything
//!   that creel did not write into it.

use super::{
    CheckHistory, Report, ReportedDiff, ReportedMoment, ReportedRun, ReportedStage, ReportedTurn,
    RunMark,
    chart::BarChart,
    words::{
        self, HeadTone, check_place, check_result, item_state, ran_with, run_facts, stage_outcome,
        stage_usage,
    },
};
use crate::{
    engine::event::{CheckRunResult, IterationOutcome},
    present::text::{counted, short_span},
};

const CSS: &str = include_str!("../../assets/report/report.css");
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The report as a page.
pub fn html(report: &Report) -> String {
    let name = text(&report.session.name);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{name}: {}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n",
        text(&report.outcome.sentence)
    );
    out += &head(report);
    out += &format!("<h2>Goal</h2>\n{}", block(&report.goal));
    out += &checks(report);
    out += &decisions(report);
    out += &used(report);
    out += &iterations(report);
    out += &changes(report);
    out += &items(report);
    out += &facts(report);
    out + "</body>\n</html>\n"
}

fn head(report: &Report) -> String {
    let tone = words::tone(report);
    let class = match tone {
        HeadTone::Good => "good",
        HeadTone::Warning => "warning",
        HeadTone::Bad => "bad",
        HeadTone::Open => "open",
    };
    let name = text(&report.session.name);
    let (sign, sentence) = (words::sign(tone), sentence(&report.outcome.sentence));
    let cautions = report.outcome.cautions.iter();
    let cautions: String = cautions
        .map(|caution| format!("<li class=\"marked\">⚠ {}</li>\n", self::sentence(caution)))
        .collect();
    let cautions = if cautions.is_empty() {
        cautions
    } else {
        format!("<ul>\n{cautions}</ul>\n")
    };
    let summary = text(&words::summary(report));
    format!(
        "<h1>Session {name}</h1>\n<div class=\"head {class}\">\n<p>{sign} {sentence}</p>\n{cautions}</div>\n\
         <p class=\"summary\">{summary}</p>\n"
    )
}

fn checks(report: &Report) -> String {
    let mut out = "<h2>Checks</h2>\n".to_owned();
    if report.checks.is_empty() {
        return out + "<p>No checks are configured, and none ran.</p>\n";
    }
    for check in &report.checks {
        let (name, place) = (text(&check.name), check_place(check));
        let (class, result) = (result_class(check), check_result(check));
        out += &format!(
            "<h3><code>{name}</code> <span class=\"{class}\">{result}</span> <span class=\"faint\">{place}</span></h3>\n"
        );
        if let Some(command) = check.command.as_ref().filter(|it| **it != check.name) {
            out += &format!("<p class=\"faint\"><code>{}</code></p>\n", text(command));
        }
        let runs: String = check
            .runs
            .iter()
            .chain(&check.clean_runs)
            .map(run)
            .collect();
        out += &format!("<div class=\"runs\">{runs}</div>\n");
    }
    out
}

fn result_class(check: &CheckHistory) -> &'static str {
    let has_passed = match check.result {
        Some(result) => result == CheckRunResult::Passed,
        None => check
            .runs
            .last()
            .is_some_and(|run| run.result == RunMark::Passed),
    };
    if has_passed { "passed" } else { "not-passed" }
}

/// A sign that opens the output of its run.
fn run(run: &ReportedRun) -> String {
    let class = if run.result == RunMark::Passed {
        "passed"
    } else {
        "not-passed"
    };
    let (sign, result) = (run.result.sign(), run.result.words());
    let reason = run.reason.as_deref().unwrap_or_default();
    let (with, iteration) = (ran_with(run), run.iteration);
    let what = format!("Iteration {iteration}{with}: {result}. {reason}");
    let facts = text(&run_facts(run, Some(run.at.rfc3339())));
    format!(
        "<details><summary class=\"{class}\" title=\"{what}\">{sign}</summary>\
         <p>{what} <span class=\"faint\">{facts}</span></p>{}</details>\n",
        block(&run.output),
        what = text(&what),
    )
}

fn decisions(report: &Report) -> String {
    if report.gates.is_empty() {
        return String::new();
    }
    let rows: String = report
        .gates
        .iter()
        .map(|gate| {
            let about = gate.about.name().replace('_', " ");
            let answer = gate.answer.as_deref().unwrap_or("not answered");
            let by = gate.by.as_deref().unwrap_or("–");
            let waited = gate.answered.map_or_else(
                || "–".to_owned(),
                |answered| short_span(answered.since(gate.opened)),
            );
            row(&[
                &gate.gate.to_string(),
                &about,
                &gate.reason,
                answer,
                by,
                &waited,
            ])
        })
        .collect();
    let head = ["Gate", "About", "Asked", "Answer", "By", "Waited"];
    format!("<h2>Decisions</h2>\n{}", table(&head, &rows))
}

fn used(report: &Report) -> String {
    let turns: Vec<&ReportedTurn> = report.stages.iter().flat_map(|it| &it.turns).collect();
    let mut out = "<h2>Tokens, cost and time</h2>\n".to_owned();
    out += &list(&words::totals(report));
    if turns.len() < 2 {
        return out;
    }
    #[expect(clippy::cast_precision_loss, reason = "a chart has few pixels")]
    let number = |value: u64| value as f64;
    let largest_tokens = turns.iter().filter_map(|turn| turn.tokens).max();
    let costs = turns.iter().filter(|turn| turn.cost.is_some());
    let largest_cost = costs.max_by(|one, other| {
        let cost = |turn: &ReportedTurn| turn.cost.unwrap_or(0.0);
        cost(one).total_cmp(&cost(other))
    });
    let largest_time = turns.iter().filter_map(|turn| turn.took_ms).max();
    let charts = [
        BarChart {
            title: "Tokens",
            largest: words::tokens(largest_tokens),
            values: turns.iter().map(|turn| turn.tokens.map(number)).collect(),
        },
        BarChart {
            title: "Cost",
            largest: words::cost(
                largest_cost.and_then(|turn| turn.cost),
                largest_cost.and_then(|turn| turn.cost_estimated),
            ),
            values: turns.iter().map(|turn| turn.cost).collect(),
        },
        BarChart {
            title: "Time",
            largest: largest_time.map_or_else(|| words::UNKNOWN.to_owned(), short_span),
            values: turns
                .iter()
                .map(|turn| turn.took_ms.map(|took| number(took.0)))
                .collect(),
        },
    ];
    let charts: String = charts
        .iter()
        .filter(|chart| chart.values.iter().any(Option::is_some))
        .map(BarChart::svg)
        .collect();
    // The words of a small amount have a sign with a meaning.
    out += &format!(
        "<div class=\"charts\">{}</div>\n",
        charts.replace("<$", "&lt;$")
    );
    out + "<p class=\"faint\">One bar per turn. A mark below the line: the agent reported no number.</p>\n"
}

fn iterations(report: &Report) -> String {
    if report.stages.is_empty() {
        return String::new();
    }
    let rows: String = report
        .stages
        .iter()
        .map(|stage| {
            let (tokens, cost) = stage_usage(stage);
            let files = stage.files.len() + stage.more_files;
            row(&[
                &stage.title(),
                stage_outcome(stage),
                &stage.turns.len().to_string(),
                &stage.retries.to_string(),
                &files.to_string(),
                &tokens,
                &cost,
                &short_span(stage.took_ms),
            ])
        })
        .collect();
    let head = [
        "", "Outcome", "Turns", "Retries", "Files", "Tokens", "Cost", "Time",
    ];
    let stages: String = report.stages.iter().map(stage).collect();
    format!("<h2>Iterations</h2>\n{}{stages}", table(&head, &rows))
}

fn stage(stage: &ReportedStage) -> String {
    let class = match stage.outcome {
        Some(IterationOutcome::Done) => "passed",
        Some(IterationOutcome::Failed) => "not-passed",
        Some(IterationOutcome::Forced) => "marked",
        None => "faint",
    };
    let mut out = format!(
        "<h3>{} <span class=\"{class}\">{}</span></h3>\n",
        stage.title(),
        stage_outcome(stage)
    );
    let moments: String = stage.moments.iter().map(moment).collect();
    if !moments.is_empty() {
        out += &details(
            "Timeline",
            &format!("<ul class=\"moments\">\n{moments}</ul>\n"),
        );
    }
    out += &stage.turns.iter().map(turn).collect::<String>();
    if !stage.files.is_empty() {
        let title = format!(
            "Changed {}",
            counted(stage.files.len() + stage.more_files, "file")
        );
        let files: String = stage
            .files
            .iter()
            .map(|file| format!("<li><code>{}</code></li>\n", text(file)))
            .collect();
        let commits = match (&stage.commit_before, &stage.commit_after) {
            (Some(before), Some(after)) if before != after => {
                format!("<p class=\"faint\">{}..{}</p>\n", text(before), text(after))
            }
            _ => String::new(),
        };
        let content = format!("<ul>\n{files}</ul>\n{commits}{}", change(&stage.diff));
        out += &details(&title, &content);
    }
    out
}

fn moment(moment: &ReportedMoment) -> String {
    let at = moment.at.rfc3339();
    let class = if moment.is_bad {
        " class=\"marked\""
    } else {
        ""
    };
    let (time, sign, line) = (&at[11..19], text(moment.sign), text(&moment.text));
    format!("<li{class}><time datetime=\"{at}\">{time}</time>{sign} {line}</li>\n")
}

fn turn(turn: &ReportedTurn) -> String {
    let mut content = format!("<p class=\"faint\">Prompt</p>\n{}", block(&turn.prompt));
    if !turn.answer.trim().is_empty() {
        content += &format!("<p class=\"faint\">Answer</p>\n{}", block(&turn.answer));
    }
    if let Some(error) = &turn.error {
        content += &format!(
            "<p class=\"not-passed\">The turn failed</p>\n{}",
            block(error)
        );
    }
    for edit in &turn.edits {
        content += &format!(
            "<p class=\"faint\">Edit: {}</p>\n{}",
            text(&edit.title),
            diff(&edit.diff)
        );
    }
    details(&words::turn_line(turn), &content)
}

fn changes(report: &Report) -> String {
    let changes = &report.changes;
    let mut out = format!(
        "<h2>Changes</h2>\n<p>{}</p>\n",
        text(&words::changes(changes))
    );
    let files: String = changes
        .files
        .iter()
        .map(|file| format!("<li><code>{}</code></li>\n", text(file)))
        .collect();
    if !files.is_empty() {
        out += &details("Files", &format!("<ul>\n{files}</ul>\n"));
    }
    out + &change(&changes.diff)
}

fn change(known: &ReportedDiff) -> String {
    match known {
        ReportedDiff::Text(content) => details("Change", &diff(content)),
        ReportedDiff::NotAvailable(why) => format!(
            "<p class=\"faint\">The text of the change is not available: {}.</p>\n",
            text(why)
        ),
    }
}

fn items(report: &Report) -> String {
    if report.items.is_empty() {
        return String::new();
    }
    let items: String = report
        .items
        .iter()
        .map(|item| {
            let title = format!("Item {} of {}: {}", item.item, item.hook, item_state(item));
            details(&title, &block(&item.text))
        })
        .collect();
    format!("<h2>Hook output for the agent</h2>\n{items}")
}

fn facts(report: &Report) -> String {
    format!("<h2>Session</h2>\n{}", list(&words::facts(report)))
}

fn list(facts: &[(&str, String)]) -> String {
    let rows: String = facts
        .iter()
        .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", text(value)))
        .collect();
    format!("<dl>\n{rows}</dl>\n")
}

fn table(head: &[&str], rows: &str) -> String {
    let head: String = head.iter().map(|name| format!("<th>{name}</th>")).collect();
    format!(
        "<div class=\"table\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

fn row(cells: &[&str]) -> String {
    let cells: String = cells
        .iter()
        .map(|cell| format!("<td>{}</td>", text(cell)))
        .collect();
    format!("<tr>{cells}</tr>\n")
}

/// `content` is HTML.
fn details(title: &str, content: &str) -> String {
    format!(
        "<details><summary>{}</summary>\n{content}</details>\n",
        text(title)
    )
}

fn block(content: &str) -> String {
    let content = content.trim_end();
    if content.is_empty() {
        "<p class=\"faint\">no text</p>\n".to_owned()
    } else {
        format!("<pre>{}</pre>\n", text(content))
    }
}

fn diff(content: &str) -> String {
    let lines: String = content
        .trim_end()
        .lines()
        .map(|line| match line.as_bytes().first() {
            Some(b'+') => format!("<span class=\"added\">{}</span>\n", text(line)),
            Some(b'-') => format!("<span class=\"removed\">{}</span>\n", text(line)),
            Some(_) | None => text(line) + "\n",
        })
        .collect();
    format!("<pre>{lines}</pre>\n")
}

/// A sentence whose names in backticks are code.
fn sentence(content: &str) -> String {
    let parts = words::parts(content).into_iter();
    parts
        .map(|(is_code, part)| {
            if is_code {
                format!("<code>{}</code>", text(part))
            } else {
                text(part)
            }
        })
        .collect()
}

/// Text without any meaning in HTML, also in an attribute.
fn text(content: &str) -> String {
    let mut out = String::with_capacity(content.len() + content.len() / 16);
    for c in content.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            _ => out.push(c),
        }
    }
    out
}
