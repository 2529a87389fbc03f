//! Calls of the client: files, terminals, and any other request in a script.

use serde_json::{Map, Value, json};

use crate::{
    agent::Agent,
    step::{Terminal, Then},
    wire::Answer,
};

impl Agent {
    pub(crate) fn read(&mut self, params: &Map<String, Value>) {
        let answer = self.call("fs/read_text_file", params);
        self.say(&match answer {
            Ok(result) => result["content"]
                .as_str()
                .map_or_else(|| result.to_string(), str::to_owned),
            Err(error) => explanation_of(&error),
        });
    }

    pub(crate) fn write(&mut self, params: &Map<String, Value>) {
        let answer = self.call("fs/write_text_file", params);
        self.say(&answer.map_or_else(|error| explanation_of(&error), |_| "written".to_owned()));
    }

    /// Sends a request with its parameters unchanged.
    pub(crate) fn call_and_say(&mut self, method: &str, params: &Value) {
        let id = self.request(method, &self.scene.fill_value(params));
        let answer = self.answer_to(id);
        self.say(&answer.map_or_else(|error| explanation_of(&error), |result| result.to_string()));
    }

    pub(crate) fn terminal(&mut self, terminal: &Terminal) {
        let created = self.call("terminal/create", &terminal.params);
        match created {
            Ok(result) => {
                self.scene.terminal = result["terminalId"]
                    .as_str()
                    .map(str::to_owned)
                    .unwrap_or_default();
            }
            Err(error) => return self.say(&explanation_of(&error)),
        }
        match terminal.then {
            Then::Wait => self.see_terminal_through(),
            Then::Kill => {
                let _ = self.call_terminal("terminal/kill");
                self.see_terminal_through();
            }
            Then::Release => {
                let _ = self.call_terminal("terminal/release");
            }
            Then::Leave => {}
        }
    }

    fn see_terminal_through(&mut self) {
        let exit = self.request("terminal/wait_for_exit", &self.terminal_params());
        while !self.has_answer_to(exit) && !self.scene.is_cut() {
            self.take_next();
        }
        if !self.has_answer_to(exit) {
            let _ = self.call_terminal("terminal/kill");
        }
        let said = self
            .answer_to(exit)
            .and_then(|_| self.call_terminal("terminal/output"));
        self.say(&said.map_or_else(
            |error| explanation_of(&error),
            |output| said_of_terminal(&output),
        ));
        let _ = self.call_terminal("terminal/release");
    }

    fn call_terminal(&mut self, method: &str) -> Answer {
        let id = self.request(method, &self.terminal_params());
        self.answer_to(id)
    }

    fn terminal_params(&self) -> Value {
        json!({"sessionId": self.scene.session, "terminalId": self.scene.terminal})
    }

    /// Sends a request about this session, with absolute paths.
    fn call(&mut self, method: &str, params: &Map<String, Value>) -> Answer {
        let mut params = self.scene.fill_value(&params.clone().into());
        params["sessionId"] = json!(self.scene.session);
        for key in ["path", "cwd"] {
            if let Some(path) = params[key].as_str().map(|path| self.scene.cwd.join(path)) {
                params[key] = json!(path);
            }
        }
        let id = self.request(method, &params);
        self.answer_to(id)
    }
}

/// The text for an error of the client.
pub(crate) fn explanation_of(error: &Value) -> String {
    format!(
        "error {}: {}",
        error["code"],
        error["message"].as_str().unwrap_or_default()
    )
}

fn said_of_terminal(result: &Value) -> String {
    let exit = &result["exitStatus"];
    let end = match (exit["signal"].as_str(), exit["exitCode"].as_u64()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "running".to_owned(),
    };
    let cut = if result["truncated"] == true {
        ", truncated"
    } else {
        ""
    };
    format!(
        "{end}{cut}: {}",
        result["output"].as_str().unwrap_or_default()
    )
}
