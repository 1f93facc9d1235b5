#!/bin/sh
# Builds an archive for each of PLATFORMS, and SHA256SUMS over all: release.sh DIR
#
# The same commit and the same Go give the same bytes: no paths of this machine, no build time (SOURCE_DATE_EPOCH is the time of the
# commit), no owner, files in order.
set -eu
: "${STATIC:?}" "${VERSION:?}" "${PLATFORMS:?}" "${SOURCE_DATE_EPOCH:?}"
dir=${1:?usage: release.sh DIR}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$dir"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# The pages and completions are made by a binary of this machine.
sh -c "$STATIC -o '$work/cepd' ./cmd/cepd"
for platform in $PLATFORMS; do
	os=${platform%/*} arch=${platform#*/}
	name=cepd-$VERSION-$os-$arch
	to=$work/$name
	exe=
	[ "$os" = windows ] && exe=.exe
	mkdir -p "$to/man" "$to/completions" "$to/deploy"
	GOOS=$os GOARCH=$arch sh -c "$STATIC -o '$to/cepd$exe' ./cmd/cepd"
	TZ=UTC "$work/cepd" man "$to/man"
	for shell in bash zsh fish powershell; do
		"$work/cepd" completion $shell >"$to/completions/cepd.$shell"
	done
	cp LICENSE README.md "$to/"
	cp -r deploy/systemd deploy/prometheus "$to/deploy/"
	find "$to" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
	chmod 755 "$to/cepd$exe"
	(cd "$work" && find "$name" -type f | LC_ALL=C sort >"$name.list")
	if [ "$os" = windows ]; then
		(cd "$work" && find "$name" -exec touch -d "@$SOURCE_DATE_EPOCH" {} + && TZ=UTC zip -q -X -@ "$dir/$name.zip" <"$name.list")
	else
		(cd "$work" && tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - -T "$name.list" | gzip -n -9 >"$dir/$name.tar.gz")
	fi
	echo "$name"
done
(cd "$dir" && sha256sum cepd-* >SHA256SUMS)
