//! Records on their way out.
//!
//! Owns the window: many records are under way at once, and each is taken off when the server has it, in order. Does not
//! decide what a lost connection means: whoever holds it begins again with a new one.
//!
//! # Invariants
//! - A record is taken off only when the server said that it has it, and all before it.
//! - Records leave in the order of the journal. A server that refuses one and takes the next can still hold them in
//!   another order, until the refused one was sent again: each has its number, and creel's readers go by that.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use async_nats::{
    HeaderMap,
    jetstream::{
        Context,
        context::{PublishError, PublishErrorKind},
        publish::PublishAck,
    },
};
use tokio::{sync::watch, time::Instant};

use super::{
    connection::Trouble,
    link::Link,
    store::Holdings,
    subject::{LAST_OF_SUBJECT, MESSAGE_ID, PART, SESSION, Subjects, message_id},
};
use crate::journal::outbox::{Letter, Letters, Names, Outbox};

/// How many messages are under way at once.
pub const WINDOW: usize = 512;
/// How many leave together, while there are more than fit.
const REFILL: usize = 64;
/// After how many records the place is kept, and those who watch are told.
const KEPT_EVERY: u64 = 256;
/// After how long those who watch are told that the server is behind: a record on its way is no news.
const SLOW: Duration = Duration::from_millis(300);
/// What a message needs beside the record: headers, and the names in them.
const ENVELOPE: usize = 512;

/// Two sessions began under one name; the next connection sees who was first.
const TAKEN: &str = "another session took the name just now";

type Ack = Pin<Box<dyn Future<Output = Result<PublishAck, PublishError>> + Send>>;

/// A record that is under way.
struct UnderWay {
    seq: u64,
    end: u64,
    acks: VecDeque<Ack>,
}

/// What is left in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nobody has looked since something was heard.
    Unknown,
    /// Nothing.
    Nothing,
    /// More than fits into the window.
    TooMuch,
    /// Whatever comes after the first record, which claims the session's name.
    AllButTheFirst,
}

impl Rest {
    /// Whether to read on, with that many under way.
    const fn can_follow(self, under_way: usize) -> bool {
        match self {
            Self::Unknown => true,
            Self::Nothing => false,
            Self::TooMuch => under_way + REFILL <= WINDOW,
            Self::AllButTheFirst => under_way == 0,
        }
    }
}

/// Sends the records of a session.
pub(super) struct Sender<'a> {
    pub(super) jetstream: &'a Context,
    pub(super) outbox: &'a mut Outbox,
    pub(super) subjects: &'a Subjects,
    /// The session's name.
    pub(super) session: &'a str,
    /// The session's id.
    pub(super) id: &'a str,
    /// What the stream has.
    pub(super) holdings: Holdings,
    /// The most bytes that a message may have.
    pub(super) largest: usize,
    pub(super) link: &'a watch::Sender<Link>,
}

