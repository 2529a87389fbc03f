//! The rows of an output of which creel left a part out, with the numbers of their lines.
//!
//! The journal has only the beginning and the end of a long output. Every place that shows it
//! counts its lines alike.

use ratatui::{style::Style, text::Line};

use super::{
    ansi::coloured_lines,
    text::{StyledText, wrap},
    theme::{ScreenTheme, ThemeRole},
};
use crate::{
    present::text::{grouped, plural},
    text::OmittedOutput,
};

/// Rows, and for each the number of its line, from 1.
#[derive(Debug, Default)]
pub struct PrintedRows {
    pub rows: Vec<Line<'static>>,
    pub numbers: Vec<usize>,
}

impl PrintedRows {
    pub fn of(text: &str, theme: &ScreenTheme, width: usize) -> Self {
        let mut all = Self::default();
        let mut number = 0;
        for line in coloured_lines(
            text.trim_end(),
            theme.style(ThemeRole::Text),
            theme.keeps_colours,
        ) {
            let omitted = OmittedOutput::at_start(&words(&line)).map_or(0, |omitted| omitted.lines);
            let line = omitted_words(&line)
                .map_or(line, |words| vec![(words, theme.style(ThemeRole::Faint))]);
            number += omitted.max(1);
            let rows = wrap(&line, width, 0);
            all.numbers.extend(rows.iter().map(|_| number));
            all.rows.extend(rows);
        }
        all
    }
}

/// What to show instead of a line about omitted output. None for other lines.
pub fn omitted_words(line: &[StyledText]) -> Option<String> {
    let lines = OmittedOutput::at_start(&words(line))
        .map(|omitted| omitted.lines)
        .filter(|lines| *lines > 0)?;
    Some(format!(
        "… {} {} left out, see the full output in the viewer",
        grouped(lines),
        plural(lines, "line")
    ))
}

fn words(line: &[StyledText]) -> String {
    line.iter()
        .map(|(text, _): &(String, Style)| text.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_after_a_gap_have_the_numbers_that_they_were_printed_with() {
        let theme = ScreenTheme::chosen(crate::config::ThemeName::Dark, false);
        let text = "one\ntwo\n[… 99197 lines, 689133 bytes left out; all of it: outputs/run-7.log …]\nlast but one\nlast\n";
        let PrintedRows { rows, numbers } = PrintedRows::of(text, &theme, 80);
        assert_eq!(numbers, [1, 2, 99_199, 99_200, 99_201]);
        assert_eq!(
            rows[2].to_string(),
            "… 99,197 lines left out, see the full output in the viewer"
        );
        let old = PrintedRows::of("one\n[… 9 bytes left out …]\nlast", &theme, 80);
        assert_eq!(
            (old.numbers, old.rows[1].to_string()),
            (vec![1, 2, 3], "[… 9 bytes left out …]".to_owned())
        );
    }
}
