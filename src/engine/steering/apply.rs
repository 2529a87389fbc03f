//! Applies the user's commands to the state.

use crate::engine::{
    event::SteeringEvent,
    session::{SessionState, apply::stop_requested},
    steering::QueuedMessage,
};

pub(crate) fn apply_steering(session: &mut SessionState, event: &SteeringEvent) {
    match event {
        SteeringEvent::Paused { turn, by } => {
            session.steering.paused = true;
            session.steering.paused_by = Some(by.clone());
            session.steering.cancelled = *turn;
        }
        SteeringEvent::Unpaused { .. } => session.steering.paused = false,
        SteeringEvent::MessageQueued { by, text } => {
            session.steering.messages.push(QueuedMessage {
                by: by.by,
                text: text.clone(),
            });
            session.steering.queued_in.note(by.by, session.turns.last);
        }
        SteeringEvent::ModelChosen { model, agent, .. } => {
            let agent = agent.as_ref().unwrap_or(&session.plan().agent).clone();
            match model {
                Some(model) => drop(session.steering.models.insert(agent, model.clone())),
                None => drop(session.steering.models.remove(&agent)),
            }
        }
        SteeringEvent::StopRequested { how, .. } => stop_requested(session, *how),
    }
}
