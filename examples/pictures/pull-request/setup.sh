# A repository on a forge that `forge-cli` plays, and a reviewer who comments on the pull request and then approves it.
mkdir bin forge
git init -q --bare --initial-branch=main remote.git
git clone -q remote.git app 2>/dev/null
cat >forge/world.json <<END
{
  "program": "gh", "host": "github.com", "project": "acme/app", "viewer": "ada", "origin": "$HOME/remote.git",
  "permissions": { "ada": "admin", "grace": "write" }, "bots": [], "trouble": null, "page": 100, "next": 100,
  "strict": false, "merge_queue": false, "review_required": true, "required": [], "passing": ["build"], "pull": null
}
END
printf '#!/bin/sh\nexec "%s" gh "%s" "$@"\n' "$(dirname "$(command -v creel)")/examples/forge-cli" "$HOME/forge" >bin/gh
chmod +x bin/gh
cd app
cat >creel.yaml <<'END'
version: 1
agent: claude
agents: { claude: { command: "sh .agent.sh" } }
checks: [{ name: tests, command: "sleep 1" }]
submit: { on_complete: true, until: merged, poll: 500ms }
END
cat >.agent.sh <<'END'
case $(cat) in
    *"[News of the pull request]"*) echo 'Hello, world.' >greeting.txt && git commit -qam "Greet the world" && echo 'It greets the world now.' ;;
    *) sleep 1; echo Hello >greeting.txt && git add greeting.txt && git commit -qm "Add a greeting" && echo 'Done. <promise>COMPLETE</promise>' ;;
esac
END
git add -A && git commit -qm Start && git push -q origin HEAD:main && git remote set-head origin main && git switch -qc greeting && creel trust
cd ..
cat >reviewer.sh <<'END'
change() { jq "$1" forge/world.json >forge/new && mv forge/new forge/world.json; }
until [ "$(jq .pull.number forge/world.json)" != null ]; do sleep 0.2; done
sleep 4
change '.pull.threads = [{ id: 201, path: "greeting.txt", line: 1, is_resolved: false,
  comments: [{ id: 202, author: "grace", body: "Greet the world.", state: "", is_minimized: false }] }]'
until jq -e '.pull.threads[0].comments | length > 1' forge/world.json >/dev/null; do sleep 0.2; done
sleep 3
change '.pull.reviews = [{ id: 203, author: "grace", body: "", state: "APPROVED", is_minimized: false }]'
END
sh reviewer.sh >/dev/null 2>&1 &
