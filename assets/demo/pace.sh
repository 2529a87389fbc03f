# The pace of the demo's hooks: `beat N` waits N tenths of a second, so that you can read along. It does not wait after
# you have skipped ahead, and while you have paused the demo it waits on.
pace="$CREEL_PROJECT/.creel/pace"
read -r began _ <"$pace"
beat() {
    left=$1
    while [ "$left" -gt 0 ]; do
        read -r skips mode <"$pace" || return 0
        if [ "$mode" = fast ] || [ "$skips" != "$began" ]; then
            return 0
        fi
        sleep 0.1
        [ "$mode" = paused ] || left=$((left - 1))
    done
}
