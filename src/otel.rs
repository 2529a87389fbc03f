//! The session as a trace and metrics, sent to an OpenTelemetry collector.
//!
//! Owns the thread that follows the journal and sends what ended. What a record means for the trace
//! is in [`spans`], for the metrics in [`metrics`]; both are pure. [`otlp`] writes them as OTLP in
//! JSON, and [`collector`] sends that over HTTP.
//!
//! # Invariants
//! - The session never waits for the collector: it writes its journal, and this thread reads it. Only
//!   the end of the process waits, for a few seconds at most.
//! - The memory is bounded: while the collector is away, the thread reads no further.
//! - Prompts, answers, commands and outputs are not sent.
//! - This process sends what its own records end. So a resumed session sends no span twice.

pub mod collector;
pub mod metrics;
pub mod otlp;
pub mod spans;

use std::{io, time::Duration};

use serde_json::Value;
use tokio::sync::watch;

use crate::{
    config::OtelConfig,
    engine::event::{Event, SessionEvent},
    journal::{Record, RecordTail, SessionDir},
    otel::{
        collector::{Collector, CollectorError},
        metrics::SessionMetrics,
        spans::{SessionTrace, TraceSpan},
    },
    process::trace_context::{self, TraceContext, TraceParent},
    runtime::SessionRuntime,
};

/// How many spans one request has at most.
const BATCH: usize = 200;
/// After so many records without a span, other work of the thread gets its turn.
const STRIDE: usize = 1000;
/// How long a span waits for others, so that a busy session needs few requests.
const GATHERING: Duration = Duration::from_millis(500);
/// How long a session that has ended waits for the collector.
const FAREWELL: Duration = Duration::from_secs(3);
/// How often a failed request is repeated after the end. The user does not wait long for a
/// collector that is not there.
const LAST_TRIES: u32 = 2;
/// Why the collector lacks the end of a session.
const TOO_LATE: &str = "it did not answer within 3 seconds after the end";
/// The first wait after an error, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The sender of one session.
#[derive(Debug)]
pub struct TelemetryEndpoint {
    thread: std::thread::JoinHandle<Option<String>>,
}

impl TelemetryEndpoint {
    /// Starts to send what this process records. Call it before the session's first process starts:
    /// its processes get the trace.
    pub fn open(
        otel: OtelConfig,
        folder: &SessionDir,
        runtime: &SessionRuntime,
    ) -> io::Result<Self> {
        let follower = runtime.follow()?;
        let began = &follower.state.began;
        let context = context_of(&began.id, began.trace.as_deref());
        trace_context::use_for_session(context.clone());
        let sender = TelemetrySender {
            tail: RecordTail::open(&folder.journal())?,
            own_from: runtime.began_at(),
            news: runtime.news(),
            context,
            session: None,
            batch: TelemetryBatch::default(),
            problem: None,
        };
        let thread = std::thread::Builder::new()
            .name("otel".into())
            .spawn(move || send_all(sender, otel))?;
        Ok(Self { thread })
    }

    /// Waits until the collector has everything, for a few seconds at most. The session must have
    /// ended. Returns what went wrong.
    pub fn close(self) -> Option<String> {
        let crashed = || Some("a bug in creel, see its log".to_owned());
        self.thread.join().unwrap_or_else(|_| crashed())
    }
}

/// The trace of a session, from its first record.
pub fn context_of(session: &str, parent: Option<&str>) -> TraceContext {
    TraceContext::new(session, parent.and_then(TraceParent::read))
}

/// Sends until the session has ended. Returns what went wrong.
fn send_all(mut sender: TelemetrySender, otel: OtelConfig) -> Option<String> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let tokio = match tokio {
        Ok(tokio) => tokio,
        Err(error) => return Some(error.to_string()),
    };
    let endpoint = otel.endpoint.shown();
    let sent = tokio.block_on(async {
        let mut ending = sender.news.clone();
        let collector = Collector::new(otel)?;
        let farewell = async {
            ended(&mut ending).await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            sent = sender.run(&collector) => sent,
            () = farewell => Err(CollectorError::Away(TOO_LATE.to_owned())),
        }
    });
    // The search for a host can take longer than a session that has ended may wait.
    tokio.shutdown_background();
    let problem = sent.err().map(|error| error.to_string());
    let problem = problem.or(sender.problem);
    problem.map(|why| format!("{endpoint}: {why}"))
}

/// Waits until no more records follow.
async fn ended(news: &mut watch::Receiver<u64>) {
    while news.changed().await.is_ok() {}
}

