# A project with a queue of four tasks. The agent of the second one needs a retry; the last two wait for others.
mkdir shop && cd shop && git init -q .
cat >creel.yaml <<'END'
version: 1
agent: claude
agents: { claude: { command: "sh .agent.sh" } }
checks: [{ name: tests, command: "sh .tests.sh" }]
END
cat >.agent.sh <<'END'
goal=$(cat)
file=$(basename "$PWD").txt
case $goal in
    *printer* | *feedback*) sleep 4 ;;
    *) sleep 3 ;;
esac
case $goal in
    *printer*) [ -e "$file" ] && echo fixed >>"$file" || echo red >"$file" ;;
    *) echo fixed >"$file" ;;
esac
echo 'Done. <promise>COMPLETE</promise>'
END
cat >.tests.sh <<'END'
sleep 1
for file in *.txt; do
    [ ! -e "$file" ] || grep -q fixed "$file" || { echo "printer_aligns_columns ... FAILED"; exit 1; }
done
END
git add -A && git commit -qm Start && creel trust
creel task add --queue 'Write the parser.'
creel task add --queue 'Write the printer.'
creel task add --queue 'Test both.' --depends-on 1 --depends-on 2
creel task add --queue 'Describe the command.' --depends-on 3
