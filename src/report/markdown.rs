//! A report as Markdown, for pull requests and issues.
//!
//! # Invariants
//! - It is shorter than its limit in bytes, whatever the session printed. What is left out is said.
//! - Text of others is in fenced blocks, or every character with a meaning is written as an entity:
//!   none becomes a tag, a link, a mention or a reference.

use super::{
    CheckHistory, Report, ReportedDiff, ReportedStage, ReportedTurn,
    words::{
        self, check_place, check_result, item_state, ran_with, run_facts, signs, stage_outcome,
        stage_usage,
    },
};
use crate::{
    present::text::{counted, plural, readable_size, short_span},
    text::shortened,
};

/// Forges refuse a body of more than 65,536 characters.
pub const MARKDOWN_LIMIT: usize = 65_000;

/// Which parts of a report are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkdownPart {
    Whole,
    /// Without the goal and the change: a pull request has both.
    PullRequest,
}

/// How much of everything fits.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// Bytes of a text.
    text: usize,
    /// Bytes of the whole change.
    diff: usize,
    /// Outputs per check.
    outputs: usize,
    /// Rows of a list.
    rows: usize,
}

/// From all that a reader wants to the least.
const LEVELS: [Level; 5] = [
    Level {
        text: 6_000,
        diff: 20_000,
        outputs: 8,
        rows: 200,
    },
    Level {
        text: 2_000,
        diff: 8_000,
        outputs: 4,
        rows: 100,
    },
    Level {
        text: 800,
        diff: 3_000,
        outputs: 2,
        rows: 40,
    },
    Level {
        text: 300,
        diff: 0,
        outputs: 1,
        rows: 15,
    },
    Level {
        text: 0,
        diff: 0,
        outputs: 0,
        rows: 5,
    },
];

/// The longest name or reason in a line, in characters.
const LINE: usize = 200;
/// The longest first sentence, in characters.
const SENTENCE: usize = 800;

/// The report in at most `limit` bytes.
pub fn markdown(report: &Report, part: MarkdownPart, limit: usize) -> String {
    let written = LEVELS.iter().map(|level| written(report, part, *level));
    let mut fitting = written.filter(|text| text.len() <= limit);
    fitting.next().unwrap_or_else(|| {
        let mut rest = MarkdownWriter::new(LEVELS[LEVELS.len() - 1]);
        rest.head(report);
        let name = code(&report.session.name);
        rest.out +=
            &format!("\nThe rest is too long for this place. `creel report` {name} prints it.\n");
        rest.out
    })
}

fn written(report: &Report, part: MarkdownPart, level: Level) -> String {
    let mut writer = MarkdownWriter::new(level);
    writer.head(report);
    if part == MarkdownPart::Whole {
        writer.out += "\n### Goal\n";
        writer.block("", &report.goal);
    }
    writer.checks(report);
    writer.iterations(report);
    writer.decisions(report);
    writer.changes(report, part);
    writer.prompts(report);
    writer.items(report);
    writer.facts(report);
    writer.left_out(&report.session.name);
    writer.out
}

struct MarkdownWriter {
    out: String,
    level: Level,
    shortened: usize,
    missing_texts: usize,
    missing_rows: usize,
}

impl MarkdownWriter {
    const fn new(level: Level) -> Self {
        Self {
            out: String::new(),
            level,
            shortened: 0,
            missing_texts: 0,
            missing_rows: 0,
        }
    }

    fn head(&mut self, report: &Report) {
        let sign = words::sign(words::tone(report));
        let sentence = shortened(&report.outcome.sentence, SENTENCE);
        self.out += &format!("**{sign} {}**\n\n", sentence_of(&sentence));
        let cautions = report.outcome.cautions.clone();
        for caution in self.first(&cautions) {
            let caution = shortened(caution, SENTENCE / 2);
            self.out += &format!("- ⚠ {}\n", sentence_of(&caution));
        }
        self.out += &format!("\n{}\n", text(&words::summary(report)));
    }

