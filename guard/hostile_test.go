package guard

import (
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/agent"
)

// monsters are built to exhaust a parser or a reader; each ends in a push.
func monsters() map[string]string {
	deep := func(open string) string { return strings.Repeat(open, 40_000/len(open)) + " git push" }
	double := "x=git\n"
	for range 60 {
		double += "x=$x$x\n"
	}
	nested := "git push"
	for range 40 {
		nested = "eval " + nested
	}
	return map[string]string{
		"subshells":    deep("("),
		"blocks":       deep("{ "),
		"substitution": deep("$("),
		"quoted":       deep("\"$("),
		"backquotes":   deep("`"),
		"arithmetic":   deep("$((("),
		"parameters":   deep("${a:-"),
		"ifs":          deep("if a; then "),
		"functions":    deep("f() "),
		"tests":        deep("[[ ! "),
		"pipes":        deep("a|"),
		"ands":         deep("a&&"),
		"words":        deep("a "),
		"lines":        deep("a\n"),
		"gits":         deep("git "),
		"removals":     deep("rm -rf x "),
		"braces":       "echo " + strings.Repeat("{a,b}", 5000) + "; git push",
		"nestbraces":   "echo " + strings.Repeat("{a,", 2000) + strings.Repeat("}", 2000) + "; git push",
		"sequence":     "echo {1..999999999}; git push",
		"doubling":     double + "$x; git push",
		"loops":        strings.Repeat("for i in 1 2 3 4 5 6 7 8; do ", 12) + "git status; " + strings.Repeat("done; ", 12) + "git push",
		"cds":          strings.Repeat("while a; do cd ..; ", 30) + strings.Repeat("done; ", 30) + "git push",
		"recursion":    "f() { f; f; g; }; g() { f; g; }; f; git push",
		"aliases":      "alias a=b b=a; a; git push",
		"gitaliases":   "git -c alias.a=b -c alias.b=a a; git push",
		"printf":       "printf '%s%s%s' $(printf '%0999999d') a; git push",
		"evals":        nested,
		"sudos":        strings.Repeat("sudo ", 3000) + "git push",
		"heredocs":     strings.Repeat("cat <<a <<b\n$(x)\na\nb\n", 3000) + "git push",
		"xargs":        "seq 9999 | " + strings.Repeat("xargs -I{} echo {}{}{}{} | ", 40) + "sh; git push",
		"replace":      "x=" + strings.Repeat("a", 4000) + "; " + strings.Repeat("x=${x//a/aaaaaaaa}; ", 50) + "git push",
		"trim":         "x=" + strings.Repeat("a", 4000) + "; y=${x##" + strings.Repeat("*a", 30) + "b}; git push",
		"binary":       strings.Repeat("\xff\x00\x01\x02\x03", 1000) + "\ngit push",
		"megabyte":     strings.Repeat("(", 1_000_000) + " git push",
		"large":        strings.Repeat("x", 2*maxInput),
	}
}

// TestHostile: no panic, no endless work, and what was hidden behind is found.
func TestHostile(t *testing.T) {
	p := policy(t, Config{})
	for name, command := range monsters() {
		began := time.Now()
		v := p.Judge(agent.Tool{Command: command}, yard)
		took := time.Since(began)
		t.Logf("%-12s %8d bytes %8.1f ms %v", name, len(command), float64(took.Microseconds())/1000, v.Rule)
		// Generous: a slow machine must not fail here, an endless loop must.
		if took > time.Minute {
			t.Errorf("%s took %v", name, took)
		}
		if name != "large" && v.Rule != rulePush {
			t.Errorf("%s: %v", name, v)
		}
		if v := p.Judge(agent.Tool{Argv: []string{"bash", "-c", command}}, yard); name != "large" && v.Rule != rulePush {
			t.Errorf("%s as argv: %v", name, v)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, r := range append(append([]row(nil), seed...), evasions...) {
		f.Add(r.command)
	}
	for _, c := range innocents {
		f.Add(c)
	}
	p, err := New(Config{Packs: Packs()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, command string) {
		began := time.Now()
		first := p.judge(agent.Tool{Command: command}, yard)
		if took := time.Since(began); took > 30*time.Second {
			t.Fatalf("%v", took)
		}
		if again := p.judge(agent.Tool{Command: command}, yard); again != first {
			t.Fatalf("%v, then %v", first, again)
		}
		if first.Level.rank() > 0 && (first.Rule == "" || first.Reason == "") || len(first.Evidence) > 300 {
			t.Fatalf("%+v", first)
		}
		p.judge(agent.Tool{Argv: strings.Fields(command)}, Place{})
	})
}

var ordinary = []string{
	"go test ./... 2>&1 | tail -20", "git status --porcelain", "ls -la", "grep -rn \"func main\" --include=*.go .", "cd web && npm run build",
	"sed -n '1,80p' internal/x/y.go", "python3 -m pytest -q tests/test_a.py", "cat > a.txt <<'EOF'\nline one\nline two\nEOF", "/bin/bash -lc 'rg -n foo src | head'",
	"for f in *.go; do gofmt -l \"$f\"; done",
}

func BenchmarkJudge(b *testing.B) {
	p := policy(b, Config{})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Judge(agent.Tool{Command: ordinary[i%len(ordinary)]}, yard)
		i++
	}
}

// A script of 50 KB in a here-document: the largest that agents write by hand.
func BenchmarkJudgeHeredoc(b *testing.B) {
	p := policy(b, Config{})
	command := "cat > a.go <<'EOF'\n" + strings.Repeat("	if x := (a[i] + \"b\"); x { fmt.Println(`y`) }\n", 1200) + "EOF\n"
	b.SetBytes(int64(len(command)))
	b.ReportAllocs()
	for b.Loop() {
		p.Judge(agent.Tool{Command: command}, yard)
	}
}
