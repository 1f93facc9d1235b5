#!/bin/sh
# Runs the fuzz targets whose names behind Fuzz match $1 for $2 each, and stops at the first that fails.
#
# The coordinator of go test -fuzz can report its own deadline as a failure of the target when the time is up, up to Go 1.26
# (https://go.dev/issue/75804): such a run has found nothing, says "context deadline exceeded" and nothing else, and is
# repeated once. A finding always names the input that it wrote, or how the process ended.
set -eu

log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() {
	go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "$3" -fuzzminimizetime 1x >"$log" 2>&1
}

spurious() {
	grep -q '^ *context deadline exceeded$' "$log" &&
		! grep -qE 'Failing input written|panic|hung or terminated|FAIL: [^ ]+/|_test\.go:[0-9]+:' "$log"
}

grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
	dir=$(dirname "$file")
	for target in $(sed -nE 's/^func (Fuzz[A-Za-z0-9]+)\(.*/\1/p' "$file" | grep -xE "Fuzz($1)"); do
		echo "fuzz $dir $target $2"
		if ! fuzz "$dir" "$target" "$2"; then
			if ! spurious; then
				cat "$log"
				exit 1
			fi
			echo "fuzz $dir $target $2, again: the coordinator took its own deadline for a failure"
			fuzz "$dir" "$target" "$2" || {
				cat "$log"
				exit 1
			}
		fi
		tail -n 3 "$log"
	done
done
