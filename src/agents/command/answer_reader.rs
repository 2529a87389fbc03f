//! Reads the output of an agent's command.
//!
//! Owns the decoding of a format. Does not judge an answer (see [`super`]), and does not know its
//! limits: see [`super::answer_stream`].
//!
//! # Invariants
//! - An unreadable line is dropped, counted and reported. It is never forwarded as text: it could
//!   contain a promise that the agent did not make.
//! - At most [`LINE_MAX`] of a line is stored. For a longer line, only its beginning and its length
//!   are returned.

use tokio_util::sync::CancellationToken;

use super::{
    answer_stream::{AnswerReceiver, AnswerStream},
    translate::{self, StreamEnd, StreamOutcome, StreamTranslator, TranslatedOutput},
};
use crate::{
    agents::AgentWorkspace,
    engine::ids::TurnId,
    process::{
        output::TailBuffer,
        run::{OutputStream, ProcessGroup, ProcessObserver},
        secrets,
    },
    text::{CarriageReturnMode, PlainTextFilter, StreamMask, looks_like_failure},
};

/// Bytes of standard error that are stored to explain a failure.
const ERROR_END: usize = 2 * 1024;
/// How many lines at the end of an answer can be an error.
const ANSWER_LINES: usize = 3;

/// Receives the output of the process. It must not block, so it queues chunks for the
/// [`AnswerReceiver`].
pub(super) struct AnswerReader {
    reader: OutputDecoder,
    answer: AnswerStream,
    errors: TailBuffer,
    errors_mask: StreamMask,
    /// Ends the process.
    stop: CancellationToken,
}

pub(super) enum OutputDecoder {
    Text(PlainTextFilter),
    Json(Box<JsonLineDecoder>),
}

pub(super) struct JsonLineDecoder {
    /// Removes terminal sequences first, if the command runs on a terminal.
    plain: Option<PlainTextFilter>,
    lines: LineSplitter,
    translator: Box<dyn StreamTranslator>,
    output: TranslatedOutput,
    counts: LineCounts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    pub(super) understood: usize,
    pub(super) plain: usize,
    /// How many lines were unreadable, and the beginning of the first one.
    unreadable: usize,
    first: String,
}

pub(super) struct OutputSummary {
    /// The end of standard error.
    pub(super) errors: String,
    /// The end of the answer.
    pub(super) last: String,
    pub(super) warnings: Vec<String>,
    pub(super) stream: Option<JsonStreamSummary>,
}

pub(super) struct JsonStreamSummary {
    pub(super) end: StreamEnd,
    pub(super) conversation: Option<String>,
    pub(super) hopeless: Option<String>,
    /// The agent said something, or used a tool.
    pub(super) has_answer: bool,
    pub(super) counts: LineCounts,
}

impl OutputSummary {
    /// The agent's words about a failure: from its JSON lines, otherwise from standard error,
    /// otherwise from the end of its answer. The answer comes first if it ends in an error and
    /// standard error contains only warnings and progress.
    pub(super) fn words(&self) -> String {
        if let Some(words) = self.reported() {
            return words.to_owned();
        }
        let answer = self.answer_end();
        let is_noise = !looks_like_failure(&self.errors);
        if self.errors.trim().is_empty() {
            self.last.clone()
        } else if is_noise && looks_like_failure(&answer) {
            // Keep the noise too: it can say when a limit resets.
            format!("{answer}\n{}", self.errors)
        } else {
            self.errors.clone()
        }
    }

    /// Everything in which the agent can have reported server errors.
    pub(super) fn complaints(&self) -> String {
        [
            &self.answer_end(),
            &self.errors,
            self.reported().unwrap_or_default(),
        ]
        .join("\n")
    }

    fn reported(&self) -> Option<&str> {
        self.stream
            .as_ref()
            .and_then(|stream| match &stream.end.verdict {
                StreamOutcome::Failed(words) => Some(words.as_str()),
                StreamOutcome::Ended(_) | StreamOutcome::Unsaid => stream.end.complaint.as_deref(),
            })
    }

