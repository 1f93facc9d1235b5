#!/bin/sh
# Installs the binary BINARY with what belongs to it below PREFIX, in DESTDIR.
#
# Nothing below /etc is touched: examples of a configuration stand in share/doc/cepd.
set -eu
: "${BINARY:?}" "${PREFIX:?}"
root=${DESTDIR:-}$PREFIX
here=$(dirname "$0")

put() { # MODE FILE TO
	mkdir -p "$(dirname "$3")"
	cp "$2" "$3.new"
	chmod "$1" "$3.new"
	mv "$3.new" "$3" # a running process keeps its own
}

put 755 "$BINARY" "$root/bin/cepd"

mkdir -p "$root/share/man/man1"
TZ=UTC "$BINARY" man "$root/share/man/man1"

tmp=$(mktemp)
trap 'rm -f "$tmp" "$tmp.service"' EXIT
"$BINARY" completion bash >"$tmp" && put 644 "$tmp" "$root/share/bash-completion/completions/cepd"
"$BINARY" completion zsh >"$tmp" && put 644 "$tmp" "$root/share/zsh/site-functions/_cepd"
"$BINARY" completion fish >"$tmp" && put 644 "$tmp" "$root/share/fish/vendor_completions.d/cepd.fish"

sed "s|/usr/bin/cepd|$PREFIX/bin/cepd|" "$here/systemd/cepd.service" >"$tmp.service"
put 644 "$tmp.service" "$root/lib/systemd/system/cepd.service"
put 644 "$here/systemd/cepd.sysusers" "$root/lib/sysusers.d/cepd.conf"
put 644 "$here/systemd/cepd.yaml" "$root/share/doc/cepd/cepd.yaml"
put 644 "$here/prometheus/alerts.yaml" "$root/share/doc/cepd/alerts.yaml"
put 644 "$here/../LICENSE" "$root/share/doc/cepd/LICENSE"
echo "installed $root/bin/cepd ($("$BINARY" version | head -n 1))"
