package redact_test

import (
	"testing"

	"github.com/rein-run/rein/internal/redact"
)

func TestString(t *testing.T) {
	r := redact.New(map[string]string{
		"OPENAI_API_KEY":  "sk-abcdefgh",
		"GH_TOKEN":        "sk-abcdefgh-longer",
		"QUOTED_SECRET":   `pa"ss\word`,
		"EDITOR":          "nano-editor",
		"SHORT_TOKEN":     "dev",
		"CUSTOM":          "hidden-by-name",
		"KEYBOARD_LAYOUT": "us-international",
	}, "CUSTOM")
	for _, c := range []struct{ in, want string }{
		{"the key sk-abcdefgh was refused", "the key [OPENAI_API_KEY] was refused"},
		{"sk-abcdefgh-longer", "[GH_TOKEN]"},
		{`{"v":"pa\"ss\\word"}`, `{"v":"[QUOTED_SECRET]"}`},
		{`pa"ss\word`, "[QUOTED_SECRET]"},
		{"nano-editor dev us-international", "nano-editor dev us-international"},
		{"hidden-by-name", "[CUSTOM]"},
		{"", ""},
	} {
		if got := r.String(c.in); got != c.want {
			t.Errorf("String(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestZeroValue(t *testing.T) {
	var none *redact.Redactor
	if got := none.String("x"); got != "x" {
		t.Errorf("nil Redactor: %q", got)
	}
	if got := redact.New(nil).String("x"); got != "x" {
		t.Errorf("empty Redactor: %q", got)
	}
}
