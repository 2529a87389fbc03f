//! Reports in the XML of Cobertura.
//!
//! Owns which elements and attributes count. `quick-xml` reads the document.
//!
//! # Invariants
//! - No entity is expanded, and nothing that a document type declares is used.
//! - A report counts only if it can be read up to the end of its root element.

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use super::{CoverageError, share, sound};

/// Cobertura needs nine levels. The limit bounds what the reader remembers about open elements.
const MAX_DEPTH: u32 = 64;

/// The share of lines that a report claims to be covered, in percent.
pub(super) fn percent(bytes: &[u8]) -> Result<f64, CoverageError> {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::from_str(&text);
    reader.config_mut().allow_dangling_amp = true;
    let mut report = CoberturaReport::default();
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => report.open(&tag)?,
            Ok(Event::Empty(tag)) => {
                report.open(&tag)?;
                report.close(tag.name().as_ref());
            }
            Ok(Event::End(tag)) => report.close(tag.name().as_ref()),
            Ok(Event::Eof) => break,
            Ok(
                Event::Text(_)
                | Event::CData(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_)
                | Event::GeneralRef(_),
            ) => {}
            Err(quick_xml::Error::Syntax(_)) => return Err(CoverageError::CutTag),
            Err(why) => return Err(CoverageError::NotXml(super::shown(&why.to_string()))),
        }
    }
    report.percent()
}

/// What the tags read so far say.
#[derive(Default)]
struct CoberturaReport {
    root: Option<RootSums>,
    depth: u32,
    /// The number of open `methods` elements. Their lines are also listed in their class.
    in_methods: u32,
    hit: u64,
    found: u64,
}

/// The sums that the root element states.
struct RootSums {
    lines_valid: Option<u64>,
    lines_covered: Option<u64>,
    line_rate: Option<f64>,
}

impl CoberturaReport {
    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), CoverageError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CoverageError::TooDeep(MAX_DEPTH));
        }
        let name = tag.name();
        let name = name.as_ref();
        if self.root.is_none() {
            if name != "coverage" {
                return Err(CoverageError::OtherRoot(super::shown(name)));
            }
            self.root = Some(RootSums {
                lines_valid: number(tag, "lines-valid"),
                lines_covered: number(tag, "lines-covered"),
                line_rate: number(tag, "line-rate"),
            });
        }
        match name {
            "methods" => self.in_methods += 1,
            "line" if self.in_methods == 0 => {
                self.found += 1;
                self.hit += u64::from(number::<u64>(tag, "hits").is_some_and(|hits| hits > 0));
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, name: &str) {
        self.depth -= 1;
        if name == "methods" {
            self.in_methods -= 1;
        }
    }

    fn percent(&self) -> Result<f64, CoverageError> {
        let root = self.root.as_ref().ok_or(CoverageError::NoCoverageElement)?;
        if self.depth > 0 {
            return Err(CoverageError::EndsEarly);
        }
        match (root.lines_valid, root.lines_covered, root.line_rate) {
            // Tools that counted no lines state a rate of 1 all the same.
            (Some(0), _, _) | (_, None, None) | (None, _, None) => share(self.hit, self.found),
            (Some(valid), Some(covered), _) => share(covered, valid),
            (_, _, Some(rate)) => sound(rate * 100.0),
        }
    }
}

/// The value of an attribute as it is written: a number needs no entities.
fn number<T: std::str::FromStr>(tag: &BytesStart<'_>, name: &str) -> Option<T> {
    tag.try_get_attribute(name)
        .ok()
        .flatten()?
        .value
        .trim()
        .parse()
        .ok()
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
        percent(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_counts_of_the_root_are_taken_before_its_rate() {
        let root = |attributes: &str| {
            read(&format!(
                "{HEAD}<coverage {attributes}>\n\t<sources/>\n</coverage>"
            ))
        };
        assert_eq!(
            root(r#"version="7.6" lines-valid="8" lines-covered="5" line-rate="0.63""#),
            Ok(62.5)
        );
        assert_eq!(root("branch-rate='0' line-rate = '0.5'"), Ok(50.0));
        assert_eq!(
            root(r#"lines-valid="0" lines-covered="0" line-rate="1.0""#),
            Err("it reports no lines".into()),
            "an empty report has not passed"
        );
        assert_eq!(root("line-rate='7'"), Err("it reports 700 %".into()));
        assert_eq!(root("line-rate='NaN'"), Err("it reports NaN %".into()));
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
            Err("it reports no lines".into())
        );
    }

    #[test]
    fn an_incomplete_report_is_an_error() {
        let why = |text: &str| read(text).expect_err("no report");
        assert_eq!(why(""), "it contains no `coverage` element");
        assert_eq!(
            why("<report name='jacoco'></report>"),
            "it begins with `report`, not with `coverage`"
        );
        assert_eq!(
            why("<!DOCTYPE coverage ["),
            "it ends in the middle of a tag"
        );
        assert_eq!(
            why("<coverage line-rate='0.9"),
            "it ends in the middle of a tag"
        );
        assert_eq!(
            why("<coverage line-rate='0.9'><packages>"),
            "it ends before `</coverage>`"
        );
        assert_eq!(
            why("<coverage></coverage><!-- "),
            "it ends in the middle of a tag"
        );
        assert_eq!(why("<coverage></coverage>"), "it reports no lines");
        assert_eq!(
            why("<coverage line-rate='0.9'><packages></coverage>"),
            "ill-formed document: expected `</packages>`, but `</coverage>` was found"
        );
        assert_eq!(
            why("</methods>"),
            "ill-formed document: close tag `</methods>` does not match any open tag"
        );
    }

    #[test]
    fn nesting_costs_no_memory_beyond_its_limit() {
        let deep = "<coverage line-rate='1'>".to_owned() + &"<a>".repeat(1 << 20);
        assert_eq!(
            read(&deep),
            Err("its elements are nested more than 64 levels deep".into())
        );
        assert_eq!(
            read("<coverage line-rate='0.5'>R & D &amp; &lt;line hits='1'/></coverage>"),
            Ok(50.0)
        );
    }
}
