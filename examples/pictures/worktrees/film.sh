# What a user types, with the time to read what creel answers.
type_it() {
    printf '$ %s\n' "$*"
    sleep 0.5
    eval "$*" 2>&1 | fold -w 100
    sleep 1.5
}
type_it 'creel run --detach --worktree parser "Write the parser."'
type_it 'creel run --detach --worktree printer "Write the printer."'
type_it 'creel worktree list'
until creel sessions | grep -q Complete && [ ! -d .creel/worktrees/parser ]; do sleep 0.1; done
type_it 'creel sessions'
type_it 'creel diff parser --stat'
type_it 'git merge --no-edit creel/parser'
sleep 60
