//! An agent's message, searched for promises and verdicts.

use creel::engine::{
    stop::context::Promise,
    submit::{kind::ReviewVerdict, review},
};

/// A promise or a verdict in a code fence or in a quotation never counts, whatever else the message
/// says. Without a tag there is none.
pub fn run(input: &[u8]) -> String {
    let message = String::from_utf8_lossy(input);
    let made = Promise::made_in(&message, "");
    assert!(
        made.windows(2).all(|pair| pair[0] < pair[1]),
        "promises are listed once, strongest first"
    );
    for promise in &made {
        assert!(
            message.contains(&promise.tag()),
            "{promise} is made without its tag"
        );
    }
    let (opinion, _) = review::read(&message, "");
    for (what, wrapped) in [
        ("a fence", fenced(&message, '`')),
        ("a fence of tildes", fenced(&message, '~')),
        ("a quotation", quoted(&message)),
    ] {
        assert_eq!(
            Promise::made_in(&wrapped, ""),
            [],
            "a promise counts in {what}"
        );
        assert_eq!(
            review::read(&wrapped, "").0,
            ReviewVerdict::Unsaid,
            "a verdict counts in {what}"
        );
    }
    assert!(opinion != ReviewVerdict::Approve || message.to_ascii_lowercase().contains("approve"));
    let repeated = Promise::made_in(&message, &message).len();
    format!(
        "{made:?} {opinion:?} {repeated} {}",
        message
            .lines()
            .filter(|line| line.contains("```"))
            .count()
            .min(5)
    )
}

/// The message in a code block with a longer fence than any in the message.
fn fenced(message: &str, mark: char) -> String {
    let longest = message
        .split(|c| c != mark)
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = mark.to_string().repeat(longest.max(2) + 1);
    format!("{fence}\n{message}\n{fence}")
}

fn quoted(message: &str) -> String {
    message.lines().map(|line| format!("> {line}\n")).collect()
}
