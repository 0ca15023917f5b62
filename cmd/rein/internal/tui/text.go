package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text from an agent safe for a terminal: control characters,
// escape sequences among them, become spaces, and so do the characters that
// reorder a line (Trojan Source, CVE-2021-42574).
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || bidi(r) {
			return ' '
		}
		return r
	}, s)
}

// CleanText is Clean for text of many lines.
func CleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || bidi(r) {
			return ' '
		}
		return r
	}, s)
}

func bidi(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F
}

// Fit cuts a line to a number of columns; every rune counts as one.
func Fit(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	return string(r[:width-1]) + "…"
}

type paint bool

func (p paint) sgr(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) red(s string) string    { return p.sgr("31", s) }
func (p paint) green(s string) string  { return p.sgr("32", s) }
func (p paint) yellow(s string) string { return p.sgr("33", s) }
func (p paint) dim(s string) string    { return p.sgr("2", s) }
func (p paint) bold(s string) string   { return p.sgr("1", s) }

func (s *Screen) dim(t string) string  { return paint(s.color).dim(t) }
func (s *Screen) bold(t string) string { return paint(s.color).bold(t) }
