#!/bin/sh
# Three tests. Exit code 2 tells creel to send what is printed back to the agent.
failed=0
check() {
    if grep -q "$2" greeting.txt 2>/dev/null; then
        echo "ok    $1"
    else
        echo "FAIL  $1" >&2
        failed=$((failed + 1))
    fi
}
check "greets the world" "world"
check "begins with a capital" "^Hello"
check "ends with a full stop" '\.$'
[ "$failed" -eq 0 ] && exit 0
echo "$failed of 3 tests failed" >&2
exit 2
