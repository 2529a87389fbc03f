# Two projects with sessions of every kind: one waits for you, one works, two have ended.
project() {
    mkdir -p "$1"
    printf '%s\n' 'version: 1' 'agent: claude' 'max_iterations: 10' "agents: { claude: { script: $2 } }" 'checks: [{ name: tests, command: "true" }]' >"$1/creel.yaml"
    (cd "$1" && git init -q . && git add -A && git commit -qm Start && creel trust)
}
turns() { printf 'turns:\n  - { say: "%s", run: "%s" }\notherwise: { say: "Dates are ISO 8601 now. <promise>COMPLETE</promise>" }\n' "$2" "$3" >"$1"; }
turns done.yaml 'It is green now. <promise>COMPLETE</promise>' 'echo fixed >> notes.txt'
turns asks.yaml 'Which date format should the export use? <promise>ESCALATE</promise>' 'echo export > export.txt'
turns works.yaml 'Done. <promise>COMPLETE</promise>' 'sleep 600'
project shop ../done.yaml
(cd shop && creel run --headless -s upgrade-react 'Upgrade React to 19.' && creel run --headless -s fix-cart 'Make the tests of the cart pass.')
project api ../asks.yaml
(cd api && creel run --detach -s csv-export 'Export orders as CSV.')
project site ../works.yaml
(cd site && creel run --detach -s docs 'Document the new API.')
until creel sessions --all --state needs-you | grep -q csv-export; do sleep 0.1; done
