//! The question whether to remove a task.

use super::choice_question::{ChoiceQuestion, OfferedChoice};
use crate::{
    engine::{
        input::SessionCommand,
        tasks::{command::TaskCommand, graph::TaskGraph, task::Task},
    },
    present::text::{plain, plain_line},
};

pub fn remove_question(graph: &TaskGraph, task: &Task) -> ChoiceQuestion<SessionCommand> {
    let effect = match graph.dependents(&task.id).len() {
        0 => "no task depends on it".to_owned(),
        1 => "and the dependency of 1 task on it".to_owned(),
        n => format!("and the dependencies of {n} tasks on it"),
    };
    let remove = SessionCommand::Task {
        task: TaskCommand::Remove {
            id: task.id.clone(),
        },
    };
    let (label, request) = ("Remove it".to_owned(), Some(remove));
    let keep = OfferedChoice {
        label: "Keep it".to_owned(),
        effect: String::new(),
        request: None,
    };
    ChoiceQuestion {
        title: format!("Remove {}?", plain(&task.id)),
        text: vec![plain_line(&task.goal, 200)],
        choices: vec![
            OfferedChoice {
                label,
                effect,
                request,
            },
            keep,
        ],
        chosen: 1,
    }
}
