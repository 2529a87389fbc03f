//! The output of an agent that speaks the Agent Client Protocol.

use creel::agents::acp::read_output;
use tokio::io::AsyncReadExt as _;

use super::{block_on, class};

/// Splitting the output anywhere makes no difference, and every line is text, an update, a message
/// or noise.
pub fn run(input: &[u8]) -> String {
    block_on(async {
        let whole = read_output(input).await;
        let (one, two) = input.split_at(input.len() / 2);
        let cut = read_output(one.chain(two)).await;
        assert_eq!(whole, cut, "the cut changes the meaning");
        let lines = input
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .count();
        assert!(
            whole.updates.len() <= lines,
            "there are more updates than lines"
        );
        assert!(
            whole
                .messages
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .count()
                <= lines
        );
        let kinds = whole
            .updates
            .iter()
            .take(4)
            .map(|update| class(&format!("{update:?}")));
        let requests = whole.permissions.len().min(3);
        format!(
            "{} · {requests} requests · {}",
            kinds.collect::<Vec<_>>().join(" · "),
            whole.spent.len().min(3)
        )
    })
}
