//! Reads reports in Cobertura's XML.
//!
//! This scans for tags and their attributes and is not a parser. It skips comments, CDATA sections, instructions and
//! the DOCTYPE, so that nothing in them counts, and it never expands an entity.

use super::{share, sound};

/// The line coverage of a report.
pub(super) fn percent(bytes: &[u8]) -> Result<f64, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut tags = XmlTagScanner { rest: &text };
    let root = tags.next().ok_or("it holds no `coverage` element")??;
    if root.name != "coverage" {
        return Err(format!("it begins with `{}`, not with `coverage`", super::shown(root.name)));
    }
    if root.kind != XmlTagKind::Empty && !text.contains("</coverage") {
        return Err("it ends before its end".into());
    }
    match (root.count("lines-valid"), root.count("lines-covered")) {
        // A tool that counted no lines still writes a rate of 1.
        (Some(0), _) => return count_lines(tags),
        (Some(valid), Some(covered)) => return share(covered, valid),
        (Some(_) | None, _) => {}
    }
    if let Some(rate) = root.attribute("line-rate").and_then(|rate| rate.trim().parse::<f64>().ok()) {
        return sound(rate * 100.0);
    }
    count_lines(tags)
}

/// Counts the lines of all classes. Skips methods, which contain the same lines again.
fn count_lines(tags: XmlTagScanner<'_>) -> Result<f64, String> {
    let (mut hit, mut found, mut in_methods) = (0, 0, 0_u32);
    for tag in tags {
        let tag = tag?;
        match (tag.name, tag.kind) {
            ("methods", XmlTagKind::Open) => in_methods += 1,
            ("methods", XmlTagKind::Close) => in_methods = in_methods.saturating_sub(1),
            ("line", XmlTagKind::Open | XmlTagKind::Empty) if in_methods == 0 => {
                found += 1;
                hit += u64::from(tag.count("hits").is_some_and(|hits| hits > 0));
            }
            (_, XmlTagKind::Open | XmlTagKind::Close | XmlTagKind::Empty) => {}
        }
    }
    share(hit, found)
}

struct XmlTag<'a> {
    name: &'a str,
    attributes: &'a str,
    kind: XmlTagKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum XmlTagKind {
    Open,
    Close,
    Empty,
}

impl<'a> XmlTag<'a> {
    /// As written, without expanding entities.
    fn attribute(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.attributes.trim_start();
        loop {
            let (key, after) = rest.split_once('=')?;
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, next) = after[1..].split_once(quote)?;
            if key.trim() == name {
                return Some(value);
            }
            rest = next.trim_start();
        }
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.trim().parse().ok()
    }
}

/// The tags of a document, in order.
struct XmlTagScanner<'a> {
    rest: &'a str,
}

impl XmlTagScanner<'_> {
    /// Skips to the next tag. Returns whether there is one.
    fn skip(&mut self) -> Result<bool, String> {
        loop {
            let Some(start) = self.rest.find('<') else { return Ok(false) };
            self.rest = &self.rest[start..];
            let closing = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].into_iter();
            if let Some((_, close)) = closing.into_iter().find(|(open, _)| self.rest.starts_with(open)) {
                let end = self.rest.find(close).ok_or_else(cut)?;
                self.rest = &self.rest[end + close.len()..];
            } else if self.rest.starts_with("<!") {
                let end = grammar_end(self.rest).ok_or_else(cut)?;
                self.rest = &self.rest[end..];
            } else {
                return Ok(true);
            }
        }
    }
}

impl<'a> Iterator for XmlTagScanner<'a> {
    type Item = Result<XmlTag<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.skip() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                self.rest = "";
                return Some(Err(why));
            }
        }
        let Some(end) = unquoted(self.rest, '>') else {
            self.rest = "";
            return Some(Err(cut()));
        };
        let inside = &self.rest[1..end];
        self.rest = &self.rest[end + 1..];
        let (inside, kind) = match (inside.strip_prefix('/'), inside.strip_suffix('/')) {
            (Some(name), _) => (name, XmlTagKind::Close),
            (None, Some(inside)) => (inside, XmlTagKind::Empty),
            (None, None) => (inside, XmlTagKind::Open),
        };
        let (name, attributes) = inside.split_once(|c: char| c.is_whitespace()).unwrap_or((inside, ""));
        Some(Ok(XmlTag { name, attributes, kind }))
    }
}

