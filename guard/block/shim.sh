#!/bin/sh
# Placed by Rein for one run: refuses some commands of the program that it is
# named after and passes all others on. It reads a command as the gate does that
# judges what an agent types; both have to be changed together.
set -f # a word of the list is no pattern
name=${0##*/}
dir=@DIR@
denied=
case $name in
@DENIED@
esac

real() {
	# The first of that name behind us on the PATH.
	IFS=:
	for p in $PATH; do
		[ -n "$p" ] || p=.
		if [ "$p" != "$dir" ] && [ -f "$p/$name" ] && [ -x "$p/$name" ] && ! [ "$p/$name" -ef "$0" ]; then
			unset IFS
			exec "$p/$name" "$@"
		fi
	done
	echo "$name: not found" >&2
	exit 127
}

# What only explains or tries is nobody's business.
for word; do
	case $name:$word in
	*:--help | gh:-h | glab:-h) real "$@" ;;
	gh:* | glab:* | hub:* | tea:*) ;;
	*:--dry-run | *:--dry-run=*) real "$@" ;;
	esac
done

# matches WORD... -- ARG...: the words stand among the arguments in their order.
# Between them there may be options, each with a value: that an option takes none
# is not known here. A word that is an option stands anywhere.
matches() {
	words=
	while [ "$1" != -- ]; do
		words="$words $1"
		shift
	done
	shift
	for want in $words; do # plain words
		case $want in
		-*)
			found=
			for arg; do
				case $arg in "$want" | "$want"=*) found=1 ;; esac
			done
			[ -n "$found" ] || return 1
			continue
			;;
		esac
		option=
		while :; do
			[ $# -gt 0 ] || return 1
			arg=$1
			shift
			[ "$arg" != "$want" ] || break
			case $arg in
			-*=*) option= ;;
			-*) option=1 ;;
			*)
				[ -n "$option" ] || return 1
				option=
				;;
			esac
		done
	done
}

# writes ARG...: "api" of gh and its kin with another method than GET, or with fields, which
# make it a POST; a query of GraphQL is one by what it says.
writes() {
	method=
	fields=
	changes=
	path=
	while [ $# -gt 0 ]; do
		value=
		case $1 in
		-X | --method)
			method=$2
			[ $# -lt 2 ] || shift
			;;
		--method=*) method=${1#*=} ;;
		-X*) method=${1#-X} method=${method#=} ;;
		-f | -F | --field | --raw-field)
			fields=1 value=$2
			[ $# -lt 2 ] || shift
			;;
		-f* | -F* | --field=* | --raw-field=*) fields=1 value=$1 ;;
		--input | --input=*)
			fields=1 changes=1
			[ "$1" != --input ] || [ $# -lt 2 ] || shift
			;;
		-H | --header | -q | --jq | -t | --template | -p | --preview | --cache | --hostname | -R | --repo)
			[ $# -lt 2 ] || shift
			;;
		-*) ;;
		api) ;;
		*) [ -n "$path" ] || path=$1 ;;
		esac
		case $value in *[Mm][Uu][Tt][Aa][Tt][Ii][Oo][Nn]* | *=@*) changes=1 ;; esac
		shift
	done
	case $path in
	graphql) [ -n "$changes" ] && return || return 1 ;;
	esac
	case $method in
	'') [ -n "$fields" ] ;;
	[Gg][Ee][Tt] | [Hh][Ee][Aa][Dd]) return 1 ;;
	esac
}

while IFS= read -r refused; do
	matches $refused -- "$@" || continue # as words: they are plain
	also=
	case "$name $refused" in
	"gh api" | "glab api" | "hub api" | "tea api")
		writes "$@" || continue
		also=" to write"
		;;
	esac
	echo "rein: refused: this run may not use \"$name $refused\"$also. Say in your answer what should be done, and a person will do it." >&2
	exit 1
done <<END
$denied
END
real "$@"
