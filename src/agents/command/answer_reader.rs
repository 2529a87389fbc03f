//! Reads the output of an agent's command.
//!
//! Owns the decoding of a format. Does not judge an answer (see [`super`]), and does not know its
//! limits: see [`super::answer_stream`].
//!
//! # Invariants
//! - An unreadable line is dropped, counted and reported. It is never forwarded as text: it could
//!   contain a promise that the agent did not make.

use tokio_util::sync::CancellationToken;

use super::translate::{self, StreamEnd, StreamOutcome, StreamTranslator, TranslatedOutput};
use crate::{
    agents::{
        AgentWorkspace,
        command::{
            answer_stream::{AnswerReceiver, AnswerStream},
            line_splitter::{LineSplitter, SplitLine},
        },
    },
    engine::ids::TurnId,
    process::{
        output::TailBuffer,
        run::{OutputStream, ProcessGroup, ProcessObserver},
    },
    text::{CarriageReturnMode, PlainTextFilter, looks_like_failure},
};

/// Bytes of standard error that are stored to explain a failure.
const ERROR_END: usize = 2 * 1024;
/// How many lines at the end of an answer can be an error.
const ANSWER_LINES: usize = 3;

/// Receives the output of the process. It must not block, so it queues chunks for the
/// [`AnswerReceiver`].
pub(super) struct AnswerReader {
    reader: OutputDecoder,
    voice: AnswerStream,
    errors: TailBuffer,
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
    told: TranslatedOutput,
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
    pub(super) counts: LineCounts,
}

impl OutputSummary {
    /// The agent's words about a failure: from its JSON lines, otherwise from standard error,
    /// otherwise from the end of its answer. The answer comes first if it ends in an error and
    /// standard error contains only warnings and progress.
    pub(super) fn words(&self) -> String {
        if let Some(told) = self.told() {
            return told.to_owned();
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
            self.told().unwrap_or_default(),
        ]
        .join("\n")
    }

    fn told(&self) -> Option<&str> {
        self.stream
            .as_ref()
            .and_then(|stream| match &stream.end.verdict {
                StreamOutcome::Failed(words) => Some(words.as_str()),
                StreamOutcome::Ended(_) | StreamOutcome::Unsaid => stream.end.complaint.as_deref(),
            })
    }

    /// The last lines of the answer. Text before them is the agent's work and can be about any
    /// error.
    fn answer_end(&self) -> String {
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
        told: TranslatedOutput,
        plain: Option<PlainTextFilter>,
    ) -> Self {
        Self::Json(Box::new(JsonLineDecoder {
            plain,
            lines: LineSplitter::default(),
            translator,
            told,
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
        let (voice, pieces) = AnswerStream::new(place, turn);
        (
            Self {
                reader,
                voice,
                errors: TailBuffer::new(ERROR_END),
                stop,
            },
            pieces,
        )
    }

    /// Forwards the end of a long answer, and collects what is known about the output.
    pub(super) fn finish(self) -> OutputSummary {
        let Self {
            reader,
            mut voice,
            errors,
            ..
        } = self;
        let stream = match reader {
            OutputDecoder::Text(plain) => {
                let mut text = Vec::new();
                plain.finish(&mut text);
                voice.say(&text);
                None
            }
            OutputDecoder::Json(json) => Some(json.finish(&mut voice)),
        };
        let mut warnings: Vec<String> = stream
            .as_ref()
            .and_then(|stream| stream.counts.warning())
            .into_iter()
            .collect();
        let last = lossy(&voice.last());
        warnings.extend(voice.finish());
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
        self.voice.started(group);
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        match (stream, &mut self.reader) {
            (OutputStream::Stderr, _) => self.errors.push(bytes),
            (OutputStream::Stdout, OutputDecoder::Text(plain)) => {
                let mut text = Vec::with_capacity(bytes.len());
                plain.push(bytes, &mut text);
                self.voice.say(&text);
            }
            (OutputStream::Stdout, OutputDecoder::Json(json)) => {
                json.read(bytes, &mut self.voice);
                if json.told.hopeless().is_some() {
                    self.stop.cancel();
                }
            }
        }
    }
}

impl JsonLineDecoder {
    fn read(&mut self, bytes: &[u8], voice: &mut AnswerStream) {
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
            told,
            counts,
            ..
        } = self;
        lines.push(bytes, |line| {
            counts.take_in(&line, &mut **translator, told);
            told.take()
                .into_iter()
                .for_each(|update| voice.tell(update));
        });
    }

    fn finish(mut self: Box<Self>, voice: &mut AnswerStream) -> JsonStreamSummary {
        if let Some(plain) = self.plain.take() {
            let mut text = Vec::new();
            plain.finish(&mut text);
            self.read(&text, voice);
        }
        if let Some(SplitLine::Whole(bytes)) = self.lines.rest() {
            let torn = bytes.starts_with(b"{") && translate::parse(&lossy(bytes)).is_none();
            if torn {
                tracing::debug!("the output ends in the middle of a line");
            } else {
                self.counts.take_in(
                    &SplitLine::Whole(bytes),
                    &mut *self.translator,
                    &mut self.told,
                );
            }
        }
        self.told
            .take()
            .into_iter()
            .for_each(|update| voice.tell(update));
        let hopeless = self.told.hopeless().map(str::to_owned);
        JsonStreamSummary {
            end: self.translator.end(),
            conversation: self.told.conversation(),
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
        told: &mut TranslatedOutput,
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
            Some(value) if translator.line(&value, told).is_some() => self.understood += 1,
            Some(_) => tracing::debug!(
                line = &line[..line.floor_char_boundary(200)],
                "a line of an unknown kind"
            ),
            // Half a JSON object is not text that an agent wrote.
            None if line.trim_start().starts_with('{') => {
                self.cannot_read(&line[..line.floor_char_boundary(80)]);
            }
            None if line.is_empty() && self.plain == 0 => {}
            None => {
                self.plain += 1;
                told.plain_line(line);
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
    fn said(format: OutputFormat, pieces: &[&[u8]]) -> String {
        let place = AgentWorkspace {
            cwd: "/".into(),
            session: "s".into(),
            session_dir: "/".into(),
            mark: "m".into(),
            guard: std::sync::Arc::default(),
            goal: String::new(),
            creel: None,
        };
        let told = TranslatedOutput::new(TurnId(1), None);
        let reader = translate::translator(format, None).map_or_else(OutputDecoder::text, |it| {
            OutputDecoder::json(it, told, None)
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
                prop_assert_eq!(said(format, &[one, two]), said(format, &[&bytes]));
            }
        }
    }
}