    /// The last lines of the answer. Text before them is the agent's work and can be about any
    /// error.
    pub(super) fn answer_end(&self) -> String {
        let mut lines: Vec<&str> = self
            .last
            .lines()
            .rev()
            .filter(|line| !line.trim().is_empty())
            .take(ANSWER_LINES)
            .collect();
        lines.reverse();
        lines.join("\n")
    }
}

impl OutputDecoder {
    pub(super) fn text() -> Self {
        Self::Text(PlainTextFilter::new(CarriageReturnMode::Redraw))
    }

    pub(super) fn json(
        translator: Box<dyn StreamTranslator>,
        output: TranslatedOutput,
        plain: Option<PlainTextFilter>,
    ) -> Self {
        Self::Json(Box::new(JsonLineDecoder {
            plain,
            lines: LineSplitter::default(),
            translator,
            output,
            counts: LineCounts::default(),
        }))
    }
}

impl AnswerReader {
    pub(super) fn new(
        reader: OutputDecoder,
        place: &AgentWorkspace,
        turn: TurnId,
        stop: CancellationToken,
    ) -> (Self, AnswerReceiver) {
        let (answer, pieces) = AnswerStream::new(place, turn);
        (
            Self {
                reader,
                answer,
                errors: TailBuffer::new(ERROR_END),
                errors_mask: secrets::stream(),
                stop,
            },
            pieces,
        )
    }

    /// Forwards the end of a long answer, and collects what is known about the output.
    pub(super) fn finish(self) -> OutputSummary {
        let Self {
            reader,
            mut answer,
            mut errors,
            mut errors_mask,
            ..
        } = self;
        let stream = match reader {
            OutputDecoder::Text(plain) => {
                let mut text = Vec::new();
                plain.finish(&mut text);
                answer.say(&text);
                None
            }
            OutputDecoder::Json(json) => Some(json.finish(&mut answer)),
        };
        let mut warnings: Vec<String> = stream
            .as_ref()
            .and_then(|stream| stream.counts.warning())
            .into_iter()
            .collect();
        answer.end_text();
        errors.push(&errors_mask.finish());
        let last = lossy(&answer.last());
        warnings.extend(answer.finish());
        OutputSummary {
            errors: lossy(&errors.bytes()),
            last,
            warnings,
            stream,
        }
    }
}

impl ProcessObserver for AnswerReader {
    fn started(&mut self, group: ProcessGroup) {
        self.answer.started(group);
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        match (stream, &mut self.reader) {
            (OutputStream::Stderr, _) => self.errors.push(&self.errors_mask.push(bytes)),
            (OutputStream::Stdout, OutputDecoder::Text(plain)) => {
                let mut text = Vec::with_capacity(bytes.len());
                plain.push(bytes, &mut text);
                self.answer.say(&text);
            }
            (OutputStream::Stdout, OutputDecoder::Json(json)) => {
                json.read(bytes, &mut self.answer);
                if json.output.hopeless().is_some() {
                    self.stop.cancel();
                }
            }
        }
    }
}

impl JsonLineDecoder {
    fn read(&mut self, bytes: &[u8], answer: &mut AnswerStream) {
        let mut text = Vec::new();
        let bytes = match &mut self.plain {
            Some(plain) => {
                plain.push(bytes, &mut text);
                &text
            }
            None => bytes,
        };
        let Self {
            lines,
            translator,
            output,
            counts,
            ..
        } = self;
        lines.push(bytes, |line| {
            counts.take_in(&line, &mut **translator, output);
            output
                .take()
                .into_iter()
                .for_each(|update| answer.tell(update));
        });
    }

