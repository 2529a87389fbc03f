//! Rules about line coverage, from a report.
//!
//! Reads the reports of `lcov` and `geninfo`, and in JSON the summaries of istanbul, llvm-cov and
//! coverage.py: only their totals, since the data per line can be a thousand times larger.
//!
//! # Invariants
//! - A report that is incomplete, empty or in another format fails with a reason.
//! - Nothing is expanded, fetched or followed: only tags and numbers of XML are read.

mod cobertura;

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value;

use super::{RuleFinding, shown, unreadable};
use crate::{engine::policy::CoverageFormat, process::project_dir::ProjectDir};

/// Larger reports are not read.
const READ_MAX: u64 = 64 << 20;
/// Tolerance for rounding errors of binary fractions.
const NOISE: f64 = 1e-9;

/// Whether a report has enough coverage.
pub(super) fn judge(
    file: &str,
    format: CoverageFormat,
    minimum: f64,
    project_dir: &ProjectDir,
) -> RuleFinding {
    let write_it = "run the tests so that they write it";
    let bytes = project_dir
        .read(Path::new(file), READ_MAX)
        .map_err(|why| unreadable(file, &why, write_it))?;
    let (name, read) = match format {
        CoverageFormat::Lcov => ("lcov", lcov_percent(&bytes)),
        CoverageFormat::Cobertura => ("cobertura", cobertura::percent(&bytes)),
        CoverageFormat::Json => ("JSON", json_percent(&bytes)),
    };
    let file = shown(file);
    let percent = read.map_err(|why| {
        format!("{file} is not a {name} coverage report: {why}; run the tests again, or correct the rule's `format`")
    })?;
    let share = written(percent);
    if percent + NOISE >= minimum {
        Ok(format!("coverage {share} % (at least {minimum} %, {file})"))
    } else {
        Err(format!("coverage {share} % is below {minimum} % ({file})"))
    }
}

/// Rounds down, because 79.999 must not look like 80.
fn written(percent: f64) -> String {
    let hundredths = (percent * 100.0 + NOISE * 100.0).floor();
    let text = format!("{:.2}", hundredths / 100.0);
    text.strip_suffix('0').unwrap_or(&text).to_owned()
}

/// In percent.
fn share(hit: u64, found: u64) -> Result<f64, CoverageError> {
    if found == 0 {
        return Err(CoverageError::NoLines);
    }
    #[expect(clippy::cast_precision_loss, reason = "no program has 2^52 lines")]
    let percent = hit.min(found) as f64 * 100.0 / found as f64;
    Ok(percent)
}

/// Checks that a percentage is valid.
fn sound(percent: f64) -> Result<f64, CoverageError> {
    if (0.0..=100.0).contains(&percent) {
        Ok(percent)
    } else {
        Err(CoverageError::BadPercent(percent))
    }
}

/// Why a file is no coverage report.
#[derive(Debug, thiserror::Error)]
enum CoverageError {
    #[error("it reports no lines")]
    NoLines,
    #[error("it reports {0} %")]
    BadPercent(f64),
    #[error("it contains no `coverage` element")]
    NoCoverageElement,
    #[error("it begins with `{0}`, not with `coverage`")]
    OtherRoot(String),
    #[error("it ends before `</coverage>`")]
    EndsEarly,
    /// The XML reader's message.
    #[error("{0}")]
    NotXml(String),
    #[error("its elements are nested more than {0} levels deep")]
    TooDeep(u32),
    #[error("it ends in the middle of a tag")]
    CutTag,
    #[error("it ends in the middle of a record")]
    CutRecord,
    #[error("`{key}:{value}` contains no number")]
    NotANumber { key: String, value: String },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(
        "it contains neither `total.lines` nor `data[0].totals.lines` nor `totals.percent_covered`"
    )]
    NoTotals,
    #[error("its totals report no share of lines")]
    NoShare,
}

/// The keys of all three formats. A report has those of one.
#[derive(Deserialize)]
struct CoverageReport {
    /// istanbul: `total.lines.pct`.
    total: Option<IstanbulTotal>,
    /// llvm-cov: `data[0].totals.lines.percent`.
    data: Option<Vec<LlvmData>>,
    /// coverage.py: `totals.percent_covered`.
    totals: Option<PythonTotals>,
}

#[derive(Deserialize)]
struct IstanbulTotal {
    lines: Option<IstanbulLines>,
}

#[derive(Deserialize)]
struct IstanbulLines {
    /// `"Unknown"` if there are no lines.
    pct: Option<Value>,
    total: Option<u64>,
    covered: Option<u64>,
}

#[derive(Deserialize)]
struct LlvmData {
    totals: Option<LlvmTotals>,
}

#[derive(Deserialize)]
struct LlvmTotals {
    lines: Option<LlvmLines>,
}

#[derive(Deserialize)]
struct LlvmLines {
    count: Option<u64>,
    covered: Option<u64>,
    percent: Option<f64>,
}