    /// The first rows of a list that may be too long.
    fn first<'a, T>(&mut self, rows: &'a [T]) -> &'a [T] {
        let shown = rows.len().min(self.level.rows);
        self.missing_rows += rows.len() - shown;
        &rows[..shown]
    }

    /// A fenced block, shortened in its middle.
    fn block(&mut self, language: &str, content: &str) {
        self.block_within(language, content, self.level.text);
    }

    fn block_within(&mut self, language: &str, content: &str, most: usize) {
        let content = content.trim_end();
        if content.is_empty() {
            return;
        }
        if most == 0 {
            self.missing_texts += 1;
            return;
        }
        let shown = match middle_cut(content, most) {
            Some(cut) => {
                self.shortened += 1;
                cut
            }
            None => content.to_owned(),
        };
        self.out += &format!("\n{}\n", fenced(language, &shown));
    }

    /// A text that a click opens. `summary` is Markdown.
    fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) {
        let before = self.out.len();
        self.out += &format!("\n<details><summary>{summary}</summary>\n");
        let empty = self.out.len();
        content(self);
        if self.out.len() == empty {
            self.out.truncate(before);
        } else {
            self.out += "\n</details>\n";
        }
    }

    fn checks(&mut self, report: &Report) {
        self.out += "\n### Checks\n\n";
        if report.checks.is_empty() {
            self.out += "No checks are configured, and none ran.\n";
            return;
        }
        self.out += "| check | runs | at the end | |\n| --- | --- | --- | --- |\n";
        for check in self.first(&report.checks) {
            let name = code(&shortened(&check.name, LINE));
            let runs = last_signs(check);
            let (result, place) = (check_result(check), check_place(check));
            self.out += &format!("| {name} | {runs} | {result} | {place} |\n");
        }
        for check in self.first_checks(report) {
            let summary = format!("Output of {}", code(&shortened(&check.name, LINE)));
            self.details(&summary, |writer| writer.runs(check));
        }
    }

    fn first_checks<'a>(&self, report: &'a Report) -> &'a [CheckHistory] {
        &report.checks[..report.checks.len().min(self.level.rows)]
    }

    /// The last runs, which say most about the work as it is.
    fn runs(&mut self, check: &CheckHistory) {
        let skipped = check.runs.len().saturating_sub(self.level.outputs);
        self.missing_texts += skipped;
        if self.level.outputs == 0 {
            return;
        }
        if let Some(command) = &check.command {
            self.block("sh", command);
        }
        for run in check.runs[skipped..].iter().chain(&check.clean_runs) {
            let (sign, result) = (run.result.sign(), run.result.words());
            let (with, facts) = (ran_with(run), text(&run_facts(run, None)));
            self.out += &format!(
                "\n{sign} Iteration {}{with}: {result} · {facts}\n",
                run.iteration
            );
            self.block("", &run.output);
        }
    }

    fn iterations(&mut self, report: &Report) {
        if report.stages.is_empty() {
            return;
        }
        self.out +=
            "\n### Iterations\n\n| | outcome | turns | retries | files | tokens | cost | time |\n";
        self.out += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for stage in self.first(&report.stages) {
            let (tokens, cost) = stage_usage(stage);
            let (title, outcome) = (stage.title(), stage_outcome(stage));
            let files = stage.files.len() + stage.more_files;
            let (turns, retries, took) =
                (stage.turns.len(), stage.retries, short_span(stage.took_ms));
            self.out += &format!(
                "| {title} | {outcome} | {turns} | {retries} | {files} | {tokens} | {cost} | {took} |\n"
            );
        }
        self.details("Timeline", |writer| {
            for stage in writer.first(&report.stages) {
                writer.moments(stage);
            }
        });
    }

    fn moments(&mut self, stage: &ReportedStage) {
        self.out += &format!("\n{}\n\n", stage.title());
        for moment in self.first(&stage.moments) {
            let at = moment.at.rfc3339();
            let (time, line) = (&at[11..19], text(&shortened(&moment.text, LINE)));
            self.out += &format!("- {time} {} {line}\n", moment.sign);
        }
        for turn in self.first(&stage.turns) {
            self.out += &format!("- {}\n", text(&shortened(&words::turn_line(turn), LINE)));
        }
    }

    fn decisions(&mut self, report: &Report) {
        if report.gates.is_empty() {
            return;
        }
        self.out += "\n### Decisions\n\n| gate | about | asked | answer | by |\n| --- | --- | --- | --- | --- |\n";
        for gate in self.first(&report.gates) {
            let about = gate.about.name().replace('_', " ");
            let cell = |content: &str| text(&shortened(content, LINE));
            let answer = gate.answer.as_deref().unwrap_or("not answered");
            let by = gate.by.as_deref().unwrap_or("–");
            self.out += &format!(
                "| {} | {about} | {} | {} | {} |\n",
                gate.gate,
                cell(&gate.reason),
                cell(answer),
                cell(by)
            );
        }
    }

    fn changes(&mut self, report: &Report, part: MarkdownPart) {
        let changes = &report.changes;
        self.out += &format!("\n### Changes\n\n{}\n", text(&words::changes(changes)));
        if part == MarkdownPart::PullRequest {
            return;
        }
        self.details("Files", |writer| {
            for file in writer.first(&changes.files) {
                writer.out += &format!("\n- {}", code(&shortened(file, LINE)));
            }
            writer.out += "\n";
        });
        match &changes.diff {
            ReportedDiff::Text(diff) => {
                let most = self.level.diff;
                self.details("Change", |writer| writer.block_within("diff", diff, most));
            }
            ReportedDiff::NotAvailable(why) => {
                self.out += &format!(
                    "\nThe text of the change is not available: {}.\n",
                    text(why)
                );
            }
        }
    }

    fn prompts(&mut self, report: &Report) {
        let turns: Vec<&ReportedTurn> = report.stages.iter().flat_map(|it| &it.turns).collect();
        if turns.is_empty() {
            return;
        }
        self.out += "\n### Prompts\n";
        for turn in self.first(&turns) {
            let summary = text(&shortened(&words::turn_line(turn), LINE));
            self.details(&summary, |writer| {
                writer.block("", &turn.prompt);
                if let Some(error) = &turn.error {
                    writer.out += "\nThe turn failed:\n";
                    writer.block("", error);
                }
            });
        }
    }

    fn items(&mut self, report: &Report) {
        if report.items.is_empty() {
            return;
        }
        self.out += "\n### Hook output for the agent\n";
        for item in self.first(&report.items) {
            let hook = code(&shortened(&item.hook, LINE));
            let summary = format!("Item {} of {hook}: {}", item.item, item_state(item));
            self.details(&summary, |writer| writer.block("", &item.text));
        }
    }

    fn facts(&mut self, report: &Report) {
        self.out += "\n### Session\n\n";
        for (name, value) in words::facts(report).iter().chain(&words::totals(report)) {
            self.out += &format!("- {name}: {}\n", text(&shortened(value, LINE)));
        }
    }

    fn left_out(&mut self, session: &str) {
        let mut parts = Vec::new();
        if self.shortened > 0 {
            let are = if self.shortened == 1 { "is" } else { "are" };
            parts.push(format!(
                "{} {are} shortened",
                counted(self.shortened, "text")
            ));
        }
        for (missing, noun) in [(self.missing_texts, "text"), (self.missing_rows, "row")] {
            if missing > 0 {
                let are = if missing == 1 { "is" } else { "are" };
                parts.push(format!("{missing} {} {are} missing", plural(missing, noun)));
            }
        }
        if !parts.is_empty() {
            let what = parts.join(", ");
            let session = code(session);
            self.out += &format!(
                "\nThis report is shortened to fit: {what}. `creel report --format html` {session} has all of it.\n"
            );
        }
    }
}

