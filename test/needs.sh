#!/bin/sh
# Installs what the tests with the tag real need besides Go, git and npm: each
# argument is PROGRAM:DEBIAN-PACKAGE. Where it cannot, it says how.
missing=
for need; do
	command -v "${need%%:*}" >/dev/null || missing="$missing ${need#*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	# shellcheck disable=SC2086 # a list of packages
	apt-get install -qq -y $missing >/dev/null 2>&1 || { apt-get update -qq && apt-get install -qq -y $missing >/dev/null; }
else
	echo "missing:$missing. Install them, on Debian: apt-get install$missing"
	exit 1
fi