    fn finish(mut self: Box<Self>, answer: &mut AnswerStream) -> JsonStreamSummary {
        if let Some(plain) = self.plain.take() {
            let mut text = Vec::new();
            plain.finish(&mut text);
            self.read(&text, answer);
        }
        if let Some(SplitLine::Whole(bytes)) = self.lines.rest() {
            let torn = bytes.starts_with(b"{") && translate::parse(&lossy(bytes)).is_none();
            if torn {
                tracing::debug!("the output ends in the middle of a line");
            } else {
                self.counts.take_in(
                    &SplitLine::Whole(bytes),
                    &mut *self.translator,
                    &mut self.output,
                );
            }
        }
        self.output
            .take()
            .into_iter()
            .for_each(|update| answer.tell(update));
        let masked = |text: &str| secrets::masked(text).into_owned();
        let hopeless = self.output.hopeless().map(masked);
        let has_answer = self.output.has_answer();
        let mut end = self.translator.end();
        if let StreamOutcome::Failed(words) = &mut end.verdict {
            secrets::mask_text(words);
        }
        end.complaint.as_mut().map(secrets::mask_text);
        JsonStreamSummary {
            end,
            has_answer,
            conversation: self.output.conversation(),
            hopeless,
            counts: self.counts,
        }
    }
}

impl LineCounts {
    fn take_in(
        &mut self,
        line: &SplitLine<'_>,
        translator: &mut dyn StreamTranslator,
        output: &mut TranslatedOutput,
    ) {
        let line = match line {
            SplitLine::Whole(bytes) => lossy(bytes),
            SplitLine::TooLong { beginning, length } => {
                let beginning = lossy(beginning);
                return self.cannot_read(&format!(
                    "a line of {length} B that begins with {beginning}"
                ));
            }
        };
        let line = line.trim_end_matches('\r');
        match translate::parse(line) {
            Some(value) if translator.line(&value, output).is_some() => self.understood += 1,
            Some(_) => tracing::debug!(
                line = &line[..line.floor_char_boundary(200)],
                "a line of an unknown kind"
            ),
            // Half a JSON object is not text that an agent wrote.
            None if line.trim_start().starts_with('{') => {
                let line = secrets::masked(line);
                self.cannot_read(&line[..line.floor_char_boundary(80)]);
            }
            None if line.is_empty() && self.plain == 0 => {}
            None => {
                self.plain += 1;
                output.plain_line(line);
            }
        }
    }

    fn cannot_read(&mut self, line: &str) {
        tracing::debug!(line, "a line that creel cannot read");
        if self.unreadable == 0 {
            line.clone_into(&mut self.first);
        }
        self.unreadable += 1;
    }

