#!/bin/sh
# Placed by Rein for one run: refuses some commands of the program that it is
# named after and passes all others on.
name=@NAME@
dir=@DIR@
denied=@DENIED@

# The first two words that are no options. A value that an option takes as a
# word of its own stands for one ("gh -R o/r pr create"), so every pair of
# neighbours is looked at: the denied ones are no words of another meaning.
last=
for word; do
	case $word in -*) continue ;; esac
	while IFS= read -r refused; do
		if [ "$last $word" = "$refused" ]; then
			echo "rein: refused: this run may not use \"$name $refused\". Say in your answer what should be done, and a person will do it." >&2
			exit 1
		fi
	done <<END
$denied
END
	last=$word
done

# The real one: the first of that name behind us on the PATH.
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