#[derive(Deserialize)]
struct PythonTotals {
    percent_covered: Option<f64>,
    num_statements: Option<u64>,
}

/// The line coverage of a report. Prefers counts to percentages, which some tools round.
fn json_percent(bytes: &[u8]) -> Result<f64, CoverageError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let report: CoverageReport = serde_json::from_slice(bytes)?;
    if let Some(lines) = report.total.and_then(|total| total.lines) {
        return by_count(
            lines.covered,
            lines.total,
            lines.pct.and_then(|pct| pct.as_f64()),
        );
    }
    let first = report.data.and_then(|data| data.into_iter().next());
    if let Some(lines) = first.and_then(|data| data.totals?.lines) {
        return by_count(lines.covered, lines.count, lines.percent);
    }
    if let Some(totals) = report.totals {
        return by_count(
            None,
            totals.num_statements.filter(|count| *count == 0),
            totals.percent_covered,
        );
    }
    Err(CoverageError::NoTotals)
}

fn by_count(
    covered: Option<u64>,
    count: Option<u64>,
    percent: Option<f64>,
) -> Result<f64, CoverageError> {
    match (covered, count, percent) {
        (_, Some(0), _) => share(0, 0),
        (Some(covered), Some(count), _) => share(covered, count),
        (_, _, Some(percent)) => sound(percent),
        (_, _, None) => Err(CoverageError::NoShare),
    }
}

/// The counts of one source file: its sums if the report has them, otherwise its lines.
#[derive(Default)]
struct LcovFile {
    found: Option<u64>,
    hit: Option<u64>,
    lines: BTreeMap<u64, bool>,
}

impl LcovFile {
    /// Covered lines and all lines.
    fn counts(&self) -> (u64, u64) {
        match (self.hit, self.found) {
            (Some(hit), Some(found)) => (hit, found),
            _ => (
                self.lines.values().filter(|hit| **hit).count() as u64,
                self.lines.len() as u64,
            ),
        }
    }
}

/// The line coverage of a report.
fn lcov_percent(bytes: &[u8]) -> Result<f64, CoverageError> {
    let (mut hit, mut found) = (0_u64, 0_u64);
    let mut open: Option<LcovFile> = None;
    for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line == b"end_of_record" {
            let (some, all) = open.take().unwrap_or_default().counts();
            hit = hit.saturating_add(some);
            found = found.saturating_add(all);
        } else if let Ok(text) = std::str::from_utf8(line)
            && let Some((key, value)) = text.split_once(':')
        {
            note(&mut open, key, value)?;
        }
    }
    if open.is_some() {
        return Err(CoverageError::CutRecord);
    }
    share(hit, found)
}

