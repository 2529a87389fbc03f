# A project whose agent writes a file, and takes its time.
mkdir shop && cd shop && git init -q -b main .
cat >creel.yaml <<'END'
version: 1
agent: claude
agents: { claude: { command: "sh .agent.sh" } }
checks: [{ name: tests, command: "sleep 1" }]
END
cat >.agent.sh <<'END'
cat >/dev/null
printf 'line\n%.0s' 1 2 3 4 5 6 >"$(basename "$PWD").rs"
case $PWD in *printer) sleep 30 ;; *) sleep 6 ;; esac
git add -A && git commit -qm "Write it"
echo 'Done. <promise>COMPLETE</promise>'
END
git add -A && git commit -qm Start && creel trust
