//! Hook output that has not been sent to the agent yet.
//!
//! Owns its order and its delivery. Does not decide when a prompt is sent: see [`super::turn`].
//!
//! # Invariants
//! - First in, first out, whatever the source.
//! - An item leaves only in a prompt whose turn did not fail: none is lost, none is sent twice.
//! - Items are sorted by their ids.
//! - Output for the agent is either an item or about to become one (`incoming`) at every moment.

pub mod event;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::{Actor, ActorKind, Event, PendingEvent},
    gate::{Gate, kind::GateChoice},
    hooks::point::HookPoint,
    ids::{ItemId, RunId},
    output::EngineOutput,
    refusal::Refusal,
    watch::forge::NewsSource,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PendingItems {
    items: Vec<PendingItem>,
    incoming: VecDeque<IncomingItem>,
    unreported: Vec<ItemId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingItem {
    pub id: ItemId,
    pub source: ItemSource,
    /// The text for the agent, including its frame.
    pub text: String,
    /// Whether the user changed the text.
    pub edited: bool,
    pub state: ItemState,
    /// Whether the forge took it back, and not the user.
    #[serde(default)]
    pub withdrawn: bool,
    /// Whether its author may not push: the agent gets it only on the user's word.
    #[serde(default)]
    pub stranger: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemSource {
    pub run: RunId,
    pub point: HookPoint,
    pub hook: String,
    pub iteration: u32,
    /// Set if it is from a forge.
    #[serde(default)]
    pub news: Option<Box<NewsSource>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    Pending,
    /// It is part of the current turn's prompt.
    InFlight,
    Skipped,
    Delivered,
}

impl ItemState {
    /// Why an item in this state cannot be changed. None if it can.
    pub const fn is_settled(self, id: ItemId) -> Option<Refusal> {
        match self {
            Self::Pending | Self::Skipped => None,
            Self::InFlight => Some(Refusal::ItemInFlight(id)),
            Self::Delivered => Some(Refusal::ItemDelivered(id)),
        }
    }
}

/// Output that has no item id yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IncomingItem {
    pub(crate) source: ItemSource,
    pub(crate) text: String,
    /// Whether it waits until the user restores it.
    #[serde(default)]
    pub(crate) skipped: bool,
}

impl IncomingItem {
    pub(crate) const fn of_hook(source: ItemSource, text: String) -> Self {
        Self {
            source,
            text,
            skipped: false,
        }
    }
}

impl PendingItems {
    /// All items, oldest first, in any state.
    pub fn items(&self) -> &[PendingItem] {
        &self.items
    }

    pub fn get(&self, id: ItemId) -> Option<&PendingItem> {
        self.place(id).map(|place| &self.items[place])
    }

    /// A long session has tens of thousands of items, and every prompt looks some of them up: a
    /// linear search would make a long journal slow to read. Items are sorted by id.
    fn place(&self, id: ItemId) -> Option<usize> {
        self.items.binary_search_by_key(&id, |item| item.id).ok()
    }

    fn get_mut(&mut self, id: ItemId) -> Option<&mut PendingItem> {
        self.place(id).map(|place| &mut self.items[place])
    }

    /// The items for the next prompt, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &PendingItem> {
        self.items
            .iter()
            .filter(|item| item.state == ItemState::Pending)
    }

    pub fn waiting_ids(&self) -> Vec<ItemId> {
        self.waiting().map(|item| item.id).collect()
    }

    /// The same without news of a pull request.
    pub(crate) fn waiting_output(&self) -> Vec<ItemId> {
        let output = self.waiting().filter(|item| item.source.news.is_none());
        output.map(|item| item.id).collect()
    }

    /// The next event to record about pending items, if any.
    pub(crate) fn due(&self) -> Option<Event> {
        if !self.unreported.is_empty() {
            return Some(Event::Pending(PendingEvent::Delivered {
                items: self.unreported.clone(),
            }));
        }
        let IncomingItem {
            source,
            text,
            skipped,
        } = self.incoming.front()?;
        let ItemSource {
            run,
            point,
            hook,
            iteration,
            news,
        } = source.clone();
        let item = self.items.last().map_or(ItemId(1), |last| last.id.next());
        Some(Event::Pending(PendingEvent::Added {
            item,
            run,
            point,
            hook,
            iteration,
            bytes: text.len(),
            text: text.clone(),
            news,
            skipped: *skipped,
        }))
    }

    pub(crate) fn catch(&mut self, incoming: IncomingItem) {
        self.incoming.push_back(incoming);
    }

    pub(crate) fn apply(&mut self, event: &PendingEvent) {
        match event {
            PendingEvent::Added {
                item,
                run,
                point,
                hook,
                iteration,
                text,
                news,
                skipped,
                ..
            } => {
                let source = ItemSource {
                    run: *run,
                    point: *point,
                    hook: hook.clone(),
                    iteration: *iteration,
                    news: news.clone(),
                };
                let state = if *skipped {
                    ItemState::Skipped
                } else {
                    ItemState::Pending
                };
                self.added(PendingItem {
                    id: *item,
                    source,
                    text: text.clone(),
                    edited: false,
                    state,
                    withdrawn: false,
                    stranger: *skipped,
                });
            }
            PendingEvent::Skipped { item, by } => {
                self.set_state(&[*item], ItemState::Skipped);
                self.withdrawn(*item, by.by == ActorKind::Policy);
            }
            PendingEvent::Restored { item, .. } => {
                self.set_state(&[*item], ItemState::Pending);
                self.withdrawn(*item, false);
            }
            PendingEvent::Edited { item, text, by } => {
                self.edit(*item, text, by.by != ActorKind::Policy);
            }
            PendingEvent::Delivered { .. } => self.reported(),
        }
    }

    fn added(&mut self, item: PendingItem) {
        self.incoming.pop_front();
        self.items.push(item);
    }

    pub(crate) fn set_state(&mut self, ids: &[ItemId], state: ItemState) {
        for id in ids {
            if let Some(item) = self.get_mut(*id) {
                item.state = state;
            }
        }
    }

    fn edit(&mut self, id: ItemId, text: &str, by_user: bool) {
        if let Some(item) = self.get_mut(id) {
            text.clone_into(&mut item.text);
            item.edited |= by_user;
        }
    }

    fn withdrawn(&mut self, id: ItemId, by_forge: bool) {
        if let Some(item) = self.get_mut(id) {
            item.withdrawn = by_forge && item.source.news.is_some() && !item.stranger;
        }
    }

    /// The turn that carried these items did not fail.
    pub(crate) fn deliver(&mut self, ids: &[ItemId]) {
        self.set_state(ids, ItemState::Delivered);
        self.unreported.extend_from_slice(ids);
    }

    fn reported(&mut self) {
        // The text is in the journal; a long session must not keep texts in memory that it will not
        // send again.
        for id in std::mem::take(&mut self.unreported) {
            if let Some(item) = self.get_mut(id) {
                item.text = String::new();
            }
        }
    }
}