fn cut() -> String {
    "it ends in the middle of a tag".into()
}

/// The index of a character outside of quotes.
fn unquoted(text: &str, wanted: char) -> Option<usize> {
    let mut quote = None;
    for (index, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == wanted => return Some(index),
            Some(_) | None => {}
        }
    }
    None
}

/// The end of `<!DOCTYPE …>`, including the declarations in its brackets.
fn grammar_end(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut index) = (0_usize, None, 0);
    while let Some(c) = text[index..].chars().next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, _) if text[index..].starts_with("<!--") => {
                index += text[index..].find("-->")? + 3;
                continue;
            }
            (None, '"' | '\'') => quote = Some(c),
            (None, '<') => depth += 1,
            (None, '>') if depth == 1 => return Some(index + 1),
            (None, '>') => depth -= 1,
            (Some(_) | None, _) => {}
        }
        index += c.len_utf8();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"<?xml version="1.0" ?>
<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">
<!-- Generated: <coverage line-rate="1"> -->
"#;

    const LINES: &str = r#"<coverage version="1.9" timestamp="1731661200">
  <sources><source><![CDATA[<line number="1" hits="1"/>]]></source></sources>
  <packages><package name="a" line-rate="1"><classes><class name="a &lt; b" filename='a.py'>
    <methods><method name="m"><lines><line number="1" hits="1"/><line number="2" hits="1"/></lines></method></methods>
    <lines><line number="1" hits="1"/><line number="2" hits="0" branch="false"/><line number='3' hits='12'></line>
      <line number="4" hits="0"/></lines>
  </class></classes></package></packages>
</coverage>
"#;

    fn read(text: &str) -> Result<f64, String> {
        percent(text.as_bytes())
    }

    #[test]
    fn the_counts_of_the_root_are_taken_before_its_rate() {
        let root = |attributes: &str| read(&format!("{HEAD}<coverage {attributes}>\n\t<sources/>\n</coverage>"));
        assert_eq!(root(r#"version="7.6" lines-valid="8" lines-covered="5" line-rate="0.63""#), Ok(62.5));
        assert_eq!(root("branch-rate='0' line-rate = '0.5'"), Ok(50.0));
        assert_eq!(
            root(r#"lines-valid="0" lines-covered="0" line-rate="1.0""#),
            Err("it tells of no lines".into()),
            "an empty report has not passed"
        );
        assert_eq!(root("line-rate='7'"), Err("it tells 700 %".into()));
        assert_eq!(root("line-rate='NaN'"), Err("it tells NaN %".into()));
    }

    #[test]
    fn without_sums_the_lines_of_classes_count_and_those_of_methods_not_again() {
        assert_eq!(read(&format!("{HEAD}{LINES}")), Ok(50.0));
        assert_eq!(read(&format!("\u{feff}{HEAD}{LINES}")), Ok(50.0));
    }

    #[test]
    fn what_a_document_declares_is_passed_over_and_never_expanded() {
        let bomb = r#"<!DOCTYPE coverage [
            <!ENTITY a "<coverage line-rate='1'/>"> <!ENTITY b "&a;&a;&a;&a;"> <!ENTITY r "1.0"> <!-- ' > -->
            <!ENTITY file SYSTEM "file:///etc/passwd"> ]>"#;
        assert_eq!(read(&format!("{bomb}{LINES}")), Ok(50.0));
        assert_eq!(
            read(&format!("{bomb}<coverage line-rate='&r;'>&b;</coverage>")),
            Err("it tells of no lines".into())
        );
    }

    #[test]
    fn what_is_no_whole_report_is_told() {
        let why = |text: &str| read(text).expect_err("no report");
        assert_eq!(why(""), "it holds no `coverage` element");
        assert_eq!(why("<report name='jacoco'></report>"), "it begins with `report`, not with `coverage`");
        assert_eq!(why("<!DOCTYPE coverage ["), "it ends in the middle of a tag");
        assert_eq!(why("<coverage line-rate='0.9"), "it ends in the middle of a tag");
        assert_eq!(why("<coverage line-rate='0.9'><packages>"), "it ends before its end");
        assert_eq!(why("<coverage></coverage><!-- "), "it ends in the middle of a tag");
        assert_eq!(why("<coverage></coverage>"), "it tells of no lines");
    }
}
