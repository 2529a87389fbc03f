//! A config file: text of any kind.

use creel::config::{self, Diagnostic, PlanRequest, Severity};

use super::{FOLDER, class};

/// Every message has a position inside the file and can be shown. An accepted config gives a plan
/// or a reason why not.
pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    match config::parse(&text, &FOLDER.path().join("creel.yaml")) {
        Ok(settings) => match settings.plan(PlanRequest::default()) {
            Ok(plan) => format!("a plan with {} hooks", plan.hooks.len()),
            Err(error) => format!("no plan: {}", class(&error.to_string())),
        },
        Err(errors) => {
            assert!(
                !errors.diagnostics.is_empty(),
                "it is refused without a reason"
            );
            assert!(!errors.to_string().is_empty());
            errors
                .diagnostics
                .iter()
                .for_each(|diagnostic| has_a_place(diagnostic, &text));
            assert!(
                errors
                    .diagnostics
                    .iter()
                    .any(|diagnostic| diagnostic.severity == Severity::Error)
            );
            let kinds: Vec<_> = errors
                .diagnostics
                .iter()
                .take(3)
                .map(|one| class(&one.message))
                .collect();
            kinds.join(" · ")
        }
    }
}

fn has_a_place(diagnostic: &Diagnostic, text: &str) {
    let shown = diagnostic.to_string();
    assert!(
        !shown.contains('\u{1b}'),
        "a message has an escape sequence: {shown:?}"
    );
    // Sources that a config names have their own positions.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(place) = diagnostic.place else {
        panic!("a message has no place: {shown}")
    };
    let line = text.split('\n').nth(place.line.wrapping_sub(1));
    let line = line.unwrap_or_else(|| panic!("there is no line {} for: {shown}", place.line));
    let columns = line.chars().count() + 1;
    assert!(
        (1..=columns).contains(&place.column),
        "there is no column {} for: {shown}",
        place.column
    );
    assert!(
        place.offset + place.len <= text.len(),
        "bytes {}+{} are outside for: {shown}",
        place.offset,
        place.len
    );
}
