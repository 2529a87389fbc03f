//! The pictures: what runs, in which folder, and which moments they show.

use std::time::Duration;

/// A picture.
pub struct Scene {
    pub name: &'static str,
    pub files: &'static [(&'static str, &'static str)],
    /// A shell script that prepares the folder, and one that ends what the first one started.
    pub setup: &'static str,
    pub teardown: &'static str,
    /// The folder of the program, below that of the picture. A program other than creel prints
    /// lines, and has no screen.
    pub folder: &'static str,
    pub command: &'static [&'static str],
    pub size: (u16, u16),
    pub film: Film,
}

/// The frames of a picture.
pub enum Film {
    /// The first frame that has these texts.
    Still(&'static [&'static str]),
    /// A frame per interval, until the screen has a text, and some frames more.
    Moving {
        each: Duration,
        last: &'static str,
        more: usize,
    },
    /// The first frame that has these texts; then these keys are pressed, and the next one follows.
    Steps {
        each: Duration,
        steps: &'static [(&'static [&'static str], &'static str)],
    },
}

const PLAIN: Scene = Scene {
    name: "",
    files: &[],
    setup: "",
    teardown: "",
    folder: "",
    command: &["creel", "demo"],
    size: (120, 30),
    film: Film::Still(&[]),
};

pub const SCENES: [Scene; 10] = [
    Scene {
        name: "stream",
        size: (120, 34),
        film: Film::Still(&["stop: tests passed"]),
        ..PLAIN
    },
    Scene {
        name: "gate",
        film: Film::Still(&["Finished. 1 item", "enter answer"]),
        ..PLAIN
    },
    Scene {
        name: "retry-limit",
        command: &["creel", "demo", "limit"],
        film: Film::Still(&["still fails after", "enter answer"]),
        ..PLAIN
    },
    Scene {
        name: "permission",
        command: &["creel", "demo", "permission"],
        size: (120, 26),
        film: Film::Still(&["for permission", "enter answer"]),
        ..PLAIN
    },
    // A guard stops the loop, which no demo shows.
    Scene {
        name: "decision",
        files: &[
            ("creel.yaml", include_str!("decision/creel.yaml")),
            ("scenario.yaml", include_str!("decision/scenario.yaml")),
            (
                "test.sh",
                "echo 'nested_lists ... FAILED: expected 2 items, got 1'\nexit 1\n",
            ),
        ],
        command: &["creel", "run", "--trust", "-s", "parser"],
        film: Film::Still(&["NEEDS YOU", "enter answer"]),
        ..PLAIN
    },
    Scene {
        name: "demo",
        size: (104, 32),
        film: Film::Moving {
            each: Duration::from_millis(600),
            last: "stop: tests passed",
            more: 4,
        },
        ..PLAIN
    },
    Scene {
        name: "home",
        setup: include_str!("home/setup.sh"),
        teardown: include_str!("home/teardown.sh"),
        folder: "site",
        command: &["creel"],
        size: (100, 22),
        film: Film::Steps {
            each: Duration::from_millis(2_500),
            steps: &[
                (&["NEEDS YOU", "RUNNING", "ENDED", "enter open"], "a"),
                (&["Which date format", "enter answer"], "2"),
                (&["ctrl-s send"], "ISO dates, please."),
                (&["ISO dates, please."], "\x13"),
                (&["✓ COMPLETE 0:", "esc close"], "q"),
                (&["RUNNING  1", "ENDED  3"], ""),
            ],
        },
        ..PLAIN
    },
    Scene {
        name: "worker",
        setup: include_str!("worker/setup.sh"),
        command: &["creel", "worker", "--jobs", "2", "--merge"],
        folder: "shop",
        size: (104, 16),
        film: Film::Moving {
            each: Duration::from_millis(1_500),
            last: "4 done",
            more: 4,
        },
        ..PLAIN
    },
    Scene {
        name: "pull-request-merged",
        setup: include_str!("pull-request/setup.sh"),
        command: &[
            "creel",
            "run",
            "-s",
            "greeting",
            "Write a greeting into greeting.txt and commit it.",
        ],
        folder: "app",
        size: (110, 26),
        film: Film::Steps {
            each: Duration::from_millis(2_500),
            steps: &[
                (&["WORKING"], ""),
                (&["WAITING FOR REVIEW", "Waiting for"], ""),
                (&["News of the pull request sent"], ""),
                (&["Answered a comment"], ""),
                (&["is ready to be merged", "enter answer"], "1"),
                (&["✓ COMPLETE", "esc close"], ""),
            ],
        },
        ..PLAIN
    },
    Scene {
        name: "worktrees",
        files: &[("film.sh", include_str!("worktrees/film.sh"))],
        setup: include_str!("worktrees/setup.sh"),
        teardown: "cd shop && creel stop --now -s printer",
        command: &["sh", "../film.sh"],
        folder: "shop",
        size: (100, 22),
        film: Film::Moving {
            each: Duration::from_secs(1),
            last: "create mode",
            more: 2,
        },
    },
];