/// What the journal says that the collector does not have yet.
#[derive(Debug, Default)]
struct TelemetryBatch {
    spans: Vec<TraceSpan>,
    /// In OTLP's form.
    metrics: Option<Value>,
}

impl TelemetryBatch {
    fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.metrics.is_none()
    }

    fn is_full(&self) -> bool {
        self.spans.len() >= BATCH || self.metrics.is_some()
    }
}

struct TelemetrySender {
    tail: RecordTail,
    /// The offset of the first record of this process.
    own_from: u64,
    news: watch::Receiver<u64>,
    context: TraceContext,
    /// None before the first record.
    session: Option<(SessionTrace, SessionMetrics)>,
    batch: TelemetryBatch,
    /// Why the collector does not have everything.
    problem: Option<String>,
}

/// How far the reading came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadProgress {
    AllRead,
    MoreToRead,
}

impl TelemetrySender {
    async fn run(&mut self, collector: &Collector) -> Result<(), CollectorError> {
        let (mut pause, mut last_tries) = (PAUSES.0, LAST_TRIES);
        let mut has_gathered = false;
        loop {
            // Looked at before reading, so the last records are read after the end.
            self.news.mark_unchanged();
            let is_over = self.news.has_changed().is_err();
            let progress = self.read().map_err(|error| {
                CollectorError::Refused(format!("cannot read the journal: {error}"))
            })?;
            if self.batch.is_empty() {
                match progress {
                    ReadProgress::MoreToRead => tokio::task::yield_now().await,
                    ReadProgress::AllRead if is_over => return Ok(()),
                    ReadProgress::AllRead => {
                        // An error means that the session has ended: the next round sees that.
                        let _ = self.news.changed().await;
                    }
                }
                continue;
            }
            if progress == ReadProgress::AllRead && !is_over && !has_gathered {
                self.wait(GATHERING).await;
                has_gathered = true;
                continue;
            }
            has_gathered = false;
            match self.send(collector).await {
                Ok(()) => (pause, last_tries) = (PAUSES.0, LAST_TRIES),
                Err(CollectorError::Refused(why)) => {
                    tracing::info!("otel: {why}");
                    self.problem.get_or_insert(why);
                    self.batch = TelemetryBatch::default();
                }
                Err(CollectorError::Away(why)) => {
                    tracing::info!("otel: {why}");
                    if is_over && last_tries == 0 {
                        return Err(CollectorError::Away(why));
                    }
                    if is_over {
                        last_tries -= 1;
                        tokio::time::sleep(pause).await;
                    } else {
                        self.wait(pause).await;
                    }
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    /// Waits for so long, or until the session has ended.
    async fn wait(&mut self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ended(&mut self.news) => {}
        }
    }

    /// Sends the batch. What the collector has is no longer in it.
    async fn send(&mut self, collector: &Collector) -> Result<(), CollectorError> {
        if !self.batch.spans.is_empty() {
            let body = otlp::traces(&self.context, &self.batch.spans);
            let sent = collector.post("/v1/traces", &body).await;
            if let Err(CollectorError::Away(_)) = &sent {
                return sent;
            }
            self.batch.spans.clear();
            if let Err(error) = sent {
                self.problem.get_or_insert(error.to_string());
            }
        }
        if let Some(body) = &self.batch.metrics {
            collector.post("/v1/metrics", body).await?;
            self.batch.metrics = None;
        }
        Ok(())
    }

    /// Reads until there is enough to send, or no further record.
    fn read(&mut self) -> io::Result<ReadProgress> {
        for _ in 0..STRIDE {
            if self.batch.is_full() {
                return Ok(ReadProgress::MoreToRead);
            }
            match self.tail.next_placed() {
                Ok(Some((place, record))) => self.see(&record, place.offset >= self.own_from),
                Ok(None) => return Ok(ReadProgress::AllRead),
                // A line that creel did not write.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ReadProgress::MoreToRead)
    }

    fn see(&mut self, record: &Record, is_own: bool) {
        if let (None, Event::Session(SessionEvent::Started(began))) = (&self.session, &record.event)
        {
            let trace = SessionTrace::new(self.context.clone(), &record.session, began, record.at);
            self.session = Some((trace, SessionMetrics::since(record.at)));
        }
        let Some((trace, sums)) = &mut self.session else {
            return;
        };
        let spans = trace.see(record);
        // The session's own span is the last of a record.
        let metrics = spans.iter().filter_map(|span| sums.see(span)).last();
        if is_own {
            let sampled = self.context.is_sampled();
            self.batch
                .spans
                .extend(spans.into_iter().filter(|_| sampled));
            self.batch.metrics = metrics.map(|metrics| otlp::metrics(&metrics));
        }
    }
}
