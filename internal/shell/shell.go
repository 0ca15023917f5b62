// Package shell writes words for a POSIX shell.
package shell

import "strings"

// plain are the characters that no shell takes for anything but themselves.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,"

// Quote makes one word of s: as it is where that is safe, else between quotes.
func Quote(s string) string {
	if s != "" && s[0] != '=' && strings.Trim(s, plain) == "" { // "=ls" is a command to zsh
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Join is a command line of the words.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}
