package rules

import (
	"bytes"
	"strings"
)

// head makes a Cursor rule count for every file (cursor.com/docs, rules).
const head = "---\nalwaysApply: true\n---\n\n"

func (u *undo) mdc() bool { return strings.HasSuffix(u.File, ".mdc") }

// begin and end enclose the rules. The token is of this run alone and is not in
// the rules, so that neither they nor a text that speaks of such marks can be
// taken for an end.
func (u *undo) begin() string {
	return "<!-- rules of one run, taken away at its end: " + u.Token + " -->\n"
}
func (u *undo) end() string { return "<!-- end of the rules of one run: " + u.Token + " -->\n" }

// inner is the rules, ended by a newline that is not theirs when they have none.
func (u *undo) inner() string {
	if strings.HasSuffix(u.Rules, "\n") {
		return u.Rules
	}
	return u.Rules + "\n"
}

// with is the file with the rules in it: before what the project says, because
// the CLIs cut the end off.
func (u *undo) with(original []byte) []byte {
	block := u.begin() + u.inner() + u.end()
	switch {
	case u.mdc() && u.Existed:
		return append(append(bytes.Clone(original), '\n'), block...)
	case u.mdc():
		return []byte(head + block)
	case u.Existed:
		return append([]byte(block+"\n"), original...)
	}
	return []byte(block)
}

// without is a file as the agent left it without the rules; false when they are
// not in it.
func (u *undo) without(now []byte) (rest []byte, found bool) {
	if bytes.Equal(now, u.with(u.Original)) {
		return u.Original, true
	}
	i := bytes.Index(now, []byte(u.begin()))
	j := bytes.Index(now, []byte(u.end()))
	if i < 0 || j < i {
		return u.marks(now)
	}
	before, inner, after := now[:i], now[i+len(u.begin()):j], now[j+len(u.end()):]
	switch {
	case u.mdc() && u.Existed:
		before = bytes.TrimSuffix(before, []byte("\n"))
	case u.mdc():
		before = bytes.TrimPrefix(before, []byte(head))
	case u.Existed:
		after = bytes.TrimPrefix(after, []byte("\n"))
	}
	rest = append(rest, before...)
	rest = append(rest, u.agents(inner)...)
	return append(rest, after...), true
}

// agents are the lines between the marks that are not of the rules.
func (u *undo) agents(inner []byte) (own []byte) {
	ours := strings.SplitAfter(u.inner(), "\n")
	for line := range bytes.Lines(inner) {
		at := 0
		for at < len(ours) && ours[at] != string(line) {
			at++
		}
		if at < len(ours) {
			ours = ours[at+1:]
			continue
		}
		own = append(own, line...)
	}
	return own
}

// marks takes away a mark that lost the other: what the agent has made of the
// rules stays, as its own.
func (u *undo) marks(now []byte) (rest []byte, found bool) {
	for line := range bytes.Lines(now) {
		if bytes.Contains(line, []byte(u.Token)) {
			found = true
			continue
		}
		rest = append(rest, line...)
	}
	return rest, found
}