/// The signs of a check's last runs.
fn last_signs(check: &CheckHistory) -> String {
    const MOST: usize = 40;
    let signs = signs(check);
    match signs.chars().count().saturating_sub(MOST) {
        0 => signs,
        more => format!(
            "{more} more, {}",
            signs.chars().skip(more).collect::<String>()
        ),
    }
}

/// A sentence whose names in backticks are code.
fn sentence_of(sentence: &str) -> String {
    let parts = words::parts(sentence).into_iter();
    parts
        .map(|(is_code, part)| if is_code { code(part) } else { text(part) })
        .collect()
}

/// Text in a line, without any meaning for a forge.
fn text(content: &str) -> String {
    /// Keeps the forge from reading what follows as a name or a number.
    const JOINER: &str = "&#8288;";
    let mut out = String::with_capacity(content.len());
    let mut chars = content.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        match c {
            '\n' | '\t' => out.push(' '),
            '@' | '#' | '!' | '~' | '%' | '$' | '&' | ':' | '^' if next.is_alphanumeric() => {
                out += &entity(c);
                out += JOINER;
            }
            '.' | ':' | '%' | ')' | '-' | '+' | '=' if out.len() > 3 && next == ' ' => out.push(c),
            '-' | '(' | ',' | ';' | '/' | '?' | '\'' | '"' | ' ' => out.push(c),
            _ if c.is_ascii_punctuation() => out += &entity(c),
            _ => out.push(c),
        }
    }
    match out.strip_prefix('-') {
        Some(rest) => format!("&#45;{rest}"),
        None => out,
    }
}