impl PendingItems {
    pub(crate) fn change_item(&self, id: ItemId, from: &[ItemState], event: Event) -> EngineOutput {
        let Some(state) = self.get(id).map(|item| item.state) else {
            return EngineOutput::refuse(Refusal::NoSuchItem(id));
        };
        match (state.is_settled(id), state) {
            (Some(why), _) => EngineOutput::refuse(why),
            (None, state) if from.contains(&state) => EngineOutput::record(event),
            (None, ItemState::Skipped) => EngineOutput::refuse(Refusal::ItemAlreadySkipped(id)),
            (None, ItemState::Pending | ItemState::InFlight | ItemState::Delivered) => {
                EngineOutput::refuse(Refusal::ItemNotSkipped(id))
            }
        }
    }

    /// The items that an answer skips.
    pub(crate) fn skips<'a>(
        &'a self,
        gate: &'a Gate,
        choice: GateChoice,
        approved: Option<&'a [ItemId]>,
        by: &'a Actor,
    ) -> impl Iterator<Item = Event> + 'a {
        let delivers = !gate.subject.items().is_empty();
        let some_are_left_out = choice == GateChoice::Approve && approved.is_some();
        let kept_back = move |id: &ItemId| {
            choice == GateChoice::Skip || approved.is_some_and(|approved| !approved.contains(id))
        };
        let waiting = self
            .waiting_ids()
            .into_iter()
            .filter(|id| gate.subject.items().contains(id));
        waiting
            .filter(move |id| {
                delivers && (choice == GateChoice::Skip || some_are_left_out) && kept_back(id)
            })
            .map(move |item| {
                Event::Pending(PendingEvent::Skipped {
                    item,
                    by: by.clone(),
                })
            })
    }
}
