//go:build real

package real

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/agent/claude"
	"github.com/rein-run/rein/agent/codex"
	"github.com/rein-run/rein/agent/grok"
	"github.com/rein-run/rein/agent/pi"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/local"
	"github.com/rein-run/rein/internal/fakemodel"
	"github.com/rein-run/rein/meter"
	"github.com/rein-run/rein/test/clis"
)

// Rein's agents drive the real CLIs on a scripted model: the prompt arrives
// byte for byte by stdin, the tool runs, what the meter says is what the model
// told, a resumed session is charged for its own turn, and in read-only mode
// nothing is written.
func TestMeter(t *testing.T) {
	for _, c := range []struct {
		cli   func(testing.TB) clis.CLI
		agent agent.Agent
		setup func(*fakemodel.Server, string) (fakemodel.Setup, error)
		shell func(command string) fakemodel.Call
	}{
		{clis.Claude, claude.Agent{}, fakemodel.Claude, shell("Bash", "command")},
		{clis.Codex, codex.Agent{}, fakemodel.Codex, shell("exec_command", "cmd")},
		{clis.Pi, pi.Agent{}, fakemodel.Pi, shell("bash", "command")},
		{clis.Pi0, pi.Agent{}, fakemodel.Pi, shell("bash", "command")},
		{clis.Grok, grok.Agent{}, fakemodel.Grok, grokShell},
	} {
		cli := c.cli(t)
		t.Run(cli.Name, func(t *testing.T) {
			r := &metered{t: t, agent: c.agent, dir: t.TempDir(), path: cli.Path(os.Getenv("PATH"))}
			h := host.New(local.New(nil), nil)
			defer h.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var err error
			if r.facts, err = agent.Probe(ctx, h, c.agent, &agent.ProbeOptions{Env: driver.Env{"PATH": r.path}}); err != nil {
				t.Fatal(err)
			}
			if r.facts.Version != cli.Version {
				t.Fatalf("version %q, want %q", r.facts.Version, cli.Version)
			}
			if r.model, err = fakemodel.New(fakemodel.Script{Turns: []fakemodel.Turn{
				{Text: "I make it.", Tools: []fakemodel.Call{c.shell("echo hi > made.txt")}, In: 700, Out: 30, CacheRead: 11},
				{Text: "All done.", In: 800, Out: 40},
				{Text: "Once more.", In: 900, Out: 50},
				{Text: "I look.", Tools: []fakemodel.Call{c.shell("echo hi > forbidden.txt")}},
				{Text: "I could not."},
			}}); err != nil {
				t.Fatal(err)
			}
			defer r.model.Close()
			if r.setup, err = c.setup(r.model, filepath.Join(t.TempDir(), "home")); err != nil {
				t.Fatal(err)
			}

			const prompt = "--help resume \"quoted\" $HOME `x`\n- second line é\n"
			first := r.run(ctx, agent.Invocation{Prompt: prompt}, &meter.Meter{})
			if !first.end.OK || first.end.Text != "All done." {
				t.Errorf("end %+v %+v", first.end, first.end.Failure)
			}
			if _, err := os.Stat(filepath.Join(r.dir, "made.txt")); err != nil {
				t.Errorf("the tool did not run: %v", err)
			}
			// As JSON writes it, without what a CLI may trim at the ends.
			if want := `--help resume \"quoted\" $HOME ` + "`x`" + `\n- second line é`; !r.asked(want) {
				t.Errorf("the prompt did not reach the model")
			}
			told := r.model.Told()
			first.want(t, "first run", told)
			if first.totals.ToolCalls != 1 {
				t.Errorf("%d tool calls", first.totals.ToolCalls)
			}
			if first.session == "" {
				t.Fatal("no session id")
			}

			before := told
			second := r.run(ctx, agent.Invocation{Prompt: "again", Session: agent.Session{Resume: first.session}}, &meter.Meter{Resumed: true, Baseline: first.thread})
			told = r.model.Told()
			second.want(t, "resumed run", fakemodel.Usage{
				Input: told.Input - before.Input, Output: told.Output - before.Output,
				CacheRead: told.CacheRead - before.CacheRead, CacheWrite: told.CacheWrite - before.CacheWrite,
			})
			if second.session != first.session || second.end.Text != "Once more." {
				t.Errorf("resumed %q as %q: %q", first.session, second.session, second.end.Text)
			}

			third := r.run(ctx, agent.Invocation{Prompt: "look", Mode: agent.ReadOnly}, &meter.Meter{})
			if _, err := os.Stat(filepath.Join(r.dir, "forbidden.txt")); err == nil {
				t.Error("read-only mode wrote a file")
			}
			if third.session == first.session {
				t.Error("a fresh run got the old session")
			}
		})
	}
}