/// Text in a line, as code.
fn code(content: &str) -> String {
    let mut out = String::from("<code>");
    for c in content.chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            '-' | '/' | ' ' => out.push(c),
            _ if c.is_ascii_punctuation() => out += &entity(c),
            _ => out.push(c),
        }
    }
    out + "</code>"
}

fn entity(c: char) -> String {
    format!("&#{};", u32::from(c))
}

/// A fenced block whose content cannot end it. Bots read a line that begins with a slash as a
/// command, so such lines are indented.
fn fenced(language: &str, content: &str) -> String {
    let longest = content
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<String> = content
        .lines()
        .map(|line| {
            if line.starts_with('/') {
                format!(" {line}")
            } else {
                line.to_owned()
            }
        })
        .collect();
    format!("{fence}{language}\n{}\n{fence}", lines.join("\n"))
}

/// The beginning and the end of a text that is too long. None if it is not.
fn middle_cut(content: &str, most: usize) -> Option<String> {
    if content.len() <= most {
        return None;
    }
    let head = content.floor_char_boundary(most / 3);
    let tail = content.ceil_char_boundary(content.len() - most * 2 / 3);
    let omitted = readable_size((tail - head) as u64);
    Some(format!(
        "{}\n[… {omitted} left out …]\n{}",
        &content[..head],
        &content[tail..]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_has_no_meaning() {
        let hostile = "</details><script>@admin #12 [x](http://e.vil) `a` *b* www.e.vil :+1: | $x$";
        for shown in [text(hostile), code(hostile)] {
            let inner = shown
                .trim_start_matches("<code>")
                .trim_end_matches("</code>");
            for c in ['<', '>', '[', ']', '*', '`', '|', '@', '$', '_'] {
                assert!(!inner.contains(c), "{c} in {inner}");
            }
            assert!(!inner.contains("www.") && !inner.contains("://"), "{inner}");
        }
        assert!(text("@admin").contains("&#64;&#8288;admin"));
        assert_eq!(text("- item"), "&#45; item");
        assert_eq!(text("Done. 3 files, 5%"), "Done. 3 files, 5%");
    }

    #[test]
    fn no_content_ends_its_fence() {
        let block = fenced("", "a\n````\n</details>\n/approve");
        assert_eq!(block, "`````\na\n````\n</details>\n /approve\n`````");
    }

    #[test]
    fn a_long_text_loses_its_middle() {
        let cut = middle_cut(&"x".repeat(3_000), 300).expect("it is too long");
        assert!(cut.len() < 400 && cut.contains("2.7 kB left out"), "{cut}");
        assert_eq!(middle_cut("short", 300), None);
    }
}
