//! Reads reports in JSON: the summaries of istanbul, llvm-cov and coverage.py.
//!
//! It reads only the totals and skips the data per line, which can be a thousand times larger.

use serde::Deserialize;
use serde_json::Value;

use super::{CoverageError, share, sound};

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
pub(super) fn percent(bytes: &[u8]) -> Result<f64, CoverageError> {
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

#[cfg(test)]
mod tests {
    fn percent(bytes: &[u8]) -> Result<f64, String> {
        super::percent(bytes).map_err(|error| error.to_string())
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