    fn warning(&self) -> Option<String> {
        let first = &self.first;
        match self.unreadable {
            0 => None,
            1 => Some(format!(
                "creel skipped 1 line of the agent's output that it cannot read: {first} …"
            )),
            n => Some(format!(
                "creel skipped {n} lines of the agent's output that it cannot read. The first: {first} …"
            )),
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The longest line in bytes. A line can contain whole files and pictures.
const LINE_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a longer line that are returned.
const BEGINNING: usize = 80;

#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    held: Vec<u8>,
    /// The length of the current line, including bytes that were not stored.
    length: usize,
}

/// Without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SplitLine<'a> {
    Whole(&'a [u8]),
    TooLong { beginning: &'a [u8], length: usize },
}

impl LineSplitter {
    /// Calls `each` for every line that ends in this chunk.
    pub(super) fn push(&mut self, piece: &[u8], mut each: impl FnMut(SplitLine<'_>)) {
        let mut parts = piece.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            if self.length == 0 && part.len() <= LINE_MAX {
                each(SplitLine::Whole(part));
            } else {
                self.hold(part);
                each(self.line());
                self.held.clear();
                self.length = 0;
            }
        }
        self.hold(last);
    }

    /// The text after the last newline, if any.
    pub(super) fn rest(&self) -> Option<SplitLine<'_>> {
        (self.length > 0).then(|| self.line())
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        if self.length <= LINE_MAX {
            self.held.extend_from_slice(bytes);
        } else {
            let room = BEGINNING.saturating_sub(self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..room]);
            self.held.truncate(BEGINNING);
            self.held.shrink_to_fit();
        }
    }

    fn line(&self) -> SplitLine<'_> {
        if self.length <= LINE_MAX {
            SplitLine::Whole(&self.held)
        } else {
            SplitLine::TooLong {
                beginning: &self.held,
                length: self.length,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::policy::OutputFormat;

    const FORMATS: [OutputFormat; 5] = [
        OutputFormat::Text,
        OutputFormat::Claude,
        OutputFormat::Codex,
        OutputFormat::Gemini,
        OutputFormat::Opencode,
    ];

    /// The updates for these chunks of output.
    fn decoded(format: OutputFormat, pieces: &[&[u8]]) -> String {
        let place = AgentWorkspace {
            cwd: "/".into(),
            session: "s".into(),
            session_dir: "/".into(),
            mark: "m".into(),
            guard: std::sync::Arc::default(),
            goal: String::new(),
            creel: None,
            variables: None,
            has_tool_hooks: false,
            prices: None,
        };
        let output = TranslatedOutput::new(TurnId(1), None);
        let reader = crate::agents::command::translator(format, None)
            .map_or_else(OutputDecoder::text, |it| {
                OutputDecoder::json(it, output, None)
            });
        let (mut answer, _pieces) =
            AnswerReader::new(reader, &place, TurnId(1), CancellationToken::new());
        for piece in pieces {
            answer.output(OutputStream::Stdout, piece);
        }
        answer.finish().last
    }

    /// Lines that resemble those of the formats, whole and cut, and arbitrary bytes.
    fn output() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "\\{\"type\":\"(text|message|assistant|item.completed|result)\",\"(part|item|message|role)\":.{0,20}\\}?",
            r#"\{"type":"text","part":\{"text":"\PC{0,8}(\\ud83d)?"\}\}"#,
            r#"\{"type":"message","role":"assistant","delta":(true|7),"content":"\PC{0,8}"\}"#,
            ".{0,20}",
        ];
        let line = prop_oneof![4 => line.prop_map(String::into_bytes), 1 => prop::collection::vec(any::<u8>(), 0..30)];
        prop::collection::vec(line, 0..8).prop_map(|lines| lines.join(&b'\n'))
    }

    proptest! {
        #[test]
        fn no_output_breaks_a_reader_and_where_it_is_cut_does_not_matter(
            bytes in output(),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes: Vec<u8> = bytes.into_iter().filter(|byte| *byte != b'\r').collect();
            let (one, two) = bytes.split_at(cut.index(bytes.len() + 1));
            for format in FORMATS {
                prop_assert_eq!(decoded(format, &[one, two]), decoded(format, &[&bytes]));
            }
        }
    }

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut seen = Vec::new();
        let show = |line: SplitLine<'_>| match line {
            SplitLine::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            SplitLine::TooLong { beginning, length } => format!("{} of {length}", beginning.len()),
        };
        for piece in pieces {
            lines.push(piece, |line| seen.push(show(line)));
        }
        seen.extend(lines.rest().map(|line| format!("rest {}", show(line))));
        seen
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        assert_eq!(lines(&[b"one\ntwo\n"]), ["one", "two"]);
        assert_eq!(
            lines(&[b"o", b"ne", b"\n\nt", b"wo"]),
            ["one", "", "rest two"]
        );
        assert_eq!(
            lines(&[
                "€".as_bytes().split_at(1).0,
                "€".as_bytes().split_at(1).1,
                b"\n"
            ]),
            ["€"]
        );
        assert_eq!(lines(&[b""]), [""; 0]);
    }

    #[test]
    fn the_beginning_of_a_too_long_line_is_reported() {
        let half = vec![b'x'; LINE_MAX / 2 + 1];
        assert_eq!(
            lines(&[b"a\n", &half, &half, b"\nb\n"]),
            ["a", "80 of 8388610", "b"]
        );
        assert_eq!(
            lines(&[&[half.as_slice(), &half, b"\nb\n"].concat()]),
            ["80 of 8388610", "b"]
        );
        assert_eq!(
            lines(&[b"12", &vec![b'x'; LINE_MAX]]),
            ["rest 80 of 8388610"]
        );
    }
}