func shell(tool, arg string) func(string) fakemodel.Call {
	return func(command string) fakemodel.Call { return fakemodel.Tool(tool, map[string]any{arg: command}) }
}

type metered struct {
	t     *testing.T
	path  string
	agent agent.Agent
	facts agent.Facts
	dir   string
	model *fakemodel.Server
	setup fakemodel.Setup
}

type outcome struct {
	session string
	end     agent.Reading
	totals  meter.Totals
	thread  *agent.Usage
}

func (o outcome) want(t *testing.T, what string, u fakemodel.Usage) {
	t.Helper()
	got := fakemodel.Usage{Input: o.totals.Input, Output: o.totals.Output, CacheRead: o.totals.CacheRead, CacheWrite: o.totals.CacheWrite}
	if got != u {
		t.Errorf("%s: metered %+v, the model told %+v", what, got, u)
	}
}

// run gives the CLI the setup's arguments, but for the model: that is the run's.
func (r *metered) run(ctx context.Context, inv agent.Invocation, m *meter.Meter) outcome {
	r.t.Helper()
	inv.Dir, inv.FilesDir = r.dir, r.t.TempDir()
	for i := 0; i < len(r.setup.Args); i++ {
		if r.setup.Args[i] == "--model" {
			i++
			inv.Model = r.setup.Args[i]
			continue
		}
		inv.Args = append(inv.Args, r.setup.Args[i])
	}
	c, err := r.agent.Command(inv, r.facts)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin = r.dir, bytes.NewReader(c.Stdin)
	env := driver.Env{"PATH": r.path}
	for _, e := range []driver.Env{agent.Quiet(nil), r.setup.Env, c.Env} {
		for k, v := range e {
			env[k] = v
		}
	}
	for _, k := range c.Unset {
		delete(env, k)
	}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	for _, f := range c.Files {
		if err := os.WriteFile(filepath.Join(inv.FilesDir, f.Name), f.Data, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("%v\n%s\n%s", err, cmp.Or(stderr.String(), "(no stderr)"), stdout.String())
	}
	var out outcome
	reader := r.agent.(agent.Decoder).NewReader(r.facts)
	read := func(x agent.Reading) {
		m.Add(x)
		out.session = cmp.Or(x.SessionID, out.session)
		switch x.Kind {
		case agent.KindTurnEnded:
			out.end = x
		case agent.KindUnknown:
			r.t.Errorf("unknown line: %q", x.Text)
		}
	}
	for line := range bytes.Lines(stdout.Bytes()) {
		before := r.t.Failed()
		reader.Read(agent.Line{Bytes: bytes.TrimSuffix(line, []byte("\n")), Size: int64(len(line))}, read)
		if !before && r.t.Failed() {
			r.t.Logf("in %.500s", line)
		}
	}
	reader.End(read)
	out.totals, out.thread = m.Totals(), m.Thread()
	return out
}

// asked says that a request's body holds the text.
func (r *metered) asked(text string) bool {
	return slices.ContainsFunc(r.model.Bodies(), func(b []byte) bool { return strings.Contains(string(b), text) })
}
