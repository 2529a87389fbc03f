//! Finds the quote that a YAML parser misses the end of.
//!
//! Reads only as much of YAML as that needs: where a value begins, comments, block texts and
//! quotes.

/// The quote that is open at a position, or that opened in an earlier line and closed in the line
/// of the position.
pub(super) fn opening(text: &str, position: usize) -> Option<usize> {
    let position = text.floor_char_boundary(position);
    let line_start = text[..position].rfind('\n').map_or(0, |at| at + 1);
    let mut block: Option<usize> = None;
    let mut last: Option<QuotedText> = None;
    let mut at = 0;
    while at < position {
        let line_end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        let line = &text[at..line_end];
        let indent = line.len() - line.trim_start().len();
        if block.is_some_and(|above| line.trim().is_empty() || indent > above) {
            at = line_end + 1;
            continue;
        }
        block = None;
        let mut next = line_end + 1;
        for start in value_starts(line) {
            let start = at + start;
            match text[start..].chars().next() {
                Some(quote @ ('"' | '\'')) => {
                    let end = end_of(text, start, quote);
                    last = Some(QuotedText { start, end });
                    if end.is_none_or(|end| end > line_end) {
                        next = end.map_or(text.len(), |end| {
                            text[end..].find('\n').map_or(text.len(), |n| end + n + 1)
                        });
                        break;
                    }
                }
                Some('|' | '>') => block = Some(indent),
                Some(_) | None => {}
            }
        }
        at = next;
    }
    let QuotedText { start, end } = last?;
    let spans_lines = start < line_start;
    match end {
        None => Some(start),
        Some(end) if end >= position => Some(start),
        // It closed where the next quote was meant to open.
        Some(end) => (spans_lines && end >= line_start).then_some(start),
    }
}

/// The first tab that indents something, at or after a position.
pub(super) fn tab(text: &str, position: usize) -> Option<usize> {
    let position = text.floor_char_boundary(position);
    let from = text[..position].rfind('\n').map_or(0, |at| at + 1);
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..indent].find('\t') {
            return Some(at + tab);
        }
        at += line.len();
    }
    None
}

struct QuotedText {
    start: usize,
    /// None if it has no end.
    end: Option<usize>,
}

/// Where values can begin in a line: after its indent, `- `, `: `, `[`, `{` and `, `. Nothing in a
/// comment or a quoted text is one.
fn value_starts(line: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_start = true;
    let mut is_after_space = true;
    let mut skipped_to = 0;
    for (at, c) in line.char_indices().filter(|(_, c)| *c != '\r') {
        if at < skipped_to {
            continue;
        }
        match c {
            '#' if is_after_space => break,
            ' ' | '\t' => {}
            _ if is_start => {
                let rest = &line[at..];
                let is_mark = rest.starts_with("- ") || matches!(c, '[' | '{' | ',');
                is_start = is_mark;
                if !is_mark {
                    found.push(at);
                    if matches!(c, '"' | '\'') {
                        skipped_to = end_of(line, at, c).map_or(line.len(), |end| end + 1);
                    }
                }
            }
            ':' | ',' => is_start = line[at + 1..].starts_with([' ', '\t']),
            '[' | '{' => is_start = true,
            _ => {}
        }
        is_after_space = matches!(c, ' ' | '\t');
    }
    found
}

/// Where the quoted text that begins at `start` closes.
fn end_of(text: &str, start: usize, quote: char) -> Option<usize> {
    let mut characters = text[start + 1..].char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if c == '\\' && quote == '"' {
            characters.next();
        } else if c == quote {
            // Two single quotes in a row stand for one.
            if quote == '\'' && characters.peek().is_some_and(|(_, next)| *next == '\'') {
                characters.next();
                continue;
            }
            return Some(start + 1 + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the quote opens, as line and column from 1, if the parser fails at `mark`.
    fn opens(text: &str, mark: &str) -> Option<(usize, usize)> {
        let position = if mark.is_empty() {
            text.len()
        } else {
            text.find(mark).expect("the mark")
        };
        let before = &text[..opening(text, position)?];
        Some((
            before.matches('\n').count() + 1,
            before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1,
        ))
    }

    #[test]
    fn an_unclosed_quote_is_found_where_it_opens() {
        assert_eq!(opens("a: 1\nb: \"c d\ne: 2\n", ""), Some((2, 4)));
        assert_eq!(opens("a: 1\nb: 'it''s\ne: 2\n", ""), Some((2, 4)));
        assert_eq!(
            opens("a:\n  - { b: \"x\", c: \"y }\nd: 1\n", ""),
            Some((2, 18))
        );
        assert_eq!(
            opens("a: \"b\nc: \"here\"\n", "here"),
            Some((1, 4)),
            "it closed where another opens"
        );
        assert_eq!(opens("\"a: 1\n", ""), Some((1, 1)), "a key");
    }

    #[test]
    fn other_mistakes_are_not_about_quotes() {
        assert_eq!(opens("a: \"b\"\nc: [d\n", ""), None);
        assert_eq!(
            opens("a: it's\nb: [c\n", ""),
            None,
            "a quote inside of a plain value"
        );
        assert_eq!(opens("a: b # it's \"one\nc: [d\n", ""), None, "a comment");
        assert_eq!(
            opens("a: |\n  \"b\n  it's\nc: [d\n", ""),
            None,
            "a block of text"
        );
        assert_eq!(
            opens("a: \"one\n  two\"\nb: 1\nc: [d\n", ""),
            None,
            "a quoted text over two lines"
        );
        assert_eq!(opens("", ""), None);
    }

    #[test]
    fn tabs_are_found_where_they_indent() {
        assert_eq!(tab("a: 1\n\tb: 2\n", 3), Some(5));
        assert_eq!(tab("a:\n  b\tc\n", 0), None);
    }
}
