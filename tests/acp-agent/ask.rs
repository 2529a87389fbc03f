//! Permission requests, and what follows from the answers.

use serde_json::{Value, json};

use crate::{agent::Agent, call::explanation_of, fail, scene::Question, step::Ask, wire::Answer};

impl Agent {
    pub(crate) fn ask(&mut self, ask: &Ask) {
        let options = self.scene.fill_value(&ask.options);
        let tool = self.scene.fill_value(&ask.tool);
        let params = json!({"sessionId": self.scene.session, "toolCall": tool, "options": options});
        let id = self.request("session/request_permission", &params);
        self.scene.questions.push(Question {
            name: ask.name.clone(),
            id,
            options,
            allowed: None,
        });
        if ask.wait {
            self.settle(self.scene.questions.len() - 1);
        }
    }

    /// Whether the client allowed the question of this name, or the last one.
    pub(crate) fn is_allowed(&mut self, name: Option<&str>) -> bool {
        let fits = |question: &Question| name.is_none() || question.name.as_deref() == name;
        let Some(place) = self.scene.questions.iter().rposition(fits) else {
            fail(&format!(
                "`if_allowed`: nothing was asked as {name:?} in this turn"
            ));
        };
        self.settle(place)
    }

    /// Waits for the answer to a question, unless it is known.
    fn settle(&mut self, place: usize) -> bool {
        if let Some(allowed) = self.scene.questions[place].allowed {
            return allowed;
        }
        let answer = self.answer_to(self.scene.questions[place].id);
        let question = &mut self.scene.questions[place];
        let (outcome, allowed) = outcome(&answer, &question.options);
        question.allowed = Some(allowed);
        self.scene.outcome = outcome;
        allowed
    }
}

/// The client's choice, and whether it allows what was asked.
fn outcome(answer: &Answer, options: &Value) -> (String, bool) {
    let outcome = match answer {
        Ok(result) => &result["outcome"],
        Err(error) => return (explanation_of(error), false),
    };
    let Some(chosen) = outcome["optionId"]
        .as_str()
        .filter(|_| outcome["outcome"] == "selected")
    else {
        return (
            outcome["outcome"].as_str().unwrap_or("nothing").to_owned(),
            false,
        );
    };
    let option = options
        .as_array()
        .into_iter()
        .flatten()
        .find(|option| option["optionId"] == chosen);
    let kind = option.and_then(|option| option["kind"].as_str());
    (
        chosen.to_owned(),
        kind.is_some_and(|kind| kind.starts_with("allow")),
    )
}
