#!/bin/sh
# Puts promtool, which checks the alert rules of cepd, into a directory: promtool.sh DIR
#
# It is taken out of Debian's package of Prometheus, which is not installed: it would start a server.
set -u
dir=${1:?usage: promtool.sh DIR}
[ -x "$dir/promtool" ] && exit 0
command -v promtool >/dev/null && exit 0
without() {
	echo "promtool.sh: promtool is not there: $1 (the alert rules are not checked by it)" >&2
	exit 0
}
command -v dpkg >/dev/null || without "this is no Debian; install Prometheus, and put promtool into PATH"
tmp=$(mktemp -d) || exit 0
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
echo "fetching promtool (the tests check the alert rules with it)"
(cd "$tmp" && apt-get download -qq prometheus >/dev/null 2>"$tmp/err") || { apt-get update -qq && (cd "$tmp" && apt-get download -qq prometheus >/dev/null 2>"$tmp/err"); } || without "$(grep -m1 '^E:' "$tmp/err")"
dpkg -x "$tmp"/prometheus_*.deb "$tmp/x" || without "the package cannot be unpacked"
mkdir -p "$dir" && cp "$tmp/x/usr/bin/promtool" "$dir/promtool.new" && mv "$dir/promtool.new" "$dir/promtool"
