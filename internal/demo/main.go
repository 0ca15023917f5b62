// Command demo shows Rein at its main job, on a machine with only Go (and npm,
// where there is one): a throwaway repository with a failing test, a scripted
// model on loopback, a real agent CLI under `rein run`, and the report.
//
// It is what `make demo` runs. Nothing of it touches the user's own home,
// logins or repositories, and nothing leaves the machine but what npm fetches.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/rein-run/rein/internal/fakeagent"
	"github.com/rein-run/rein/internal/fakemodel"
	"github.com/rein-run/rein/test/clis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := demo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// say tells what the demo itself does, apart from what Rein says.
func say(format string, args ...any) {
	bold, plain := "\x1b[1m", "\x1b[0m"
	if os.Getenv("NO_COLOR") != "" || !term.IsTerminal(int(os.Stdout.Fd())) {
		bold, plain = "", ""
	}
	fmt.Printf("\n"+bold+"# "+format+plain+"\n", args...)
}

func demo(ctx context.Context) error {
	place, err := os.MkdirTemp("", "rein-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(place)
	home, repo, bin := filepath.Join(place, "home"), filepath.Join(place, "calc"), filepath.Join(place, "bin")

	say("building rein")
	if err := command(ctx, "", nil, "go", "build", "-o", bin+string(filepath.Separator), "./cmd/rein"); err != nil {
		return err
	}

	say("a repository with a failing test: %s", repo)
	if err := repository(ctx, repo); err != nil {
		return err
	}
	env := environ(home, bin)
	out, err := output(ctx, repo, env, "go", "test", "./...")
	fmt.Print(out)
	if err == nil {
		return errors.New("the test should have failed")
	}

	args, agentEnv, stopModel, err := agent(ctx, home, repo, bin)
	if err != nil {
		return err
	}
	defer stopModel()

	report := filepath.Join(place, "report.json")
	shown := append(append([]string{"run"}, args...), "--report", "report.json", "fix the failing test")
	say("rein %s", strings.Join(shown, " "))
	args = append(append([]string{"run"}, args...), "-C", repo, "--report", report)
	for _, kv := range agentEnv {
		args = append(args, "--env", kv)
	}
	if err := command(ctx, repo, env, filepath.Join(bin, "rein"), append(args, "fix the failing test")...); err != nil {
		return fmt.Errorf("rein run: %w", err)
	}

	say("the test passes now, nothing was committed")
	if err := command(ctx, repo, env, "go", "test", "./..."); err != nil {
		return err
	}
	if err := command(ctx, repo, env, "git", "--no-pager", "diff"); err != nil {
		return err
	}

	say("the report (report.json)")
	b, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	fmt.Println(strings.ReplaceAll(string(b), place, "…"))

	say("what the agent did (rein runs tools last)")
	if err := command(ctx, repo, env, filepath.Join(bin, "rein"), "runs", "tools", "last"); err != nil {
		return err
	}
	fmt.Printf("\nWith a CLI and a login of your own, this is all you type:\n\n  rein run \"fix the failing test\"\n\n")
	return nil
}

const (
	broken = "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n"
	test   = "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(2, 3); got != 5 {\n\t\tt.Errorf(\"Add(2, 3) = %d, want 5\", got)\n\t}\n}\n"
	fixed  = "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a + b\n}\n"
	answer = "Add subtracted its second argument. It adds now, and the test passes."
)

func repository(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"go.mod": "module calc\n\ngo 1.21\n", "calc.go": broken, "calc_test.go": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "."},
		{"-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "commit", "-q", "-m", "calc, with a mistake"},
	} {
		if out, err := output(ctx, dir, os.Environ(), "git", args...); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// agent chooses a real CLI, or the scripted agent where there is none to be
// had, and says which. It returns flags for rein run and variables for the
// agent.
func agent(ctx context.Context, home, repo, bin string) (args, env []string, stop func(), err error) {
	stop = func() {}
	cli, why := realPi(ctx)
	if why != nil {
		say("no real agent CLI (%v): the scripted agent stands in for pi", why)
		if err := command(ctx, "", nil, "go", "build", "-o", filepath.Join(bin, "pi"), "./internal/fakeagent/cmd"); err != nil {
			return nil, nil, stop, err
		}
		scenario := fakeagent.Scenario{Steps: []fakeagent.Step{
			{Do: "text", Text: "I will run the test first.", More: true},
			{Do: "bash", Command: "go test ./..."},
			{Do: "write", Path: filepath.Join(repo, "calc.go"), Text: fixed},
			{Do: "bash", Command: "go test ./..."},
			{Do: "text", Text: answer},
			{Do: "result"},
		}}
		return []string{"--agent", "pi"}, []string{scenario.Env()}, stop, nil
	}
	say("a scripted model on loopback, and the real pi %s", cli.Version)
	// It answers at the pace of a quick model, so that there is something to see.
	const think = 700
	model, err := fakemodel.New(fakemodel.Script{Turns: []fakemodel.Turn{
		{WaitMillis: think, Text: "I will run the test first.", Tools: []fakemodel.Call{fakemodel.Tool("bash", map[string]any{"command": "go test ./..."})}, In: 1800, Out: 60},
		{WaitMillis: think, Text: "Add subtracts. I will mend it.", Tools: []fakemodel.Call{fakemodel.Tool("edit", edit(cli, repo))}, In: 2100, Out: 90},
		{WaitMillis: think, Tools: []fakemodel.Call{fakemodel.Tool("bash", map[string]any{"command": "go test ./..."})}, In: 2300, Out: 40},
		{WaitMillis: think, Text: answer, In: 2400, Out: 50},
	}})
	if err != nil {
		return nil, nil, stop, err
	}
	setup, err := fakemodel.Pi(model, home)
	if err != nil {
		return nil, nil, stop, err
	}
	for k, v := range setup.Env {
		env = append(env, k+"="+v)
	}
	env = append(env, "PATH="+cli.Path(bin+string(os.PathListSeparator)+os.Getenv("PATH")))
	return []string{"--agent", "pi", "--model", fakemodel.ChatModel, "--agent-arg=--provider", "--agent-arg=fake"}, env, func() { model.Close() }, nil
}

// edit is the tool input of pi's edit: 1.6.0 takes a list, 0.73.1 one pair.
func edit(cli clis.CLI, repo string) map[string]any {
	in := map[string]any{"path": filepath.Join(repo, "calc.go")}
	change := map[string]any{"oldText": "return a - b", "newText": "return a + b"}
	in["edits"] = []any{change}
	return in
}

// realPi installs pi from the npm registry, in the version that the machine's
// Node can run.
func realPi(ctx context.Context) (clis.CLI, error) {
	out, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return clis.CLI{}, errors.New("there is no Node.js")
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	name := "pi"
	switch n, _ := strconv.Atoi(major); {
	case n >= 22:
	case n >= 20:
		name = "pi-0.73.1"
	default:
		return clis.CLI{}, fmt.Errorf("pi needs Node.js 20, this is %s", strings.TrimSpace(string(out)))
	}
	say("installing a real agent CLI (pi, MIT licence) from the npm registry, once")
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return clis.Install(ctx, name)
}

// environ is a home of the demo's own, and Go's caches of the user's.
func environ(home, bin string) []string {
	env := []string{
		"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, ".local", "state"),
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"GOFLAGS=-mod=mod", "GOWORK=off", "GIT_CONFIG_GLOBAL=" + os.DevNull,
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOROOT", "GOPATH"} {
		if out, err := exec.Command("go", "env", name).Output(); err == nil {
			env = append(env, name+"="+strings.TrimSpace(string(out)))
		}
	}
	for _, name := range []string{"TERM", "NO_COLOR", "LANG"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// command shows what a program prints.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
