//! Reads the reports of `lcov` and `geninfo`.

use std::collections::BTreeMap;

use super::{CoverageError, share};

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
pub(super) fn percent(bytes: &[u8]) -> Result<f64, CoverageError> {
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
    fn percent(bytes: &[u8]) -> Result<f64, String> {
        super::percent(bytes).map_err(|error| error.to_string())
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