impl Sender<'_> {
    /// Sends all that there is, and what comes, until the session is over and the server has everything.
    pub(super) async fn run(&mut self, mut news: watch::Receiver<u64>) -> Result<(), Trouble> {
        let mut letters = self.outbox.letters(self.holdings.place.offset)?;
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        let mut over = false;
        let mut rest = Rest::Unknown;
        let mut word_due = Instant::now() + SLOW;
        loop {
            if rest.can_follow(under_way.len()) {
                // First what is known to be there, then the file: a record that comes in between is seen the next time.
                news.mark_unchanged();
                rest = self.fill(&mut letters, &mut under_way).await?;
            }
            let Some(first) = under_way.front_mut() else {
                self.caught_up(*news.borrow())?;
                if over {
                    return Ok(());
                }
                over = news.changed().await.is_err();
                rest = Rest::Unknown;
                word_due = Instant::now() + SLOW;
                continue;
            };
            tokio::select! {
                biased;
                acked = first.acked() => {
                    let at = acked?;
                    let end = under_way.pop_front().map(|first| (first.seq, first.end));
                    self.take_off(end, at, *news.borrow())?;
                }
                changed = news.changed(), if !over && rest == Rest::Nothing => {
                    over = changed.is_err();
                    rest = Rest::Unknown;
                }
                () = tokio::time::sleep_until(word_due) => {
                    self.tell(*news.borrow());
                    word_due = Instant::now() + SLOW;
                }
            }
        }
    }

    /// Publishes until the window is full, or nothing is left.
    async fn fill(&mut self, letters: &mut Letters, under_way: &mut VecDeque<UnderWay>) -> Result<Rest, Trouble> {
        while under_way.len() < WINDOW {
            let Some(letter) = letters.read()? else { return Ok(Rest::Nothing) };
            let there = letter.seq <= self.holdings.place.seq || self.holdings.beyond.contains(&letter.seq);
            if there {
                if under_way.is_empty() && letter.seq <= self.holdings.place.seq {
                    self.holdings.place.offset = letter.end;
                }
                continue;
            }
            let sent = self.publish(letter).await?;
            let alone = sent.seq == 1;
            under_way.push_back(sent);
            if alone {
                return Ok(Rest::AllButTheFirst);
            }
        }
        Ok(Rest::TooMuch)
    }

    async fn publish(&self, letter: Letter) -> Result<UnderWay, Trouble> {
        let subject = self.subjects.event(&letter.kind);
        let room = self.largest.saturating_sub(ENVELOPE + subject.len()).max(1);
        let of = letter.line.len().div_ceil(room).max(1);
        let mut acks: VecDeque<Ack> = VecDeque::with_capacity(of);
        for number in 1..=of {
            let part = (of > 1).then_some(number);
            let mut headers = HeaderMap::new();
            let names = self.holdings.place.names;
            headers.insert(MESSAGE_ID, message_id(names, self.session, self.id, letter.seq, part).as_str());
            headers.insert(SESSION, self.id);
            if part.is_some() {
                headers.insert(PART, format!("{number}/{of}").as_str());
            }
            if letter.seq == 1 && number == 1 && names == Names::Plain {
                headers.insert(LAST_OF_SUBJECT, "0");
            }
            let piece = letter.line.slice((number - 1) * room..letter.line.len().min(number * room));
            let sent = self.jetstream.publish_with_headers(subject.clone(), headers, piece).await;
            acks.push_back(sent.map_err(|error| in_words(&error))?.into_future());
        }
        Ok(UnderWay { seq: letter.seq, end: letter.end, acks })
    }

    fn take_off(&mut self, sent: Option<(u64, u64)>, at: u64, last: u64) -> Result<(), Trouble> {
        let Some((seq, end)) = sent else { return Ok(()) };
        let Holdings { place, beyond } = &mut self.holdings;
        (place.seq, place.offset) = (seq, end);
        while beyond.remove(&(place.seq + 1)) {
            place.seq += 1;
        }
        // What lies beyond must be found again the next time.
        if beyond.is_empty() {
            place.at = place.at.max(at);
        }
        // The first is kept at once: it tells that the name is ours.
        if seq == 1 || seq.is_multiple_of(KEPT_EVERY) {
            self.outbox.keep(place.clone())?;
            self.tell(last);
        }
        Ok(())
    }

    fn caught_up(&mut self, last: u64) -> Result<(), Trouble> {
        self.outbox.keep(self.holdings.place.clone())?;
        self.tell(last);
        Ok(())
    }

    fn tell(&self, last: u64) {
        let link = Link::Connected { behind: last.saturating_sub(self.holdings.place.seq) };
        self.link.send_if_modified(|known| {
            let news = *known != link;
            *known = link;
            news
        });
    }
}

impl UnderWay {
    /// Waits until the server has all of it; the number of the last message.
    async fn acked(&mut self) -> Result<u64, Trouble> {
        let mut at = 0;
        while let Some(ack) = self.acks.front_mut() {
            let PublishAck { sequence, duplicate, .. } = ack.await.map_err(|error| in_words(&error))?;
            // What the stream had of this session was looked at before, so the first record is somebody else's: the
            // server looks at the id of a message before anything else.
            if duplicate && self.seq == 1 {
                return Err(Trouble(TAKEN.to_owned()));
            }
            at = sequence.max(at);
            drop(self.acks.pop_front());
        }
        Ok(at)
    }
}

fn in_words(error: &PublishError) -> Trouble {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Trouble(match error.kind() {
        PublishErrorKind::StreamNotFound => "the stream is gone".to_owned(),
        PublishErrorKind::TimedOut => "the server does not answer".to_owned(),
        PublishErrorKind::BrokenPipe => "the connection was lost".to_owned(),
        PublishErrorKind::WrongLastSequence => TAKEN.to_owned(),
        PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::MaxAckPending
        | PublishErrorKind::MaxPayloadExceeded
        | PublishErrorKind::Other => format!("the server does not take records{cause}"),
    })
}
