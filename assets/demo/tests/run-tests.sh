#!/bin/sh
# Three tests. If one fails, creel sends what is printed back to the agent.
. demo/pace.sh
failed=0
check() {
    beat 5
    if grep -q "$2" greeting.txt 2>/dev/null; then
        echo "ok    $1"
    else
        echo "FAIL  $1" >&2
        failed=$((failed + 1))
    fi
}
check "greets the world" "world"
check "begins with a capital" "^[A-Z]"
check "ends with a full stop" '\.$'
beat 5
[ "$failed" -eq 0 ] && echo "3 of 3 tests passed" && exit 0
echo "$failed of 3 tests failed" >&2
exit 1
