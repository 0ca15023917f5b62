package shell

import (
	"os/exec"
	"runtime"
	"testing"
)

// A shell reads back what was written.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{"": "''", "a/b-c=d": "a/b-c=d", "a b": "'a b'", "it's": `'it'\''s'`, "=x": "'=x'", "~": "'~'"} {
		if got := Quote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, s := range []string{"", "a b", "it's", "$(x)`y`\"\\", "-n", "*", "~", "a\nb", "é", "x;y&z|>", "#"} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote("."+s)).Output()
		if err != nil || string(out) != "."+s {
			t.Errorf("%q comes back as %q, %v", s, out, err)
		}
	}
	if got := Join([]string{"a", "b c"}); got != "a 'b c'" {
		t.Error(got)
	}
}
