//! Rules about line coverage, from a report.
//!
//! # Invariants
//! - A report that is incomplete, empty or in another format fails with a reason.
//! - Nothing is expanded, fetched or followed: only tags and numbers of XML are read.

mod cobertura;
mod json;
mod lcov;

use std::path::Path;

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
        CoverageFormat::Lcov => ("lcov", lcov::percent(&bytes)),
        CoverageFormat::Cobertura => ("cobertura", cobertura::percent(&bytes)),
        CoverageFormat::Json => ("JSON", json::percent(&bytes)),
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