fn note(open: &mut Option<LcovFile>, key: &str, value: &str) -> Result<(), CoverageError> {
    let not_a_number = || CoverageError::NotANumber {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| not_a_number());
    match key {
        "SF" => *open = Some(LcovFile::default()),
        "LF" => open.get_or_insert_default().found = Some(number(value)?),
        "LH" => open.get_or_insert_default().hit = Some(number(value)?),
        "DA" => {
            let mut parts = value.split(',');
            let line = number(parts.next().unwrap_or_default())?;
            // Some compilers write a negative count when a counter overflows. Any count but zero
            // means covered.
            let hit = parts
                .next()
                .is_some_and(|count| !matches!(count.trim(), "" | "0"));
            let seen = open.get_or_insert_default().lines.entry(line).or_default();
            *seen |= hit;
        }
        // Functions, branches, and additions of later versions.
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_share_is_written_so_that_it_does_not_look_like_more() {
        assert_eq!(
            [71.4, 79.999, 80.0, 100.0, 0.0, 66.666_66].map(written),
            ["71.4", "79.99", "80.0", "100.0", "0.0", "66.66"]
        );
    }

    #[test]
    fn a_report_is_measured_against_the_minimum() {
        let folder = tempfile::tempdir().expect("a folder");
        let project_dir = ProjectDir::new(folder.path());
        fs::write(
            folder.path().join("a.info"),
            "SF:a\nLF:1000\nLH:714\nend_of_record\n",
        )
        .expect("a file");
        let judged = |file, format, minimum| judge(file, format, minimum, &project_dir);
        assert_eq!(
            judged("a.info", CoverageFormat::Lcov, 80.0),
            Err("coverage 71.4 % is below 80 % (a.info)".into())
        );
        assert_eq!(
            judged("a.info", CoverageFormat::Lcov, 71.4),
            Ok("coverage 71.4 % (at least 71.4 %, a.info)".into())
        );
        assert_eq!(
            judged("b.info", CoverageFormat::Lcov, 80.0),
            Err(
                "b.info is missing: run the tests so that they write it, or correct the rule"
                    .into()
            )
        );
        assert_eq!(
            judged("a.info", CoverageFormat::Cobertura, 80.0),
            Err("a.info is not a cobertura coverage report: it contains no `coverage` element; run the tests again, or \
                 correct the rule's `format`"
                .into())
        );
        assert!(
            judged("a.info", CoverageFormat::Json, 80.0)
                .expect_err("no JSON")
                .starts_with("a.info is not a JSON coverage report: expected")
        );
    }
}

#[cfg(test)]
mod json_tests {
    fn percent(bytes: &[u8]) -> Result<f64, String> {
        super::json_percent(bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn the_totals_of_istanbul_count() {
        let text = r#"{"total": {"lines":{"total":120,"covered":90,"skipped":0,"pct":75},"statements":{"total":130,
            "covered":13,"skipped":0,"pct":10},"branchesTrue":{"total":0,"covered":0,"skipped":0,"pct":"Unknown"}},
            "/src/a.ts": {"lines":{"total":120,"covered":90,"skipped":0,"pct":75}}}"#;
        assert_eq!(percent(text.as_bytes()), Ok(75.0));
        let none = r#"{"total":{"lines":{"total":0,"covered":0,"skipped":0,"pct":"Unknown"}}}"#;
        assert_eq!(percent(none.as_bytes()), Err("it reports no lines".into()));
    }

    #[test]
    fn the_totals_of_llvm_cov_count() {
        let text = r#"{"data":[{"files":[{"filename":"src/lib.rs","segments":[[1,1,0,true,true,false]],"summary":{}}],
            "functions":[],"totals":{"branches":{"count":0,"covered":0,"notcovered":0,"percent":0},
            "lines":{"count":8,"covered":5,"percent":62.5}}}],"type":"llvm.coverage.json.export","version":"2.0.1"}"#;
        assert_eq!(percent(text.as_bytes()), Ok(62.5));
    }

    #[test]
    fn the_totals_of_coverage_py_count() {
        let text = r#"{"meta":{"version":"7.6.1","branch_coverage":false},"files":{"a.py":{"executed_lines":[1,2]}},
            "totals":{"covered_lines":43,"num_statements":50,"percent_covered":86.0,"percent_covered_display":"86"}}"#;
        assert_eq!(percent(text.as_bytes()), Ok(86.0));
        let empty = r#"{"totals":{"covered_lines":0,"num_statements":0,"percent_covered":100.0}}"#;
        assert_eq!(percent(empty.as_bytes()), Err("it reports no lines".into()));
    }

    #[test]
    fn a_file_that_is_not_a_report_is_an_error() {
        let why = |text: &str| percent(text.as_bytes()).expect_err("no report");
        assert_eq!(
            why(r#"{"/src/a.ts":{"path":"/src/a.ts","s":{"0":1}}}"#),
            "it contains neither `total.lines` nor `data[0].totals.lines` nor `totals.percent_covered`"
        );
        assert_eq!(
            why(r#"{"totals":{"percent_covered":120.5}}"#),
            "it reports 120.5 %"
        );
        assert_eq!(
            why(r#"{"totals":{}}"#),
            "its totals report no share of lines"
        );
        assert!(why(r#"{"total":{"lines":{"pct":7"#).starts_with("EOF while parsing"));
    }
}

#[cfg(test)]
mod lcov_tests {
    fn percent(bytes: &[u8]) -> Result<f64, String> {
        super::lcov_percent(bytes).map_err(|error| error.to_string())
    }

    const SUMS: &str = "\
TN:
SF:src/parser.rs
FN:3,parse
FNDA:12,parse
FNF:1
FNH:1
DA:3,12
DA:4,0
BRDA:4,0,0,-
LF:10
LH:7
end_of_record
TN:
SF:src/main.rs
LF:10
LH:8
end_of_record
";

    #[test]
    fn the_sums_of_all_files_count() {
        assert_eq!(percent(SUMS.as_bytes()), Ok(75.0));
        assert_eq!(percent(SUMS.replace('\n', "\r\n").as_bytes()), Ok(75.0));
    }

    #[test]
    fn without_sums_the_lines_count_each_once() {
        let text = "SF:/src/a.c\nDA:1,5,AbC=\nDA:2,0\nDA:2,3\nDA:4,0\nDA:5,-2\nend_of_record\n";
        assert_eq!(percent(text.as_bytes()), Ok(75.0));
    }

    #[test]
    fn an_incomplete_report_is_an_error() {
        let why = |text: &str| percent(text.as_bytes()).expect_err("no report");
        assert_eq!(why(""), "it reports no lines");
        assert_eq!(why("{\"total\": 1}"), "it reports no lines");
        assert_eq!(
            why("SF:a\nLF:0\nLH:0\nend_of_record\n"),
            "it reports no lines"
        );
        assert_eq!(
            why("SF:a\nLF:10\nLH:1"),
            "it ends in the middle of a record"
        );
        assert_eq!(
            why("SF:a\nLF:ten\nend_of_record"),
            "`LF:ten` contains no number"
        );
    }
}
