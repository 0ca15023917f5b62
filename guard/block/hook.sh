#!/bin/sh
# Placed by Rein for one run. In the repository of that run it refuses what the
# run may not do; in any other it only starts that repository's own hook. All is
# done with what the shell has built in: three of these start for every ref that
# moves, in the temporary repositories of a test suite too.
hook=${0##*/}
repo=@REPO@
branch=@BRANCH@
zero() { case $1 in *[!0]*) return 1 ;; esac; }

# Which repository is it? git starts hooks with GIT_DIR set, or in the top of the
# working tree. A linked worktree has a file that leads to the common directory.
place() { cd -P "$1" 2>/dev/null && { pwd -W 2>/dev/null || pwd -P; }; } # -W: Git for Windows
common=
if dir=$(place "${GIT_DIR:-.git}"); then
	if [ -n "$GIT_COMMON_DIR" ]; then
		common=$(place "$GIT_COMMON_DIR")
	elif [ -f "$dir/commondir" ] && IFS= read -r to <"$dir/commondir"; then
		case $to in /* | ?:*) ;; *) to=$dir/$to ;; esac
		common=$(place "$to")
	elif [ -d "$dir/objects" ]; then
		common=$dir
	fi
fi
[ -n "$common" ] || common=$(place "$(git rev-parse --git-common-dir 2>/dev/null || echo /nonexistent)")

# The hook that would have been started without us; stdin goes to it.
own() {
	at=@HOOKS@
	asked=
	for file in "$common/config" "$dir/config.worktree"; do
		[ -f "$file" ] || continue
		while IFS= read -r line || [ -n "$line" ]; do
			case $line in *[Hh][Oo][Oo][Kk][Ss][Pp][Aa][Tt][Hh]* | *[Ii][Nn][Cc][Ll][Uu][Dd][Ee]*) asked=1 ;; esac
		done <"$file"
	done
	[ -z "$asked" ] || at=$(GIT_CONFIG_COUNT=@COUNT@ git config --type=path --get core.hooksPath)
	[ -n "$at" ] || at=$common/hooks
	at=$at/$hook
	if [ -f "$at" ] && [ -x "$at" ] && ! [ "$at" -ef "$0" ]; then
		exec "$at" "$@"
	fi
	exit 0
}

refuse() {
	echo "rein: refused: this run may not $1. Leave the work uncommitted in the working tree: it is looked at after the run." >&2
	exit 1
}

# packing "OID REF": "git pack-refs" takes away the file of a reference that it has
# just written into packed-refs. A deletion looks the same but for one thing: it
# holds the lock of packed-refs meanwhile (git 2.39, files-backend.c; a newer git
# does not tell the hook of packing at all).
packing() {
	[ ! -e "$common/packed-refs.lock" ] && [ -f "$common/packed-refs" ] || return 1
	while IFS= read -r line; do
		[ "$line" != "$1" ] || return 0
	done <"$common/packed-refs"
	return 1
}

inside=
case $common/ in
"$repo"/) inside=repository ;;
"$repo"/modules/*) inside=submodule ;;
/) inside=unknown ;; # git does not say where we are: refused below
esac
[ -n "$inside" ] || own "$@"

case $hook in
pre-push) refuse "push" ;;
reference-transaction) [ "$1" = prepared ] || own "$@" ;;
*) own "$@" ;;
esac

# "old SP new SP ref" a line. old is zeros when there was none, and also when the
# caller does not care what it was.
lines=
head=
alone=
moved=
while read -r old new ref; do
	lines="$lines$old $new $ref
"
	case $ref in
	HEAD) alone=${alone:-yes} ;;
	refs/heads/*) alone=no ;;
	esac
	case $ref in
	HEAD | worktrees/*/HEAD | main-worktree/HEAD) ;;
	refs/stash | refs/remotes/* | refs/bisect/* | refs/worktree/* | refs/rewritten/* | refs/prefetch/*) continue ;; # compared after the run
	refs/*) ;;
	*) continue ;; # ORIG_HEAD, FETCH_HEAD and kin
	esac
	if zero "$old"; then
		if now=$(git rev-parse -q --verify "$ref" 2>/dev/null); then
			old=$now
		elif zero "$new"; then
			continue
		fi
	fi
	[ "$old" != "$new" ] || continue
	! zero "$new" || ! packing "$old $ref" || continue
	if [ "$inside" = submodule ]; then # "git submodule update" clones and checks out
		case $ref in
		HEAD) continue ;;
		refs/heads/* | refs/tags/*) ! zero "$old" || continue ;;
		esac
	fi
	case $ref in
	*HEAD) head="$old $new" ;;
	"$branch") if zero "$new"; then refuse "delete the branch ${ref#refs/heads/}"; else moved="$old $new"; fi ;;
	refs/heads/*) refuse "commit, or create, move or delete a branch (${ref#refs/heads/})" ;;
	refs/tags/*) refuse "create, move or delete a tag (${ref#refs/tags/}; git fetch --no-tags leaves them alone)" ;;
	*) refuse "move $ref" ;;
	esac
done
[ -z "$head" ] || [ "$head" = "$moved" ] || refuse "move HEAD"
# HEAD without its branch, while it stands for one: it is cut off from it.
if [ "$alone" = yes ] && [ "$inside" != submodule ] && IFS= read -r at <"$dir/HEAD"; then
	case $at in ref:*) refuse "detach HEAD" ;; esac
fi
printf %s "$lines" | own "$@"
