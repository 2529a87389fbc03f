//! A line that a program sends to the control socket.

use creel::protocol::{SessionRequest, read_request, request_line};

use super::class;

/// A parsed request means the same when it is serialised and parsed again.
pub fn run(input: &[u8]) -> String {
    match read_request(input) {
        Ok((caller, request)) => {
            let line = request_line(caller.by, &request, None);
            let (caller_again, again) =
                read_request(line.trim_end().as_bytes()).expect("what is written is read");
            assert_eq!(
                (caller_again.by, &again),
                (caller.by, &request),
                "a request changes when it is written again"
            );
            assert_eq!(line.matches('\n').count(), 1, "a request is one line");
            match request {
                SessionRequest::Command(command) => class(&format!("{command:?}")),
                SessionRequest::Query(query) => class(&format!("{query:?}")),
                SessionRequest::Watch(_) => "a watch".into(),
            }
        }
        Err(error) => {
            let why = error.to_string();
            assert!(why.len() < 4 << 10, "the refusal repeats the request");
            class(&why)
        }
    }
}
