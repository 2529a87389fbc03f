//! The line in place of output that was too long to keep, as `crate::process` writes it:
//! `[… 99197 lines, 689133 bytes left out; all of it: .creel/sessions/s/outputs/run-7.log …]`.
//!
//! Two long outputs are compared by it, and the screen counts lines with it.

/// Output that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OmittedOutput {
    /// 0 if it was part of a line, or if the journal is from a version that did not count lines.
    pub lines: usize,
    /// How long the line about it is, in bytes.
    pub length: usize,
}

impl OmittedOutput {
    /// What the text says about omitted output in its first line.
    pub fn at_start(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("[… ")?;
        let end = rest.find(" …]")?;
        let (amount, _) = rest[..end]
            .split_once(" left out")
            .filter(|_| !rest[..end].contains('\n'))?;
        let lines = amount
            .split_once(" line")
            .and_then(|(count, _)| count.parse().ok())
            .unwrap_or(0);
        Some(Self {
            lines,
            length: text.len() - rest.len() + end + " …]".len(),
        })
    }
}

/// How many lines a text had before a part of it was left out.
pub fn printed_lines(text: &str) -> usize {
    text.lines()
        .map(|line| OmittedOutput::at_start(line).map_or(1, |omitted| omitted.lines))
        .sum()
}

/// Whether a part of the text was left out, so that it does not say all that was printed.
pub fn is_shortened(text: &str) -> bool {
    text.lines()
        .any(|line| OmittedOutput::at_start(line).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_about_omitted_output_is_read() {
        let lines = |text| OmittedOutput::at_start(text).map(|omitted| omitted.lines);
        assert_eq!(
            lines("[… 99197 lines, 689133 bytes left out; all of it: outputs/run-7.log …]\nnext"),
            Some(99_197)
        );
        assert_eq!(lines("[… 1 line, 12 bytes left out …]"), Some(1));
        assert_eq!(lines("[… 12 bytes left out …]"), Some(0));
        assert_eq!(lines("[… 12 bytes\nleft out …]"), None);
        assert_eq!(lines("12 bytes left out"), None);
        assert!(
            is_shortened("a\n[… 12 bytes left out …]\nb") && !is_shortened("a\n[b] left out …]")
        );
        assert_eq!(
            printed_lines("a\nb\n[… 5 lines, 10 bytes left out …]\nc\n"),
            8
        );
    }
}
